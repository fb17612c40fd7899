"""Numbers and arrays among the arguments of a traced or compiled function.

Graphs are the same for different real numbers, so a real or complex number becomes an input, which
counts as a number inside (homes/held_numbers.py); as an argument it is a `NumberTensor`. Whole
numbers and flags are no inputs, since control flow often depends on them. A NumPy array is an array
inside (homes/arrays.py), so its program differs from that of a tensor; as an argument it is an
`ArrayTensor`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.promotion import python_number
from adjoint.homes.held_numbers import NumberKind
from adjoint.tensor.home import new_tensor
from adjoint.tensor.tensor import Tensor


class NumberTensor(Tensor):
    """A number as an argument of a compiled function."""

    __slots__ = ("wrapped",)

    class_home = None  # an ordinary tensor, not a user's subclass
    wrapped: NumberKind


class ArrayTensor(Tensor):
    """A NumPy array as an argument of a compiled function."""

    __slots__ = ("is_ours", "under")

    class_home = None
    under: Tensor
    is_ours: bool  # whether the caller has our arrays, and gets such


def array_tensor(tensor: Any, *, is_ours: bool) -> ArrayTensor:
    """The argument of a call, from the tensor of an array."""
    made = new_tensor(tensor.home, tensor.value, tensor.edge, kind=ArrayTensor)
    made.under, made.is_ours = tensor, is_ours
    return made


def number_tensor(value: Any, number: NumberKind) -> NumberTensor:
    """The argument of a call, from a number."""
    plain = python_number(value) if isinstance(value, np.generic) else value
    tensor = new_tensor(None, np.asarray(plain, number.dtype.np), kind=NumberTensor)
    tensor.wrapped = number
    return tensor

"""Questions about arrays, which Python's values answer."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from adjoint.core.dtypes import DType
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import Array, array_or_refuse, common
from adjoint.tensor.tensor import Tensor


def two(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Two operands as tensors."""
    return Array(a), Array(b)


def array_equal(a1: Tensor, a2: Tensor, equal_nan: bool) -> bool:
    """Whether two arrays have the same shape and elements."""
    if a1.shape != a2.shape:
        return False
    a, b = common(a1, a2)
    same = a == b
    if equal_nan and a.dtype.is_differentiable:
        same = same | (ad.isnan(a) & ad.isnan(b))
    return bool(same.all())


def array_equiv(a1: Tensor, a2: Tensor) -> bool:
    """Whether two arrays are equal after broadcasting."""
    try:
        np.broadcast_shapes(tuple(a1.shape), tuple(a2.shape))
    except ValueError:
        return False
    a, b = common(a1, a2)
    return bool((a == b).all())


def numpys(value: Any) -> Any:
    """A dtype of ours, or a tensor, as NumPy's dtype; other things as they are."""
    if isinstance(value, Tensor):
        return value.dtype.np
    return value.np if isinstance(value, DType) else value


def values(what: str, a: Any) -> Any:
    """The values behind tensors."""
    return array_or_refuse(what, a)


def memory(a: Any) -> Any:
    """The array in whose memory the elements are."""
    return a.array if isinstance(a, Tensor) else a


def prod_of(numbers: Iterable[int]) -> int:
    """The product of sizes."""
    return math.prod(numbers)

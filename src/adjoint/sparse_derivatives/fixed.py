"""Whole numbers among the arguments: they choose elements, so a pattern holds for their values."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core import pytrees
from adjoint.core.dtypes import FLOAT
from adjoint.tensor.tensor import Tensor, is_plain


class Fixed:
    """An array of whole numbers or booleans, compared by its elements."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any, array: Any) -> None:
        self.value = value
        self.key = (type(value), array.shape, array.dtype.str, array.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fixed) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def fix(tree: Any) -> Any:
    """A pytree with arrays of whole numbers fixed."""
    return pytrees.map(_fixed, tree)


def unfix(tree: Any) -> Any:
    """A pytree with the arrays that `fix` fixed."""
    return pytrees.map(lambda v: v.value if type(v) is Fixed else v, tree)


def _fixed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value if value.dtype.kind not in "iub" else Fixed(value.copy(), value)
    if isinstance(value, Tensor) and value.dtype.category < FLOAT and is_plain(value):
        return Fixed(value.clone(), np.asarray(value.value))
    return value

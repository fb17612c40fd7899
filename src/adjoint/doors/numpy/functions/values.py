"""Questions about arrays, which Python's values answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.dtypes import DType
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import common
from adjoint.tensor.tensor import Tensor


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


def memory(a: Any) -> Any:
    """The array in whose memory the elements are."""
    return a.array if isinstance(a, Tensor) else a

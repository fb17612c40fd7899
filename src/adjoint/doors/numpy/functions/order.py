"""Sorting and searching beyond one operator."""

from __future__ import annotations

from typing import Any

from adjoint.core.errors import ValueRangeError
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import common
from adjoint.tensor.tensor import Tensor


def stably(function: Any, a: Tensor, dim: int, descending: bool) -> Any:
    """Sort, with equal elements in the order that they have."""
    return function(a, dim=dim, descending=descending, stable=True)


def digitize(x: Tensor, bins: Tensor, right: bool) -> Tensor:
    """The number of the bin of each element; bins may also descend."""
    x, bins = common(x, bins)
    steps = bins.detach().diff()
    side = "left" if right else "right"
    if bool((steps >= 0).all()):
        return ad.searchsorted(bins, x, side=side)
    if not bool((steps <= 0).all()):
        raise ValueRangeError("digitize: bins must ascend or descend")
    return bins.shape[0] - ad.searchsorted(bins.flip(0), x, side=side)


def lexsort(keys: list[Tensor], axis: int) -> Tensor:
    """The order of elements by several keys, the last one first."""
    order = ad.argsort(keys[0], dim=axis, stable=True)
    for key in keys[1:]:
        again = ad.argsort(ad.take_along_dim(key, order, axis), dim=axis, stable=True)
        order = ad.take_along_dim(order, again, axis)
    return order


def sort_complex(a: Tensor) -> Tensor:
    """Complex numbers by their real, then by their imaginary parts."""
    a = a if a.dtype.is_complex else a.to(a.dtype.to_complex())
    return (
        a[lexsort([ad.imag(a), ad.real(a)], -1)]
        if a.ndim == 1
        else ad.take_along_dim(a, lexsort([ad.imag(a), ad.real(a)], -1), -1)
    )

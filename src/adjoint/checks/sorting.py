"""Checks of sorting, selecting and counting, for kernels and shape rules alike."""

from __future__ import annotations

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import DimensionError, DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, show, wrap_dim

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")

FEW_NUMBERS = 32  # numbers up to which `isin` compares each of them with every element


def check_ordered(what: str, dtype: DType) -> None:
    """Raise for a dtype whose elements cannot be compared."""
    if dtype.is_complex:
        raise DtypeError(f"{what}: complex numbers have no order; use x.abs() or x.real instead")


def axis_of(what: str, shape: Shape, dim: int) -> int:
    """The axis to choose from, which must have something to choose."""
    axis = wrap_dim(what, dim, len(shape))
    if shape and shape[axis] == 0:
        raise DimensionError(f"{what}: dimension {axis} has size 0, so there is nothing to choose")
    return axis


def check_count(what: str, shape: Shape, axis: int, k: int, least: int) -> None:
    """Raise unless `axis` has a k-th element."""
    size = shape[axis] if shape else 1
    if not least <= k <= size:
        raise ValueRangeError(
            f"{what}: k={k} is out of range; dimension {axis} has {size} elements, "
            f"so k goes from {least} to {size}."
        )


def check_search(sequence: Shape, values: Shape, sorter: tuple[Shape, DType] | None) -> None:
    """Raise unless each row of values has a row of the sorted sequence to be looked up in."""
    if not sequence or (len(sequence) > 1 and sequence[:-1] != values[:-1]):
        raise ShapeError(
            "searchsorted: the sorted sequence has one dimension, or all but the last as the "
            f"values; got {show(sequence)} and {show(values)}."
        )
    if len(sequence) > 1 and not values:
        raise ShapeError("searchsorted: a scalar is looked up in a sequence of one dimension only")
    if sorter is not None and sorter[0] != sequence:
        raise ShapeError(
            f"searchsorted: sorter has shape {show(sorter[0])}, "
            f"the sorted sequence {show(sequence)}."
        )
    if sorter is not None and sorter[1] is not dtypes.int64:
        raise DtypeError(f"searchsorted: sorter must be int64, got {sorter[1]}")


def from_right(what: str, right: bool, side: str | None) -> bool:
    """Whether equal elements count as smaller."""
    if side not in (None, "left", "right"):
        raise ValueRangeError(f"{what}: side must be 'left' or 'right', got {side!r}")
    if right and side == "left":
        raise ValueRangeError(f"{what}: right=True contradicts side='left'; give one of them")
    return right or side == "right"


def check_bins(dtype: DType, bins: int, low: float, high: float) -> None:
    """Raise unless a histogram can be made."""
    if not dtype.is_floating_point:
        raise DtypeError(f"histc: needs a floating point dtype, got {dtype}; see bincount")
    if bins <= 0:
        raise ValueRangeError(f"histc: bins must be positive, got {bins}")
    if low > high:
        raise ValueRangeError(f"histc: max must not be less than min, got {low} and {high}")


def check_bincount(shape: Shape, dtype: DType, weights: Shape | None, minlength: int) -> None:
    """Raise unless small integers are to be counted."""
    if dtype.category != dtypes.INTEGER:
        raise DtypeError(f"bincount: needs integers, got {dtype}")
    if len(shape) != 1:
        raise ShapeError(f"bincount: needs one dimension, got {len(shape)}; use x.flatten()")
    if weights is not None and weights != shape:
        raise ShapeError(f"bincount: weights have shape {show(weights)}, the input {show(shape)}.")
    if minlength < 0:
        raise ValueRangeError(f"bincount: minlength must not be negative, got {minlength}")


def check_quantile(
    what: str, shape: Shape, dtype: DType, q_ndim: int, q_dtype: DType, interpolation: str
) -> None:
    """Raise unless there are quantiles."""
    if dtype not in (dtypes.float32, dtypes.float64):
        raise DtypeError(f"{what}: needs float32 or float64, got {dtype}")
    if q_dtype is not dtype:
        raise DtypeError(f"{what}: q must have the dtype of the input, {dtype}, got {q_dtype}")
    if 0 in shape:
        raise ShapeError(f"{what}: an empty tensor has no quantiles")
    if q_ndim > 1:
        raise ShapeError(f"{what}: q must be a scalar or have one dimension, got {q_ndim}")
    if interpolation not in INTERPOLATIONS:
        known = ", ".join(INTERPOLATIONS)
        raise ValueRangeError(f"{what}: interpolation is one of {known}, got {interpolation!r}")

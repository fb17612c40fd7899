"""`make_tensor`: a tensor of random values for a test."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.devices import existing_device
from adjoint.core.dtypes import DType, finfo, to_dtype
from adjoint.core.errors import ArgumentError, ValueRangeError
from adjoint.tensor.tensor import Tensor


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Make a tensor of values between `low` and `high`, drawn from the default generator.

    Without limits, they are -9 and 9 for real and complex numbers, -9 and 10 for whole ones, 0 and
    10 for unsigned ones. `exclude_zero` replaces 0 by the smallest positive value, and
    `noncontiguous` leaves gaps between the elements.

    >>> import adjoint as ad
    >>> x = ad.testing.make_tensor((2, 3), dtype=ad.int8, low=1, high=3)
    >>> x.shape == (2, 3), x.dtype, bool(((x == 1) | (x == 2)).all())
    (True, ad.int8, True)
    """
    if device is not None:
        existing_device("make_tensor", device)
    kind = to_dtype(dtype)
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    if noncontiguous and memory_format is not None:
        raise ArgumentError("make_tensor: give noncontiguous or memory_format, not both")
    made = _values(sizes, kind, *_limits(kind, low, high))
    if exclude_zero:
        smallest = finfo(kind).tiny if kind.is_differentiable else 1
        made = ops.where(made == 0, ops.full_like(made, smallest), made)
    if noncontiguous and made.numel() > 1:
        made = ops.repeat_interleave(made, 2, -1)[..., ::2]
    elif memory_format is not None:
        made = made.clone(memory_format=memory_format)
    return made.requires_grad_() if requires_grad else made


def _limits(dtype: DType, low: Any, high: Any) -> tuple[Any, Any]:
    usual = {
        dtypes.BOOL: (0, 2),
        dtypes.INTEGER: (-9 if dtype.is_signed else 0, 10),
        dtypes.FLOAT: (-9, 9),
        dtypes.COMPLEX: (-9, 9),
    }[dtype.category]
    low = usual[0] if low is None else low
    high = usual[1] if high is None else high
    if not low < high:  # NaN is not below anything
        raise ValueRangeError(f"make_tensor: low={low} must be below high={high}")
    return low, high


def _values(shape: tuple[int, ...], dtype: DType, low: Any, high: Any) -> Tensor:
    if dtype.is_complex:
        real = _values(shape, dtypes.float64, low, high)
        imaginary = _values(shape, dtypes.float64, low, high)
        return ops.complex(real, imaginary).to(dtype)
    if dtype.is_floating_point:
        return (low + (high - low) * ops.rand(shape, dtype=dtypes.float64)).to(dtype)
    return ops.randint(int(low), int(high), shape).to(dtype)

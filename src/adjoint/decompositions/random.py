"""Samplers with a gradient, written as a deterministic function of noise."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.checks import creation
from adjoint.core.errors import ValueRangeError
from adjoint.core.shapes import broadcast


def normal(mean: Any, std: Any, generator: Any) -> Any:
    """mean + std·ε,  ε standard normal, not differentiated.

    The dtype is that of `mean`, or of `std` if the mean is a number.
    """
    shapes = [v.shape for v in (mean, std) if hasattr(v, "shape")]
    dtype = mean.dtype if hasattr(mean, "shape") else std.dtype
    creation.require_float("normal", dtype, complex_too=True)
    if not hasattr(std, "shape") and not std >= 0:
        raise ValueRangeError(f"normal: the standard deviation must not be negative, got {std}.")
    noise = ops.randn(broadcast("normal", *shapes), generator=generator, dtype=dtype)
    return (mean + std * noise).to(dtype)

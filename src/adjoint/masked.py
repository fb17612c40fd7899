"""`ad.masked`: reductions and normalizations of what a mask selects, as `torch.masked`.

True in the mask means that an element takes part. The others are replaced by what changes nothing
(0 in a sum, -∞ in a maximum), so they never reach a derivative, not even as NaN. A row without any
element gives that neutral value, or NaN where there is none.

The functions are rows of doors/torch/masked.txt; here are their words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import ArgumentError, DimensionError, DtypeError, ValueRangeError
from adjoint.core.shapes import show, wrap_dim
from adjoint.doors.torch import all_of
from adjoint.tensor.tensor import Tensor

Dims = int | Sequence[int] | None


# --- what is left out --------------------------------------------------------------------------


def _mask_of(input: Tensor, mask: Tensor) -> Tensor:
    """The mask in the shape of the input."""
    if mask.ndim > input.ndim:
        raise DimensionError(
            f"masked: the mask of shape {show(mask.shape)} has more dimensions than the input of "
            f"shape {show(input.shape)}"
        )
    return mask.to(dtypes.bool_).expand(input.shape)


def _input_mask(input: Tensor, *_: Any, mask: Tensor, **__: Any) -> Tensor:
    """Which elements of the input take part in a call with these arguments."""
    return _mask_of(input, mask)


def _output_mask(op: Any, input: Tensor, *args: Any, mask: Tensor, **options: Any) -> Tensor:
    """Which elements of the result of `op` come from a selected element of the input."""
    selected = _mask_of(input, mask)
    if op.__name__ in _KEEP_SHAPE:
        return selected
    args = args[1:] if op.__name__ == "norm" else args
    dims = _dims(input, args[0] if args else options.get("dim"))
    return selected.to(dtypes.int64).sum(dims, bool(options.get("keepdim"))) > 0


_KEEP_SHAPE = ("softmax", "log_softmax", "softmin", "normalize", "cumsum", "cumprod")


def _filled(input: Tensor, mask: Tensor | None, neutral: float) -> Tensor:
    """The input, with `neutral` where the mask is False; for an infinity an integer dtype's end."""
    if mask is None:
        return input
    value: Any = neutral
    if math.isinf(neutral) and not input.dtype.is_differentiable:
        limits = dtypes.iinfo(input.dtype)
        value = limits.max if neutral > 0 else limits.min
    return input.masked_fill(~_mask_of(input, mask), value)


def _kept(what: str, input: Tensor, mask: Tensor | None, neutral: float) -> Tensor:
    """The input filled with the neutral element of an order."""
    if input.is_complex() or input.dtype is dtypes.bool_:
        raise DtypeError(f"masked.{what}: there is no neutral element among {input.dtype} numbers.")
    return _filled(input, mask, neutral)


def _count(input: Tensor, dim: Dims, keepdim: bool, mask: Tensor | None) -> Tensor:
    """How many elements take part."""
    part = ops.ones(input.shape, dtype=dtypes.bool_) if mask is None else _mask_of(input, mask)
    return part.sum(_dims(input, dim), keepdim)


# --- arguments, and results ---------------------------------------------------------------------


def _dims(input: Tensor, dim: Dims) -> tuple[int, ...]:
    """The dimensions in order; all of them if None."""
    if dim is None:
        return tuple(range(input.ndim))
    given = (dim,) if isinstance(dim, int) else tuple(dim)
    found = [wrap_dim("masked", d, input.ndim) for d in given]
    if len(set(found)) != len(found):
        raise ArgumentError(f"masked: a dimension appears twice in dim={dim}")
    return tuple(sorted(found))


def _sum_dtype(input: Tensor, dtype: DType | None) -> DType:
    if dtype is not None:
        return dtype
    return input.dtype if input.dtype.is_differentiable else dtypes.int64


def _mean_dtype(dtype: DType) -> DType:
    if not dtype.is_differentiable:
        raise ValueRangeError(f"masked.mean: has no {dtype} result; pass a float or complex dtype")
    return dtype


def _less(unbiased: bool | None, correction: float | None) -> float:
    """The number that is subtracted from the count in a variance."""
    if unbiased is not None and correction is not None:
        raise ArgumentError("masked.var: give one of unbiased and correction")
    less = 1.0 if correction is None else float(correction)
    return 0.0 if unbiased is False else less


def _cast(result: Tensor, dtype: DType | None) -> Tensor:
    return result if dtype is None else result.to(dtype)


def _above(size: Tensor, eps: float) -> Tensor:
    return ops.maximum(size, size.new_full((), eps))


# --- reductions --------------------------------------------------------------------------------


def _summed(input: Tensor, dim: Dims, keepdim: bool, dtype: DType, mask: Tensor | None) -> Tensor:
    return _filled(input, mask, 0).sum(_dims(input, dim), keepdim, dtype=dtype)


def _product(input: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    for d in reversed(dims):
        input = input.prod(d, keepdim)
    return input


def _median(
    input: Tensor, dim: int, keepdim: bool, dtype: DType | None, mask: Tensor | None
) -> Tensor:
    """The lower median; of integers in float32, in which a row without elements shows as NaN."""
    real = input if input.dtype.is_floating_point else input.to(dtypes.float32)
    output = _filled(real, mask, math.nan).nanmedian(dim, keepdim)[0]
    if input.dtype.is_floating_point:
        return output
    if output.isnan().any().item():
        raise ValueRangeError("masked.median: a row of integers has no selected element")
    return output.to(dtype or input.dtype)


def _norm(
    input: Tensor, ord: float | None, dim: Dims, keepdim: bool, dtype: DType | None,
    mask: Tensor | None,
) -> Tensor:  # fmt: skip
    order = 2.0 if ord is None else ord
    kept = _filled(input, mask, math.inf if order == -math.inf else 0)
    wanted = dtype or input.dtype
    return ops.linalg_vector_norm(kept, order, _dims(input, dim), keepdim, dtype=wanted)


def _variance(
    input: Tensor, dim: Dims, less: float, keepdim: bool, dtype: DType | None, mask: Tensor | None
) -> Tensor:
    """Σ |x - mean|² / (n - less)."""
    wanted = dtype or (input.dtype if input.dtype.is_differentiable else dtypes.float32)
    inner = wanted if wanted.is_differentiable else dtypes.float32
    kept = _filled(input, mask, 0)
    centre = kept.sum(_dims(input, dim), True, dtype=wanted) / _count(input, dim, True, mask)
    away = kept - centre
    total = _summed(away * away.conj(), dim, keepdim, inner, mask)
    count = _count(input, dim, keepdim, mask).to(inner.to_real())
    return (total / (count - less).clamp(min=0)).to(wanted)


_WORDS = {
    "Dims": Dims, "DType": DType, "inf": math.inf,
    **{word.__name__[1:]: word for word in (
        _filled, _kept, _count, _dims, _sum_dtype, _mean_dtype, _less, _cast, _above, _summed,
        _product, _median, _norm, _variance,
    )},
}  # fmt: skip

__getattr__, __dir__ = all_of(globals(), "masked.txt", _WORDS)

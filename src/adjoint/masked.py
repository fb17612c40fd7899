"""`ad.masked`: reductions and normalisations of what a mask selects, as `torch.masked`.

True in the mask means that an element takes part. The others are replaced by what changes nothing
(0 in a sum, -∞ in a maximum), so they never reach a derivative, not even as NaN. A row without any
element gives that neutral value, or NaN where there is none.
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
from adjoint.tensor.tensor import Tensor

Dims = int | Sequence[int] | None

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
    "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum",
    "var",
]  # fmt: skip


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


def _require_order(what: str, input: Tensor) -> None:
    if input.is_complex() or input.dtype is dtypes.bool_:
        raise DtypeError(f"masked.{what}: there is no neutral element among {input.dtype} numbers.")


def _dims(input: Tensor, dim: Dims) -> tuple[int, ...]:
    """The dimensions in order; all of them if None."""
    if dim is None:
        return tuple(range(input.ndim))
    given = (dim,) if isinstance(dim, int) else tuple(dim)
    found = [wrap_dim("masked", d, input.ndim) for d in given]
    if len(set(found)) != len(found):
        raise ArgumentError(f"masked: a dimension appears twice in dim={dim}")
    return tuple(sorted(found))


def _summed_dtype(input: Tensor, dtype: DType | None) -> DType:
    if dtype is not None:
        return dtype
    return input.dtype if input.dtype.is_differentiable else dtypes.int64


# --- reductions --------------------------------------------------------------------------------


def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The sum of the selected elements.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.sum(x, 0, mask=mask)
    tensor(6.)
    """
    wanted = _summed_dtype(input, dtype)
    return _filled(input, mask, 0).sum(_dims(input, dim), keepdim, dtype=wanted)


def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The product of the selected elements.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.prod(x, 0, mask=mask)
    tensor(5.)
    """
    result = _filled(input, mask, 1).to(_summed_dtype(input, dtype))
    for d in reversed(_dims(input, dim)):
        result = result.prod(d, keepdim)
    return result


def amax(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The largest of the selected elements.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.amax(x, 0, mask=mask)
    tensor(5.)
    """
    _require_order("amax", input)
    return _as(_filled(input, mask, -math.inf).amax(_dims(input, dim), keepdim), dtype)


def amin(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The least of the selected elements.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.amin(x, 0, mask=mask)
    tensor(1.)
    """
    _require_order("amin", input)
    return _as(_filled(input, mask, math.inf).amin(_dims(input, dim), keepdim), dtype)


def _as(result: Tensor, dtype: DType | None) -> Tensor:
    return result if dtype is None else result.to(dtype)


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where the largest of the selected elements is; in the dtype of the input, as PyTorch's.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.argmax(x, 0, mask=mask)
    tensor(2.)
    """
    _require_order("argmax", input)
    return _filled(input, mask, -math.inf).argmax(dim, keepdim).to(dtype or input.dtype)


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where the least of the selected elements is; in the dtype of the input, as PyTorch's.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.argmin(x, 0, mask=mask)
    tensor(0.)
    """
    _require_order("argmin", input)
    return _filled(input, mask, math.inf).argmin(dim, keepdim).to(dtype or input.dtype)


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """log Σ exp of the selected elements.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.logsumexp(x, 0, mask=mask)
    tensor(5.0181)
    """
    kept = _filled(input, mask, -math.inf)
    return kept.logsumexp(_dims(input, dim), keepdim).to(dtype or input.dtype)


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: DType | None = None, input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """log(exp x + exp y); what a mask leaves out counts as exp(-∞).

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0]), ad.tensor([True, False])
    >>> ad.masked.logaddexp(x, x, input_mask=mask, other_mask=mask)
    tensor([1.6931,   -inf])
    """
    x = _filled(input, input_mask, -math.inf)
    y = _filled(other, other_mask, -math.inf)
    return _as(ops.logaddexp(x, y), dtype)


def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The mean of the selected elements.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.mean(x, 0, mask=mask)
    tensor(3.)
    """
    wanted = dtype or input.dtype
    if not wanted.is_differentiable:
        raise ValueRangeError(f"masked.mean: has no {wanted} result; pass a float or complex dtype")
    total = sum(input, dim, keepdim=keepdim, dtype=wanted, mask=mask)
    return total / _count(input, dim, keepdim, mask)


def _count(input: Tensor, dim: Dims, keepdim: bool, mask: Tensor | None) -> Tensor:
    """How many elements take part."""
    part = ops.ones(input.shape, dtype=dtypes.bool_) if mask is None else _mask_of(input, mask)
    return part.sum(_dims(input, dim), keepdim)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The median of the selected elements, the lower of two.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.median(x, 0, mask=mask)
    tensor(1.)
    """
    real = input if input.dtype.is_floating_point else input.to(dtypes.float32)
    output = _filled(real, mask, math.nan).nanmedian(dim, keepdim)[0]
    if input.dtype.is_floating_point:
        return output
    if output.isnan().any().item():
        raise ValueRangeError("masked.median: a row of integers has no selected element")
    return output.to(dtype or input.dtype)


def norm(
    input: Tensor, ord: float | None = 2.0, dim: Dims = None, *, keepdim: bool = False,
    dtype: DType | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The norm of the vector of the selected elements.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.norm(x, 2, 0, mask=mask)
    tensor(5.0990)
    """
    order = 2.0 if ord is None else ord
    kept = _filled(input, mask, math.inf if order == -math.inf else 0)
    wanted = dtype or input.dtype
    return ops.linalg_vector_norm(kept, order, _dims(input, dim), keepdim, dtype=wanted)


def var(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Σ |x - mean|² / (n - correction) over the selected elements.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.var(x, 0, True, mask=mask)
    tensor(8.)
    """
    if unbiased is not None and correction is not None:
        raise ArgumentError("masked.var: give one of unbiased and correction")
    less = 1.0 if correction is None else float(correction)
    less = 0.0 if unbiased is False else less
    wanted = dtype or (input.dtype if input.dtype.is_differentiable else dtypes.float32)
    inner = wanted if wanted.is_differentiable else dtypes.float32
    kept = _filled(input, mask, 0)
    centre = kept.sum(_dims(input, dim), True, dtype=wanted) / _count(input, dim, True, mask)
    away = kept - centre
    total = sum(away * away.conj(), dim, keepdim=keepdim, dtype=inner, mask=mask)
    count = _count(input, dim, keepdim, mask).to(inner.to_real())
    return (total / (count - less).clamp(min=0)).to(wanted)


def std(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The root of `var`.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.std(x, 0, True, mask=mask)
    tensor(2.8284)
    """
    options: dict[str, Any] = dict(correction=correction, keepdim=keepdim, dtype=dtype, mask=mask)
    return var(input, dim, unbiased, **options).sqrt()


# --- normalisations: the result has the shape of the input ------------------------------------


def softmax(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """softmax over the selected elements; 0 elsewhere.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.softmax(x, 0, mask=mask)
    tensor([0.0180, 0.0000, 0.9820])
    """
    _require_order("softmax", input)
    return ops.softmax(_filled(input, mask, -math.inf), dim, dtype or input.dtype)


def log_softmax(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """log_softmax over the selected elements; -∞ elsewhere.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.log_softmax(x, 0, mask=mask)
    tensor([-4.0181,    -inf, -0.0181])
    """
    _require_order("log_softmax", input)
    return ops.log_softmax(_filled(input, mask, -math.inf), dim, dtype or input.dtype)


def softmin(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """softmax of -x over the selected elements; 0 elsewhere.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.softmin(x, 0, mask=mask)
    tensor([0.9820, 0.0000, 0.0180])
    """
    _require_order("softmin", input)
    return ops.softmax(-_filled(input, mask, math.inf), dim, dtype or input.dtype)


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """x / max(norm, eps) for the selected elements; 0 elsewhere.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.normalize(x, 2, 0, mask=mask)
    tensor([0.1961, 0.0000, 0.9806])
    """
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(input, mask, 0) / ops.maximum(size, size.new_full((), eps))


def cumsum(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Running sums of the selected elements.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.cumsum(x, 0, mask=mask)
    tensor([1., 1., 6.])
    """
    return _filled(input, mask, 0).cumsum(dim, dtype=dtype or input.dtype)


def cumprod(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Running products of the selected elements.

    >>> import adjoint as ad
    >>> x, mask = ad.tensor([1.0, 2.0, 5.0]), ad.tensor([True, False, True])
    >>> ad.masked.cumprod(x, 0, mask=mask)
    tensor([1., 1., 5.])
    """
    return _filled(input, mask, 1).cumprod(dim, dtype=dtype or input.dtype)


def __dir__() -> list[str]:
    return sorted(__all__)

"""Embeddings with PyTorch's signatures in Python: the indices come first."""

from __future__ import annotations

from adjoint import ops
from adjoint.core.errors import (
    ArgumentError,
    DtypeError,
    IndexOutOfRange,
    ShapeError,
    ValueRangeError,
)
from adjoint.core.shapes import show
from adjoint.tensor.tensor import Tensor

MODES = {"sum": 0, "mean": 1, "max": 2}


class OnlySums(ArgumentError, NotImplementedError):
    """Weights of samples whose mean or largest is asked for, which PyTorch has not either."""


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The row of `weight` for each index; with `max_norm`, longer ones are first scaled in place.

    The row at `padding_idx` has no gradient. With `sparse`, `weight.grad` is a sparse tensor of the
    rows that were used; inside transforms gradients are dense.

    >>> import adjoint as ad
    >>> table = ad.arange(6.0).reshape(3, 2)
    >>> ad.nn.functional.embedding(ad.tensor([2, 0]), table)
    tensor([[4., 5.],
            [0., 1.]])
    """
    row = _row("embedding", padding_idx, weight)
    if max_norm is not None:
        ops.embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    return ops.embedding(weight, input, row, scale_grad_by_freq, sparse)


def _row(what: str, padding_idx: int | None, weight: Tensor) -> int:
    """The row that is padding, counted from the front; -1 if none is."""
    if padding_idx is None:
        return -1
    count = weight.shape[0]
    if not -count <= padding_idx < count:
        raise IndexOutOfRange(
            f"{what}(padding_idx={padding_idx}): the weight has {count} rows; use {-count} to "
            f"{count - 1}."
        )
    return padding_idx % count


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Join the rows of each bag: of a row of `input`, or from one of `offsets` to the next.

    >>> import adjoint as ad
    >>> table = ad.arange(6.0).reshape(3, 2)
    >>> ad.nn.functional.embedding_bag(ad.tensor([[0, 1], [2, 2]]), table, mode="sum")
    tensor([[ 2.,  4.],
            [ 8., 10.]])
    """
    if mode not in MODES:
        raise ValueRangeError(f"embedding_bag(mode={mode!r}): there are 'sum', 'mean' and 'max'.")
    if input.ndim == 2 and offsets is None:
        if per_sample_weights is not None and per_sample_weights.shape != input.shape:
            raise ShapeError(
                f"embedding_bag: per_sample_weights of {show(per_sample_weights.shape)} for an "
                f"input of {show(input.shape)}; the shapes must agree."
            )
        count, size = input.shape
        offsets = ops.arange(count) * size
        include_last_offset = False
        input = input.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    elif input.ndim != 1 or offsets is None:
        raise ShapeError(
            "embedding_bag: takes a vector of indices with offsets, or a matrix of one bag per row "
            f"without; got an input of {show(input.shape)} with offsets={offsets!r}."
        )
    if per_sample_weights is not None:
        _check_weights(per_sample_weights, weight, mode)
    if max_norm is not None:
        ops.embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    return ops._embedding_bag(
        weight, input, offsets, scale_grad_by_freq, MODES[mode], sparse, per_sample_weights,
        include_last_offset, _row("embedding_bag", padding_idx, weight),
    )[0]  # fmt: skip


def _check_weights(per_sample_weights: Tensor, weight: Tensor, mode: str) -> None:
    if mode != "sum":
        raise OnlySums(f"embedding_bag(mode={mode!r}): only 'sum' takes per_sample_weights.")
    if per_sample_weights.dtype is not weight.dtype:
        raise DtypeError(
            f"embedding_bag: per_sample_weights must have the dtype of the weight, {weight.dtype}; "
            f"got {per_sample_weights.dtype}."
        )

"""cross_entropy of a linear layer, which need not hold the scores of all samples at once."""

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.errors import ArgumentError, ShapeError, ValueRangeError
from adjoint.core.records import record
from adjoint.core.shapes import show
from adjoint.nn.functional.losses import number
from adjoint.tensor.tensor import Tensor

WHAT = "linear_cross_entropy"
AUTOMATIC = "aspect_ratio:2"
POLICIES = ("accurate", "balanced", "compact", "auto")


@record
class LinearCrossEntropyOptions:
    """How `linear_cross_entropy` goes through its samples: `batch_chunk_size` at a time.

    `chunking_method` finds that number: "aspect_ratio:n" makes the scores of a chunk as large as
    1/n of the input, "auto" means n = 2. The other options are PyTorch's: sums are always kept at
    least in float32 here, and a graph can always be used again.
    """

    allow_retain_graph: bool
    batch_chunk_size: int | None  # samples at a time
    chunking_method: str | None  # "auto", "aspect_ratio", "aspect_ratio:4", None: all
    acc_policy: str
    acc_dtype: Any

    def __init__(
        self,
        allow_retain_graph: bool = False,
        batch_chunk_size: int | None = None,
        chunking_method: str | None = "auto",
        acc_policy: str = "auto",
        acc_dtype: Any = None,
    ) -> None:
        if batch_chunk_size is not None and batch_chunk_size < 1:
            raise ValueRangeError(
                f"{WHAT}: batch_chunk_size must be at least 1, got {batch_chunk_size}."
            )
        if chunking_method not in ("auto", None):
            _ratio(chunking_method)
        if acc_policy not in POLICIES:
            raise ValueRangeError(
                f"{WHAT}: acc_policy must be one of {', '.join(POLICIES)}, got {acc_policy!r}."
            )
        if acc_dtype is not None and not getattr(acc_dtype, "is_floating_point", False):
            raise ValueRangeError(
                f"{WHAT}: acc_dtype must be a floating point dtype, got {acc_dtype}."
            )
        given = (allow_retain_graph, batch_chunk_size, chunking_method, acc_policy, acc_dtype)
        for name, value in zip(type(self).__annotations__, given, strict=True):
            object.__setattr__(self, name, value)


def _ratio(method: str) -> int:
    """The number n of "aspect_ratio:n"."""
    name, colon, factor = method.partition(":")
    if name != "aspect_ratio" or (colon and not (factor.isdigit() and int(factor) > 0)):
        raise ValueRangeError(
            f"{WHAT}: chunking_method must be 'auto', 'aspect_ratio', 'aspect_ratio:n' or None, "
            f"got {method!r}."
        )
    return int(factor) if factor else 1


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """Compute cross_entropy(linear(input, linear_weight, linear_bias), target).

    The input is (samples, features) or (features,); a weight (classes, d₁, …, features) gives
    several scores for each class, and the target has those dimensions too. With `options`
    (`ad.nn.LinearCrossEntropyOptions`) scores are computed for some samples at a time, in the
    backward again, so that there is never a matrix of samples × classes. Higher derivatives and
    forward mode work either way.

    >>> import adjoint as ad
    >>> x, w = ad.tensor([[1.0, 0.0], [0.0, 1.0]]), ad.tensor([[2.0, 0.0], [0.0, 2.0]])
    >>> linear_cross_entropy(x, w, ad.tensor([0, 1]))
    tensor(0.1269)
    """
    classes, inner = linear_weight.shape[0] if linear_weight.ndim else 0, linear_weight.shape[1:-1]
    _check(input, linear_weight, linear_bias)
    shape = (*input.shape[:-1], classes, *inner)
    likely = tuple(target.shape) == shape
    if likely and ignore_index is not None:
        raise ArgumentError(
            f"{WHAT}(ignore_index={ignore_index}): a target of probabilities has no class to "
            "ignore."
        )
    ignored = -100 if ignore_index is None else ignore_index
    plain = not inner and not likely and target.dtype is dtypes.int64 and label_smoothing == 0
    if options is not None and plain:
        return _in_parts(
            input, linear_weight, target, linear_bias, weight, reduction, ignored, options
        )
    flat = linear_weight.reshape((math.prod(linear_weight.shape[:-1]), input.shape[-1]))
    bias = None if linear_bias is None else linear_bias.reshape((-1,))
    scores = ops.linear(input, flat, bias).reshape(shape)
    reduced_as = number("cross_entropy", reduction)
    return ops.cross_entropy_loss(scores, target, weight, reduced_as, ignored, label_smoothing)


def _check(input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None) -> None:
    """Raise unless the shapes are those of a linear layer."""
    fits = input.ndim in (1, 2) and linear_weight.ndim >= 2
    if not fits or input.shape[-1] != linear_weight.shape[-1]:
        raise ShapeError(
            f"{WHAT}: needs an input (samples, features) or (features,), and a weight (classes, …, "
            f"features), got {show(input.shape)} and {show(linear_weight.shape)}."
        )
    if linear_bias is not None and linear_bias.shape != linear_weight.shape[:-1]:
        raise ShapeError(
            f"{WHAT}: linear_bias must be {show(linear_weight.shape[:-1])}, as the weight without "
            f"its features, got {show(linear_bias.shape)}."
        )
    if linear_weight.ndim > 2 and input.ndim == 1:
        raise ShapeError(
            f"{WHAT}: a weight of {show(linear_weight.shape)} needs several samples, (samples, "
            f"features), got {show(input.shape)}."
        )


def _in_parts(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    options: Any,
) -> Tensor:
    """Some samples at a time, then weights and the reduction."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueRangeError(f"{WHAT}(reduction={reduction!r}): use 'mean', 'sum' or 'none'.")
    alone = input.ndim == 1
    x, classes = (input.unsqueeze(0), target.unsqueeze(0)) if alone else (input, target)
    samples = _samples(x.shape[0], x.shape[1], linear_weight.shape[0], options)
    losses = ops._linear_cross_entropy(
        x, linear_weight, classes, linear_bias, ignore_index, samples
    )
    kept = classes != ignore_index
    weights = kept.to(losses.dtype)
    if weight is not None:
        weights = weights * weight[classes.masked_fill(~kept, 0)]
        losses = losses * weights
    if reduction == "none":
        return losses.squeeze(0) if alone else losses
    return losses.sum() if reduction == "sum" else losses.sum() / weights.sum()


def _samples(count: int, features: int, classes: int, options: Any) -> int:
    """How many samples to take at a time."""
    given, method = options.batch_chunk_size, options.chunking_method
    if method == "auto":
        method = AUTOMATIC if given is None else None
    if method is None:
        return max(min(count, count if given is None else given), 1)
    wanted = math.ceil(count / max(math.ceil(classes / max(features, 1)), 1))
    found = max(min((1 << (max(wanted, 1) - 1).bit_length()) // _ratio(method), count), 1)
    if given is not None and given != found:
        raise ArgumentError(
            f"{WHAT}: batch_chunk_size={given} and chunking_method={method!r}, which gives {found}"
            ", disagree; pass one of them."
        )
    return found

"""Losses with PyTorch's signatures in Python: `reduction` is 'mean', 'sum' or 'none'.

`size_average` and `reduce` are PyTorch's older way to say it, and go before `reduction`. The losses
here are written with the operators' number in its place: `_words` gives them the signature.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.errors import AdjointError, DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.core.source_lines import warn
from adjoint.tensor.tensor import Tensor

NONE, MEAN, SUM = 0, 1, 2  # the operators' numbers
_NUMBERS = {"none": NONE, "mean": MEAN, "sum": SUM}


def _number(what: str, reduction: str, size_average: bool | None, reduce: bool | None) -> int:
    """The operators' number for a reduction."""
    if size_average is not None or reduce is not None:
        if reduce is False:
            return NONE
        return SUM if size_average is False else MEAN
    if reduction not in _NUMBERS:
        raise ValueRangeError(f"{what}(reduction={reduction!r}): use 'mean', 'sum' or 'none'.")
    return _NUMBERS[reduction]


def _words(*places: int) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Give a loss PyTorch's words for its `reduction`; `places` are those of `size_average` and
    `reduce` among the arguments, where it has them.
    """

    def decorate(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
        signature = inspect.signature(loss)
        parameters = [
            p.replace(default="mean", annotation="str") if p.name == "reduction" else p
            for p in signature.parameters.values()
        ]
        for place, name in zip(places, ("size_average", "reduce"), strict=False):
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            word = inspect.Parameter(name, kind, default=None, annotation="bool | None")
            parameters.insert(place, word)
        whole = signature.replace(parameters=parameters)
        same = min(*places, [p.name for p in parameters].index("reduction"), len(parameters))

        @functools.wraps(loss)
        def worded(*args: Any, **keywords: Any) -> Tensor:
            if len(args) <= same and keywords.keys().isdisjoint(("size_average", "reduce")):
                word = keywords.get("reduction", "mean")  # as nearly all calls are
                keywords["reduction"] = _number(loss.__name__, word, None, None)
                return loss(*args, **keywords)
            given = whole.bind(*args, **keywords).arguments
            old = given.pop("size_average", None), given.pop("reduce", None)
            number = _number(loss.__name__, given.pop("reduction", "mean"), *old)
            return loss(reduction=number, **given)

        vars(worded)["__signature__"] = whole
        return worded

    return decorate


def _reduced(losses: Tensor, reduction: int) -> Tensor:
    """The mean or the sum of losses, or all of them."""
    if reduction == NONE:
        return losses
    return losses.mean() if reduction == MEAN else losses.sum()


# --- differences ---------------------------------------------------------------------------------


def _of_one_size(what: str, input: Tensor, target: Tensor) -> list[Tensor]:
    """Both, broadcast before they are promoted, so that a 0-d tensor counts as a tensor.

    Differences of broadcast tensors are seldom meant.
    """
    if input.shape == target.shape:
        return [input, target]
    warn(
        f"{what}: an input of {show(input.shape)} and a target of {show(target.shape)} are "
        "broadcast. Please ensure they have the same size."
    )
    return ops.broadcast_tensors([input, target])


def _weighted(what: str, losses: Tensor, weight: Tensor, reduction: int, average: Tensor) -> Tensor:
    """Losses times weights; their mean is the sum over `average`."""
    if weight.shape != losses.shape:
        raise ShapeError(
            f"{what}: a weight of {show(weight.shape)} for losses of {show(losses.shape)}; the "
            "shapes must agree."
        )
    weighted = losses * weight
    return weighted.sum() / average if reduction == MEAN else _reduced(weighted, reduction)


@_words(2, 3)
def mse_loss(input: Tensor, target: Tensor, reduction: int, weight: Any = None) -> Tensor:
    """(input - target)²; with weights, their mean is the weighted one.

    >>> import adjoint as ad
    >>> ad.nn.functional.mse_loss(ad.tensor([0.2, 0.9]), ad.tensor([0.0, 1.0]))
    tensor(0.0250)
    """
    input, target = _of_one_size("mse_loss", input, target)
    if weight is None:
        return ops.mse_loss(input, target, reduction)
    return _weighted("mse_loss", ops.mse_loss(input, target, NONE), weight, reduction, weight.sum())


@_words(2, 3)
def l1_loss(input: Tensor, target: Tensor, reduction: int, weight: Any = None) -> Tensor:
    """|input - target|; with weights, their mean is the weighted one.

    >>> import adjoint as ad
    >>> ad.nn.functional.l1_loss(ad.tensor([0.2, 0.9]), ad.tensor([0.0, 1.0]))
    tensor(0.1500)
    """
    input, target = _of_one_size("l1_loss", input, target)
    if weight is None:
        return ops.l1_loss(input, target, reduction)
    return _weighted("l1_loss", ops.l1_loss(input, target, NONE), weight, reduction, weight.sum())


@_words(2, 3)
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: int, beta: float = 1.0) -> Tensor:
    """d²/(2 beta) within beta, |d| - beta/2 outside, d being the difference.

    >>> import adjoint as ad
    >>> ad.nn.functional.smooth_l1_loss(ad.tensor([0.2, 0.9]), ad.tensor([0.0, 1.0]))
    tensor(0.0125)
    """
    input, target = _of_one_size("smooth_l1_loss", input, target)
    return ops.smooth_l1_loss(input, target, reduction, beta)


@_words()
def huber_loss(
    input: Tensor, target: Tensor, reduction: int, delta: float = 1.0, weight: Any = None
) -> Tensor:
    """d²/2 within delta, delta (|d| - delta/2) outside; with weights, the mean is over elements.

    >>> import adjoint as ad
    >>> ad.nn.functional.huber_loss(ad.tensor([0.2, 0.9]), ad.tensor([0.0, 1.0]))
    tensor(0.0125)
    """
    input, target = _of_one_size("huber_loss", input, target)
    if weight is None:
        return ops.huber_loss(input, target, reduction, delta)
    losses = ops.huber_loss(input, target, NONE, delta)
    return _weighted("huber_loss", losses, weight, reduction, losses.numel())


# --- classes -------------------------------------------------------------------------------------


@_words(3, 5)
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: int = MEAN,
) -> Tensor:
    """-input at the target's class (dimension 1, or the only one), weighted by its weight.

    >>> import adjoint as ad
    >>> ad.nn.functional.nll_loss(ad.log(ad.tensor([[0.25, 0.75]])), ad.tensor([1]))
    tensor(0.2877)
    """
    return ops.nll_loss_nd(input, target, weight, reduction, ignore_index)


@_words(3, 5)
def cross_entropy(
    input: Tensor, target: Tensor, weight: Any = None, ignore_index: int = -100,
    reduction: int = MEAN, label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """-log softmax(input) at the target's class, or averaged with the target's probabilities.

    >>> import adjoint as ad
    >>> ad.nn.functional.cross_entropy(ad.zeros(2, 3), ad.tensor([0, 2]))
    tensor(1.0986)
    """
    return ops.cross_entropy_loss(input, target, weight, reduction, ignore_index, label_smoothing)


# --- probabilities -------------------------------------------------------------------------------


@_words(3, 4)
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Any = None, reduction: int = MEAN
) -> Tensor:
    """-(t log p + (1 - t) log(1 - p)) for probabilities p.

    >>> import adjoint as ad
    >>> ad.nn.functional.binary_cross_entropy(ad.tensor([0.2, 0.9]), ad.tensor([0.0, 1.0]))
    tensor(0.1643)
    """
    return ops.binary_cross_entropy(input, target, weight, reduction)


@_words(3, 4)
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Any = None, reduction: int = MEAN, pos_weight: Any = None
) -> Tensor:
    """binary_cross_entropy of sigmoid(input), accurate far out.

    >>> import adjoint as ad
    >>> ad.nn.functional.binary_cross_entropy_with_logits(ad.zeros(2), ad.tensor([0.0, 1.0]))
    tensor(0.6931)
    """
    if target.shape != input.shape:
        raise ShapeError(
            f"binary_cross_entropy_with_logits: a target of {show(target.shape)} for an input of "
            f"{show(input.shape)}; the shapes must agree."
        )
    return ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)


def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """target (log target - input); 'batchmean' is the sum over the number of samples.

    >>> import adjoint as ad
    >>> p, q = ad.tensor([0.5, 0.5]), ad.tensor([0.25, 0.75])
    >>> ad.nn.functional.kl_div(q.log(), p, reduction="sum")
    tensor(0.1438)
    """
    if reduction == "batchmean" and size_average is None and reduce is None:
        total = ops.kl_div(input, target, SUM, log_target=log_target)
        return total / input.shape[0] if input.ndim else total
    number = _number("kl_div", reduction, size_average, reduce)
    return ops.kl_div(input, target, number, log_target=log_target)


@_words(4, 6)
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, eps: float = 1e-8,
    reduction: int = MEAN,
) -> Tensor:  # fmt: skip
    """exp(input) - target · input; with `full` plus Stirling's log target!.

    >>> import adjoint as ad
    >>> ad.nn.functional.poisson_nll_loss(ad.zeros(2), ad.tensor([1.0, 2.0]))
    tensor(1.)
    """
    return ops.poisson_nll_loss(input, target, log_input, full, eps, reduction)


@_words()
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6,
    reduction: int = MEAN,
) -> Tensor:  # fmt: skip
    """½ (log var + (input - target)²/var), var at least eps; its gradient passes there, too.

    >>> import adjoint as ad
    >>> ad.nn.functional.gaussian_nll_loss(ad.zeros(2), ad.ones(2), ad.ones(2))
    tensor(0.5000)
    """
    if isinstance(var, (int, float)):
        var = ops.full_like(input.detach(), float(var))
    given = _variance_of(input, var)
    return ops._gaussian_nll_loss(input, target, given, full, eps, reduction)


def _variance_of(input: Tensor, var: Tensor) -> Tensor:
    """The variance so that it broadcasts with the input; raises if it cannot be one."""
    try:
        negative = bool((var < 0).any())
    except AdjointError:  # inside a transform it has no numbers
        negative = False
    if negative:
        raise ValueRangeError("gaussian_nll_loss: var has negative elements.")
    if var.shape == input.shape:
        return var
    if tuple(var.shape) == tuple(input.shape[:-1]):
        return var.unsqueeze(-1)
    pairs = zip(input.shape, var.shape, strict=False)
    if var.ndim == input.ndim and all(v in (1, n) for n, v in pairs):
        return var
    raise ShapeError(
        f"gaussian_nll_loss: a var of {show(var.shape)} for an input of {show(input.shape)}; it "
        "has its shape, 1 in some places, or lacks the last dimension."
    )


# --- margins -------------------------------------------------------------------------------------


@_words(2, 3)
def soft_margin_loss(input: Tensor, target: Tensor, reduction: int) -> Tensor:
    """log(1 + exp(-target · input)) for targets 1 and -1.

    >>> import adjoint as ad
    >>> ad.nn.functional.soft_margin_loss(ad.zeros(2), ad.tensor([1.0, -1.0]))
    tensor(0.6931)
    """
    return ops.soft_margin_loss(input, target, reduction)


@_words(3, 4)
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = MEAN
) -> Tensor:
    """input where the target is 1, max(0, margin - input) where it is -1.

    >>> import adjoint as ad
    >>> ad.nn.functional.hinge_embedding_loss(ad.tensor([0.5, 0.5]), ad.tensor([1.0, -1.0]))
    tensor(0.5000)
    """
    return ops.hinge_embedding_loss(input, target, margin, reduction)


@_words(4, 5)
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, reduction: int = MEAN
) -> Tensor:
    """max(0, -target (input1 - input2) + margin).

    >>> import adjoint as ad
    >>> higher, lower = ad.tensor([2.0]), ad.tensor([1.5])
    >>> ad.nn.functional.margin_ranking_loss(higher, lower, ad.tensor([1.0]), margin=1.0)
    tensor(0.5000)
    """
    return ops.margin_ranking_loss(input1, input2, target, margin, reduction)


@_words(4, 5)
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, reduction: int = MEAN
) -> Tensor:
    """1 - cos of the angle where the target is 1, max(0, cos - margin) where it is -1.

    >>> import adjoint as ad
    >>> x = ad.eye(2)
    >>> ad.nn.functional.cosine_embedding_loss(x, x, ad.tensor([1, -1]))
    tensor(0.5000)
    """
    return ops.cosine_embedding_loss(input1, input2, target, margin, reduction)


def _check_margin(what: str, margin: float) -> None:
    if margin <= 0:
        raise ValueRangeError(f"{what}(margin={margin}): it must be positive.")


@_words(7, 8)
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, reduction: int = MEAN,
) -> Tensor:  # fmt: skip
    """max(0, d(anchor, positive) - d(anchor, negative) + margin).

    >>> import adjoint as ad
    >>> near, far = ad.zeros(1, 2), ad.ones(1, 2)
    >>> ad.nn.functional.triplet_margin_loss(near, near, far, margin=2.0)
    tensor(0.5858)
    """
    _check_margin("triplet_margin_loss", margin)
    return ops.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction)


@_words()
def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any = None,
    margin: float = 1.0, swap: bool = False, reduction: int = MEAN,
) -> Tensor:  # fmt: skip
    """triplet_margin_loss with a distance of one's own.

    >>> import adjoint as ad
    >>> near, far = ad.zeros(1, 2), ad.ones(1, 2)
    >>> ad.nn.functional.triplet_margin_with_distance_loss(near, near, far, margin=2.0)
    tensor(0.5858)
    """
    _check_margin("triplet_margin_with_distance_loss", margin)
    distance = ops.pairwise_distance if distance_function is None else distance_function
    far = distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return _reduced((distance(anchor, positive) - far + margin).clamp_min(0), reduction)


@_words(5, 6)
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Any = None,
    reduction: int = MEAN,
) -> Tensor:  # fmt: skip
    """max(0, margin - input at the class + input)ᵖ, averaged over the classes.

    >>> import adjoint as ad
    >>> ad.nn.functional.multi_margin_loss(ad.tensor([[0.1, 0.8]]), ad.tensor([1]))
    tensor(0.1500)
    """
    return ops.multi_margin_loss(input, target, p, margin, weight, reduction)


@_words(2, 3)
def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: int) -> Tensor:
    """max(0, 1 - input at a label + input elsewhere); labels are listed up to the first -1.

    >>> import adjoint as ad
    >>> ad.nn.functional.multilabel_margin_loss(ad.tensor([[0.1, 0.8]]), ad.tensor([[1, -1]]))
    tensor(0.1500)
    """
    return ops.multilabel_margin_loss(input, target, reduction)


@_words(3, 4)
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Any = None, reduction: int = MEAN
) -> Tensor:
    """binary_cross_entropy_with_logits, averaged over the classes (the last dimension).

    >>> import adjoint as ad
    >>> ad.nn.functional.multilabel_soft_margin_loss(ad.zeros(1, 2), ad.tensor([[0.0, 1.0]]))
    tensor(0.6931)
    """
    return ops._multilabel_soft_margin_loss(input, target, weight, reduction)


# --- texts ---------------------------------------------------------------------------------------


@_words()
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int = MEAN, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """-log of the probability of texts of unknown alignment; their mean is per letter.

    >>> import adjoint as ad
    >>> logs = ad.log_softmax(ad.zeros(4, 1, 3), dim=2)
    >>> ad.nn.functional.ctc_loss(logs, ad.tensor([[1, 2]]), ad.tensor([4]), ad.tensor([2]))
    tensor(0.8432)
    """
    for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if getattr(lengths, "dtype", dtypes.int64).is_differentiable:
            raise DtypeError(f"ctc_loss: {name} are whole numbers, got {lengths.dtype}.")
    return ops.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity
    )

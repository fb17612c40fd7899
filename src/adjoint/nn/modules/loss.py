"""Losses: a number that says how far outputs are from targets.

All have a `reduction`: 'mean', 'sum' or 'none'. `size_average` and `reduce` are PyTorch's older way
to say it, and go before `reduction`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.core.errors import ArgumentError, ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.core.source_lines import warn
from adjoint.nn import functional
from adjoint.nn.functional.linear_losses import LinearCrossEntropyOptions
from adjoint.nn.modules.distance import PairwiseDistance
from adjoint.nn.modules.linear import Linear
from adjoint.nn.modules.module import Module
from adjoint.tensor.tensor import Tensor

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss",
    "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss",
    "LinearCrossEntropyLoss", "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "NLLLoss2d", "PoissonNLLLoss",
    "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


def _reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that the older arguments mean, where they are given."""
    if size_average is None and reduce is None:
        return reduction
    word = "none" if reduce is False else "sum" if size_average is False else "mean"
    warn(f"size_average and reduce are PyTorch's older arguments; use reduction={word!r}.")
    return word


class _Loss(Module):
    """A loss with its reduction."""

    reduction: str

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.reduction = _reduction(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """A loss with a weight for each class, which is a buffer."""

    weight: Tensor

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


# --- differences ---------------------------------------------------------------------------------


class L1Loss(_Loss):
    """|input - target|.

    >>> import adjoint as ad
    >>> ad.nn.L1Loss()(ad.tensor([1.0, 2.0]), ad.tensor([1.0, 5.0]))
    tensor(1.5000)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """(input - target)².

    >>> import adjoint as ad
    >>> ad.nn.MSELoss()(ad.tensor([1.0, 2.0]), ad.tensor([1.0, 5.0]))
    tensor(4.5000)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """d²/(2 beta) within beta, |d| - beta/2 outside, d being the difference.

    >>> import adjoint as ad
    >>> ad.nn.SmoothL1Loss(reduction="none")(ad.tensor([0.5, 2.0]), ad.zeros(2))
    tensor([0.1250, 1.5000])
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """d²/2 within delta, delta (|d| - delta/2) outside, d being the difference.

    >>> import adjoint as ad
    >>> ad.nn.HuberLoss(reduction="none", delta=2.0)(ad.tensor([0.5, 3.0]), ad.zeros(2))
    tensor([0.1250, 4.0000])
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        if not isinstance(delta, (int, float)):
            raise ArgumentError(f"HuberLoss(delta={delta!r}): delta is a real number.")
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


# --- classes -------------------------------------------------------------------------------------


class NLLLoss(_WeightedLoss):
    """-input at the target's class, for log-probabilities (batch, classes, …).

    `weight` has a number for each class; targets of `ignore_index` do not count.

    >>> import adjoint as ad
    >>> ad.nn.NLLLoss()(ad.tensor([[-1.0, -2.0], [-3.0, -4.0]]), ad.tensor([0, 1]))
    tensor(2.5000)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.nll_loss(
            input, target, weight=self.weight, ignore_index=self.ignore_index,
            reduction=self.reduction,
        )  # fmt: skip


class NLLLoss2d(NLLLoss):
    """`NLLLoss` under its former name for images.

    >>> import adjoint as ad
    >>> issubclass(ad.nn.NLLLoss2d, ad.nn.NLLLoss)
    True
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warn("NLLLoss2d: use NLLLoss, which takes images.", FutureWarning)
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    """-log softmax(input) at the target's class, or averaged with the target's probabilities.

    The input is (batch, classes, …); `weight` has a number for each class, targets of
    `ignore_index` do not count, and `label_smoothing` mixes the target with equal probabilities.

    >>> import adjoint as ad
    >>> ad.nn.CrossEntropyLoss()(ad.zeros(2, 4), ad.tensor([0, 3]))
    tensor(1.3863)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.cross_entropy(
            input, target, weight=self.weight, ignore_index=self.ignore_index,
            reduction=self.reduction, label_smoothing=self.label_smoothing,
        )  # fmt: skip


class LinearCrossEntropyLoss(_WeightedLoss):
    """`CrossEntropyLoss` of a linear layer's scores, which need not be held all at once.

    The layer has `num_classes` outputs, or with `out_features` as many for each position there.
    With `options` the scores are computed for some samples at a time.

    >>> import adjoint as ad
    >>> loss = ad.nn.LinearCrossEntropyLoss(3, 10)
    >>> loss(ad.ones(2, 3), ad.tensor([0, 3])).shape, loss.linear.weight.shape
    ((), (10, 3))
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise ShapeError(
                f"LinearCrossEntropyLoss(num_classes={num_classes}): weight must have a number for "
                f"each class, got {show(weight.shape)}."
            )
        if not 0 <= label_smoothing <= 1:
            raise ValueRangeError(
                f"LinearCrossEntropyLoss(label_smoothing={label_smoothing}): it must be from 0 to "
                "1."
            )
        super().__init__(weight, reduction=reduction)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        self.options = options
        scores = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, scores, bias, device, dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        inner = (self.num_classes, *self.out_features)
        weight, bias = self.linear.weight, self.linear.bias
        return functional.linear_cross_entropy(
            input,
            weight.reshape((*inner, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(inner),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


# --- probabilities -------------------------------------------------------------------------------


class BCELoss(_WeightedLoss):
    """-(t log p + (1 - t) log(1 - p)) for probabilities p and targets t.

    >>> import adjoint as ad
    >>> ad.nn.BCELoss()(ad.tensor([0.5, 0.5]), ad.tensor([0.0, 1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.binary_cross_entropy(
            input, target, weight=self.weight, reduction=self.reduction
        )


class BCEWithLogitsLoss(_Loss):
    """`BCELoss` of sigmoid(input), accurate far out; `pos_weight` weighs targets of 1.

    >>> import adjoint as ad
    >>> ad.nn.BCEWithLogitsLoss()(ad.zeros(2), ad.tensor([0.0, 1.0]))
    tensor(0.6931)
    """

    weight: Tensor
    pos_weight: Tensor

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(
            input, target, weight=self.weight, reduction=self.reduction,
            pos_weight=self.pos_weight,
        )  # fmt: skip


class KLDivLoss(_Loss):
    """target (log target - input) for log-probabilities; 'batchmean' divides by the samples.

    With `log_target` the targets are log-probabilities, too.

    >>> import adjoint as ad
    >>> p = ad.tensor([[0.25, 0.75]])
    >>> ad.nn.KLDivLoss(reduction="batchmean")(p.log(), p)
    tensor(0.)
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.kl_div(
            input, target, reduction=self.reduction, log_target=self.log_target
        )


class PoissonNLLLoss(_Loss):
    """exp(input) - target · input, or input - target · log(input + eps) without `log_input`.

    With `full`, plus Stirling's log target!.

    >>> import adjoint as ad
    >>> ad.nn.PoissonNLLLoss()(ad.zeros(2), ad.tensor([1.0, 2.0]))
    tensor(1.)
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return functional.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps,
            reduction=self.reduction,
        )  # fmt: skip


class GaussianNLLLoss(_Loss):
    """½ (log var + (input - target)²/var), var at least eps; with `full` plus ½ log 2π.

    >>> import adjoint as ad
    >>> ad.nn.GaussianNLLLoss()(ad.zeros(2), ad.tensor([1.0, 2.0]), ad.ones(2))
    tensor(1.2500)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return functional.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


# --- margins -------------------------------------------------------------------------------------


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target · input)) for targets 1 and -1.

    >>> import adjoint as ad
    >>> ad.nn.SoftMarginLoss()(ad.zeros(2), ad.tensor([1.0, -1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.soft_margin_loss(input, target, reduction=self.reduction)


class _MarginLoss(_Loss):
    """A loss with a margin that is 0 unless one is given."""

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class MarginRankingLoss(_MarginLoss):
    """max(0, -target (input1 - input2) + margin): input1 is above input2 where the target is 1.

    >>> import adjoint as ad
    >>> ad.nn.MarginRankingLoss()(ad.tensor([1.0]), ad.tensor([3.0]), ad.tensor([1.0]))
    tensor(2.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return functional.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class CosineEmbeddingLoss(_MarginLoss):
    """1 - cos of the angle where the target is 1, max(0, cos - margin) where it is -1.

    >>> import adjoint as ad
    >>> x, y = ad.tensor([[1.0, 0.0]]), ad.tensor([[0.0, 1.0]])
    >>> ad.nn.CosineEmbeddingLoss()(x, y, ad.tensor([1.0]))
    tensor(1.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return functional.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class HingeEmbeddingLoss(_Loss):
    """input where the target is 1, max(0, margin - input) where it is -1.

    >>> import adjoint as ad
    >>> ad.nn.HingeEmbeddingLoss(reduction="none")(ad.full((2,), 0.25), ad.tensor([1.0, -1.0]))
    tensor([0.2500, 0.7500])
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.hinge_embedding_loss(
            input, target, margin=self.margin, reduction=self.reduction
        )


class MultiLabelMarginLoss(_Loss):
    """max(0, 1 - input at a label + input elsewhere); labels are listed up to the first -1.

    >>> import adjoint as ad
    >>> ad.nn.MultiLabelMarginLoss()(ad.tensor([0.5, 1.0]), ad.tensor([1, -1]))
    tensor(0.2500)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """`BCEWithLogitsLoss`, averaged over the classes (the last dimension).

    >>> import adjoint as ad
    >>> ad.nn.MultiLabelSoftMarginLoss()(ad.zeros(1, 2), ad.tensor([[0.0, 1.0]]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )


class MultiMarginLoss(_WeightedLoss):
    """max(0, margin - input at the class + input)ᵖ, averaged over the classes.

    >>> import adjoint as ad
    >>> ad.nn.MultiMarginLoss()(ad.tensor([[0.5, 1.0]]), ad.tensor([1]))
    tensor(0.2500)
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueRangeError(f"MultiMarginLoss(p={p}): there are 1 and 2.")
        if weight is not None and weight.ndim != 1:
            raise ValueRangeError(
                f"MultiMarginLoss(weight=…): needs a vector, got {weight.ndim} dimensions."
            )
        self.p, self.margin = p, margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight,
            reduction=self.reduction,
        )  # fmt: skip


def _positive_margin(loss: Module, margin: float) -> float:
    if margin <= 0:
        raise ValueRangeError(f"{type(loss).__name__}(margin={margin}): it must be positive.")
    return margin


class TripletMarginLoss(_Loss):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), d the distance of norm p.

    With `swap`, the distance of the negative to the positive counts if it is smaller.

    >>> import adjoint as ad
    >>> a, b = ad.zeros(1, 2), ad.ones(1, 2)
    >>> ad.nn.TripletMarginLoss()(a, a, b)
    tensor(0.)
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = _positive_margin(self, margin)
        self.p, self.eps, self.swap = p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return functional.triplet_margin_loss(
            anchor, positive, negative, margin=self.margin, p=self.p, eps=self.eps,
            swap=self.swap, reduction=self.reduction,
        )  # fmt: skip


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with a distance of one's own.

    >>> import adjoint as ad
    >>> far = lambda x, y: (x - y).abs().amax(-1)
    >>> a, b = ad.zeros(1, 2), ad.full((1, 2), 0.25)
    >>> ad.nn.TripletMarginWithDistanceLoss(distance_function=far)(a, a, b)
    tensor(0.7500)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        self.distance_function = (
            PairwiseDistance() if distance_function is None else distance_function
        )
        self.margin = _positive_margin(self, margin)
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return functional.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function,
            margin=self.margin, swap=self.swap, reduction=self.reduction,
        )  # fmt: skip


# --- texts ---------------------------------------------------------------------------------------


class CTCLoss(_Loss):
    """-log of the probability of texts of unknown alignment; their mean is per letter.

    `blank` is the class that means no letter; `zero_infinity` makes losses of impossible texts 0.

    >>> import adjoint as ad
    >>> log_probs = ad.zeros(4, 1, 3).log_softmax(2)  # steps, texts, classes
    >>> ad.nn.CTCLoss()(log_probs, ad.tensor([[1, 2]]), (4,), (2,))
    tensor(0.8432)
    """

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | Sequence[int],
        target_lengths: Tensor | Sequence[int],
    ) -> Tensor:
        return functional.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction,
            self.zero_infinity,
        )  # fmt: skip

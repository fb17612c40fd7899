"""The adaptive softmax, for very many classes of which few are frequent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from adjoint import ops
from adjoint.core.errors import AdjointError, ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.nn import functional
from adjoint.nn.modules.containers import ModuleList, Sequential
from adjoint.nn.modules.linear import Linear
from adjoint.nn.modules.module import Module
from adjoint.tensor.tensor import Tensor

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class ASMoutput(NamedTuple):
    """The log-probability of each target, and the mean loss."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """log-probabilities of very many classes, sorted by frequency, and the loss of targets.

    The `head` gives scores of the classes below the first cutoff, and one for each cluster between
    two cutoffs; a cluster's classes have a narrower layer in `tail`, which is computed only for the
    samples whose target is there. Grave et al. 2017, "Efficient softmax approximation for GPUs".

    >>> import adjoint as ad
    >>> layer = ad.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[5, 10], div_value=2.0)
    >>> x, target = ad.ones(3, 8), ad.tensor([0, 7, 19])
    >>> output, loss = layer(x, target)
    >>> ad.allclose(output, layer.log_prob(x).gather(1, target[:, None])[:, 0])
    True
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        whole = all(int(c) == c and 0 < c < n_classes for c in cutoffs)
        if not cutoffs or not whole or cutoffs != sorted(set(cutoffs)):
            raise ValueRangeError(
                f"AdaptiveLogSoftmaxWithLoss(cutoffs={cutoffs}): needs growing whole numbers from "
                f"1 to n_classes - 1 = {n_classes - 1}."
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        options = dict(device=device, dtype=dtype)
        self.head = Linear(in_features, self.head_size, head_bias, **options)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // (div_value ** (i + 1)))
            classes = self.cutoffs[i + 1] - self.cutoffs[i]
            first = Linear(in_features, hidden, False, **options)
            self.tail.append(Sequential(first, Linear(hidden, classes, False, **options)))

    def reset_parameters(self) -> None:
        """Draw the weights of all layers."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> ASMoutput:
        self._check(input_, target_)
        alone = target_.ndim == 0
        x, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if alone else (input_, target_)
        rows = self._rows(target)
        if rows is None:
            output = self.log_prob(x).gather(1, target.unsqueeze(1)).squeeze(1)
        else:
            output = self._of_targets(x, target, rows)
        loss = (-output).mean()
        return ASMoutput(output.squeeze(0) if alone else output, loss)

    def _check(self, input: Tensor, target: Tensor) -> None:
        """Raise unless there is a target for each sample."""
        if target.ndim not in (0, 1) or tuple(input.shape[:-1]) != tuple(target.shape):
            raise ShapeError(
                "AdaptiveLogSoftmaxWithLoss: needs an input (samples, features) and a target for "
                f"each sample, or (features,) and one, got {show(input.shape)} and "
                f"{show(target.shape)}."
            )

    def _rows(self, target: Tensor) -> list[Tensor] | None:
        """The samples of each cluster; None where the targets' values are not known."""
        bounds = zip(self.cutoffs[:-1], self.cutoffs[1:], strict=True)
        try:
            known = bool(((target >= 0) & (target < self.n_classes)).all())
            rows = [
                ((target >= low) & (target < high)).nonzero().squeeze(1) for low, high in bounds
            ]
        except AdjointError:  # inside a transform they have no values
            return None
        if not known:
            raise ValueRangeError(
                "AdaptiveLogSoftmaxWithLoss: targets are from 0 to n_classes - 1 = "
                f"{self.n_classes - 1}, got from {int(target.min())} to {int(target.max())}."
            )
        return rows

    def _of_targets(self, x: Tensor, target: Tensor, rows: list[Tensor]) -> Tensor:
        """The log-probability of each sample's target."""
        place = target
        for i, members in enumerate(rows):  # in the head, a cluster is one class
            place = place.index_fill(0, members, self.shortlist_size + i)
        head = functional.log_softmax(self.head(x), dim=1)
        output = head.gather(1, place.unsqueeze(1)).squeeze(1)
        for i, members in enumerate(rows):
            if members.numel():
                inner = target.index_select(0, members) - self.cutoffs[i]
                scores = self.tail[i](x.index_select(0, members))
                found = functional.log_softmax(scores, dim=1).gather(1, inner.unsqueeze(1))
                output = output.index_add(0, members, found.squeeze(1))
        return output

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-probabilities of all classes, (samples, classes)."""
        head = functional.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            inside = functional.log_softmax(cluster(input), dim=1)
            parts.append(inside + head[:, self.shortlist_size + i].unsqueeze(1))
        return ops.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """Return the class of highest probability of each sample.

        Clusters are computed only for samples whose most likely class in the head is a cluster.
        """
        scores = self.head(input)
        best = scores.argmax(1)
        outside = (best >= self.shortlist_size).nonzero().squeeze(1)
        if not outside.numel():
            return best
        return best.index_copy(0, outside, self.log_prob(input.index_select(0, outside)).argmax(1))

"""Distributions made of distributions: transformed, over more dimensions of an event, mixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from adjoint import ops
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.distributions import constraints
from adjoint.distributions.constraints import Constraint
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.transforms import ComposeTransform, Transform
from adjoint.distributions.utils import sum_rightmost
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor


class Independent(Distribution):
    """A distribution some of whose last batch dimensions are part of one event.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Independent, Normal
    >>> d = Independent(Normal(ad.zeros(2, 3), 1.0), 1)
    >>> d, d.batch_shape, d.event_shape
    (Independent(Normal(loc: (2, 3), scale: (2, 3)), 1), (2,), (3,))
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        count = len(base_distribution.batch_shape) - reinterpreted_batch_ndims
        if count < 0:
            raise ShapeError(
                f"Independent: cannot take {reinterpreted_batch_ndims} dimensions of the batch "
                f"shape {show(base_distribution.batch_shape)}"
            )
        whole = (*base_distribution.batch_shape, *base_distribution.event_shape)
        self.base_dist: Any = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(whole[:count], whole[count:], validate_args)

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property()
    def support(self) -> Constraint:
        base = self.base_dist.support
        count = self.reinterpreted_batch_ndims
        return constraints.independent(base, count) if count else base

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            raise self._missing("enumerate_support over dimensions of an event")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """The distribution of a transformed sample: log p(y) = log p(x) - log |det dy/dx|.

    >>> import adjoint as ad
    >>> from adjoint.distributions import ExpTransform, Normal, TransformedDistribution
    >>> d = TransformedDistribution(Normal(0.0, 1.0), [ExpTransform()])
    >>> d.log_prob(ad.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: ClassVar[Any] = {}
    base_dist: Any

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = _listed(transforms)
        base_shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        base_ndims = len(base_distribution.event_shape)
        whole = ComposeTransform(self.transforms)
        if len(base_shape) < whole.domain.event_dim:
            raise ShapeError(
                f"TransformedDistribution: the transforms need {whole.domain.event_dim} "
                f"dimensions, but batch and event of the base have shape {show(base_shape)}"
            )
        forward_shape = whole.forward_shape(base_shape)
        expanded = whole.inverse_shape(forward_shape)
        if base_shape != expanded:
            base_distribution = base_distribution.expand(expanded[: len(expanded) - base_ndims])
        taken = whole.domain.event_dim - base_ndims
        if taken > 0:
            base_distribution = Independent(base_distribution, taken)
        self.base_dist = base_distribution
        event_dim = whole.codomain.event_dim + max(-taken, 0)
        cut = len(forward_shape) - event_dim
        super().__init__(forward_shape[:cut], forward_shape[cut:], validate_args)

    @property
    def has_rsample(self) -> bool:
        return self.base_dist.has_rsample

    @constraints.dependent_property()
    def support(self) -> Constraint:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        event_dim = len(self.event_shape)
        total: Any = 0
        y = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            slope = transform.log_abs_det_jacobian(x, y)
            total = total - sum_rightmost(slope, event_dim - transform.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return total + sum_rightmost(base, event_dim - len(self.base_dist.event_shape))

    def _monotone(self, probability: Tensor) -> Tensor:
        """A probability of the base as one of the whole, which may count from the other end."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int):
            return probability if sign == 1 else 1 - probability
        return sign * (probability - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        """The distribution function, of increasing or decreasing transforms."""
        value = self._checked(value)
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._monotone(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles, of increasing or decreasing transforms."""
        return self._forward(self.base_dist.icdf(self._monotone(value)))


def _listed(transforms: Any) -> list[Transform]:
    listed = [transforms] if isinstance(transforms, Transform) else transforms
    if not isinstance(listed, (list, tuple)) or not all(isinstance(t, Transform) for t in listed):
        raise ValueRangeError(
            f"TransformedDistribution: needs a transform or a list of them, got {transforms!r}"
        )
    return list(listed)


class MixtureSameFamily(Distribution):
    """A mixture: a categorical distribution chooses among the last batch dimension of another.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Categorical, MixtureSameFamily, Normal
    >>> mixture = Categorical(ad.tensor([0.25, 0.75]))
    >>> MixtureSameFamily(mixture, Normal(ad.tensor([0.0, 4.0]), 1.0)).mean
    tensor(3.)
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not hasattr(mixture_distribution, "probs") or not isinstance(
            component_distribution, Distribution
        ):
            raise ValueRangeError(
                "MixtureSameFamily: needs a Categorical distribution and the distribution of the "
                f"components, got {mixture_distribution!r} and {component_distribution!r}"
            )
        batch = mixture_distribution.batch_shape
        count = mixture_distribution.probs.shape[-1]
        if component_distribution.batch_shape != (*batch, count):
            batch = self._checked_batch(batch, component_distribution.batch_shape, count)
            mixture_distribution = mixture_distribution.expand(batch)
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        super().__init__(batch, component_distribution.event_shape, validate_args)

    @staticmethod
    def _checked_batch(mixture: Any, component: Any, count: int) -> Any:
        """The batch shape, if that of the mixture broadcasts to that of the components."""
        fits = len(component) > 0 and component[-1] == count and len(mixture) < len(component)
        pairs = zip(reversed(mixture), reversed(component[:-1]), strict=False)
        if not fits or any(m not in (1, c) for m, c in pairs):
            raise ShapeError(
                f"MixtureSameFamily: the components have batch shape {show(component)}; "
                f"it must end in {show((*mixture, count))}, that of the mixture and its choices"
            )
        return component[:-1]

    @property
    def mixture_distribution(self) -> Any:
        """The distribution of the choice."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The distributions to choose from."""
        return self._component_distribution

    @constraints.dependent_property()
    def support(self) -> Constraint:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def _where(self) -> int:
        """The dimension of the components, counted from the end."""
        return -1 - len(self.event_shape)

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape((*probs.shape, *(1,) * len(self.event_shape)))

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self._component_distribution.mean).sum(self._where)

    @property
    def variance(self) -> Tensor:
        """Within the components, and between their means."""
        weights, component = self._weights(), self._component_distribution
        within = (weights * component.variance).sum(self._where)
        between = component.mean - self.mean.unsqueeze(self._where)
        return within + (weights * between.square()).sum(self._where)

    def cdf(self, value: Tensor) -> Tensor:
        if self.event_shape:
            raise self._missing("cdf of events that are not numbers")
        value = self._checked(value)
        each = self._component_distribution.cdf(value.unsqueeze(self._where))
        return (each * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        each = self._component_distribution.log_prob(value.unsqueeze(self._where))
        return (each + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            all_of_them = self._component_distribution.sample(sample_shape)
            place = chosen.reshape((*chosen.shape, *(1,) * (1 + len(self.event_shape))))
            place = place.expand((*chosen.shape, 1, *self.event_shape))
            return ops.gather(all_of_them, self._where, place).squeeze(self._where)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(\n  {self._mixture_distribution},\n"
            f"  {self._component_distribution})"
        )

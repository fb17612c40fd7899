"""Distributions of one choice among several, or of how often each is chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from adjoint import ops
from adjoint.core.dtypes import finfo
from adjoint.core.errors import AdjointError, ShapeError
from adjoint.distributions import constraints
from adjoint.distributions.constraints import Constraint
from adjoint.distributions.counts import Binomial
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.probabilities import Either, name_of_given
from adjoint.distributions.utils import broadcast_all, tensor_of
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor


class Categorical(Either):
    """The number of a choice; `probs` along the last dimension need not sum to 1.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Categorical
    >>> Categorical(ad.tensor([1.0, 3.0])).log_prob(ad.tensor([0, 1])).exp()
    tensor([0.2500, 0.7500])
    """

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    has_enumerate_support = True
    _is_binary = False

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._given = name_of_given(self, probs, logits)
        parameter = tensor_of(logits if probs is None else probs)
        if parameter.ndim < 1:
            raise ShapeError(f"Categorical: `{self._given}` must be at least one-dimensional")
        if probs is None:
            parameter = parameter.log_softmax(-1)
        else:
            parameter = parameter / parameter.sum(-1, True)
        self.__dict__[self._given] = parameter
        super().__init__(parameter.shape[:-1], (), validate_args)

    @property
    def _count(self) -> int:
        """How many choices there are."""
        return self._parameter.shape[-1]

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self._count - 1)

    @property
    def mean(self) -> Tensor:
        return self._parameter.new_full(self.batch_shape, math.nan)

    @property
    def variance(self) -> Tensor:
        return self.mean

    @property
    def mode(self) -> Tensor:
        return self._parameter.argmax(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            rows = self.probs.reshape((-1, self._count))
            drawn = ops.multinomial(rows, math.prod(sample_shape), True)
            return drawn.t().reshape(self._extended_shape(sample_shape)).detach()

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        place, logits = ops.broadcast_tensors([value.long().unsqueeze(-1), self.logits])
        return logits.gather(-1, place[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        finite = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(finite * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(ops.arange(self._count), expand=expand)


class OfChoices(Distribution):
    """Vectors with an element for each choice of a categorical distribution, which it holds."""

    arg_constraints: ClassVar[Any] = Categorical.arg_constraints

    def _hold_choices(self, probs: Any, logits: Any, validate_args: bool | None) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        Distribution.__init__(self, shape[:-1], shape[-1:], validate_args)

    @property
    def probs(self) -> Tensor:
        """Probabilities of the choices."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape


class OneHotCategorical(OfChoices):
    """A choice as a vector of one 1 and zeros.

    >>> import adjoint as ad
    >>> from adjoint.distributions import OneHotCategorical
    >>> OneHotCategorical(ad.tensor([0.0, 1.0])).sample()
    tensor([0., 1.])
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._hold_choices(probs, logits, validate_args)

    def _hot(self, choice: Tensor) -> Tensor:
        return ops.one_hot(choice, self.event_shape[0]).to(self._categorical._parameter.dtype)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._hot(self._categorical.mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        parameter = self._categorical._parameter
        values = ops.eye(self.event_shape[0], dtype=parameter.dtype, device=parameter.device)
        return self._enumerated(values, expand=expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A one-hot choice whose gradient is that of its probabilities (Bengio et al. 2013): biased.

    >>> import adjoint as ad
    >>> from adjoint.distributions import OneHotCategoricalStraightThrough
    >>> p = ad.tensor([0.0, 1.0], requires_grad=True)
    >>> OneHotCategoricalStraightThrough(p).rsample().detach()
    tensor([0., 1.])
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class WholeCount(AdjointError, NotImplementedError):
    """A count that is not one whole number."""


class Multinomial(OfChoices):
    """How often each choice is made among `total_count`, one whole number.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Multinomial
    >>> Multinomial(4, ad.tensor([1.0, 3.0])).mean
    tensor([1., 3.])
    """

    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise WholeCount(f"Multinomial: total_count is one whole number, got {total_count!r}")
        self.total_count = total_count
        self._hold_choices(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        chosen = self._categorical.sample((self.total_count, *sample_shape))
        return (
            ops.one_hot(chosen, self.event_shape[0]).sum(0).to(self._categorical._parameter.dtype)
        )

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        impossible = (value == 0) & (logits == -math.inf)  # and did not happen: 0 · (-∞) is 0
        return ways + (logits.where(~impossible, 0.0) * value).sum(-1)

    def entropy(self) -> Tensor:
        """n H(categorical) - log n! + Σᵢ E log xᵢ!; xᵢ alone is binomial."""
        n = self.total_count
        each = Binomial(n, probs=self.probs, validate_args=False)
        counts = each.enumerate_support(False)[1:]
        factorials = (each.log_prob(counts).exp() * (counts + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - math.lgamma(n + 1) + factorials

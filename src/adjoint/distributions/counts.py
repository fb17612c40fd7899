"""Distributions of whole numbers: of successes, failures, events."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from adjoint import ops
from adjoint.core.errors import AdjointError, ValueRangeError
from adjoint.distributions import constraints
from adjoint.distributions.constraints import Constraint
from adjoint.distributions.distribution import ExponentialFamily, uniform_like
from adjoint.distributions.gammas import Gamma
from adjoint.distributions.probabilities import Probabilities
from adjoint.distributions.utils import is_true, lazy_property, softplus
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor


class Bernoulli(Probabilities, ExponentialFamily):
    """1 with probability `probs`, else 0.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Bernoulli
    >>> Bernoulli(probs=0.25).log_prob(ad.tensor(1.0))
    tensor(-1.3863)
    """

    support = constraints.boolean
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._hold_either(probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return (self.probs >= 0.5).to(self.probs.dtype).where(self.probs != 0.5, math.nan)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape))).detach()

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return -value * softplus(-self.logits) - (1 - value) * softplus(self.logits)

    def entropy(self) -> Tensor:
        x = self.logits
        return x.sigmoid() * softplus(-x) + (-x).sigmoid() * softplus(x)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = ops.arange(2, dtype=self._parameter.dtype, device=self._parameter.device)
        return self._enumerated(values, expand=expand)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return softplus(x)

    @property
    def _mean_carrier_measure(self) -> float:
        return 0


class Geometric(Probabilities):
    """The number of failures before the first success, of probability `probs`.

    >>> from adjoint.distributions import Geometric
    >>> Geometric(probs=0.25).mean
    tensor(3.)
    """

    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._hold_either(probs, logits, validate_args)
        if self._validate_args and probs is not None and not is_true(self.probs > 0):
            raise ValueRangeError(
                f"Expected parameter probs (Tensor of shape {self.batch_shape}) of distribution "
                f"{self!r} to be positive, but found invalid values:\n{self.probs}"
            )

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            uniform = uniform_like(self.probs, self._extended_shape(sample_shape))
            return ((-uniform).log1p() / (-self.probs).log1p()).floor().detach()

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        if self._given == "probs":
            return ops.special_xlog1py(value, -self.probs) + self.probs.log()
        return -value * softplus(self.logits) - softplus(-self.logits)

    def entropy(self) -> Tensor:
        return (softplus(self.logits) - self.probs * self.logits) / self.probs


class InhomogeneousCount(AdjointError, NotImplementedError):
    """Counts that differ over a batch, where the support of all is asked for."""


class Binomial(Probabilities):
    """The number of successes among `total_count` trials, each of probability `probs`.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Binomial
    >>> Binomial(4, probs=ad.tensor(0.5)).log_prob(ad.tensor(2.0)).exp()
    tensor(0.3750)
    """

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.nonnegative_integer,
        **Probabilities.arg_constraints,
    }
    has_enumerate_support = True
    total_count: Tensor

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self._hold_either(probs, logits, validate_args, total_count=total_count)
        self.total_count = self.total_count.to(self._parameter.dtype)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ops.binomial(self.total_count.expand(shape), self.probs.expand(shape)).detach()

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        n = self.total_count
        choices = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return choices - value * softplus(-self.logits) - (n - value) * softplus(self.logits)

    def entropy(self) -> Tensor:
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        largest = int(self.total_count.max())
        if not is_true(self.total_count == largest):
            raise InhomogeneousCount(
                f"{self!r}: the support can be enumerated if total_count is the same everywhere"
            )
        dtype, device = self._parameter.dtype, self._parameter.device
        values = ops.arange(1 + largest, dtype=dtype, device=device)
        return self._enumerated(values, expand=expand)


class NegativeBinomial(Probabilities):
    """The number of successes before `total_count` failures; a success has probability `probs`.

    >>> import adjoint as ad
    >>> from adjoint.distributions import NegativeBinomial
    >>> NegativeBinomial(3, probs=ad.tensor(0.5)).mean
    tensor(3.)
    """

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    total_count: Tensor

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self._hold_either(probs, logits, validate_args, total_count=total_count)
        self.total_count = self.total_count.to(self._parameter.dtype)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _gamma(self) -> Gamma:
        """The distribution of the rate of a Poisson distribution: a mixture of them is ours."""
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return ops.poisson(self._gamma.sample(sample_shape)).detach()

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        n = self.total_count
        powers = -n * softplus(self.logits) - value * softplus(-self.logits)
        nothing = n + value == 0  # no trials: the only value is certain, and lgamma infinite
        choices = (n + value).where(~nothing, 1.0).lgamma() - (1 + value).lgamma()
        return powers + (choices - n.where(~nothing, 1.0).lgamma())


class Poisson(ExponentialFamily):
    """The number of events that happen independently, `rate` on average.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Poisson
    >>> Poisson(1.0).log_prob(ad.tensor(0.0))
    tensor(-1.)
    """

    arg_constraints: ClassVar[Any] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return ops.poisson(self.rate.expand(self._extended_shape(sample_shape))).detach()

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return ops.xlogy(value, self.rate) - self.rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.exp()

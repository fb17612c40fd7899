"""Continuous distributions near discrete ones: the nearer, the lower their temperature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from adjoint import ops
from adjoint.distributions import constraints
from adjoint.distributions.choices import OfChoices
from adjoint.distributions.combined import TransformedDistribution
from adjoint.distributions.distribution import uniform_like
from adjoint.distributions.probabilities import Probabilities
from adjoint.distributions.transforms import ExpTransform, SigmoidTransform
from adjoint.distributions.utils import clamp_probs, softplus, tensor_of
from adjoint.tensor.tensor import Tensor


class LogitRelaxedBernoulli(Probabilities):
    """The log-odds of a relaxed Bernoulli sample: (logits + L)/temperature, L logistic.

    >>> import adjoint as ad
    >>> from adjoint.distributions.relaxed import LogitRelaxedBernoulli
    >>> LogitRelaxedBernoulli(ad.tensor(1.0), probs=ad.tensor(0.5)).log_prob(ad.tensor(0.0))
    tensor(-1.3863)
    """

    support = constraints.real
    has_rsample = True
    _unexpanded = ("temperature",)

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._hold_either(probs, logits, validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        uniform = clamp_probs(uniform_like(self._parameter, self._extended_shape(sample_shape)))
        return (uniform.log() - (-uniform).log1p() + self.logits) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        difference = self.logits - value * self.temperature
        scale = tensor_of(self.temperature, difference.dtype)
        return scale.log() + difference - 2 * softplus(difference)


class _Relaxed(TransformedDistribution):
    """A transformed distribution with the parameters of the one below."""

    @property
    def temperature(self) -> Any:
        """How far from choices samples are."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log-odds, or logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self.base_dist.probs


class RelaxedBernoulli(_Relaxed):
    """A number in (0, 1), nearly 0 or 1 at a low temperature (Maddison et al. 2017).

    >>> import adjoint as ad
    >>> from adjoint.distributions import RelaxedBernoulli
    >>> d = RelaxedBernoulli(ad.tensor(1.0), probs=ad.tensor(0.5))
    >>> d.log_prob(ad.tensor(0.25)).abs() < 1e-6
    tensor(True)
    """

    arg_constraints: ClassVar[Any] = Probabilities.arg_constraints
    support: Any = constraints.unit_interval

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args)


class ExpRelaxedCategorical(OfChoices):
    """The logarithm of a relaxed one-hot sample: log-softmax((logits + G)/temperature), G Gumbel.

    >>> import adjoint as ad
    >>> from adjoint.distributions.relaxed import ExpRelaxedCategorical
    >>> d = ExpRelaxedCategorical(ad.tensor(1.0), probs=ad.tensor([0.5, 0.5]))
    >>> d.event_shape
    (2,)
    """

    support = constraints.real_vector  # in fact those whose exponentials sum to 1
    has_rsample = True
    _unexpanded = ("temperature",)

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._hold_choices(probs, logits, validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        uniform = clamp_probs(uniform_like(self._categorical._parameter, shape))
        scores = (self.logits - (-uniform.log()).log()) / self.temperature
        return scores.log_softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """(K - 1)! Tᴷ⁻¹ Π pₖ e^(-T xₖ) / (Σ pₖ e^(-T xₖ))ᴷ, its logarithm."""
        value = self._checked(value)
        count = float(self.event_shape[0])
        scores = (self.logits - value * self.temperature).log_softmax(-1).sum(-1)
        scale = tensor_of(self.temperature, scores.dtype)
        constant = ops.full_like(scale, count).lgamma() + (count - 1) * scale.log()
        return scores + constant


class RelaxedOneHotCategorical(_Relaxed):
    """A vector of probabilities, nearly one-hot at a low temperature (Maddison et al. 2017).

    >>> import adjoint as ad
    >>> from adjoint.distributions import RelaxedOneHotCategorical
    >>> d = RelaxedOneHotCategorical(ad.tensor(0.5), probs=ad.ones(3))
    >>> ad.allclose(d.rsample().sum(), ad.tensor(1.0))
    True
    """

    arg_constraints: ClassVar[Any] = OfChoices.arg_constraints
    support: Any = constraints.simplex

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args)

"""Distributions with tails that are powers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from adjoint import ops
from adjoint.distributions import constraints
from adjoint.distributions.combined import TransformedDistribution
from adjoint.distributions.constraints import Constraint
from adjoint.distributions.distribution import Located, uniform_like
from adjoint.distributions.gammas import Exponential, where_above
from adjoint.distributions.narrow import in_double
from adjoint.distributions.transforms import AffineTransform, ExpTransform
from adjoint.distributions.utils import below_one, root
from adjoint.tensor.tensor import Tensor


class Pareto(TransformedDistribution):
    """The Pareto distribution: more than x with probability (scale/x)^alpha, x ≥ scale.

    >>> from adjoint.distributions import Pareto
    >>> Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {
        "alpha": constraints.positive,
        "scale": constraints.positive,
    }
    alpha: Tensor
    scale: Tensor

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, scale=scale, alpha=alpha)
        base = Exponential(self.alpha, validate_args=False)
        transforms = [ExpTransform(), AffineTransform(0, self.scale)]
        super().__init__(base, transforms, validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        return where_above(self.alpha, 1, lambda a: a * self.scale / (a - 1))

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        finite = lambda a: self.scale.square() * a / ((a - 1).square() * (a - 2))
        return where_above(self.alpha, 2, finite)

    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        far = value > 2 * self.scale  # there the power keeps the digits that its logarithm rounds
        excess = ((value - self.scale) / self.scale).where(~far, 0.0).clamp(min=0)
        beyond = (self.scale / value.where(far, self.scale)).pow(self.alpha)
        return ops.where(far, 1 - beyond, -(-self.alpha * excess.log1p()).expm1())

    def icdf(self, value: Tensor) -> Tensor:
        return self.scale / below_one(value, self.alpha)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class GeneralizedPareto(Located):
    """The excess over a high threshold: more than z with probability (1 + ξz)^(-1/ξ).

    ξ is `concentration`, z = (x - loc)/scale; ξ = 0 is the exponential distribution, and ξ < 0
    ends at z = -1/ξ.

    >>> import adjoint as ad
    >>> from adjoint.distributions import GeneralizedPareto
    >>> GeneralizedPareto(0.0, 1.0, 0.0).log_prob(ad.tensor(2.0))
    tensor(-2.)
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    scale: Tensor
    concentration: Tensor

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self._hold(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        below_zero = self.concentration < 0
        k = self.concentration.where(below_zero, -1.0)
        end = (self.loc - self.scale / k).where(below_zero, math.inf)
        return constraints.interval(self.loc, end)

    @property
    def mean(self) -> Tensor:
        k = -self.concentration
        return where_above(k, -1, lambda k: self.loc + self.scale / (1 + k))

    @property
    def variance(self) -> Tensor:
        k = -self.concentration
        finite = lambda k: self.scale.square() / ((1 + k).square() * (1 + 2 * k))
        return where_above(k, -0.5, finite)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(uniform_like(self.loc, self._extended_shape(sample_shape)))

    def log_survival_function(self, value: Tensor) -> Tensor:
        """log P(more than `value`) = -log(1 + ξz)/ξ."""
        return -_log1p_over(self.concentration, (value - self.loc) / self.scale)

    @in_double
    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        k, z = self.concentration, (value - self.loc) / self.scale
        over, heavy = _log1p_over(k, z), k > 0  # parts that have one sign where heavy
        apart = (k * z).where(heavy, 0.0).log1p() + over
        return -ops.where(heavy, apart, (1 + k) * over) - self.scale.log()

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of the distribution function."""
        return self.cdf(value).log()

    @in_double
    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        k, z = self.concentration, (value - self.loc) / self.scale
        far = k * z > _FAR  # there the power keeps the digits that its logarithm rounds
        shift, steep = (k * z).where(far, 1.0), k.where(far, 1.0)
        below = -(-_log1p_over(k.where(~far, 0.0), z.where(~far, 0.0))).expm1()
        return ops.where(far, 1 - 1 / root(1 + shift, steep), below)

    @in_double
    def icdf(self, value: Tensor) -> Tensor:
        """loc + scale (e^(ξt) - 1)/ξ, t = -log(1 - u)."""
        t, k = -(-value).log1p(), self.concentration
        far = k * t > _FAR
        steep = k.where(far, 1.0)
        above = ((1 - value).where(far, 1.0).pow(-steep) - 1) / steep
        near = _expm1_over(k.where(~far, 0.0), t.where(~far, 0.0))
        return self.loc + self.scale * ops.where(far, above, near)

    def entropy(self) -> Tensor:
        return (self.scale.log() + self.concentration + 1).broadcast_to(self.batch_shape)


_FAR = 3.0  # an exponent, or what is added to 1, beyond which nothing cancels by closed forms


def _log1p_over(k: Tensor, z: Tensor) -> Tensor:
    """log(1 + kz)/k, and z where k is 0."""
    shift = k * z
    far = shift > _FAR
    near = z * ops._analytic_derivative(shift.where(~far, 0.0), "log1prel", 0)
    return ops.where(far, shift.where(far, 1.0).log1p() / k.where(far, 1.0), near)


def _expm1_over(k: Tensor, t: Tensor) -> Tensor:
    """(e^(kt) - 1)/k, and t where k is 0."""
    return t * ops._analytic_derivative(k * t, "exprel", 0)

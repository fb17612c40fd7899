"""Continuous distributions on an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from adjoint import ops
from adjoint.distributions import constraints
from adjoint.distributions.combined import TransformedDistribution
from adjoint.distributions.constraints import Constraint
from adjoint.distributions.distribution import Distribution, ExponentialFamily, uniform_like
from adjoint.distributions.gammas import EULER, Beta
from adjoint.distributions.narrow import in_double
from adjoint.distributions.probabilities import Probabilities
from adjoint.distributions.transforms import AffineTransform, PowerTransform
from adjoint.distributions.utils import clamp_probs, log1mexp, root
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.jacobians import jvp

_HALF_LOG_2PI = math.log(2 * math.pi) / 2


class Uniform(Distribution):
    """The uniform distribution between `low` and `high`.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Uniform
    >>> Uniform(0.0, 4.0).cdf(ad.tensor(1.0))
    tensor(0.2500)
    """

    has_rsample = True
    low: Tensor
    high: Tensor

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, low=low, high=high)

    @property
    def arg_constraints(  # pyright: ignore[reportIncompatibleVariableOverride]
        self,
    ) -> dict[str, Constraint]:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return math.nan * self.high

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        uniform = uniform_like(self.low, self._extended_shape(sample_shape))
        return self.low + uniform * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        inside = (value >= self.low) & (value < self.high)
        return (-(self.high - self.low).log()).where(inside, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return self.low + value * (self.high - self.low)

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class Kumaraswamy(TransformedDistribution):
    """The Kumaraswamy distribution, on (0, 1) as the beta: F(x) = 1 - (1 - xᵃ)ᵇ.

    a is `concentration1`, b is `concentration0`.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Kumaraswamy
    >>> Kumaraswamy(2.0, 1.0).cdf(ad.tensor(0.5))
    tensor(0.2500)
    """

    arg_constraints: ClassVar[Any] = Beta.arg_constraints
    support: Any = constraints.unit_interval
    concentration1: Tensor
    concentration0: Tensor

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self._hold(validate_args, concentration1=concentration1, concentration0=concentration0)
        zeros = ops.zeros_like(self.concentration0)
        base = Uniform(zeros, zeros + 1, validate_args=False)
        transforms = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(base, transforms, validate_args)

    def _log_moment(self, n: int) -> Tensor:
        """log E xⁿ = log b B(1 + n/a, b)."""
        arg = 1 + n / self.concentration1
        b = self.concentration0
        return b.log() + arg.lgamma() + b.lgamma() - (arg + b).lgamma()

    @property
    def mean(self) -> Tensor:
        return self._log_moment(1).exp()

    @property
    def mode(self) -> Tensor:
        """((a - 1)/(ab - 1))^(1/a), if both are at least 1 and not both are 1."""
        a, b = self.concentration1, self.concentration0
        exists = (a >= 1) & (b >= 1) & (a * b > 1)
        a, b = a.where(exists, 2.0), b.where(exists, 2.0)
        return ((a - 1) / (a * b - 1)).pow(a.reciprocal()).where(exists, math.nan)

    @property
    def variance(self) -> Tensor:
        return self._log_moment(2).exp() - self.mean.square()

    @in_double
    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        a, b = self.concentration1, self.concentration0
        inside = (value > 0) & (value < 1)
        inner = (b - 1) * log1mexp(ops.xlogy(a, value).where(inside, -1.0))
        ends = ops.special_xlog1py(b - 1, -value.pow(a))
        return a.log() + b.log() + ops.xlogy(a - 1, value) + ops.where(inside, inner, ends)

    @in_double
    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        inside = (value > 0) & (value < 1)
        a, b, x = self.concentration1, self.concentration0, value.where(inside, 0.5)
        low = x.pow(a) < 0.5
        small = x.where(low, 0.5).pow(a).where(low, 0.25)
        rest = -(a * x.where(~low, 0.5).log()).expm1()  # 1 - xᵃ
        log_rest = ops.where(low, (-small).log1p(), rest.log())
        most = ~low & (b * log_rest < -1)  # there powers keep the digits that logarithms round
        above = rest.where(most, 1.0).pow(b)
        below = ops.where(most, 1 - above, -(b * log_rest.where(~most, 0.0)).expm1())
        return ops.where(inside, below, value.clamp(0, 1))

    @in_double
    def icdf(self, value: Tensor) -> Tensor:
        inner = -((-value).log1p() / self.concentration0).expm1()
        return root(inner, self.concentration1)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + EULER
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


class TruncatedNormal(Distribution):
    """A normal number that lies between `low` and `high`, which may be infinite. Not in PyTorch.

    Samples are quantiles of uniform numbers, so they move with all four parameters.

    >>> import adjoint as ad
    >>> from adjoint.distributions import TruncatedNormal
    >>> TruncatedNormal(0.0, 1.0, 0.0, ad.inf).mean
    tensor(0.7979)
    """

    has_rsample = True
    loc: Tensor
    scale: Tensor
    low: Tensor
    high: Tensor

    def __init__(
        self, loc: Any, scale: Any, low: Any, high: Any, validate_args: bool | None = None
    ) -> None:
        self._hold(validate_args, loc=loc, scale=scale, low=low, high=high)

    @property
    def arg_constraints(  # pyright: ignore[reportIncompatibleVariableOverride]
        self,
    ) -> dict[str, Constraint]:
        return {
            "loc": constraints.real,
            "scale": constraints.positive,
            "low": constraints.less_than(self.high),
            "high": constraints.greater_than(self.low),
        }

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        return constraints.interval(self.low, self.high)

    def _ends(self) -> tuple[Tensor, Tensor, Tensor]:
        """Whether we look from the other side, and both ends in standard deviations from there.

        From the side on which more than half of the interval is negative, whose probabilities are
        small numbers rather than numbers near 1.
        """
        low, high = (self.low - self.loc) / self.scale, (self.high - self.loc) / self.scale
        mirrored = low + high > 0
        return mirrored, ops.where(mirrored, -high, low), ops.where(mirrored, -low, high)

    def _log_levels(self) -> tuple[Tensor, Tensor, Tensor]:
        """Whether mirrored, log Φ(upper end), and log(Φ(lower end)/Φ(upper end))."""
        mirrored, low, high = self._ends()
        finite = low > -math.inf
        log_low = ops.special_log_ndtr(low.where(finite, 0.0)).where(finite, -math.inf)
        log_high = ops.special_log_ndtr(high)
        return mirrored, log_high, log_low - log_high

    def _log_mass(self) -> Tensor:
        """The logarithm of the probability of the interval."""
        _, log_high, log_ratio = self._log_levels()
        return log_high + (-log_ratio.exp()).log1p()

    def _edges(self) -> tuple[Tensor, Tensor]:
        """Moments at the edges: φ(a) - φ(b) and a φ(a) - b φ(b), over the mass."""
        mass = self._log_mass()
        heights, moments = [], []
        for end in (self.low, self.high):
            finite = end.abs() < math.inf
            z = ((end - self.loc) / self.scale).where(finite, 0.0)
            height = (-z.square() / 2 - _HALF_LOG_2PI - mass).exp().where(finite, 0.0)
            heights.append(height)
            moments.append(z * height)
        return heights[0] - heights[1], moments[0] - moments[1]

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * self._edges()[0]

    @property
    def mode(self) -> Tensor:
        return self.loc.clamp(self.low, self.high)

    @property
    def variance(self) -> Tensor:
        first, second = self._edges()
        return self.scale.square() * (1 + second - first.square())

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(clamp_probs(uniform_like(self.loc, self._extended_shape(sample_shape))))

    @in_double
    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        z = (value - self.loc) / self.scale
        inside = (value >= self.low) & (value <= self.high)
        density = z * (z * -0.5) - _HALF_LOG_2PI - self.scale.log() - self._log_mass()
        return density.where(inside, -math.inf)

    @in_double
    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        mirrored, log_high, log_ratio = self._log_levels()
        z = (value.clamp(self.low, self.high) - self.loc) / self.scale
        level = (ops.special_log_ndtr(ops.where(mirrored, -z, z)) - log_high).exp()
        inside = (level - log_ratio.exp()) / -log_ratio.expm1()
        return ops.where(mirrored, 1 - inside, inside)

    @in_double
    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles, exact for intervals up to 37 standard deviations from `loc`."""
        mirrored, log_high, log_ratio = self._log_levels()
        level = ops.where(mirrored, 1 - value, value)
        ratio = log_ratio.exp()
        z = ops.special_ndtri(log_high.exp() * (ratio + level * (1 - ratio)))
        return self.loc + self.scale * ops.where(mirrored, -z, z)

    def entropy(self) -> Tensor:
        return 0.5 + _HALF_LOG_2PI + self.scale.log() + self._log_mass() + self._edges()[1] / 2


class ContinuousBernoulli(Probabilities, ExponentialFamily):
    """Densities λˣ (1 - λ)¹⁻ˣ on [0, 1] over their integral; λ is `probs` (Loaiza-Ganem 2019).

    In the log-odds ℓ this is e^(ℓx - A(ℓ)), A(ℓ) = log((e^ℓ - 1)/ℓ), from which all else follows.
    Where λ lies between the `lims`, so that ℓ is near 0, quantiles are a series in ℓ.

    >>> import adjoint as ad
    >>> from adjoint.distributions import ContinuousBernoulli
    >>> ContinuousBernoulli(probs=ad.tensor(0.5)).mean
    tensor(0.5000)
    """

    arg_constraints: ClassVar[Any] = Probabilities.arg_constraints
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._lims = lims
        self._hold_either(probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        """A'(ℓ)."""
        return _slope_of_log_integral(self.logits)

    @property
    def variance(self) -> Tensor:
        """A''(ℓ)."""
        ones = ops.ones_like(self.logits)
        return jvp(_slope_of_log_integral, (self.logits,), (ones,))[1]

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(uniform_like(self._parameter, self._extended_shape(sample_shape)))

    @in_double
    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        steep = self.logits  # A(ℓ) = ℓ + A(-ℓ): where ℓ is large, ℓ itself cancels
        falling = value * steep - _log_integral(steep)
        rising = (value - 1) * steep - _log_integral(-steep)
        return ops.where(steep > 0, rising, falling)

    @in_double
    def cdf(self, value: Tensor) -> Tensor:
        """(e^(ℓx) - 1)/(e^ℓ - 1) = x e^(A(ℓx) - A(ℓ))."""
        value = self._checked(value)
        x = value.clamp(0, 1)
        return x * (_log_integral(self.logits * x) - _log_integral(self.logits)).exp()

    @in_double
    def icdf(self, value: Tensor) -> Tensor:
        """log(1 + u (e^ℓ - 1))/ℓ; if that is large, by symmetry 1 minus the quantile of 1 - u for
        -ℓ."""
        logits, probs = self.logits, self.probs
        straight = value * logits.clamp(max=700).expm1() < 1
        u = ops.where(straight, value, 1 - value)
        steep = ops.where(straight, logits, -logits)
        near = (probs > self._lims[0]) & (probs < self._lims[1])
        closed = _quantile(steep.where(~near, 1.0), u)
        quantile = ops.where(near, _flat_quantile(steep, u), closed)
        return ops.where(straight, quantile, 1 - quantile)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return _log_integral(x)

    @property
    def _mean_carrier_measure(self) -> float:
        return 0


def _quantile(logits: Tensor, u: Tensor) -> Tensor:
    return (u * logits.expm1()).log1p() / logits


def _flat_quantile(logits: Tensor, u: Tensor) -> Tensor:
    """The quantile near ℓ = 0: Σ κₙ ℓⁿ⁻¹/n!, κ the cumulants of a Bernoulli distribution of u."""
    spread, skew = u * (1 - u), 1 - 2 * u
    cumulants = (
        u,
        spread,
        spread * skew,
        spread * (1 - 6 * spread),
        spread * skew * (1 - 12 * spread),
    )
    total: Any = 0
    for n, cumulant in enumerate(cumulants):
        total = total + cumulant * logits.pow(n) / math.factorial(n + 1)
    return total


# log(sinh h/h) = Σ cₖ h²ᵏ, cₖ = 2²ᵏ B₂ₖ / (2k (2k)!), which is exact to rounding for |h| < 1/4
_LOG_SINHC = (
    1 / 6,
    -1 / 180,
    1 / 2835,
    -1 / 37800,
    1 / 467775,
    -691 / 3831077250,
    2 / 127702575,
    -3617 / 2605132530000,
    43867 / 350813659321125,
    -174611 / 15313294652906250,
)


def _log_integral(logits: Tensor) -> Tensor:
    """A(ℓ) = log((e^ℓ - 1)/ℓ) = h + log(sinh h/h), h = ℓ/2, by a series where |h| < 1/4."""
    half = logits / 2
    near = half.abs() < 0.25
    square = half.where(near, 0.0).square()
    series = ops.zeros_like(half)
    for c in reversed(_LOG_SINHC):
        series = (series + c) * square
    size = ops.where(logits < 0, -logits, logits)  # without the kink, next to which digits are lost
    middle = size < 3  # where derivatives of the closed form cancel
    between = ops._analytic_derivative(-size.where(middle & ~near, 1.0), "exprel", 0).log()
    far = size.where(~middle, 3.0)
    closed = logits.clamp(min=0) + ops.where(middle, between, (-(-far).expm1()).log() - far.log())
    return ops.where(near, half + series, closed)


def _slope_of_log_integral(logits: Tensor) -> Tensor:
    return jvp(_log_integral, (logits,), (ops.ones_like(logits),))[1]

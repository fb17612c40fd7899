"""Continuous distributions on an interval."""

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.distributions import made
from adjoint.distributions.combined import TransformedDistribution as TransformedDistribution
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.distribution import ExponentialFamily as ExponentialFamily
from adjoint.distributions.gammas import EULER as EULER
from adjoint.distributions.made import HALF_LOG_2PI
from adjoint.distributions.probabilities import Probabilities as Probabilities
from adjoint.distributions.transforms.elements import AffineTransform as AffineTransform
from adjoint.distributions.transforms.elements import PowerTransform as PowerTransform
from adjoint.distributions.utils import clamp_probs as clamp_probs
from adjoint.distributions.utils import log1mexp as log1mexp
from adjoint.distributions.utils import root as root
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.jacobians import jvp

__getattr__, __dir__, __all__ = made.door(globals())


class Truncated(Distribution):
    """What a normal distribution between two ends is computed from."""

    loc: Tensor
    scale: Tensor
    low: Tensor
    high: Tensor

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
            height = (-z.square() / 2 - HALF_LOG_2PI - mass).exp().where(finite, 0.0)
            heights.append(height)
            moments.append(z * height)
        return heights[0] - heights[1], moments[0] - moments[1]


def quantile(logits: Tensor, u: Tensor) -> Tensor:
    return (u * logits.expm1()).log1p() / logits


def flat_quantile(logits: Tensor, u: Tensor) -> Tensor:
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


def log_integral(logits: Tensor) -> Tensor:
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


def slope_of_log_integral(logits: Tensor) -> Tensor:
    return jvp(log_integral, (logits,), (ops.ones_like(logits),))[1]

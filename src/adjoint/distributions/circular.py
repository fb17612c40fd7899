"""Distributions of angles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from adjoint import ops
from adjoint.distributions import constraints
from adjoint.distributions.distribution import Located
from adjoint.tensor.tensor import Tensor


class VonMises(Located):
    """The von Mises distribution, the normal distribution of angles, in radians.

    Samples lie in [-π, π) and move with both parameters, by implicit reparameterisation.

    >>> import adjoint as ad
    >>> from adjoint.distributions import VonMises
    >>> VonMises(ad.tensor(0.0), ad.tensor(1.0)).log_prob(ad.tensor(0.0))
    tensor(-1.0738)
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "concentration": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    concentration: Tensor

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, loc=loc, concentration=concentration)

    @property
    def mean(self) -> Tensor:
        """The circular mean."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance, 1 - I₁(κ)/I₀(κ)."""
        kappa = self.concentration
        return 1 - ops.special_i1e(kappa) / ops.special_i0e(kappa)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        angle = self.loc + ops._standard_von_mises(self.concentration.expand(shape))
        turns = ((angle + math.pi) / (2 * math.pi)).floor()
        return angle - 2 * math.pi * turns

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        kappa = self.concentration
        below_peak = kappa * ((value - self.loc).cos() - 1)
        return below_peak - math.log(2 * math.pi) - ops.special_i0e(kappa).log()

    def entropy(self) -> Tensor:
        """log 2π I₀(κ) - κ I₁(κ)/I₀(κ)."""
        kappa = self.concentration
        return math.log(2 * math.pi) + ops.special_i0e(kappa).log() + kappa * self.variance

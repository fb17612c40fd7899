"""Transforms of single numbers."""

from __future__ import annotations

import math
from typing import Any

from adjoint.core.dtypes import finfo
from adjoint.core.shapes import Shape, broadcast
from adjoint.distributions import constraints, made
from adjoint.distributions.constraints import Constraint
from adjoint.distributions.transforms.base import Transform, independent
from adjoint.distributions.utils import broadcast_all, softplus, sum_rightmost, tensor_of
from adjoint.tensor.tensor import Tensor


def inside_unit(y: Tensor) -> Tensor:
    limits = finfo(y.dtype)
    return y.clamp(limits.tiny, 1 - limits.eps)


def log_slope_of_tanh(x: Tensor) -> Tensor:
    """log(1 - tanh² x) = 2 (log 2 - x - softplus(-2x)), exact where tanh x rounds to 1."""
    return 2 * (math.log(2) - x - softplus(-2 * x))


__getattr__, __dir__, __all__ = made.door(
    globals(), "AffineTransform", "CumulativeDistributionTransform", "PowerTransform"
)


class PowerTransform(Transform):
    """y = xᵉ for x > 0.

    >>> import adjoint as ad
    >>> from adjoint.distributions import PowerTransform
    >>> PowerTransform(2.0)(ad.tensor(3.0))
    tensor(9.)
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True
    parameters = ("exponent",)

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @property
    def sign(self) -> Tensor:
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Shape) -> Shape:
        return broadcast("PowerTransform", shape, self.exponent.shape)

    inverse_shape = forward_shape


class AffineTransform(Transform):
    """y = loc + scale · x; the last `event_dim` dimensions are one event.

    >>> import adjoint as ad
    >>> from adjoint.distributions import AffineTransform
    >>> AffineTransform(1.0, 2.0)(ad.tensor(3.0))
    tensor(7.)
    """

    bijective = True
    parameters = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def domain(self) -> Constraint:
        return independent(constraints.real, self._event_dim)

    codomain = domain

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        slope = tensor_of(self.scale, x.dtype).abs().log()
        return sum_rightmost(
            slope.expand(broadcast("AffineTransform", x.shape, slope.shape)), self._event_dim
        )

    def forward_shape(self, shape: Shape) -> Shape:
        shapes = [getattr(p, "shape", ()) for p in (self.loc, self.scale)]
        return broadcast("AffineTransform", shape, *shapes)

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """y = F(x), the distribution function of a distribution: numbers to the unit interval.

    Its composition with the inverse of another makes a copula or an inverse-CDF sampler.

    >>> import adjoint as ad
    >>> from adjoint.distributions import CumulativeDistributionTransform, Normal
    >>> CumulativeDistributionTransform(Normal(0.0, 1.0))(ad.tensor(0.0))
    tensor(0.5000)
    """

    bijective = True
    codomain = constraints.unit_interval
    sign: Any = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Constraint:
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

"""Transforms of single numbers."""

from __future__ import annotations

import math
from typing import Any

from adjoint.core.dtypes import finfo
from adjoint.core.shapes import Shape, broadcast
from adjoint.distributions import constraints
from adjoint.distributions.constraints import Constraint
from adjoint.distributions.transforms.base import Transform, independent
from adjoint.distributions.utils import broadcast_all, softplus, sum_rightmost, tensor_of
from adjoint.tensor.tensor import Tensor


class _Increasing(Transform):
    """An increasing function of a number, without parameters."""

    bijective = True
    sign: Any = 1
    domain = constraints.real
    codomain = constraints.positive
    parameters = ()


class ExpTransform(_Increasing):
    """y = eˣ.

    >>> import adjoint as ad
    >>> from adjoint.distributions import ExpTransform
    >>> ExpTransform()(ad.tensor(0.0))
    tensor(1.)
    """

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SoftplusTransform(_Increasing):
    """y = log(1 + eˣ).

    >>> import adjoint as ad
    >>> from adjoint.distributions import SoftplusTransform
    >>> SoftplusTransform()(ad.tensor(0.0))
    tensor(0.6931)
    """

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class SigmoidTransform(_Increasing):
    """y = 1/(1 + e⁻ˣ), kept off 0 and 1 so that it has an inverse.

    >>> import adjoint as ad
    >>> from adjoint.distributions import SigmoidTransform
    >>> SigmoidTransform()(ad.tensor(0.0))
    tensor(0.5000)
    """

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return _inside_unit(x.sigmoid())

    def _inverse(self, y: Tensor) -> Tensor:
        y = _inside_unit(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


def _inside_unit(y: Tensor) -> Tensor:
    limits = finfo(y.dtype)
    return y.clamp(limits.tiny, 1 - limits.eps)


class TanhTransform(_Increasing):
    """y = tanh x.

    >>> import adjoint as ad
    >>> from adjoint.distributions import TanhTransform
    >>> TanhTransform()(ad.tensor(0.0))
    tensor(0.)
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return log_slope_of_tanh(x)


def log_slope_of_tanh(x: Tensor) -> Tensor:
    """log(1 - tanh² x) = 2 (log 2 - x - softplus(-2x)), exact where tanh x rounds to 1."""
    return 2 * (math.log(2) - x - softplus(-2 * x))


class AbsTransform(Transform):
    """y = |x|, whose inverse takes x ≥ 0.

    >>> import adjoint as ad
    >>> from adjoint.distributions import AbsTransform
    >>> AbsTransform()(ad.tensor(-2.0))
    tensor(2.)
    """

    domain = constraints.real
    codomain = constraints.positive
    parameters = ()

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


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

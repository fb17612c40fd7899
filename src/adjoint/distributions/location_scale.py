"""Distributions with a location and a scale: (x - loc)/scale has one that is standard."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from adjoint import ops
from adjoint.core.dtypes import finfo
from adjoint.distributions import constraints
from adjoint.distributions.combined import TransformedDistribution
from adjoint.distributions.distribution import (
    ExponentialFamily,
    Located,
    noise_like,
    uniform_like,
)
from adjoint.distributions.gammas import EULER, Exponential, mean_square
from adjoint.distributions.narrow import in_double
from adjoint.distributions.transforms import AbsTransform, AffineTransform, ExpTransform
from adjoint.distributions.utils import log1p_square
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor

_HALF_LOG_2PI = math.log(2 * math.pi) / 2


class _LocationScale(Located):
    """Two parameters, samples along the real line."""

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, loc=loc, scale=scale)

    def _standard(self, value: Tensor) -> Tensor:
        """(value - loc)/scale, of a value that was checked."""
        value = self._checked(value)
        return (value - self.loc) / self.scale


class Normal(_LocationScale, ExponentialFamily):
    """The normal distribution of mean `loc` and standard deviation `scale`.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Normal
    >>> Normal(0.0, 1.0).log_prob(ad.tensor(0.0))
    tensor(-0.9189)
    """

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self.rsample(sample_shape).detach()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.loc + self.scale * noise_like(self.loc, self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return z * (z * -0.5) - self.scale.log() - _HALF_LOG_2PI  # z² may be infinite before z²/2

    def cdf(self, value: Tensor) -> Tensor:
        return ops.special_ndtr(self._standard(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * ops.special_ndtri(value)

    def entropy(self) -> Tensor:
        return 0.5 + _HALF_LOG_2PI + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.loc / self.variance, -0.5 / self.variance

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return -0.25 * x.square() / y + 0.5 * (-math.pi / y).log()

    @property
    def _mean_carrier_measure(self) -> float:
        return 0


class Laplace(_LocationScale):
    """The Laplace distribution: two exponential distributions, back to back.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Laplace
    >>> Laplace(0.0, 1.0).log_prob(ad.tensor(0.0))
    tensor(-0.6931)
    """

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + self.scale * _laplace_quantile(uniform_like(self.loc, shape) - 0.5)

    def log_prob(self, value: Tensor) -> Tensor:
        return -self._standard(value).abs() - (2 * self.scale).log()

    def cdf(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        below = z < 0
        lower, upper = z.where(below, 0.0), -z.where(~below, 0.0)
        return ops.where(below, lower.exp() / 2, 0.5 - upper.expm1() / 2)

    def icdf(self, value: Tensor) -> Tensor:
        below = value < 0.5
        lower, upper = value.where(below, 0.5), value.where(~below, 0.5)
        return self.loc + self.scale * ops.where(below, (2 * lower).log(), -(2 - 2 * upper).log())

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


def _laplace_quantile(offset: Tensor) -> Tensor:
    """The quantile of 1/2 + offset; that of -1/2, which may be drawn, is kept finite."""
    largest = 1 - finfo(offset.dtype).eps
    return -offset.sign() * (-(2 * offset.abs()).clamp(max=largest)).log1p()


class Cauchy(_LocationScale):
    """The Cauchy distribution: the ratio of two normal numbers. It has no mean.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Cauchy
    >>> Cauchy(0.0, 1.0).cdf(ad.tensor(1.0))
    tensor(0.7500)
    """

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return ops.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        uniform = uniform_like(self.loc, self._extended_shape(sample_shape))
        return self.loc + self.scale * (math.pi * (uniform - 0.5)).tan()

    def log_prob(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return -math.log(math.pi) - self.scale.log() - log1p_square(z)

    @in_double
    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return ops.atan2(self.scale.expand_as(self.loc - value), self.loc - value) / math.pi

    @in_double
    def icdf(self, value: Tensor) -> Tensor:
        """tan π(p - 1/2), from the nearer end of (0, 1): -cot πp below."""
        middle = (value - 0.5).abs() < 0.25
        end = ops.where(value < 0.5, value, 1 - value).where(~middle, 0.25)
        outside = (value - 0.5).sign() / (math.pi * end).tan()
        inside = (math.pi * (value.where(middle, 0.5) - 0.5)).tan()
        return self.loc + self.scale * ops.where(middle, inside, outside)

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class StudentT(Located):
    """Student's t-distribution of `df` degrees of freedom: a normal over a root of a Chi2.

    >>> import adjoint as ad
    >>> from adjoint.distributions import StudentT
    >>> StudentT(2.0).cdf(ad.tensor(0.0))
    tensor(0.5000)
    """

    arg_constraints: ClassVar[Any] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    df: Tensor
    scale: Tensor

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self._hold(validate_args, df=df, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        return self.loc.where(self.df > 1, math.nan)

    @property
    def variance(self) -> Tensor:
        excess = (self.df - 2).where(self.df > 2, 1)  # elsewhere it does not matter
        finite = self.scale.square() * self.df / excess
        return finite.where(self.df > 2, math.inf).where(self.df > 1, math.nan)

    # With few degrees of freedom samples reach the ends of float32, and their squares lie beyond:
    # squares are those of double precision.

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape, limits = self._extended_shape(sample_shape), finfo(self.loc.dtype)
        t = noise_like(self.loc, shape) * mean_square(self.df, shape).rsqrt()
        moved = self.loc.double() + self.scale.double() * t
        return moved.clamp(limits.min, limits.max).to(self.loc.dtype)

    def _wide(self, value: Tensor) -> Tensor:
        return (value.double() - self.loc.double()) / self.scale.double()

    def _log_constant(self) -> Tensor:
        """log √(df) B(1/2, df/2)."""
        half = self.df / 2
        return 0.5 * self.df.log() + ops.special_betaln(half, ops.full_like(half, 0.5))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        density = ops._student_log_density(self._wide(value), self.df.double())
        return density.to((value - self.loc).dtype) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        level = ops._student_cdf(self._wide(value), self.df.double())
        return level.to((value - self.loc).dtype)

    def entropy(self) -> Tensor:
        half = (self.df + 1) / 2
        spread = half * (half.digamma() - (self.df / 2).digamma())
        return spread + self._log_constant() + self.scale.log()


class Gumbel(TransformedDistribution):
    """The Gumbel distribution, of the largest of many: loc - scale · log E, E exponential.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Gumbel
    >>> Gumbel(0.0, 1.0).cdf(ad.tensor(0.0))
    tensor(0.3679)
    """

    arg_constraints: ClassVar[Any] = _LocationScale.arg_constraints
    support: Any = constraints.real
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, loc=loc, scale=scale)
        transforms = [ExpTransform().inv, AffineTransform(self.loc, -self.scale)]
        base = Exponential(ops.ones_like(self.scale), validate_args=False)
        super().__init__(base, transforms, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def _exponent(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return (self.loc - value) / self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        y = self._exponent(value)
        return y - y.exp() - self.scale.log()

    @in_double
    def cdf(self, value: Tensor) -> Tensor:
        return (-self._exponent(value).exp()).exp()

    @in_double
    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + EULER)


class LogNormal(TransformedDistribution):
    """The distribution of the exponential of a normal number.

    >>> from adjoint.distributions import LogNormal
    >>> LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    arg_constraints: ClassVar[Any] = _LocationScale.arg_constraints
    support: Any = constraints.positive

    log_prob = in_double(TransformedDistribution.log_prob)
    cdf = in_double(TransformedDistribution.cdf)
    icdf = in_double(TransformedDistribution.icdf)

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class _Half(TransformedDistribution):
    """The distribution of the absolute value of a number that is symmetric around 0."""

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support: Any = constraints.nonnegative

    @property
    def scale(self) -> Tensor:
        """The scale of the number."""
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        both = self.base_dist.log_prob(value) + math.log(2)
        return both.where(value >= 0, -math.inf)

    @in_double
    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return 2 * self.base_dist.cdf(value) - 1

    @in_double
    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The distribution of |x|, x normal around 0.

    >>> from adjoint.distributions import HalfNormal
    >>> HalfNormal(1.0).mean
    tensor(0.7979)
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return (value / (self.scale * math.sqrt(2))).erf()

    def icdf(self, value: Tensor) -> Tensor:
        return self.scale * math.sqrt(2) * ops.erfinv(value)


class HalfCauchy(_Half):
    """The distribution of |x|, x of a Cauchy distribution around 0.

    >>> import adjoint as ad
    >>> from adjoint.distributions import HalfCauchy
    >>> HalfCauchy(1.0).cdf(ad.tensor(1.0))
    tensor(0.5000)
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args)

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return (value / self.scale).atan() * (2 / math.pi)

    def icdf(self, value: Tensor) -> Tensor:
        """tan πp/2, and from 1/2 on cot π(1 - p)/2."""
        low = value < 0.5
        inside = (math.pi / 2 * value.where(low, 0.5)).tan()
        outside = 1 / (math.pi / 2 * (1 - value.where(~low, 0.5))).tan()
        return self.scale * ops.where(low, inside, outside)

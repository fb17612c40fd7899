"""Distributions around the gamma function: exponential, gamma, beta, Dirichlet, F, Weibull.

Samples of gamma and Dirichlet distributions move with their parameters by implicit
reparameterisation, to every order: `table/random.yaml`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from adjoint import ops
from adjoint.core.dtypes import finfo
from adjoint.core.errors import ShapeError
from adjoint.core.shapes import Shape
from adjoint.distributions import constraints
from adjoint.distributions.combined import TransformedDistribution
from adjoint.distributions.distribution import Distribution, ExponentialFamily
from adjoint.distributions.narrow import in_double
from adjoint.distributions.transforms import AffineTransform, PowerTransform
from adjoint.distributions.utils import broadcast_all, root, softplus, tensor_of
from adjoint.tensor.tensor import Tensor

EULER = 0.57721566490153286061


class Exponential(ExponentialFamily):
    """The exponential distribution: waiting for an event that happens `rate` times per unit.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Exponential
    >>> Exponential(2.0).log_prob(ad.tensor(0.0))
    tensor(0.6931)
    """

    arg_constraints: ClassVar[Any] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        places = ops.empty(shape, dtype=self.rate.dtype, device=self.rate.device)
        return ops.exponential(places) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return -(-x).log()

    @property
    def _mean_carrier_measure(self) -> float:
        return 0


class Gamma(ExponentialFamily):
    """The gamma distribution of shape `concentration` and `rate`.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Gamma
    >>> Gamma(2.0, 1.0).log_prob(ad.tensor(1.0))
    tensor(-1.)
    """

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, concentration=concentration, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = ops._standard_gamma(self.concentration.expand(shape)) / self.rate
        return value.clamp(min=finfo(value.dtype).tiny)  # 0 would have no finite log_prob

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(tensor_of(value, self.rate.dtype))
        shape = self.concentration
        powers = ops.xlogy(shape, self.rate) + ops.xlogy(shape - 1, value)
        return powers - self.rate * value - shape.lgamma()

    @in_double
    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(tensor_of(value, self.rate.dtype))
        return ops.special_gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        shape = self.concentration
        return shape - self.rate.log() + shape.lgamma() + (1 - shape) * shape.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return (x + 1).lgamma() - (x + 1) * (-y).log()

    @property
    def _mean_carrier_measure(self) -> float:
        return 0


class Chi2(Gamma):
    """The χ² distribution: the sum of squares of `df` standard normal numbers.

    >>> from adjoint.distributions import Chi2
    >>> Chi2(3.0).mean
    tensor(3.)
    """

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (df,) = broadcast_all(df)
        super().__init__(df / 2, 0.5, validate_args)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2


class InverseGamma(TransformedDistribution):
    """The distribution of 1/x, x of a gamma distribution.

    >>> from adjoint.distributions import InverseGamma
    >>> InverseGamma(3.0, 2.0).mean
    tensor(1.)
    """

    arg_constraints: ClassVar[Any] = Gamma.arg_constraints
    support: Any = constraints.positive

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        reciprocal = PowerTransform(-ops.ones_like(base.rate))
        super().__init__(base, reciprocal, validate_args)

    @property
    def concentration(self) -> Tensor:
        """The shape of the gamma distribution."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate of the gamma distribution."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        return where_above(self.concentration, 1, lambda a: self.rate / (a - 1))

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        finite = lambda a: self.rate.square() / ((a - 1).square() * (a - 2))
        return where_above(self.concentration, 2, finite)

    @in_double
    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        shape = self.concentration
        powers = ops.xlogy(shape, self.rate) - (shape + 1) * value.log()
        return powers - self.rate / value - shape.lgamma()

    @in_double
    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return ops.special_gammaincc(self.concentration, self.rate / value)

    def entropy(self) -> Tensor:
        shape = self.concentration
        return shape + self.rate.log() + shape.lgamma() - (1 + shape) * shape.digamma()


def where_above(parameter: Tensor, bound: float, moment: Any, other: float = math.inf) -> Tensor:
    """A moment that exists for a parameter above a bound, and `other` elsewhere.

    There the moment is taken of a parameter for which it is finite, so that derivatives are 0.
    """
    exists = parameter > bound
    return moment(parameter.where(exists, bound + 1)).where(exists, other)


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution of vectors of probabilities.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Dirichlet
    >>> Dirichlet(ad.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        (self.concentration,) = broadcast_all(concentration)
        shape = tuple(self.concentration.shape)
        if not shape:
            raise ShapeError("Dirichlet: `concentration` must be at least one-dimensional")
        super().__init__(shape[:-1], shape[-1:], validate_args)

    @property
    def _total(self) -> Tensor:
        return self.concentration.sum(-1, True)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self._total

    @property
    def mode(self) -> Tensor:
        """The mode; a corner, that of the largest concentration, where all are below 1."""
        above = (self.concentration - 1).clamp(min=0)
        inside = above / above.sum(-1, True)
        corner = ops.one_hot(self.concentration.argmax(-1), self.concentration.shape[-1])
        all_below = (self.concentration < 1).all(-1, True)
        return ops.where(all_below, corner.to(inside.dtype), inside)

    @property
    def variance(self) -> Tensor:
        total = self._total
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return ops._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        powers = ops.xlogy(self.concentration - 1, value).sum(-1)
        return powers + self._total.squeeze(-1).lgamma() - self.concentration.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, count = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return (
            a.lgamma().sum(-1)
            - total.lgamma()
            - (count - total) * total.digamma()
            - ((a - 1) * a.digamma()).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(ExponentialFamily):
    """The beta distribution of a probability: x^(concentration1 - 1) (1 - x)^(concentration0 - 1).

    >>> from adjoint.distributions import Beta
    >>> Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    arg_constraints: ClassVar[Any] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        both = ops.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=False)
        super().__init__(both.shape[:-1], (), validate_args)

    @property
    def concentration1(self) -> Tensor:
        """One more than the power of x."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """One more than the power of 1 - x."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        return self._dirichlet.variance[..., 0]

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        powers = ops.xlogy(self.concentration1 - 1, value)
        powers = powers + ops.special_xlog1py(self.concentration0 - 1, -value)
        return powers - self._log_beta()

    def _log_beta(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return a.lgamma() + b.lgamma() - (a + b).lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return ops.special_betainc(self.concentration1, self.concentration0, value)

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return x.lgamma() + y.lgamma() - (x + y).lgamma()


def beta_of_odds(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """I(a, b) at x/(x + y), the regularised incomplete beta function, by the smaller fraction."""
    whole = x + y
    upper = 1 - ops.special_betainc(b, a, y / whole)
    return ops.where(x > y, upper, ops.special_betainc(a, b, x / whole))


def mean_square(df: Tensor, shape: Shape) -> Tensor:
    """χ²/df, in double precision, which is for whoever takes roots or ratios of it.

    With few degrees of freedom most samples are less than the least number of float32: the ratio
    of two such samples, and the root in Student's t, are not.
    """
    half = (df.double() / 2).expand(shape)
    return ops._standard_gamma(half) / half


class FisherSnedecor(Distribution):
    """The F-distribution: the ratio of two χ², each over its degrees of freedom.

    >>> from adjoint.distributions import FisherSnedecor
    >>> FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {
        "df1": constraints.positive,
        "df2": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, df1=df1, df2=df2)

    @property
    def mean(self) -> Tensor:
        return where_above(self.df2, 2, lambda d: d / (d - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        peak = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return peak.where(self.df1 > 2, math.nan)

    @property
    def variance(self) -> Tensor:
        d1 = self.df1
        finite = lambda d2: 2 * d2**2 * (d1 + d2 - 2) / (d1 * (d2 - 2) ** 2 * (d2 - 4))
        return where_above(self.df2, 4, finite, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape, limits = self._extended_shape(sample_shape), finfo(self.df1.dtype)
        ratio = mean_square(self.df1, shape) / mean_square(self.df2, shape)
        return ratio.clamp(limits.tiny, limits.max).to(self.df1.dtype)

    @in_double
    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        a, b, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
        # log(1 + r x) by log(r x): the product may lie beyond the numbers of a dtype
        log_odds = ratio.log() + value.log()
        powers = a * log_odds - value.log() - (a + b) * softplus(log_odds)
        return powers - log_beta

    @in_double
    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return beta_of_odds(self.df1 / 2, self.df2 / 2, self.df1 * value, self.df2)


class Weibull(TransformedDistribution):
    """The Weibull distribution: scale · E^(1/concentration), E exponential.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Weibull
    >>> Weibull(1.0, 1.0).cdf(ad.tensor(1.0))
    tensor(0.6321)
    """

    arg_constraints: ClassVar[Any] = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support: Any = constraints.positive
    scale: Tensor
    concentration: Tensor

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, scale=scale, concentration=concentration)
        base = Exponential(ops.ones_like(self.scale), validate_args=False)
        transforms = [
            PowerTransform(self.concentration.reciprocal()),
            AffineTransform(0, self.scale),
        ]
        super().__init__(base, transforms, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + self.concentration.reciprocal()).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        """The mode; below concentration 1 there is none, as the density grows towards 0."""
        k = self.concentration
        exists = k >= 1
        peak = ((k - 1) / k).where(exists, 0.5).pow(k.reciprocal())
        return (self.scale * peak).where(exists, math.nan)

    @property
    def variance(self) -> Tensor:
        first = (1 + self.concentration.reciprocal()).lgamma()
        second = (1 + 2 / self.concentration).lgamma()
        return self.scale.square() * (second.exp() - (2 * first).exp())

    @in_double
    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        k, z = self.concentration, value / self.scale
        return (k / self.scale).log() + ops.xlogy(k - 1, z) - z.pow(k)

    @in_double
    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return -(-(value / self.scale).pow(self.concentration)).expm1()

    @in_double
    def icdf(self, value: Tensor) -> Tensor:
        return self.scale * root(-(-value).log1p(), self.concentration)

    def entropy(self) -> Tensor:
        k = self.concentration
        return EULER * (1 - k.reciprocal()) + (self.scale / k).log() + 1

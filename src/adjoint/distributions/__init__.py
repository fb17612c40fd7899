"""`ad.distributions`: probability distributions, under PyTorch's names.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Normal, kl_divergence
    >>> d = Normal(ad.tensor([0.0, 1.0]), 2.0)
    >>> d.batch_shape, d.log_prob(ad.tensor(0.0))
    ((2,), tensor([-1.6121, -1.7371]))
    >>> kl_divergence(d, Normal(0.0, 2.0))
    tensor([0.0000, 0.1250])

Files are families of distributions; `distribution.py` says what all of them share.
"""

from __future__ import annotations

from adjoint.distributions import constraint_registry, constraints, kl, transforms, utils
from adjoint.distributions.bounded import ContinuousBernoulli, Kumaraswamy, Uniform
from adjoint.distributions.choices import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from adjoint.distributions.circular import VonMises
from adjoint.distributions.combined import (
    Independent,
    MixtureSameFamily,
    TransformedDistribution,
)
from adjoint.distributions.constraint_registry import biject_to, transform_to
from adjoint.distributions.counts import (
    Bernoulli,
    Binomial,
    Geometric,
    NegativeBinomial,
    Poisson,
)
from adjoint.distributions.distribution import Distribution, ExponentialFamily
from adjoint.distributions.gammas import (
    Beta,
    Chi2,
    Dirichlet,
    Exponential,
    FisherSnedecor,
    Gamma,
    InverseGamma,
    Weibull,
)
from adjoint.distributions.kl import kl_divergence, register_kl
from adjoint.distributions.location_scale import (
    Cauchy,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    LogNormal,
    Normal,
    StudentT,
)
from adjoint.distributions.multivariate import (
    LKJCholesky,
    LogisticNormal,
    LowRankMultivariateNormal,
    MultivariateNormal,
    Wishart,
)
from adjoint.distributions.paretos import GeneralizedPareto, Pareto
from adjoint.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from adjoint.distributions.transforms import *  # noqa: F403 - the list is there

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ContinuousBernoulli",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "StudentT",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "constraint_registry",
    "constraints",
    "kl",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "transforms",
    "utils",
]
__all__ += transforms.__all__

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

import sys as _sys

from adjoint.distributions import (
    bounded,
    choices,
    circular,
    combined,
    constraint_registry,
    constraints,
    counts,
    distribution,
    gammas,
    kl,
    location_scale,
    multivariate,
    paretos,
    relaxed,
    transforms,
    utils,
)
from adjoint.distributions.bounded import (
    ContinuousBernoulli,
    Kumaraswamy,
    TruncatedNormal,
    Uniform,
)
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
    "TruncatedNormal",
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

# PyTorch has a module for each; `from adjoint.distributions.normal import Normal` finds our family.
_MODULES = {
    bounded: ("continuous_bernoulli", "kumaraswamy", "uniform"),
    choices: ("categorical", "multinomial", "one_hot_categorical"),
    circular: ("von_mises",),
    combined: ("independent", "mixture_same_family", "transformed_distribution"),
    counts: ("bernoulli", "binomial", "geometric", "negative_binomial", "poisson"),
    distribution: ("exp_family",),
    gammas: (
        "beta", "chi2", "dirichlet", "exponential", "fishersnedecor", "gamma", "inverse_gamma",
        "weibull",
    ),
    location_scale: (
        "cauchy", "gumbel", "half_cauchy", "half_normal", "laplace", "log_normal", "normal",
        "studentT",
    ),
    multivariate: (
        "lkj_cholesky", "logistic_normal", "lowrank_multivariate_normal", "multivariate_normal",
        "wishart",
    ),
    paretos: ("generalized_pareto", "pareto"),
    relaxed: ("relaxed_bernoulli", "relaxed_categorical"),
}  # fmt: skip
_BY_NAME = {name: module for module, names in _MODULES.items() for name in names}
globals().update(_BY_NAME)
_sys.modules.update({f"{__name__}.{name}": module for name, module in _BY_NAME.items()})

"""Distributions: laws that hold for each of them, and truths of single ones.

What can be compared with PyTorch is in tests/oracle/test_distributions.py.
"""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

import adjoint as ad
import adjoint.distributions as dist
from adjoint.distributions import constraints, transforms
from adjoint.formulas.random import von_mises_slope

Make = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    before = ad.get_default_dtype()
    ad.set_default_dtype(ad.float64)
    ad.manual_seed(0)
    yield
    ad.set_default_dtype(before)


# A distribution of each family as a function of three numbers.
FAMILIES: dict[str, Make] = {
    "Bernoulli": lambda p: dist.Bernoulli(probs=p.sigmoid()),
    "Beta": lambda p: dist.Beta(p.exp(), (2 * p).exp()),
    "Binomial": lambda p: dist.Binomial(7, logits=p),
    "Categorical": lambda p: dist.Categorical(logits=p),
    "Cauchy": lambda p: dist.Cauchy(p, p.exp()),
    "Chi2": lambda p: dist.Chi2(p.exp()),
    "ContinuousBernoulli": lambda p: dist.ContinuousBernoulli(logits=p),
    "Dirichlet": lambda p: dist.Dirichlet(p.exp()),
    "Exponential": lambda p: dist.Exponential(p.exp()),
    "FisherSnedecor": lambda p: dist.FisherSnedecor(p.exp(), 1 + p.exp()),
    "Gamma": lambda p: dist.Gamma(p.exp(), (p / 2).exp()),
    "GeneralizedPareto": lambda p: dist.GeneralizedPareto(p, p.exp(), p.sigmoid()),
    "Geometric": lambda p: dist.Geometric(logits=p),
    "Gumbel": lambda p: dist.Gumbel(p, p.exp()),
    "HalfCauchy": lambda p: dist.HalfCauchy(p.exp()),
    "HalfNormal": lambda p: dist.HalfNormal(p.exp()),
    "Independent": lambda p: dist.Independent(dist.Normal(p, p.exp()), 1),
    "InverseGamma": lambda p: dist.InverseGamma(p.exp(), p.exp()),
    "Kumaraswamy": lambda p: dist.Kumaraswamy(p.exp(), p.exp()),
    "LKJCholesky": lambda p: dist.LKJCholesky(3, p.exp()),
    "Laplace": lambda p: dist.Laplace(p, p.exp()),
    "LogNormal": lambda p: dist.LogNormal(p, p.exp()),
    "LogisticNormal": lambda p: dist.LogisticNormal(p, p.exp()),
    "LowRankMultivariateNormal": lambda p: dist.LowRankMultivariateNormal(
        p, p.unsqueeze(-1), p.exp()
    ),
    "MixtureSameFamily": lambda p: dist.MixtureSameFamily(
        dist.Categorical(logits=p), dist.Normal(p, p.exp())
    ),
    "Multinomial": lambda p: dist.Multinomial(5, logits=p),
    "MultivariateNormal": lambda p: dist.MultivariateNormal(
        p, covariance_matrix=p.exp().diag_embed() + 0.1
    ),
    "NegativeBinomial": lambda p: dist.NegativeBinomial(4, logits=p),
    "Normal": lambda p: dist.Normal(p, p.exp()),
    "OneHotCategorical": lambda p: dist.OneHotCategorical(logits=p),
    "Pareto": lambda p: dist.Pareto(p.exp(), p.exp()),
    "Poisson": lambda p: dist.Poisson(p.exp()),
    "RelaxedBernoulli": lambda p: dist.RelaxedBernoulli(ad.tensor(0.5), logits=p),
    "RelaxedOneHotCategorical": lambda p: dist.RelaxedOneHotCategorical(ad.tensor(0.5), logits=p),
    "StudentT": lambda p: dist.StudentT(p.exp(), p, p.exp()),
    "TruncatedNormal": lambda p: dist.TruncatedNormal(p, p.exp(), p - 0.2, 1 + p.exp()),
    "Uniform": lambda p: dist.Uniform(p, p + 1 + p.square()),
    "VonMises": lambda p: dist.VonMises(p, p.exp()),
    "Weibull": lambda p: dist.Weibull(p.exp(), p.exp()),
    "Wishart": lambda p: dist.Wishart(
        3 + p.exp().sum(-1), covariance_matrix=p.exp().diag_embed()
    ),
}  # fmt: skip
NUMBERS = np.array([0.4, -0.3, 0.7])
every_family = pytest.mark.parametrize("family", FAMILIES)
MOVING = [name for name, make in FAMILIES.items() if make(ad.tensor(NUMBERS)).has_rsample]


def numbers() -> Any:
    return ad.tensor(NUMBERS)


def differences(f: Callable[[Any], Any], at: Any, step: float = 1e-5) -> Any:
    """The gradient of a function of numbers, by central differences."""
    x = np.asarray(at, float)
    found = np.zeros_like(x)
    for i in range(x.size):
        move = np.zeros_like(x)
        move.flat[i] = step
        found.flat[i] = (float(f(x + move)) - float(f(x - move))) / (2 * step)
    return found


def close(a: Any, b: Any, tolerance: float = 1e-9) -> None:
    a, b = (v.detach().numpy() if isinstance(v, ad.Tensor) else v for v in (a, b))
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# -- every family, in every mode -----------------------------------------------------------------


@every_family
def test_log_prob_differentiates_to_second_order(family: str) -> None:
    make = FAMILIES[family]
    value = make(numbers()).sample()

    def loss(p: Any) -> Any:
        return make(p).log_prob(value).sum()

    gradient = ad.grad(loss)(numbers())
    close(gradient, differences(lambda x: loss(ad.tensor(x)).item(), NUMBERS), 1e-5)
    close(ad.jvp(loss, (numbers(),), (numbers(),))[1], (gradient * numbers()).sum())
    along = ad.tensor([0.3, -1.0, 0.5])
    slope = ad.grad(lambda p: (ad.grad(loss)(p) * along).sum())(numbers())
    expected = differences(lambda x: (ad.grad(loss)(ad.tensor(x)) * along).sum(), NUMBERS)
    close(slope, expected, 1e-4)


@every_family
def test_vmap_over_parameters_equals_a_loop(family: str) -> None:
    make = FAMILIES[family]
    many = ad.tensor(NUMBERS + np.array([[0.0], [0.3], [-0.2]]))
    values = ad.vmap(lambda p: make(p).sample(), randomness="different")(many)
    mapped = ad.vmap(lambda p, x: make(p).log_prob(x).sum())(many, values)
    close(mapped, [make(p).log_prob(x).sum().item() for p, x in zip(many, values, strict=True)])


@every_family
def test_log_prob_traces_without_looking_at_values(family: str) -> None:
    make = FAMILIES[family]
    value = make(numbers()).sample()
    graph = ad.trace(lambda p, x: make(p).log_prob(x).sum(), numbers(), value)
    other = numbers() - 1e-3
    close(graph(other, value), make(other).log_prob(value).sum())


@pytest.mark.parametrize("family", ["Normal", "Gamma", "MultivariateNormal", "Categorical"])
def test_compiled_log_prob_and_gradient_are_the_same(family: str) -> None:
    make = FAMILIES[family]
    value = make(numbers()).sample()
    loss = ad.value_and_grad(lambda p, x: make(p).log_prob(x).sum())
    for found, expected in zip(
        ad.compile(loss)(numbers(), value), loss(numbers(), value), strict=True
    ):
        close(found, expected)


@every_family
def test_samples_have_the_shape_and_lie_in_the_support(family: str) -> None:
    d = FAMILIES[family](numbers())
    value = d.sample((6, 2))
    assert value.shape == (6, 2, *d.batch_shape, *d.event_shape)
    assert not value.requires_grad
    assert d.support.check(value).all()
    assert d.log_prob(value).shape == (6, 2, *d.batch_shape)


@every_family
def test_an_expanded_distribution_is_the_same_one_more_often(family: str) -> None:
    d = FAMILIES[family](numbers())
    value = d.sample()
    before = d.log_prob(value)
    larger = d.expand((4, *d.batch_shape))
    assert type(larger) is type(d)
    assert larger.sample().shape == (4, *d.batch_shape, *d.event_shape)
    close(larger.log_prob(value), before.expand(4, *d.batch_shape))
    assert not larger.has_enumerate_support or larger.enumerate_support().ndim


@every_family
def test_a_distribution_can_be_copied_and_pickled(family: str) -> None:
    d = FAMILIES[family](numbers())
    value = d.sample()
    for other in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        close(other.log_prob(value), d.log_prob(value))


@pytest.mark.parametrize("family", MOVING)
def test_moving_samples_have_gradients_in_all_modes(family: str) -> None:
    make = FAMILIES[family]

    def loss(p: Any) -> Any:
        ad.manual_seed(5)
        return make(p).rsample().sin().sum()

    gradient = ad.grad(loss)(numbers())
    assert gradient.isfinite().all()
    assert gradient.abs().sum() > 0
    tangent = ad.jvp(loss, (numbers(),), (numbers(),))[1]
    close(tangent, (gradient * numbers()).sum())
    curve = ad.grad(lambda p: (ad.grad(loss)(p) * numbers()).sum())(numbers())
    assert curve.isfinite().all()


# -- samples that follow their distribution ------------------------------------------------------

WITH_MEAN = [
    name
    for name in FAMILIES
    if name not in ("Cauchy", "HalfCauchy", "Categorical", "VonMises", "FisherSnedecor")
]

WITHOUT_FOURTH_MOMENT = ("InverseGamma", "StudentT", "Pareto", "GeneralizedPareto")


@pytest.mark.parametrize("family", WITH_MEAN)
def test_moments_of_samples_are_those_of_the_distribution(family: str) -> None:
    d = FAMILIES[family](ad.tensor([1.9, 1.4, 2.2]) if family == "Pareto" else numbers())
    try:
        mean, variance = d.mean, d.variance
    except NotImplementedError:
        return
    known = mean.isfinite() & variance.isfinite()
    count = 20000
    samples = d.sample((count,))
    error = (samples.mean(0) - mean).abs() / (variance / count).sqrt()
    assert (error[known] < 4.5).all()
    if family in WITHOUT_FOURTH_MOMENT:
        return
    fourth = (samples - mean).square().var(0)
    error = (samples.var(0) - variance).abs() / (fourth / count).sqrt()
    assert (error[known & (fourth > 1e-12)] < 6).all()


@pytest.mark.parametrize(
    "family", [n for n in FAMILIES if FAMILIES[n](numbers()).event_shape == ()]
)
def test_samples_follow_the_distribution_function(family: str) -> None:
    d = FAMILIES[family](numbers())
    if d.support.is_discrete:
        return
    samples = d.sample((2000,))
    try:
        levels = d.cdf(samples)
    except NotImplementedError:
        return
    for i in range(levels[0].numel()):
        statistic = stats.kstest(levels.reshape(2000, -1)[:, i].numpy(), "uniform").statistic
        assert statistic < 0.044  # one in a thousand is larger


@pytest.mark.parametrize(
    ("d", "law"),
    [
        (dist.StudentT(ad.tensor(0.1)), stats.t(0.1)),
        (dist.FisherSnedecor(ad.tensor(0.2), ad.tensor(0.2)), stats.f(0.2, 0.2)),
    ],
    ids=["StudentT", "FisherSnedecor"],
)
def test_tails_in_float32_are_not_those_of_clamped_squares(d: Any, law: Any) -> None:
    """A χ² of few degrees of freedom underflows; the ratio or root of it must not."""
    ad.manual_seed(3)
    x = d.sample((20000,)).numpy().astype(np.float64)
    assert np.isfinite(x).all()
    assert stats.kstest(law.cdf(x), "uniform").pvalue > 1e-3
    for level in (1e-3, 1e-2):
        expected = 20000 * level
        beyond = (law.sf(x) < level).sum()
        assert abs(beyond - expected) < 4 * np.sqrt(expected)
    inside = np.abs(x) < 1e38
    found = d.log_prob(ad.tensor(x[inside], dtype=ad.float32)).numpy()
    np.testing.assert_allclose(found, law.logpdf(x[inside]), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        d.cdf(ad.tensor(x[inside], dtype=ad.float32)).numpy(), law.cdf(x[inside]), atol=1e-5
    )


@pytest.mark.parametrize("dim", [2, 3, 5])
@pytest.mark.parametrize("concentration", [0.7, 1.0, 4.0])
def test_lkj_correlations_have_a_beta_distribution(dim: int, concentration: float) -> None:
    """Each on its own: (1 + r)/2 of concentrations η - 1 + D/2, twice."""
    factor = dist.LKJCholesky(dim, concentration).sample((4000,))
    matrix = (factor @ factor.mT).numpy()
    a = concentration - 1 + dim / 2
    for i in range(dim):
        for j in range(i):
            found = stats.kstest((1 + matrix[:, i, j]) / 2, stats.beta(a, a).cdf)
            assert found.statistic < 0.035


# -- derivatives of samples ----------------------------------------------------------------------

IMPLICIT: dict[str, tuple[Make, float]] = {
    "Gamma": (lambda p: dist.Gamma(p, 1.5), 0.8),
    "Beta": (lambda p: dist.Beta(p, 1.7), 0.6),
    "Beta0": (lambda p: dist.Beta(0.9, p), 2.6),
    "Chi2": (lambda p: dist.Chi2(p), 3.0),
    "InverseGamma": (lambda p: dist.InverseGamma(p, 0.7), 2.0),
    "ContinuousBernoulli": (lambda p: dist.ContinuousBernoulli(logits=p), 0.7),
    "ContinuousBernoulli at 0": (lambda p: dist.ContinuousBernoulli(logits=p), 1e-4),
    "GeneralizedPareto": (lambda p: dist.GeneralizedPareto(0.0, 1.0, p), 0.3),
    "GeneralizedPareto at 0": (lambda p: dist.GeneralizedPareto(0.0, 1.0, p), 1e-7),
    "Kumaraswamy": (lambda p: dist.Kumaraswamy(p, 1.7), 0.6),
    "TruncatedNormal": (lambda p: dist.TruncatedNormal(0.1, p, -0.5, 3.0), 0.6),
    "TruncatedNormal that moves": (lambda p: dist.TruncatedNormal(0.1, 1.0, p, ad.inf), 0.6),
    "Weibull": (lambda p: dist.Weibull(1.2, p), 0.6),
}


@pytest.mark.parametrize("name", IMPLICIT)
def test_a_sample_moves_at_a_constant_level_of_the_distribution_function(name: str) -> None:
    """dx/dθ = -(∂F/∂θ)/p, and the level stays constant to second order."""
    make, at = IMPLICIT[name]

    def sample(p: Any) -> Any:
        ad.manual_seed(2)
        return make(p).rsample((3,))

    p = ad.tensor(at)
    moved = ad.jvp(sample, (p,), (ad.ones(()),))[1]
    x = sample(p).detach()
    step = 1e-6
    change = (make(p + step).cdf(x) - make(p - step).cdf(x)) / (2 * step)
    close(moved, -change / make(p).log_prob(x).exp(), 1e-5)

    def level(q: Any) -> Any:
        return make(q).cdf(sample(q))

    first = lambda q: ad.jvp(level, (q,), (ad.ones(()),))[1]
    close(first(p), np.zeros(3), 1e-8)
    close(ad.jvp(first, (p,), (ad.ones(()),))[1], np.zeros(3), 1e-6)


def von_mises_level(x: float, kappa: float) -> Any:
    """∫₀ˣ of the density, to thirty digits."""
    density = lambda t: mpmath.exp(kappa * (mpmath.cos(t) - 1))
    points = mpmath.linspace(0, x, 4)
    return (
        mpmath.quad(density, points)
        * mpmath.exp(kappa)
        / (2 * mpmath.pi * mpmath.besseli(0, kappa))
    )


@pytest.mark.parametrize("kappa", [1e-3, 0.5, 4.0, 80.0, 1e4])
@pytest.mark.parametrize("deviations", [-0.2, 0.9, 2.5, 6.0])
def test_von_mises_samples_move_as_the_distribution_function_says(
    kappa: float, deviations: float
) -> None:
    x = max(min(deviations / math.sqrt(kappa), 3.1), -3.1)
    with mpmath.workdps(30):
        step = mpmath.mpf(kappa) / 10**9
        above, below = (von_mises_level(x, kappa + s) for s in (step, -step))
        height = mpmath.exp(kappa * mpmath.cos(x)) / (2 * mpmath.pi * mpmath.besseli(0, kappa))
        expected = float((below - above) / (2 * step * height))
    found = von_mises_slope(ad.tensor(kappa), ad.tensor(x))
    assert found.item() == pytest.approx(expected, rel=1e-8, abs=1e-14)


def test_von_mises_samples_have_second_derivatives() -> None:
    """Of the quantile at a fixed level, by differences of mpmath's."""

    def quantile(kappa: Any, level: Any, near: float) -> Any:
        return mpmath.findroot(lambda x: von_mises_level(x, kappa) - level, near)

    def sample(kappa: Any) -> Any:
        ad.manual_seed(1)
        return dist.VonMises(0.0, kappa).rsample()

    kappa = ad.tensor(2.5)
    x = sample(kappa).item()
    found = ad.grad(ad.grad(sample))(kappa).item()
    with mpmath.workdps(25):
        level = von_mises_level(x, 2.5)
        step = mpmath.mpf("1e-4")
        a, b, c = (quantile(2.5 + s, level, x) for s in (-step, 0, step))
        expected = float((a - 2 * b + c) / step**2)
    assert found == pytest.approx(expected, rel=1e-5)


def test_gradient_of_an_expectation_is_that_of_the_expectation() -> None:
    """d/dα E x² of a Student t and of a gamma distribution, by samples that move."""
    a = ad.tensor(6.0)
    gamma = ad.grad(lambda a: dist.Gamma(a, 1.0).rsample((20000,)).square().mean())(a)
    assert gamma.item() == pytest.approx(2 * 6 + 1, rel=0.05)
    student = ad.grad(lambda a: dist.StudentT(a).rsample((100000,)).square().mean())(a)
    assert student.item() == pytest.approx(-2 / 16, rel=0.15)


# -- densities -----------------------------------------------------------------------------------

LINE = (-math.inf, math.inf)
HALF = (0.0, math.inf)
UNIT = (0.0, 1.0)
LOWER = (-math.inf, 0.1)
DENSITIES: dict[str, tuple[Callable[[], Any], tuple[float, float]]] = {
    "Normal": (lambda: dist.Normal(0.3, 1.7), LINE),
    "Laplace": (lambda: dist.Laplace(0.3, 1.7), LINE),
    "Cauchy": (lambda: dist.Cauchy(0.3, 1.7), LINE),
    "Gumbel": (lambda: dist.Gumbel(0.3, 1.7), LINE),
    "StudentT": (lambda: dist.StudentT(2.5, 0.3, 1.7), LINE),
    "VonMises": (lambda: dist.VonMises(0.3, 1.7), (-math.pi, math.pi)),
    "Exponential": (lambda: dist.Exponential(1.7), HALF),
    "Gamma": (lambda: dist.Gamma(2.7, 1.3), HALF),
    "Chi2": (lambda: dist.Chi2(3.0), HALF),
    "InverseGamma": (lambda: dist.InverseGamma(2.7, 1.3), HALF),
    "FisherSnedecor": (lambda: dist.FisherSnedecor(5.0, 7.0), HALF),
    "HalfNormal": (lambda: dist.HalfNormal(1.7), HALF),
    "HalfCauchy": (lambda: dist.HalfCauchy(1.7), HALF),
    "LogNormal": (lambda: dist.LogNormal(0.3, 0.7), HALF),
    "Weibull": (lambda: dist.Weibull(1.3, 1.7), HALF),
    "Pareto": (lambda: dist.Pareto(1.3, 1.7), (1.3, math.inf)),
    "GeneralizedPareto": (lambda: dist.GeneralizedPareto(0.5, 1.3, 0.4), (0.5, math.inf)),
    "GeneralizedPareto that ends": (
        lambda: dist.GeneralizedPareto(0.5, 1.3, -0.4),
        (0.5, 0.5 + 1.3 / 0.4),
    ),
    "Uniform": (lambda: dist.Uniform(0.5, 2.0), (0.5, 2.0)),
    "TruncatedNormal": (lambda: dist.TruncatedNormal(0.3, 1.2, -0.5, 2.0), (-0.5, 2.0)),
    "TruncatedNormal, a tail": (lambda: dist.TruncatedNormal(0.3, 1.2, 9.0, 12.0), (9.0, 12.0)),
    "TruncatedNormal, a half": (lambda: dist.TruncatedNormal(0.3, 1.2, -math.inf, 0.1), LOWER),
    "Beta": (lambda: dist.Beta(1.7, 2.6), UNIT),
    "Kumaraswamy": (lambda: dist.Kumaraswamy(1.7, 2.6), UNIT),
    "ContinuousBernoulli": (lambda: dist.ContinuousBernoulli(logits=ad.tensor(1.7)), UNIT),
    "ContinuousBernoulli, flat": (lambda: dist.ContinuousBernoulli(probs=ad.tensor(0.5)), UNIT),
    "RelaxedBernoulli": (lambda: dist.RelaxedBernoulli(ad.tensor(0.9), probs=ad.tensor(0.3)), UNIT),
    "MixtureSameFamily": (
        lambda: dist.MixtureSameFamily(
            dist.Categorical(ad.tensor([0.3, 0.7])), dist.Normal(ad.tensor([0.0, 2.0]), 1.0)
        ),
        LINE,
    ),
}


def integral(f: Callable[[Any], Any], ends: tuple[float, float]) -> float:
    return integrate.quad(lambda x: f(ad.tensor(x)).item(), *ends, limit=200)[0]


@pytest.mark.parametrize("name", DENSITIES)
def test_a_density_integrates_to_one_and_to_the_moments(name: str) -> None:
    make, ends = DENSITIES[name]
    d = make()
    d._validate_args = False
    assert integral(lambda x: d.log_prob(x).exp(), ends) == pytest.approx(1, abs=1e-6)
    if name == "VonMises":
        return
    try:
        mean, variance = d.mean.item(), d.variance.item()
    except NotImplementedError:
        return
    if math.isfinite(mean):
        assert integral(lambda x: x * d.log_prob(x).exp(), ends) == pytest.approx(mean, rel=1e-5)
    if math.isfinite(variance) and name != "FisherSnedecor":
        spread = integral(lambda x: (x - mean) ** 2 * d.log_prob(x).exp(), ends)
        assert spread == pytest.approx(variance, rel=1e-5)


@pytest.mark.parametrize("name", DENSITIES)
def test_entropy_is_the_mean_of_minus_log_prob(name: str) -> None:
    make, ends = DENSITIES[name]
    d = make()
    d._validate_args = False
    try:
        entropy = d.entropy().item()
    except NotImplementedError:
        return
    found = integral(lambda x: ad.special.entr(d.log_prob(x).exp()), ends)
    assert found == pytest.approx(entropy, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", DENSITIES)
def test_quantiles_invert_the_distribution_function_and_it_integrates_the_density(
    name: str,
) -> None:
    make, _ = DENSITIES[name]
    d = make()
    value = d.sample((7,)).requires_grad_()
    try:
        level = d.cdf(value)
    except NotImplementedError:
        return
    (slope,) = ad.autograd.grad(level.sum(), [value])
    close(slope, d.log_prob(value).exp(), 1e-6)
    try:
        close(d.icdf(level), value, 1e-6)
    except NotImplementedError:
        return


# -- divergences ---------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["Normal", "Gamma", "Beta", "Dirichlet", "Bernoulli", "Wishart"])
def test_the_bregman_divergence_is_the_one_of_the_table(family: str) -> None:
    p, q = FAMILIES[family](numbers()), FAMILIES[family](numbers() + 0.2)
    expected = dist.kl._exponential_families(p, q)
    close(dist.kl_divergence(p, q), expected, 1e-8)
    if family not in ("Beta", "Dirichlet"):  # whose carrier measure has no mean here
        close(dist.ExponentialFamily.entropy(p), p.entropy(), 1e-8)


@pytest.mark.parametrize("family", ["MultivariateNormal", "LowRankMultivariateNormal", "Wishart"])
def test_a_divergence_of_vectors_is_a_mean_over_samples(family: str) -> None:
    p, q = FAMILIES[family](numbers()), FAMILIES[family](numbers() + 0.2)
    x = p.sample((40000,))
    terms = p.log_prob(x) - q.log_prob(x)
    error = (terms.mean() - dist.kl_divergence(p, q)).abs() / (terms.var() / 40000).sqrt()
    assert error < 4


def test_kl_chooses_the_nearest_classes_and_says_if_that_is_ambiguous() -> None:
    class Left(dist.Normal):
        pass

    class Right(dist.Normal):
        pass

    def said(word: str) -> Any:
        return lambda p, q: word

    saved = dict(dist.kl._TABLE)
    try:
        dist.register_kl(Left, dist.Normal)(said("left"))
        dist.register_kl(dist.Normal, Right)(said("right"))
        assert dist.kl_divergence(Left(0, 1), dist.Normal(0, 1)) == "left"
        assert dist.kl_divergence(dist.Normal(0, 1), Right(0, 1)) == "right"
        with pytest.warns(RuntimeWarning, match="equally near"):
            assert dist.kl_divergence(Left(0, 1), Right(0, 1)) == "left"
    finally:
        dist.kl._TABLE.clear()
        dist.kl._TABLE.update(saved)
        dist.kl._FOUND.clear()


def test_kl_of_unknown_pairs_says_what_to_do() -> None:
    with pytest.raises(NotImplementedError, match="register_kl"):
        dist.kl_divergence(dist.Normal(0.0, 1.0), dist.Poisson(1.0))
    with pytest.raises(NotImplementedError, match="register_kl"):
        dist.kl_divergence(dist.StudentT(1.0), dist.StudentT(1.0))


# -- tails, where rounding or PyTorch fails ------------------------------------------------------


@pytest.mark.parametrize("t", [-1e8, -40.0, -1e-9, 0.0, 1e-9, 3.0, 1e6])
def test_tails_of_student_are_exact(t: float) -> None:
    with mpmath.workdps(40):
        df = mpmath.mpf("2.5")
        x = df / (df + mpmath.mpf(t) ** 2)
        tail = mpmath.betainc(df / 2, mpmath.mpf("0.5"), 0, x, regularized=True) / 2
        expected = float(tail if t < 0 else 1 - tail)
    assert dist.StudentT(2.5).cdf(ad.tensor(t)).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("logits", [-1e30, -300.0, -0.9999, -1e-6, 0.0, 1e-9, 0.5, 1.001, 40.0])
def test_the_continuous_bernoulli_is_exact_at_every_log_odds(logits: float) -> None:
    with mpmath.workdps(60):
        ell = mpmath.mpf(logits)
        log_integral = mpmath.log(mpmath.expm1(ell) / ell) if logits else mpmath.mpf(0)
        mean = 1 / -mpmath.expm1(-ell) - 1 / ell if logits else mpmath.mpf("0.5")
        variance = (
            1 / ell**2 - 1 / (4 * mpmath.sinh(ell / 2) ** 2) if logits else mpmath.mpf(1) / 12
        )
        expected = float(-log_integral), float(mean), float(variance)
    d = dist.ContinuousBernoulli(logits=ad.tensor(logits))
    found = d.log_prob(ad.tensor(0.0)).item(), d.mean.item(), d.variance.item()
    assert found == pytest.approx(expected, rel=2e-12)


@pytest.mark.parametrize("concentration", [-1e-5, -1e-12, 0.0, 1e-9, 1e-4, 0.3])
def test_the_generalized_pareto_is_smooth_through_zero(concentration: float) -> None:
    with mpmath.workdps(40):
        k, z = mpmath.mpf(concentration), mpmath.mpf("2.5")
        tail = -mpmath.log1p(k * z) / k if concentration else -z
        slope = mpmath.diff(lambda c: -mpmath.log1p(c * z) / c, k or mpmath.mpf("1e-15"))
    value = ad.tensor(2.5)
    survive = lambda k: dist.GeneralizedPareto(0.0, 1.0, k).log_survival_function(value)
    assert survive(ad.tensor(concentration)).item() == pytest.approx(float(tail), rel=1e-13)
    found = ad.grad(survive)(ad.tensor(concentration)).item()
    assert found == pytest.approx(float(slope), rel=1e-8)


@pytest.mark.parametrize("kappa", [1e-8, 1.0, 500.0, 1e6])
def test_the_von_mises_density_does_not_overflow(kappa: float) -> None:
    with mpmath.workdps(40):
        constant = mpmath.log(2 * mpmath.pi) + mpmath.log(mpmath.besseli(0, kappa))
        expected = float(kappa * mpmath.cos(mpmath.mpf("0.01")) - constant)
    found = dist.VonMises(0.0, kappa).log_prob(ad.tensor(0.01)).item()
    assert found == pytest.approx(expected, rel=1e-10)


def test_log_odds_far_from_zero_keep_their_density() -> None:
    assert dist.Bernoulli(logits=ad.tensor(40.0)).log_prob(ad.tensor(1.0)).item() == pytest.approx(
        -math.exp(-40), rel=1e-12
    )
    assert dist.Geometric(probs=ad.tensor(1.0)).log_prob(ad.tensor(0.0)).item() == 0
    assert dist.Gumbel(0.0, 1.0).cdf(ad.tensor(-3.0)).item() == pytest.approx(
        math.exp(-math.exp(3.0)), rel=1e-12
    )


@pytest.mark.parametrize("low", [-60.0, -8.0, 5.0, 30.0])
def test_a_normal_distribution_truncated_far_out_keeps_its_digits(low: float) -> None:
    with mpmath.workdps(900):
        a, b = mpmath.mpf(low), mpmath.mpf(low) + 2
        mass = (mpmath.erfc(a / mpmath.sqrt(2)) - mpmath.erfc(b / mpmath.sqrt(2))) / 2
        x = a + mpmath.mpf("0.25")
        expected = float(-x * x / 2 - mpmath.log(2 * mpmath.pi) / 2 - mpmath.log(abs(mass)))
    d = dist.TruncatedNormal(0.0, 1.0, low, low + 2)
    assert d.log_prob(ad.tensor(low + 0.25)).item() == pytest.approx(expected, rel=1e-11)


# -- transforms ----------------------------------------------------------------------------------

BIJECTIONS: dict[str, tuple[Callable[[], Any], Any]] = {
    "exp": (transforms.ExpTransform, NUMBERS),
    "power": (lambda: transforms.PowerTransform(-1.5), np.exp(NUMBERS)),
    "sigmoid": (transforms.SigmoidTransform, NUMBERS),
    "softplus": (transforms.SoftplusTransform, 30 * NUMBERS),
    "tanh": (transforms.TanhTransform, NUMBERS),
    "affine": (lambda: transforms.AffineTransform(1.0, -2.0), NUMBERS),
    "cdf": (lambda: transforms.CumulativeDistributionTransform(dist.Normal(0, 1)), NUMBERS),
    "stick": (transforms.StickBreakingTransform, NUMBERS),
    "correlation": (transforms.CorrCholeskyTransform, NUMBERS),
    "reshape": (lambda: transforms.ReshapeTransform((3,), (3, 1)), NUMBERS),
    "independent": (
        lambda: transforms.IndependentTransform(transforms.ExpTransform(), 1),
        NUMBERS,
    ),
    "composed": (
        lambda: transforms.ComposeTransform(
            [transforms.AffineTransform(0.2, 0.5), transforms.StickBreakingTransform()]
        ),
        NUMBERS,
    ),
    "side by side": (
        lambda: transforms.CatTransform(
            [transforms.ExpTransform(), transforms.TanhTransform()], lengths=[1, 2]
        ),
        NUMBERS,
    ),
    "stacked": (
        lambda: transforms.StackTransform(
            [transforms.ExpTransform(), transforms.TanhTransform(), transforms.SigmoidTransform()]
        ),
        NUMBERS,
    ),
}


def free(name: str, y: Any) -> Any:
    """The elements of an output that the others do not determine."""
    if name in ("stick", "composed"):
        return y[:-1]
    return dist.utils.tril_matrix_to_vec(y, -1) if name == "correlation" else y.reshape(-1)


@pytest.mark.parametrize("name", BIJECTIONS)
def test_a_log_determinant_is_that_of_the_jacobian(name: str) -> None:
    make, at = BIJECTIONS[name]
    transform, x = make(), ad.tensor(at)
    y = transform(x)
    assert transform.bijective
    assert transform.domain.check(x).all()
    assert transform.codomain.check(y).all()
    assert y.shape == transform.forward_shape(x.shape)
    assert x.shape == transform.inverse_shape(y.shape)
    close(transform.inv(y), x, 1e-8)
    jacobian = ad.jacrev(lambda x: free(name, transform(x)))(x)
    found = transform.log_abs_det_jacobian(x, y).sum()
    close(found, ad.linalg.slogdet(jacobian)[1], 1e-8)
    close(transform.inv.log_abs_det_jacobian(y, x).sum(), -found)


@pytest.mark.parametrize("name", BIJECTIONS)
def test_a_cache_gives_back_the_tensors_themselves(name: str) -> None:
    make, at = BIJECTIONS[name]
    transform, x = make().with_cache(), ad.tensor(at)
    y = transform(x)
    assert transform(x) is y
    assert transform.inv(y) is x
    assert transform.inv.inv is transform


@pytest.mark.parametrize(
    "constraint",
    [
        constraints.real,
        constraints.positive,
        constraints.greater_than(2.0),
        constraints.less_than(-1.0),
        constraints.interval(-1.0, 3.0),
        constraints.unit_interval,
        constraints.simplex,
        constraints.corr_cholesky,
        constraints.independent(constraints.positive, 1),
    ],
    ids=str,
)
def test_bijections_reach_their_constraint(constraint: Any) -> None:
    x = ad.tensor(NUMBERS)
    for registry in (dist.biject_to, dist.transform_to):
        y = registry(constraint)(x)
        assert constraint.check(y).all()
    close(dist.biject_to(constraint).inv(dist.biject_to(constraint)(x)), x)


def test_a_constraint_without_a_transform_says_so() -> None:
    with pytest.raises(NotImplementedError, match="register"):
        dist.biject_to(constraints.boolean)
    with pytest.raises(TypeError, match="constraint"):
        dist.biject_to.register(3, lambda c: c)


# -- checks --------------------------------------------------------------------------------------


def test_wrong_parameters_and_values_are_named() -> None:
    with pytest.raises(ValueError, match=r"parameter scale .* GreaterThan\(lower_bound=0.0\)"):
        dist.Normal(0.0, ad.tensor([1.0, -1.0]))
    with pytest.raises(ValueError, match="within the support"):
        dist.Exponential(1.0).log_prob(ad.tensor(-1.0))
    with pytest.raises(ValueError, match="broadcast"):
        dist.Normal(ad.zeros(3), 1.0).log_prob(ad.zeros(2))
    with pytest.raises(ValueError, match="use ad.tensor"):
        dist.Normal(0.0, 1.0).log_prob(1.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="either `probs` or `logits`"):
        dist.Bernoulli(probs=0.5, logits=0.0)
    with pytest.raises(ValueError, match="exactly one of"):
        dist.MultivariateNormal(ad.zeros(2))
    with pytest.raises(NotImplementedError, match="Poisson has no icdf"):
        dist.Poisson(1.0).icdf(ad.tensor(0.5))


def test_checks_can_be_left_out() -> None:
    assert dist.Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    dist.Distribution.set_default_validate_args(False)
    try:
        assert dist.Exponential(-1.0).rate.item() == -1
    finally:
        dist.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="True or False"):
        dist.Distribution.set_default_validate_args(None)  # pyright: ignore[reportArgumentType]


def test_checks_see_all_samples_of_vmap() -> None:
    scales = ad.tensor([1.0, -1.0])
    with pytest.raises(ValueError, match="scale"):
        ad.vmap(lambda s: dist.Normal(0.0, s).mean)(scales)


def test_an_array_is_a_value() -> None:
    zero: Any = np.array([0.0])
    close(dist.Normal(0.0, 1.0).log_prob(zero), [-0.9189385332046727])


def test_a_property_asked_for_without_recording_still_differentiates() -> None:
    logits = ad.tensor(0.3, requires_grad=True)
    d = dist.Bernoulli(logits=logits)
    with ad.no_grad():
        assert d.probs.item() > 0
    (slope,) = ad.autograd.grad(d.probs, [logits])
    close(slope, d.probs * (1 - d.probs))


def test_a_users_distribution_expands_without_saying_how() -> None:
    class Shifted(dist.Normal):
        def __init__(self, loc: Any) -> None:
            super().__init__(loc, 1.0)
            self.name = "shifted"

    larger = Shifted(ad.zeros(3)).expand((2, 3))
    assert larger.name == "shifted"
    assert larger.loc.shape == (2, 3)

    class Odd(dist.Distribution):
        arg_constraints: ClassVar[Any] = {}

        def __init__(self) -> None:
            self.table = ad.zeros(7)
            super().__init__((3,))

    with pytest.raises(NotImplementedError, match="define expand"):
        Odd().expand((2, 3))


@pytest.mark.parametrize(("logit", "x"), [(1e38, 1.0), (-1e38, 0.0), (30.0, 1.0)])
def test_steep_continuous_bernoulli_keeps_its_normaliser(logit: float, x: float) -> None:
    """At the end where it is steep the density is |ℓ|, of which nothing may cancel."""
    logits = ad.tensor(logit, requires_grad=True)
    value = ad.distributions.ContinuousBernoulli(logits=logits).log_prob(ad.tensor(x))
    assert value.item() == pytest.approx(math.log(abs(logit)), rel=1e-6)
    (slope,) = ad.autograd.grad(value, logits)
    assert slope.item() == pytest.approx(1 / logit, rel=1e-5)


@pytest.mark.parametrize("logits", [-50.0, -20.0, 0.3, 20.0, 36.7, 50.0, 700.0])
def test_slopes_by_logits_are_exact_in_both_tails(logits: float) -> None:
    """σ(-x) is no difference from 1."""
    mpmath = pytest.importorskip("mpmath")
    x = ad.tensor(logits, dtype=ad.float64)
    two, three = (ad.tensor(v, dtype=ad.float64) for v in (2.0, 3.0))
    with mpmath.workdps(400):
        above = 1 / (1 + mpmath.exp(-mpmath.mpf(logits)))
        below = 1 - above
        true = {
            "Bernoulli 1": float(below), "Bernoulli 0": float(-above),
            "Geometric": float(below - 3 * above), "Binomial": float(2 * below - 3 * above),
        }  # fmt: skip
    found = {
        "Bernoulli 1": lambda x: ad.distributions.Bernoulli(logits=x).log_prob(two - 1),
        "Bernoulli 0": lambda x: ad.distributions.Bernoulli(logits=x).log_prob(two - 2),
        "Geometric": lambda x: ad.distributions.Geometric(logits=x).log_prob(three),
        "Binomial": lambda x: ad.distributions.Binomial(5, logits=x).log_prob(two),
    }
    for name, log_prob in found.items():
        assert ad.grad(log_prob)(x).item() == pytest.approx(true[name], 1e-14, 0), name


@pytest.mark.parametrize("z", [1e-9, 3.0, 1e7, 1e9, -1e200])
def test_cauchy_far_out(z: float) -> None:
    log_prob = ad.distributions.Cauchy(0.0, 1.0).log_prob
    x = ad.tensor(z, dtype=ad.float64)
    assert ad.grad(log_prob)(x).item() == pytest.approx(-2 / (1 / z + z), 1e-14, 0)


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
@pytest.mark.parametrize("name", ["log_prob", "cdf", "icdf"])
def test_distributions_of_halves_are_rounded_once(dtype: ad.DType, name: str) -> None:
    def value_and_slope(x: ad.Tensor) -> list[ad.Tensor]:
        half = ad.full_like(x, 0.75)
        made = (
            dist.Normal(half, 2 * half), dist.Laplace(half, 2 * half), dist.Cauchy(half, half),
            dist.LogNormal(half, half), dist.Exponential(half),
        )  # fmt: skip
        methods = [getattr(d, name) for d in made]
        return [g(x) for f in methods for g in (f, ad.grad(lambda x, f=f: f(x).sum()))]

    x = ad.tensor([0.0625, 0.3125, 0.703125], dtype=dtype)
    for result, exact in zip(value_and_slope(x), value_and_slope(x.double()), strict=True):
        assert result.dtype == dtype
        assert ad.equal(result, exact.to(dtype))


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
def test_entropies_and_divergences_of_halves_are_rounded_once(dtype: ad.DType) -> None:
    def values(x: ad.Tensor) -> list[ad.Tensor]:
        p, q = dist.Normal(x, x.abs()), dist.Normal(0 * x, 0 * x + 1)
        return [p.entropy(), dist.kl_divergence(p, q), dist.Laplace(x, x.abs()).entropy()]

    x = ad.tensor([-0.25, 0.0625, 0.703125], dtype=dtype)
    for result, exact in zip(values(x), values(x.double()), strict=True):
        assert result.dtype == dtype
        assert ad.allclose(result.double(), exact, rtol=0.502 * ad.finfo(dtype).eps, atol=0.0)


def test_values_of_halves_are_checked_as_halves() -> None:
    x = ad.tensor([0.3], dtype=ad.float16)
    d = dist.Dirichlet(ad.tensor([1.5, 3.0], dtype=ad.float16))
    assert d.log_prob(ad.stack([x, 1 - x], -1)).dtype == ad.float16
    with pytest.raises(ValueError, match="float16"):
        dist.Exponential(x).log_prob(-x)


def test_caches_of_transforms_know_halves() -> None:
    tanh = dist.TanhTransform(cache_size=1)
    d = dist.TransformedDistribution(dist.Normal(ad.zeros(2, dtype=ad.float16), 1.0), [tanh])
    y = tanh(ad.tensor([5.0, -6.0], dtype=ad.float16))
    assert d.log_prob(y).isfinite().all()  # of y alone it would not be


def _slopes(divergence: Any, x: float, dtype: Any = ad.float64) -> tuple[float, float, float]:
    at = ad.tensor(x, dtype=dtype)
    once = ad.grad(divergence)
    return divergence(at).item(), once(at).item(), ad.grad(once)(at).item()


@pytest.mark.parametrize("logits", [-36.0, -5.0, 17.0, 36.0])
@pytest.mark.parametrize("family", [dist.Bernoulli, dist.Geometric])
def test_divergences_by_logits_keep_the_chance_of_what_is_rare(family: Any, logits: float) -> None:
    """KL' = p(1 - p)(l - m) of one trial; divided by p where trials go on until one succeeds."""
    m = 0.5

    def divergence(x: Any) -> Any:
        return dist.kl_divergence(family(logits=x), family(logits=x.new_tensor(m)))

    p, rest = 1 / (1 + np.exp(-logits)), 1 / (1 + np.exp(logits))
    gap = logits - m
    value = p * (np.log1p(np.exp(-m)) - np.log1p(np.exp(-logits)))
    value += rest * (np.log1p(np.exp(m)) - np.log1p(np.exp(logits)))
    first, second = p * rest * gap, p * rest * ((rest - p) * gap + 1)
    if family is dist.Geometric:
        first, value = (first - value * rest) / p, value / p
    found = _slopes(divergence, logits)
    wanted = (value, first) if family is dist.Geometric else (value, first, second)
    np.testing.assert_allclose(found[: len(wanted)], wanted, rtol=1e-12)


def test_divergences_of_scales_far_apart_are_finite() -> None:
    for r in (1e-30, 1e-25, 1e25, 1e30):
        for family, wanted in (
            (dist.Cauchy, np.log((1 + r) / 2) + np.log((1 + r) / 2) - np.log(r)),
            (dist.Normal, 0.5 * r * r - 0.5 - np.log(r)),
        ):
            one = ad.tensor(1.0, dtype=ad.float32)
            found = dist.kl_divergence(family(0 * one, r * one), family(0 * one, one))
            wanted = np.inf if wanted > 3.4e38 else wanted
            np.testing.assert_allclose(found.item(), wanted, rtol=1e-5)


def test_the_slope_of_a_cauchy_density_in_a_tiny_scale() -> None:
    """log f = log(s/π) - log(s² + x²): 1/s far out, in float32, too."""
    for dtype, s in ((ad.float32, 1e-30), (ad.float64, 1e-140)):
        value, first, second = _slopes(
            lambda s: dist.Cauchy(s.new_tensor(0.0), s).log_prob(s.new_tensor(2.0)), s, dtype
        )
        np.testing.assert_allclose(value, np.log(s / np.pi) - 2 * np.log(2.0), rtol=1e-6)
        np.testing.assert_allclose(first, 1 / s, rtol=1e-6)
        assert second < 0


@pytest.mark.parametrize("df", [1e19, 1e25, 1e100, 1e300, np.inf])
def test_student_of_very_many_degrees_of_freedom_is_normal(df: float) -> None:
    t = ad.tensor([-8.0, -0.3, 0.0, 0.2, 3.0, 30.0], dtype=ad.float64)
    many = ad.full_like(t, df)
    cdf = dist.StudentT(many).cdf
    wanted = ad.special.ndtr(t)
    for way in (cdf, ad.compile(lambda t: ad.ops._student_cdf(t, ad.full_like(t, df)))):
        np.testing.assert_allclose(way(t), wanted, rtol=1e-13)
    density = ad.grad(lambda t: cdf(t).sum())(t)
    np.testing.assert_allclose(density, dist.Normal(0 * t, 0 * t + 1).log_prob(t).exp(), rtol=1e-13)


@pytest.mark.parametrize("df", [1e7, 1e9, 1e12, 1e15, 1e20])
def test_student_moves_with_its_many_degrees_of_freedom_as_fisher_says(df: float) -> None:
    for t in (-2.5, -0.3, 1e-3, 3.0):
        first, second = _slopes(lambda v, t=t: ad.ops._student_cdf(v.new_tensor(t), v), df)[1:]
        slope = np.exp(-t * t / 2) / np.sqrt(2 * np.pi) * t * (t * t + 1) / 4 / df**2
        np.testing.assert_allclose(first, slope, rtol=100 / df + 1e-14)
        np.testing.assert_allclose(second, -2 * slope / df, rtol=100 / df + 1e-14)

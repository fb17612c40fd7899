"""SciPy's distributions on tensors: values, derivatives in every argument, transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.stats as theirs
from scipy.stats._distr_params import distcont

import adjoint as ad
from adjoint.core.errors import ArgumentError, NotDifferentiable, ValueRangeError
from adjoint.scipy import linalg, special, stats

# Distributions with their shapes: those with formulas of other kinds of special functions.
SHAPES: dict[str, tuple[float, ...]] = {
    "norm": (), "expon": (), "cauchy": (), "laplace": (), "logistic": (), "uniform": (),
    "gumbel_l": (), "levy": (), "maxwell": (), "moyal": (), "semicircular": (),
    "alpha": (3.57,), "arcsine": (), "argus": (1.0,), "beta": (2.3, 0.6), "betaprime": (5.0, 6.0),
    "burr12": (10.0, 4.0), "chi": (7.8,), "chi2": (5.5,), "crystalball": (2.0, 3.0),
    "dgamma": (1.1,), "exponnorm": (1.5,), "exponpow": (2.7,), "f": (29.0, 18.0),
    "fisk": (3.1,), "foldnorm": (2.0,), "gamma": (2.0,), "genextreme": (-0.1,), "gennorm": (1.3,),
    "gengamma": (4.4, 3.1), "gompertz": (0.95,), "halfgennorm": (0.67,), "invgamma": (4.1,),
    "invgauss": (0.15,), "johnsonsu": (2.6, 2.2), "loggamma": (0.41,), "lognorm": (0.95,),
    "lomax": (1.9,), "nakagami": (5.0,), "norminvgauss": (1.25, 0.5), "pareto": (2.6,),
    "powerlaw": (1.7,), "powernorm": (4.5,), "rice": (0.8,), "skewnorm": (4.0,), "t": (2.7,),
    "truncexpon": (4.7,), "vonmises": (4.0,), "weibull_min": (1.8,), "wrapcauchy": (0.03,),
}  # fmt: skip
LOC, SCALE = 0.3, 1.7


@pytest.mark.parametrize("name", SHAPES)
def test_log_densities_of_scipy_are_differentiated_in_every_argument(name: str) -> None:
    shapes = SHAPES[name]
    law = getattr(theirs, name)
    x = law.ppf([0.2, 0.45, 0.7], *shapes, LOC, SCALE)
    arguments = [x, *shapes, LOC, SCALE]
    ours = getattr(stats, name).logpdf
    assert np.allclose(ours(*map(_double, arguments)), law.logpdf(*arguments), rtol=1e-9)
    gradient = ad.grad(lambda *given: ours(*given).sum(), argnums=tuple(range(len(arguments))))(
        *map(_double, arguments)
    )
    for i, found in enumerate(gradient):
        step = 1e-4 * max(0.1, float(np.min(np.abs(arguments[i]))))
        by = lambda h, i=i: law.logpdf(*[a + h * (j == i) for j, a in enumerate(arguments)]).sum()
        expected = (8 * (by(step) - by(-step)) - (by(2 * step) - by(-2 * step))) / (12 * step)
        assert np.isclose(found.sum(), expected, rtol=1e-5, atol=1e-6), (i, found, expected)


def _double(value: Any) -> ad.Tensor:
    return ad.tensor(value, dtype=ad.float64)


@pytest.mark.parametrize("function", ["pdf", "cdf", "logcdf", "sf", "logsf"])
def test_functions_are_known_outside_the_support(function: str) -> None:
    x = np.array([-2.0, 0.0, 0.4, 1.0, 3.0])
    for name in ("beta", "expon", "uniform", "gamma"):
        shapes = (2.0, 3.0)[: {"beta": 2, "gamma": 1}.get(name, 0)]
        with np.errstate(divide="ignore"):
            expected = getattr(getattr(theirs, name), function)(x, *shapes)
        tensor = _double(x)
        assert np.allclose(getattr(getattr(stats, name), function)(tensor, *shapes), expected)
        gradient = ad.grad(lambda t, f=function, n=name, s=shapes: _finite(n, f, t, s))(tensor)
        assert np.all(gradient.numpy()[[0, 4 if name in ("beta", "uniform") else 0]] == 0)


def _finite(name: str, function: str, x: ad.Tensor, shapes: tuple[float, ...]) -> ad.Tensor:
    found = getattr(getattr(stats, name), function)(x, *shapes)
    return ad.where(ad.isfinite(found), found, 0.0).sum()


@pytest.mark.parametrize("function", ["ppf", "isf"])
def test_quantiles_are_inverses(function: str) -> None:
    q = np.array([-0.1, 0.0, 0.2, 0.9, 1.0])
    for name, shapes in (("gamma", (2.0,)), ("chi2", (3.0,)), ("t", (3.0,)), ("norm", ())):
        expected = getattr(getattr(theirs, name), function)(q, *shapes, 1.0, 2.0)
        law = getattr(stats, name)
        found = getattr(law, function)(_double(q), *shapes, loc=1.0, scale=2.0)
        assert np.allclose(found, expected, equal_nan=True)
        back = law.cdf if function == "ppf" else law.sf
        slope = ad.grad(lambda p, f=function, w=law, b=back, s=shapes: b(getattr(w, f)(p, *s), *s))
        assert np.isclose(slope(_double(0.3)), 1.0)


def test_discrete_distributions_have_probabilities_of_whole_numbers() -> None:
    k = np.array([-1.0, 0.0, 1.5, 2.0, 7.0])
    with np.errstate(divide="ignore"):
        for name, shapes in (("poisson", (1.3,)), ("binom", (5, 0.3)), ("geom", (0.4,))):
            ours = getattr(stats, name)
            assert np.allclose(ours.logpmf(k, *shapes), getattr(theirs, name).logpmf(k, *shapes))
    rate = ad.grad(lambda mu: stats.poisson.logpmf(2.0, mu))(_double(1.3))
    assert np.isclose(rate, 2 / 1.3 - 1)
    with pytest.raises(ArgumentError, match="poisson has no logpdf; it has logpmf"):
        stats.poisson.logpdf(k, 1.3)


def test_distributions_of_vectors() -> None:
    random = np.random.default_rng(0)
    x, mean, root = random.normal(size=(4, 3)), random.normal(size=3), random.normal(size=(3, 3))
    cov = root @ root.T + np.eye(3)
    law: Any = theirs.multivariate_normal
    normal = law(mean, cov)
    assert np.allclose(stats.multivariate_normal.logpdf(x, mean, cov), normal.logpdf(x))
    assert np.allclose(stats.multivariate_normal.entropy(cov=cov), normal.entropy())
    slope = ad.grad(lambda m: stats.multivariate_normal.logpdf(x[0], m, cov))(_double(mean))
    assert np.allclose(slope, np.linalg.solve(cov, x[0] - mean))
    shares, alpha = np.array([0.2, 0.3, 0.5]), np.array([1.5, 2.0, 0.7])
    expected = theirs.dirichlet.pdf(shares, alpha)
    assert np.allclose(stats.dirichlet.pdf(shares, alpha), expected)
    assert np.allclose(stats.dirichlet.pdf(shares[:2], alpha), expected)


def test_densities_run_in_every_transform() -> None:
    x = _double(np.linspace(0.1, 3.0, 5))
    score = lambda t: stats.gamma.logpdf(t, 2.5, scale=1.5)
    expected = 1.5 / x - 1 / 1.5
    assert np.allclose(ad.vmap(ad.grad(score))(x), expected)
    assert np.allclose(ad.compile(ad.grad(lambda t: score(t).sum()))(x), expected)
    assert np.allclose(ad.jvp(score, (x,), (ad.ones_like(x),))[1], expected)
    assert np.allclose(ad.vmap(ad.grad(ad.grad(score)))(x), -1.5 / x**2)


def test_factors_of_scipy_are_differentiated() -> None:
    matrix, b = _double([[4.0, 1.0], [1.0, 3.0]]), _double([1.0, 2.0])
    for lower in (False, True):
        found = linalg.cho_solve(linalg.cho_factor(matrix, lower), b)
        assert np.allclose(found, np.linalg.solve(matrix.numpy(), b.numpy()))
    root = linalg.sqrtm(matrix)
    assert np.allclose(root @ root, matrix, atol=1e-14)
    through = ad.grad(lambda a: linalg.sqrtm(a @ a).sum())(matrix)
    assert np.allclose(through, np.ones((2, 2)))
    x = linalg.solve_sylvester(matrix, matrix, b[:, None] * b)
    assert np.allclose(matrix @ x + x @ matrix, b[:, None] * b)
    assert "expm" in dir(linalg)
    with pytest.raises(AttributeError, match="did you mean sqrtm"):
        linalg.sqrtmm


def test_roots_and_logarithms_of_matrices_are_complex_where_scipys_are() -> None:
    rng = np.random.default_rng(0)
    weights = _double(rng.normal(size=(3, 3)))
    for shift in (4.0, 0.0, -3.0):  # eigenvalues on the right, and some on the left
        matrix = _double(
            np.diag([1.0, 2.0, 3.5]) + shift * np.eye(3) + 0.3 * rng.normal(size=(3, 3))
        )
        for name, back in (("sqrtm", lambda x: x @ x), ("logm", ad.linalg.matrix_exp)):
            found = getattr(linalg, name)(matrix)
            known = getattr(scipy.linalg, name)(matrix.numpy())
            assert found.is_complex() == (known.dtype.kind == "c") == (shift < 0)
            assert np.allclose(found, known, atol=1e-13)
            around = lambda a, name=name, back=back: (
                (weights * back(getattr(linalg, name)(a))).sum().real
            )
            for transform in (ad.grad, ad.jacfwd):  # of what is the matrix itself
                assert np.allclose(transform(around)(matrix), weights, atol=1e-12)
            assert np.allclose(ad.hessian(around)(matrix), 0, atol=1e-11)
    u, p = linalg.polar(weights)
    known = scipy.linalg.polar(weights.numpy())
    assert np.allclose(u, known[0])
    assert np.allclose(p, known[1])


def test_a_distribution_may_be_given_its_shapes_first() -> None:
    x = _double([0.5, 1.5])
    law = stats.gamma(2.0, scale=3.0)
    assert np.allclose(law.logpdf(x), theirs.gamma(2.0, scale=3.0).logpdf(x.numpy()))
    assert np.allclose(law.ppf(law.cdf(x)), x)
    assert repr(law) == "<adjoint.scipy.stats.gamma(2.0, scale=3.0)>"
    by_name = stats.gamma.logpdf(x, a=2.0, loc=0.1)
    assert np.allclose(by_name, theirs.gamma.logpdf(x.numpy(), 2.0, 0.1))
    mean = ad.grad(lambda mu: stats.norm(mu, 2.0).logpdf(x).sum())(_double(0.5))
    assert np.isclose(mean, 0.25)


def test_what_scipy_integrates_says_so_and_names_are_listed() -> None:
    with pytest.raises(NotDifferentiable, match="landau.pdf: SciPy computes it in a way"):
        ad.grad(stats.landau.logpdf)(_double(0.3))
    with pytest.raises(AttributeError, match="did you mean"):
        stats.normm
    assert {"norm", "poisson", "dirichlet"} <= set(dir(stats))
    assert repr(stats.norm) == "<adjoint.scipy.stats.norm>"
    assert np.isclose(special.gammaln(3.0), np.log(2))


# -- laws of all distributions ---------------------------------------------------------------------

FUNCTIONS = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf")


def _continuous() -> list[tuple[str, tuple[float, ...]]]:
    return [(name, shapes) for name, shapes in distcont if name not in {"levy_stable"}]


@pytest.mark.parametrize(("name", "shapes"), _continuous(), ids=lambda v: v if v == str(v) else "")
def test_functions_of_distributions_are_scipys_and_keep_nan(name: str, shapes: Any) -> None:
    law, ours = getattr(theirs, name), getattr(stats, name)
    x = law.ppf([0.01, 0.4, 0.8], *shapes)
    for function in FUNCTIONS:
        expected = getattr(law, function)(x, *shapes)
        assert np.allclose(getattr(ours, function)(_double(x), *shapes), expected, rtol=1e-7)
        ends = getattr(ours, function)(_double([np.nan, -np.inf, np.inf]), *shapes).numpy()
        assert np.isnan(ends[0])
        assert not np.isnan(ends[1:]).any()
    for function in ("ppf", "isf"):
        outside = getattr(ours, function)(_double([np.nan, -0.1, 1.1]), *shapes)
        assert np.isnan(outside.numpy()).all()


@pytest.mark.parametrize("name", ["norm", "t", "cauchy", "genextreme", "burr", "skewnorm", "fisk"])
def test_functions_of_distributions_compile_with_their_gradients(name: str) -> None:
    shapes = dict(distcont)[name]
    x = _double(getattr(theirs, name).ppf([0.1, 0.4, 0.8], *shapes))
    for function in FUNCTIONS:
        f = lambda v, function=function: getattr(getattr(stats, name), function)(v, *shapes)
        assert np.allclose(ad.compile(f)(x), f(x), rtol=1e-12)
        slope = ad.grad(lambda v, f=f: f(v).sum())
        assert np.allclose(ad.compile(slope)(x), slope(x), rtol=1e-10)


@pytest.mark.parametrize(
    ("name", "shapes"), [("t", (3.0,)), ("gennorm", (1.5,)), ("norm", ()), ("pearson3", (0.0,))]
)
def test_a_quantile_is_the_inverse_to_third_order(name: str, shapes: tuple[float, ...]) -> None:
    law = getattr(stats, name)
    quantile = lambda q: law.ppf(law.cdf(q, *shapes), *shapes)
    x, one = _double([-0.7, 0.4, 1.3]), ad.ones(3, dtype=ad.float64)
    derivatives = [quantile]
    for _ in range(3):
        derivatives.append(lambda v, f=derivatives[-1]: ad.jvp(f, (v,), (one,))[1])
    for f, expected in zip(derivatives, (x, 1.0, 0.0, 0.0), strict=True):
        assert np.allclose(f(x), expected, atol=1e-8)


def test_shapes_at_which_formulas_divide_by_zero_have_derivatives() -> None:
    """c = 0 and skewness 0 are points like others: the slope there is the limit beside."""
    x = _double([-0.4, 0.3, 0.8])
    for name in ("genextreme", "genpareto", "pearson3", "skewnorm"):
        for function in ("logpdf", "cdf"):
            f = lambda c, n=name, g=function: getattr(getattr(stats, n), g)(ad.abs(x), c).sum()
            at = float(ad.grad(f)(_double(0.0)))
            beside = (float(f(_double(1e-3))) - float(f(_double(-1e-3)))) / 2e-3
            assert np.isclose(at, beside, rtol=1e-4), (name, function)


def test_tails_of_special_functions_are_not_lost() -> None:
    slope = lambda f, x: float(ad.grad(f)(_double(x)))
    assert np.isclose(slope(special.dawsn, 1e6), -5e-13, rtol=1e-11)
    third = lambda x: slope(lambda v: ad.grad(ad.grad(special.exprel))(v), x)
    assert np.isclose(third(1e-8), 0.25)
    assert np.isclose(slope(lambda lam: special.boxcox(3.0, lam), 0.0), np.log(3) ** 2 / 2)
    assert np.isclose(float(stats.cauchy.cdf(_double(-1e20))), 1 / (np.pi * 1e20))
    assert np.isclose(float(stats.t.sf(_double(30.0), 3.0)), theirs.t.sf(30.0, 3.0), rtol=1e-13)


def test_a_sum_of_probabilities_is_bounded_and_results_are_tensors() -> None:
    assert type(stats.kappa3.pdf(_double(np.inf), 1.0)) is ad.Tensor
    assert type(stats.zipf.logpmf(_double(np.nan), 2.0)) is ad.Tensor
    with pytest.raises(ValueRangeError, match="betabinom.cdf: a sum of"):
        stats.betabinom.cdf(_double(1e11), 10**12, 2.0, 3.0)


def test_degrees_are_reduced_before_they_are_rounded() -> None:
    x = ad.tensor([0.0, 90.0, 180.0, 270.0, -90.0, 36e6 + 30.0], dtype=ad.float64)
    np.testing.assert_array_equal(special.sindg(x).numpy()[:5], [0, 1, 0, -1, -1])
    np.testing.assert_array_equal(special.cosdg(x).numpy()[:5], [1, 0, -1, 0, 0])
    np.testing.assert_array_equal(special.tandg(x).numpy()[:5], [0, np.inf, 0, np.inf, np.inf])
    np.testing.assert_array_equal(special.cotdg(x).numpy()[:5], [np.inf, 0, np.inf, 0, 0])
    assert abs(special.sindg(x)[5].item() - 0.5) < 2e-16

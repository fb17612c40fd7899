"""Special functions in C have the accuracy of their kernels: both are compared with mpmath."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import adjoint as ad
from adjoint.toolchain import build
from tests.compiler.test_interface import assert_same

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")

COUNT = 24


def powers(low: float, high: float, seed: int) -> Any:
    return 10 ** np.random.default_rng(seed).uniform(low, high, COUNT)


def between(low: float, high: float, seed: int) -> Any:
    return np.random.default_rng(seed).uniform(low, high, COUNT)


# function, its reference, arguments, ulp that are allowed: in powers 1 for each unit of an exponent
SHAPES, POINTS, SHARES = powers(-3, 3, 0), powers(-3, 3, 1), between(0, 1, 2)
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[Any], float]] = {
    "igamma": (
        ad.igamma, lambda a, x: mpmath.gammainc(a, 0, x, regularized=True), [SHAPES, POINTS], 1000,
    ),
    "igammac": (
        ad.igammac, lambda a, x: mpmath.gammainc(a, x, regularized=True), [SHAPES, POINTS], 1000,
    ),
    "igammac, small shapes": (
        ad.igammac, lambda a, x: mpmath.gammainc(a, x, regularized=True),
        [powers(-12, 0, 3), powers(-8, 1, 4)], 50,
    ),
    "igamma, large shapes": (
        ad.igamma, lambda a, x: mpmath.gammainc(a, 0, x, regularized=True),
        [powers(2, 3.5, 5), powers(2, 3.5, 5) * between(0.8, 1.2, 6)], 500,
    ),
    "betainc": (
        ad.special.betainc, lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True),
        [powers(-2, 2, 7), powers(-2, 2, 8), SHARES], 150,
    ),
    "betainc, small shapes": (
        ad.special.betainc, lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True),
        [powers(-2, 2, 9), powers(-12, 0, 10), SHARES], 50,
    ),
    "beta": (ad.special.beta, mpmath.beta, [powers(-3, 2, 11), powers(-3, 2, 12)], 50),
    "zeta": (ad.special.zeta, mpmath.zeta, [1 + powers(-3, 1.5, 13), powers(-1, 1, 14)], 8),
    "airy_ai": (ad.special.airy_ai, mpmath.airyai, [between(-14, 14, 15)], 60),
    "k0": (ad.special.modified_bessel_k0, lambda x: mpmath.besselk(0, x), [powers(-3, 2, 16)], 10),
    "k1": (ad.special.modified_bessel_k1, lambda x: mpmath.besselk(1, x), [powers(-3, 2, 17)], 10),
}  # fmt: skip


def ulps(values: Any, references: list[Any]) -> float:
    """The largest error in units of the last place; numbers below 1e-300 count as 0."""
    worst = 0.0
    for value, exact in zip(values.tolist(), references, strict=True):
        unit = max(float(np.spacing(abs(float(exact)))), 1e-316)
        worst = max(worst, float(abs(mpmath.mpf(value) - exact)) / unit)
    return worst


@pytest.mark.parametrize("name", CASES)
def test_special_function_in_c_is_accurate(name: str) -> None:
    function, exact, arguments, allowed = CASES[name]
    compiled = ad.compile(function)
    tensors = [ad.tensor(a, dtype=ad.float64) for a in arguments]
    assert compiled.lower(*tensors).callbacks() == []
    with mpmath.workdps(40):
        references = [exact(*map(mpmath.mpf, row)) for row in zip(*(a.tolist() for a in arguments))]
        assert ulps(compiled(*tensors).numpy(), references) <= allowed


BESIDE = np.array([-1 + 1e-16, -1.0000000000000002, -2 + 3e-16, -20 + 4e-15, -0.99999, -0.504])
NEGATIVE = np.array([-0.3, -4.5, -37.5, -1e-8, -1e-300, -170.5, -2.5, -0.3, -2.5])
FAR = np.array([1e30, 5e15, 1e5, 1e10, 1e30, 5e15, -170.25, -170.5, 5e15])
LARGEST = np.finfo(np.float64).max
LEAST = np.array([5e-324, -5e-324, 1e-323, 1e-310, -1e-310, 1e-301])
TOWARDS_END = np.array([700.5, 709.8, -709.8, 711.0, 713.9, -713.9])


def _beta_of_equal_shapes(a: Any, b: Any, x: Any) -> Any:
    """I(a, a, x) for a large a: Edgeworth's series, by the second and the fourth cumulant."""
    z, fourth = (2 * x - 1) * mpmath.sqrt(2 * a + 1), -6 / (2 * a + 3)
    return mpmath.ncdf(z) - fourth / 24 * (z**3 - 3 * z) * mpmath.npdf(z)


REMOTE: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[Any], float]] = {
    "digamma beside poles": (ad.digamma, mpmath.digamma, [BESIDE], 4),
    "beta of numbers far apart": (ad.special.beta, mpmath.beta, [NEGATIVE, FAR], 2e4),
    "betaln of numbers far apart": (
        ad.special.betaln, lambda a, b: mpmath.log(abs(mpmath.beta(a, b))), [NEGATIVE, FAR], 200,
    ),
    "k0 of the least numbers": (
        ad.special.modified_bessel_k0, lambda x: -mpmath.log(x / 2) - mpmath.euler,
        [np.array([5e-324, 1e-310])], 2,
    ),
    "scaled k0 of the largest": (
        ad.special.scaled_modified_bessel_k0, lambda x: mpmath.sqrt(mpmath.pi / 2 / x),
        [np.array([1e300, LARGEST])], 4,
    ),
    "zeta of the largest": (
        ad.special.zeta, lambda s, q: q ** (1 - s) / (s - 1) + q**-s / 2,
        [np.array([2, 1.5, 3, np.inf, 1e300]), np.array([1e300, LARGEST, 1e90, 1e300, 1e300])], 4,
    ),
    "lgamma of the least": (ad.lgamma, lambda x: mpmath.log(abs(1 / x)), [LEAST], 2),
    "betaln of the least": (
        ad.special.betaln, lambda a, b: mpmath.log(abs(1 / a)), [LEAST, powers(0, 3, 18)[:6]], 4,
    ),
    "i0 of the largest": (ad.i0, lambda x: mpmath.besseli(0, x), [TOWARDS_END], 20),
    "i1 of the largest": (ad.special.i1, lambda x: mpmath.besseli(1, x), [TOWARDS_END], 20),
    "k1 of the least": (ad.special.modified_bessel_k1, lambda x: 1 / x, [np.array([1e-307])], 2),
    "scaled k1 of the largest": (
        lambda x: ad.ops._scaled_k_derivative(x, 1, 0), lambda x: mpmath.sqrt(mpmath.pi / 2 / x),
        [np.array([1e300, LARGEST])], 4,
    ),
    "j0 of the largest": (
        ad.special.bessel_j0,
        lambda x: mpmath.sqrt(2 / (mpmath.pi * x)) * mpmath.cos(x - mpmath.pi / 4),
        [np.array([1e300, LARGEST])], 4,
    ),
    "polygamma of the largest": (
        lambda x: ad.ops._polygamma_difference(x, 1e300, 1), lambda x: 1 / (x + 1e300) - 1 / x,
        [np.array([1e300, 1e160])], 4,
    ),
    "zeta of a large exponent": (
        ad.special.zeta, lambda s, q: q**-s,
        [np.array([1e17, 1e300, 1e16]), np.array([1, 2.5, 1 + 2**-50])], 4,
    ),
    "zeta of an endless exponent": (
        ad.special.zeta, lambda s, q: mpmath.mpf(q == 1),
        [np.full(4, np.inf), np.array([1, 1 + 2**-50, 3, 1e9])], 0,
    ),
    "igamma of the least": (
        ad.igamma, lambda a, x: x**a / mpmath.gamma(1 + a),
        [np.array([5e-324, 1e-310, 0.3, 1]), np.array([5e-324, 1e-300, 5e-324, 1e-305])], 200,
    ),
    "igammac of the least": (
        ad.igammac, lambda a, x: a * mpmath.expint(1, x),
        [np.array([1e-305, 1e-301]), np.array([1.0, 0.25])], 4,
    ),
    "igammac beyond all shapes": (
        ad.igammac, lambda a, x: mpmath.mpf(x < a),
        [np.array([0.3, 1e-8, LARGEST, LARGEST]), np.array([LARGEST, LARGEST, 1.0, 1e300])], 0,
    ),
    "betainc of shapes near 0": (
        ad.special.betainc, lambda a, b, x: b / (a + b),
        [np.array([5e-324, 1e-310, 1e-30, 1e-18, 1e-300]),
         np.array([5e-324, 1e-320, 1e-18, 1e-30, 2.5]), np.array([0.5, 1e-300, 0.9, 0.1, 0.3])], 20,
    ),
    "betainc of one shape near 0": (
        ad.special.betainc, lambda a, b, x: -b * mpmath.log1p(-x),
        [np.ones(3), np.array([1e-300, 1e-21, 1e-25]), np.array([0.5, 0.9, 1e-10])], 8,
    ),
    "betainc of shapes far apart": (
        ad.special.betainc, lambda a, b, x: mpmath.gammainc(a, 0, b * x, regularized=True),
        [np.array([1.0, 2.5, 30.0]), np.array([1e50, 1e100, LARGEST]),
         np.array([2e-50, 1e-100, 1.5e-307])], 100,
    ),
    "betainc of large shapes": (
        ad.special.betainc, _beta_of_equal_shapes,
        [np.array([1e10, 1e12, 1e20, 1e60]), np.array([1e10, 1e12, 1e20, 1e60]),
         0.5 - np.array([1e-5, 2.0**-22, 2.0**-34, 0])], 2e3,
    ),
    "betainc of a step": (
        ad.special.betainc, lambda a, b, x: mpmath.mpf(x > a / (a + b)),
        [np.array([1e300, LARGEST, 1e300, 1e200]), np.array([1e300, LARGEST, 1e200, LARGEST]),
         np.array([0.4, 0.6, 0.9, 0.1])], 0,
    ),
    "igamma of the largest": (
        ad.igammac, lambda a, x: mpmath.erfc((x - a) / mpmath.sqrt(2 * a)) / 2,
        [np.array([1e30, 1e30, LARGEST]), np.array([1e30, 1e30 * (1 + 1e-15), LARGEST])], 8,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REMOTE)
def test_special_function_is_accurate_far_out(name: str) -> None:
    function, exact, arguments, allowed = REMOTE[name]
    tensors = [ad.tensor(a, dtype=ad.float64) for a in arguments]
    with mpmath.workdps(400):  # beta takes values of Γ
        references = [exact(*map(mpmath.mpf, row)) for row in zip(*(a.tolist() for a in arguments))]
        assert ulps(ad.compile(function)(*tensors).numpy(), references) <= allowed
        if not name.startswith(("k0", "scaled k0")):  # SciPy's kernels have their own ends there
            assert ulps(function(*tensors).numpy(), references) <= allowed


EDGES = np.array([0.0, -0.0, 1.0, -1.0, -2.0, 0.5, -2.5, np.inf, -np.inf, np.nan])
OPERATORS: dict[str, tuple[int, Callable[..., Any]]] = {
    "igamma": (2, ad.igamma), "igammac": (2, ad.igammac), "zeta": (2, ad.special.zeta),
    "beta": (2, ad.special.beta), "betainc": (3, ad.special.betainc),
    "airy_ai": (1, ad.special.airy_ai), "k1": (1, ad.special.modified_bessel_k1),
    "scaled k0": (1, ad.special.scaled_modified_bessel_k0),
    "hermite": (2, ad.special.hermite_polynomial_h),
    "legendre": (2, ad.special.legendre_polynomial_p),
    "gamma density": (2, lambda a, x: ad.ops._gamma_density(a, x, 1)),
    "gamma slope": (2, lambda a, x: ad.ops._gamma_slope(a, x, 0)),
    "shape of igamma": (2, lambda a, x: ad.ops._igamma_derivative(a, x, 1)),
    "shape of betainc": (3, lambda a, b, x: ad.ops._betainc_derivative(a, b, x, 1, 0)),
    "beta density": (3, lambda a, b, x: ad.ops._beta_density(a, b, x, 0, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_special_function_in_c_has_its_kernels_values_at_edges(name: str) -> None:
    count, function = OPERATORS[name]
    grids = np.meshgrid(*[EDGES] * count)
    tensors = [ad.tensor(g.ravel(), dtype=ad.float64) for g in grids]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(ad.compile(function)(*tensors), function(*tensors))


MAGNITUDES = np.array([1e-300, 1e-20, 0.3, 1.0, 200.0, 1e8, 1e20, 1e100, 1e300])
PLACES = np.array([1e-300, 1e-20, 0.1, 0.5, 0.9, 1 - 2.0**-53])
DENSITIES: dict[str, tuple[list[Any], Callable[..., Any]]] = {
    "of gamma": ([MAGNITUDES] * 2, lambda a, x: ad.ops._gamma_density(a, x, 0)),
    "of gamma in its shape": ([MAGNITUDES] * 2, lambda a, x: ad.ops._gamma_density(a, x, 1)),
    "igamma in its shape": ([MAGNITUDES] * 2, lambda a, x: ad.ops._igamma_derivative(a, x, 1)),
    "of beta": (
        [MAGNITUDES, MAGNITUDES, PLACES], lambda a, b, x: ad.ops._beta_density(a, b, x, 0, 0),
    ),
    "of beta in its shape": (
        [MAGNITUDES, MAGNITUDES, PLACES], lambda a, b, x: ad.ops._beta_density(a, b, x, 1, 0),
    ),
    "betainc in a shape": (
        [MAGNITUDES, MAGNITUDES, PLACES],
        lambda a, b, x: ad.ops._betainc_derivative(a, b, x, 0, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DENSITIES)
def test_densities_are_numbers_at_all_magnitudes(name: str) -> None:
    axes, function = DENSITIES[name]
    tensors = [ad.tensor(grid.ravel()) for grid in np.meshgrid(*axes)]
    found = function(*tensors).numpy()
    assert not np.isnan(found).any()
    np.testing.assert_allclose(ad.compile(function)(*tensors).numpy(), found, 1e-7, 1e-290)

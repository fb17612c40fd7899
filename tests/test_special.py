"""Special functions: values and derivatives to third order against mpmath at 50 digits."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import adjoint as ad
from adjoint.testing import accuracy

# Largest errors in ulp over the grids of `accuracy`, all orders; others stay below DEFAULT.
DEFAULT = 50
WORSE = {
    "special.i1e": 80,  # two terms of opposite sign
    "special.shifted_chebyshev_polynomial_t(x, 5)": 80,  # terms of the recurrence cancel
    "special.airy_ai": 1000,  # SciPy's values
}
SUBJECTS = {subject.name: subject for subject in accuracy.subjects()}


@pytest.mark.parametrize("name", SUBJECTS)
def test_special_functions_are_accurate_to_third_order(name: str) -> None:
    worst = max(max(row) for row in accuracy.errors(SUBJECTS[name]))
    assert worst <= WORSE.get(name, DEFAULT), worst


def derivative(function: Any, x: float, n: int, *, forward: bool) -> float:
    """The n-th derivative at x, all in reverse or all in forward mode."""
    tensor = ad.tensor(x, dtype=ad.float64)
    for _ in range(n):
        inner = function
        if forward:
            function = lambda t, f=inner: ad.jvp(f, (t,), (ad.ones_like(t),))[1]
        else:
            function = ad.grad(inner)
    return function(tensor).item()


POINTS = {
    "sinc": (ad.sinc, 2, 1e-9, lambda x: -(mp.pi**2) / 3 + mp.pi**4 * x**2 / 10),
    "i1": (ad.special.i1, 3, 1e-9, lambda x: mp.mpf(3) / 8 + 5 * x**2 / 32),
    "log_ndtr": (ad.special.log_ndtr, 3, -300.0, None),
    "erfcx": (ad.special.erfcx, 3, 1e4, None),
}


@pytest.mark.parametrize("forward", [False, True], ids=["reverse", "forward"])
@pytest.mark.parametrize("name", POINTS)
def test_derivatives_keep_their_digits(name: str, forward: bool) -> None:
    function, n, x, series = POINTS[name]
    if series is None:
        exact = accuracy.exact_derivative(SUBJECTS[f"special.{name}"], x, n)
    else:
        exact = series(mp.mpf(x))
    assert derivative(function, x, n, forward=forward) == pytest.approx(float(exact), rel=2e-15)


def test_xlogy_at_zero_has_zero_gradients() -> None:
    x, y = (ad.tensor([0.0, 0.0], dtype=ad.float64, requires_grad=True) for _ in range(2))
    (along_x, along_y) = ad.autograd.grad(ad.xlogy(x, y).sum(), (x, y))
    assert along_x.tolist() == [0.0, 0.0]
    assert along_y.tolist() == [0.0, 0.0]


def test_igamma_has_derivatives_in_both_arguments() -> None:
    a, x = (ad.tensor(v, dtype=ad.float64, requires_grad=True) for v in (2.0, 3.0))
    along_a, along_x = ad.autograd.grad(ad.igamma(a, x), (a, x), create_graph=True)
    exact = mp.diff(lambda t: mp.gammainc(t, 0, 3, regularized=True), 2)
    assert along_a.item() == pytest.approx(float(exact), rel=1e-14)
    assert along_x.item() == pytest.approx(3 * math.exp(-3), rel=1e-14)
    (mixed,) = ad.autograd.grad(along_a, x, retain_graph=True)
    (again,) = ad.autograd.grad(along_x, a)
    assert mixed.item() == pytest.approx(again.item(), rel=1e-13)


def test_igamma_slope_at_zero_is_finite() -> None:
    x = ad.tensor(0.0, dtype=ad.float64)
    f = lambda x: ad.igamma(ad.tensor(2.0, dtype=ad.float64), x)
    assert ad.grad(f)(x).item() == 0.0
    assert ad.grad(ad.grad(f))(x).item() == 1.0


def test_zeta_has_a_derivative_in_its_first_argument() -> None:
    s = ad.tensor(2.0, dtype=ad.float64)
    found = ad.grad(lambda s: ad.special.zeta(s, 1.0))(s).item()
    assert found == pytest.approx(float(mp.zeta(2, 1, 1)), rel=1e-14)


@pytest.mark.parametrize("kind", ["t", "u", "v", "w"])
def test_chebyshev_polynomials_are_smooth_at_the_ends(kind: str) -> None:
    f = getattr(ad.special, f"chebyshev_polynomial_{kind}")
    x = ad.tensor([1.0, -1.0], dtype=ad.float64, requires_grad=True)
    (slope,) = ad.autograd.grad(f(x, 4).sum(), x)
    assert np.isfinite(slope.numpy()).all()


def test_expit_keeps_its_slope_far_right() -> None:
    x = ad.tensor(60.0, dtype=ad.float64)
    assert ad.grad(ad.special.expit)(x).item() == pytest.approx(math.exp(-60), rel=1e-15)


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16, ad.float32])
def test_narrow_dtypes_keep_their_dtype(dtype: ad.DType) -> None:
    x = ad.tensor([0.5, 0.25], dtype=dtype, requires_grad=True)
    for f in (ad.erf, ad.special.erfcx, ad.special.log_ndtr, ad.lgamma, ad.special.i0e, ad.sinc):
        y = f(x)
        (slope,) = ad.autograd.grad(y.sum(), x)
        assert y.dtype is dtype
        assert slope.dtype is dtype


def test_infinite_arguments_of_the_bell_have_zero_slopes() -> None:
    x = ad.tensor([math.inf, -math.inf], dtype=ad.float64, requires_grad=True)
    (first,) = ad.autograd.grad(ad.erf(x).sum(), x, create_graph=True)
    (second,) = ad.autograd.grad(first.sum(), x)
    assert first.tolist() == [0.0, 0.0]
    assert second.tolist() == [0.0, 0.0]


def test_polygamma_refuses_a_negative_order() -> None:
    with pytest.raises(ValueError, match="polygamma"):
        ad.polygamma(-1, ad.tensor([1.0]))


@pytest.mark.parametrize("name", ["bessel_y0", "bessel_y1"])
def test_bessel_y_has_no_values_left_of_zero(name: str) -> None:
    x = ad.tensor([-1e9, -100.0, -30.0, -3.0], dtype=ad.float64)
    assert bool(getattr(ad.special, name)(x).isnan().all())

"""Special functions where a certificate does not look: mixed derivatives, ends, tails, errors.

How many digits they have to third order is measured in tests/laws/test_certificates.py.
"""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from functools import cache, partial
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.special import kve

import adjoint as ad
import adjoint.scipy.special as ad_special
from adjoint.testing.certificates import subjects, truths
from tests import ROOT


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
        (subject,) = (s for s in subjects.subjects() if s.title == f"special.{name}(x)")
        exact = truths.truths(subject, np.array([x])).high[n, 0]
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


# --- tails -------------------------------------------------------------------------------------

FUNCTIONS = ad.nn.functional
TAILS = {  # the leading term far out
    "sigmoid": (ad.sigmoid, 60.0, [1, 1, -1, 1]),
    "logsigmoid": (FUNCTIONS.logsigmoid, 60.0, [-1, 1, -1, 1]),
    "softplus": (lambda x: FUNCTIONS.softplus(x, 1, 1000), 60.0, [None, None, 1, -1]),
    "silu": (FUNCTIONS.silu, 60.0, [None, None, 2 - 60.0, 60.0 - 3]),
    "silu, left": (FUNCTIONS.silu, -60.0, [-60.0, 1 - 60.0, 2 - 60.0, 3 - 60.0]),
    "mish": (FUNCTIONS.mish, -60.0, [-60.0, 1 - 60.0, 2 - 60.0, 3 - 60.0]),
    "expm1": (ad.expm1, -60.0, [None, 1, 1, 1]),
}


@pytest.mark.parametrize("forward", [False, True], ids=["reverse", "forward"])
@pytest.mark.parametrize("name", TAILS)
def test_tails_keep_their_derivatives(name: str, forward: bool) -> None:
    function, x, factors = TAILS[name]
    for n, factor in enumerate(factors):
        if n == 0 or factor is None:
            continue
        found = derivative(function, x, n, forward=forward)
        assert found == pytest.approx(factor * math.exp(-60), rel=1e-14), n


def test_mish_falls_twice_as_fast_on_the_right() -> None:
    # x t, t = 1 - 2e^{-2x} + …: the second derivative is 8 (1 - x) e^{-2x}
    found = derivative(FUNCTIONS.mish, 30.0, 2, forward=False)
    assert found == pytest.approx(8 * (1 - 30.0) * math.exp(-60), rel=1e-11)


def test_sigmoid_is_flat_to_second_order_at_zero() -> None:
    assert derivative(ad.sigmoid, 1e-9, 2, forward=False) == pytest.approx(-1.25e-10, rel=1e-15)
    assert derivative(ad.sigmoid, 0.0, 2, forward=False) == 0


# --- gamma, beta -------------------------------------------------------------------------------


def test_polygamma_of_even_order_keeps_its_digits_at_negative_half_integers() -> None:
    # both sides of the pole cancel there: ψ⁽ⁿ⁾(-2.5) = ψ⁽ⁿ⁾(3.5) for even n
    for n in (2, 8, 60, 172):
        left, right = (ad.polygamma(n, ad.tensor(x, dtype=ad.float64)) for x in (-2.5, 3.5))
        assert left.item() == pytest.approx(right.item(), rel=1e-14), n


def test_polygamma_of_high_order_does_not_underflow_in_between() -> None:
    found = ad.polygamma(100, ad.tensor(1e4, dtype=ad.float64)).item()
    assert found == pytest.approx(float(-mp.factorial(100) * accurate_zeta(101, 1e4)), rel=1e-13)


def accurate_zeta(s: int, x: float) -> Any:
    """Euler–Maclaurin; mpmath's own loses digits at large arguments."""
    with mp.workdps(60):
        start, end = mp.mpf(x), mp.mpf(x) + 60
        total = sum((start + k) ** -s for k in range(60)) + end ** (1 - s) / (s - 1) + end**-s / 2
        for j in range(1, 15):
            total += (
                mp.bernoulli(2 * j)
                / mp.factorial(2 * j)
                * mp.rf(s, 2 * j - 1)
                * end ** (1 - s - 2 * j)
            )
        return total


def betainc(order_a: int, order_b: int, order_x: int, *, forward: bool) -> Any:
    """The mixed derivative, outermost in x."""

    def along(function: Any, place: int) -> Any:
        if not forward:
            return ad.grad(function, place)

        def moved(*at: Any) -> Any:
            tangents = [
                ad.ones_like(v) if k == place else ad.zeros_like(v) for k, v in enumerate(at)
            ]
            return ad.jvp(function, at, tuple(tangents))[1]

        return moved

    function = ad.special.betainc
    for place, order in enumerate((order_a, order_b, order_x)):
        for _ in range(order):
            function = along(function, place)
    return function


# the weights of f(x + kh) in hⁿ times the n-th derivative
CENTRAL = ({0: 1}, {-1: -0.5, 1: 0.5}, {-1: 1, 0: -2, 1: 1}, {-2: -0.5, -1: 1, 1: -1, 2: 0.5})


def central_difference(nearby: Any, orders: tuple[int, ...], step: int) -> Any:
    """A mixed derivative by central differences of nearby(i, j, …) = f(x + ih, y + jh, …).

    h is 10 to the power -step, and must be exact in the precision that is worked with.
    """
    terms = [
        math.prod(weight for _, weight in chosen) * nearby(*(steps for steps, _ in chosen))
        for chosen in itertools.product(*(CENTRAL[n].items() for n in orders))
    ]
    return sum(terms, mp.mpf(0)) * mp.mpf(10) ** (step * sum(orders))


ORDERS = [(i, j, k) for i in range(4) for j in range(4) for k in range(4) if 1 <= i + j + k <= 3]
POINTS_OF_BETA = [(0.3, 0.6, 0.1), (2.0, 3.0, 0.4), (7.0, 0.2, 0.9), (30.0, 45.0, 0.5)]


@cache
def betainc_nearby(point: tuple[float, ...], *steps: int) -> Any:
    """mpmath's function some steps of 1e-20 away from a point."""
    at = (mp.mpf(v) + n * mp.mpf(10) ** -20 for v, n in zip(point, steps, strict=True))
    a, b, x = at
    return mp.betainc(a, b, 0, x, regularized=True)


@pytest.mark.parametrize("orders", ORDERS, ids=str)
def test_betainc_has_all_derivatives_to_third_order(orders: tuple[int, int, int]) -> None:
    for point in POINTS_OF_BETA:
        with mp.workdps(120):
            nearby = partial(betainc_nearby, point)
            exact = float(central_difference(nearby, orders, 20))
        for forward in (False, True):
            found = betainc(*orders, forward=forward)(
                *(ad.tensor(v, dtype=ad.float64) for v in point)
            )
            assert found.item() == pytest.approx(exact, rel=2e-12), (point, forward)


@pytest.mark.parametrize("x", [1e-300, 1e-9, 0.2, 0.999, 1 - 1e-12])
def test_betainc_of_one_is_a_power(x: float) -> None:
    # I(a, 1, x) = xᵃ, and I(1, b, x) = 1 - (1-x)ᵇ: its derivatives in b are small next to I
    value = lambda v: ad.tensor(v, dtype=ad.float64)
    for n in (1, 2, 3):
        in_a = derivative(
            lambda a: ad.special.betainc(a, value(1.0), value(x)), 2.5, n, forward=False
        )
        exact = mp.mpf(x) ** 2.5 * mp.log(mp.mpf(x)) ** n
        assert in_a == pytest.approx(float(exact), rel=1e-12, abs=1e-307), n
        in_b = derivative(
            lambda b: ad.special.betainc(value(1.0), b, value(x)), 2.5, n, forward=False
        )
        exact = -((1 - mp.mpf(x)) ** 2.5) * mp.log1p(-mp.mpf(x)) ** n
        assert in_b == pytest.approx(float(exact), rel=1e-12, abs=1e-307), n


def test_betainc_of_large_parameters_keeps_its_digits() -> None:
    value = lambda v: ad.tensor(v, dtype=ad.float64)
    with mp.workdps(60):
        integral = lambda a: mp.betainc(a, 1500, 0, mp.mpf(0.41), regularized=True)
        exact = [float(mp.diff(integral, 1000, n, h=mp.mpf(10) ** -12)) for n in (1, 2, 3)]
    for n in (1, 2, 3):
        f = lambda a: ad.special.betainc(a, value(1500.0), value(0.41))
        assert derivative(f, 1000.0, n, forward=False) == pytest.approx(exact[n - 1], rel=1e-11)


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_betainc_is_smooth_at_the_ends_where_it_is_a_polynomial(end: float) -> None:
    # I(2, 3, x) = 6x² - 8x³ + 3x⁴
    value = lambda v: ad.tensor(v, dtype=ad.float64)
    f = lambda x: ad.special.betainc(value(2.0), value(3.0), x)
    exact = {0.0: [0, 12, -48], 1.0: [0, 0, 24]}[end]
    found = [derivative(f, end, n, forward=False) for n in (1, 2, 3)]
    assert found == pytest.approx(exact)
    for place in (0, 1):
        at = [value(2.0), value(3.0), value(end)]
        assert ad.grad(ad.special.betainc, place)(*at).item() == 0


def test_betaln_keeps_the_difference_of_digammas() -> None:
    f = lambda a: ad.special.betaln(a, ad.tensor(1e-3, dtype=ad.float64))
    with mp.workdps(50):
        exact = [mp.psi(n, 10**8) - mp.psi(n, 10**8 + mp.mpf(1e-3)) for n in (0, 1, 2)]
    for n in (1, 2, 3):
        found = derivative(f, 1e8, n, forward=False)
        assert found == pytest.approx(float(exact[n - 1]), rel=1e-14)


# --- far out -----------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [-1e10, -1e16, -1e100])
def test_airy_keeps_its_phase_far_left(x: float) -> None:
    with mp.workdps(250):
        exact = [mp.airyai(mp.mpf(x)), mp.airyai(mp.mpf(x), derivative=1)]
    for n in (0, 1):
        found = derivative(ad.special.airy_ai, x, n, forward=False)
        assert found == pytest.approx(float(exact[n]), rel=1e-13)


def test_polynomials_beyond_float64_are_infinite() -> None:
    x = ad.tensor([1e10, -1e10, 3.0], dtype=ad.float64, requires_grad=True)
    value = ad.special.chebyshev_polynomial_t(x, 501)
    (slope,) = ad.autograd.grad(value.sum(), x)
    assert value.tolist() == [math.inf, -math.inf, math.inf]
    assert slope.tolist() == [math.inf] * 3


def test_hermite_of_high_degree_has_a_zero_slope_at_zero() -> None:
    x = ad.tensor(0.0, dtype=ad.float64)
    f = lambda x: ad.special.hermite_polynomial_h(x, 500)
    assert ad.grad(f)(x).item() == 0
    assert f(x).item() == math.inf


def test_long_and_broadcast_arguments_equal_short_ones() -> None:
    x = ad.tensor(np.linspace(0.01, 30.0, 20_001))
    a = ad.tensor([[0.5], [7.0]], dtype=ad.float64)
    long = ad.igamma(a, x), ad.digamma(x), ad.ops._igamma_derivative(a, x, 1)
    short = x[9_000:9_010]
    same = ad.igamma(a, short), ad.digamma(short), ad.ops._igamma_derivative(a, short, 1)
    for one, two in zip(long, same):
        np.testing.assert_allclose(one[..., 9_000:9_010], two, rtol=1e-15)


@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_scaled_bessel_k_of_every_whole_order(order: int) -> None:
    """Near 0 a series, from 1 on an integral; (eˣ K)′ = eˣ (K − (Kᵥ₋₁ + Kᵥ₊₁)/2)."""
    x = np.array([0.4, 1.01, 5.0])
    below, value, above = (kve(order + step, x) for step in (-1, 0, 1))
    for n, exact in enumerate((value, value - (below + above) / 2)):
        found = ad.ops._scaled_k_derivative(ad.tensor(x), order, n)
        assert np.allclose(found.numpy(), exact, rtol=1e-12, atol=0)


@pytest.mark.parametrize("n", [65537, 10**6, 2**40, float("inf"), float("nan")])
def test_degrees_beyond_those_that_are_computed_give_nan_in_every_way(n: float) -> None:
    """In tensors of any size, and as a number; small arrays once raised, large ones did not."""
    x, many = ad.tensor([0.5, -0.25]), ad.full((40_000,), 0.5)
    for polynomial in (ad.special.chebyshev_polynomial_t, ad.special.hermite_polynomial_h):
        for result in (
            polynomial(x, n),
            polynomial(x, ad.full((2,), float(n))),
            polynomial(many, ad.full((40_000,), float(n))),
            ad.compile(polynomial)(x, ad.full((2,), float(n))),
        ):
            assert bool(result.isnan().all())


def test_without_a_compiler_vectors_have_the_values_of_single_numbers() -> None:
    """C's choices become choices of lanes: one that called itself on all lanes never ended."""
    program = ROOT / "tests" / "operators" / "special_without_compiler.py"
    settings = os.environ | {"ADJOINT_NATIVE": "0"}
    done = subprocess.run([sys.executable, program], env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("nu", [0.5, -0.5, 2.3, 7.3, -6.3, 19.4])
@pytest.mark.parametrize("kind", ["jv", "yv", "iv", "kv", "ive", "kve"])
def test_bessel_functions_of_real_orders_are_within_few_ulp(kind: str, nu: float) -> None:
    """Beside the amplitude of J and Y, also where SciPy is off by two hundred."""
    functions = {"j": mp.besselj, "y": mp.bessely, "i": mp.besseli, "k": mp.besselk}
    x = np.concatenate((10.0 ** np.linspace(-3, 1.39, 60), [9.648743127424208, 11.020203671503985]))
    found = ad.ops._bessel(ad.from_numpy(x), ad.full((62,), nu, dtype=ad.float64), kind).numpy()
    with mp.workdps(40):
        for z, value in zip(x.tolist(), found.tolist(), strict=True):
            scale = {"ive": mp.exp(-z), "kve": mp.exp(z)}.get(kind, 1)
            true = functions[kind[0]](mp.mpf(nu), mp.mpf(z)) * scale
            size = abs(true)
            if kind in ("jv", "yv") and z > abs(nu):  # it oscillates
                size = max(size, mp.sqrt(2 / (mp.pi * z)))
            most = 64 if kind in ("kv", "kve") else 12  # SciPy's where x is large
            assert abs(value - true) <= most * np.finfo(float).eps * size, (z, value, true)


@pytest.mark.parametrize("name", ["boxcox", "boxcox1p", "inv_boxcox", "inv_boxcox1p"])
def test_slopes_of_power_transforms_have_their_digits_at_every_size(name: str) -> None:
    def true(x: Any, y: Any) -> Any:
        if name.startswith("inv"):
            return (1 + x * y) ** (1 / y) - name.endswith("1p")
        return ((x + name.endswith("1p")) ** y - 1) / y

    ours = getattr(ad_special, name)
    at = [0.0004, 0.03, 0.7, 7.3, 48.9]
    for x, y in itertools.product(at, [-1.5, -0.01, 1e-9, 0.3, 2.0, 11.0]):
        if name.startswith("inv") and 1 + x * y <= 0.01:
            continue
        point = [ad.tensor(v, dtype=ad.float64) for v in (x, y)]
        with mp.workdps(60):
            for place in (0, 1):
                orders = (1, 0) if place == 0 else (0, 1)
                wanted = float(mp.diff(true, (mp.mpf(x), mp.mpf(y)), orders))
                slope = ad.grad(ours, argnums=place)
                for found in (slope(*point), ad.compile(slope)(*point)):
                    assert found.item() == pytest.approx(wanted, rel=2e-14), (x, y, place)


@pytest.mark.parametrize("x", [0.7499, 0.75 + 2**-40, 1.0, 2.9, 6.3])
def test_derivatives_of_the_mean_of_nearly_equal_numbers(x: float) -> None:
    """Arithmetic and geometric: it is even in x - y, and their powers cancelled."""
    f = [lambda x: ad_special.agm(x, x.new_tensor(0.75))]
    for order in (1, 2, 3):
        f.append(ad.grad(f[-1]))
        with mp.workdps(60):
            true = float(mp.diff(lambda t: mp.agm(t, mp.mpf(0.75)), mp.mpf(x), order))
        assert f[-1](ad.tensor(x, dtype=ad.float64)).item() == pytest.approx(true, rel=1e-14)


@pytest.mark.parametrize(
    ("name", "arguments", "place"),
    [("erfi", (-4.959,), 0), ("erfi", (26.0,), 0), ("rgamma", (-19.5006,), 0),
     ("rgamma", (-19.3314,), 0), ("owens_t", (0.75, -7.93), 1), ("owens_t", (-8.0, 0.3), 0)],
)  # fmt: skip
def test_slopes_keep_the_digits_of_their_exponents_and_angles(
    name: str, arguments: tuple[float, ...], place: int
) -> None:
    def owen(h: Any, a: Any) -> Any:
        return mp.quad(lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a]) / 2 / mp.pi

    true = {"erfi": mp.erfi, "rgamma": mp.rgamma, "owens_t": owen}[name]
    with mp.workdps(50):
        at = tuple(map(mp.mpf, arguments))
        order = tuple(int(k == place) for k in range(len(at))) if len(at) > 1 else 1
        wanted = float(mp.diff(true, at if len(at) > 1 else at[0], order))
    given = [ad.tensor(a, dtype=ad.float64) for a in arguments]
    found = ad.grad(getattr(ad_special, name), argnums=place)(*given).item()
    assert found == pytest.approx(wanted, rel=3e-15)

"""Accuracy of special functions against mpmath: `python -m tests.accuracy [FILE]`.

For every function the value and the derivatives of order one to three, in reverse mode, are
compared at a grid of arguments with mpmath at 50 digits. Errors are in ulp of the exact result
(float64); results beyond the range of float64 must be infinite, below it 0. Needs mpmath (the
extra `test`).
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.records import record

ORDERS = (0, 1, 2, 3)
DIGITS = 50
STEP = 30  # differences of exact functions are taken over 1e-30
# the weights of f(x + kh) in hⁿ times the n-th derivative
CENTRAL = ({0: 1}, {-1: -0.5, 1: 0.5}, {-1: 1, 0: -2, 1: 1}, {-2: -0.5, -1: 1, 1: -1, 2: 0.5})
LARGEST = 1.7976931348623157e308
LEAST = 1e-300  # below it a result counts as 0
# 0.5, 0.8, 1.2, 6, 12 and 25 are places where an algorithm gives way to another.
POSITIVE = (1e-9, 1e-3, 0.1, 0.5, 0.8, 0.97, 1.2, 1.3, 3.1, 6.0, 7.7, 12.0, 20.3, 25.0, 101.5, 1e4)
REAL = (0.0, *POSITIVE, *(-x for x in POSITIVE))
WIDE_POSITIVE = (1e-300, 1e-20, *POSITIVE, 1e10, 1e300)
WIDE = (0.0, *WIDE_POSITIVE, *(-x for x in WIDE_POSITIVE))
MODERATE = tuple(x for x in WIDE if abs(x) < 1e3)
SMALL = tuple(x for x in WIDE if abs(x) < 10)
FRACTIONS = (0.0, *(x for x in MODERATE if x % 1), 1e4 + 0.3, -1e4 - 0.3, 1e10 + 0.4)  # of sinc
UNIT = (0.0, 1e-280, 1e-9, 0.1, -0.4, 0.6, -0.97, 0.9999, 1 - 1e-12)
PROBABILITY = (1e-300, 1e-20, 1e-3, 0.2, 0.4, 0.7, 0.999, 1 - 1e-12)
GAMMA = (*(x for x in WIDE_POSITIVE if x > 1e-21), -1e-9, -0.3, -0.5, -1.7, -20.4, -300.5)
SHAPES = (1e-6, 1e-3, 0.1, 0.97, 3.1, 7.7, 20.3, 101.5, 1e3)
# Names in ad.special of functions that are listed under another one.
ALIASES = {
    "erf": "erf",
    "erfc": "erfc",
    "erfinv": "erfinv",
    "exp2": "exp2",
    "expit": "sigmoid",
    "expm1": "expm1",
    "gammainc": "igamma(a, x)",
    "gammaincc": "igammac(a, x)",
    "gammaln": "lgamma",
    "digamma": "digamma",
    "psi": "digamma",
    "polygamma": "polygamma(n, x)",
    "multigammaln": "mvlgamma(x, p)",
    "i0": "i0",
    "modified_bessel_i0": "i0",
    "modified_bessel_i1": "special.i1",
    "log1p": "log1p",
    "logit": "logit",
    "sinc": "sinc",
    "xlogy": "xlogy(x, y)",
    "log_softmax": "log_softmax",
    "logsumexp": "logsumexp",
    "softmax": "softmax",
}


@record
class Subject:
    """A function of one real argument, with its exact counterpart."""

    name: str  # "special.erfcx"
    function: Callable[[Any], Any]  # on tensors
    exact: Callable[[Any], Any]  # on mpmath's numbers
    grid: tuple[float, ...]
    slope: Callable[[Any, int], Any] | None = None  # exact n-th derivative, where mp.diff is poor


def subjects() -> list[Subject]:
    """Every function of the table, in the order of `table/special.yaml`."""
    return [*_normal(), *_elementary(), *_gamma(), *_incomplete(), *_bessel(), *_polynomials()]


def _fixed(value: float) -> Any:
    return ad.tensor(value, dtype=ad.float64)


def _normal() -> Iterable[Subject]:
    import mpmath as mp

    s = ad.special
    bell = lambda a, c: lambda x, n: c * _exact_bell(x, n - 1, a)
    erf, half = bell(1, 2 / mp.sqrt(mp.pi)), bell(mp.mpf(1) / 2, 1 / mp.sqrt(2 * mp.pi))
    near = lambda x: abs(x) < 1e3  # where mpmath does not give up
    for name, call, exact, slope in (
        ("erf", ad.erf, mp.erf, erf),
        ("erfc", ad.erfc, lambda x: mp.erfc(x) if near(x) else mp.mpf(2 * (x < 0)), _negative(erf)),
        ("special.ndtr", s.ndtr, lambda x: _exact_normal(x), half),
    ):
        derivative = lambda x, n, f=exact, g=slope: g(x, n) if n else f(x)
        yield Subject(name, call, exact, WIDE, derivative)
    grid = tuple(x for x in WIDE if x > -20)
    yield Subject("special.erfcx", s.erfcx, lambda x: _exact_erfcx(x, 0), grid, _exact_erfcx)
    yield Subject("erfinv", ad.erfinv, mp.erfinv, UNIT, _exact_erfinv)
    log_normal = lambda x: _exact_log_normal(x, 0)
    grid = tuple(x for x in (*WIDE, -300.0) if abs(x) < 1e11)
    yield Subject("special.log_ndtr", s.log_ndtr, log_normal, grid, _exact_log_normal)
    # ndtri(p) = -√2 erfcinv(2p); Newton's step from a good start has all digits.
    yield Subject("special.ndtri", s.ndtri, _exact_ndtri, PROBABILITY, _exact_ndtri_slope)


def _negative(slope: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
    return lambda x, n: -slope(x, n)


def _exact_bell(x: Any, n: int, a: Any) -> Any:
    """dⁿ/dxⁿ exp(-a x²)."""
    import mpmath as mp

    before, now = mp.mpf(0), mp.exp(-a * x * x)
    for k in range(n):
        before, now = now, -2 * a * (x * now + k * before)
    return now


def _exact_normal(x: Any) -> Any:
    import mpmath as mp

    return mp.erfc(-x / mp.sqrt(2)) / 2 if abs(x) < 1e3 else mp.mpf(x > 0)


def _exact_erfcx(x: Any, n: int) -> Any:
    """f' = 2x f - 2/√π, or for large x Σ (-1)ᵏ (½)ₖ x⁻¹⁻²ᵏ / √π term by term."""
    import mpmath as mp

    if x > 1e5:
        powers = ((-1) ** k * mp.rf(mp.mpf(1) / 2, k) * _power(x, -1 - 2 * k, n) for k in range(8))
        return sum(powers) / mp.sqrt(mp.pi)
    with mp.workdps(3 * DIGITS):
        found = [mp.exp(x * x) * mp.erfc(x)]
        found.append(2 * x * found[0] - 2 / mp.sqrt(mp.pi))
        for k in range(1, n):
            found.append(2 * k * found[k - 1] + 2 * x * found[k])
        return found[n]


def _power(x: Any, exponent: int, n: int) -> Any:
    """dⁿ/dxⁿ x^exponent."""
    import mpmath as mp

    return mp.ff(exponent, n) * x ** (exponent - n)


def _exact_log_normal(x: Any, n: int) -> Any:
    """h = φ/Φ, h' = -h (x + h); far left -x²/2 - log(-x√2π) + log(1 - x⁻² + 3x⁻⁴ - …)."""
    import mpmath as mp

    if x < -1e5:
        series = sum(c * _power(x, -2 * k, n) for k, c in ((1, -1), (2, 2.5), (3, -37 / mp.mpf(3))))
        main = (-x * x / 2 - mp.log(-x) - mp.log(2 * mp.pi) / 2, -x - 1 / x, 1 / x**2 - 1)
        return series + (main[n] if n < 3 else -2 / x**3)
    if x > 50:
        return mp.mpf(0)
    with mp.workdps(3 * DIGITS + 1200):
        tail = mp.erfc(abs(x) / mp.sqrt(2)) / 2
        if n == 0:
            return mp.log1p(-tail) if x > 0 else mp.log(tail)
        h = mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi) / (1 - tail if x > 0 else tail)
        slope = -h * (x + h)
        return (h, slope, -slope * (x + h) - h * (1 + slope))[n - 1]


def _exact_erfinv(x: Any, n: int) -> Any:
    import mpmath as mp

    y = mp.erfinv(x) if abs(x) > 1e-30 else mp.sqrt(mp.pi) / 2 * x  # its roots are not relative
    slope = mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
    return (y, slope, 2 * y * slope**2, (2 + 8 * y * y) * slope**3)[n]


def _exact_ndtri(p: Any) -> Any:
    import mpmath as mp
    from scipy import special

    y = mp.mpf(float(special.ndtri(float(p))))
    for _ in range(4):
        y -= (mp.erfc(-y / mp.sqrt(2)) / 2 - p) * mp.sqrt(2 * mp.pi) * mp.exp(y * y / 2)
    return y


def _exact_ndtri_slope(p: Any, n: int) -> Any:
    import mpmath as mp

    y = _exact_ndtri(p)
    slope = mp.sqrt(2 * mp.pi) * mp.exp(y * y / 2)
    return (y, slope, y * slope**2, (1 + 2 * y * y) * slope**3)[n]


def _elementary() -> Iterable[Subject]:
    import mpmath as mp

    s = ad.special
    log = lambda x, n: _power(x, -1, n - 1) if n else mp.log(x)
    log1p = lambda x, n: _power(1 + x, -1, n - 1) if n else mp.log1p(x)
    two = _fixed(2.0)
    above = (*WIDE_POSITIVE, 0.0, -0.4, -0.97, -1e-9, -1e-300)
    for name, call, slope, grid in (
        ("exp2", ad.exp2, lambda x, n: mp.log(2) ** n * mp.mpf(2) ** x, MODERATE),
        ("expm1", ad.expm1, lambda x, n: mp.exp(x) if n else mp.expm1(x), MODERATE),
        ("log1p", ad.log1p, log1p, above),
        ("xlogy(x, x)", lambda x: ad.xlogy(x, x), _negative(_exact_entr), WIDE_POSITIVE[1:]),
        ("xlogy(2, x)", lambda x: ad.xlogy(two, x), lambda x, n: 2 * log(x, n), WIDE_POSITIVE),
        ("xlog1py(2, x)", lambda x: s.xlog1py(two, x), lambda x, n: 2 * log1p(x, n), above),
        ("special.entr", s.entr, _exact_entr, WIDE_POSITIVE),
        ("logit", ad.logit, lambda x, n: log(x, n) - (-1) ** n * log(1 - x, n), PROBABILITY),
        ("sigmoid", ad.sigmoid, _exact_sigmoid, WIDE),
        ("sinc", ad.sinc, lambda x, n: mp.pi**n * _exact_sinc(mp.pi * x, n), FRACTIONS),
        ("special.spherical_bessel_j0", s.spherical_bessel_j0, _exact_sinc, WIDE),
        ("logsumexp", lambda x: _of_three(x).logsumexp((0,)), _exact_log_sum, SMALL),
        ("log_softmax", lambda x: _of_three(x).log_softmax(0)[0], _exact_log_share, SMALL),
        ("softmax", lambda x: _of_three(x).softmax(0)[0], _exact_share, SMALL),
    ):
        yield Subject(name, call, lambda x, f=slope: f(x, 0), grid, slope)


def _exact_entr(x: Any, n: int) -> Any:
    import mpmath as mp

    return -x * mp.log(x) if n == 0 else -(mp.log(x) + 1) if n == 1 else -_power(x, -1, n - 2)


def _exact_sigmoid(x: Any, n: int) -> Any:
    """σ' = σ (1 - σ), with enough digits for 1 - 2σ."""
    import mpmath as mp

    with mp.workdps(2 * DIGITS + 300):
        sigma, rest = 1 / (1 + mp.exp(-x)), 1 / (1 + mp.exp(x))
        slope = sigma * rest
        return (sigma, slope, slope * (rest - sigma), slope * ((rest - sigma) ** 2 - 2 * slope))[n]


def _exact_sinc(y: Any, n: int) -> Any:
    """y f⁽ⁿ⁾ + n f⁽ⁿ⁻¹⁾ = sin⁽ⁿ⁾ y, or the power series."""
    import mpmath as mp

    if abs(y) < 0.1:
        term = lambda k, m: (-1) ** k * y**m / ((2 * k + 1) * mp.factorial(m))
        return sum(term(k, 2 * k - n) for k in range((n + 1) // 2, 25))
    with mp.workdps(DIGITS + 350):
        found = mp.sin(y) / y
        for k in range(1, n + 1):
            found = (mp.sin(y + k * mp.pi / 2) - k * found) / y
        return found


def _of_three(x: Any) -> Any:
    """A vector (x, 0.3, -1.2) for each x, along dimension 0."""
    return ad.stack([x, ad.full_like(x, 0.3), ad.full_like(x, -1.2)])


def _from_others(x: Any) -> Any:
    import mpmath as mp

    return x - mp.log(mp.exp(mp.mpf(0.3)) + mp.exp(mp.mpf(-1.2)))


def _exact_share(x: Any, n: int) -> Any:
    return _exact_sigmoid(_from_others(x), n)


def _exact_log_share(x: Any, n: int) -> Any:
    import mpmath as mp

    y = _from_others(x)
    return -((-1) ** n) * _exact_sigmoid(-y, n - 1) if n else -mp.log1p(mp.exp(-y))


def _exact_log_sum(x: Any, n: int) -> Any:
    return _exact_share(x, n - 1) if n else x - _exact_log_share(x, 0)


def _gamma() -> Iterable[Subject]:
    import mpmath as mp

    s = ad.special
    polygamma = lambda k: lambda x, n: mp.re(mp.psi(k + n, x))
    log_gamma = lambda x, n: mp.re(mp.psi(n - 1, x)) if n else mp.re(mp.loggamma(x))
    grid = tuple(x for x in GAMMA if abs(x) < 1e200)
    yield Subject("lgamma", ad.lgamma, lambda x: log_gamma(x, 0), grid, log_gamma)
    yield Subject("digamma", ad.digamma, mp.digamma, grid, polygamma(0))
    for k in (1, 2, 30):
        call = lambda x, k=k: ad.polygamma(k, x)
        # mpmath reflects, and loses all digits left of 0 for high orders
        points = tuple(x for x in grid if x > -1 or k < 10)
        yield Subject(f"polygamma({k}, x)", call, lambda x, k=k: mp.psi(k, x), points, polygamma(k))
    for p in (3, 10):
        slope = lambda x, n, p=p: _exact_multigamma(x, n, p)
        edge = (p - 1) / 2
        points = tuple(edge + d for d in (1e-6, 1e-3, 0.1, 0.6, 2.1, 20.3, 1e4, 1e10))
        call = lambda x, p=p: ad.mvlgamma(x, p)
        yield Subject(f"mvlgamma(x, {p})", call, lambda x, f=slope: f(x, 0), points, slope)
    first = lambda x, n: mp.zeta(x, mp.mpf(0.7), n)
    above = (1.001, 1.1, 1.6, 3.1, 20.3)
    zeta = lambda x: s.zeta(x, 0.7)
    yield Subject("zeta(x, 0.7)", zeta, lambda x: first(x, 0), above, first)
    s_, second = mp.mpf(2.5), lambda x, n: mp.ff(-s_, n) * mp.zeta(s_ + n, x)
    grid = POSITIVE[1:]
    yield Subject("zeta(2.5, x)", lambda x: s.zeta(2.5, x), lambda x: second(x, 0), grid, second)


def _exact_multigamma(x: Any, n: int, p: int) -> Any:
    import mpmath as mp

    parts = (x - mp.mpf(j) / 2 for j in range(p))
    if n:
        return sum(mp.psi(n - 1, y) for y in parts)
    return sum(mp.loggamma(y) for y in parts) + mp.mpf(p * (p - 1)) / 4 * mp.log(mp.pi)


def _incomplete() -> Iterable[Subject]:
    import mpmath as mp

    s = ad.special
    lower = lambda a, x: mp.gammainc(a, 0, x, regularized=True)
    upper = lambda a, x: _with_digits(400 if x > 500 else 150, lambda: 1 - lower(a, x))
    for name, call, exact, sign in (
        ("igamma", ad.igamma, lower, 1),
        ("igammac", ad.igammac, upper, -1),
    ):
        for x in (3.0, 100.0):
            of_a = lambda a, f=call, x=x: f(a, _fixed(x))
            value = lambda a, f=exact, x=x: f(a, mp.mpf(x))
            yield Subject(f"{name}(x, {x:g})", of_a, value, SHAPES)
        for a in (0.3, 2.5, 200.0):
            of_x = lambda x, f=call, a=a: f(_fixed(a), x)
            slope = lambda x, n, f=exact, a=a, g=sign: _exact_in_place(f, mp.mpf(a), x, n, g)
            yield Subject(f"{name}({a:g}, x)", of_x, lambda x, f=slope: f(x, 0), SHAPES[1:], slope)
    for b in (0.7, 300.0):
        of_a = lambda a, b=b: s.betaln(a, _fixed(b))
        slope = lambda a, n, b=b: _exact_log_beta(a, mp.mpf(b), n)
        grid = (*SHAPES, 1e10)
        yield Subject(f"betaln(x, {b:g})", of_a, lambda a, f=slope: f(a, 0), grid, slope)
        beta = lambda a, n, b=b: _exact_beta(a, mp.mpf(b), n)
        of_a = lambda a, b=b: s.beta(a, _fixed(b))
        grid = SHAPES[:-3] if b > 1 else SHAPES
        yield Subject(f"beta(x, {b:g})", of_a, lambda a, f=beta: f(a, 0), grid, beta)
    regular = lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True)
    for b, x in ((0.6, 0.9), (40.0, 0.2)):
        of_a = lambda a, b=b, x=x: s.betainc(a, _fixed(b), _fixed(x))
        value = lambda a, b=b, x=x: regular(a, mp.mpf(b), mp.mpf(x))
        yield Subject(f"betainc(x, {b:g}, {x:g})", of_a, value, SHAPES[:-2])
        of_b = lambda a, b=b, x=x: s.betainc(_fixed(b), a, _fixed(1 - x))
        value = lambda a, b=b, x=x: regular(mp.mpf(b), a, mp.mpf(1 - x))
        yield Subject(f"betainc({b:g}, x, {1 - x:g})", of_b, value, SHAPES[:-2])
    for a, b in ((0.3, 4.0), (200.0, 300.0)):
        of_x = lambda x, a=a, b=b: s.betainc(_fixed(a), _fixed(b), x)
        slope = lambda x, n, a=a, b=b: _exact_in_probability(mp.mpf(a), mp.mpf(b), x, n)
        grid = (1e-9, 1e-3, 0.1, 0.37, 0.6, 0.97)
        yield Subject(f"betainc({a:g}, {b:g}, x)", of_x, lambda x, f=slope: f(x, 0), grid, slope)


def _with_digits(more: int, compute: Callable[[], Any]) -> Any:
    import mpmath as mp

    with mp.extradps(more):
        return compute()


def _exact_in_place(f: Any, a: Any, x: Any, n: int, sign: int) -> Any:
    """Derivatives in x of P or Q: those of ±xᵃ⁻¹ e⁻ˣ/Γ(a)."""
    import mpmath as mp

    if n == 0:
        return f(a, x)
    density = sign * mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a))
    u = (a - 1) / x
    return density * (1, u - 1, (u - 1) ** 2 - u / x)[n - 1]


def _exact_in_probability(a: Any, b: Any, x: Any, n: int) -> Any:
    import mpmath as mp

    if n == 0:
        return mp.betainc(a, b, 0, x, regularized=True)
    density = mp.exp((a - 1) * mp.log(x) + (b - 1) * mp.log1p(-x) - _exact_log_beta(a, b, 0))
    u, v = (a - 1) / x, (b - 1) / (1 - x)
    return density * (1, u - v, (u - v) ** 2 - u / x - v / (1 - x))[n - 1]


def _exact_log_beta(a: Any, b: Any, n: int) -> Any:
    import mpmath as mp

    if n:
        return mp.psi(n - 1, a) - mp.psi(n - 1, a + b)
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def _exact_beta(a: Any, b: Any, n: int) -> Any:
    import mpmath as mp

    f, g, h = (_exact_log_beta(a, b, k) for k in (1, 2, 3))
    return mp.exp(_exact_log_beta(a, b, 0)) * (1, f, f * f + g, f**3 + 3 * f * g + h)[n]


def _bessel() -> Iterable[Subject]:
    import mpmath as mp

    s = ad.special
    tiny = (1e-300, 1e-20)
    both = lambda grid: (*grid, *(-x for x in grid))
    for v in (0, 1):
        for name, kind, scale, grid in (
            (f"i{v}", "i", None, (0.0, *both((*tiny, *POSITIVE[:-1])))),
            (f"i{v}e", "i", lambda x: -mp.sign(x), both((*tiny, *POSITIVE))),
            (f"bessel_j{v}", "j", None, (0.0, *both((*tiny, *POSITIVE, 1e10)))),
            (f"bessel_y{v}", "y", None, (*tiny, *POSITIVE, 1e10)),
            (f"modified_bessel_k{v}", "k", None, (*tiny, *POSITIVE)),
            (f"scaled_modified_bessel_k{v}", "k", mp.sign, (*tiny, *POSITIVE)),
        ):
            slope = lambda x, n, v=v, f=kind, h=scale: _exact_bessel(f, v, x, n, h)
            name = name if name == "i0" else f"special.{name}"
            call = ad.i0 if name == "i0" else getattr(s, name.removeprefix("special."))
            yield Subject(name, call, lambda x, f=slope: f(x, 0), grid, slope)
    ai, slope = mp.airyai, lambda x: mp.airyai(x, derivative=1)
    airy = lambda x, n: (ai, slope, lambda x: x * ai(x), lambda x: ai(x) + x * slope(x))[n](x)
    grid = tuple(x for x in WIDE if x > -1e11 and x < 1e3)
    yield Subject("special.airy_ai", s.airy_ai, mp.airyai, grid, airy)


# C_v' = overall (C_{v-1} + up C_{v+1}) / 2
SIGNS = {"i": (1, 1), "j": (-1, 1), "y": (-1, 1), "k": (1, -1)}


def _exact_bessel(kind: str, v: int, x: Any, n: int, scale: Any) -> Any:
    """dⁿ/dxⁿ of e^{cx} C_v(x), by sums over neighbouring orders and Leibniz' rule."""
    import mpmath as mp

    up, overall = SIGNS[kind]
    f = _bessel_series if abs(x) < 25 else _bessel_far
    with mp.workdps(2 * DIGITS):
        c = scale(x) if scale else 0
        total = mp.mpf(0)
        for j in range(n + 1):
            orders = (mp.binomial(j, k) * up**k * f(kind, v - j + 2 * k, x) for k in range(j + 1))
            part = (overall / mp.mpf(2)) ** j * sum(orders)
            total += mp.binomial(n, j) * mp.mpf(c) ** (n - j) * part
        return mp.re(total * mp.exp(c * x))


@cache
def _bessel_far(kind: str, v: int, x: Any) -> Any:
    """From orders 0 and 1: mpmath takes long for Y and K."""
    import mpmath as mp

    if v < 0:
        return (-1) ** (v if kind in "jy" else 0) * _bessel_far(kind, -v, x)
    if v < 2:
        functions = {"i": mp.besseli, "j": mp.besselj, "y": mp.bessely, "k": mp.besselk}
        return functions[kind](v, x)
    before, now = _bessel_far(kind, v - 2, x), 2 * (v - 1) / x * _bessel_far(kind, v - 1, x)
    return {"i": before - now, "k": before + now}.get(kind, now - before)


@cache
def _bessel_series(kind: str, v: int, x: Any) -> Any:
    """The power series of DLMF 10.8.1, 10.31.1 for integer orders; mpmath takes long there."""
    import mpmath as mp

    order, sign = abs(v), 1 if kind in "ik" else -1
    mirror = (-1) ** order if v < 0 and sign < 0 else 1
    half = x / 2
    terms = range(20 + int(5 * abs(x)))
    weight = lambda k: (sign * half * half) ** k / (mp.factorial(k) * mp.factorial(order + k))
    regular = half**order * sum(weight(k) for k in terms)
    if kind in "ij":
        return mirror * regular
    both = lambda k: mp.harmonic(k) + mp.harmonic(order + k) - 2 * mp.euler
    rest = half**order * sum(both(k) * weight(k) for k in terms)
    poles = half**-order * sum(
        mp.factorial(order - k - 1) / mp.factorial(k) * (-sign * half * half) ** k
        for k in range(order)
    )
    if kind == "k":
        return (-1) ** (order + 1) * (mp.log(half) * regular - rest / 2) + poles / 2
    return mirror * (2 * mp.log(half) * regular - rest - poles) / mp.pi


def _polynomials() -> Iterable[Subject]:
    import mpmath as mp

    grid = (0.0, 1e-9, 0.1, 0.63, 0.97, 1.0, -1.0, -0.3, 2.7)
    u = mp.chebyu
    chebyshev = {
        "t": mp.chebyt,
        "u": u,
        "v": lambda n, x: u(n, x) - u(n - 1, x),
        "w": lambda n, x: u(n, x) + u(n - 1, x),
    }
    for name, exact in (
        *((f"chebyshev_polynomial_{k}", f) for k, f in chebyshev.items()),
        *(
            (f"shifted_chebyshev_polynomial_{k}", lambda n, x, f=f: f(n, 2 * x - 1))
            for k, f in chebyshev.items()
        ),
        ("hermite_polynomial_h", mp.hermite),
        ("hermite_polynomial_he", lambda n, x: mp.hermite(n, x / mp.sqrt(2)) / mp.sqrt(2) ** n),
        ("laguerre_polynomial_l", lambda n, x: mp.laguerre(n, 0, x)),
        ("legendre_polynomial_p", mp.legendre),
    ):
        function = getattr(ad.special, name)
        call, value = lambda x, f=function: f(x, 5), lambda x, f=exact: f(5, x)
        # He₅''' vanishes at ±1, where an error in ulp says nothing.
        points = tuple(x for x in grid if not (name.endswith("_he") and abs(x) == 1))
        yield Subject(f"special.{name}(x, 5)", call, value, points)


def derivatives(subject: Subject) -> list[np.ndarray[Any, Any]]:
    """The value and the first three derivatives over the grid, by reverse mode upon itself."""
    x = ad.tensor(np.array(subject.grid), requires_grad=True)
    result = subject.function(x)
    found = [result.detach().numpy()]
    for _ in ORDERS[1:]:
        (result,) = ad.autograd.grad(result.sum(), x, create_graph=True)
        found.append(result.detach().numpy())
    return found


def exact_derivative(subject: Subject, x: float, n: int) -> Any:
    """The n-th derivative at x by mpmath."""
    import mpmath as mp

    with mp.workdps(DIGITS):
        if subject.slope is not None:
            return subject.slope(mp.mpf(x), n)
        if n == 0:
            return mp.re(subject.exact(mp.mpf(x)))
    with mp.workdps(5 * DIGITS):  # differences of high order lose digits; here they can
        return mp.re(central_difference(lambda steps: _nearby(subject, x, steps), (n,), STEP))


@cache
def _nearby(subject: Subject, x: float, steps: int) -> Any:
    """The exact function some steps away from x; differences of all orders ask for the same."""
    import mpmath as mp

    return subject.exact(mp.mpf(x) + steps * mp.mpf(10) ** -STEP)


def central_difference(nearby: Callable[..., Any], orders: Sequence[int], step: int) -> Any:
    """A mixed derivative by central differences of nearby(i, j, …) = f(x + ih, y + jh, …).

    h is 10 to the power -step, and must be exact in the precision that is worked with.
    """
    import mpmath as mp

    terms = [
        math.prod(weight for _, weight in chosen) * nearby(*(steps for steps, _ in chosen))
        for chosen in itertools.product(*(CENTRAL[n].items() for n in orders))
    ]
    total = sum(terms, mp.mpf(0))
    if abs(total) < max(map(abs, terms)) * mp.mpf(10) ** (step - mp.mp.dps):
        return mp.mpf(0)  # nothing but rounding is left
    return total * mp.mpf(10) ** (step * sum(orders))


def error_in_ulp(found: float, exact: Any) -> float:
    """|found - exact| in units in the last place of the exact result."""
    import mpmath as mp

    if abs(exact) > LARGEST:
        return 0.0 if found == math.copysign(math.inf, exact) else math.inf
    if abs(exact) < LEAST:
        return 0.0 if abs(found) <= 2 * LEAST else math.inf
    if not math.isfinite(found):
        return math.inf
    return float(abs(mp.mpf(found) - exact) / mp.mpf(float(np.spacing(abs(float(exact))))))


def errors(subject: Subject) -> list[list[float]]:
    """For each order the errors over the grid."""
    found = derivatives(subject)
    return [
        [
            error_in_ulp(float(y), exact_derivative(subject, x, n))
            for x, y in zip(subject.grid, found[n])
        ]
        for n in ORDERS
    ]


HEADER = """# Accuracy of special functions

Largest error in ulp (float64) over a grid, against mpmath at 50 digits: the value and the first
three derivatives, by reverse mode upon itself. Written by
`python -m tests.accuracy FILE`.

Grids hold 0, ±1e-300, ±1e-20, ±1e-9, ±1e-3, … ±1e4, ±1e10, ±1e300 as far as the domain and mpmath
allow, the points where algorithms change, the edges of domains, and no zeros of the functions, next
to which an error in ulp says nothing. Results beyond float64 must be infinite there, below 1e-300
they count as 0. A power such as xᵃ e⁻ˣ/Γ(a) has the error of its exponent: 1 ulp for each unit.

| function | value | first | second | third | worst at |
| --- | ---: | ---: | ---: | ---: | --- |
"""


def report() -> str:
    """The table of largest errors, in Markdown."""
    lines = []
    for subject in subjects():
        table = errors(subject)
        worst = max(max(row) for row in table)
        at = next(x for row in table for x, e in zip(subject.grid, row) if e == worst)
        cells = " | ".join(f"{max(row):.3g}" for row in table)
        lines.append(f"| `{subject.name}` | {cells} | {at:g} |")
    others = ", ".join(
        f"`special.{name}` is `{of}`" for name, of in ALIASES.items() if name != of.split("(")[0]
    )
    return HEADER + "\n".join(lines) + f"\n\nOther names: {others}.\n"


if __name__ == "__main__":
    text = report()
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            file.write(text)
    else:
        print(text)

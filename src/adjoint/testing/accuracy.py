"""Accuracy of special functions against mpmath: `python -m adjoint.testing.accuracy [FILE]`.

For every function the value and the derivatives of order one to three, in reverse mode, are
compared at a grid of arguments with mpmath at 50 digits. Errors are in ulp of the exact result
(float64); results beyond the range of float64 must be infinite, below it 0. Needs mpmath (the
extra `test`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

import adjoint as ad

ORDERS = (0, 1, 2, 3)
DIGITS = 50
LARGEST = 1.7976931348623157e308
POSITIVE = (1e-9, 1e-3, 0.1, 0.5, 0.97, 1.3, 3.1, 7.7, 20.3, 101.5, 1e4)
REAL = (0.0, *POSITIVE, *(-x for x in POSITIVE))
MODERATE = tuple(x for x in REAL if abs(x) < 200)  # where mpmath is quick
NONZERO = tuple(x for x in REAL if x)
UNIT = (0.0, 1e-9, 0.1, -0.4, 0.6, -0.97, 0.9999, 1 - 1e-12)
PROBABILITY = (1e-300, 1e-20, 1e-3, 0.2, 0.4, 0.7, 0.999, 1 - 1e-12)
GAMMA = (*POSITIVE, -0.3, -1.7, -20.4)


@dataclass(frozen=True)
class Subject:
    """A function of one real argument, with its exact counterpart."""

    name: str  # "special.erfcx"
    function: Callable[[Any], Any]  # on tensors
    exact: Callable[[Any], Any]  # on mpmath's numbers
    grid: tuple[float, ...]
    slope: Callable[[Any, int], Any] | None = None  # exact n-th derivative, where mp.diff is poor


def subjects() -> list[Subject]:
    """Every function of the table, in the order of `table/special.yaml`."""
    return [*_normal(), *_elementary(), *_gamma(), *_bessel(), *_polynomials()]


def _normal() -> Iterable[Subject]:
    import mpmath as mp

    s, root = ad.special, mp.sqrt

    def log_normal(x: Any) -> Any:
        tail = mp.erfc(abs(x) / root(2)) / 2
        return mp.log1p(-tail) if x > 0 else mp.log(tail)

    def erfcx(x: Any) -> Any:
        return mp.exp(x * x) * mp.erfc(x)

    yield Subject("erf", ad.erf, mp.erf, REAL)
    yield Subject("erfc", ad.erfc, mp.erfc, REAL)
    yield Subject("special.erfcx", s.erfcx, erfcx, tuple(x for x in REAL if x > -20))
    yield Subject("erfinv", ad.erfinv, mp.erfinv, UNIT)
    yield Subject("special.ndtr", s.ndtr, lambda x: mp.erfc(-x / root(2)) / 2, REAL)
    yield Subject("special.log_ndtr", s.log_ndtr, log_normal, (*REAL, -300.0))
    # ndtri(p) = -√2 erfcinv(2p); Newton's step from a good start has all digits.
    yield Subject("special.ndtri", s.ndtri, _exact_ndtri, PROBABILITY, _exact_ndtri_slope)


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
    yield Subject("xlogy(2, x)", lambda x: ad.xlogy(2.0, x), lambda x: 2 * mp.log(x), POSITIVE)
    yield Subject("xlog1py(2, x)", lambda x: s.xlog1py(2.0, x), lambda x: 2 * mp.log1p(x), POSITIVE)
    yield Subject("special.entr", s.entr, lambda x: -x * mp.log(x), POSITIVE)
    logit = lambda x: mp.log(x / (1 - x))
    rational = lambda x, n: (
        mp.factorial(n - 1) * ((-1) ** (n - 1) / x**n + 1 / (1 - x) ** n) if n else logit(x)
    )
    yield Subject("logit", ad.logit, logit, PROBABILITY, rational)
    yield Subject("special.expit", s.expit, lambda x: 1 / (1 + mp.exp(-x)), MODERATE)
    yield Subject("sinc", ad.sinc, lambda x: mp.sincpi(x), REAL)
    yield Subject("special.spherical_bessel_j0", s.spherical_bessel_j0, mp.sinc, REAL)


def _gamma() -> Iterable[Subject]:
    import mpmath as mp

    s = ad.special
    reals = lambda x: mp.log(abs(mp.gamma(x)))
    psi = lambda k: lambda x, n: mp.psi(k + n, x)
    yield Subject(
        "lgamma", ad.lgamma, reals, GAMMA, lambda x, n: mp.psi(n - 1, x) if n else reals(x)
    )
    yield Subject("digamma", ad.digamma, mp.digamma, GAMMA, psi(0))
    for k in (1, 2):
        call = lambda x, k=k: ad.polygamma(k, x)
        yield Subject(f"polygamma({k}, x)", call, lambda x, k=k: mp.psi(k, x), GAMMA, psi(k))
    exact = lambda x: sum(mp.loggamma(x - j / mp.mpf(2)) for j in range(3)) + 1.5 * mp.log(mp.pi)
    above = (1.1, 1.6, 3.1, 20.3, 1e4)
    yield Subject("mvlgamma(x, 3)", lambda x: ad.mvlgamma(x, 3), exact, above)
    zeta = lambda x: s.zeta(x, 0.7)
    first = lambda x, n: mp.zeta(x, mp.mpf(0.7), n)
    yield Subject("zeta(x, 0.7)", zeta, lambda x: first(x, 0), (1.001, *above), first)
    second = lambda x: mp.zeta(mp.mpf(2.5), x)
    yield Subject("zeta(2.5, x)", lambda x: s.zeta(2.5, x), second, POSITIVE[1:])
    gammainc = lambda a, x: mp.gammainc(a, 0, x, regularized=True)
    tensor = lambda value: ad.tensor(value, dtype=ad.float64)
    grid = (1e-3, 0.1, 0.97, 3.1, 7.7, 20.3)
    in_x, in_a = lambda x: ad.igamma(tensor(2.5), x), lambda a: ad.igamma(a, tensor(3.0))
    yield Subject("igamma(2.5, x)", in_x, lambda x: gammainc(mp.mpf(2.5), x), grid)
    yield Subject("igamma(x, 3)", in_a, lambda a: gammainc(a, mp.mpf(3)), grid)
    rest = lambda a: mp.gammainc(a, mp.mpf(3), regularized=True)
    yield Subject("igammac(x, 3)", lambda a: ad.igammac(a, tensor(3.0)), rest, grid)


def _bessel() -> Iterable[Subject]:
    import mpmath as mp

    s = ad.special
    for v in (0, 1):
        i, ie = (ad.i0, s.i0e) if v == 0 else (s.i1, s.i1e)
        for name, call, exact, signs, scale, grid in (
            (f"i{v}", i, mp.besseli, (1, 1), None, MODERATE),
            (f"special.i{v}e", ie, mp.besseli, (1, 1), lambda x: -mp.sign(x), NONZERO),
            (f"special.bessel_j{v}", None, mp.besselj, (-1, 1), None, REAL),
            (f"special.bessel_y{v}", None, mp.bessely, (-1, 1), None, POSITIVE),
            (f"special.modified_bessel_k{v}", None, mp.besselk, (1, -1), None, POSITIVE),
            (f"special.scaled_modified_bessel_k{v}", None, mp.besselk, (1, -1), mp.sign, POSITIVE),
        ):
            slope = lambda x, n, v=v, f=exact, g=signs, h=scale: _exact_bessel(f, v, x, n, g, h)
            call = call or getattr(s, name.removeprefix("special."))
            yield Subject(name, call, lambda x, f=slope: f(x, 0), grid, slope)
    ai, slope = mp.airyai, lambda x: mp.airyai(x, derivative=1)
    airy = lambda x, n: (ai, slope, lambda x: x * ai(x), lambda x: ai(x) + x * slope(x))[n](x)
    yield Subject("special.airy_ai", s.airy_ai, mp.airyai, MODERATE, airy)


def _exact_bessel(f: Any, v: int, x: Any, n: int, signs: tuple[int, int], scale: Any) -> Any:
    """dⁿ/dxⁿ of e^{cx} f_v(x): C_v' = overall (C_{v-1} + up C_{v+1}) / 2, and Leibniz' rule."""
    import mpmath as mp

    up, overall = signs
    with mp.workdps(2 * DIGITS):
        c = scale(x) if scale else 0
        total = mp.mpf(0)
        for j in range(n + 1):
            orders = (mp.binomial(j, k) * up**k * f(v - j + 2 * k, x) for k in range(j + 1))
            part = (overall / mp.mpf(2)) ** j * sum(orders)
            total += mp.binomial(n, j) * mp.mpf(c) ** (n - j) * part
        return mp.re(total * mp.exp(c * x))


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

    point = mp.mpf(x)
    with mp.workdps(DIGITS):
        if subject.slope is not None:
            return subject.slope(point, n)
        if n == 0:
            return mp.re(subject.exact(point))
        with mp.workdps(3 * DIGITS):  # differences of high order lose digits; here they can
            return mp.re(mp.diff(subject.exact, point, n, h=mp.mpf(10) ** -(DIGITS // 2 + 5)))


def error_in_ulp(found: float, exact: Any) -> float:
    """|found - exact| in units in the last place of the exact result."""
    import mpmath as mp

    if abs(exact) > LARGEST:
        return 0.0 if found == math.copysign(math.inf, exact) else math.inf
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


def report() -> str:
    """The table of largest errors, in Markdown."""
    lines = [
        "# Accuracy of special functions",
        "",
        "Largest error in ulp (float64) over the grid, against mpmath; the value and the first "
        "three",
        "derivatives by reverse mode upon itself. Written by "
        "`python -m adjoint.testing.accuracy FILE`.",
        "Grids hold 0, ±1e-9, ±1e-3 … ±1e4 within the domain; those of i0, i1, expit, airy_ai stop",
        "at ±101.5, of erfcx at -7.7, of igamma at 20.3. They avoid zeros of the functions.",
        "",
        "| function | value | first | second | third | worst at |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for subject in subjects():
        table = errors(subject)
        worst = max(max(row) for row in table)
        at = next(x for row in table for x, e in zip(subject.grid, row) if e == worst)
        cells = " | ".join(f"{max(row):.3g}" for row in table)
        lines.append(f"| `{subject.name}` | {cells} | {at:g} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    text = report()
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            file.write(text)
    else:
        print(text)

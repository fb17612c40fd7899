"""The functions that definitions are written in, on series of balls (`balls.py`).

Every public function of this file is a word of the language of `definitions.txt`. They follow the
textbook and never our kernels: what they lose by cancellation, more bits give back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.testing.certificates.balls import (
    ORDERS,
    constant,
    derivatives,
    flint,
    inverted,
    number,
    root,
    series,
    stepped,
)


def _method(name: str) -> Callable[[Any], Any]:
    return lambda s: getattr(s if isinstance(s, flint().arb_series) else series([s]), name)()


exp, log, sqrt, rsqrt = map(_method, ("exp", "log", "sqrt", "rsqrt"))
sin, cos, tan, asin, acos, atan = map(_method, ("sin", "cos", "tan", "asin", "acos", "atan"))
erf, erfc, erfi, gamma, rgamma = map(_method, ("erf", "erfc", "erfi", "gamma", "rgamma"))
sin_pi, cos_pi, fresnel_s, fresnel_c = map(_method, ("sin_pi", "cos_pi", "fresnel_s", "fresnel_c"))
ei, si, ci, shi, chi, li = map(_method, ("ei", "si", "ci", "shi", "chi", "li"))
airy_ai, airy_bi, airy_ai_prime, airy_bi_prime, lambertw = map(
    _method, ("airy_ai", "airy_bi", "airy_ai_prime", "airy_bi_prime", "lambertw")
)


def log1p(s: Any) -> Any:
    return log(1 + s)


def expm1(s: Any) -> Any:
    return exp(s) - 1


def sinh(s: Any) -> Any:
    return (exp(s) - exp(-s)) / 2


def cosh(s: Any) -> Any:
    return (exp(s) + exp(-s)) / 2


def tanh(s: Any) -> Any:
    """(1 - e)/(1 + e) with e = exp(-2|x|), which never overflows."""
    sign = -1 if constant(s) < 0 else 1
    e = exp(-2 * sign * s)
    return sign * (1 - e) / (1 + e)


def asinh(s: Any) -> Any:
    sign = -1 if constant(s) < 0 else 1
    return sign * log(sign * s + sqrt(1 + s * s))


def acosh(s: Any) -> Any:
    return log(s + sqrt(s - 1) * sqrt(s + 1))


def atanh(s: Any) -> Any:
    return (log(1 + s) - log(1 - s)) / 2


def sigmoid(s: Any) -> Any:
    if constant(s) < 0:
        e = exp(s)
        return e / (1 + e)
    return 1 / (1 + exp(-s))


def softplus(s: Any) -> Any:
    """log(1 + eˣ)."""
    return s + log(1 + exp(-s)) if constant(s) > 0 else log(1 + exp(s))


def power(s: Any, exponent: Any) -> Any:
    """x^p: repeated products for whole p, of negative x as well; otherwise e^{p log x}."""
    if not isinstance(exponent, flint().arb_series):
        p = number(exponent)
        if p.is_integer() and abs(p) < 10_000:
            n = int(float(p))
            return (series([1]) * s) ** n if n >= 0 else 1 / (series([1]) * s) ** -n
    return exp(exponent * log(s))


def absolute(s: Any) -> Any:
    return -s if constant(s) < 0 else s


def ndtr(s: Any) -> Any:
    """Φ(x), without cancellation on either side."""
    return erfc(-s / sqrt(number(2))) / 2


def log_ndtr(s: Any) -> Any:
    if constant(s) > 0:
        return log(1 - ndtr(-s))
    return log(ndtr(s))


def erfinv(s: Any) -> Any:
    return inverted(erf, constant(s).erfinv(), s)


def ndtri(s: Any) -> Any:
    """Φ⁻¹(p) = -√2 erfc⁻¹(2p)."""
    two = number(2)
    return inverted(ndtr, -two.sqrt() * (two * constant(s)).erfcinv(), s)


def polygamma(n: int, s: Any) -> Any:
    acb = flint().acb
    order = int(float(number(n)))
    if order == 0:
        return derivatives(lambda k, a: _psi(acb(a), k))(s)
    return derivatives(lambda k, a: _psi(acb(a), order + k))(s)


def _psi(z: Any, n: int) -> Any:
    return z.digamma().real if n == 0 else z.polygamma(n).real


def digamma(s: Any) -> Any:
    return polygamma(0, s)


def lgamma(s: Any) -> Any:
    """log |Γ(x)|."""
    if constant(s) > 0:
        return _method("lgamma")(s)
    acb = flint().acb
    return derivatives(lambda n, a: abs(a.gamma()).log() if n == 0 else _psi(acb(a), n - 1))(s)


def zeta(s: Any, q: Any = 1) -> Any:
    """The Hurwitz zeta function, a series in one of its arguments."""
    if isinstance(s, flint().arb_series):
        return s.zeta(constant(q))
    order = number(s)
    rising = lambda n: (-order - n + 1).rising(n)  # (-s)(-s-1)…(-s-n+1), ascending
    return derivatives(lambda n, a: rising(n) * (order + n).zeta(a))(q)


def _bessel(kind: str, up: int, overall: int) -> Callable[[Any, Any], Any]:
    """C_v' = ±(C_{v-1} ± C_{v+1})/2, n times: a sum over neighbouring orders."""

    def of_series(v: Any, s: Any) -> Any:
        order = number(v)
        value = lambda m, a: getattr(a, kind)(order + m)

        def nth(n: int, a: Any) -> Any:
            terms = (math.comb(n, k) * up**k * value(2 * k - n, a) for k in range(n + 1))
            return (number(overall) / 2) ** n * sum(terms, number(0))

        return derivatives(nth)(s)

    return of_series


besselj, bessely = _bessel("bessel_j", -1, 1), _bessel("bessel_y", -1, 1)
besseli, besselk = _bessel("bessel_i", 1, 1), _bessel("bessel_k", 1, -1)


def gammainc(a: Any, x: Any) -> Any:
    """P(a, x)."""
    kind = flint().arb_series
    if isinstance(a, kind):
        return stepped(lambda b: constant(x).gamma_lower(b, 1), a)
    return kind.gamma_lower(number(a), x, 1)


def gammaincc(a: Any, x: Any) -> Any:
    """Q(a, x)."""
    kind = flint().arb_series
    if isinstance(a, kind):
        return stepped(lambda b: constant(x).gamma_upper(b, 1), a)
    return kind.gamma_upper(number(a), x, 1)


def betainc(a: Any, b: Any, x: Any) -> Any:
    """I_x(a, b)."""
    kind = flint().arb_series
    if isinstance(a, kind):
        return stepped(lambda c: constant(x).beta_lower(c, number(b), 1), a)
    if isinstance(b, kind):
        return stepped(lambda c: constant(x).beta_lower(number(a), c, 1), b)
    return kind.beta_lower(number(a), number(b), x, 1)


def polylog(s: Any, z: Any) -> Any:
    """Li_s(z), z ≤ 1."""
    acb = flint().acb
    return stepped(lambda a: acb(a).polylog(number(s)).real, z)


def hyp1f1(a: Any, b: Any, x: Any) -> Any:
    """d/dx ₁F₁(a; b; x) = a/b ₁F₁(a+1; b+1; x)."""
    p, q = number(a), number(b)
    ratio = lambda n: p.rising(n) / q.rising(n)
    return derivatives(lambda n, z: ratio(n) * z.hypgeom_1f1(p + n, q + n))(x)


def hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Any:
    p, q, r = number(a), number(b), number(c)
    ratio = lambda n: p.rising(n) * q.rising(n) / r.rising(n)
    return derivatives(lambda n, z: ratio(n) * z.hypgeom_2f1(p + n, q + n, r + n))(x)


def hyp0f1(b: Any, x: Any) -> Any:
    q = number(b)
    return derivatives(lambda n, z: z.hypgeom_0f1(q + n) / q.rising(n))(x)


def ellipk(s: Any) -> Any:
    """K(m), by differences of balls."""
    acb = flint().acb
    return stepped(lambda m: acb(m).elliptic_k().real, s)


def ellipe(s: Any) -> Any:
    acb = flint().acb
    return stepped(lambda m: acb(m).elliptic_e().real, s)


def ellipkinc(phi: Any, m: Any) -> Any:
    acb, kind = flint().acb, flint().arb_series
    if isinstance(phi, kind):
        return stepped(lambda p: acb.elliptic_f(acb(p), acb(constant(m))).real, phi)
    return stepped(lambda n: acb.elliptic_f(acb(constant(phi)), acb(n)).real, m)


def ellipeinc(phi: Any, m: Any) -> Any:
    acb, kind = flint().acb, flint().arb_series
    if isinstance(phi, kind):
        return stepped(lambda p: acb.elliptic_e_inc(acb(p), acb(constant(m))).real, phi)
    return stepped(lambda n: acb.elliptic_e_inc(acb(constant(phi)), acb(n)).real, m)


def agm(a: Any, b: Any) -> Any:
    kind = flint().arb_series
    if isinstance(a, kind):
        return stepped(lambda c: c.agm(number(b)), a)
    return stepped(lambda c: number(a).agm(c), b)


def elliprf(x: Any, y: Any, z: Any) -> Any:
    """R_F, a series in z."""
    acb = flint().acb
    return stepped(lambda c: acb.elliptic_rf(acb(number(x)), acb(number(y)), acb(c)).real, z)


def owens_t(h: Any, a: Any) -> Any:
    """T(h, a), by its integral over a, or in a by its slope."""
    acb, pi = flint().acb, flint().arb.pi()
    w, b = constant(h), constant(a)
    density = lambda t: (-w * w * (1 + t * t) / 2).exp() / (1 + t * t) / (2 * acb(pi))
    value = acb.integral(lambda t, _: density(t), 0, acb(b)).real
    if isinstance(h, flint().arb_series):
        slope = -exp(-h * h / 2) * erf(b * h / number(2).sqrt()) / (2 * (2 * pi).sqrt())
    else:
        slope = exp(-w * w * (1 + a * a) / 2) / (1 + a * a) / (2 * pi)
    return series([value, *(slope[k] / (k + 1) for k in range(ORDERS - 1))])


def expn(n: Any, s: Any) -> Any:
    """E_n, whose derivatives are those of lower order."""
    acb, order = flint().acb, number(n)
    return derivatives(lambda k, x: (-1) ** k * acb(x).expint(acb(order - k)).real)(s)


def struve(sign: int, v: Any, s: Any) -> Any:
    """H_v(x) and, for the sign -1, L_v(x) for x > 0, by ₁F₂."""
    acb, order = flint().acb, number(v)
    half = number(1) / 2

    def value(x: Any) -> Any:
        z = acb(-number(sign) * x * x / 4)
        found = z.hypgeom([acb(1)], [acb(3 * half), acb(order + 3 * half)])
        scale = (x / 2) ** (order + 1) / ((3 * half).gamma() * (order + 3 * half).gamma())
        return found.real * scale

    return stepped(value, s)


def inverse(function: Callable[[Any], Any], guess: float, s: Any) -> Any:
    """The series of a function's inverse, from a guess of its value."""
    y = constant(s)
    return inverted(function, root(lambda t: function(t) - y, guess), s)


def gammaincinv(a: Any, s: Any) -> Any:
    guess = _scipy("gammaincinv", float(number(a)), float(constant(s)))
    return inverse(lambda t: gammainc(a, t), guess, s)


def gammainccinv(a: Any, s: Any) -> Any:
    guess = _scipy("gammainccinv", float(number(a)), float(constant(s)))
    return inverse(lambda t: gammaincc(a, t), guess, s)


def betaincinv(a: Any, b: Any, s: Any) -> Any:
    guess = _scipy("betaincinv", float(number(a)), float(number(b)), float(constant(s)))
    return inverse(lambda t: betainc(a, b, t), guess, s)


def student(df: Any, t: Any) -> Any:
    """Student's distribution function, a series in one of its arguments."""
    nu = constant(df)
    if isinstance(df, flint().arb_series):
        at = constant(t)
        x = lambda v: v / (v + at * at)
        half = number(1) / 2
        tail = stepped(lambda v: x(v).beta_lower(v / 2, half, 1) / 2, df)
        return tail if at < 0 else 1 - tail
    middle = (nu * flint().arb.pi()).sqrt() * (nu / 2).gamma() / ((nu + 1) / 2).gamma()
    if abs(constant(t)) < nu.sqrt() / 2:
        half = number(1) / 2
        value = lambda a: a * (-a * a / nu).hypgeom_2f1(half, (nu + 1) / 2, 3 * half) / middle
        density = (1 + t * t / nu).log() * (-(nu + 1) / 2)
        slope = density.exp() / middle
        taylor = [value(constant(t)), *(slope[k] / (k + 1) for k in range(ORDERS - 1))]
        return number(1) / 2 + series(taylor)
    x = nu / (nu + t * t)
    tail = betainc(nu / 2, number(1) / 2, x) / 2
    return tail if constant(t) < 0 else 1 - tail


def stdtrit(df: Any, s: Any) -> Any:
    guess = _scipy("stdtrit", float(number(df)), float(constant(s)))
    return inverse(lambda t: student(df, t), guess, s)


def wrightomega(s: Any) -> Any:
    """W(eˣ), of which ω + log ω = x."""
    guess = _scipy("wrightomega", float(constant(s)))
    return inverse(lambda w: w + log(w), guess, s)


def _scipy(name: str, *arguments: float) -> float:
    """A first approximation, which the enclosure does not depend on."""
    from scipy import special

    return float(getattr(special, name)(*arguments))


def polynomial(kind: str, n: Any, s: Any) -> Any:
    """A Chebyshev, Hermite, Laguerre or Legendre polynomial, by its recurrence in series."""
    degree = int(float(number(n)))
    start, step = _RECURRENCES[kind]
    before, now = series([1]), start(s)
    if degree == 0:
        return before + 0 * s
    for k in range(1, degree):
        before, now = now, step(k, s, now, before)
    return now


_RECURRENCES: dict[str, tuple[Callable[[Any], Any], Callable[[int, Any, Any, Any], Any]]] = {
    "t": (lambda x: x, lambda k, x, p, q: 2 * x * p - q),
    "u": (lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - q),
    "v": (lambda x: 2 * x - 1, lambda k, x, p, q: 2 * x * p - q),
    "w": (lambda x: 2 * x + 1, lambda k, x, p, q: 2 * x * p - q),
    "h": (lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - 2 * k * q),
    "he": (lambda x: x, lambda k, x, p, q: x * p - k * q),
    "l": (lambda x: 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)),
    "p": (lambda x: x, lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1)),
}


def floor(s: Any) -> Any:
    """The largest whole number below, a constant."""
    return constant(s).floor()


def trunc(s: Any) -> Any:
    a = constant(s)
    return a.floor() if a > 0 else a.ceil()


def sinc_at_zero(s: Any) -> Any:
    """The power series of sin(πx)/(πx), as far as it is asked for."""
    square = (flint().arb.pi() * s) ** 2
    return 1 - square / 6 + square * square / 120


def exprel_at_zero(s: Any) -> Any:
    return 1 + s / 2 + s**2 / 6 + s**3 / 24 + s**4 / 120


def cauchy_cdf(s: Any) -> Any:
    """1/2 + atan(x)/π, of -1/x below."""
    pi = flint().arb.pi()
    return atan(-1 / s) / pi if constant(s) < -1 else number(1) / 2 + atan(s) / pi


def exprel(s: Any) -> Any:
    return expm1(s) / s if constant(s) != 0 else exprel_at_zero(s)


def log1prel(s: Any) -> Any:
    """log(1 + x)/x, by its power series, as far as it is asked for, at 0."""
    if constant(s) != 0:
        return log(1 + s) / s
    return 1 - s / 2 + s**2 / 3 - s**3 / 4 + s**4 / 5


def boxcox_at_zero(log_of: Any, s: Any) -> Any:
    """Σ log(c)ⁿ⁺¹ xⁿ/(n + 1)!."""
    w = constant(log_of)
    return series([w ** (n + 1) / math.factorial(n + 1) for n in range(ORDERS)]) + 0 * s


# -- of vectors ------------------------------------------------------------------------------------


def total(parts: Sequence[Any]) -> Any:
    return sum(parts[1:], start=parts[0])


def product(parts: Sequence[Any]) -> Any:
    return math.prod(parts[1:], start=parts[0])


def dotted(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return total([u * v for u, v in zip(a, b)])


def greatest(parts: Sequence[Any]) -> Any:
    """The constant term of the largest."""
    return max((constant(v) for v in parts), key=float)


def cbrt(s: Any) -> Any:
    sign = -1 if constant(s) < 0 else 1
    return sign * exp(log(sign * s) / 3)

"""Derivatives of SciPy's special functions that have no row of their own.

`SLOPES` has a tuple for each name, in the order of SciPy's arguments: ∂f/∂argument as a function
of the result and the arguments, None where no formula is known. A function with several results
has a row for each, "sici" and "sici.1". Equations are of the DLMF unless a source is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from adjoint import ops
from adjoint.core.errors import NotDifferentiable

Tensor = Any
Slope = Callable[..., Any]
ROOT_PI = math.sqrt(math.pi)


def slope(name: str, part: int, place: int, result: Tensor, *args: Tensor) -> Tensor:
    """∂f/∂args[place] of the function of this name."""
    known = SLOPES.get(f"{name}.{part}" if part else name, ())
    formula = known[place] if place < len(known) else None
    if formula is None:
        raise NotDifferentiable(
            f"scipy.special.{name}: no derivative in argument {place + 1} is known here; pass its "
            "detached value, or give the function a rule with ad.custom_vjp"
        )
    return formula(result, *args)


def f(name: str, *args: Any, part: int = 0) -> Tensor:
    """SciPy's function of tensors; numbers are filled to the shape of the last one."""
    like = args[-1]
    tensors = [a if not isinstance(a, (int, float)) else ops.full_like(like, a) for a in args]
    return ops._scipy(*tensors, name, part)


def digamma(x: Tensor) -> Tensor:
    return ops.digamma(x)


def _density(x: Tensor) -> Tensor:
    """exp(-x²/2)/√(2π)."""
    return ops._gaussian_derivative(x, 0, 0.5) / math.sqrt(2 * math.pi)


def _density_of_product(x: Tensor, y: Tensor) -> Tensor:
    """exp(-(xy)²/2)/√(2π), with the digits that the product has lost."""
    return _density(x * y) * (1 - (x * y).detach() * _lost(x, y))


def _exp_of_square(x: Tensor) -> Tensor:
    """exp(x²), with the digits that x² has lost."""
    return ops.exp(x * x) * (1 + _lost(x, x))


def _lost(x: Tensor, y: Tensor) -> Tensor:
    """What rounding took from the product xy; 0 where that is not known.  Dekker 1971."""
    x, y = x.detach(), y.detach()
    a, c = _upper_half(x), _upper_half(y)
    b, d = x - a, y - c
    lost = (((a * c - x * y) + a * d) + b * c) + b * d
    return lost.where(lost.isfinite(), 0.0)


def _upper_half(x: Tensor) -> Tensor:
    """The upper half of the digits of x, whose square is exact."""
    digits = {"float64": 27, "float32": 12}.get(str(x.dtype).rpartition(".")[2], 6)
    large = x * (2.0**digits + 1)
    return large - (large - x)


def _complete(sign: int, m: Tensor) -> Tensor:
    """K'(m) and -E'(m) for sign ±1: R_D(0, 1, 1 - m)/6 and R_D(0, 1 - m, 1)/6, 19.25.1."""
    zero, one = ops.zeros_like(m), ops.ones_like(m)
    return ops._carlson(zero, one, 1 - m, 0, *((0, 1) if sign > 0 else (1, 0))) / 4


def _incomplete(name: str, phi: Tensor, m: Tensor) -> Tensor:
    """∂F/∂m or ∂E/∂m: s³/6 R_D at the angle within a half turn, 19.25.5, and the turns before."""
    turns = ops.round(phi / math.pi)
    rest = phi - math.pi * turns
    s, c = ops.sin(rest), ops.cos(rest)
    delta, one = 1 - m * s * s, ops.ones_like(m * s)
    sign, powers = (1, (0, 0, 1)) if name == "ellipkinc" else (-1, (0, 1, 0))
    within = s**3 / 4 * ops._carlson(c * c, one, delta, *powers)
    return sign * (within + 2 * turns * _complete(sign, m))


def _carlson_in(place: int, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """∂R_F/∂x, …: R_F = ∫ ((t + x) (t + y) (t + z))^{-1/2} dt/2."""
    return -ops._carlson(x, y, z, *(int(place == k) for k in range(3))) / 4


def analytic(name: str, x: Tensor, n: int = 0) -> Tensor:
    """The n-th derivative of exprel, log1prel, sinhc or dawsn."""
    return ops._analytic_derivative(x, name, n)


def _power_less_one(x: Tensor, y: Tensor) -> Tensor:
    """x^(y-1), by y - 1 where that is exact."""
    exact = (y >= 0.5) & (y <= 2)
    return ops.where(exact, x.pow(ops.where(exact, y - 1, 1.0)), x.pow(y.where(~exact, 1.0)) / x)


def _log_over(x: Tensor) -> Tensor:
    """log(x)/(1 - x) = -log1prel(x - 1), whose argument is exact from 1/2 to 2."""
    low = x < 0.5
    below, above = x.where(low, 0.25), x.where(~low, 1.0)
    return ops.where(low, below.log() / (1 - below), -analytic("log1prel", above - 1))


def _cosh_over(x: Tensor) -> Tensor:
    """cosh(x)/x = 1/x + x/2 sinhc(x/2)²."""
    return 1 / x + x / 2 * analytic("sinhc", x / 2).square()


def _exp_over(x: Tensor) -> Tensor:
    """eˣ/x = 1/x + exprel(x) where the terms have one sign or 1/x is the larger one."""
    middle = x.abs() < 1
    near, far = x.where(middle, 1.0), x.where(~middle, 1.0)
    return ops.where(middle, 1 / near + analytic("exprel", near), far.exp() / far)


def _quarter_turns(x: Tensor) -> Tensor:
    """x² less a multiple of 4."""
    upper = _upper_half(x.detach())
    return ops.fmod(upper * upper, 4.0) + (x - upper) * (x + upper)


def _reciprocal_gamma(r: Tensor, x: Tensor) -> Tensor:
    """(1/Γ)′; left of 1/2 that of Γ(1 - x) sin(πx)/π, which is smooth at the poles of Γ."""
    left = x < 0.5
    u, v = ops.where(left, x, 0.25), ops.where(left, 1.0, x)
    whole = ops.round(u.detach())
    angle = math.pi * (u - whole)
    turn = ops.cos(angle) - digamma(1 - u) * ops.sin(angle) / math.pi
    turn = turn * (1 - 2 * ops.remainder(whole, 2))
    return ops.where(left, f("gamma", 1 - u) * turn, -digamma(v) * f("rgamma", v))


def student_density(t: Tensor, df: Tensor) -> Tensor:
    """f(0) (1 + t²/ν)^(-(ν + 1)/2): far out a power, whose logarithm would be a large number."""
    s = t / df.sqrt()
    far = s.abs() > 1
    root = ops.hypot(s.where(far, 1.0), ops.ones_like(s))
    power = (ops._half_step(df / 2, 0)).exp() * root.pow(-(df + 1)) / math.sqrt(2 * math.pi)
    return ops.where(far, power, ops.exp(ops._student_log_density(t.where(~far, 0.0), df)))


def student_slope(t: Tensor, df: Tensor) -> Tensor:
    """∂F/∂ν; where ν is large beside t⁴, by the series of F - Φ in 1/ν.  Fisher 1925."""
    normal = t.square() < 1e-2 * df.sqrt() - 1
    heavy = _heavy_slope(t.where(~normal, 1.0), df.where(~normal, 1.0))
    return ops.where(normal, _light_slope(t.where(normal, 0.0), df.where(normal, 1e9)), heavy)


def _light_slope(t: Tensor, df: Tensor) -> Tensor:
    """φ(t) t (a/4ν² + b/48ν³ + c/128ν⁴)."""
    q = t.square()
    a, b = q + 1, ((3 * q - 7) * q - 5) * q - 3
    c = ((((q - 11) * q + 14) * q + 6) * q - 3) * q - 15
    density = (-q / 2).exp() / math.sqrt(2 * math.pi)
    return density * t * (a / 4 + (b / 48 + c / (128 * df)) / df) / df / df


def _heavy_slope(t: Tensor, df: Tensor) -> Tensor:
    """∂F/∂ν: in the middle of an odd series in t, elsewhere of 1 - F = I(ν/2, 1/2, x)/2 or, where
    1 - x is the smaller one, of 1 - F = 1/2 - I(1/2, ν/2, 1 - x)/2."""
    s = t / df.sqrt()
    middle = (t.abs() < 0.5) & (s.abs() < 0.25)
    inside = _middle_slope(t.where(middle, 0.0), s.where(middle, 0.0), df)
    far = s.where(~middle, 1.0)
    half, one_half = df / 2, ops.full_like(df * t, 0.5)
    root = ops.hypot(far, ops.ones_like(far))
    x, rest = (1 / root).square(), (far / root).square()
    near = far.abs() < 1
    u, v = x.where(~near, 0.5), rest.where(near, 0.5)
    beyond = ops._betainc_derivative(half, one_half, u, 1, 0) / 2
    beyond = beyond + ops._beta_density(half, one_half, u, 0, 0) * u * (1 - u) / df
    within = ops._betainc_derivative(one_half, half, v, 0, 1) / -2
    within = within + ops._beta_density(one_half, half, v, 0, 0) * v * (1 - v) / df
    tail = ops.where(near, within, beyond)
    return ops.where(middle, inside, -ops.sgn(far) * tail / 2)


def _middle_slope(t: Tensor, s: Tensor, df: Tensor) -> Tensor:
    """∂/∂ν of t c Σ, c = 1/(√ν B(1/2, ν/2)), Σ the series of `decompositions.student_cdf`."""
    half, square = (df + 1) / 2, s * s
    total, slope = ops.ones_like(s), ops.zeros_like(s)
    for k in range(15, -1, -1):
        factor = (k + 0.5) / ((k + 1.5) * (k + 1))
        shrinking = total * (half + k) / df - total / 2
        slope = square * factor * (shrinking - slope * (half + k))
        total = 1 - square * total * factor * (half + k)
    one_half = ops.full_like(df, 0.5)
    scale = (-ops.special_betaln(one_half, df / 2)).exp() / df.sqrt()
    growth = ops._polygamma_difference(df / 2, one_half, 0) / 2 - 1 / (2 * df)
    return t * scale * (slope + total * growth)


def _tukey(p: Tensor, lam: Tensor) -> Tensor:
    """The density of Tukey's lambda distribution at its quantile p."""
    return 1 / (p ** (lam - 1) + (1 - p) ** (lam - 1))


def _tukey_in_shape(p: Tensor, x: Tensor, lam: Tensor) -> Tensor:
    """dp/dλ where x = (p^λ - (1 - p)^λ)/λ stays."""
    low, high = ops.log(p), ops.log1p(-p)
    rise = low.square() * analytic("exprel", lam * low, 1)
    return (high.square() * analytic("exprel", lam * high, 1) - rise) * _tukey(p, lam)


def _digamma_difference(z: Tensor, m: Tensor) -> Tensor:
    """ψ(z + m) - ψ(z), whose terms cancel where m is much smaller than z."""
    inside = (z > 0) & (z + m > 0)
    u, v = z.where(inside, 1.0), m.where(inside, 1.0)
    other = digamma(z.where(~inside, 1.0) + m) - digamma(z.where(~inside, 1.0))
    return ops.where(inside, ops._polygamma_difference(u, v, 0), other)


def _binomial(of_n: float, r: Tensor, n: Tensor, k: Tensor) -> Tensor:
    if of_n:
        return r * _digamma_difference(n - k + 1, k)
    return r * _digamma_difference(k + 1, n - 2 * k)


def _airy(value: str, slope_of: str) -> tuple[Slope]:
    """Ai″ = x Ai: each of the four results by another one."""
    number = {"Ai": 0, "Ai′": 1, "Bi": 2, "Bi′": 3}
    other = number[slope_of]
    if value.endswith("′"):
        return (lambda r, x: x * f("airy", x, part=other),)
    return (lambda r, x: f("airy", x, part=other),)


def _lower(name: str, factor: Slope) -> Slope:
    """The slope of a polynomial of degree n in x: one degree less, shapes plus 1; 0 of degree 0."""

    def formula(r: Tensor, n: Tensor, *rest: Tensor) -> Tensor:
        *shapes, x = rest
        below = ops.where(n == 0, 0, n - 1)
        found = factor(n, *shapes) * f(name, below, *(a + 1 for a in shapes), x)
        return ops.where(n == 0, 0.0, found)

    return formula


def power_transform_slope(x: Tensor, y: Tensor, shifted: bool) -> Tensor:
    """x^(y-1), of 1 + x where shifted."""
    if not shifted:
        return _power_less_one(x, y)
    return _power_less_one(1 + x, y) * (1 + (y - 1) * _lost_by_one_more(x))


def _lost_by_one_more(x: Tensor) -> Tensor:
    """What rounding took from 1 + x, beside it."""
    x = x.detach()
    whole = 1 + x
    lost = ops.where(x.abs() < 1, x - (whole - 1), 1 - (whole - x))
    return (lost / whole).where(whole.isfinite() & (whole != 0), 0.0)


def power_transform_in_exponent(x: Tensor, y: Tensor, r: Tensor, shifted: bool) -> Tensor:
    """∂/∂y of r = (x^y - 1)/y: (x^y log x - r)/y, or by a series in z = y log x."""
    log = x.log1p() if shifted else x.log()
    z = y * log
    close = z.abs() < 3
    near = log.square() * analytic("exprel", z.where(close, 0.0), 1)
    base, steep = x.where(~close, 1.0), y.where(~close, 1.0)
    power = (1 + base).pow(steep) if shifted else base.pow(steep)
    power = power * (1 + steep * _lost_by_one_more(base)) if shifted else power
    return ops.where(close, near, (power * log - r).where(~close, 0.0) / steep)


def inverse_power_slope(x: Tensor, y: Tensor, r: Tensor, shifted: bool) -> Tensor:
    """(1 + xy)^(1/y - 1)."""
    return _whole(x, y, r, shifted) / _one_more(x, y)


def _whole(x: Tensor, y: Tensor, r: Tensor, shifted: bool) -> Tensor:
    return ops._inverse_power_transform(x, y, False) if shifted else r


def inverse_power_in_exponent(x: Tensor, y: Tensor, r: Tensor, shifted: bool) -> Tensor:
    """w (s/(1 + s) - log(1 + s))/y², w = (1 + s)^(1/y), s = xy; by a series where s is small."""
    s = x * y
    close = (s > -0.5) & (s < 3)
    near = x.square() * analytic("log1prel", s.where(close, 0.0), 1)
    far, steep = _one_more(x, y).where(~close, 1.0), y.where(~close, 1.0)
    apart = (s.where(~close, 0.0) / far - far.log()) / steep.square()
    return _whole(x, y, r, shifted) * ops.where(close, near, apart)


def _one_more(x: Tensor, y: Tensor) -> Tensor:
    """1 + xy, with the digits that the product has lost: near -1 all others cancel."""
    return (1 + x * y) + _lost(x, y)


SLOPES: dict[str, tuple[Slope | None, ...]] = {
    "cbrt": (lambda r, x: 1 / (3 * r * r),),
    "gamma": (lambda r, x: r * digamma(x),),
    "rgamma": (_reciprocal_gamma,),
    "poch": (
        lambda r, z, m: r * _digamma_difference(z, m),
        lambda r, z, m: r * digamma(z + m),
    ),
    "binom": (lambda *a: _binomial(True, *a), lambda *a: _binomial(False, *a)),
    "zetac": (lambda r, x: ops._zeta_derivative(x, ops.ones_like(x), 1),),  # for x > 1
    # exponential integrals, and others of elementary functions
    "exp1": (lambda r, x: -ops.exp(-x) / x,),
    "expi": (lambda r, x: _exp_over(x),),
    "expn": (
        None,
        lambda r, n, x: ops.where(
            n == 0, -ops.exp(-x) * (1 + x) / (x * x), -f("expn", (n - 1).clamp(min=0), x)
        ),
    ),
    "sici": (lambda r, x: ops.special_spherical_bessel_j0(x),),
    "sici.1": (lambda r, x: ops.cos(x) / x,),
    "shichi": (lambda r, x: analytic("sinhc", x),),
    "shichi.1": (lambda r, x: _cosh_over(x),),
    "fresnel": (lambda r, x: ops.sin(math.pi / 2 * _quarter_turns(x)),),
    "fresnel.1": (lambda r, x: ops.cos(math.pi / 2 * _quarter_turns(x)),),
    "erfi": (lambda r, x: 2 / ROOT_PI * _exp_of_square(x),),
    "spence": (lambda r, x: _log_over(x),),
    "powm1": (
        lambda r, x, y: y * _power_less_one(x, y),
        lambda r, x, y: ops.xlogy(ops.pow(x, y), x),
    ),
    "wrightomega": (lambda r, x: ops.where(r < 1, r / (1 + r), 1 - 1 / (1 + r)),),
    "ndtri_exp": (lambda r, y: 1 / ops._log_ndtr_derivative(r, 1),),
    "owens_t": (
        lambda r, h, a: -_density(h) * ops.erf(a * h / math.sqrt(2)) / 2,
        lambda r, h, a: _density(h) * _density_of_product(a, h) / (1 + a * a),
    ),
    # elliptic integrals
    "ellipk": (lambda r, m: _complete(1, m),),
    "ellipkm1": (lambda r, p: -ops._carlson(ops.zeros_like(p), ops.ones_like(p), p, 0, 0, 1) / 4,),
    "ellipe": (lambda r, m: -_complete(-1, m),),
    "ellipkinc": (
        lambda r, phi, m: ops.rsqrt(1 - m * ops.sin(phi) ** 2),
        lambda r, phi, m: _incomplete("ellipkinc", phi, m),
    ),
    "ellipeinc": (
        lambda r, phi, m: ops.sqrt(1 - m * ops.sin(phi) ** 2),
        lambda r, phi, m: _incomplete("ellipeinc", phi, m),
    ),
    "elliprf": (
        lambda r, *xyz: _carlson_in(0, *xyz),
        lambda r, *xyz: _carlson_in(1, *xyz),
        lambda r, *xyz: _carlson_in(2, *xyz),
    ),
    # hypergeometric functions in their argument, 15.5.1, 13.3.15, 13.3.22
    "hyp0f1": (None, lambda r, v, z: f("hyp0f1", v + 1, z) / v),
    "hyp1f1": (None, None, lambda r, a, b, x: a / b * f("hyp1f1", a + 1, b + 1, x)),
    "hyp2f1": (
        None,
        None,
        None,
        lambda r, a, b, c, x: a * b / c * f("hyp2f1", a + 1, b + 1, c + 1, x),
    ),
    "hyperu": (None, None, lambda r, a, b, x: -a * f("hyperu", a + 1, b + 1, x)),
    "wright_bessel": (None, None, lambda r, a, b, x: f("wright_bessel", a, b + a, x)),
    # functions like Bessel's, 9.2.1 and 11.4.27
    "airy": _airy("Ai", "Ai′"),
    "airy.1": _airy("Ai′", "Ai"),
    "airy.2": _airy("Bi", "Bi′"),
    "airy.3": _airy("Bi′", "Bi"),
    "struve": (None, lambda r, v, x: f("struve", v - 1, x) - v / x * r),
    "modstruve": (None, lambda r, v, x: f("modstruve", v - 1, x) - v / x * r),
    # orthogonal polynomials in x, 18.9.15 and 18.9.19 to 18.9.23
    "eval_genlaguerre": (None, None, _lower("eval_genlaguerre", lambda n, a: -1.0)),
    "eval_gegenbauer": (None, None, _lower("eval_gegenbauer", lambda n, a: 2 * a)),
    "eval_jacobi": (
        None,
        None,
        None,
        _lower("eval_jacobi", lambda n, a, b: (n + a + b + 1) / 2),
    ),
    # inverses of distribution functions
    "gammaincinv": (
        lambda r, a, y: ops._gamma_slope(a, r, 0),
        lambda r, a, y: 1 / ops._gamma_density(a, r, 0),
    ),
    "gammainccinv": (
        lambda r, a, y: ops._gamma_slope(a, r, 0),
        lambda r, a, y: -1 / ops._gamma_density(a, r, 0),
    ),
    "betaincc": (
        lambda r, a, b, x: -ops._betainc_derivative(a, b, x, 1, 0),
        lambda r, a, b, x: -ops._betainc_derivative(a, b, x, 0, 1),
        lambda r, a, b, x: -ops._beta_density(a, b, x, 0, 0),
    ),
    "betaincinv": (
        lambda r, a, b, y: ops._beta_slope(r, a, b, 0, 0),
        lambda r, a, b, y: -ops._beta_slope(1 - r, b, a, 0, 0),
        lambda r, a, b, y: 1 / ops._beta_density(a, b, r, 0, 0),
    ),
    "betainccinv": (
        lambda r, a, b, y: ops._beta_slope(r, a, b, 0, 0),
        lambda r, a, b, y: -ops._beta_slope(1 - r, b, a, 0, 0),
        lambda r, a, b, y: -1 / ops._beta_density(a, b, r, 0, 0),
    ),
    "stdtrit": (
        lambda r, df, p: -student_slope(r, df) / student_density(r, df),
        lambda r, df, p: 1 / student_density(r, df),
    ),
    "tklmbda": (
        lambda r, x, lam: _tukey(r, lam),
        lambda r, x, lam: _tukey_in_shape(r, x, lam),
    ),
}

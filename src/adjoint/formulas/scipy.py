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
    return ops.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _elliptic_near_one(r: Tensor, p: Tensor) -> Tensor:
    """d K(1 - p)/dp, by 19.4.1 near p = 0, and by the series in 1 - p elsewhere."""
    near = p < 0.5
    q = ops.where(near, p, 0.25)
    closed = (f("ellipe", 1 - q) - q * f("ellipkm1", q)) / (-2 * (1 - q) * q)
    return ops.where(near, closed, -_complete(1.5, 1.5, ops.where(near, 0.0, 1 - p)))


def _complete(a: float, b: float, m: Tensor) -> Tensor:
    """π/8 ₂F₁(a, b; 2; m): the slopes of K and -E, 19.5.1 and 19.5.2."""
    return math.pi / 8 * f("hyp2f1", a, b, 2.0, m)


def _incomplete(name: str, phi: Tensor, m: Tensor) -> Tensor:
    """∂F/∂m or ∂E/∂m: s³/6 R_D at the angle within a half turn, 19.25.5, and the turns before."""
    turns = ops.round(phi / math.pi)
    rest = phi - math.pi * turns
    s, c = ops.sin(rest), ops.cos(rest)
    delta, one = 1 - m * s * s, ops.ones_like(m * s)
    if name == "ellipkinc":
        return s**3 / 6 * f("elliprd", c * c, one, delta) + 2 * turns * _complete(1.5, 1.5, m)
    return -(s**3) / 6 * f("elliprd", c * c, delta, one) - 2 * turns * _complete(0.5, 1.5, m)


def _difference(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """∂R_D(x, y, z)/∂x by partial fractions of 1/((t + x)(t + z)); not for x = z."""
    return (f("elliprd", x, y, z) - f("elliprd", y, z, x)) / (2 * (z - x))


def _in_last(r: Tensor, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """∂R_D/∂z, since R_D is homogeneous of degree -3/2."""
    return -(1.5 * r + x * _difference(x, y, z) + y * _difference(y, x, z)) / z


def _reciprocal_gamma(r: Tensor, x: Tensor) -> Tensor:
    """(1/Γ)′; left of 1/2 that of Γ(1 - x) sin(πx)/π, which is smooth at the poles of Γ."""
    left = x < 0.5
    u, v = ops.where(left, x, 0.25), ops.where(left, 1.0, x)
    turn = ops.cos(math.pi * u) - digamma(1 - u) * ops.sin(math.pi * u) / math.pi
    return ops.where(left, f("gamma", 1 - u) * turn, -digamma(v) * f("rgamma", v))


def _student_density(t: Tensor, df: Tensor) -> Tensor:
    log_scale = ops.lgamma((df + 1) / 2) - ops.lgamma(df / 2) - ops.log(math.pi * df) / 2
    return ops.exp(log_scale - (df + 1) / 2 * ops.log1p(t * t / df))


def _student_in_df(t: Tensor, df: Tensor) -> Tensor:
    """dt/dν where the distribution function stays: -F_ν/p; |1 - 2F| = 1 - I_x(ν/2, 1/2)."""
    half, one_half, square = df / 2, ops.full_like(df * t, 0.5), t * t
    x, inner = df / (df + square), square / (df + square) ** 2
    tail = ops._betainc_derivative(half, one_half, x, 1, 0) / 2
    tail = tail + ops._beta_density(half, one_half, x, 0, 0) * inner
    return ops.sgn(t) * tail / (2 * _student_density(t, df))


def _tukey(p: Tensor, lam: Tensor) -> Tensor:
    """The density of Tukey's lambda distribution at its quantile p."""
    return 1 / (p ** (lam - 1) + (1 - p) ** (lam - 1))


def _tukey_in_shape(p: Tensor, x: Tensor, lam: Tensor) -> Tensor:
    """dp/dλ where x = (p^λ - (1 - p)^λ)/λ stays."""
    rise = p**lam * ops.log(p) - (1 - p) ** lam * ops.log1p(-p)
    return -(rise / lam - x / lam) * _tukey(p, lam)


def _binomial(of_n: float, r: Tensor, n: Tensor, k: Tensor) -> Tensor:
    rest = digamma(n - k + 1)
    return r * (digamma(n + 1) - rest if of_n else rest - digamma(k + 1))


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


SLOPES: dict[str, tuple[Slope | None, ...]] = {
    "cbrt": (lambda r, x: 1 / (3 * r * r),),
    "gamma": (lambda r, x: r * digamma(x),),
    "rgamma": (_reciprocal_gamma,),
    "poch": (
        lambda r, z, m: r * (digamma(z + m) - digamma(z)),
        lambda r, z, m: r * digamma(z + m),
    ),
    "binom": (lambda *a: _binomial(True, *a), lambda *a: _binomial(False, *a)),
    "zetac": (lambda r, x: ops._zeta_derivative(x, ops.ones_like(x), 1),),  # for x > 1
    # exponential integrals, and others of elementary functions
    "exp1": (lambda r, x: -ops.exp(-x) / x,),
    "expi": (lambda r, x: ops.exp(x) / x,),
    "expn": (
        None,
        lambda r, n, x: ops.where(
            n == 0, -ops.exp(-x) * (1 + x) / (x * x), -f("expn", (n - 1).clamp(min=0), x)
        ),
    ),
    "sici": (lambda r, x: ops.sinc(x / math.pi),),
    "sici.1": (lambda r, x: ops.cos(x) / x,),
    "shichi": (lambda r, x: ops.where(x == 0, 1.0, ops.sinh(x) / ops.where(x == 0, 1, x)),),
    "shichi.1": (lambda r, x: ops.cosh(x) / x,),
    "fresnel": (lambda r, x: ops.sin(math.pi / 2 * x * x),),
    "fresnel.1": (lambda r, x: ops.cos(math.pi / 2 * x * x),),
    "dawsn": (lambda r, x: 1 - 2 * x * r,),
    "erfi": (lambda r, x: 2 / ROOT_PI * ops.exp(x * x),),
    "spence": (lambda r, x: ops.where(x == 1, -1.0, ops.log(x) / ops.where(x == 1, 1, 1 - x)),),
    "wrightomega": (lambda r, x: r / (1 + r),),
    "ndtri_exp": (lambda r, y: ops.exp(y + r * r / 2) * math.sqrt(2 * math.pi),),
    "owens_t": (
        lambda r, h, a: -_density(h) * ops.erf(a * h / math.sqrt(2)) / 2,
        lambda r, h, a: ops.exp(-h * h * (1 + a * a) / 2) / (2 * math.pi * (1 + a * a)),
    ),
    # elliptic integrals
    "ellipk": (lambda r, m: _complete(1.5, 1.5, m),),
    "ellipkm1": (_elliptic_near_one,),
    "ellipe": (lambda r, m: -_complete(0.5, 1.5, m),),
    "ellipkinc": (
        lambda r, phi, m: ops.rsqrt(1 - m * ops.sin(phi) ** 2),
        lambda r, phi, m: _incomplete("ellipkinc", phi, m),
    ),
    "ellipeinc": (
        lambda r, phi, m: ops.sqrt(1 - m * ops.sin(phi) ** 2),
        lambda r, phi, m: _incomplete("ellipeinc", phi, m),
    ),
    "elliprf": (
        lambda r, x, y, z: -f("elliprd", y, z, x) / 6,
        lambda r, x, y, z: -f("elliprd", x, z, y) / 6,
        lambda r, x, y, z: -f("elliprd", x, y, z) / 6,
    ),
    "elliprd": (
        lambda r, x, y, z: _difference(x, y, z),
        lambda r, x, y, z: _difference(y, x, z),
        _in_last,
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
        lambda r, df, p: _student_in_df(r, df),
        lambda r, df, p: 1 / _student_density(r, df),
    ),
    "tklmbda": (
        lambda r, x, lam: _tukey(r, lam),
        lambda r, x, lam: _tukey_in_shape(r, x, lam),
    ),
}

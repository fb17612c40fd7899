"""Special functions by mpmath (the extra `test`), polynomials by their sums; without it, none."""

from __future__ import annotations

import cmath
import importlib.util
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.testing.references.elements import each
from adjoint.testing.references.pointwise import REFERENCES as POINTWISE
from adjoint.testing.references.pointwise import bounded, logistic

Number = Any


def number(value: Any) -> Any:
    """A Python number of one of mpmath's."""
    value = complex(value)
    return value if value.imag else value.real


# -- products with logarithms ----------------------------------------------------------------------


def x_log_y(x: float, y: float) -> float:
    return 0.0 if x == 0 else x * math.log(y) if y else math.copysign(math.inf, -x)


def x_log_1p_y(x: float, y: float) -> float:
    return 0.0 if x == 0 else x * math.log1p(y)


def logit(x: float, eps: float | None = None) -> float:
    p = x if eps is None else bounded(x, eps, 1 - eps)
    if p in (0.0, 1.0):
        return math.copysign(math.inf, p - 0.5)
    return math.log(p) - math.log1p(-p)


def sinc(x: Number) -> Number:
    sine = cmath.sin(math.pi * x) if isinstance(x, complex) else math.sin(math.pi * x)
    return sine / (math.pi * x) if x else 1.0


# -- polynomials -----------------------------------------------------------------------------------


def by_recurrence(
    first: Callable[[float], float], step: Callable[[int, float, float, float], float]
) -> Callable[..., Any]:
    """p₀ = 1, p₁ = first(x), pₖ₊₁ = step(k, x, pₖ, pₖ₋₁); 0 for a negative degree."""

    def value(x: float, n: int) -> float:
        before, now = 0.0, 1.0
        for k in range(int(n)):
            before, now = now, step(k, x, now, before) if k else first(x)
        return now if n >= 0 else 0.0

    return each(value)


def chebyshev(first: Callable[[float], float]) -> dict[str, Callable[..., Any]]:
    step = lambda k, x, now, before: 2 * x * now - before
    move = lambda x: 2 * x - 1
    return {
        "": by_recurrence(first, step),
        "shifted_": by_recurrence(
            lambda x: first(move(x)), lambda k, x, p, q: step(k, move(x), p, q)
        ),
    }


def polynomials() -> dict[str, Callable[..., Any]]:
    starts = {
        "t": lambda x: x,
        "u": lambda x: 2 * x,
        "v": lambda x: 2 * x - 1,
        "w": lambda x: 2 * x + 1,
    }
    found = {
        f"special_{shifted}chebyshev_polynomial_{kind}": function
        for kind, first in starts.items()
        for shifted, function in chebyshev(first).items()
    }
    same = lambda x: x
    return found | {
        "special_hermite_polynomial_h": by_recurrence(
            lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - 2 * k * q
        ),
        "special_hermite_polynomial_he": by_recurrence(same, lambda k, x, p, q: x * p - k * q),
        "special_laguerre_polynomial_l": by_recurrence(
            lambda x: 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)
        ),
        "special_legendre_polynomial_p": by_recurrence(
            same, lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1)
        ),
    }


# -- by mpmath -------------------------------------------------------------------------------------


def exact() -> dict[str, Callable[..., Any]]:
    """Each function at 30 digits, so that its own cancellation does not show."""
    import mpmath as mp

    def at(function: Callable[..., Any]) -> Callable[..., Any]:
        def value(*args: Any) -> Any:
            with mp.workdps(30):
                return number(function(*args))

        return each(value)

    def normal(x: Any) -> Any:
        return mp.erfc(-x / mp.sqrt(2)) / 2

    def log_normal(x: Any) -> Any:
        return mp.log1p(-normal(-x)) if x > 0 else mp.log(normal(x))

    def scaled(function: Callable[..., Any], sign: int) -> Callable[..., Any]:
        return lambda x: mp.exp(sign * mp.mpf(abs(x) if sign < 0 else x)) * function(mp.mpf(x))

    def log_beta(a: Any, b: Any) -> Any:
        return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(mp.mpf(a) + b)

    def log_gamma(x: Any) -> Any:
        return mp.inf if x <= 0 and x == mp.floor(x) else mp.re(mp.loggamma(x))

    def digamma(x: Any) -> Any:
        if x == 0:
            return -math.copysign(math.inf, x)
        return mp.nan if x < 0 and x == mp.floor(x) else mp.digamma(x)

    def polygamma(n: int, x: Any) -> Any:
        """(-1)ⁿ⁺¹ n! ζ(n + 1, x), infinite at the poles."""
        pole = x <= 0 and x == mp.floor(x)
        return (-1) ** (n + 1) * mp.inf if pole else mp.psi(n, x)

    def multigamma(x: Any, p: int) -> Any:
        parts = sum(mp.loggamma(mp.mpf(x) - mp.mpf(j) / 2) for j in range(p))
        return parts + mp.mpf(p * (p - 1)) / 4 * mp.log(mp.pi)

    def inverse_normal(p: Any) -> Any:
        return -mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(p))

    def bessel(x: Any, order: Any, kind: str) -> Any:
        plain = {"j": mp.besselj, "y": mp.bessely, "i": mp.besseli, "k": mp.besselk}[kind[0]]
        factor = {"ive": mp.exp(-abs(mp.mpf(x))), "kve": mp.exp(mp.mpf(x))}.get(kind, 1)
        return factor * plain(mp.mpf(order), mp.mpf(x))

    def owen(h: Any, a: Any) -> Any:
        slope = lambda t: mp.exp(-(mp.mpf(h) ** 2) * (1 + t * t) / 2) / (1 + t * t) / (2 * mp.pi)
        return mp.quad(slope, [0, a])

    def inverse_beta(a: Any, b: Any, y: Any) -> Any:
        rest = lambda x: mp.betainc(a, b, 0, x, regularized=True) - y
        return mp.findroot(rest, (mp.mpf("1e-9"), 1 - mp.mpf("1e-9")), solver="anderson")

    by_name: dict[str, Callable[..., Any]] = {
        "dawsn": lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-(mp.mpf(x) ** 2)) * mp.erfi(x),
        "erfi": mp.erfi,
        "sici": mp.ci,
        "owens_t": owen,
        "betaincinv": inverse_beta,
        "hyp2f1": mp.hyp2f1,
    }

    def named(*arguments: Any) -> Any:
        numbers = [a for a in arguments if not isinstance(a, str)]
        name = next(a for a in arguments if isinstance(a, str))
        return by_name[name](*numbers[: arguments.index(name)])

    quotients: dict[str, Callable[[Any], Any]] = {
        "exprel": lambda x: mp.expm1(x) / x if x else mp.mpf(1),
        "log1prel": lambda x: mp.log1p(x) / x if x else mp.mpf(1),
        "sinhc": lambda x: mp.sinh(x) / x if x else mp.mpf(1),
        "dawsn": by_name["dawsn"],
    }

    def analytic_derivative(x: Any, name: str, n: int) -> Any:
        return mp.diff(quotients[name], x, int(n))

    def carlson(x: Any, y: Any, z: Any, *powers: int) -> Any:
        def integrand(t: Any) -> Any:
            return mp.fprod((t + v) ** (-k - mp.mpf(1) / 2) for v, k in zip((x, y, z), powers))

        return mp.quad(integrand, [0, 1, 10, mp.inf])

    def student(t: Any, df: Any) -> Any:
        df, t = mp.mpf(df), mp.mpf(t)
        tail = mp.betainc(df / 2, 0.5, 0, df / (df + t * t), regularized=True) / 2
        return tail if t < 0 else 1 - tail

    def log_student(t: Any, df: Any) -> Any:
        df, t = mp.mpf(df), mp.mpf(t)
        power = -(df + 1) / 2 * mp.log1p(t * t / df)
        return power + mp.loggamma((df + 1) / 2) - mp.loggamma(df / 2) - mp.log(mp.pi * df) / 2

    def power_transform(x: Any, y: Any, shifted: Any) -> Any:
        return (mp.power(x + bool(shifted), y) - 1) / y

    def inverse_power_transform(x: Any, y: Any, shifted: Any) -> Any:
        return mp.power(1 + mp.mpf(x) * y, 1 / mp.mpf(y)) - bool(shifted)

    def half_step(a: Any) -> Any:
        return mp.loggamma(a + 0.5) - mp.loggamma(a) - mp.log(a) / 2

    first, second = lambda f: lambda x: f(0, mp.mpf(x)), lambda f: lambda x: f(1, mp.mpf(x))
    lower = lambda a, x: mp.gammainc(a, 0, x, regularized=True)
    upper = lambda a, x: mp.gammainc(a, x, mp.inf, regularized=True)
    slope_of_normal = lambda x: mp.sqrt(2 * mp.pi) * mp.exp(inverse_normal(x) ** 2 / 2)
    return {
        "erf": at(mp.erf), "special_erf": at(mp.erf),
        "erfc": at(mp.erfc), "special_erfc": at(mp.erfc),
        "special_erfcx": at(lambda x: mp.exp(mp.mpf(x) ** 2) * mp.erfc(x)),
        "erfinv": at(mp.erfinv), "special_erfinv": at(mp.erfinv),
        "_erfinv_slope": at(lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(mp.erfinv(x) ** 2)),
        "special_ndtr": at(normal), "special_log_ndtr": at(log_normal),
        "special_ndtri": at(inverse_normal), "_ndtri_slope": at(slope_of_normal),
        "special_spherical_bessel_j0": at(lambda x: mp.sin(x) / x if x else mp.mpf(1)),
        "lgamma": at(log_gamma), "special_gammaln": at(log_gamma),
        "digamma": at(digamma), "special_digamma": at(digamma), "special_psi": at(digamma),
        "polygamma": at(polygamma), "special_polygamma": at(polygamma),
        "mvlgamma": at(multigamma), "special_multigammaln": at(multigamma),
        "special_zeta": at(lambda s, q: mp.zeta(s, q)),
        "igamma": at(lower), "special_gammainc": at(lower),
        "igammac": at(upper), "special_gammaincc": at(upper),
        "special_beta": at(mp.beta), "special_betaln": at(log_beta),
        "special_betainc": at(lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True)),
        "i0": at(first(mp.besseli)), "special_i0": at(first(mp.besseli)),
        "special_modified_bessel_i0": at(first(mp.besseli)),
        "special_i1": at(second(mp.besseli)), "special_modified_bessel_i1": at(second(mp.besseli)),
        "special_i0e": at(scaled(first(mp.besseli), -1)),
        "special_i1e": at(scaled(second(mp.besseli), -1)),
        "special_bessel_j0": at(first(mp.besselj)), "special_bessel_j1": at(second(mp.besselj)),
        "special_bessel_y0": at(first(mp.bessely)), "special_bessel_y1": at(second(mp.bessely)),
        "special_modified_bessel_k0": at(first(mp.besselk)),
        "special_modified_bessel_k1": at(second(mp.besselk)),
        "special_scaled_modified_bessel_k0": at(scaled(first(mp.besselk), 1)),
        "special_scaled_modified_bessel_k1": at(scaled(second(mp.besselk), 1)),
        "_bessel": at(bessel),
        "_gaussian_derivative": at(
            lambda x, n, a: mp.diff(lambda t: mp.exp(-a * t * t), x, int(n))
        ),
        "_sinc_derivative": at(lambda x, n: mp.diff(mp.sincpi, x, int(n))),
        "_spherical_bessel_j0_derivative": at(lambda x, n: mp.diff(mp.sinc, x, int(n))),
        "_analytic_derivative": at(analytic_derivative), "_carlson": at(carlson),
        "_power_transform": at(power_transform),
        "_inverse_power_transform": at(inverse_power_transform),
        "_student_cdf": at(student), "_student_log_density": at(log_student),
        **dict.fromkeys(("_scipy", "_scipy.two", "_scipy.three", "_scipy.four"), at(named)),
        "_erf_beside": lambda x, _: at(mp.erf)(x),
        "_half_step": at(lambda x, n: mp.diff(half_step, x, int(n))),
        "_zeta_derivative": at(
            lambda s, q, n, m=0: mp.diff(
                lambda t: (-1) ** int(m) * mp.rf(t, m) * mp.zeta(t + m, q), s, int(n)
            )
        ),
        "_bessel_i_derivative": at(
            lambda x, order, n: mp.diff(lambda t: mp.besseli(order, t), x, int(n))
        ),
        "_bessel_j_derivative": at(lambda x, order, n: mp.besselj(order, x, derivative=int(n))),
        "special_airy_ai": at(mp.airyai),
        "_airy_ai_derivative": at(lambda x, n: mp.airyai(x, int(n))),
    }  # fmt: skip


REFERENCES: dict[str, Callable[..., Any]] = {
    "_times": each(lambda x, y: x * y if x else 0.0),
    "_expit_backward": lambda g, x, _: each(lambda g, x: g * logistic(x) * logistic(-x))(g, x),
    "_entr_slope": lambda x: -1 - POINTWISE["log"](x),
    "xlogy": each(x_log_y), "special_xlogy": each(x_log_y), "special_xlog1py": each(x_log_1p_y),
    "special_entr": each(lambda x: -x_log_y(x, x) if x >= 0 else -math.inf),
    "logit": each(logit), "special_logit": each(logit),
    "special_expit": each(logistic), "_expit_slope": each(lambda x: logistic(x) * logistic(-x)),
    "sinc": each(sinc), "special_sinc": each(sinc),
    "special_exp2": POINTWISE["exp2"], "special_expm1": POINTWISE["expm1"],
    "special_log1p": POINTWISE["log1p"], "special_round": POINTWISE["round"],
    "special_logsumexp": lambda x, dim: np.log(np.add.reduce(np.exp(x), tuple(dim))),
    **polynomials(),
    **(exact() if importlib.util.find_spec("mpmath") else {}),
}  # fmt: skip

"""Distributions of SciPy in operators: our formulas, SciPy's code on tensors, or its numbers.

`formula` finds a formula of ours, by the table `laws.txt`. `borrowed` is SciPy's own method, whose
code runs in a namespace in which NumPy is `adjoint.numpy` and `scipy.special` is ours: the methods
that authors of a distribution write are plain formulas. What integrates or searches is left to
`by_scipy`, SciPy's numbers, which are differentiated by the density.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rv_discrete

import adjoint.numpy as tensors
from adjoint import doors
from adjoint.core.errors import NotDifferentiable, ValueRangeError
from adjoint.doors import ad
from adjoint.doors.numpy.functions.special import analytic
from adjoint.doors.numpy.functions.special import named as named  # a word of laws.txt
from adjoint.graph.control.callbacks import pure_callback
from adjoint.homes.arrays import array_of
from adjoint.numpy import special
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.custom import custom_jvp

_TABLE = str(Path(__file__).with_name("laws.txt"))
# Names in the code of methods that compute numbers by steps which are no formula.
_NUMERICAL = frozenset(
    ("integrate", "optimize", "root_scalar", "quad", "_cdfvec", "_ppfvec", "vectorize", "nditer",
     "_cdf_single", "_ppf_single", "brentq", "interp1d")
)  # fmt: skip
LOG_PI, LOG_2 = math.log(math.pi), math.log(2)


# -- our formulas ----------------------------------------------------------------------------------


@functools.cache
def formula(law: str, name: str) -> Callable[..., Tensor] | None:
    """Our formula of a distribution's function, if the table has one."""
    row = doors.read(_TABLE).get(law, {}).get(name)
    words = {**globals(), "pi": math.pi}
    return None if row is None else row.function(__name__, words)


def student_logpdf(x: Tensor, df: Tensor) -> Tensor:
    """Student's density, and the normal one where ν is infinite."""
    endless = df == math.inf
    student = ad._student_log_density(x, ad.where(endless, 1.0, df))
    return ad.where(endless, -x * x / 2 - (LOG_2 + LOG_PI) / 2, student)


def log1p_square(x: Tensor) -> Tensor:
    """log(1 + x²), whose square does not overflow."""
    far = ad.abs(x) > 1
    near = ad.log1p(ad.square(ad.where(far, 0.0, x)))
    return ad.where(far, 2 * ad.log(ad.hypot(ad.where(far, x, 1.0), ad.ones_like(x))), near)


def cotangent(q: Tensor) -> Tensor:
    """cot πq, by the nearer of 0, 1/2 and 1."""
    middle = ad.abs(q - 0.5) < 0.25
    inside = ad.tan(math.pi * (0.5 - ad.where(middle, q, 0.5)))
    outside = 1 / ad.tan(math.pi * ad.where(q < 0.5, q, q - 1))
    return ad.where(middle, inside, outside)


def log1p_over(k: Tensor, x: Tensor) -> Tensor:
    """log(1 + kx)/k, and x where k is 0."""
    return x * analytic("log1prel", k * x)


def expm1_over(k: Tensor, x: Tensor) -> Tensor:
    """(eᵏˣ - 1)/k, and x where k is 0."""
    return x * analytic("exprel", k * x)


def two_sided(x: Tensor, tail: Callable[[Tensor], Tensor]) -> Tensor:
    """The distribution function of a symmetric law, by the tail of |x|: one side at a time."""
    below = x < 0
    lower = tail(ad.where(below, -x, 1.0)) / 2
    return ad.where(below, lower, 1 - tail(ad.where(below, 1.0, x)) / 2)


def gennorm_cdf(x: Tensor, beta: Tensor) -> Tensor:
    """1/2 ± P(1/β, |x|^β)/2; in the middle P by its series, of which |x| is a factor."""
    size = ad.abs(x)
    middle = size < 0.5
    a = 1 / beta
    power = ad.pow(ad.where(middle, ad.where(x == 0, 0.5, size), 0.5), beta)
    power = ad.where(x == 0, 0.0, power)
    total = ad.ones_like(power)
    for k in range(40, 0, -1):
        total = 1 + power / (a + k) * total
    inside = x * ad.exp(-power - ad.lgamma(1 + a)) * total / 2
    tail = ad.special_gammaincc(a, ad.pow(ad.where(middle, 1.0, size), beta)) / 2
    return ad.where(middle, 0.5 + inside, ad.where(x < 0, tail, 1 - tail))


# log Γ(a) - (a - 1/2) log a + a - log(2π)/2 = Σ cₖ w²ᵏ⁺¹, w = 1/a
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


def pearson3_logpdf(x: Tensor, skew: Tensor) -> Tensor:
    """x² (log(1 + v) - v)/v² - log(1 + v) - log(2π)/2 - Stirling's rest of log Γ(a): v = skew x/2,
    a = 4/skew². Nothing is divided by the skewness, and 0 is the normal distribution."""
    v, w = skew * x / 2, ad.square(skew) / 4
    near = w < 1 / 16
    small = ad.where(near, w, 0.0)
    series = ad.zeros_like(w)
    for c in reversed(_STIRLING):
        series = series * small * small + c
    a = 1 / ad.where(near, 1.0, w)
    closed = ad.lgamma(a) - (a - 0.5) * ad.log(a) + a - (LOG_2 + LOG_PI) / 2
    rest = ad.where(near, series * small, closed)
    bent = -1 / (1 + v) - analytic("log1prel", v, 1)  # (log(1 + v) - v)/v²
    found = x * x * bent - ad.log1p(v) - rest - (LOG_2 + LOG_PI) / 2
    return ad.where(v <= -1, -math.inf, found)


def pearson3_cdf(x: Tensor, skew: Tensor) -> Tensor:
    """P or Q(a, a (1 + v)), as for the density; near 0 Φ(x) - skew (x² - 1) φ(x)/6."""
    flat = ad.abs(skew) < 1e-4
    s = ad.where(flat, 1.0, skew)
    a = 4 / ad.square(s)
    at = ad.clamp(a * (1 + s * x / 2), min=0.0)
    steep = ad.where(s > 0, ad.special_gammainc(a, at), ad.special_gammaincc(a, at))
    bell = ad.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    cubic = x * (x**4 - 10 * x * x + 15) / 72 + x * (x * x - 3) / 16
    bent = skew * (x * x - 1) / 6 + skew * skew * cubic
    return ad.where(flat, ad.special_ndtr(x) - bent * bell, steep)


def log_kv(order: Tensor, x: Tensor) -> Tensor:
    """The logarithm of the modified Bessel function K."""
    return ad.log(special.kve(order, x)) - x


def hyperbolic_logpdf(x: Tensor, p: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """(γ/a)ᵖ √(a/2π) e^{bx} K(p - 1/2, ah)/(K(p, γ) h^{1/2-p}), γ² = a² - b², h² = 1 + x²."""
    gamma, h = ad.sqrt((a - b) * (a + b)), ad.hypot(ad.ones_like(x), x)
    scale = p * ad.log(gamma / a) + (ad.log(a) - LOG_2 - LOG_PI) / 2 - log_kv(p, gamma)
    return scale + b * x + log_kv(p - 0.5, a * h) + (p - 0.5) * ad.log(h)


# -- SciPy's code on tensors -----------------------------------------------------------------------


def borrowed(law: Any, method: str) -> Callable[..., Any] | None:
    """SciPy's method of a distribution as a function of tensors; None if it is no formula."""
    function = getattr(type(law), method)
    if _is_numerical(function):
        return None
    bound = functools.partial(_on_tensors(function), _Mirror(law))
    return lambda *operands: bound(*map(array_of, operands))  # with NumPy's rules


def _is_numerical(function: Callable[..., Any]) -> bool:
    return bool(_NUMERICAL.intersection(function.__code__.co_names))


class _Mirror:
    """A distribution whose methods run on tensors."""

    def __init__(self, law: Any) -> None:
        self._law = law

    def __getattr__(self, name: str) -> Any:
        function = getattr(type(self._law), name, None)
        if isinstance(function, types.FunctionType):
            return functools.partial(_on_tensors(function), self)
        return getattr(self._law, name)


@functools.cache
def _on_tensors(function: Any) -> Any:
    """A function of SciPy's in the namespace of tensors."""
    inner = getattr(function, "__wrapped__", function)
    code, scope = inner.__code__, _scope(inner.__module__, _Globals(inner.__globals__))
    return types.FunctionType(code, scope, inner.__name__, inner.__defaults__, inner.__closure__)


class _Globals:
    """The globals of a module, told apart by the module: dictionaries are no keys."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Globals) and self.values is other.values

    def __hash__(self) -> int:
        return id(self.values)


@functools.cache
def _scope(module: str, names: _Globals) -> dict[str, Any]:
    """A module's names, with NumPy, scipy.special and apply_where replaced by ours for tensors."""
    scope = dict(names.values)
    for name, value in names.values.items():
        if isinstance(value, types.ModuleType):
            scope[name] = _MODULES.get(value.__name__, value)
        elif getattr(value, "__module__", None) == module and isinstance(value, types.FunctionType):
            inner = types.FunctionType(
                value.__code__, scope, name, value.__defaults__, value.__closure__
            )
            scope[name] = inner
        else:
            scope[name] = _counterpart(name, value)
    return scope


def _counterpart(name: str, value: Any) -> Any:
    """The function of tensors for one of NumPy's or SciPy's own."""
    for theirs, ours in ((np, tensors), (_scipy_special(), special)):
        own = getattr(value, "__name__", name)
        if callable(value) and getattr(theirs, own, None) is value and own in dir(ours):
            return getattr(ours, own)
    return value


@functools.cache
def _scipy_special() -> Any:
    import scipy.special

    return scipy.special


class _Extra:
    """The function of array_api_extra that SciPy calls."""

    @staticmethod
    def apply_where(
        cond: Any, args: Any, f1: Any, f2: Any = None, /, *, fill_value: Any = None, **_: Any
    ) -> Any:
        """f1 where the condition holds, else f2 or a value; each side sees 1/2 in the other's
        elements, so that neither meets its poles."""
        given = args if isinstance(args, (tuple, list)) else (args,)
        inside = f1(*(tensors.where(cond, a, 0.5) for a in given))
        if f2 is None:
            return tensors.where(cond, inside, fill_value)
        return tensors.where(cond, inside, f2(*(tensors.where(cond, 0.5, a) for a in given)))


_MODULES: dict[str, Any] = {
    "numpy": tensors,
    "scipy.special": special,
    "scipy._lib.array_api_extra": _Extra,
}


# -- SciPy's numbers -------------------------------------------------------------------------------

# Slopes in x of the functions of a distribution, of the result r, the density and its logarithm.
_SLOPES: dict[str, Callable[..., Any]] = {
    "cdf": lambda r, log: ad.exp(log),
    "sf": lambda r, log: -ad.exp(log),
    "logcdf": lambda r, log: ad.exp(log - r),
    "logsf": lambda r, log: -ad.exp(log - r),
}


def by_scipy(law: Any, name: str, logpdf: Callable[..., Tensor] | None) -> Callable[..., Tensor]:
    """SciPy's numbers; the derivative in x is the density where there is a formula of it."""

    def numbers(x: Tensor, *shapes: Tensor) -> Tensor:
        def theirs(*arrays: Any) -> Any:
            given = np.broadcast_arrays(*(np.asarray(a, np.float64) for a in arrays))
            with np.errstate(all="ignore"):
                method = getattr(law, f"_{name}")
                method = _summed(law) if method.__func__ is _SUM else method
                found = method(*(a.reshape(-1) for a in given))
            return np.asarray(found, arrays[0].dtype).reshape(given[0].shape)

        like = ad.zeros_like(sum(shapes, start=x).detach())
        return pure_callback(theirs, like, x.expand(like.shape).detach(), *map(_fixed, shapes))

    @custom_jvp
    def of_x(x: Tensor, *shapes: Tensor) -> Tensor:
        return numbers(x, *shapes)

    @of_x.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        x, *shapes = primals
        found = of_x(x, *shapes)
        if logpdf is None or name not in _SLOPES:
            raise NotDifferentiable(
                f"{law.name}.{name}: SciPy computes it in a way that cannot be differentiated; for "
                f"values alone pass a detached value, or call scipy.stats.{law.name}.{name}"
            )
        return found, _SLOPES[name](found, logpdf(x, *shapes)) * tangents[0]

    def function(x: Tensor, *shapes: Tensor) -> Tensor:
        return of_x(x, *(_fixed_shape(law.name, name)(s) for s in shapes))

    return function


_SUM = rv_discrete._cdf  # of probabilities, in one array from the first number on
_BLOCK, _MOST_TERMS = 1 << 16, 10**8


def _summed(law: Any) -> Callable[..., Any]:
    """The sum of probabilities up to k, a block at a time: memory is bounded."""

    def cdf(k: Any, *shapes: Any) -> Any:
        found = np.zeros(k.shape)
        for place, top in enumerate(np.floor(k)):
            mine = [s[place] for s in shapes]
            low = float(law._get_support(*mine)[0])
            if top - low > _MOST_TERMS:
                raise ValueRangeError(f"{law.name}.cdf: a sum of {top - low + 1:.3g} probabilities")
            for start in np.arange(low, top + 1, _BLOCK):
                block = np.arange(start, min(start + _BLOCK, top + 1))
                found[place] += np.sum(law._pmf(block, *mine))
        return found

    return cdf


def _fixed(shape: Tensor) -> Tensor:
    return shape.detach()


def _fixed_shape(law: str, name: str) -> Callable[[Tensor], Tensor]:
    """The identity, which refuses to be differentiated."""
    same = custom_jvp(lambda s: s)

    @same.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        raise NotDifferentiable(
            f"{law}.{name}: SciPy computes it in a way that cannot be differentiated in a shape; "
            "pass the shape's detached value"
        )

    return same

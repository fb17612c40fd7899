"""SciPy's distributions on tensors: densities, distribution functions and their inverses.

    >>> import adjoint as ad
    >>> from adjoint.scipy import stats
    >>> likelihood = lambda a, scale: stats.gamma.logpdf(ad.tensor([1.0, 2.0]), a, 0, scale).sum()
    >>> ad.grad(likelihood, argnums=(0, 1))(ad.tensor(2.0), ad.tensor(1.0))
    (tensor(-0.1524), tensor(-1.))

The formulas are SciPy's: the methods that authors of a distribution write (`_logpdf`, `_cdf`) are
plain NumPy code, which runs on tensors. What SciPy does around them, location, scale and support,
is done here with operators; SciPy makes arrays of its arguments there.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.stats as theirs
from scipy.stats import rv_continuous, rv_discrete

from adjoint.absent import absent
from adjoint.core.errors import AdjointError, ArgumentError
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import Array, Float, floating
from adjoint.doors.scipy import laws
from adjoint.tensor.tensor import Tensor

# Of each function: whether it is taken of a probability; what it is below, and above the support.
_FUNCTIONS: dict[str, tuple[bool, float, float]] = {
    "pdf": (False, 0.0, 0.0),
    "logpdf": (False, -math.inf, -math.inf),
    "pmf": (False, 0.0, 0.0),
    "logpmf": (False, -math.inf, -math.inf),
    "cdf": (False, 0.0, 1.0),
    "logcdf": (False, -math.inf, 0.0),
    "sf": (False, 1.0, 0.0),
    "logsf": (False, 0.0, -math.inf),
    "ppf": (True, 0.0, 1.0),
    "isf": (True, 1.0, 0.0),
}
_DENSITIES = ("pdf", "logpdf", "pmf", "logpmf")
_OF_DENSITIES = {True: ("pdf", "logpdf"), False: ("pmf", "logpmf")}  # whether continuous


class Distribution:
    """A distribution of SciPy; its functions take x, shapes, `loc` and `scale`, as tensors or not.

    >>> import adjoint as ad
    >>> from adjoint.scipy import stats
    >>> stats.expon.cdf(ad.tensor([-1.0, 0.0, 1.0]))
    tensor([0.0000, 0.0000, 0.6321])
    >>> waiting = stats.expon(scale=2.0)  # the same with its shapes and its scale
    >>> waiting.logpdf(ad.tensor(1.0))
    tensor(-1.1931)
    """

    def __init__(
        self, distribution: Any, shapes: tuple[Any, ...] = (), more: Mapping[str, Any] | None = None
    ) -> None:
        self.theirs, self.shapes, self.more = distribution, shapes, more or {}
        self.name = self.__name__ = distribution.name
        self.__doc__ = f"SciPy's `{self.name}` distribution, of tensors."

    def __repr__(self) -> str:
        given = [*map(repr, self.shapes), *(f"{k}={v!r}" for k, v in self.more.items())]
        said = f"({', '.join(given)})" if given else ""
        return f"<adjoint.scipy.stats.{self.name}{said}>"

    def __call__(self, *shapes: Any, **more: Any) -> Distribution:
        """The distribution with these shapes, `loc` and `scale`."""
        return Distribution(self.theirs, (*self.shapes, *shapes), {**self.more, **more})

    def pdf(self, x: Any, *shapes: Any, **more: Any) -> Tensor:
        """The density at x."""
        return self._of("pdf", x, shapes, more)

    def logpdf(self, x: Any, *shapes: Any, **more: Any) -> Tensor:
        """The logarithm of the density at x."""
        return self._of("logpdf", x, shapes, more)

    def pmf(self, k: Any, *shapes: Any, **more: Any) -> Tensor:
        """The probability of a whole number k."""
        return self._of("pmf", k, shapes, more)

    def logpmf(self, k: Any, *shapes: Any, **more: Any) -> Tensor:
        """The logarithm of the probability of a whole number k."""
        return self._of("logpmf", k, shapes, more)

    def cdf(self, x: Any, *shapes: Any, **more: Any) -> Tensor:
        """The probability of at most x."""
        return self._of("cdf", x, shapes, more)

    def logcdf(self, x: Any, *shapes: Any, **more: Any) -> Tensor:
        """The logarithm of the probability of at most x."""
        return self._of("logcdf", x, shapes, more)

    def sf(self, x: Any, *shapes: Any, **more: Any) -> Tensor:
        """The probability of more than x."""
        return self._of("sf", x, shapes, more)

    def logsf(self, x: Any, *shapes: Any, **more: Any) -> Tensor:
        """The logarithm of the probability of more than x."""
        return self._of("logsf", x, shapes, more)

    def ppf(self, q: Any, *shapes: Any, **more: Any) -> Tensor:
        """The x up to which the probability is q."""
        return self._of("ppf", q, shapes, more)

    def isf(self, q: Any, *shapes: Any, **more: Any) -> Tensor:
        """The x above which the probability is q."""
        return self._of("isf", q, shapes, more)

    def _of(self, name: str, x: Any, shapes: tuple[Any, ...], more: dict[str, Any]) -> Tensor:
        if name in _OF_DENSITIES[not isinstance(self.theirs, rv_continuous)]:
            right = name.replace("pdf", "pmf") if "pdf" in name else name.replace("pmf", "pdf")
            raise ArgumentError(f"{self.name} has no {name}; it has {right}")
        x = floating(x) if isinstance(x, Tensor) else Float(x)
        shapes, more = (*self.shapes, *shapes), {**self.more, **more}
        given, loc, scale = self.theirs._parse_args(*shapes, **more)
        given, loc, scale = [_like(a, x) for a in given], _like(loc, x), _like(scale, x)
        with np.errstate(all="ignore"):
            valid = (scale > 0) & _truth(self._borrow("_argcheck")(*given))
            if _FUNCTIONS[name][0]:
                found = self._quantile(name, x, given) * scale + loc
                return ad.where(valid, found, math.nan)
            y = (x - loc) / scale
            found = ad.where(valid & ~ad.isnan(y), self._inside(name, y, given), math.nan)
        if name == "pdf":
            return found / scale
        return found - ad.log(scale) if name == "logpdf" else found

    def _inside(self, name: str, y: Tensor, shapes: list[Tensor]) -> Tensor:
        """A function of standardised numbers, known below and above the support."""
        _, below, above = _FUNCTIONS[name]
        lower, upper = self._support(shapes)
        density = name in _DENSITIES
        beyond = (y > upper) | (y == math.inf) if density else y >= upper
        short = (y < lower) | (y == -math.inf)
        found = self._call(name, ad.where(ad.isfinite(y), y, 0.5), shapes)
        if name in ("pmf", "logpmf"):
            found = ad.where(ad.floor(y) == y, found, below)
        return ad.where(short, below, ad.where(beyond, above, found))

    def _support(self, shapes: list[Tensor]) -> Any:
        ends = self._borrow("_get_support")(*shapes)
        return tuple(Array(end) if isinstance(end, Tensor) else end for end in ends)

    def _quantile(self, name: str, q: Tensor, shapes: list[Tensor]) -> Tensor:
        """The inverse of a distribution function: the ends of the support at 0 and 1."""
        lower, upper = self._support(shapes)
        if not isinstance(self.theirs, rv_continuous):
            lower = lower - 1  # below the first number that has a probability
        first, last = (lower, upper) if name == "ppf" else (upper, lower)
        inside = (q > 0) & (q < 1)
        found = self._call(name, ad.where(inside, q, 0.5), shapes)
        found = ad.where(q == 0, first, ad.where(q == 1, last, found))
        return ad.where(inside | (q == 0) | (q == 1), found, math.nan)

    def _call(self, name: str, x: Tensor, shapes: list[Tensor]) -> Tensor:
        """Our formula, one by other functions, SciPy's formula, or SciPy's numbers."""
        ours = laws.formula(self.name, name)
        if ours is not None:
            return ours(x, *shapes)
        if name in _BY_OTHERS and not self._writes(f"_{name}"):
            return _BY_OTHERS[name](self, x, shapes)
        if name in ("pdf", "pmf") and self._has(f"log{name}"):
            return ad.exp(self._call(f"log{name}", x, shapes))
        if name in ("logpdf", "logpmf") and not self._writes(f"_{name}"):
            return ad.log(self._call(name[3:], x, shapes))
        if name in ("ppf", "isf") and laws.formula(self.name, "cdf") is not None:
            return self._root(name, x, shapes)
        borrowed = self._borrowed(name, x, shapes)
        if borrowed is not None:
            return borrowed
        if name in ("ppf", "isf") and isinstance(self.theirs, rv_continuous):
            return self._root(name, x, shapes)
        return laws.by_scipy(self.theirs, name, self._logpdf_of(name))(x, *shapes)

    def _borrowed(self, name: str, x: Tensor, shapes: list[Tensor]) -> Tensor | None:
        """What SciPy's formula says of tensors; None where its code is none, after all."""
        function = laws.borrowed(self.theirs, f"_{name}")
        try:
            return None if function is None else Float(function(x, *shapes)).to(x.dtype)
        except (AdjointError, TypeError, AttributeError, NotImplementedError):
            return None

    def _logpdf_of(self, name: str) -> Any:
        if name in _DENSITIES or not isinstance(self.theirs, rv_continuous):
            return None
        return lambda x, *shapes: self._call("logpdf", x, list(shapes))

    def _root(self, name: str, q: Tensor, shapes: list[Tensor]) -> Tensor:
        """The quantile by SciPy, whose derivatives up to the third are those of two steps of
        Newton's method, in q and in the shapes."""
        fixed = [s.detach() for s in shapes]
        start = laws.by_scipy(self.theirs, name, None)(q.detach(), *fixed)
        x = start
        rises = name == "ppf"
        lower = q < 0.5  # by the smaller of both probabilities, which are known best
        for _ in range(2):
            below, above = self._call("cdf", x, shapes), self._call("sf", x, shapes)
            small, large = (below, above) if rises else (above, below)
            miss = ad.where(lower, small - q, (1 - q) - large)
            density = self._call("pdf", x, shapes)
            step = miss / ad.where(density == 0, np.finfo(np.float32).tiny, density)
            x = x - step if rises else x + step
        return start + (x - x.detach())

    def _borrow(self, method: str) -> Any:
        """SciPy's method on tensors, or as it is."""
        return laws.borrowed(self.theirs, method) or getattr(self.theirs, method)

    def _has(self, name: str) -> bool:
        return laws.formula(self.name, name) is not None or self._writes(f"_{name}")

    def _writes(self, method: str) -> bool:
        """Whether the distribution has a formula of its own for a method."""
        own = type(self.theirs)
        base = rv_continuous if isinstance(self.theirs, rv_continuous) else rv_discrete
        return getattr(own, method, None) is not getattr(base, method, None)


def _logarithm(small: str, large: str) -> Callable[..., Tensor]:
    """log of a probability, by the other one where that is smaller."""

    def function(law: Distribution, x: Tensor, shapes: list[Tensor]) -> Tensor:
        p, rest = law._call(small, x, shapes), law._call(large, x, shapes)
        near = p < 0.5
        return ad.where(near, ad.log(ad.where(near, p, 0.5)), ad.log1p(-ad.where(near, 0.5, rest)))

    return function


# What functions are by others, where SciPy has no formula of their own.
_BY_OTHERS: dict[str, Callable[[Distribution, Tensor, list[Tensor]], Tensor]] = {
    "sf": lambda law, x, shapes: 1 - law._call("cdf", x, shapes),
    "logcdf": _logarithm("cdf", "sf"),
    "logsf": _logarithm("sf", "cdf"),
    "isf": lambda law, q, shapes: law._call("ppf", 1 - q, shapes),
}


def _truth(value: Any) -> Any:
    """A condition as truth values: SciPy returns 1 where nothing is asked of shapes."""
    return Array(value).bool() if isinstance(value, Tensor) else bool(np.all(value))


def _like(value: Any, x: Tensor) -> Tensor:
    """A tensor, in the dtype of x where it is a number or an array of NumPy's."""
    return floating(value) if isinstance(value, Tensor) else Float(value).to(x.dtype)


class MultivariateNormal:
    """The normal distribution of vectors.

    >>> import adjoint as ad
    >>> from adjoint.scipy import stats
    >>> stats.multivariate_normal.logpdf(ad.zeros(2), ad.zeros(2), ad.eye(2))
    tensor(-1.8379)
    """

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1.0) -> Tensor:
        """The logarithm of the density at the last dimension of x."""
        x = floating(x) if isinstance(x, Tensor) else Float(x)
        mean = ad.zeros_like(x) if mean is None else _like(mean, x)
        cov = _like(cov, x)
        size = x.shape[-1]
        if cov.ndim < 2:
            cov = ad.diag_embed(cov.expand([size]))
        factor = ad.linalg_cholesky(cov)
        rest = ad.linalg_solve_triangular(factor, (x - mean).unsqueeze(-1), upper=False)
        logs = ad.sum(ad.log(ad.diagonal(factor, 0, -2, -1)), -1)
        squares = ad.sum(ad.square(rest.squeeze(-1)), -1)
        return -squares / 2 - logs - size / 2 * math.log(2 * math.pi)

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1.0) -> Tensor:
        """The density at the last dimension of x."""
        return ad.exp(self.logpdf(x, mean, cov))

    def entropy(self, mean: Any = None, cov: Any = 1.0) -> Tensor:
        """The differential entropy."""
        cov = Float(cov)
        matrix = cov if cov.ndim == 2 else ad.diag_embed(cov.reshape(-1))
        size = matrix.shape[-1]
        return (size * (1 + math.log(2 * math.pi)) + ad.linalg_slogdet(matrix)[1]) / 2


class Dirichlet:
    """The Dirichlet distribution; x and alpha are along the first dimension, as in SciPy.

    >>> import adjoint as ad
    >>> from adjoint.scipy import stats
    >>> stats.dirichlet.logpdf(ad.tensor([0.25, 0.75]), ad.tensor([1.0, 1.0]))
    tensor(0.)
    """

    def logpdf(self, x: Any, alpha: Any) -> Tensor:
        """The logarithm of the density; the last of the shares x may be left out."""
        x = floating(x) if isinstance(x, Tensor) else Float(x)
        alpha = _like(alpha, x)
        if x.shape[0] == alpha.shape[0] - 1:
            x = ad.cat([x, 1 - ad.sum(x, 0, keepdim=True)], 0)
        constant = ad.lgamma(ad.sum(alpha)) - ad.sum(ad.lgamma(alpha))
        powers = alpha.reshape([-1, *(1,) * (x.ndim - 1)]) - 1
        return ad.sum(ad.xlogy(powers, x), 0) + constant

    def pdf(self, x: Any, alpha: Any) -> Tensor:
        """The density."""
        return ad.exp(self.logpdf(x, alpha))


multivariate_normal = MultivariateNormal()
dirichlet = Dirichlet()


def __getattr__(name: str) -> Distribution:
    found = inspect.getattr_static(theirs, name, None)
    if not isinstance(found, (rv_continuous, rv_discrete)):
        raise absent("adjoint.scipy.stats", name, __dir__())
    made = globals()[name] = Distribution(found)
    return made


def __dir__() -> list[str]:
    names = (n for n, v in vars(theirs).items() if isinstance(v, (rv_continuous, rv_discrete)))
    return sorted({*names, "Distribution", "dirichlet", "multivariate_normal"})

"""Kernels that draw random numbers, each from the generator it is given or the default one.

The samplers take `self` for its shape and dtype alone and return a new array; the dispatcher makes
`normal_` from `normal` by writing it back. Float16 and bfloat16 are drawn in float32 and rounded,
except for uniform numbers, which are drawn with as many bits as the dtype has, so that the upper
end never occurs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.c_kernels import drawing, ordering
from adjoint.c_kernels.conversions import astype
from adjoint.checks import creation
from adjoint.core import dtypes
from adjoint.core.dtypes import BOOL, DEFAULT, INTEGER, DType
from adjoint.core.errors import DtypeError, ShapeError, ValueRangeError
from adjoint.core.generator import Generator, sampling
from adjoint.core.shapes import Shape, Spec, show
from adjoint.kernels.creation import empty_like
from adjoint.kernels.scan import cumsum

Array = np.ndarray[Any, Any]
Draw = Callable[[np.random.Generator, Shape, np.dtype[Any]], Array]


# --- uniform and normal numbers of any float or complex dtype ----------------------------------


def _unit(numpy: np.random.Generator, size: Shape, dtype: DType) -> Array:
    """Return numbers 0 ≤ u < 1."""
    if dtype.is_complex:
        return _pair(_unit, numpy, size, dtype)
    if dtype.np in dtypes.REDUCED:
        bits = creation.EXACT_UP_TO[dtype]
        return (numpy.integers(bits, size=size).astype(np.float32) / bits).astype(dtype.np)
    return np.asarray(numpy.random(size, dtype.np))


def _gauss(numpy: np.random.Generator, size: Shape, dtype: DType) -> Array:
    """Return standard normal numbers; complex ones have E|z|² = 1."""
    if dtype.is_complex:
        return _pair(_gauss, numpy, size, dtype) * math.sqrt(0.5)
    if dtype is dtypes.float64:
        return np.asarray(numpy.standard_normal(size))
    count = math.prod(size)
    if count < drawing.LARGE:
        drawn = np.asarray(numpy.standard_normal(size, np.float32))
    else:
        words = numpy.bit_generator.random_raw(-(-count // 2))
        drawn = drawing.normal(words)[:count].reshape(size)
    return drawn.astype(dtype.np, copy=False)


def _pair(draw: Any, numpy: np.random.Generator, size: Shape, dtype: DType) -> Array:
    parts = draw(numpy, (*size, 2), dtype.to_real())
    return parts.view(dtype.np)[..., 0]


def _make(
    what: str, draw: Any, size: Sequence[int], dtype: DType, generator: Generator | None
) -> Array:
    creation.require_float(what, dtype, complex_too=True)
    size = creation.checked_size(what, size, dtype)
    try:
        with sampling(generator) as numpy:
            return draw(numpy, size, dtype)
    except MemoryError:
        raise creation.out_of_memory(what, size, dtype) from None


def rand_generator(
    size: Sequence[int], generator: Generator | None, dtype: DType | None, *_: Any
) -> Array:
    return _make("rand", _unit, size, creation.chosen(dtype, DEFAULT.dtype), generator)


def randn_generator(
    size: Sequence[int], generator: Generator | None, dtype: DType | None, *_: Any
) -> Array:
    return _make("randn", _gauss, size, creation.chosen(dtype, DEFAULT.dtype), generator)


def _dtype_of(self: Array, dtype: DType | None) -> DType:
    return dtypes.of(self.dtype) if dtype is None else dtype


def _laid_out(drawn: Array, self: Array, rest: Sequence[Any]) -> Array:
    """Numbers drawn row by row in the order of `self`, or of the memory format that ends `rest`."""
    form = rest[-1] if rest else None
    if form is None and self.flags.c_contiguous:
        return drawn
    result = empty_like(self, dtypes.of(drawn.dtype), form)
    result[...] = drawn
    return result


def rand_like_generator(
    self: Array, generator: Generator | None, dtype: DType | None, *rest: Any
) -> Array:
    drawn = _make("rand_like", _unit, self.shape, _dtype_of(self, dtype), generator)
    return _laid_out(drawn, self, rest)


def randn_like_generator(
    self: Array, generator: Generator | None, dtype: DType | None, *rest: Any
) -> Array:
    drawn = _make("randn_like", _gauss, self.shape, _dtype_of(self, dtype), generator)
    return _laid_out(drawn, self, rest)


# --- whole numbers ----------------------------------------------------------------------------


def _whole(
    what: str, low: int, high: int, size: Sequence[int], dtype: DType, generator: Generator | None
) -> Array:
    """Return whole numbers low ≤ n < high."""
    creation.check_random_bounds(what, low, high, dtype)
    size = creation.checked_size(what, size, dtype)
    draws = dtype.np if dtype.category == INTEGER else np.dtype(np.int64)
    with sampling(generator) as numpy:
        return np.asarray(numpy.integers(low, high, size, draws)).astype(dtype.np, copy=False)


def randint_low_generator(
    low: int, high: int, size: Sequence[int], generator: Generator | None, dtype: Any, *_: Any
) -> Array:
    return _whole("randint", low, high, size, creation.chosen(dtype, dtypes.int64), generator)


def randint_like_low_generator(
    self: Array, low: int, high: int, generator: Generator | None, dtype: Any, *rest: Any
) -> Array:
    drawn = _whole("randint_like", low, high, self.shape, _dtype_of(self, dtype), generator)
    return _laid_out(drawn, self, rest)


def randint_like_tensor_generator(
    self: Array, high: Array, generator: Generator | None, dtype: Any, *rest: Any
) -> Array:
    return randint_like_low_generator(self, 0, int(high.item()), generator, dtype, *rest)


def randperm_generator(n: int, generator: Generator | None, dtype: Any, *_: Any) -> Array:
    result = creation.chosen(dtype, dtypes.int64)
    creation.checked_size("randperm", (n,), result)
    if result.category == BOOL or result.is_complex:
        raise DtypeError(f"randperm: needs an integer or floating point dtype, got {result}.")
    largest = creation.EXACT_UP_TO.get(result) or creation.whole_limits(result)[1]
    if n - 1 > largest:
        raise ValueRangeError(f"randperm: numbers below {n} do not all fit {result}.")
    with sampling(generator) as numpy:
        return numpy.permutation(n).astype(result.np, copy=False)


def random(self: Array, generator: Generator | None) -> Array:
    dtype = dtypes.of(self.dtype)
    if dtype.is_complex:
        raise DtypeError(f"random_: draws real numbers, got {dtype}.")
    exact = creation.EXACT_UP_TO.get(dtype)
    high = exact if exact is not None else creation.whole_limits(dtype)[1]
    return _whole("random_", 0, high + 1, self.shape, dtype, generator)


def random_from(self: Array, low: int, high: int | None, generator: Generator | None) -> Array:
    dtype = dtypes.of(self.dtype)
    if high is None:
        exact = creation.EXACT_UP_TO.get(dtype)
        high = (exact if exact is not None else creation.whole_limits(dtype)[1]) + 1
    return _whole("random_", low, high, self.shape, dtype, generator)


# --- continuous distributions ------------------------------------------------------------------


def _draw(
    what: str, self: Array, draw: Draw, generator: Generator | None, *, any_dtype: bool = False
) -> Array:
    """Return `draw(generator, shape, float dtype)` rounded to the dtype of `self`."""
    dtype = dtypes.of(self.dtype)
    if not any_dtype:
        creation.require_float(what, dtype)
    wide = dtype.wide.np
    if not dtype.is_floating_point:
        wide = np.dtype(np.float64)
    with sampling(generator) as numpy, np.errstate(all="ignore"):
        return np.asarray(draw(numpy, self.shape, wide)).astype(dtype.np, copy=False)


def _require(what: str, holds: bool, demand: str) -> None:
    if not holds:
        raise ValueRangeError(f"{what}: {demand}.")


def uniform(self: Array, low: float, high: float, generator: Generator | None) -> Array:
    dtype = creation.require_float("uniform_", dtypes.of(self.dtype), complex_too=True)
    largest = dtypes.finfo(dtype).max
    for bound in (low, high):
        _require("uniform_", abs(bound) <= largest, f"the bound {bound} does not fit {dtype}")
    _require("uniform_", low <= high, f"from must not exceed to, got {low} and {high}")
    _require("uniform_", high - low <= largest, f"the range from {low} to {high} is too wide")
    with sampling(generator) as numpy:
        unit = _unit(numpy, self.shape, dtype)
    if dtype.np in dtypes.REDUCED:
        unit = unit.astype(np.float32)
    shift = complex(low, low) if dtype.is_complex else low
    return (unit * (high - low) + shift).astype(dtype.np, copy=False)


def normal(self: Array, mean: float, std: float, generator: Generator | None) -> Array:
    return _gaussian("normal_", self.shape, dtypes.of(self.dtype), mean, std, generator)


def normal_float_float(
    mean: float,
    std: float,
    size: Sequence[int],
    generator: Generator | None,
    dtype: DType | None,
    *_: Any,
) -> Array:
    result = creation.chosen(dtype, DEFAULT.dtype)
    return _gaussian("normal", size, result, mean, std, generator)


def _gaussian(
    what: str,
    size: Sequence[int],
    dtype: DType,
    mean: float,
    std: float,
    generator: Generator | None,
) -> Array:
    _require(what, std >= 0, f"the standard deviation must not be negative, got {std}")
    unit = _make(what, _gauss, size, dtype, generator)
    if dtype.np in dtypes.REDUCED:
        unit = unit.astype(np.float32)
    with np.errstate(all="ignore"):
        unit *= std
        unit += mean
        return unit.astype(dtype.np, copy=False)


def _described(parameter: Any) -> Any:
    """The shape and dtype of an array; numbers unchanged."""
    if isinstance(parameter, np.ndarray):
        return Spec(parameter.shape, dtypes.of(parameter.dtype))
    return parameter


def normal_of(mean: Any, std: Any, generator: Generator | None) -> Array:
    """Normal random numbers with these means and deviations, one of which may be a number."""
    drawn = creation.normal_of(_described(mean), _described(std))
    _require("normal", bool(np.all(std >= 0)), "standard deviations must not be negative")
    unit = _make("normal", _gauss, drawn.shape, drawn.dtype, generator)
    with np.errstate(all="ignore"):
        return (mean + std * unit).astype(drawn.dtype.np, copy=False)


def log_normal(self: Array, mean: float, std: float, generator: Generator | None) -> Array:
    _require("log_normal_", std > 0, f"std must be positive, got {std}")

    def draw(numpy: np.random.Generator, size: Shape, dtype: np.dtype[Any]) -> Array:
        return np.exp(numpy.standard_normal(size, dtype) * std + mean)

    return _draw("log_normal_", self, draw, generator)


def exponential(self: Array, lambd: float, generator: Generator | None) -> Array:
    _require("exponential_", lambd > 0, f"lambd must be positive, got {lambd}")

    def draw(numpy: np.random.Generator, size: Shape, dtype: np.dtype[Any]) -> Array:
        return numpy.standard_exponential(size, dtype) / lambd

    return _draw("exponential_", self, draw, generator)


def cauchy(self: Array, median: float, sigma: float, generator: Generator | None) -> Array:
    _require("cauchy_", sigma > 0, f"sigma must be positive, got {sigma}")

    def draw(numpy: np.random.Generator, size: Shape, dtype: np.dtype[Any]) -> Array:
        angle = (numpy.random(size, np.float64) - 0.5) * math.pi
        return median + sigma * np.tan(angle)

    return _draw("cauchy_", self, draw, generator)


def standard_gamma(self: Array, generator: Generator | None) -> Array:
    """Samples of the gamma distribution of shape self, at least the smallest normal number."""
    dtype = creation.require_float("_standard_gamma", dtypes.of(self.dtype))
    shape = self.astype(np.float64)
    _require("_standard_gamma", not (shape < 0).any(), "shapes must not be negative")
    with sampling(generator) as numpy:
        drawn = np.asarray(numpy.standard_gamma(shape))
    return np.maximum(drawn, dtypes.finfo(dtype).tiny).astype(dtype.np)


def sample_dirichlet(self: Array, generator: Generator | None) -> Array:
    """Samples of the Dirichlet distribution: gamma variables over their sum.

    A gamma variable of shape a is one of shape a + 1 times u^(1/a); in logarithms nothing
    underflows, however small a is.
    """
    dtype = creation.require_float("_sample_dirichlet", dtypes.of(self.dtype))
    shape = self.astype(np.float64)
    _require("_sample_dirichlet", bool((shape > 0).all()), "concentrations must be positive")
    with sampling(generator) as numpy, np.errstate(all="ignore"):
        logs = (
            np.log(numpy.standard_gamma(shape + 1)) + np.log1p(-numpy.random(shape.shape)) / shape
        )
    if not logs.ndim:
        return np.ones((), dtype.np)
    powers = np.exp(logs - logs.max(-1, keepdims=True, initial=-np.inf))
    drawn = powers / powers.sum(-1, keepdims=True)
    if drawn.shape[-1] > 1:  # 0 and 1 are left out, as in PyTorch: a density may be infinite there
        limits = dtypes.finfo(dtype)
        drawn = np.clip(drawn, limits.tiny, 1 - limits.eps / 2)
    return drawn.astype(dtype.np)


def standard_von_mises(self: Array, generator: Generator | None) -> Array:
    """Angles of the von Mises distribution of concentration self, around 0."""
    dtype = creation.require_float("_standard_von_mises", dtypes.of(self.dtype))
    concentration = self.astype(np.float64)
    _require(
        "_standard_von_mises", not (concentration < 0).any(), "concentrations must not be negative"
    )
    with sampling(generator) as numpy:
        return np.asarray(numpy.vonmises(0.0, concentration)).astype(dtype.np)


# --- discrete distributions --------------------------------------------------------------------


def geometric(self: Array, p: float, generator: Generator | None) -> Array:
    _require("geometric_", 0 < p < 1, f"p must lie between 0 and 1, got {p}")
    if self.dtype.kind == "c":
        raise DtypeError(f"geometric_: draws real numbers, got {dtypes.of(self.dtype)}.")

    def draw(numpy: np.random.Generator, size: Shape, dtype: np.dtype[Any]) -> Array:
        return np.asarray(numpy.geometric(p, size))

    return _draw("geometric_", self, draw, generator, any_dtype=True)


def bernoulli(self: Array, generator: Generator | None) -> Array:
    dtype = creation.require_float("bernoulli", dtypes.of(self.dtype))
    return _laid_as(self, _coins("bernoulli", self, self.shape, dtype, generator))


def bernoulli_p(self: Array, p: float, generator: Generator | None) -> Array:
    dtype = dtypes.of(self.dtype)
    if dtype.is_complex:
        raise DtypeError(f"bernoulli: draws real numbers, got {dtype}.")
    return _laid_as(self, _coins("bernoulli", np.asarray(p), self.shape, dtype, generator))


def bernoulli_tensor(self: Array, p: Array, generator: Generator | None) -> Array:
    dtype = dtypes.of(self.dtype)
    creation.require_float("bernoulli: p", dtypes.of(p.dtype))
    if dtype.is_complex:
        raise DtypeError(f"bernoulli: draws real numbers, got {dtype}.")
    if p.ndim > self.ndim or any(m not in (1, n) for n, m in zip(self.shape[::-1], p.shape[::-1])):
        raise ShapeError(
            f"bernoulli: p of shape {show(p.shape)} does not broadcast to {show(self.shape)}."
        )
    return _laid_as(self, _coins("bernoulli", p, self.shape, dtype, generator))


def _laid_as(like: Array, values: Array) -> Array:
    """Values in the order of memory of another array, so that products with it keep that."""
    if like.flags.c_contiguous:
        return values
    made = np.empty_like(like, values.dtype)
    made[...] = values
    return made


def _coins(what: str, p: Array, size: Shape, dtype: DType, generator: Generator | None) -> Array:
    """Return 1 with probability p, else 0."""
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueRangeError(f"{what}: probabilities must lie between 0 and 1.")
    with sampling(generator) as numpy:
        return np.asarray(numpy.random(size) < p).astype(dtype.np, copy=False)


def poisson(self: Array, generator: Generator | None) -> Array:
    dtype = creation.require_float("poisson", dtypes.of(self.dtype))
    rate = self.astype(np.float64)
    # Beyond this NumPy's sampler refuses; the spread there is below a part in 10⁹ of the rate.
    if not ((rate >= 0) & (rate < 9.2e18)).all():
        raise ValueRangeError("poisson: rates must be at least 0 and less than 9.2e18.")
    with sampling(generator) as numpy:
        return np.asarray(numpy.poisson(rate)).astype(dtype.np)


def binomial(count: Array, prob: Array, generator: Generator | None) -> Array:
    """How many of `count` coins, each heads with probability `prob`, come up heads."""
    dtype = creation.binomial(_described(count), _described(prob)).dtype
    n, p = (x.astype(np.float64) for x in (count, prob))
    _require("binomial", bool(((n >= 0) & (n == np.floor(n))).all()), "counts are whole numbers")
    _require("binomial", bool(((p >= 0) & (p <= 1)).all()), "probabilities lie between 0 and 1")
    with sampling(generator) as numpy:
        return np.asarray(numpy.binomial(n.astype(np.int64), p)).astype(dtype.np)


def multinomial(
    self: Array, num_samples: int, replacement: bool, generator: Generator | None
) -> Array:
    creation.check_multinomial(self.shape, dtypes.of(self.dtype), num_samples, replacement)
    p = astype(self, np.float64, copy=False)
    with sampling(generator) as numpy:
        if replacement:
            return _with_replacement(numpy, p, num_samples)
        return _without_replacement(numpy, p, num_samples)


def _check_probabilities(p: Array, sums: Array) -> None:
    """Raise unless all are finite, none is negative, and a row has some; given the rows' sums."""
    if not (np.isfinite(sums).all() and p.min(initial=0) >= 0):  # then look at each of them
        valid = bool((np.isfinite(p) & (p >= 0)).all())
        _require("multinomial", valid, "probabilities must be finite and at least 0")
    some = bool((sums > 0).all())
    _require("multinomial", some, "the probabilities of a row must not all be 0")


def _with_replacement(numpy: np.random.Generator, p: Array, count: int) -> Array:
    """Invert the distribution function."""
    rows = p.reshape(-1, p.shape[-1])
    total = cumsum(rows, 1, None)
    _check_probabilities(p, total[:, -1])
    drawn = numpy.random((len(rows), count)) * total[:, -1:]
    found = ordering.search(total, drawn, right=True)
    if found is None:
        each = [np.searchsorted(t, u, side="right") for t, u in zip(total, drawn)]
        found = np.reshape(each, drawn.shape)
    if (found == p.shape[-1]).any():  # by rounding: the last category that can occur then
        last = p.shape[-1] - 1 - np.argmax(rows[:, ::-1] > 0, -1)
        found = np.minimum(found, last[:, None])
    return found.reshape(*p.shape[:-1], count).astype(np.int64, copy=False)


def _without_replacement(numpy: np.random.Generator, p: Array, count: int) -> Array:
    """Race exponential clocks of rate p: the order in which they ring is a draw."""
    _check_probabilities(p, p.sum(-1))
    if not ((p > 0).sum(-1) >= count).all():
        raise ValueRangeError(
            f"multinomial: a row has fewer than {count} categories of positive probability; "
            "pass replacement=True."
        )
    with np.errstate(divide="ignore"):
        rings = numpy.standard_exponential(p.shape) / p
    return np.argsort(rings, -1)[..., :count].astype(np.int64)

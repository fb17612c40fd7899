"""Reductions over lists of Python's numbers, with exact sums (`math.fsum`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.testing.references.elements import Array

Number = Any
Dims = int | Sequence[int] | None


def total(values: Sequence[Number]) -> Number:
    """The exact sum, rounded once; infinities and NaN as they add up."""
    if any(isinstance(v, complex) for v in values):
        return complex(total([v.real for v in values]), total([v.imag for v in values]))
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


def along(
    function: Callable[[list[Number]], Number], x: Array, dim: Dims = None, keepdim: bool = False
) -> Array:
    """Apply a function of a list to the elements along some dimensions; all if there are none."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim or ())
    chosen = sorted({d % x.ndim for d in dims}) if x.ndim and dims else list(range(x.ndim))
    kept = [d for d in range(x.ndim) if d not in chosen]
    values = [
        function([x[_place(x.ndim, kept, here, chosen, there)].item() for there in _all(x, chosen)])
        for here in _all(x, kept)
    ]
    shape = [1 if d in chosen else n for d, n in enumerate(x.shape) if keepdim or d in kept]
    return np.array(values).reshape(shape)


def _all(x: Array, dims: list[int]) -> list[tuple[int, ...]]:
    return list(itertools.product(*[range(x.shape[d]) for d in dims]))


def _place(
    ndim: int, kept: list[int], here: tuple[int, ...], chosen: list[int], there: tuple[int, ...]
) -> tuple[int, ...]:
    where = dict(zip(kept, here, strict=True)) | dict(zip(chosen, there, strict=True))
    return tuple(where[d] for d in range(ndim))


def of(function: Callable[[list[Number]], Number]) -> Callable[..., Array]:
    """A reduction (self, dim=None, keepdim=False)."""
    return lambda x, dim=None, keepdim=False, dtype=None: along(function, x, dim, keepdim)


def over_some(function: Callable[[list[Number]], bool]) -> Callable[..., Array]:
    """As `of`, but no dimensions are none, not all."""
    return lambda x, dim=None, keepdim=False: (
        x != 0 if dim == () else along(function, x, dim, keepdim)
    )


def without_nan(values: list[Number]) -> list[Number]:
    return [v for v in values if v == v]


def mean(values: list[Number]) -> Number:
    return total(values) / len(values) if values else math.nan


def largest(values: list[float]) -> float:
    return next((v for v in values if v != v), max(values))


def smallest(values: list[float]) -> float:
    return next((v for v in values if v != v), min(values))


def index_of(choose: Callable[[list[float]], float]) -> Callable[[list[float]], int]:
    """The first place of the chosen value; NaN is chosen where there is one."""

    def place(values: list[float]) -> int:
        wanted = choose(values)
        return next(i for i, v in enumerate(values) if v == wanted or (v != v and wanted != wanted))

    return place


def with_indices(choose: Callable[[list[float]], float]) -> Callable[..., list[Array]]:
    return lambda x, dim, keepdim=False: [
        along(choose, x, dim, keepdim),
        along(index_of(choose), x, dim, keepdim),
    ]


def log_sum(values: list[Number]) -> Number:
    if any(isinstance(v, complex) for v in values):
        top = max((v.real for v in values if math.isfinite(v.real)), default=0.0)
        return top + complex(np.log(total([complex(np.exp(v - top)) for v in values])))
    top = max(values, default=-math.inf)
    if not math.isfinite(top):
        return top
    return top + math.log(math.fsum(math.exp(v - top) for v in values))


def size(values: list[Number], order: float = 2) -> float:
    """The norm of a vector."""
    sizes = [abs(v) for v in values]
    if any(v != v for v in sizes):
        return math.nan
    if order == 0:
        return float(sum(v != 0 for v in sizes))
    if math.isinf(order):
        return max(sizes, default=0.0) if order > 0 else min(sizes)
    top = max(sizes, default=0.0)
    if order < 0:
        return 0.0 if 0 in sizes else math.fsum(v**order for v in sizes) ** (1 / order)
    if top in (0.0, math.inf):
        return top
    return top * math.fsum((v / top) ** order for v in sizes) ** (1 / order)


def norm(x: Array, p: Any = 2, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Array:
    order = 2 if p is None or p == "fro" else p
    return along(lambda values: size(values, order), x, dim, keepdim)


def renormed(x: Array, p: float, dim: int, maxnorm: float) -> Array:
    """Slices along `dim` whose norm is larger are scaled to it; PyTorch adds 1e-7 to the norm."""
    found = np.moveaxis(x, dim, 0).copy()
    for row in found:
        length = size(row.ravel().tolist(), p)
        if length > maxnorm:
            row *= maxnorm / (length + 1e-7)
    return np.moveaxis(found, 0, dim)


def variance(values: list[Number], correction: float = 1) -> float:
    middle = mean(values)
    count = len(values) - correction
    squares = [abs(v - middle) ** 2 for v in values]
    return total(squares) / count if count > 0 else math.nan if not any(squares) else math.inf


def moments(*kinds: str) -> Callable[..., Any]:
    """Variance or deviation, and perhaps the mean; corrections as numbers or as `unbiased`."""

    def reference(x: Array, *args: Any, correction: Any = None, keepdim: bool = False) -> Any:
        dim = next((a for a in args if not isinstance(a, bool)), None)
        flags = [a for a in args if isinstance(a, bool)]
        if flags:
            correction = int(flags[0])
            keepdim = flags[1] if len(flags) > 1 else keepdim
        degrees = 1 if correction is None else correction
        functions: dict[str, Callable[[list[Number]], Number]] = {
            "var": lambda values: variance(values, degrees),
            "std": lambda values: math.sqrt(variance(values, degrees)),
            "mean": mean,
        }
        found = [along(functions[kind], x, dim, keepdim) for kind in kinds]
        return found if len(found) > 1 else found[0]

    return reference


def covariance(
    x: Array, correction: int = 1, fweights: Array | None = None, aweights: Array | None = None
) -> Array:
    rows = np.atleast_2d(x)
    count = np.ones(rows.shape[1]) if fweights is None else fweights.astype(float)
    weight = count * (1 if aweights is None else aweights)
    scale = weight.sum() - correction * (
        (weight * (1 if aweights is None else aweights)).sum() / weight.sum()
        if aweights is not None else 1
    )  # fmt: skip
    centred = [row - (weight * row).sum() / weight.sum() for row in rows]
    found = [[(weight * a * b.conj()).sum() / scale for b in centred] for a in centred]
    return np.array(found).reshape(() if x.ndim < 2 else (len(rows), len(rows)))


def correlation(x: Array) -> Array:
    found = covariance(x)
    if not found.ndim:
        return found / found
    spread = [math.sqrt(found[k, k].real) for k in range(len(found))]
    return found / spread / np.reshape(spread, (-1, 1))


def segments(
    data: Array, reduce: str, lengths: Array | None = None, indices: Any = None,
    offsets: Array | None = None, axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Array:  # fmt: skip
    """Segments of `data` one after another; a mean adds `initial` to the sum, as PyTorch's does."""
    if lengths is None:
        assert offsets is not None
        lengths = np.diff(offsets, axis=-1)
    batch = lengths.shape[:-1]
    found = np.zeros((*lengths.shape, *data.shape[axis + 1 :]), data.dtype)
    empty = {"sum": 0.0, "prod": 1.0, "mean": math.nan, "max": -math.inf, "min": math.inf}[reduce]
    functions = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
    for place in np.ndindex(*batch):
        start = 0
        for k, length in enumerate(lengths[place].tolist()):
            rows = list(data[place][start : start + length])
            start += length
            if initial is not None:
                rows = [np.full(data.shape[axis + 1 :], initial, data.dtype), *rows]
            function = functions.get(reduce, np.add)
            value = rows[0] if rows else np.full(data.shape[axis + 1 :], empty)
            for row in rows[1:]:
                value = function(value, row)
            found[(*place, k)] = value / length if reduce == "mean" and length else value
    return found


def quotient(x: Array, y: Array) -> Array:
    """x / y, and 0 where y is 0."""
    return np.where(y == 0, 0, x / np.where(y == 0, 1, y))


def expanded(x: Array, dim: Dims, like: Array, keepdim: bool) -> Array:
    """A result of a reduction, beside each of the elements that it came from."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim or range(like.ndim))
    return np.broadcast_to(x if keepdim else np.expand_dims(x, dims), like.shape)


def shares(x: Array, _: Array, dim: Dims, keepdim: bool) -> Array:
    """exp(x) over its sum; of what is -inf alone 0, of what is +inf evenly."""
    if np.iscomplexobj(x):
        return quotient(np.exp(x), expanded(along(total, np.exp(x), dim, True), dim, x, True))
    top = expanded(along(largest, x, dim, True), dim, x, True)
    powers = np.where(x == top, np.where(top == -math.inf, 0, 1), np.exp(x - top))
    return quotient(powers, expanded(along(total, powers, dim, True), dim, x, True))


def pulled_length(grad: Array, x: Array, result: Array, dim: Dims, keepdim: bool) -> Array:
    """The gradient of a length: its direction."""
    size, spread = (expanded(a, dim, x, keepdim) for a in (result, grad))
    return spread * quotient(x, size)


def direction(x: Array, dim: Dims, eps: float) -> Array:
    """x over its length."""
    length = np.sqrt(np.sum(x * x, axis=dim, keepdims=True)) if x.ndim else np.abs(x)
    return x / np.maximum(length, eps)


REFERENCES: dict[str, Callable[..., Any]] = {
    "_direction": direction,
    "_quotient": quotient,
    "_directed": lambda x, y, norm: x * quotient(y, norm),
    "_exp_difference": lambda x, y: np.exp(x - y), "_settle": lambda x, derivative: x,
    "_exp_shares": shares, "_length_backward": pulled_length,
    "sum": of(total), "nansum": of(lambda v: total(without_nan(v))),
    "mean": of(mean), "nanmean": of(lambda v: mean(without_nan(v))),
    "prod": of(lambda v: math.prod(v, start=1.0)), "amax": of(largest), "amin": of(smallest),
    "aminmax": lambda x, dim=None, keepdim=False: [
        along(smallest, x, dim, keepdim), along(largest, x, dim, keepdim)
    ],
    "max": of(largest), "min": of(smallest),
    "max.dim": with_indices(largest), "min.dim": with_indices(smallest),
    "max.other": lambda x, y: np.where((x > y) | (x != x), x, y),
    "min.other": lambda x, y: np.where((x < y) | (x != x), x, y),
    "argmax": of(index_of(largest)), "argmin": of(index_of(smallest)),
    "any": of(any), "all": of(all),
    "any.dims": over_some(any), "all.dims": over_some(all),
    "count_nonzero": of(lambda v: sum(u != 0 for u in v)),
    "logsumexp": of(log_sum), "dist": lambda x, y, p=2: norm(x - y, p),
    "linalg_vector_norm": norm, "norm": norm, "renorm": renormed,
    "norm.ScalarOpt_dtype": lambda x, p, dtype: norm(x, p),
    "var": moments("var"), "std": moments("std"), "var_mean": moments("var", "mean"),
    "std_mean": moments("std", "mean"), "cov": covariance, "corrcoef": correlation,
    "segment_reduce": segments, "_segment_reduce": segments,
}  # fmt: skip

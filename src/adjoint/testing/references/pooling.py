"""Pooling by loops over windows, each a list of places."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.testing.references.elements import Array

Places = list[int]


def each(values: Any, dims: int) -> list[int]:
    values = [values] if isinstance(values, int) else list(values)
    return values if len(values) == dims else values * dims


def moved(size: int, k: int, s: int, p: int, d: int, ceil: bool) -> list[Places]:
    """The windows of a dimension, padding included: windows that fit, and with `ceil` one more
    that begins inside if the others leave something over.
    """
    found, begin = [], -p
    while begin + d * (k - 1) < size + p:
        found.append([begin + d * i for i in range(k)])
        begin += s
    over = begin - s + d * (k - 1) < size + p - 1
    if ceil and over and begin < size:
        found.append([begin + d * i for i in range(k)])
    return found


def shared(size: int, out: int) -> list[Places]:
    """The windows of adaptive pooling: from ⌊oN/M⌋ to ⌈(o+1)N/M⌉."""
    edges = [(math.floor(o * size / out), math.ceil((o + 1) * size / out)) for o in range(out)]
    return [list(range(start, end)) for start, end in edges]


def pool(
    x: Array, windows: list[list[Places]], join: Callable[[Array, list[tuple[int, ...]]], Any]
) -> Array:
    """Each window of each plane or volume joined."""
    dims = len(windows)
    planes = x.reshape((math.prod(x.shape[:-dims]), *x.shape[-dims:]))
    shape = [len(w) for w in windows]
    found = [
        [join(plane, list(itertools.product(*window))) for window in itertools.product(*windows)]
        for plane in planes
    ]
    return np.array(found).reshape((*x.shape[:-dims], *shape))


def inside(plane: Array, places: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [p for p in places if all(0 <= i < n for i, n in zip(p, plane.shape, strict=True))]


def largest(plane: Array, places: list[tuple[int, ...]]) -> int:
    """The index of the first largest element, or of the last NaN."""
    places = inside(plane, places)
    best = places[0]
    for place in places:
        if plane[place] > plane[best] or np.isnan(plane[place].astype(float)):
            best = place
    return int(np.ravel_multi_index(best, plane.shape))


def maxima(x: Array, windows: list[list[Places]]) -> tuple[Array, Array]:
    dims = len(windows)
    indices = pool(x, windows, largest).astype(np.int64)
    planes = x.reshape((math.prod(x.shape[:-dims]), math.prod(x.shape[-dims:])))
    chosen = indices.reshape((len(planes), math.prod(indices.shape[-dims:])))
    return np.take_along_axis(planes, chosen, -1).reshape(indices.shape), indices


def geometry(
    x: Array,
    dims: int,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> list[list[Places]]:
    kernels = each(kernel_size, dims)
    numbers = (kernels, each(stride, dims) or kernels, each(padding, dims), each(dilation, dims))
    sizes = zip(x.shape[-dims:], *numbers, strict=True)
    return [moved(n, k, s, p, d, ceil_mode) for n, k, s, p, d in sizes]


def max_pool(dims: int) -> Callable[..., Any]:
    return lambda x, *options, **named: maxima(x, geometry(x, dims, *options, **named))


def only_values(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **named: function(*args, **named)[0]


def average(dims: int) -> Callable[..., Any]:
    def reference(
        x: Array,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Array:
        pads = each(padding, dims)

        def mean(plane: Array, places: list[tuple[int, ...]]) -> Any:
            held = inside(plane, places)
            total = sum(plane[p].astype(float) for p in held)
            framed = [
                p
                for p in places
                if all(i < n + pad for i, n, pad in zip(p, plane.shape, pads, strict=True))
            ]
            count = len(framed) if count_include_pad else len(held)
            quotient = total / (divisor_override or count)
            return quotient if x.dtype.kind != "i" else math.trunc(quotient)

        windows = geometry(x, dims, kernel_size, stride, padding, 1, ceil_mode)
        return pool(x, windows, mean).astype(x.dtype)

    return reference


def adaptive(x: Array, output_size: Sequence[int]) -> list[list[Places]]:
    sizes = x.shape[-len(output_size) :]
    return [shared(n, out) for n, out in zip(sizes, output_size, strict=True)]


def adaptive_average(x: Array, output_size: Any) -> Array:
    mean = lambda plane, places: np.mean([plane[p].astype(float) for p in places])
    return pool(x, adaptive(x, output_size), mean).astype(x.dtype)


def unpool(self: Array, indices: Array, output_size: Any, *_: Any) -> Array:
    dims = len(output_size)
    rows = (math.prod(self.shape[:-dims]), math.prod(self.shape[-dims:]))
    result = np.zeros((rows[0], math.prod(output_size)), self.dtype)
    for row, places, numbers in zip(result, indices.reshape(rows), self.reshape(rows), strict=True):
        for place, number in zip(places, numbers, strict=True):
            row[place] = number
    return result.reshape((*self.shape[:-dims], *output_size))


def random_starts(u: float, size: int, k: int, out: int) -> list[Places]:
    """Graham 2014: ⌊α(i + u)⌋ - ⌊αu⌋, and the last window at the end."""
    alpha = (size - k) / (out - 1) if out > 1 else 0.0
    starts = [int(alpha * (i + u)) - int(alpha * u) for i in range(out - 1)] + [size - k]
    return [list(range(s, s + k)) for s in starts]


def fractional(
    x: Array, kernel_size: Any, output_size: Any, random_samples: Array
) -> tuple[Array, Array]:
    dims = random_samples.shape[-1]
    kernels, outs = each(kernel_size, dims), each(output_size, dims)
    planes = x.reshape((-1, *x.shape[-dims:]))
    order = [1, 0] if dims == 2 else [0, 1, 2]
    found = []
    for plane, numbers in zip(planes, random_samples.reshape(-1, dims), strict=True):
        windows = [
            random_starts(float(numbers[order[d]]), plane.shape[d], kernels[d], outs[d])
            for d in range(dims)
        ]
        found.append(maxima(plane[None], windows))
    shape = (*x.shape[:-dims], *outs)
    values, indices = zip(*found, strict=True)
    return np.concatenate(values).reshape(shape), np.concatenate(indices).reshape(shape)


REFERENCES: dict[str, Callable[..., Any]] = {
    "adaptive_avg_pool1d": adaptive_average,
    "adaptive_max_pool1d": lambda x, size: maxima(x, adaptive(x, size)),
    "max_pool3d": only_values(max_pool(3)),
}
for _dims in (1, 2, 3):
    REFERENCES[f"avg_pool{_dims}d"] = average(_dims)
    REFERENCES[f"max_pool{_dims}d_with_indices"] = max_pool(_dims)
for _dims in (1, 2):
    REFERENCES[f"max_pool{_dims}d"] = only_values(max_pool(_dims))
for _dims in (2, 3):
    REFERENCES[f"adaptive_max_pool{_dims}d"] = REFERENCES["adaptive_max_pool1d"]
    REFERENCES[f"adaptive_avg_pool{_dims}d"] = adaptive_average
    REFERENCES[f"_adaptive_avg_pool{_dims}d"] = adaptive_average
    REFERENCES[f"fractional_max_pool{_dims}d"] = fractional
    REFERENCES[f"max_unpool{_dims}d"] = unpool

"""Convolutions by their definition: a loop over windows, in double precision."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.testing.references.elements import Array


def wide(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def full(values: Sequence[int] | int, count: int) -> list[int]:
    found = [values] if isinstance(values, int) else list(values)
    return found * count if len(found) == 1 else found


def meetings(
    large: Sequence[int], small: Sequence[int], kernel: Sequence[int], stride: Any, padding: Any,
    dilation: Any,
) -> Any:  # fmt: skip
    """Triples of places (in large, in small, in the window) that meet."""
    count = len(kernel)
    s, p, d = (full(v, count) for v in (stride, padding, dilation))
    for place in itertools.product(*map(range, small)):
        for element in itertools.product(*map(range, kernel)):
            seen = tuple(place[i] * s[i] + element[i] * d[i] - p[i] for i in range(count))
            if all(0 <= v < size for v, size in zip(seen, large, strict=True)):
                yield seen, place, element


def convolution(
    input: Array, weight: Array, bias: Array | None, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Array:  # fmt: skip
    kernel, count = weight.shape[2:], weight.ndim - 2
    s, p, d, more = (full(v, count) for v in (stride, padding, dilation, output_padding))
    reach = [d[i] * (kernel[i] - 1) + 1 for i in range(count)]
    sizes = [
        (n - 1) * s[i] - 2 * p[i] + reach[i] + more[i]
        if transposed
        else (n + 2 * p[i] - reach[i]) // s[i] + 1
        for i, n in enumerate(input.shape[2:])
    ]
    rows, columns = weight.shape[0] // groups, weight.shape[1]
    x, w = wide(input), wide(weight)
    result = np.zeros((len(x), (columns if transposed else rows) * groups, *sizes), x.dtype)
    large, small = (result, x) if transposed else (x, result)
    for g in range(groups):
        up, down = slice(g * columns, (g + 1) * columns), slice(g * rows, (g + 1) * rows)
        for seen, place, element in meetings(large.shape[2:], small.shape[2:], kernel, s, p, d):
            part = w[(down, slice(None), *element)]
            if transposed:
                result[(slice(None), up, *seen)] += x[(slice(None), down, *place)] @ part
            else:
                result[(slice(None), down, *place)] += x[(slice(None), up, *seen)] @ part.T
    return result if bias is None else result + wide(bias).reshape((-1, *(1,) * count))


def correlation(
    grad: Array, input: Array, weight_size: Sequence[int], stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int,
) -> Array:  # fmt: skip
    large, small = (wide(grad), wide(input)) if transposed else (wide(input), wide(grad))
    result = np.zeros(tuple(weight_size), large.dtype)
    rows, columns, *kernel = weight_size
    rows //= groups
    for g in range(groups):
        up, down = slice(g * columns, (g + 1) * columns), slice(g * rows, (g + 1) * rows)
        for seen, place, element in meetings(
            large.shape[2:], small.shape[2:], kernel, stride, padding, dilation
        ):
            a, b = small[(slice(None), down, *place)], large[(slice(None), up, *seen)]
            result[(down, slice(None), *element)] += a.T @ b
    return result


def input_gradient(
    grad: Array,
    weight: Array,
    input_size: Sequence[int],
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    groups: int,
) -> Array:
    """Every element of the weight, times the gradient of what it made of the input."""
    g, w = wide(grad), wide(weight)
    result = np.zeros(tuple(input_size), g.dtype)
    large, small = (g, result) if transposed else (result, g)
    rows, columns, *kernel = weight.shape
    rows //= groups
    for group in range(groups):
        up = slice(group * columns, (group + 1) * columns)
        down = slice(group * rows, (group + 1) * rows)
        for seen, place, element in meetings(
            large.shape[2:], small.shape[2:], kernel, stride, padding, dilation
        ):
            part = w[(down, slice(None), *element)]
            if transposed:
                result[(slice(None), down, *place)] += g[(slice(None), up, *seen)] @ part.T
            else:
                result[(slice(None), up, *seen)] += g[(slice(None), down, *place)] @ part
    return result


def gradients(grad: Array, input: Array, weight: Array, bias_sizes: Any, *how: Any) -> list[Array]:
    stride, padding, dilation, transposed, _, groups, mask = how
    found = (
        input_gradient(grad, weight, input.shape, stride, padding, dilation, transposed, groups),
        correlation(grad, input, weight.shape, *how[:-1]),
        wide(grad).sum((0, *range(2, grad.ndim))),
    )
    return [g for g, asked in zip(found, mask, strict=True) if asked]


def by_dimensions(count: int) -> Callable[..., Array]:
    def reference(
        input: Array, weight: Array, bias: Array | None = None, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1,
    ) -> Array:  # fmt: skip
        x = input if input.ndim == count + 2 else input[None]
        if padding == "valid":
            padding = 0
        if padding == "same":
            total = [d * (k - 1) for d, k in zip(full(dilation, count), weight.shape[2:])]
            x = np.pad(x, [(0, 0), (0, 0), *((t // 2, t - t // 2) for t in total)])
            padding = 0
        result = convolution(x, weight, bias, stride, padding, dilation, False, 0, groups)
        return result if input.ndim == count + 2 else result[0]

    return reference


def by_dimensions_transposed(count: int) -> Callable[..., Array]:
    def reference(
        input: Array, weight: Array, bias: Array | None = None, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> Array:  # fmt: skip
        x = input if input.ndim == count + 2 else input[None]
        result = convolution(
            x, weight, bias, stride, padding, dilation, True, output_padding, groups
        )
        return result if input.ndim == count + 2 else result[0]

    return reference


REFERENCES: dict[str, Callable[..., Any]] = {
    "convolution": convolution,
    "_convolution_input_backward": input_gradient,
    "_convolution_weight_backward": correlation,
    "convolution_backward": gradients,
    **{f"conv{n}d": by_dimensions(n) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": by_dimensions_transposed(n) for n in (1, 2, 3)},
}

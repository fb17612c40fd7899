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


def double_gradients(
    ggI: Array | None, ggW: Array | None, ggb: Array | None, gO: Array, weight: Array,
    self: Array, *how: Any,
) -> list[Array]:  # fmt: skip
    """The maps that are linear in what is given."""
    stride, padding, dilation, transposed, _, groups, mask = how
    zero_x, zero_w = np.zeros_like(self), np.zeros_like(weight)
    x, w = zero_x if ggI is None else ggI, zero_w if ggW is None else ggW
    of_grad = convolution(x, weight, ggb, *how[:-1]) + convolution(self, w, None, *how[:-1])
    of_input = input_gradient(gO, w, self.shape, stride, padding, dilation, transposed, groups)
    found = (of_grad, of_input, correlation(gO, x, weight.shape, *how[:-1]))
    given = (True, ggW is not None, ggI is not None)
    return [g for g, asked, known in zip(found, mask, given, strict=True) if asked and known]


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


def by_kernel_size(transposed: bool) -> Callable[..., Array]:
    def reference(
        self: Array, weight: Array, kernel_size: Any, bias: Array | None = None, stride: Any = 1,
        padding: Any = 0, *rest: Any,
    ) -> Array:  # fmt: skip
        if transposed:
            more, dilation = rest or (0, 1)
            return convolution(self, weight, bias, stride, padding, dilation, True, more, 1)
        groups = self.shape[1] // weight.shape[1]
        dilation = rest[0] if rest else 1
        return convolution(self, weight, bias, stride, padding, dilation, False, 0, groups)

    return reference


def in_time(self: Array, weight: Array, bias: Array, pad: int = 0) -> Array:
    """One product of matrices for each element of the window."""
    x = np.pad(wide(self), ((pad, pad), (0, 0), (0, 0)))
    length = len(x) - len(weight) + 1
    return sum(x[k : k + length] @ wide(w) for k, w in enumerate(weight)) + wide(bias)


def in_time_gradients(
    grad: Array, input: Array, weight: Array, bias: Array, pad: int
) -> list[Array]:
    x, g = np.pad(wide(input), ((pad, pad), (0, 0), (0, 0))), wide(grad)
    of_input, of_weight = np.zeros_like(x), np.zeros_like(wide(weight))
    for k, w in enumerate(wide(weight)):
        seen = slice(k, k + len(g))
        of_input[seen] += g @ w.T
        of_weight[k] = np.einsum("tbc,tbd->cd", x[seen], g)
    return [of_input[pad : len(x) - pad], of_weight, g.sum((0, 1))]


def columns(image: Array, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Array:
    """The elements that windows see, one after the other."""
    x = image if image.ndim == 4 else image[None]
    (k, d, p, s), sizes = (full(v, 2) for v in (kernel, dilation, padding, stride)), x.shape[2:]
    places = [(n + 2 * p[i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i, n in enumerate(sizes)]
    result = np.zeros((*x.shape[:2], *k, *places), x.dtype)
    for seen, place, element in meetings(sizes, places, k, s, p, d):
        result[(..., *element, *place)] = x[(..., *seen)]
    result = result.reshape(len(x), x.shape[1] * k[0] * k[1], places[0] * places[1])
    return result if image.ndim == 4 else result[0]


def image(given: Array, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Array:
    x = wide(given) if given.ndim == 3 else wide(given)[None]
    n, k, d, p, s = (full(v, 2) for v in (size, kernel, dilation, padding, stride))
    places = [(n[i] + 2 * p[i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i in range(2)]
    x = x.reshape(len(x), x.shape[1] // (k[0] * k[1]), *k, *places)
    result = np.zeros((*x.shape[:2], *n), x.dtype)
    for seen, place, element in meetings(n, places, k, s, p, d):
        result[(..., *seen)] += x[(..., *element, *place)]
    return result if given.ndim == 3 else result[0]


def same_padded(
    input: Array, weight: Array, bias: Any, stride: Any, padding: str, dilation: Any, groups: int
) -> Array:
    return by_dimensions(weight.ndim - 2)(input, weight, bias, stride, padding, dilation, groups)


SLOW = (
    "thnn_conv2d", "_slow_conv2d_forward", "slow_conv3d", "slow_conv3d_forward",
    "slow_conv_dilated2d", "slow_conv_dilated3d", "_conv_depthwise2d", "conv_depthwise3d",
)  # fmt: skip

REFERENCES: dict[str, Callable[..., Any]] = {
    "convolution": convolution,
    "_convolution_input_backward": input_gradient,
    "_convolution_weight_backward": correlation,
    "convolution_backward": gradients,
    "_convolution_double_backward": double_gradients,
    "_convolution": lambda *given: convolution(*given[:9]),
    "_convolution_mode": same_padded,
    "conv_tbc": in_time,
    "conv_tbc_backward": in_time_gradients,
    "im2col": columns,
    "col2im": image,
    **dict.fromkeys(SLOW, by_kernel_size(False)),
    **dict.fromkeys(("slow_conv_transpose2d", "slow_conv_transpose3d"), by_kernel_size(True)),
    **{f"conv{n}d": by_dimensions(n) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": by_dimensions_transposed(n) for n in (1, 2, 3)},
}

"""Pooling in terms of strided slices, and its transposes in terms of copies and gathers.

Windows that move by a stride are as many slices as they have elements, joined one dimension
after the other: native code fuses them into one loop. Windows of other kinds (adaptive, fractional)
are gathered by their places.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import pooling as rules
from adjoint.checks.pooling import Window
from adjoint.core import dtypes
from adjoint.core.errors import DtypeError, ShapeError
from adjoint.core.shapes import Shape, show
from adjoint.core.symbolic_sizes import is_for_many
from adjoint.decompositions.halves import wide

Tensor = Any


def _lowest(dtype: Any) -> float | int:
    return -math.inf if dtype.is_floating_point else dtypes.iinfo(dtype).min


def _with_axis(function: Callable[[Tensor], Any], self: Tensor) -> Any:
    """Apply a function of planes to rows: a dimension of size 1 comes before the last."""
    found = function(self.unsqueeze(-2))
    return tuple(t.squeeze(-2) for t in found) if isinstance(found, tuple) else found.squeeze(-2)


# --- windows that move by a stride ---------------------------------------------------------------


def _reach(window: Window) -> int:
    """How many elements behind the end of the dimension the last window reaches."""
    last = (window.out - 1) * window.stride - window.padding
    return last + (window.kernel - 1) * window.dilation + 1 - window.size


def _padded(x: Tensor, windows: Sequence[Window], value: float) -> Tensor:
    """The input in a frame, so that every window is full; as wide on both sides, whether or not the
    last window ends there, for all sizes have one program then.
    """
    frame = [(w.padding, max(_reach(w), w.padding)) for w in reversed(windows)]
    if not any(itertools.chain(*frame)):
        return x
    return ops.constant_pad_nd(x, tuple(itertools.chain(*frame)), value)


def _element(x: Tensor, dim: int, window: Window, i: int) -> Tensor:
    """Element `i` of every window of a padded dimension."""
    start = i * window.dilation
    return x.slice(dim, start, start + (window.out - 1) * window.stride + 1, window.stride)


def _sums(x: Tensor, windows: Sequence[Window]) -> Tensor:
    """The sum of each window, one dimension after the other."""
    x = _padded(x, windows, 0)
    for dim, window in enumerate(windows, -len(windows)):
        total = _element(x, dim, window, 0)
        for i in range(1, window.kernel):
            total = total + _element(x, dim, window, i)
        x = total
    return x


def max_pool1d(self: Tensor, *geometry: Any) -> Tensor:
    """max_pool2d of planes with one row."""
    rules.windows("max_pool1d", tuple(self.shape), 1, *geometry)
    return _with_axis(lambda x: ops.max_pool2d(x, *_of_rows(*geometry)), self)


def max_pool1d_with_indices(self: Tensor, *geometry: Any) -> tuple[Tensor, Tensor]:
    """max_pool2d_with_indices of planes with one row."""
    rules.windows("max_pool1d", tuple(self.shape), 1, *geometry)
    return _with_axis(lambda x: ops.max_pool2d_with_indices(x, *_of_rows(*geometry)), self)


def _of_rows(
    kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
) -> tuple[Any, ...]:
    """The arguments of one-dimensional windows as windows in planes of one row."""
    return (
        (1, *kernel_size),
        (1, *(stride or kernel_size)),
        (0, *padding),
        (1, *dilation),
        ceil_mode,
    )


def _grid(windows: Sequence[Window], lines: Sequence[Tensor]) -> Tensor:
    """The index in the plane or volume of a place in each dimension, for every window."""
    total: Any = 0
    for d, line in enumerate(lines):
        step = math.prod(w.size for w in windows[d + 1 :])
        total = total + (line * step).reshape((-1, *(1,) * (len(lines) - 1 - d)))
    return total


def _with_indices(what: str, dims: int, self: Tensor, *geometry: Any) -> tuple[Tensor, Tensor]:
    windows = rules.windows(what, tuple(self.shape), dims, *geometry)
    rules.check_numbers(what, self.dtype, integers=True)
    if math.prod(w.kernel for w in windows) > rules.FEW:
        return _largest(self, [_places(w) for w in windows])
    x = _padded(self, windows, _lowest(self.dtype))
    starts = [ops.arange(w.out) * w.stride - w.padding for w in windows]
    indices = _grid(windows, [s.clamp_min(0) for s in starts])
    values = None
    for numbers in itertools.product(*(range(w.kernel) for w in windows)):
        element = x
        for dim, (window, i) in enumerate(zip(windows, numbers, strict=True), -dims):
            element = _element(element, dim, window, i)
        if values is None:
            values, indices = element, indices.expand(element.shape)
            continue
        better = (element > values) | (element != element)  # NaN wins, the last one
        places = [s + i * w.dilation for s, i, w in zip(starts, numbers, windows, strict=True)]
        values = ops.where(better, element, values)
        indices = ops.where(better, _grid(windows, places), indices)
    return values, indices.contiguous()


def max_pool2d_with_indices(self: Tensor, *geometry: Any) -> tuple[Tensor, Tensor]:
    """The largest of the slices, and where it is."""
    return _with_indices("max_pool2d", 2, self, *geometry)


def max_pool3d_with_indices(self: Tensor, *geometry: Any) -> tuple[Tensor, Tensor]:
    """The largest of the slices, and where it is."""
    return _with_indices("max_pool3d", 3, self, *geometry)


def _added(grad: Tensor, self: Tensor, indices: Tensor, dims: int) -> Tensor:
    """Zeros like the input, to which gradients are added at indices of its planes or volumes."""
    sizes = (*self.shape[:-dims], rules.elements(tuple(self.shape), dims))
    flat = ops._gather_backward(grad.flatten(-dims), sizes, -1, indices.flatten(-dims))
    return flat.reshape(self.shape)


def max_pool2d_backward(grad_output: Tensor, self: Tensor, *geometry: Any) -> Tensor:
    """The largest elements are found again."""
    windows = rules.windows("max_pool2d_backward", tuple(self.shape), 2, *geometry)
    shape = rules.pooled(tuple(self.shape), windows)
    rules.check_like("max_pool2d_backward", "grad_output", tuple(grad_output.shape), shape)
    indices = ops.max_pool2d_with_indices(self, *geometry)[1]
    return _added(grad_output, self, indices, 2)


def _backward(what: str, dims: int, grad_output: Tensor, self: Tensor, *rest: Any) -> Tensor:
    *geometry, indices = rest
    windows = rules.windows(what, tuple(self.shape), dims, *geometry)
    shape = rules.pooled(tuple(self.shape), windows)
    rules.check_like(what, "grad_output", tuple(grad_output.shape), shape)
    rules.check_like(what, "indices", tuple(indices.shape), shape)
    rules.check_index(what, indices.dtype)
    return _added(grad_output, self, indices, dims)


def max_pool2d_with_indices_backward(*arguments: Any) -> Tensor:
    """Gradients added at indices."""
    return _backward("max_pool2d_with_indices_backward", 2, *arguments)


def max_pool3d_with_indices_backward(*arguments: Any) -> Tensor:
    """Gradients added at indices."""
    return _backward("max_pool3d_with_indices_backward", 3, *arguments)


def _unpooled(what: str, self: Tensor, indices: Tensor, dims: int, output_size: Shape) -> Tensor:
    shape = rules.unpooled(what, tuple(self.shape), dims, output_size)
    rules.check_index(what, indices.dtype)
    rules.check_like(what, "indices", tuple(indices.shape), tuple(self.shape))
    flat = self.new_zeros((*shape[:-dims], rules.elements(shape, dims)))
    return flat.scatter(-1, indices.flatten(-dims), self.flatten(-dims)).reshape(shape)


def max_unpool2d(self: Tensor, indices: Tensor, output_size: Shape) -> Tensor:
    """Elements written into zeros."""
    return _unpooled("max_unpool2d", self, indices, 2, output_size)


def max_unpool3d(
    self: Tensor, indices: Tensor, output_size: Shape, stride: Shape, padding: Shape
) -> Tensor:
    """Elements written into zeros."""
    rules.check_unpooling("max_unpool3d", stride, padding, 3)
    return _unpooled("max_unpool3d", self, indices, 3, output_size)


# --- windows as lists of places ------------------------------------------------------------------


def _places(window: Window) -> Tensor:
    """The places of each window, out×kernel; one in the frame is replaced by its neighbour."""
    first = (ops.arange(window.out) * window.stride - window.padding).unsqueeze(-1)
    places = first + ops.arange(window.kernel) * window.dilation
    lowest = first.remainder(window.dilation)
    highest = window.size - 1 - (window.size - 1 - first).remainder(window.dilation)
    inside = ops.where(places < 0, lowest, places)
    return ops.where(inside >= window.size, highest, inside)


def _shared_out(size: int, out: int) -> tuple[Tensor, Tensor]:
    """The places of each window of adaptive pooling, out×longest, and the lengths: out×1.

    A window shorter than the longest has its last place several times.
    """
    longest = _longest(size, out)
    numbers = ops.arange(out).unsqueeze(-1)
    starts = (numbers * size).div(max(out, 1), rounding_mode="floor")
    ends = -(-(numbers + 1) * size).div(max(out, 1), rounding_mode="floor")
    return ops.minimum(starts + ops.arange(longest), ends - 1), ends - starts


def _longest(size: int, out: int) -> int:
    """The length of the longest window of adaptive pooling; where many sizes have one program, the
    least bound that is a quotient: ⌈(i + 1) n / k⌉ - ⌊i n / k⌋ ≤ (n + 2 (k - 1)) / k.
    """
    if is_for_many():
        return (size + 2 * (out - 1)) // out
    return max((end - start for start, end in rules.starts(size, out)), default=0)


def _is_even(size: int, out: int) -> bool:
    """Whether all windows of adaptive pooling have one length, and a program may rely on that."""
    return size % out == 0 and (out == 1 or not is_for_many())


def _largest(x: Tensor, places: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The largest element of windows, which are lists of places in each of the last dimensions.

    places[d] is (…)×out×count, where (…) is nothing, or the dimensions of x before the pooled.
    """
    dims = len(places)
    sizes = tuple(x.shape[-dims:])
    flat: Any = 0
    for d, line in enumerate(places):
        step = math.prod(sizes[d + 1 :])
        before = tuple(line.shape[:-2])
        shape = [1] * (2 * dims)
        shape[d], shape[dims + d] = line.shape[-2:]
        flat = flat + (line * step).reshape((*before, *shape))
    out = tuple(flat.shape[-2 * dims : -dims])
    count = math.prod(flat.shape[-dims:])
    flat = flat.expand((*x.shape[:-dims], *flat.shape[-2 * dims :]))
    flat = flat.reshape((*x.shape[:-dims], math.prod(out), count))
    elements = x.flatten(-dims).gather(-1, flat.flatten(-2)).reshape(flat.shape)
    values, chosen = elements.max(-1)
    last = ((elements != elements) * ops.arange(count)).amax(-1)
    chosen = ops.where(values != values, last, chosen)
    indices = flat.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
    shape = (*x.shape[:-dims], *out)
    return values.reshape(shape), indices.reshape(shape)


def _nothing(x: Tensor, shape: Shape) -> tuple[Tensor, Tensor]:
    """A result without elements that still depends on the input."""
    for dim in range(x.ndim):
        x = x.narrow(dim, 0, min(x.shape[dim], shape[dim]))
    return x.expand(shape).clone(), x.new_zeros(shape, dtype=dtypes.int64)


def _adaptive_max(what: str, dims: int, self: Tensor, output_size: Shape) -> tuple[Tensor, Tensor]:
    shape = rules.adapted(what, tuple(self.shape), dims, output_size)
    rules.check_places(what, tuple(self.shape), dims, channels=True)
    rules.check_numbers(what, self.dtype, integers=False)
    if 0 in shape:
        return _nothing(self, shape)
    sizes = tuple(self.shape[-dims:])
    if all(_is_even(size, out) for size, out in zip(sizes, output_size, strict=True)):
        kernel = tuple(size // out for size, out in zip(sizes, output_size, strict=True))
        pool = ops.max_pool2d_with_indices if dims == 2 else ops.max_pool3d_with_indices
        return pool(self, kernel)
    pairs = zip(sizes, output_size, strict=True)
    return _largest(self, [_shared_out(size, out)[0] for size, out in pairs])


def adaptive_max_pool1d(self: Tensor, output_size: Shape) -> tuple[Tensor, Tensor]:
    """adaptive_max_pool2d of planes with one row."""
    rules.adapted("adaptive_max_pool1d", tuple(self.shape), 1, output_size)
    return _with_axis(lambda x: ops.adaptive_max_pool2d(x, (1, *output_size)), self)


def adaptive_max_pool2d(self: Tensor, output_size: Shape) -> tuple[Tensor, Tensor]:
    """The largest element of windows that share the plane out, and where it is."""
    return _adaptive_max("adaptive_max_pool2d", 2, self, output_size)


def adaptive_max_pool3d(self: Tensor, output_size: Shape) -> tuple[Tensor, Tensor]:
    """The largest element of windows that share the volume out, and where it is."""
    return _adaptive_max("adaptive_max_pool3d", 3, self, output_size)


def _adaptive_max_backward(
    what: str, dims: int, grad_output: Tensor, self: Tensor, indices: Tensor
) -> Tensor:
    shape = tuple(grad_output.shape)
    rules.check_adapted(what, shape, tuple(self.shape), dims)
    rules.check_like(what, "indices", tuple(indices.shape), shape)
    rules.check_index(what, indices.dtype)
    return _added(grad_output, self, indices, dims)


def adaptive_max_pool2d_backward(grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
    """Gradients added at indices."""
    return _adaptive_max_backward("adaptive_max_pool2d_backward", 2, grad_output, self, indices)


def adaptive_max_pool3d_backward(grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
    """Gradients added at indices."""
    return _adaptive_max_backward("adaptive_max_pool3d_backward", 3, grad_output, self, indices)


# --- windows at random ---------------------------------------------------------------------------


def _check_fractional(
    what: str, dims: int, self: Tensor, kernels: Shape, out: Shape, random_samples: Tensor
) -> None:
    shape = tuple(self.shape)
    rules.check_rank(what, shape, dims)
    rules.check_places(what, shape, dims, channels=True)
    rules.check_numbers(what, self.dtype, integers=False)
    if random_samples.dtype is not self.dtype:
        raise DtypeError(
            f"{what}: random_samples must have the dtype of the input, {self.dtype}; got "
            f"{random_samples.dtype}."
        )
    batch, channels = (shape[0], shape[1]) if len(shape) == dims + 2 else (1, shape[0])
    given = tuple(random_samples.shape)
    if len(given) != 3 or given[0] < batch or given[1:] != (channels, dims):
        raise ShapeError(
            f"{what}: random_samples must be {show((batch, channels, dims))}, {dims} numbers for "
            f"each channel; got {show(given)}."
        )
    if any(k < 1 or o < 1 or o + k - 1 > n for k, o, n in zip(kernels, out, shape[-dims:])):
        raise ShapeError(
            f"{what}: {show(out)} windows of {show(kernels)} with different starts do not fit into "
            f"{show(shape[-dims:])}; use a smaller kernel_size or output_size."
        )


def _random_starts(samples: Tensor, size: int, kernel: int, out: int) -> Tensor:
    """Where windows start: about evenly, by a random phase of each channel; the last at the end.

    Graham 2014, §2: the pseudorandom sequence ⌊α(i + u)⌋.
    """
    numbers = ops.arange(out)
    if out == 1:
        return (samples.unsqueeze(-1) * 0).to(dtypes.int64) + (size - kernel)
    alpha = samples.new_full((), size - kernel) / samples.new_full((), out - 1)
    phase = samples.unsqueeze(-1)
    starts = ((phase + numbers) * alpha).to(dtypes.int64) - (phase * alpha).to(dtypes.int64)
    return ops.where(numbers == out - 1, size - kernel, starts)


def _fractional(
    what: str, dims: int, self: Tensor, kernel_size: Shape, output_size: Shape, samples: Tensor
) -> tuple[Tensor, Tensor]:
    kernels = rules.each(what, "kernel_size", kernel_size, dims)
    out = rules.each(what, "output_size", output_size, dims)
    _check_fractional(what, dims, self, kernels, out, samples)
    samples = samples.narrow(0, 0, self.shape[0]) if self.ndim == dims + 2 else samples.select(0, 0)
    places = []
    for d in range(dims):
        # of planes, PyTorch takes the first number for the width
        number = samples.select(-1, dims - 1 - d if dims == 2 else d)
        starts = _random_starts(number, self.shape[d - dims], kernels[d], out[d])
        places.append(starts.unsqueeze(-1) + ops.arange(kernels[d]))
    if 0 in self.shape:
        return _nothing(self, (*self.shape[:-dims], *out))
    return _largest(self, places)


def fractional_max_pool2d(
    self: Tensor, kernel_size: Shape, output_size: Shape, random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    """The largest element of windows at random places of planes, and where it is."""
    name = "fractional_max_pool2d"
    return _fractional(name, 2, self, kernel_size, output_size, random_samples)


def fractional_max_pool3d(
    self: Tensor, kernel_size: Shape, output_size: Shape, random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    """The largest element of windows at random places of volumes, and where it is."""
    name = "fractional_max_pool3d"
    return _fractional(name, 3, self, kernel_size, output_size, random_samples)


def fractional_max_pool2d_backward(
    grad_output: Tensor, self: Tensor, kernel_size: Shape, output_size: Shape, indices: Tensor
) -> Tensor:
    """Gradients added at indices."""
    return _adaptive_max_backward("fractional_max_pool2d_backward", 2, grad_output, self, indices)


def fractional_max_pool3d_backward(
    grad_output: Tensor, self: Tensor, kernel_size: Shape, output_size: Shape, indices: Tensor
) -> Tensor:
    """Gradients added at indices."""
    return _adaptive_max_backward("fractional_max_pool3d_backward", 3, grad_output, self, indices)


# --- averages ------------------------------------------------------------------------------------


def _lengths(
    x: Tensor, windows: Sequence[Window], ceil_mode: bool, include_pad: bool, override: int | None
) -> Any:
    """How many places each window counts: a number, or a tensor that broadcasts."""
    if override is not None:
        return override
    total: Any = 1
    for d, window in enumerate(windows):
        count = _count_of_all(window, ceil_mode, include_pad)
        if count is not None:
            total = total * count
            continue
        reach = window.padding if include_pad else 0
        begins = ops.arange(window.out) * window.stride - window.padding
        ends = (begins + window.kernel).clamp_max(window.size + reach)
        line = ends - begins.clamp_min(-reach)
        total = line.reshape((-1, *(1,) * (len(windows) - 1 - d))) * total
    return total if isinstance(total, int) else total.to(x.dtype)


def _count_of_all(window: Window, ceil_mode: bool, include_pad: bool) -> int | None:
    """How many places every window of an average counts; None if one counts others, or would for
    another of many sizes.
    """
    if is_for_many():
        inside = include_pad or not window.padding
        return window.kernel if inside and not ceil_mode else None
    counts = {*rules.counts(window, with_padding=include_pad)}
    return counts.pop() if len(counts) == 1 else None


def _quotient(x: Tensor, divisor: Any) -> Tensor:
    """Integers are cut towards zero."""
    return x / divisor if x.dtype.is_floating_point else x.div(divisor, rounding_mode="trunc")


def _average(what: str, dims: int, self: Tensor, *options: Any) -> Tensor:
    windows = rules.averaged(what, tuple(self.shape), self.dtype, dims, *options)
    x = wide(self)
    sums = _sums(x, windows)
    divisor = _lengths(x, windows, *options[-3:])
    return _quotient(sums, divisor).to(self.dtype)


def avg_pool1d(self: Tensor, *options: Any) -> Tensor:
    """avg_pool2d of planes with one row."""
    kernel_size, stride, padding, ceil_mode, count_include_pad = options
    rules.windows("avg_pool1d", tuple(self.shape), 1, kernel_size, stride, padding, (1,), ceil_mode)
    kernel, stride, pad, _, _ = _of_rows(kernel_size, stride, padding, (1,), ceil_mode)
    return _with_axis(
        lambda x: ops.avg_pool2d(x, kernel, stride, pad, ceil_mode, count_include_pad), self
    )


def avg_pool2d(self: Tensor, *options: Any) -> Tensor:
    """The sum of the slices, divided."""
    return _average("avg_pool2d", 2, self, *options)


def avg_pool3d(self: Tensor, *options: Any) -> Tensor:
    """The sum of the slices, divided."""
    return _average("avg_pool3d", 3, self, *options)


def _spread(x: Tensor, dim: int, window: Window) -> Tensor:
    """The transpose of sums along a dimension: each place gets the windows that hold it.

    The windows that hold place n·stride + b are n, n - 1, …; so the sum is one of copies that
    repeat each window `stride` times, each moved by a stride against the one before.
    """
    size, stride, at = x.shape[dim], window.stride, x.ndim + dim
    total: Any = None
    for moved in range(0, window.kernel, stride):
        width = min(stride, window.kernel - moved)
        copy = x.unsqueeze(at + 1).expand((*x.shape[: at + 1], width, *x.shape[at + 1 :]))
        copy = _frame(copy, dim, 0, stride - width).flatten(at, at + 1)
        start = moved - window.padding
        copy = _frame(copy, dim, start, window.size - start - size * stride)
        total = copy if total is None else total + copy
    return total


def _frame(x: Tensor, dim: int, before: int, after: int) -> Tensor:
    """Zeros before and after in one dimension; negative numbers take elements off."""
    if is_for_many():
        at = x.ndim + dim
        low, high = max(-before, 0), x.shape[dim] + min(after, 0)
        shape = [(*x.shape[:at], max(n, 0), *x.shape[at + 1 :]) for n in (before, after)]
        first, last = map(x.new_zeros, shape)
        return ops.cat([first, x.narrow(at, low, high - low), last], at)
    if not before and not after:
        return x
    return ops.constant_pad_nd(x, (*(0, 0) * (-1 - dim), before, after), 0)


def _average_backward(
    what: str, dims: int, grad_output: Tensor, self: Tensor, *options: Any
) -> Tensor:
    windows = rules.averaged(what, tuple(self.shape), self.dtype, dims, *options)
    shape = rules.pooled(tuple(self.shape), windows)
    rules.check_like(what, "grad_output", tuple(grad_output.shape), shape)
    grad = wide(grad_output)
    divisor = _lengths(grad, windows, *options[-3:])
    grad = _quotient(grad, divisor)
    for dim in range(-1, -dims - 1, -1):
        grad = _spread(grad, dim, windows[dim])
    return grad.to(grad_output.dtype)


def avg_pool2d_backward(*arguments: Any) -> Tensor:
    """The transpose of avg_pool2d."""
    return _average_backward("avg_pool2d_backward", 2, *arguments)


def avg_pool3d_backward(*arguments: Any) -> Tensor:
    """The transpose of avg_pool3d."""
    return _average_backward("avg_pool3d_backward", 3, *arguments)


# --- averages of windows that share a dimension out ----------------------------------------------


def _average_along(x: Tensor, dim: int, out: int) -> Tensor:
    """`dim` counts from the end."""
    size, at = x.shape[dim], x.ndim + dim
    before, after = tuple(x.shape[:at]), tuple(x.shape[at + 1 :])
    if out == 0:
        return x.new_zeros((*before, 0, *after))
    if _is_even(size, out):
        return x.reshape((*before, out, size // out, *after)).mean((at + 1,))
    places, lengths = _shared_out(size, out)
    longest = places.shape[1]
    windows = x.index_select(at, places.reshape(-1)).reshape((*before, out, longest, *after))
    over = (ops.arange(longest) >= lengths).reshape((out, longest, *(1,) * len(after)))
    sums = windows.masked_fill(over, 0).sum((at + 1,))
    return sums / lengths.reshape((-1, *(1,) * len(after))).to(x.dtype)


def _adaptive_average(what: str, dims: int, self: Tensor, output_size: Shape) -> Tensor:
    rules.adapted(what, tuple(self.shape), dims, output_size)
    rules.check_places(what, tuple(self.shape), dims, channels=False)
    rules.check_numbers(what, self.dtype, integers=False)
    x = wide(self)
    for dim in range(-dims, 0):
        x = _average_along(x, dim, output_size[dim])
    return x.to(self.dtype)


def adaptive_avg_pool2d_of_windows(self: Tensor, output_size: Shape) -> Tensor:
    """One dimension after the other."""
    return _adaptive_average("adaptive_avg_pool2d", 2, self, output_size)


def adaptive_avg_pool3d_of_windows(self: Tensor, output_size: Shape) -> Tensor:
    """One dimension after the other."""
    return _adaptive_average("adaptive_avg_pool3d", 3, self, output_size)


def _spread_along(grad: Tensor, dim: int, size: int) -> Tensor:
    """The transpose of averages along a dimension."""
    out, at = grad.shape[dim], grad.ndim + dim
    before, after = tuple(grad.shape[:at]), tuple(grad.shape[at + 1 :])
    if out == 0:
        return grad.new_zeros((*before, size, *after))
    if _is_even(size, out):
        each = (grad / (size // out)).unsqueeze(at + 1)
        return each.expand((*before, out, size // out, *after)).flatten(at, at + 1)
    places, lengths = _shared_out(size, out)
    longest = places.shape[1]
    each = (grad / lengths.reshape((-1, *(1,) * len(after))).to(grad.dtype)).unsqueeze(at + 1)
    over = (ops.arange(longest) >= lengths).reshape((out, longest, *(1,) * len(after)))
    windows = each.expand((*before, out, longest, *after)).masked_fill(over, 0)
    zeros = grad.new_zeros((*before, size, *after))
    return zeros.index_add(at, places.reshape(-1), windows.flatten(at, at + 1))


def _adaptive_average_backward(what: str, dims: int, grad_output: Tensor, self: Tensor) -> Tensor:
    rules.check_adapted(what, tuple(grad_output.shape), tuple(self.shape), dims)
    rules.check_numbers(what, grad_output.dtype, integers=False)
    grad = wide(grad_output)
    for dim in range(-1, -dims - 1, -1):
        grad = _spread_along(grad, dim, self.shape[dim])
    return grad.to(grad_output.dtype)


def adaptive_avg_pool2d_backward(grad_output: Tensor, self: Tensor) -> Tensor:
    """The transpose of adaptive_avg_pool2d."""
    return _adaptive_average_backward("adaptive_avg_pool2d_backward", 2, grad_output, self)


def adaptive_avg_pool3d_backward(grad_output: Tensor, self: Tensor) -> Tensor:
    """The transpose of adaptive_avg_pool3d."""
    return _adaptive_average_backward("adaptive_avg_pool3d_backward", 3, grad_output, self)


def adaptive_avg_pool1d(self: Tensor, output_size: Shape) -> Tensor:
    """adaptive_avg_pool2d of planes with one row."""
    rules.adapted("adaptive_avg_pool1d", tuple(self.shape), 1, output_size)
    return _with_axis(lambda x: ops.adaptive_avg_pool2d(x, (1, *output_size)), self)


def adaptive_avg_pool2d(self: Tensor, output_size: Shape) -> Tensor:
    """One window is the mean."""
    if tuple(output_size) != (1, 1):
        return ops._adaptive_avg_pool2d(self, output_size)
    return _mean("adaptive_avg_pool2d", self, 2)


def adaptive_avg_pool3d(self: Tensor, output_size: Shape) -> Tensor:
    """One window is the mean."""
    if tuple(output_size) != (1, 1, 1):
        return ops._adaptive_avg_pool3d(self, output_size)
    return _mean("adaptive_avg_pool3d", self, 3)


def _mean(what: str, self: Tensor, dims: int) -> Tensor:
    rules.check_rank(what, tuple(self.shape), dims)
    rules.check_places(what, tuple(self.shape), dims, channels=False)
    rules.check_numbers(what, self.dtype, integers=False)
    return self.mean(tuple(range(-dims, 0)), True)

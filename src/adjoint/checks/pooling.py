"""Pooling without data: windows, the sizes of results, and the errors.

A window of a pooled dimension is (size, out, kernel, stride, padding, dilation): window `o` of
`out` holds the places o·stride - padding + i·dilation, i < kernel, as far as they lie in the
dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint.core.errors import DtypeError, ShapeError, ValueRangeError
from adjoint.core.records import record
from adjoint.core.shapes import Shape, show

AVERAGES_OF_INTEGERS = ("int64",)  # the one integer dtype that PyTorch averages
LARGEST = 2**31 - 1  # of sizes and steps, so that places in memory stay whole numbers of 64 bits
FEW = 16  # elements of a window up to which native code does best with a slice for each


@record
class Window:
    """The regular windows along one dimension."""

    size: int  # of the dimension: 5
    out: int  # how many windows there are: 3
    kernel: int
    stride: int
    padding: int
    dilation: int


def each(what: str, name: str, values: Sequence[int], dims: int) -> Shape:
    """A number for each pooled dimension; one stands for all."""
    if len(values) not in (1, dims):
        numbers = "a number" if dims == 1 else f"a number, or {dims} of them"
        raise ShapeError(f"{what}: {name} must be {numbers}; got {tuple(values)}.")
    if any(abs(v) > LARGEST for v in values):
        raise ValueRangeError(f"{what}: {name} is at most {LARGEST}, got {tuple(values)}.")
    return tuple(values) if len(values) == dims else tuple(values) * dims


def check_rank(what: str, shape: Shape, dims: int) -> None:
    """Raise unless there are channels of the pooled dimensions, with or without a batch."""
    if len(shape) not in (dims + 1, dims + 2):
        raise ShapeError(
            f"{what}: the input needs {dims + 2} dimensions (batch, channels and {dims} that are "
            f"pooled), or {dims + 1} without a batch; got {show(shape)}."
        )


def check_places(what: str, shape: Shape, dims: int, *, channels: bool) -> None:
    """Raise for dimensions without elements; the batch may be empty."""
    first = len(shape) - dims - channels
    if 0 in shape[first:]:
        raise ShapeError(
            f"{what}: only the batch may be empty; dimension {shape.index(0, first)} of the input "
            f"is ({show(shape)})."
        )


def check_numbers(what: str, dtype: Any, *, integers: bool) -> None:
    """Raise for dtypes that are not pooled."""
    whole = not dtype.is_differentiable and dtype.name != "bool"
    if dtype.is_floating_point or (integers and whole):
        return
    raise DtypeError(f"{what}: pools real numbers, got {dtype}; convert the input first.")


def check_averaged(what: str, dtype: Any) -> None:
    """Raise for dtypes that have no average here."""
    if not dtype.is_floating_point and dtype.name not in AVERAGES_OF_INTEGERS:
        raise DtypeError(f"{what}: averages real numbers or int64, got {dtype}; convert the input.")


def windows(
    what: str,
    shape: Shape,
    dims: int,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> tuple[Window, ...]:
    """The windows of each pooled dimension; raise where there can be none."""
    kernels = each(what, "kernel_size", kernel_size, dims)
    strides = each(what, "stride", stride, dims) if len(stride) else kernels
    paddings = each(what, "padding", padding, dims)
    dilations = each(what, "dilation", dilation, dims)
    numbers = {"kernel_size": kernels, "stride": strides, "dilation": dilations}
    for name, values in numbers.items():
        if min(values) < 1:
            raise ValueRangeError(f"{what}: {name} must be at least 1, got {values}.")
    if any(p < 0 or p > k // 2 for p, k in zip(paddings, kernels, strict=True)):
        raise ValueRangeError(
            f"{what}: padding must lie between 0 and half of kernel_size={kernels}, got {paddings}."
        )
    check_rank(what, shape, dims)
    check_places(what, shape, dims, channels=True)
    found = []
    for size, k, s, p, d in zip(shape[-dims:], kernels, strides, paddings, dilations, strict=True):
        found.append(Window(size, _count(size, k, s, p, d, ceil_mode), k, s, p, d))
        if found[-1].out < 1:
            raise ShapeError(
                f"{what}: windows of kernel_size={kernels} with padding={paddings} and "
                f"dilation={dilations} do not fit into {show(shape[-dims:])}; use a smaller kernel."
            )
    return tuple(found)


def _count(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool) -> int:
    """How many windows there are; with `ceil` the last may reach over the end, not start there."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= size + padding else count


def pooled(shape: Shape, found: Sequence[Window]) -> Shape:
    """The shape of the result."""
    return (*shape[: len(shape) - len(found)], *(w.out for w in found))


def adapted(what: str, shape: Shape, dims: int, output_size: Sequence[int]) -> Shape:
    """The shape of the result of adaptive pooling."""
    if len(output_size) != dims:
        raise ShapeError(
            f"{what}: output_size needs {dims} numbers, one for each pooled dimension; got "
            f"{tuple(output_size)}."
        )
    check_rank(what, shape, dims)
    if any(not 0 <= n <= LARGEST for n in output_size):
        raise ValueRangeError(
            f"{what}: output_size must lie between 0 and {LARGEST}, got {tuple(output_size)}."
        )
    return (*shape[:-dims], *output_size)


def check_adapted(what: str, grad: Shape, shape: Shape, dims: int) -> None:
    """Raise unless a gradient can be that of adaptive pooling of the input."""
    check_rank(what, shape, dims)
    check_places(what, shape, dims, channels=False)
    if len(grad) != len(shape) or grad[:-dims] != shape[:-dims]:
        raise ShapeError(
            f"{what}: grad_output needs the batch and the channels of the input, which is "
            f"{show(shape)}; got {show(grad)}."
        )


def check_like(what: str, name: str, shape: Shape, wanted: Shape) -> None:
    """Raise unless a tensor has the shape of the result."""
    if shape != wanted:
        raise ShapeError(f"{what}: {name} must be {show(wanted)}, got {show(shape)}.")


def check_index(what: str, dtype: Any) -> None:
    """Raise unless indices are int64."""
    if dtype.name != "int64":
        raise DtypeError(f"{what}: indices must be int64, got {dtype}.")


def unpooled(what: str, shape: Shape, dims: int, output_size: Sequence[int]) -> Shape:
    """The shape that elements are put back into; raise if they cannot be."""
    if len(output_size) != dims:
        raise ShapeError(
            f"{what}: output_size needs {dims} numbers, got {tuple(output_size)}; leave out batch "
            "and channels."
        )
    check_rank(what, shape, dims)
    check_places(what, shape, dims, channels=True)
    if any(n < 0 for n in output_size):
        raise ValueRangeError(f"{what}: output_size must not be negative: {tuple(output_size)}.")
    return (*shape[:-dims], *output_size)


def check_unpooling(what: str, stride: Sequence[int], padding: Sequence[int], dims: int) -> None:
    """Raise unless the windows that elements came from could be windows."""
    each(what, "padding", padding, dims)
    if len(stride) != dims or min(stride) < 1:
        raise ValueRangeError(
            f"{what}: stride needs {dims} numbers of at least 1, got {tuple(stride)}."
        )


def averaged(
    what: str,
    shape: Shape,
    dtype: Any,
    dims: int,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> tuple[Window, ...]:
    """The windows of an average in each pooled dimension; raise where there can be none."""
    if divisor_override == 0:
        raise ValueRangeError(f"{what}: divisor_override must not be 0.")
    found = windows(what, shape, dims, kernel_size, stride, padding, (1,), ceil_mode)
    check_averaged(what, dtype)
    return found


def starts(size: int, out: int) -> list[tuple[int, int]]:
    """Where each window of adaptive pooling begins and ends.

    >>> starts(5, 3)
    [(0, 2), (1, 4), (3, 5)]
    """
    return [(o * size // out, -(-(o + 1) * size // out)) for o in range(out)]


def counts(window: Window, *, with_padding: bool) -> list[int]:
    """How many places each window of an average counts, in the padded dimension or without."""
    low, high = (
        (-window.padding, window.size + window.padding) if with_padding else (0, window.size)
    )
    begins = (o * window.stride - window.padding for o in range(window.out))
    return [min(b + window.kernel, high) - max(b, low) for b in begins]


def elements(shape: Shape, dims: int) -> int:
    """The places of one plane or volume."""
    return math.prod(shape[-dims:])

"""Geometry of convolutions: integers in, integers out.

A convolution relates three tensors: `large` (N, g·C, *B), `small` (N, g·D, *S) and `weight`
(g·D, C, *K). Element j of `small` sees the elements j·stride + k·dilation - padding of `large`
through its window. `convolution` computes `small` from `large`, or with `transposed` `large` from
`small`; its derivatives are the other maps between the same three.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from adjoint.checks import matmul
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.records import record
from adjoint.core.shapes import Shape, show
from adjoint.core.symbolic_sizes import is_open

FARTHEST = 1 << 24  # the largest stride, padding or dilation; loops may run over each of them


@record
class Geometry:
    """The sizes of one convolution, checked."""

    large: Shape  # (2, 3, 32, 32): the input, or the result if transposed
    small: Shape  # (2, 8, 30, 30): the result, or the input if transposed
    weight: Shape  # (8, 3, 3, 3)
    stride: Shape  # (1, 1)
    padding: Shape  # (0, 0)
    dilation: Shape  # (1, 1)
    groups: int
    transposed: bool

    @property
    def result(self) -> Shape:
        return self.large if self.transposed else self.small

    @property
    def kernel(self) -> Shape:
        """The sizes of the window: (3, 3)."""
        return self.weight[2:]

    @property
    def reach(self) -> Shape:
        """How far the last element of a window is from its first."""
        return tuple(d * (k - 1) for d, k in zip(self.dilation, self.kernel))

    @property
    def pointwise(self) -> bool:
        """Whether each window is one element, and the windows are all elements in order."""
        ones = (1,) * len(self.kernel)
        same = self.large[2:] == self.small[2:]  # output_padding may have made one larger
        return same and self.kernel == ones and self.stride == ones and not any(self.padding)


def each(what: str, name: str, values: Sequence[int], count: int, least: int) -> Shape:
    """One number for each spatial dimension; a single one is for all of them."""
    found = tuple(v if isinstance(v, int) else int(v) for v in values)  # open sizes stay open
    found = found * count if len(found) == 1 else found
    if len(found) != count:
        raise ShapeError(
            f"{what}: {name}={tuple(values)} has {len(values)} numbers, and there are {count} "
            f"spatial dimensions; give 1 or {count}."
        )
    if any(not least <= v <= FARTHEST for v in found):
        raise ValueRangeError(
            f"{what}: {name} must be from {least} to {FARTHEST}, got {tuple(values)}."
        )
    return found


def geometry(
    what: str,
    input: Any,
    weight: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Geometry:
    """The sizes of a convolution of two shapes; raises if it is impossible."""
    given = (*input, *weight, *output_padding)
    made = _geometry.__wrapped__ if is_open(given) else _geometry  # which assumes orders of sizes
    return made(
        what, tuple(input), tuple(weight), tuple(stride), tuple(padding), tuple(dilation),
        bool(transposed), tuple(output_padding), int(groups),
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _geometry(
    what: str,
    input: Shape,
    weight: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    transposed: bool,
    output_padding: Shape,
    groups: int,
) -> Geometry:
    count = len(weight) - 2
    if count < 1:
        raise ShapeError(
            f"{what}: the weight needs at least 3 dimensions (two of channels, then those of the "
            f"window), got {show(weight)}."
        )
    if len(input) != len(weight):
        raise ShapeError(
            f"{what}: the weight {show(weight)} needs an input of {len(weight)} dimensions "
            f"(batch, channels, {count} spatial), got {show(input)}."
        )
    stride = each(what, "stride", stride, count, 1)
    padding = each(what, "padding", padding, count, 0)
    dilation = each(what, "dilation", dilation, count, 1)
    output_padding = each(what, "output_padding", output_padding, count, 0)
    channels = _result_channels(what, input, weight, transposed, groups)
    if not all(weight[2:]) or not all(input[2:]):
        empty = "weight" if not all(weight[2:]) else "input"
        raise ShapeError(
            f"{what}: the spatial sizes of the {empty} must be at least 1, got "
            f"{show(input if empty == 'input' else weight)}."
        )
    sizes = _sizes(what, input, weight, stride, padding, dilation, transposed, output_padding)
    result = (input[0], channels, *sizes)
    large, small = (result, input) if transposed else (input, result)
    stride = tuple(1 if n == 1 else s for n, s in zip(small[2:], stride))  # one place, no steps
    dilation = tuple(1 if k == 1 else d for k, d in zip(weight[2:], dilation))
    return Geometry(large, small, weight, stride, padding, dilation, groups, transposed)


def _result_channels(what: str, input: Shape, weight: Shape, transposed: bool, groups: int) -> int:
    if groups < 1:
        raise ValueRangeError(f"{what}: groups must be at least 1, got {groups}.")
    if weight[0] % groups or weight[0] < groups:
        raise ShapeError(
            f"{what}: groups={groups} must divide dimension 0 of the weight, got {show(weight)}."
        )
    wanted = weight[0] if transposed else weight[1] * groups
    if input[1] != wanted:
        raise ShapeError(
            f"{what}: with groups={groups} the weight {show(weight)} needs an input of {wanted} "
            f"channels (dimension 1), got {show(input)}."
        )
    return weight[1] * groups if transposed else weight[0]


def _sizes(
    what: str,
    input: Shape,
    weight: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    transposed: bool,
    output_padding: Shape,
) -> Shape:
    """The spatial sizes of the result."""
    found: list[int] = []
    for i, (size, kernel) in enumerate(zip(input[2:], weight[2:])):
        reach = dilation[i] * (kernel - 1) + 1
        if transposed:
            more = output_padding[i]
            if more >= stride[i] and more >= dilation[i]:
                raise ValueRangeError(
                    f"{what}: output_padding must be smaller than stride or dilation, got "
                    f"{more} with stride {stride[i]} and dilation {dilation[i]}."
                )
            length = (size - 1) * stride[i] - 2 * padding[i] + reach + more
            if length < 1:
                raise ShapeError(
                    f"{what}: padding={padding} takes all elements off: dimension {2 + i} of the "
                    f"result would have the size {length}. Use a smaller padding."
                )
        else:
            room = size + 2 * padding[i] - reach
            if room < 0:
                raise ShapeError(
                    f"{what}: a window of {reach} elements (size {kernel}, dilation {dilation[i]}) "
                    f"is larger than dimension {2 + i} of the input, {size + 2 * padding[i]} with "
                    f"padding. Use a smaller window or more padding."
                )
            length = room // stride[i] + 1
        found.append(length)
    return tuple(found)


def of_weight(
    what: str, grad_output: Any, input: Any, weight: Sequence[int], *how: Any
) -> Geometry:
    """The sizes of a convolution whose result has the shape of `grad_output`; `how` is the rest of
    the arguments of `geometry`.
    """
    found = geometry(what, input, weight, *how)
    if tuple(grad_output) != found.result:
        raise ShapeError(
            f"{what}: the convolution of {show(input)} with {show(weight)} has the shape "
            f"{show(found.result)}, and grad_output has {show(grad_output)}."
        )
    return found


def check_bias(what: str, bias: Any, channels: int) -> None:
    """Raise unless there is one number for each channel of the result."""
    if bias is not None and tuple(bias.shape) != (channels,):
        raise ShapeError(
            f"{what}: the bias needs one number for each of {channels} channels of the result, "
            f"got {show(bias.shape)}."
        )


def check_dtypes(what: str, **operands: Any) -> None:
    """Raise unless all have one dtype, and not bool: convolutions do not promote."""
    matmul.check_dtypes(what, "a convolution", **operands)


def left_over(large: Shape, small: Shape, weight: Shape, stride: Sequence[int],
              padding: Sequence[int], dilation: Sequence[int]) -> Shape:  # fmt: skip
    """The number of elements of `large` after the last window in each dimension, padding included.

    They are the `output_padding` with which the transposed convolution gives `large` its size.
    """
    count = len(weight) - 2
    s, p, d = (v * count if len(v) == 1 else v for v in map(tuple, (stride, padding, dilation)))
    return tuple(
        large[2 + i] + 2 * p[i] - d[i] * (weight[2 + i] - 1) - 1 - (small[2 + i] - 1) * s[i]
        for i in range(count)
    )


# -- windows of an image as columns ----------------------------------------------------------------


@record
class ImageWindows:
    """The windows of an image, in both spatial dimensions."""

    kernel: Shape  # (3, 3)
    dilation: Shape
    padding: Shape
    stride: Shape
    reach: Shape  # from the first element of a window to after its last: (3, 3)
    places: Shape  # how many windows there are: (30, 30)


def windows(
    what: str,
    image: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> ImageWindows:
    """The windows of an image with these two spatial sizes; raises if there are none."""
    kernel = each(what, "kernel_size", kernel_size, 2, 1)
    dilation = each(what, "dilation", dilation, 2, 1)
    padding = each(what, "padding", padding, 2, 0)
    stride = each(what, "stride", stride, 2, 1)
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel))
    rooms = [n + 2 * p - r for n, p, r in zip(image, padding, reach)]
    if any(room < 0 for room in rooms) or not all(image):
        raise ShapeError(
            f"{what}: there is no room for a window of {show(reach)} (kernel_size={kernel}, "
            f"dilation={dilation}) in an image of {show(image)} with padding={padding}."
        )
    places = tuple(room // s + 1 for room, s in zip(rooms, stride))
    return ImageWindows(kernel, dilation, padding, stride, reach, places)


def check_filled(what: str, shape: Shape) -> None:
    """Raise for images without elements; the batch may be empty."""
    if 0 in shape[1:]:
        raise ShapeError(f"{what}: only the batch may be empty, got {show(shape)}.")


def check_columns(what: str, columns: Shape, found: ImageWindows) -> None:
    """Raise unless columns (batch, channels × elements, places) hold these windows."""
    elements, places = math.prod(found.kernel), math.prod(found.places)
    if columns[1] % elements or columns[2] != places:
        raise ShapeError(
            f"{what}: needs columns of channels × {elements} elements of the window, at "
            f"{places} = {show(found.places)} places; got {show(columns[1:])}."
        )


def check_kernel(what: str, kernel_size: Sequence[int], weight: Any) -> None:
    """Raise unless the weight has windows of this size."""
    if tuple(kernel_size) != tuple(weight.shape[2:]):
        raise ShapeError(
            f"{what}: kernel_size={tuple(kernel_size)} is not that of the weight, "
            f"{show(weight.shape)}."
        )

"""Convolutions of PyTorch's many names, in terms of `convolution`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import convolution as checks
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, show

Tensor = Any


def convolution_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Shape | None, *rest: Any
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients in input, weight and bias; None for those not wanted."""
    *how, output_padding, groups, output_mask = rest
    every = (*how, output_padding, groups)
    checks.of_weight("convolution_backward", grad_output.shape, input.shape, weight.shape, *every)
    of_input = of_weight = of_bias = None
    if output_mask[0]:
        of_input = ops._convolution_input_backward(grad_output, weight, input.shape, *how, groups)
    if output_mask[1]:
        of_weight = ops._convolution_weight_backward(grad_output, input, weight.shape, *every)
    if output_mask[2]:
        of_bias = grad_output.sum((0, *range(2, grad_output.ndim)))
    return of_input, of_weight, of_bias


def input_backward(
    grad_output: Tensor,
    weight: Tensor,
    input_size: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    transposed: bool,
    groups: int,
) -> Tensor:
    """x̄ = C(w)ᵀ ȳ, where C(w) x is the convolution: the transposed one, and the other way round."""
    grad, shape = tuple(grad_output.shape), tuple(input_size)
    more = (0,) * (len(shape) - 2)
    if not transposed:
        more = checks.left_over(shape, grad, tuple(weight.shape), stride, padding, dilation)
    found = ops.convolution(
        grad_output, weight, None, stride, padding, dilation, not transposed, more, groups
    )
    for dim, size in enumerate(shape[2:], 2):
        if found.shape[dim] != size:  # output_padding had room for more windows
            found = found.narrow(dim, 0, size)
    return found


def convolution_double_backward(
    ggI: Tensor | None,
    ggW: Tensor | None,
    ggb: Tensor | None,
    gO: Tensor,
    weight: Tensor,
    self: Tensor,
    *rest: Any,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of `convolution_backward` in gO, input and weight; None where nothing is."""
    *how, output_padding, groups, output_mask = rest
    of_input = of_weight = None
    terms: list[Tensor] = []
    if ggI is not None:
        terms.append(ops.convolution(ggI, weight, None, *how, output_padding, groups))
    if ggW is not None:
        terms.append(ops.convolution(self, ggW, None, *how, output_padding, groups))
    if ggb is not None:
        terms.append(ggb.reshape((-1, *(1,) * (gO.ndim - 2))).expand(gO.shape))
    if output_mask[1] and ggW is not None:
        of_input = ops._convolution_input_backward(gO, ggW, self.shape, *how, groups)
    if output_mask[2] and ggI is not None:
        of_weight = ops._convolution_weight_backward(
            gO, ggI, weight.shape, *how, output_padding, groups
        )
    return sum(terms[1:], terms[0]) if output_mask[0] and terms else None, of_input, of_weight


# --- by the number of spatial dimensions ---------------------------------------------------------


def batched(what: str, input: Tensor, count: int, run: Callable[[Tensor], Tensor]) -> Tensor:
    """Run on a batch; an input without one is a batch of one."""
    if input.ndim == count + 2:
        return run(input)
    if input.ndim != count + 1:
        raise ShapeError(
            f"{what}: needs an input of {count + 2} dimensions, the batch and the channels first, "
            f"or {count + 1} without a batch; got {show(input.shape)}."
        )
    return run(input.unsqueeze(0)).squeeze(0)


def _forward(count: int) -> Callable[..., Tensor]:
    what, none = f"conv{count}d", (0,) * count

    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Shape,
        padding: Shape | str,
        dilation: Shape,
        groups: int,
    ) -> Tensor:
        """The convolution of a batch, or of one sample."""

        def run(x: Tensor) -> Tensor:
            width = padding
            if isinstance(width, str):
                x, width = same_or_valid(what, x, weight, stride, width, dilation)
            return ops.convolution(x, weight, bias, stride, width, dilation, False, none, groups)

        return batched(what, input, count, run)

    return conv


def same_or_valid(
    what: str, x: Tensor, weight: Tensor, stride: Shape, padding: str, dilation: Shape
) -> tuple[Tensor, Shape]:
    """The input and the padding: 'valid' is none, 'same' gives a result of the input's size."""
    count = weight.ndim - 2
    if padding == "valid":
        return x, (0,) * count
    if padding != "same":
        raise ValueRangeError(f"{what}: padding must be 'valid' or 'same', got {padding!r}.")
    if any(s != 1 for s in stride):
        raise ValueRangeError(f"{what}: padding='same' needs stride 1, got {tuple(stride)}.")
    dilation = checks.each(what, "dilation", dilation, count, 1)
    total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
    if any(t % 2 for t in total):  # the odd element goes after
        x = ops.constant_pad_nd(x, [w for t in reversed(total) for w in (0, t % 2)], 0)
    return x, tuple(t // 2 for t in total)


def _transposed(count: int) -> Callable[..., Tensor]:
    what = f"conv_transpose{count}d"

    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Shape,
        padding: Shape,
        output_padding: Shape,
        groups: int,
        dilation: Shape,
    ) -> Tensor:
        """The transposed convolution of a batch, or of one sample."""

        def run(x: Tensor) -> Tensor:
            return ops.convolution(
                x, weight, bias, stride, padding, dilation, True, output_padding, groups
            )

        return batched(what, input, count, run)

    return conv


conv1d, conv2d, conv3d = map(_forward, (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = map(_transposed, (1, 2, 3))


def convolution_mode(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Shape,
    padding: str,
    dilation: Shape,
    groups: int,
) -> Tensor:
    """A convolution with padding='same' or 'valid'."""
    x, width = same_or_valid("_convolution_mode", input, weight, stride, padding, dilation)
    none = (0,) * (weight.ndim - 2)
    return ops.convolution(x, weight, bias, stride, width, dilation, False, none, groups)


# --- the names of single algorithms --------------------------------------------------------------


def slow_conv(
    self: Tensor,
    weight: Tensor,
    kernel_size: Shape,
    bias: Tensor | None,
    stride: Shape,
    padding: Shape,
    dilation: Shape = (1,),
) -> Tensor:
    """A convolution in one group."""
    return _of_kernel_size(self, weight, kernel_size, bias, (stride, padding, dilation), 1)


def grouped_conv(
    self: Tensor,
    weight: Tensor,
    kernel_size: Shape,
    bias: Tensor | None,
    stride: Shape,
    padding: Shape,
    dilation: Shape = (1,),
) -> Tensor:
    """A convolution in as many groups as the channels of the input make."""
    channels = self.shape[-len(kernel_size) - 1] if self.ndim > len(kernel_size) else 0
    groups = max(channels // max(weight.shape[1], 1), 1) if weight.ndim > 1 else 1
    return _of_kernel_size(self, weight, kernel_size, bias, (stride, padding, dilation), groups)


def _of_kernel_size(
    self: Tensor,
    weight: Tensor,
    kernel_size: Shape,
    bias: Tensor | None,
    how: tuple[Shape, Shape, Shape],
    groups: int,
) -> Tensor:
    count = len(kernel_size)
    checks.check_kernel(f"conv{count}d", kernel_size, weight)

    def run(x: Tensor) -> Tensor:
        return ops.convolution(x, weight, bias, *how, False, (0,) * count, groups)

    return batched(f"conv{count}d", self, count, run)


def slow_conv2d_backward(
    grad_output: Tensor,
    self: Tensor,
    weight: Tensor,
    kernel_size: Shape,
    stride: Shape,
    padding: Shape,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of `_slow_conv2d_forward`."""
    checks.check_kernel("conv2d", kernel_size, weight)
    return ops.convolution_backward(
        grad_output, self, weight, None, stride, padding, (1, 1), False, (0, 0), 1, output_mask
    )


def slow_conv_transpose(
    self: Tensor,
    weight: Tensor,
    kernel_size: Shape,
    bias: Tensor | None,
    stride: Shape,
    padding: Shape,
    output_padding: Shape,
    dilation: Shape,
) -> Tensor:
    """A transposed convolution in one group."""
    count = len(kernel_size)
    what = f"conv_transpose{count}d"
    checks.check_kernel(what, kernel_size, weight)

    def run(x: Tensor) -> Tensor:
        return ops.convolution(x, weight, bias, stride, padding, dilation, True, output_padding, 1)

    return batched(what, self, count, run)


# --- time first ----------------------------------------------------------------------------------


def _check_tbc(what: str, self: Tensor, weight: Tensor) -> None:
    if self.ndim != 3 or weight.ndim != 3:
        raise ShapeError(
            f"{what}: needs an input (time, batch, channels) and a weight (window, channels, "
            f"channels of the result); got {show(self.shape)} and {show(weight.shape)}."
        )


def conv_tbc(self: Tensor, weight: Tensor, bias: Tensor, pad: int) -> Tensor:
    """A convolution in time, with the dimensions in another order."""
    _check_tbc("conv_tbc", self, weight)
    x, w = self.permute((1, 2, 0)), weight.permute((2, 1, 0))
    return ops.convolution(x, w, bias, (1,), (pad,), (1,), False, (0,), 1).permute((2, 0, 1))


def conv_tbc_backward(
    self: Tensor, input: Tensor, weight: Tensor, bias: Tensor, pad: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `conv_tbc`, where `self` is the gradient of its result."""
    _check_tbc("conv_tbc_backward", input, weight)
    grad, x, w = self.permute((1, 2, 0)), input.permute((1, 2, 0)), weight.permute((2, 1, 0))
    of_input, of_weight, of_bias = ops.convolution_backward(
        grad, x, w, bias.shape, (1,), (pad,), (1,), False, (0,), 1, (True, True, True)
    )
    return of_input.permute((2, 0, 1)), of_weight.permute((2, 1, 0)), of_bias


# --- windows as columns --------------------------------------------------------------------------


def im2col(
    self: Tensor, kernel_size: Shape, dilation: Shape, padding: Shape, stride: Shape
) -> Tensor:
    """The windows of an image as columns."""

    def run(x: Tensor) -> Tensor:
        size = tuple(x.shape[2:])
        checks.check_filled("im2col", tuple(x.shape))
        found = checks.windows("im2col", size, kernel_size, dilation, padding, stride)
        high, wide = found.padding
        x = ops.constant_pad_nd(x, (wide, wide, high, high), 0) if high or wide else x
        for i in range(2):
            x = x.unfold(2 + i, found.reach[i], found.stride[i])
            x = x.slice(-1, None, None, found.dilation[i]) if found.dilation[i] > 1 else x
        count, channels = x.shape[:2]
        elements, places = math.prod(found.kernel), math.prod(found.places)
        return x.permute((0, 1, 4, 5, 2, 3)).reshape((count, channels * elements, places))

    return batched("im2col", self, 2, run)


def col2im(
    self: Tensor, output_size: Shape, kernel_size: Shape, dilation: Shape, padding: Shape,
    stride: Shape,
) -> Tensor:  # fmt: skip
    """The transpose of `im2col`: windows are added to where they come from."""
    size = checks.each("col2im", "output_size", output_size, 2, 1)
    found = checks.windows("col2im", size, kernel_size, dilation, padding, stride)

    def run(columns: Tensor) -> Tensor:
        checks.check_columns("col2im", tuple(columns.shape), found)
        channels = columns.shape[1] // math.prod(found.kernel)
        shape = (columns.shape[0], channels, *found.kernel, *found.places)
        x = columns.reshape(shape).permute((0, 1, 4, 5, 2, 3))
        for i in (1, 0):
            if found.dilation[i] > 1:
                spread = (*x.shape[:-1], found.reach[i])
                x = ops.slice_backward(x, spread, x.ndim - 1, 0, found.reach[i], found.dilation[i])
            whole = list(x.shape[:-1])
            whole[2 + i] = size[i] + 2 * found.padding[i]
            x = ops.unfold_backward(x, whole, 2 + i, found.reach[i], found.stride[i])
        high, wide = found.padding
        return ops.constant_pad_nd(x, (-wide, -wide, -high, -high), 0) if high or wide else x

    return batched("col2im", self, 1, run)

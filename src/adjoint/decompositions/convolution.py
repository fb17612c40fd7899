"""Convolutions of PyTorch's many names, in terms of `convolution`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import convolution as checks
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, show

Tensor = Any


def convolution_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    bias_sizes: Shape | None,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    transposed: bool,
    output_padding: Shape,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients in input, weight and bias; None for those that are not asked for."""
    checks.of_weight(
        "convolution_backward", grad_output.shape, input.shape, weight.shape, stride, padding,
        dilation, transposed, output_padding, groups,
    )  # fmt: skip
    of_input = of_weight = of_bias = None
    if output_mask[0]:
        of_input = ops._convolution_input_backward(
            grad_output, weight, input.shape, stride, padding, dilation, transposed, groups
        )
    if output_mask[1]:
        of_weight = ops._convolution_weight_backward(
            grad_output, input, weight.shape, stride, padding, dilation, transposed,
            output_padding, groups,
        )  # fmt: skip
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


# --- by the number of spatial dimensions ---------------------------------------------------------


def batched(what: str, input: Tensor, count: int, run: Callable[[Tensor], Tensor]) -> Tensor:
    """Run on a batch; an input without one is a batch of one."""
    if input.ndim == count + 2:
        return run(input)
    if input.ndim != count + 1:
        raise ShapeError(
            f"{what}: needs an input of {count + 2} dimensions (batch, channels, {count} spatial), "
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

"""`ad.nn.grad`: the gradients of convolutions, as functions of their own.

>>> import adjoint as ad
>>> x, w = ad.ones(1, 1, 5), ad.ones(1, 1, 3)
>>> ad.nn.grad.conv1d_input(x.shape, w, ad.ones(1, 1, 3))
tensor([[[1., 2., 3., 2., 1.]]])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.tensor.tensor import Tensor

__all__ = [
    "conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input",
    "conv3d_weight",
]  # fmt: skip

Sizes = int | Sequence[int]


def _of_input(
    dims: int, input_size: Sequence[int], weight: Tensor, grad_output: Tensor, *geometry: Any
) -> Tensor:
    """The gradient of the input, of which only the size matters."""
    input = grad_output.new_empty((1,)).expand(tuple(input_size))
    return _backward(dims, input, weight, grad_output, geometry, (True, False, False))[0]


def _of_weight(
    dims: int, input: Tensor, weight_size: Sequence[int], grad_output: Tensor, *geometry: Any
) -> Tensor:
    """The gradient of the weight, of which only the size matters."""
    weight = grad_output.new_empty((1,)).expand(tuple(weight_size))
    return _backward(dims, input, weight, grad_output, geometry, (False, True, False))[1]


def _backward(
    dims: int,
    input: Tensor,
    weight: Tensor,
    grad_output: Tensor,
    geometry: tuple[Any, ...],
    wanted: tuple[bool, ...],
) -> tuple[Tensor, ...]:
    *sizes, groups = geometry
    stride, padding, dilation = ((n,) * dims if isinstance(n, int) else tuple(n) for n in sizes)
    return ops.convolution_backward(
        grad_output, input, weight, None, stride, padding, dilation, False, (0,) * dims, groups,
        wanted,
    )  # fmt: skip


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of conv1d's input, signals of a given size.

    >>> import adjoint as ad
    >>> conv1d_input((1, 1, 3), ad.ones(1, 1, 2), ad.ones(1, 1, 2)).shape
    (1, 1, 3)
    """
    return _of_input(1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of conv1d's weight, which has a given size.

    >>> import adjoint as ad
    >>> conv1d_weight(ad.ones(1, 1, 3), (1, 1, 2), ad.ones(1, 1, 2)).shape
    (1, 1, 2)
    """
    return _of_weight(1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of conv2d's input, images of a given size.

    >>> import adjoint as ad
    >>> conv2d_input((1, 1, 3, 3), ad.ones(1, 1, 2, 2), ad.ones(1, 1, 2, 2)).shape
    (1, 1, 3, 3)
    """
    return _of_input(2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of conv2d's weight, which has a given size.

    >>> import adjoint as ad
    >>> conv2d_weight(ad.ones(1, 1, 3, 3), (1, 1, 2, 2), ad.ones(1, 1, 2, 2)).shape
    (1, 1, 2, 2)
    """
    return _of_weight(2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of conv3d's input, volumes of a given size.

    >>> import adjoint as ad
    >>> conv3d_input((1, 1, 3, 3, 3), ad.ones(1, 1, 2, 2, 2), ad.ones(1, 1, 2, 2, 2)).shape
    (1, 1, 3, 3, 3)
    """
    return _of_input(3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of conv3d's weight, which has a given size.

    >>> import adjoint as ad
    >>> conv3d_weight(ad.ones(1, 1, 3, 3, 3), (1, 1, 2, 2, 2), ad.ones(1, 1, 2, 2, 2)).shape
    (1, 1, 2, 2, 2)
    """
    return _of_weight(3, input, weight_size, grad_output, stride, padding, dilation, groups)

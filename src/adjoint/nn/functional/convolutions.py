"""Windows of images, with PyTorch's signatures in Python."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint import ops
from adjoint.tensor.tensor import Tensor

Pair = int | Sequence[int]


def unfold(
    input: Tensor, kernel_size: Pair, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1
) -> Tensor:
    """The windows of images (batch, channels, height, width), each as a column.

    The result is (batch, channels × elements of the window, places of the window).

    >>> import adjoint as ad
    >>> image = ad.arange(6.0).reshape(1, 1, 2, 3)
    >>> ad.nn.functional.unfold(image, (2, 2))
    tensor([[[0., 1.],
             [1., 2.],
             [3., 4.],
             [4., 5.]]])
    """
    return ops.im2col(input, kernel_size, dilation, padding, stride)


def fold(
    input: Tensor,
    output_size: Pair,
    kernel_size: Pair,
    dilation: Pair = 1,
    padding: Pair = 0,
    stride: Pair = 1,
) -> Tensor:
    """The images of which these columns are windows; what windows share is added up.

    >>> import adjoint as ad
    >>> windows = ad.nn.functional.unfold(ad.ones(1, 1, 2, 3), (2, 2))
    >>> ad.nn.functional.fold(windows, (2, 3), (2, 2))
    tensor([[[[1., 2., 1.],
              [1., 2., 1.]]]])
    """
    return ops.col2im(input, output_size, kernel_size, dilation, padding, stride)

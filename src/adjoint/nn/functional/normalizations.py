"""Normalizations with PyTorch's signatures in Python: running statistics come first."""

from __future__ import annotations

from adjoint import ops
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.tensor.tensor import Tensor


def _need_several(what: str, input: Tensor, count: int) -> None:
    """A variance needs more than one value."""
    if count == 1:
        raise ShapeError(
            f"{what}: needs more than one value per channel to train on, got {show(input.shape)}."
        )


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel (dimension 1) with mean 0 and variance 1, times weight plus bias.

    While training, running statistics are changed in place.

    >>> import adjoint as ad
    >>> x, zero, one = ad.tensor([[1.0], [3.0]]), ad.zeros(1), ad.ones(1)
    >>> ad.nn.functional.batch_norm(x, zero, one, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if training and input.ndim > 1:
        _need_several("batch_norm", input, input.numel() // max(input.shape[1], 1))
    if training and eps <= 0:
        raise ValueRangeError(f"batch_norm(eps={eps}): eps must be positive while training.")
    return ops.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, True
    )


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """batch_norm of each sample on its own.

    >>> import adjoint as ad
    >>> ad.nn.functional.instance_norm(ad.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """
    if use_input_stats and input.ndim > 1:
        channels = max(input.shape[0] * input.shape[1], 1)
        _need_several("instance_norm", input, input.numel() // channels)
    return ops.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Each group of channels of a sample with mean 0 and variance 1, times weight plus bias.

    >>> import adjoint as ad
    >>> ad.nn.functional.group_norm(ad.tensor([[1.0, 3.0, 5.0, 9.0]]), num_groups=2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    if input.ndim > 1 and num_groups > 0:
        _need_several("group_norm", input, input.numel() // num_groups)
    return ops.group_norm(input, num_groups, weight, bias, eps, True)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha · mean of x² over `size` neighbouring channels)^beta.

    >>> import adjoint as ad
    >>> ad.nn.functional.local_response_norm(ad.ones(1, 2, 3), size=2).shape
    (1, 2, 3)
    """
    if input.ndim < 3:
        raise ShapeError(
            f"local_response_norm: needs at least 3 dimensions, got {show(input.shape)}."
        )
    if input.numel() == 0:
        return input
    around = (*(0, 0) * (input.ndim - 2), size // 2, (size - 1) // 2)
    means = ops.constant_pad_nd(input * input, around).unfold(1, size, 1).mean((-1,))
    return input / (means * alpha + k) ** beta

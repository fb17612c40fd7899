"""A layer and the batch normalization after it as one layer, for evaluation.

y = (W x + b - mean) / √(var + eps) · gain + shift is again linear in x.
"""

from __future__ import annotations

import copy
from typing import Any

from adjoint import ops
from adjoint.core.errors import AdjointError
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter
from adjoint.tensor.tensor import Tensor

__all__ = [
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
]  # fmt: skip


class NotInEvaluation(AdjointError, RuntimeError, AssertionError):
    """A layer in training mode that should be in evaluation mode, or has other features."""


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return a convolution that does what `conv` and then `bn` do; both must be in eval mode.

    >>> import adjoint as ad
    >>> conv, bn = ad.nn.Conv1d(2, 3, 1).eval(), ad.nn.BatchNorm1d(3).eval()
    >>> x = ad.randn(4, 2, 5)
    >>> ad.allclose(ad.nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-6)
    True
    """
    fused = _copied(conv, bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Return a linear layer that does what `linear` and then `bn` do; both must be in eval mode."""
    fused = _copied(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise NotInEvaluation(
            f"fuse_linear_bn_eval: the layer has {linear.out_features} features, the "
            f"normalization {bn.num_features}"
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def _copied(layer: Module, bn: Module) -> Any:
    if layer.training or bn.training:
        raise NotInEvaluation("only layers in eval() mode are fused: training changes statistics")
    if bn._buffers.get("running_mean") is None or bn._buffers.get("running_var") is None:
        raise NotInEvaluation("only a normalization with running statistics can be fused")
    return copy.deepcopy(layer)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Any, Any]:
    """Return the weight and the bias of a convolution with the normalization after it."""
    mean, scale, shift = _affine(bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    sizes = [1] * conv_w.ndim
    sizes[1 if transpose else 0] = -1
    bias = ops.zeros_like(mean) if conv_b is None else conv_b
    weight = conv_w * scale.reshape(sizes)
    return _parameters(conv_w, conv_b, weight, (bias - mean) * scale + shift)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Any, Any]:
    """Return the weight and the bias of a linear layer with the normalization after it."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _affine(mean: Any, var: Any, eps: float, gain: Any, shift: Any) -> tuple[Any, Any, Any]:
    """What a normalization subtracts, multiplies by, and adds."""
    scale = ops.rsqrt(var + eps)
    scale = scale if gain is None else scale * gain
    return mean, scale, ops.zeros_like(mean) if shift is None else shift


def _parameters(w: Any, b: Any, weight: Any, bias: Any) -> tuple[Any, Any]:
    wants = w.requires_grad if b is None else b.requires_grad
    dtype = w.dtype if b is None else b.dtype
    return (
        Parameter(weight.detach().to(w.dtype), w.requires_grad),
        Parameter(bias.detach().to(dtype), wants),
    )

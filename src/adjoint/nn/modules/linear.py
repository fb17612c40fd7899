"""Linear and bilinear maps, and the identity."""

from __future__ import annotations

import math
from typing import Any

from adjoint.core.errors import ValueRangeError
from adjoint.nn import functional, init
from adjoint.nn.modules.lazy import LazyModuleMixin
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.utils import draw_linear, new_parameter
from adjoint.nn.parameter import UninitializedParameter
from adjoint.tensor.tensor import Tensor

__all__ = [
    "Bilinear", "Identity", "LazyLinear", "Linear",
]  # fmt: skip


class Identity(Module):
    """The module that returns its input; whatever it is made with is ignored.

    >>> import adjoint as ad
    >>> ad.nn.Identity(54, unused=0.1)(ad.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """x Wᵀ + b, of the last dimension; W has a row for each output.

    >>> import adjoint as ad
    >>> layer = ad.nn.Linear(3, 2)
    >>> layer
    Linear(in_features=3, out_features=2, bias=True)
    >>> layer(ad.ones(5, 3)).shape, layer.weight.shape, layer.bias.shape
    ((5, 2), (2, 3), (2,))
    """

    weight: Tensor
    bias: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = new_parameter(out_features, in_features, device=device, dtype=dtype)
        added = new_parameter(out_features, device=device, dtype=dtype) if bias else None
        self.register_parameter("bias", added)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly within 1/√in_features."""
        draw_linear(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return functional.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        has_bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={has_bias}"


class NonDynamicallyQuantizableLinear(Linear):
    """`Linear` under the name that it has inside attention, as in PyTorch."""


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` that takes in_features from its first input.

    >>> import adjoint as ad
    >>> layer = ad.nn.LazyLinear(2)
    >>> layer(ad.ones(5, 3)).shape
    (5, 2)
    >>> layer
    Linear(in_features=3, out_features=2, bias=True)
    """

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Take in_features from an input, and draw weight and bias."""
        if self.in_features == 0:
            self.in_features = input.shape[-1]
        if self.has_uninitialized_params():  # not where a state dict was loaded
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()


class Bilinear(Module):
    """x₁ᵀ W x₂ + b, of the last dimensions of two inputs; W has a matrix for each output.

    >>> import adjoint as ad
    >>> layer = ad.nn.Bilinear(3, 4, 2)
    >>> layer(ad.ones(5, 3), ad.ones(5, 4)).shape, layer.weight.shape
    ((5, 2), (2, 3, 4))
    """

    weight: Tensor
    bias: Tensor

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueRangeError(
                f"Bilinear(in1_features={in1_features}): there must be at least one feature."
            )
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = new_parameter(*shape, device=device, dtype=dtype)
        added = new_parameter(out_features, device=device, dtype=dtype) if bias else None
        self.register_parameter("bias", added)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly within 1/√in1_features."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        for each in (self.weight, self.bias):
            if each is not None:
                init.uniform_(each, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return functional.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )

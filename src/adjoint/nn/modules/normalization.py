"""Normalizations without running statistics: over layers, groups and neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.core.errors import ValueRangeError
from adjoint.nn import functional, init
from adjoint.nn.modules import made
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.utils import new_parameter
from adjoint.tensor.tensor import Tensor

__getattr__, __dir__, __all__ = made.door(globals(), "GroupNorm", "LayerNorm", "RMSNorm")


class _Affine(Module):
    """A module with a weight and a bias, each where it is wanted."""

    weight: Tensor
    bias: Tensor

    def _affine(self, shape: Sequence[int], device: Any, dtype: Any, **wanted: bool) -> None:
        for name, has in wanted.items():
            made = new_parameter(*shape, device=device, dtype=dtype) if has else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set weights to 1 and biases to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if getattr(self, "bias", None) is not None:
            init.zeros_(self.bias)


class LayerNorm(_Affine):
    """The last dimensions of each sample with mean 0 and variance 1, times weight plus bias.

    `normalized_shape` are the sizes of those dimensions. `elementwise_affine` gives each element a
    weight, and with `bias` a bias.

    >>> import adjoint as ad
    >>> ad.nn.LayerNorm(2)(ad.tensor([[1.0, 3.0]])).detach()
    tensor([[-1.0000,  1.0000]])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        has_bias = elementwise_affine and bias
        self._affine(self.normalized_shape, device, dtype, weight=elementwise_affine, bias=has_bias)

    def forward(self, input: Tensor) -> Tensor:
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(_Affine):
    """x / √(mean of x² + eps) over the last dimensions, times a weight for each element.

    An `eps` of None is the dtype's distance from 1 to the next number.

    >>> import adjoint as ad
    >>> ad.nn.RMSNorm(2)(ad.tensor([[1.0, 7.0]])).detach()
    tensor([[0.2000, 1.4000]])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._affine(self.normalized_shape, device, dtype, weight=elementwise_affine)

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(normalized_shape, Sequence):
        return tuple(normalized_shape)
    return (normalized_shape,)


class GroupNorm(_Affine):
    """Groups of channels of each sample with mean 0 and variance 1, times weight plus bias.

    >>> import adjoint as ad
    >>> ad.nn.GroupNorm(2, 6)(ad.ones(1, 6, 4, 4)).shape
    (1, 6, 4, 4)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups <= 0 or num_channels % num_groups:
            raise ValueRangeError(
                f"GroupNorm(num_groups={num_groups}, num_channels={num_channels}): the number of "
                "groups must divide that of channels."
            )
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        self._affine((num_channels,), device, dtype, weight=affine, bias=affine and bias)

    def forward(self, input: Tensor) -> Tensor:
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )

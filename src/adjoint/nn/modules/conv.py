"""Convolutions and transposed convolutions of one, two and three dimensions.

`_ConvNd` holds what all share: arguments, parameters, repr. The classes for one number of
dimensions say `dims`, and their base takes a number where one is needed for each dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from adjoint.core.errors import ArgumentError, ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.nn import functional
from adjoint.nn.modules import made
from adjoint.nn.modules.lazy import LazyModuleMixin
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.utils import _ntuple, draw_linear, new_parameter, other_than
from adjoint.nn.parameter import UninitializedParameter
from adjoint.tensor.tensor import Tensor

__getattr__, __dir__, __all__ = made.door(globals())

Sizes = int | Sequence[int]

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """The arguments and parameters of a convolution; sizes have a number for each dimension."""

    dims: ClassVar[int]
    weight: Tensor
    bias: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._check(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.dilation, self.transposed, self.output_padding = dilation, transposed, output_padding
        self.groups, self.padding_mode = groups, padding_mode
        self._reversed_padding_repeated_twice = self._around()
        self.weight = new_parameter(*self._weight_shape(), device=device, dtype=dtype)
        added = new_parameter(out_channels, device=device, dtype=dtype) if bias else None
        self.register_parameter("bias", added)
        self.reset_parameters()

    def _check(
        self,
        in_channels: int,
        out_channels: int,
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        groups: int,
        padding_mode: str,
    ) -> None:
        """Raise unless the arguments fit together."""
        name = type(self).__name__
        if groups <= 0 or in_channels % groups or out_channels % groups:
            raise ValueRangeError(
                f"{name}(in_channels={in_channels}, out_channels={out_channels}, groups={groups}): "
                "groups must be positive and divide the numbers of channels."
            )
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueRangeError(
                    f"{name}(padding={padding!r}): use 'same', 'valid' or numbers."
                )
            if padding == "same" and any(step != 1 for step in stride):
                raise ValueRangeError(
                    f"{name}(padding='same', stride={stride}): the result has the size of the "
                    "input only with a stride of 1."
                )
        if padding_mode not in PADDING_MODES:
            raise ValueRangeError(
                f"{name}(padding_mode={padding_mode!r}): there are "
                f"{', '.join(map(repr, PADDING_MODES))}."
            )

    def _around(self) -> list[int]:
        """What `functional.pad` adds before and after each dimension, the last one first."""
        if self.padding == "valid":
            return [0, 0] * len(self.kernel_size)
        if isinstance(self.padding, str):
            whole = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            return [n for total in reversed(whole) for n in (total // 2, total - total // 2)]
        return [n for each in reversed(self.padding) for n in (each, each)]

    def _weight_shape(self) -> tuple[int, ...]:
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        return (first, second // self.groups, *self.kernel_size)

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly within 1/√(inputs of an output)."""
        draw_linear(self.weight, self.bias)

    def extra_repr(self) -> str:
        zeros, ones = (0,) * len(self.kernel_size), (1,) * len(self.kernel_size)
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
            + other_than(self, padding=zeros, dilation=ones, output_padding=zeros, groups=1)
            + (", bias=False" if self.bias is None else "")
            + other_than(self, padding_mode="zeros")
        )


# --- convolutions --------------------------------------------------------------------------------


class _Convolution(_ConvNd):
    """A convolution of `dims` dimensions: arguments may be one number for all of them."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: str | Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        each = _ntuple(self.dims)
        super().__init__(
            in_channels, out_channels, each(kernel_size), each(stride),
            padding if isinstance(padding, str) else each(padding), each(dilation), False,
            each(0), groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            around = self._reversed_padding_repeated_twice
            input, padding = functional.pad(input, around, mode=self.padding_mode), 0
        convolve = getattr(functional, f"conv{self.dims}d")
        return convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


# --- transposed convolutions ---------------------------------------------------------------------


class _ConvTransposeNd(_ConvNd):
    """The transpose of a convolution of `dims` dimensions, as a linear map."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        name = type(self).__name__
        if padding_mode != "zeros":
            raise ValueRangeError(f"{name}(padding_mode={padding_mode!r}): there is only 'zeros'.")
        if isinstance(padding, str):
            raise ArgumentError(f"{name}(padding={padding!r}): it must be numbers.")
        each = _ntuple(self.dims)
        super().__init__(
            in_channels, out_channels, each(kernel_size), each(stride), each(padding),
            each(dilation), True, each(output_padding), groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _output_padding(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """What is added at the end of each dimension, so that the result has a size."""
        if output_size is None:
            return self.output_padding
        extra = len(output_size) - self.dims
        if extra and not (extra == input.ndim - self.dims and extra in (1, 2)):
            raise ShapeError(
                f"{type(self).__name__}(output_size={tuple(output_size)}): needs {self.dims} "
                f"numbers, or one for each dimension of the input of {show(input.shape)}."
            )
        least = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                input.shape[-self.dims :], self.stride, self.padding, self.dilation,
                self.kernel_size, strict=True,
            )
        ]  # fmt: skip
        added = [n - low for n, low in zip(output_size[extra:], least, strict=True)]
        if any(not 0 <= more < step for more, step in zip(added, self.stride, strict=True)):
            most = [low + step - 1 for low, step in zip(least, self.stride, strict=True)]
            raise ValueRangeError(
                f"{type(self).__name__}(output_size={tuple(output_size)}): an input of "
                f"{show(input.shape)} gives from {show(least)} to {show(most)}."
            )
        return tuple(added)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        convolve = getattr(functional, f"conv_transpose{self.dims}d")
        added = self._output_padding(input, output_size)
        return convolve(
            input, self.weight, self.bias, self.stride, self.padding, added, self.groups,
            self.dilation,
        )  # fmt: skip


# --- channels taken from the first input ---------------------------------------------------------


class _LazyConvXdMixin(LazyModuleMixin):
    """A convolution that takes in_channels from its first input."""

    def _wait(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        """Hold parameters that have no shape yet."""
        this: Any = self
        this.out_channels = out_channels
        this.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            this.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        this: Any = self
        if not self.has_uninitialized_params() and this.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Take in_channels from an input, and draw weight and bias."""
        this: Any = self
        if input.ndim not in (this.dims + 1, this.dims + 2):
            raise ShapeError(
                f"{type(self).__name__}: needs {this.dims + 2} dimensions, or {this.dims + 1} "
                f"without a batch, got an input of {show(input.shape)}."
            )
        if this.in_channels == 0:
            this.in_channels = input.shape[-this.dims - 1]
        if this.in_channels % this.groups:
            raise ValueRangeError(
                f"{type(self).__name__}(groups={this.groups}): the input of {show(input.shape)} "
                f"has {this.in_channels} channels, which groups must divide."
            )
        if self.has_uninitialized_params():  # not where a state dict was loaded
            this.weight.materialize(this._weight_shape())
            if this.bias is not None:
                this.bias.materialize((this.out_channels,))
            this.reset_parameters()


class LazyConvolution(_LazyConvXdMixin, _Convolution):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: str | Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._wait(out_channels, bias, device, dtype)


class LazyTransposedConvolution(_LazyConvXdMixin, _ConvTransposeNd):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
            padding_mode, device, dtype,
        )  # fmt: skip
        self._wait(out_channels, bias, device, dtype)

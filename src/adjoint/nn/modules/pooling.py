"""Pooling: the largest element, the mean or a norm of each window, and back.

Families of one, two and three dimensions differ in `dims`, which says which function they call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from adjoint.core.errors import ValueRangeError
from adjoint.nn import functional
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.utils import _ntuple, _single
from adjoint.tensor.tensor import Tensor

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip

Sizes = int | Sequence[int]


# --- the largest ---------------------------------------------------------------------------------


class _MaxPoolNd(Module):
    """The largest element of each window; the stride is the window's size if it is not given."""

    dims: ClassVar[int]
    return_indices: bool
    ceil_mode: bool

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        pool = getattr(functional, f"max_pool{self.dims}d")
        return pool(
            input, self.kernel_size, self.stride, self.padding, self.dilation,
            ceil_mode=self.ceil_mode, return_indices=self.return_indices,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The largest element of each window of signals (…, channels, length).

    With `return_indices` also where it was, for `MaxUnpool1d`.

    >>> import adjoint as ad
    >>> ad.nn.MaxPool1d(2)(ad.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """

    dims = 1


class MaxPool2d(_MaxPoolNd):
    """The largest element of each window of images (…, channels, height, width).

    >>> import adjoint as ad
    >>> layer = ad.nn.MaxPool2d(2)
    >>> layer
    MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    >>> layer(ad.arange(8.0).reshape(1, 2, 4))
    tensor([[[5., 7.]]])
    """

    dims = 2


class MaxPool3d(_MaxPoolNd):
    """The largest element of each window of volumes (…, channels, depth, height, width).

    >>> import adjoint as ad
    >>> ad.nn.MaxPool3d(2)(ad.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[7.]]]])
    """

    dims = 3


class _MaxUnpoolNd(Module):
    """Elements back where max pooling found them, zeros elsewhere."""

    dims: ClassVar[int]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        each = _ntuple(self.dims)
        self.kernel_size = each(kernel_size)
        self.stride = self.kernel_size if stride is None else each(stride)
        self.padding = each(padding)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        unpool = getattr(functional, f"max_unpool{self.dims}d")
        return unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Elements back where `MaxPool1d(…, return_indices=True)` found them, zeros elsewhere.

    >>> import adjoint as ad
    >>> values, where = ad.nn.MaxPool1d(2, return_indices=True)(ad.tensor([[1.0, 3.0, 2.0, 0.0]]))
    >>> ad.nn.MaxUnpool1d(2)(values, where)
    tensor([[0., 3., 2., 0.]])
    """

    dims = 1


class MaxUnpool2d(_MaxUnpoolNd):
    """Elements back where `MaxPool2d(…, return_indices=True)` found them, zeros elsewhere.

    >>> import adjoint as ad
    >>> values, where = ad.nn.MaxPool2d(2, return_indices=True)(ad.arange(4.0).reshape(1, 2, 2))
    >>> ad.nn.MaxUnpool2d(2)(values, where)
    tensor([[[0., 0.],
             [0., 3.]]])
    """

    dims = 2


class MaxUnpool3d(_MaxUnpoolNd):
    """Elements back where `MaxPool3d(…, return_indices=True)` found them, zeros elsewhere.

    >>> import adjoint as ad
    >>> values, where = ad.nn.MaxPool3d(2, return_indices=True)(ad.ones(1, 2, 2, 2))
    >>> ad.nn.MaxUnpool3d(2)(values, where).sum()
    tensor(1.)
    """

    dims = 3


# --- the mean ------------------------------------------------------------------------------------


class _AvgPoolNd(Module):
    """What mean pooling shows of itself."""

    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of signals (…, channels, length).

    `count_include_pad` says whether padding counts as zeros.

    >>> import adjoint as ad
    >>> ad.nn.AvgPool1d(2)(ad.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = self.kernel_size if stride is None else _single(stride)
        self.padding = _single(padding)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return functional.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad,
        )  # fmt: skip


class _AvgPoolSeveral(_AvgPoolNd):
    """The mean of each window of images or volumes; `divisor_override` divides the sum instead."""

    dims: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        pool = getattr(functional, f"avg_pool{self.dims}d")
        return pool(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip


class AvgPool2d(_AvgPoolSeveral):
    """The mean of each window of images (…, channels, height, width).

    `count_include_pad` says whether padding counts as zeros; `divisor_override` divides the sum in
    place of the number of elements.

    >>> import adjoint as ad
    >>> ad.nn.AvgPool2d(2)(ad.arange(8.0).reshape(1, 2, 4))
    tensor([[[2.5000, 4.5000]]])
    """

    dims = 2


class AvgPool3d(_AvgPoolSeveral):
    """The mean of each window of volumes; arguments are those of `AvgPool2d`.

    >>> import adjoint as ad
    >>> ad.nn.AvgPool3d(2)(ad.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[3.5000]]]])
    """

    dims = 3


# --- windows at random places --------------------------------------------------------------------


class _FractionalMaxPool(Module):
    """The largest element of windows at random places; the result has a size or a part of it."""

    dims: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        each = _ntuple(self.dims)
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            raise ValueRangeError(
                f"{name}(output_size={output_size}, output_ratio={output_ratio}): give one of the "
                "two."
            )
        self.kernel_size = each(kernel_size)
        if any(size <= 0 for size in self.kernel_size):
            raise ValueRangeError(f"{name}(kernel_size={kernel_size}): it must be positive.")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else each(output_size)
        self.output_ratio = None if output_ratio is None else each(output_ratio)
        if self.output_ratio is not None and not all(0 < part < 1 for part in self.output_ratio):
            raise ValueRangeError(
                f"{name}(output_ratio={output_ratio}): it must be within 0 and 1."
            )

    def forward(self, input: Tensor) -> Any:
        pool = getattr(functional, f"fractional_max_pool{self.dims}d")
        return pool(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest element of windows at random places of images.

    `output_size` is the size of the result, `output_ratio` a part of the input's.

    >>> import adjoint as ad
    >>> ad.nn.FractionalMaxPool2d(2, output_ratio=0.5)(ad.ones(1, 3, 8, 6)).shape
    (1, 3, 4, 3)
    """

    dims = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest element of windows at random places of volumes.

    >>> import adjoint as ad
    >>> ad.nn.FractionalMaxPool3d(2, output_size=3)(ad.ones(1, 3, 8, 8, 8)).shape
    (1, 3, 3, 3, 3)
    """

    dims = 3


# --- norms ---------------------------------------------------------------------------------------


class _LPPoolNd(Module):
    """The norm of each window, (Σ xᵖ)^(1/p)."""

    dims: ClassVar[int]

    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        if norm_type == 0:
            raise ValueRangeError(f"{type(self).__name__}(norm_type=0): there is no such norm.")
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        pool = getattr(functional, f"lp_pool{self.dims}d")
        return pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """The norm (Σ xᵖ)^(1/p) of each window of signals.

    >>> import adjoint as ad
    >>> ad.nn.LPPool1d(2, 2)(ad.tensor([[3.0, 4.0, 0.0, 1.0]]))
    tensor([[5., 1.]])
    """

    dims = 1


class LPPool2d(_LPPoolNd):
    """The norm (Σ xᵖ)^(1/p) of each window of images.

    >>> import adjoint as ad
    >>> ad.nn.LPPool2d(2, 2)(ad.ones(1, 2, 2))
    tensor([[[2.]]])
    """

    dims = 2


class LPPool3d(_LPPoolNd):
    """The norm (Σ xᵖ)^(1/p) of each window of volumes.

    >>> import adjoint as ad
    >>> ad.nn.LPPool3d(1, 2)(ad.ones(1, 2, 2, 2))
    tensor([[[[8.]]]])
    """

    dims = 3


# --- results of a given size ---------------------------------------------------------------------


class _AdaptiveMaxPoolNd(Module):
    """The largest elements of windows that are chosen for the size of the result."""

    dims: ClassVar[int]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        pool = getattr(functional, f"adaptive_max_pool{self.dims}d")
        return pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest elements of signals of any length, as signals of a given one.

    >>> import adjoint as ad
    >>> ad.nn.AdaptiveMaxPool1d(2)(ad.arange(6.0).reshape(1, 6))
    tensor([[2., 5.]])
    """

    dims = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest elements of images of any size, as images of a given one; None keeps it.

    >>> import adjoint as ad
    >>> ad.nn.AdaptiveMaxPool2d((2, None))(ad.ones(1, 3, 8, 9)).shape
    (1, 3, 2, 9)
    """

    dims = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest elements of volumes of any size, as volumes of a given one; None keeps it.

    >>> import adjoint as ad
    >>> ad.nn.AdaptiveMaxPool3d(2)(ad.ones(1, 3, 4, 5, 6)).shape
    (1, 3, 2, 2, 2)
    """

    dims = 3


class _AdaptiveAvgPoolNd(Module):
    """The means of windows that are chosen for the size of the result."""

    dims: ClassVar[int]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return getattr(functional, f"adaptive_avg_pool{self.dims}d")(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The means of signals of any length, as signals of a given one.

    >>> import adjoint as ad
    >>> ad.nn.AdaptiveAvgPool1d(2)(ad.arange(6.0).reshape(1, 6))
    tensor([[1., 4.]])
    """

    dims = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The means of images of any size, as images of a given one; None keeps it.

    >>> import adjoint as ad
    >>> ad.nn.AdaptiveAvgPool2d(1)(ad.ones(2, 3, 8, 9)).shape
    (2, 3, 1, 1)
    """

    dims = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The means of volumes of any size, as volumes of a given one; None keeps it.

    >>> import adjoint as ad
    >>> ad.nn.AdaptiveAvgPool3d((None, 2, 2))(ad.ones(1, 3, 4, 5, 6)).shape
    (1, 3, 4, 2, 2)
    """

    dims = 3

"""Paddings: more elements before and after the last dimensions.

A number pads both sides of all dimensions; else there are two for each, the last dimension first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from adjoint.core.errors import ShapeError
from adjoint.core.shapes import show
from adjoint.nn import functional
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.utils import _ntuple
from adjoint.tensor.tensor import Tensor

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip

Sizes = int | Sequence[int]


class _Pad(Module):
    """Padding of the last `dims` dimensions by what is there already, in some `mode`."""

    mode: ClassVar[str]
    dims: ClassVar[int]

    def __init__(self, padding: Sizes) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self.dims)(padding)

    def forward(self, input: Tensor) -> Tensor:
        return functional.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


# --- constants -----------------------------------------------------------------------------------


class _ConstantPadNd(_Pad):
    """Padding with a number."""

    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return functional.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """A number before and after the last dimension.

    >>> import adjoint as ad
    >>> ad.nn.ConstantPad1d((2, 1), 9.0)(ad.ones(1, 2))
    tensor([[9., 9., 1., 1., 9.]])
    """

    dims = 1


class ConstantPad2d(_ConstantPadNd):
    """A number around the last two dimensions: left, right, top, bottom.

    >>> import adjoint as ad
    >>> ad.nn.ConstantPad2d((1, 0, 0, 1), 9.0)(ad.ones(1, 1, 1))
    tensor([[[9., 1.],
             [9., 9.]]])
    """

    dims = 2


class ConstantPad3d(_ConstantPadNd):
    """A number around the last three dimensions.

    >>> import adjoint as ad
    >>> ad.nn.ConstantPad3d(1, 9.0)(ad.ones(1, 2, 2, 2)).shape
    (1, 4, 4, 4)
    """

    dims = 3


class _ZeroPad(_ConstantPadNd):
    def __init__(self, padding: Sizes) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Zeros before and after the last dimension.

    >>> import adjoint as ad
    >>> ad.nn.ZeroPad1d(1)(ad.ones(1, 2))
    tensor([[0., 1., 1., 0.]])
    """


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Zeros around the last two dimensions: left, right, top, bottom.

    >>> import adjoint as ad
    >>> ad.nn.ZeroPad2d((1, 0, 0, 1))(ad.ones(1, 1, 1))
    tensor([[[0., 1.],
             [0., 0.]]])
    """


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Zeros around the last three dimensions.

    >>> import adjoint as ad
    >>> ad.nn.ZeroPad3d(1)(ad.ones(1, 2, 2, 2)).shape
    (1, 4, 4, 4)
    """


# --- what is there already -----------------------------------------------------------------------


class _ReflectionPadNd(_Pad):
    mode = "reflect"


class _ReplicationPadNd(_Pad):
    mode = "replicate"


class _CircularPadNd(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (self.dims + 1, self.dims + 2):
            raise ShapeError(
                f"{type(self).__name__}: needs {self.dims + 2} dimensions, or {self.dims + 1} "
                f"without a batch, got an input of {show(input.shape)}."
            )
        return super().forward(input)


class ReflectionPad1d(_ReflectionPadNd):
    """The mirror image on both sides of the last dimension.

    >>> import adjoint as ad
    >>> ad.nn.ReflectionPad1d(2)(ad.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """

    dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """The mirror image around the last two dimensions.

    >>> import adjoint as ad
    >>> ad.nn.ReflectionPad2d(1)(ad.ones(1, 2, 3)).shape
    (1, 4, 5)
    """

    dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """The mirror image around the last three dimensions.

    >>> import adjoint as ad
    >>> ad.nn.ReflectionPad3d(1)(ad.ones(1, 2, 2, 2)).shape
    (1, 4, 4, 4)
    """

    dims = 3


class ReplicationPad1d(_ReplicationPadNd):
    """The first and last element, repeated on both sides of the last dimension.

    >>> import adjoint as ad
    >>> ad.nn.ReplicationPad1d(2)(ad.tensor([[1.0, 2.0]]))
    tensor([[1., 1., 1., 2., 2., 2.]])
    """

    dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """The edges, repeated around the last two dimensions.

    >>> import adjoint as ad
    >>> ad.nn.ReplicationPad2d(1)(ad.ones(1, 2, 3)).shape
    (1, 4, 5)
    """

    dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """The faces, repeated around the last three dimensions.

    >>> import adjoint as ad
    >>> ad.nn.ReplicationPad3d(1)(ad.ones(1, 2, 2, 2)).shape
    (1, 4, 4, 4)
    """

    dims = 3


class CircularPad1d(_CircularPadNd):
    """The other end, on both sides of the last dimension.

    >>> import adjoint as ad
    >>> ad.nn.CircularPad1d(1)(ad.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 1., 2., 3., 1.]])
    """

    dims = 1


class CircularPad2d(_CircularPadNd):
    """The other end, around the last two dimensions.

    >>> import adjoint as ad
    >>> ad.nn.CircularPad2d(1)(ad.ones(1, 2, 3)).shape
    (1, 4, 5)
    """

    dims = 2


class CircularPad3d(_CircularPadNd):
    """The other end, around the last three dimensions.

    >>> import adjoint as ad
    >>> ad.nn.CircularPad3d(1)(ad.ones(1, 2, 2, 2)).shape
    (1, 4, 4, 4)
    """

    dims = 3

"""Paddings: more elements before and after the last dimensions."""

from __future__ import annotations

from adjoint.core.errors import ShapeError
from adjoint.core.shapes import show
from adjoint.nn.modules import made
from adjoint.tensor.tensor import Tensor

__getattr__, __dir__, __all__ = made.door(globals())


def with_channels(dims: int, input: Tensor) -> Tensor:
    """The input of a module that pads `dims` dimensions in a circle."""
    if input.ndim not in (dims + 1, dims + 2):
        raise ShapeError(
            f"CircularPad{dims}d: needs {dims + 2} dimensions, or {dims + 1} without a batch, got "
            f"an input of {show(input.shape)}."
        )
    return input

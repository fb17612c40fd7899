"""Dropouts: words of the rows that drop whole channels."""

from __future__ import annotations

from adjoint import ops
from adjoint.core.errors import ShapeError
from adjoint.core.shapes import show
from adjoint.core.source_lines import warn
from adjoint.tensor.tensor import Tensor


def channels_dropped(
    input: Tensor, p: float, training: bool, inplace: bool, has_batch: bool
) -> Tensor:
    """Dropout of whole channels; an input without a batch gets one for the time being."""
    drop = ops.feature_dropout_ if inplace else ops.feature_dropout
    if has_batch:
        return drop(input, p, training)
    result = drop(input.unsqueeze(0), p, training)
    return input if inplace else result.squeeze(0)


def has_batch_1d(input: Tensor) -> bool:
    if input.ndim not in (2, 3):
        raise ShapeError(
            f"dropout1d: needs 3 dimensions, or 2 without a batch, got an input of "
            f"{show(input.shape)}."
        )
    return input.ndim == 3


def has_batch_2d(input: Tensor) -> bool:
    """True: three dimensions are N×C×L, as in PyTorch."""
    _few("dropout2d", input, 3, 4)
    if input.ndim == 3:
        warn(
            "dropout2d: an input of 3 dimensions is a batch of channels with one dimension each; "
            "use dropout1d for it, or unsqueeze(0) an image without a batch"
        )
    return True


def has_batch_3d(input: Tensor) -> bool:
    _few("dropout3d", input, 4, 5)
    return input.ndim != 4


def _few(name: str, input: Tensor, *ranks: int) -> None:
    """Warn of an input that PyTorch takes as well, though channels are hardly what is meant."""
    if input.ndim < 2:
        raise ShapeError(f"{name}: needs channels, dimension 1; got {show(input.shape)}.")
    if input.ndim not in ranks:
        warn(
            f"{name}: is for inputs of {ranks[-1]} dimensions; each channel (dimension 1) of "
            f"{show(input.shape)} is dropped on its own."
        )

"""Dropouts with PyTorch's signatures in Python."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.errors import ShapeError
from adjoint.core.shapes import show

Tensor = Any


def _apply(name: str, inplace: bool, input: Tensor, p: float, training: bool) -> Tensor:
    return getattr(ops, f"{name}_" if inplace else name)(input, p, training)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set each element to 0 with probability p, and scale the others by 1/(1 - p)."""
    return _apply("dropout", inplace, input, p, training)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout to the far left value of selu, keeping mean 0 and variance 1."""
    return _apply("alpha_dropout", inplace, input, p, training)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """alpha_dropout of whole channels."""
    return _apply("feature_alpha_dropout", inplace, input, p, training)


def _channels(
    name: str, input: Tensor, p: float, training: bool, inplace: bool, *, ndim: int
) -> Tensor:
    """Dropout of whole channels; without a batch (one dimension fewer) one is added and removed."""
    if input.ndim not in (ndim - 1, ndim):
        raise ShapeError(
            f"{name}: needs {ndim} dimensions, or {ndim - 1} without a batch, got an input of "
            f"{show(input.shape)}."
        )
    if input.ndim == ndim:
        return _apply("feature_dropout", inplace, input, p, training)
    result = _apply("feature_dropout", inplace, input.unsqueeze(0), p, training)
    return input if inplace else result.squeeze(0)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels N×C×L."""
    return _channels("dropout1d", input, p, training, inplace, ndim=3)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels N×C×H×W (three dimensions are N×C×L, as in PyTorch)."""
    if input.ndim not in (3, 4):
        return _channels("dropout2d", input, p, training, inplace, ndim=4)
    return _apply("feature_dropout", inplace, input, p, training)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels N×C×D×H×W."""
    return _channels("dropout3d", input, p, training, inplace, ndim=5)

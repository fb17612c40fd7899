"""Dropouts with PyTorch's signatures in Python."""

from __future__ import annotations

from adjoint import ops
from adjoint.core.errors import ShapeError
from adjoint.core.shapes import show
from adjoint.core.source_lines import warn
from adjoint.tensor.tensor import Tensor


def _apply(name: str, inplace: bool, input: Tensor, p: float, training: bool) -> Tensor:
    return getattr(ops, f"{name}_" if inplace else name)(input, p, training)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set each element to 0 with probability p, and scale the others by 1/(1 - p).

    >>> import adjoint as ad
    >>> ad.nn.functional.dropout(ad.ones(3), training=False)
    tensor([1., 1., 1.])
    """
    return _apply("dropout", inplace, input, p, training)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout to the far left value of selu, keeping mean 0 and variance 1.

    >>> import adjoint as ad
    >>> ad.nn.functional.alpha_dropout(ad.ones(3), training=False)
    tensor([1., 1., 1.])
    """
    return _apply("alpha_dropout", inplace, input, p, training)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """alpha_dropout of whole channels.

    >>> import adjoint as ad
    >>> ad.nn.functional.feature_alpha_dropout(ad.ones(2, 3, 4)).shape
    (2, 3, 4)
    """
    return _apply("feature_alpha_dropout", inplace, input, p, training)


def _few(name: str, input: Tensor, *ranks: int) -> None:
    """Warn of an input that PyTorch takes as well, though channels are hardly what is meant."""
    if input.ndim < 2:
        raise ShapeError(f"{name}: needs channels, dimension 1; got {show(input.shape)}.")
    if input.ndim not in ranks:
        warn(
            f"{name}: is for inputs of {ranks[-1]} dimensions; each channel (dimension 1) of "
            f"{show(input.shape)} is dropped on its own."
        )


def _of_channels(
    input: Tensor, p: float, training: bool, inplace: bool, *, has_batch: bool
) -> Tensor:
    """Dropout of whole channels; an input without a batch gets one for the time being."""
    if has_batch:
        return _apply("feature_dropout", inplace, input, p, training)
    result = _apply("feature_dropout", inplace, input.unsqueeze(0), p, training)
    return input if inplace else result.squeeze(0)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels N×C×L, or C×L.

    >>> import adjoint as ad
    >>> ad.nn.functional.dropout1d(ad.ones(2, 3, 4)).shape
    (2, 3, 4)
    """
    if input.ndim not in (2, 3):
        raise ShapeError(
            f"dropout1d: needs 3 dimensions, or 2 without a batch, got an input of "
            f"{show(input.shape)}."
        )
    return _of_channels(input, p, training, inplace, has_batch=input.ndim == 3)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels N×C×H×W (three dimensions are N×C×L, as in PyTorch).

    >>> import adjoint as ad
    >>> ad.nn.functional.dropout2d(ad.ones(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """
    _few("dropout2d", input, 3, 4)
    if input.ndim == 3:
        warn(
            "dropout2d: an input of 3 dimensions is a batch of channels with one dimension each; "
            "use dropout1d for it, or unsqueeze(0) an image without a batch"
        )
    return _of_channels(input, p, training, inplace, has_batch=True)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels N×C×D×H×W, or C×D×H×W.

    >>> import adjoint as ad
    >>> ad.nn.functional.dropout3d(ad.ones(2, 3, 4, 4, 4)).shape
    (2, 3, 4, 4, 4)
    """
    _few("dropout3d", input, 4, 5)
    return _of_channels(input, p, training, inplace, has_batch=input.ndim != 4)

"""Channels as pixels, and back."""

from __future__ import annotations

from adjoint.nn import functional
from adjoint.nn.modules.module import Module
from adjoint.tensor.tensor import Tensor

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """Images (…, C·r², H, W) as (…, C, H·r, W·r): channels become neighbouring pixels.

    >>> import adjoint as ad
    >>> ad.nn.PixelShuffle(2)(ad.ones(1, 8, 3, 4)).shape
    (1, 2, 6, 8)
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return functional.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Images (…, C, H·r, W·r) as (…, C·r², H, W): neighbouring pixels become channels.

    >>> import adjoint as ad
    >>> ad.nn.PixelUnshuffle(2)(ad.ones(1, 2, 6, 8)).shape
    (1, 8, 3, 4)
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return functional.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"

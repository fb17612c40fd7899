"""Channels to pixels and back, and channels in another order, as views and a copy."""

from __future__ import annotations

from typing import Any

from adjoint.checks import resampling

Tensor = Any


def pixel_shuffle(self: Tensor, upscale_factor: int) -> Tensor:
    """Every r² channels as one, whose pixels are squares of r × r."""
    return _moved(self, resampling.pixel_shuffle(tuple(self.shape), upscale_factor))


def pixel_unshuffle(self: Tensor, downscale_factor: int) -> Tensor:
    """Squares of r × r pixels as r² channels."""
    return _moved(self, resampling.pixel_unshuffle(tuple(self.shape), downscale_factor))


def channel_shuffle(self: Tensor, groups: int) -> Tensor:
    """The first channel of every group, then the second, …"""
    return _moved(self, resampling.channel_shuffle(tuple(self.shape), groups))


def _moved(self: Tensor, moves: resampling.Moves) -> Tensor:
    split, groups = moves
    parts = self.reshape(split).permute([d for group in groups for d in group])
    return parts.clone().reshape(resampling.shape_after(moves))

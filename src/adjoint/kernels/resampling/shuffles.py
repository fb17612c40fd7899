"""Channels to pixels and back, and channels in another order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.checks import resampling
from adjoint.kernels.resampling.common import memory_order

Array = np.ndarray[Any, np.dtype[Any]]


def pixel_shuffle(self: Array, upscale_factor: int) -> Array:
    """Every r² channels as one, whose pixels are squares of r × r."""
    return _moved(self, *resampling.pixel_shuffle(self.shape, upscale_factor))


def pixel_unshuffle(self: Array, downscale_factor: int) -> Array:
    """Squares of r × r pixels as r² channels."""
    return _moved(self, *resampling.pixel_unshuffle(self.shape, downscale_factor))


def channel_shuffle(self: Array, groups: int) -> Array:
    """The first channel of every group, then the second, …"""
    return _moved(self, *resampling.channel_shuffle(self.shape, groups))


def _moved(self: Array, split: Sequence[int], groups: Sequence[Sequence[int]]) -> Array:
    """Split dimensions in another order, joined in groups; channels that are last stay last."""
    order = memory_order(self)
    if len(order) != len(groups):
        order = list(range(len(groups)))
    parts = self.reshape(split).transpose([d for i in order for d in groups[i]])
    sizes = [math.prod(split[d] for d in groups[i]) for i in order]
    return parts.copy().reshape(sizes).transpose(np.argsort(order))

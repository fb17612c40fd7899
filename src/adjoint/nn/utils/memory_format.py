"""Weights of convolutions in another order in memory."""

from __future__ import annotations

from typing import Any

from adjoint.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from adjoint.nn.modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Module, kinds: tuple[type[Module], ...], memory_format: Any) -> Any:
    for each in module.modules():
        if isinstance(each, kinds):
            weight: Any = each.weight
            weight.data = weight.detach().clone().contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Any:
    """Put the weights of all 2-d convolutions of a module in a memory format, in place."""
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Any:
    """Put the weights of all 3-d convolutions of a module in a memory format, in place."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)

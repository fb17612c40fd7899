"""Channels in another order."""

from __future__ import annotations

from adjoint.nn import functional
from adjoint.nn.modules.module import Module
from adjoint.tensor.tensor import Tensor

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Channels (dimension 1) of several groups, taken in turn from each of them.

    >>> import adjoint as ad
    >>> ad.nn.ChannelShuffle(2)(ad.arange(4.0).reshape(1, 4, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return functional.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"

"""`ad.nn.utils`: helpers of neural networks, under PyTorch's names."""

from __future__ import annotations

from adjoint.nn.utils import rnn

__all__ = ["rnn"]

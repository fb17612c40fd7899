"""`ad.nn`: functions of neural networks, under PyTorch's names."""

from __future__ import annotations

from adjoint.nn import functional, utils
from adjoint.nn.functional.linear_losses import LinearCrossEntropyOptions
from adjoint.nn.parameter import Parameter

__all__ = ["LinearCrossEntropyOptions", "Parameter", "functional", "utils"]

"""Pooling: the largest element, the mean or a norm of each window, and back."""

from __future__ import annotations

from adjoint.nn.modules import made

__getattr__, __dir__, __all__ = made.door(globals())

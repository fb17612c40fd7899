"""Adamax, Adam with the largest gradient in place of the mean square."""

from __future__ import annotations

from adjoint.optim import made

__getattr__, __dir__, __all__ = made.door(globals())

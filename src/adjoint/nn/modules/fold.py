"""Windows of images as columns, and back."""

from __future__ import annotations

from adjoint.nn.modules import made

__getattr__, __dir__, __all__ = made.door(globals())

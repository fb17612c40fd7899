"""`ad.cuda`: NVIDIA's devices, of which there are none here; programs ask `is_available()`."""

from __future__ import annotations

from adjoint.accelerators import door
from adjoint.cuda import amp as amp

__getattr__, __all__ = door(globals(), "cuda", "amp")

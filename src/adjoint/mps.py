"""`ad.mps`: Apple's devices, of which there are none here; programs ask `is_available()`."""

from __future__ import annotations

from adjoint.accelerators import door

__getattr__, __all__ = door(globals(), "mps")

"""`ad.signal`: tools of signal processing, under PyTorch's names."""

from __future__ import annotations

from adjoint.signal import windows

__all__ = ["windows"]

"""`ad.version`: versions under the names of `torch.version`; None for what is not here."""

from __future__ import annotations

from adjoint._version import __version__

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

cuda: str | None = None
hip: str | None = None
xpu: str | None = None
debug = False
git_version = "unknown"

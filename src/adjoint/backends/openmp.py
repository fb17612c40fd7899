"""OpenMP, by which native kernels share their loops among threads."""

from __future__ import annotations

from adjoint.toolchain.discovery import toolchain


def is_available() -> bool:
    """Whether the C compiler here has OpenMP."""
    found = toolchain()
    return found is not None and "-fopenmp" in found.flags

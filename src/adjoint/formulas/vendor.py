"""Derivatives of rows that carry a vendor's name, or test PyTorch's table."""

from __future__ import annotations

from typing import Any

from adjoint.core.source_lines import warn

Tensor = Any


def warned(grad: Tensor) -> Tensor:
    """The gradient, after a warning: users see that backward passes may warn."""
    warn("Warn from backward")
    return grad

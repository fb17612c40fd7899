"""Whether forward mode differentiates a tensor, for rules that save work where nothing does."""

from __future__ import annotations

from typing import Any

Tensor = Any


def direction_of(A: Tensor) -> Any:
    """The tangent that a tensor carries in forward mode, here or below a gradient; or None."""
    home = getattr(A, "home", None)  # values of a trace have no home
    return None if home is None else home.direction(A)


def is_differentiated(A: Tensor) -> bool:
    """Whether a derivative in a tensor may be asked for, in any mode."""
    return A.requires_grad or direction_of(A) is not None

"""The direction that forward mode differentiates along, for rules that must choose by it.

Where several factorisations are equally right (vectors of repeated eigenvalues), the tangent says
which one stays right beside the point.
"""

from __future__ import annotations

from typing import Any

Tensor = Any


def direction_of(A: Tensor) -> Any:
    """The tangent that a tensor carries in forward mode, here or below a gradient; or None.

    Repeated values part along it, which chooses the basis: Note [Repeated values].
    """
    if not hasattr(type(A), "tangent") or _slot(A, "axis") is not None:
        return None  # of a batch, below is another shape
    tangent = _slot(A, "tangent")
    return direction_of(getattr(A, "value", None)) if tangent is None else tangent


def _slot(A: Tensor, name: str) -> Any:
    """What a slot of a tensor holds; None if it is empty."""
    try:
        return object.__getattribute__(A, name)
    except AttributeError:
        return None

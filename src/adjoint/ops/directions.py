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
    home = getattr(A, "home", None)  # what the tensors of a trace hold has none
    return None if home is None else home.direction(A)

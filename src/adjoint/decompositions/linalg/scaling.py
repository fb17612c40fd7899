"""Matrices brought near 1 by a power of two, for functions that do not depend on their size."""

from __future__ import annotations

from typing import Any

from adjoint import ops

Tensor = Any


def near_one(self: Tensor) -> Tensor:
    """Matrices times a power of two, so that their largest elements are about 1.

    Squares and inverses then stay in the range. Nothing is rounded, and the power is a constant.
    """
    if 0 in self.shape:
        return self
    top = self.abs().amax((-2, -1), True).detach()
    return ops.ldexp(self, -ops.frexp(top)[1])

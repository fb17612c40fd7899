"""What rules ask of a tensor at a kink, and where eigenvalues repeat; its home answers.

See Note [Kinks] in tensor/limits.py.
"""

from __future__ import annotations

import math
from typing import Any

from adjoint.core.infinitesimal import infinitesimal, kinks
from adjoint.core.state import current

Tensor = Any


def is_limit(A: Tensor) -> bool:
    """Whether a tensor came from a kink, so that formulas need no care of their own."""
    home = getattr(A, "home", None)  # what the tensors of a trace hold has none
    return home is not None and home.is_limit(A)


def meets_kink(A: Tensor) -> bool:
    """Whether a tensor is differentiated, and 0 somewhere (of a traced one: differentiated twice).

    For operators with a faster formula that does not hold there.
    """
    if not hasattr(A, "home"):
        return current().differentiating > 1
    if A.home is not None:
        return A.home.meets_kink(A)
    watched = A.edge is not None or current().differentiating
    return bool(watched) and not A.value.all()


def without_infinite(grad: Tensor, length: Tensor, factor: Tensor | None = None) -> Tensor:
    """A gradient, in a first derivative 0 where it is infinite divided by a length.

    A first backward pass has no end at which an infinite derivative could be told from a finite
    one, so it is told here. Later ones pass infinite numbers on the way to finite ones.
    """
    if not (kinks.met and current().first_pass):
        return grad
    limit = infinitesimal(length.dtype.to_real().np)
    size = (grad if factor is None else grad * factor).abs()
    return grad.masked_fill((length == limit) & (size >= math.sqrt(limit)), 0)

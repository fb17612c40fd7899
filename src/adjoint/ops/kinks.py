"""Questions of rules about tensors at kinks; the tensor's home answers.

See Note [Kinks] in homes/limits.py.
"""

from __future__ import annotations

from typing import Any

from adjoint.core.state import current

Tensor = Any


def is_limit(A: Tensor) -> bool:
    """Whether a tensor came from a kink, so that formulas need no special case."""
    home = getattr(A, "home", None)  # values of a trace have no home
    return home is not None and home.is_limit(A)


def may_be_near(length: Tensor) -> bool:
    """Whether a length, a real number, may be infinitely small: then it is complex, or has a
    complex near tensor.
    """
    return length.is_complex() or is_limit(length)


def meets_kink(A: Tensor) -> bool:
    """Whether a tensor is differentiated and 0 somewhere; for a traced one, whether it is
    differentiated twice.

    For operators with a faster formula that does not hold there.
    """
    if not hasattr(A, "home"):
        return current().differentiating > 1
    if A.home is not None:
        return A.home.meets_kink(A)
    watched = A.edge is not None or current().differentiating
    return bool(watched) and not A.value.all()

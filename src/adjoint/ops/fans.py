"""What rules ask about clusters of values: Note [Repeated values] in kernels/linalg/clusters.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.core.state import current

Tensor = Any

_FIRST_ORDER = 0.025  # by chance one matrix in thousands has gaps below this, over √(its size)
_IN_A_GRAPH = 3e-4  # a compiled function that meets a cluster runs eagerly, so they should be rare
_HIGHER_ORDER = {2: 0.04}  # from here on the gap itself does no more harm than a fan
_HIGHEST = 0.08  # as much of third derivatives


def is_fan(A: Tensor) -> bool:
    """Whether a tensor stands for a fan, whose formulas need no care of their own."""
    home = getattr(A, "home", None)  # what the tensors of a trace hold has none
    return home is not None and home.is_fan(A)


def order_ahead() -> int:
    """Of which order the derivatives are at least that will be taken of what is computed now."""
    now = current()
    return now.differentiating + now.orders


def closeness(count: int, order: int) -> float:
    """Up to which part of its distance to the others a gap between `count` values is a cluster's.

    A derivative of order n loses a factor of 1/gapⁿ.
    """
    if order > 1:
        return _HIGHER_ORDER.get(order, _HIGHEST)
    return _FIRST_ORDER / math.sqrt(max(count, 1))


def closeness_in_graph(values: Tensor, order: int) -> float:
    """The same where values are not known yet; of tensors that have values 0: fans see to them."""
    if not is_in_graph(values):
        return 0.0
    return _HIGHER_ORDER.get(order, _HIGHEST) if order > 1 else _IN_A_GRAPH


def is_in_graph(A: Tensor) -> bool:
    """Whether a tensor stands for a value of a graph, here or below a transform."""
    if isinstance(A, np.ndarray):
        return False
    if not hasattr(A, "home"):  # what the tensors of a trace hold
        return True
    return A.home is not None and A.home.is_in_graph(A)

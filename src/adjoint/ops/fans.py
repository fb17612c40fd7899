"""Questions of rules about close eigenvalues: Note [Repeated values] in
kernels/linalg/clusters.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.core.state import current

Tensor = Any

_FIRST_ORDER = 0.025  # by chance one matrix in thousands has gaps below this, over √(its size)
_IN_A_GRAPH = 3e-4  # a compiled function that meets a cluster runs eagerly, so they should be rare
_HIGHER_ORDER = {2: 0.04}  # a larger gap does no more harm than a fan
_HIGHEST = 0.08  # as much of third derivatives


def is_fan(A: Tensor) -> bool:
    """Whether a tensor stands for a fan, whose formulas need no care of their own."""
    home = getattr(A, "home", None)  # values of a trace have no home
    return home is not None and home.is_fan(A)


def order_ahead() -> int:
    """The least order of derivative that will be taken of the values computed now."""
    now = current()
    return now.differentiating + now.orders


def closeness(count: int, order: int) -> float:
    """The largest gap inside a cluster of `count` values, relative to the distance to other values.

    A derivative of order n loses a factor of 1/gapⁿ.
    """
    if order > 1:
        return _HIGHER_ORDER.get(order, _HIGHEST)
    return _FIRST_ORDER / math.sqrt(max(count, 1))


def closeness_in_graph(values: Tensor, order: int) -> float:
    """Like `closeness`, for values of a graph; 0 for known values, which fans handle."""
    if not is_in_graph(values):
        return 0.0
    return _HIGHER_ORDER.get(order, _HIGHEST) if order > 1 else _IN_A_GRAPH


def is_in_graph(A: Tensor) -> bool:
    """Whether a tensor stands for a value of a graph, here or below a transform."""
    if isinstance(A, np.ndarray):
        return False
    if not hasattr(A, "home"):  # a value of a trace
        return True
    return A.home is not None and A.home.is_in_graph(A)

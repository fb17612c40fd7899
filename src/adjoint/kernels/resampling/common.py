"""The order of dimensions in memory, which results keep."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.kernels.images import is_channels_last

Array = np.ndarray[Any, np.dtype[Any]]


def memory_order(x: Array) -> list[int]:
    """The dimensions in memory order: with channels last if x has them last, else unchanged."""
    order = list(range(x.ndim))
    if is_channels_last(x):
        order.append(order.pop(1))
    return order

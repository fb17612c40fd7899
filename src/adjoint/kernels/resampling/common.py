"""The order of dimensions in memory, which results keep."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.kernels.images import is_channels_last

Array = np.ndarray[Any, np.dtype[Any]]


def memory_order(x: Array) -> list[int]:
    """The dimensions as they lie in memory: channels last where they are, else as they are."""
    order = list(range(x.ndim))
    if is_channels_last(x):
        order.append(order.pop(1))
    return order

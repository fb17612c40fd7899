"""The order of dimensions in memory, which results keep."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def memory_order(x: Array) -> list[int]:
    """The dimensions as they lie in memory: channels last where they are, else as they are."""
    order = list(range(x.ndim))
    if x.ndim > 3 and not x.flags.c_contiguous:
        order.append(order.pop(1))
        if not x.transpose(order).flags.c_contiguous:
            order.sort()
    return order

"""Functions of elements on large arrays, piece by piece.

What stands between several passes over a piece stays in the cache, and threads share the pieces:
NumPy lets other threads run while it computes. Results do not depend on the number of threads.
"""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.core.lazy import Lazy
from adjoint.core.threads import threads

futures = Lazy("concurrent.futures")

Array = np.ndarray[Any, Any]
PIECE = 1 << 15  # elements of a piece
LARGE = 1 << 17  # elements from which pieces pay


def by_pieces(compute: Callable[..., Any], *arrays: Array) -> Array:
    """`compute(*arrays)`, a function of elements; in pieces if the arrays are large and contiguous.

    >>> by_pieces(np.add, np.ones(3), np.ones(3))
    array([2., 2., 2.])
    """
    size = arrays[0].size
    shape = arrays[0].shape
    if size < LARGE or any(a.shape != shape or not a.flags.c_contiguous for a in arrays):
        return np.asarray(compute(*arrays))
    flat = [a.reshape(-1) for a in arrays]
    first = compute(*(a[:PIECE] for a in flat))
    result = np.empty(size, first.dtype)
    result[:PIECE] = first

    def work(low: int, high: int) -> None:
        for start in range(low, high, PIECE):
            part = slice(start, min(start + PIECE, high))
            result[part] = compute(*(a[part] for a in flat))

    _share(work, PIECE, size)
    return result.reshape(shape)


def by_rows(compute: Callable[[Array], Array], rows: Array) -> Array:
    """`compute(rows)`, an array of one entry for each row; threads share the rows of a large array.

    >>> by_rows(lambda x: x.max(axis=-1), np.arange(6).reshape(3, 2))
    array([1, 3, 5])
    """
    if rows.size < LARGE or rows.ndim < 2:
        return compute(rows)
    count = min(threads(), len(rows))
    return np.concatenate(_together(compute, [(part,) for part in np.array_split(rows, count)]))


def _share(work: Callable[[int, int], None], low: int, high: int) -> None:
    """Do the work on [low, high) in as many parts as there are threads."""
    step = -(-(high - low) // (threads() * PIECE)) * PIECE
    _together(work, [(start, min(start + step, high)) for start in range(low, high, step)])


def _together(work: Callable[..., Any], parts: list[tuple[Any, ...]]) -> list[Any]:
    """The results of some work on each of several parts, of which this thread does the first."""
    # each in a copy of the context: NumPy's error state is a part of it
    waiting = [
        _pool(os.getpid(), threads()).submit(contextvars.copy_context().run, work, *part)
        for part in parts[1:]
    ]
    return [*(work(*part) for part in parts[:1]), *(each.result() for each in waiting)]


@lru_cache(maxsize=2)
def _pool(process: int, count: int) -> Any:
    """The thread pool of this process: a parent's threads do not survive a fork."""
    return futures.ThreadPoolExecutor(count - 1, thread_name_prefix="adjoint")

"""LSTM layers over time, in C (recurrent.c).

Arrays are float32 or float64. The functions return None if there is no native code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.c_kernels.copies import contiguous

Array = np.ndarray[Any, Any]


def _longs(numbers: Array | None) -> Array | None:
    return None if numbers is None else numbers.astype(np.dtype("l"))


def _given(*arrays: Array | None) -> list[Array | None]:
    return [None if a is None else contiguous(a) for a in arrays]


def _sizes(cells: tuple[int, ...], reverse: bool) -> Any:
    return loading.block([*cells, int(reverse)])


def lstm(
    gates: Array, hx: Array, cx: Array, w_hh: Array, batch_sizes: Array | None, reverse: bool
) -> tuple[Array, Array, Array] | None:
    """The hidden states, the cells and the gates of all steps."""
    run = loading.ready("recurrent", "lstm", gates.dtype)
    if run is None:
        return None
    shape = (gates.shape[0], *cx.shape)
    output, cells, workspace = (np.empty(s, gates.dtype) for s in (shape, shape, gates.shape))
    given = _given(gates, hx, cx, w_hh, _longs(batch_sizes))
    failed = loading.call(run, _sizes(shape, reverse), *given, output, cells, workspace)
    return None if failed else (output, cells, workspace)


def lstm_back(
    grads: tuple[Array | None, ...], cx: Array, w_hh: Array, batch_sizes: Array | None,
    cells: Array, workspace: Array, reverse: bool,
) -> tuple[Array, Array, Array] | None:  # fmt: skip
    """The gradients of gates, hx and cx from those of output, cells and workspace."""
    run = loading.ready("recurrent", "lstm_back", cells.dtype)
    if run is None:
        return None
    gates_bar, h_bar, c_bar = (
        np.empty(s, cells.dtype) for s in (workspace.shape, cx.shape, cx.shape)
    )
    given = _given(*grads, cx, w_hh, _longs(batch_sizes), cells, workspace)
    failed = loading.call(run, _sizes(cells.shape, reverse), *given, gates_bar, h_bar, c_bar)
    return None if failed else (gates_bar, h_bar, c_bar)

"""Steps of an LSTM by C code (recurrent.c), for float32 and float64.

Arrays have the sequences of one step as rows without gaps in them; False is returned where there is
no native code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.native import kernels

Array = np.ndarray[Any, Any]


def lstm_step(gates: Array, x: Array, before: Array, cell: Array, hidden: Array) -> bool:
    """Activate the gates, which hold the products with the hidden state; fill cell and hidden."""
    return _run("lstm_step", gates, x, before, cell, hidden)


def lstm_step_back(
    gates: Array, before: Array, cell: Array, of_hidden: Array, of_cell: Array, of_gates: Array
) -> bool:
    """Fill the gradients of the gates; that of the cell becomes that of the cell before."""
    return _run("lstm_step_back", gates, before, cell, of_hidden, of_cell, of_gates)


def _run(name: str, gates: Array, *others: Array) -> bool:
    run = kernels.function("recurrent", name, gates.dtype)
    arrays = (gates, *others)
    if run is None or not all(a.strides[1] == a.itemsize and a.flags.aligned for a in arrays):
        return False
    rows, units = len(gates), gates.shape[1] // 4
    steps = [a.strides[0] // a.itemsize for a in arrays]
    kernels.call(run, kernels.block([rows, units, *steps]), *arrays)
    return True

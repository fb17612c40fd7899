"""What recurrent layers ask of their arguments; only `.shape` and `.dtype` are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import show


def expect(what: str, name: str, tensor: Any, shape: Sequence[int], why: str) -> None:
    """Raise unless a tensor has this shape; None is fine."""
    if tensor is not None and tuple(tensor.shape) != tuple(shape):
        raise ShapeError(
            f"{what}: {name} must have the shape {show(shape)} ({why}), got {show(tensor.shape)}."
        )


def _dtype(tensor: Any) -> DType:
    """The dtype of a tensor, a Spec or an array."""
    return tensor.dtype if isinstance(tensor.dtype, DType) else dtypes.of(tensor.dtype)


def alike(what: str, input: Any, **others: Any) -> None:
    """Raise unless all tensors have one real floating point dtype."""
    wanted = _dtype(input)
    if not wanted.is_floating_point:
        raise DtypeError(f"{what}: needs real floating point tensors, got {wanted}; convert them.")
    for name, tensor in others.items():
        if tensor is not None and _dtype(tensor) is not wanted:
            raise DtypeError(
                f"{what}: {name} has {_dtype(tensor)}, and the input {wanted}; convert one of them."
            )


def layer(
    what: str, parts: int, gates: Any, hx: Any, w_hh: Any, batch_sizes: Any, *, narrow: bool = False
) -> int:
    """Raise unless a layer's tensors fit; return the number of hidden units.

    `narrow` says that hidden states are projected, so that their width is another.
    """
    alike(what, gates, hx=hx, w_hh=w_hh)
    if len(gates.shape) != 3 or len(hx.shape) != 2 or len(w_hh.shape) != 2:
        raise ShapeError(
            f"{what}: needs gates (steps, sequences, {parts} x units), a state (sequences, units) "
            f"and a matrix w_hh, got {show(gates.shape)}, {show(hx.shape)} and {show(w_hh.shape)}."
        )
    steps, count, columns = gates.shape
    if not steps:
        raise ShapeError(f"{what}: needs at least one step, got gates {show(gates.shape)}.")
    if columns % parts:
        raise ShapeError(f"{what}: gates must have {parts} parts of one width, got {columns}.")
    units = columns // parts
    width = hx.shape[1] if narrow else units
    expect(what, "hx", hx, (count, width), "the state of each sequence")
    expect(what, "w_hh", w_hh, (columns, width), f"{parts} parts of {units} units")
    expect(what, "batch_sizes", batch_sizes, (steps,), "one number for each step")
    return units


def lstm_layer(
    what: str, gates: Any, hx: Any, cx: Any, w_hh: Any, w_hr: Any, batch_sizes: Any
) -> int:
    """Raise unless the tensors of an LSTM layer fit; return the number of hidden units."""
    units = layer(what, 4, gates, hx, w_hh, batch_sizes, narrow=w_hr is not None)
    alike(what, gates, cx=cx, w_hr=w_hr)
    expect(what, "cx", cx, (gates.shape[1], units), "the cell of each sequence")
    expect(what, "w_hr", w_hr, (hx.shape[1], units), "from units to the width of hx")
    return units


def lstm_backward(
    what: str, grads: Sequence[Any], hx: Any, cx: Any, w_hh: Any, w_hr: Any, batch_sizes: Any,
    output: Any, cells: Any, workspace: Any,
) -> None:  # fmt: skip
    """Raise unless what an LSTM layer gave, and its gradients, fit its arguments."""
    units = lstm_layer(what, workspace, hx, cx, w_hh, w_hr, batch_sizes)
    steps, count, _ = workspace.shape
    given = {"output": output, "cells": cells, "workspace": workspace}
    widths = (hx.shape[1], units, 4 * units)
    for (name, tensor), grad, width in zip(given.items(), grads, widths, strict=True):
        alike(what, workspace, **{name: tensor, f"grad_{name}": grad})
        for called, one in ((name, tensor), (f"grad_{name}", grad)):
            expect(what, called, one, (steps, count, width), "a row for each step and sequence")


def gru_layer(what: str, gates: Any, hx: Any, w_hh: Any, b_hh: Any, batch_sizes: Any) -> int:
    """Raise unless the tensors of a GRU layer fit; return the number of hidden units."""
    units = layer(what, 3, gates, hx, w_hh, batch_sizes)
    alike(what, gates, b_hh=b_hh)
    expect(what, "b_hh", b_hh, (3 * units,), "one number for each gate")
    return units


def gru_backward(
    what: str, hx: Any, w_hh: Any, batch_sizes: Any, output: Any, workspace: Any
) -> int:
    """Raise unless what a GRU layer gave fits its arguments; return the number of hidden units."""
    alike(what, output, hx=hx, w_hh=w_hh, workspace=workspace)
    steps, count, units = output.shape
    expect(what, "hx", hx, (count, units), "the state of each sequence")
    expect(what, "w_hh", w_hh, (3 * units, units), f"3 parts of {units} units")
    expect(what, "workspace", workspace, (steps, count, 4 * units), "4 parts of each step")
    expect(what, "batch_sizes", batch_sizes, (steps,), "one number for each step")
    return units


def cell(
    what: str, parts: int, input_gates: Any, hidden_gates: Any, state: Any, input_bias: Any,
    hidden_bias: Any,
) -> None:  # fmt: skip
    """Raise unless the tensors of one step fit."""
    alike(what, input_gates, hidden_gates=hidden_gates, state=state)
    if len(state.shape) != 2:
        raise ShapeError(f"{what}: needs a state (sequences, units), got {show(state.shape)}.")
    count, units = state.shape
    for name, gates in (("input_gates", input_gates), ("hidden_gates", hidden_gates)):
        expect(what, name, gates, (count, parts * units), f"{parts} parts of the state's {units}")
    if (input_bias is None) != (hidden_bias is None):
        raise ArgumentError(f"{what}: give both biases or none.")
    for name, bias in (("input_bias", input_bias), ("hidden_bias", hidden_bias)):
        expect(what, name, bias, (parts * units,), "one number for each gate")


def decreasing(what: str, sizes: Sequence[int], count: int, name: str = "batch_sizes") -> None:
    """Raise unless sizes are positive, at most `count`, and never grow."""
    fall = all(a >= b for a, b in pairwise(sizes))
    if not sizes or sizes[-1] < 1 or sizes[0] > count or not fall:
        raise ValueRangeError(
            f"{what}: {name} must not grow and lie between 1 and {count}, got {list(sizes)}; "
            "sort sequences by decreasing length."
        )

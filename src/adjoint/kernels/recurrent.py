"""Kernels of recurrent layers on arrays; float16 and bfloat16 are computed in float32.

An LSTM without projections runs in C, where there is a compiler (c_kernels/recurrent.c). In NumPy a
step is one product with w_hhᵀ and a few passes over its gates, in memory that is allocated once for
all steps. Backward, everything that does not depend on later steps is computed for the whole
sequence first. Only the first batch_sizes[t] sequences are touched in step t.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.c_kernels import product
from adjoint.c_kernels import recurrent as native
from adjoint.checks import recurrent
from adjoint.kernels.halves import widen

Array = np.ndarray[Any, np.dtype[Any]]


def _narrow(dtype: np.dtype[Any], *arrays: Array) -> tuple[Array, ...]:
    return tuple(a.astype(dtype, copy=False) for a in arrays)


def _schedule(
    what: str, steps: int, count: int, batch_sizes: Array | None, *, backwards: bool
) -> list[tuple[int, int]]:
    """The steps in their order, each with the number of sequences that take part."""
    sizes = [count] * steps if batch_sizes is None else batch_sizes.tolist()
    if batch_sizes is not None:
        recurrent.decreasing(what, sizes, count)
    order = range(steps - 1, -1, -1) if backwards else range(steps)
    return [(t, sizes[t]) for t in order]


def _sigmoid_of_negated(x: Array) -> None:
    """σ(-x) in place; sums that go into gates are computed with the other sign."""
    np.exp(x, out=x)
    x += 1
    np.reciprocal(x, out=x)


def _inward(w: Array) -> Array:
    """-wᵀ, in order in memory: small products are faster so."""
    return np.negative(w.T, order="C")


def _before(states: Array, first: Array, *, reverse: bool) -> Array:
    """The state that each step began with."""
    found = np.empty_like(states)
    if reverse:
        found[:-1], found[-1] = states[1:], first
    else:
        found[1:], found[0] = states[:-1], first
    return found


def _rows(array: Array) -> Array:
    """All steps and sequences as the rows of one matrix."""
    return array.reshape((array.shape[0] * array.shape[1], array.shape[2]))


# --- LSTM ----------------------------------------------------------------------------------------


def lstm_layer(
    gates: Array, hx: Array, cx: Array, w_hh: Array, w_hr: Array | None, batch_sizes: Array | None,
    reverse: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The hidden states, the cells and the gates i, f, g, o of all steps."""
    recurrent.lstm_layer("lstm", gates, hx, cx, w_hh, w_hr, batch_sizes)
    steps, count, _ = gates.shape
    order = _schedule("lstm", steps, count, batch_sizes, backwards=reverse)
    x, h, c, w = (widen(a) for a in (gates, hx, cx, w_hh))
    found = native.lstm(x, h, c, w, batch_sizes, reverse) if w_hr is None else None
    if found is None:
        found = _lstm_layer(x, h, c, w, None if w_hr is None else widen(w_hr).T, order)
    output, cells, workspace = _narrow(gates.dtype, *found)
    return output, cells, workspace


def _lstm_layer(
    x: Array, h: Array, c: Array, w: Array, down: Array | None, order: list[tuple[int, int]]
) -> tuple[Array, Array, Array]:
    count, units, inward = *c.shape, _inward(w)
    output, cells = (np.empty((len(x), *s.shape), x.dtype) for s in (h, c))
    workspace = np.empty(x.shape, x.dtype)
    room, raw = np.empty((2, count, units), x.dtype)
    for t, n in order:
        own, new, inner = workspace[t, :n], cells[t, :n], room[:n]
        np.matmul(h[:n], inward, out=own)
        own -= x[t, :n]
        i, f, g, o = (own[:, k * units : (k + 1) * units] for k in range(4))
        np.tanh(g, out=inner)
        _sigmoid_of_negated(own)  # of g as well: one pass over all is faster than two over others
        np.negative(inner, out=g)
        np.multiply(f, c[:n], out=new)
        new += np.multiply(i, g, out=inner)
        tall = np.tanh(new, out=inner)
        if down is None:
            np.multiply(o, tall, out=output[t, :n])
        else:
            np.matmul(np.multiply(o, tall, out=raw[:n]), down, out=output[t, :n])
        if n < count:
            output[t, n:], cells[t, n:], workspace[t, n:] = h[n:], c[n:], 0
        h, c = output[t], cells[t]
    return output, cells, workspace


def _lstm_factors(
    cells: Array, earlier: Array, workspace: Array, tall: Array
) -> tuple[Array, Array]:
    """The factors from the gradient of the cell (of the output, for o) to the gradients of the
    gates before their activations; and ∂output/∂cell before the projection.
    """
    steps, count, units = cells.shape
    active = workspace.reshape((steps, count, 4, units))
    factors = np.empty_like(active)
    i, _, g, o = (active[:, :, k] for k in range(4))
    np.subtract(1, active[:, :, :2], out=factors[:, :, :2])
    factors[:, :, :2] *= active[:, :, :2]
    factors[:, :, 0] *= g
    factors[:, :, 1] *= earlier
    room = np.multiply(g, g)
    np.subtract(1, room, out=room)
    np.multiply(room, i, out=factors[:, :, 2])
    np.subtract(1, o, out=room)
    room *= o
    np.multiply(room, tall, out=factors[:, :, 3])
    np.multiply(tall, tall, out=room)
    np.subtract(1, room, out=room)
    room *= o
    return factors, room


def _slopes(active: Array, parts: int, curved: int) -> Array:
    """The slopes of σ, and of tanh for one part, by their values."""
    shape = (*active.shape[:2], parts, active.shape[2] // parts)
    values = active.reshape(shape)
    slopes = values * (1 - values)
    slopes[:, :, curved] = 1 - values[:, :, curved] ** 2
    return slopes


def lstm_layer_backward(
    grad_output: Array | None, grad_cells: Array | None, grad_workspace: Array | None, hx: Array,
    cx: Array, w_hh: Array, w_hr: Array | None, batch_sizes: Array | None, output: Array,
    cells: Array, workspace: Array, reverse: bool,
) -> tuple[Array, Array, Array, Array, Array]:  # fmt: skip
    """The gradients of gates, hx, cx, w_hh and w_hr; the steps from the last one back."""
    recurrent.lstm_backward(
        "lstm_backward", (grad_output, grad_cells, grad_workspace), hx, cx, w_hh, w_hr, batch_sizes,
        output, cells, workspace,
    )  # fmt: skip
    steps, count, units = cells.shape
    order = _schedule("lstm_backward", steps, count, batch_sizes, backwards=not reverse)
    y, c, active, w, first = (widen(a) for a in (output, cells, workspace, w_hh, cx))
    wide = [None if g is None else widen(g) for g in (grad_output, grad_cells, grad_workspace)]
    down = None if w_hr is None else widen(w_hr)
    h_bars = None if down is None else np.zeros(y.shape, y.dtype)
    found = None
    if down is None:
        found = native.lstm_back(tuple(wide), first, w, batch_sizes, c, active, reverse)
    if found is None:
        before = _before(c, first, reverse=reverse)
        found = _lstm_backward(wide, before, w, c, active, down, h_bars, order)
    gates_bar, h_bar, c_bar = found
    w_bar = product.dot(_rows(gates_bar).T, _rows(_before(y, widen(hx), reverse=reverse)))
    down_bar = np.zeros((0, units), y.dtype)
    if h_bars is not None:
        down_bar = product.dot(_rows(h_bars).T, _rows(active[:, :, 3 * units :] * np.tanh(c)))
    bars = _narrow(output.dtype, gates_bar, h_bar, c_bar, w_bar, down_bar)
    return bars[0], bars[1], bars[2], bars[3], bars[4]


def _lstm_backward(
    given: list[Array | None], before: Array, w: Array, c: Array, active: Array,
    down: Array | None, h_bars: Array | None, order: list[tuple[int, int]],
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The gradients of gates, hx and cx; gradients of projected states are written to h_bars."""
    grad_output, grad_cells, grad_workspace = given
    count, units = c.shape[1:]
    grads, sharp = _lstm_factors(c, before, active, np.tanh(c))
    own = None
    if grad_workspace is not None:
        own = _slopes(active, 4, 2) * grad_workspace.reshape(grads.shape)
    h_bar, c_bar, room = (np.zeros((count, n), c.dtype) for n in (w.shape[1], units, units))
    for t, n in order:
        if grad_output is not None:
            h_bar += grad_output[t]
        if grad_cells is not None:
            c_bar += grad_cells[t]
        here = h_bar[:n]
        if down is not None and h_bars is not None:
            h_bars[t, :n] = here
            here = here @ down
        c_here, part = c_bar[:n], grads[t, :n]
        c_here += np.multiply(here, sharp[t, :n], out=room[:n])
        part[:, :3] *= c_here[:, None]
        part[:, 3] *= here
        if own is not None:
            part += own[t, :n]
        c_here *= active[t, :n, units : 2 * units]
        if n < count:
            grads[t, n:] = 0
        np.matmul(part.reshape((n, 4 * units)), w, out=h_bar[:n])
    return grads.reshape(active.shape), h_bar, c_bar


# --- GRU -----------------------------------------------------------------------------------------


def gru_layer(
    gates: Array, hx: Array, w_hh: Array, b_hh: Array | None, batch_sizes: Array | None,
    reverse: bool,
) -> tuple[Array, Array]:  # fmt: skip
    """The hidden states of all steps, and r, z, n and the hidden part of n."""
    units = recurrent.gru_layer("gru", gates, hx, w_hh, b_hh, batch_sizes)
    steps, count, _ = gates.shape
    x, h, w = (widen(a) for a in (gates, hx, w_hh))
    inward, bias = _inward(w), None if b_hh is None else widen(b_hh)
    output = np.empty((steps, count, units), x.dtype)
    workspace = np.empty((steps, count, 4 * units), x.dtype)
    hidden = np.empty((count, 3 * units), x.dtype)
    room = np.empty((count, units), x.dtype)
    for t, n in _schedule("gru", steps, count, batch_sizes, backwards=reverse):
        own, inner, new = workspace[t, :n], hidden[:n], output[t, :n]
        np.matmul(h[:n], inward, out=inner)
        if bias is not None:
            inner -= bias
        r, z, g, q = (own[:, k * units : (k + 1) * units] for k in range(4))
        both = np.subtract(inner[:, : 2 * units], x[t, :n, : 2 * units], out=own[:, : 2 * units])
        _sigmoid_of_negated(both)
        np.negative(inner[:, 2 * units :], out=q)
        np.multiply(r, q, out=g)
        g += x[t, :n, 2 * units :]
        np.tanh(g, out=g)
        np.subtract(h[:n], g, out=room[:n])
        np.multiply(room[:n], z, out=new)
        new += g
        if n < count:
            output[t, n:], workspace[t, n:] = h[n:], 0
        h = output[t]
    output, workspace = _narrow(gates.dtype, output, workspace)
    return output, workspace


def gru_layer_backward(
    grad_output: Array | None, grad_workspace: Array | None, hx: Array, w_hh: Array,
    batch_sizes: Array | None, output: Array, workspace: Array, reverse: bool,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """The gradients of gates, hx, w_hh and b_hh; the steps from the last one back."""
    units = recurrent.gru_backward("gru_backward", hx, w_hh, batch_sizes, output, workspace)
    steps, count, _ = output.shape
    y, w = widen(output), widen(w_hh)
    active = widen(workspace).reshape((steps, count, 4, units))
    earlier = _before(y, widen(hx), reverse=reverse)
    slopes = _slopes(active.reshape((steps, count, 4 * units)), 4, 2)
    r, z, g, q = (active[:, :, k] for k in range(4))
    of_z, of_n = (earlier - g) * slopes[:, :, 1], (1 - z) * slopes[:, :, 2]
    of_r = q * slopes[:, :, 0]
    own = None
    if grad_workspace is not None:
        own = widen(grad_workspace).reshape(active.shape).copy()
        own[:, :, :3] *= slopes[:, :, :3]
    grads, inner = (np.zeros((steps, count, 3, units), y.dtype) for _ in range(2))
    h_bar = np.zeros(hx.shape, y.dtype)
    for t, n in _schedule("gru_backward", steps, count, batch_sizes, backwards=not reverse):
        if grad_output is not None:
            h_bar += grad_output[t]
        here, outer, hidden = h_bar[:n], grads[t, :n], inner[t, :n]
        np.multiply(here, of_n[t, :n], out=outer[:, 2])
        np.multiply(here, of_z[t, :n], out=outer[:, 1])
        if own is not None:
            outer[:, 1:] += own[t, :n, 1:3]
        np.multiply(outer[:, 2], of_r[t, :n], out=outer[:, 0])
        np.multiply(outer[:, 2], r[t, :n], out=hidden[:, 2])
        if own is not None:
            outer[:, 0] += own[t, :n, 0]
            hidden[:, 2] += own[t, :n, 3]
        hidden[:, :2] = outer[:, :2]
        here *= z[t, :n]
        here += hidden.reshape((n, 3 * units)) @ w
    flat = _rows(inner.reshape((steps, count, 3 * units)))
    w_bar, gates_bar = product.dot(flat.T, _rows(earlier)), grads.reshape((steps, count, 3 * units))
    found = _narrow(output.dtype, gates_bar, h_bar, w_bar, flat.sum(0))
    return found[0], found[1], found[2], found[3]


# --- plain ---------------------------------------------------------------------------------------


def rnn_layer(
    gates: Array, hx: Array, w_hh: Array, batch_sizes: Array | None, reverse: bool, relu: bool
) -> Array:
    """The hidden states of all steps."""
    recurrent.layer("rnn", 1, gates, hx, w_hh, batch_sizes)
    steps, count, _ = gates.shape
    x, h = widen(gates), widen(hx)
    inward = np.ascontiguousarray(widen(w_hh).T)
    output = np.empty(x.shape, x.dtype)
    for t, n in _schedule("rnn", steps, count, batch_sizes, backwards=reverse):
        new = np.matmul(h[:n], inward, out=output[t, :n])
        new += x[t, :n]
        np.maximum(new, 0, out=new) if relu else np.tanh(new, out=new)
        if n < count:
            output[t, n:] = h[n:]
        h = output[t]
    return output.astype(gates.dtype, copy=False)


def rnn_layer_backward(
    grad: Array, hx: Array, w_hh: Array, batch_sizes: Array | None, output: Array, reverse: bool,
    relu: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The gradients of gates, hx and w_hh; the steps from the last one back."""
    recurrent.layer("rnn_backward", 1, output, hx, w_hh, batch_sizes)
    steps, count, _ = output.shape
    y, w = widen(output), widen(w_hh)
    slopes, grads = y > 0 if relu else 1 - y * y, np.zeros(y.shape, y.dtype)
    h_bar = np.zeros(hx.shape, y.dtype)
    for t, n in _schedule("rnn_backward", steps, count, batch_sizes, backwards=not reverse):
        h_bar += grad[t]
        if relu:  # a choice, no product: a blocked gradient is 0 even if it is infinite
            np.copyto(grads[t, :n], h_bar[:n], where=slopes[t, :n])
        else:
            np.multiply(slopes[t, :n], h_bar[:n], out=grads[t, :n])
        np.matmul(grads[t, :n], w, out=h_bar[:n])
    w_bar = product.dot(_rows(grads).T, _rows(_before(y, widen(hx), reverse=reverse)))
    found = _narrow(output.dtype, grads, h_bar, w_bar)
    return found[0], found[1], found[2]


# --- cells ---------------------------------------------------------------------------------------


def fused_lstm_cell(
    input_gates: Array, hidden_gates: Array, cx: Array, input_bias: Array | None,
    hidden_bias: Array | None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The hidden state, the cell, and the gates i, f, g, o."""
    recurrent.cell("lstm_cell", 4, input_gates, hidden_gates, cx, input_bias, hidden_bias)
    gates = np.add(widen(input_gates), widen(hidden_gates))
    for bias in (input_bias, hidden_bias):
        if bias is not None:
            gates += bias
    i, f, g, o = (gates[:, k * cx.shape[1] : (k + 1) * cx.shape[1]] for k in range(4))
    curved = np.tanh(g)
    _sigmoid_of_negated(np.negative(gates, out=gates))
    g[...] = curved
    c = f * widen(cx) + i * g
    h, c, gates = _narrow(cx.dtype, o * np.tanh(c), c, gates)
    return h, c, gates


def fused_gru_cell(
    input_gates: Array, hidden_gates: Array, hx: Array, input_bias: Array | None,
    hidden_bias: Array | None,
) -> tuple[Array, Array]:  # fmt: skip
    """The hidden state, and r, z, n, hx and the hidden part of n."""
    recurrent.cell("gru_cell", 3, input_gates, hidden_gates, hx, input_bias, hidden_bias)
    x, inner, h = (widen(a) for a in (input_gates, hidden_gates, hx))
    if input_bias is not None and hidden_bias is not None:
        x, inner = x + widen(input_bias), inner + widen(hidden_bias)
    units = hx.shape[1]
    both = np.negative(x[:, : 2 * units] + inner[:, : 2 * units])
    _sigmoid_of_negated(both)
    r, z, q = both[:, :units], both[:, units:], inner[:, 2 * units :]
    n = np.tanh(x[:, 2 * units :] + r * q)
    found = _narrow(hx.dtype, n + z * (h - n), np.concatenate((both, n, h, q), axis=1))
    return found[0], found[1]

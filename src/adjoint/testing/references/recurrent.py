"""Recurrent layers by loops over sequences and steps, one vector at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = Any
Step = Callable[..., list[Array]]


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(0.5 * x))


def lstm_step(x: Array, inner: Array, h: Array, c: Array) -> list[Array]:
    """h and c of one sequence after a step, from both products."""
    i, f, g, o = np.split(x + inner, 4)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return [_sigmoid(o) * np.tanh(c), c]


def gru_step(x: Array, inner: Array, h: Array) -> list[Array]:
    """h of one sequence after a step."""
    (a, b, c), (d, e, q) = np.split(x, 3), np.split(inner, 3)
    z = _sigmoid(b + e)
    return [(1 - z) * np.tanh(c + _sigmoid(a + d) * q) + z * h]


def tanh_step(x: Array, inner: Array, h: Array) -> list[Array]:
    """h of one sequence after a step."""
    return [np.tanh(x + inner)]


def relu_step(x: Array, inner: Array, h: Array) -> list[Array]:
    """h of one sequence after a step."""
    return [np.where(x + inner > 0, x + inner, 0)]


def one_sequence(
    step: Step, xs: Array, states: list[Array], weights: Sequence[Array | None], reverse: bool
) -> tuple[list[Array], list[Array]]:
    """The hidden states of one sequence of vectors, in its order, and the states after it."""
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    found: list[Array] = []
    for x in xs[::-1] if reverse else xs:
        outer, inner = (w @ v + (0 if b is None else b)
                        for w, v, b in ((w_ih, x, b_ih), (w_hh, states[0], b_hh)))  # fmt: skip
        states = step(outer, inner, *states)
        if w_hr is not None:
            states = [w_hr @ states[0], *states[1:]]
        found.append(states[0])
    return found[::-1] if reverse else found, states


def stack(
    step: Step, sequences: list[Array], states: list[Array], params: Sequence[Array],
    has_biases: bool, layers: int, directions: int,
) -> tuple[list[Array], list[Array]]:  # fmt: skip
    """The outputs of each sequence (of any length), and the last states of all layers."""
    projects = len(states) == 2 and states[0].shape[-1] != states[1].shape[-1]
    size = 2 + 2 * has_biases + projects
    last = [np.array(s, dtype=np.float64) for s in states]
    for layer in range(layers):
        sides: list[list[Array]] = []
        for number in range(layer * directions, (layer + 1) * directions):
            own = [np.asarray(p, dtype=np.float64) for p in params[number * size :][:size]]
            w_hr = own.pop() if projects else None
            weights = [*own, *([] if has_biases else [None, None]), w_hr]
            side = []
            for b, xs in enumerate(sequences):
                start = [np.array(s[number, b], dtype=np.float64) for s in states]
                found, after = one_sequence(step, xs, start, weights, number % directions == 1)
                side.append(np.array(found))
                for whole, value in zip(last, after, strict=True):
                    whole[number, b] = value
            sides.append(side)
        sequences = [np.concatenate(parts, axis=-1) for parts in zip(*sides, strict=True)]
    return sequences, last


def _lists(value: Any) -> list[Array]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def of_input(step: Step) -> Callable[..., Any]:
    """The reference of `lstm.input` and the others."""

    def reference(
        input: Array, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        x = np.asarray(input, dtype=np.float64)
        x = x if batch_first else np.swapaxes(x, 0, 1)
        found, last = stack(
            step, list(x), _lists(hx), params, has_biases, num_layers, 1 + bidirectional
        )
        width = _lists(hx)[0].shape[-1] * (1 + bidirectional)
        output = np.array(found).reshape((*x.shape[:2], width))
        return output if batch_first else np.swapaxes(output, 0, 1), *last

    return reference


def of_data(step: Step) -> Callable[..., Any]:
    """The reference of `lstm.data` and the others."""

    def reference(
        data: Array, batch_sizes: Array, hx: Any, params: Any, has_biases: bool, num_layers: int,
        dropout: float, train: bool, bidirectional: bool,
    ) -> Any:  # fmt: skip
        sequences = unpacked(np.asarray(data, dtype=np.float64), batch_sizes)
        found, last = stack(
            step, sequences, _lists(hx), params, has_biases, num_layers, 1 + bidirectional
        )
        return pack(found), *last

    return reference


def unpacked(data: Array, batch_sizes: Array) -> list[Array]:
    """The sequences of packed data."""
    starts = np.cumsum(batch_sizes) - batch_sizes
    return [
        np.array([data[start + b] for start, n in zip(starts, batch_sizes, strict=True) if b < n])
        for b in range(int(batch_sizes[0]))
    ]


def pack(sequences: list[Array]) -> Array:
    """Sequences of decreasing lengths, packed."""
    return np.array([s[t] for t in range(len(sequences[0])) for s in sequences if t < len(s)])


def cell(step: Step) -> Callable[..., Any]:
    """The reference of `lstm_cell` and the others."""

    def reference(
        input: Array, hx: Any, w_ih: Array, w_hh: Array, b_ih: Any = None, b_hh: Any = None
    ) -> Any:
        states = [np.asarray(s, dtype=np.float64) for s in _lists(hx)]
        weights = [w_ih, w_hh, b_ih, b_hh, None]
        after = [
            one_sequence(step, [x], [s[b] for s in states], weights, False)[1]
            for b, x in enumerate(np.asarray(input, dtype=np.float64))
        ]
        found = [np.array([a[k] for a in after]).reshape(s.shape) for k, s in enumerate(states)]
        return tuple(found) if len(found) > 1 else found[0]

    return reference


def pack_padded(input: Array, lengths: Array, batch_first: bool) -> Any:
    """The data and the batch sizes."""
    x = input if batch_first else np.swapaxes(input, 0, 1)
    sequences = [s[:n] for s, n in zip(x, lengths, strict=True)]
    sizes = [sum(len(s) > t for s in sequences) for t in range(len(sequences[0]))]
    return pack(sequences), np.array(sizes)


def pad_packed(
    data: Array, batch_sizes: Array, batch_first: bool, padding_value: Any, total_length: int
) -> Any:
    """The padded sequences and their lengths."""
    sequences = unpacked(data, batch_sizes)
    total = max(total_length, len(sequences[0]))
    found = np.full((len(sequences), total, *data.shape[1:]), padding_value, dtype=data.dtype)
    for b, sequence in enumerate(sequences):
        found[b, : len(sequence)] = sequence
    lengths = np.array([len(s) for s in sequences])
    return found if batch_first else np.swapaxes(found, 0, 1), lengths


# --- layers from the products with their input ---------------------------------------------------


def lstm_gates(x: Array, inner: Array) -> list[Array]:
    """i, f, g, o."""
    i, f, g, o = np.split(x + inner, 4)
    return [_sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)]


def gru_gates(x: Array, inner: Array) -> list[Array]:
    """r, z, n, and the hidden part of n."""
    (a, b, c), (d, e, q) = np.split(x, 3), np.split(inner, 3)
    r = _sigmoid(a + d)
    return [r, _sigmoid(b + e), np.tanh(c + r * q), q]


def one_layer(
    step: Step, gates_of: Callable[..., list[Array]] | None, gates: Array, states: list[Array],
    weights: Sequence[Any], batch_sizes: Array | None, reverse: bool,
) -> Any:  # fmt: skip
    """The states of all steps, and the gates; sequences that have ended keep their states."""
    w_hh, b_hh, w_hr = (None if w is None else np.asarray(w, np.float64) for w in weights)
    assert w_hh is not None
    now = [np.array(s, dtype=np.float64) for s in states]
    steps, count, _ = gates.shape
    kept = [np.zeros((steps, *s.shape)) for s in now]
    width = 4 * now[-1].shape[-1] if gates_of else 0
    workspace = np.zeros((steps, count, width))
    for t in reversed(range(steps)) if reverse else range(steps):
        for b in range(count if batch_sizes is None else int(batch_sizes[t])):
            inner = w_hh @ now[0][b] + (0 if b_hh is None else b_hh)
            x = np.asarray(gates[t, b], dtype=np.float64)
            if gates_of:
                workspace[t, b] = np.concatenate(gates_of(x, inner))
            after = step(x, inner, *(s[b] for s in now))
            if w_hr is not None:
                after = [w_hr @ after[0], *after[1:]]
            for whole, value in zip(now, after, strict=True):
                whole[b] = value
        for whole, value in zip(kept, now, strict=True):
            whole[t] = value
    return (*kept, workspace) if gates_of else kept[0]


def lstm_layer(
    gates: Array, hx: Array, cx: Array, w_hh: Array, w_hr: Array | None, batch_sizes: Any,
    reverse: bool,
) -> Any:  # fmt: skip
    weights = w_hh, None, w_hr
    return one_layer(lstm_step, lstm_gates, gates, [hx, cx], weights, batch_sizes, reverse)


def gru_layer(
    gates: Array, hx: Array, w_hh: Array, b_hh: Array | None, batch_sizes: Any, reverse: bool
) -> Any:
    weights = w_hh, b_hh, None
    return one_layer(gru_step, gru_gates, gates, [hx], weights, batch_sizes, reverse)


def rnn_layer(
    gates: Array, hx: Array, w_hh: Array, batch_sizes: Any, reverse: bool, relu: bool
) -> Any:
    step = relu_step if relu else tanh_step
    return one_layer(step, None, gates, [hx], (w_hh, None, None), batch_sizes, reverse)


def fused_lstm_cell(
    input_gates: Array, hidden_gates: Array, cx: Array, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """h, c and i, f, g, o."""
    h, c, workspace = np.zeros(cx.shape), np.zeros(cx.shape), np.zeros(input_gates.shape)
    for b, state in enumerate(cx):
        x, inner = input_gates[b], hidden_gates[b]
        x, inner = x + (0 if b_ih is None else b_ih), inner + (0 if b_hh is None else b_hh)
        h[b], c[b] = lstm_step(x, inner, state, state)
        workspace[b] = np.concatenate(lstm_gates(x, inner))
    return h, c, workspace


def fused_gru_cell(
    input_gates: Array, hidden_gates: Array, hx: Array, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """h, and r, z, n, hx and the hidden part of n."""
    h, workspace = np.zeros(hx.shape), np.zeros((hx.shape[0], 5 * hx.shape[1]))
    for b, state in enumerate(hx):
        x, inner = input_gates[b], hidden_gates[b]
        x, inner = x + (0 if b_ih is None else b_ih), inner + (0 if b_hh is None else b_hh)
        (h[b],) = gru_step(x, inner, state)
        r, z, n, q = gru_gates(x, inner)
        workspace[b] = np.concatenate([r, z, n, state, q])
    return h, workspace


KINDS: dict[str, Step] = {
    "lstm": lstm_step, "gru": gru_step, "rnn_tanh": tanh_step, "rnn_relu": relu_step,
}  # fmt: skip
REFERENCES: dict[str, Callable[..., Any]] = {
    **{f"{kind}.input": of_input(step) for kind, step in KINDS.items()},
    **{f"{kind}.data": of_data(step) for kind, step in KINDS.items()},
    **{f"{kind}_cell": cell(step) for kind, step in KINDS.items()},
    "_gru_layer": gru_layer,
    "_lstm_layer": lstm_layer,
    "_pack_padded_sequence": pack_padded,
    "_pad_packed_sequence": pad_packed,
    "_rnn_layer": rnn_layer,
    "_thnn_fused_gru_cell": fused_gru_cell,
    "_thnn_fused_lstm_cell": fused_lstm_cell,
}

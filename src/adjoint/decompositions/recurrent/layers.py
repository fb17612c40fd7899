"""Recurrent layers as loops over time: one `scan` where programs are traced.

In the backward, a scan in reverse gives the gradients of the gates, step by step; the gradients of
the weights are one product over all steps.
"""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.checks import recurrent
from adjoint.ops import stepping

Tensor = Any
Flat = list[Any]


def _taking_part(batch_sizes: Tensor | None, count: int) -> Flat:
    """For each step which sequences take part, (steps, sequences, 1); nothing if all do."""
    if batch_sizes is None:
        return []
    return [(ops.arange(count) < batch_sizes.unsqueeze(-1)).unsqueeze(-1)]


def _chosen(active: Flat, new: Tensor, old: Tensor) -> Tensor:
    """The new value where a sequence takes part."""
    return ops.where(active[0], new, old) if active else new


def _only(active: Flat, value: Tensor) -> Tensor:
    """The value where a sequence takes part, and 0 elsewhere."""
    return ops.where(active[0], value, 0.0) if active else value


def _before(states: Tensor, first: Tensor, reverse: bool) -> Tensor:
    """The state that each step began with."""
    steps, start = states.shape[0], first.unsqueeze(0)
    if reverse:
        return ops.cat([states.narrow(0, 1, steps - 1), start])
    return ops.cat([start, states.narrow(0, 0, steps - 1)])


def _given(*grads: Tensor | None) -> tuple[Flat, tuple[bool, ...]]:
    """The gradients that are there, and which of them."""
    return [g for g in grads if g is not None], tuple(g is not None for g in grads)


def _taken(values: Flat, there: tuple[bool, ...]) -> list[Tensor | None]:
    """The values of a list put in the places marked in `there`, None in the others."""
    rest = iter(values)
    return [next(rest) if is_there else None for is_there in there]


def _plus(value: Tensor, more: Tensor | None) -> Tensor:
    return value if more is None else value + more


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Σ leftᵀ right over all steps and sequences."""
    return left.flatten(0, 1).t().matmul(right.flatten(0, 1))


# --- LSTM ----------------------------------------------------------------------------------------


def lstm_step(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The hidden state, the cell and the gates of a step; from the sums that go into its gates."""
    i, f, g, o = gates.chunk(4, -1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new = f * c + i * g
    return o * new.tanh(), new, ops.cat([i, f, g, o], -1)


def lstm_layer(
    gates: Tensor, hx: Tensor, cx: Tensor, w_hh: Tensor, w_hr: Tensor | None,
    batch_sizes: Tensor | None, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """h, c ← step(gates[t] + h w_hhᵀ, c), with h w_hrᵀ in the place of h if there is a w_hr."""
    recurrent.lstm_layer("lstm", gates, hx, cx, w_hh, w_hr, batch_sizes)

    def step(constants: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
        h, c = carry
        new, cell, workspace = lstm_step(x[0] + h.matmul(constants[0].t()), c)
        if w_hr is not None:
            new = new.matmul(constants[1].t())
        new, cell = _chosen(x[1:], new, h), _chosen(x[1:], cell, c)
        return [new, cell], [new, cell, _only(x[1:], workspace)]

    constants = [w_hh] if w_hr is None else [w_hh, w_hr]
    xs = [gates, *_taking_part(batch_sizes, hx.shape[0])]
    found = stepping.scan(step, constants, [hx, cx], xs, gates.shape[0], reverse)
    return found[2], found[3], found[4]


def lstm_step_vjp(
    h_bar: Tensor, c_bar: Tensor, workspace_bar: Tensor | None, c: Tensor, new: Tensor,
    workspace: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradients of the gates before their activations, and of the earlier cell."""
    i, f, g, o = workspace.chunk(4, -1)
    tall = new.tanh()
    c_bar = c_bar + h_bar * o * (1 - tall * tall)
    bars = [c_bar * g, c_bar * c, c_bar * i, h_bar * tall]
    if workspace_bar is not None:
        bars = [b + w for b, w in zip(bars, workspace_bar.chunk(4, -1), strict=True)]
    slopes = [i * (1 - i), f * (1 - f), 1 - g * g, o * (1 - o)]
    return ops.cat([b * s for b, s in zip(bars, slopes, strict=True)], -1), c_bar * f


def lstm_layer_backward(
    grad_output: Tensor | None, grad_cells: Tensor | None, grad_workspace: Tensor | None,
    hx: Tensor, cx: Tensor, w_hh: Tensor, w_hr: Tensor | None, batch_sizes: Tensor | None,
    output: Tensor, cells: Tensor, workspace: Tensor, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of gates, hx, cx, w_hh and w_hr."""
    recurrent.lstm_layer("lstm_backward", workspace, hx, cx, w_hh, w_hr, batch_sizes)
    given, there = _given(grad_output, grad_cells, grad_workspace)

    def step(constants: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
        c, new, active, *rest = x
        h_more, c_more, workspace_bar = _taken(rest, there)
        h_bar, c_bar = _plus(carry[0], h_more), _plus(carry[1], c_more)
        raw = h_bar if w_hr is None else h_bar.matmul(constants[1])
        bars, earlier = lstm_step_vjp(raw, c_bar, workspace_bar, c, new, active)
        mask = rest[len(given) :]
        back = _chosen(mask, bars.matmul(constants[0]), h_bar)
        results = [_only(mask, bars)] + ([] if w_hr is None else [_only(mask, h_bar)])
        return [back, _chosen(mask, earlier, c_bar)], results

    constants = [w_hh] if w_hr is None else [w_hh, w_hr]
    xs = [_before(cells, cx, reverse), cells, workspace, *given]
    xs += _taking_part(batch_sizes, hx.shape[0])
    start = [ops.zeros_like(hx), ops.zeros_like(cx)]
    found = stepping.scan(step, constants, start, xs, cells.shape[0], not reverse)
    h_bar, c_bar, gates_bar = found[:3]
    w_bar = _product(gates_bar, _before(output, hx, reverse))
    if w_hr is None:
        return gates_bar, h_bar, c_bar, w_bar, cx.new_zeros((0, cx.shape[1]))
    raw = workspace.narrow(-1, 3 * cx.shape[1], cx.shape[1]) * cells.tanh()
    return gates_bar, h_bar, c_bar, w_bar, _product(found[3], raw)


# --- GRU -----------------------------------------------------------------------------------------


def gru_step(gates: Tensor, inner: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The hidden state of a step, and r, z, n; from the products with the input and with h."""
    (a, b, c), (d, e, q) = gates.chunk(3, -1), inner.chunk(3, -1)
    r, z = (a + d).sigmoid(), (b + e).sigmoid()
    n = (c + r * q).tanh()
    return n + z * (h - n), r, z, n


def gru_layer(
    gates: Tensor, hx: Tensor, w_hh: Tensor, b_hh: Tensor | None, batch_sizes: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """h ← step(gates[t], h w_hhᵀ + b_hh, h)."""
    units = recurrent.gru_layer("gru", gates, hx, w_hh, b_hh, batch_sizes)

    def step(constants: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
        (h,) = carry
        inner = h.matmul(constants[0].t())
        inner = inner if b_hh is None else inner + constants[1]
        new, r, z, n = gru_step(x[0], inner, h)
        workspace = ops.cat([r, z, n, inner.narrow(-1, 2 * units, units)], -1)
        new = _chosen(x[1:], new, h)
        return [new], [new, _only(x[1:], workspace)]

    constants = [w_hh] if b_hh is None else [w_hh, b_hh]
    xs = [gates, *_taking_part(batch_sizes, hx.shape[0])]
    found = stepping.scan(step, constants, [hx], xs, gates.shape[0], reverse)
    return found[1], found[2]


def gru_step_vjp(
    h_bar: Tensor, bars: list[Tensor] | None, h: Tensor, workspace: Tensor
) -> tuple[list[Tensor], Tensor, Tensor]:
    """The gradients of r, z, n before their activations, of the hidden part of n, and of h
    directly; `bars` are gradients of r, z, n and that part themselves.
    """
    r, z, n, q = workspace.chunk(4, -1)
    z_bar, n_bar = h_bar * (h - n), h_bar * (1 - z)
    if bars is not None:
        z_bar, n_bar = z_bar + bars[1], n_bar + bars[2]
    n_bar = n_bar * (1 - n * n)
    r_bar, q_bar = n_bar * q, n_bar * r
    if bars is not None:
        r_bar, q_bar = r_bar + bars[0], q_bar + bars[3]
    return [r_bar * r * (1 - r), z_bar * z * (1 - z), n_bar], q_bar, h_bar * z


def gru_layer_backward(
    grad_output: Tensor | None, grad_workspace: Tensor | None, hx: Tensor, w_hh: Tensor,
    batch_sizes: Tensor | None, output: Tensor, workspace: Tensor, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of gates, hx, w_hh and b_hh."""
    recurrent.gru_backward("gru_backward", hx, w_hh, batch_sizes, output, workspace)
    given, there = _given(grad_output, grad_workspace)

    def step(constants: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
        h, active, *rest = x
        more, own = _taken(rest, there)
        h_bar = _plus(carry[0], more)
        parts = None if own is None else list(own.chunk(4, -1))
        (r_bar, z_bar, n_bar), q_bar, direct = gru_step_vjp(h_bar, parts, h, active)
        inner = ops.cat([r_bar, z_bar, q_bar], -1)
        mask = rest[len(given) :]
        back = _chosen(mask, direct + inner.matmul(constants[0]), h_bar)
        return [back], [_only(mask, ops.cat([r_bar, z_bar, n_bar], -1)), _only(mask, inner)]

    earlier = _before(output, hx, reverse)
    xs = [earlier, workspace, *given, *_taking_part(batch_sizes, hx.shape[0])]
    found = stepping.scan(step, [w_hh], [ops.zeros_like(hx)], xs, output.shape[0], not reverse)
    h_bar, gates_bar, inner = found
    return gates_bar, h_bar, _product(inner, earlier), inner.sum((0, 1))


# --- plain ---------------------------------------------------------------------------------------


def rnn_layer(
    gates: Tensor, hx: Tensor, w_hh: Tensor, batch_sizes: Tensor | None, reverse: bool, relu: bool
) -> Tensor:
    """h ← tanh(gates[t] + h w_hhᵀ), or relu of it."""
    recurrent.layer("rnn", 1, gates, hx, w_hh, batch_sizes)

    def step(constants: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
        new = x[0] + carry[0].matmul(constants[0].t())
        new = _chosen(x[1:], new.relu() if relu else new.tanh(), carry[0])
        return [new], [new]

    xs = [gates, *_taking_part(batch_sizes, hx.shape[0])]
    return stepping.scan(step, [w_hh], [hx], xs, gates.shape[0], reverse)[1]


def rnn_layer_backward(
    grad: Tensor, hx: Tensor, w_hh: Tensor, batch_sizes: Tensor | None, output: Tensor,
    reverse: bool, relu: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of gates, hx and w_hh."""
    recurrent.layer("rnn_backward", 1, output, hx, w_hh, batch_sizes)

    def step(constants: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
        new, more, *mask = x
        h_bar = carry[0] + more
        bar = h_bar.where(new > 0, 0.0) if relu else h_bar * (1 - new * new)
        return [_chosen(mask, bar.matmul(constants[0]), h_bar)], [_only(mask, bar)]

    xs = [output, grad, *_taking_part(batch_sizes, hx.shape[0])]
    found = stepping.scan(step, [w_hh], [ops.zeros_like(hx)], xs, output.shape[0], not reverse)
    h_bar, bars = found
    return bars, h_bar, _product(bars, _before(output, hx, reverse))

"""One step of a recurrent layer, in terms of smaller operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import recurrent
from adjoint.core.errors import ArgumentError, ShapeError
from adjoint.core.shapes import show
from adjoint.decompositions.recurrent.layers import (
    gru_step,
    gru_step_vjp,
    lstm_step,
    lstm_step_vjp,
)
from adjoint.decompositions.recurrent.lowered import in_one_dtype, is_lowered

Tensor = Any


def _added(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


def fused_lstm_cell(
    input_gates: Tensor, hidden_gates: Tensor, cx: Tensor, input_bias: Tensor | None,
    hidden_bias: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The hidden state, the cell, and the gates i, f, g, o."""
    recurrent.cell("lstm_cell", 4, input_gates, hidden_gates, cx, input_bias, hidden_bias)
    gates = _added(input_gates, input_bias) + _added(hidden_gates, hidden_bias)
    h, c, workspace = lstm_step(gates, cx)
    return h, c, workspace.detach()


def fused_lstm_cell_backward_impl(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor,
    has_bias: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """The gradients of the gates, of cx, and of a bias."""
    h_bar = ops.zeros_like(cx) if grad_hy is None else grad_hy
    c_bar = ops.zeros_like(cx) if grad_cy is None else grad_cy
    gates_bar, earlier = lstm_step_vjp(h_bar, c_bar, None, cx, cy, workspace)
    return gates_bar, earlier, gates_bar.sum((0,)) if has_bias else None


def fused_lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor,
    has_bias: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """The gradients of input_gates, hidden_gates, cx and the two biases."""
    gates_bar, earlier, bias_bar = fused_lstm_cell_backward_impl(
        grad_hy, grad_cy, cx, cy, workspace, has_bias
    )
    again = None if bias_bar is None else bias_bar.clone()
    return gates_bar, gates_bar.clone(), earlier, bias_bar, again


def differentiable_lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, input_gates: Tensor, hidden_gates: Tensor,
    input_bias: Tensor | None, hidden_bias: Tensor | None, cx: Tensor, cy: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """The gradients of an LSTM cell, computed from the inputs of its gates."""
    gates = _added(input_gates, input_bias) + _added(hidden_gates, hidden_bias)
    workspace = lstm_step(gates, cx)[2]
    return fused_lstm_cell_backward(grad_hy, grad_cy, cx, cy, workspace, input_bias is not None)


def fused_gru_cell(
    input_gates: Tensor, hidden_gates: Tensor, hx: Tensor, input_bias: Tensor | None,
    hidden_bias: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The hidden state, and r, z, n, hx and the hidden part of n."""
    recurrent.cell("gru_cell", 3, input_gates, hidden_gates, hx, input_bias, hidden_bias)
    units, inner = hx.shape[1], _added(hidden_gates, hidden_bias)
    h, r, z, n = gru_step(_added(input_gates, input_bias), inner, hx)
    return h, ops.cat([r, z, n, hx, inner.narrow(-1, 2 * units, units)], -1).detach()


def fused_gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """The gradients of input_gates, hidden_gates, hx and the two biases."""
    r, z, n, h, q = workspace.chunk(5, -1)
    active = ops.cat([r, z, n, q], -1)
    (r_bar, z_bar, n_bar), q_bar, h_bar = gru_step_vjp(grad_hy, None, h, active)
    outer, inner = ops.cat([r_bar, z_bar, n_bar], -1), ops.cat([r_bar, z_bar, q_bar], -1)
    if not has_bias:
        return outer, inner, h_bar, None, None
    return outer, inner, h_bar, outer.sum((0,)), inner.sum((0,))


def differentiable_gru_cell_backward(
    grad_hy: Tensor, input_gates: Tensor, hidden_gates: Tensor, hx: Tensor,
    input_bias: Tensor | None, hidden_bias: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """The gradients of a GRU cell, computed from the inputs of its gates."""
    units, inner = hx.shape[1], _added(hidden_gates, hidden_bias)
    _, r, z, n = gru_step(_added(input_gates, input_bias), inner, hx)
    workspace = ops.cat([r, z, n, hx, inner.narrow(-1, 2 * units, units)], -1)
    return fused_gru_cell_backward(grad_hy, workspace, input_bias is not None)


# --- with their products -------------------------------------------------------------------------


def _check(what: str, input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, parts: int) -> None:
    """Raise unless the products can be formed: rows of `parts` gates by the units of hx."""
    if input.ndim != 2 or hx.ndim != 2:
        raise ShapeError(
            f"{what}: needs input (sequences, features) and a state (sequences, units), got "
            f"{show(input.shape)} and {show(hx.shape)}."
        )
    rows = parts * hx.shape[1]
    recurrent.expect(what, "hx", hx, (input.shape[0], hx.shape[1]), "a state for each sequence")
    recurrent.expect(what, "w_ih", w_ih, (rows, input.shape[1]), "gates by features")
    recurrent.expect(what, "w_hh", w_hh, (rows, hx.shape[1]), "gates by units")


def lstm_cell(
    input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None,
    b_hh: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The hidden state and the cell after one step."""
    if len(hx) != 2:
        raise ArgumentError(f"lstm_cell: hx must be [h, c], got {len(hx)} tensors.")
    _check("lstm_cell", input, hx[0], w_ih, w_hh, 4)
    given = [ops.linear(input, w_ih), ops.linear(hx[0], w_hh), hx[1], b_ih, b_hh]
    if is_lowered():
        given = in_one_dtype(given[0], [hx[1]], *given[1:])
    found = ops._thnn_fused_lstm_cell(*given)
    return found[0], found[1]


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None,
    b_hh: Tensor | None,
) -> Tensor:  # fmt: skip
    """The hidden state after one step."""
    _check("gru_cell", input, hx, w_ih, w_hh, 3)
    given = [ops.linear(input, w_ih), ops.linear(hx, w_hh), hx, b_ih, b_hh]
    if is_lowered():
        given = in_one_dtype(given[0], [hx], *given[1:])
    return ops._thnn_fused_gru_cell(*given)[0]


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None,
    b_hh: Tensor | None,
) -> Tensor:  # fmt: skip
    """tanh(x w_ihᵀ + b_ih + h w_hhᵀ + b_hh)."""
    _check("rnn_tanh_cell", input, hx, w_ih, w_hh, 1)
    return (ops.linear(input, w_ih, b_ih) + ops.linear(hx, w_hh, b_hh)).tanh()


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None,
    b_hh: Tensor | None,
) -> Tensor:  # fmt: skip
    """relu(x w_ihᵀ + b_ih + h w_hhᵀ + b_hh)."""
    _check("rnn_relu_cell", input, hx, w_ih, w_hh, 1)
    return (ops.linear(input, w_ih, b_ih) + ops.linear(hx, w_hh, b_hh)).relu()

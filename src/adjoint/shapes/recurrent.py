"""Shape rules of recurrent layers: the states of all steps, one after the other."""

from __future__ import annotations

from adjoint.checks import recurrent
from adjoint.core.shapes import Spec


def lstm_layer(
    gates: Spec, hx: Spec, cx: Spec, w_hh: Spec, w_hr: Spec | None, batch_sizes: Spec | None,
    reverse: bool,
) -> tuple[Spec, Spec, Spec]:  # fmt: skip
    """The hidden states, the cells and the gates."""
    recurrent.lstm_layer("lstm", gates, hx, cx, w_hh, w_hr, batch_sizes)
    dtype = gates.dtype
    steps = gates.shape[0]
    return Spec((steps, *hx.shape), dtype), Spec((steps, *cx.shape), dtype), gates


def lstm_layer_backward(
    grad_output: Spec | None, grad_cells: Spec | None, grad_workspace: Spec | None, hx: Spec,
    cx: Spec, w_hh: Spec, w_hr: Spec | None, batch_sizes: Spec | None, output: Spec, cells: Spec,
    workspace: Spec, reverse: bool,
) -> tuple[Spec, Spec, Spec, Spec, Spec]:  # fmt: skip
    """Like gates, hx, cx, w_hh and w_hr, which may be missing."""
    recurrent.lstm_backward(
        "lstm_backward", (grad_output, grad_cells, grad_workspace), hx, cx, w_hh, w_hr, batch_sizes,
        output, cells, workspace,
    )  # fmt: skip
    return workspace, hx, cx, w_hh, w_hr or Spec((0, cx.shape[1]), cx.dtype)


def gru_layer(
    gates: Spec, hx: Spec, w_hh: Spec, b_hh: Spec | None, batch_sizes: Spec | None, reverse: bool
) -> tuple[Spec, Spec]:
    """The hidden states, and the four parts of each step."""
    units = recurrent.gru_layer("gru", gates, hx, w_hh, b_hh, batch_sizes)
    dtype = gates.dtype
    steps, count, _ = gates.shape
    return Spec((steps, count, units), dtype), Spec((steps, count, 4 * units), dtype)


def gru_layer_backward(
    grad_output: Spec | None, grad_workspace: Spec | None, hx: Spec, w_hh: Spec,
    batch_sizes: Spec | None, output: Spec, workspace: Spec, reverse: bool,
) -> tuple[Spec, Spec, Spec, Spec]:  # fmt: skip
    """Like gates, hx, w_hh and b_hh."""
    units = recurrent.gru_backward("gru_backward", hx, w_hh, batch_sizes, output, workspace)
    gates = Spec((*output.shape[:2], 3 * units), output.dtype)
    return gates, hx, w_hh, Spec((3 * units,), output.dtype)


def rnn_layer(
    gates: Spec, hx: Spec, w_hh: Spec, batch_sizes: Spec | None, reverse: bool, relu: bool
) -> Spec:
    """Like the gates."""
    recurrent.layer("rnn", 1, gates, hx, w_hh, batch_sizes)
    return gates


def rnn_layer_backward(
    grad: Spec, hx: Spec, w_hh: Spec, batch_sizes: Spec | None, output: Spec, reverse: bool,
    relu: bool,
) -> tuple[Spec, Spec, Spec]:  # fmt: skip
    """Like gates, hx and w_hh."""
    recurrent.layer("rnn_backward", 1, output, hx, w_hh, batch_sizes)
    return output, hx, w_hh

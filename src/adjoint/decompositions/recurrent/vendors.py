"""Recurrent layers under the names of libraries.

What a library reserves for its backward is here the factors by which dropout multiplied the inputs
of layers after the first; a backward runs the stack again with them, and asks for its gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.errors import ArgumentError
from adjoint.decompositions.recurrent.packed import packed, padded
from adjoint.decompositions.recurrent.stacks import Stack, run
from adjoint.ops import runtime

Tensor = Any

KINDS = ("rnn_relu", "rnn_tanh", "lstm", "gru")


def _vector(numbers: Sequence[int]) -> Tensor:
    return ops.stack([ops.full((), n, dtype=dtypes.int64) for n in numbers])


def _factors(stack: Stack, steps: int, state: Tensor) -> Tensor:
    """What inputs of layers after the first are multiplied by: 1, or 0 and 1/(1 - dropout)."""
    shape = (stack.layers - 1, steps, state.shape[1], stack.directions * state.shape[2])
    ones = state.detach().new_ones(shape)
    return ops.dropout(ones, stack.dropout, True) if stack.train and stack.dropout else ones


def _rows(tensor: Tensor) -> list[Tensor]:
    return [tensor.select(0, i) for i in range(tensor.shape[0])]


# --- cuDNN and MIOpen ----------------------------------------------------------------------------


def _stack(
    mode: int, per_layer: int, layers: int, dropout: float, train: bool, bidirectional: bool,
    projects: bool,
) -> Stack:  # fmt: skip
    if mode not in range(4):
        raise ArgumentError(
            f"rnn: mode must be 0 (relu), 1 (tanh), 2 (lstm) or 3 (gru), got {mode}."
        )
    has_biases = per_layer >= 4
    return Stack(KINDS[mode], has_biases, layers, dropout, train, 1 + bidirectional, projects)


def _steps(input: Tensor, batch_first: bool, sizes: Tensor | None, count: int) -> Tensor:
    """(steps, sequences, features)."""
    if sizes is not None:
        return padded(input, sizes, count)
    return input.transpose(0, 1) if batch_first else input


def _given(output: Tensor, batch_first: bool, sizes: Tensor | None, rows: int) -> Tensor:
    """In the layout of the input."""
    if sizes is not None:
        return packed(output, sizes, rows)
    return output.transpose(0, 1) if batch_first else output


def _run(
    stack: Stack, input: Tensor, states: Sequence[Tensor], params: Sequence[Tensor],
    batch_first: bool, batch_sizes: Sequence[int], factors: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The output and the last states, in the layout of the input."""
    sizes = _vector(batch_sizes) if batch_sizes else None
    steps = _steps(input, batch_first, sizes, states[0].shape[1])
    _, (output, *last) = run(stack, steps, states, params, sizes, _rows(factors))
    return _given(output, batch_first, sizes, input.shape[0]), *last


def _back(
    stack: Stack, input: Tensor, states: Sequence[Tensor], params: Sequence[Tensor],
    batch_first: bool, batch_sizes: Sequence[int], factors: Tensor, grads: Sequence[Tensor | None],
) -> tuple[Tensor, list[Tensor], list[Tensor]]:  # fmt: skip
    """The gradients of the input, of the states and of the parameters."""
    count = len(states)

    def results(x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        layout = batch_first, batch_sizes, factors.detach()
        return _run(stack, x, rest[:count], rest[count:], *layout)

    found = runtime.gradients(results, [input, *states, *params], grads[: 1 + count])
    return found[0], found[1 : 1 + count], found[1 + count :]


def cudnn_rnn(
    input: Tensor, weight: Sequence[Tensor], weight_stride0: int, weight_buf: Tensor | None,
    hx: Tensor, cx: Tensor | None, mode: int, hidden_size: int, proj_size: int, num_layers: int,
    batch_first: bool, dropout: float, train: bool, bidirectional: bool, batch_sizes: Sequence[int],
    dropout_state: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The output, the last h and c, the factors of dropout, and all weights in one vector."""
    stack = _stack(mode, weight_stride0, num_layers, dropout, train, bidirectional, bool(proj_size))
    steps = len(batch_sizes) or input.shape[1 if batch_first else 0]
    factors = _factors(stack, steps, hx)
    states = [hx] if cx is None else [hx, cx]
    output, *last = _run(stack, input, states, weight, batch_first, batch_sizes, factors)
    flat = flatten_weight(weight) if weight_buf is None else weight_buf
    cy = last[1] if len(last) == 2 else hx.new_zeros((0,))
    return output, last[0], cy, factors, flat.detach().clone()


def flatten_weight(weight_arr: Sequence[Tensor], *layers: Any) -> Tensor:
    """All parameters, one after the other, in one vector."""
    return ops.cat([w.reshape((-1,)) for w in weight_arr])


def cudnn_rnn_backward(
    input: Tensor, weight: Sequence[Tensor], weight_stride0: int, weight_buf: Tensor, hx: Tensor,
    cx: Tensor | None, output: Tensor, grad_output: Tensor | None, grad_hy: Tensor | None,
    grad_cy: Tensor | None, mode: int, hidden_size: int, proj_size: int, num_layers: int,
    batch_first: bool, dropout: float, train: bool, bidirectional: bool, batch_sizes: Sequence[int],
    dropout_state: Tensor | None, reserve: Tensor, output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None, list[Tensor]]:  # fmt: skip
    """The gradients of input, hx, cx and the parameters that are wanted."""
    stack = _stack(mode, weight_stride0, num_layers, dropout, train, bidirectional, bool(proj_size))
    states = [hx] if cx is None else [hx, cx]
    bar, state_bars, bars = _back(
        stack, input, states, weight, batch_first, batch_sizes, reserve,
        (grad_output, grad_hy, grad_cy),
    )  # fmt: skip
    c_bar = state_bars[1] if cx is not None and output_mask[2] else None
    return (
        bar if output_mask[0] else None,
        state_bars[0] if output_mask[1] else None,
        c_bar,
        bars if output_mask[3] else [],
    )


# --- Metal ---------------------------------------------------------------------------------------


def _mps(
    hx: Sequence[Tensor], has_biases: bool, layers: int, dropout: float, train: bool,
    bidirectional: bool,
) -> Stack:  # fmt: skip
    if len(hx) != 2:
        raise ArgumentError(f"lstm: hx must be [h, c], got {len(hx)} tensors.")
    return Stack("lstm", has_biases, layers, dropout, train, 1 + bidirectional)


def lstm_mps(
    input: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The output, the last h and c; the gates and cells of all layers, the factors of dropout."""
    stack = _mps(hx, has_biases, num_layers, dropout, train, bidirectional)
    steps = _steps(input, batch_first, None, 0)
    factors = _factors(stack, steps.shape[0], hx[0])
    results, (output, h, c) = run(stack, steps, hx, params, None, _rows(factors))
    kept = (ops.stack([r[k].detach() for r in results]) for k in (2, 1))
    return _given(output, batch_first, None, 0), h, c, *kept, factors


def lstm_mps_backward(
    grad_y: Tensor | None, grad_hy: Tensor | None, grad_cy: Tensor | None, z_state: Tensor,
    cell_state_fwd: Tensor, input: Tensor, layersOutputs: Tensor, hx: Sequence[Tensor],
    params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, list[Tensor], list[Tensor]]:  # fmt: skip
    """The gradients of the input, of h and c, and of the parameters."""
    stack = _mps(hx, has_biases, num_layers, dropout, train, bidirectional)
    grads = grad_y, grad_hy, grad_cy
    return _back(stack, input, hx, params, batch_first, (), layersOutputs, grads)


# --- oneDNN --------------------------------------------------------------------------------------


def _in_order(tensor: Tensor, reverse: bool) -> Tensor:
    """The steps in the order in which a single direction goes over them."""
    return tensor.flip((0,)) if reverse else tensor


def _single(
    mode: int, weights: Sequence[Tensor], hx: Tensor, cx: Tensor, has_biases: bool
) -> tuple[Stack, list[Tensor], list[Tensor]]:
    """One layer: what it is, its parameters and its states."""
    stack = _stack(mode, 4 if has_biases else 2, 1, 0.0, False, False, False)
    shape = (1, *hx.shape[-2:])
    states = [s.reshape(shape) for s in ((hx, cx) if stack.kind == "lstm" else (hx,))]
    return stack, list(weights if has_biases else weights[:2]), states


def mkldnn_rnn_layer(
    input: Tensor, weight0: Tensor, weight1: Tensor, weight2: Tensor, weight3: Tensor, hx_: Tensor,
    cx_: Tensor, reverse: bool, batch_sizes: Sequence[int], mode: int, hidden_size: int,
    num_layers: int, has_biases: bool, bidirectional: bool, batch_first: bool, train: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The output, the last states in the shape of the first ones, and an empty workspace."""
    weights = (weight0, weight1, weight2, weight3)
    stack, params, states = _single(mode, weights, hx_, cx_, has_biases)
    _, (output, *last) = run(stack, _in_order(input, reverse), states, params, None)
    cy = last[1] if len(last) == 2 else cx_
    h, c = last[0].reshape(hx_.shape), cy.reshape(cx_.shape)
    workspace = ops.zeros((0,), dtype=dtypes.uint8)
    return _in_order(output, reverse), h, c.clone(), workspace


def mkldnn_rnn_layer_backward(
    input: Tensor, weight1: Tensor, weight2: Tensor, weight3: Tensor, weight4: Tensor, hx_: Tensor,
    cx_tmp: Tensor, output: Tensor, hy_: Tensor, cy_: Tensor, grad_output: Tensor | None,
    grad_hy: Tensor | None, grad_cy: Tensor | None, reverse: bool, mode: int, hidden_size: int,
    num_layers: int, has_biases: bool, train: bool, bidirectional: bool, batch_sizes: Sequence[int],
    batch_first: bool, workspace: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The gradients of input, weights, biases, hx and cx."""
    rest = (
        reverse, batch_sizes, mode, hidden_size, num_layers, has_biases, bidirectional, batch_first,
        train,
    )  # fmt: skip
    layer: Callable[..., Any] = mkldnn_rnn_layer
    given = [input, weight1, weight2, weight3, weight4, hx_, cx_tmp]
    grads = [grad_output, grad_hy, grad_cy if mode == KINDS.index("lstm") else None]
    return tuple(runtime.gradients(lambda *given: layer(*given, *rest)[:3], given, grads))

"""Stacks of recurrent layers: several of them, in one or both directions, with dropout between.

Every layer forms the products with its whole input at once, and hands them to the row that goes
over time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import recurrent
from adjoint.core.errors import AdjointError, ArgumentError, ShapeError
from adjoint.core.records import record
from adjoint.core.shapes import show
from adjoint.decompositions.recurrent.lowered import in_one_dtype, is_lowered
from adjoint.decompositions.recurrent.packed import packed, padded, sequences

Tensor = Any

PARTS = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}  # gates of a unit


@record
class Stack:
    """What a call says of its layers."""

    kind: str  # "lstm", "gru", "rnn_tanh" or "rnn_relu"
    has_biases: bool
    layers: int
    dropout: float
    train: bool
    directions: int  # 1, or 2
    projects: bool = False  # whether hidden states are narrower than cells

    @property
    def per_layer(self) -> int:
        """How many parameters a layer has in each direction."""
        return 2 + 2 * self.has_biases + self.projects

    def weights(self, params: Sequence[Tensor], number: int) -> list[Tensor | None]:
        """w_ih, w_hh, b_ih, b_hh and w_hr of one layer in one direction."""
        own = list(params[number * self.per_layer : (number + 1) * self.per_layer])
        w_hr = own.pop() if self.projects else None
        return [*own, *([] if self.has_biases else [None, None]), w_hr]


def check(stack: Stack, input: Tensor, states: Sequence[Tensor], params: Sequence[Tensor]) -> None:
    """Raise unless the input (steps, sequences, features), states and parameters fit."""
    what, count = stack.kind, stack.layers * stack.directions
    if stack.layers < 1:
        raise ArgumentError(f"{what}: needs num_layers of at least 1, got {stack.layers}.")
    if not 0 <= stack.dropout <= 1:
        raise ArgumentError(f"{what}: dropout is a probability, got {stack.dropout}.")
    if input.ndim != 3 or not input.shape[0]:
        raise ShapeError(
            f"{what}: needs at least one step of sequences of features, got {show(input.shape)}."
        )
    if len(params) != count * stack.per_layer:
        raise ArgumentError(
            f"{what}: {stack.layers} layers in {stack.directions} directions, "
            f"has_biases={stack.has_biases}, have {count * stack.per_layer} parameters, got "
            f"{len(params)}."
        )
    for name, state in zip(("hx", "cx"), states, strict=False):
        if state.ndim != 3:
            raise ShapeError(
                f"{what}: {name} must be (layers x directions, sequences, units), got "
                f"{show(state.shape)}."
            )
        expected = (count, input.shape[1], state.shape[2])
        recurrent.expect(what, name, state, expected, "layers x directions, sequences, units")
    _check_weights(stack, input, states, params)


def _check_weights(
    stack: Stack, input: Tensor, states: Sequence[Tensor], params: Sequence[Tensor]
) -> None:
    """Raise unless the first products of every layer can be formed."""
    what, rows = stack.kind, PARTS[stack.kind] * states[-1].shape[2]
    width, features = states[0].shape[2], input.shape[2]
    for number in range(stack.layers * stack.directions):
        w_ih, w_hh, b_ih, b_hh, w_hr = stack.weights(params, number)
        layer = number // stack.directions
        wanted = features if layer == 0 else width * stack.directions
        recurrent.expect(what, f"w_ih of layer {layer}", w_ih, (rows, wanted), "gates by features")
        recurrent.expect(what, f"w_hh of layer {layer}", w_hh, (rows, width), "gates by units")
        for name, bias in (("b_ih", b_ih), ("b_hh", b_hh)):
            recurrent.expect(what, f"{name} of layer {layer}", bias, (rows,), "one per gate")
        narrow = (width, states[-1].shape[2])
        recurrent.expect(what, f"w_hr of layer {layer}", w_hr, narrow, "projected by units")


def one_layer(
    kind: str, x: Tensor, states: Sequence[Tensor], weights: Sequence[Tensor | None],
    batch_sizes: Tensor | None, reverse: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The results of the row of a layer: the hidden states of all steps first."""
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    if kind == "gru":
        gates = ops.linear(x, w_ih, b_ih)
        if is_lowered():
            gates, w_hh, b_hh, *states = in_one_dtype(gates, states, w_hh, b_hh, *states)
        return ops._gru_layer(gates, states[0], w_hh, b_hh, batch_sizes, reverse)
    gates = ops.linear(x, w_ih, b_ih if b_hh is None or b_ih is None else b_ih + b_hh)
    if is_lowered():
        gates, w_hh, w_hr, *states = in_one_dtype(gates, (), w_hh, w_hr, *states)
    if kind == "lstm":
        return ops._lstm_layer(gates, states[0], states[1], w_hh, w_hr, batch_sizes, reverse)
    return (ops._rnn_layer(gates, states[0], w_hh, batch_sizes, reverse, kind == "rnn_relu"),)


def run(
    stack: Stack, input: Tensor, states: Sequence[Tensor], params: Sequence[Tensor],
    batch_sizes: Tensor | None, factors: Sequence[Tensor] | None = None,
) -> tuple[list[tuple[Tensor, ...]], tuple[Tensor, ...]]:  # fmt: skip
    """The results of the row of each layer and direction; the hidden states of the last layer, and
    the last states of all layers and directions.

    `factors` are what inputs of layers after the first are multiplied by, in the place of dropout.
    """
    check(stack, input, states, params)
    x, last = input, []
    found: list[tuple[Tensor, ...]] = []
    for layer in range(stack.layers):
        if layer:
            x = _dropped(stack, x) if factors is None else x * factors[layer - 1]
        sides = []
        for number in range(layer * stack.directions, (layer + 1) * stack.directions):
            reverse = number % stack.directions == 1
            own, weights = [s.select(0, number) for s in states], stack.weights(params, number)
            results = one_layer(stack.kind, x, own, weights, batch_sizes, reverse)
            found.append(results)
            sides.append(results[0])
            last.append([r.select(0, 0 if reverse else -1) for r in results[: len(states)]])
        x = sides[0] if len(sides) == 1 else ops.cat(sides, -1)
    return found, (x, *(ops.stack(list(s)) for s in zip(*last, strict=True)))


def _dropped(stack: Stack, x: Tensor) -> Tensor:
    return ops.dropout(x, stack.dropout, True) if stack.train and stack.dropout else x


def run_input(
    stack: Stack, input: Tensor, states: Sequence[Tensor], params: Sequence[Tensor],
    batch_first: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Of sequences of one length."""
    swap = batch_first and input.ndim == 3
    steps = input.transpose(0, 1) if swap else input
    _, (output, *last) = run(stack, steps, states, params, None)
    return output.transpose(0, 1) if swap else output, *last


def run_data(
    stack: Stack, data: Tensor, batch_sizes: Tensor, states: Sequence[Tensor],
    params: Sequence[Tensor],
) -> tuple[Tensor, ...]:  # fmt: skip
    """Of packed sequences."""
    if data.ndim != 2 or batch_sizes.ndim != 1 or not batch_sizes.shape[0] or not data.shape[0]:
        raise ShapeError(
            f"{stack.kind}: packed data needs rows of features and batch_sizes, got "
            f"{show(data.shape)} and {show(batch_sizes.shape)}."
        )
    if states[0].ndim != 3:
        raise ShapeError(
            f"{stack.kind}: hx must be (layers x directions, sequences, units), got "
            f"{show(states[0].shape)}."
        )
    _check_if_known(stack.kind, data, batch_sizes)
    steps = padded(data, batch_sizes, states[0].shape[1])
    _, (output, *last) = run(stack, steps, states, params, batch_sizes)
    return packed(output, batch_sizes, data.shape[0]), *last


def _check_if_known(what: str, data: Tensor, batch_sizes: Tensor) -> None:
    """Raise for batch sizes that do not fit the data; in a transform they are not known."""
    try:
        batch_sizes.tolist()
    except AdjointError:
        return
    sequences(what, data, batch_sizes)


def _lstm(
    hx: Sequence[Tensor], has_biases: bool, layers: int, dropout: float, train: bool,
    bidirectional: bool,
) -> Stack:  # fmt: skip
    if len(hx) != 2:
        raise ArgumentError(f"lstm: hx must be [h, c], got {len(hx)} tensors.")
    projects = hx[0].shape[-1] != hx[1].shape[-1]
    return Stack("lstm", has_biases, layers, dropout, train, 1 + bidirectional, projects)


def lstm_input(
    input: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The hidden states of the last layer, and the last h and c."""
    stack = _lstm(hx, has_biases, num_layers, dropout, train, bidirectional)
    return run_input(stack, input, hx, params, batch_first)


def lstm_data(
    data: Tensor, batch_sizes: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor],
    has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """As above, packed."""
    stack = _lstm(hx, has_biases, num_layers, dropout, train, bidirectional)
    return run_data(stack, data, batch_sizes, hx, params)


def gru_input(
    input: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The hidden states of the last layer, and the last of all layers."""
    stack = Stack("gru", has_biases, num_layers, dropout, train, 1 + bidirectional)
    return run_input(stack, input, [hx], params, batch_first)


def gru_data(
    data: Tensor, batch_sizes: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """As above, packed."""
    stack = Stack("gru", has_biases, num_layers, dropout, train, 1 + bidirectional)
    return run_data(stack, data, batch_sizes, [hx], params)


def rnn_tanh_input(
    input: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The hidden states of the last layer, and the last of all layers."""
    stack = Stack("rnn_tanh", has_biases, num_layers, dropout, train, 1 + bidirectional)
    return run_input(stack, input, [hx], params, batch_first)


def rnn_tanh_data(
    data: Tensor, batch_sizes: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """As above, packed."""
    stack = Stack("rnn_tanh", has_biases, num_layers, dropout, train, 1 + bidirectional)
    return run_data(stack, data, batch_sizes, [hx], params)


def rnn_relu_input(
    input: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The hidden states of the last layer, and the last of all layers."""
    stack = Stack("rnn_relu", has_biases, num_layers, dropout, train, 1 + bidirectional)
    return run_input(stack, input, [hx], params, batch_first)


def rnn_relu_data(
    data: Tensor, batch_sizes: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """As above, packed."""
    stack = Stack("rnn_relu", has_biases, num_layers, dropout, train, 1 + bidirectional)
    return run_data(stack, data, batch_sizes, [hx], params)

"""Samples of recurrent layers: directions, projections, packed sequences, no sequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.samples import Make, Sample, sampler

Samples = Iterator[Sample]
Tensor = ad.Tensor


def sizes(*numbers: int) -> Tensor:
    """Batch sizes or lengths."""
    return ad.tensor(numbers)


def weights(make: Make, rows: int, *columns: int) -> list[Tensor]:
    """Matrices that keep states away from saturation."""
    return [make.uniform(-0.8, 0.8, rows, n) for n in columns]


# --- layers --------------------------------------------------------------------------------------


def lstm(make: Make, steps: int, count: int, units: int = 2, width: int | None = None) -> list[Any]:
    """gates, hx, cx, w_hh and w_hr."""
    narrow = units if width is None else width
    w_hr = None if width is None else make(width, units)
    state = make(count, narrow), make(count, units)
    return [make(steps, count, 4 * units), *state, *weights(make, 4 * units, narrow), w_hr]


@sampler("_lstm_layer", real=True)
def lstm_layers(make: Make) -> Samples:
    yield Sample(*lstm(make, 3, 2), None, False, name="forwards")
    yield Sample(*lstm(make, 3, 2), None, True, name="backwards")
    yield Sample(*lstm(make, 2, 2, 2, 1), None, False, name="projected")
    yield Sample(*lstm(make, 3, 3, 1), sizes(3, 2, 1), False, name="lengths")
    yield Sample(*lstm(make, 3, 3, 2, 1), sizes(3, 1, 1), True, name="lengths backwards")
    yield Sample(*lstm(make, 1, 1), None, False, name="one step")
    yield Sample(*lstm(make, 2, 0), None, False, name="no sequences")


def gru(make: Make, steps: int, count: int, units: int = 2, *, bias: bool = True) -> list[Any]:
    """gates, hx, w_hh and b_hh."""
    state, (w_hh,) = make(count, units), weights(make, 3 * units, units)
    return [make(steps, count, 3 * units), state, w_hh, make(3 * units) if bias else None]


@sampler("_gru_layer", real=True)
def gru_layers(make: Make) -> Samples:
    yield Sample(*gru(make, 3, 2), None, False, name="forwards")
    yield Sample(*gru(make, 3, 2, bias=False), None, True, name="backwards")
    yield Sample(*gru(make, 3, 3, 1), sizes(3, 2, 1), False, name="lengths")
    yield Sample(*gru(make, 2, 3, 1), sizes(3, 1), True, name="lengths backwards")
    yield Sample(*gru(make, 1, 1), None, False, name="one step")
    yield Sample(*gru(make, 2, 0), None, False, name="no sequences")


def plain_layer(make: Make, steps: int, count: int, units: int = 2) -> list[Any]:
    """gates, hx and w_hh."""
    return [make(steps, count, units), make(count, units), *weights(make, units, units)]


@sampler("_rnn_layer", real=True)
def rnn_layers(make: Make) -> Samples:
    for relu in (False, True):
        name = "relu" if relu else "tanh"
        yield Sample(*plain_layer(make, 3, 2), None, False, relu, name=name)
        yield Sample(*plain_layer(make, 3, 2), None, True, relu, name=f"{name} backwards")
        yield Sample(*plain_layer(make, 3, 3), sizes(3, 2, 1), False, relu, name=f"{name} lengths")
    yield Sample(*plain_layer(make, 2, 3), sizes(3, 1), True, False, name="lengths backwards")
    yield Sample(*plain_layer(make, 2, 0), None, False, False, name="no sequences")


@sampler("_rnn_layer_backward", real=True)
def rnn_layer_backwards(make: Make) -> Samples:
    for relu, reverse, batch_sizes in (
        (False, False, None), (True, False, None), (False, True, sizes(2, 2, 1)),
    ):  # fmt: skip
        _, hx, w_hh = plain_layer(make, 3, 2)
        name = f"{'relu' if relu else 'tanh'}{' backwards, lengths' if reverse else ''}"
        values = hx, w_hh, batch_sizes, make(3, 2, 2), reverse, relu
        yield Sample(make(3, 2, 2), *values, name=name)


# --- cells ---------------------------------------------------------------------------------------


@sampler("_thnn_fused_lstm_cell", real=True)
def fused_lstm_cells(make: Make) -> Samples:
    yield Sample(make(2, 8), make(2, 8), make(2, 2), make(8), make(8), name="biases")
    yield Sample(make(2, 8), make(2, 8), make(2, 2), name="no biases")
    yield Sample(make(0, 8), make(0, 8), make(0, 2), make(8), make(8), name="no sequences")


@sampler("_thnn_fused_lstm_cell_backward", "_thnn_fused_lstm_cell_backward_impl", real=True)
def fused_lstm_cell_backwards(make: Make) -> Samples:
    state = make(2, 2), make(2, 2), make.probability(2, 8)
    yield Sample(make(2, 2), make(2, 2), *state, True, name="biases")
    yield Sample(make(2, 2), None, *state, True, name="of h")
    yield Sample(None, make(2, 2), *state, True, name="of c")
    yield Sample(make(2, 2), make(2, 2), *state, False, name="no biases")


@sampler("_thnn_differentiable_lstm_cell_backward", real=True)
def differentiable_lstm_cell_backwards(make: Make) -> Samples:
    grads, gates = (make(2, 2), make(2, 2)), (make(2, 8), make(2, 8))
    yield Sample(*grads, *gates, make(8), make(8), make(2, 2), make(2, 2), name="biases")
    yield Sample(None, grads[1], *gates, make(8), make(8), make(2, 2), make(2, 2), name="of c")


@sampler("_thnn_fused_gru_cell", real=True)
def fused_gru_cells(make: Make) -> Samples:
    yield Sample(make(2, 6), make(2, 6), make(2, 2), make(6), make(6), name="biases")
    yield Sample(make(2, 6), make(2, 6), make(2, 2), name="no biases")
    yield Sample(make(0, 6), make(0, 6), make(0, 2), make(6), make(6), name="no sequences")


@sampler("_thnn_fused_gru_cell_backward", real=True)
def fused_gru_cell_backwards(make: Make) -> Samples:
    yield Sample(make(2, 2), make.probability(2, 10), True, name="biases")
    yield Sample(make(2, 2), make.probability(2, 10), False, name="no biases")


@sampler("_thnn_differentiable_gru_cell_backward", real=True)
def differentiable_gru_cell_backwards(make: Make) -> Samples:
    gates = make(2, 6), make(2, 6), make(2, 2)
    yield Sample(make(2, 2), *gates, make(6), make(6), name="biases")
    yield Sample(make(2, 2), *gates, None, None, name="no biases")


def cell(make: Make, parts: int) -> list[Any]:
    """w_ih, w_hh and both biases for three features and two units."""
    return [*weights(make, 2 * parts, 3, 2), make(2 * parts), make(2 * parts)]


@sampler("lstm_cell", real=True)
def lstm_cells(make: Make) -> Samples:
    yield Sample(make(2, 3), [make(2, 2), make(2, 2)], *cell(make, 4), name="biases")
    yield Sample(make(2, 3), [make(2, 2), make(2, 2)], *cell(make, 4)[:2], name="no biases")
    yield Sample(make(0, 3), [make(0, 2), make(0, 2)], *cell(make, 4), name="no sequences")


def single_cells(make: Make, parts: int) -> Samples:
    yield Sample(make(2, 3), make(2, 2), *cell(make, parts), name="biases")
    yield Sample(make(2, 3), make(2, 2), *cell(make, parts)[:2], name="no biases")
    yield Sample(make(3, 2).t(), make(2, 2).t(), *cell(make, parts), name="transposed")
    yield Sample(make(0, 3), make(0, 2), *cell(make, parts), name="no sequences")


@sampler("gru_cell", real=True)
def gru_cells(make: Make) -> Samples:
    yield from single_cells(make, 3)


@sampler("rnn_tanh_cell", real=True)
def tanh_cells(make: Make) -> Samples:
    yield from single_cells(make, 1)


@sampler("rnn_relu_cell", real=True)
def relu_cells(make: Make) -> Samples:
    yield from single_cells(make, 1)


# --- stacks --------------------------------------------------------------------------------------


def stack(
    make: Make, parts: int, layers: int, directions: int, *, biases: bool, narrow: int = 0
) -> list[Tensor]:
    """The parameters of layers of two units on two features."""
    found: list[Tensor] = []
    width = narrow or 2
    for layer in range(layers):
        for _ in range(directions):
            found += weights(make, 2 * parts, 2 if layer == 0 else width * directions, width)
            found += [make.uniform(-1, 1, 2 * parts) for _ in range(2 * biases)]
            found += [make(narrow, 2)] if narrow else []
    return found


def inputs(make: Make, parts: int, *, cells: bool) -> Samples:
    """Samples of `lstm.input` and the others."""

    def state(rows: int, count: int, narrow: int = 2) -> Any:
        if cells:
            return [make(rows, count, narrow), make(rows, count, 2)]
        return make(rows, count, narrow)

    one = stack(make, parts, 1, 1, biases=True)
    yield Sample(make(3, 2, 2), state(1, 2), one, True, 1, 0.0, True, False, False, name="plain")
    two = stack(make, parts, 2, 2, biases=False)
    yield Sample(
        make(2, 2, 2), state(4, 2), two, False, 2, 0.0, False, True, False, name="two layers"
    )
    first = stack(make, parts, 1, 2, biases=True)
    yield Sample(
        make(1, 3, 2), state(2, 1), first, True, 1, 0.5, False, True, True, name="batch first"
    )
    none = stack(make, parts, 1, 1, biases=False)
    yield Sample(
        make(2, 0, 2), state(1, 0), none, False, 1, 0.0, True, False, False, name="no sequences"
    )
    if cells:
        narrow = stack(make, parts, 2, 1, biases=True, narrow=1)
        args = True, 2, 0.0, True, False, False
        yield Sample(make(2, 1, 2), state(2, 1, 1), narrow, *args, name="projected")


def packs(make: Make, parts: int, *, cells: bool) -> Samples:
    """Samples of `lstm.data` and the others."""
    for directions, batch_sizes in ((1, (2, 1, 1)), (2, (2, 2, 1))):
        params = stack(make, parts, directions, directions, biases=directions == 2)
        rows = directions * directions
        hx: Any = [make(rows, 2, 2) for _ in range(2)] if cells else make(rows, 2, 2)
        rest = directions == 2, directions, 0.0, True, directions == 2
        name = "two layers" if directions == 2 else "plain"
        yield Sample(make(sum(batch_sizes), 2), sizes(*batch_sizes), hx, params, *rest, name=name)


def register(kind: str, parts: int) -> None:
    """The samplers of one kind of layer."""

    @sampler(f"{kind}.input")
    def of_input(make: Make) -> Samples:
        if not make.is_complex:
            yield from inputs(make, parts, cells=kind == "lstm")

    @sampler(f"{kind}.data")
    def of_data(make: Make) -> Samples:
        if not make.is_complex:
            yield from packs(make, parts, cells=kind == "lstm")


for kind, parts in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
    register(kind, parts)


# --- packed sequences ----------------------------------------------------------------------------


@sampler("_pack_padded_sequence")
def packing(make: Make) -> Samples:
    yield Sample(make(3, 2, 2), sizes(3, 1), False, name="two sequences")
    yield Sample(make(3, 4), sizes(4, 4, 2), True, name="batch first, vectors")
    yield Sample(make(5, 2), sizes(3, 2), False, name="longer than needed")
    yield Sample(make(1, 1, 1), sizes(1), False, name="one step")


@sampler("_pad_packed_sequence")
def padding(make: Make) -> Samples:
    yield Sample(make(4, 2), sizes(2, 1, 1), False, 0.0, -1, name="two sequences")
    yield Sample(make(4, 2), sizes(2, 1, 1), True, 2.0, 5, name="batch first, longer")
    yield Sample(make(3), sizes(3), False, 0.0, 0, name="one step")
    yield Sample(make.like(np.arange(6.0).reshape(3, 2)).t()[:, :1], sizes(1, 1), False, 0.0, -1,
                 name="transposed")  # fmt: skip

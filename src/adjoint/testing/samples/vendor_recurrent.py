"""Samples of recurrent layers under the names of libraries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.references import recurrent
from adjoint.testing.samples import Make, Sample, sampler
from adjoint.testing.samples.recurrent import stack

Samples = Iterator[Sample]
Tensor = ad.Tensor

PARTS = (1, 1, 4, 3)  # by mode: relu, tanh, lstm, gru
STEPS = recurrent.relu_step, recurrent.tanh_step, recurrent.lstm_step, recurrent.gru_step


def cudnn_reference(
    input: Any, weight: Any, stride: int, flat: Any, hx: Any, cx: Any, mode: int, units: int,
    narrow: int, layers: int, batch_first: bool, dropout: float, train: bool, both: bool,
    sizes: Any, state: Any,
) -> Any:  # fmt: skip
    """The outputs by the reference of the stack."""
    states = [hx] if cx is None else [hx, cx]
    options = stride >= 4, layers, dropout, train, both
    if sizes:
        packs = recurrent.of_data(STEPS[mode])
        return packs(input, np.array(sizes), states, weight, *options)[0]
    return recurrent.of_input(STEPS[mode])(input, states, weight, *options, batch_first)[0]


def layer_reference(input: Any, *args: Any) -> Any:
    """The outputs of one layer in one direction."""
    weights, (hx, cx), (reverse, _, mode, _, _, has_biases, *_) = args[:4], args[4:6], args[6:]
    units = hx.shape[-1]
    states = [s.reshape((1, -1, units)) for s in ((hx, cx) if mode == 2 else (hx,))]
    params = weights if has_biases else weights[:2]
    x = input[::-1] if reverse else input
    options = has_biases, 1, 0.0, False, False, False
    found = recurrent.of_input(STEPS[mode])(x, states, params, *options)[0]
    return found[::-1] if reverse else found


def cudnn(
    make: Make, mode: int, *, layers: int = 1, directions: int = 1, biases: bool = True,
    narrow: int = 0, sizes: tuple[int, ...] = (),
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """Arguments of `_cudnn_rnn` before and after hx and cx: two sequences of two steps, 2 units."""
    rows = layers * directions
    params = stack(make, PARTS[mode], layers, directions, biases=biases, narrow=narrow)
    x = make(sum(sizes), 2) if sizes else make(2, 2, 2)
    hx, cx = make(rows, 2, narrow or 2), make(rows, 2, 2) if mode == 2 else None
    first = [x, params, 2 + 2 * biases + bool(narrow), None, hx, cx]
    rest = [mode, 2, narrow, layers, not sizes, 0.0, True, directions == 2, sizes, None]
    return first, rest


CASES: dict[str, dict[str, Any]] = {
    "lstm": {"mode": 2},
    "two layers both ways": {"mode": 2, "layers": 2, "directions": 2, "biases": False},
    "projected": {"mode": 2, "narrow": 1},
    "gru, lengths": {"mode": 3, "directions": 2, "sizes": (2, 1)},
    "tanh": {"mode": 1},
    "relu, two layers": {"mode": 0, "layers": 2},
}


@sampler("_cudnn_rnn", reference=cudnn_reference, real=True)
def cudnn_rnns(make: Make) -> Samples:
    for name, case in CASES.items():
        first, rest = cudnn(make, **case)
        yield Sample(*first, *rest, name=name)


def results(make: Make, first: list[Any], rest: list[Any], mask: tuple[bool, ...]) -> list[Any]:
    """Arguments of `_cudnn_rnn_backward`; the output and what was reserved are numbers."""
    with ad.no_grad():
        output, h, c, reserve, flat = ad.ops._cudnn_rnn(*first, *rest)
    x, params, stride, _, hx, cx = first
    grads = [make(*output.shape), make(*h.shape), make(*c.shape) if cx is not None else None]
    return [x, params, stride, flat, hx, cx, output, *grads, *rest, reserve, mask]


@sampler("_cudnn_rnn_backward", real=True)
def cudnn_rnn_backwards(make: Make) -> Samples:
    for name in ("lstm", "projected", "gru, lengths", "tanh", "relu, two layers"):
        mask = True, True, CASES[name]["mode"] == 2, True
        yield Sample(*results(make, *cudnn(make, **CASES[name]), mask), name=name)
    args = results(make, *cudnn(make, 2), (True, False, False, False))
    yield Sample(*args[:7], None, args[8], None, *args[10:], name="of h, for the input alone")


@sampler("_cudnn_rnn_flatten_weight")
def flattening(make: Make) -> Samples:
    params = stack(make, 1, 1, 1, biases=True)
    yield Sample(params, 4, 2, 1, 2, 0, 1, False, False, name="plain")


@sampler("_lstm_mps", reference=recurrent.of_input(recurrent.lstm_step), real=True)
def lstms(make: Make) -> Samples:
    one, two = (stack(make, 4, n, n, biases=n == 1) for n in (1, 2))
    plain = [make(1, 2, 2), make(1, 2, 2)]
    yield Sample(make(2, 2, 2), plain, one, True, 1, 0.0, True, False, False, name="plain")
    states = [make(4, 1, 2), make(4, 1, 2)]
    yield Sample(make(1, 2, 2), states, two, False, 2, 0.0, True, True, True, name="batch first")


@sampler("lstm_mps_backward", real=True)
def lstm_backwards(make: Make) -> Samples:
    args = make(2, 1, 2), [make(1, 1, 2), make(1, 1, 2)], stack(make, 4, 1, 1, biases=True)
    options = True, 1, 0.0, True, False, False
    with ad.no_grad():
        output, h, c, z, cells, outputs = ad.ops._lstm_mps(*args, *options)
    grads = [make(*t.shape) for t in (output, h, c)]
    yield Sample(*grads, z, cells, args[0], outputs, *args[1:], *options, name="plain")
    rest = z, cells, args[0], outputs, *args[1:], *options
    yield Sample(grads[0], None, None, *rest, name="of the output alone")


def single(make: Make, mode: int, *shape: int) -> list[Any]:
    """input, weights and states of one layer."""
    return [make(2, 2, 2), *stack(make, PARTS[mode], 1, 1, biases=True), make(*shape), make(*shape)]


@sampler("mkldnn_rnn_layer", reference=layer_reference, real=True)
def layers(make: Make) -> Samples:
    for name, mode, reverse, biases in (
        ("lstm", 2, False, True), ("lstm backwards", 2, True, False), ("gru", 3, False, True),
    ):  # fmt: skip
        options = reverse, (), mode, 2, 1, biases, False, False, True
        shape = (1, 2, 2) if reverse else (2, 2)
        yield Sample(*single(make, mode, *shape), *options, name=name)


@sampler("mkldnn_rnn_layer_backward", real=True)
def layer_backwards(make: Make) -> Samples:
    for name, mode, reverse in (("lstm", 2, False), ("gru backwards", 3, True)):
        args = single(make, mode, 2, 2)
        with ad.no_grad():
            *found, workspace = ad.ops.mkldnn_rnn_layer(
                *args, reverse, (), mode, 2, 1, True, False, False, True
            )
        grads = [make(*f.shape) for f in found]
        options = reverse, mode, 2, 1, True, True, False, (), False
        yield Sample(*args, *found, *grads, *options, workspace, name=name)

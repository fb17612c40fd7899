"""Recurrent layers: errors, packed sequences, modes that compose, one loop when compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError, ValueRangeError
from adjoint.nn.utils import rnn

PARTS = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def layer(
    kind: str, steps: int = 3, count: int = 2, *, dtype: Any = np.float64, layers: int = 1
) -> list[Any]:
    """input, hx and params of layers of 4 units on 4 features."""
    generator = np.random.default_rng(3)
    draw = lambda *shape: ad.from_numpy(generator.uniform(-1, 1, shape).astype(dtype))
    rows = 4 * PARTS[kind]
    params = [draw(*s) for _ in range(layers) for s in ((rows, 4), (rows, 4), (rows,), (rows,))]
    state = draw(layers, count, 4)
    hx = [state, draw(layers, count, 4)] if kind == "lstm" else state
    return [draw(steps, count, 4), hx, params]


def run(kind: str, x: Any, hx: Any, params: Any) -> Any:
    """The outputs of one layer."""
    return getattr(ad, kind)(x, hx, params, True, 1, 0.0, True, False, False)[0]


@pytest.mark.parametrize("kind", PARTS)
def test_forward_mode_of_float32_is_the_adjoint_of_reverse_mode(kind: str) -> None:
    args = layer(kind, dtype=np.float32)
    function = lambda *a: run(kind, *a)
    leaves, structure = ad.core.pytrees.flatten(args)
    tangents = ad.core.pytrees.unflatten(structure, [ad.ones_like(v) for v in leaves])
    value, tangent = ad.jvp(function, tuple(args), tuple(tangents))
    _, pull = ad.vjp(function, *args)
    found = ad.core.pytrees.flatten(pull(ad.ones_like(value)))[0]
    assert tangent.dtype is ad.float32
    assert float(tangent.sum()) == pytest.approx(sum(float(f.sum()) for f in found), rel=1e-4)


@pytest.mark.parametrize("kind", PARTS)
def test_a_compiled_layer_is_one_loop_over_time_and_equals_eager(kind: str) -> None:
    args = layer(kind)
    loss = lambda x, hx, params: run(kind, x, hx, params).square().sum()
    step = ad.compile(ad.value_and_grad(loss, argnums=(0, 1, 2)))
    for got, expected in zip(
        ad.core.pytrees.flatten(step(*args))[0],
        ad.core.pytrees.flatten(ad.value_and_grad(loss, argnums=(0, 1, 2))(*args))[0],
        strict=True,
    ):
        assert ad.allclose(got, expected)
    assert step.lower(*args).callbacks() == []


@pytest.mark.parametrize("kind", PARTS)
def test_packed_sequences_give_what_each_gives_alone(kind: str) -> None:
    x, hx, params = layer(kind, steps=4, count=3)
    lengths = [2, 4, 3]
    packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    order = packed.sorted_indices
    state = [h.index_select(1, order) for h in hx] if kind == "lstm" else hx.index_select(1, order)
    options = True, 1, 0.0, True, False
    output, last, *_ = getattr(ad, kind)(packed.data, packed.batch_sizes, state, params, *options)
    padded, known = rnn.pad_packed_sequence(packed._replace(data=output))
    assert known.tolist() == lengths
    for b, n in enumerate(lengths):
        own = [h[:, b : b + 1] for h in hx] if kind == "lstm" else hx[:, b : b + 1]
        alone = run(kind, x[:n, b : b + 1], own, params)
        assert ad.allclose(padded[:n, b], alone[:, 0])
        assert ad.allclose(last[0, packed.unsorted_indices[b]], alone[-1, 0])


def test_dropout_is_between_layers_and_only_while_training() -> None:
    x, hx, params = layer("gru", layers=2)
    call = lambda train: ad.gru(x, hx, params, True, 2, 1.0, train, False, False)[0]
    silenced = [*params[:4], ad.zeros_like(params[4]), *params[5:]]
    alone = ad.gru(x, hx, silenced, True, 2, 0.0, True, False, False)[0]
    assert ad.allclose(call(True), alone)
    assert not ad.allclose(call(True), call(False))


def test_an_unpacked_sequence_is_what_was_packed() -> None:
    sequences = [ad.tensor([1.0]), ad.tensor([2.0, 3.0, 4.0]), ad.tensor([5.0, 6.0])]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    assert [s.tolist() for s in rnn.unpack_sequence(packed)] == [s.tolist() for s in sequences]


def test_a_packed_sequence_goes_through_transforms_as_a_tree() -> None:
    packed = rnn.pack_sequence([ad.tensor([1.0, 2.0]), ad.tensor([3.0])])
    found = ad.grad(lambda data: rnn.pad_packed_sequence(packed._replace(data=data**2))[0].sum())
    assert found(packed.data).tolist() == [2.0, 6.0, 4.0]
    leaves, structure = ad.core.pytrees.flatten(packed)
    assert isinstance(ad.core.pytrees.unflatten(structure, leaves), rnn.PackedSequence)
    assert packed.double().data.dtype is ad.float64


@pytest.mark.parametrize(
    ("lengths", "error"),
    [
        ([1, 2], ValueRangeError),
        ([2, 0], ValueRangeError),
        ([4, 1], ValueRangeError),
        ([2], ShapeError),
    ],
)
def test_packing_refuses_lengths_that_do_not_fit(lengths: list[int], error: type) -> None:
    with pytest.raises(error, match="lengths"):
        rnn.pack_padded_sequence(ad.ones(3, 2), lengths)


def test_a_layer_says_which_argument_does_not_fit() -> None:
    x, hx, params = layer("lstm")
    call = lambda x, hx, params: ad.lstm(x, hx, params, True, 1, 0.0, True, False, False)
    with pytest.raises(ShapeError, match=r"w_ih of layer 0 must have the shape 16×3 .* got 16×4"):
        call(x[:, :, :3], hx, params)
    with pytest.raises(ShapeError, match=r"hx must have the shape 1×2×4"):
        call(x, [h[:, :1] for h in hx], params)
    with pytest.raises(ShapeError, match="at least one step"):
        call(x[:0], hx, params)
    with pytest.raises(ArgumentError, match="have 4 parameters, got 3"):
        call(x, hx, params[:3])
    with pytest.raises(ArgumentError, match=r"hx must be \[h, c\]"):
        call(x, hx[:1], params)
    with pytest.raises(DtypeError, match="hx has"):
        call(x, [h.float() for h in hx], params)


def test_batch_sizes_must_not_grow() -> None:
    x, hx, params = layer("gru")
    options = True, 1, 0.0, True, False
    with pytest.raises(ValueRangeError, match="batch_sizes must not grow"):
        ad.gru(x.flatten(0, 1)[:3], ad.tensor([1, 2]), hx, params, *options)
    with pytest.raises(ValueRangeError, match="make 3 rows, and the data has 4"):
        ad.gru(x.flatten(0, 1)[:4], ad.tensor([2, 1]), hx, params, *options)


@pytest.mark.parametrize("mode", range(4))
def test_the_backward_of_a_library_is_the_gradient_of_its_forward(mode: int) -> None:
    """Also with dropout, whose factors the forward reserves."""
    kind = ("rnn_relu", "rnn_tanh", "lstm", "gru")[mode]
    x, hx, params = layer(kind, layers=2)
    states = hx if kind == "lstm" else [hx]
    rest = [mode, 4, 0, 2, False, 0.5, True, False, (), None]

    def run(x: Any, states: Any, params: Any) -> Any:
        ad.manual_seed(5)
        cx = states[1] if len(states) == 2 else None
        return ad.ops._cudnn_rnn(x, params, 4, None, states[0], cx, *rest)

    def loss(*args: Any) -> Any:
        found = run(*args)
        return found[0].square().sum() + found[1].sum()

    output, h, c, reserve, flat = run(x, states, params)
    of_c = ad.zeros_like(c) if kind == "lstm" else None
    grads = 2 * output, ad.ones_like(h), of_c
    cx = states[1] if kind == "lstm" else None
    of_x, of_h, of_cx, of_params = ad.ops._cudnn_rnn_backward(
        x, params, 4, flat, states[0], cx, output, *grads, *rest, reserve, (True,) * 4
    )
    expected = ad.grad(loss, argnums=(0, 1, 2))(x, states, params)
    assert ad.allclose(of_x, expected[0])
    assert ad.allclose(of_h, expected[1][0])
    assert of_cx is None or ad.allclose(of_cx, expected[1][1])
    for got, wanted in zip(of_params, expected[2], strict=True):
        assert ad.allclose(got, wanted)
    assert 0 < int(reserve.eq(0).sum()) < reserve.numel()


def test_padding_of_whole_numbers_keeps_them_whole() -> None:
    from_rows = ad.nn.utils.rnn.pack_sequence([ad.tensor([1, 2, 3]), ad.tensor([4])])
    padded, lengths = ad.nn.utils.rnn.pad_packed_sequence(from_rows, batch_first=True)
    assert padded.dtype is ad.int64
    assert (padded.tolist(), lengths.tolist()) == ([[1, 2, 3], [4, 0, 0]], [3, 1])

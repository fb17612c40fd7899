"""Layers are functions of their parameters: every transform of `functional_call` gives what eager
gives. Values against PyTorch: tests/oracle/test_modules.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.func import functional_call

# name -> a layer without randomness, and the shapes of its inputs (without a batch for vmap)
LAYERS: dict[str, tuple[Callable[[], Any], tuple[tuple[int, ...], ...]]] = {
    "Linear": (lambda: nn.Linear(3, 2), ((4, 3),)),
    "Bilinear": (lambda: nn.Bilinear(3, 2, 2), ((4, 3), (4, 2))),
    "PReLU": (lambda: nn.PReLU(), ((4, 3),)),
    "Conv2d": (lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), ((1, 2, 4, 4),)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(2, 3, 3, stride=2), ((1, 2, 4),)),
    "MaxPool2d": (lambda: nn.Sequential(nn.Conv2d(1, 2, 2), nn.MaxPool2d(2)), ((1, 1, 5, 5),)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3).eval(), ((4, 3),)),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(3, affine=True), ((2, 3, 4),)),
    "LayerNorm": (lambda: nn.LayerNorm(3), ((4, 3),)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), ((2, 4, 3),)),
    "RNN": (lambda: nn.RNN(3, 2), ((4, 2, 3),)),
    "GRU": (lambda: nn.GRU(3, 2, bidirectional=True), ((4, 2, 3),)),
    "LSTM": (lambda: nn.LSTM(3, 2, proj_size=1), ((4, 2, 3),)),
    "GRUCell": (lambda: nn.GRUCell(3, 2), ((4, 3),)),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(4, 2), ((3, 2, 4),) * 3),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, norm_first=True),
        ((3, 2, 4),),
    ),
    "Embedding": (lambda: nn.Sequential(_Positions(), nn.Embedding(5, 3)), ((4,),)),
    "LinearCrossEntropyLoss": (lambda: _Classes(), ((4, 3),)),
}


class _Positions(nn.Module):
    """Indices that do not depend on values."""

    def forward(self, x: Any) -> Any:
        return ad.arange(x.shape[-1])


class _Classes(nn.LinearCrossEntropyLoss):
    """The loss of fixed classes."""

    def __init__(self) -> None:
        super().__init__(3, 5)

    def forward(self, x: Any) -> Any:
        return super().forward(x, ad.tensor([0, 4, 2, 2]))


def setup(name: str) -> tuple[Any, dict[str, Any], tuple[Any, ...]]:
    """A layer in float64, its parameters as plain tensors, and inputs."""
    make, shapes = LAYERS[name]
    ad.manual_seed(0)
    layer = make().double()
    generator = np.random.default_rng(0)
    inputs = tuple(ad.from_numpy(generator.standard_normal(shape)) for shape in shapes)
    return layer, {n: p.detach().clone() for n, p in layer.named_parameters()}, inputs


def first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def loss(layer: Any, parameters: dict[str, Any], inputs: tuple[Any, ...]) -> Any:
    """A number that depends on every element of the layer's first result."""
    result = first(functional_call(layer, parameters, inputs))
    return (result * result.detach().cos()).sum()


def close(one: Any, other: Any) -> bool:
    return np.allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-11)


def eager(layer: Any, inputs: tuple[Any, ...]) -> dict[str, Any]:
    """The gradients that backward gives."""
    result = first(layer(*inputs))
    (result * result.detach().cos()).sum().backward()
    return {name: p.grad for name, p in layer.named_parameters()}


@pytest.mark.parametrize("name", LAYERS)
def test_grad_of_functional_call_is_backward(name: str) -> None:
    layer, parameters, inputs = setup(name)
    found = ad.grad(lambda p: loss(layer, p, inputs))(parameters)
    wanted = eager(layer, inputs)
    assert all(close(found[key], wanted[key]) for key in wanted)


@pytest.mark.parametrize("name", LAYERS)
def test_jvp_of_a_layer_is_adjoint_to_its_gradient(name: str) -> None:
    layer, parameters, inputs = setup(name)
    gradient = ad.grad(lambda p: loss(layer, p, inputs))(parameters)
    direction = {key: value.sin() for key, value in parameters.items()}
    _, change = ad.jvp(lambda p: loss(layer, p, inputs), (parameters,), (direction,))
    assert close(change, sum((gradient[key] * direction[key]).sum() for key in gradient))


@pytest.mark.parametrize("name", LAYERS)
def test_vmap_over_parameters_and_inputs_is_a_loop(name: str) -> None:
    layer, parameters, inputs = setup(name)
    several = {key: ad.stack([value, value * 2]) for key, value in parameters.items()}
    batches = tuple(ad.stack([x, x + 1]) for x in inputs)
    found = ad.vmap(lambda p, x: first(functional_call(layer, p, x)))(several, batches)
    for i in range(2):
        one = {key: value[i] for key, value in several.items()}
        wanted = first(functional_call(layer, one, tuple(x[i] for x in batches)))
        assert close(found[i], wanted)


@pytest.mark.parametrize("name", LAYERS)
def test_compiled_gradient_of_a_layer_is_eagers(name: str) -> None:
    layer, parameters, inputs = setup(name)
    step = ad.compile(ad.value_and_grad(lambda p, x: loss(layer, p, x)))
    value, found = step(parameters, inputs)
    assert close(value, loss(layer, parameters, inputs))
    wanted = eager(layer, inputs)
    assert all(close(found[key], wanted[key]) for key in wanted)


# --- laws of single layers -----------------------------------------------------------------------


def test_a_small_network_learns_to_tell_rows_from_columns() -> None:
    """Images with a bright row or a bright column, as digits are told apart."""
    ad.manual_seed(0)
    generator = np.random.default_rng(0)
    lines, where = generator.integers(0, 2, 64), generator.integers(0, 8, 64)
    images = generator.standard_normal((64, 1, 8, 8)).astype(np.float32) * 0.3
    for image, line, place in zip(images, lines, where, strict=True):
        image[0, place if line else slice(None), slice(None) if line else place] += 1.0
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.1), nn.Linear(64, 2),
    )  # fmt: skip
    loss = nn.CrossEntropyLoss()
    for _ in range(30):
        error = loss(model(ad.from_numpy(images)), ad.from_numpy(lines))
        model.zero_grad()
        error.backward()
        with ad.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad, alpha=0.3)
    guessed = model.eval()(ad.from_numpy(images)).argmax(1)
    assert (guessed.numpy() == lines).mean() > 0.95


@pytest.mark.parametrize(
    ("layer", "bound"),
    [
        (lambda: nn.Linear(400, 50), 1 / 20),
        (lambda: nn.Conv2d(16, 8, 5), 1 / 20),
        (lambda: nn.LSTM(10, 100), 1 / 10),
        (lambda: nn.GRUCell(10, 100), 1 / 10),
        (lambda: nn.Bilinear(400, 3, 5), 1 / 20),
    ],
)
def test_parameters_are_drawn_uniformly(layer: Callable[[], Any], bound: float) -> None:
    ad.manual_seed(0)
    drawn = np.concatenate([p.detach().numpy().ravel() for p in layer().parameters()])
    assert abs(drawn).max() <= bound
    assert np.isclose(drawn.std(), bound / 3**0.5, rtol=0.05)


def test_a_failing_batch_counts_for_nothing() -> None:
    layer = nn.BatchNorm1d(3)
    with pytest.raises(ValueError, match="more than one value"):
        layer(ad.ones(1, 3))
    assert layer.num_batches_tracked.item() == 0
    assert layer.running_mean.tolist() == [0.0, 0.0, 0.0]


def test_without_momentum_running_statistics_are_means_over_batches() -> None:
    layer = nn.BatchNorm1d(1, momentum=None)
    for number in (1.0, 2.0, 6.0):
        layer(ad.tensor([[number - 1], [number + 1]]))
    assert layer.running_mean.item() == pytest.approx(3.0)


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_without_momentum_a_compiled_layer_keeps_the_same_statistics(dtype: ad.DType) -> None:
    eager, own = (nn.BatchNorm1d(3, momentum=None).to(dtype) for _ in range(2))
    compiled = ad.compile(own)
    for number in range(4):
        x = ad.sin(ad.arange(18.0, dtype=dtype).reshape(6, 3) * (number + 1))
        ad.testing.assert_close(compiled(x), eager(x))
        ad.testing.assert_close(dict(own.named_buffers()), dict(eager.named_buffers()))
    eager.train(False)
    own.train(False)
    ad.testing.assert_close(compiled(x), eager(x))


def test_a_lazy_layer_takes_a_loaded_state() -> None:
    known, lazy = nn.Linear(3, 2), nn.LazyLinear(2)
    lazy.load_state_dict(known.state_dict())
    x = ad.rand(4, 3)
    assert ad.equal(lazy(x), known(x))
    assert repr(lazy) == repr(known)


def test_adaptive_softmax_knows_its_targets_in_eager_and_computes_all_when_compiled() -> None:
    ad.manual_seed(0)
    layer = nn.AdaptiveLogSoftmaxWithLoss(6, 12, [3, 7], div_value=1.5)
    parameters = {name: p.detach() for name, p in layer.named_parameters()}
    x, target = ad.rand(5, 6), ad.tensor([0, 4, 11, 2, 8])
    compiled = ad.compile(lambda p, x, t: functional_call(layer, p, (x, t)).loss)
    assert compiled(parameters, x, target).item() == pytest.approx(layer(x, target).loss.item())
    with pytest.raises(ValueError, match="from 0 to n_classes"):
        layer(x, target + 5)


def test_cross_map_normalization_is_that_of_neighbours() -> None:
    x = ad.rand(2, 6, 3, 3)
    wanted = nn.LocalResponseNorm(3, alpha=0.5)(x)
    assert ad.equal(nn.CrossMapLRN2d(3, alpha=0.5)(x), wanted)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Conv2d(3, 4, 2, groups=2), "divide the numbers of channels"),
        (lambda: nn.Conv2d(3, 4, 2, padding="same", stride=2), "stride of 1"),
        (lambda: nn.Conv1d(3, 4, 2, padding_mode="mirror"), "there are 'zeros'"),
        (lambda: nn.ConvTranspose1d(3, 4, 2, padding_mode="reflect"), "only 'zeros'"),
        (lambda: nn.GroupNorm(3, 4), "must divide"),
        (lambda: nn.Dropout(1.5), "between 0 and 1"),
        (lambda: nn.LSTM(3, 4, proj_size=4), "less than hidden_size"),
        (lambda: nn.LSTM(0, 4), "input_size=0.*positive"),
        (lambda: nn.GRU(3, -1), "hidden_size=-1.*positive"),
        (lambda: nn.RNN(3, 4, 0), "num_layers=0.*positive"),
        (lambda: nn.RNNBase("GRU", 3, 4, proj_size=2), "only LSTM"),
        (lambda: nn.GRU(3, 4, proj_size=2), "only LSTM"),
        (lambda: nn.BatchNorm1d(3, eps=0.0)(ad.ones(2, 3)), "eps must be positive"),
        (lambda: nn.RNN(3, 4, nonlinearity="sin"), "'tanh' and 'relu'"),
        (lambda: nn.Embedding(3, 4, padding_idx=3), "use -3 to 2"),
        (lambda: nn.MultiheadAttention(5, 2), "must divide"),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="sin"), "'relu' and 'gelu'"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 5, [3, 2]), "growing whole numbers"),
        (lambda: nn.MultiMarginLoss(p=3), "1 and 2"),
        (lambda: nn.SyncBatchNorm(3, process_group="all"), "one process"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((ValueError, NotImplementedError), match=message):
        make()


@pytest.mark.parametrize("sizes", [(3.0, 4), ("10", 4), (3, 4.0), (3, 4, 1.5)])
def test_sizes_of_recurrent_layers_are_whole_numbers(sizes: Any) -> None:
    with pytest.raises(TypeError, match="whole number"):
        ad.nn.GRU(*sizes)


@pytest.mark.parametrize("kind", [ad.nn.RNN, ad.nn.LSTM, ad.nn.GRU])
def test_a_recurrent_layer_refuses_another_dtype_and_names_itself(kind: Any) -> None:
    with pytest.raises(ValueError, match=f"{kind.__name__}: the input has ad.float64") as caught:
        kind(2, 3)(ad.zeros(1, 1, 2, dtype=ad.float64))
    assert isinstance(caught.value, TypeError)


def test_a_delta_is_a_real_number() -> None:
    with pytest.raises(TypeError, match="real number"):
        ad.nn.HuberLoss(delta=1.0 + 0.0j)


@pytest.mark.parametrize("kind", [ad.nn.RNN, ad.nn.LSTM, ad.nn.GRU])
def test_switches_of_recurrent_layers_are_true_or_false(kind: Any) -> None:
    for switch in ({"bias": 0}, {"batch_first": 1}):
        with pytest.raises(TypeError, match="True or False"):
            kind(2, 3, **switch)


def test_factory_keywords_are_known_and_given_once() -> None:
    given = {"dtype": ad.float64, "factory_kwargs": {"device": "cpu"}}
    assert nn.factory_kwargs(given) == {"dtype": ad.float64, "device": "cpu"}
    assert nn.factory_kwargs(None) == {}
    for wrong in ({"bias": True}, {"dtype": None, "factory_kwargs": {"dtype": None}}):
        with pytest.raises(TypeError, match="factory_kwargs"):
            nn.factory_kwargs(wrong)

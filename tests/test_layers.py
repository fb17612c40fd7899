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

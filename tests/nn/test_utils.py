"""nn.utils: clipping, vectors, parametrizations, norms, pruning, fused layers."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn import utils
from adjoint.nn.utils import parametrizations, parametrize, prune


@pytest.fixture(autouse=True)
def _seed() -> None:
    ad.manual_seed(0)


def with_grads(*grads: Any) -> list[Any]:
    parameters = [nn.Parameter(ad.zeros_like(ad.tensor(g))) for g in grads]
    for parameter, grad in zip(parameters, grads, strict=True):
        parameter.grad = ad.tensor(grad)
    return [*parameters, nn.Parameter(ad.zeros(1))]


# --- gradients and vectors ----------------------------------------------------------------------


@pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
def test_clipped_gradients_have_the_norm_and_the_direction(order: float) -> None:
    parameters = with_grads([3.0, -4.0], [[12.0]])
    before = parameters[0].grad.clone()
    total = utils.clip_grad_norm_(parameters, 2.0, norm_type=order)
    grads = [p.grad for p in parameters[:2]]
    assert total.item() == {1.0: 19.0, 2.0: 13.0, math.inf: 12.0}[order]
    assert utils.get_total_norm(grads, order).item() == pytest.approx(2.0, rel=1e-5)
    assert ad.allclose(grads[0], before * (2.0 / total), rtol=1e-5)


def test_small_gradients_stay() -> None:
    parameters = with_grads([3.0, 4.0])
    utils.clip_grad_norm_(iter(parameters), 10.0)
    assert parameters[0].grad.tolist() == [3.0, 4.0]
    assert utils.clip_grad_norm_([], 1.0).item() == 0.0


def test_norms_that_are_not_finite_raise_if_asked() -> None:
    parameters = with_grads([math.inf])
    with pytest.raises(RuntimeError, match="inf"):
        utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    assert parameters[0].grad.item() == math.inf


def test_clipped_values_are_in_the_range() -> None:
    parameters = with_grads([-3.0, 0.5], [2.0])
    utils.clip_grad_value_(parameters, 1)
    assert [p.grad.tolist() for p in parameters[:2]] == [[-1.0, 0.5], [1.0]]


def test_parameters_as_a_vector_and_back() -> None:
    net = nn.Linear(2, 3)
    vector = utils.parameters_to_vector(net.parameters())
    assert vector.shape == (9,)
    assert vector.requires_grad
    other = nn.Linear(2, 3)
    utils.vector_to_parameters(vector, other.parameters())
    assert ad.equal(other.weight, net.weight)
    assert isinstance(other.weight, nn.Parameter)
    with pytest.raises(ValueError, match="9"):
        utils.vector_to_parameters(vector[:4], other.parameters())


# --- parametrize --------------------------------------------------------------------------------


class Symmetric(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.triu() + x.triu(1).T

    def right_inverse(self, value: Any) -> Any:
        return value.triu()


class Halves(nn.Module):
    """A tensor as the sum of two."""

    def forward(self, a: Any, b: Any) -> Any:
        return a + b

    def right_inverse(self, value: Any) -> Any:
        return value / 2, value / 2


class Double(nn.Module):
    calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x * 2


def test_a_parametrized_tensor_is_computed_and_its_original_learns() -> None:
    layer = nn.Linear(3, 3, bias=False)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert ad.equal(layer.weight, layer.weight.T)
    layer(ad.ones(1, 3)).sum().backward()
    original = layer.parametrizations.weight.original
    assert original.grad.shape == (3, 3)
    assert [name for name, _ in layer.named_parameters()] == ["parametrizations.weight.original"]
    wanted = ad.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]])
    layer.weight = wanted
    assert ad.equal(layer.weight, wanted)
    assert type(layer).__name__ == "ParametrizedLinear"
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert layer.weight is original
    assert ad.equal(layer.weight, wanted)


def test_a_tensor_may_be_computed_from_several() -> None:
    layer = nn.Linear(2, 2, bias=False)
    weight = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Halves())
    assert ad.allclose(layer.weight, weight)
    assert len(list(layer.parameters())) == 2
    with pytest.raises(ValueError, match="several"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter)


def test_parametrizations_are_applied_in_order_and_cached() -> None:
    layer, double = nn.Linear(2, 2), Double()
    weight = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Symmetric())
    parametrize.register_parametrization(layer, "weight", double)
    assert ad.allclose(layer.weight, 2 * Symmetric()(weight))
    double.calls = 0
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert double.calls == 1
    assert layer.weight is not layer.weight


def test_parametrized_modules_are_copied_and_not_pickled() -> None:
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    made = copy.deepcopy(layer)
    assert ad.equal(made.weight, layer.weight)
    assert made.parametrizations.weight.original is not layer.parametrizations.weight.original
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(layer)
    other = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    other.load_state_dict(layer.state_dict())
    assert ad.equal(other.weight, layer.weight)


@pytest.mark.parametrize("change", [lambda x: x.double(), lambda x: x[0], lambda x: 2])
def test_a_parametrization_may_not_change_shape_or_dtype_unless_unsafe(change: Any) -> None:
    class Changing(nn.Module):
        def forward(self, x: Any) -> Any:
            return change(x)

    layer = nn.Linear(2, 2)
    with pytest.raises(ValueError):
        parametrize.register_parametrization(layer, "weight", Changing())
    assert type(layer) is nn.Linear
    assert isinstance(layer.weight, nn.Parameter)
    parametrize.register_parametrization(layer, "weight", Changing(), unsafe=True)


def test_parametrized_weights_are_differentiated_by_transforms() -> None:
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric()).double()
    values = {name: p.detach() for name, p in layer.named_parameters()}
    x = ad.randn(3, 2, dtype=ad.float64)

    def loss(values: Any) -> Any:
        return ad.func.functional_call(layer, values, x).square().sum()

    layer(x).square().sum().backward()
    plain, native = ad.grad(loss)(values), ad.compile(ad.grad(loss))(values)
    for name, p in layer.named_parameters():
        assert ad.allclose(plain[name], p.grad)
        assert ad.allclose(native[name], p.grad)


# --- parametrizations ---------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5)])
@pytest.mark.parametrize("name", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal_weights_stay_orthogonal(
    shape: tuple[int, int], name: str, trivial: bool
) -> None:
    layer = nn.Linear(shape[1], shape[0], dtype=ad.float64)
    parametrizations.orthogonal(layer, orthogonal_map=name, use_trivialization=trivial)
    for _ in range(2):
        w = layer.weight
        product = w.T @ w if shape[0] >= shape[1] else w @ w.T
        assert ad.allclose(product, ad.eye(min(shape), dtype=ad.float64))
        w.square().sum().add(w.sum()).backward()
        with ad.no_grad():
            original = layer.parametrizations.weight.original
            original -= 0.1 * original.grad
    if trivial or name == "householder":
        wanted = nn.init.orthogonal_(ad.empty(shape, dtype=ad.float64))
        layer.weight = wanted
        assert ad.allclose(layer.weight, wanted)


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm_learns_length_and_direction(dim: int | None) -> None:
    layer = nn.Linear(3, 4)
    weight = layer.weight.detach().clone()
    parametrizations.weight_norm(layer, dim=dim)
    assert ad.allclose(layer.weight, weight, atol=1e-6)
    with ad.no_grad():
        layer.parametrizations.weight.original0.mul_(2.0)
    assert ad.allclose(layer.weight, 2 * weight, atol=1e-6)
    with pytest.warns(FutureWarning):
        earlier = utils.weight_norm(nn.Linear(3, 4), dim=dim)
    layer.load_state_dict(earlier.state_dict())
    x = ad.randn(2, 3)
    assert ad.allclose(layer(x), earlier(x), atol=1e-6)
    utils.remove_weight_norm(earlier)
    assert ad.allclose(layer(x), earlier(x), atol=1e-6)
    assert isinstance(earlier.weight, nn.Parameter)


@pytest.mark.parametrize("make", [lambda: nn.Linear(3, 4), lambda: nn.ConvTranspose2d(3, 4, 2)])
@pytest.mark.parametrize("normed", [utils.spectral_norm, parametrizations.spectral_norm])
def test_spectral_norm_becomes_one(make: Any, normed: Any) -> None:
    layer = normed(make(), n_power_iterations=30)
    x = ad.randn(2, 3) if isinstance(layer, nn.Linear) else ad.randn(2, 3, 4, 4)
    layer(x).sum().backward()
    dim = 0 if isinstance(layer, nn.Linear) else 1
    matrix = layer.weight.detach().movedim(dim, 0).flatten(1)
    assert ad.linalg.matrix_norm(matrix, 2).item() == pytest.approx(1.0, abs=1e-3)
    assert all(p.grad is not None for p in layer.parameters())
    layer.eval()
    expected = layer(x).detach()
    if normed is utils.spectral_norm:
        utils.remove_spectral_norm(layer)
    else:
        parametrize.remove_parametrizations(layer, "weight")
    assert ad.allclose(layer(x), expected, atol=1e-5)


# --- pruning ------------------------------------------------------------------------------------


def zeros(layer: Any) -> int:
    return int((layer.weight == 0).sum())


def test_pruned_elements_stay_zero_while_the_others_learn() -> None:
    layer = nn.Linear(4, 5)
    weight = layer.weight.detach().clone()
    prune.l1_unstructured(layer, "weight", amount=0.5)
    least = weight.abs().flatten().topk(10, largest=False)[0].max()
    assert ad.equal(layer.weight_mask == 0, weight.abs() <= least)
    layer(ad.ones(2, 4)).sum().backward()
    assert zeros(layer) == int((layer.weight_orig.grad == 0).sum()) == 10
    with ad.no_grad():
        layer.weight_orig += 1.0
    layer(ad.ones(2, 4))
    assert zeros(layer) == 10
    assert prune.is_pruned(layer)
    prune.remove(layer, "weight")
    assert not prune.is_pruned(layer)
    assert isinstance(layer.weight, nn.Parameter)
    assert list(layer.state_dict()) == ["bias", "weight"]


def test_pruning_again_refines_the_mask() -> None:
    layer = nn.Linear(4, 6)
    prune.ln_structured(layer, "weight", amount=2, n=2, dim=0)
    prune.random_unstructured(layer, "weight", amount=0.5)
    assert zeros(layer) == 2 * 4 + 4 * 4 // 2
    prune.random_structured(layer, "weight", amount=1, dim=1)
    (hook,) = layer._forward_pre_hooks.values()
    assert isinstance(hook, prune.PruningContainer)
    assert len(hook) == 3
    mask = ad.ones(6, 4)
    mask[0] = 0
    prune.custom_from_mask(layer, "weight", mask)
    assert layer.weight[0].tolist() == [0.0] * 4


def test_global_pruning_takes_the_least_of_all() -> None:
    small, large = nn.Linear(2, 2), nn.Linear(2, 2)
    with ad.no_grad():
        large.weight += 10.0
    named = [(small, "weight"), (large, "weight")]
    prune.global_unstructured(named, prune.L1Unstructured, amount=4)
    assert (zeros(small), zeros(large)) == (4, 0)


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (lambda m: prune.l1_unstructured(m, "weight", amount=1.5), ValueError),
        (lambda m: prune.l1_unstructured(m, "weight", amount=100), ValueError),
        (lambda m: prune.l1_unstructured(m, "weight", amount="all"), TypeError),
        (lambda m: prune.random_structured(m, "bias", 1, 0), ValueError),
        (lambda m: prune.random_structured(m, "weight", 1, 5), IndexError),
        (lambda m: prune.remove(m, "weight"), ValueError),
    ],
)
def test_pruning_that_makes_no_sense_changes_nothing(action: Any, error: Any) -> None:
    layer = nn.Linear(2, 3)
    with pytest.raises(error):
        action(layer)
    assert list(layer.state_dict()) == ["weight", "bias"]
    assert not prune.is_pruned(layer)


# --- layers -------------------------------------------------------------------------------------


def trained(norm: Any, shape: tuple[int, ...]) -> Any:
    """A normalization that has seen a batch."""
    norm(3 * ad.randn(shape) + 1)
    return norm.eval()


@pytest.mark.parametrize("bias", [True, False])
def test_fused_layers_do_what_both_did(bias: bool) -> None:
    x = ad.randn(2, 3, 5)
    for conv in (nn.Conv1d(3, 4, 2, bias=bias), nn.ConvTranspose1d(3, 4, 2, bias=bias)):
        norm = trained(nn.BatchNorm1d(4), (8, 4, 5))
        turned = isinstance(conv, nn.ConvTranspose1d)
        fused = utils.fuse_conv_bn_eval(conv.eval(), norm, transpose=turned)
        assert ad.allclose(fused(x), norm(conv(x)), atol=1e-5)
    linear, norm = nn.Linear(3, 4, bias=bias).eval(), trained(nn.BatchNorm1d(4), (8, 4))
    y = ad.randn(2, 3)
    assert ad.allclose(utils.fuse_linear_bn_eval(linear, norm)(y), norm(linear(y)), atol=1e-5)
    with pytest.raises(RuntimeError, match="eval"):
        utils.fuse_linear_bn_eval(linear.train(), norm)


def test_layers_without_first_values() -> None:
    layer = utils.skip_init(nn.Linear, 3, 4, dtype=ad.float64)
    assert layer.weight.shape == (4, 3)
    assert layer.weight.dtype is ad.float64
    with pytest.raises(TypeError, match="device"):
        utils.skip_init(nn.ReLU)
    conv = utils.convert_conv2d_weight_memory_format(nn.Conv2d(3, 4, 2), ad.channels_last)
    assert conv.weight.is_contiguous(memory_format=ad.channels_last)


def test_names_of_pytorch_are_here() -> None:
    for name in utils.__all__:
        assert getattr(utils, name) is not None
    with pytest.raises(AttributeError, match="clip_grad_norm_"):
        utils.clip_gradient_norm_

"""Normalizations: derivatives of every order through the statistics, float16, degenerate rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import adjoint as ad

F = ad.nn.functional
SHAPE = (4,)


def values(*shape: int, seed: int = 0) -> ad.Tensor:
    return ad.from_numpy(np.random.default_rng(seed).normal(size=shape))


def plain_layer_norm(x: ad.Tensor, w: ad.Tensor, b: ad.Tensor, eps: float = 1e-5) -> ad.Tensor:
    """The definition, in operators that have derivatives of their own."""
    centered = x - x.mean(-1, True)
    return centered / ((centered * centered).mean(-1, True) + eps).sqrt() * w + b


def cubed(norm: Callable[..., ad.Tensor]) -> Callable[[ad.Tensor], ad.Tensor]:
    w, b = values(4, seed=1), values(4, seed=2)
    return lambda x: (norm(x, w, b) ** 3).sum()


def ours(x: ad.Tensor, w: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
    return F.layer_norm(x, SHAPE, w, b)


def close(a: ad.Tensor, b: ad.Tensor, tolerance: float = 1e-9) -> bool:
    return np.allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=tolerance)


def test_layer_norm_derivatives_of_three_orders() -> None:
    x = values(4)
    for order in (ad.grad, ad.hessian, lambda f: ad.func.jacfwd(ad.hessian(f))):
        assert close(order(cubed(ours))(x), order(cubed(plain_layer_norm))(x), 1e-7)


def test_layer_norm_hessian_of_a_decomposed_graph() -> None:
    """Decomposed first and differentiated twice, the statistics still have their derivatives."""
    x = values(4)
    graph = ad.decompose(ad.trace(ad.grad(cubed(ours)), x))
    assert close(ad.jacobian(graph)(x), ad.hessian(cubed(plain_layer_norm))(x), 1e-7)


@pytest.mark.parametrize("in_dims", [(0, None, None), (None, 0, None), (0, 0, 0), (None, None, 0)])
def test_layer_norm_under_vmap_between_two_gradients(in_dims: tuple[int | None, ...]) -> None:
    given = [values(4) if d is None else values(3, 4, seed=5) for d in in_dims]

    def loss(norm: Callable[..., ad.Tensor]) -> Callable[..., ad.Tensor]:
        inner = ad.grad(lambda x, w, b: (norm(x, w, b) ** 3).sum(), (0, 1, 2))
        mapped = ad.vmap(inner, in_dims)
        return lambda *args: ad.stack([(g * g).sum() for g in mapped(*args)]).sum()

    expected = ad.grad(loss(plain_layer_norm), (0, 1, 2))(*given)
    for a, b in zip(ad.grad(loss(ours), (0, 1, 2))(*given), expected, strict=True):
        assert close(a, b, 1e-7)


def test_layer_norm_backward_differentiates_through_its_statistics() -> None:
    x, g, w = values(2, 4), values(2, 4, seed=3), values(4, seed=4)
    _, mean, rstd = ad.ops.native_layer_norm(x, SHAPE, None, None, 1e-5)
    mask = (True, True, True)

    def by_row(x: ad.Tensor) -> ad.Tensor:
        parts = ad.ops.native_layer_norm_backward(g, x, SHAPE, mean, rstd, w, w, mask)
        return (parts[0] * parts[0]).sum() + (parts[1] ** 3).sum()

    def by_definition(x: ad.Tensor) -> ad.Tensor:
        dot = ad.grad(lambda x, w: (plain_layer_norm(x, w, w.detach()) * g).sum(), (0, 1))
        of_x, of_w = dot(x, w)
        return (of_x * of_x).sum() + (of_w**3).sum()

    assert close(ad.grad(by_row)(x), ad.grad(by_definition)(x), 1e-8)


def test_layer_norm_backward_gives_what_is_asked() -> None:
    x = values(2, 4)
    _, mean, rstd = ad.ops.native_layer_norm(x, SHAPE, None, None, 1e-5)
    rest = (x, SHAPE, mean, rstd, None, None)
    first, second, third = ad.ops.native_layer_norm_backward(x, *rest, (True, False, True))
    assert first.shape == x.shape
    assert second is None
    assert third.shape == SHAPE


def test_layer_norm_of_equal_elements_is_finite_to_second_order() -> None:
    x = ad.full((3,), 7.0, dtype=ad.float64)
    f = lambda x: (F.layer_norm(x, (3,)) ** 2 + F.layer_norm(x, (3,))).sum()
    projection = np.eye(3) - 1 / 3  # x̂ = P x / √eps there, so that the Hessian is 2 P / eps
    assert F.layer_norm(x, (3,)).tolist() == [0.0, 0.0, 0.0]
    assert np.allclose(ad.grad(f)(x).numpy(), 0)
    assert np.allclose(ad.hessian(f)(x).numpy(), 2e5 * projection)


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
def test_layer_norm_of_half_precision_has_statistics_in_float32(dtype: ad.DType) -> None:
    x = ad.from_numpy(500 + np.random.default_rng(0).normal(size=(2, 256)) * 8).to(dtype)
    exact = F.layer_norm(x.double(), (256,))
    result = F.layer_norm(x, (256,))
    assert result.dtype is dtype
    assert np.abs(result.double().numpy() - exact.numpy()).max() < 2e-2
    grads = [
        ad.grad(lambda v: (F.layer_norm(v, (256,)) ** 3).sum())(v).double().numpy()
        for v in (x, x.double())
    ]
    assert np.abs(grads[0] - grads[1]).max() < 5e-2 * np.abs(grads[1]).max()


def test_layer_norm_mixes_half_inputs_with_float32_weights() -> None:
    x = values(2, 4).to(ad.float16)
    w = ad.ones(4, requires_grad=True)
    result, mean, rstd = ad.ops.native_layer_norm(x, SHAPE, w, None, 1e-5)
    assert (result.dtype, mean.dtype, rstd.dtype) == (ad.float16, ad.float32, ad.float32)
    result.sum().backward()
    assert w.grad.dtype is ad.float32


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: F.layer_norm(x, (3,)), "ends in 3, got 2×4"),
        (lambda x: F.layer_norm(x, ()), "normalized_shape is empty"),
        (
            lambda x: F.layer_norm(x, (4,), ad.ones(3, dtype=x.dtype)),
            "weight must have the shape 4",
        ),
        (lambda x: F.layer_norm(x, (4,), ad.ones(4)), "convert one"),
        (lambda x: F.layer_norm(x.long(), (4,)), "floating point"),
        (lambda x: F.rms_norm(x, (3,)), "ends in 3, got 2×4"),
        (lambda x: F.rms_norm(x.long(), (4,)), "floating point"),
    ],
)
def test_normalization_errors(call: Callable[[ad.Tensor], ad.Tensor], message: str) -> None:
    with pytest.raises(ad.AdjointError, match=message):
        call(values(2, 4))
    with pytest.raises(ad.AdjointError, match=message):  # and without data
        ad.trace(call, ad.ShapeDtype((2, 4), ad.float64))


def test_rms_norm_backward_is_the_gradient() -> None:
    x, w, g = values(2, 4), values(4, seed=1), values(2, 4, seed=2)
    _, rstd = ad.ops._fused_rms_norm(x, SHAPE, w, 0.1)
    got = ad.ops._fused_rms_norm_backward(g, x, SHAPE, rstd, w, (True, True))
    expected = ad.grad(lambda x, w: (F.rms_norm(x, SHAPE, w, 0.1) * g).sum(), (0, 1))(x, w)
    assert all(close(a, b) for a, b in zip(got, expected, strict=True))


# --- batches and groups --------------------------------------------------------------------------


def test_batch_norm_writes_running_statistics_while_training() -> None:
    x = values(6, 2, 3)
    mean, var = ad.zeros(2, dtype=ad.float64), ad.ones(2, dtype=ad.float64)
    F.batch_norm(x, mean, var, momentum=0.25)
    assert (mean.tolist(), var.tolist()) == ([0.0, 0.0], [1.0, 1.0])
    F.batch_norm(x, mean, var, training=True, momentum=0.25)
    by_channel = x.numpy().transpose(1, 0, 2).reshape(2, -1)
    assert np.allclose(mean.numpy(), 0.25 * by_channel.mean(1))
    assert np.allclose(var.numpy(), 0.75 + 0.25 * by_channel.var(1, ddof=1))


def test_batch_norm_with_update_equals_its_functional_variant() -> None:
    x, w = values(6, 2), values(2, seed=1)
    mean, var = ad.zeros(2, dtype=ad.float64), ad.ones(2, dtype=ad.float64)
    new = ad.ops._batch_norm_with_update_functional(x, w, None, mean, var, 0.25, 1e-5)
    old = ad.ops._batch_norm_with_update(x, w, None, mean, var, 0.25, 1e-5)
    assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(old, new[:4], strict=True))
    assert np.array_equal(mean.numpy(), new[4].numpy())
    assert np.array_equal(var.numpy(), new[5].numpy())


def test_batch_norm_backward_differentiates_through_its_statistics() -> None:
    x, g, w = values(5, 2), values(5, 2, seed=3), values(2, seed=4)
    _, mean, rstd = ad.ops.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)

    def by_row(x: ad.Tensor) -> ad.Tensor:
        mask = (True, True, True)
        rest = (None, None, mean, rstd, True, 1e-5, mask)
        parts = ad.ops.native_batch_norm_backward(g, x, w, *rest)
        return (parts[0] ** 2).sum() + (parts[1] ** 3).sum()

    def by_definition(x: ad.Tensor) -> ad.Tensor:
        norm = lambda x, w: (F.batch_norm(x, None, None, w, training=True) * g).sum()
        of_x, of_w = ad.grad(norm, (0, 1))(x, w)
        return (of_x**2).sum() + (of_w**3).sum()

    assert close(ad.grad(by_row)(x), ad.grad(by_definition)(x), 1e-8)


def test_instance_norm_averages_running_statistics_over_samples() -> None:
    x = values(3, 2, 5)
    mean, var = ad.zeros(2, dtype=ad.float64), ad.ones(2, dtype=ad.float64)
    F.instance_norm(x, mean, var, momentum=0.5)
    assert np.allclose(mean.numpy(), 0.5 * x.numpy().mean((0, 2)))
    assert np.allclose(var.numpy(), 0.5 + 0.5 * x.numpy().var(2, ddof=1).mean(0))


def test_weight_norm_gives_the_lengths() -> None:
    v, g = values(3, 4), ad.tensor([[1.0], [2.0], [3.0]], dtype=ad.float64)
    w, norms = ad.ops._weight_norm_interface(v, g, 0)
    assert np.allclose(np.linalg.norm(w.numpy(), axis=1), [1, 2, 3])
    assert np.allclose(norms.numpy()[:, 0], np.linalg.norm(v.numpy(), axis=1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: F.batch_norm(x, None, None), "needs running_mean"),
        (lambda x: F.batch_norm(x[:1], None, None, training=True), "more than one value"),
        (lambda x: F.batch_norm(x, x[0, :2], x[0]), "running_mean must have one number"),
        (lambda x: F.group_norm(x, 3), "4 channels do not make 3 groups"),
        (lambda x: F.instance_norm(x), "more than one value"),
        (lambda x: ad.ops.native_group_norm(x, None, None, 9, 4, 1, 2, 0.1), "does not fit"),
    ],
)
def test_channel_norm_errors(call: Callable[[ad.Tensor], ad.Tensor], message: str) -> None:
    with pytest.raises(ad.AdjointError, match=message):
        call(values(2, 4))


def test_batch_norm_of_an_empty_batch_leaves_running_statistics() -> None:
    mean, variance = ad.zeros(3), ad.ones(3)
    result = F.batch_norm(ad.zeros(0, 3, 2), mean, variance, training=True)
    assert result.shape == (0, 3, 2)
    assert mean.tolist() == [0.0] * 3
    assert variance.tolist() == [1.0] * 3


@pytest.mark.parametrize(
    ("shape", "form"), [((2, 4, 3, 5), ad.channels_last), ((2, 4, 3, 2, 5), ad.channels_last_3d)]
)
def test_group_norm_keeps_channels_last(shape: tuple[int, ...], form: object) -> None:
    x = ad.randn(*shape, generator=ad.Generator().manual_seed(1))
    found = F.group_norm(x.to(memory_format=form), 2)
    assert found.is_contiguous(memory_format=form)
    assert ad.allclose(found, F.group_norm(x, 2))


def test_batch_norm_of_nothing_takes_parameters_of_any_dtype() -> None:
    weight = ad.ones(3, requires_grad=True)
    result = F.batch_norm(ad.zeros(0, 3, dtype=ad.float64), None, None, weight, None, True)
    assert result.dtype is ad.float64
    result.sum().backward()
    assert weight.grad.tolist() == [0.0] * 3


def test_instance_norm_keeps_running_statistics_of_another_dtype() -> None:
    x = ad.randn(2, 3, 8, dtype=ad.float64, generator=ad.Generator().manual_seed(1))
    means = []
    for dtype in (ad.float32, ad.float64):
        mean, variance = ad.zeros(3, dtype=dtype), ad.ones(3, dtype=dtype)
        assert F.instance_norm(x, mean, variance).dtype is ad.float64
        assert mean.dtype is dtype
        means.append(mean)
    assert ad.allclose(means[0].double(), means[1])
    assert means[1].abs().min() > 0

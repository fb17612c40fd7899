"""Mixed precision: which operators autocast changes, and what a GradScaler does with gradients."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import pytest

import adjoint as ad
from adjoint.nn.functional import linear, mse_loss

X, W = ad.ones(3, 3), ad.eye(3)


def product() -> ad.Tensor:
    return X @ W


def test_autocast_lowers_products_and_raises_losses() -> None:
    with ad.autocast("cpu"):
        low = product()
        assert low.dtype is linear(X, W).dtype is ad.bfloat16
        assert (X + W).dtype is ad.float32
        assert mse_loss(low, low).dtype is ad.float32
        assert ad.cat([low, X]).dtype is ad.float32
        assert ad.cat([low, low]).dtype is ad.bfloat16
        assert (X.double() @ W.double()).dtype is ad.float64
        assert (X.long() @ W.long()).dtype is ad.int64
    assert product().dtype is ad.float32


def test_autocasts_nest_and_end_in_any_case() -> None:
    with ad.autocast("cpu", dtype=ad.float16):
        assert product().dtype is ad.float16
        with ad.autocast("cpu", enabled=False):
            assert product().dtype is ad.float32
            with ad.autocast("cpu", dtype=ad.bfloat16):
                assert product().dtype is ad.bfloat16
        assert ad.get_autocast_dtype("cpu") is ad.float16
        with pytest.raises(ValueError, match="stop"), ad.autocast("cpu", enabled=False):
            raise ValueError("stop")
        assert product().dtype is ad.float16
    assert not ad.is_autocast_enabled("cpu")


def test_autocast_decorates_functions() -> None:
    assert ad.autocast("cpu")(product)().dtype is ad.bfloat16
    assert product().dtype is ad.float32


def test_an_autocast_for_a_missing_device_does_nothing() -> None:
    with pytest.warns(UserWarning, match="no device 'cuda'"):
        mode = ad.autocast("cuda")
    with mode:
        assert product().dtype is ad.float32
    with ad.autocast("cpu"), ad.autocast("cuda", enabled=False):
        assert product().dtype is ad.bfloat16
    with pytest.warns(UserWarning, match="not in ad.float32"):
        mode = ad.autocast("cpu", dtype=ad.float32)
    with mode:
        assert product().dtype is ad.float32


def test_gradients_keep_the_dtype_of_their_parameters() -> None:
    w = ad.eye(3, requires_grad=True)
    with ad.autocast("cpu"):
        loss = ((X @ w) * (X @ w)).sum()
    loss.backward()
    assert w.grad is not None
    assert w.grad.dtype is ad.float32
    assert w.grad.tolist() == [[6.0] * 3] * 3


@pytest.mark.parametrize(("kept", "casts"), [(True, 1), (False, 2)])
def test_parameters_are_cast_once_where_casts_are_kept(kept: bool, casts: int) -> None:
    w = ad.eye(3, requires_grad=True)
    with ad.autocast("cpu", cache_enabled=kept):
        first, second = (X @ w).grad_fn, (X @ w).grad_fn
        assert first is not None
        assert second is not None
    nodes = {id(n.next_functions[1][0]) for n in (first, second)}
    assert len(nodes) == casts


def test_writes_in_place_are_left_alone() -> None:
    x = ad.zeros(3, 3)
    with ad.autocast("cpu"):
        assert x.addmm_(X, W).dtype is ad.float32


def test_transforms_compose_with_autocast() -> None:
    with ad.autocast("cpu"):
        assert ad.vmap(lambda row: W @ row)(X).dtype is ad.bfloat16
        assert ad.grad(lambda w: (X @ w).sum().float())(W).dtype is ad.float32
        value, tangent = ad.jvp(lambda x: x @ W, (X,), (X,))
        assert value.dtype is tangent.dtype is ad.bfloat16
        graph = ad.trace(lambda x: x @ W, X)
    assert graph(X).dtype is ad.bfloat16


def test_a_compiled_function_has_a_program_for_each_precision() -> None:
    multiply = ad.compile(lambda x: (x @ W).sin())
    for _ in range(2):
        assert multiply(X).dtype is ad.float32
        with ad.autocast("cpu"):
            assert multiply(X).dtype is ad.bfloat16
        with ad.autocast("cpu", dtype=ad.float16):
            assert multiply(X).dtype is ad.float16
    assert len(multiply.programs) == 3


def test_settings_last_until_they_are_changed() -> None:
    ad.set_autocast_dtype("cpu", ad.float16)
    ad.set_autocast_enabled("cpu", True)
    try:
        assert product().dtype is ad.float16
        assert ad.is_autocast_cpu_enabled()
    finally:
        ad.set_autocast_enabled("cpu", False)
        ad.set_autocast_dtype("cpu", ad.bfloat16)
    assert product().dtype is ad.float32
    ad.set_autocast_cache_enabled(False)
    assert not ad.is_autocast_cache_enabled()
    ad.set_autocast_cache_enabled(True)


class Product(ad.autograd.Function):
    """A product that notes the dtypes that it sees."""

    seen: ClassVar[list[Any]] = []

    @staticmethod
    @ad.amp.custom_fwd(device_type="cpu")
    def forward(ctx: Any, a: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @ad.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, grad: ad.Tensor) -> Any:
        a, b = ctx.saved_tensors
        Product.seen.append((grad.float() @ b.T.float()).dtype)
        return grad @ b.T.to(grad.dtype), a.T.to(grad.dtype) @ grad


def test_backward_of_a_users_function_runs_in_the_autocast_of_its_forward() -> None:
    a, b = ad.ones(2, 2, requires_grad=True), ad.ones(2, 2, requires_grad=True)
    for enabled, expected in ((True, ad.bfloat16), (False, ad.float32)):
        with ad.autocast("cpu", enabled=enabled):
            y = Product.apply(a, b)
        y.float().sum().backward()
        assert Product.seen[-1] is expected


# -- GradScaler ------------------------------------------------------------------------------------


class Step:
    """An optimiser that counts its steps."""

    def __init__(self, *parameters: ad.Tensor) -> None:
        self.param_groups = [{"params": list(parameters)}]
        self.count = 0

    def step(self) -> str:
        self.count += 1
        return "stepped"


def scaled(scaler: ad.amp.GradScaler, factor: float = 1.0) -> tuple[ad.Tensor, Step]:
    w = ad.ones(2, requires_grad=True)
    scaler.scale((w * factor).sum()).backward()
    return w, Step(w)


def test_gradients_are_scaled_and_unscaled() -> None:
    scaler = ad.amp.GradScaler("cpu", init_scale=8.0)
    w, optimizer = scaled(scaler)
    assert w.grad is not None
    assert w.grad.tolist() == [8.0, 8.0]
    scaler.unscale_(optimizer)
    assert w.grad.tolist() == [1.0, 1.0]
    assert scaler.step(optimizer) == "stepped"
    scaler.update()
    assert scaler.get_scale() == 8.0


def test_a_step_that_overflowed_is_left_out_and_the_scale_shrinks() -> None:
    scaler = ad.amp.GradScaler("cpu", init_scale=8.0)
    _, optimizer = scaled(scaler, float("inf"))
    assert scaler.step(optimizer) is None
    assert optimizer.count == 0
    scaler.update()
    assert scaler.get_scale() == 4.0


def test_the_scale_grows_after_steps_without_overflow() -> None:
    scaler = ad.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    for expected in (8.0, 16.0, 16.0, 32.0):
        _, optimizer = scaled(scaler)
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == expected


def test_a_scaler_says_what_is_called_in_the_wrong_order() -> None:
    scaler = ad.amp.GradScaler("cpu")
    with pytest.raises(RuntimeError, match="no gradients were unscaled"):
        scaler.update()
    _, optimizer = scaled(scaler)
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="were unscaled since"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="twice"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="closure"):
        scaler.step(optimizer, closure=print)
    with pytest.raises(RuntimeError, match=r"after update\(\)"):
        pickle.dumps(scaler)


def test_a_scaler_goes_on_from_its_state() -> None:
    scaler = ad.amp.GradScaler("cpu", init_scale=8.0, growth_interval=5)
    _, optimizer = scaled(scaler)
    scaler.step(optimizer)
    scaler.update()
    other = ad.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert (
        other.state_dict() == scaler.state_dict() == pickle.loads(pickle.dumps(scaler)).state_dict()
    )
    assert other.get_growth_interval() == 5
    with pytest.raises(RuntimeError, match="empty"):
        other.load_state_dict({})


def test_a_scaler_for_a_missing_device_does_nothing() -> None:
    with pytest.warns(UserWarning, match="no device 'cuda'"):
        scaler = ad.cuda.amp.GradScaler()
    w, optimizer = scaled(scaler)
    assert w.grad is not None
    assert w.grad.tolist() == [1.0, 1.0]
    assert scaler.step(optimizer) == "stepped"
    scaler.update()
    assert (scaler.state_dict(), scaler.get_scale(), scaler.is_enabled()) == ({}, 1.0, False)


def test_lists_are_scaled_and_half_gradients_refused() -> None:
    scaler = ad.amp.GradScaler("cpu", init_scale=2.0)
    assert [s.item() for s in scaler.scale([ad.ones(()), ad.ones(())])] == [2.0, 2.0]
    w = ad.ones(2, dtype=ad.float16, requires_grad=True)
    scaler.scale(w.sum()).backward()
    with pytest.raises(TypeError, match="float16"):
        scaler.unscale_(Step(w))


def test_what_is_made_of_products_is_lowered_and_recurrent_layers_run() -> None:
    x, w = ad.ones(2, 3), ad.ones(3, 4)
    with ad.autocast("cpu", ad.bfloat16):
        assert ad.einsum("ij,jk->ik", x, w).dtype is ad.bfloat16
        assert ad.einsum("ij->ji", x).dtype is ad.float32
        assert ad.compile(lambda x, w: ad.einsum("ij,jk->ik", x, w))(x, w).dtype is ad.bfloat16
    kinds = {"LSTM": ad.bfloat16, "GRU": ad.float32, "RNN": ad.bfloat16}
    for name, expected in kinds.items():
        ad.manual_seed(0)
        layer = getattr(ad.nn, name)(3, 4, 2)
        steps = ad.rand(5, 2, 3)
        exact = layer(steps)[0]
        with ad.autocast("cpu", ad.bfloat16):
            output, _ = layer(steps)
            assert output.dtype is expected
            output.float().square().sum().backward()
        assert ad.allclose(output.float(), exact, atol=0.05)
        assert all(p.grad.dtype is ad.float32 for p in layer.parameters())
    cell = ad.nn.GRUCell(3, 4)
    with ad.autocast("cpu", ad.bfloat16):
        assert cell(x).dtype is ad.float32
        assert ad.vmap(lambda v: cell(v))(ad.ones(2, 1, 3)).dtype is ad.float32

"""Inference mode: tensors that can never be saved for backward, and what may be done with them."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable

import numpy as np
import pytest

import adjoint as ad
from tests.values import leaf


def made_in_inference(*values: float) -> ad.Tensor:
    with ad.inference_mode():
        return ad.tensor(list(values), dtype=ad.float64)


MAKERS: dict[str, Callable[[ad.Tensor], ad.Tensor]] = {
    "operator": lambda x: x * 2,
    "operator_of_nothing": lambda x: ad.zeros(2),
    "random": lambda x: ad.rand(2),
    "tensor": lambda x: ad.tensor([1.0]),
    "from_numpy": lambda x: ad.from_numpy(np.ones(2)),
    "as_tensor": lambda x: ad.as_tensor(np.ones(2)),
    "one_of_several": lambda x: x.max(0)[1],
    "copying_reshape": lambda x: x.expand(2, 2).reshape(4),
    "clone": lambda x: x.clone(),
    "advanced_index": lambda x: x[ad.tensor([0, 1])],
    "decomposed": lambda x: ad.nn.functional.softplus(x),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("requires_grad", [True, False])
def test_what_inference_mode_makes_is_an_inference_tensor(maker: str, requires_grad: bool) -> None:
    x = leaf(1.0, 2.0).requires_grad_(requires_grad)
    with ad.inference_mode():
        made = MAKERS[maker](x)
        assert made.is_inference()
        assert not made.requires_grad
    assert made.is_inference()
    with pytest.raises(RuntimeError, match="version"):
        _ = made._version
    assert not MAKERS[maker](x).is_inference()


@pytest.mark.parametrize("inside", [True, False])
def test_a_view_of_an_inference_tensor_is_one(inside: bool) -> None:
    with ad.inference_mode():
        made = ad.ones(2, 3)
        view = made.view(-1)
    if not inside:
        view = made.view(-1)
    assert view.is_inference()
    assert view[0].is_inference()
    assert view.detach().is_inference()
    assert not view.clone().is_inference()


def test_a_view_of_an_ordinary_tensor_is_ordinary() -> None:
    x = leaf(1.0, 2.0) * 1
    with ad.inference_mode():
        view = x.view(1, 2)
        assert not view.is_inference()
        view.add_(1)
    assert view._version == x._version == 1


def test_an_ordinary_tensor_may_be_written_in_inference_mode_and_its_savers_learn_of_it() -> None:
    x = leaf(1.0, 2.0)
    a = x.clone()
    out = a * a
    with ad.inference_mode():
        a.add_(2)
    assert not a.is_inference()
    with pytest.raises(RuntimeError, match="changed in place"):
        out.sum().backward()


@pytest.mark.parametrize("function", [ad.mul, ad.matmul, lambda x, w: ad.where(x > 0, x * w, w)])
def test_an_inference_tensor_is_never_saved(function: Callable[..., ad.Tensor]) -> None:
    x, w = leaf(2.0, 3.0), made_in_inference(5.0, 7.0)
    with pytest.raises(RuntimeError, match="cannot be saved"):
        function(x, w)
    with pytest.raises(RuntimeError, match="cannot be saved"):
        function(w, x)
    with ad.no_grad():
        assert not function(x, w).is_inference()


def test_an_inference_tensor_may_be_used_where_nothing_is_saved() -> None:
    x, w = leaf(2.0), made_in_inference(5.0)
    (x + w).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0]


def test_a_function_cannot_save_an_inference_tensor() -> None:
    class Times(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):  # type: ignore[no-untyped-def]
            ctx.save_for_backward(w)
            return x * w

        @staticmethod
        def backward(ctx, grad):  # type: ignore[no-untyped-def]
            return grad * ctx.saved_tensors[0], None

    with pytest.raises(RuntimeError, match="cannot be saved"):
        Times.apply(leaf(1.0), made_in_inference(2.0))


@pytest.mark.parametrize("mode", [ad.no_grad, ad.enable_grad])
@pytest.mark.parametrize(
    "write",
    [
        lambda w: w.add_(1),
        lambda w: w.unsqueeze_(0),
        lambda w: w.__setitem__(0, 1.0),
        lambda w: ad.mul(ad.ones(1, dtype=ad.float64), 2.0, out=w),
        lambda w: w.view(1, 1).mul_(2),
    ],
)
def test_an_inference_tensor_is_written_in_inference_mode_only(
    mode: Callable[[], object], write: Callable[[ad.Tensor], object]
) -> None:
    w = made_in_inference(5.0)
    with ad.inference_mode():
        write(made_in_inference(5.0))
    with mode(), pytest.raises(RuntimeError, match="inference_mode"):  # type: ignore[attr-defined]
        write(w)
    assert w.tolist() == [5.0]


def test_requires_grad_of_an_inference_tensor() -> None:
    with ad.inference_mode():
        w = ad.ones(1, requires_grad=True)
        assert w.requires_grad
        assert w.is_inference()
    other = made_in_inference(1.0)
    with pytest.raises(RuntimeError, match="clone"):
        other.requires_grad_()
    assert other.clone().requires_grad_().requires_grad


def test_a_view_made_in_inference_mode_cannot_be_written_with_gradients_on() -> None:
    x = leaf(1.0, 2.0).clone()
    with ad.inference_mode():
        view = x.view(2, 1)
    with pytest.raises(RuntimeError):
        view.mul_(2)
    x.mul_(2)
    with pytest.raises(RuntimeError):
        _ = view.grad_fn
    with pytest.raises(RuntimeError):
        (view * 2).sum().backward()


def test_inference_mode_of_one_thread_is_not_that_of_another() -> None:
    inside, done = threading.Event(), threading.Event()

    def other() -> None:
        with ad.inference_mode():
            inside.set()
            assert done.wait(20)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(20)
    try:
        assert not (leaf(1.0) * 2).is_inference()
    finally:
        done.set()
        thread.join()


def test_inference_mode_switched_off_inside_makes_ordinary_tensors() -> None:
    with ad.inference_mode():
        with ad.inference_mode(False):
            assert not ad.ones(1).is_inference()
        assert ad.ones(1).is_inference()


def test_transforms_inside_inference_mode() -> None:
    with ad.inference_mode():
        x = ad.tensor([1.0, 2.0], dtype=ad.float64)
        y = x * 2
        assert ad.grad(lambda v: (v * v * y).sum())(x).tolist() == [4.0, 16.0]
        assert ad.vmap(ad.grad(lambda v: v**3))(x).tolist() == [3.0, 12.0]

        def writes(v: ad.Tensor) -> ad.Tensor:
            w = v * y
            y.add_(1)
            return w.sum()

        with pytest.raises(RuntimeError, match="changed in place"):
            ad.grad(writes)(x)


def test_inference_tensors_under_transforms() -> None:
    w = made_in_inference(1.0, 2.0)
    assert ad.vmap(lambda x: x * 2)(w).tolist() == [2.0, 4.0]
    with ad.inference_mode():
        assert ad.vmap(lambda x: x * 2)(w).is_inference()


COMPILED: dict[str, Callable[[ad.Tensor], object]] = {
    "one": lambda x: x * 2,
    "several": lambda x: (x + 1, [x * 2]),
    "gradient": ad.grad(lambda x: (x * x).sum()),
    "loop": lambda x: ad.scan(lambda c, s: (c + s, c), x[0], x)[1],
}


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("requires_grad", [True, False])
def test_what_a_compiled_function_makes_is_marked_as_that_of_eager(
    name: str, requires_grad: bool
) -> None:
    compiled, x = ad.compile(COMPILED[name]), leaf(1.0, 2.0).requires_grad_(requires_grad)
    for inside in (False, True, False, True, True):
        with ad.inference_mode(inside), ad.set_grad_enabled(False):
            results = [compiled(x) for _ in range(3)]
        leaves = ad.tree.leaves(results)
        assert {each.is_inference() for each in leaves} == {inside}
        if inside:
            with pytest.raises(RuntimeError, match="inference_mode"):
                leaves[0].add_(1)
            with pytest.raises(RuntimeError, match="cannot be saved"):
                _ = leaf(1.0, 2.0) * leaves[0]


def test_a_compiled_function_sees_writes_to_an_inference_tensor_from_outside() -> None:
    w = made_in_inference(1.0, 2.0)
    compiled = ad.compile(lambda x: x * w)
    for _ in range(3):
        for _ in range(3):
            found = compiled(ad.ones(2, dtype=ad.float64))
            assert found.tolist() == w.tolist()
        with ad.inference_mode():
            w.add_(1)
            assert compiled(ad.ones(2, dtype=ad.float64)).tolist() == w.tolist()


def test_a_deep_copy_in_inference_mode_is_an_inference_tensor() -> None:
    x = leaf(1.0)
    assert not copy.deepcopy(x).is_inference()
    with ad.inference_mode():
        assert copy.deepcopy(x).is_inference()

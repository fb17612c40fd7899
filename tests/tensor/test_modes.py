"""Grad modes: no_grad, enable_grad, set_grad_enabled, inference_mode, anomaly mode."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import adjoint as ad
from tests.values import leaf


def test_grad_is_enabled_by_default() -> None:
    assert ad.is_grad_enabled()
    assert not ad.is_inference_mode_enabled()


def test_no_grad_records_nothing() -> None:
    x = leaf(1.0)
    with ad.no_grad():
        assert not ad.is_grad_enabled()
        y = x * 2
    assert not y.requires_grad
    assert y.is_leaf
    assert ad.is_grad_enabled()


def test_enable_grad_inside_no_grad() -> None:
    x = leaf(1.0)
    with ad.no_grad(), ad.enable_grad():
        assert (x * 2).requires_grad
    assert ad.is_grad_enabled()


def test_modes_are_restored_after_an_error() -> None:
    with pytest.raises(KeyError), ad.no_grad():
        raise KeyError
    assert ad.is_grad_enabled()


def test_set_grad_enabled_is_a_function_and_a_context() -> None:
    with ad.set_grad_enabled(False):
        assert not ad.is_grad_enabled()
        with ad.set_grad_enabled(True):
            assert ad.is_grad_enabled()
        assert not ad.is_grad_enabled()
    assert ad.is_grad_enabled()
    ad.set_grad_enabled(False)
    try:
        assert not ad.is_grad_enabled()
    finally:
        ad.set_grad_enabled(True)


def test_no_grad_decorates_functions() -> None:
    @ad.no_grad()
    def off(x: ad.Tensor) -> ad.Tensor:
        """Doubles."""
        return x * 2

    @ad.no_grad
    def bare(x: ad.Tensor) -> ad.Tensor:
        return x * 2

    @ad.enable_grad()
    def on(x: ad.Tensor) -> ad.Tensor:
        return x * 2

    @ad.set_grad_enabled(False)
    def unset(x: ad.Tensor) -> ad.Tensor:
        return x * 2

    assert ad.is_grad_enabled()
    assert off.__name__ == "off"
    assert off.__doc__ == "Doubles."
    x = leaf(1.0)
    assert not off(x).requires_grad
    assert not bare(x).requires_grad
    assert not unset(x).requires_grad
    with ad.no_grad():
        assert on(x).requires_grad


def test_decorated_function_is_reentrant() -> None:
    @ad.no_grad()
    def nested(depth: int) -> bool:
        return not ad.is_grad_enabled() and (depth == 0 or nested(depth - 1))

    assert nested(3)
    assert ad.is_grad_enabled()


def test_no_grad_decorates_generators() -> None:
    @ad.no_grad()
    def steps() -> Iterator[bool]:
        yield ad.is_grad_enabled()
        yield ad.is_grad_enabled()

    seen = []
    for value in steps():
        assert ad.is_grad_enabled()
        seen.append(value)
    assert seen == [False, False]


def test_modes_are_per_thread() -> None:
    seen: list[bool] = []
    with ad.no_grad():
        thread = threading.Thread(target=lambda: seen.append(ad.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_creation_under_no_grad_keeps_requires_grad() -> None:
    with ad.no_grad():
        x = ad.ones(2, requires_grad=True)
    assert x.requires_grad
    (x * 2).sum().backward()


def test_backward_is_not_recorded() -> None:
    x = leaf(2.0)
    (x * x).sum().backward()
    assert x.grad is not None
    assert not x.grad.requires_grad


def test_grad_function_works_under_no_grad() -> None:
    x = leaf(2.0)
    y = (x * x).sum()
    with ad.no_grad():
        (g,) = ad.autograd.grad(y, x)
    assert g.item() == 4.0


def test_detached_coroutines_keep_their_modes() -> None:
    @ad.no_grad()
    def work() -> bool:
        return ad.is_grad_enabled()

    async def main() -> list[bool]:
        return [work(), ad.is_grad_enabled()]

    assert asyncio.run(main()) == [False, True]


# Inference mode


def test_inference_mode_records_nothing() -> None:
    x = leaf(1.0)
    with ad.inference_mode():
        assert ad.is_inference_mode_enabled()
        assert not ad.is_grad_enabled()
        y = x * 2
    assert not y.requires_grad
    assert y.is_inference()
    assert not x.is_inference()


def test_inference_mode_can_be_switched_off_inside() -> None:
    x = leaf(1.0)
    with ad.inference_mode(), ad.inference_mode(False):
        assert (x * 2).requires_grad


def test_inference_mode_decorates() -> None:
    @ad.inference_mode()
    def double(x: ad.Tensor) -> ad.Tensor:
        return x * 2

    assert double(leaf(1.0)).is_inference()


def test_inference_tensor_cannot_be_saved_for_backward() -> None:
    with ad.inference_mode():
        w = ad.ones(1, dtype=ad.float64)
    x = leaf(2.0)
    assert (x + w).requires_grad
    with pytest.raises(RuntimeError):
        x * w


def test_inference_tensor_cannot_be_written_outside() -> None:
    with ad.inference_mode():
        w = ad.ones(1)
        w.add_(1)
    with pytest.raises(RuntimeError):
        w.add_(1)


def test_inference_tensor_cannot_require_grad_outside() -> None:
    with ad.inference_mode():
        w = ad.ones(1)
    with pytest.raises(RuntimeError):
        w.requires_grad_()


def test_clone_of_an_inference_tensor_is_ordinary() -> None:
    with ad.inference_mode():
        w = ad.ones(1)
    c = w.clone()
    assert not c.is_inference()
    assert c.requires_grad_().requires_grad


# Anomaly mode


def bad(x: ad.Tensor) -> ad.Tensor:
    return x**0.25


@pytest.mark.filterwarnings("ignore:Anomaly")
def test_anomaly_mode_finds_nan() -> None:
    x = leaf(0.0)
    with ad.autograd.detect_anomaly(check_nan=True):
        y = bad(x) * 0.0
        with (
            pytest.warns(UserWarning, match="(?s)Error detected in PowBackward0.*in bad"),
            pytest.raises(RuntimeError, match="(?i)nan"),
        ):
            y.sum().backward()


@pytest.mark.filterwarnings("ignore")
def test_anomaly_mode_passes_good_gradients() -> None:
    x = leaf(2.0)
    with ad.autograd.detect_anomaly():
        bad(x).sum().backward()
    assert x.grad is not None


@pytest.mark.filterwarnings("ignore")
def test_set_detect_anomaly() -> None:
    assert not ad.is_anomaly_enabled()
    with ad.autograd.set_detect_anomaly(True):
        assert ad.is_anomaly_enabled()
        with ad.autograd.set_detect_anomaly(False):
            assert not ad.is_anomaly_enabled()
    assert not ad.is_anomaly_enabled()


def test_no_anomaly_mode_lets_nan_pass() -> None:
    x = leaf(0.0)
    (bad(x) * 0.0).sum().backward()
    assert x.grad is not None
    assert x.grad.isnan().all()


@pytest.mark.filterwarnings("ignore:Anomaly")
def test_anomaly_mode_names_the_pass_that_made_a_node() -> None:
    class Doubled(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            (x,) = ctx.saved_tensors
            return Broken.apply(grad * x)

    class Broken(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            return grad * float("nan")

    x = leaf(1.0)
    with ad.autograd.detect_anomaly():
        (g,) = ad.autograd.grad(Doubled.apply(x).sum(), x, create_graph=True)
        with (
            pytest.warns(UserWarning, match="apply") as caught,
            pytest.raises(RuntimeError, match="NaN"),
        ):
            g.sum().backward()
    texts = [str(w.message) for w in caught]
    assert "Broken.apply" in texts[0]
    assert "Doubled.apply" in texts[1]


def test_a_class_is_decorated_with_a_warning() -> None:
    with pytest.warns(FutureWarning):

        @ad.no_grad()
        class Inside:
            def __init__(self) -> None:
                self.recorded = ad.is_grad_enabled()

            def later(self) -> bool:
                return ad.is_grad_enabled()

    made: Any = Inside()
    assert not made.recorded
    assert made.later()


def test_modes_of_grad_mode_are_the_modes() -> None:
    assert ad.autograd.grad_mode.no_grad is ad.no_grad

"""`allow_mutation_on_saved_tensors`: backward sees what was saved, whatever is written later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

allowed = ad.autograd.graph.allow_mutation_on_saved_tensors


def leaf(*values: float) -> ad.Tensor:
    return ad.tensor(list(values), dtype=ad.float64, requires_grad=True)


WRITES: dict[str, Callable[[ad.Tensor], object]] = {
    "operator": lambda y: y.sin_(),
    "view": lambda y: y[:1].mul_(5),
    "detached": lambda y: y.detach().mul_(5),
    "index": lambda y: y.detach().__setitem__(0, 7.0),
    "out": lambda y: ad.sin(ad.ones(2, dtype=ad.float64), out=y.detach()),
    "without gradients": lambda y: ad.no_grad()(lambda: y.mul_(5))(),
    "shape": lambda y: y.unsqueeze_(0).mul_(3),
}

FUNCTIONS: dict[str, Callable[[ad.Tensor], ad.Tensor]] = {
    "argument": lambda y: y**3,
    "both": lambda y: y * y,
    "a view is saved": lambda y: y.view(2, 1) ** 2,
    "a list is saved": lambda y: ad.einsum("i,i->i", y, y),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_write_does_not_disturb_backward(write: str, function: str) -> None:
    expected = ad.grad(lambda x: FUNCTIONS[function](x * 1).sum())(leaf(0.5, 1.5).detach()).numpy()
    x = leaf(0.5, 1.5)
    with allowed() as context:
        y = x * 1
        z = FUNCTIONS[function](y).sum()
        WRITES[write](y)
        z.backward()
    assert x.grad is not None
    assert np.allclose(x.grad.numpy(), expected)
    assert len(context.cloned) == 0
    x = leaf(0.5, 1.5)
    y = x * 1
    z = FUNCTIONS[function](y).sum()
    WRITES[write](y)
    with pytest.raises(RuntimeError, match="changed in place"):
        z.backward()


def test_a_saved_result_and_a_function_of_the_users_own() -> None:
    class Cube(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            return grad * 3 * ctx.saved_tensors[0] ** 2

    x = leaf(0.5)
    with allowed():
        y = x.exp()
        z = Cube.apply(y) * 1
        y.mul_(100)
        z.sum().backward()
    assert x.grad is not None
    assert np.allclose(x.grad.numpy(), 3 * np.exp(1.5))


def test_memory_is_copied_once_and_only_while_it_is_wanted() -> None:
    with allowed() as context:
        y = leaf(1.0, 2.0) * 1
        first, second = y**2, y**3
        assert len(context.cloned) == 0
        y.sin_()
        assert len(context.cloned) == 1
        third = y**2
        y.sin_()
        assert len(context.cloned) == 2
        del first, second
        assert len(context.cloned) == 1
        del third
        assert len(context.cloned) == 0
        y.sin_()
        assert len(context.cloned) == 0


def test_backward_belongs_into_the_block() -> None:
    with allowed():
        y = (leaf(1.0) ** 2).sum()
    with pytest.raises(AssertionError, match="outside"):
        y.backward()
    with allowed(), pytest.raises(AssertionError, match="outside"):
        y.backward()
    with allowed(), pytest.raises(RuntimeError, match="nested"), allowed():
        pass
    with allowed():
        pass

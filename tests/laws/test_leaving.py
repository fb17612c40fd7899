"""A value that leaves the derivative being computed of it raises, or is differentiated."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core import pytrees
from adjoint.core.errors import AdjointError

Scalar = Callable[[Any], Any]


def _into_array(v: Any) -> Any:
    b = np.zeros(2)
    b[0] = v
    return v * ad.tensor(b).sum()


def _filled_array(v: Any) -> Any:
    return v * ad.tensor(np.full(2, v)).sum()


LEAVING: dict[str, Scalar] = {
    "float": lambda v: float(v) * v,
    "complex": lambda v: complex(v).real * v,
    "item": lambda v: v.item() * v,
    "tolist": lambda v: v.tolist() * v,
    "numpy": lambda v: ad.tensor(v.numpy()) * v,
    "np.asarray": lambda v: ad.tensor(np.asarray(v)) * v,
    "np.array of a list": lambda v: ad.tensor(np.array([v, v])).sum() * v,
    "an element of an array": _into_array,
    "np.full": _filled_array,
    "math.sin": lambda v: math.sin(v) * v,
    "deepcopy": lambda v: copy.deepcopy(v) * v,
    "pickle": lambda v: pickle.loads(pickle.dumps(v)) * v,
    "a result": lambda v: float(v.sin() + 1) * v,
    "a view": lambda v: float(v.reshape(1)[0]) * v,
    "a number argument": lambda v: ad.add(v, v, alpha=v),
    "a list of tensors": lambda v: ad.tensor([v, v]).sum() * v,
}

STAYING: dict[str, Scalar] = {
    "a constant": lambda v: float(v.detach()) * v,
    "under no_grad": lambda v: _silenced(v) * v,
    "a comparison": lambda v: v * v if v > 0 else v,
    "a truth value": lambda v: v * v if v else v,
    "a whole number": lambda v: int(v) * v + v - v + v * 0,
    "printing": lambda v: v * v if f"{v} {v:.2f} {v!r}" else v,
    "a tensor from outside": lambda v: float(OUTSIDE) * v,
}

OUTSIDE = ad.tensor(3.0, requires_grad=True)

WAYS: dict[str, Callable[[Scalar], Any]] = {
    "grad": lambda f: ad.grad(f)(ad.tensor(1.5)),
    "vjp": lambda f: ad.vjp(f, ad.tensor(1.5))[1](ad.tensor(1.0)),
    "jvp": lambda f: ad.jvp(f, (ad.tensor(1.5),), (ad.tensor(1.0),)),
    "grad of grad": lambda f: ad.grad(ad.grad(f))(ad.tensor(1.5)),
    "jvp of grad": lambda f: ad.jvp(ad.grad(f), (ad.tensor(1.5),), (ad.tensor(1.0),)),
    "hessian": lambda f: ad.hessian(f)(ad.tensor(1.5)),
    "jacfwd": lambda f: ad.jacfwd(f)(ad.tensor(1.5)),
    "inner": lambda f: ad.grad(lambda v: ad.vmap(lambda w: f(v) * w)(ad.ones(2)).sum())(
        ad.tensor(1.5)
    ),
}


def _silenced(v: Any) -> float:
    with ad.no_grad():
        return float(v.detach())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LEAVING)
def test_a_value_that_leaves_raises(name: str, way: str) -> None:
    with pytest.raises((AdjointError, TypeError, ValueError)):
        WAYS[way](LEAVING[name])


@pytest.mark.parametrize("way", [w for w in WAYS if w != "inner"])
@pytest.mark.parametrize("name", STAYING)
def test_a_value_without_derivative_may_leave(name: str, way: str) -> None:
    WAYS[way](STAYING[name])


FOLLOWED: dict[str, Scalar] = {
    "a copy": lambda v: copy.copy(v) * v,
    "full": lambda v: ad.full((2,), v).mean() * v,
    "full_like": lambda v: ad.full_like(ad.ones(2), v).mean() * v,
    "new_full": lambda v: ad.ones(3).new_full((2,), v).mean() * v,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FOLLOWED)
def test_a_copy_is_differentiated(name: str, way: str) -> None:
    got, expected = (WAYS[way](f) for f in (FOLLOWED[name], lambda v: v * v))
    for a, b in zip(pytrees.leaves(got), pytrees.leaves(expected), strict=True):
        assert a.item() == b.item()


def test_the_tape_lets_numbers_out_as_pytorch_does() -> None:
    x = ad.tensor(2.0, requires_grad=True)
    assert float(x) == 2.0
    assert (x * x).item() == 4.0


# -- writes to tensors from outside


def test_a_tensor_written_to_inside_keeps_the_values_and_no_history() -> None:
    buffer = ad.zeros(2)
    part = buffer[:1]

    def f(v: Any) -> Any:
        buffer.add_(v)
        return (v * v).sum()

    gradient = ad.grad(f)(ad.tensor([1.0, 2.0]))
    np.testing.assert_allclose(gradient.numpy(), [2.0, 4.0])
    assert not buffer.requires_grad
    assert not part.requires_grad
    assert buffer.tolist() == [1.0, 2.0]
    buffer.add_(1.0)
    assert part.tolist() == [2.0]


def test_a_tensor_written_to_inside_and_used_there_is_differentiated() -> None:
    buffer = ad.zeros(2)

    def f(v: Any) -> Any:
        buffer.zero_()
        buffer.add_(v * v)
        return buffer.sum()

    for _ in range(2):
        gradient = ad.grad(f)(ad.tensor([1.0, 2.0]))
        np.testing.assert_allclose(gradient.numpy(), [2.0, 4.0])
        assert not buffer.requires_grad


def test_a_tensor_written_to_inside_keeps_its_own_history() -> None:
    p = ad.tensor([3.0, 4.0], requires_grad=True)
    buffer = p * 2

    def f(v: Any) -> Any:
        buffer.mul_(v)
        return (v * v).sum()

    gradient = ad.grad(f)(ad.tensor([1.0, 2.0]))
    np.testing.assert_allclose(gradient.detach().numpy(), [2.0, 4.0])
    buffer.sum().backward()
    assert p.grad is not None
    np.testing.assert_allclose(p.grad.numpy(), [2.0, 4.0])


def test_a_write_before_an_error_leaves_no_history() -> None:
    buffer = ad.zeros(2)

    def f(v: Any) -> Any:
        buffer.add_(v)
        raise KeyError

    with pytest.raises(KeyError):
        ad.grad(f)(ad.tensor([1.0, 2.0]))
    assert not buffer.requires_grad

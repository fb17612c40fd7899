"""`ad.compile`: native code equals eager, in one call, with gradients, and under transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core import pytrees
from adjoint.toolchain import build

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")


def make(*shape: int, seed: int = 0, dtype: Any = None) -> ad.Tensor:
    values = np.random.default_rng(seed).uniform(0.5, 1.5, shape)
    return ad.tensor(values, dtype=ad.float64 if dtype is None else dtype)


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "pointwise": (lambda x: (x.sin() * x).sum(), ((7,),)),
    "large": (lambda x: (x.exp() - 1).log1p().mean(), ((200, 300),)),
    "matmul": (lambda x, y: (x @ y).tanh().sum(), ((3, 4), (4, 2))),
    "broadcast": (lambda x, y: (x * y).exp().mean(0), ((3, 4), (4,))),
    "outer": (lambda x, y: (x[:, None] - y[None, :]).square().sum(1), ((5,), (6,))),
    "statistics": (lambda x: x.var() + x.std(0).sum(), ((3, 4),)),
    "transposed": (lambda x: x.t() * 2 + x.t().sum(0), ((3, 4),)),
    "logsumexp": (lambda x: x.logsumexp(1).sum(), ((3, 4),)),
    "slices": (lambda x: x[1:, ::2].exp().sum(1), ((3, 4),)),
    "where": (lambda x: ad.where(x > 1, x, x * x).norm(), ((3, 4),)),
    "extremum": (lambda x: x.amax(1) - x.amin(0).sum(), ((3, 4),)),
    "calls back": (lambda x: x.max(1).values * 2 + ad.cat([x[0], x[1]]).cumsum(0).sum(), ((3, 4),)),
    "scalar": (lambda x: x.exp() * x, ((),)),
    "empty": (lambda x: x.exp().sum() + 1, ((0, 3),)),
    "middle dimension": (lambda x: (x * 2).sum(1).exp(), ((2, 5, 3),)),
    "several outputs": (lambda x: {"a": x * 2, "b": (x.sum(), x.t())}, ((3, 4),)),
    "powers": (lambda x: x**2 + x**3 + x**-1 + x**0.5 + 2**x, ((6,),)),
}


def assert_same(got: Any, expected: Any, rtol: float = 1e-12) -> None:
    assert pytrees.structure(got) == pytrees.structure(expected)
    for a, b in zip(pytrees.leaves(got), pytrees.leaves(expected), strict=True):
        assert a.shape == b.shape
        assert a.dtype is b.dtype
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "several outputs"])
def test_backward_through_a_compiled_function(name: str) -> None:
    function, shapes = FUNCTIONS[name]
    inputs = [make(*s, seed=i).requires_grad_() for i, s in enumerate(shapes)]
    output = ad.compile(function)(*inputs)
    found = ad.autograd.grad((output * output).sum(), inputs, create_graph=True)
    expected = ad.autograd.grad((function(*inputs) ** 2).sum(), inputs, create_graph=True)
    assert_same(list(found), list(expected), rtol=1e-10)
    if all(g.requires_grad for g in expected):
        second = ad.autograd.grad(sum((g * g).sum() for g in found), inputs)
        assert_same(
            list(second),
            list(ad.autograd.grad(sum((g * g).sum() for g in expected), inputs)),
            rtol=1e-9,
        )


def test_transforms_of_a_compiled_function() -> None:
    compiled = ad.compile(lambda x: (x.sin() * x).sum())
    x = make(4)
    assert_same(ad.grad(compiled)(x), ad.grad(lambda x: (x.sin() * x).sum())(x))
    assert_same(ad.vmap(compiled)(make(3, 4)), ad.vmap(lambda x: (x.sin() * x).sum())(make(3, 4)))
    assert_same(
        ad.compile(ad.vmap(ad.hessian(compiled)))(make(2, 3)),
        ad.vmap(ad.hessian(compiled))(make(2, 3)),
        rtol=1e-10,
    )


def test_forward_and_backward_share_a_loop() -> None:
    stages = ad.compile(ad.value_and_grad(lambda x: (x.sin() * x.exp()).sum())).lower(make(1000))
    assert len(stages.layout.steps) == 1
    assert stages.callbacks() == []
    assert "sin(" in stages.source
    assert set(stages.seconds) >= {"trace", "build"}
    assert "operators over (1000,)" in str(stages)


def test_writing_to_an_output_does_not_reach_the_program() -> None:
    """Constants and fills are kept from call to call; what the user gets are copies."""
    table = make(3)
    for function in (
        lambda x: (x * 2, table),
        lambda x: (x * 2, ad.zeros(3, dtype=ad.float64)),
        lambda x: (x * 2, table[:2]),
        lambda x: (x.cumsum(0), (x * 2)[1:]),
    ):
        compiled = ad.compile(function)
        compiled(make(3))[1].fill_(99.0)
        assert_same(compiled(make(3)), function(make(3)))
    np.testing.assert_array_equal(table.numpy(), make(3).numpy())


def test_closing_over_a_tensor_that_requires_a_gradient_is_refused() -> None:
    weight = make(3).requires_grad_()
    with pytest.raises(ad.AdjointError, match="pass it as an argument"):
        ad.compile(lambda x: (x * weight).sum())(make(3))
    compiled = ad.compile(lambda x: (x * weight).sum())
    with ad.no_grad():
        assert_same(compiled(make(3)), (make(3) * weight).sum())
    for argument in (make(3), make(3).requires_grad_()):  # also once it is compiled
        with pytest.raises(ad.AdjointError, match="pass it as an argument"):
            compiled(argument)


def test_python_branch_on_data_is_an_error_that_helps() -> None:
    with pytest.raises(ad.AdjointError, match=r"ad\.where"):
        ad.compile(lambda x: x if x.sum() > 0 else -x)(make(3))


# -- loops over time


def rotating(x: Any, w: Any) -> Any:
    """The carry changes places, a part of it stays, and results are stacked."""
    carry, ys = ad.scan(
        lambda c, t: ((c[1], c[0] * t + w, c[2]), (c[0], c[1].sum())), (x, w, x * w), ad.arange(4.0)
    )
    return (carry[0] * carry[1] + carry[2]).sum() + (ys[0] * ys[0]).sum() + ys[1].prod()


def nested(x: Any, w: Any) -> Any:
    def outer(c: Any, t: Any) -> Any:
        inner, _ = ad.scan(lambda d, s: (d * w + s * t, None), c, ad.arange(3.0))
        return inner.sin(), inner.flip(0)[:2]

    carry, ys = ad.scan(outer, x, ad.arange(5.0))
    return carry.sum() + ys.sum()


def integrated(x: Any, w: Any) -> Any:
    """Runge–Kutta steps of a small system, written with stack and indices."""

    def rhs(u: Any) -> Any:
        return ad.stack([w[0] * u[0] - u[0] * u[1], u[0] * u[1] - w[1] * u[1], u[2] * w[2]])

    def step(u: Any, _: Any) -> Any:
        k1 = rhs(u)
        k2 = rhs(u + 0.05 * k1)
        return u + 0.1 * k2, None

    carry, _ = ad.scan(step, x, None, length=20)
    return carry.sum()


def backwards(x: Any, w: Any) -> Any:
    carry, ys = ad.scan(
        lambda c, t: (c * t + w, c.exp() * 0.1), x, ad.arange(4.0) * 0.3, reverse=True
    )
    return carry.sum() + (ys * ys).sum()


@pytest.mark.usefixtures("float64_by_default")
@pytest.mark.parametrize("function", [rotating, nested, integrated, backwards])
def test_scan_is_a_native_loop(function: Callable[..., Any]) -> None:
    inputs = make(3), make(3, seed=1)
    both = ad.value_and_grad(function, argnums=(0, 1))
    compiled = ad.compile(both)
    assert_same(compiled(*inputs), both(*inputs), rtol=1e-10)
    assert "scan" not in compiled.lower(*inputs).callbacks()

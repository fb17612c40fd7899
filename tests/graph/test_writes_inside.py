"""Writes in place to tensors that were made inside a transform, a trace or the body of a loop.

The law: a tensor that is made inside may be written to inside, whatever it was made of (tensors of
levels further out, or nothing) and however transforms nest; the result is that of plain tensors.
A tensor from outside may not, and the error says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import AdjointError

MAKERS: dict[str, Callable[[Any], Any]] = {
    "zeros_like": ad.zeros_like,
    "empty_like": lambda u: ad.empty_like(u).zero_(),
    "full_like": lambda u: ad.full_like(u, 2.0),
    "new_zeros": lambda u: u.new_zeros(u.shape),
    "new_full": lambda u: u.new_full((3,), 3.0),
    "clone": lambda u: u.clone(),
    "detach, clone": lambda u: u.detach().clone(),
    "clone, detach": lambda u: u.clone().detach(),
    "a product": lambda u: u * 1,
    "a view of a product": lambda u: (ad.stack([u, u]) * 2)[1],
    "zeros": lambda u: ad.zeros(3, dtype=u.dtype),
    "tensor": lambda u: ad.tensor([1.0, 2.0, 3.0], dtype=u.dtype),
}
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "item": lambda y, x: y.__setitem__(0, x[1] * x[0]),
    "slice": lambda y, x: y.__setitem__(slice(1, None), x[:2].sin()),
    "mul_": lambda y, x: y.mul_(x),
    "view": lambda y, x: y[1:].add_(x[1:] ** 2),
    "index_add_": lambda y, x: y.index_add_(0, ad.tensor([0, 2]), x[:2] * x[1:]),
    "unsqueeze_": lambda y, x: y.unsqueeze_(0).mul_(x).squeeze_(0),
}
U = ad.tensor([0.9, -0.4, 1.1], dtype=ad.float64)
X = ad.tensor([0.2, 1.3, -0.7], dtype=ad.float64)


def _function(make: Callable[[Any], Any], write: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def f(u: Any, x: Any) -> Any:
        y = make(u)
        tail = y[1:]
        write(y, x)
        return (y * y * x).sum() + (tail * u[1:]).sum() * 3

    return f


def _nestings(f: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    """The gradient in x, with u on a level, a trace or in a loop further out."""

    def gradient(u: Any, x: Any = X) -> Any:
        return ad.grad(lambda v: f(u, v))(x)

    def forward(u: Any) -> Any:
        return ad.jacfwd(lambda v: f(u, v))(X)

    def looped(u: Any, x: Any) -> Any:
        return ad.grad(lambda v: ad.scan(lambda c, s: (f(u, v) + 0 * c, s), v.sum(), v)[0])(x)

    def repeated(u: Any, x: Any) -> Any:
        def body(c: Any) -> Any:
            return c[0] + 1, f(u, x) + 0 * c[1]

        return ad.while_loop(lambda c: c[0] < 2, body, (ad.tensor(0), x.sum()))[1]

    def chosen(u: Any, x: Any) -> Any:
        return ad.cond(x.sum() > -9, lambda v: f(u, v), lambda v: v.sum(), x)

    pair = ad.stack([U * 2, U])
    return {
        "vmap of grad": lambda: ad.vmap(gradient)(pair)[1],
        "jvp of grad": lambda: ad.jvp(gradient, (U,), (U,))[0],
        "vjp of grad": lambda: ad.vjp(gradient, U)[0],
        "vmap of jacfwd": lambda: ad.vmap(forward)(pair)[1],
        "jvp of jacfwd": lambda: ad.jvp(forward, (U,), (U,))[0],
        "vjp of jacfwd": lambda: ad.vjp(forward, U)[0],
        "trace of grad": lambda: ad.graph.verify(ad.trace(gradient, U, X))(U, X),
        "trace in u alone": lambda: ad.trace(gradient, U)(U),
        "trace of vmap of grad": lambda: ad.trace(ad.vmap(gradient), pair)(pair)[1],
        "scan": lambda: looped(U, X),
        "trace of scan": lambda: ad.graph.verify(ad.trace(looped, U, X))(U, X),
        "trace of while_loop": lambda: ad.grad(
            lambda x: ad.trace(repeated, U, X)(U, x)
        )(X),
        "trace of cond": lambda: ad.trace(lambda u, x: ad.grad(chosen, 1)(u, x), U, X)(U, X),
    }  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("make", MAKERS)
def test_a_tensor_made_inside_may_be_written_to(make: str, write: str) -> None:
    f = _function(MAKERS[make], WRITES[write])
    expected = ad.grad(f, argnums=1)(U, X).numpy()
    for name, run in _nestings(f).items():
        np.testing.assert_allclose(run().numpy(), expected, 1e-12, 1e-12, err_msg=name)


@pytest.mark.parametrize("make", [m for m in MAKERS if "detach" not in m])
def test_mixed_second_derivatives_through_writes(make: str) -> None:
    f = _function(MAKERS[make], WRITES["view"])
    expected = ad.hessian(f, argnums=(0, 1))(U, X)[1][0].numpy()
    for outer in (ad.jacrev, ad.jacfwd):
        for inner in (ad.grad, ad.jacfwd):
            found = outer(lambda u, inner=inner: inner(lambda x: f(u, x))(X))(U)
            np.testing.assert_allclose(found.numpy(), expected, 1e-12, 1e-12)


def test_compiled_bodies_write_to_what_they_make() -> None:
    x = ad.tensor(np.random.default_rng(0).standard_normal((2, 3)))

    def loss(x: Any, make: Callable[[Any], Any]) -> Any:
        def body(c: Any, s: Any) -> Any:
            y = make(x)
            y[0] = c
            y.mul_(2)
            return c * 0.5 + y.sum(0), y.sum() * s

        carry, rows = ad.scan(body, x[0] * 1, x)
        return (carry * carry).sum() + rows.sum()

    for make in (lambda x: x.clone(), lambda x: x * 1, ad.zeros_like):
        f = ad.value_and_grad(lambda x, make=make: loss(x, make))
        for got, expected in zip(ad.compile(f)(x), f(x), strict=True):
            np.testing.assert_allclose(got, expected, 1e-12)


@pytest.mark.parametrize("outside", [
    lambda: U.clone(), lambda: U.clone()[:], lambda: U.clone().requires_grad_() * 2,
])  # fmt: skip
@pytest.mark.parametrize("transform", [
    lambda f: ad.vmap(f)(ad.stack([X, X])), lambda f: ad.jvp(f, (X,), (X,)),
    lambda f: ad.vmap(ad.grad(f))(ad.stack([X, X])), lambda f: ad.trace(f, X),
])  # fmt: skip
def test_a_tensor_from_outside_may_not_be_written_to(
    outside: Callable[[], Any], transform: Callable[..., Any]
) -> None:
    given = outside()

    def f(x: Any) -> Any:
        given.mul_(x)
        return given.sum()

    with pytest.raises(AdjointError, match="outside"):
        transform(f)
    assert type(given) is ad.Tensor


def test_a_view_of_a_tensor_further_out_may_not_be_written_to() -> None:
    def f(u: Any) -> Any:
        return ad.grad(lambda x: (u[:2].mul_(x[:2]) * u[:2]).sum())(X)

    for run in (lambda: ad.vmap(f)(ad.stack([U, U])), lambda: ad.trace(f, U)):
        with pytest.raises(AdjointError, match="outside"):
            run()


KINKED_WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "to the tensor": lambda y, x: (y.mul_(x), y)[1],
    "to a view, read by its base": lambda y, x: (y[1:].mul_(x[1:]), y)[1],
    "to the base, read by a view": lambda y, x: (y[1:], y.mul_(x))[0],
    "to what became a view": lambda y, x: y.unsqueeze_(0).mul_(x),
    "to the base of what became a view": lambda y, x: (y[:2], y.unsqueeze_(0).mul_(x))[0],
}


@pytest.mark.parametrize("write", KINKED_WRITES)
def test_a_traced_tensor_beside_a_kink_may_be_written_to(write: str) -> None:
    """A trace computes a norm twice for second derivatives; writes reach both and their views."""

    def curvature(make: Callable[..., Any]) -> Callable[..., Any]:
        def loss(u: Any, x: Any) -> Any:
            return (KINKED_WRITES[write](make(u, x), x * x) ** 2).sum()

        return lambda u, x: ad.jvp(lambda v: ad.grad(lambda w: loss(u, w))(v), (x,), (x * x,))

    found = ad.trace(curvature(lambda u, x: u.norm() * u), U, X)(U, X)
    expected = curvature(lambda u, x: u.norm() * u + 0 * x)(U, X)  # of the inner levels from birth
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)

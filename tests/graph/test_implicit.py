"""Solutions with the derivative of their equation, and functions as graphs of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ArgumentError, GradError, ShapeError
from tests.graph.test_control import TRANSFORMS, close

W = ad.tensor([0.5, 0.3], dtype=ad.float64)
XS = ad.tensor(np.random.default_rng(0).normal(size=(4, 2)))


def matrix(w: Any, xs: Any) -> Any:
    return xs.T @ xs + ad.diag(w) + ad.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=ad.float64)


def exact(f: Any, r: Any) -> Any:
    """The solution of a linear equation that is known by its function."""
    return ad.linalg.solve(ad.jacobian(f)(r), r)


def direct(w: Any, xs: Any) -> Any:
    """Solvers that use what the function closes over."""
    a = matrix(w, xs)
    x = ad.custom_linear_solve(
        lambda x: a @ x,
        w.exp() + xs[0],
        lambda _, b: ad.linalg.solve(a, b),
        lambda _, b: ad.linalg.solve(a.T, b),
    )
    return (x**3).sum()


def iterated(w: Any, xs: Any) -> Any:
    """A symmetric map, solved by conjugate gradients that run until they have it; trees."""
    a = xs.T @ xs + ad.diag(w * w) + ad.eye(2, dtype=ad.float64)

    def conjugate_gradients(f: Any, b: Any) -> Any:
        def body(state: Any) -> Any:
            x, r, p = state
            q = f({"x": p})["x"]
            alpha = r @ r / (p @ q)
            new = r - alpha * q
            return x + alpha * p, new, new + (new @ new) / (r @ r) * p

        start = (ad.zeros_like(b["x"]), b["x"], b["x"])
        return {"x": ad.while_loop(lambda s: s[1] @ s[1] > 1e-28, body, start)[0]}

    b = {"x": w.sin() + xs.sum(0)}
    f = lambda t: {"x": a @ t["x"]}
    return (ad.custom_linear_solve(f, b, conjugate_gradients, symmetric=True)["x"] ** 3).sum()


def solved(w: Any, xs: Any) -> Any:
    """What `direct` and `iterated` compute, by an operator."""
    return (ad.linalg.solve(matrix(w, xs), w.exp() + xs[0]) ** 3).sum()


def solved_symmetric(w: Any, xs: Any) -> Any:
    a = xs.T @ xs + ad.diag(w * w) + ad.eye(2, dtype=ad.float64)
    return (ad.linalg.solve(a, w.sin() + xs.sum(0)) ** 3).sum()


def newton(f: Any, x: Any) -> Any:
    """A root, by a number of steps that depends on the values."""
    step = lambda x: x - exact(lambda v: ad.jvp(f, (x,), (v,))[1], f(x))
    return ad.while_loop(lambda x: f(x).abs().max() > 1e-12, step, x)


def root(w: Any, xs: Any) -> Any:
    """x with x³ + x = c(w, xs), one by one."""
    c = w.exp() + xs.sum(0) ** 2
    start = ad.ones(2, dtype=ad.float64)
    x = ad.custom_root(lambda x: x**3 + x - c, start, newton, exact)
    return (x * w).sum()


def cardano(w: Any, xs: Any) -> Any:
    """What `root` computes, by a formula."""
    c = (w.exp() + xs.sum(0) ** 2) / 2
    s = (c**2 + 1 / 27) ** 0.5
    x = (c + s) ** (1 / 3) - (s - c) ** (1 / 3)
    return (x * w).sum()


PAIRS = ((direct, solved), (iterated, solved_symmetric), (root, cardano))


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: t.replace(" ", "_"))
@pytest.mark.parametrize(("function", "formula"), PAIRS, ids=lambda f: f.__name__)
def test_solutions_have_the_derivatives_of_their_formula(
    function: Any, formula: Any, transform: str
) -> None:
    made = TRANSFORMS[transform]
    close(made(function)(W, XS), made(formula)(W, XS), 1e-7)
    graph = ad.trace(made(function), W, XS)
    ad.graph.verify(graph)
    close(graph(W, XS), made(formula)(W, XS), 1e-7)


@pytest.mark.parametrize(("function", "formula"), PAIRS, ids=lambda f: f.__name__)
def test_solutions_compile_and_are_recorded(function: Any, formula: Any) -> None:
    for order in (ad.grad, lambda f: ad.grad(lambda w, xs: ad.grad(f)(w, xs).sin().sum())):
        close(ad.compile(order(function))(W, XS), order(formula)(W, XS), 1e-7)
    w = W.clone().requires_grad_()
    (first,) = ad.autograd.grad(function(w, XS), w, create_graph=True)
    (second,) = ad.autograd.grad(first.sin().sum(), w)
    expected = ad.grad(lambda w: ad.grad(formula)(w, XS).sin().sum())(W)
    close(second, expected, 1e-7)


def test_no_derivative_goes_through_a_solver() -> None:
    def solve(f: Any, b: Any) -> Any:
        assert not b.requires_grad
        found = b / f(ad.ones_like(b))
        assert not found.requires_grad
        return found

    x = ad.tensor(3.0, requires_grad=True)
    y = ad.custom_linear_solve(lambda v: x * v, x * x, solve, solve)
    (found,) = ad.autograd.grad(y, x)
    assert (y.item(), found.item()) == (3.0, 1.0)


def test_a_solution_of_constants_is_a_constant_and_may_be_written_to() -> None:
    two = lambda: ad.custom_root(lambda x: x**2 - 4.0, 1.0, newton_scalar, lambda g, y: y / g(1.0))
    close(ad.compile(lambda x: x * two())(W), 2 * W, 1e-6)
    close(ad.vmap(lambda x: x * two())(W), 2 * W, 1e-6)
    close(ad.grad(lambda x: x * two())(W[0]), two(), 1e-6)

    def written(a: Any) -> Any:
        x = ad.custom_linear_solve(lambda x: a * x, a**3, lambda f, b: b / a, symmetric=True)
        x[0] = 0.0
        return x.sum()

    close(ad.grad(written)(W), 2 * W * ad.tensor([0.0, 1.0]))


def newton_scalar(f: Any, x: Any) -> Any:
    return ad.fori_loop(0, 8, lambda _, x: x - f(x) / ad.grad(f)(x), x)


def test_a_solver_may_be_a_loop_in_python() -> None:
    def bisect(f: Any, x: Any) -> Any:
        low, high = x, x + 100
        while float(high - low) > 1e-12:
            middle = (low + high) / 2
            low, high = (low, middle) if float(f(middle)) > 0 else (middle, high)
        return low

    start = ad.tensor(0.0, dtype=ad.float64)
    scalar = lambda g, y: y / g(ad.ones_like(y))
    f = lambda a: ad.custom_root(lambda x: x**2 - a, start, bisect, scalar)
    nine = ad.tensor(9.0, dtype=ad.float64)
    found = [f(nine), ad.grad(f)(nine), ad.grad(ad.grad(f))(nine), ad.jacfwd(f)(nine)]
    np.testing.assert_allclose(found, [3, 1 / 6, -1 / 108, 1 / 6], rtol=1e-9)


def test_solvers_may_return_more() -> None:
    solve = lambda f, b: (b / 2, {"steps": 1})
    f = lambda b: ad.custom_linear_solve(lambda x: 2 * x, b, solve, solve, has_aux=True)
    found, aux = f(ad.tensor(3.0))
    assert (found.item(), aux["steps"]) == (1.5, 1)
    assert ad.grad(f, has_aux=True)(3.0)[0].item() == 0.5
    find = lambda f, x: (x + 1, "found")
    g = lambda a: ad.custom_root(lambda x: x - 1 - a + a, 0.0, find, lambda g, y: y, has_aux=True)
    assert ad.grad(g, has_aux=True)(2.0) == (ad.tensor(0.0), "found")


def test_reverse_mode_needs_a_transposed_solver_and_forward_mode_does_not() -> None:
    f = lambda b: ad.custom_linear_solve(lambda x: 2 * x, b, lambda f, b: b / 2)
    assert ad.jvp(f, (ad.tensor(3.0),), (ad.tensor(1.0),))[1].item() == 0.5
    with pytest.raises(GradError, match="transpose_solve, or symmetric"):
        ad.grad(f)(3.0)


def test_complex_equations_are_transposed_without_conjugation() -> None:
    a = ad.tensor([[2.0 + 1j, 1.0], [0.5j, 3.0 - 1j]])
    b = ad.tensor([1.0 + 1j, 2.0])
    f = lambda a, b: ad.custom_linear_solve(lambda x: a @ x, b, exact_complex, exact_complex)
    for number in (0, 1):
        g = lambda s, number=number: lambda a, b: (s(a, b).abs() ** 2).sum()
        found = ad.grad(g(f), number)(a, b)
        np.testing.assert_allclose(found, ad.grad(g(ad.linalg.solve), number)(a, b), rtol=1e-5)


def exact_complex(f: Any, r: Any) -> Any:
    return ad.linalg.solve(ad.jacfwd(f, holomorphic=True)(r), r)


def test_equations_and_unknowns_are_as_many() -> None:
    a = ad.ones(3, 2)
    with pytest.raises(ShapeError, match="one equation for each unknown"):
        ad.custom_linear_solve(lambda x: a @ x, ad.ones(2), exact)
    with pytest.raises(ValueError, match="what a function returns: x should have"):
        ad.custom_root(lambda x: (x, x), ad.ones(2), newton, exact)


# --- functions as graphs of their own -----------------------------------------------------------


def test_shapes_are_found_without_computing() -> None:
    def f(x: Any, *, y: Any) -> Any:
        return {"a": x @ y, "b": (x > 0, 3.0, None)}

    found = ad.eval_shape(f, ad.ShapeDtype((2, 3)), y=ad.ShapeDtype((3,)))
    assert found == {
        "a": ad.ShapeDtype((2,)),
        "b": (ad.ShapeDtype((2, 3), ad.bool), ad.ShapeDtype(()), None),
    }
    with pytest.raises(ShapeError):
        ad.eval_shape(f, ad.ShapeDtype((2, 3)), y=ad.ShapeDtype((4,)))


def test_make_graph_is_a_trace_for_later() -> None:
    made = ad.make_graph(ad.grad(solved))
    close(made(W, XS)(W, XS), ad.grad(solved)(W, XS))
    graph, shape = ad.make_graph(ad.sin, return_shape=True)(W)
    assert shape == ad.ShapeDtype((2,), ad.float64)
    assert graph(W).tolist() == ad.sin(W).tolist()


LINEAR: dict[str, Callable[..., Any]] = {
    "product": lambda x: XS @ x,
    "sum of views": lambda x: {"a": x[0] * 3, "b": [x.flip(0)]},
    "ignores": lambda x: ad.zeros(2, dtype=ad.float64) * 1.0 + 0 * x,
}


@pytest.mark.parametrize("name", LINEAR)
def test_a_transpose_is_the_adjoint(name: str) -> None:
    f = LINEAR[name]
    y = ad.tree.map(lambda t: ad.rand_like(t), f(W))
    (x,) = ad.linear_transpose(f, ad.ShapeDtype((2,), ad.float64))(y)
    inner = sum((a * b).sum() for a, b in zip(ad.tree.leaves(f(W)), ad.tree.leaves(y), strict=True))
    close(inner, (x * W).sum())


def test_a_transpose_is_differentiable_in_what_it_closes_over() -> None:
    y = ad.ones(4, dtype=ad.float64)
    f = lambda xs: (ad.linear_transpose(lambda x: xs @ x, W)(y)[0] ** 2).sum()
    g = lambda xs: ((xs.T @ y) ** 2).sum()
    for made in (ad.grad, ad.hessian, lambda f: ad.vmap(f)):
        given = XS.expand(2, 4, 2) if made(f).__name__.startswith("vmap") else XS
        close(made(f)(given), made(g)(given))
    close(ad.compile(ad.grad(f))(XS), ad.grad(g)(XS))


def test_transposes_of_complex_maps_are_not_conjugated() -> None:
    a = ad.tensor([[1.0 + 2j, 3j], [0.5, 1.0]])
    (found,) = ad.linear_transpose(lambda x: a @ x, a[0])(ad.tensor([1.0 + 0j, 2.0]))
    np.testing.assert_allclose(found, a.T @ ad.tensor([1.0 + 0j, 2.0]))


def test_what_is_not_linear_has_no_transpose() -> None:
    with pytest.raises(GradError, match="not linear"):
        ad.linear_transpose(ad.sin, W)


def test_a_converted_closure_takes_what_it_closed_over() -> None:
    def f(a: Any) -> Any:
        converted, outside = ad.closure_convert(lambda x, p: a * x * p["k"] + W, W, {"k": 1.0})
        assert len(outside) == 1
        doubled = [2 * t for t in outside]
        return converted(W, {"k": ad.tensor(3.0)}, *doubled).sum()

    expected = (6 * W).sum().item()
    assert ad.grad(f)(ad.tensor(1.0, dtype=ad.float64)).item() == pytest.approx(expected)
    a = ad.tensor(1.0, dtype=ad.float64, requires_grad=True)
    (found,) = ad.autograd.grad(f(a), a)
    assert found.item() == pytest.approx(expected)
    assert ad.closure_convert(lambda x: x * W, W)[1] == []
    with pytest.raises((ArgumentError, ValueError), match="closure_convert"):
        ad.closure_convert(lambda x: x * W, W)[0]((W, W))

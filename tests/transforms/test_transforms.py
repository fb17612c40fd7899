"""grad, vjp, jvp, Jacobians and their friends: arguments, nesting, levels, errors."""

from __future__ import annotations

import collections
import dataclasses
import inspect
import io
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import (
    AdjointError,
    ArgumentError,
    DtypeError,
    GradError,
    NotDifferentiable,
    ShapeError,
)

Function = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("float64_by_default")


def close(tensor: Any, expected: Any) -> bool:
    assert not tensor.requires_grad
    return bool(np.allclose(tensor.numpy(), np.asarray(expected)))


def forward(f: Function) -> Function:
    """The derivative of a function of one number, in forward mode."""
    return lambda x: ad.jvp(f, (x,), (ad.ones_like(x),))[1]


def by_vjp(f: Function) -> Function:
    return lambda x: ad.vjp(f, x)[1](ad.ones_like(x))[0]


def linearized(f: Function) -> Function:
    return lambda x: ad.linearize(f, x)[1](ad.ones_like(x))


def by_vmap(f: Function) -> Function:
    """The derivative under a vmap that does nothing else."""
    return lambda x: ad.vmap(lambda s: ad.grad(f)(x * s))(ad.ones(1))[0]


DERIVATIVES = {
    "grad": ad.grad,
    "jvp": forward,
    "vjp": by_vjp,
    "linearize": linearized,
    "vmap": by_vmap,
}
two_modes = pytest.mark.parametrize("outer", DERIVATIVES.values(), ids=DERIVATIVES.keys())
inner_modes = pytest.mark.parametrize("inner", DERIVATIVES.values(), ids=DERIVATIVES.keys())


# Perturbations are not mixed up


@two_modes
@inner_modes
def test_siskind_and_pearlmutter(outer: Function, inner: Function) -> None:
    """d/dx (x · d/dy (x + y)) = 1, and 2 if the two perturbations are confused."""
    assert close(outer(lambda x: x * inner(lambda y: x + y)(ad.tensor(1.0)))(ad.tensor(1.0)), 1.0)


@two_modes
@inner_modes
def test_inner_function_closes_over_outer_variable(outer: Function, inner: Function) -> None:
    """d/dx (d/dy x²y³) is 12x³ at y = x, and 2x·3y² at a constant y."""
    f = outer(lambda x: inner(lambda y: x**2 * y**3)(x))
    assert close(f(ad.tensor(2.0)), 12 * 2.0**3)
    constant = outer(lambda x: inner(lambda y: x**2 * y**3)(ad.tensor(3.0)))
    assert close(constant(ad.tensor(2.0)), 2 * 2.0 * 27)


@two_modes
@inner_modes
def test_inner_function_that_ignores_its_variable(outer: Function, inner: Function) -> None:
    """d/dy x² = 0, so its derivative in x is 0 too."""
    assert close(outer(lambda x: inner(lambda y: x**2)(x) + x)(ad.tensor(3.0)), 1.0)


@pytest.mark.parametrize("third", DERIVATIVES.values(), ids=DERIVATIVES.keys())
@two_modes
@inner_modes
def test_three_levels_capture_each_other(outer: Function, inner: Function, third: Function) -> None:
    """∂x (x² ∂y (x y² ∂z (x y z³))) at 2: every level's variable is used in every other."""

    def f(x: Any) -> Any:
        def g(y: Any) -> Any:
            return x * y**2 * third(lambda z: x * y * z**3)(ad.tensor(2.0))

        return x**2 * inner(g)(ad.tensor(2.0))

    # ∂z = 3·4·x y;  g = 12 x² y³;  ∂y = 36·4 x²;  f = 144 x⁴;  ∂x = 576 x³
    assert close(outer(f)(ad.tensor(2.0)), 576 * 8.0)


@two_modes
def test_derivative_of_a_returned_derivative(outer: Function) -> None:
    """A closure that is called outside the function that made it (Manzyuk et al.)."""

    def f(x: Any) -> Any:
        def shift(g: Function) -> Function:
            return lambda y: g(x + y)

        return outer(shift(lambda z: z**3))(ad.tensor(2.0))

    assert close(outer(f)(ad.tensor(1.0)), 6 * 3.0)


def test_grad_of_grad_of_grad() -> None:
    f = ad.grad(ad.grad(ad.grad(lambda x: x**5)))
    assert close(f(2.0), 60 * 4.0)
    d = forward(forward(forward(lambda x: x**5)))
    assert close(d(ad.tensor(2.0)), 60 * 4.0)


# Values that leave their transform


@pytest.mark.parametrize("transform", [forward, by_vmap], ids=["jvp", "grad inside vmap"])
def test_leaked_tensor_raises_when_used(transform: Function) -> None:
    kept: list[Any] = []
    transform(lambda x: (kept.append(x * 2), x.sin())[1])(ad.tensor(1.0))
    with pytest.raises(GradError, match="after it ended"):
        _ = kept[0] + 1


def test_leaked_tensor_of_vmap_raises_when_used() -> None:
    kept: list[Any] = []
    ad.vmap(lambda x: (kept.append(x * 2), x)[1])(ad.ones(3))
    with pytest.raises(GradError, match="after it ended"):
        _ = kept[0] + 1


@pytest.mark.parametrize("transform", [ad.grad, by_vjp], ids=["grad", "vjp"])
def test_leaked_tensor_of_the_tape_raises_when_differentiated(transform: Function) -> None:
    """On the eager tape the value can be read, and its derivative is refused."""
    kept: list[Any] = []
    transform(lambda x: (kept.append(x * 2), x.sin())[1])(ad.tensor(1.0))
    assert (kept[0] + 1).item() == 3.0
    with pytest.raises(GradError, match="after it ended"):
        (kept[0] + 1).backward()
    w = ad.tensor(2.0, requires_grad=True)
    with pytest.raises(GradError, match="after it ended"):
        (kept[0] * w).backward()


def test_value_leaked_to_the_enclosing_function_keeps_its_derivative() -> None:
    def f(x: Any) -> Any:
        kept: list[Any] = []
        ad.grad(lambda y: (kept.append(y * 3), y**2)[1])(x)
        return kept[0] * x

    assert close(ad.grad(f)(2.0), 12.0)


def test_results_have_no_history() -> None:
    x = ad.tensor([1.0, 2.0])
    for result in (
        ad.grad(lambda x: (x**2).sum())(x),
        ad.vjp(ad.sin, x)[0],
        ad.vjp(ad.sin, x)[1](x)[0],
        ad.jacrev(ad.sin)(x),
        ad.jacrev(ad.grad(lambda x: (x**3).sum()))(x),
        ad.linearize(ad.sin, x)[1](x),
        ad.grad(lambda x: ad.vmap(lambda y: y**2)(x).sum())(x),
    ):
        assert not result.requires_grad


def test_results_keep_the_history_of_tensors_outside() -> None:
    w = ad.tensor(2.0, requires_grad=True)
    g = ad.grad(lambda x: w * x**3)(ad.tensor(2.0))
    g.backward()
    assert close(w.grad, 12.0)
    x = ad.tensor(3.0, requires_grad=True)
    (found,) = ad.autograd.grad(ad.grad(lambda x: x**3)(x), x)
    assert close(found, 18.0)
    for transform in (forward, by_vjp, linearized, by_vmap, lambda f: lambda x: ad.jacrev(f)(x)):
        (found,) = ad.autograd.grad(transform(lambda x: w * x**3)(ad.tensor(2.0)), w)
        assert close(found, 12.0)


def test_vjp_function_can_be_differentiated_and_reused() -> None:
    _, pull = ad.vjp(lambda x: x**3, ad.tensor(2.0))
    assert [pull(ad.tensor(c))[0].item() for c in (1.0, 2.0, 3.0)] == [12.0, 24.0, 36.0]
    assert close(ad.grad(lambda c: pull(c)[0] ** 2)(ad.tensor(1.0)), 288.0)
    assert close(forward(lambda c: pull(c)[0] ** 2)(ad.tensor(1.0)), 288.0)
    assert close(ad.vmap(lambda c: pull(c)[0])(ad.tensor([1.0, 2.0])), [12.0, 24.0])
    assert close(ad.vmap(ad.grad(lambda c: pull(c)[0] ** 2))(ad.tensor([1.0, 2.0])), [288.0, 576.0])


def test_derivative_of_a_vjp_in_its_point() -> None:
    def f(x: Any) -> Any:
        y, pull = ad.vjp(lambda x: x**3, x)
        return y + pull(x)[0]

    for transform in (ad.grad, forward, by_vmap):
        assert close(transform(f)(ad.tensor(2.0)), 3 * 4.0 + 9 * 4.0)


# Modes


def test_no_grad_inside_is_respected_at_every_level() -> None:
    def f(x: Any) -> Any:
        with ad.no_grad():
            c = x**2
        return x - c

    assert close(ad.grad(f)(3.0), 1.0)
    assert close(by_vmap(f)(ad.tensor(3.0)), 1.0)
    assert close(ad.grad(ad.grad(lambda x: f(x) * x))(3.0), 2.0)
    assert close(ad.vmap(ad.grad(ad.grad(lambda x: f(x) * x)))(ad.tensor([3.0])), [2.0])


def test_no_grad_outside_is_not() -> None:
    x = ad.tensor(3.0, requires_grad=True)
    with ad.no_grad():
        g = ad.grad(lambda x: x**2)(x)
        h = ad.grad(ad.grad(lambda x: x**3))(x)
        v = ad.vmap(ad.grad(lambda x: x**2))(x.reshape(1))
        assert not ad.is_grad_enabled()
    assert close(g, 6.0)
    assert close(h, 18.0)
    assert close(v, [6.0])


def test_mode_is_put_back_after_an_error() -> None:
    def wrong(x: Any) -> Any:
        raise ValueError("no")

    for transform in (ad.grad, forward, by_vjp, by_vmap, ad.jacrev, ad.jacfwd):
        with ad.no_grad():
            with pytest.raises(ValueError, match="no"):
                transform(wrong)(ad.tensor(1.0))
            assert not ad.is_grad_enabled()
    assert close(ad.grad(ad.sin)(0.0), 1.0)
    assert not ad.grad(ad.sin)(0.0).requires_grad


def test_stop_gradient_stops_every_level() -> None:
    f = lambda x: x * ad.stop_gradient(x)
    for transform in (ad.grad, forward, by_vjp, by_vmap):
        assert close(transform(f)(ad.tensor(3.0)), 3.0)
        for outer in (ad.grad, forward, by_vmap):
            assert close(outer(transform(f))(ad.tensor(3.0)), 0.0)
    tree = ad.stop_gradient({"a": ad.tensor(1.0, requires_grad=True), "b": 2})
    assert not tree["a"].requires_grad
    assert tree["b"] == 2


def test_inputs_are_untouched() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    ad.grad(lambda x: (x**2).sum())(x)
    ad.jvp(ad.sin, (x,), (x.detach(),))
    ad.hessian(lambda x: (x**2).sum())(x)
    assert x.grad is None
    assert x.is_leaf


def test_backward_inside_a_function_that_is_differentiated() -> None:
    def f(x: Any) -> Any:
        w = ad.tensor(2.0, requires_grad=True)
        (w**2 * 3).backward()
        return x * w.grad

    assert close(ad.grad(f)(5.0), 12.0)


# Arguments


def test_argnums() -> None:
    f = lambda x, y, z: x * y**2 + z
    assert close(ad.grad(f, argnums=1)(2.0, 3.0, 1.0), 12.0)
    assert close(ad.grad(f, argnums=-1)(2.0, 3.0, 1.0), 1.0)
    gx, gy = ad.grad(f, argnums=(0, 1))(2.0, 3.0, 1.0)
    assert close(gx, 9.0)
    assert close(gy, 12.0)
    (one,) = ad.grad(f, argnums=(1,))(2.0, 3.0, 1.0)
    assert close(one, 12.0)
    hessian = ad.hessian(f, argnums=(0, 1))(ad.tensor(2.0), ad.tensor(3.0), 1.0)
    assert [[h.item() for h in row] for row in hessian] == [[0.0, 6.0], [6.0, 4.0]]
    jacobian = ad.jacfwd(f, argnums=(1, 0))(ad.tensor(2.0), ad.tensor(3.0), 1.0)
    assert [j.item() for j in jacobian] == [12.0, 9.0]


@pytest.mark.parametrize("argnums", [3, -4, (0, 0), (1, -2)])
def test_wrong_argnums(argnums: Any) -> None:
    with pytest.raises(ArgumentError, match="argnums"):
        ad.grad(lambda x, y, z: x, argnums=argnums)(1.0, 2.0, 3.0)


def test_keyword_arguments() -> None:
    f = lambda x, *, scale, name="": x**2 * scale
    assert close(ad.grad(f)(3.0, scale=2.0, name="a"), 12.0)
    assert close(ad.jacrev(f)(ad.tensor([3.0]), scale=2.0), [[12.0]])
    assert close(ad.jacfwd(f)(ad.tensor([3.0]), scale=2.0), [[12.0]])
    assert close(ad.hessian(f)(ad.tensor(3.0), scale=2.0), 4.0)


def test_has_aux() -> None:
    f = lambda x: ((x**2).sum(), {"double": x * 2, "name": "n"})
    x = ad.tensor([1.0, 2.0])
    gradient, aux = ad.grad(f, has_aux=True)(x)
    assert close(gradient, [2.0, 4.0])
    assert close(aux["double"], [2.0, 4.0])
    assert aux["name"] == "n"
    (value, aux), gradient = ad.value_and_grad(f, has_aux=True)(x)
    assert close(value, 5.0)
    assert close(aux["double"], [2.0, 4.0])
    _, _, aux = ad.vjp(f, x, has_aux=True)
    assert close(aux["double"], [2.0, 4.0])
    _, tangent, aux = ad.jvp(f, (x,), (x,), has_aux=True)
    assert close(tangent, 10.0)
    assert close(aux["double"], [2.0, 4.0])
    for transform in (ad.jacrev, ad.jacfwd, ad.jacobian):
        jacobian, aux = transform(f, has_aux=True)(x)
        assert close(jacobian, [2.0, 4.0])
        assert close(aux["double"], [2.0, 4.0])
        assert aux["name"] == "n"


@two_modes
def test_aux_keeps_the_derivatives_of_the_levels_outside(outer: Function) -> None:
    inner = lambda x: ad.grad(lambda y: (y**2, y * x), has_aux=True)(x)[1]
    assert close(outer(inner)(ad.tensor(3.0)), 6.0)
    pushed = lambda x: ad.jvp(lambda y: (y**2, y * x), (x,), (x,), has_aux=True)[2]
    assert close(outer(pushed)(ad.tensor(3.0)), 6.0)


def test_has_aux_needs_a_pair() -> None:
    for transform in (ad.grad, ad.value_and_grad, ad.jacrev, ad.jacfwd):
        with pytest.raises(ArgumentError, match="aux"):
            transform(lambda x: x, has_aux=True)(ad.tensor(1.0))


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any


class Pair:
    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right


ad.register_pytree(Pair, lambda p: ((p.left, p.right), None), lambda _, children: Pair(*children))

TREES: dict[str, tuple[Any, Callable[[Any], tuple[Any, Any]]]] = {
    "tuple": ((3.0, 2.0), lambda t: t),
    "list": ([3.0, 2.0], tuple),
    "dict": ({"a": 3.0, "b": 2.0}, lambda t: (t["a"], t["b"])),
    "ordered dict": (collections.OrderedDict(z=3.0, a=2.0), lambda t: (t["z"], t["a"])),
    "named tuple": (Point(3.0, 2.0), lambda t: (t.x, t.y)),
    "dataclass": (Layer(3.0, 2.0), lambda t: (t.weight, t.bias)),
    "registered": (Pair(3.0, 2.0), lambda t: (t.left, t.right)),
    "nested": ({"a": [3.0, (2.0,)]}, lambda t: (t["a"][0], t["a"][1][0])),
}


@pytest.mark.parametrize(("tree", "parts"), TREES.values(), ids=TREES.keys())
def test_pytrees_in_and_out(tree: Any, parts: Function) -> None:
    def f(t: Any) -> Any:
        x, y = parts(t)
        return x**2 * y

    gradient = ad.grad(f)(tree)
    assert type(gradient) is type(tree)
    x, y = parts(gradient)
    assert close(x, 12.0)
    assert close(y, 9.0)
    jacobian = ad.jacfwd(f)(tree)
    assert close(parts(jacobian)[1], 9.0)
    _, tangent = ad.jvp(lambda t: {"out": f(t)}, (tree,), (tree,))
    assert close(tangent["out"], 3 * 18.0)
    _, pull = ad.vjp(lambda t: [f(t)], tree)
    (pulled,) = pull([ad.tensor(1.0)])
    assert close(parts(pulled)[0], 12.0)
    assert close(parts(ad.jacrev(lambda t: {"out": f(t)})(tree)["out"])[0], 12.0)


@pytest.mark.parametrize(
    "value",
    [3.0, 3, np.float64(3.0), np.float32(3.0), np.array(3.0), ad.tensor(3.0)],
    ids=lambda v: type(v).__name__,
)
def test_numbers_and_arrays_as_inputs(value: Any) -> None:
    for derivative in (ad.grad, ad.jacrev, ad.jacfwd):
        result = derivative(lambda x: x**2)(value)
        assert isinstance(result, ad.Tensor)
        assert np.allclose(result.numpy(), 6.0)
    assert np.allclose(ad.jvp(lambda x: x**2, (value,), (value,))[1].numpy(), 18.0)


def test_numpy_array_keeps_its_dtype() -> None:
    assert ad.grad(lambda x: (x**2).sum())(np.ones(3, np.float32)).dtype is ad.float32
    assert close(ad.grad(lambda x: (x**2).sum())(np.ones(3)), [2.0, 2.0, 2.0])


def test_other_arguments_may_be_anything() -> None:
    assert close(ad.grad(lambda x, how, n: x**n if how == "power" else x)(3.0, "power", 2), 6.0)


def test_unused_argument_gives_zeros() -> None:
    """Documented: the gradient in an argument that is ignored is zero, of its shape and dtype."""
    x, y = ad.ones(2, 3, dtype=ad.float32), ad.tensor([2.0])
    gx, gy = ad.grad(lambda x, y: (y**2).sum(), argnums=(0, 1))(x, y)
    assert gx.shape == (2, 3)
    assert gx.dtype is ad.float32
    assert close(gx, np.zeros((2, 3)))
    assert close(gy, [4.0])
    assert close(ad.vjp(lambda x, y: y, x, y)[1](y)[0], np.zeros((2, 3)))
    assert close(ad.jvp(lambda x: ad.tensor(1.0), (x,), (x,))[1], 0.0)
    assert close(ad.jacrev(lambda x: y)(ad.ones(2)), np.zeros((1, 2)))
    assert close(ad.jacfwd(lambda x: y)(ad.ones(2)), np.zeros((1, 2)))
    assert close(ad.hessian(lambda x: x.sum())(ad.ones(2)), np.zeros((2, 2)))
    assert close(ad.grad(lambda x: ad.tensor(1.0))(ad.ones(2)), np.zeros(2))


def test_decorators_keep_name_and_signature() -> None:
    def energy(x: float, *, scale: float = 1.0) -> float:
        """The energy."""
        return x**2 * scale

    for transform in (
        ad.grad,
        ad.value_and_grad,
        ad.jacrev,
        ad.jacfwd,
        ad.jacobian,
        ad.hessian,
        ad.vmap,
        ad.checkpoint,
    ):
        made = transform(energy)
        assert inspect.signature(made) == inspect.signature(energy)
        assert made.__doc__ == "The energy."
        assert "energy" in made.__name__
        assert made.__wrapped__ is energy


def test_operators_and_callable_objects_can_be_transformed() -> None:
    class Square:
        def __call__(self, x: Any) -> Any:
            return x**2

    assert close(ad.grad(Square())(3.0), 6.0)
    assert close(ad.grad(ad.exp)(0.0), 1.0)
    assert close(ad.vmap(ad.grad(ad.ops.sin))(ad.tensor([0.0])), [1.0])


# Jacobians


def test_jacobian_picks_the_cheaper_mode() -> None:
    runs: list[str] = []

    def f(x: Any) -> Any:
        runs.append("run")
        return x.sum().reshape(1) * ad.ones(5)

    assert ad.jacobian(f)(ad.ones(2)).shape == (5, 2)
    assert len(runs) == 2  # once for the shape, once for all columns
    runs.clear()
    assert ad.jacobian(lambda x: f(x)[:1])(ad.ones(2)).shape == (1, 2)
    assert len(runs) == 1


@pytest.mark.parametrize("transform", [ad.jacrev, ad.jacfwd, ad.jacobian])
@pytest.mark.parametrize("chunk_size", [None, 1, 2, 4, 100])
def test_chunks_give_the_same_jacobian(transform: Function, chunk_size: int | None) -> None:
    x = ad.tensor([0.1, 0.2, 0.3, 0.4, 0.5])
    f = lambda x: x.cumsum(0).sin()
    expected = np.tril(np.cos(np.cumsum(x.numpy()))[:, None] * np.ones((5, 5)))
    assert close(transform(f, chunk_size=chunk_size)(x), expected)
    hessian = ad.hessian(lambda x: (f(x) ** 2).sum(), chunk_size=chunk_size)(x)
    assert close(hessian, ad.hessian(lambda x: (f(x) ** 2).sum())(x).numpy())


def test_shapes_of_a_jacobian() -> None:
    f = lambda x, y: {"a": x.outer(y), "b": x.sum()}
    for transform in (ad.jacrev, ad.jacfwd):
        found = transform(f, argnums=(0, 1))(ad.ones(2), ad.ones(3))
        assert found["a"][0].shape == (2, 3, 2)
        assert found["a"][1].shape == (2, 3, 3)
        assert found["b"][0].shape == (2,)
        assert close(found["b"][1], np.zeros(3))


@pytest.mark.parametrize("transform", [ad.jacrev, ad.jacfwd, ad.jacobian])
def test_empty_jacobians(transform: Function) -> None:
    assert transform(lambda x: x.sin())(ad.ones(0)).shape == (0, 0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    f = lambda x: x.sin()
    for transform in (ad.jacrev, ad.jacfwd, ad.jacobian):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        plain = transform(f)(ad.ones(4))
        assert terminal.getvalue() == ""
        shown = transform(f, progress=True)(ad.ones(4))
        assert "4/4" in terminal.getvalue()
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        transform(f, progress=True)(ad.ones(4))
        assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]
        assert close(plain, shown.numpy())
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    ad.hessian(lambda x: f(x).sum(), progress=True)(ad.ones(3))
    assert "3/3" in terminal.getvalue()


def test_hvp_and_gvp() -> None:
    x, v = ad.tensor([1.0, 2.0]), ad.tensor([0.5, -1.0])
    f = lambda x: (x**3).sum() + x[0] * x[1]
    assert close(ad.hvp(f, (x,), (v,)), ad.hessian(f)(x).numpy() @ v.numpy())
    two = ad.hvp(lambda x, y: (x**2 * y).sum(), (x, x), (v, v))
    assert close(two[0], (2 * x * v + 2 * x * v).numpy())
    model = lambda x: ad.stack([x[0] * x[1], x[0].sin(), x[1] ** 2])
    loss = lambda y: (y**2).sum() + y[0] * y[1]
    jacobian = ad.jacfwd(model)(x).numpy()
    expected = jacobian.T @ ad.hessian(loss)(model(x)).numpy() @ jacobian @ v.numpy()
    assert close(ad.gvp(model, loss, (x,), (v,)), expected)


def test_linearize_runs_the_function_once() -> None:
    runs: list[int] = []

    def f(x: Any) -> Any:
        runs.append(1)
        return x.sin() * x

    x = ad.tensor([1.0, 2.0])
    _, push = ad.linearize(f, x)
    for direction in (ad.tensor([1.0, 0.0]), ad.tensor([0.0, 1.0]), x):
        assert close(push(direction), ad.jvp(lambda x: x.sin() * x, (x,), (direction,))[1].numpy())
    assert len(runs) == 1
    assert close(ad.vmap(push)(ad.eye(2)), np.diag(x.cos().numpy() * x.numpy() + x.sin().numpy()))
    assert close(ad.grad(lambda v: (push(v) ** 2).sum())(x), 2 * push(push(x)).numpy())


# Complex numbers


def test_gradient_of_a_real_function_of_complex_numbers() -> None:
    """∂f/∂Re z + i ∂f/∂Im z, PyTorch's convention."""
    z = ad.tensor([1 + 2j, 3 - 1j])
    assert close(ad.grad(lambda z: (z * z.conj()).real.sum())(z), 2 * z.numpy())


def test_holomorphic_derivatives() -> None:
    z = ad.tensor(0.3 + 0.4j)
    expected = np.cos(0.3 + 0.4j)
    assert close(ad.grad(ad.sin, holomorphic=True)(z), expected)
    assert close(ad.jvp(ad.sin, (z,), (ad.tensor(1.0 + 0j),))[1], expected)
    assert close(
        ad.grad(ad.grad(ad.sin, holomorphic=True), holomorphic=True)(z), -np.sin(0.3 + 0.4j)
    )
    zs = ad.tensor([0.3 + 0.4j, 1j])
    for transform in (ad.jacrev, ad.jacfwd, ad.jacobian):
        assert close(transform(lambda z: z**2, holomorphic=True)(zs), np.diag(2 * zs.numpy()))
        with pytest.raises(GradError, match="holomorphic"):
            transform(lambda z: z**2)(zs)
        with pytest.raises(GradError, match="mixes"):
            transform(lambda z: z.abs())(zs)
    with pytest.raises(GradError, match="complex"):
        ad.grad(ad.sin)(z)
    with pytest.raises(GradError, match="complex"):
        ad.grad(ad.sin, holomorphic=True)(0.5)


def test_complex_function_of_real_numbers() -> None:
    f = lambda x: (1j * x).exp()
    x = ad.tensor([0.3, 0.7])
    expected = np.diag(1j * np.exp(1j * x.numpy()))
    assert close(ad.jacfwd(f)(x), expected)
    assert close(ad.jacobian(f)(x), expected)
    with pytest.raises(GradError, match="jacfwd"):
        ad.jacrev(f)(x)


# What is refused


def test_grad_needs_a_scalar() -> None:
    with pytest.raises(
        GradError,
        match=r"f returned shape \(3,\), and grad needs a scalar. Use jacobian\(f\), or vjp",
    ):
        ad.grad(lambda x: x * 2)(ad.ones(3))
    with pytest.raises(GradError, match="2 tensors"):
        ad.grad(lambda x: (x, x))(1.0)
    with pytest.raises(GradError, match="value_and_grad"):
        ad.value_and_grad(lambda x: x * 2)(ad.ones(3))


def test_grad_of_integers_is_refused() -> None:
    with pytest.raises(DtypeError, match="int64, which has no derivative"):
        ad.grad(lambda x: x.sum())(ad.tensor([1, 2]))
    with pytest.raises(GradError, match="no derivative"):
        ad.grad(lambda x: (x > 0).sum())(ad.ones(2))
    with pytest.raises(DtypeError):
        ad.jvp(ad.sin, (ad.tensor([1, 2]),), (ad.tensor([1, 2]),))
    with pytest.raises(ArgumentError, match="argument must be a tensor"):
        ad.grad(lambda x: 1.0)("text")
    with pytest.raises(ArgumentError, match=r"\['b'\]"):
        ad.grad(lambda t: t["a"])({"a": 1.0, "b": "text"})


def test_output_must_be_tensors() -> None:
    for run in (
        lambda f: ad.grad(f)(1.0),
        lambda f: ad.vjp(f, ad.tensor(1.0)),
        lambda f: ad.jvp(f, (ad.tensor(1.0),), (ad.tensor(1.0),)),
        lambda f: ad.jacrev(f)(ad.tensor(1.0)),
    ):
        with pytest.raises(ArgumentError, match="must be a tensor, got str"):
            run(lambda x: "text")


def test_wrong_cotangents_and_tangents() -> None:
    x = ad.ones(3)
    _, pull = ad.vjp(ad.sin, x)
    with pytest.raises(ShapeError, match="cotangent has shape"):
        pull(ad.ones(2))
    with pytest.raises(AdjointError, match="cotangent"):
        pull((x, x))
    with pytest.raises(ShapeError, match="shape"):
        ad.jvp(ad.sin, (x,), (ad.ones(2),))
    with pytest.raises(ArgumentError, match="tuple"):
        ad.jvp(ad.sin, x, x)
    with pytest.raises(AdjointError, match="tangents"):
        ad.jvp(ad.sin, (x,), (x, x))


ROWS = """
- name: rough(Tensor self, Tensor n) -> Tensor
  like: pointwise_float
  kernel: xp.hypot
  self: grad * self / result
  n: non_differentiable

- name: unfinished(Tensor self) -> Tensor
  like: pointwise_float
  kernel: xp.sin
  self: not_implemented("nobody has yet")
"""


@pytest.fixture
def rough(tmp_path: Path) -> Any:
    """Operators that are not differentiable in an argument."""
    (tmp_path / "rough.yaml").write_text(ROWS)
    return ad.library(tmp_path / "rough.yaml")


@pytest.mark.parametrize("name", ["rough", "unfinished"])
def test_operator_without_derivative_raises_in_every_mode(rough: Any, name: str) -> None:
    n, x = ad.tensor([2.0, 3.0]), ad.tensor([0.5, 0.7])
    f = (lambda n: ad.rough(x, n).sum()) if name == "rough" else (lambda n: ad.unfinished(n).sum())
    leaf = n.clone().requires_grad_()
    with pytest.raises(NotDifferentiable):
        f(leaf).backward()
    dual = ad.autograd.forward_ad
    with dual.dual_level(), pytest.raises(NotDifferentiable):
        f(dual.make_dual(n, n))
    for run in (
        lambda: ad.grad(f)(n),
        lambda: ad.jvp(f, (n,), (n,)),
        lambda: ad.jacrev(f)(n),
        lambda: ad.jacfwd(f)(n),
        lambda: ad.linearize(f, n)[1](n),
        lambda: ad.hessian(f)(n),
        lambda: ad.vmap(ad.grad(f))(ad.stack([n, n])),
        lambda: ad.vmap(lambda n: ad.jvp(f, (n,), (n,)))(ad.stack([n, n])),
        lambda: ad.jvp(ad.grad(f), (n,), (n,)),
    ):
        with pytest.raises(NotDifferentiable):
            run()
    if name == "rough":
        assert close(ad.grad(lambda x: ad.rough(x, n).sum())(x), (x / ad.rough(x, n)).numpy())


LISTS = """
- name: rough_total(Tensor[] tensors) -> Tensor
  kernel: lists.total
  shape: lists.first
  tensors: non_differentiable

- name: rough_first(Tensor self, Tensor?[] others) -> Tensor
  kernel: lists.first
  shape: lists.first
  self: grad
  others: not_implemented("nobody has yet")

- name: flat_first(Tensor self, Tensor[] others) -> Tensor
  kernel: lists.first
  shape: lists.first
  self: grad
  others: zero
"""


def test_list_without_derivative_raises_in_every_mode(tmp_path: Path) -> None:
    (tmp_path / "lists.yaml").write_text(LISTS)
    kernels = SimpleNamespace(
        total=lambda tensors: sum(tensors),
        first=lambda first, *_: first[0] if isinstance(first, list) else first,
    )
    ad.library(tmp_path / "lists.yaml", kernels)
    x, one = ad.tensor([2.0, 3.0]), ad.ones(2)
    dual = ad.autograd.forward_ad
    for f in (
        lambda x: ad.rough_total([one, x]).sum(),
        lambda x: ad.rough_first(one, [x, None]).sum(),
    ):
        with pytest.raises(NotDifferentiable):
            f(x.clone().requires_grad_()).backward()
        with dual.dual_level(), pytest.raises(NotDifferentiable):
            f(dual.make_dual(x, x))
        for transform in (ad.grad, ad.jacrev, ad.jacfwd, ad.hessian):
            with pytest.raises(NotDifferentiable):
                transform(f)(x)
        with pytest.raises(NotDifferentiable):
            ad.compile(ad.grad(f))(x)
    assert ad.grad(lambda x: ad.rough_first(x, [None, one]).sum())(x).tolist() == [1.0, 1.0]
    assert ad.grad(lambda x: ad.flat_first(x, [x, x]).sum())(x).tolist() == [1.0, 1.0]
    assert ad.jvp(lambda x: ad.flat_first(x, [x, x]), (x,), (one,))[1].tolist() == [1.0, 1.0]


def test_writing_an_inner_value_to_an_outer_tensor_is_refused() -> None:
    outside = ad.zeros(2)
    x = ad.ones(2)

    def f(x: Any) -> Any:
        outside.copy_(x)
        return x.sum()

    for run in (
        lambda: ad.jvp(f, (x,), (x,)),
        lambda: ad.vmap(ad.grad(f))(ad.ones(1, 2)),
        lambda: ad.vmap(f)(ad.ones(1, 2)),
    ):
        with pytest.raises(GradError, match="outside"):
            run()


def test_value_changed_after_it_was_saved_is_noticed() -> None:
    def f(x: Any) -> Any:
        y = x.exp()
        z = y * 2
        y.add_(1)
        return z.sum() + y.sum()

    for run in (lambda: ad.grad(f)(ad.ones(2)), lambda: ad.vmap(ad.grad(f))(ad.ones(1, 2))):
        with pytest.raises(AdjointError, match="changed in place"):
            run()


# In place, inside


@pytest.mark.parametrize(
    "transform",
    [ad.grad, ad.jacrev, ad.jacfwd, lambda f: lambda x: ad.vmap(ad.grad(f))(x[None])[0]],
)
def test_in_place_code_inside(transform: Function) -> None:
    def f(x: Any) -> Any:
        y = ad.zeros(3)
        y[0] = x[0] * 2
        y[1:] = x[1:] ** 2
        y.mul_(x)
        y.unsqueeze_(0)
        y.t_()
        z = x.clone().fill_(2.0)
        z[1] *= x[0]
        return (y.squeeze() * z).sum()

    x = np.array([1.0, 2.0, 3.0])
    # f = 2·2x₀² + 2x₀·x₁³ + 2·x₂³
    expected = [8 * x[0] + 2 * x[1] ** 3, 6 * x[0] * x[1] ** 2, 6 * x[2] ** 2]
    assert close(transform(f)(ad.tensor(x)), expected)


# Named parameters


class Linear:
    def __init__(self, inputs: int, outputs: int, seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.weight = ad.tensor(generator.standard_normal((outputs, inputs)))
        self.bias = ad.tensor(generator.standard_normal(outputs))

    def __call__(self, x: Any) -> Any:
        return self.weight @ x + self.bias


class Network:
    def __init__(self) -> None:
        self.layers = [Linear(3, 4, 0), Linear(4, 2, 1)]

    def __call__(self, x: Any) -> Any:
        return self.layers[1](self.layers[0](x).tanh())

    def parameters(self) -> dict[str, Any]:
        return {
            f"layers.{i}.{n}": getattr(layer, n)
            for i, layer in enumerate(self.layers)
            for n in ("weight", "bias")
        }


def test_functional_call() -> None:
    network = Network()
    parameters = network.parameters()
    x = ad.tensor([1.0, -1.0, 0.5])
    zeros = {n: p.zeros_like() for n, p in parameters.items()}
    assert close(ad.func.functional_call(network, zeros, (x,)), [0.0, 0.0])
    assert network.layers[0].weight is parameters["layers.0.weight"]
    assert close(
        ad.func.functional_call(network, {"layers.1.bias": ad.ones(2)}, x) - network(x),
        1 - parameters["layers.1.bias"].numpy(),
    )
    with pytest.raises(ArgumentError, match="layers.2.weight|no parameter"):
        ad.func.functional_call(network, {"layers.2.weight": x}, (x,))
    with pytest.raises(ArgumentError, match="no parameter"):
        ad.func.functional_call(network, {"layers.0.wait": x}, (x,))
    with pytest.raises(AdjointError):
        ad.func.functional_call(network, {"layers.0.weight": ad.ones(7, 7)}, (x,))
    assert network.layers[0].weight is parameters["layers.0.weight"]


# Users' functions


class Cube(ad.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


class CubeByJvp(Cube):
    backward = ad.autograd.Function.backward  # not given

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * tangent


class OldCube(ad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


@pytest.mark.parametrize("function", [Cube, CubeByJvp])
def test_function_with_setup_context_under_every_transform(function: Any) -> None:
    f = function.apply
    x = ad.tensor([1.0, 2.0])
    for transform in (ad.grad, forward, by_vjp, linearized, by_vmap):
        assert close(transform(f)(ad.tensor(2.0)), 12.0)
        for outer in (ad.grad, forward, by_vmap):
            assert close(outer(transform(f))(ad.tensor(2.0)), 12.0)
    assert close(ad.vmap(f)(x), [1.0, 8.0])
    assert close(ad.vmap(ad.grad(f))(x), [3.0, 12.0])
    assert close(ad.grad(lambda x: ad.vmap(f)(x).sum())(x), [3.0, 12.0])
    assert close(ad.vmap(ad.hessian(f))(x), [6.0, 12.0])
    assert close(ad.vmap(lambda y: ad.vmap(lambda x: f(x * y))(x))(x), np.outer([1, 8], [1, 8]))
    assert close(ad.jacfwd(ad.jacrev(lambda x: f(x).sum()))(x), np.diag([6.0, 12.0]))


def test_function_without_setup_context_is_refused_inside_transforms() -> None:
    assert close(ad.grad(OldCube.apply)(2.0), 12.0)  # the eager tape runs it
    for transform in (forward, by_vmap):
        with pytest.raises(GradError, match="setup_context"):
            transform(OldCube.apply)(ad.tensor(2.0))
    with pytest.raises(GradError, match="setup_context"):
        ad.vmap(OldCube.apply)(ad.ones(2))


# Threads


def test_threads_have_transforms_of_their_own() -> None:
    barrier = threading.Barrier(4)
    results: dict[int, Any] = {}

    def work(number: int) -> None:
        def f(x: Any) -> Any:
            barrier.wait()  # all threads are inside now
            y = x**3 * number
            barrier.wait()
            return y

        transform = (ad.grad, forward, by_vmap, by_vjp)[number]
        results[number] = transform(f)(ad.tensor(2.0)).item()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert results == {n: 12.0 * n for n in range(4)}


# The eager tape and dual tensors, inside and around


def test_the_tape_is_refused_inside_levels() -> None:
    one = ad.tensor(1.0)
    for run in (
        lambda: ad.vmap(lambda x: x.requires_grad_())(ad.ones(2)),
        lambda: ad.vmap(lambda x: (x * 2).backward())(ad.ones(2)),
        lambda: ad.jvp(lambda x: ad.autograd.grad(x * 2, x)[0], (one,), (one,)),
        lambda: ad.vmap(ad.grad(lambda x: ad.autograd.grad(x**3, x)[0]))(ad.ones(2)),
    ):
        with pytest.raises(GradError, match="inside .*ad.grad"):
            run()
    assert close(ad.grad(lambda x: ad.autograd.grad(x**3, x, create_graph=True)[0])(2.0), 12.0)


def test_dual_tensors_pass_through_transforms() -> None:
    dual = ad.autograd.forward_ad
    f = lambda x: (x**3).sum()
    x, v = ad.tensor([1.0, 2.0]), ad.tensor([1.0, -1.0])
    with dual.dual_level():
        d = dual.make_dual(x, v)
        for result in (ad.grad(f)(d), ad.jacrev(f)(d), ad.vmap(ad.grad(lambda a: a**3))(d)):
            assert close(dual.unpack_dual(result).tangent, (6 * x * v).numpy())
        assert close(
            dual.unpack_dual(ad.jvp(f, (d,), (v,))[1]).tangent, (6 * x * v * v).sum().numpy()
        )
        assert close(dual.unpack_dual(ad.checkpoint(f)(d)).tangent, (3 * x**2 * v).sum().numpy())


def test_strict_jvp() -> None:
    one = ad.tensor(1.0)
    with pytest.raises(GradError, match="strict"):
        ad.jvp(lambda x: one, (one,), (one,), strict=True)


def test_functional_call_takes_several_dicts_and_keywords() -> None:
    layer = Linear(2, 1, 0)
    x = ad.ones(2)
    found = ad.func.functional_call(
        layer, ({"weight": ad.ones(1, 2)}, {"bias": ad.zeros(1)}), kwargs={"x": x}
    )
    assert close(found, [2.0])


def test_random_numbers_inside() -> None:
    """They are constants of the derivative, and may be written to."""

    def f(x: Any) -> Any:
        noise = ad.rand(3)
        noise.mul_(x)
        return noise.sum()

    ad.manual_seed(0)
    expected = ad.rand(3).numpy()
    for run in (
        lambda: ad.grad(f)(ad.ones(3)),
        lambda: ad.jacfwd(f, randomness="same")(ad.ones(3)),
        lambda: ad.vmap(ad.grad(f), randomness="same")(ad.ones(1, 3))[0],
    ):
        ad.manual_seed(0)
        assert close(run(), expected)

"""What transforms take and return: keyword arguments, axes, functions that are pickled."""

from __future__ import annotations

import functools
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError

pytestmark = pytest.mark.usefixtures("float64_by_default")


def loss(x: Any, w: Any, b: Any = 0.5) -> Any:
    return ((w * x + b) ** 2).sum()


X, W = ad.tensor([1.0, 2.0], dtype=ad.float64), ad.tensor([3.0, -1.0], dtype=ad.float64)
IN_W = 2 * (W * X + 0.5) * X
BOTH: dict[str, Callable[..., Any]] = {
    "grad": ad.grad,
    "value_and_grad": lambda f, a: lambda *p, **k: ad.value_and_grad(f, a)(*p, **k)[1],
    "jacrev": ad.jacrev,
    "jacfwd": ad.jacfwd,
    "jacobian": ad.jacobian,
}


@pytest.mark.parametrize("transform", BOTH.values(), ids=list(BOTH))
def test_arguments_are_chosen_by_position_or_name_and_given_either_way(transform: Any) -> None:
    for argnums in (1, "w"):
        made = transform(loss, argnums)
        for found in (made(X, W), made(X, w=W), made(x=X, w=W), made(X, W, b=0.5)):
            np.testing.assert_allclose(found, IN_W)
    in_w, in_b = transform(loss, ("w", 2))(X, W, b=0.5)
    np.testing.assert_allclose(in_w, IN_W)
    np.testing.assert_allclose(in_b, (2 * (W * X + 0.5)).sum())


def test_a_hessian_in_arguments_by_name() -> None:
    for argnums in (1, "w"):
        found = ad.hessian(loss, argnums)(X, w=W)
        np.testing.assert_allclose(found, ad.diag(2 * X * X))


@pytest.mark.parametrize("argnums", [3, "y", (0, "b"), -3])
def test_an_argument_that_was_not_given_is_named(argnums: Any) -> None:
    with pytest.raises(ArgumentError, match=r"called with 1 arguments and w"):
        ad.grad(loss, argnums)(X, w=W)


def test_an_argument_chosen_twice_is_refused() -> None:
    with pytest.raises(ArgumentError, match="twice"):
        ad.grad(loss, (1, "w"))(X, W)


def test_whole_numbers_have_zero_gradients_where_they_are_allowed() -> None:
    parameters = {"w": W, "steps": ad.tensor([3, 4]), "mask": ad.tensor([True, False])}
    f = lambda p: (p["w"] * p["steps"] * p["mask"]).sum()
    with pytest.raises(DtypeError, match=r"argument\['steps'\] is int64"):
        ad.grad(f)(parameters)
    for compute in (ad.grad(f, allow_int=True), ad.compile(ad.grad(f, allow_int=True))):
        found = compute(parameters)
        assert found["w"].tolist() == [3.0, 0.0]
        assert found["steps"].tolist() == [0, 0]
        assert found["steps"].dtype is ad.int64
        assert found["mask"].dtype is ad.bool


def test_aux_of_hessians_and_linear_maps_comes_beside() -> None:
    f = lambda x: ((x**3).sum(), {"n": x.sum()})
    hessian, aux = ad.hessian(f, has_aux=True)(X)
    np.testing.assert_allclose(hessian, ad.diag(6 * X))
    assert aux["n"].item() == 3.0
    value, push, aux = ad.linearize(f, X, has_aux=True)
    assert (value.item(), push(X).item(), aux["n"].item()) == (9.0, 27.0, 3.0)


def test_a_holomorphic_hessian_is_the_second_complex_derivative() -> None:
    z = ad.tensor(1.0 + 2.0j)
    found = ad.hessian(lambda z: z**3 + 1j * z**2, holomorphic=True)(z)
    np.testing.assert_allclose(found, 6 * (1 + 2j) + 2j)


# --- vmap ---------------------------------------------------------------------------------------

ROWS = ad.arange(6.0).reshape(2, 3)


def test_axes_are_dims_under_another_name() -> None:
    f = lambda p, x, *, y: (p["a"] * x.sum() + p["b"] * y, x)
    p = {"a": ad.tensor(2.0), "b": ad.tensor([1.0, 2.0, 3.0])}
    y = ad.ones(3)
    expected = [f({"a": p["a"], "b": p["b"][i]}, ROWS[:, i], y=y[i]) for i in range(3)]
    for axes in (({"a": None, "b": 0}, 1), ({"b": -1, "a": None}, -1), [{"a": None, "b": 0}, -1]):
        value, x = ad.vmap(f, in_axes=axes, out_axes=(0, -1))(p, ROWS, y=y)
        np.testing.assert_allclose(value, [e[0].item() for e in expected])
        np.testing.assert_allclose(x, ROWS)
        dims = ad.vmap(f, axes, (0, -1))(p, ROWS, y=y)
        np.testing.assert_allclose(dims[0], value)


def test_arguments_by_name_are_mapped_over_the_first_dimension_whatever_the_axes() -> None:
    found = ad.vmap(lambda x, y: x * y, in_axes=1)(ROWS, y=ad.tensor([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(found, (ROWS * ad.tensor([1.0, 2.0, 3.0])).T)


def test_the_size_of_the_axis_may_be_said() -> None:
    assert ad.vmap(lambda x: x, in_axes=None, axis_size=3)(ad.tensor(2.0)).tolist() == [2.0] * 3
    assert ad.vmap(lambda: ad.tensor(1.0), axis_size=2)().tolist() == [1.0, 1.0]
    with pytest.raises(ShapeError, match="axis_size has 4"):
        ad.vmap(lambda x: x, axis_size=4)(ROWS)
    with pytest.raises(ArgumentError, match="two names of one"):
        ad.vmap(lambda x: x, 1, in_axes=0)


# --- functions that transforms return -------------------------------------------------------------


@ad.compile
def compiled(x: Any) -> Any:
    return x.sin().sum()


@functools.partial(ad.custom_vjp, nondiff_argnums=(1,))
def clipped(x: Any, bound: float) -> Any:
    return x.sum()


def _clipped_forward(x: Any, bound: float) -> Any:
    return clipped(x, bound), None


def _clipped_backward(bound: float, residuals: Any, g: Any) -> Any:
    return (g.clamp(-bound, bound).expand(2),)


clipped.defvjp(_clipped_forward, _clipped_backward)


def sine(x: Any) -> Any:
    return x.sin()


def sine_rule(primals: Any, tangents: Any) -> Any:
    return sine(*primals), 10 * primals[0].cos() * tangents[0]


with_rule = ad.custom_jvp(sine)
with_rule.defjvp(sine_rule)

MADE: dict[str, Any] = {
    "grad": ad.grad(loss, argnums=1),
    "value_and_grad": ad.value_and_grad(loss, (0, 1)),
    "jacfwd": ad.jacfwd(loss, 1),
    "jacrev": ad.jacrev(loss, 1),
    "jacobian": ad.jacobian(loss, 1),
    "hessian": ad.hessian(loss, 1, chunk_size=1),
    "checkpoint": ad.checkpoint(loss),
    "compile": ad.compile(loss),
    "compile(grad)": ad.compile(ad.grad(loss, 1), static_argnames="b"),
    "grad_and_value": ad.func.grad_and_value(loss, 1),
    "partial": ad.grad(functools.partial(loss, b=2.0)),
    "custom_jvp": ad.grad(with_rule),
}


def _leaves(tree: Any) -> list[Any]:
    return [t.tolist() for t in ad.tree.leaves(tree)]


@pytest.mark.parametrize("name", MADE)
def test_a_pickled_function_computes_the_same(name: str) -> None:
    made = MADE[name]
    again = pickle.loads(pickle.dumps(made))
    args = (X[0],) if name == "custom_jvp" else (X, W)
    assert _leaves(again(*args)) == _leaves(made(*args))
    assert again.__name__ == made.__name__
    assert inspect.signature(again) == inspect.signature(made)


def test_transforms_of_transforms_are_pickled() -> None:
    made = ad.compile(ad.vmap(ad.grad(loss), in_axes=(0, None)))
    again = pickle.loads(pickle.dumps(made))
    assert _leaves(again(ROWS, W[0])) == _leaves(made(ROWS, W[0]))


def test_operators_are_pickled_by_name() -> None:
    for f in (ad.sin, ad.linalg.norm, ad.special.erf, ad.fft.fft, ad.nn.functional.softplus):
        assert pickle.loads(pickle.dumps(f)) is f
    assert (
        pickle.loads(pickle.dumps(ad.grad(ad.linalg.norm)))(X).tolist() == (X / X.norm()).tolist()
    )


def test_decorated_functions_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(compiled)) is compiled
    assert pickle.loads(pickle.dumps(clipped)) is clipped
    again = pickle.loads(pickle.dumps(with_rule))
    assert again is not with_rule
    assert ad.grad(again)(0.0).item() == 10.0


def test_another_process_computes_with_a_pickled_function() -> None:
    program = (
        "import pickle, sys, adjoint as ad\n"
        "made = pickle.load(sys.stdin.buffer)\n"
        "x, w = (ad.tensor(v, dtype=ad.float64) for v in ([1.0, 2.0], [3.0, -1.0]))\n"
        "print([f(x, w).tolist() for f in made])"
    )
    made = [ad.grad(loss, 1), ad.vmap(ad.grad(loss)), ad.compile(loss)]
    sent = pickle.dumps(made)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], input=sent, capture_output=True, check=True
    )
    assert eval(ran.stdout) == [f(X, W).tolist() for f in made]


def test_transformed_methods_are_bound() -> None:
    class Model:
        scale = 3.0

        def value(self, x: Any) -> Any:
            return (self.scale * x**2).sum()

        slope = ad.grad(value, argnums=1)

        @ad.compile
        def fast(self, x: Any) -> Any:
            return (self.scale * x).sum()

    assert Model().slope(X).tolist() == [6.0, 12.0]
    assert Model().fast(X).item() == 9.0


# --- custom rules ---------------------------------------------------------------------------------


@functools.partial(ad.custom_jvp, nondiff_argnums=(0, 2))
def apply_scaled(f: Any, x: Any, scale: float) -> Any:
    return scale * f(x)


@apply_scaled.defjvp
def apply_scaled_rule(f: Any, scale: float, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return apply_scaled(f, x, scale), 100 * scale * x * t  # wrong on purpose: it shows


def orders(f: Any) -> list[Any]:
    """A function of a scalar in both modes, to second order, mapped, traced and compiled."""
    x = ad.tensor(0.7, dtype=ad.float64)
    one = ad.ones_like(x)
    second = lambda x: ad.jvp(ad.grad(f), (x,), (one,))[1]
    return [
        ad.grad(f)(x),
        ad.jvp(f, (x,), (one,))[1],
        ad.vmap(ad.grad(f))(x.expand(1))[0],
        ad.grad(lambda v: ad.vmap(f)(v).sum())(x.expand(1))[0],
        ad.trace(ad.grad(f), x)(x),
        ad.grad(ad.trace(f, x))(x),
        ad.compile(ad.grad(f))(x),
        ad.grad(ad.grad(f))(x),
        second(x),
        ad.jacfwd(ad.jacfwd(f))(x),
        ad.compile(ad.grad(ad.grad(f)))(x),
    ]


def test_fixed_arguments_come_first_in_a_forward_rule() -> None:
    found = orders(lambda x: apply_scaled(ad.sin, x, 2.0))
    np.testing.assert_allclose(found, [140.0] * 7 + [200.0] * 4)


def test_fixed_arguments_come_first_in_a_reverse_rule() -> None:
    @functools.partial(ad.custom_vjp, nondiff_argnums=(0,))
    def f(g: Any, x: Any, y: Any = 3.0) -> Any:
        return g(x) * y

    f.defvjp(lambda g, x, y: (f(g, x, y), (x, y)), lambda g, kept, ct: (50 * kept[0] * ct, None))
    found = orders(lambda x: f(ad.sin, x))
    np.testing.assert_allclose(found, [35.0] * 7 + [50.0] * 4)


@pytest.mark.parametrize("mode", ["grad", "jvp", "tape"])
def test_a_fixed_argument_that_is_differentiated_is_refused(mode: str) -> None:
    @functools.partial(ad.custom_vjp, nondiff_argnums=(1,))
    def f(x: Any, a: Any) -> Any:
        return x * a

    f.defvjp(lambda x, a: (x * a, None), lambda a, _, g: (g * a,))
    x = ad.tensor(2.0)
    assert ad.grad(f)(x, ad.tensor(3.0)).item() == 3.0
    assert ad.vmap(ad.grad(f))(x.expand(2), ad.tensor([3.0, 4.0])).tolist() == [3.0, 4.0]
    differentiate = {
        "grad": lambda: ad.grad(f, 1)(x, ad.tensor(3.0)),
        "jvp": lambda: ad.jvp(lambda a: f(x, a), (x,), (x,)),
        "tape": lambda: f(x, ad.tensor(3.0, requires_grad=True)),
    }
    with pytest.raises(ad.errors.GradError, match="nondiff_argnums"):
        differentiate[mode]()


def test_fixed_arguments_may_be_named() -> None:
    @functools.partial(ad.custom_vjp, nondiff_argnames=("mode",))
    def f(x: Any, mode: str = "sin") -> Any:
        return getattr(ad, mode)(x)

    f.defvjp(lambda x, mode: (f(x, mode), x), lambda mode, x, g: (g * len(mode) * x,))
    assert ad.grad(f)(2.0, mode="tanh").item() == 8.0
    with pytest.raises(ArgumentError, match="no argument 'method'"):
        ad.custom_vjp(lambda x: x, nondiff_argnames="method")


def test_the_function_itself_runs_where_nothing_is_differentiated() -> None:
    ran: list[str] = []

    @ad.custom_vjp
    def f(x: Any) -> Any:
        ran.append("f")
        return x * 2

    def forward(x: Any) -> Any:
        ran.append("fwd")
        return x * 2, None

    f.defvjp(forward, lambda _, g: (g,))
    assert f(ad.tensor(2.0)).item() == 4.0
    assert f(2.0) == 4.0
    assert ran == ["f", "f"]
    ad.grad(f)(2.0)
    assert ran == ["f", "f", "fwd"]


def test_one_rule_for_each_argument() -> None:
    f = ad.custom_jvp(lambda x, y, z: x * ad.sin(y) + z)
    f.defjvps(
        lambda t, out, x, y, z: ad.sin(y) * t, lambda t, out, x, y, z: x * ad.cos(y) * t, None
    )
    found = orders(lambda x: f(x, x, x))  # as if z were a constant
    first = np.sin(0.7) + 0.7 * np.cos(0.7)
    second = 2 * np.cos(0.7) - 0.7 * np.sin(0.7)
    np.testing.assert_allclose(found, [first] * 7 + [second] * 4)
    f.defjvps(lambda t, out, *_: t)
    with pytest.raises(ArgumentError, match="1 rules for 3 arguments"):
        ad.grad(f)(1.0, 2.0, 3.0)
    with pytest.raises(ArgumentError, match="use defjvp"):
        apply_scaled.defjvps(None)


def test_a_function_may_return_its_own_gradient() -> None:
    @ad.custom_gradient
    def f(x: Any, y: Any = 2.0) -> Any:
        z = x.exp() * y
        return z, lambda g: (g * z * x, None)  # x·y·eˣ in place of y·eˣ

    e = 2 * np.exp(0.7)
    assert inspect.signature(f) == inspect.signature(f.__wrapped__)
    np.testing.assert_allclose(f(ad.tensor(0.7), y=2.0), e)
    np.testing.assert_allclose(orders(f), [0.7 * e] * 7 + [1.7 * e] * 4)


def test_a_forward_rule_may_call_the_function_itself() -> None:
    @ad.custom_jvp
    def f(x: Any) -> Any:
        return ad.sin(x) * x

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        y = f(x)
        return y, (ad.cos(x) * x + y / x) * t

    plain = orders(lambda x: ad.sin(x) * x)
    np.testing.assert_allclose(orders(f), plain)
    with ad.autograd.forward_ad.dual_level():
        dual = ad.autograd.forward_ad.make_dual(ad.tensor(0.7), ad.tensor(1.0))
        tangent = ad.autograd.forward_ad.unpack_dual(f(dual)).tangent
    np.testing.assert_allclose(tangent, plain[0])


CREATING: dict[str, Callable[[Any, Any], Any]] = {
    "compile": lambda f, a: ad.compile(lambda s: f(a) * s)(ad.ones(2))[0],
    "trace of vmap": lambda f, a: ad.trace(ad.vmap(lambda s: f(a) * s), ad.ones(2))(ad.ones(2))[1],
    "compile of jacfwd": lambda f, a: ad.compile(ad.jacfwd(lambda s: f(a) * s))(a),
    "compile of grad": lambda f, a: ad.compile(ad.grad(lambda s: f(a) * f(s)))(a) / 6,
    "vmap": lambda f, a: ad.vmap(lambda s: f(a) * s)(ad.ones(2))[0],
    "grad": lambda f, a: ad.grad(lambda s: f(a) * s)(a),
    "jvp": lambda f, a: ad.jvp(lambda s: f(a) * s, (a,), (ad.ones_like(a),))[1],
    "vmap of grad": lambda f, a: ad.vmap(ad.grad(lambda s: f(a) * s))(ad.ones(2))[1],
    "jacfwd": lambda f, a: ad.jacfwd(f)(a) / 2,
    "hessian": lambda f, a: ad.hessian(f)(a) * a / 2,
}


@pytest.mark.parametrize("name", CREATING)
def test_a_function_with_a_rule_may_make_tensors_inside_any_transform(name: str) -> None:
    value = lambda x: x.clone() + ad.zeros(())

    class Twice(ad.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return value(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2 * ctx.saved_tensors[0]

    f, h = ad.custom_vjp(value), ad.custom_jvp(value)
    f.defvjp(lambda x: (value(x), value(x)), lambda x, g: (g * 2 * x,))
    h.defjvps(lambda t, out, x: 2 * x * t)
    for made in (f, h, Twice.apply):
        assert CREATING[name](made, ad.tensor(3.0)).item() == 3.0

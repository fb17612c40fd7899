"""custom rules and checkpoint under every transform; `ad.autograd.functional`."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ArgumentError, GradError
from tests.transforms.test_transforms import by_vmap, close, forward, linearized

Function = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("float64_by_default")


def tape(f: Function) -> Function:
    def derivative(x: Any) -> Any:
        x = x.detach().requires_grad_()
        return ad.autograd.grad(f(x), x)[0]

    return derivative


# A rule that is not the derivative, so that it shows whether it was used: ∂f = 10·x³ for f = x³.


def with_vjp() -> Any:
    @ad.custom_vjp
    def f(x: Any) -> Any:
        return x**3

    f.defvjp(lambda x: (x**3, x), lambda x, g: (10 * x**3 * g,))
    return f


def with_residual() -> Any:
    @ad.custom_vjp
    def f(x: Any) -> Any:
        return x**3

    f.defvjp(lambda x: (x**3, (x * x, x, 10)), lambda r, g: (r[2] * r[0] * r[1] * g,))
    return f


def with_jvp() -> Any:
    @ad.custom_jvp
    def f(x: Any) -> Any:
        return x**3

    f.defjvp(lambda primals, tangents: (primals[0] ** 3, 10 * primals[0] ** 3 * tangents[0]))
    return f


def rule_with_vjp() -> Any:
    return ad.custom_rule(lambda x: x**3, vjp=lambda p, y, g: (10 * p[0] ** 3 * g,))


def rule_with_jvp() -> Any:
    return ad.custom_rule(lambda x: x**3, jvp=lambda p, y, t: 10 * p[0] ** 3 * t[0])


RULES = [with_vjp, with_residual, with_jvp, rule_with_vjp, rule_with_jvp]
rules = pytest.mark.parametrize("make", RULES, ids=lambda f: f.__name__)


@rules
def test_rule_is_used_under_every_transform(make: Function) -> None:
    f = make()
    x = ad.tensor([1.0, 2.0])
    assert close(f(x), [1.0, 8.0])
    for transform in (ad.grad, forward, by_vmap, linearized, tape):
        assert close(transform(f)(ad.tensor(2.0)), 80.0)
    for outer in (ad.grad, forward, by_vmap):
        for inner in (ad.grad, forward, by_vmap, linearized):
            assert close(
                outer(inner(f))(ad.tensor(2.0)), 120.0
            )  # 30·x², the rule differentiated as written
    assert close(ad.vmap(f)(x), [1.0, 8.0])
    assert close(ad.vmap(ad.grad(f))(x), [10.0, 80.0])
    assert close(ad.grad(lambda x: ad.vmap(f)(x).sum())(x), [10.0, 80.0])
    assert close(ad.vmap(ad.hessian(f))(x), [30.0, 120.0])
    assert close(ad.jacrev(f)(x), np.diag([10.0, 80.0]))
    assert close(ad.jacfwd(f)(x), np.diag([10.0, 80.0]))
    assert close(ad.vmap(lambda v: ad.jvp(f, (x,), (v,))[1])(ad.eye(2)), np.diag([10.0, 80.0]))
    assert close(ad.grad(ad.checkpoint(f))(2.0), 80.0)


@rules
def test_rule_in_eager_to_second_order(make: Function) -> None:
    f = make()
    x = ad.tensor(2.0, requires_grad=True)
    (g,) = ad.autograd.grad(f(x), x, create_graph=True)
    (h,) = ad.autograd.grad(g, x)
    assert close(h, 120.0)
    f(x).backward()
    assert close(x.grad, 80.0)
    with ad.autograd.forward_ad.dual_level():
        dual = ad.autograd.forward_ad.make_dual(ad.tensor(2.0), ad.tensor(1.0))
        assert close(ad.autograd.forward_ad.unpack_dual(f(dual)).tangent, 80.0)


def test_rule_with_pytrees_and_several_outputs() -> None:
    @ad.custom_vjp
    def f(p: Any, n: int) -> Any:
        return {"a": p["x"] * p["y"], "b": p["x"] ** n}

    def fwd(p: Any, n: int) -> Any:
        return f.function(p, n), (p, n)

    def bwd(residuals: Any, g: Any) -> Any:
        p, n = residuals
        return {"x": g["a"] * p["y"] + n * p["x"] ** (n - 1) * g["b"], "y": g["a"] * p["x"]}, None

    f.defvjp(fwd, bwd)
    p = {"x": ad.tensor(3.0), "y": ad.tensor(2.0)}
    found = ad.grad(lambda p: f(p, 2)["a"])(p)
    assert close(found["x"], 2.0)
    assert close(found["y"], 3.0)
    assert close(ad.grad(lambda p: f(p, 2)["b"])(p)["x"], 6.0)
    assert close(ad.jvp(lambda p: f(p, n=2), (p,), (p,))[1]["b"], 18.0)
    assert close(
        ad.vmap(ad.grad(lambda x: f({"x": x, "y": p["y"]}, 2)["b"]))(ad.tensor([1.0, 2.0])),
        [2.0, 4.0],
    )


def test_jvp_rule_of_several_arguments() -> None:
    @ad.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    f.defjvp(lambda p, t: (p[0] * p[1], 2 * (t[0] * p[1] + p[0] * t[1])))
    gx, gy = ad.grad(f, argnums=(0, 1))(3.0, 5.0)
    assert close(gx, 10.0)
    assert close(gy, 6.0)
    assert close(
        ad.jvp(lambda x: f(x, ad.tensor(5.0)), (ad.tensor(3.0),), (ad.tensor(1.0),))[1], 10.0
    )
    assert close(
        ad.vmap(ad.grad(f), in_dims=(0, None))(ad.tensor([1.0, 2.0]), ad.tensor(4.0)), [8.0, 8.0]
    )


def test_rule_may_use_the_output() -> None:
    """exp, whose derivative is itself, to third order."""
    runs: list[int] = []

    def run(x: Any) -> Any:
        runs.append(1)
        return x.exp()

    for f in (
        ad.custom_rule(run, vjp=lambda p, y, g: (y * g,)),
        ad.custom_rule(run, jvp=lambda p, y, t: y * t[0]),
    ):
        for first in (ad.grad, forward, by_vmap):
            runs.clear()
            assert close(first(f)(ad.tensor(0.5)), np.exp(0.5))
            assert len(runs) == 1
            for second in (ad.grad, forward, by_vmap):
                assert close(second(first(f))(ad.tensor(0.5)), np.exp(0.5))
                for third in (ad.grad, forward, by_vmap):
                    assert close(third(second(first(f)))(ad.tensor(0.5)), np.exp(0.5))


def test_custom_rule_as_decorator() -> None:
    @ad.custom_rule(vjp=lambda p, y, g: (2 * g,))
    def f(x: Any) -> Any:
        """Docs."""
        return x

    assert close(ad.grad(f)(1.0), 2.0)
    assert f.__doc__ == "Docs."


def test_mistakes_in_rules() -> None:
    with pytest.raises(ArgumentError, match="one of vjp= and jvp="):
        ad.custom_rule(lambda x: x)
    with pytest.raises(GradError, match="defvjp"):
        ad.custom_vjp(lambda x: x)(ad.tensor(1.0))
    with pytest.raises(GradError, match="defjvp"):
        ad.custom_jvp(lambda x: x)(ad.tensor(1.0))
    two = ad.custom_vjp(lambda x: x * 1)
    two.defvjp(lambda x: (x * 1, None), lambda r, g: (g, g))
    with pytest.raises(GradError, match="2 gradients for 1 arguments"):
        ad.grad(two)(1.0)
    single = ad.custom_vjp(lambda x: x * 1)
    single.defvjp(lambda x: x * 1, lambda r, g: (g,))
    with pytest.raises(ArgumentError, match="fwd must return"):
        ad.grad(single)(1.0)


@pytest.mark.parametrize("transform", [ad.grad, forward, by_vmap], ids=["grad", "jvp", "vmap"])
def test_rule_may_not_close_over_a_differentiated_tensor(transform: Function) -> None:
    """Its derivative would be lost without a word."""

    def f(w: Any) -> Any:
        g = ad.custom_rule(lambda x: x * w, vjp=lambda p, y, c: (c * w,))
        return g(ad.tensor(2.0))

    with pytest.raises(GradError, match="pass it as an argument"):
        transform(f)(ad.tensor(3.0))


# Checkpoints


def block(x: Any) -> Any:
    return (x.sin() * x).exp()


@pytest.mark.parametrize("nested", [False, True])
def test_checkpoint_changes_no_derivative(nested: bool) -> None:
    f = ad.checkpoint(lambda x: ad.checkpoint(block)(x) * x) if nested else ad.checkpoint(block)
    g = (lambda x: block(x) * x) if nested else block
    x = ad.tensor(0.7)
    for transform in (ad.grad, forward, by_vmap, linearized, tape):
        assert close(transform(f)(x), transform(g)(x).numpy())
        for outer in (ad.grad, forward, by_vmap):
            if transform is not tape:
                assert close(outer(transform(f))(x), outer(transform(g))(x).numpy())
    xs = ad.tensor([0.1, 0.2])
    assert close(ad.vmap(ad.hessian(f))(xs), ad.vmap(ad.hessian(g))(xs).numpy())
    assert close(
        ad.grad(lambda x: ad.vmap(f)(x).sum())(xs), ad.grad(lambda x: g(x).sum())(xs).numpy()
    )
    y = x.detach().requires_grad_()
    (first,) = ad.autograd.grad(f(y), y, create_graph=True)
    (second,) = ad.autograd.grad(first, y)
    assert close(second, ad.grad(ad.grad(g))(x).numpy())


def test_checkpoint_runs_again_for_each_pass() -> None:
    runs: list[int] = []

    def f(x: Any) -> Any:
        runs.append(1)
        return block(x)

    x = ad.tensor(0.5, requires_grad=True)
    y = ad.checkpoint(f)(x)
    assert len(runs) == 1
    y.backward()
    assert len(runs) == 2
    ad.checkpoint(f)(ad.tensor(0.5))
    assert len(runs) == 3


def test_checkpoint_keeps_no_intermediate_values() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        y = x.sin()
        kept.append(weakref.ref(y))
        return y.exp()

    x = ad.ones(3, requires_grad=True)
    y = ad.checkpoint(f)(x)
    gc.collect()
    assert kept[0]() is None
    y.sum().backward()
    assert close(x.grad, np.exp(np.sin(np.ones(3))) * np.cos(np.ones(3)))


def test_checkpoint_is_freed_without_the_garbage_collector() -> None:
    class Block:
        def __call__(self, x: Any) -> Any:
            return x.sin()

    f = Block()
    x = ad.ones(3, requires_grad=True)
    y = ad.checkpoint(f)(x)
    known = weakref.ref(f)
    gc.collect()
    gc.disable()
    try:
        del f
        assert known() is not None
        del y
        assert known() is None
    finally:
        gc.enable()


def test_checkpoint_of_a_function_that_closes_over_parameters() -> None:
    """As a model does: the gradients of what it closes over are right in every mode."""
    w = ad.tensor(2.0, requires_grad=True)
    x = ad.tensor(3.0, requires_grad=True)
    v = w * w  # not a leaf
    f = ad.checkpoint(lambda x: (x * v).sin() * w)
    gw, gx = ad.autograd.grad(f(x), (w, x), retain_graph=True)
    expected = ad.autograd.grad((x * v).sin() * w, (w, x), retain_graph=True)
    assert close(gw, expected[0].numpy())
    assert close(gx, expected[1].numpy())
    assert close(ad.autograd.grad(f(ad.tensor(3.0)), w)[0], expected[0].numpy())
    c = ad.tensor(1.5)
    for transform in (ad.grad, forward, by_vmap):
        for outer in (ad.grad, forward, by_vmap):
            inner = transform(lambda a: ad.checkpoint(lambda y: (a * y).sin() * a)(c))
            plain = transform(lambda a: (a * c).sin() * a)
            assert close(inner(ad.tensor(0.3)), plain(ad.tensor(0.3)).numpy())
            assert close(outer(inner)(ad.tensor(0.3)), outer(plain)(ad.tensor(0.3)).numpy())


def test_second_derivative_through_a_checkpoint_with_parameters() -> None:
    def second(f: Function) -> Any:
        w, x = ad.tensor(0.7, requires_grad=True), ad.tensor(0.4, requires_grad=True)
        (g,) = ad.autograd.grad(f(lambda x: (x * w).exp() * w)(x), x, create_graph=True)
        return ad.autograd.grad(g, (w, x))

    for got, expected in zip(second(ad.checkpoint), second(lambda f: f), strict=True):
        assert close(got, expected.numpy())


def test_checkpoint_repeats_random_numbers() -> None:
    def noisy(x: Any) -> Any:
        return x * ad.rand(4) * ad.rand(4)

    x = ad.ones(4, requires_grad=True)
    ad.manual_seed(0)
    y = ad.checkpoint(noisy)(x)
    after = ad.rand(2)
    y.sum().backward()
    assert close(x.grad, y.detach().numpy())
    ad.manual_seed(0)
    assert close(noisy(ad.ones(4)), y.detach().numpy())
    assert close(ad.rand(2), after.numpy())  # the stream goes on as without checkpoint
    value, gradient = ad.vmap(
        ad.value_and_grad(lambda x: ad.checkpoint(noisy)(x).sum()), randomness="different"
    )(ad.ones(3, 4))
    assert close(gradient.sum(1), value.numpy())
    value, tangent = ad.jvp(ad.checkpoint(noisy), (ad.ones(4),), (ad.ones(4),))
    assert close(tangent, value.numpy())


def test_checkpoint_with_pytrees_keywords_and_integers() -> None:
    def f(p: Any, index: Any, *, scale: float) -> Any:
        return {"y": p["w"][index] * scale, "n": index + 1}

    p = {"w": ad.tensor([1.0, 2.0, 3.0], requires_grad=True)}
    index = ad.tensor([0, 2])
    out = ad.checkpoint(f)(p, index, scale=2.0)
    assert out["n"].tolist() == [1, 3]
    out["y"].sum().backward()
    assert close(p["w"].grad, [2.0, 0.0, 2.0])
    found = ad.vmap(lambda i: ad.grad(lambda p: ad.checkpoint(f)(p, i, scale=2.0)["y"].sum())(p))(
        index
    )
    assert found["w"].shape == (2, 3)


def test_argument_changed_before_backward_is_noticed() -> None:
    x = ad.ones(2, requires_grad=True) * 1
    y = ad.checkpoint(block)(x)
    x.add_(1)
    with pytest.raises(ad.AdjointError, match="changed in place"):
        y.sum().backward()


def test_checkpoint_sequential() -> None:
    x = ad.tensor([0.3, 0.4], requires_grad=True)
    functions = [ad.sin, ad.exp, ad.cos, ad.tanh, block]
    ad.utils.checkpoint.checkpoint_sequential(functions, 2, x, use_reentrant=False).sum().backward()
    y = x.detach().requires_grad_()
    z = y
    for f in functions:
        z = f(z)
    z.sum().backward()
    assert close(x.grad, y.grad.numpy())  # type: ignore[union-attr]


# ad.autograd.functional


def model(x: Any, y: Any) -> Any:
    return x.sin() * y.sum(), (x * y[:2]).exp()


def test_functional_hessian_and_products() -> None:
    f = lambda x, y: (x**2 * y[:2]).sum() + (y**3).sum()
    x, y = ad.tensor([0.1, 0.2]), ad.tensor([0.3, 0.4, 0.5])
    v = (ad.tensor([1.0, -1.0]), ad.tensor([0.5, 0.0, 2.0]))
    functional = ad.autograd.functional
    expected = ad.hessian(f, argnums=(0, 1))(x, y)
    for vectorize in (False, True):
        found = functional.hessian(f, (x, y), vectorize=vectorize)
        for i in range(2):
            for j in range(2):
                assert close(found[i][j], expected[i][j].numpy())
    product = [sum(expected[i][j].numpy() @ v[j].numpy() for j in range(2)) for i in range(2)]
    for name in ("hvp", "vhp"):
        value, got = getattr(functional, name)(f, (x, y), v)
        assert close(value, f(x, y).numpy())
        assert close(got[0], product[0])
        assert close(got[1], product[1])
    value, got = functional.vjp(model, (x, y), (x, x))
    assert close(got[0], ad.vjp(model, x, y)[1]((x, x))[0].numpy())
    value, got = functional.jvp(model, (x, y), v)
    assert close(got[1], ad.jvp(model, (x, y), v)[1][1].numpy())


def test_is_grads_batched() -> None:
    x, w = ad.tensor([1.0, 2.0], requires_grad=True), ad.tensor(3.0, requires_grad=True)
    unused = ad.ones(2, requires_grad=True)
    y = x**2 * w
    gx, gw, gu = ad.autograd.grad(
        y, (x, w, unused), ad.eye(2), is_grads_batched=True, retain_graph=True, allow_unused=True
    )
    assert close(gx, np.diag([6.0, 12.0]))
    assert close(gw, [1.0, 4.0])
    assert gu is None
    (g,) = ad.autograd.grad(y, x, ad.eye(2), is_grads_batched=True, create_graph=True)
    (h,) = ad.autograd.grad(g.sum(), w)
    assert close(h, 6.0)
    with pytest.raises(GradError, match="is_grads_batched"):
        ad.autograd.grad(y.sum(), x, is_grads_batched=True)


def test_batched_gradcheck() -> None:
    x = ad.tensor([0.5, 0.7, 0.9], requires_grad=True)
    assert ad.autograd.gradcheck(
        lambda x: (x.sin() * x, x.sum()),
        x,
        check_batched_grad=True,
        check_forward_ad=True,
        check_batched_forward_grad=True,
    )
    assert ad.autograd.gradgradcheck(lambda x: x.sin() * x, x, check_batched_grad=True)

    class Broken(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return ad.tensor(grad.tolist())

    with pytest.raises(ad.autograd.GradcheckError, match="under vmap"):
        ad.autograd.gradcheck(Broken.apply, x, check_batched_grad=True)


def _of_itself() -> Any:
    """A rule in JAX's idiom: fwd calls the function that it belongs to."""

    @ad.custom_vjp
    def f(x: Any) -> Any:
        return ad.sin(x) * x

    def fwd(x: Any) -> Any:
        y = f(x)
        return y, (x, y)

    f.defvjp(fwd, lambda kept, g: (g * (ad.cos(kept[0]) * kept[0] + kept[1] / kept[0]),))
    return f


def test_fwd_may_call_the_function_itself() -> None:
    f, x = _of_itself(), ad.tensor([0.3, 0.4], dtype=ad.float64)
    plain = lambda x: ad.sin(x) * x
    for order in (
        lambda f: f, lambda f: ad.grad(lambda x: f(x).sum()),
        lambda f: ad.hessian(lambda x: f(x).sum()),
        lambda f: ad.jacfwd(f), lambda f: lambda x: ad.vmap(ad.grad(f))(x),
        lambda f: ad.compile(ad.grad(lambda x: f(x).sum())),
        lambda f: ad.jacfwd(ad.jacrev(lambda x: f(x).sum())),
    ):  # fmt: skip
        np.testing.assert_allclose(order(f)(x), order(plain)(x), 1e-12)

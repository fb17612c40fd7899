"""Every composition of two and three transforms equals finite differences or a loop.

A composition is checked from the inside out. If h is right, then so are: grad(h) and jvp(h), which
equal finite differences of h; vmap(h), which equals a loop over h; checkpoint(h), which equals h.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.functions import FUNCTIONS, point
from tests.oracle import programs

Function = Callable[[Any], Any]

DIRECTION = [0.5, -1.0, 0.25, 0.75, -0.5, 1.0]
SCALES = [1.0, 0.9]
STEP = 1e-5


def direction() -> ad.Tensor:
    return ad.tensor(DIRECTION, dtype=ad.float64)


def scales() -> ad.Tensor:
    return ad.tensor(SCALES, dtype=ad.float64)


def weighted(y: Any) -> Any:
    """A scalar that depends on all of y."""
    flat = y.reshape(-1)
    return (flat * (ad.arange(flat.shape[0], dtype=ad.float64) + 1).cos()).sum()


def gradient(f: Function) -> Function:
    return ad.grad(lambda x: weighted(f(x)))


def derivative(f: Function) -> Function:
    return lambda x: ad.jvp(f, (x,), (direction(),))[1]


def mapped(f: Function) -> Function:
    return lambda x: ad.vmap(lambda s: f(x * s))(scales())


TRANSFORMS: dict[str, Callable[[Function], Function]] = {
    "grad": gradient,
    "jvp": derivative,
    "vmap": mapped,
    "checkpoint": ad.checkpoint,
}


def array(tensor: ad.Tensor) -> np.ndarray[Any, Any]:
    assert not tensor.requires_grad
    return tensor.numpy()


def difference(f: Function) -> np.ndarray[Any, Any]:
    """The derivative of f in the direction, by central differences."""
    x, step = point(), STEP * direction()
    return (array(f(x + step)) - array(f(x - step))) / (2 * STEP)


def check(name: str, made: Function, inner: Function) -> None:
    got = array(made(point()))
    if name == "grad":
        got, expected = got @ np.array(DIRECTION), difference(lambda x: weighted(inner(x)))
    elif name == "jvp":
        expected = difference(inner)
    elif name == "vmap":
        expected = np.stack([array(inner(point() * s)) for s in SCALES])
    else:
        expected = array(inner(point()))
    scale = max(1.0, float(np.abs(expected).max()))
    assert got.shape == expected.shape
    assert np.allclose(got, expected, rtol=0, atol=3e-6 * scale)


def smooth_enough(f: Function) -> bool:
    return f.__name__ != "product_with_zero"  # x - x.detach() has no finite difference


COMPOSABLE = [f for f in FUNCTIONS if smooth_enough(f)]


@pytest.mark.parametrize("inner", TRANSFORMS)
@pytest.mark.parametrize("f", COMPOSABLE, ids=lambda f: f.__name__)
def test_two_transforms_compose(f: Function, inner: str) -> None:
    h = TRANSFORMS[inner](f)
    check(inner, h, f)
    for outer, transform in TRANSFORMS.items():
        check(outer, transform(h), h)


@pytest.mark.parametrize(("middle", "inner"), list(product(TRANSFORMS, TRANSFORMS)))
@pytest.mark.parametrize("f", COMPOSABLE, ids=lambda f: f.__name__)
def test_three_transforms_compose(f: Function, middle: str, inner: str) -> None:
    h = TRANSFORMS[middle](TRANSFORMS[inner](f))
    for outer, transform in TRANSFORMS.items():
        check(outer, transform(h), h)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_the_four_hessians_are_equal(f: Function) -> None:
    x = point()
    modes = [ad.jacrev, ad.jacfwd]
    found = [array(outer(inner(f))(x)) for outer in modes for inner in modes]
    for hessian in found[1:]:
        assert np.allclose(hessian, found[0], rtol=1e-9, atol=1e-9)
    assert np.allclose(found[0], found[0].T)
    product = ad.hvp(f, (x,), (direction(),))
    assert np.allclose(array(product), found[0] @ np.array(DIRECTION))
    assert np.allclose(array(ad.hessian(f)(x)), found[0])


@pytest.mark.parametrize("f", COMPOSABLE, ids=lambda f: f.__name__)
def test_hessian_equals_finite_differences(f: Function) -> None:
    hessian = array(ad.hessian(f)(point()))
    assert np.allclose(hessian @ np.array(DIRECTION), difference(ad.grad(f)), atol=1e-6)


# Random programs of views and writes: every level gives what the eager tape gives


def run_program(a: Any, b: Any, steps: list[programs.Step]) -> Any:
    """Run a program on a pool of arguments, of what depends on them, and of new memory."""
    pool = [a * 1.0, (b * 2.0).clone(), ad.zeros(3, 3, dtype=ad.float64), a.clone()]
    return ad.cat([t.reshape(-1) for t in programs.run(pool, steps)]).square().sum()


@pytest.mark.parametrize("block", range(8))
def test_programs_have_one_derivative_on_every_level(block: int) -> None:
    for seed in range(block * 10, (block + 1) * 10):
        generator = np.random.default_rng(seed)
        a, v = (ad.tensor(generator.uniform(-1, 1, (3, 3))) for _ in range(2))
        b = ad.tensor(generator.uniform(-1, 1, 3))
        steps = programs.possible(  # on the eager tape, and so on every level
            seed, lambda steps, a=a, b=b: ad.grad(lambda a: run_program(a, b, steps))(a)
        )

        def f(a: Any, b: Any = b, steps: list[programs.Step] = steps) -> Any:
            return run_program(a, b, steps)

        gradient = ad.grad(f)(a)
        slope = (gradient * v).sum().numpy()
        assert np.allclose(ad.jvp(f, (a,), (v,))[1].numpy(), slope)
        assert np.allclose(ad.vmap(ad.grad(f))(a[None])[0].numpy(), gradient.numpy())
        assert np.allclose(ad.grad(ad.checkpoint(f))(a).numpy(), gradient.numpy())
        second = ad.grad(lambda a, v=v, f=f: (ad.grad(f)(a) * v).sum())(a).numpy()
        assert np.allclose(ad.jvp(ad.grad(f), (a,), (v,))[1].numpy(), second)
        pushed = ad.grad(lambda a, v=v, f=f: ad.jvp(f, (a,), (v,))[1])(a)
        assert np.allclose(pushed.numpy(), second)

"""At a kink derivatives are those of the same function infinitely near it, in every mode.

What is infinitely small is kept apart from finite numbers: where a polynomial or exp of a length
takes 1 from 1, the part that is left has all its digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import InplaceError
from tests.operators.test_linalg import SECOND_ORDER

Function = Callable[[Any], Any]

ROOT3, ROOT5 = math.sqrt(3), math.sqrt(5)
POINT = np.array([0.5, -2.0])
I = np.eye(2)
softplus = ad.nn.functional.softplus


def distance(x: Any) -> Any:
    return (x - ad.tensor(POINT).to(x.dtype)).norm()


def distance_by_cdist(x: Any) -> Any:
    return ad.cdist(x[None], ad.tensor(POINT[None]).to(x.dtype))[0, 0]


def matern3(r: Any) -> Any:
    return (1 + ROOT3 * r) * ad.exp(-ROOT3 * r)


def matern5(r: Any) -> Any:
    return (1 + ROOT5 * r + 5 / 3 * r * r) * ad.exp(-ROOT5 * r)


# A function, a place, and its Hessian there.
CASES: dict[str, tuple[Function, Any, Any]] = {
    "matern 3/2": (lambda x: matern3(distance(x)), POINT, -3 * I),
    "matern 5/2": (lambda x: matern5(distance(x)), POINT, -5 / 3 * I),
    "matern 5/2 of cdist": (lambda x: matern5(distance_by_cdist(x)), POINT, -5 / 3 * I),
    "matern 3/2, short": (lambda x: matern3(distance(x) * 1e5), POINT, -3e10 * I),
    "rational": (lambda x: 1 / (1 + distance(x) ** 2), POINT, -2 * I),
    "cos": (lambda x: distance(x).cos(), POINT, -I),
    "log1p": (lambda x: distance(x).log1p() - distance(x), POINT, -I),
    "norm inside a polynomial": (lambda x: (x.norm() + 1) ** 2 - 2 * x.norm(), 0 * POINT, 2 * I),
    "norm of norms": (lambda x: ad.stack([x.norm(), x.norm()]).norm() ** 2, 0 * POINT, 4 * I),
    "abs": (lambda x: (x.abs() ** 2).sum(), 0 * POINT, 2 * I),
    "abs by abs": (lambda x: (x.abs() * x.abs()).sum(), 0 * POINT, 2 * I),
    "norm of abs": (lambda x: x.abs().norm() ** 2, 0 * POINT, 2 * I),
    "cosh of abs": (lambda x: x.abs().cosh().sum(), 0 * POINT, I),
    "without complex kernels": (
        lambda x: (2 * softplus(x.abs()) - x.abs()).sum(),
        0 * POINT,
        I / 2,
    ),
    "log cosh": (lambda x: (x.abs() + softplus(-2 * x.abs())).sum(), 0 * POINT, I),
    "complex abs": (lambda x: ad.complex(x[0], x[1]).abs() ** 2, 0 * POINT, 2 * I),
    "power of a spectrum": (lambda x: (ad.fft.fft(x).abs() ** 2).sum(), 0 * POINT, 4 * I),
    "hypot": (lambda x: (1 + ad.hypot(x[0], x[1])).log() - ad.hypot(x[0], x[1]), 0 * POINT, -I),
    "std": (lambda x: (1 + x.std()) ** 2 - 2 * x.std(), 0 * POINT + 1, 2 * I - 1),
}


def on_the_tape(f: Function, x: Any) -> Any:
    y = x.clone().requires_grad_()
    (first,) = ad.autograd.grad(f(y), [y], create_graph=True)
    return ad.stack([ad.autograd.grad(g, [y], retain_graph=True)[0] for g in first])


WAYS: dict[str, Callable[[Function, Any], Any]] = {
    **{name: lambda f, x, way=way: way(f)(x) for name, way in SECOND_ORDER.items()},
    "tape": on_the_tape,
    "compiled": lambda f, x: ad.compile(ad.hessian(f))(x),
    "traced": lambda f, x: ad.trace(ad.hessian(f), x)(x),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_at_a_kink_are_those_near_it(name: str, way: str, dtype: str) -> None:
    f, at, true = CASES[name]
    x = ad.tensor(at, dtype=getattr(ad, dtype))
    found = WAYS[way](f, x)
    assert found.dtype is x.dtype
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(found.numpy(), true, tolerance, tolerance * np.abs(true).max())


@pytest.mark.parametrize("way", WAYS)
def test_what_is_infinite_leaves_the_rest_as_it_is(way: str) -> None:
    """The Hessian of ‖x‖ is infinite at 0: as the subgradient it is 0 there, x₀x₂ has its own."""
    f = lambda x: x[:2].norm() + (x**3).sum() + x[0] * x[2]
    found = WAYS[way](f, ad.tensor([0.0, 0.0, 1.0], dtype=ad.float64))
    assert found.tolist() == [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 6.0]]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("way", WAYS)
def test_a_small_derivative_is_not_taken_for_an_infinitely_small_one(way: str, dtype: str) -> None:
    scale = 1e-100 if dtype == "float64" else 1e-34
    f = lambda x: scale * x.norm() ** 2 + (scale * x[0] * x[1]).sum()
    found = WAYS[way](f, ad.zeros(2, dtype=getattr(ad, dtype)))
    true = scale * np.array([[2, 1], [1, 2]])
    np.testing.assert_allclose(found.numpy(), true, 1e-6)


def test_a_zero_beside_a_number_costs_no_digits_of_the_slope_of_abs() -> None:
    x = ad.tensor([0.998046875, 0.0, 4e-81], dtype=ad.float64)
    slope = ad.grad(lambda x: (0.5 * x.abs()).sum())
    np.testing.assert_array_equal(slope(x).numpy(), [0.5, 0.0, 0.5])
    np.testing.assert_array_equal(ad.grad(lambda x: slope(x).sum())(x).numpy(), [0, 0, 0])


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_derivatives_of_a_length_keep_their_digits_where_one_element_is_large(mode: str) -> None:
    """√(x² + 1/16): 1/16 (x² + 1/16)^(-3/2), and the slope -3/16 x (x² + 1/16)^(-5/2) of that."""
    x = ad.tensor([3.0, 1e3, 3e9, -1e30], dtype=ad.float64)
    slope = lambda g: (
        ad.grad(lambda x: g(x).sum())
        if mode == "reverse"
        else lambda x: ad.jvp(g, (x,), (ad.ones_like(x),))[1]
    )
    length = lambda x: ad.linalg_vector_norm(ad.stack([x, 0 * x + 0.25]), 2, (0,))
    cosine = lambda x: ad.nn.functional.cosine_similarity(
        ad.stack([x, 0 * x + 0.25]), ad.tensor([[1.0], [0.0]], dtype=ad.float64), 0
    )
    size = np.hypot(x.numpy(), 0.25)
    bend, change = size**-3.0 / 16, -3 / 16 * x.numpy() * size**-5.0
    np.testing.assert_allclose(slope(slope(length))(x).numpy(), bend, rtol=2e-15)
    np.testing.assert_allclose(slope(slope(slope(length)))(x).numpy(), change, rtol=4e-15)
    for found in (slope(cosine), ad.compile(slope(cosine))):
        np.testing.assert_allclose(found(x).numpy(), bend, rtol=2e-15)


# ---- roots: x is approached from above 0, where their slope is infinite --------------------------

INFINITY = math.inf

# A function, and its first and second derivative at 0; NaN where a graph of numbers cannot know it.
ROOTS: dict[str, tuple[Function, float, float]] = {
    "sqrt": (lambda x: x.sqrt(), INFINITY, -INFINITY),
    "minus sqrt": (lambda x: -x.sqrt(), -INFINITY, INFINITY),
    "sqrt and x": (lambda x: x.sqrt() + x, INFINITY, -INFINITY),
    "exp of minus sqrt": (lambda x: (-x.sqrt()).exp(), -INFINITY, INFINITY),
    "sqrt of sqrt": (lambda x: x.sqrt().sqrt(), INFINITY, -INFINITY),
    "one over 1 and sqrt": (lambda x: 1 / (1 + x.sqrt()), -INFINITY, INFINITY),
    "x sqrt": (lambda x: x * x.sqrt(), 0.0, INFINITY),
    "x² sqrt": (lambda x: x * x * x.sqrt(), 0.0, 0.0),
    "0 sqrt": (lambda x: 0 * x.sqrt(), 0.0, 0.0),
    "square of sqrt": (lambda x: x.sqrt() ** 2, 1.0, math.nan),
    "sqrt times sqrt": (lambda x: x.sqrt() * x.sqrt(), 1.0, math.nan),
    "sqrt of a power of sqrt": (lambda x: (x.sqrt() ** 4).sqrt(), 1.0, math.nan),
    "square of sqrt of a square": (lambda x: (x * x).sqrt() ** 2, 0.0, 2.0),
    "cos of sqrt": (lambda x: x.sqrt().cos(), -0.5, math.nan),
    "a root beside 1": (lambda x: (1 + x.sqrt()) ** 2 - 2 * x.sqrt(), 1.0, math.nan),
    "infinite slopes that cancel": (lambda x: x.sqrt().exp() - x.sqrt(), 0.5, math.nan),
    "matern 3/2 of a square": (lambda x: matern3((x * x).sqrt()), 0.0, -3.0),
    "power 1/2": (lambda x: x**0.5, INFINITY, -INFINITY),
    "power 3/2": (lambda x: x**1.5, 0.0, INFINITY),
    "x power 1/2": (lambda x: x**0.5 * x, 0.0, INFINITY),
    "square of power 1/2": (lambda x: (x**0.5) ** 2, 1.0, math.nan),
    "powers 3/2 and 1/2": (lambda x: x**1.5 * x**0.5, 0.0, 2.0),
}

gradient = lambda f: ad.grad(lambda x: f(x).sum())
pushed = lambda f: lambda x: ad.jvp(f, (x,), (ad.ones_like(x),))[1]


def backward(f: Function, x: Any) -> Any:
    y = x.clone().requires_grad_()
    f(y).sum().backward()
    return y.grad


def backward_twice(f: Function, x: Any) -> Any:
    y = x.clone().requires_grad_()
    (first,) = ad.autograd.grad(f(y).sum(), [y], create_graph=True)
    return ad.autograd.grad(first.sum(), [y])[0]


def dual(f: Function, x: Any) -> Any:
    with ad.autograd.forward_ad.dual_level():
        y = f(ad.autograd.forward_ad.make_dual(x, ad.ones_like(x)))
        return ad.autograd.forward_ad.unpack_dual(y).tangent


FIRST: dict[str, Callable[[Function, Any], Any]] = {
    "tape": backward,
    "grad": lambda f, x: gradient(f)(x),
    "jvp": lambda f, x: pushed(f)(x),
    "dual": dual,
    "vmap of grad": lambda f, x: ad.vmap(ad.grad(f))(x),
    "grad of vmap": lambda f, x: gradient(ad.vmap(f))(x),
    "traced": lambda f, x: ad.trace(gradient(f), x)(x),
    "traced jvp": lambda f, x: ad.trace(pushed(f), x)(x),
    "compiled": lambda f, x: ad.compile(gradient(f))(x),
    "compiled jvp": lambda f, x: ad.compile(pushed(f))(x),
    "backward of compiled": lambda f, x: backward(ad.compile(f), x),
}
SECOND: dict[str, Callable[[Function, Any], Any]] = {
    "tape": backward_twice,
    "reverse over reverse": lambda f, x: gradient(gradient(f))(x),
    "forward over reverse": lambda f, x: pushed(gradient(f))(x),
    "reverse over forward": lambda f, x: gradient(pushed(f))(x),
    "forward over forward": lambda f, x: pushed(pushed(f))(x),
    "traced": lambda f, x: ad.trace(gradient(gradient(f)), x)(x),
    "compiled": lambda f, x: ad.compile(gradient(gradient(f)))(x),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("order", "way"), [(1, w) for w in FIRST] + [(2, w) for w in SECOND])
@pytest.mark.parametrize("name", ROOTS)
def test_derivatives_of_a_root_at_zero(name: str, order: int, way: str, dtype: str) -> None:
    """Zeros have their derivative; other elements have that of a call without zeros."""
    f, *at_zero = ROOTS[name]
    points = np.array([0.0, 4.0, 0.25, 0.0])
    regular = np.array([1.0, 4.0, 0.25, 1.0])
    found = (FIRST, SECOND)[order - 1][way](f, ad.tensor(points, dtype=getattr(ad, dtype)))
    assert found.dtype is getattr(ad, dtype)
    derivative = gradient(f) if order == 1 else gradient(gradient(f))
    true = derivative(ad.tensor(regular, dtype=ad.float64)).numpy()
    true = np.where(points == 0, at_zero[order - 1], true)
    tolerance = 1e-12 if dtype == "float64" else 2e-5
    np.testing.assert_allclose(found.numpy(), true, tolerance, tolerance)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("way", FIRST)
def test_zeros_in_a_large_array_have_their_derivative(way: str, dtype: str) -> None:
    values = np.random.default_rng(0).uniform(0.1, 4, 20000)
    values[::7], values[1] = 0, -1
    with np.errstate(invalid="ignore"):
        root = np.sqrt(values)
        true = np.cos(root) - np.sin(root) * root / 2
    x = ad.tensor(values, dtype=getattr(ad, dtype))
    found = FIRST[way](lambda x: x * x.sqrt().cos(), x)
    np.testing.assert_allclose(found.numpy(), true, 1e-12 if dtype == "float64" else 1e-5, 1e-5)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("way", WAYS)
def test_the_root_of_a_sum_of_squares_is_a_length(way: str, dtype: str) -> None:
    x = ad.zeros(3, dtype=getattr(ad, dtype))
    length = lambda x: (x * x).sum().sqrt()
    np.testing.assert_allclose(WAYS[way](lambda x: length(x) ** 2, x).numpy(), 2 * np.eye(3), 1e-6)
    found = WAYS[way](lambda x: matern3(length(x)), x)
    np.testing.assert_allclose(found.numpy(), -3 * np.eye(3), 1e-6)


@pytest.mark.parametrize("way", FIRST)
def test_no_number_below_zero_has_a_root(way: str) -> None:
    x = ad.tensor([0.0, -1.0, 4.0], dtype=ad.float64)
    np.testing.assert_array_equal(FIRST[way](lambda x: x.sqrt() ** 2, x).numpy(), [1, math.nan, 1])


@pytest.mark.parametrize("way", FIRST)
def test_a_power_that_underflows_is_no_root_of_zero(way: str) -> None:
    x = ad.tensor([1e-300, 4.0], dtype=ad.float64)
    np.testing.assert_allclose(FIRST[way](lambda x: x**1.5, x).numpy(), [1.5e-150, 3.0], 1e-12)


@pytest.mark.parametrize("exponent", [1.5, 2.5])
def test_a_power_may_be_a_complex_number_without_an_imaginary_part(exponent: float) -> None:
    x, direction = ad.tensor([0.7, 2.25], dtype=ad.float64), ad.ones(2).double()

    def slopes(p: complex) -> tuple[Any, ...]:
        gradient = ad.grad(lambda v: (v**p).real.sum())
        return ad.trace(gradient, x)(x), ad.jvp(gradient, (x,), (direction,))[1]

    for found, true in zip(slopes(complex(exponent)), slopes(exponent), strict=True):
        np.testing.assert_allclose(found, true, 1e-14)


def test_the_root_of_whole_zeros_is_constant() -> None:
    count = ad.tensor([0, 4])
    assert ad.grad(lambda x: (x * count.sqrt()).sum())(ad.ones(2)).tolist() == [0.0, 2.0]
    pushed_once = pushed(lambda x: x * count.sqrt())
    assert pushed_once(ad.ones(2)).tolist() == [0.0, 2.0]


@pytest.mark.parametrize("way", ["tape", "grad", "traced", "compiled"])
def test_a_write_in_place_goes_on_beside_a_root(way: str) -> None:
    def f(x: Any) -> Any:
        y = x.sqrt() * 1.0
        y[0] = 3.0
        return y * x

    x = ad.tensor([0.0, 0.0, 4.0], dtype=ad.float64)
    assert FIRST[way](f, x).tolist() == [3.0, 0.0, 3.0]


# A write to a part of v = (x + 2ix)² = x²(4i - 3), which triples the part.
PARTS: dict[str, Function] = {
    "real": lambda v: v.real.mul_(3),
    "imag": lambda v: v.imag.mul_(3),
    "as real": lambda v: ad.view_as_real(v)[..., 0].mul_(3),
    "whole": lambda v: v[:].mul_(3),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_write_to_a_part_of_complex_numbers_leaves_the_other_part(part: str) -> None:
    """In graphs of second derivatives, too, where any length may be 0."""

    def f(x: Any) -> Any:
        v = ad.complex(x, 2 * x) ** 2
        PARTS[part](v)
        return ad.hypot(v.real, v.imag).sum()

    times = {"imag": (1, 3), "whole": (3, 3)}.get(part, (3, 1))
    size = math.hypot(3 * times[0], 4 * times[1])  # of v / x²
    x = ad.tensor([2.0, 1.0], dtype=ad.float64)
    for gradient in (ad.grad(f), ad.trace(ad.grad(f), x), ad.compile(ad.grad(f))):
        np.testing.assert_allclose(gradient(x), 2 * size * x.numpy(), 1e-12)
    for hessian in (ad.hessian(f), ad.trace(ad.hessian(f), x), ad.jacfwd(ad.jacfwd(f))):
        np.testing.assert_allclose(hessian(x), 2 * size * np.eye(2), 1e-9, 1e-9)


@pytest.mark.parametrize("way", ["tape", "grad", "jvp", "traced", "compiled"])
def test_what_is_not_selected_sees_no_infinite_slope(way: str) -> None:
    x = ad.tensor([0.0, -1.0, 4.0], dtype=ad.float64)
    assert FIRST[way](lambda x: x.relu().sqrt(), x).tolist() == [0.0, 0.0, 0.25]
    assert FIRST[way](lambda x: ad.where(x > 0, x.sqrt(), 0 * x), x).tolist() == [0.0, 0.0, 0.25]


def test_small_derivatives_stay_beside_elements_at_a_kink_in_programs() -> None:
    """The third derivative of log(1 + x²) is about -12 x, however small x is."""
    third = ad.grad(lambda x: ad.grad(lambda y: ad.grad(log1p_of_size)(y).sum())(x).sum())
    x = ad.tensor([1e-190, 0.0, -1e-250], dtype=ad.float64)
    np.testing.assert_allclose(ad.compile(third)(x).numpy(), -12 * x.numpy(), rtol=1e-14)


def log1p_of_size(x: Any) -> Any:
    return ad.where(x.abs() > 1, 2 * x.abs().log(), x.square().log1p()).sum()


def test_a_traced_root_may_be_written_to() -> None:
    """By operators that order numbers, too: what is near a root is complex and has no order."""

    def loss(x: Any, y: Any) -> Any:
        root = (y.abs() + 0.5).sqrt()
        root.relu_()
        return (root * x * x).sum()

    def curvature(x: Any, y: Any) -> Any:
        return ad.jvp(lambda v: ad.grad(loss)(v, y), (x,), (ad.ones_like(x),))[1]

    x = ad.tensor([2.0, -1.0], dtype=ad.float64)
    y = ad.tensor([1.0, 3.0], dtype=ad.float64)
    true = 2 * np.sqrt([1.5, 3.5])
    np.testing.assert_allclose(curvature(x, y).numpy(), true)
    np.testing.assert_allclose(ad.trace(curvature, x, y)(x, y).numpy(), true)


# ---- several kinks at once: the ratio of what is infinitely small is that of their arguments -----

# Lengths of y = Ax times the factor that is named, each by operators of its own.
LENGTHS: dict[str, tuple[float, Function]] = {
    "norm": (3.0, lambda y: (3 * y).norm()),
    "norm of a view": (0.7, lambda y: ad.linalg_vector_norm((-0.7 * y).reshape(1, -1), 2, (1,))[0]),
    "root of squares": (2.5, lambda y: (2.5 * y).square().sum().sqrt()),
    "norm of norms": (2.0, lambda y: 2 * ad.stack([y[:1].norm(), y[1:].norm()]).norm()),
    "norm of both signs": (math.sqrt(2), lambda y: ad.cat([y, -y]).norm()),
    "std": (0.5, lambda y: ad.cat([y, -y]).std(correction=0) * math.sqrt(3) / 2),
    "norm of sizes": (1.5, lambda y: (1.5 * y).abs().norm()),
    "hypot": (4.0, lambda y: 4 * ad.hypot(y[0].abs(), y[1:].norm())),
}
# Exponents that add up to 2: the product of such powers is a multiple of ‖y‖².
EXPONENTS = ((1, 1), (3, -1), (0.5, 1.5), (1, 0.5, 0.5), (1, 1, 1, -1))
# What is done with the product, and its slope at 0.
AROUND: tuple[tuple[Function, float], ...] = (
    (lambda p: p, 1),
    (lambda p: (1 + p).log(), 1),
    (lambda p: 3 * p.sin(), 3),
    (lambda p: p.exp() * p.cos(), 1),
)


def products_of_lengths(seed: int) -> tuple[Function, int, Any]:
    """A function of several lengths that are 0 at 0, how many arguments it has, its Hessian."""
    rng = np.random.default_rng(seed)
    pick = lambda options: list(options)[rng.integers(len(options))]
    n = int(rng.integers(1, 4))
    matrix = rng.integers(-2, 3, (3, n)) + 0.25 * np.eye(3, n)
    exponents, (around, slope) = pick(EXPONENTS), pick(AROUND)
    lengths = [LENGTHS[pick(LENGTHS)] for _ in exponents]
    factor = math.prod(c**p for (c, _), p in zip(lengths, exponents, strict=True))

    def f(x: Any) -> Any:
        y = ad.tensor(matrix) @ x
        return around(math.prod(g(y) ** p for (_, g), p in zip(lengths, exponents, strict=True)))

    return f, n, 2 * slope * factor * matrix.T @ matrix


# forward mode alone does not see how fast Σx² changes, whose slope is 0
FAST = [w for w in WAYS if w not in ("compiled", "traced", "forward over forward")]


@pytest.mark.parametrize(
    ("way", "seed"), [(w, s) for w in FAST for s in range(40)] + [("traced", 0), ("compiled", 1)]
)
def test_several_lengths_that_are_zero_at_once(way: str, seed: int) -> None:
    f, n, true = products_of_lengths(seed)
    found = WAYS[way](f, ad.zeros(n, dtype=ad.float64)).numpy()
    np.testing.assert_allclose(found, true, 1e-9, 1e-9 * np.abs(true).max())


def after_a_write(x: Any) -> Any:
    y = x * 1
    y.mul_(3)
    return y.norm() * x.norm()


def distances(x: Any) -> Any:
    points = ad.tensor(np.stack([0 * POINT, POINT, 0 * POINT]))
    return (ad.cdist(x[None], points) * ad.cdist(2 * x[None], 2 * points)).sum()


def mapped(x: Any) -> Any:
    factors = ad.tensor([1.0, 2.0], dtype=ad.float64)
    return ad.vmap(lambda c: (c * x).norm() * (3 * c * x).norm())(factors).sum()


# A function of several lengths that are 0 at 0, and its Hessian there.
SCALES: dict[str, tuple[Function, Any]] = {
    "norms": (lambda x: x.norm() * (2 * x).norm(), 4 * I),
    "sizes": (lambda x: (x.abs() * (3 * x).abs()).sum(), 6 * I),
    "sizes in one call": (lambda x: ad.stack([x, 3 * x]).abs().prod(0).sum(), 6 * I),
    "norms in one call": (lambda x: ad.stack([x, 2 * x]).norm(dim=1, keepdim=True).prod(), 4 * I),
    "the same twice": (lambda x: (x - 1).norm() * 0 + (x - 0).norm() * (0 - x).norm(), 2 * I),
    "kernels": (
        lambda x: matern3((x / 0.5).norm()) * matern5((x / 2).norm()),
        -(12 + 5 / 12) * I,
    ),
    "complex": (lambda x: ad.complex(*x).abs() * (2 * ad.complex(*x)).abs(), 4 * I),
    "after a write": (after_a_write, 6 * I),
    "cdist": (distances, 12 * I),
    "vmap": (mapped, 30 * I),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SCALES)
def test_lengths_of_different_scales(name: str, way: str) -> None:
    f, true = SCALES[name]
    found = WAYS[way](f, ad.zeros(2, dtype=ad.float64)).numpy()
    np.testing.assert_allclose(found, true, 1e-9, 1e-9)


# Functions of several roots, and their derivatives at 0.
SEVERAL_ROOTS: dict[str, tuple[Function, float]] = {
    "of x and 2x": (lambda x: x.sqrt() * (2 * x).sqrt(), math.sqrt(2)),
    "of x and 1 - cos": (lambda x: x.sqrt() * (5 * x.sin()).sqrt(), math.sqrt(5)),
    "three": (lambda x: (2 * x).sqrt() * (3 * x).sqrt() ** 3 / (7 * x).sqrt() ** 2, 54**0.5 / 7),
    "powers": (lambda x: (4 * x) ** 1.5 / (9 * x) ** 0.5, 8 / 3),
    "in one call": (lambda x: ad.stack([x, 9 * x]).sqrt().prod(0), 3.0),
    "from both sides": (lambda x: x.sqrt() / (3 * x.exp() - 3).sqrt() * x, 1 / math.sqrt(3)),
    "of a root": (lambda x: (4 * x.sqrt()).sqrt() ** 3 * (16 * x) ** 0.5 / x.sqrt() ** 0.5, 32.0),
    "beside 1": (lambda x: (1 + x.sqrt()) * (1 - (3 * x).sqrt()) - x.sqrt() + (3 * x).sqrt(),
                 -math.sqrt(3)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("way", FIRST)
@pytest.mark.parametrize("name", SEVERAL_ROOTS)
def test_several_roots_that_are_zero_at_once(name: str, way: str, dtype: str) -> None:
    f, at_zero = SEVERAL_ROOTS[name]
    x = ad.tensor([0.0, 0.25, 0.0, 0.0], dtype=getattr(ad, dtype))
    found = FIRST[way](f, x).numpy()
    beside = gradient(f)(ad.tensor(0.25, dtype=ad.float64)).item()
    true = np.where(x.numpy() == 0, at_zero, beside)
    np.testing.assert_allclose(found, true, 1e-11 if dtype == "float64" else 1e-4)


def test_hooks_see_nothing_of_how_fast_an_argument_changes() -> None:
    """They see what a call without a kink shows them."""
    seen: dict[float, list[str]] = {}
    for at in (0.0, 1.0):
        x = ad.tensor([at, 2.0], dtype=ad.float64, requires_grad=True)
        names = seen.setdefault(at, [])
        x.register_hook(lambda grad, names=names: names.append("leaf"))
        y = x * 3
        y.register_hook(lambda grad, names=names: names.append("product"))
        y.sqrt().cos().sum().backward()
    assert seen[0.0] == seen[1.0] == ["product", "leaf"]


def test_a_kink_raises_nothing_that_a_backward_pass_would_raise() -> None:
    x = ad.tensor([0.0, 2.0], dtype=ad.float64, requires_grad=True)
    y = x * 1
    z = y * y
    with ad.no_grad():
        y += 1  # the product saved it
    root = z.sqrt()
    assert root.tolist() == [0.0, 2.0]
    with pytest.raises(InplaceError):
        root.sum().backward()

"""What is computed once: by the bands of a nest, and by functions beside one another."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.expressions.trees import Binary, Expression
from adjoint.graph.ir import Value
from adjoint.loops.loop_programs import Let, Load, Local
from tests.targets import target_with, use_target


def camera(pose: Any, point: Any) -> Any:
    """A pinhole with a turn about one axis, given by a vector, and one term of distortion."""
    size = (pose[0] * pose[0] + pose[1] * pose[1]).sqrt()
    c, s = pose[0] / size, pose[1] / size
    x, z = c * point[0] - s * point[2], s * point[0] + c * point[2]
    u, v = x / z, point[1] / z
    bend = 1 + pose[2] * (u * u + v * v)
    return ad.stack([bend * u, bend * v])


def triangle(a: Any, b: Any) -> Any:
    """Barycentric coordinates of a point: quotients by one area."""
    area = b[0] * a[3] - b[1] * a[2]
    first = (a[0] * a[3] - a[1] * a[2]) / area
    second = (b[0] * a[1] - b[1] * a[0]) / area
    return ad.stack([first, second, 1 - first - second])


PROGRAMS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "camera": (camera, 3, 3),
    "triangle": (triangle, 4, 2),
}  # the function, and how many numbers its arguments are


def arguments(name: str, dtype: Any = np.float64, rows: int = 200) -> list[Any]:
    """Random rows, and some with zeros, infinities, NaN and numbers at the ends of their range."""
    draw = np.random.default_rng(4)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1e300, -1e-300])
    _, *counts = PROGRAMS[name]
    with np.errstate(all="ignore"):
        found = [draw.normal(size=(rows, n)).astype(dtype) for n in counts]
        for array in found:
            places = draw.integers(0, array.shape[1], rows // 4)
            array[np.arange(rows // 4), places] = draw.choice(odd, rows // 4).astype(dtype)
    return [ad.tensor(a) for a in found]


def jacobian(name: str) -> Callable[..., Any]:
    return ad.vmap(ad.jacrev(PROGRAMS[name][0], (0, 1)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", PROGRAMS)
def test_arithmetic_of_shared_values_has_the_bits_of_eager(name: str, dtype: Any) -> None:
    given = arguments(name, dtype)
    for got, want in zip(ad.compile(jacobian(name))(*given), jacobian(name)(*given), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())
        there = ~np.isnan(want.numpy())
        signs = [np.signbit(x.numpy())[there] for x in (got, want)]
        np.testing.assert_array_equal(*signs)


def last_kernel(name: str) -> Any:
    """The loop program of a Jacobian; before it there may be one of a table of ones and zeros."""
    return list(ad.compile(jacobian(name)).lower(*arguments(name)).layout.programs.values())[-1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_block_of_rows_is_read_in_strides_once(name: str) -> None:
    kernel = last_kernel(name)
    loads = [s.place for s in kernel.statements() if isinstance(s, Load)]
    given = [p for p in loads if isinstance(p.value, Value)]
    strided = Counter(p for p in given if p.address.coefficient(0) > 1)
    assert set(strided.values()) == {1}
    assert any(isinstance(p.value, Local) for p in loads)


def _is_quotient(tree: Expression) -> bool:
    return isinstance(tree, Binary) and tree.sign == "/"


def test_a_quotient_of_the_row_is_computed_once() -> None:
    computed = [s for s in last_kernel("camera").statements() if isinstance(s, Let)]
    quotients = [s for s in computed if any(_is_quotient(part) for part in s.tree.walk())]
    forward, backward = 4, 6  # c, s, u, v; their gradients, and those of the root
    assert len(quotients) <= forward + backward


# --- functions beside their derivative ------------------------------------------------------------


def points(dtype: Any) -> Any:
    draw = np.random.default_rng(2)
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1e300, 27.29, 27.31, 10.19, 10.21]
    near, far, wide = draw.uniform(-1.1, 1.1, 2000), draw.uniform(-7, 7, 2000), 30.0
    with np.errstate(over="ignore"):
        return np.concatenate([odd, near, far, draw.uniform(-wide, wide, 500)]).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_erf_beside_its_derivative_is_as_good_as_alone(dtype: Any) -> None:
    """Two ulp, and every zero, infinity and NaN."""
    x = points(dtype)
    compiled = ad.compile(ad.vmap(ad.value_and_grad(ad.erf)))
    value, slope = (t.numpy() for t in compiled(ad.tensor(x)))
    assert "ad_erf_beside" in compiled.lower(ad.tensor(x)).source
    wide = [float(v) for v in x]
    want = np.array([math.erf(v) for v in wide])
    np.testing.assert_array_max_ulp(value, want.astype(dtype), 2)
    np.testing.assert_array_equal(np.signbit(value), np.signbit(want))
    bell = np.exp(-(x.astype(np.longdouble) ** 2)) * (2 / np.sqrt(np.longdouble(np.pi)))
    tiny = np.finfo(dtype).smallest_subnormal
    np.testing.assert_allclose(slope, bell.astype(dtype), rtol=4 * np.finfo(dtype).eps, atol=tiny)


def test_erf_alone_is_the_library_s() -> None:
    assert "ad_erf_beside" not in ad.compile(ad.erf).lower(ad.ones(9)).source


# --- vectors that overlap -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [7, 9, 14, 17, 31, 63])
def test_elements_of_two_vectors_enter_a_sum_once(size: int, dtype: Any) -> None:
    """A short loop that calls functions ends with a vector that begins in the one before."""

    def step(carry: Any, x: Any) -> Any:
        gate = (carry * x).sigmoid() * carry.log1p()
        return gate, ((x * gate).sum(), gate.max(), gate * 2)

    xs = ad.tensor(np.random.default_rng(size).uniform(0.5, 2, (3, size)).astype(dtype))
    run = lambda start, xs: ad.scan(step, start, xs)
    compiled = ad.compile(run)
    leaves = lambda found: [found[0], *found[1]]
    for got, want in zip(*(leaves(f(xs[0], xs)) for f in (compiled, run)), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=20 * np.finfo(dtype).eps)
    assert ("vector += " in compiled.lower(xs[0], xs).source) == (size > 8)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_reductions_of_open_sizes_take_every_element_once(dtype: Any) -> None:
    def run(x: Any) -> Any:
        y = x * 2
        sums = (y.sum(-1), y.mean(-1), (y > 3).any(-1), (y > -3).all(-1), (y / 4).prod(-1))
        return (*sums, y.amax(-1), y.amin(-1), y.log_softmax(-1))

    compiled = ad.compile(run, dynamic={0: (0, 1)})
    draw = np.random.default_rng(8)
    for size in (2, 7, 8, 15, 16, 17, 31, 33, 200, 1025, 2060):
        x = draw.uniform(0.5, 1.9, (3, size)).astype(dtype)
        x[1, draw.integers(size)] = -5
        x[2, draw.integers(size)] = np.nan
        for got, want in zip(compiled(ad.tensor(x)), run(ad.tensor(x)), strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2000 * np.finfo(dtype).eps)
    assert len({id(program.code) for program, _ in compiled.programs.values()}) == 1


# --- steps of scans -------------------------------------------------------------------------------


def recurrent(w: Any, start: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        gate = (x * h + w[0]).sigmoid()
        new = gate * (h @ w).tanh() + (1 - gate) * h
        return new, (new.exp() * x).sum()

    return ad.scan(step, start, xs)[1].sum()


def backward_operators(compiled: Any, *args: Any) -> list[str]:
    """The operators in a step of the last scan of a program."""
    nodes = compiled.lower(*args).lowered.nodes
    last = [n for n in nodes if n.op.name == "scan"][-1]
    return [n.op.name for n in last.graphs["body"].nodes]


def test_the_backward_of_a_scan_computes_no_function_or_product_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unless they take much memory; the bits are the same."""
    draw = np.random.default_rng(3)
    shapes = ((40, 40), (16, 40), (7, 16, 40))
    given = [ad.tensor(draw.normal(size=s) * 0.3) for s in shapes]
    gradient = ad.value_and_grad(recurrent, (0, 1, 2))
    keeps = ad.compile(gradient)
    names = backward_operators(keeps, *given)
    assert not {"sigmoid", "_expit_slope", "tanh", "exp"} & {*names}
    products = Counter(names)["matmul"]
    use_target(monkeypatch, target_with(cache={"kept_steps": 0}))
    again = ad.compile(gradient)
    names = backward_operators(again, *given)
    assert {"sigmoid", "_expit_slope", "tanh", "exp"} <= {*names}
    assert Counter(names)["matmul"] == products + 1
    results = [f(*given) for f in (keeps, again, gradient)]
    for a, b, want in zip(*([v, *g] for v, g in results), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        np.testing.assert_allclose(a.numpy(), want.numpy(), rtol=1e-11, atol=1e-13)


def test_a_scan_keeps_no_value_that_other_kept_values_stand_for() -> None:
    """The slope of exp(sin(h)) is exp(sin(h)) cos(h): nobody reads sin(h)."""

    def run(start: Any) -> Any:
        return ad.scan(lambda h, _: (h.sin().exp(), None), start, None, length=9)[0].sum()

    start = ad.tensor([0.1, 0.7, 1.3], dtype=ad.float64)
    compiled = ad.compile(ad.grad(run))
    forward = next(n for n in compiled.lower(start).lowered.nodes if n.op.name == "scan")
    kept = [v for v in forward.graphs["body"].outputs if getattr(v, "node", None) is not None]
    assert Counter(v.node.op.name for v in {*kept}) == {"exp": 1, "cos": 1}
    np.testing.assert_allclose(compiled(start).numpy(), ad.grad(run)(start).numpy(), rtol=1e-13)


def test_beside_sines_exponentials_are_the_library_s() -> None:
    """gcc makes no vectors of a loop with choices that calls sin() or cos()."""
    x = ad.linspace(-2.0, 2.0, 50, dtype=ad.float64)
    alone, beside = ad.compile(lambda x: x.tanh()), ad.compile(lambda x: x.sin().tanh())
    assert "return tanh(x)" not in alone.lower(x).source
    assert "return tanh(x)" in beside.lower(x).source
    np.testing.assert_allclose(beside(x).numpy(), np.tanh(np.sin(x.numpy())), rtol=1e-15)

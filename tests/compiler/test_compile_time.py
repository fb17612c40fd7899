"""Compiling takes time in proportion to the operators. Counted, not timed: calls of functions in
Python, and what the C compiler is given: lines, functions, the length of the longest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.arena import _Arena
from adjoint.compiler.program import Code
from adjoint.expressions.trees import Binary, Variable
from adjoint.graph.ir import Type, Value
from adjoint.loops.loop_programs import Let, Load, LoopProgram, Place, Store, ends_early
from adjoint.toolchain import build
from tests.counting import function_calls

ONES = ad.ones(4, 4, dtype=ad.float64)
Program = Callable[[int], tuple[Callable[..., Any], list[Any]]]


def chain(count: int) -> tuple[Callable[..., Any], list[Any]]:
    def f(x: Any) -> Any:
        for i in range(count // 2):
            x = (x * 1.01).sin() if i % 2 else (x + 0.5).tanh()
        return x.sum()

    return f, [ONES]


def products(count: int) -> tuple[Callable[..., Any], list[Any]]:
    def f(x: Any, w: Any) -> Any:
        for _ in range(count // 3):
            x = x @ w
        return x.sum()

    return f, [ONES, ONES]


def unrolled(count: int) -> tuple[Callable[..., Any], list[Any]]:
    """A recurrent net, step by step."""

    def f(xs: Any, w: Any) -> Any:
        h = ONES
        for t in range(count // 4):
            h = (xs[t] + h @ w).tanh()
        return h.square().sum()

    return f, [ONES.repeat(count // 4, 1, 1), ONES]


def wide(count: int) -> tuple[Callable[..., Any], list[Any]]:
    def f(*xs: Any) -> Any:
        return sum((x * (i + 1)).sin().sum() for i, x in enumerate(xs))

    return f, [ONES] * (count // 4)


def results(count: int) -> tuple[Callable[..., Any], list[Any]]:
    """Many values of one array, of which each is kept."""

    def f(x: Any) -> Any:
        return sum((x * i).exp().sum() for i in range(count // 3))

    return f, [ONES]


def elements(count: int) -> tuple[Callable[..., Any], list[Any]]:
    def f(x: Any) -> Any:
        return ad.stack([x[i] * x[i - 1] for i in range(1, count // 4)]).square().sum()

    return f, [ad.ones(count // 4, dtype=ad.float64)]


def norms(count: int) -> tuple[Callable[..., Any], list[Any]]:
    def f(x: Any) -> Any:
        for i in range(count // 5):
            x = x / (x.square().sum(i % 2, keepdim=True) + 1).sqrt()
        return x.sum()

    return f, [ONES]


PROGRAMS: list[Program] = [chain, products, wide, results, norms, unrolled, elements]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Callable[[Program, int], Code]:
    """The code of the gradient of a program with so many operators, as far as it is text."""
    monkeypatch.setattr(build, "load", lambda source, name: SimpleNamespace())

    def write(make: Program, count: int) -> Code:
        f, arguments = make(count)
        gradient = ad.value_and_grad(f, argnums=tuple(range(len(arguments))))
        return Code(ad.trace(gradient, *arguments))

    return write


@pytest.mark.parametrize("make", PROGRAMS)
def test_work_and_text_are_linear_in_the_operators(make: Program, written: Any) -> None:
    few, many = 60, 180
    written(make, few)  # what is remembered from program to program
    codes: list[Code] = []
    short, long = (function_calls(lambda n=n: codes.append(written(make, n))) for n in (few, many))
    growth = many / few * 1.2
    assert long < growth * short
    assert len(codes[1].stages.source) < growth * len(codes[0].stages.source)


_FUNCTION = re.compile(r"^(?=static void|void segment|static int fits)", re.MULTILINE)


def functions(code: Code) -> list[str]:
    return _FUNCTION.split(code.stages.source)[1:]


@pytest.mark.parametrize("make", PROGRAMS[:-2])  # of a cat of n pieces, n copies are one step
def test_functions_of_c_are_of_bounded_size(make: Program, written: Any) -> None:
    assert all(f.count("\n") <= 1000 for f in functions(written(make, 720)))


def test_the_steps_of_an_unrolled_loop_share_functions(written: Any) -> None:
    for make in (products, unrolled):
        few, many = (
            sum("nest" in f.split("(")[0] for f in functions(written(make, n))) for n in (450, 900)
        )
        assert many <= few + 4, make


def test_a_gradient_of_rows_takes_work_in_proportion_to_the_rows() -> None:
    flops = [ad.compile(ad.grad(f)).cost(*given).flops for f, given in map(elements, (160, 640))]
    assert flops[1] < 5 * flops[0]


def rows_and_more(x: Any) -> Any:
    total = x[2:7].sum() * x[:, 1].prod()
    for t in range(36):
        total = total + (x[t] * x[t, 0]).sin().sum() + x[t, t % 3]
    return total - x[9].square().sum() + x[-1].sum()


def parts_of_rows(x: Any) -> Any:
    return sum((x[3 * i : 3 * i + 3].sum(0) * x[3 * i + i % 2]).sum() for i in range(1, 36))


@pytest.mark.parametrize("function", [rows_and_more, parts_of_rows])
def test_a_gradient_of_rows_is_that_of_eager_mode(function: Callable[..., Any]) -> None:
    x = ad.tensor(np.random.default_rng(2).normal(size=(110, 3)))
    for transform in (ad.grad(function), ad.grad(lambda x: ad.grad(function)(x).square().sum())):
        got, want = ad.compile(transform)(x), transform(x)
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12, atol=1e-13)


def test_rows_side_by_side_have_the_zeros_of_their_sum() -> None:
    """-0.0 + 0.0 is 0.0, also where the zeros of the other rows are never made."""
    gradient = ad.grad(lambda x, w: sum((x[i] * w[i]).sum() for i in range(0, 80, 2)))
    x, w = ad.ones(80, 2), ad.tensor(np.where(np.arange(160) % 3, -0.0, -1.5).reshape(80, 2))
    got, want = ad.compile(gradient)(x, w).numpy(), gradient(x, w).numpy()
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def test_values_are_stored_as_soon_as_they_are_made() -> None:
    a, b, c = (Value(n, Type((3,), ad.float64)) for n in "abc")
    v1, v2, v3 = (Variable(f"v{k}", ad.float64) for k in (1, 2, 3))
    first, last = Let(v2, Binary("+", v1, v1)), Let(v3, Binary("*", v1, v2))
    load = Load(v1, Place(a, ad.loops.affine.variable(0)))
    ends = [Store(Place(v, ad.loops.affine.variable(0)), t) for v, t in ((c, v3), (b, v2))]
    assert ends_early([load, first, last, *ends]) == [load, first, ends[1], last, ends[0]]
    again = Store(Place(a, ad.loops.affine.variable(0)), v2)  # over what is still read
    assert ends_early([load, first, last, again]) == [load, first, last, again]


def test_kernels_of_different_rows_of_a_value_are_alike() -> None:
    x = Value("x", Type((5, 3), ad.float64))
    kernels = []
    for row in (1, 4):
        place = Place(x, ad.loops.affine.Affine(3 * row, ((0, 1),)))
        kernels.append(LoopProgram("k", 3, [Load(Variable("v1", ad.float64), place)]))
    assert [k.pointers for k in kernels] == [{x: 3}, {x: 12}]


def test_an_arena_uses_the_first_gap_again() -> None:
    arena = _Arena(64)
    first, second, third = (arena.take(64, 0, last) for last in (1, 3, 1))
    assert [first, second, third] == [0, 64, 128]
    assert arena.take(128, 2, 2) == 128  # the gap at 0 is too short, that at the end grows
    assert arena.take(64, 2, 5) == 0
    assert arena.take(320, 4, 4) == 64  # three gaps are one
    assert arena.size == 384

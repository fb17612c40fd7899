"""Host programs are complete: an interpreter of their data computes what the printed C computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import host
from adjoint.compiler.program import Program
from adjoint.nn import functional
from tests.compiler.host_interpreter import Interpreter

pytestmark = pytest.mark.usefixtures("threads_restored")


def make(*shape: int, seed: int = 0, low: float = 0.5, high: float = 1.5) -> ad.Tensor:
    return ad.tensor(np.random.default_rng(seed).uniform(low, high, shape), dtype=ad.float64)


def scanned(x: ad.Tensor, w: ad.Tensor) -> ad.Tensor:
    times = ad.arange(7.0, dtype=ad.float64)
    carry, ys = ad.scan(lambda c, t: ((c * w).sin() + t, c.sum()), x, times)
    return carry.sum() + (ys * ys).sum()


def turns(x: ad.Tensor) -> ad.Tensor:
    def step(carry: Any) -> Any:
        return carry[0].sin() * 1.2 + 0.1, carry[1] + 1

    return ad.while_loop(lambda c: c[1] < 11, step, (x, ad.tensor(0)))[0].square().sum()


def branched(x: ad.Tensor) -> ad.Tensor:
    return ad.cond(x.sum() > 3, lambda a: a.sin(), lambda a: a * 2 + 1, x)


def in_a_loop(x: ad.Tensor) -> ad.Tensor:
    def step(c: ad.Tensor, t: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        return ad.cond(c.sum() > 5, lambda a: a.sin(), lambda a: a + t, c), c.sum()

    return ad.scan(step, x, ad.arange(9.0, dtype=ad.float64))[0].sum()


def factored(a: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
    L = ad.linalg.cholesky(a @ a.mT + 20 * ad.eye(20, dtype=ad.float64))
    right = ad.linalg.solve_triangular(L.mT, b.mT, upper=True, left=False)
    return ad.linalg.solve_triangular(L, b, upper=False).sum() + right.square().sum()


def pooled(x: ad.Tensor, w: ad.Tensor, v: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
    hidden = functional.conv2d(x, w, b, stride=2, padding=1, groups=2).tanh()
    return functional.max_pool2d(
        functional.conv_transpose2d(hidden, v, stride=2, groups=2), 4, padding=1
    ).sum()


def attended(q: ad.Tensor, k: ad.Tensor, v: ad.Tensor) -> ad.Tensor:
    mask = ad.tensor(np.random.default_rng(3).random((70, 130)) > 0.4)
    return functional.scaled_dot_product_attention(q, k, v, mask).square().sum()


def swept(w: ad.Tensor, x: ad.Tensor) -> ad.Tensor:
    return (x @ w).softmax(1).log().sum(1).mean()


Case = tuple[Callable[..., Any], tuple[ad.Tensor, ...], dict[str, Any], tuple[type, ...]]
CASES: dict[str, Case] = {
    "loops": (
        lambda x, y: ((x * y).sin(), x.softmax(1), y.amax(), y.mean(0), (x * x).prod(1)),
        (make(30, 40), make(30, 40, seed=1)), {}, (host.Launch,),
    ),
    "products": (
        lambda a, b, c: (a @ b, c + a[0, 0, 0, 0] @ b[0, 0, 0, 0]),
        (make(2, 3, 2, 2, 40, 30), make(2, 1, 2, 2, 30, 20, seed=1), make(40, 20, seed=2)), {},
        (host.CallRoutine,),
    ),
    "gradient": (
        ad.value_and_grad(lambda w, v, x: ((x @ w).tanh() @ v).square().mean(), argnums=(0, 1)),
        (make(40, 64), make(64, 10, seed=1), make(128, 40, seed=2)), {}, (host.CallRoutine,),
    ),
    "sweep": (
        ad.value_and_grad(swept), (make(30, 20), make(20000, 30, seed=1)), {}, (host.Blocks,),
    ),
    "copies": (
        lambda x, y: (
            x.scatter_add(0, ad.tensor(np.arange(40) % 7), y),
            ad.zeros(40, dtype=ad.float64).index_put((ad.tensor(np.arange(9)),), y[:9]),
            ad.cat([part.reshape(2, -1) for part in (x[:10], y, x, y[4:])] * 6, 1),
        ),
        (make(40), make(40, seed=1)), {}, (host.CopyArray, host.FillArray, host.JoinRows),
    ),
    "scan": (
        ad.value_and_grad(scanned, argnums=(0, 1)), (make(6), make(6, seed=1)), {}, (host.Loop,),
    ),
    "while loop": (turns, (make(5),), {}, (host.WhileLoop,)),
    "gradient of a while loop": (
        ad.value_and_grad(turns), (make(5),), {}, (host.Push, host.Pop, host.Close),
    ),
    "directional derivative of that": (
        lambda x, v: ad.jvp(ad.grad(turns), (x,), (v,)), (make(5), make(5, seed=4)), {},
        (host.Push, host.Pop),
    ),
    "gradient of that": (
        lambda x, v: ad.grad(lambda y: (ad.grad(turns)(y) * v).sum())(x),
        (make(5), make(5, seed=4)), {}, (host.Pop, host.Grow),
    ),
    "branch": (
        ad.grad(lambda x: branched(x).sum() + branched(x / 9).sum()), (make(17),), {},
        (host.Branch,),
    ),
    "branch in a loop": (ad.value_and_grad(in_a_loop), (make(3),), {}, (host.Branch, host.Loop)),
    "triangles": (
        ad.value_and_grad(factored, argnums=(0, 1)),
        (make(3, 2, 20, 20), make(3, 2, 20, 7, seed=1)), {}, (host.Symbol,),
    ),
    "factors": (
        lambda a, b: (ad.linalg.solve(a, b), *ad.linalg.qr(a), a.sort(0).values),
        (make(12, 12), make(12, 3, seed=1)), {}, (host.PackedArguments,),
    ),
    "windows": (
        ad.value_and_grad(pooled, argnums=(0, 1, 2, 3)),
        (make(2, 4, 16, 15), make(6, 2, 3, 2, seed=1), make(6, 1, 2, 2, seed=2), make(6, seed=3)),
        {}, (host.CallRoutine,),
    ),
    "attention": (
        ad.value_and_grad(attended, argnums=(0, 1, 2)),
        (make(2, 70, 4), make(2, 130, 4, seed=1), make(2, 130, 3, seed=2)), {},
        (host.PackedArguments, host.FillArray),
    ),
    "symbolic sizes": (
        lambda x: (x.exp().sum(0), x.mean(), x.cumsum(1), x @ x.mT),
        (make(60, 50),), {"dynamic": {"x": (0, 1)}}, (host.Offset,),
    ),
    "a scan of symbolic size": (
        ad.value_and_grad(lambda x, w: scanned(x, x.cos() * w[0]), argnums=(0, 1)),
        (make(40), make(40, seed=1)), {"dynamic": {0: 0}}, (host.Loop, host.Offset),
    ),
}  # fmt: skip


def program_of(function: Any, inputs: Any, options: dict[str, Any]) -> Program:
    """The native program that serves a call."""
    compiled = ad.compile(function, **options)
    compiled(*inputs)
    ((program, _),) = compiled.programs.values()
    return program


def kinds_in(thing: Any) -> set[type]:
    """The kinds of the records in a host program."""
    if isinstance(thing, tuple):
        return set().union(*map(kinds_in, thing))
    if type(thing).__module__ != host.__name__:
        return set()
    return {type(thing)}.union(*(kinds_in(each) for each in vars(thing).values()))


@pytest.mark.parametrize("name", CASES)
def test_host_programs_say_all_that_the_printed_program_does(name: str) -> None:
    ad.set_num_threads(1)
    function, inputs, options, kinds = CASES[name]
    program = program_of(function, inputs, options)
    assert set(kinds) <= kinds_in(program.code.host)
    arrays = [np.ascontiguousarray(x.numpy()) for x in inputs]
    expected = program.run(arrays)
    assert expected is not None
    found = Interpreter(program).run(arrays)
    for got, wanted in zip(found, expected, strict=True):
        assert got.tobytes() == wanted.tobytes()

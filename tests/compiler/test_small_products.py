"""Products of matrices as sums of products: `compiler/small_products.py`."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import lower as lowering
from adjoint.compiler.definitions import Definitions
from adjoint.compiler.plan import RoutineCall
from adjoint.compiler.small_products import multiplications, write_products
from adjoint.compiler.targets.c.target import CPU
from adjoint.graph.passes import eliminate_dead
from adjoint.graph.verify import verify

SHAPES = [
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((6, 1, 2, 3), (5, 3, 4)),
    ((2, 1), (1, 4)),
    ((2, 0), (0, 4)),
]


def turned(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], *reversed(shape[-2:]))


def operands(shapes: Any, turns: tuple[bool, bool]) -> tuple[Any, list[Any]]:
    """A product of matrices, some of which are given by their columns, and its arguments."""
    draw = np.random.default_rng(len(shapes[0]) + len(shapes[1]))

    def product(*given: Any) -> Any:
        a, b = (x.mT if turn else x for x, turn in zip(given, turns, strict=True))
        return a @ b

    pairs = zip(shapes, turns, strict=True)
    sizes = [turned(shape) if turn else shape for shape, turn in pairs]
    return product, [ad.tensor(draw.normal(size=size)) for size in sizes]


CASES = [
    (shapes, turns)
    for shapes in SHAPES
    for turns in itertools.product((False, True), repeat=2)
    if all(len(shape) > 1 or not turn for shape, turn in zip(shapes, turns, strict=True))
]


@pytest.mark.parametrize(("shapes", "turns"), CASES)
def test_a_sum_of_products_is_the_product(shapes: Any, turns: tuple[bool, bool]) -> None:
    product, given = operands(shapes, turns)
    want = product(*given)
    written = write_products(ad.trace(product, *given), Definitions(CPU), lambda node: True)
    graph = verify(eliminate_dead(written))
    assert all(math.isinf(multiplications(node, CPU)) for node in graph.nodes)
    for got in (graph(*given), ad.compile(product)(*given)):
        assert got.shape == want.shape
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-13, atol=1e-14)


def chain(x: Any, w: Any) -> Any:
    for _ in range(5):
        x = (x @ w).tanh() + x
    return x.sum()


def test_a_small_product_is_one_node_until_all_is_simplified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[list[str]] = []

    def written(graph: Any, *others: Any) -> Any:
        seen.append([node.op.name for node in graph.nodes])
        return write_products(graph, *others)

    monkeypatch.setattr(lowering, "write_products", written)
    x = ad.ones(4, 4)
    lowered = lowering.lower(ad.trace(ad.grad(chain, (0, 1)), x, x), lowering.Choices(CPU))
    (names,) = seen
    products = sum(name in ("matmul", "mm") for name in names)
    assert products >= 10
    assert "unsqueeze" not in names
    assert not any(node.op.row.is_product for node in lowered.nodes)
    assert sum(node.op.name == "sum" for node in lowered.nodes) >= products


def test_a_product_that_few_sums_make_small_is_a_loop() -> None:
    """(a @ b).sum(0) = a.sum(0) @ b, which fuses with what is around it."""
    f = lambda a, b: (a @ b).sum(0) * 2
    a, b = (ad.tensor(np.random.default_rng(1).normal(size=size)) for size in ((200, 9), (9, 20)))
    compiled = ad.compile(f)
    np.testing.assert_allclose(compiled(a, b).numpy(), f(a, b).numpy(), rtol=1e-12)
    steps = compiled.lower(a, b).layout.steps
    assert not any(isinstance(step, RoutineCall) for step in steps)

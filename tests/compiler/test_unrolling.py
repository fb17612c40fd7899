"""Sums over rows of symbolic length take several rows in at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.targets.c.target import CPU
from adjoint.loops.loop_programs import ForLoop

TOGETHER = CPU.vectors.together


def totals(x: Any) -> Any:
    return x.sum(0), (x * x + 1).sum(0), x.amax(0), ad.where(x > 0, x, 2.0).sum(0)


@pytest.fixture(scope="module")
def compiled() -> Any:
    made = ad.compile(totals, dynamic={"x": [0, 1]})
    for shape in ((50, 37), (70, 40)):
        made(ad.ones(*shape, dtype=ad.float64))
    return made


def in_order(values: Any) -> Any:
    """The sum of rows, one after the other."""
    found = np.zeros(values.shape[1])
    for row in values:
        found = found + row
    return found


@pytest.mark.parametrize("columns", [2, 5, 16, 67])
@pytest.mark.parametrize("rows", [2, TOGETHER - 1, TOGETHER, TOGETHER + 1, 5 * TOGETHER + 3])
def test_rows_are_added_in_order(compiled: Any, rows: int, columns: int) -> None:
    x = np.random.default_rng(rows * columns).normal(size=(rows, columns))
    total, squares, largest, chosen = [t.numpy() for t in compiled(ad.tensor(x))]
    assert np.array_equal(total, in_order(x))
    assert np.array_equal(squares, in_order(x * x + 1))
    assert np.array_equal(largest, x.max(0))
    assert np.array_equal(chosen, in_order(np.where(x > 0, x, 2.0)))


def test_loops_take_several_rows_at_once(compiled: Any) -> None:
    layout = compiled.lower(ad.ones(90, 41, dtype=ad.float64)).layout
    loops = [s for made in layout.programs.values() for s in made.statements()]
    assert any(isinstance(s, ForLoop) and s.step == TOGETHER for s in loops)

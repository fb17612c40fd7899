"""Loops over rows of symbolic length: several rows at once, and versions for short rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.targets.c.target import CPU
from adjoint.loops.loop_programs import ForLoop, LoopProgram

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


ROWS: dict[str, Callable[[Any], Any]] = {  # of which short rows have versions of their own
    "a row for all": lambda x: x * 2 + x[:1],
    "a number for each row": lambda x: x * 2 + x[:, :1],
    "centred": lambda x: x - x.mean(0),
    "sums of rows": lambda x: x.sum(0),
    "the largest of rows": lambda x: x.amax(0),
}


def versions(compiled: Any, *shape: int) -> dict[str, LoopProgram]:
    """The loop programs in which a size is a number, by their names."""
    layout = compiled.lower(ad.ones(*shape, dtype=ad.float64)).layout
    return {made.name: made for made in layout.loop_programs() if made.known}


@pytest.mark.parametrize("name", ROWS)
def test_short_rows_are_as_those_of_known_length(name: str) -> None:
    """Bit by bit, and every length from 2 on has a loop of its own. Sums of two columns run along
    the rows, which closed programs cut at other places.
    """
    opened, closed = ad.compile(ROWS[name], dynamic={0: (0, 1)}), ad.compile(ROWS[name])
    made = versions(opened, 250, 337)
    lengths = {length for program in made.values() for length in program.known.values()}
    totals = name not in ("a row for all", "a number for each row")
    most = CPU.vectors.numbered_totals if totals else CPU.vectors.numbered
    assert lengths == {*range(2, most + 1)}
    for columns in (*range(2, CPU.vectors.numbered_totals + 2), 67):
        x = ad.tensor(np.random.default_rng(columns).normal(size=(43, columns)))
        np.testing.assert_allclose(opened(x).numpy(), closed(x).numpy(), rtol=1e-12, atol=1e-12)
        assert columns == 2 or np.array_equal(opened(x).numpy(), closed(x).numpy())


def test_only_short_programs_have_versions_for_short_rows() -> None:
    def normed(x: Any) -> Any:
        for k in range(4):
            x = x / (x * x).sum(k % 2, keepdim=True)
        return x

    assert not versions(ad.compile(normed, dynamic={0: (0, 1)}), 250, 337)


def test_one_thread_takes_accumulators_that_stay_in_registers() -> None:
    """Those of known length that are light, if vectors run along them."""
    sums = ad.compile(ROWS["sums of rows"], dynamic={0: (0, 1)})
    made = versions(sums, 250, 337).values()
    assert all(program.divisible == (program.rows < 3) for program in made)
    assert all(
        made.divisible
        for made in sums.lower(ad.ones(250, 341, dtype=ad.float64)).layout.programs.values()
    )


@pytest.mark.parametrize("columns", [9, 16, 17, 23, 41])
def test_sums_of_functions_take_each_element_in_once(columns: int) -> None:
    """The last vector of a row overlaps the one before it."""
    compiled = ad.compile(lambda x: (x.exp().sum(1), x.sin().amax(1)), dynamic={0: (0, 1)})
    compiled(ad.ones(50, 300, dtype=ad.float64))
    x = np.random.default_rng(columns).normal(size=(7, columns))
    x[2, 3], x[3, columns - 1] = 800.0, 800.0  # exp is infinite
    total, largest = (t.numpy() for t in compiled(ad.tensor(x)))
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(total, np.exp(x).sum(1), rtol=1e-14)
    np.testing.assert_allclose(largest, np.sin(x).max(1), rtol=1e-14)

"""The loop programs of elements are sound: what they read is set, and of the right type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.loop_types import verify_types
from adjoint.core.c_types import C_TYPES
from adjoint.loops import element_programs
from adjoint.loops.element_loops import Element
from adjoint.loops.loop_programs import LoopProgram, Store, verify
from adjoint.loops.row_loops import RowLoops
from adjoint.optim import pieces

DTYPES = ("float32", "float64", "float16", "int32", "uint8", "bool", "complex64")


def elements(name: str) -> Iterator[Element]:
    """The elements of an operator on two arrays, for each dtype that has one."""
    for dtype in DTYPES:
        loops = RowLoops(getattr(ad.ops, name).operators[0].row)
        given = [np.ones((2, 3), ad.core.dtypes.NAMES[dtype].np)] * len(loops.tensors)
        numbers = [1 for _ in loops.others]
        if loops._find(given, [*given, *numbers]) is not None:
            yield from (element for made in loops.loops.values() for element in made)


def programs(element: Element) -> Iterator[LoopProgram]:
    ways = [(), *((name,) for name in element.used)]
    yield from (element_programs.computing(element, way) for way in ways)
    if element_programs.has_rare(element):
        yield from (program for way in ways for program in element_programs.choosing(element, way))


@pytest.mark.parametrize("name", ["add", "atan2", "fmod", "where", "eq", "lgamma", "mul"])
def test_programs_of_elements_are_sound(name: str) -> None:
    found = [*elements(name)]
    assert found
    for element in found:
        for program in programs(element):
            assert program.pointers
            verify_types(verify(program))


@pytest.mark.parametrize("dtype", C_TYPES)
@pytest.mark.parametrize("step", element_programs.PACKED_STEPS)
def test_programs_that_pack_are_sound(dtype: str, step: Any) -> None:
    for made in (element_programs.packing, element_programs.unpacking):
        program = verify_types(verify(made(dtype, step)))
        (store,) = (s for s in program.statements() if isinstance(s, Store))
        assert store.tree.dtype is store.place.value.dtype


def _momentum(xp: Any, n: Any, p: Any, g: Any, buffer: Any) -> Any:
    new = buffer * n.momentum + g
    return xp.where(new > 0, p - n.lr * new, p), new


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_programs_of_optimisers_write_over_what_they_read(dtype: Any) -> None:
    absent = ("maximize", "decay", "shrink")
    loop = pieces.loop_in(_momentum, ("lr", "momentum"), absent, 3, np.dtype(dtype))
    program = verify_types(verify(element_programs.computing(loop.element)))
    assert [value.name for value in program.pointers] == ["numbers", "a_a0", "a_a1", "a_a2"]
    assert not program.overlaps

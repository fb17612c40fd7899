"""Types of loop programs are verified: each law has a program that breaks it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adjoint.compiler.loop_types import UnsoundType, verify_types
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.expressions.trees import (
    Binary,
    Call,
    Choose,
    Convert,
    Number,
    Operand,
    Unary,
    Variable,
    number,
)
from adjoint.graph.ir import Type, Value
from adjoint.loops.affine import Affine, variable
from adjoint.loops.loop_programs import (
    CELL,
    FIRST,
    LAST,
    Cell,
    Check,
    ForLoop,
    Let,
    Load,
    Local,
    LoopProgram,
    Place,
    Position,
    Room,
    Select,
    StatementBlock,
    Store,
    Take,
    Total,
    position,
)
from adjoint.loops.loop_programs import Guard as Bounded

REAL, SINGLE, WHOLE = dtypes.float64, dtypes.float32, dtypes.int64
HALF, TRUTH, COMPLEX = dtypes.float16, dtypes.bool_, dtypes.complex128
I = variable(0)


def array(dtype: DType) -> Value:
    return Value("x", Type((8,), dtype))


def v(dtype: DType, name: str = "v1") -> Variable:
    return Variable(name, dtype)


def loop(*body: Any, **more: Any) -> LoopProgram:
    return LoopProgram("nest", 8, [ForLoop(0, (FIRST,), (LAST,), [*body], **more)])


TOTAL = Total(None, "sum", "acc", REAL, number(0, REAL))  # type: ignore[arg-type]
SOUND = {
    "a sum": LoopProgram("nest", 8, [
        Room(REAL, "acc", start=number(0, REAL)),
        ForLoop(0, (FIRST,), (LAST,), [
            Load(v(SINGLE), Place(array(SINGLE), I)),
            Let(v(REAL, "v2"), Binary("*", v(SINGLE), number(2, REAL))),
            Take("sum", Cell("acc"), v(REAL, "v2")),
        ], totals=(TOTAL,)),
        Store(Place(array(SINGLE), Affine()), Operand(CELL, REAL), source=Cell("acc")),
    ]),
    "whether any is true": LoopProgram("nest", 8, [
        Room(WHOLE, "acc", start=number(0, WHOLE)),
        ForLoop(0, (FIRST,), (LAST,), [Take("any", Cell("acc"), v(REAL))]),
    ]),
    "halves": loop(
        Load(v(HALF), Place(array(HALF), I)),
        Let(v(HALF, "v2"), Convert(Unary("-", Convert(v(HALF), SINGLE)), HALF)),
        Store(Place(array(HALF), I), v(HALF, "v2")),
    ),
    "an index": loop(
        Let(v(WHOLE), Binary("+", position(0), number(1, WHOLE)), (I,)),
        Check(v(WHOLE, "v2"), v(WHOLE), 8, wraps=False),
        Load(v(REAL, "v3"), Place(array(REAL), Affine(), ((v(WHOLE, "v2"), 1),))),
    ),
}  # fmt: skip
BROKEN: dict[str, Any] = {
    "a sum of fractions in a whole number": StatementBlock(
        [
            Room(WHOLE, "acc", start=number(0, WHOLE)),
            Take("sum", Cell("acc"), v(REAL)),
        ]
    ),
    "computing with a half": Let(v(SINGLE), Binary("*", v(HALF), v(HALF))),
    "a fraction in a whole number": Let(v(WHOLE), v(REAL, "v2")),
    "a complex number in a real one": Store(Place(array(REAL), I), v(COMPLEX)),
    "a number as a truth": Let(v(TRUTH), v(WHOLE, "v2")),
    "a half set to a float": Let(v(HALF), v(SINGLE, "v2")),
    "bits of a float": Let(v(REAL), Binary("&", v(REAL, "v2"), v(REAL, "v3"))),
    "an order of complex numbers": Let(v(TRUTH), Binary("<", v(COMPLEX), v(COMPLEX))),
    "a float as a condition": Let(v(REAL), Choose(v(REAL, "v2"), v(REAL), v(REAL))),
    "a choice of real and complex": Let(v(COMPLEX), Choose(v(TRUTH), v(REAL), v(COMPLEX))),
    "a function of halves": Let(v(SINGLE), Convert(Call("exp", (v(SINGLE),), HALF), SINGLE)),
    "a complex number called real": Let(v(REAL), Number(1j, REAL)),
    "an operand that nothing stands for": Let(v(REAL), Operand("self", REAL)),
    "a position too many": Let(v(WHOLE), position(1), (I,)),
    "a position of floats": Let(v(REAL), Operand("0", REAL), (I,)),
    "a place between elements": Let(v(WHOLE), position(0), (Affine(0, ((0, 0.5),)),)),  # type: ignore[arg-type]
    "a real index": Check(v(WHOLE), v(REAL, "v2"), 8, wraps=False),
    "a chosen place that is real": Load(v(REAL), Place(array(REAL), I, ((v(REAL, "v2"), 1),))),
    "a load of another dtype": Load(v(SINGLE), Place(array(REAL), I)),
    "bounds that are no numbers": Select(v(REAL), Bounded(I, 0, 1.5), v(REAL), v(REAL)),  # type: ignore[arg-type]
    "an array that is nowhere": Load(v(REAL), Place(Local("l0", REAL, 8), I)),
    "an accumulator that is nowhere": Take("sum", Cell("acc"), v(REAL)),
    "an accumulator that nobody reads": Store(Place(array(REAL), I), Operand(CELL, REAL)),
    "a variable position of floats": Position(1, number(1, REAL)),
    "an end of a loop": ForLoop(1, (0,), ("lane",), []),
    "a loop that stands": ForLoop(1, (0,), (8,), [], step=0),
    "a total that nobody declares": ForLoop(1, (0,), (8,), [], totals=(TOTAL,)),
    "a start of another dtype": Room(SINGLE, "acc", start=number(0, REAL)),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_types_pass(name: str) -> None:
    assert verify_types(SOUND[name]) is SOUND[name]


@pytest.mark.parametrize("name", BROKEN)
def test_unsound_types_raise(name: str) -> None:
    with pytest.raises(UnsoundType):
        verify_types(loop(BROKEN[name]))


def test_an_accumulator_is_read_as_what_it_is() -> None:
    room, along, store = SOUND["a sum"].body
    wrong = replace(store, tree=Operand(CELL, SINGLE))  # type: ignore[type-var]
    with pytest.raises(UnsoundType, match="accumulator's dtype"):
        verify_types(LoopProgram("nest", 8, [room, along, wrong]))


@pytest.mark.parametrize(
    "total",
    [replace(TOTAL, kind="most"), replace(TOTAL, start=number(0, SINGLE))],
    ids=["no known kind", "a start of another dtype"],
)
def test_accumulators_that_outlast_rows_are_sound(total: Total) -> None:
    with pytest.raises(UnsoundType):
        verify_types(LoopProgram("nest", 8, [], [(total, 1)]))

"""The loop programs of an `Element`: those of a block that computes, and those that pack a block.

A block is a piece of a few rows of the arrays. What computes reads and writes contiguous rows of
the dtypes in which numbers are computed. `packing` gives such a row of an operand with other
strides or of float16 and bfloat16; `unpacking` writes one to a result. Lengths and strides are
symbolic sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from adjoint.core import dtypes
from adjoint.core.dtypes import NAMES, DType
from adjoint.core.symbolic_sizes import symbol
from adjoint.expressions import functions
from adjoint.expressions.trees import Binary, Call, Convert, Expression, Operand, Variable, number
from adjoint.loops.affine import Affine, variable
from adjoint.loops.element_loops import Element
from adjoint.loops.loop_programs import (
    CELL,
    FIRST,
    LAST,
    ROW,
    Cell,
    ForLoop,
    Given,
    Let,
    Load,
    LoopProgram,
    Place,
    Room,
    Statement,
    Store,
    Take,
    Total,
)

NUMBERS, FOUND, RESULT = "numbers", "found", "out"  # arguments beside the operands
SIZES = ("size0", "size1", "size2")  # of a packing program: columns, steps of rows and of columns
_COLUMNS, _ROWS_STEP, _STEP = (symbol(k, 1) for k in range(3))
_WIDEST = {"real": dtypes.float64, "whole": dtypes.int64, "complex": dtypes.complex128}


def computing(element: Element, constant: Sequence[str] = (), name: str = "compute") -> LoopProgram:
    """The program that computes a row; the `constant` operands have one element for all of it."""
    numbers, fixed, moving, variables = _loads(element, constant)
    lets: list[Statement] = []
    for name, dtype, tree in element.lets:
        made = Variable(f"v_{name}", dtype)
        lets.append(Let(made, tree.substitute(variables)))
        variables[name] = made
    rows = [operand_name(name) for name in element.over] or [RESULT]
    stores = [
        Store(Place(Given(row, NAMES[dtype].wide), variable(ROW)), tree.substitute(variables))
        for row, (tree, dtype) in zip(rows, element.results, strict=True)
    ]
    loop = ForLoop(ROW, (FIRST,), (LAST,), [*moving, *lets, *stores], vector=True)
    return LoopProgram(
        "_".join((name, *constant)), 0, [*numbers, *fixed, loop], overlaps=not element.over
    )


def choosing(element: Element, constant: Sequence[str] = ()) -> tuple[LoopProgram, LoopProgram]:
    """(the program that finds out whether an element of a row is rare, the one that computes a row
    without rare elements), of an element that `has_rare` ones.
    """
    call, dtype = element.results[0]
    assert isinstance(call, Call)
    near, rare = (replace(call, name=name) for name in functions.COMMON[call.name])
    common = replace(element, results=((near, dtype),))
    return _finding(element, rare, constant), computing(common, constant, "common")


def has_rare(element: Element) -> bool:
    """Whether there is a quicker text for all but some rare arguments."""
    tree, _ = element.results[0]
    if element.over or not isinstance(tree, Call) or tree.name not in functions.COMMON:
        return False
    return replace(tree, name=functions.COMMON[tree.name][0]).called in functions.inlined()


def _finding(element: Element, condition: Expression, constant: Sequence[str]) -> LoopProgram:
    """The program that finds out whether a condition holds for an element of a row."""
    numbers, fixed, moving, variables = _loads(element, constant)
    total = Total(None, "any", "rare", dtypes.int32, number(0, dtypes.int32))
    holds = Binary("!=", condition.substitute(variables), number(0, condition.dtype))
    take = Take("any", Cell("rare"), holds)
    found = Place(Given(FOUND, dtypes.int32), Affine())
    return LoopProgram("_".join(("find", *constant)), 0, [
        *numbers,
        *fixed,
        Room(dtypes.int32, "rare", start=total.start),
        ForLoop(ROW, (FIRST,), (LAST,), [*moving, take], vector=True, totals=(total,)),
        Store(found, Operand(CELL, dtypes.int32), source=Cell("rare")),
    ])  # fmt: skip


def _loads(
    element: Element, constant: Sequence[str]
) -> tuple[list[Statement], list[Statement], list[Statement], dict[str, Expression]]:
    """(what reads the numbers, the constant operands, and the others; the variable of each)."""
    variables: dict[str, Expression] = {}
    numbers: list[Statement] = []
    for place, name in enumerate(element.numbers):
        if name in element.names:
            numbers += _number(element, place, name, variables)
    loads: dict[bool, list[Statement]] = {True: [], False: []}
    for name, dtype in element.used.items():
        made = variables[name] = Variable(f"v_{name}", NAMES[dtype].wide)
        at = Affine() if name in constant else variable(ROW)
        argument = Given(operand_name(name), NAMES[dtype].wide)
        loads[name in constant].append(Load(made, Place(argument, at)))
    return numbers, loads[True], loads[False], variables


def _number(
    element: Element, place: int, name: str, variables: dict[str, Expression]
) -> list[Statement]:
    """The statements that read a number and bring it to the dtype of the computation."""
    wide = _WIDEST[element.kind]
    given, made = Variable(f"g_{name}", wide), Variable(f"n_{name}", element.computed)
    variables[name] = made
    numbers = Given(NUMBERS, wide, (len(element.numbers),))
    read = Load(given, Place(numbers, Affine(place)))
    return [read, Let(made, Convert(given, element.computed) if made.dtype is not wide else given)]


def operand_name(name: str) -> str:
    """The name of the argument of a program that is a row of an operand."""
    return f"a_{name}"


# -- packing --------------------------------------------------------------------------------------

# steps between columns that have a program of their own; None: all others
PACKED_STEPS, UNPACKED_STEPS = (1, 0, -1, 2, None), (1, None)


def packing(dtype: str, step: int | None) -> LoopProgram:
    """The program that packs rows whose columns lie a `step` apart; None: any step."""
    source, room = NAMES[dtype], NAMES[dtype].wide
    made = Variable("x", source)
    load = Load(made, Place(Given("from", source), _strided()))
    store = Store(Place(Given("room", room), _contiguous()), _brought(made, room))
    return _moving(f"pack_{dtype}{_ending(step)}", [load, store], step)


def unpacking(dtype: str, step: int | None) -> LoopProgram:
    """The program that writes packed rows to a result whose columns lie a `step` apart."""
    target, room = NAMES[dtype], NAMES[dtype].wide
    made = Variable("x", room)
    load = Load(made, Place(Given("room", room), _contiguous()))
    store = Store(Place(Given("to", target), _strided()), _brought(made, target))
    return _moving(f"unpack_{dtype}{_ending(step)}", [load, store], step)


def _ending(step: int | None) -> str:
    return "_any" if step is None else f"_{abs(step)}{'_back' if step < 0 else ''}"


def _moving(name: str, statements: list[Statement], step: int | None) -> LoopProgram:
    columns = ForLoop(0, (0,), (_COLUMNS,), statements)
    known: Mapping[int, int] = {} if step is None else {2: step}
    return LoopProgram(name, 0, [ForLoop(ROW, (FIRST,), (LAST,), [columns])], known=known)


def _contiguous() -> Affine:
    return variable(0) + variable(ROW) * _COLUMNS


def _strided() -> Affine:
    return variable(0) * _STEP + variable(ROW) * _ROWS_STEP


def _brought(value: Expression, dtype: DType) -> Expression:
    return value if value.dtype is dtype else Convert(value, dtype)

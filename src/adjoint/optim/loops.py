"""A formula as one loop in C that writes over its arrays: memory is passed once.

The formula is traced, and each operator's element (the column of its row) becomes a statement of a
loop program. All elements are loaded before any is stored, so that the loop may work in place. It
is built in the background; until then NumPy computes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

import adjoint
from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.dtypes import OF, DType
from adjoint.expressions import functions
from adjoint.expressions.rows import expression
from adjoint.expressions.trees import Expression, Variable, number
from adjoint.graph.ir import Value
from adjoint.loops.affine import Affine, variable
from adjoint.loops.loop_programs import (
    FIRST,
    LAST,
    ROW,
    ForLoop,
    Let,
    Load,
    LoopProgram,
    Place,
    Statement,
    Store,
)
from adjoint.loops.printer import printed
from adjoint.toolchain import background, build

Array = np.ndarray[Any, Any]


def apply(formula: Callable[..., Any], xp: Any, n: Any, p: Any, g: Any, *state: Any) -> Any:
    """A formula with what goes before it: the sign of the gradient and weight decay."""
    if n.maximize is not None:
        g = -g
    if n.decay is not None:
        g = g + p * n.decay
    if n.shrink is not None:
        p = p * n.shrink
    return formula(xp, n, p, g, *state)


_UPDATE = """#define PIECE 8192
int update(long size, void **objects) {{
  const long pieces = (size + PIECE - 1) / PIECE;
#pragma omp parallel for num_threads(TEAM) schedule(static) if (pieces > 3)
  for (long k = 0; k < pieces; k++)
    piece({objects}, k * PIECE, SMALLER((k + 1) * PIECE, size));
  return 0;
}}
"""


class Loop:
    """The loop of a formula with its numbers, for as many arrays of a dtype."""

    def __init__(self, formula: Callable[..., Any], n: Any, count: int, dtype: Any) -> None:
        present = tuple([k for k, v in vars(n).items() if v is not None])
        absent = tuple([k for k, v in vars(n).items() if v is None])
        self.source = source(formula, present, absent, count, dtype)
        self.numbers = np.array([vars(n)[k] for k in present], dtype)
        self.objects = (ctypes.c_void_p * (count + 1))(id(self.numbers))

    def __call__(self, arrays: list[Array]) -> bool:
        """Write the formula's values over dense arrays; False where NumPy shall do it, since there
        is no compiler, or not yet, or since the gradient lies across another array.
        """
        library = background.soon(self.source)
        gradient = arrays[1]
        if library is None or any(
            np.may_share_memory(gradient, a) for a in (arrays[0], *arrays[2:])
        ):
            return False
        self.objects[1:] = [id(a) for a in arrays]
        library.update(ctypes.c_long(gradient.size), self.objects)
        return True


@lru_cache(maxsize=256)
def source(
    formula: Callable[..., Any],
    present: tuple[str, ...],
    absent: tuple[str, ...],
    count: int,
    dtype: Any,
) -> str:
    """The C source for a formula with these numbers on as many arrays of a dtype; the first array
    and those from the third on are written over.
    """

    def kernel(*values: Any) -> Any:
        named = dict(zip(present, values, strict=False))
        n = SimpleNamespace(**dict.fromkeys(absent), **named)
        return tuple(apply(formula, ops, n, *values[len(present) :]))

    kind = OF[dtype]
    number, array = (adjoint.graph.ShapeDtype(shape, kind) for shape in ((), (2,)))
    graph = adjoint.graph.trace(kernel, *[number] * len(present), *[array] * count)
    numbers, *arrays = (Value(f"a{k}", graph.inputs[-1].type) for k in range(count + 1))
    made: dict[Any, Variable] = {v: Variable(f"v{k}", kind) for k, v in enumerate(graph.inputs)}
    given = [Place(numbers, Affine(k)) for k in range(len(present))]
    given += [Place(a, variable(ROW)) for a in arrays]
    loads = [Load(made[v], p) for v, p in zip(graph.inputs, given, strict=True)]
    body: list[Statement] = [*loads[len(present) :]]
    for node in graph.nodes:
        is_truth = node.output.dtype is dtypes.bool_
        made[node.output] = Variable(f"v{len(made)}", dtypes.int32 if is_truth else kind)
        body.append(_statement(node, made, kind))
    for target, value in zip([arrays[0], *arrays[2:]], graph.outputs, strict=True):
        body.append(Store(Place(target, variable(ROW)), made[value]))
    loop = ForLoop(ROW, (FIRST,), (LAST,), body, vector=True)
    piece = LoopProgram("piece", 0, [*loads[: len(present)], loop])
    places = {v: k for k, v in enumerate((numbers, *arrays))}
    objects = ", ".join(f"DATA(objects, {places[v]})" for v in piece.pointers)
    text = printed(piece, piece.name) + _UPDATE.format(objects=objects)
    return functions.prelude(functions.called_in(text), build.data_offset()) + text


def _statement(node: Any, made: dict[Any, Variable], dtype: DType) -> Let:
    """The statement of a node, from the element of its row."""
    row = node.op.row
    given = dict(zip(row.schema.names, node.args, strict=True))
    tree = expression(row, dtype, given)
    assert tree is not None, f"{node.name} has no element, and a formula of an optimiser uses it"
    operands: dict[str, Expression] = {
        name: made[v] if v in made else number(v, dtype)
        for name, v in given.items()
        if name in tree.operands
    }
    return Let(made[node.output], tree.substitute(operands))

"""Formulas on arrays, in place: large arrays by one loop in C, which passes over memory once.

Small arrays are computed at once in NumPy; so are large ones until the loop is built, and without a
compiler, in pieces that stay in the cache. For the loop the formula is traced, and each operator's
element (the column of its row) becomes a variable of an `Element`, whose results lie on its
operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

import adjoint
from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.dtypes import OF, DType
from adjoint.expressions.rows import expression
from adjoint.expressions.trees import Expression, Operand, number
from adjoint.kernels.pieces import PIECE
from adjoint.loops import gate
from adjoint.loops.element_loops import Element, ElementLoop, loop_of

Array = np.ndarray[Any, Any]
_FLOAT32 = np.dtype(np.float32)


def apply(formula: Callable[..., Any], xp: Any, n: Any, p: Any, g: Any, *state: Any) -> Any:
    """A formula with what goes before it: the sign of the gradient and weight decay."""
    if n.maximize is not None:
        g = -g
    if n.decay is not None:
        g = g + p * n.decay
    if n.shrink is not None:
        p = p * n.shrink
    return formula(xp, n, p, g, *state)


class Kernel:
    """A formula with its numbers, for arrays of a dtype; half precision computes in float32."""

    def __init__(self, formula: Callable[..., Any], numbers: Any, dtype: Any) -> None:
        self.formula, self.dtype = formula, dtype
        self.wide = dtype if dtype.char in "fd" else _FLOAT32
        # as arrays: NumPy takes twice as long for a Python number
        self.n = SimpleNamespace(
            **{k: None if v is None else np.array(v, self.wide) for k, v in vars(numbers).items()}
        )
        self.present = tuple([k for k, v in vars(self.n).items() if v is not None])
        self.absent = tuple([k for k, v in vars(self.n).items() if v is None])
        self.loop: ElementLoop | None = None
        self.numbers = [float(vars(self.n)[k]) for k in self.present]

    def update(self, arrays: list[Array]) -> None:
        """Write the formula's values over the arrays: the parameter, its gradient, which stays as
        it is, and its state.
        """
        is_large = arrays[0].size >= gate.SEVERAL
        if is_large and self._by_loop(arrays):
            return
        if self.wide is not self.dtype:
            _write(arrays, self._computed([a.astype(_FLOAT32) for a in arrays]))
        elif is_large and all(a.flags.c_contiguous for a in arrays):
            self._in_pieces([a.reshape(-1) for a in arrays])
        else:
            _write(arrays, self._computed(arrays))

    def _computed(self, arrays: list[Array]) -> Any:
        return apply(self.formula, np, self.n, *arrays)

    def _by_loop(self, arrays: list[Array]) -> bool:
        """Let the loop write over the arrays; whether it did. Elements of the gradient that lie on
        other elements of what is written would change before they are read.
        """
        first, gradient = arrays[:2]
        shape, strides, dtype = first.shape, first.strides, first.dtype
        are_alike = True
        for a in arrays:
            if a.shape != shape or a.dtype is not dtype:
                return False
            if a is not gradient and np.may_share_memory(gradient, a):
                return False
            are_alike = are_alike and a.strides == strides
        if self.loop is None:
            given = self.formula, self.present, self.absent, len(arrays), self.dtype
            self.loop = loop_in(*given)
        return self.loop.write_over(arrays, self.numbers, alike=are_alike)

    def _in_pieces(self, flat: list[Array]) -> None:
        for start in range(0, flat[0].size, PIECE):
            piece = [a[start : start + PIECE] for a in flat]
            _write(piece, self._computed(piece))


def as_real(array: Array) -> Array:
    """A complex array as an array of real and imaginary parts, on the same memory."""
    real = array.real  # its strides are those of the complex array
    strides = (*array.strides, real.itemsize)
    return np.lib.stride_tricks.as_strided(real, (*array.shape, 2), strides)


def _write(arrays: list[Array], new: Sequence[Array]) -> None:
    arrays[0][...] = new[0]
    for array, value in zip(arrays[2:], new[1:], strict=True):
        array[...] = value


@lru_cache(maxsize=256)
def loop_in(
    formula: Callable[..., Any],
    present: tuple[str, ...],
    absent: tuple[str, ...],
    count: int,
    dtype: Any,
) -> ElementLoop:
    """The loop of a formula with these numbers on as many arrays of a dtype; its results belong to
    the first array and to those from the third on.
    """

    def kernel(*values: Any) -> Any:
        named = dict(zip(present, values, strict=False))
        n = SimpleNamespace(**dict.fromkeys(absent), **named)
        return tuple(apply(formula, ops, n, *values[len(present) :]))

    stored = OF[dtype]
    kind = stored.wide
    scalar, array = (adjoint.graph.ShapeDtype(shape, kind) for shape in ((), (2,)))
    graph = adjoint.graph.trace(kernel, *[scalar] * len(present), *[array] * count)
    names = [*(f"n_{name}" for name in present), *(f"a{k}" for k in range(count))]
    made = {v: Operand(name, kind) for v, name in zip(graph.inputs, names, strict=True)}
    lets = []
    for node in graph.nodes:
        tree = _element(node, made, kind)
        is_truth = node.output.dtype is dtypes.bool_
        made[node.output] = Operand(f"t{len(lets)}", dtypes.int32 if is_truth else kind)
        lets.append((made[node.output].name, made[node.output].dtype, tree))
    operands = tuple((name, stored.name) for name in names[len(present) :])
    results = tuple((made[value], stored.name) for value in graph.outputs)
    over = tuple(name for name, _ in (operands[0], *operands[2:]))
    return loop_of(Element(operands, tuple(names[: len(present)]), results, over, tuple(lets)))


def _element(node: Any, made: dict[Any, Operand], dtype: DType) -> Expression:
    """The element of a node's row, in what was made before."""
    row = node.op.row
    given = dict(zip(row.schema.names, node.args, strict=True))
    tree = expression(row, dtype, given)
    assert tree is not None, f"{node.name} has no element, and a formula of an optimiser uses it"
    operands: dict[str, Expression] = {
        name: made[v] if v in made else number(v, dtype)
        for name, v in given.items()
        if name in tree.operands
    }
    return tree.substitute(operands)

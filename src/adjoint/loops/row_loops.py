"""Rows on large arrays: which loop computes a call of a row, and with which numbers.

The loop is built in the background when an operator first meets a large array, is kept on disk, and
is used from then on. Until then, and for small arrays and arguments without a loop, the row's NumPy
kernel computes; the results are the same up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from adjoint.core.c_types import C_TYPES
from adjoint.core.dtypes import HALVES, NAMES, OF
from adjoint.core.promotion import NUMBERS, element
from adjoint.expressions import functions
from adjoint.expressions.rows import expression
from adjoint.expressions.trees import Expression
from adjoint.loops import gate
from adjoint.loops.element_loops import Element, ElementLoop, LoopsOfCalls, kind_of, loop_of
from adjoint.table.rows import Row

Array = np.ndarray[Any, Any]

# kind of numbers -> the types that its number arguments may have
_NUMBERS = {
    "whole": (int, bool),
    "real": (int, float, bool),
    "complex": (int, float, bool, complex),
}


_PARTS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "real": lambda v: (v,),
    "complex": lambda v: (v.real, v.imag),
}


def has_text(row: Row) -> bool:
    """Whether a row has a text for its single result, computed in the dtype of the operands."""
    return bool(row.promoted_tensors) and can_write(row)


def can_write(row: Row) -> bool:
    """Whether a row has a text whose result may be written over its first argument."""
    returned = row.schema.returns
    return (
        bool({"real", "whole", "complex"} & row.element.keys())
        and len(returned) == 1
        and not returned[0].alias
        and not row.schema.mutates
        and not any(a.type.is_list for a in row.schema.tensors)
    )


class RowLoops(LoopsOfCalls):
    """The kernel of a row for large arrays; it takes the arguments of the row's NumPy kernel."""

    def __init__(self, row: Row) -> None:
        super().__init__()
        self.row = row
        arguments = row.schema.arguments
        self.tensors = [i for i, a in enumerate(arguments) if a.type.is_tensor]
        self.others = [i for i, a in enumerate(arguments) if not a.type.is_tensor]
        self.names = row.schema.names
        promoted = row.promoted_tensors or tuple(a.name for a in row.schema.tensors)
        self.promoted = frozenset(promoted)  # operands with the common dtype

    def __call__(self, *values: Any, out: Array | None = None) -> Array | None:
        """The result, in `out` if given; None if the NumPy kernel has to compute it."""
        arrays = [values[i] for i in self.tensors]
        others = [values[i] for i in self.others]
        kinds = [a if a is None else a.dtype.num for a in arrays]
        types = [*map(type, others)]
        key = (*kinds, *others, *types)
        if others and (0.0 in others or complex in types):  # 0.0 == -0.0
            key = (*key, *map(str, others))
        try:
            found = self.known[key]
        except KeyError:
            plain = [v.item() if isinstance(v, np.generic) else v for v in values]
            found = self.known[key] = self._find(arrays, plain)
        except TypeError:  # an unhashable argument: a list
            return None
        if found is None:
            return None
        loop, numbers = found
        given = [a for a in arrays if a is not None]
        if loop.is_of_bytes and given[0].size < gate.BYTES:
            return None
        if out is not None and (out.dtype != loop.dtype or _overlap(given, out)):
            return None
        return loop(given, numbers, out)

    def _find(
        self, arrays: Sequence[Any], values: Sequence[Any]
    ) -> tuple[ElementLoop, list[Any]] | None:
        """(loop, its number arguments) for these arguments; None if no loop fits."""
        operands = self._operands(arrays)
        if operands is None:
            return None
        dtype = next(d for n, d in operands.items() if n in self.promoted)
        values = self._rounded(values, dtype)
        given = dict(zip(self.names, values, strict=True))
        tree = expression(self.row, NAMES[dtype].wide, given)
        numbers = self._numbers(values, kind_of(NAMES[dtype].wide))
        if tree is not None and NAMES[dtype] in HALVES and functions.counts_digits(tree.calls):
            return None
        if tree is None or numbers is None or any(given[n] is None for n in tree.operands):
            return None
        loop = self.loop(self._element(tree, operands, dtype))
        return None if loop is None else (loop, numbers)

    def _rounded(self, values: Sequence[Any], dtype: str) -> list[Any]:
        """The arguments; next to half-precision arrays numbers are rounded, as in NumPy."""
        if NAMES[dtype] not in HALVES or self.row.has_wide_numbers:
            return [*values]
        promoted = {a.name for a in self.row.promoted}
        return [
            element(v, NAMES[dtype]) if type(v) in NUMBERS and n in promoted else v
            for n, v in zip(self.names, values, strict=True)
        ]

    def _operands(self, arrays: Sequence[Any]) -> dict[str, str] | None:
        """The dtypes of the arrays by name: one for the operands, bool for others; else None."""
        names = [self.names[i] for i in self.tensors]
        given = {n: OF[a.dtype].name for n, a in zip(names, arrays, strict=True) if a is not None}
        computed = {d for n, d in given.items() if n in self.promoted}
        others = {d for n, d in given.items() if n not in self.promoted}
        if len(computed) != 1 or others - {"bool"}:
            return None
        return given if computed <= C_TYPES.keys() else None

    def _numbers(self, values: Sequence[Any], kind: str) -> list[Any] | None:
        """The number arguments as C takes them; None if one is of another type."""
        known, found = _NUMBERS[kind], [values[i] for i in self.others]
        if any(type(v) not in known and v is not None and type(v) is not str for v in found):
            return None
        numbers = [v if type(v) in known else 0 for v in found]
        if kind == "whole":
            return [_as_word(v) for v in numbers]
        try:
            return [float(part) for v in numbers for part in _PARTS[kind](v)]
        except OverflowError:  # a whole number beyond float64: the NumPy kernel raises
            return None

    def _element(self, tree: Expression, operands: dict[str, str], dtype: str) -> Element:
        others = tuple([self.names[i] for i in self.others])
        result = "bool" if self.row.archetype.result == "bool" else dtype
        if self.row.promote == "real":
            result = NAMES[result].to_real().name
        return Element(tuple(operands.items()), others, ((tree, result),))

    def sources(self) -> Iterator[str]:
        """The C sources for both real types, if all number arguments have defaults."""
        arguments = self.row.schema.arguments
        if "real" not in self.row.element or not all(arguments[i].has_default for i in self.others):
            return
        given = {a.name: None if a.type.is_tensor else a.default for a in arguments}
        tensors = [arguments[i] for i in self.tensors]
        for dtype in ("float32", "float64"):
            tree = expression(self.row, NAMES[dtype], given)
            if tree is not None and all(
                given[n] is not None or self.row.schema.argument(n).type.is_tensor
                for n in tree.operands
            ):
                kinds = {
                    a.name: dtype if a.name in self.promoted else "bool"
                    for a in tensors
                    if not a.type.is_optional
                }
                yield loop_of(self._element(tree, kinds, dtype)).source


def _as_word(number: Any) -> int:
    """A whole number modulo 2⁶⁴, as a signed word."""
    return (int(number) + (1 << 63)) % (1 << 64) - (1 << 63)


def _overlap(arrays: Sequence[Array], out: Array) -> bool:
    """Whether writing an element may change one that is still to be read."""
    return any(
        a is not out
        and np.may_share_memory(a, out)
        and (a.ctypes.data, a.shape, a.strides) != (out.ctypes.data, out.shape, out.strides)
        for a in arrays
    )

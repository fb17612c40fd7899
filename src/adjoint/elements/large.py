"""Kernels of elements for large arrays: one pass over memory, shared by all cores.

The C text of a row (column `c`), which compiled programs fuse, here becomes a loop of its own, with
open sizes. It is built in the background when an operator first meets a large array, kept on disk,
and used from then on; until then, for small arrays, and for layouts that no loop fits, the row's
NumPy kernel computes, with the same results to rounding.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.core.shapes import Shape
from adjoint.core.storage import fills_memory
from adjoint.elements import functions, language
from adjoint.native import background
from adjoint.table.rows import Row

Array = np.ndarray[Any, Any]
Names = tuple[str, ...]

LARGE = 1 << 14  # elements from which a call of native code pays
_MOST_TEXTS = 6  # of one row: a text that depends on a number is not built for every number
_NARROW = 16  # columns below which rows are too short for loops of their own
_NUMBERS = (int, float, bool)
_C_TYPES = {"f": ("float32", "float"), "d": ("float64", "double")}  # by dtype.char


def has_text(row: Row) -> bool:
    """Whether there is a text for one real result of real numbers."""
    returned = row.schema.returns
    return (
        "real" in row.c
        and len(returned) == 1
        and not returned[0].alias
        and not row.schema.mutates
        and row.archetype.promotes
        and row.archetype.result != "bool"
        and not any(a.type.is_list for a in row.schema.tensors)
    )


class Large:
    """A row's kernel for large arrays; called with the arguments of its NumPy kernel."""

    def __init__(self, row: Row) -> None:
        self.row = row
        arguments = row.schema.arguments
        self.tensors = [i for i, a in enumerate(arguments) if a.type.is_tensor]
        self.others = [i for i, a in enumerate(arguments) if not a.type.is_tensor]
        self.names = row.schema.names
        self.texts: dict[tuple[str, str], Any] = {}  # functions, by dtype and text

    def __call__(self, *values: Any) -> Array | None:
        """The result; None where the NumPy kernel shall compute."""
        arrays = [values[i] for i in self.tensors]
        kind = _C_TYPES.get(arrays[0].dtype.char)
        if kind is None or any(a is None or a.dtype != arrays[0].dtype for a in arrays):
            return None
        given = dict(zip(self.names, values, strict=True))
        text = language.expression(self.row, kind[0], given)
        numbers = self._numbers(values)
        if text is None or numbers is None or any(given[n] is None for n in _used(text)):
            return None
        sizes = _sizes(tuple(_lie(a) for a in arrays))
        run = None if sizes is None else self._function(kind, text)
        if run is None or sizes is None:
            return None
        shape, fields = sizes
        result = np.empty_like(arrays[0]) if shape is None else np.empty(shape, arrays[0].dtype)
        run(fields, numbers, *(ctypes.c_void_p(a.ctypes.data) for a in (*arrays, result)))
        return result

    def _numbers(self, values: Sequence[Any]) -> Any:
        """The arguments that are numbers, as C takes them; None where one is none."""
        found = [values[i] for i in self.others]
        if any(type(v) not in _NUMBERS and v is not None and type(v) is not str for v in found):
            return None
        plain = [float(v) if type(v) in _NUMBERS else 0.0 for v in found]
        return (ctypes.c_double * max(len(plain), 1))(*plain)

    def _function(self, kind: tuple[str, str], text: str) -> Any:
        key = kind[0], text
        if self.texts.get(key) is None:
            if key not in self.texts and len(self.texts) >= _MOST_TEXTS:
                return None
            library = background.soon(self.source(kind[1], text))
            self.texts[key] = None if library is None else library.elements
        return self.texts[key]

    def sources(self) -> Iterator[str]:
        """The sources for both types, where all numbers have defaults."""
        arguments = self.row.schema.arguments
        if not all(arguments[i].has_default for i in self.others):
            return
        given = {a.name: None if a.type.is_tensor else a.default for a in arguments}
        for dtype, c_type in _C_TYPES.values():
            text = language.expression(self.row, dtype, given)
            if text is not None and all(
                given[n] is not None or self.row.schema.argument(n).type.is_tensor
                for n in _used(text)
            ):
                yield self.source(c_type, text)

    def source(self, c_type: str, text: str) -> str:
        """The C source of a text: its loop over the elements of dense rows."""
        return _source(
            text, c_type, tuple(self.names[i] for i in self.tensors),
            tuple(self.names[i] for i in self.others),
        )  # fmt: skip


# -- how arrays lie -------------------------------------------------------------------------------


def _lie(array: Array) -> tuple[Shape, Shape, bool, int]:
    return array.shape, array.strides, array.flags.c_contiguous, array.itemsize


@lru_cache(maxsize=4096)
def _sizes(arrays: tuple[tuple[Shape, Shape, bool, int], ...]) -> tuple[Shape | None, Any] | None:
    """The shape of the result (None: like the first array) and the fields for C; None where no
    loop fits: rows, columns, and for each operand whether it steps along them.
    """
    shapes = [shape for shape, *_ in arrays]
    first, strides, dense, size = arrays[0]
    if all(a == arrays[0] for a in arrays[1:]) and (dense or fills_memory(first, strides, size)):
        steps = [(0, 1)] * len(arrays)
        return (first if dense else None), _fields(1, math.prod(first), steps)
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        return None  # the NumPy kernel says why
    if len(arrays) > 2 or not all(dense for *_, dense, _ in arrays):
        return None
    rows, columns = 1, math.prod(shape)
    for own in shapes:
        cut = _cut(own, shape)
        if cut is not None and cut != (1, columns):
            rows, columns = cut
    found = [_step(own, shape, rows, columns) for own in shapes]
    if columns < _NARROW or any(step is None for step in found):
        return None
    return shape, _fields(rows, columns, [step for step in found if step is not None])


def _fields(rows: int, columns: int, steps: Sequence[tuple[int, int]]) -> Any:
    flat = [n for step in steps for n in step]
    return (ctypes.c_long * (2 + len(flat)))(rows, columns, *flat)


def _cut(own: Shape, shape: Shape) -> tuple[int, int] | None:
    """Rows and columns of a result by an operand that repeats along one of them."""
    total, count = math.prod(shape), math.prod(own)
    if count in (1, total):
        return None
    if _stripped(own) == shape[len(shape) - len(_stripped(own)) :]:
        return total // count, count  # the same row for all
    return count, total // count


def _stripped(shape: Shape) -> Shape:
    """A shape without its leading ones."""
    lead = next((d for d, n in enumerate(shape) if n != 1), len(shape))
    return shape[lead:]


def _step(own: Shape, shape: Shape, rows: int, columns: int) -> tuple[int, int] | None:
    """From row to row and from column to column of an operand; None where it lies otherwise."""
    count = math.prod(own)
    if own == shape:
        return columns, 1
    if count == 1:
        return 0, 0
    full = (1,) * (len(shape) - len(own)) + own
    kept = [d for d, n in enumerate(full) if n != 1]
    if count == columns and _stripped(own) == shape[len(shape) - len(_stripped(own)) :]:
        return 0, 1
    leading = all(full[d] == shape[d] for d in range(kept[-1] + 1))
    return (1, 0) if count == rows and leading else None


# -- text -----------------------------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"{(\w+)}")

# numbers are constants of the loop: a load under a condition would keep it from vectors
_LOOP = """static void {name}(long n, const {t} *numbers, {parameters}, {t} *restrict out) {{
  (void)numbers;
{constants}#pragma omp simd
  for (long i = 0; i < n; i++) out[i] = {expression};
}}
"""
# Rows of the result in pieces that threads share; a long row is cut.
_RUN = """
#define PIECE 8192
int elements(const long *z, const double *given, {pointers}, {t} *out) {{
  const long rows = z[0], columns = z[1];
  const long across = columns >= PIECE ? 1 : PIECE / columns, down = (rows + across - 1) / across;
  const long cuts = (columns + PIECE - 1) / PIECE, pieces = down * cuts;
  {t} numbers[{count}];
  for (int k = 0; k < {count}; k++) numbers[k] = ({t})given[k];
#pragma omp parallel for schedule(static) if (pieces > 3)
  for (long p = 0; p < pieces; p++) {{
    const long column = p % cuts * PIECE, first = p / cuts * across;
    const long n = columns - column < PIECE ? columns - column : PIECE;
    const long last = first + across < rows ? first + across : rows;
    for (long r = first; r < last; r++) {{
      {t} *to = out + r * columns + column;
{choices}
    }}
  }}
  return 0;
}}
"""


@lru_cache(maxsize=4096)
def _used(template: str) -> tuple[str, ...]:
    return tuple(_PLACEHOLDER.findall(template))


@lru_cache(maxsize=512)
def _source(template: str, c_type: str, tensors: Names, others: Names) -> str:
    suffix = "f" if c_type == "float" else ""
    # which operands step along columns: all of them, or one of two
    ways = [(1,) * len(tensors)] + ([(1, 0), (0, 1)] if len(tensors) == 2 else [])
    loops, choices = [], []
    for way in ways:
        name = "row_" + "".join(map(str, way))
        operands = {t: f"{t}_[{'i' if s else '0'}]" for t, s in zip(tensors, way, strict=True)}
        operands |= {o: f"{o}_" for o in others}
        expression = template.format_map(operands | {"@": suffix})
        parameters = ", ".join(f"const {c_type} *restrict {t}_" for t in tensors)
        constants = "".join(
            f"  const {c_type} {o}_ = numbers[{k}];\n"
            for k, o in enumerate(others)
            if f"{{{o}}}" in template
        )
        values = {"parameters": parameters, "constants": constants, "expression": expression}
        loops.append(_LOOP.format(name=name, t=c_type, **values))
        test = " && ".join(f"z[{3 + 2 * k}] == {s}" for k, s in enumerate(way))
        given = ", ".join(
            f"{t}_ + r * z[{2 + 2 * k}] + column * z[{3 + 2 * k}]" for k, t in enumerate(tensors)
        )
        choices.append(f"      if ({test}) {name}(n, numbers, {given}, to);")
    pointers = ", ".join(f"const {c_type} *{t}_" for t in tensors)
    run = _RUN.format(
        t=c_type, pointers=pointers, count=max(len(others), 1), choices="\n".join(choices)
    )
    return functions.prelude("".join(loops), 0) + "".join(loops) + run

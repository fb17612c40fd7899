"""Loops over the elements of arrays, in C: one pass over memory, shared by all cores.

An `ElementLoop` computes each element of its result from one element of each operand, for arrays of
any strides that broadcast. It goes over blocks that stay in the cache. An operand with other
strides than the block, or of a type in which nothing is computed (float16, bfloat16), is first
packed into a row, so there is one loop over contiguous rows, which the compiler vectorises. Values
do not depend on the number of threads.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from adjoint.c_kernels import loading
from adjoint.core import dtypes
from adjoint.core.c_types import C_TYPES, COMPUTED, HALF_FUNCTIONS, HALF_TYPES
from adjoint.core.records import record
from adjoint.core.shapes import Shape, row_major
from adjoint.core.threads import TEAM
from adjoint.toolchain import background, build

Array = np.ndarray[Any, Any]
Lie = tuple[Shape, Shape, int]  # shape, strides, bytes of an element

LARGE = 1 << 14  # elements from which a call of native code pays
_MOST = 4  # most dimensions left after merging
# by kind of type: the struct letters of a number among the arguments, and its C type
_NUMBERS = {"real": ("d", "double"), "whole": ("q", "long long"), "complex": ("2d", "double")}


class ElementLoop:
    """One expression over the elements of some arrays.

    >>> loop = ElementLoop("{x} * {k}", {"x": "float32"}, ["k"], "float32")
    >>> loop.c_type
    'float'
    """

    def __init__(
        self,
        expression: str,  # C text with names of operands and numbers: "{x} * {k}"
        operands: dict[str, str],  # names and dtypes of the arrays: {"x": "float32"}
        numbers: Sequence[str],  # names of the numbers, complex ones as pairs: ["k"]
        result: str,  # the result's dtype
        declarations: str = "",  # of the functions that the expression calls
        common: tuple[str, str] = ("", ""),  # a quicker text, and when it is wrong
        *,
        is_exact: bool = False,  # whether vectors and scalars round alike: no libmvec
    ) -> None:
        self.expression, self.operands, self.numbers = expression, operands, numbers
        self.result, self.declarations, self.common = result, declarations, common
        self.is_exact = is_exact
        self.dtype = dtypes.NAMES[result].np
        computed = next((d for d in operands.values() if d != "bool"), result)
        self.c_type = COMPUTED[computed]  # the type of the computation
        self.kind = kind_of(self.c_type)
        letters = _NUMBERS[self.kind][0] * len(numbers)
        # addresses of array objects, then numbers: one block of bytes is the cheapest argument
        self._pack = struct.Struct(f"{len(operands) + 1}P{letters}").pack
        self._source = ""
        self._run: Any = None

    @property
    def source(self) -> str:
        """The C source."""
        if not self._source:
            self._source = _source(self)
        return self._source

    def __call__(
        self, arrays: Sequence[Array], numbers: Sequence[Any] = (), out: Array | None = None
    ) -> Array | None:
        """The result, written to `out` if that is given. None if NumPy must compute it: while the
        code is being built, and for unsuitable shapes, strides and addresses.
        """
        lies = tuple([(a.shape, a.strides, a.itemsize) for a in arrays])
        into = None if out is None else (out.shape, out.strides, out.itemsize)
        how = plan(lies, self.dtype, into)
        run = self._run or self._found()
        if how is None or run is None:
            return None
        result = how.room(self.dtype) if out is None else out
        if how.is_empty:
            return result
        given = self._pack(*map(id, arrays), id(result), *numbers)
        return None if run(how.fields, given) else result

    def _found(self) -> Any:
        library = background.soon(self.source)
        self._run = None if library is None else library.elements
        return self._run


def kind_of(c_type: str) -> str:
    """The kind of a C type's numbers: "real", "whole" or "complex".

    >>> kind_of("double _Complex")
    'complex'
    """
    if c_type.endswith("_Complex"):
        return "complex"
    return "real" if c_type in ("float", "double") else "whole"


class Loops:
    """One expression for large arrays of float32, and of float64.

    `@` is the suffix of functions: `Loops("exp@({x} - {y})", "x", "y", function="exp")`.

    >>> Loops("{x} + {y}", "x", "y")(np.ones(3), np.ones(3))  # not large
    """

    def __init__(self, text: str, *names: str, function: str = "") -> None:
        self.kinds: dict[str, ElementLoop] = {}
        for kind, suffix in (("float32", "f"), ("float64", "")):
            c, name = C_TYPES[kind], function + suffix
            declared = f"#pragma omp declare simd notinbranch\nextern {c} {name}({c});\n"
            self.kinds[kind] = ElementLoop(
                text.replace("@", suffix), dict.fromkeys(names, kind), (), kind,
                declared if function else "", is_exact=not function,
            )  # fmt: skip

    def __call__(self, *arrays: Array, out: Array | None = None) -> Array | None:
        """The result, in `out` if that is given; None if NumPy must compute it."""
        first = arrays[0]
        loop = self.kinds.get(first.dtype.name) if first.size >= LARGE else None
        if loop is None or any(a.dtype != first.dtype for a in arrays):
            return None
        return loop(arrays, out=out)


_ADDED = Loops("{x} + {y}", "x", "y")


def added(x: Array, y: Array, out: Array | None = None) -> Array:
    """x + y, on all cores if arrays are large; in `out` if that is given, which may be x or y.

    >>> added(np.ones(2), np.ones(2))
    array([2., 2.])
    """
    found = _ADDED(x, y, out=out)
    return np.asarray(np.add(x, y, out=out)) if found is None else found


# -- how arrays lie -------------------------------------------------------------------------------


@record
class _Traversal:
    """The order and the steps in which a loop visits arrays with certain strides."""

    shape: Shape  # of the result
    order: Shape  # its dimensions from the outermost in memory to the innermost: (1, 0)
    places: Shape  # where each dimension is in that order; empty if row-major
    fields: Any  # four sizes, then four steps for each operand and for the result

    @property
    def is_empty(self) -> bool:
        return 0 in self.shape

    def room(self, dtype: Any) -> Array:
        """Memory for the result."""
        if not self.places:
            return np.empty(self.shape, dtype)
        return np.empty([self.shape[d] for d in self.order], dtype).transpose(self.places)


@lru_cache(maxsize=4096)
def plan(lies: tuple[Lie, ...], dtype: Any, out: Lie | None) -> _Traversal | None:
    """The traversal for arrays with these shapes and strides; None if NumPy must compute."""
    try:
        shape = np.broadcast_shapes(*(shape for shape, *_ in lies))
    except ValueError:
        return None  # the NumPy kernel raises the error
    if any(s % size for _, strides, size in lies for s in strides):
        return None
    if out is None:
        strides = _strides_of_result(shape, lies)
        out = shape, tuple(s * dtype.itemsize for s in strides), dtype.itemsize
    elif out[0] != shape or any(s % out[2] for s in out[1]):
        return None
    order = tuple(sorted(range(len(shape)), key=lambda d: -abs(out[1][d])))
    operands = [_reordered(lie, order) for lie in (*lies, out)]
    joined = loading.merged(tuple(shape[d] for d in order), operands, _MOST)
    if joined is None:
        return None
    sizes, steps = joined
    missing = _MOST - len(sizes)
    fields = [1] * missing + list(sizes)
    for each in steps:
        fields += [0] * missing + list(each)
    places = tuple(int(place) for place in np.argsort(order))
    usual = places == tuple(range(len(shape)))
    return _Traversal(shape, order, () if usual else places, loading.block(fields))


def _strides_of_result(shape: Shape, lies: Sequence[Lie]) -> Shape:
    """The strides that NumPy gives to a result of these operands."""
    nothing = np.empty(1, np.uint8)
    if 0 in shape or not shape:
        return row_major(shape)
    operands = [as_strided(nothing, own, strides) for own, strides, _ in lies]
    flags: Any = [["readonly"]] * len(lies) + [["writeonly", "allocate"]]
    return np.nditer([*operands, None], op_flags=flags).operands[-1].strides


def _reordered(lie: Lie, order: Shape) -> tuple[Shape, Shape]:
    """Shape and steps of an operand, with its dimensions in the result's memory order."""
    shape, strides, size = lie
    missing = len(order) - len(shape)
    full, steps = (1,) * missing + shape, (0,) * missing + tuple(s // size for s in strides)
    return tuple(full[d] for d in order), tuple(steps[d] for d in order)


# -- text -----------------------------------------------------------------------------------------

_ROWS_OF_HALVES = """
typedef short eight_halves __attribute__((vector_size(16), aligned(2), may_alias));
typedef float eight_floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef short more_halves __attribute__((vector_size(32), aligned(2), may_alias));
typedef float more_floats __attribute__((vector_size(64), aligned(4), may_alias));
static void row_from_float16(long n, const half_bits *from, float *to) {
  long i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8)
    *(eight_floats *)(to + i) = __builtin_ia32_vcvtph2ps256(*(const eight_halves *)(from + i));
#endif
  for (; i < n; i++) to[i] = ad_from_half_bits(from[i]);
}
static void row_to_float16(long n, const float *from, half_bits *to) {
  long i = 0;
#ifdef __AVX512F__
  const more_halves none = {0};
  for (; i + 16 <= n; i += 16)
    *(more_halves *)(to + i) =
        __builtin_ia32_vcvtps2ph512_mask(*(const more_floats *)(from + i), 0, none, -1);
#endif
#ifdef __F16C__
  for (; i + 8 <= n; i += 8)
    *(eight_halves *)(to + i) = __builtin_ia32_vcvtps2ph256(*(const eight_floats *)(from + i), 0);
#endif
  for (; i < n; i++) to[i] = ad_to_half_bits(from[i]);
}
static void row_from_bfloat16(long n, const bfloat_bits *from, float *to) {
  for (long i = 0; i < n; i++) to[i] = ad_from_bfloat_bits(from[i]);
}
static void row_to_bfloat16(long n, const float *from, bfloat_bits *to) {
  for (long i = 0; i < n; i++) to[i] = ad_to_bfloat_bits(from[i]);
}
"""
# An operand as a contiguous row: itself, or a packed copy.
_PACK = """
static const {c} *pack_{dtype}(const {s} *from, long rows, long columns, long s1, long s0,
    {c} *room) {{
  if ({direct} && s0 == 1 && (rows == 1 || s1 == columns)) return (const {c} *)from;
  for (long r = 0; r < rows; r++) {{
    const {s} *own = from + r * s1;
    {c} *to = room + r * columns;
    const {c} first = {load}(own[0]);
    if (s0 == 1)
      {load_row};
    else if (s0 == 0)
      for (long i = 0; i < columns; i++) to[i] = first;
    else if (s0 == -1)
      for (long i = 0; i < columns; i++) to[i] = {load}(own[-i]);
    else if (s0 == 2)
      for (long i = 0; i < columns; i++) to[i] = {load}(own[2 * i]);
    else
      for (long i = 0; i < columns; i++) to[i] = {load}(own[i * s0]);
  }}
  return room;
}}
"""
_UNPACK = """
static void unpack(const {c} *room, long rows, long columns, long s1, long s0, {s} *to) {{
  for (long r = 0; r < rows; r++, room += columns, to += s1)
    if (s0 == 1)
      {store_row};
    else
      for (long i = 0; i < columns; i++) to[i * s0] = {store}(room[i]);
}}
"""
# numbers become constants of the loop: a conditional load would prevent vectorisation
_COMPUTE = """
static void compute{way}(long n, const {number} *numbers{parameters}, {c} *out) {{
  (void)numbers;
{constants}{common}#pragma omp simd
  for (long i = 0; i < n; i++) {{
{loads}    out[i] = {expression};
  }}
}}
"""
# a block without elements that need the general text
_COMMON = """  int rare = 0;
#pragma omp simd reduction(| : rare)
  for (long i = 0; i < n; i++) {{
{loads}    rare |= (int){rare};
  }}
  if (!rare) {{
#pragma omp simd
    for (long i = 0; i < n; i++) {{
{loads}      out[i] = {expression};
    }}
    return;
  }}
"""
# Threads share blocks, which are several short rows or part of a long row. If nothing is packed,
# blocks are long, since they need not stay in the first cache. If scalars and vectors round alike,
# blocks end at the end of a cache line, so that no vector store crosses two lines.
_RUN = """
#define BLOCK (8192 / (long)sizeof({computed_in}))
#define LONG 16384
#define SHORT 256
#define LINE 64
int elements(const long *z, void *const *objects) {{
  const {number} *numbers = (const {number} *)(objects + {last} + 1);
  const long rows = z[2], columns = z[3], *s = z + 4;
{pointers}
  const int straight = {direct} && columns >= SHORT && s[{inner}] == 1 && ({straight});
  const long block = straight ? {longest} : BLOCK, across = columns >= SHORT ? 1 : BLOCK / columns;
  const long over = (long)((unsigned long)p_out % LINE / sizeof({s}));
  const int shifted = {exact} && straight && z[0] * z[1] * rows == 1 && over;
  const long lead = shifted ? LINE / (long)sizeof({s}) - over : 0;
#pragma omp parallel num_threads(TEAM) if (z[0] * z[1] * rows * columns > 2 * LONG)
  {{
{rooms}
#pragma omp for schedule(static) collapse(4) nowait
    for (long o3 = 0; o3 < z[0]; o3++)
    for (long o2 = 0; o2 < z[1]; o2++)
    for (long r = 0; r < rows; r += across)
    for (long start = lead ? lead - block : 0; start < columns; start += block) {{
      const long c = start < 0 ? 0 : start, end = start + block < columns ? start + block : columns;
      const long h = rows - r < across ? rows - r : across, w = end - c;
#define PLACE(k) (o3 * s[4 * k] + o2 * s[4 * k + 1] + r * s[4 * k + 2] + c * s[4 * k + 3])
      {s} *to = p_out + PLACE({last});
      const int straight = {direct} && s[{inner}] == 1 && (h == 1 || s[{inner} - 1] == w);
      {c} *made = straight ? ({c} *)to : room_out;
      const {c} *row = room_out;
{computed}
      if (!straight) unpack(row, h, w, s[{inner} - 1], s[{inner}], to);
    }}
  }}
  return 0;
}}
"""


def _source(loop: ElementLoop) -> str:
    used = {n: dtype for n, dtype in loop.operands.items() if f"{{{n}}}" in loop.expression}
    parts = [f"{TEAM}\n"]
    if any(C_TYPES[d] != COMPUTED[d] for d in (*used.values(), loop.result)):
        parts += [HALF_TYPES, *(f"static inline {text}\n" for text in HALF_FUNCTIONS.values())]
        parts.append(_ROWS_OF_HALVES)
    parts.append(loop.declarations)
    parts += [_pack(dtype) for dtype in dict.fromkeys(used.values())]
    s, c = C_TYPES[loop.result], COMPUTED[loop.result]
    row = f"row_to_{loop.result}(columns, room, to)" if s != c else _COPY.format("room")
    parts.append(_UNPACK.format(c=c, s=s, store=_converter("to", loop.result), store_row=row))
    parts += [_compute(loop, used, way) for way in _ways(used)]
    return "".join(parts) + _run(loop, used)


_COPY = "for (long i = 0; i < columns; i++) to[i] = {}[i]"


def _converter(which: str, dtype: str) -> str:
    return f"ad_{which}_{C_TYPES[dtype]}" if C_TYPES[dtype] != COMPUTED[dtype] else ""


def _ways(used: dict[str, str]) -> list[tuple[str, ...]]:
    """The operands that may be constant within a block: none, or one of the first few."""
    plain = len(used) in (2, 3) and all(C_TYPES[d] == COMPUTED[d] for d in used.values())
    return [(), *((n,) for n in used if plain)]


def _compute(loop: ElementLoop, used: dict[str, str], way: tuple[str, ...]) -> str:
    number = _NUMBERS[loop.kind][1]
    names = {n: f"v_{n}" for n in used} | {n: f"n_{n}" for n in loop.numbers}
    constants = [
        f"  const {loop.c_type} n_{n} = {_number(loop, k)};\n"
        for k, n in enumerate(loop.numbers)
        if f"{{{n}}}" in loop.expression
    ]
    constants += [f"  const {COMPUTED[used[n]]} v_{n} = a_{n}[0];\n" for n in way]
    loads = "".join(
        f"    const {COMPUTED[d]} v_{n} = a_{n}[i];\n" for n, d in used.items() if n not in way
    )
    quick, rare = (text.format_map(names) for text in loop.common)
    return _COMPUTE.format(
        common=_COMMON.format(rare=rare, expression=quick, loads=loads) if quick else "",
        loads=loads,
        way="".join(f"_{n}" for n in way), c=COMPUTED[loop.result], number=number,
        constants="".join(constants),
        parameters="".join(f", const {COMPUTED[d]} *a_{n}" for n, d in used.items()),
        expression=loop.expression.format_map(names),
    )  # fmt: skip


def _number(loop: ElementLoop, place: int) -> str:
    """The number at an index, as a C constant in the type of the computation."""
    if loop.kind != "complex":
        return f"({loop.c_type})numbers[{place}]"
    part = loop.c_type.partition(" ")[0]
    parts = (f"({part})numbers[{2 * place + k}]" for k in (0, 1))
    return f"__builtin_complex({', '.join(parts)})"


def _pack(dtype: str) -> str:
    s, c = C_TYPES[dtype], COMPUTED[dtype]
    row = f"row_from_{dtype}(columns, own, to)" if s != c else _COPY.format("own")
    load = _converter("from", dtype)
    return _PACK.format(dtype=dtype, s=s, c=c, load=load, load_row=row, direct=int(s == c))


def _run(loop: ElementLoop, used: dict[str, str]) -> str:
    s, c = C_TYPES[loop.result], COMPUTED[loop.result]
    places = {name: k for k, name in enumerate(loop.operands)}
    last = len(places)
    address = f"*(void **)((char *)objects[{{}}] + {build.data_offset()})"
    pointers: list[str] = []
    rooms: list[str] = []
    packed: dict[str, str] = {}  # the C call that packs an operand into a row
    for name, dtype in used.items():
        stored, own = C_TYPES[dtype], COMPUTED[dtype]
        k = places[name]
        pointers.append(f"  const {stored} *p_{name} = {address.format(k)};")
        pointers.append(f"  if ((unsigned long)p_{name} % sizeof({stored})) return 1;")
        rooms.append(f"    {own} room_{name}[BLOCK];")
        packed[name] = (
            f"pack_{dtype}(p_{name} + PLACE({k}), h, w, s[{4 * k + 2}], s[{4 * k + 3}], {{}});\n"
        )
    pointers.append(f"  {s} *p_out = {address.format(last)};")
    pointers.append(f"  if ((unsigned long)p_out % sizeof({s})) return 1;")
    rooms.append(f"    {c} room_out[BLOCK];")
    direct = s == c and all(C_TYPES[d] == COMPUTED[d] for d in used.values())
    return _RUN.format(
        s=s, c=c, number=_NUMBERS[loop.kind][1], last=last,
        inner=4 * last + 3, direct=int(s == c), pointers="\n".join(pointers),
        rooms="\n".join(rooms),
        computed=_converted(loop, packed) or _computed(used, places, packed),
        straight=" || ".join(_straight(used, places, w) for w in _ways(used)) if direct else "0",
        # a block with a rare element is computed by the general text
        longest="BLOCK" if loop.common[0] else "LONG", exact=int(loop.is_exact),
        computed_in=loop.c_type,
    )  # fmt: skip


def _straight(used: dict[str, str], places: dict[str, int], way: tuple[str, ...]) -> str:
    """The C condition that operands are contiguous along a row, but for constant ones in `way`."""
    steps = (f"s[{4 * places[n] + 3}] == {int(n not in way)}" for n in used)
    return " && ".join(steps) or "1"


def _converted(loop: ElementLoop, packed: dict[str, str]) -> str:
    """The C text of a block that is only copied or converted: packing or unpacking does it."""
    for name, dtype in loop.operands.items():
        if loop.expression != f"{{{name}}}" or COMPUTED[dtype] != COMPUTED[loop.result]:
            continue
        if C_TYPES[loop.result] != COMPUTED[loop.result]:
            return "      row = " + packed[name].format(f"room_{name}")
        return (
            f"      const {COMPUTED[dtype]} *whole = {packed[name].format('made')}"
            "      if (whole != made) __builtin_memcpy(made, whole, h * w * sizeof(*made));"
        )
    return ""


def _computed(used: dict[str, str], places: dict[str, int], packed: dict[str, str]) -> str:
    """The C text that chooses a way for a block and computes it."""
    operands = "".join(f", a_{name}" for name in used)
    lines = []
    for way in _ways(used)[1:]:
        given = "".join(f", p_{n} + PLACE({places[n]})" for n in used)
        lines.append(f"      if (h == 1 && {_straight(used, places, way)})")
        lines.append(f"        compute{''.join(f'_{n}' for n in way)}(w, numbers{given}, made);")
        lines.append("      else")
    packing = "".join(
        f"        const {COMPUTED[d]} *a_{n} = {packed[n].format(f'room_{n}')}"
        for n, d in used.items()
    )
    lines.append(f"      {{\n{packing}        compute(h * w, numbers{operands}, made);\n      }}")
    return "\n".join(lines)

"""The C source of an `ElementLoop`: its loop programs, and a function that goes over the blocks.

Blocks stay in the cache. An operand that does not lie contiguously in a block, and one of float16
or bfloat16, is packed into a row first, so there is one loop over contiguous rows, which the
compiler vectorises. Threads share the blocks, and values do not depend on who computes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adjoint.core.c_types import C_TYPES, COMPUTED
from adjoint.core.dtypes import HALVES, NAMES
from adjoint.core.threads import TEAM
from adjoint.expressions import functions
from adjoint.expressions.trees import Operand
from adjoint.loops.element_loops import NUMBER_TYPES, Element
from adjoint.loops.element_programs import (
    FOUND,
    NUMBERS,
    PACKED_STEPS,
    RESULT,
    SIZES,
    UNPACKED_STEPS,
    choosing,
    computing,
    has_rare,
    operand_name,
    packing,
    unpacking,
)
from adjoint.loops.loop_programs import LoopProgram
from adjoint.loops.printer import printed
from adjoint.toolchain import build

_LINE = 64  # bytes of a line of the cache
# rows of float16 by the processor's own conversions, where it has them
_ROWS_OF_FLOAT16 = """
typedef short eight_halves __attribute__((vector_size(16), aligned(2), may_alias));
typedef float eight_floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef short more_halves __attribute__((vector_size(32), aligned(2), may_alias));
typedef float more_floats __attribute__((vector_size(64), aligned(4), may_alias));
static void row_from_float16(long n, const half_bits *from, float *to) {
  long i = 0;
#ifdef __AVX512F__
  const more_floats none = {0};
  for (; i + 16 <= n; i += 16)
    *(more_floats *)(to + i) =
        __builtin_ia32_vcvtph2ps512_mask(*(const more_halves *)(from + i), none, -1, 4);
#endif
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
"""
_CALLED_OF_ROWS = frozenset(("ad_from_half_bits", "ad_to_half_bits"))
# The program for columns at a known step, or for any, packs rows; those of float16 are converted.
_PACK = """
static {c} *pack_{dtype}({s} *from, long rows, long columns, long s1, long s0, {c} *room) {{
  if ({direct} && s0 == 1 && (rows == 1 || s1 == columns)) return ({c} *)from;
{ways}
  return room;
}}
"""
_UNPACK = """
static void unpack_{dtype}({c} *room, long rows, long columns, long s1, long s0, {s} *to) {{
{ways}
}}
"""
# Threads share blocks, which are several short rows or part of a long row. If nothing is packed,
# blocks are long, since they need not stay in the first cache. If scalars and vectors round alike,
# blocks end at the end of a cache line, so that no vector store crosses two lines.
_DRIVER = """
#define BLOCK (8192 / (long)sizeof({computed_in}))
#define LONG 16384
#define SHORT 256
#define LINE {line}
#define PLACE(k) (o3 * s[4 * k] + o2 * s[4 * k + 1] + r * s[4 * k + 2] + c * s[4 * k + 3])
int elements(const long *z, void *const *objects) {{
  {number} *numbers = ({number} *)(objects + {count});
  const long rows = z[2], columns = z[3], *s = z + 4;
  (void)numbers;
{pointers}
  const int straight = columns >= SHORT && ({straight});
  const long block = straight ? {longest} : BLOCK, across = columns >= SHORT ? 1 : BLOCK / columns;
  const long over = (long)((unsigned long)p_{main} % LINE / sizeof(*p_{main}));
  const int shifted = {exact} && straight && z[0] * z[1] * rows == 1 && over;
  const long lead = shifted ? LINE / (long)sizeof(*p_{main}) - over : 0;
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
{before}
{computed}
{after}
    }}
  }}
  return 0;
}}
"""


def source(element: Element) -> str:
    """The C source of the loop of an element."""
    moved, computed = _moving(element), _computing(element)
    called = frozenset[str]().union(*(program.calls for program in computed))
    needed = called.union(*(program.calls for programs in moved.values() for program in programs))
    has_float16 = "float16" in _stored(element)
    needed |= _CALLED_OF_ROWS if has_float16 else set()
    prelude = functions.prelude(sorted(needed), build.data_offset())
    rows = _ROWS_OF_FLOAT16 if has_float16 else ""
    texts = [_choice(*which, programs) for which, programs in moved.items()]
    texts += [printed(program, program.name) for program in computed]
    # vectors and scalars round alike: values do not depend on where a block begins
    is_exact = functions.rounds_alike(called)
    return "".join(
        [f"{prelude}{TEAM}\n", rows, element.declared, *texts, _driver(element, is_exact=is_exact)]
    )


def _moving(element: Element) -> dict[tuple[str, bool], list[LoopProgram]]:
    """The programs that pack blocks of a dtype (True), and those that unpack them."""
    found = {(d, True): [packing(d, k) for k in PACKED_STEPS] for d in element.used.values()}
    for _, d in element.results:
        found[d, False] = [unpacking(d, k) for k in UNPACKED_STEPS]
    return found


def _computing(element: Element) -> list[LoopProgram]:
    """The programs that compute a block."""
    found = []
    for way in ((), *_ways(element)):
        found += [*(choosing(element, way) if has_rare(element) else ()), computing(element, way)]
    return found


def _stored(element: Element) -> list[str]:
    """The dtypes of the arrays."""
    return [*element.used.values(), *(dtype for _, dtype in element.results)]


def _is_half(dtype: str) -> bool:
    return NAMES[dtype] in HALVES


def _choice(dtype: str, packs: bool, programs: Sequence[LoopProgram]) -> str:
    """The programs that move a block of a dtype, and the function that chooses one by the step."""
    texts, ways = list[str](), list[str]()
    for step, program in zip(PACKED_STEPS if packs else UNPACKED_STEPS, programs, strict=True):
        arrays = ", ".join(v.name for v in program.pointers)
        call = f"{program.name}({arrays}, 0, rows, columns, s1, s0);"
        if dtype == "float16" and step == 1:
            call = _ROW_OF_FLOAT16[packs]
        else:
            texts.append(printed(program, program.name, SIZES))
        ways.append(f"  {'' if step is None else f'if (s0 == {step}) '}{call}")
    s, c = C_TYPES[dtype], COMPUTED[dtype]
    template, chosen = _PACK if packs else _UNPACK, "\n  else\n".join(ways)
    text = template.format(dtype=dtype, s=s, c=c, direct=int(s == c), ways=chosen)
    return "".join([*texts, text])


_ROW_OF_FLOAT16 = (
    "for (long r = 0; r < rows; r++) row_to_float16(columns, room + r * columns, to + r * s1);",
    "for (long r = 0; r < rows; r++) row_from_float16(columns, from + r * s1, room + r * columns);",
)


def _ways(element: Element) -> list[tuple[str, ...]]:
    """The operands, one at a time, that may be constant within a block."""
    used = element.used
    plain = len(used) in (2, 3) and not element.over and not any(map(_is_half, used.values()))
    return [(name,) for name in used] if plain else []


# -- the function that goes over the blocks -------------------------------------------------------


def _driver(element: Element, *, is_exact: bool) -> str:
    used = element.used
    places = {n: k for k, (n, _) in enumerate(element.operands)}
    count = len(places) + 1
    arrays = [(n, places[n], d) for n, d in used.items()]
    made = [] if element.over else [(RESULT, count - 1, element.results[0][1])]
    halves = any(_is_half(d) for _, _, d in (*arrays, *made))
    ways = " || ".join(_straight(used, places, way) for way in ((), *_ways(element)))
    return _DRIVER.format(
        line=_LINE,
        computed_in=C_TYPES[element.computed.name],
        number=NUMBER_TYPES[element.kind],
        count=count,
        pointers="\n".join(line for each in (*arrays, *made) for line in _pointer(*each)),
        main=element.over[0] if element.over else RESULT,
        straight="0" if halves else f"s[{4 * count - 1}] == 1 && ({ways})",
        # a block with a rare element is computed by the general text
        longest="BLOCK" if has_rare(element) else "LONG",
        exact=int(is_exact),
        rooms="\n".join(_room(n, d) for n, _, d in (*arrays, *made)),
        before="\n".join(_begun(*each) for each in made),
        computed="\n".join(_copied(element, places) or _computed(element, places)),
        after="\n".join(_ended(*each) for each in made),
    )


def _pointer(name: str, place: int, dtype: str) -> list[str]:
    """The C lines that find the data of an array object; elements must be aligned."""
    c_type = C_TYPES[dtype]
    return [
        f"  {c_type} *p_{name} = DATA(objects, {place});",
        f"  if ((unsigned long)p_{name} % sizeof({c_type})) return 1;",
    ]


def _room(name: str, dtype: str) -> str:
    """The C line that declares the memory of a packed row."""
    return f"    {COMPUTED[dtype]} room_{name}[BLOCK] __attribute__((aligned({_LINE})));"


def _begun(name: str, place: int, dtype: str) -> str:
    """The C lines that decide where a block of a result is made."""
    s, c, step = C_TYPES[dtype], COMPUTED[dtype], 4 * place + 3
    direct = f"{int(s == c)} && s[{step}] == 1 && (h == 1 || s[{step - 1}] == w)"
    return (
        f"      {s} *to_{name} = p_{name} + PLACE({place});\n"
        f"      const int straight_{name} = {direct};\n"
        f"      {c} *made_{name} = straight_{name} ? ({c} *)to_{name} : room_{name};"
    )


def _ended(name: str, place: int, dtype: str) -> str:
    step = 4 * place + 3
    moved = f"made_{name}, h, w, s[{step - 1}], s[{step}], to_{name}"
    return f"      if (!straight_{name}) unpack_{dtype}({moved});"


def _straight(used: Mapping[str, str], places: Mapping[str, int], way: Sequence[str]) -> str:
    """The C condition that operands are contiguous along a row, but for constant ones in `way`."""
    steps = [f"s[{4 * places[n] + 3}] == {int(n not in way)}" for n in used]
    return " && ".join(steps) or "1"


def _copied(element: Element, places: Mapping[str, int]) -> list[str]:
    """The C lines of a block that is only copied or converted: packing or unpacking does it."""
    tree, result = element.results[0]
    name = tree.name if isinstance(tree, Operand) else ""
    dtype = element.used.get(name)
    if element.over or dtype is None or COMPUTED[dtype] != COMPUTED[result]:
        return []
    out, c = RESULT, COMPUTED[result]
    if _is_half(result):
        return [f"      made_{out} = {_packed(name, dtype, places, f'room_{name}')};"]
    whole = _packed(name, dtype, places, f"made_{out}")
    copy = f"if (whole != made_{out}) __builtin_memcpy(made_{out}, whole, h * w * sizeof(*whole));"
    return [f"      {c} *whole = {whole};", f"      {copy}"]


def _packed(name: str, dtype: str, places: Mapping[str, int], room: str) -> str:
    """The C call that gives a block of an operand as contiguous rows."""
    k = places[name]
    steps = f"h, w, s[{4 * k + 2}], s[{4 * k + 3}]"
    return f"pack_{dtype}(p_{name} + PLACE({k}), {steps}, {room})"


def _computed(element: Element, places: Mapping[str, int]) -> list[str]:
    """The C lines that choose a way for a block and compute it."""
    lines = []
    for way in _ways(element):
        given = {n: f"p_{n} + PLACE({places[n]})" for n in element.used}
        lines += [
            f"      if (h == 1 && {_straight(element.used, places, way)}) {{",
            *_calls(element, way, given, "w"),
            "      } else",
        ]
    rows = {n: operand_name(n) for n in element.used}
    packs = [
        f"        {COMPUTED[d]} *{rows[n]} = {_packed(n, d, places, f'room_{n}')};"
        for n, d in element.used.items()
    ]
    calls = _calls(element, (), rows, "h * w")
    written = [_written_back(n, places[n], element.used[n]) for n in element.over]
    return [*lines, "      {", *packs, *calls, *written, "      }"]


def _written_back(name: str, place: int, dtype: str) -> str:
    """The C line that writes a packed operand, over which a result lies, to memory."""
    row, steps = operand_name(name), f"s[{4 * place + 2}], s[{4 * place + 3}]"
    moved = f"{row}, h, w, {steps}, p_{name} + PLACE({place})"
    return f"        if ({row} == room_{name}) unpack_{dtype}({moved});"


def _calls(element: Element, way: Sequence[str], given: Mapping[str, str], count: str) -> list[str]:
    """The C lines that call the programs for a block, with the texts of its operands."""
    names = {operand_name(n): text for n, text in given.items()}
    names |= {RESULT: f"made_{RESULT}", NUMBERS: "numbers", FOUND: "found"}
    whole = f"{_call(computing(element, way), names, count)};"
    if not has_rare(element):
        return [f"        {whole}"]
    finds, computes = (_call(p, names, count) for p in choosing(element, way))
    return [
        "        int found[1];",
        f"        {finds};",
        f"        if (found[0]) {whole}",
        f"        else {computes};",
    ]


def _call(program: LoopProgram, names: Mapping[str, str], count: str) -> str:
    """The C call of a program for elements 0 to count - 1."""
    arguments = []
    for value, first in program.pointers.items():
        arguments.append(f"{names[value.name]} + {first}" if first else names[value.name])
    return f"{program.name}({', '.join([*arguments, '0', count])})"

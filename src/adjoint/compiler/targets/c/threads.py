"""C functions that share the rows of a loop program among threads, and that join the accumulators
of their parts. Each is written once for all steps that use it.

How many parts a task has depends on its work alone, and each part has its own accumulators. So
results do not depend on the number of threads, nor on which thread runs which part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from adjoint.compiler.target import Target, Threads
from adjoint.core.c_types import C_TYPES
from adjoint.core.symbolic_sizes import is_open
from adjoint.core.threads import TEAM
from adjoint.loops.joining import taken
from adjoint.loops.loop_programs import LoopProgram, Total


def shared_declarations(target: Target) -> str:
    """What tasks need: PARTS(work, sums) is how many parts a task has, few enough that the sums of
    all are quick to join. `step_of` is how many rows a part has: whole vectors, whole blocks of
    rows, or whole pieces of a loop whose calls are split off, if it has several.
    """
    threads, vectors, lanes = target.threads, target.vectors, target.cache.lanes
    return f"""{TEAM}
#define THREADS SMALLER(TEAM, {threads.most})
#define PARTS(work, sums) LARGER(2, SMALLER({threads.parts}, \\
  SMALLER((work) / {threads.part}, (work) / ({threads.joined} * (sums) + 1))))
static inline long step_of(const long rows, const long parts) {{
  const long step = LARGER(1, (rows + parts - 1) / parts);
  const long unit = step >= 4 * {vectors.piece} ? {vectors.piece} : step >= 16 * {lanes} ? {lanes}
    : step >= 4 * {vectors.widest} ? {vectors.widest} : 1;
  return (step + unit - 1) / unit * unit;
}}
"""


def own_arguments(
    made: LoopProgram, partial: str, scratch: str, status: str = "status"
) -> list[str]:
    """Further arguments of a loop program: accumulators, status word, scratch memory."""
    asked = ((made.partials, partial), (made.checks, status), (made.rooms(), scratch))
    return [text for wanted, text in asked if wanted]


def own_memory(made: LoopProgram) -> str:
    """C text of a loop program's scratch memory, behind accumulators of symbolic size."""
    return f"scratch + {made.partial}" if is_open(made.partial) else "scratch"


class Shared(NamedTuple):
    """Functions called NAME, NAME_part and so on, one of which runs one part of a task."""

    structure: str  # declares what a part reads: "struct NAME_task { long rows; };"
    functions: str


def task(fields: Mapping[str, str], body: str, more: str = "") -> Shared:
    """The function NAME_part, which runs one part of a task, before further functions.

    `fields` are the C types of what it reads, by name. `body` may use these names, and the numbers
    `part` and `member`.
    """
    declared = " ".join(f"{_declared(kind, n)};" for n, kind in fields.items())
    given = " ".join(f"{_declared(kind, n)} = task->{n};" for n, kind in fields.items())
    used = " ".join(f"(void){n};" for n in (*fields, "part", "member"))
    text = f"""static void NAME_part(void *given, const long part, const long member) {{
  const struct NAME_task *const task = given;
  {given}
  {used}
{body}
}}
"""
    return Shared(f"struct NAME_task {{ {declared} }};\n", text + more)


def _declared(kind: str, name: str) -> str:
    return f"{kind}{name}" if kind.endswith("*") else f"{kind} {name}"


def sharing(made: LoopProgram, name: str, sizes: Sequence[str]) -> Shared:
    """The function NAME, which shares the rows of a loop program among threads.

    It returns the number of parts, of which there are at most `most`. Accumulators belong to parts,
    scratch memory to threads.
    """
    kinds = [f"{C_TYPES[v.dtype.name]} *" for v in made.pointers]
    arrays = {f"p{k}": kind for k, kind in enumerate(kinds)}
    own = own_arguments(made, "double *partial", "double *scratch", "int *status")
    fields = {**arrays, "rows": "long", "step": "long"}
    fields |= {text.split("*")[1]: f"{text.split('*')[0]}*" for text in own}
    fields |= dict.fromkeys(sizes, "long")
    index = "part" if is_open(made.partial) else "member"
    mine = own_arguments(
        made, f"partial + part * {stride(made)}", f"scratch + {index} * {made.scratch}"
    )
    rows = "part * step", "SMALLER((part + 1) * step, rows)"
    given = ["const long rows", "const long most", *own, *(f"const long {size}" for size in sizes)]
    body = f"  {name}({', '.join([*arrays, *rows, *mine, *sizes])});"
    share = f"""static int NAME({", ".join([*map(_declared, kinds, arrays), *given])}) {{
  const long step = step_of(rows, most), parts = (rows + step - 1) / step;
  struct NAME_task task = {{{", ".join(fields)}}};
  share_parts(NAME_part, &task, parts, THREADS);
  return parts;
}}
"""
    return task(fields, body, share)


def stride(made: LoopProgram) -> Any:
    """The distance between the accumulators of one part and of the next."""
    return made.scratch if is_open(made.partial) else made.partial


def joining_name(total: Total) -> str:
    """The name of the function that joins accumulators of a kind: total_sum_double_double."""
    out = C_TYPES[total.node.output.dtype.name]
    return "_".join(("total", total.kind, C_TYPES[total.dtype.name], out)).replace(" ", "_")


def joining(total: Total) -> str:
    """C text of the function that joins accumulators of a kind.

    Those of the first part take in those of the others, which are `apart` numbers apart, always in
    the same order.
    """
    c_type = C_TYPES[total.dtype.name]
    divides = total.kind == "mean"
    divisor, divided = (", const double divisor", " / divisor") if divides else ("", "")
    take = taken(total.kind, total.dtype, "from[k]", "one")
    return f"""static void NAME({C_TYPES[total.node.output.dtype.name]} *restrict to, \
{c_type} *restrict from, const long count, const long parts, const long apart{divisor}) {{
  for (long t = 1; t < parts; t++)
    for (long k = 0; k < count; k++) {{ const {c_type} one = from[t * apart + k]; {take} }}
  for (long k = 0; k < count; k++) to[k] = from[k]{divided};
}}
"""


def adding(c_type: str, threads: Threads) -> Shared:
    """The function NAME, which adds the sums of parts, always in the same order.

    These are `apart` numbers apart. Threads share the elements.
    """
    fields = {"to": f"{c_type} *", "from": f"const {c_type} *"}
    fields |= dict.fromkeys(("count", "parts", "apart", "step"), "long")
    body = """  const long low = part * step, high = SMALLER(low + step, count);
  for (long k = low; k < high; k++) to[k] = from[k];
  for (long t = 1; t < parts; t++)
    for (long k = low; k < high; k++) to[k] += from[t * apart + k];"""
    share = f"""static void NAME({c_type} *to, const {c_type} *from, const long count, \
const long parts, const long apart) {{
  const long step = step_of(count, parts * count < {threads.awake} ? 1 : {threads.parts});
  struct NAME_task task = {{{", ".join(fields)}}};
  share_parts(NAME_part, &task, (count + step - 1) / step, THREADS);
}}
"""
    return task(fields, body, share)

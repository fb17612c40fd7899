"""C functions that share the rows of a loop program among threads, and that join the accumulators
of threads. Each is written once for all steps that use it.

A parallel region in each step would take longer to compile than a whole program's calls, since the
compiler makes a function of each region.
"""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.core.c_types import C_TYPES
from adjoint.core.symbolic_sizes import is_open
from adjoint.loops.joining import taken
from adjoint.loops.loop_programs import LoopProgram, Total


def own_arguments(
    made: LoopProgram, partial: str, scratch: str, status: str = "status"
) -> list[str]:
    """Further arguments of a loop program: accumulators, status word, scratch memory."""
    asked = ((made.partials, partial), (made.checks, status), (made.rooms(), scratch))
    return [text for wanted, text in asked if wanted]


def own_memory(made: LoopProgram) -> str:
    """C text of a loop program's scratch memory, behind accumulators of symbolic size."""
    return f"scratch + {made.partial}" if is_open(made.partial) else "scratch"


def sharing(made: LoopProgram, name: str, sizes: Sequence[str]) -> str:
    """C text of the function NAME, which shares the rows of a loop program among threads in equal
    parts.

    If there is little work, one thread runs all rows. The function returns the number of threads.
    """
    kinds = [C_TYPES[v.dtype.name] for v in made.pointers]
    arrays = [f"p{k}" for k in range(len(kinds))]
    arguments = [f"{kind} *{p}" for kind, p in zip(kinds, arrays, strict=True)]
    arguments += ["const int little", "const long rows"]
    arguments += own_arguments(made, "double *partial", "double *scratch", "int *status")
    arguments += ["const long stride", "const long each", "int *threads"]
    arguments += [f"const long {size}" for size in sizes]

    def call(low: str, high: str, thread: str) -> str:
        mine = own_arguments(made, f"partial + {thread} * stride", f"scratch + {thread} * each")
        return f"{name}({', '.join([*arrays, low, high, *mine, *sizes])});"

    return f"""static void NAME({", ".join(arguments)}) {{
  int found = 1;
  (void)stride; (void)each;
  if (little) {call("0", "rows", "0")}
  else
  #pragma omp parallel num_threads(THREADS)
  {{ const long thread = THREAD, count = COUNT;
    if (thread == 0) found = count;
    const long step = (rows + count - 1) / count;
    const long low = SMALLER(thread * step, rows);
    const long high = SMALLER(low + step, rows);
    {call("low", "high", "thread")}
  }}
  *threads = found;
}}
"""


def joining_name(total: Total) -> str:
    """The name of the function that joins accumulators of a kind: total_sum_double_double."""
    out = C_TYPES[total.node.output.dtype.name]
    return "_".join(("total", total.kind, C_TYPES[total.dtype.name], out)).replace(" ", "_")


def joining(total: Total) -> str:
    """C text of the function that joins accumulators of a kind.

    Those of the first thread take in those of the others, which are `apart` numbers apart, always
    in the same order.
    """
    c_type = C_TYPES[total.dtype.name]
    divides = total.kind == "mean"
    divisor, divided = (", const double divisor", " / divisor") if divides else ("", "")
    take = taken(total.kind, total.dtype, "from[k]", "one")
    return f"""static void NAME({C_TYPES[total.node.output.dtype.name]} *restrict to, \
{c_type} *restrict from, const long count, const long threads, const long apart{divisor}) {{
  for (long t = 1; t < threads; t++)
    for (long k = 0; k < count; k++) {{ const {c_type} one = from[t * apart + k]; {take} }}
  for (long k = 0; k < count; k++) to[k] = from[k]{divided};
}}
"""

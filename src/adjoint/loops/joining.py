"""How accumulators take elements in, in C and in OpenMP's reductions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.expressions.c_text import printed
from adjoint.expressions.trees import Operand
from adjoint.loops.accumulators import ACCUMULATORS
from adjoint.loops.loop_programs import ForLoop, LoopProgram, Total

# The OpenMP reduction of each accumulator, of real numbers and of int64; `most` and `fewest` keep
# NaN and are declared in DECLARED.
_CLAUSES = {
    "sum": ("+", "+"), "mean": ("+", "+"), "prod": ("*", "*"), "any": ("|", "|"), "all": ("&", "&"),
    "amax": ("most", "max"), "amin": ("fewest", "min"),
}  # fmt: skip
_OURS = frozenset(("most", "fewest"))
DECLARED = """#pragma omp declare reduction(most : double, float : omp_out = omp_in > omp_out \\
  || omp_in != omp_in ? omp_in : omp_out) initializer(omp_priv = -HUGE_VAL)
#pragma omp declare reduction(fewest : double, float : omp_out = omp_in < omp_out \\
  || omp_in != omp_in ? omp_in : omp_out) initializer(omp_priv = HUGE_VAL)
"""


def declarations(programs: Iterable[LoopProgram]) -> str:
    """Declarations of the reductions of our own that loop programs use; "" if they use none."""
    loops = (s for p in programs for s in p.statements() if isinstance(s, ForLoop))
    named = (_clause(total) for loop in loops for total in loop.totals)
    return DECLARED if not _OURS.isdisjoint(named) else ""


def clause(total: Total) -> str:
    """The OpenMP clause of an accumulator that the lanes of a vector share."""
    return f" reduction({_clause(total)}:{total.name})"


def _clause(total: Total) -> str:
    return _CLAUSES[total.kind][total.dtype is dtypes.int64]


def taken(kind: str, dtype: DType, into: str, value: str) -> str:
    """C statements that take a value into an accumulator; both are C texts."""
    return " ".join([text.format(total=into, value=value) for text in _statements(kind, dtype)])


@cache
def _statements(kind: str, dtype: DType) -> list[str]:
    """C statements that take `{value}` into `{total}`."""
    total, value = Operand("total", dtype), Operand("value", dtype)
    joins = ACCUMULATORS[kind].joins
    return [f"{{total}} = {printed(join(total, value))};" for join in joins]

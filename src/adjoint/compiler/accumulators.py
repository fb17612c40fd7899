"""Accumulators of reductions: how they start, take values in, and join."""

from __future__ import annotations

import math
from typing import Any

from adjoint.core.records import record


@record
class Accumulator:
    """One way to reduce many numbers to one. Text pairs are for real numbers and `long long`."""

    take: str  # C statement that takes one more value in
    starts: tuple[str, str]
    # the OpenMP reduction clause; `most` and `fewest` keep NaN and are declared in DECLARED
    joins: tuple[str, str]
    of_nothing: Any = None  # the result of a reduction over no values
    sums: bool = False  # whether it adds up, so that small numbers may vanish next to a large total
    chooses: bool = False  # whether the result is one of the values, unchanged

    def start(self, c_type: str) -> str:
        return self.starts[c_type == "long long"]

    def clause(self, c_type: str) -> str:
        return self.joins[c_type == "long long"]


ACCUMULATORS = {
    "sum": Accumulator("{acc} += {v};", ("0", "0"), ("+", "+"), 0, sums=True),
    "mean": Accumulator("{acc} += {v};", ("0", ""), ("+", ""), math.nan, sums=True),
    "prod": Accumulator("{acc} *= {v};", ("1", "1"), ("*", "*"), 1),
    "any": Accumulator("{acc} |= {v} != 0;", ("", "0"), ("", "|"), False),
    "all": Accumulator("{acc} &= {v} != 0;", ("", "1"), ("", "&"), True),
    "amax": Accumulator(
        "{acc} = {v} > {acc} ? {v} : {acc}; {acc} = {v} != {v} ? {v} : {acc};",
        ("-HUGE_VAL", "LEAST"),
        ("most", "max"),
        chooses=True,
    ),
    "amin": Accumulator(
        "{acc} = {v} < {acc} ? {v} : {acc}; {acc} = {v} != {v} ? {v} : {acc};",
        ("HUGE_VAL", "(-1 - LEAST)"),
        ("fewest", "min"),
        chooses=True,
    ),
}
DECLARED = """#pragma omp declare reduction(most : double, float : omp_out = omp_in > omp_out \\
  || omp_in != omp_in ? omp_in : omp_out) initializer(omp_priv = -HUGE_VAL)
#pragma omp declare reduction(fewest : double, float : omp_out = omp_in < omp_out \\
  || omp_in != omp_in ? omp_in : omp_out) initializer(omp_priv = HUGE_VAL)
"""

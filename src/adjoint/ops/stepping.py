"""A loop along the first dimension, for decompositions that step through time.

Its steps run one after another; once programs are traced, graph/control/scan_region.py replaces it
by its own `scan`, which makes one node of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.ops.operator import packet

Flat = list[Any]
Step = Callable[[Flat, Flat, Flat], tuple[Flat, Flat]]  # constants, carry, x -> carry, y


def stepwise(
    step: Step, constants: Flat, start: Flat, xs: Flat, length: int, backwards: bool
) -> Flat:
    """The last carry and the stacked results of at least one step."""
    columns = [packet("unbind")(x, 0) for x in xs]
    carry, rows = list(start), []
    for i in reversed(range(length)) if backwards else range(length):
        carry, y = step(constants, carry, [column[i] for column in columns])
        rows.append(y)
    if backwards:
        rows.reverse()
    return [*carry, *(packet("stack")([row[j] for row in rows]) for j in range(len(rows[0])))]


scan: Callable[[Step, Flat, Flat, Flat, int, bool], Flat] = stepwise

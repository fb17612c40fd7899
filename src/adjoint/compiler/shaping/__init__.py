"""Nests as loop programs: which axes run where, vectors, cuts, tiles, accumulators.

A nest becomes bands, one for each of its loops: axes around the statements of one iteration. Each
function in `PASSES` changes the draft of one kernel; the last ones work on its loops.

Rows are what threads share. Vectors run along the innermost axis of each band, or, where those are
short, along a block of rows (`block`): then values that stay in the nest are kept one block at a
time, transposed, and reductions of a row need no horizontal sums. Where a condition on a position
decides what is read (the pieces of a value), a loop is cut there and each part has its own body.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from adjoint.compiler.loops import Kernel, ends_early
from adjoint.compiler.nests import Nest
from adjoint.compiler.plan import Plan
from adjoint.compiler.shaping.bands import make_bands
from adjoint.compiler.shaping.building import build_loops, finished
from adjoint.compiler.shaping.draft import Draft, NotTurned, Turned
from adjoint.compiler.shaping.rows import choose_rows, keep_rows, share_rows
from adjoint.compiler.shaping.totals import narrow_totals
from adjoint.compiler.shaping.trimming import cut_loops, pad_short, tile
from adjoint.core.sizes import is_open
from adjoint.native import cache

MOST_PARTIAL = 1 << 15  # accumulators of one thread


def kernel(plan: Plan, nest: Nest, name: str, turned: Turned | None = None) -> Kernel:
    """The loop program of a nest."""
    draft = Draft(plan, nest, Kernel(name, 1), turned)
    if turned is not None:
        draft.kernel.turned = frozenset(turned.values)
    for change in PASSES:
        change(draft)
    if cache.debugging():
        draft.kernel.comments = _comments(nest)
    return draft.kernel


def _comments(nest: Nest) -> list[str]:
    """Which lines of the user's program a nest comes from."""
    places: dict[str, list[str]] = {}
    for member in nest.members:
        made = [v.node for v in member.loop.inside]
        for node in (*made, *member.loop.combining):
            if node is not None:
                places.setdefault(node.place or "no line", []).append(node.op.name)
    return [f"/* {place}: {', '.join(names)} */" for place, names in places.items()]


def store_early(draft: Draft) -> None:
    """Let values leave registers as soon as they are made."""
    draft.kernel.body = ends_early(draft.kernel.body)


def count_work(draft: Draft) -> None:
    """How much there is to do, and whether threads can share it."""
    made = draft.kernel
    made.work = sum(math.prod(m.loop.space) * m.body.work() for m in draft.nest.members)
    sequential = any(m.sequential for m in draft.nest.members)
    few = is_open(made.partial) or made.partial <= MOST_PARTIAL
    made.divisible = int(made.rows) > 1 and few and not sequential and not made.whole


Pass = Callable[[Draft], None]
PASSES: tuple[Pass, ...] = (
    make_bands, choose_rows, keep_rows, share_rows, build_loops, tile, cut_loops, pad_short,
    narrow_totals, store_early, count_work,
)  # fmt: skip

__all__ = ["MOST_PARTIAL", "PASSES", "Draft", "NotTurned", "Turned", "finished", "kernel"]

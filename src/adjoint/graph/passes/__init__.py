"""Passes over graphs, one per file. A pass edits its graph and returns it; `run` copies it first.

Every graph goes through `SIMPLIFY`. The time of each pass is linear in the size of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adjoint.graph.ir import Graph
from adjoint.graph.passes.aliasing import copy_shared, shared
from adjoint.graph.passes.common_subexpressions import merge_common
from adjoint.graph.passes.constant_folding import fold_constants
from adjoint.graph.passes.dead_code import eliminate_dead
from adjoint.graph.passes.inline import inline_calls, inline_functions
from adjoint.graph.passes.lift_constants import lift_constants
from adjoint.graph.passes.products_onto import add_products
from adjoint.graph.passes.prune_loops import prune_loops
from adjoint.graph.passes.schedule import schedule_for_memory
from adjoint.graph.passes.simplify import simplify_algebra
from adjoint.graph.passes.sink_where import sink_where
from adjoint.graph.passes.sums_of_products import sum_operands_first
from adjoint.graph.passes.sums_of_rows import join_rows

Pass = Callable[[Graph], Graph]

SIMPLIFY: tuple[Pass, ...] = (
    inline_calls, eliminate_dead, sink_where, merge_common,
    simplify_algebra, fold_constants, merge_common, eliminate_dead,
)  # fmt: skip


def run(graph: Graph, passes: Sequence[Pass] = SIMPLIFY) -> Graph:
    """Return a simplified copy of a graph.

    >>> import adjoint as ad
    >>> graph = ad.trace(lambda x: (x * 1 - 0).t().t().exp(), ad.ShapeDtype((2, 3)))
    >>> print(ad.simplify(graph).ssa())
    graph f(%x: f32[2,3]) {
      %exp: f32[2,3] = exp.default(%x)
      return %exp
    }
    """
    return simplified(graph.clone(), passes)


def simplified(graph: Graph, passes: Sequence[Pass] = SIMPLIFY) -> Graph:
    """Run passes on a graph in place, for graphs that nobody else holds."""
    before = shared(graph)
    for each in passes:
        edits = graph.edits
        if passes is not SIMPLIFY:  # a user's pass may make another graph
            graph = each(graph)
        elif graph.settled.get(each) != edits:
            graph = each(graph)
            if graph.edits == edits:
                graph.settle(each)
    return copy_shared(graph, before)


__all__ = [
    "SIMPLIFY", "Pass", "add_products", "eliminate_dead", "fold_constants", "inline_calls",
    "inline_functions", "join_rows", "lift_constants", "merge_common", "prune_loops", "run",
    "schedule_for_memory", "simplified", "simplify_algebra", "sink_where", "sum_operands_first",
]  # fmt: skip

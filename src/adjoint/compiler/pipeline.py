"""The stages of the compiler, in order: each takes what the one before it returns.

    a graph as traced -> lowered -> with kept steps -> a plan -> a layout of nests -> with loop
    programs -> with sweeps -> with versions -> with places -> a host program -> text -> functions

A stage is a function of one argument; what concerns a machine it asks of the target. In the tests
`tests/conftest.py` verifies what each stage returns.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

from adjoint.compiler import arena, host_building, kept_steps, nests, shaping, sweeps
from adjoint.compiler import fuse as fusion
from adjoint.compiler import lower as lowering
from adjoint.compiler.arena import ProgramLayout
from adjoint.compiler.host_building import Ordered
from adjoint.compiler.lower import Choices
from adjoint.compiler.nests import Nest
from adjoint.compiler.plan import Nested, Plan
from adjoint.core.records import record
from adjoint.graph.ir import Graph, Node

Report = Callable[[str, float], None]  # takes the name of a stage, and its seconds


@record
class Unplanned:
    """A graph on its way to a plan."""

    graph: Graph
    choices: Choices  # which know the target
    merged: dict[Node, Any] = field(default_factory=dict)  # definitions for all sizes
    symbols: int = 0  # symbolic sizes


def lower(program: Unplanned) -> Unplanned:
    """Rewrite the graph in operators that have a native form."""
    return replace(program, graph=lowering.lower(program.graph, program.choices))


def keep_steps(program: Unplanned) -> Unplanned:
    """Let scans keep the expensive values of their steps for their backward."""
    return replace(program, graph=kept_steps.keep_steps(program.graph, program.choices))


def fuse(program: Unplanned) -> Plan:
    """Group nodes into steps, and decide which values are kept in memory."""
    plan = fusion.fuse(program.graph, program.choices.definitions, program.merged)
    plan.symbols = program.symbols
    return plan


def nest(plan: Plan) -> ProgramLayout:
    """Put loops over the same rows into nests."""
    layout = ProgramLayout(plan, [*nests.nested(plan)])
    for number, step in enumerate(layout.steps):
        if isinstance(step, Nested):
            layout.inner[number] = {name: nest(inner) for name, inner in step.plans.items()}
    return layout


def shape(layout: ProgramLayout) -> ProgramLayout:
    """Make a loop program of each nest."""
    names = itertools.count()
    for each in layout.all():
        for number, step in enumerate(each.steps):
            if isinstance(step, Nest):
                made = shaping.loop_program(each.plan, step, f"nest{next(names)}")
                each.programs[number] = made
    return layout


def sweep(layout: ProgramLayout) -> ProgramLayout:
    """Join products and nests over the same rows, where they gain by running block by block."""
    steps: sweeps.Steps = []
    for number, step in enumerate(layout.steps):
        assert not isinstance(step, sweeps.Sweep), "sweeps are made once"
        steps.append((step, layout.programs.get(number)))
    inner = {id(layout.steps[k]): plans for k, plans in layout.inner.items()}
    joined = sweeps.swept(layout.plan, steps)
    made = ProgramLayout(layout.plan, [step for step, _ in joined])
    for number, (step, program) in enumerate(joined):
        if program is not None:
            made.programs[number] = program
        if plans := inner.get(id(step)):
            made.inner[number] = {name: sweep(each) for name, each in plans.items()}
    return made


def add_versions(layout: ProgramLayout) -> ProgramLayout:
    """Make the other loop programs of each nest, for some sizes only."""
    layouts = [*layout.all()]
    is_short = sum(len(each.programs) for each in layouts) <= layout.plan.target.limits.numbered
    for each in layouts:
        for number, program in each.programs.items():
            step = each.steps[number]
            assert isinstance(step, Nest)
            found = shaping.versions(each.plan, step, program, is_short=is_short)
            each.programs[number], each.versions[number] = found
    return layout


def place(layout: ProgramLayout) -> ProgramLayout:
    """Give each kept value a place in the arena, from its first step to its last."""
    for each in layout.all():
        arena.find_last_uses(each)
    roots = layout.plan.roots
    return arena.arrange(layout, {*roots.values, *roots.tapes})


def order(layout: ProgramLayout) -> Ordered:
    """Say what happens between loop programs, in order."""
    return host_building.ordered(layout)


def write(ordered: Ordered) -> Any:
    """Print the program in the language of its target."""
    return ordered.layout.plan.target.write(ordered)


def build(written: Any) -> Any:
    """Make functions of the text."""
    return written.layout.plan.target.build(written)


Stage = Callable[[Any], Any]
STAGES: tuple[Stage, ...] = (
    lower, keep_steps, fuse, nest, shape, sweep, add_versions, place, order, write, build,
)  # fmt: skip


def after(name: str) -> tuple[Stage, ...]:
    """The stages after the one of a name."""
    names = [stage.__name__ for stage in STAGES]
    return STAGES[names.index(name) + 1 :]


def run(program: Unplanned, stages: Sequence[Stage], report: Report) -> dict[str, Any]:
    """What each stage returns, by its name."""
    found: dict[str, Any] = {}
    data: Any = program
    for stage in stages:
        started = time.perf_counter()
        data = found[stage.__name__] = stage(data)
        report(stage.__name__, time.perf_counter() - started)
    return found

"""Make loop programs of nests: axes and rows, vectors, cuts, tiles, accumulators.

A nest becomes bands, one for each of its loops: axes around the statements of one iteration. Each
function of the target's `passes` changes the draft of one loop program; the last ones work on its
loops.

Threads share the rows. Vectors run along the innermost axis of each band, or, if these axes are
short, along a block of rows (`block`): then values that stay in the nest are kept for one block,
transposed, and reductions within a row need no horizontal sums. A loop is cut where a condition on
a position changes (the pieces of a value), and each part has its own body.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from adjoint.compiler.nests import Nest
from adjoint.compiler.plan import Plan
from adjoint.compiler.shaping.building import divisor
from adjoint.compiler.shaping.draft import Draft, NotTransposable, TransposedBlocks
from adjoint.compiler.shaping.row_axes import short_of
from adjoint.compiler.target import Target
from adjoint.core.records import record
from adjoint.core.symbolic_sizes import (
    assuming,
    example,
    first,
    is_open,
    symbol,
    symbols_of,
    with_known,
)
from adjoint.loops.loop_programs import FIRST, LANE, ForLoop, LoopProgram, Select, ends_early
from adjoint.toolchain import cache

Most = Mapping[int, int]  # symbol -> the most its size may be
_NONE: Most = MappingProxyType({})
SHORT_EXAMPLE, LONG_EXAMPLE = 4, 256  # sizes for which versions are written


def loop_program(
    plan: Plan, nest: Nest, name: str, transposed: TransposedBlocks | None = None,
    *, most: Most = _NONE, assumes: bool = False, known: Most = _NONE,
) -> LoopProgram:  # fmt: skip
    """The loop program of a nest, for all symbolic sizes or for sizes up to `most`.

    With `assumes` it holds only for sizes with which its conditions change in the example's order;
    the sizes in `known` are numbers in it.
    """
    draft = Draft(plan, nest, LoopProgram(name, 1, known=known), transposed, most, assumes)
    if transposed is not None:
        draft.program.transposed = frozenset(transposed.values)
    for change in plan.target.passes:
        change(draft)
    if cache.debugging():
        draft.program.comments = _comments(nest)
    return draft.program


@record
class Version:
    """Another loop program of a nest, for sizes for which each number in `where` is at least 0."""

    program: LoopProgram
    where: tuple[int, ...]


def versions(
    plan: Plan, nest: Nest, general: LoopProgram, *, is_short: bool
) -> tuple[LoopProgram, list[Version]]:
    """The loop program of a nest for long symbolic sizes, and its other versions: one short size
    next to others, sizes in the example's order, the usual short sizes as numbers, and, if the
    text of the program is short, short rows with their length as a number.
    """
    sizes, name, vectors = [*example()], general.name, plan.target.vectors
    varying = sorted(_varying(nest)) if sizes else []
    long = [LONG_EXAMPLE if size < vectors.short else size for size in sizes]
    if any(sizes[number] < vectors.short for number in varying):
        with assuming(long) as assumed:
            made = loop_program(plan, copy.copy(nest), name)
        general = general if assumed else made
    found = []
    for number in varying:
        other = [*sizes]
        other[number] = SHORT_EXAMPLE
        most = short_of(nest, vectors) - 1
        with assuming(other) as assumed:
            made = loop_program(plan, copy.copy(nest), f"{name}_{number}", most={number: most})
        if made.body != general.body:
            found.append(Version(made, (most - symbol(number, SHORT_EXAMPLE), *assumed)))
    if sizes and _has_conditions(general):
        with assuming(long) as assumed:
            made = loop_program(plan, copy.copy(nest), f"{name}_cut", assumes=True)
        if assumed and made.body != general.body:
            found.append(Version(made, tuple(assumed)))
    numbers = {}
    if known := _known(nest, general, plan.target):
        numbers[f"{name}_usual"] = known
    for number, most in _row_sizes(nest, general, plan.target).items() if is_short else ():
        sized = {f"{name}_{number}_is_{size}": {number: size} for size in range(2, most + 1)}
        numbers |= sized
    exact = [_with_numbers(plan, nest, each, known, long) for each, known in numbers.items()]
    return general, [*exact, *found]


def _with_numbers(plan: Plan, nest: Nest, name: str, known: Most, long: Sequence[int]) -> Version:
    """The version in which some symbolic sizes are numbers."""
    sizes = [known.get(number, size) for number, size in enumerate(long)]
    with assuming(sizes) as assumed:
        made = loop_program(plan, copy.copy(nest), name, known=known)
    return Version(made, (*_exactly(known), *assumed))


def _row_sizes(nest: Nest, general: LoopProgram, target: Target) -> dict[int, int]:
    """The symbolic sizes that are the length of light rows: symbol -> the largest number for it.

    A row is a loop along vectors, or what one row adds to the accumulators of a block. With a
    number, these stay in registers.
    """
    if not _is_light(nest, target):
        return {}
    loops = [s for s in general.statements() if isinstance(s, ForLoop)]
    rows = [n for s in loops if s.vector and FIRST not in s.low for n in s.high]
    found = {n: target.vectors.numbered for size in rows if (n := _only_symbol(size)) is not None}
    blocks = any(s.variable == LANE for s in loops) and len(nest.members) == 1
    block = _only_symbol(general.rows) if blocks else None
    return found if block is None else {**found, block: target.vectors.numbered_totals}


def _only_symbol(size: int) -> int | None:
    """The symbol if a size is nothing but a symbolic size."""
    symbols = symbols_of(size) if is_open(size) else ()
    return next((n for n in symbols if size == symbol(n, int(size))), None)


def _is_light(nest: Nest, target: Target) -> bool:
    """Whether the statements of a nest take less time than the loop around them."""
    return sum(member.statements for member in nest.members) <= target.vectors.poor


def _known(nest: Nest, general: LoopProgram, target: Target) -> dict[int, int]:
    """The short symbolic sizes of the first call, if they are the lengths of inner loops; else
    none.

    With numbers for them loops have no remainder, strides are known, and short reductions are
    unrolled. Expensive elements without a reduction gain only if there are very few.
    """
    totals = any(member.loop.combining for member in nest.members)
    largest = target.costs.known
    most = largest if totals or _is_light(nest, target) else target.vectors.short - 1
    short = {number: size for number, size in enumerate(first()) if size <= largest}
    loops = [s for s in general.statements() if isinstance(s, ForLoop)]
    inner = [s for s in loops if FIRST not in s.low and (totals or s.vector)]
    ends = [n for s in inner for n in s.high]
    if totals and len(nest.members) == 1:  # an accumulator for each row of a block
        ends += [general.rows for s in loops if s.variable == LANE]
    lengths = [n for n in ends if is_open(n) and symbols_of(n) <= short.keys()]
    return short if any(with_known(n, short) <= most for n in lengths) else {}


def _has_conditions(program: LoopProgram) -> bool:
    """Whether iterations ask where they are."""
    return any(isinstance(s, Select) or getattr(s, "guards", ()) for s in program.statements())


def _exactly(known: Most) -> Iterator[int]:
    """Numbers that are all at least 0 only for the known sizes."""
    for number, size in known.items():
        own = symbol(number, size)
        yield from (own - size, size - own)


def _varying(nest: Nest) -> set[int]:
    """The symbolic sizes that are one of several sizes of a loop."""
    found: set[int] = set()
    for member in nest.members:
        symbols = [dict.fromkeys(symbols_of(size)) for size in member.loop.space]
        for place, mine in enumerate(symbols):
            others = {s for k, each in enumerate(symbols) if k != place for s in each}
            found |= {s for s in mine if others - {s}}
    return found


def _comments(nest: Nest) -> list[str]:
    """Comments with the user's lines that a nest comes from."""
    places: dict[str, list[str]] = {}
    for member in nest.members:
        made = [v.node for v in member.loop.inside]
        for node in (*made, *member.loop.combining):
            if node is not None:
                places.setdefault(node.place or "no line", []).append(node.op.name)
    return [f"/* {place}: {', '.join(names)} */" for place, names in places.items()]


def store_early(draft: Draft) -> None:
    """Store values and take them in as soon as they are computed."""
    draft.program.body = ends_early(draft.program.body)


def count_work(draft: Draft) -> None:
    """Count the work, and decide whether threads can share the rows."""
    made = draft.program
    made.work = sum(math.prod(m.loop.space) * m.body.work() for m in draft.nest.members)
    sequential = any(m.sequential for m in draft.nest.members)
    few = is_open(made.partial) or made.partial <= draft.target.threads.partial
    together = sequential or _is_one_block(draft)
    made.divisible = int(made.rows) > 1 and few and not together and not made.whole


def _is_one_block(draft: Draft) -> bool:
    """Whether the rows are a number, and light accumulators of one block: they stay in registers
    if one thread takes all of them.
    """
    made = draft.program
    if not made.known or is_open(made.rows) or not draft.lanes:
        return False
    return made.rows <= (draft.block or 0) and _is_light(draft.nest, draft.target)


__all__ = [
    "SHORT_EXAMPLE", "Draft", "NotTransposable", "TransposedBlocks", "Version", "divisor",
    "loop_program", "versions",
]  # fmt: skip

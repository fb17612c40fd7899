"""What a program is compiled for: all numbers and choices that are about a machine.

The passes of the compiler are the same for every machine; where one has to choose, it asks the
target of its program. The target of C programs is `targets/c/target.py`, which says for each number
which measurement set it. A number here is a count of the thing that its comment names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from adjoint.core.records import record
from adjoint.graph.ir import Node, Value


@record
class Vectors:
    """How long vectors are, and what pays along them."""

    whole: int  # elements of a vector of wide numbers
    widest: int  # elements of a vector of narrow numbers
    short: int  # size below which a dimension is too short for vectors
    short_totals: int  # the same for rows with several reductions: finishing each costs vectors
    padded: int  # size up to which a loop is run in whole vectors
    heavy: int  # statements from which a loop's last elements are not run one by one
    tile: int  # rows of a tile of a transposed matrix
    unrolled: int  # statements up to which a reduction is unrolled
    piece: int  # elements of a piece of a loop whose calls are split off
    long: int  # iterations from which such a loop is worth cutting
    beside_calls: int  # statements besides the calls from which they are split off
    poor: int  # statements that take less time than the loop around them
    together: int  # rows of symbolic length that are taken into accumulators at once
    numbered: int  # elements of a light row up to which each length has a version of its own
    numbered_totals: int  # the same for rows that are added to accumulators


@record
class Cache:
    """Bytes that stay near the processor, and elements that pay to share."""

    block: int  # bytes of the values of a block of rows
    shared: int  # bytes of these and of the values that bands share
    row: int  # bytes of the values of one row of a nest
    near: int  # bytes of a value that stays in the cache anyway
    lanes: int  # rows of a block
    adjacent: int  # accumulators next to one another
    shared_reads: int  # elements from which it pays that two loops share the reading of a value
    kept_steps: int  # bytes of all values that a scan keeps for its backward
    pooled: int  # bytes from which an output's memory is reused once nobody holds the output


@record
class Threads:
    """How many threads there are, and when they pay."""

    most: int  # threads; each has its own scratch memory
    parts: int  # of a step that threads share; each has its own accumulators
    part: int  # additions of a part, at least
    joined: int  # additions for each accumulator of a part, at least
    rows: int  # rows that threads can share evenly
    partial: int  # accumulators of one part that outlast rows
    work: int  # additions from which threads pay
    awake: int  # the same if a larger step of the program has woken them
    short: int  # additions of a program for which other Python threads can wait
    alignment: int  # bytes: the places of the arena do not share a line of the cache


@record
class Sweeping:
    """When products and loops over the same rows are run together, block by block."""

    inner: int  # largest inner size of a product whose result should stay in the cache
    worth: int  # bytes passed between steps from which memory bounds the time
    block: int  # bytes of a block that fit the cache
    rows: tuple[int, int]  # least and most rows of a block
    summed: int  # least rows of a block that products sum over
    reduced: int  # one in so many elements passed between steps must be reduced within a row
    gathered: int  # elements of a row that a loop may gather from memory
    sums: int  # elements of a product over all rows, of which every thread has its own sum


@record
class Products:
    """Which products of matrices a loop computes faster than a routine."""

    small: int  # multiplications up to which it does; less than 0: never
    tiny: int  # the same bound for each product of a batch
    thin: int  # multiplications for one row or one column of a result
    results: int  # results of a batch of products with long sums


@record
class Costs:
    """What it costs to compute a value again, or to keep it."""

    cheap: int  # additions up to which a value is recomputed instead of kept
    scores: int  # of one head of attention, from which they are recomputed in the backward
    places: int  # elements up to which `as_strided` gathers with constant places
    known: int  # the largest size of a first call for which there is a version


@record
class Limits:
    """How long the text of a program may be: compile time grows faster than a function's length."""

    nodes: int  # of one loop
    statements: int  # of one nest
    function: int  # nodes or statements that a call counts for, as its text may be inlined
    combining: int  # reductions of one loop
    reads: int  # values in memory that one loop reads
    tried: int  # loops over a node's space that are tried before a new one is made
    deep: int  # nesting of expressions up to which a value that is read once is not kept
    parts: int  # into which the axes of a loop are cut
    pieces: int  # of a cat that a loop tells apart by branches; more are copied
    numbered: int  # loop programs up to which short rows have versions of their own
    steps: int  # of a program from which it is long, so that nests of small values are kept short
    small_nest: int  # statements of such a nest
    lines: int  # of a function that runs steps
    inlined: int  # loop programs that may be inlined into the function that calls them
    stack: int  # accumulators that fit on the stack
    batch: int  # dimensions of a batch that a routine for matrices takes


@record
class Target:
    """A machine and its language."""

    name: str  # "c"
    types: Mapping[str, str]  # dtype -> its type there; programs have no others
    vectors: Vectors
    cache: Cache
    threads: Threads
    sweeping: Sweeping
    products: Products
    costs: Costs
    limits: Limits
    vectorized: frozenset[str]  # functions that are fast only in vectors
    rounds_alike: Callable[[frozenset[str]], bool]  # whether functions are the same in vectors
    passes: tuple[Callable[[Any], None], ...]  # which make a loop program of a nest
    routines: Callable[[Node, Target], Any]  # the RoutineDefinition of a node, or None
    write: Callable[[Any], Any]  # the text of a host program, as `Ordered`
    build: Callable[[Any], Any]  # its functions

    def routine(self, node: Node) -> Any:
        """The routine that computes a node, as a RoutineDefinition; None if none does."""
        return self.routines(node, self)

    def has(self, value: Value) -> bool:
        """Whether programs have values of this dtype."""
        return value.dtype.name in self.types

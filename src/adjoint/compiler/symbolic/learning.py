"""Symbolic sizes: one compiled program for every size of some dimensions.

The function is traced for a few sizes, and its graphs are merged into one, whose numbers are
polynomials of the sizes (`polynomials.py`); this graph is compiled once. A new size is traced, too:
if its graph is the merged one with the sizes put in, the program serves it. A function whose graph
depends on sizes in another way is compiled for each size, and one warning says so.

Note [Which sizes are open]

Dimensions may have to agree (rows of x and of y); one may have to be a multiple of another (the
four gates of a cell), or of a number (the side of a patch). The user says none of this. Dimensions
of equal size in the first call become independent if the function accepts different sizes for them,
so a square batch needs no special treatment. If it does not accept independent sizes, sizes that
are multiples of others stay tied. If the function does something else, or raises, for odd sizes,
say, then a size is written as p m + r with the symbol m, for the least p with which graphs are the
same for all m; so all numbers are whole.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from adjoint.compiler.kept_steps import keep_steps
from adjoint.compiler.lower import Choices, lower
from adjoint.compiler.program import Code, Program
from adjoint.compiler.shaping import SHORT_EXAMPLE
from adjoint.compiler.statics import parameters_of
from adjoint.compiler.symbolic.polynomials import (
    NotWhole,
    Opened,
    QuotientFits,
    SizedConstant,
    WholeFits,
    opened,
)
from adjoint.compiler.targets.c.target import CPU
from adjoint.core import pytrees
from adjoint.core.errors import AdjointError, ArgumentError
from adjoint.core.source_lines import warn
from adjoint.core.symbolic_sizes import NotOpen, assuming, called_with, for_many
from adjoint.graph.argument_tensors import NumberTensor
from adjoint.graph.ir import Graph
from adjoint.graph.trace import ShapeDtype
from adjoint.tensor.tensor import Tensor

Scale = tuple[int, int]
# (group, factor) of each place: the size of a place is its group's size times the factor; groups
# are numbered in order of places
Ties = tuple[tuple[int, int], ...]
_SHAPED = (Tensor, ShapeDtype)
# (factor, width): sizes to trace come from factor * _FIRST on, in a range of this width. A smaller
# one is used if a trace for the larger sizes needs too much memory.
_SCALES = ((64, 640), (8, 640), (1, 640), (1, 160), (1, 80), (1, 40))
_ELEMENTS = 1 << 27  # of one argument; the function may make a constant as large
_FIRST = 17  # the least size is this times the factor
_DRAWN = 100  # draws of sizes without a new one, after which earlier sizes are used again
_PERIODS = (1, 2, 4, 8, 16, 32, 64, 3, 6, 12, 5, 7)  # with which graphs may repeat
_LARGE = 64  # the largest power of two among the periods
_STEPS = (0, 1, 3, 5, 6, 8)  # multiples of a period at which graphs are compared
_FEW = 2  # sizes that may be special by chance
_MORE = 6  # sizes to trace in addition to detect quotients of sizes
_TRIES = 3  # limit on traced sizes, in multiples of the sizes needed
_TYPICAL = 256  # sizes to optimise for if those of the first call are all smaller
_SPLIT = 6  # dimensions of one size up to which every way to separate them is tried
_MULTIPLE = 8  # the largest factor between two tied sizes
_WAYS = 100  # ways to tie dimensions that are tried
_MOST = 8  # programs of a signature; beyond, a special size is compiled for itself


class Everywhere:
    """The code of a function for all sizes of one pattern of ties, remainders and order."""

    def __init__(
        self, code: Code, found: Opened, choices: Choices, assumed: Any, resized: _Resized,
        *, serves: bool,
    ) -> None:  # fmt: skip
        self.code, self.found, self.choices = code, found, choices
        self.ties, self.periods, self.rests = resized.ties, resized.periods, resized.rests
        self.order = resized.order
        self.assumed = list(assumed)  # polynomials that must be ≥ 0 for the code to be right
        self.serves = serves  # the graph from which it was learned

    def is_for(self, resized: _Resized) -> bool:
        """Whether the code is for the pattern of these arguments."""
        mine = self.ties, self.periods, self.rests, self.order
        return mine == (resized.ties, resized.periods, resized.rests, resized.order)

    def point(self, sizes: Sequence[int]) -> tuple[int, ...] | None:
        """The symbols for the sizes of all places; None if the sizes do not fit the pattern."""
        own = _independent(self.ties, sizes)
        if own is None:
            return None
        point = []
        for size, period, rest in zip(own, self.periods, self.rests, strict=True):
            if size % period != rest or size < period:
                return None
            point.append(size // period)
        return tuple(point)

    def is_of(self, graph: Graph, sizes: Sequence[int]) -> bool:
        """Whether `graph`, traced for these sizes, is the graph of the code."""
        point = self.point(sizes)
        lowered = _lowered(graph, self.choices.again())
        return point is not None and self.found.holds(lowered, point)

    def program(self, sizes: Sequence[int]) -> Program | None:
        """The program for given sizes; None if the code does not hold for them."""
        point = self.point(sizes)
        if point is None or any(number.at(point) < 0 for number in self.assumed):
            return None
        return self.code.program(point)


class DynamicSizes:
    """The symbolic dimensions of a function's arguments, and the programs found for them."""

    def __init__(self, function: Callable[..., Any], dynamic: Any) -> None:
        self.parameters = parameters_of(function)
        self.open = _normalized(self.parameters, dynamic)
        self.known: dict[Any, list[Everywhere]] = {}
        self.choices: dict[Any, dict[Hashable, Any]] = {}  # made in the traces of a signature
        self.closed: set[Any] = set()  # patterns of sizes that are compiled one by one
        self.warned = False

    def program(
        self,
        key: Any,
        tensors: Sequence[Any],
        structure: Any,
        traced: Callable[[Any, Any], Graph],
        report: Callable[[str, float], None],
        role: Hashable = None,
    ) -> Any:
        """(program, structure of its outputs) for these arguments; None if the sizes are to be
        compiled as numbers.

        With a `role`, `traced` makes another graph of the same function, such as its gradient, and
        the examples require gradients where the arguments do.
        """
        places = self._places(tensors, structure)
        sizes = [size for _, _, size in places]
        if not sizes or 0 in sizes:
            return None  # size 0 is compiled separately, and only when `lower` asks
        signature = (role, key[0], key[1], *_opened_signature(key, places))
        known = self.known.setdefault(signature, [])
        resized = _Resized(tensors, structure, places, marked=role is not None)
        with for_many(self.choices.setdefault(signature, {})):
            graph = traced(*resized.itself())  # errors of the function are raised here
            found = [each for each in known if each.is_of(graph, sizes)]
            program = next(filter(None, (each.program(sizes) for each in found)), None)
            if not found and (1 not in sizes or not known) and len(known) < _MOST:
                program = self._learn(signature, resized, graph, traced, report)
        # x[:100] of 50 elements has 50 elements: this size has a program of its own
        return None if program is None else (program, graph.signature.outputs)

    def is_of_nothing(self, tensors: Sequence[Any], structure: Any) -> bool:
        """Whether a symbolic size of the arguments is 0."""
        return any(size == 0 for _, _, size in self._places(tensors, structure))

    def _places(self, tensors: Sequence[Any], structure: Any) -> list[tuple[int, int, int]]:
        """(leaf, dimension, size) of each symbolic dimension; leaves count over all arguments."""
        args, keywords = pytrees.unflatten(structure, range(len(tensors)))
        given = {self._name(n): pytrees.leaves(a) for n, a in enumerate(args)}
        given |= {name: pytrees.leaves(a) for name, a in keywords.items()}
        found = []
        for argument, dims in self.open.items():
            leaves = given.get(argument, [])
            shapes = {n: tensors[n].shape for n in leaves if isinstance(tensors[n], _SHAPED)}
            for dim in dims:
                has = [n for n, shape in shapes.items() if -len(shape) <= dim < len(shape)]
                if leaves and not has:
                    raise ArgumentError(
                        f"compile: dynamic opens dimension {dim} of {argument!r}, which has "
                        + (f"shape {' and '.join(map(str, shapes.values()))}" if shapes else "none")
                    )
                found += [(n, dim % len(shapes[n]), shapes[n][dim]) for n in has]
        return sorted(set(found))

    def _name(self, position: int) -> int | str:
        """The key in `open` of the argument at a position: its name, or its position."""
        if position in self.open or position >= len(self.parameters):
            return position
        return self.parameters[position].name

    def _learn(
        self, signature: Any, resized: _Resized, graph: Graph, traced: Any, report: Any
    ) -> Program | None:
        """Compile new code for these sizes and return its program; None if there can be none."""
        # sizes of 1 broadcast: if they come first, one trace of larger sizes suffices
        pattern = (signature, 1 if 1 in resized.sizes else resized.ties)
        known = self.known[signature]
        if pattern in self.closed:
            return None
        reason = ""
        for each in _told_apart(resized, graph, traced, known):
            try:
                found = _Learning(each, graph, traced, report, known).run()
            except (NotOpen, AdjointError, MemoryError) as error:
                said = "" if isinstance(error, NotOpen) else "for other sizes the function raises: "
                reason = reason or f"{said}{error}"
                continue
            known.append(found)
            if found.serves:
                return found.program(resized.sizes)
        if not known:
            self.closed.add(pattern)
            if 1 not in resized.sizes:
                self.warn(reason)
        return None

    def warn(self, reason: str) -> None:
        """Warn once that sizes cannot be symbolic."""
        if not self.warned:
            self.warned = True
            warn(
                f"compile: sizes cannot stay open here ({reason}); each size is compiled for itself"
            )


def _normalized(
    parameters: list[inspect.Parameter], dynamic: Any
) -> dict[int | str, tuple[int, ...]]:
    """{argument: dimensions}, by name, or by position for arguments without a name."""
    if not isinstance(dynamic, dict):
        raise ArgumentError(
            "compile: dynamic must be {argument: dimensions}, e.g. dynamic={'x': 0} or "
            f"{{0: (0, 1)}}, got {dynamic!r}"
        )
    names = [p.name for p in parameters]
    rest = next((n for n, p in enumerate(parameters) if p.kind is p.VAR_POSITIONAL), None)
    found: dict[int | str, tuple[int, ...]] = {}
    for argument, dims in dynamic.items():
        known = argument in names and argument != (names[rest] if rest is not None else None)
        if type(argument) is int and argument >= 0:
            known = argument < len(names) or rest is not None or not names
        if not known:
            raise ArgumentError(
                f"compile: dynamic names {argument!r}, and the arguments are {', '.join(names)}"
                + (f" (name those of *{names[rest]} by position)" if rest is not None else "")
            )
        listed = (dims,) if isinstance(dims, int) else dims
        if not isinstance(listed, (tuple, list)) or any(type(d) is not int for d in listed):
            raise ArgumentError(
                f"compile: dynamic gives {dims!r} for {argument!r}; a dimension is a whole number, "
                "several are a tuple"
            )
        named = type(argument) is int and argument < (len(names) if rest is None else rest)
        found[names[argument] if named else argument] = tuple(listed)
    return found


def _opened_signature(key: Any, places: Any) -> list[Any]:
    """The entries of a signature, with None for symbolic sizes."""
    parts = [list(p) for p in key[2:]]
    for leaf, dim, _ in places:
        shape = list(parts[leaf][0])
        shape[dim] = None
        parts[leaf][0] = tuple(shape)
    return [tuple(p) for p in parts]


# -- which sizes are open: Note [Which sizes are open] --------------------------------------------


def _lowered(graph: Graph, choices: Choices | None = None, times: float = 1) -> Graph:
    """Lower a graph so that it can be compared with graphs of other sizes.

    Without choices the memory that kept steps take is not limited.
    """
    times = math.inf if choices is None else times
    choices = Choices(CPU) if choices is None else choices
    found = keep_steps(lower(graph, choices), choices, times)
    choices.definitions.known.clear()  # choices outlast the graphs that are compared
    return found


def _numbered(values: Sequence[Hashable]) -> Ties:
    """Ties that join places with equal values."""
    different = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return tuple([(different[value], 1) for value in values])


def _independent(ties: Ties, sizes: Sequence[int]) -> tuple[int, ...] | None:
    """The independent sizes, one for each group; None if the sizes do not fit the ties."""
    found: dict[int, int] = {}
    for (group, factor), size in zip(ties, sizes, strict=True):
        if size % factor or found.setdefault(group, size // factor) != size // factor:
            return None
    return tuple([found[group] for group in range(len(found))])


def _told_apart(
    resized: _Resized, graph: Graph, traced: Any, known: list[Everywhere]
) -> Iterator[_Resized]:
    """Candidate ties, loosest first: dimensions independent where the function allows it, then
    equal sizes tied.

    If code for other sizes exists, its ties come first, as far as larger sizes give a graph of the
    same length.
    """
    if known:
        loose = [e.ties for e in known if _independent(e.ties, resized.sizes) is not None]
        for ties in dict.fromkeys([*loose, resized.ties]):
            other = resized.tied(ties)
            far = _graph(other, other.far(_SCALES[0]), traced)
            if far is not None and len(far) == len(_lowered(graph)):
                yield other
        return
    found = _loosest(resized, traced)
    if found is not None:
        yield found
    if found is None or found.ties != resized.ties:
        yield resized


def _loosest(resized: _Resized, traced: Any) -> _Resized | None:
    """The arguments with the fewest ties that the function accepts; None if it accepts none."""
    dims = [dim for _, dim, _ in resized.places]
    by_dimension = _numbered(list(zip(resized.sizes, dims, strict=True)))
    ways = [
        iter([_numbered(range(len(dims))), by_dimension, resized.ties, _tightest(resized)]),
        _with_multiples(resized.tied(by_dimension)),
        _with_multiples(resized),
    ]
    ties = dict.fromkeys(itertools.islice(itertools.chain(*ways), _WAYS))
    found = next(filter(lambda r: _takes(r, traced), map(resized.tied, ties)), None)
    while found is not None:
        looser = next(filter(lambda r: _takes(r, traced), _splits(found)), None)
        if looser is None:
            return found
        found = looser
    return None


def _splits(resized: _Resized) -> Iterator[_Resized]:
    """The arguments with one group of tied places split in two, in each way that is tried."""
    ties = resized.ties
    for group in range(resized.count):
        places = [n for n, (g, _) in enumerate(ties) if g == group]
        some = range(1, 1 << (len(places) - 1)) if len(places) <= _SPLIT else ()
        whole = (1 << len(places)) - 1
        alike: dict[Any, int] = {}  # places of one tensor, dimension or size, as bits
        for k, n in enumerate(places):
            for what in enumerate(resized.places[n]):
                alike[what] = alike.get(what, 0) | 1 << k
        parts = [bits for bits in alike.values() if bits != whole]
        for bits in some or dict.fromkeys([*(1 << k for k in range(len(places))), *parts]):
            chosen = {n for k, n in enumerate(places) if bits >> k & 1}
            groups = _numbered([(g, n in chosen) for n, (g, _) in enumerate(ties)])
            pairs = zip(groups, ties, strict=True)
            if len(places) > 1:
                yield resized.tied(_reduced([(number, f) for (number, _), (_, f) in pairs]))


def _reduced(ties: Sequence[tuple[int, int]]) -> Ties:
    """The same ties with the smallest factors: the only size of a group may be any number."""
    common: dict[int, int] = {}
    for group, factor in ties:
        common[group] = math.gcd(common.get(group, 0), factor)
    return tuple([(group, factor // common[group]) for group, factor in ties])


def _tightest(resized: _Resized) -> Ties:
    """Ties that join all sizes linked by small multiples."""
    groups = {size: {size} for size in resized.sizes}
    for a, b in itertools.permutations(groups, 2):
        if a % b == 0 and a // b <= _MULTIPLE and groups[a] is not groups[b]:
            groups[b] |= groups[a]
            for size in groups[a]:
                groups[size] = groups[b]
    bases = {size: math.gcd(*group) for size, group in groups.items()}
    numbers = _numbered([min(groups[size]) for size in resized.sizes])
    pairs = zip(numbers, resized.sizes, strict=True)
    return tuple([(number, size // bases[size]) for (number, _), size in pairs])


def _with_multiples(resized: _Resized) -> Iterator[Ties]:
    """Ties with some sizes as multiples of others, in order of the number of multiples."""
    own = resized.own
    pairs = [
        (group, base, own[group] // own[base])
        for group, base in itertools.permutations(range(len(own)), 2)
        if own[group] % own[base] == 0 and 2 <= own[group] // own[base] <= _MULTIPLE
    ]
    for count in range(1, len(own)):
        for chosen in itertools.combinations(pairs, count):
            bases = {group: (base, factor) for group, base, factor in chosen}
            if len(bases) == count and not any(base in bases for _, base, _ in chosen):
                tied = [bases.get(group, (group, 1)) for group, _ in resized.ties]
                groups = zip(_numbered([group for group, _ in tied]), tied, strict=True)
                yield tuple([(number, factor) for (number, _), (_, factor) in groups])


def _takes(resized: _Resized, traced: Any) -> bool:
    """Whether the function accepts other sizes with these ties: it neither raises nor warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            point = resized.others()
            resized.seen[point] = traced(*resized.at(point))
        except (AdjointError, Warning, MemoryError):
            return False
    return True


def _quiet(traced: Any) -> Any:
    """A trace without warnings, for sizes that the user has not asked for."""

    def quiet(args: Any, keywords: Any) -> Graph:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return traced(args, keywords)

    return quiet


def _graph(resized: _Resized, point: Sequence[int], traced: Any) -> Graph | None:
    """The lowered graph for some sizes; None if the function raises for them."""
    try:
        return _lowered(_quiet(traced)(*resized.at(point)))
    except (AdjointError, MemoryError):
        return None


class _Learning:
    """Finds code of a function that holds for all sizes of the pattern of some arguments."""

    def __init__(
        self, resized: _Resized, graph: Graph, traced: Any, report: Any, known: list[Everywhere]
    ) -> None:
        self.resized, self.graph, self.report, self.known = resized, graph, report, known
        self.traced = _quiet(traced)
        self.scale = _SCALES[0]

    def run(self) -> Everywhere:
        scales = [s for s in _SCALES if self.resized.is_light(s)] or [_SCALES[-1]]
        for self.scale in scales:
            try:
                return self._found()
            except MemoryError:  # constants in the function take too much memory
                if self.scale == scales[-1]:
                    raise
        raise AssertionError

    def _found(self) -> Everywhere:
        """Code for all sizes, or else for sizes in one order, or with the same remainders."""
        ones = (1,) * self.resized.count
        failed: Exception | None = None
        if not any(each.point(self.resized.sizes) for each in self.known):
            try:
                return self._with(ones)
            except SizedConstant:
                raise
            except (NotOpen, AdjointError) as error:
                failed = error
        ordered = self.resized.in_order()
        if ordered.count > 1 and not any(each.is_for(ordered) for each in self.known):
            try:
                return self._with(ones, ordered)
            except (NotOpen, AdjointError) as error:
                failed = failed or error
        for periods in self._candidates():
            mine = self.resized.with_periods(periods)
            if periods == ones or any(each.is_for(mine) for each in self.known):
                continue
            try:
                return self._with(periods)
            except (NotOpen, AdjointError) as error:
                failed = failed or error
        raise failed or NotOpen("the program is another for other sizes")

    def _candidates(self) -> Iterator[tuple[int, ...]]:
        """Periods to try: the least with which graphs repeat, then multiples of them."""
        periods = self._periods()
        if periods is None:
            return
        yield periods
        for number in range(len(periods) if len(periods) > 1 else 0):
            yield tuple([p * (1 + (n == number)) for n, p in enumerate(periods)])
        for times in (2, 4):
            yield tuple([p * times for p in periods])

    def _periods(self) -> tuple[int, ...] | None:
        """For each symbol the least period with which graphs repeat, except for numbers that grow
        with the size; None if one has no period.
        """
        base = self.resized.far(self.scale)
        repeats = (
            (p for p in _PERIODS if self._repeats(base, number, p)) for number in range(len(base))
        )
        found = [next(periods, None) for periods in repeats]
        return tuple([p for p in found if p is not None]) if None not in found else None

    def _repeats(self, base: Sequence[int], number: int, period: int) -> bool:
        """Whether graphs of sizes multiples of a period apart are one; one may be special."""
        graphs: dict[tuple[int, ...], Graph] = {}
        special = 0
        for steps in _STEPS:
            point = [*base]
            point[number] += steps * period
            graph = _graph(self.resized, point, self.traced)
            if graph is not None and all(len(graph) == len(g) for g in graphs.values()):
                graphs[steps,] = graph
            elif special or not graphs:
                return False
            else:
                special += 1
        try:
            opened(WholeFits([*graphs]), [*graphs.values()], (0,), CPU)
        except NotOpen:
            return False
        return True

    def _with(self, periods: tuple[int, ...], given: _Resized | None = None) -> Everywhere:
        """Compile code for sizes with the same remainders by the periods.

        Choices that only concern speed (whether a product is a loop, along which axis vectors run)
        are made for the example.
        """
        resized = (given or self.resized).with_periods(periods)
        example = resized.example()
        choices = Choices(CPU)
        first = self.graph if example == resized.own else resized.seen.get(example)
        if first is None:
            first = self.traced(*resized.at(example))
        times = resized.largest(example) / max(resized.largest(resized.own), 1)
        lowered = _lowered(first, choices, times)
        graphs = self._graphs(resized, choices, example, lowered)
        own, symbols = _lowered(self.graph, choices.again()), resized.symbols(resized.own)
        serves = lambda found: 0 not in symbols and found.holds(own, symbols)
        found, assumed, served = self._merged(resized, graphs, serves)
        if self.known and not served:
            raise NotOpen("the program is another for other sizes")
        with assuming(resized.typical()) as others, called_with(symbols):
            code = Code(self.graph, self.report, found, resized.count)
        return Everywhere(code, found, choices, {**assumed, **others}, resized, serves=served)

    def _merged(
        self,
        resized: _Resized,
        graphs: Callable[[int], dict[tuple[int, ...], Graph]],
        serves: Callable[[Opened], bool],
    ) -> tuple[Opened, dict[Any, None], bool]:
        """(the graph for all sizes, the sizes it assumes to be ≥ 0, whether it is for the given
        sizes).

        Few graphs do if they are alike and the graph for the given sizes is one of them; if not,
        more are compared, and more again if numbers are quotients of sizes.
        """
        started = time.perf_counter()
        few = 2 * resized.count + 1
        needed = few + 2 + (_FEW if resized.count > 1 else 0)
        ways = [(WholeFits, few), (WholeFits, needed), (QuotientFits, needed + _MORE)]
        typical = resized.typical()
        while True:
            fits, count = ways.pop(0)
            alike = graphs(count)
            try:
                with assuming(typical) as assumed:
                    found = opened(fits([*alike]), [*alike.values()], typical, CPU)
            except NotWhole:
                if not ways:
                    raise
                ways = ways[-1:]
            except NotOpen:
                if count > few:
                    raise
            else:
                served = serves(found)
                if count > few or served:
                    self.report(f"compare {len(alike)} sizes", time.perf_counter() - started)
                    return found, assumed, served

    def _graphs(
        self, resized: _Resized, choices: Choices, example: tuple[int, ...], lowered: Graph
    ) -> Callable[[int], dict[tuple[int, ...], Graph]]:
        """A function that returns `needed` graphs of the example's length, or of the most common
        length, by their symbols.

        Some sizes have special graphs: multiples of a number, or sizes with equal quotients.
        """
        smaller = _SCALES[_SCALES.index(self.scale) :]  # periods widen the range
        points = resized.points(next(filter(resized.is_light, smaller), _SCALES[-1]))
        usual = len(lowered)
        graphs = {resized.symbols(example): lowered} if resized.is_point(example) else {}
        lengths = Counter(map(len, graphs.values()))

        def alike(needed: int) -> dict[tuple[int, ...], Graph]:
            length = usual
            while lengths[length] < needed:
                if len(graphs) >= _TRIES * needed:
                    length, count = lengths.most_common(1)[0]
                    if count < needed:
                        raise NotOpen("the program is another for other sizes")
                    break
                point = next(points)
                graph = _lowered(self.traced(*resized.at(point)), choices.again())
                graphs[resized.symbols(point)] = graph
                lengths[len(graph)] += 1
            return {p: g for p, g in graphs.items() if len(g) == length}

        return alike


class _Resized:
    """Arguments as examples of other sizes, with the same ties and remainders by the periods."""

    def __init__(
        self, tensors: Sequence[Any], structure: Any, places: list[tuple[int, int, int]],
        *, marked: bool,
    ) -> None:  # fmt: skip
        """If `marked`, examples require gradients where the tensors do."""
        self.tensors, self.structure, self.places, self.marked = tensors, structure, places, marked
        self.sizes = [size for _, _, size in places]
        self._tie(_numbered(self.sizes))

    def _tie(self, ties: Ties) -> None:
        self.ties = ties
        self.own = _independent(ties, self.sizes) or ()
        self.count = len(self.own)  # the number of independent sizes
        self.periods = (1,) * self.count
        self.order: tuple[int, ...] = ()  # of the sizes, least first, where it matters
        self.seen: dict[tuple[int, ...], Graph] = {}  # sizes -> the graph traced for them

    @property
    def rests(self) -> tuple[int, ...]:
        """The remainders of the sizes by the periods."""
        return tuple([size % p for size, p in zip(self.own, self.periods, strict=True)])

    def tied(self, ties: Ties) -> _Resized:
        """The same arguments with other ties."""
        other = copy.copy(self)
        other._tie(ties)
        return other

    def in_order(self) -> _Resized:
        """The same arguments with examples in the order of the given sizes."""
        other = copy.copy(self)
        other.order = self._ascending()
        return other

    def _ascending(self) -> tuple[int, ...]:
        """The groups, ordered by the sizes given."""
        return tuple(sorted(range(self.count), key=self.own.__getitem__))

    def _in_its_order(self, sizes: Sequence[int]) -> tuple[int, ...]:
        found = [*sizes]
        for size, place in zip(sorted(sizes), self.order, strict=False):
            found[place] = size
        return tuple(found)

    def with_periods(self, periods: tuple[int, ...]) -> _Resized:
        other = copy.copy(self)
        other.periods = periods
        return other

    def symbols(self, point: Sequence[int]) -> tuple[int, ...]:
        """The symbols for sizes: a size p m + r has the symbol m."""
        return tuple([size // p for size, p in zip(point, self.periods, strict=True)])

    def closed(self) -> set[int]:
        """The sizes of all dimensions of the arguments."""
        return {s for t in self.tensors if isinstance(t, _SHAPED) for s in t.shape}

    def example(self) -> tuple[int, ...]:
        """The sizes that show the structure of the program: the given ones, or, if these are small
        or equal, larger ones with the same remainders.
        """
        if max(self.own) >= _TYPICAL and len({*self.own} - {1}) == self.count:
            return self.own
        return self.others()

    def others(self) -> tuple[int, ...]:
        """Sizes that no dimension has, with the remainders of the given ones."""
        near = [(_FIRST, period) for period in (_LARGE, 16, 4, 1)]
        return self._beyond((_TYPICAL, _LARGE), (_LARGE, _LARGE), *near)

    def typical(self) -> tuple[int, ...]:
        """The symbols of the sizes to be fast for: the given ones, or, if all are small, larger
        ones in the same proportions.
        """
        scale = max(_TYPICAL / max(self.own), 1)
        pairs = zip(self.own, self.periods, strict=True)
        scaled = [int(size * scale) // period for size, period in pairs]
        return tuple([size if size >= CPU.vectors.short else SHORT_EXAMPLE for size in scaled])

    def far(self, scale: Scale) -> tuple[int, ...]:
        """Large sizes with the remainders of the given ones, by as many periods as possible."""
        periods = [math.lcm(*_PERIODS[:count]) for count in range(len(_PERIODS), 0, -1)]
        factors = dict.fromkeys(min(scale[0], factor) for factor, _ in _SCALES)
        return self._beyond(*((f * _FIRST, period) for period in periods for f in factors))

    def _beyond(self, *ways: tuple[int, int]) -> tuple[int, ...]:
        """Sizes ≥ least in the order of the given ones, with their remainders by a period.

        `ways` are (least, period); the first way in which no argument is too large counts.
        """
        found = [0] * self.count
        for least, period in ways:
            for place in self._ascending():
                free = itertools.count(least + (self.own[place] - least) % period, period)
                found[place] = next(n for n in free if n not in self.closed())
                least = found[place] + 1
            if self.largest(found) <= _ELEMENTS:
                break
        return tuple(found)

    def points(self, scale: Scale) -> Iterator[tuple[int, ...]]:
        """Sizes to trace the function for, with the remainders of the given ones; all different, as
        long as the range has enough of them.
        """
        draw = np.random.default_rng(0)
        taken, tries = self.closed() | {*self.others()}, 0
        while True:
            drawn = draw.integers(*self._range(scale), self.count).tolist()
            sizes = zip(self._in_its_order(drawn), self.own, self.periods, strict=True)
            point = [number + (size - number) % period for number, size, period in sizes]
            tries += 1
            if len({*point} - taken) == self.count:
                taken, tries = taken | {*point}, 0
                yield tuple(point)
            elif tries == _DRAWN:
                taken, tries = self.closed(), 0

    def is_point(self, point: Sequence[int]) -> bool:
        """Whether sizes have the remainders of the given ones, and no dimension has one of them."""
        pairs = zip(point, self.rests, self.periods, strict=True)
        alike = all(size % period == rest for size, rest, period in pairs)
        return alike and len({*point} - self.closed()) == self.count

    def _range(self, scale: Scale) -> tuple[int, int]:
        factor, width = scale
        least = factor * _FIRST
        return least, least + width * max(self.periods)

    def is_light(self, scale: Scale) -> bool:
        """Whether no argument has too many elements for the sizes of `points`."""
        _, most = self._range(scale)
        return self.largest((most,) * self.count) <= _ELEMENTS

    def largest(self, point: Sequence[int]) -> int:
        """The elements of the largest argument for some sizes."""
        examples = pytrees.leaves(self.at(point))
        return max(math.prod(x.shape) for x in examples if isinstance(x, ShapeDtype))

    def itself(self) -> Any:
        """(arguments, keywords) with the given sizes."""
        return self.at(self.own)

    def at(self, point: Sequence[int]) -> Any:
        """(arguments, keywords) with other sizes."""
        pairs = zip(self.places, self.ties, strict=True)
        where = {(n, dim): point[group] * factor for (n, dim, _), (group, factor) in pairs}
        examples = []
        for number, value in enumerate(self.tensors):
            if isinstance(value, _SHAPED) and type(value) is not NumberTensor:
                shape = tuple(where.get((number, d), s) for d, s in enumerate(value.shape))
                value = ShapeDtype.of(value, shape, self.marked and value.requires_grad)
            examples.append(value)
        return pytrees.unflatten(self.structure, examples)

"""Nests as C functions.

A function runs its nest over rows first … last - 1 of the outer dimensions, so that threads can
share them. Vectors run along the innermost dimension of each loop (`rows`), or, where those are
short, along a block of rows (`lanes`): then values that stay in the nest are kept one block at a
time, transposed, and reductions of a row need no horizontal sums. Where a condition on a position
decides what is read (the pieces of a value), the loop is cut there and each part has its own body.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.compiler.affine import Affine
from adjoint.compiler.c.accumulators import ACCUMULATORS
from adjoint.compiler.c.body import Body, Check, Guard, Load, Place, Statement
from adjoint.compiler.c.schedule import WHOLE, Axis, Schedule, Shaped
from adjoint.compiler.definitions import Prefix, Put, Reduction
from adjoint.compiler.nests import Nest, row_elements
from adjoint.compiler.plan import Plan
from adjoint.core.records import structure
from adjoint.elements.numbers import C_TYPES
from adjoint.graph.ir import Node, Value
from adjoint.native import cache

_LANES = 64  # rows in a block
_BLOCK_BYTES = 1 << 15  # that the values of a block should fit into
_PADDED = 64  # up to this size a loop is run in whole vectors
_TILE = 16  # rows of a tile where a matrix is turned
PARALLEL = 1 << 21  # additions from which threads pay: waking them takes some 25 µs
THREADS = 16  # at most; each has accumulators of its own
_MOST_PARTIAL = 1 << 15  # accumulators of one thread


@structure
class Function:
    """The C function of a nest."""

    name: str
    text: str
    pointers: list[Value]  # its arguments, in order
    rows: int
    partials: list[tuple[Node, int]]  # reductions over rows, and how many accumulators each has
    work: int  # about as many additions
    divisible: bool  # whether threads can share its rows
    checks: bool  # whether it can find an index out of range


def write_nest(plan: Plan, nest: Nest, name: str) -> Function:
    """Return the C function of a nest."""
    return _Writer(plan, nest, name).function()


class _Writer:
    def __init__(self, plan: Plan, nest: Nest, name: str) -> None:
        self.plan, self.nest, self.name = plan, nest, name
        self.schedule = Schedule(plan, nest)
        self.outer, self.lanes = self.schedule.outer, self.schedule.lanes
        self.pointers: dict[Value, str] = {}
        self.partials: list[tuple[Node, int]] = []
        self.checks = False
        self.block = 0  # rows in a block; 0: all, without memory for them

    def function(self) -> Function:
        shaped, rows = self.schedule.loops, self.schedule.rows
        body = self._lanes(shaped, rows) if self.lanes else self._rows(shaped)
        work = sum(math.prod(s.loop.space) * s.body.work() for s in shaped)
        partial = sum(count for _, count in self.partials)
        divisible = (
            rows > 1
            and partial <= _MOST_PARTIAL
            and not any(m.sequential for m in self.nest.members)
        )
        return Function(
            self.name, self._text(body), list(self.pointers), rows, self.partials, work,
            divisible, self.checks,
        )  # fmt: skip

    # -- rows -------------------------------------------------------------------------------------

    def _rows(self, shaped: list[Shaped]) -> list[str]:
        lines: list[str] = []
        for k, s in enumerate(shaped):
            lines += self._declare_partials(s, k)
        if not self.outer[0]:
            return [*lines, *self._loop(shaped[0], 0, {}, None)]
        if len(shaped) == 1:
            axis = shaped[0].axes[self.outer[0][0]]
            if self._turns(shaped[0]):
                return self._tiled(shaped[0])
            if shaped[0].kind is Prefix and axis.reduced:
                for node, name in self._accumulators(shaped[0], 0):
                    lines.append(f"{_acc_type(node)} {name} = {_start(self.plan, node)};")
            for low, high in _parts(axis.size, shaped[0].cuts.get(self.outer[0][0], [])):
                inner = self._loop(shaped[0], 0, axis.within(low, high), None)
                lines.append(
                    f"for (long {_name(axis)} = LARGER(first, {low}); "
                    f"{_name(axis)} < SMALLER(last, {high}); {_name(axis)}++) {{"
                )
                lines += [*_indented(inner), "}"]
            return lines
        lines.append("for (long row = first; row < last; row++) {")
        inner = self._locals(1)
        inner += self._row_indices(shaped[0])
        for k, s in enumerate(shaped):
            inner += ["{", *_indented(self._loop(s, k, {}, None)), "}"]
        return [*lines, *_indented(inner), "}"]

    def _turns(self, shaped: Shaped) -> bool:
        """Whether a loop over two axes reads or writes along one what it should along the other."""
        if len(shaped.axes) != 2 or shaped.kind is not None or shaped.cuts:
            return False
        outer, inner = (shaped.axes[k].dims[-1] for k in (self.outer[0][0], self.schedule.vector))
        places = [s.place.address for s in shaped.body.statements if isinstance(s, Load)]
        places += list(shaped.writes.values())
        sizes = min(a.size for a in shaped.axes)
        turned = any(p.coefficient(outer) == 1 and p.coefficient(inner) > WHOLE for p in places)
        return turned and sizes > _TILE

    def _tiled(self, shaped: Shaped) -> list[str]:
        """Rows and columns in tiles, each of which stays in the cache however it is walked."""
        rows, columns = (shaped.axes[k] for k in (self.outer[0][0], self.schedule.vector))
        i, j = _name(rows), _name(columns)
        body = self._printed(shaped, 0, self._body(shaped, {}))
        return [
            f"for (long above = first; above < last; above += {_TILE})",
            f"for (long left = 0; left < {columns.size}; left += {4 * _TILE})",
            f"for (long {i} = above; {i} < SMALLER(above + {_TILE}, last); {i}++) {{",
            "  #pragma omp simd",
            f"  for (long {j} = left; {j} < SMALLER(left + {4 * _TILE}, {columns.size}); {j}++) {{",
            *_indented(_indented(body)),
            "  }",
            "}",
        ]

    def _row_indices(self, shaped: Shaped) -> list[str]:
        """The indices of the outer axes from the number of the row."""
        lines, rest = [], "row"
        for k in reversed(self.outer[0][1:]):
            axis = shaped.axes[k]
            lines.append(f"const long {_name(axis)} = ({rest}) % {axis.size};")
            rest = f"({rest}) / {axis.size}"
        return [*lines, f"const long {_name(shaped.axes[self.outer[0][0]])} = {rest};"]

    # -- lanes ------------------------------------------------------------------------------------

    def _lanes(self, shaped: list[Shaped], rows: int) -> list[str]:
        lines: list[str] = []
        for k, s in enumerate(shaped):
            lines += self._declare_partials(s, k)
        blocked = len(shaped) > 1 or any(len(s.axes) > 1 and s.loop.combining for s in shaped)
        if not blocked:
            return [*lines, *self._straight(shaped[0], rows)]
        room = sum(row_elements(v, self.nest.outer) * v.dtype.itemsize for v in self.nest.local)
        self.block = _LANES
        while self.block > WHOLE and room * self.block > _BLOCK_BYTES:
            self.block //= 2
        if len(shaped) == 1 and rows >= 4 * _LANES:
            self.block = 4 * _LANES
        lines.append(f"for (long start = first; start < last; start += {self.block}) {{")
        inner = [f"const long lanes = SMALLER(last - start, {self.block});"]
        inner += self._locals(self.block)
        for k, s in enumerate(shaped):
            inner += ["{", *_indented(self._loop(s, k, {}, self.outer[k][0])), "}"]
        return [*lines, *_indented(inner), "}"]

    def _straight(self, shaped: Shaped, rows: int) -> list[str]:
        """Vectors along the rows themselves."""
        k = self.outer[0][0]
        axis, name = shaped.axes[k], _name(shaped.axes[k])
        names = self._accumulators(shaped, 0)
        lines = [f"{_acc_type(n)} {a} = {_start(self.plan, n)};" for n, a in names]
        for low, high in _parts(axis.size, shaped.cuts.get(k, [])):
            body = self._body(shaped, axis.within(low, high))
            short = (
                self._padded(shaped, body, rows, name) if high - low == rows <= _PADDED else None
            )
            if short is not None:
                lines += short
                continue
            lines.append(self._simd(shaped, [a for _, a in names]))
            lines.append(
                f"for (long {name} = LARGER(first, {low}); {name} < SMALLER(last, {high}); "
                f"{name}++) {{"
            )
            lines += [*_indented(self._printed(shaped, 0, body)), "}"]
        return lines + [f"{a}p[0] = {a};" for _, a in names]

    # -- one loop ---------------------------------------------------------------------------------

    def _loop(
        self, shaped: Shaped, number: int, bounds: dict[int, tuple[int, int]], lane: int | None
    ) -> list[str]:
        """The axes of a loop that are inside a row, or, with `lane`, inside a block of rows."""
        outside = set(self.outer[number]) if lane is None else {lane}
        inner = [k for k in range(len(shaped.axes)) if k not in outside]
        kept = [k for k in inner if not shaped.axes[k].reduced]
        reduced = [k for k in inner if shaped.axes[k].reduced]
        if not inner and lane is None:
            body = self._body(shaped, bounds)
            names = self._accumulators(shaped, number)
            if shaped.kind is Reduction:
                lines = [f"{_acc_type(n)} {a} = {_start(self.plan, n)};" for n, a in names]
                lines += self._printed(shaped, number, body)
                return lines + [self._finish(shaped, number, n, a) for n, a in names]
            return self._printed(shaped, number, body)
        if lane is not None:
            return self._combined(shaped, number, bounds, kept, reduced, lane, lane)
        if shaped.kind is Put:
            return self._around(
                shaped,
                inner,
                bounds,
                lambda b: self._printed(shaped, number, self._body(shaped, b)),
            )
        vector = (
            self.schedule.vector
            if len(self.nest.members) == 1
            else self.schedule.best_axis(shaped, inner)
        )
        if shaped.kind is None:
            order = [k for k in inner if k != vector]
            return self._around(
                shaped, order, bounds, lambda b: self._vector(shaped, number, b, vector, [])
            )
        return self._combined(
            shaped, number, bounds, [k for k in kept if k != vector],
            [k for k in reduced if k != vector], vector, None,
        )  # fmt: skip

    def _combined(
        self, shaped: Shaped, number: int, bounds: dict[int, tuple[int, int]], kept: list[int],
        reduced: list[int], vector: int, lane: int | None,
    ) -> list[str]:  # fmt: skip
        """The loops over kept dimensions enclose the loops over reduced ones."""
        names = self._accumulators(shaped, number)
        combining = shaped.kind in (Reduction, Prefix)
        axis = shaped.axes[vector]
        each = combining and not axis.reduced  # an accumulator for each element of the vector
        scanned = shaped.kind is Prefix
        direct = (
            each and shaped.kind is Reduction and not reduced and self._over_rows(shaped, number)
        )
        size = self.block if lane is not None else axis.size

        def accumulate(bounds: dict[int, tuple[int, int]]) -> list[str]:
            if not combining:
                return self._vector(shaped, number, bounds, vector, [], lane=lane)
            if direct:
                return self._vector(shaped, number, bounds, vector, names, lane=lane, direct=True)
            lines = []
            for node, name in names:
                c_type, start = _acc_type(node), _start(self.plan, node)
                if each:
                    lines.append(f"{c_type} {name}[{size}];")
                    end = "lanes" if lane is not None else str(axis.size)
                    lines.append(f"for (long b = 0; b < {end}; b++) {name}[b] = {start};")
                else:
                    lines.append(f"{c_type} {name} = {start};")
            lines += self._around(
                shaped, reduced, bounds,
                lambda b: self._vector(shaped, number, b, vector, names, lane=lane, each=each),
            )  # fmt: skip
            if scanned:
                return lines
            finish = [self._finish(shaped, number, n, f"{a}[b]" if each else a) for n, a in names]
            if each and lane is not None:
                place = f"const long {_name(axis)} = start + b;"
                return [
                    *lines,
                    f"for (long b = 0; b < lanes; b++) {{ {place}",
                    *_indented(finish),
                    "}",
                ]
            if each:
                name = _name(axis)
                finish = [self._finish(shaped, number, n, f"{a}[{name}]") for n, a in names]
                return [*lines, f"for (long {name} = 0; {name} < {axis.size}; {name}++) {{",
                        *_indented(finish), "}"]  # fmt: skip
            return lines + finish

        return self._around(shaped, kept, bounds, accumulate)

    def _around(
        self, shaped: Shaped, axes: Sequence[int], bounds: dict[int, tuple[int, int]],
        inner: Callable[[dict[int, tuple[int, int]]], list[str]],
    ) -> list[str]:  # fmt: skip
        """Loops over some axes around what `inner` gives for each part."""
        if not axes:
            return inner(bounds)
        axis = shaped.axes[axes[0]]
        lines: list[str] = []
        for low, high in _parts(axis.size, shaped.cuts.get(axes[0], [])):
            name = _name(axis)
            part = self._around(shaped, axes[1:], {**bounds, **axis.within(low, high)}, inner)
            head = f"for (long {name} = {low}; {name} < {high}; {name}++) {{"
            if high == low + 1:
                head = f"{{ const long {name} = {low};"
            lines += [head, *_indented(part), "}"]
        return lines

    def _vector(
        self, shaped: Shaped, number: int, bounds: dict[int, tuple[int, int]], vector: int,
        names: list[tuple[Node, str]], *, lane: int | None = None, each: bool = False,
        direct: bool = False,
    ) -> list[str]:  # fmt: skip
        """The innermost loop."""
        axis = shaped.axes[vector]
        name = _name(axis)
        scans = shaped.kind is Prefix and axis.reduced
        scalars = [] if each or direct else [a for _, a in names]
        if lane is not None:
            body = self._printed(shaped, number, self._body(shaped, bounds), "b" if each else "")
            pragma = "" if scans else self._simd(shaped, scalars)
            head = f"for (long b = 0; b < lanes; b++) {{ const long {name} = start + b;"
            return [pragma, head, *_indented(body), "}"]
        lines: list[str] = []
        for low, high in _parts(axis.size, shaped.cuts.get(vector, [])):
            inside = {**bounds, **axis.within(low, high)}
            body = self._body(shaped, inside)
            short = None
            if high - low == axis.size and axis.size <= _PADDED and not scalars and not names:
                short = self._padded(shaped, body, axis.size, name)
            if short is not None:
                lines += short
                continue
            lines.append("" if scans else self._simd(shaped, scalars))
            lines.append(f"for (long {name} = {low}; {name} < {high}; {name}++) {{")
            lines += [
                *_indented(self._printed(shaped, number, body, name if each else "", direct)),
                "}",
            ]
        return lines

    # -- reductions -------------------------------------------------------------------------------

    def _accumulators(self, shaped: Shaped, number: int) -> list[tuple[Node, str]]:
        if shaped.kind not in (Reduction, Prefix):
            return []
        return [(n, f"acc{number}_{k}") for k, n in enumerate(shaped.loop.combining)]

    def _over_rows(self, shaped: Shaped, number: int) -> bool:
        """Whether rows are reduced, so that each thread has accumulators of its own."""
        return any(shaped.axes[k].reduced for k in self.outer[number])

    def _declare_partials(self, shaped: Shaped, number: int) -> list[str]:
        """Accumulators that last through all rows."""
        if shaped.kind is not Reduction:
            return []
        lines = []
        for node, name in self._accumulators(shaped, number):
            outer = [shaped.axes[k] for k in self.outer[number]]
            if not any(a.reduced for a in outer):
                continue
            count = math.prod(node.output.shape)
            offset = sum(c for _, c in self.partials)
            self.partials.append((node, count))
            c_type = _acc_type(node)
            lines.append(f"{c_type} *restrict {name}p = ({c_type} *)partial + {offset};")
            lines.append(
                f"for (long k = 0; k < {count}; k++) {name}p[k] = {_start(self.plan, node)};"
            )
        return lines

    def _finish(self, shaped: Shaped, number: int, node: Node, name: str) -> str:
        """Store an accumulator, or add it to those that last through all rows."""
        address = self._index(shaped, shaped.writes[node.output])
        if any(n is node for n, _ in self.partials):
            kind = self.plan.definitions[node].kind
            target = f"{name.partition('[')[0]}p[{address}]"
            return ACCUMULATORS[kind].take.format(acc=target, v=f"({name})")
        place = self._place_text(shaped, Place(node.output, shaped.writes[node.output]))
        return f"{place} = {finished(self.plan, node, name)};"

    # -- text -------------------------------------------------------------------------------------

    def _body(self, shaped: Shaped, bounds: dict[int, tuple[int, int]]) -> Body:
        """The statements for the part of the space within bounds."""
        space = shaped.loop.space
        full = [bounds.get(d, (0, s)) for d, s in enumerate(space)]
        body = Body(self.plan, shaped.member.position, full)
        body.run(shaped.loop, space)
        return body

    def _printed(
        self, shaped: Shaped, number: int, body: Body, each: str = "", direct: bool = False
    ) -> list[str]:
        lines = [self._statement(shaped, s) for s in body.statements]
        space = shaped.loop.space
        for value in shaped.loop.stored:
            place = self._place_text(shaped, Place(value, shaped.writes[value]))
            lines.append(f"{place} = {body.aligned(value, space)};")
        names = self._accumulators(shaped, number)
        for node, name in names:
            definition = self.plan.definitions[node]
            target = f"{name}[{each}]" if each else name
            if direct:
                target = f"{name}p[{self._index(shaped, shaped.writes[node.output])}]"
            source = body.source(definition, space)
            lines.append(ACCUMULATORS[definition.kind].take.format(acc=target, v=source))
            if isinstance(definition, Prefix):
                place = self._place_text(shaped, Place(node.output, shaped.writes[node.output]))
                lines.append(f"{place} = {target};")
        if shaped.kind is Put:
            lines += self._written(shaped, body)
        return lines

    def _written(self, shaped: Shaped, body: Body) -> list[str]:
        (node,) = shaped.loop.combining
        definition = self.plan.definitions[node]
        known = len(body.statements)
        place = body.put_place(node.output, definition)
        source = body.source(definition, shaped.loop.space)
        lines = [self._statement(shaped, s) for s in body.statements[known:]]
        sign = "+=" if definition.accumulate else "="
        return [*lines, f"{self._place_text(shaped, place)} {sign} {source};"]

    def _statement(self, shaped: Shaped, statement: Statement) -> str:
        condition = " && ".join(_condition(self, shaped, g) for g in statement.guards)
        if isinstance(statement, Load):
            place = self._place_text(shaped, statement.place)
            text = f"{condition} ? {place} : 0" if condition else place
            return f"const {statement.c_type} {statement.name} = {text};"
        if isinstance(statement, Check):
            self.checks = True
            index, size = statement.index, statement.size
            least = f"-{size}" if statement.wraps else "0"
            fine = f"({index} >= {least} && {index} < {size})"
            bad = f"({condition}) && !{fine}" if condition else f"!{fine}"
            wrapped = f"{index} + ({index} < 0 ? {size} : 0)" if statement.wraps else index
            safe = f"{fine} ? {wrapped} : 0"
            return f"wrong |= {bad}; const long long {statement.name} = {safe};"
        text = statement.text.replace("COND", f"({condition})") if condition else statement.text
        if statement.positions:
            text = text.format(*(self._index(shaped, p) for p in statement.positions))
        return f"const {statement.c_type} {statement.name} = {text};"

    def _place_text(self, shaped: Shaped, place: Place) -> str:
        value = place.value
        if value in self.nest.local:
            return self._local_text(shaped, place)
        self.pointers.setdefault(value, f"p{len(self.pointers)}")
        terms = [self._index(shaped, place.address)]
        terms += [f"{name} * {stride}" for name, stride in place.chosen]
        return f"{self.pointers[value]}[{' + '.join(t for t in terms if t != '0') or '0'}]"

    def _local_text(self, shaped: Shaped, place: Place) -> str:
        """A value of a nest in the memory of one row, or of one block of rows."""
        count = len(self.nest.outer)
        terms = tuple((v, c) for v, c in place.address.terms if v >= count)
        inside = self._index(shaped, Affine(place.address.offset, terms))
        name = f"l{self.nest.local.index(place.value)}"
        if self.lanes:
            return f"{name}[({inside}) * {self.block} + b]"
        return f"{name}[{inside}]"

    def _locals(self, block: int) -> list[str]:
        return [
            f"{C_TYPES[v.dtype.name]} l{k}[{row_elements(v, self.nest.outer) * block}];"
            for k, v in enumerate(self.nest.local)
        ]

    def _index(self, shaped: Shaped, address: Affine) -> str:
        """An address in terms of the loops' variables; joined dimensions have one."""
        terms = [str(address.offset)] if address.offset else []
        for axis in shaped.axes:
            step = address.coefficient(axis.dims[-1])
            if step:
                terms.append(_name(axis) if step == 1 else f"{_name(axis)} * {step}")
        return " + ".join(terms) or "0"

    def _simd(self, shaped: Shaped, scalars: Sequence[str]) -> str:
        """Let vectors run along a loop whose accumulators are `scalars`."""
        clauses = ""
        for node, name in zip(shaped.loop.combining, scalars, strict=False):
            kind, c_type = self.plan.definitions[node].kind, _acc_type(node)
            clauses += f" reduction({ACCUMULATORS[kind].clause(c_type)}:{name})"
        return f"#pragma omp simd{clauses}"

    def _padded(self, shaped: Shaped, body: Body, size: int, name: str) -> list[str] | None:
        """A short loop in whole vectors: elements beside them would call slow scalar functions."""
        if (
            size < 2
            or size % WHOLE == 0
            or not body.functions()
            or shaped.kind not in (None, Reduction)
        ):
            return None
        if any(isinstance(s, Check) or s.guards for s in body.statements):
            return None
        if shaped.kind is Reduction and not all(
            self.plan.definitions[n].kind in ("sum", "mean") for n in shaped.loop.combining
        ):
            return None
        room = -(-size // WHOLE) * WHOLE
        before: list[str] = []
        inside: list[str] = []
        after: list[str] = []

        def each(first: int, last: int, text: str) -> str:
            return f"for (long {name} = {first}; {name} < {last}; {name}++) {text}"

        for statement in body.statements:
            if isinstance(statement, Load) and statement.place.address.terms:
                local = f"w{statement.name}"
                before.append(f"{statement.c_type} {local}[{room}];")
                place = self._place_text(shaped, statement.place)
                before.append(each(0, size, f"{local}[{name}] = {place};"))
                before.append(each(size, room, f"{local}[{name}] = {local}[0];"))
                inside.append(f"const {statement.c_type} {statement.name} = {local}[{name}];")
            else:
                inside.append(self._statement(shaped, statement))
        results = [
            (C_TYPES[v.dtype.name], body.aligned(v, shaped.loop.space),
             f"{self._place_text(shaped, Place(v, shaped.writes[v]))} = {{}};")
            for v in shaped.loop.stored
        ]  # fmt: skip
        results += [
            (
                _acc_type(n),
                body.source(self.plan.definitions[n], shaped.loop.space),
                f"{a} += {{}};",
            )
            for n, a in self._accumulators(shaped, 0)
        ]
        for number, (c_type, source, text) in enumerate(results):
            before.append(f"{c_type} r{number}[{room}];")
            inside.append(f"r{number}[{name}] = {source};")
            after.append(each(0, size, text.format(f"r{number}[{name}]")))
        loop = [f"for (long {name} = 0; {name} < {room}; {name}++) {{", *_indented(inside), "}"]
        return ["{", *before, "#pragma omp simd", *loop, *after, "}"]

    def _text(self, body: list[str]) -> str:
        arguments = [f"{C_TYPES[v.dtype.name]} *restrict {p}" for v, p in self.pointers.items()]
        arguments += ["const long first", "const long last"]
        if self.partials:
            arguments.append("double *restrict partial")
        if self.checks:
            arguments.append("int *status")
            body = ["int wrong = 0;", *body, "if (wrong) *status = 1;"]
        return "\n".join(
            [
                *(self._comment() if cache.debugging() else ()),
                f"static void {self.name}({', '.join(arguments)}) {{",
                *_indented(["(void)first; (void)last;", *filter(None, body)]),
                "}",
                "",
            ]
        )

    def _comment(self) -> list[str]:
        """Which lines of the user's program the function comes from."""
        nodes = [
            n
            for m in self.nest.members
            for n in (*(v.node for v in m.loop.inside), *m.loop.combining)
            if n is not None
        ]
        places: dict[str, list[str]] = {}
        for node in nodes:
            places.setdefault(node.place or "no line", []).append(node.op.name)
        return [f"/* {place}: {', '.join(names)} */" for place, names in places.items()]


def _parts(size: int, cuts: Sequence[int]) -> list[tuple[int, int]]:
    edges = [0, *cuts, size]
    return list(itertools.pairwise(edges))


def _condition(writer: Any, shaped: Shaped, guard: Guard) -> str:
    position = writer._index(shaped, guard.position)
    return f"{position} >= {guard.low} && {position} < {guard.high}"


def _name(axis: Axis) -> str:
    return f"i{axis.dims[-1]}"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines if line]


def _acc_type(node: Node) -> str:
    return "double" if node.output.dtype.is_floating_point else "long long"


def _start(plan: Plan, node: Node) -> str:
    definition = plan.definitions[node]
    if isinstance(definition, Prefix) and definition.kind == "sum":
        return "-0.0" if _acc_type(node) == "double" else "0"  # the first element is as it was
    return ACCUMULATORS[definition.kind].start(_acc_type(node))


def finished(plan: Plan, node: Node, name: str) -> str:
    """The result of a reduction from its accumulator."""
    definition = plan.definitions[node]
    if not isinstance(definition, Reduction) or definition.kind != "mean":
        return name
    count = math.prod(definition.source.shape) // max(math.prod(node.output.shape), 1)
    return f"{name} / {count}.0"

"""Loops over time and branches as C text: plans of their own, run in each iteration."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from adjoint.compiler.plan import Nested, Remake, Strided
from adjoint.compiler.targets.c.scope import (
    CScope,
    SizeTable,
    copied,
    inner_start,
    row_bytes,
)
from adjoint.compiler.targets.c.tapes import AGAIN
from adjoint.core.c_types import C_TYPES
from adjoint.graph.control.staging import UNKNOWN
from adjoint.graph.ir import Value


class Regions:
    """Writes loops over time and branches; `steps` writes the steps of a plan."""

    def __init__(self, table: SizeTable, steps: Callable[[CScope, Sequence[int]], str]) -> None:
        self.table, self.steps = table, steps

    def text(self, scope: CScope, step: Nested, number: int) -> str:
        write = {"scan": self._scan, "while_loop": self._while, "cond": self._branch}
        return write[step.node.op.name](scope, step, number)

    def _inner(self, scope: CScope, number: int, name: str) -> CScope:
        """The scope of a region's graph, whose arena follows those of the graphs before it."""
        layout = scope.layout
        known = inner_start(layout, number, name)
        start = self.table.number(layout, (number, name), known)
        base, prefix = f"({scope.base} + {start})", f"{scope.prefix}{number}{name}_"
        inner = layout.inner[number][name]
        return CScope(inner, base, self.table, scope.tapes, dict(scope.places), prefix)

    def place(self, scope: CScope, operand: Strided | Value) -> str:
        """The place of an operand of a region that has run."""
        if isinstance(operand, Strided):
            return f"(char *){scope.operand(operand)}"
        return scope.place(operand)

    def _bind(self, inner: CScope, values: Sequence[Value], given: Sequence[str]) -> None:
        inner.places.update(zip(values, given, strict=True))

    def _share_tapes(self, scope: CScope, values: Sequence[Value], operands: Sequence[Any]) -> None:
        """Let a region's inputs use the tapes of its operands."""
        for value, operand in zip(values, operands, strict=True):
            if isinstance(operand, Strided) and operand.value in scope.tapes:
                scope.tapes[value] = scope.tapes[operand.value]

    def _given(self, scope: CScope, step: Nested) -> tuple[list[str], list[str]]:
        """(lines, pointers) of a region's operands; the lines write numbers to memory."""
        lines, found = [], []
        for number, operand in enumerate(step.operands):
            value = step.filled.get(number)
            if value is not None:
                lines.append(copied(value, scope.pointer(value), operand) + "\n")
            found.append(self.place(scope, operand if value is None else value))
        return lines, found

    def _scan(self, scope: CScope, step: Nested, number: int) -> str:
        constants, start, xs, length, backwards = step.node.args
        counts = len(constants), len(start), len(xs)
        inner = self._inner(scope, number, "body")
        graph = inner.layout.plan.graph
        lines, given = self._given(scope, step)
        t = f"t{inner.prefix}"
        self._bind(inner, graph.inputs[: counts[0]], given[: counts[0]])
        self._share_tapes(scope, graph.inputs[: counts[0]], step.operands[: counts[0]])
        ends = counts[0] + counts[1]
        for value, place in zip(graph.inputs[ends:], given[ends:], strict=True):
            inner.places[value] = f"({place} + {t} * {row_bytes(value.shape, value)})"
        again = [
            _RecomputedCarries(self, scope, r, self._inner(scope, number, r.name))
            for r in step.remakes
        ]
        for turns in again:
            inner.places |= {
                v: turns.rows[x] for v, x in zip(graph.inputs[ends:], xs) if x in turns.rows
            }
        carry = graph.inputs[counts[0] : ends]
        count = str(length)
        if length == UNKNOWN:
            count = f"({scope.tape(xs[0])})->count"
            for value in self._tapes(step):
                lines.append(f"({scope.tape(value)})->count = {count};\n")
                lines.append(self.grown(scope, value, count, count))
            lines += [line for turns in again for line in turns.declare(count)]
        ys = step.node.outputs[counts[1] :]
        rows = {
            position + counts[1]: f"({scope.place(v)} + {t} * {row_bytes(v.shape[1:], v)})"
            for position, v in enumerate(ys)
        }
        s = f"s{inner.prefix}"
        head = f"for (long {s} = 0; {s} < {count}; {s}++) {{\n"
        loop = _Carries(self, scope, inner, step, carry, rows)
        lines += loop.declare(given[counts[0] : ends])
        lines.append(f"{head}const long {t} = {f'{count} - 1 - {s}' if backwards else s};\n")
        for turns in again:
            lines += turns.back_to(t) if backwards else turns.on_to(t)
        lines += loop.body()
        lines.append("}\n")
        lines += loop.finish()
        return "{\n" + "".join(lines) + "}\n"

    def _tapes(self, step: Nested) -> list[Value]:
        return [v for v in step.node.outputs if UNKNOWN in v.shape]

    def grown(self, scope: CScope, value: Value, turns: str, most: str) -> str:
        """Ensure that a tape has room for some turns; if there is no memory the call fails."""
        tape, size = scope.tape(value), row_bytes(value.shape[1:], value)
        return f"if (has_no_room({tape}, {turns}, {most}, {size})) {{ *status = 1; return; }}\n"

    def _while(self, scope: CScope, step: Nested, number: int) -> str:
        first, constants, start, _ = step.node.args
        counts = len(first), len(constants), len(start)
        condition = self._inner(scope, number, "condition")
        inner = self._inner(scope, number, "body")
        lines, given = self._given(scope, step)
        asked = condition.layout.plan
        self._bind(condition, asked.graph.inputs[: counts[0]], given[: counts[0]])
        graph = inner.layout.plan.graph
        constant = slice(counts[0], counts[0] + counts[1])
        self._bind(inner, graph.inputs[: counts[1]], given[constant])
        self._share_tapes(scope, graph.inputs[: counts[1]], step.operands[constant])
        carry = graph.inputs[counts[1] :]
        loop = _Carries(self, scope, inner, step, carry, {})
        lines += loop.declare(given[counts[0] + counts[1] :])
        self._bind(condition, asked.graph.inputs[counts[0] :], [inner.places[v] for v in carry])
        turn, shift, most = (f"{letter}{inner.prefix}" for letter in ("s", "shift", "most"))
        tapes = self._tapes(step)
        lines.append(f"long {turn} = 0;\n")
        if tapes:
            room = _most_kept(scope, tapes) if step.thins else "0x7fffffffffffffff"
            lines.append(f"const long {most} = {room};\nlong {shift} = 0;\n")
        lines.append(f"for (;; {turn}++) {{\n")
        lines.append(self.steps(condition, range(len(condition.layout.steps))))
        (answer,) = asked.outputs
        held = (
            f"{condition.operand(answer)}[0]" if isinstance(answer, Strided) else str(int(answer))
        )
        lines.append(f"if (!{held}) break;\n")
        if tapes:
            lines += self._kept(scope, tapes, loop.names, turn, shift, most)
        lines += loop.body()
        lines.append("}\n")
        for tape in map(scope.tape, tapes):
            lines.append(f"({tape})->count = {turn}; ({tape})->shift = {shift};\n")
        lines += loop.finish()
        return "{\n" + "".join(lines) + "}\n"

    def _kept(
        self,
        scope: CScope,
        tapes: list[Value],
        names: list[str],
        turn: str,
        shift: str,
        most: str,
    ) -> list[str]:
        """Copy the carry of a turn to its tape if it is one to keep: Note [Thinned tapes]."""
        is_kept = f"!({turn} & ((1L << {shift}) - 1))"
        sizes = [row_bytes(v.shape[1:], v) for v in tapes]
        lines = [f"if ({is_kept} && {turn} >> {shift} == {most}) {{\n"]
        for value, size in zip(tapes, sizes, strict=True):
            lines.append(f"thin({scope.tape(value)}, {most}, {size});\n")
        lines.append(f"{shift}++;\n}}\nif ({is_kept}) {{\n")
        for value, name, size in zip(tapes, names, sizes, strict=True):
            lines.append(self.grown(scope, value, f"({turn} >> {shift}) + 1", most))
            if size:  # an empty carry has no memory
                row = f"{scope.place(value)} + ({turn} >> {shift}) * {size}"
                lines.append(f"__builtin_memcpy({row}, {name}, {size});\n")
        return [*lines, "}\n"]

    def _branch(self, scope: CScope, step: Nested, number: int) -> str:
        lines, given = self._given(scope, step)
        held = f"((unsigned char *){given[0]})[0]"
        parts = []
        for name in ("true", "false"):
            inner = self._inner(scope, number, name)
            self._bind(inner, inner.layout.plan.graph.inputs, given[1:])
            self._share_tapes(scope, inner.layout.plan.graph.inputs, step.operands[1:])
            text = self.steps(inner, range(len(inner.layout.steps)))
            for output, target in zip(inner.layout.plan.outputs, step.node.outputs, strict=True):
                source = inner.operand(output) if isinstance(output, Strided) else output
                text += copied(target, scope.pointer(target), source) + "\n"
            parts.append(text)
        lines.append(f"if ({held}) {{\n{parts[0]}}} else {{\n{parts[1]}}}\n")
        return "{\n" + "".join(lines) + "}\n"


class _Carries:
    """The carried values of a loop over time.

    A turn reads its carry at the pointers `c…`. It writes the next one to one of two buffers, or to
    the row of an output that is the same value, and moves the pointer there. A value computed in
    the turn is written in place, without a copy.
    """

    def __init__(
        self, regions: Regions, scope: CScope, inner: CScope, step: Nested,
        carry: Sequence[Value], rows: dict[int, str],
    ) -> None:  # fmt: skip
        self.regions, self.scope, self.inner, self.step = regions, scope, inner, step
        self.carry, self.rows = list(carry), rows
        self.names = [f"c{inner.prefix}{k}" for k in range(len(carry))]

    def declare(self, given: Sequence[str]) -> list[str]:
        lines = [f"char *{n} = {g};\n" for n, g in zip(self.names, given, strict=True)]
        self.inner.places.update(zip(self.carry, self.names, strict=True))
        return lines

    def _next(self, k: int) -> str:
        even, odd = self.step.carried[k]
        turn = f"(s{self.inner.prefix} & 1)"
        return f"({turn} ? {self.scope.place(odd)} : {self.scope.place(even)})"

    def body(self) -> list[str]:
        """C text of the steps of a turn, and of moving the carry on."""
        plan = self.inner.layout.plan
        outputs = plan.outputs
        bound: dict[Value, str] = {}
        others: list[tuple[Any, Value, str]] = []
        places = [*(self._next(k) for k in range(len(self.carry))), *self.rows.values()]
        order = [*range(len(self.carry), len(outputs)), *range(len(self.carry))]
        for k in order:
            operand, target = outputs[k], self.step.node.outputs[k]
            value = self._own(operand)
            if value is not None and value not in bound:
                bound[value] = places[k]
            elif value is None or k >= len(self.carry):
                others.append((operand, self._typed(target, k), places[k]))
        self.inner.places.update(bound)
        lines = [self.regions.steps(self.inner, range(len(self.inner.layout.steps)))]
        for operand, like, place in others:
            source = self.inner.operand(operand) if isinstance(operand, Strided) else operand
            c_type = C_TYPES[like.dtype.name]
            lines.append(copied(like, f"(({c_type} *){place})", source) + "\n")
        moves = []
        for k, name in enumerate(self.names):
            value = self._own(outputs[k])
            moves.append((name, bound[value] if value is not None else places[k]))
        lines += [f"char *const n{n} = {place};\n" for n, place in moves]
        lines += [f"{n} = n{n};\n" for n, _ in moves]
        return lines

    def _typed(self, target: Value, k: int) -> Value:
        """A value with the shape that one turn computes."""
        if k < len(self.carry):
            return self.carry[k]
        return Value(target.name, type(target.type)(target.shape[1:], target.dtype))

    def _own(self, operand: Any) -> Value | None:
        """The value of an operand if it is all of a value computed in the turn, else None."""
        layout = self.inner.layout
        if not isinstance(operand, Strided) or operand.value not in layout.offsets:
            return None
        whole = math.prod(operand.shape) == math.prod(operand.value.shape)
        return operand.value if whole and not operand.offset else None

    def finish(self) -> list[str]:
        lines = []
        for name, value in zip(self.names, self.step.node.outputs, strict=False):
            c_type = C_TYPES[value.dtype.name]
            target = self.scope.pointer(value)
            lines.append(copied(value, target, f"(({c_type} *){name})") + "\n")
        return lines


class _RecomputedCarries:
    """The carries of a while_loop for a scan over them, which recomputes dropped ones."""

    def __init__(self, regions: Regions, scope: CScope, remake: Remake, inner: CScope) -> None:
        self.regions, self.scope, self.inner = regions, scope, inner
        loop = remake.loop
        self.tapes = [v for v in loop.node.outputs if UNKNOWN in v.shape]
        inputs = inner.layout.plan.graph.inputs
        given = loop.body_operands()
        for value, operand in zip(inputs, given, strict=False):
            inner.places[value] = regions.place(scope, operand)
        step = replace(loop, carried=remake.carried)
        self.turns = _Carries(regions, scope, inner, step, inputs[len(given) :], {})
        self.rows = dict(zip(self.tapes, self.turns.names, strict=True))  # tape -> its pointer
        self.name = inner.prefix

    def declare(self, count: str) -> list[str]:
        """C text of the declarations before the scan."""
        shift, first, room, used = (f"{w}{self.name}" for w in ("shift", "first", "room", "used"))
        lines = [
            f"const long {shift} = ({self.scope.tape(self.tapes[0])})->shift;\n",
            f"const long {first} = (({count} - 1) >> {shift}) + 1;\n",
            f"const long {room} = SMALLER({_most_kept(self.scope, self.tapes)}, {AGAIN});\n",
            f"long {used} = 0, held{self.name}[{AGAIN}];\nif ({shift}) {{\n",
        ]
        rows = f"{first} + {room}"
        lines += [self.regions.grown(self.scope, v, rows, rows) for v in self.tapes]
        return [*lines, "}\n", *self.turns.declare(["0"] * len(self.tapes))]

    def _start(self, slot: str) -> list[str]:
        """C text that points to a kept carry."""
        pairs = zip(self.tapes, self.turns.names, strict=True)
        sizes = {v: row_bytes(v.shape[1:], v) for v in self.tapes}
        return [f"{n} = {self.scope.place(v)} + {slot} * {sizes[v]};\n" for v, n in pairs]

    def back_to(self, t: str) -> list[str]:
        """C text that finds the carry of turn `t`; the carry of turn t + 1 was found before."""
        s, shift, first, room, used, held, slot, next_ = (
            f"{w}{self.name}"
            for w in ("s", "shift", "first", "room", "used", "held", "slot", "next")
        )
        lines = [
            f"while ({used} && {held}[{used} - 1] > {t}) {used}--;\n",
            f"long {s} = {t} >> {shift} << {shift}, {slot} = {t} >> {shift};\n",
            f"if ({used} && {held}[{used} - 1] > {s}) ",
            f"{{ {s} = {held}[{used} - 1]; {slot} = {first} + {used} - 1; }}\n",
            *self._start(slot),
            f"for (long {next_} = {s} + further({t} - {s} + 1, {room} - {used}); {s} < {t};) {{\n",
            *self.turns.body(),
            f"if (++{s} == {next_} && {s} < {t}) {{\n",
        ]
        for value, name in zip(self.tapes, self.turns.names, strict=True):
            if size := row_bytes(value.shape[1:], value):
                row = f"{self.scope.place(value)} + ({first} + {used}) * {size}"
                lines.append(f"__builtin_memcpy({row}, {name}, {size});\n")
        further = f"{next_} = {s} + further({t} - {s} + 1, {room} - {used});"
        return [*lines, f"{held}[{used}++] = {s};\n{further}\n}}\n}}\n"]

    def on_to(self, t: str) -> list[str]:
        """C text that finds the carry of turn `t`; the carry of turn t - 1 was found before."""
        shift = f"shift{self.name}"
        return [
            f"if (!({t} & ((1L << {shift}) - 1))) {{\n",
            *self._start(f"({t} >> {shift})"),
            f"}} else {{\nconst long s{self.name} = {t} - 1;\n",
            *self.turns.body(),
            "}\n",
        ]


def _most_kept(scope: CScope, values: list[Value]) -> str:
    """C text of the number of carries that a loop may keep."""
    size = sum(row_bytes(v.shape[1:], v) for v in values)
    return f"most_kept({scope.tape(values[0])}, {size})"

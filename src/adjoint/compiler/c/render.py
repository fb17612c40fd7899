"""Loops as C text.

Each value is a local variable; broadcasting, views and transposes are strides in an index.
Dimensions that all accesses
walk alike are merged, so that most loops become one. Sums are kept in double.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint.compiler import lower
from adjoint.compiler.c.expressions import C_TYPES, COMBINE, EXPRESSIONS, IDENTITY, literal
from adjoint.compiler.c.padding import padded
from adjoint.compiler.fuse import Loop, Plan, Scan, Step, Write
from adjoint.compiler.lower import Access
from adjoint.core.dtypes import DEFAULT, DType
from adjoint.core.promotion import result_type
from adjoint.graph.ir import Node, Value

_PARALLEL = 1 << 15  # elements from which threads pay


class LoopWriter:
    """Writes one loop nest."""

    def __init__(self, plan: Plan, loop: Loop, slots: dict[Value, int]) -> None:
        self.plan, self.loop, self.slots = plan, loop, slots
        self.names: dict[Value, str] = {}
        self.loads: list[str] = []
        self.body: list[str] = []
        self.accesses: list[
            list[int]
        ] = []  # strides over the iteration of everything that is read or written
        self.pointers: dict[int, Value] = {}
        self.indices: list[str] = []

    def text(self) -> str:
        loop = self.loop
        reduced = loop.reduced or ()
        kept = [d for d in range(len(loop.shape)) if d not in reduced]
        self.order = [*kept, *reduced]
        self.kept = len(kept)
        for node in loop.nodes:
            self._node(node)
        return self._nest()

    # -- one node
    # --------------------------------------------------------------------------------------

    def _node(self, node: Node) -> None:
        if lower.is_reduction(node):
            self._reduction(node)
            return
        c_type = C_TYPES[node.output.dtype.name]
        name = self.names[node.output] = f"v{len(self.names)}"
        self.body.append(f"const {c_type} {name} = {self._expression(node)};")
        if node.output in self.loop.stored:
            self.body.append(f"{self._element(node.output)} = {name};")

    def _expression(self, node: Node) -> str:
        """The expression of a node, its operands cast to the type that it computes in."""
        row = node.op.row
        compute = self._compute_dtype(node)
        c_type = C_TYPES[compute.name]
        promoted = {a.name for a in row.promoted} or set(row.schema.names)
        operands: dict[str, str] = {}
        used = lower.operands_of(node)
        for argument, value in zip(row.schema.arguments, node.args, strict=True):
            if argument.name not in used:
                continue
            if isinstance(value, Value):
                text = self._read(value)
                cast = argument.name in promoted and value.dtype is not compute
                operands[argument.name] = f"(({c_type}){text})" if cast else text
            elif isinstance(value, (bool, int, float)):
                operands[argument.name] = literal(value, c_type)
        text = EXPRESSIONS[node.name]
        if operands.get("alpha") in (literal(1, c_type), "1"):
            text = text.replace("{alpha} * ", "")
        if node.name == "pow.Tensor_Scalar":
            text = _power(node.args[1]) or text
        return text.format(f="f" if c_type == "float" else "", **operands)

    def _compute_dtype(self, node: Node) -> DType:
        row = node.op.row
        named = dict(zip(row.schema.names, node.args, strict=True))
        operands = [named[a.name] for a in row.promoted if named[a.name] is not None]
        if not operands:
            return node.output.dtype
        dtype = result_type(*(o.type.spec if isinstance(o, Value) else o for o in operands))
        return DEFAULT.dtype if row.archetype.to_float and not dtype.is_differentiable else dtype

    def _reduction(self, node: Node) -> None:
        kind = lower.reduction_kind(node)
        name = self.names[node.output] = f"acc{len(self.names)}"
        text = COMBINE[kind].format(acc=name, v=self._read(next(node.inputs())))
        self.body.append(text)

    # -- memory
    # ------------------------------------------------------------------------------------------

    def _read(self, value: Value) -> str:
        if value in self.plan.fills:
            return literal(self.plan.fills[value], C_TYPES[value.dtype.name])
        name = self.names.get(value)
        if name is None:
            name = self.names[value] = f"v{len(self.names)}"
            c_type = C_TYPES[value.dtype.name]
            self.body.append(f"const {c_type} {name} = {self._element(value)};")
        return name

    def _element(self, value: Value) -> str:
        """A place in memory, as p3[I5]: index I5 is written when the loops are known."""
        access = self.plan.access[value]
        lead = len(self.loop.shape) - len(value.shape)
        strides = [0] * lead + [
            0 if size == 1 and full != 1 else stride
            for size, full, stride in zip(
                value.shape, self.loop.shape[lead:], access.strides, strict=True
            )
        ]
        self.accesses.append([strides[d] for d in self.order])
        self.indices.append(offset_text(access))
        slot = self.slots[access.root]
        self.pointers[slot] = access.root
        return f"p{slot}[@{len(self.accesses) - 1}@]"

    # -- loops
    # ---------------------------------------------------------------------------------------------

    def _nest(self) -> str:
        sizes = [self.loop.shape[d] for d in self.order]
        sizes, strides, kept = _merge(sizes, self.accesses, self.kept)
        body = [self._indexed(line, strides) for line in self.body]
        reductions = [n for n in self.loop.nodes if lower.is_reduction(n)]
        lines = [self._declare()]
        if not reductions:
            short = padded(sizes[0], body) if len(sizes) == 1 else None
            whole = _pragma(sizes, 0, len(sizes), simd=True)
            lines += short or _loops(sizes, body, 0, whole, len(sizes))
        else:
            lines += self._reducing(sizes, strides, kept, body, reductions)
        return "{\n" + "\n".join(lines) + "\n}\n"

    def _declare(self) -> str:
        lines = []
        for slot, root in sorted(self.pointers.items()):
            c_type = C_TYPES[root.dtype.name]
            lines.append(f"  {c_type} *restrict p{slot} = DATA(p, {slot});")
        return "\n".join(lines)

    def _indexed(self, line: str, strides: list[list[int]]) -> str:
        while "@" in line:
            before, number, after = line.split("@", 2)
            k = int(number)
            terms = [f"i{d} * {s}" if s != 1 else f"i{d}" for d, s in enumerate(strides[k]) if s]
            offset = self.indices[k]
            line = (
                before
                + " + ".join([*([offset] if offset != "0" or not terms else []), *terms])
                + after
            )
        return line

    def _reducing(
        self,
        sizes: list[int],
        strides: list[list[int]],
        kept: int,
        body: list[str],
        nodes: list[Node],
    ) -> list[str]:
        names = [self.names[n.output] for n in nodes]
        sums = all(lower.reduction_kind(n) in ("sum", "mean") for n in nodes)
        start = [
            f"double {name} = {IDENTITY[lower.reduction_kind(n)]};"
            for name, n in zip(names, nodes, strict=True)
        ]
        end = [self._finish(n, name, sizes[:kept]) for name, n in zip(names, nodes, strict=True)]
        clause = f" reduction(+:{', '.join(names)})" if sums else ""
        whole = kept == 0 or math.prod(sizes[:kept]) == 1
        pragma = _pragma(sizes, kept, len(sizes), simd=sums, clause=clause, parallel=whole and sums)
        short = padded(sizes[0], body) if len(sizes) == 1 and kept == 0 else None
        inner = [*start, *(short or _loops(sizes, body, kept, pragma, len(sizes))), *end]
        outer = {} if whole else _pragma(sizes, 0, kept, simd=False)
        return _loops(sizes, inner, 0, outer, kept)

    def _finish(self, node: Node, name: str, sizes: Sequence[int]) -> str:
        """Store an accumulator: its buffer is contiguous over the kept dimensions, in their
        order.
        """
        source = next(node.inputs())
        count = math.prod(source.shape) // max(math.prod(node.output.shape), 1)
        value = f"{name} / {count}.0" if lower.reduction_kind(node) == "mean" else name
        step, terms = 1, []
        for d in reversed(range(len(sizes))):
            terms.append(f"i{d} * {step}")
            step *= sizes[d]
        slot = self.slots[node.output]
        self.pointers[slot] = node.output
        pointer = f"(({C_TYPES[node.output.dtype.name]} *)DATA(p, {slot}))"
        return f"{pointer}[{' + '.join(terms) or '0'}] = {value};"


def offset_text(access: Access) -> str:
    """Where a value starts in its buffer; inside loops over time it moves on with them."""
    terms = [str(access.offset)] if access.offset else []
    terms += [f"t{depth} * {stride}" for depth, stride in access.steps if stride]
    return " + ".join(terms) or "0"


def step_text(plan: Plan, step: Step, slots: dict[Value, int]) -> str:
    """A step as C text."""
    if isinstance(step, Loop):
        return LoopWriter(plan, step, slots).text()
    if isinstance(step, Write):
        return "".join(_assign(plan, source, target, slots) for source, target in step.parts)
    assert isinstance(step, Scan)
    return _scan(step, plan, slots)


def _scan(step: Scan, outer: Plan, slots: dict[Value, int]) -> str:
    """A loop over time: copy the carry in, run the body, put results and the next carry in their
    places, copy out.
    """
    _, start, _, length, backwards = step.node.args
    body, carry, count = step.body, step.carry, len(start)
    t, s = f"t{step.depth}", f"s{step.depth}"
    outputs = body.graph.outputs
    lines = [
        _assign(outer, value, lower.contiguous(target), slots)
        for value, target in zip(start, carry, strict=True)
    ]
    order = f"{length - 1} - {s}" if backwards else s
    lines.append(f"for (long {s} = 0; {s} < {length}; {s}++) {{\nconst long {t} = {order};\n")
    lines += [step_text(body, inner, slots) for inner in body.steps]
    for output, target in zip(outputs[count:], step.node.outputs[count:], strict=True):
        full = lower.contiguous(target)
        lines.append(
            _assign(
                body,
                output,
                Access(target, 0, full.strides[1:], ((step.depth, full.strides[0]),)),
                slots,
            )
        )
    for value, waiting in step.staged.items():
        lines.append(_assign(body, outputs[carry.index(value)], lower.contiguous(waiting), slots))
    for value, output in zip(carry, outputs, strict=False):
        stays = (
            isinstance(output, Value)
            and output not in body.fills
            and body.access[output].root is value
        )
        if value not in step.staged and not stays:
            lines.append(_assign(body, output, lower.contiguous(value), slots))
    lines += [_move(waiting, value, slots) for value, waiting in step.staged.items()]
    lines.append("}\n")
    lines += [
        _move(value, target, slots) for value, target in zip(carry, step.node.outputs, strict=False)
    ]
    return "{\n" + "".join(lines) + "}\n"


def _move(source: Value, target: Value, slots: dict[Value, int]) -> str:
    """Write one buffer to another of the same shape."""
    return _elements(source, lower.contiguous(source), lower.contiguous(target), slots)


def _assign(plan: Plan, source: Any, target: Access, slots: dict[Value, int]) -> str:
    """Write a value, or a number, to a place in memory."""
    if isinstance(source, Value) and source not in plan.fills:
        return _elements(source, plan.access[source], target, slots)
    c_type = C_TYPES[target.root.dtype.name]
    number = literal(plan.fills[source] if isinstance(source, Value) else source, c_type)
    shape = list(source.shape) if isinstance(source, Value) else []
    sizes, (there,), _ = _merge(shape, [list(target.strides)], 0)
    return _copy_loop(sizes, _place(target, there, slots), number)


def _elements(source: Value, access: Access, target: Access, slots: dict[Value, int]) -> str:
    sizes, (here, there), _ = _merge(
        list(source.shape), [list(access.strides), list(target.strides)], 0
    )
    return _copy_loop(sizes, _place(target, there, slots), _place(access, here, slots))


def _place(access: Access, strides: Sequence[int], slots: dict[Value, int]) -> str:
    terms = [offset_text(access), *(f"i{d} * {s}" for d, s in enumerate(strides) if s)]
    return (
        f"(({C_TYPES[access.root.dtype.name]} *)DATA(p, {slots[access.root]}))[{' + '.join(terms)}]"
    )


def _copy_loop(sizes: Sequence[int], target: str, source: str) -> str:
    return "\n".join(_loops(sizes, [f"{target} = {source};"], 0, {}, len(sizes))) + "\n"


def _power(exponent: Any) -> str:
    """Small whole powers without pow()."""
    return {
        2: "{self} * {self}",
        1: "{self}",
        3: "{self} * {self} * {self}",
        -1: "1 / {self}",
        0.5: "",
    }.get(exponent, "")


def _merge(
    sizes: list[int], accesses: list[list[int]], kept: int
) -> tuple[list[int], list[list[int]], int]:
    """Drop dimensions of size 1, and join neighbours that every access walks as one."""
    keep = [d for d, s in enumerate(sizes) if s != 1]
    kept = sum(1 for d in keep if d < kept)
    sizes = [sizes[d] for d in keep]
    accesses = [[a[d] for d in keep] for a in accesses]
    d = len(sizes) - 2
    while d >= 0:
        if d + 1 != kept and all(a[d] == a[d + 1] * sizes[d + 1] for a in accesses):
            sizes[d : d + 2] = [sizes[d] * sizes[d + 1]]
            for a in accesses:
                a[d : d + 2] = [a[d + 1]]
            kept -= d + 1 < kept
        d -= 1
    return sizes, accesses, kept


def _pragma(
    sizes: Sequence[int],
    first: int,
    last: int,
    *,
    simd: bool,
    clause: str = "",
    parallel: bool = True,
) -> dict[int, str]:
    """The pragma of each loop: threads on the outermost, vectors on the innermost."""
    if first >= last:
        return {}
    large = parallel and math.prod(sizes) >= _PARALLEL
    if last - first == 1:
        words = ("parallel for" if large else "") + (" simd" if simd else "")
        return {first: f"#pragma omp {words.strip()}{clause}"} if words.strip() else {}
    found: dict[int, str] = {}
    if large:
        found[first] = f"#pragma omp parallel for{clause}"
    if simd:
        found[last - 1] = f"#pragma omp simd{clause}"
    return found


def _loops(
    sizes: Sequence[int], body: list[str], first: int, pragmas: dict[int, str], last: int
) -> list[str]:
    lines: list[str] = []
    for d in range(first, last):
        pad = "  " * (d + 1)
        if d in pragmas:
            lines.append(pragmas[d])
        lines.append(f"{pad}for (long i{d} = 0; i{d} < {sizes[d]}; i{d}++) {{")
    lines += ["  " * (last + 1) + line for line in body]
    lines += ["  " * (d + 1) + "}" for d in reversed(range(first, last))]
    return lines

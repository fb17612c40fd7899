"""The body of a loop: the statements of one iteration that compute the values the loop stores.

`Body.value` asks for values from the results back to memory. A view changes the index, a piece adds
a condition, a value in memory is loaded, and any other value is an expression of its operands. A
value asked for twice at the same index is computed once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from adjoint.compiler.affine import Affine, Index, broadcast, flat, identity, reshaped
from adjoint.compiler.definitions import (
    Address,
    Arange,
    Combination,
    Gather,
    Look,
    Pieces,
    Pointwise,
    Prefix,
    Put,
    Reduction,
    Reshape,
    compute_dtype,
    define,
    promoted_to,
)
from adjoint.compiler.loop_programs import Check, Guard, Leaf, Let, Load, Place, Select
from adjoint.compiler.neighbours import Neighbours
from adjoint.compiler.plan import FusedLoop, Plan, reduced_dims
from adjoint.core.c_types import C_TYPES
from adjoint.core.dtypes import HALVES, named
from adjoint.core.promotion import element
from adjoint.core.shapes import Shape, row_major
from adjoint.core.symbolic_sizes import is_open
from adjoint.expressions.c_numbers import cast, literal, narrowed, widened
from adjoint.expressions.c_text import printed
from adjoint.expressions.functions import VECTORIZED
from adjoint.expressions.trees import FUNCTION, Expression, without_factor
from adjoint.graph.facts import argument
from adjoint.graph.ir import Node, Value

_CALL = re.compile(rf"\b({'|'.join(map(re.escape, VECTORIZED))})f?\(")


def calls(text: str) -> bool:
    """Whether an expression calls a function that is fast only when vectorised."""
    return _CALL.search(text) is not None


class Body:
    """Builds the statements of one iteration, for variables within the given bounds."""

    def __init__(self, plan: Plan, position: int, bounds: Sequence[tuple[int, int]]) -> None:
        self.plan, self.position, self.bounds = plan, position, bounds
        self.statements: list[Leaf] = []
        self.names: dict[tuple[Value, Index, tuple[Guard, ...]], str] = {}
        self.loads: dict[Any, str] = {}
        self.count = 0
        self.known: set[str] = set()  # variables that adding 0 does not change
        self.neighbours = Neighbours(())

    def run(self, loop: FusedLoop, space: Shape) -> dict[Value, Affine]:
        """Build the statements of a loop; return the address to which each value is written."""
        positions = identity(len(space))
        self.neighbours = Neighbours(loop.inside)
        for value in loop.inside:
            index = reshaped(value.shape, space, positions, self.bounds)
            definition = self.plan.definitions[value.node] if value.node else None
            if index is not None and not isinstance(definition, Reshape):
                self.value(value, index)
        total = flat(positions, row_major(space))
        writes = dict.fromkeys(loop.stored, total)
        reduced = reduced_dims(loop)
        for node in loop.combining:
            definition = self.plan.definitions[node]
            if isinstance(definition, Reduction):
                kept = tuple(d for d in range(len(space)) if d not in reduced)
                strides = row_major(tuple(space[d] for d in kept))
                writes[node.output] = flat(tuple(positions[d] for d in kept), strides)
            elif isinstance(definition, Prefix):
                writes[node.output] = total
            else:
                self.put_place(node.output, definition)
            self.source(definition, space)
        for value in loop.stored:
            self.aligned(value, space)
        return writes

    def functions(self) -> int:
        """The number of calls of vectorised functions in one iteration."""
        return sum(1 for s in self.statements if isinstance(s, Let) and calls(s.text))

    def work(self) -> int:
        """The cost of one iteration, in additions."""
        gathers = sum(isinstance(s, Check) for s in self.statements)
        return len(self.statements) + FUNCTION * (self.functions() + gathers)

    def operations(self) -> int:
        """The number of other expressions in one iteration."""
        return sum(isinstance(s, (Let, Select)) for s in self.statements) - self.functions()

    def aligned(self, value: Value, space: Shape) -> str:
        """The variable of a value that has one element for each iteration of the space."""
        if self.plan.is_read(value, self.position):
            address = flat(identity(len(space)), row_major(space))
            return self.load(Place(value, address), ())
        definition = self.plan.definitions[value.node] if value.node else None
        if isinstance(definition, Reshape):
            return self.aligned(definition.source, space)
        index = reshaped(value.shape, space, identity(len(space)), self.bounds)
        assert index is not None, f"{value} is not aligned with {space}"
        return self.value(value, index)

    def source(self, definition: Combination | Put, space: Shape) -> str:
        """The variable of the element that a reduction, a prefix or a put takes in."""
        if not isinstance(definition, Put):
            return self.aligned(definition.source, space)
        return self.value(
            definition.part, broadcast(self.put_index(definition), definition.part.shape)
        )

    def put_index(self, definition: Put) -> Index:
        """The index in the space of a put, whose dimensions of size 1 have no loop."""
        sizes = tuple(s for s in definition.space if s != 1)
        index = reshaped(definition.space, sizes, identity(len(sizes)), self.bounds)
        assert index is not None
        return index

    def put_place(self, whole: Value, definition: Put) -> Place:
        """The place that a put writes to."""
        index = self.put_index(definition)
        if isinstance(definition.target, Affine):
            place = Place(whole, definition.target.at(index))
        else:
            place = self.chosen(whole, definition.target, index, ())
        return place

    def new(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def value(self, value: Value, index: Index, guards: tuple[Guard, ...] = ()) -> str:
        """The variable, or the literal, of a value's element at an index."""
        if value in self.plan.numbers:
            number = self.plan.numbers[value]
            whole = value.dtype.name == "bool"
            return literal(bool(number) if whole else number, C_TYPES[value.dtype.name])
        key = (value, index, guards)
        if guards and (value, index, ()) in self.names:
            return self.names[value, index, ()]
        found = self.names.get(key)
        if found is None:
            found = self.names[key] = self._make(value, index, guards)
        return found

    def _make(self, value: Value, index: Index, guards: tuple[Guard, ...]) -> str:
        plan = self.plan
        if plan.is_read(value, self.position):
            return self.load(Place(value, flat(index, row_major(value.shape))), guards)
        assert value.node is not None
        definition = plan.definitions[value.node]
        if isinstance(definition, Reshape) and plan.is_read(definition.source, self.position):
            address = flat(index, row_major(value.shape))
            return self.load(Place(definition.source, address), guards)
        if isinstance(definition, Look):
            inner = definition.into(index, self.bounds)
            assert inner is not None, f"{value} is not affine here"
            return self.value(definition.source, inner, guards)
        if isinstance(definition, Pieces):
            return self._pieces(value, definition, index, guards)
        if isinstance(definition, Gather):
            whole = plan.origin(definition.source)
            address = self.chosen(whole, definition.address, index, guards)
            return self.load(address, guards)
        if isinstance(definition, Arange):
            return self._counted(value, definition, index)
        assert isinstance(definition, Pointwise)
        node = self.neighbours.node(value.node)
        if node is not value.node:
            definition = define(node)
            assert isinstance(definition, Pointwise)
        text = self._expression(node, definition, index, guards)
        if value.dtype.name == "bool":
            text = f"({text}) != 0"  # any number but 0 is True
        if text in self.known or text == literal(0, C_TYPES[value.dtype.name]):
            return text
        if node.op.row.requires:
            self._require(node, index, guards)
        name = self.let(value, text)
        if text.endswith(f" + {literal(0, C_TYPES[value.dtype.name])}"):
            self.known.add(name)
        return name

    def _require(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> None:
        """Give the call up if the node's condition is false, as for an index out of range."""
        condition = argument(node, node.op.row.requires)
        truth = self.value(condition, broadcast(index, condition.shape), guards)
        wrong = self.new()
        self.statements.append(Let(wrong, "long long", f"({truth}) ? 0 : 1"))
        self.statements.append(Check(self.new(), wrong, 1, False, guards))

    def let(self, value: Value, text: str, *positions: Affine) -> str:
        name = self.new()
        self.statements.append(Let(name, C_TYPES[value.dtype.name], text, positions))
        return name

    def load(self, place: Place, guards: tuple[Guard, ...]) -> str:
        key = (place, guards)
        found = self.loads.get(key) or self.loads.get((place, ()))
        if found is None:
            assert isinstance(place.value, Value)
            found = self.loads[key] = self.new()
            c_type = C_TYPES[place.value.dtype.name]
            self.statements.append(Load(found, c_type, place, guards))
        return found

    def chosen(
        self, whole: Value, address: Address, index: Index, guards: tuple[Guard, ...]
    ) -> Place:
        """The place that index values choose; each index is checked to be in range."""
        total, picked = Affine(), []
        for dim, stride, size in zip(
            address.dims, row_major(address.shape), address.shape, strict=True
        ):
            if isinstance(dim, int):
                total = total + index[dim] * stride
                continue
            raw = self.value(dim, address.of(dim, index), guards)
            name = self.loads.get(("check", raw, size, guards))
            if name is None:
                name = self.loads["check", raw, size, guards] = self.new()
                self.statements.append(Check(name, raw, size, address.wraps, guards))
            picked.append((name, stride))
        return Place(whole, total, tuple(picked))

    def _counted(self, value: Value, definition: Arange, index: Index) -> str:
        c_type = C_TYPES[value.dtype.name]
        start, step = (literal(n, c_type) for n in (definition.start, definition.step))
        return self.let(value, f"{start} + ({c_type})({{0}}) * {step}", index[0])

    # -- pieces -----------------------------------------------------------------------------------

    def _pieces(
        self, value: Value, definition: Pieces, index: Index, guards: tuple[Guard, ...]
    ) -> str:
        """The element of the last piece that covers the index, or else of the base."""
        undecided = []
        for piece in reversed(definition.pieces):
            guard = Guard(index[piece.dim], piece.low, piece.high)
            covers = guard.decided(self.bounds)
            if covers:
                undecided.append((None, piece))
                break
            if covers is None:
                undecided.append((guard, piece))
        if undecided and undecided[-1][0] is None:
            _, piece = undecided.pop()
            text = self.value(piece.source, piece.into(index), guards)
        elif definition.base is not None:
            text = self.value(definition.base, index, guards)
        else:  # the pieces cover everything: the first one needs no condition
            _, piece = undecided.pop()
            inside = Guard(index[piece.dim], piece.low, piece.high)
            text = self.value(piece.source, piece.into(index), (*guards, inside))
        for guard, piece in reversed(undecided):
            assert guard is not None
            part = self.value(piece.source, piece.into(index), (*guards, guard))
            name = self.new()
            c_type = C_TYPES[value.dtype.name]
            self.statements.append(Select(name, c_type, guard, part, text))
            text = name
        return text

    # -- expressions ------------------------------------------------------------------------------

    def _expression(
        self, node: Node, definition: Pointwise, index: Index, guards: tuple[Guard, ...]
    ) -> str:
        """The C expression of a node. Operands are cast to the dtype in which it computes."""
        row = node.op.row
        compute = compute_dtype(node)
        c_type = C_TYPES[compute.name]
        promoted = {a.name for a in row.promoted} or set(row.schema.names)
        operands: dict[str, str] = {}
        for formal, value in zip(row.schema.arguments, node.args, strict=True):
            if formal.name not in definition.tree.operands:
                continue
            dtype = promoted_to(node, value) if formal.name in promoted else compute
            if isinstance(value, Value):
                text = self.value(value, broadcast(index, value.shape), guards)
                text = widened(text, value.dtype.name)
                if formal.name in promoted and value.dtype is not compute:
                    text = _brought(text, value.dtype.name, compute.name, dtype.name)
                operands[formal.name] = text
            elif isinstance(value, (bool, int, float, complex)):
                number = value if is_open(value) else element(value, dtype)
                operands[formal.name] = literal(number, c_type)
        found = _filled(node, definition.tree, c_type, operands, self.known)
        return narrowed(found, node.output.dtype.name)


def _brought(text: str, source: str, compute: str, dtype: str) -> str:
    """An operand cast to the dtype of the computation; rounded to `dtype` if less precise."""
    text = cast(text, compute, source) if named(source) not in HALVES else text
    return text if dtype == compute or source == dtype else widened(narrowed(text, dtype), dtype)


def _filled(
    node: Node, tree: Expression, c_type: str, operands: dict[str, str], known: set[str]
) -> str:
    if operands.get("alpha") in (literal(1, c_type), "1"):
        tree = without_factor(tree, "alpha")
        zero = literal(0, c_type)
        if (
            node.op.name == "add"
            and operands["other"] == zero
            and operands["self"] in {zero, *known}
        ):
            return operands["self"]
    return printed(tree, operands)

"""The body of a loop: the statements of one iteration that compute the values the loop stores.

`Body.value` asks for values from the results back to memory. A view changes the index, a piece adds
a condition, a value in memory is loaded, and any other value is an expression of its operands. A
value asked for twice at the same index is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from adjoint.compiler.neighbours import Neighbours
from adjoint.compiler.plan import FusedLoop, Plan, reduced_dims
from adjoint.core import dtypes
from adjoint.core.dtypes import HALVES, DType
from adjoint.core.shapes import Shape, row_major
from adjoint.expressions.trees import (
    FUNCTION,
    Binary,
    Choose,
    Convert,
    Expression,
    Number,
    Variable,
    is_one,
    is_zero,
    number,
    without_ones,
)
from adjoint.graph.facts import argument
from adjoint.graph.ir import Node, Value
from adjoint.loops.affine import Affine, Index, broadcast, flat, identity, reshaped
from adjoint.loops.loop_programs import (
    Check,
    Guard,
    Leaf,
    Let,
    Load,
    Place,
    Select,
    position,
)


class Body:
    """Builds the statements of one iteration, for variables within the given bounds."""

    def __init__(self, plan: Plan, position: int, bounds: Sequence[tuple[int, int]]) -> None:
        self.plan, self.position, self.bounds = plan, position, bounds
        self.vectorized = plan.target.vectorized
        self.statements: list[Leaf] = []
        self.trees: dict[tuple[Value, Index, tuple[Guard, ...]], Expression] = {}
        self.loads: dict[Any, Variable] = {}
        self.count = 0
        self.known: set[Expression] = set()  # variables that adding 0 does not change
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
        fast = self.vectorized
        trees = [s.tree for s in self.statements if type(s) is Let]
        return sum([not fast.isdisjoint(tree.calls) for tree in trees])

    def work(self) -> int:
        """The cost of one iteration, in additions."""
        gathers = sum(isinstance(s, Check) for s in self.statements)
        return len(self.statements) + FUNCTION * (self.functions() + gathers)

    def operations(self) -> int:
        """The number of other expressions in one iteration."""
        return sum(isinstance(s, (Let, Select)) for s in self.statements) - self.functions()

    def aligned(self, value: Value, space: Shape) -> Expression:
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

    def source(self, definition: Combination | Put, space: Shape) -> Expression:
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

    def new(self, dtype: DType) -> Variable:
        self.count += 1
        return Variable(f"v{self.count}", dtype)

    def value(self, value: Value, index: Index, guards: tuple[Guard, ...] = ()) -> Expression:
        """The variable, or the number, that is a value's element at an index."""
        if value in self.plan.numbers:
            return number(self.plan.numbers[value], value.dtype)
        key = (value, index, guards)
        if guards and (value, index, ()) in self.trees:
            return self.trees[value, index, ()]
        found = self.trees.get(key)
        if found is None:
            found = self.trees[key] = self._make(value, index, guards)
        return found

    def _make(self, value: Value, index: Index, guards: tuple[Guard, ...]) -> Expression:
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
            definition = define(node, self.plan.target)
            assert isinstance(definition, Pointwise)
        tree = self._expression(node, definition, index, guards)
        if value.dtype is dtypes.bool_:
            tree = Binary("!=", tree, number(0, dtypes.int32))  # any number but 0 is True
        if tree in self.known or (is_zero(tree) and tree.dtype is value.dtype):
            return tree
        if node.op.row.requires:
            self._require(node, index, guards)
        made = self.let(value, tree)
        if isinstance(tree, Binary) and tree.sign == "+" and is_zero(tree.right):
            self.known.add(made)
        return made

    def _require(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> None:
        """Give the call up if the node's condition is false, as for an index out of range."""
        condition = argument(node, node.op.row.requires)
        truth = self.value(condition, broadcast(index, condition.shape), guards)
        wrong, place = self.new(dtypes.int64), self.new(dtypes.int64)
        no, yes = (number(n, dtypes.int64) for n in (0, 1))
        self.statements.append(Let(wrong, Choose(truth, no, yes)))
        self.statements.append(Check(place, wrong, 1, False, guards))

    def let(self, value: Value, tree: Expression, *positions: Affine) -> Variable:
        made = self.new(value.dtype)
        self.statements.append(Let(made, tree, positions))
        return made

    def load(self, place: Place, guards: tuple[Guard, ...]) -> Variable:
        key = (place, guards)
        found = self.loads.get(key) or self.loads.get((place, ()))
        if found is None:
            assert isinstance(place.value, Value)
            found = self.loads[key] = self.new(place.value.dtype)
            self.statements.append(Load(found, place, guards))
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
            made = self.loads.get(("check", raw, size, guards))
            if made is None:
                made = self.loads["check", raw, size, guards] = self.new(dtypes.int64)
                self.statements.append(Check(made, raw, size, address.wraps, guards))
            picked.append((made, stride))
        return Place(whole, total, tuple(picked))

    def _counted(self, value: Value, definition: Arange, index: Index) -> Variable:
        start, step = (number(n, value.dtype) for n in (definition.start, definition.step))
        moved = Binary("*", Convert(position(0), value.dtype), step)
        return self.let(value, Binary("+", start, moved), index[0])

    # -- pieces -----------------------------------------------------------------------------------

    def _pieces(
        self, value: Value, definition: Pieces, index: Index, guards: tuple[Guard, ...]
    ) -> Expression:
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
            tree = self.value(piece.source, piece.into(index), guards)
        elif definition.base is not None:
            tree = self.value(definition.base, index, guards)
        else:  # the pieces cover everything: the first one needs no condition
            _, piece = undecided.pop()
            inside = Guard(index[piece.dim], piece.low, piece.high)
            tree = self.value(piece.source, piece.into(index), (*guards, inside))
        for guard, piece in reversed(undecided):
            assert guard is not None
            part = self.value(piece.source, piece.into(index), (*guards, guard))
            made = self.new(value.dtype)
            self.statements.append(Select(made, guard, part, tree))
            tree = made
        return tree

    # -- expressions ------------------------------------------------------------------------------

    def _expression(
        self, node: Node, definition: Pointwise, index: Index, guards: tuple[Guard, ...]
    ) -> Expression:
        """The tree of a node. Operands are converted to the dtype in which it computes."""
        row = node.op.row
        compute = compute_dtype(node)
        promoted = {a.name for a in row.promoted} or set(row.schema.names)
        operands: dict[str, Expression] = {}
        for formal, value in zip(row.schema.arguments, node.args, strict=True):
            if formal.name not in definition.tree.operands:
                continue
            dtype = promoted_to(node, value) if formal.name in promoted else compute
            if isinstance(value, Value):
                found = _widened(self.value(value, broadcast(index, value.shape), guards))
                if formal.name in promoted and value.dtype is not compute:
                    found = _brought(found, value.dtype, compute, dtype)
                operands[formal.name] = found
            elif isinstance(value, (bool, int, float, complex)):
                rounded = number(value, dtype)
                operands[formal.name] = number(rounded.value, compute)
        found = self._filled(node, definition.tree, operands)
        return Convert(found, node.output.dtype) if node.output.dtype in HALVES else found

    def _filled(self, node: Node, tree: Expression, operands: dict[str, Expression]) -> Expression:
        """The tree of a node for its operands, without adding 0 or multiplying by 1."""
        if not any(isinstance(o, Number) and is_one(o) for o in operands.values()):
            return tree.substitute(operands)
        if node.op.name == "add" and self._adds_nothing(operands):
            return operands["self"]
        return without_ones(tree.substitute(operands))

    def _adds_nothing(self, operands: dict[str, Expression]) -> bool:
        """Whether `self + other` is `self`, to the sign of a zero."""
        if not operands.keys() >= {"self", "other"} or not is_zero(operands["other"]):
            return False
        return operands["self"] in self.known or is_zero(operands["self"])


def _widened(tree: Expression) -> Expression:
    """A value in the dtype in which it is computed: a half as a float."""
    return Convert(tree, dtypes.float32) if tree.dtype in HALVES else tree


def _brought(tree: Expression, source: DType, compute: DType, dtype: DType) -> Expression:
    """An operand converted to the dtype of the computation; rounded to `dtype` if less precise."""
    found = tree if tree.dtype is compute else Convert(tree, compute)
    if dtype is compute or source is dtype:
        return found
    return _widened(Convert(found, dtype)) if dtype in HALVES else found

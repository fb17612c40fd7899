"""The graph: inputs, nodes in order, outputs; each value is made once (SSA).

A `Node` has an operator, an argument for each parameter of the schema (values, constants, lists of
both), and its output values. A `Value` knows its type, its node and its users; edits keep the users
right. Nodes form a linked list, so insertion and removal take constant time.

Note [Graphs without the collector]. Nodes, values and their users refer to one another in cycles. A
node refers to its graph weakly, so a graph is freed at once when nobody holds it; if reference
counts show that nobody holds its nodes and values either, it then breaks the cycles.

Control flow (`cond`, `scan`, `while_loop`) is a node whose operator is a `Region`, with graphs of
its own. A node of a backward remembers its `Block`, the operator that it differentiates: a block
whose incoming gradients are all zero can be skipped.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from adjoint.core.dtypes import DType
from adjoint.core.errors import AdjointError
from adjoint.core.pytrees import TreeDef
from adjoint.core.records import record, structure
from adjoint.core.shapes import Spec

_SHORT = {
    "bool": "b8",
    "uint8": "u8",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}
LONG = {short: name for name, short in _SHORT.items()}


class GraphError(AdjointError, ValueError):
    """A graph that is not legal, or an edit that would make it so."""


@record
class Type:
    """The facts of a value that are known without running the graph."""

    shape: tuple[int, ...]
    dtype: DType
    requires_grad: bool = False

    @classmethod
    def of(cls, spec: Any, requires_grad: bool = False) -> Type:
        """The type of a Spec or of a tensor."""
        return cls(tuple(spec.shape), spec.dtype, requires_grad)

    @property
    def spec(self) -> Spec:
        return Spec(self.shape, self.dtype)

    def __str__(self) -> str:
        return f"{_SHORT[self.dtype.name]}[{','.join(map(str, self.shape))}]"


class Value:
    """One tensor of a graph."""

    __slots__ = ("dtype", "name", "node", "number", "shape", "type", "uses")

    def __init__(self, name: str, type: Type, node: Node | None = None, number: int = 0) -> None:
        self.name = name
        self.type, self.shape, self.dtype = type, type.shape, type.dtype
        self.node = node  # the node that computes it; None for an input
        self.number = number  # its number among the node's outputs
        self.uses: dict[Node, int] = {}  # how often each node uses it; outputs do not count

    def retype(self, type: Type) -> None:
        """Change the type, and with it shape and dtype, which are asked for most."""
        self.type, self.shape, self.dtype = type, type.shape, type.dtype

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


@record
class Block:
    """The backward of one forward node."""

    number: int
    operator: str  # "tanh.default"


@record
class Region:
    """An operator that runs graphs: `cond`, `scan`, `while_loop`; or a user's Python function."""

    name: str  # "scan"
    run: Callable[..., Any]  # (node, values) -> outputs
    effect: bool = False  # whether it runs for its effect, in order
    stream: str = ""  # "read" or "resume": ordered among draws
    draws: Callable[..., list[Any]] | None = None  # None: those of its graphs


class Node:
    """One call of an operator."""

    __slots__ = (
        "args",
        "block",
        "following",
        "graphs",
        "op",
        "outputs",
        "place",
        "preceding",
        "where",
    )

    def __init__(
        self, op: Any, args: Iterable[Any], graphs: dict[str, Graph] | None = None
    ) -> None:
        self.op = op  # an Operator, a Region or a Constant
        self.args: tuple[Any, ...] = tuple(args)  # in the schema's order, lists as tuples
        self.outputs: list[Value] = []
        self.graphs: dict[str, Graph] = graphs or {}
        self.block: Block | None = None
        self.place: str = ""  # "model.py:12", the user's line
        self.where: weakref.ref[Graph] | None = None  # the graph of the node
        self.preceding: Node | None = None
        self.following: Node | None = None

    @property
    def graph(self) -> Graph | None:
        """The graph of the node."""
        return None if self.where is None else self.where()

    @property
    def name(self) -> str:
        return self.op.full_name if hasattr(self.op, "full_name") else self.op.name

    def inputs(self) -> Iterator[Value]:
        """The values among the arguments; a value used twice comes twice."""
        found: list[Value] = []
        for argument in self.args:  # written out, as below
            if type(argument) is Value:
                found.append(argument)
            elif type(argument) is tuple:
                found += values_in(argument)
        return iter(found)

    @property
    def output(self) -> Value:
        """The only output."""
        if len(self.outputs) != 1:
            raise GraphError(f"{self.name} has {len(self.outputs)} outputs, not one")
        return self.outputs[0]

    def set_args(self, args: Iterable[Any]) -> None:
        """Replace the arguments, and update the uses of values."""
        self._release()
        self.args = tuple(args)
        self._claim()
        if self.where is not None and (graph := self.where()) is not None:
            graph.edits += 1

    def replace_input(self, old: Value, new: Any) -> None:
        """Use `new` (a value or a constant) wherever this node uses `old`."""
        self.set_args(substitute(self.args, lambda v: new if v is old else v))

    def _claim(self) -> None:
        for argument in self.args:  # no helper: this runs for every new node
            if type(argument) is Value:
                uses = argument.uses
                uses[self] = uses.get(self, 0) + 1
            elif type(argument) is tuple:
                for value in values_in(argument):
                    value.uses[self] = value.uses.get(self, 0) + 1

    def _release(self) -> None:
        for value in self.inputs():
            count = value.uses[self] - 1
            if count:
                value.uses[self] = count
            else:
                del value.uses[self]

    def __repr__(self) -> str:
        outs = ", ".join(map(repr, self.outputs))
        return f"{outs} = {self.name}({', '.join(map(str, self.args))})"


_IN_GRAPH = attrgetter("where")


@record
class Constant:
    """The operator of a node without arguments that holds a known tensor."""

    tensor: Any
    name: str = "constant"
    watch: Any = None  # tells of writes to the outside tensor that this is a copy of


def values_in(args: Any) -> list[Value]:
    """The values among arguments, including those in tuples."""
    found: list[Value] = []
    for argument in args:
        if type(argument) is Value:
            found.append(argument)
        elif type(argument) is tuple:
            found += values_in(argument)
    return found


def substitute(args: Any, change: Callable[[Value], Any]) -> tuple[Any, ...]:
    """Arguments with each value replaced by `change(value)`."""
    return tuple(
        [
            change(a) if type(a) is Value else substitute(a, change) if type(a) is tuple else a
            for a in args
        ]
    )


@structure
class Signature:
    """How a user's arguments become the inputs of a graph, and its outputs the user's result."""

    inputs: TreeDef | None = None  # structure of (args, keywords); None: a flat list
    outputs: TreeDef | None = None
    name: str = "f"
    names: tuple[str, ...] = ()  # of the inputs, as the user writes them: "x", "params['w']"
    constants: dict[str, Any] = field(default_factory=dict)
    static: dict[int, Any] = field(default_factory=dict)  # leaves that are no tensors: {1: 3}


class Graph:
    """Inputs, nodes in order, outputs."""

    _self: weakref.ref[Graph] | None = None  # set last: an interrupted graph has none

    def __init__(self, signature: Signature | None = None) -> None:
        self.inputs: list[Value] = []
        self.outputs: list[Any] = []  # values, or constants
        self.signature = signature or Signature()
        self.first: Node | None = None
        self.last: Node | None = None
        self.count = 0
        self.edits = 0  # grows with every change
        self.nests = False  # whether a node had graphs inside
        self.settled: dict[Any, int] = {}  # passes with nothing to do, and the edits by then
        self._names: dict[str, int] = {}
        self.point: Node | None = None  # new nodes go before this one; None: to the end
        self._self = weakref.ref(self)

    def __del__(self) -> None:
        if self._self is not None and _is_held_by_itself(self):
            for node in self.nodes:
                for value in node.outputs:
                    value.node = None
                    value.uses.clear()
                node.args, node.preceding, node.following = (), None, None
            for value in self.inputs:
                value.uses.clear()

    if TYPE_CHECKING:  # what graph/__init__.py puts on the class

        def __call__(self, *args: Any, **keywords: Any) -> Any: ...
        def python(self, *, comments: bool = True) -> str: ...
        def ssa(self) -> str: ...
        def show(self, path: Any = None) -> Any: ...
        def statistics(self) -> Any: ...

        @property
        def constants(self) -> dict[str, Any]: ...

    # -- names and values
    # ---------------------------------------------------------------------------

    def fresh_name(self, wanted: str) -> str:
        """An unused name: `wanted`, or `wanted` with a number appended."""
        number = self._names.get(wanted)
        self._names[wanted] = (number or 0) + 1
        return wanted if number is None else self.fresh_name(f"{wanted}_{number}")

    def add_input(self, type: Type, name: str = "x") -> Value:
        value = Value(self.fresh_name(name), type)
        self.inputs.append(value)
        return value

    # -- nodes
    # ----------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Iterator[Node]:
        """All nodes in order, but for those that are removed while iterating."""
        return self.after(None)

    def after(self, node: Node | None) -> Iterator[Node]:
        """The nodes after a node, or all, but for those that are removed while iterating."""
        found: list[Node] = []
        node = self.first if node is None else node.following
        while node is not None:
            found.append(node)
            node = node.following
        return filter(_IN_GRAPH, found)

    def reversed_nodes(self) -> Iterator[Node]:
        """All nodes, last first, but for those that are removed while iterating."""
        found: list[Node] = []
        node = self.last
        while node is not None:
            found.append(node)
            node = node.preceding
        return filter(_IN_GRAPH, found)

    def __len__(self) -> int:
        return self.count

    def add(
        self,
        op: Any,
        args: Iterable[Any],
        types: Iterable[Type],
        *,
        graphs: dict[str, Graph] | None = None,
        name: str | tuple[str, ...] = "",
    ) -> Node:
        """Add a node at the insertion point, with outputs of these types.

        `name` is the name for all outputs, or a tuple with one name each.
        """
        node = Node(op, args, graphs)
        wanted = name or op.name.strip("_") or "v"
        types = tuple(types)
        if len(types) > 1:
            names = wanted if isinstance(wanted, tuple) else _several(op, wanted, len(types))
        else:
            names = wanted if isinstance(wanted, tuple) else (wanted,)
        for number, type in enumerate(types):
            node.outputs.append(Value(self.fresh_name(names[number]), type, node, number))
        self._link(node, self.point)
        node._claim()
        return node

    def append(self, node: Node) -> None:
        """Add a node made elsewhere, with its outputs, at the insertion point."""
        self._link(node, self.point)
        node._claim()

    def inserting_before(self, node: Node | None) -> _InsertionPoint:
        """A context in which `add` inserts nodes before `node` (None: at the end)."""
        return _InsertionPoint(self, node)

    def remove(self, node: Node) -> None:
        """Remove an unused node; raise if it is used."""
        for value in node.outputs:
            if value.uses:
                raise GraphError(
                    f"cannot remove {node!r}: %{value.name} is used by {next(iter(value.uses))!r}"
                )
            if any(value is o for o in self.outputs):
                raise GraphError(f"cannot remove {node!r}: %{value.name} is an output of the graph")
        self.discard(node)

    def discard(self, node: Node) -> None:
        """Remove a node that the caller knows to be unused."""
        node._release()
        self._unlink(node)
        for value in node.outputs:
            value.node = None  # Note [Graphs without the collector]

    def replace_uses(self, old: Value, new: Any) -> None:
        """Use `new` wherever `old` is used, in nodes and outputs."""
        self.edits += 1
        for node in list(old.uses):
            node.replace_input(old, new)
        self.outputs = [new if o is old else o for o in self.outputs]

    def settle(self, each: Any) -> None:
        """Remember that a pass has nothing to do here, until the next change; a graph with others
        inside does not know of changes there.
        """
        if not self.nests:
            self.settled[each] = self.edits

    def reorder(self, nodes: Iterable[Node]) -> None:
        """Reorder the nodes; the new order has all of them, each after the nodes that it uses."""
        order = list(nodes)
        if len(order) != self.count or len(set(order)) != self.count:
            raise GraphError(f"reorder: {len(order)} nodes given, the graph has {self.count}")
        self.first = self.last = None
        self.count = 0
        for node in order:
            self._link(node, None)

    def _link(self, node: Node, before: Node | None) -> None:
        node.where = self._self
        node.following = before
        node.preceding = self.last if before is None else before.preceding
        if node.preceding is None:
            self.first = node
        else:
            node.preceding.following = node
        if before is None:
            self.last = node
        else:
            before.preceding = node
        self.count += 1
        self.edits += 1
        if node.graphs:
            self.nests = True

    def _unlink(self, node: Node) -> None:
        if node.preceding is None:
            self.first = node.following
        else:
            node.preceding.following = node.following
        if node.following is None:
            self.last = node.preceding
        else:
            node.following.preceding = node.preceding
        node.where = None
        self.count -= 1
        self.edits += 1

    # -- whole graphs
    # -----------------------------------------------------------------------------------

    def clone(self) -> Graph:
        """A copy that shares only operators and constants, with the same names."""
        made = Graph(replace(self.signature))
        mapping: dict[Value, Any] = {v: Value(v.name, v.type) for v in self.inputs}
        made.inputs = list(mapping.values())
        for node in self.nodes:
            graphs = {k: g.clone() for k, g in node.graphs.items()} if node.graphs else None
            copy = Node(node.op, substitute(node.args, mapping.__getitem__), graphs)
            copy.block, copy.place = node.block, node.place
            for value in node.outputs:
                new = mapping[value] = Value(value.name, value.type, copy, value.number)
                copy.outputs.append(new)
            made.append(copy)
        made.outputs = [mapping[o] if isinstance(o, Value) else o for o in self.outputs]
        made._names = dict(self._names)
        return made

    def inline(self, graph: Graph, mapping: dict[Value, Any]) -> list[Any]:
        """Copy another graph's nodes here; `mapping` gives its inputs. Return its outputs here."""

        def lookup(value: Value) -> Any:
            return mapping[value]

        for node in graph.nodes:
            inner = {k: g.clone() for k, g in node.graphs.items()}
            types = [v.type for v in node.outputs]
            made = self.add(
                node.op,
                substitute(node.args, lookup),
                types,
                graphs=inner,
                name=tuple(map(_stem, node.outputs)),
            )
            made.block, made.place = node.block, node.place
            mapping.update(zip(node.outputs, made.outputs, strict=True))
        return [mapping[o] if isinstance(o, Value) else o for o in graph.outputs]


def _is_held_by_itself(graph: Graph) -> bool:
    """Whether nobody outside holds a node, a value or a list of a graph: Note [Graphs without the
    collector].

    Inside, a node is held by its neighbours, by its values and by the uses of these; a value is
    held by its node, by the arguments that contain it, and by the lists of the graph.
    """
    count = sys.getrefcount
    listed = Counter(map(id, (*graph.inputs, *[o for o in graph.outputs if type(o) is Value])))
    if max(count(graph.inputs), count(graph.outputs)) > _HELD:
        return False
    for value in graph.inputs:
        if count(value) != _HELD + listed[id(value)] + sum(value.uses.values()):
            return False
    node = graph.first
    while node is not None:
        beside = 2  # held by two neighbours, or by the ends of the graph
        held = beside + len(node.outputs) + len({*values_in(node.args)})
        if count(node) != _HELD + held or count(node.outputs) > _HELD:
            return False
        if any(type(a) is Value for a in node.args) and count(node.args) > _HELD:
            return False
        for value in node.outputs:
            if count(value) != _HELD + 1 + listed[id(value)] + sum(value.uses.values()):
                return False
        node = node.following
    return True


def _held() -> int:
    """The reference count of an object that only one variable holds, as counted in this file."""
    node = object()
    return sys.getrefcount(node)


_HELD = _held()


class _InsertionPoint:
    """Changes the insertion point of a graph within a `with` block."""

    def __init__(self, graph: Graph, node: Node | None) -> None:
        self.graph, self.node = graph, node

    def __enter__(self) -> Graph:
        self.before, self.graph.point = self.graph.point, self.node
        return self.graph

    def __exit__(self, *_: Any) -> None:
        self.graph.point = self.before


def _several(op: Any, name: str, count: int) -> tuple[str, ...]:
    """Names for several outputs: max_values and max_indices, if the schema names them."""
    returns = op.schema.returns if hasattr(op, "schema") else ()
    if len(returns) != count or any(r.name.startswith("result") for r in returns):
        return (name,) * count
    return tuple(f"{name}_{r.name}" for r in returns)


def _stem(value: Value) -> str:
    """The name of a value without the number that makes it unique."""
    stem, _, number = value.name.rpartition("_")
    return stem if stem and number.isdigit() else value.name

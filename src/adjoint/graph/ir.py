"""The graph: inputs, nodes in order, outputs; every value is made once (SSA).

A `Node` holds an operator, one argument for each of its schema's (values, constants, lists of both)
and its output values. A `Value` knows its type, its maker and its users; the users are kept right
under every edit. Nodes form a linked list, so that inserting and removing cost nothing in a graph
of any size.

Note [Graphs without the collector]. Nodes, values and their users refer to one another in circles.
A node knows its graph weakly, so that a graph that nobody holds is freed at once; and if nobody
holds a node or a value of it, which their counts of references tell, it takes the circles apart.

Control flow (`cond`, `scan`, `while_loop`) is a node whose operator is a `Region`, with graphs of
its own. A node of a backward remembers its `Block`, the operator that it differentiates, so that a
block whose incoming gradients are all zero can be skipped.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
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

    __slots__ = ("name", "node", "number", "type", "uses")

    def __init__(self, name: str, type: Type, node: Node | None = None, number: int = 0) -> None:
        self.name = name
        self.type = type
        self.node = node  # what makes it; None for an input of the graph
        self.number = number  # which output of the node
        self.uses: dict[
            Node, int
        ] = {}  # how often each node uses it; the graph's outputs are not counted here

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype

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
    run: Callable[
        ..., Any
    ]  # (node, values of the arguments) -> outputs; interprets the node's graphs
    effect: bool = False  # whether it runs for what it does, in its place: it prints
    stream: str = ""  # of one that draws nothing but has its place among those: "read", "resume"
    draws: Callable[..., list[Any]] | None = None  # the generators that a node draws from, if that
    # is not what its graphs draw from


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
        self.op = op  # an Operator, a Region, or Constant
        self.args: tuple[Any, ...] = tuple(
            args
        )  # in the order of the schema; lists are tuples here
        self.outputs: list[Value] = []
        self.graphs: dict[str, Graph] = graphs or {}
        self.block: Block | None = None
        self.place: str = ""  # "model.py:12", the user's line
        self.where: weakref.ref[Graph] | None = None  # the graph that it is in
        self.preceding: Node | None = None
        self.following: Node | None = None

    @property
    def graph(self) -> Graph | None:
        """The graph that it is in."""
        return None if self.where is None else self.where()

    @property
    def name(self) -> str:
        return self.op.full_name if hasattr(self.op, "full_name") else self.op.name

    def inputs(self) -> Iterator[Value]:
        """The values among the arguments, repeated if used twice."""
        return iter(values_in(self.args))

    @property
    def output(self) -> Value:
        """The only output."""
        if len(self.outputs) != 1:
            raise GraphError(f"{self.name} has {len(self.outputs)} outputs, not one")
        return self.outputs[0]

    def set_args(self, args: Iterable[Any]) -> None:
        """Change the arguments, and the uses with them."""
        self._release()
        self.args = tuple(args)
        self._claim()

    def replace_input(self, old: Value, new: Any) -> None:
        """Use `new` (a value or a constant) wherever this node uses `old`."""
        self.set_args(substitute(self.args, lambda v: new if v is old else v))

    def _claim(self) -> None:
        for argument in self.args:  # written out: this runs for every node that is made
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


@record
class Constant:
    """The operator of a node that holds a tensor known beforehand; it has no arguments."""

    tensor: Any
    name: str = "constant"
    watch: Any = None  # of the tensor from outside that this is a copy of: tells of later writes


def values_in(args: Any) -> list[Value]:
    """The values among arguments, also in tuples of them."""
    found: list[Value] = []
    for argument in args:
        if type(argument) is Value:
            found.append(argument)
        elif type(argument) is tuple:
            found += values_in(argument)
    return found


def substitute(args: Any, change: Callable[[Value], Any]) -> tuple[Any, ...]:
    """Arguments with every value changed."""
    return tuple(
        [
            change(a) if type(a) is Value else substitute(a, change) if type(a) is tuple else a
            for a in args
        ]
    )


@structure
class Signature:
    """How a user's arguments become the inputs of a graph, and its outputs a result."""

    inputs: TreeDef | None = None  # structure of (args, keywords); None: flat
    outputs: TreeDef | None = None
    name: str = "f"
    names: tuple[str, ...] = ()  # of the inputs, as the user would write them: "x", "params['w']"
    constants: dict[str, Any] = field(default_factory=dict)
    static: dict[int, Any] = field(
        default_factory=dict
    )  # leaves that are no tensors, by number: {1: 3}


class Graph:
    """Inputs, nodes in order, outputs."""

    _self: weakref.ref[Graph] | None = None  # set last: an interrupted graph has none

    def __init__(self, signature: Signature | None = None) -> None:
        self.inputs: list[Value] = []
        self.outputs: list[
            Any
        ] = []  # values; a constant where an output does not depend on anything
        self.signature = signature or Signature()
        self.first: Node | None = None
        self.last: Node | None = None
        self.count = 0
        self._names: dict[str, int] = {}
        self.point: Node | None = None  # new nodes go before it; None: to the end
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
        """A name not used yet: `wanted`, or with a number behind it."""
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
        """All nodes in order; the current one may be removed while iterating."""
        return self.after(None)

    def after(self, node: Node | None) -> Iterator[Node]:
        """The nodes behind a node in order, or all; the current one may be removed meanwhile."""
        node = self.first if node is None else node.following
        while node is not None:
            following = node.following
            yield node
            node = following

    def reversed_nodes(self) -> Iterator[Node]:
        """All nodes, last first."""
        node = self.last
        while node is not None:
            preceding = node.preceding
            yield node
            node = preceding

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
        """Put a node at the insertion point, with outputs of these types.

        `name` is for all outputs, or one for each.
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
        """Put a node made elsewhere at the insertion point; it has its outputs already."""
        self._link(node, self.point)
        node._claim()

    def inserting_before(self, node: Node | None) -> _InsertionPoint:
        """A context in which `add` puts nodes before `node` (None: at the end)."""
        return _InsertionPoint(self, node)

    def remove(self, node: Node) -> None:
        """Take out a node that nobody uses."""
        for value in node.outputs:
            if value.uses:
                raise GraphError(
                    f"cannot remove {node!r}: %{value.name} is used by {next(iter(value.uses))!r}"
                )
            if any(value is o for o in self.outputs):
                raise GraphError(f"cannot remove {node!r}: %{value.name} is an output of the graph")
        self.discard(node)

    def discard(self, node: Node) -> None:
        """Take out a node that the caller knows nobody uses."""
        node._release()
        self._unlink(node)
        for value in node.outputs:
            value.node = None  # Note [Graphs without the collector]

    def replace_uses(self, old: Value, new: Any) -> None:
        """Use `new` wherever `old` is used, in nodes and outputs."""
        for node in list(old.uses):
            node.replace_input(old, new)
        self.outputs = [new if o is old else o for o in self.outputs]

    def reorder(self, nodes: Iterable[Node]) -> None:
        """Put the nodes, all of them, into another order in which each follows what it uses."""
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

    # -- whole graphs
    # -----------------------------------------------------------------------------------

    def clone(self) -> Graph:
        """A copy that shares nothing but operators and constants; names stay."""
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
    """Whether nobody else holds a node or a value of a graph, or a list of them. Note [Graphs
    without the collector].

    A node is held by its neighbours, by its values and by what these use; a value by its node, by
    the arguments that it is among, and by the lists of the graph.
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
        beside = 2  # the neighbours, or the ends of the graph
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
    """The references to an object that nobody but one variable holds, as they are counted here."""
    node = object()
    return sys.getrefcount(node)


_HELD = _held()


class _InsertionPoint:
    """Moves where a graph adds nodes, for a while."""

    def __init__(self, graph: Graph, node: Node | None) -> None:
        self.graph, self.node = graph, node

    def __enter__(self) -> Graph:
        self.before, self.graph.point = self.graph.point, self.node
        return self.graph

    def __exit__(self, *_: Any) -> None:
        self.graph.point = self.before


def _several(op: Any, name: str, count: int) -> tuple[str, ...]:
    """Names for several outputs: max_values and max_indices, where the schema names them."""
    returns = op.schema.returns if hasattr(op, "schema") else ()
    if len(returns) != count or any(r.name.startswith("result") for r in returns):
        return (name,) * count
    return tuple(f"{name}_{r.name}" for r in returns)


def _stem(value: Value) -> str:
    """The name of a value without the number that made it unique."""
    stem, _, number = value.name.rpartition("_")
    return stem if stem and number.isdigit() else value.name

"""Tracing: run a Python function on tensors without data, and record its operators.

A trace is a level like `grad` and `vmap`: an operator on its tensors becomes a node, whose result
types come from the shape rule of the row. Transforms inside the function call operators on the
level below them, which is the trace, so `trace(ad.grad(f), x)` is the graph of the gradient.
Tensors from outside become constants.

Writes in place and views become functional as they happen (functionalization.py): the graph is
pure.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from adjoint.calls.methods import as_tensor
from adjoint.core import pytrees
from adjoint.core.dtypes import DType, to_dtype
from adjoint.core.errors import AdjointError, ArgumentError, DependsOnValues, InplaceError
from adjoint.core.generator import drawn
from adjoint.core.layouts import Layout, strided
from adjoint.core.shapes import Spec
from adjoint.core.source_lines import user_line, warn
from adjoint.core.state import current
from adjoint.graph import custom, defaults, functionalization, strides, typing
from adjoint.graph.argument_tensors import ArrayTensor, NumberTensor
from adjoint.graph.ir import Constant, Graph, Signature, Type, Value
from adjoint.graph.mutated_arguments import Written
from adjoint.graph.passes.dead_code import eliminate_dead
from adjoint.homes.arrays import ndarray
from adjoint.homes.held_numbers import held_number, number_of
from adjoint.homes.levels import Level, wrap
from adjoint.homes.limits import NearLevel, above_traced, approach_traced
from adjoint.homes.structures import DressedTensor
from adjoint.ops import binding, streams
from adjoint.ops.operator import Operator, operator
from adjoint.tensor import views
from adjoint.tensor.nodes import CopyWatch, Counter, own_counter
from adjoint.tensor.tensor import Tensor, is_plain, no_array
from adjoint.transforms.dressing import argument_of, calling, plain


class TraceError(AdjointError, RuntimeError):
    """Something in a traced function that a graph cannot hold."""


class ShapeDtype:
    """The shape and dtype of an argument, in place of a tensor.

    >>> import adjoint as ad
    >>> ad.trace(ad.exp, ad.ShapeDtype((3, 4), ad.float32)).inputs
    [%input: f32[3,4]]
    """

    __slots__ = ("dtype", "is_array", "requires_grad", "shape")

    def __init__(self, shape: Any, dtype: Any = "float32", requires_grad: bool = False) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(int(s) for s in shape)
        self.dtype: DType = to_dtype(dtype)
        self.requires_grad = requires_grad
        self.is_array = False  # whether it stands for a NumPy array

    @classmethod
    def of(cls, example: Any, shape: Any, requires_grad: bool) -> ShapeDtype:
        """An example like a tensor or an array, with this shape."""
        made = cls(shape, example.dtype, requires_grad)
        made.is_array = type(example) is ArrayTensor or getattr(example, "is_array", False)
        return made

    def __repr__(self) -> str:
        more = ", requires_grad=True" if self.requires_grad else ""
        return f"ShapeDtype({self.shape}, {self.dtype}{more})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtype) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.requires_grad))


class TraceLevel(Level):
    """One call of `trace`, writing to `graph`.

    A tensor's value is the graph's value, and another one after a write in place.
    """

    name = "trace"
    of_what = "traced function"
    creates = True
    whole = False  # whether it traces a whole function, not a loop or branch in one

    def __init__(self, graph: Graph | None = None) -> None:
        super().__init__()
        self.graph = Graph() if graph is None else graph
        self.constants: dict[
            int, tuple[Any, Value]
        ] = {}  # by id; the tensor stays alive, so the id stays valid
        self.made: set[Counter] = set()  # counters of tensors with known values made inside
        self.copied: dict[int, Any] = {}  # results of view() that are copies, by id
        self.foreign: dict[int, Any] = {}  # views of tensors from outside, by id
        self.detached: dict[Value, Value] = {}
        self.kink_met: Any = None  # whether a value is at a kink, in a call: homes/limits.py

    def lift(self, value: Any, edge: Any = None) -> Tensor:
        return wrap(self, value)

    def constant(self, tensor: Any) -> Value:
        """The graph's value for a tensor from outside."""
        found = self.constants.get(id(tensor))
        if found is None:
            watch = None if self.was_made_inside(tensor) else CopyWatch(tensor)
            constant = Constant(_snapshot(tensor), watch=watch)
            kind = Type.of(tensor, tensor.requires_grad)
            node = self.graph.add(constant, (), (kind,))
            found = self.constants[id(tensor)] = (tensor, node.outputs[0])
        return found[1]

    def value(self, tensor: Any) -> Value:
        """The graph's value for any tensor."""
        if tensor.home is self:
            return tensor.value
        if isinstance(tensor.home, NearLevel):  # a tensor of a branch or a loop
            return self.value(tensor.value)
        return self.constant(tensor)

    def process(self, op: Operator, values: list[Any]) -> Any:
        if not self.open:
            self.check_open(op.name)
        row = op.row
        if row.decompose and not row.kernel and not row.archetype.shape:
            return binding.decomposition(row)(*values)
        asked = op.name
        prepare = functionalization.preparation(op)
        if prepare is not None:
            op, values = prepare(op, values)
        args = self._arguments(values)
        if op.row.reads_memory:
            args = (self._contiguous(args[0]), *args[1:])
        if not current().recording and typing.needs_gradient(row, args):
            args = typing.substitute_needing(args, self._detach)
        kind, types = self._infer(op, args)
        explicit = defaults.explicit(self, op, args, (kind, types))
        if explicit is None:
            return binding.decomposition(row)(*values)
        out = self._node(op, explicit, kind, types, values)
        if asked == "view" and op.name == "reshape" and out.extra is None:
            self.copied[id(out)] = out  # the graph copies here: a write would not reach the source
        if "kink" not in row.texts:
            return out
        return (
            above_traced(self, op, values, out)
            if op.name == "_above"
            else approach_traced(self, op, values, out)
        )

    def _arguments(self, values: list[Any]) -> tuple[Any, ...]:
        args = []
        for v in values:
            if isinstance(v, Tensor):
                args.append(v.value if v.home is self else self.value(v))
            elif type(v) is list:
                args.append(tuple([self.value(t) if isinstance(t, Tensor) else t for t in v]))
            else:
                args.append(v)
        return tuple(args)

    def _infer(self, op: Operator, args: tuple[Any, ...]) -> tuple[Any, tuple[Type, ...]]:
        try:
            return typing.known_types(op, args)
        except DependsOnValues as error:
            raise TraceError(
                f"{user_line()}: {str(error).rstrip('.')}. A graph has fixed shapes: use ad.where, "
                "or compute the mask or the size outside"
            ) from error

    def _node(
        self,
        op: Operator,
        args: tuple[Any, ...],
        kind: Any,
        types: tuple[Type, ...],
        values: list[Any],
    ) -> Any:
        node = self.graph.add(op, args, types)
        node.place = user_line()
        if kind is None:
            out: Any = self.lift(node.outputs[0])
        else:
            out = kind([self.lift(v) for v in node.outputs])
        if op.schema.is_view:
            self._attach(op, values, out)
        elif kind is None:
            strides.note_order(op, values, out)
        return out

    def _attach(self, op: Operator, values: list[Any], out: Any) -> None:
        for source in values:
            if self.owns(source):
                if op.name == "reshape" and strides.copies(op, source, values):
                    return
                views.link(op, source, out, tuple(v for v in values if v is not source))
                return
        for made in out if isinstance(out, (list, tuple)) else [out]:
            self.foreign[id(made)] = made

    def _detach(self, value: Value) -> Value:
        """The value without a gradient, as no_grad() demands."""
        found = self.detached.get(value)
        if found is None:
            node = self.graph.add(_DETACH(), (value,), (Type(value.shape, value.dtype),))
            node.place = user_line()
            found = self.detached[value] = node.outputs[0]
        return found

    def _contiguous(self, value: Value) -> Value:
        """The value made contiguous, whatever the strides of a run's arrays are."""
        clone = operator("clone")
        return self.graph.add(clone, (value, 0), (value.type,)).outputs[0]

    def detach(self, tensor: Any) -> Any:
        return self.process(_DETACH(), [tensor])

    # -- what its tensors say --------------------------------------------------------------------

    def requires_grad(self, tensor: Tensor) -> bool:
        return tensor.value.type.requires_grad

    def array(self, tensor: Tensor) -> Any:
        where = user_line()
        raise TraceError(
            f"{where + ': ' if where else ''}a traced tensor has no numbers to look at (bool(), "
            "item(), float(), tolist(), an if or a while on it). Choose by value with ad.where or "
            "ad.cond, loop with ad.scan or ad.while_loop, or pass what decides as a whole number, "
            "a flag or a string; for ad.compile a real number, too, if static_argnums names it."
        )

    def strides(self, tensor: Tensor) -> tuple[int, ...]:
        found = strides.seen(tensor)
        return tuple([s // found.dtype.itemsize for s in found.strides])

    def storage_offset(self, tensor: Tensor) -> int:
        return strides.seen(tensor).offset

    def is_contiguous(self, tensor: Tensor) -> bool:
        return bool(strides.seen(tensor).array().flags.c_contiguous)

    def layout(self, tensor: Tensor) -> Layout:
        return strided

    def has_leaves(self, tensor: Tensor, wanted: bool) -> bool:
        if wanted and not tensor.requires_grad:
            raise TraceError(
                f"{user_line()}: requires_grad_() inside ad.trace; use ad.grad or ad.vjp there"
            )
        return False

    def check_backward(self) -> None:
        raise TraceError(
            f"{user_line()}: backward() inside ad.trace; use ad.grad, or differentiate the graph"
        )

    def check_numpy(self, what: str) -> None:
        raise TraceError(no_array(f"{what} inside ad.trace: the values are not known"))

    def created(self, tensor: Tensor) -> Tensor:
        """A tensor with known values, which it keeps unless it is written to."""
        if is_plain(tensor):
            self.made.add(own_counter(tensor))
        return tensor

    def was_made_inside(self, tensor: Any) -> bool:
        return tensor.counter in self.made or super().was_made_inside(tensor)

    def enclosed(self, tensor: Tensor) -> Tensor:
        return self.lift(self.value(tensor))

    def random(self, op: Operator, values: list[Any]) -> Any:
        given = dict(zip(op.schema.names, values, strict=False))
        drawn(given.get("generator"), self, streams.read)
        return self.process(op, values)

    def process_inplace(self, op: Operator, function: Callable[..., Any], values: list[Any]) -> Any:
        target = values[0]
        view = None if target.extra is None else target.extra.view
        base = target if view is None else view.base
        if id(base) in self.foreign or not (self.owns(target) or self.takes_in(target)):
            raise TraceError(
                f"{user_line()}: {op.name} changes a tensor from outside the {self.of_what} in "
                "place; pass it as an argument and return the new value"
            )
        if id(base) in self.copied:
            raise InplaceError(
                f"{user_line()}: {op.name}: in a graph this view() is a copy, since its source may "
                "lie otherwise in memory; write to the source, or clone() it before view()"
            )
        return functionalization.write(self, op, function, values)

    def another(self) -> TraceLevel:
        """A trace for a part with a graph of its own."""
        return TraceLevel()

    def process_function(self, function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Add one node for a function with a derivative of its own, which keeps the rule."""
        return custom.traced(self, function, args, keywords)


def _DETACH() -> Operator:  # a constant, made late since operators need the wired package
    return operator("detach")


def _snapshot(tensor: Any) -> Any:
    """A constant that later writes to the tensor do not reach, with the same history."""
    if is_plain(tensor) and tensor.edge is None:
        made = tensor.detach()
        if tensor.value.flags.writeable:
            made = as_tensor(tensor.value.copy())
        return made
    return tensor


# --- from arguments to inputs ---------------------------------------------------------------------


def _is_example(leaf: Any) -> bool:
    return isinstance(leaf, (Spec, ShapeDtype))


def type_of(example: Any) -> Type | None:
    """The type of an example; None for a static argument: a whole number, a flag, a string."""
    if isinstance(example, (Tensor, ShapeDtype)):
        return Type(tuple(example.shape), example.dtype, example.requires_grad)
    if isinstance(example, Spec):
        return Type.of(example)
    if isinstance(example, np.ndarray):
        return Type.of(as_tensor(example))
    number = number_of(example)
    return None if number is None else Type((), number.dtype)


def paths_of(function: Callable[..., Any], structure: Any) -> list[str]:
    """The inputs as the user would write them: x, params['w']."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    positional, named = structure.children
    for i in range(len(positional.children)):
        known = i < len(parameters) and parameters[i].kind in (
            inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        )  # fmt: skip
        names.append(parameters[i].name if known else f"{_starred(parameters)}{i}")
    found = [
        p
        for child, name in zip(positional.children, names, strict=True)
        for p in pytrees.paths(child, name)
    ]
    return found + [
        p
        for child, name in zip(named.children, named.data or (), strict=True)
        for p in pytrees.paths(child, name)
    ]


def _starred(parameters: list[Any]) -> str:
    return next((p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), "x")


def identifier(text: str, otherwise: str = "x") -> str:
    """A Python name made from any text: params['w'] becomes params_w."""
    name = re.sub(r"\W+", "_", text).strip("_") or otherwise
    if keyword.iskeyword(name):
        return otherwise
    return f"{otherwise}_{name}" if name[0].isdigit() else name


@overload
def trace(function: Tensor | np.ndarray[Any, Any], /) -> Tensor: ...
@overload
def trace(function: Callable[..., Any], /, *examples: Any, **keywords: Any) -> Graph: ...
def trace(function: Any, /, *examples: Any, **keywords: Any) -> Graph | Tensor:
    """Return the graph of `function` for arguments like these; of a matrix, the trace.

    Examples are tensors, arrays, floats, `ad.ShapeDtype(shape, dtype)`, or pytrees of them; their
    values are not used. Whole numbers, flags, strings and None are kept as they are, and the graph
    is only good for them. Tensors that the function finds outside its arguments become constants.

    >>> import adjoint as ad
    >>> graph = ad.trace(lambda x: (x * x).sum(), ad.ShapeDtype(3))
    >>> print(graph.ssa())
    graph f(%x: f32[3]) {
      %mul: f32[3] = mul.Tensor(%x, %x)
      %sum: f32[] = sum.default(%mul, None)
      return %sum
    }
    >>> graph(ad.tensor([1.0, 2.0, 3.0]))
    tensor(14.)
    >>> ad.trace(ad.eye(3))
    tensor(3.)
    """
    if isinstance(function, (Tensor, np.ndarray)):  # PyTorch's `trace`, the sum of the diagonal
        return operator("trace")(function)
    if not callable(function):
        raise ArgumentError(f"trace: needs a function or a matrix, got {type(function).__name__}")
    leaves, structure = pytrees.flatten((examples, keywords), _is_example)
    paths = paths_of(function, structure)
    signature = Signature(structure, None, identifier(getattr(function, "__name__", "f"), "f"))
    with TraceLevel(Graph(signature)) as level:
        level.whole = True
        tensors, given, static = [], [], {}
        for number, (leaf, path) in enumerate(zip(leaves, paths, strict=True)):
            kind = type_of(leaf)
            if kind is None:
                static[number] = leaf
                given.append(leaf)
            else:
                tensors.append(_input(level, level.graph.add_input(kind, identifier(path)), leaf))
                given.append(tensors[-1])
        signature.static = static
        signature.names = tuple(p for i, p in enumerate(paths) if i not in static)
        args, named = pytrees.unflatten(structure, given)
        result = calling(function, args, named)
        outputs, signature.outputs = pytrees.flatten(result)
        level.graph.outputs = [
            _output(level, o, p)
            for o, p in zip(outputs, pytrees.paths(signature.outputs), strict=True)
        ]
        if signature.outputs.kind is not Written:
            _warn_of_writes(level, tensors, signature)
    return eliminate_dead(level.graph)


def _input(level: TraceLevel, value: Value, leaf: Any) -> Any:
    """The tensor for an input: a held number or an array if the argument is one."""
    number = leaf.wrapped if type(leaf) is NumberTensor else number_of(leaf)
    tensor = level.lift(value)
    if number is not None:
        return held_number(tensor, number)
    if not isinstance(leaf, ndarray | np.ndarray) and not getattr(leaf, "is_array", False):
        return tensor
    return argument_of(tensor)


def _output(level: TraceLevel, leaf: Any, path: str) -> Any:
    if isinstance(leaf, Tensor):
        return level.value(plain(leaf))
    if isinstance(leaf, (np.ndarray, np.generic)):
        return level.constant(as_tensor(leaf))
    if leaf is None or isinstance(leaf, (bool, int, float, complex, str)):
        return leaf
    raise TraceError(f"trace: output{path} must be a tensor or a number, got {type(leaf).__name__}")


def _warn_of_writes(level: TraceLevel, tensors: list[Any], signature: Signature) -> None:
    for tensor, value, path in zip(tensors, level.graph.inputs, signature.names, strict=True):
        under = tensor.value if isinstance(tensor, DressedTensor) else tensor
        if under.value is not value:
            warn(
                f"trace: {signature.name} changes its argument {path} in place; the graph leaves "
                "its arguments alone. Return the new value, or clone() the argument first.",
            )

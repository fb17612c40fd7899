"""Definitions: how a loop computes a node, the vocabulary between graphs and loops.

`define(node)` says how the elements of a node's result are computed: by an expression of the
elements of its inputs, by a lookup of elements (views, pieces, gathers), by a combination of many
(reductions, prefixes), by writes to chosen places (puts), or by a routine. None means that only the
eager kernel computes the node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from adjoint.compiler.target import Target
from adjoint.core import dtypes
from adjoint.core.c_types import LETTERS
from adjoint.core.dtypes import HALVES, DType
from adjoint.core.promotion import NUMBERS, fit_number
from adjoint.core.records import record
from adjoint.core.remembering import cached_property
from adjoint.core.shapes import Shape, wrap_dims
from adjoint.core.storage import imagined
from adjoint.core.symbolic_sizes import is_for_many, is_open
from adjoint.expressions.rows import expression
from adjoint.expressions.trees import Expression
from adjoint.graph.facts import argument, computes_in, filled
from adjoint.graph.ir import Constant, Node, Region, Value
from adjoint.loops.accumulators import ACCUMULATORS
from adjoint.loops.affine import (
    Affine,
    Bounds,
    Index,
    broadcast,
    identity,
    reshaped,
)
from adjoint.ops.operator import Operator, operator
from adjoint.tensor.tensor import make

GATHER = 6  # additions that a read at an address known at run time costs


class Definition:
    """How elements are computed: the questions that every definition answers, with defaults."""

    joins = False  # whether it merges dimensions, so that the source's index is not affine

    def made_of(self, size: int) -> list[tuple[Value, bool]]:
        """(value, in_place) for each value that elements are computed from.

        `in_place` says whether a loop over `size` elements reads the value at the loop's own
        position.
        """
        return []

    def takes_once(self, value: Value, result: Value) -> bool:
        """Whether each element of `value` is read once to compute `result`."""
        return False

    def cost(self, inputs: int) -> int:
        """The additions for one element, without those for its inputs."""
        return 2 * inputs


@record
class Fill(Definition):
    """The same number everywhere."""

    number: Any


@record
class Arange(Definition):
    """arange: start, start + step, …"""

    start: Any
    step: Any


@record
class Pointwise(Definition):
    """An expression of the elements of the inputs, which are broadcast."""

    tree: Expression  # of operands that have the names of the node's arguments
    reads: tuple[Value, ...]  # those of them that are tensors

    def made_of(self, size: int) -> list[tuple[Value, bool]]:
        return [(v, math.prod(v.shape) == size) for v in self.reads]

    def takes_once(self, value: Value, result: Value) -> bool:
        return math.prod(result.shape) == math.prod(value.shape)

    def cost(self, inputs: int) -> int:
        return self.tree.cost


@record
class Look(Definition):
    """Elements of one value, found at another index."""

    source: Value

    def into(self, index: Index, bounds: Bounds) -> Index | None:
        """The index in the source; None if it is not affine."""
        raise NotImplementedError


@record
class ViewDefinition(Look):
    """Some elements of the source, or all elements in another order."""

    index: Index  # of the source, in terms of the view's index

    def made_of(self, size: int) -> list[tuple[Value, bool]]:
        return [(self.source, False)]

    def into(self, index: Index, bounds: Bounds) -> Index | None:
        return tuple(each.at(index) for each in self.index)


@record
class Reshape(Look):
    """The elements of the source, in the same order, in another shape."""

    shape: Shape

    @cached_property
    def joins(self) -> bool:  # type: ignore[override]
        bounds = [(0, s) for s in self.shape]
        return self.into(identity(len(bounds)), bounds) is None

    def made_of(self, size: int) -> list[tuple[Value, bool]]:
        return [(self.source, True)]

    def into(self, index: Index, bounds: Bounds) -> Index | None:
        return reshaped(self.source.shape, self.shape, index, bounds)


@record
class Piece:
    """A range of a value that is another value."""

    source: Value
    dim: int  # the whole's dimension that the range is in
    low: int
    high: int
    drops: bool = False  # whether the source lacks this dimension

    def into(self, index: Index) -> Index:
        moved = index[self.dim] + Affine(-self.low)
        middle = () if self.drops else (moved,)
        return (*index[: self.dim], *middle, *index[self.dim + 1 :])


@record
class Pieces(Definition):
    """A value composed of other values: cat, and writes to a part."""

    base: Value | None  # the value outside the pieces
    pieces: tuple[Piece, ...]

    def made_of(self, size: int) -> list[tuple[Value, bool]]:
        base = [] if self.base is None else [(self.base, True)]
        return [*base, *((p.source, False) for p in self.pieces)]

    def takes_once(self, value: Value, result: Value) -> bool:
        return True


@record
class Address:
    """An element of a value, at indices that are themselves values."""

    shape: Shape  # of the indexed value
    dims: tuple[Value | int, ...]  # for each dimension: the index, or a dimension of space
    space: Shape  # the shape of the chosen elements
    first: int  # the first dimension of the space that belongs to the indices
    rank: int  # how many dimensions of the space belong to the indices
    wraps: bool  # whether negative indices count from the end

    def of(self, value: Value, index: Index) -> Index:
        """The index in `value`, one of the index values, for an index in the space."""
        return broadcast(index[self.first : self.first + self.rank], value.shape)

    def indices(self) -> list[Value]:
        return [d for d in self.dims if isinstance(d, Value)]


@record
class Gather(Definition):
    """Elements of a value at indices that are values."""

    source: Value
    address: Address

    def made_of(self, size: int) -> list[tuple[Value, bool]]:
        return [(v, math.prod(v.shape) == size) for v in self.address.indices()]

    def cost(self, inputs: int) -> int:
        return GATHER


@record
class Put(Definition):
    """A copy of a value with elements written to chosen places."""

    base: Value
    part: Value
    space: Shape  # the writes run over it; the part broadcasts to it
    target: Address | Affine  # chosen by indices, or an affine position in the whole
    accumulate: bool

    def made_of(self, size: int) -> list[tuple[Value, bool]]:
        chosen = [] if isinstance(self.target, Affine) else self.target.indices()
        return [(v, False) for v in (self.part, *chosen)]

    def takes_once(self, value: Value, result: Value) -> bool:
        return self.part is value


@record
class Combination(Definition):
    """Elements combined along dimensions, by an accumulator of `accumulators.py`."""

    kind: str
    source: Value
    dims: tuple[int, ...]

    def made_of(self, size: int) -> list[tuple[Value, bool]]:
        return [(self.source, True)]

    def takes_once(self, value: Value, result: Value) -> bool:
        return True


class Reduction(Combination):
    """Many elements combined to one: 'sum', 'mean', 'amax', 'amin', 'prod', 'any', 'all'."""


class Prefix(Combination):
    """Running totals along one dimension: 'sum', 'prod'."""


@record
class Routine:
    """A C function of ours, with the numbers to call it with."""

    file: str  # "factors": c_kernels/factors.c
    name: str  # "lu"
    kind: str  # its C type: "double"
    numbers: tuple[int, ...]
    helpers: tuple[str, ...] = ()  # whose addresses follow the operands: ("lapack:getrf",)
    flops: int | None = None  # if known

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols whose addresses a program needs: "factors:lu:double", "lapack:dgetrf"."""
        return symbols(self.file, self.name, self.kind, self.helpers)


def symbols(file: str, name: str, kind: str, helpers: Sequence[str] = ()) -> tuple[str, ...]:
    """The symbol of a C function of ours, then those of its helpers."""
    pairs = (helper.split(":") for helper in helpers)
    others = (f"{library}:{LETTERS[kind]}{each}" for library, each in pairs)
    return f"{file}:{name}:{kind}", *others


@record
class RoutineDefinition(Definition):
    """A routine on whole arrays, of BLAS, LAPACK or our own: see `routine_calls` and `routines`."""

    routine: str  # "product"
    ours: Routine | None = None  # our own routine, for row-major arrays, with its numbers


def define(node: Node, target: Target) -> Definition | None:
    """How a program computes the results of a node; None if it cannot."""
    names = {v.dtype.name for v in (*node.inputs(), *node.outputs)}
    if isinstance(node.op, (Constant, Region)) or not names <= target.types.keys():
        return None
    pieces = partial(_pieces, most=target.limits.pieces)
    for rule in (_fill, _count, _pointwise, _reduction, _prefix, _view, pieces, _gather, _put):
        found = rule(node)
        if found is not None:
            return found
    return target.routine(node)


class Definitions:
    """The definitions of nodes for a target, each found once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.known: dict[Node, tuple[Any, Definition | None]] = {}  # with its arguments then

    def of(self, node: Node) -> Definition | None:
        known = self.known.get(node)
        if known is None or known[0] is not node.args:
            known = self.known[node] = node.args, define(node, self.target)
        return known[1]


_OF_GRIDS = ("nextafter.default", "nan_to_num.default", "view.dtype", "hash_tensor.default")


def depends_on_grid(node: Node) -> bool:
    """Whether the result in half precision differs from the rounded result in float32."""
    values = (*node.inputs(), *node.outputs)
    return node.name in _OF_GRIDS and any(v.dtype in HALVES for v in values)


def compute_dtype(node: Node) -> DType:
    """The dtype in which a pointwise node computes: float32 for half precision."""
    found = computes_in(node) or node.outputs[0].dtype
    return found.wide


def promoted_to(node: Node, value: Any) -> DType:
    """The dtype to which an operand of a pointwise node is rounded before it is used.

    This is the common dtype of the operands. In a row with `numbers: wide`, a number or 0-d tensor
    next to halves stays float32, as the computation is in float32.
    """
    dtype = computes_in(node) or compute_dtype(node)
    is_number = not (isinstance(value, Value) and value.shape)
    if node.op.row.has_wide_numbers and dtype in HALVES and is_number:
        return dtypes.float32
    return dtype


# -- elements -------------------------------------------------------------------------------------


def _fill(node: Node) -> Fill | None:
    if 0 in node.outputs[0].shape and len(node.outputs) == 1 and not node.op.row.random:
        return Fill(0)
    value = filled(node)
    return Fill(value) if isinstance(value, (int, float)) else None


def _count(node: Node) -> Arange | None:
    if (
        node.name != "arange.start_step"
        or node.output.dtype in HALVES
        or not all(isinstance(argument(node, k), int) for k in ("start", "end", "step"))
    ):
        return None
    return Arange(argument(node, "start"), argument(node, "step"))


def _pointwise(node: Node) -> Pointwise | None:
    row = node.op.row
    if not row.element or len(node.outputs) != 1 or depends_on_grid(node):
        return None
    given = dict(zip(row.schema.names, node.args, strict=True))
    for name in [a.name for a in row.promoted]:
        if type(given[name]) in NUMBERS:
            fitting = fit_number(given[name], promoted_to(node, given[name]))
            given[name] = fitting if type(fitting) in NUMBERS else float(fitting)
    tree = expression(row, compute_dtype(node), given)
    if tree is None or None in [given[name] for name in tree.operands]:
        return None
    whole = not node.output.dtype.is_differentiable and node.output.dtype.name != "bool"
    if whole and row.archetype.to_float:
        return None
    used = [a for n, a in given.items() if n in tree.operands and isinstance(a, Value)]
    return Pointwise(tree, tuple(used))


def _reduction(node: Node) -> Reduction | Reshape | Fill | None:
    kind, source = node.op.row.reduces, next(node.inputs(), None)
    if not kind or source is None or not _accumulates(kind, source.dtype, node.output.dtype):
        return None
    if 0 in source.shape:
        number = ACCUMULATORS[kind].of_nothing
        return None if number is None else Fill(number)
    dim = argument(node, "dim") if "dim" in node.op.schema.names else None
    if dim == () and kind in ("any", "all"):
        return None  # reduces no dimension: a conversion
    dims = wrap_dims(node.name, (dim,) if isinstance(dim, int) else dim, len(source.shape))
    if (
        all(source.shape[d] == 1 for d in dims if source.shape)
        and node.output.dtype is source.dtype
    ):
        return Reshape(source, node.output.shape)
    return Reduction(kind, source, dims) if source.shape else None


def _accumulates(kind: str, source: DType, result: DType) -> bool:
    """Whether an accumulator of the result's dtype takes the elements in without a conversion."""
    if not {source, result}.isdisjoint(HALVES) or source.is_complex or result.is_complex:
        return False
    if source is result or kind in ("any", "all"):
        return True
    if kind not in ("sum", "mean", "prod"):
        return False
    return result.is_floating_point or (result.name == "int64" and not source.is_floating_point)


def _prefix(node: Node) -> Prefix | Reshape | None:
    kind, source = node.op.row.accumulates, next(node.inputs(), None)
    if not kind or source is None or not _accumulates(kind, source.dtype, node.output.dtype):
        return None
    dim = argument(node, "dim") % max(len(source.shape), 1)
    if source.shape and source.shape[dim] != 1:
        return Prefix(kind, source, (dim,))
    return Reshape(source, source.shape) if node.output.dtype is source.dtype else None


# -- elsewhere ------------------------------------------------------------------------------------


def _view(node: Node) -> ViewDefinition | Reshape | None:
    """Find a view's index by its kernel, on arrays whose addresses count along one dimension."""
    row = node.op.row
    flips = node.name == "flip.default"
    if len(node.outputs) != 1 or not (row.schema.is_view or flips):
        return None
    source, output = next(node.inputs()), node.output
    if sum(1 for _ in node.inputs()) != 1 or source.dtype is not output.dtype:
        return None
    if row.moves == "shape" or node.name == "view.dtype":  # `view.dtype` here keeps the dtype
        return Reshape(source, output.shape)
    if flips:
        dims = {d % max(len(source.shape), 1) for d in argument(node, "dims")}
        return ViewDefinition(
            source, tuple(_backwards(source.shape, d in dims, d) for d in range(len(source.shape)))
        )
    if node.op.name in ("as_strided", "view_as_real", "view_as_complex"):
        return None
    known = (node.op, node.args[1:], source.shape, output.shape)
    found = _looked(*known) if is_open(known[1:]) else _known_looks(*known)
    if found is None:
        return None
    return Reshape(source, output.shape) if found[0] else ViewDefinition(source, found[1])


def _looked(
    op: Operator, args: tuple[Any, ...], shape: Shape, output: Shape
) -> tuple[bool, Index] | None:
    """(keeps_order, index) of a view: whether it has all elements of its source in their order, and
    the index in the source. None if the operator returns no view of these arguments.
    """
    found = []
    if _moved(op, args, shape, None) is None:
        return None  # some rows with a view schema compute a copy
    for d in range(len(shape)):
        moved = _moved(op, args, shape, d)
        if moved is None or moved.shape != output:
            return None
        offset = _address(moved) - _address(_ORIGIN)
        steps = zip(moved.strides, output, strict=True)
        terms = tuple((k, s) for k, (s, size) in enumerate(steps) if s and size != 1)
        found.append(Affine(offset, terms))
    bounds = [(0, s) for s in output]
    same = math.prod(shape) == math.prod(output)
    index = tuple(found)
    return same and reshaped(shape, output, identity(len(bounds)), bounds) == index, index


_known_looks = lru_cache(1 << 12)(_looked)  # the turns of an unrolled loop ask for the same views
_ORIGIN = np.zeros(1, np.int8)


def _address(array: Any) -> int:
    return array.__array_interface__["data"][0]


def _moved(op: Operator, args: tuple[Any, ...], shape: Shape, dim: int | None) -> Any:
    strides = [int(d == dim) for d in range(len(shape))]
    array = as_strided(_ORIGIN, shape, strides)
    result = op.parts.compute(make(array), *args)
    looks = isinstance(result, np.ndarray) and np.may_share_memory(result, array)
    return result if looks else None


def _backwards(shape: Shape, flips: bool, d: int) -> Affine:
    return Affine(shape[d] - 1, ((d, -1),)) if flips else Affine(0, ((d, 1),))


def _pieces(node: Node, most: int) -> Pieces | None:
    if any(v.dtype is not node.outputs[0].dtype for v in node.inputs()):
        return None
    if node.name == "cat.default":
        return _cat(node, most)
    if node.name == "slice_scatter.default":
        whole, part, dim, start, end, step = node.args
        if step != 1:
            return None
        dim %= len(whole.shape)
        low = slice(start, end).indices(whole.shape[dim])[0]
        return Pieces(whole, (Piece(part, dim, low, low + part.shape[dim]),))
    if node.name == "select_scatter.default":
        whole, part, dim, place = node.args
        dim %= len(whole.shape)
        low = place % whole.shape[dim]
        return Pieces(whole, (Piece(part, dim, low, low + 1, drops=True),))
    return None


def _cat(node: Node, most: int) -> Pieces | None:
    """The pieces of a cat; None if there are more than a loop tells apart."""
    tensors, dim = node.args
    if len(tensors) > most or not is_join(node):
        return None
    dim %= len(node.output.shape)
    place, found = 0, []
    for value in tensors:
        found.append(Piece(value, dim, place, place + value.shape[dim]))
        place += value.shape[dim]
    return Pieces(None, tuple(p for p in found if p.high > p.low or is_for_many()))


def is_join(node: Node) -> bool:
    """Whether a node puts tensors of one rank and dtype next to one another."""
    if node.name != "cat.default":
        return False  # as in PyTorch, an empty vector may stand among tensors of any rank
    type_of = (len(node.output.shape), node.output.dtype)
    return all((len(v.shape), v.dtype) == type_of for v in node.inputs())


def _gather(node: Node) -> Gather | None:
    if node.name == "index.Tensor":
        source, indices = node.args
        address = _index_address(source.shape, indices)
    elif node.name == "gather.default":
        source, dim, index = node.args[:3]
        address = _gather_address(source.shape, dim, index)
    else:
        return None
    return None if address is None or 0 in source.shape else Gather(source, address)


def _put(node: Node) -> Put | Pieces | None:
    if node.op.row.overwrites:
        return _put_view(node)
    if node.name == "index_put.default":
        base, indices, part, accumulate = node.args
        address = _index_address(base.shape, indices)
    elif node.name in ("scatter.src", "scatter_add.default"):
        base, dim, index, part = node.args
        address = _gather_address(base.shape, dim, index)
        accumulate = node.op.name == "scatter_add"
        if part.shape != index.shape:
            return None
    else:
        return None
    if address is None or part.dtype is not base.dtype or base.dtype.name == "bool":
        return None
    if accumulate and base.dtype in HALVES:
        return None
    if 0 in base.shape:
        return None
    if 0 in address.space:
        return Pieces(base, ())
    return Put(base, part, address.space, address, accumulate)


def _put_view(node: Node) -> Put | Pieces | None:
    """A write to a strided view: the position of the view in the whole."""
    whole, part, *rest = node.args
    name, _, overload = node.op.row.overwrites.partition(".")
    room = imagined(whole.shape, np.int8)
    view = operator(name, overload.replace("default", "")).parts.compute(make(room), *rest)
    if part.dtype is not whole.dtype or not room.size:
        return None
    if not view.size:
        return Pieces(whole, ())
    start = _address(view) - _address(room)
    terms = tuple((d, s) for d, s in enumerate(view.strides) if s)
    return Put(whole, part, part.shape, Affine(start, terms), False)


def _index_address(shape: Shape, indices: Sequence[Any]) -> Address | None:
    """The address of x[indices]; an index None takes the whole dimension."""
    given: list[Any] = [*indices, *[None] * (len(shape) - len(indices))]
    chosen = [d for d, v in enumerate(given) if v is not None]
    if not chosen or any(given[d].dtype.name not in ("int64", "int32") for d in chosen):
        return None  # the size of a mask's result depends on its values
    spread = np.broadcast_shapes(*(given[d].shape for d in chosen))
    first = chosen[0] if chosen == list(range(chosen[0], chosen[-1] + 1)) else 0
    kept = [d for d in range(len(shape)) if given[d] is None]
    space = [shape[d] for d in kept]
    space[first:first] = spread
    dims: list[Value | int] = list(given)
    for position, d in enumerate(kept):
        dims[d] = position if position < first else position + len(spread)
    return Address(shape, tuple(dims), tuple(space), first, len(spread), wraps=True)


def _gather_address(shape: Shape, dim: int, index: Value) -> Address | None:
    """The address of gather and scatter: `index` along `dim`, the own position elsewhere."""
    if len(index.shape) != len(shape) or not shape or index.dtype.name not in ("int64", "int32"):
        return None
    dims: list[Value | int] = list(range(len(shape)))
    dims[dim % len(shape)] = index
    return Address(shape, tuple(dims), index.shape, 0, len(shape), wraps=False)

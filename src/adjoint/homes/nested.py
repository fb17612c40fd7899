"""Nested tensors: components of different sizes, packed in one tensor of values.

A nested tensor is a structure and not a value: its `value` is an ordinary tensor, plain or of any
transform, and its home is above all transforms. Operators become operators on the values, so that
gradients, tangents, batches and graphs are those of the values, and no transform ever sees a nested
tensor; as an argument or result of a function it is a container with the values in it (pytrees).
What an operator does with one follows from its row: pointwise rows apply to the values, those that
take dimensions apply to them with the dimensions counted in the components, and rows with
`nested:` say it (decompositions/nested.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from adjoint.core import pytrees
from adjoint.core.errors import DimensionError, MissingRule, ShapeError
from adjoint.core.layouts import Layout, jagged
from adjoint.core.shapes import show, wrap_dims
from adjoint.homes.structures import PackedTensor
from adjoint.ops import binding, kinks, runtime
from adjoint.ops import nested as parts
from adjoint.ops import operator as operators
from adjoint.ops.arguments import DIMS
from adjoint.ops.directions import direction_of
from adjoint.ops.operator import Operator
from adjoint.structures.ragged import Ragged, RaggedSize
from adjoint.table.rows import Row
from adjoint.tensor.home import Height, Home
from adjoint.tensor.tensor import Tensor

# Words of the column `nested`: an operator runs on the values unchanged, or reduces all of them.
POINTWISE, REDUCTION = "pointwise", "reduction"
_SAME = "shape.same"  # the shape rule for results like the first argument
# The reductions along the ragged dimension that segment_reduce can do.
_SEGMENTS = {"sum": "sum", "mean": "mean", "amax": "max", "amin": "min", "prod": "prod"}


class NestedTensors(Home):
    """Runs operators on nested tensors."""

    height = Height.NESTED
    name = "nested tensors"
    takes_out = False
    sees_all = True

    def process(self, op: Operator, values: list[Any]) -> Any:
        row = op.row
        rule = row.texts.get("nested", "")
        if "." in rule:
            return binding.reference(rule, "decompositions", row, "nested")(*values)
        if _is_elementwise(row):
            return _elementwise(op, values)
        if row.decompose and not row.kernel:
            return binding.decomposition(row)(*values)
        if any(name in DIMS for name in row.schema.names):
            return _along(op, values)
        if row.archetype.name == "reduction" or rule == REDUCTION:
            return _whole(op, values)
        raise _missing(op)

    def process_inplace(
        self, op: Operator, functional: Callable[..., Any], values: list[Any]
    ) -> Any:
        """Write to the values."""
        if not parts.is_nested(values[0]):
            raise ShapeError(f"{op.name}: a nested tensor cannot be written to a dense one")
        if not _is_elementwise(op.row):
            raise _missing(op)
        like, below = parts.aligned(op.name, [values[0].detach(), *values[1:]])
        if not like.ragged.same_places(values[0].ragged):
            raise ShapeError(
                f"{op.name}: the components written to have gaps between them; call contiguous() "
                "first, and write to the result"
            )
        op.call([values[0].value, *below[1:]])
        return values[0]

    # -- what its tensors say ------------------------------------------------------------------

    def shape(self, tensor: Any) -> tuple[Any, ...]:
        return tensor.ragged.shape(tuple(tensor.value.shape))

    def layout(self, tensor: Any) -> Layout:
        return tensor.ragged.layout

    def array(self, tensor: Any) -> Any:
        raise _no_array()

    def check_numbers(self, what: str) -> None:
        raise _no_array()

    def strides(self, tensor: Any) -> Any:
        raise ShapeError("stride(): the components of a nested tensor have strides of their own")

    def storage_offset(self, tensor: Any) -> int:
        return int(tensor.value.storage_offset())

    def is_contiguous(self, tensor: Any) -> bool:
        ragged = tensor.ragged
        return not ragged.dim and ragged.is_packed and bool(tensor.value.is_contiguous())

    def direction(self, tensor: Any) -> Any:
        return direction_of(tensor.value)

    def is_limit(self, tensor: Any) -> bool:
        return kinks.is_limit(tensor.value)

    def meets_kink(self, tensor: Any) -> bool:
        return kinks.meets_kink(tensor.value)

    def data(self, tensor: Any) -> Any:
        return tensor.holding(tensor.value.data)

    def detach(self, tensor: Any) -> Any:
        return tensor.holding(tensor.value.detach())

    def check_leaves(self, tensor: Any, what: str) -> None:
        tensor.value.check_leaves(what)

    def text(self, tensor: Any) -> str:
        edge, function = tensor.value.edge, tensor.value.grad_fn
        history = f"grad_fn=<{function.name()}>" if function is not None else "requires_grad=True"
        suffix = "" if edge is None else f", {history}"
        if tensor.layout is jagged:
            packed = tensor.ragged.is_packed
            offsets = runtime.tensor_of(tensor.ragged.offset_array)
            size = ", ".join(map(repr, tensor.shape))
            return f"NestedTensor(size=({size}), offsets={offsets}, contiguous={packed}{suffix})"
        shown = [_indented(repr(part)) for part in tensor.detach().unbind()]
        return "nested_tensor([\n" + ",\n".join(shown) + f"\n]{suffix})"


NESTED = NestedTensors()


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _no_array() -> Exception:
    return ShapeError(
        "a nested tensor is not one array: use values() for the packed one, unbind() for one of "
        "each component, or to_padded_tensor(padding) for a dense tensor"
    )


def _missing(op: Operator) -> Exception:
    return MissingRule(
        f"{op.name} does not take nested tensors; use unbind() and ad.nested.as_nested_tensor() "
        "to call it on each component, values() for the packed values, or to_padded_tensor()"
    )


class NestedTensor(PackedTensor):
    """Components of different sizes as one tensor. Make one with `ad.nested.nested_tensor`.

    >>> import adjoint as ad
    >>> x = ad.nested.nested_tensor([ad.ones(2, 3), ad.ones(1, 3)], layout=ad.jagged)
    >>> (x * 2).sum(1).tolist()
    [[4.0, 4.0, 4.0], [2.0, 2.0, 2.0]]
    """

    __slots__ = ("ragged",)

    class_home = NESTED
    ragged: Ragged
    is_nested = True

    def holding(self, values: Any) -> NestedTensor:
        """A nested tensor with the same structure and other values."""
        return nested_of(values, self.ragged)

    def fitted(self, grad: Any) -> Any:
        """A gradient as one of the values."""
        return parts.aligned("a gradient", [self.detach(), grad])[1][1]

    # -- facts ---------------------------------------------------------------------------------

    def numel(self) -> int:
        """Return the number of elements of all components."""
        shape, ragged = tuple(self.value.shape), self.ragged
        return sum(math.prod(ragged.shape_of(shape, i)) for i in range(ragged.count))

    nelement = numel

    def __len__(self) -> int:
        return self.ragged.count

    def values(self) -> Tensor:
        """Return the packed values; of a strided nested tensor, as a vector."""
        return operators.packet("_nested_get_values").function(self)

    def offsets(self) -> Tensor:
        """Return where components begin among the values, and where the last one ends."""
        return runtime.tensor_of(self.ragged.offset_array)

    def lengths(self) -> Tensor | None:
        """Return the sizes of components that have gaps between them; None if there are none."""
        ragged = self.ragged
        return None if ragged.is_packed else runtime.tensor_of(ragged.length_array)

    # -- sizes, among which the ragged one may be given as it is: x.size(1) ------------------------

    def reshape(self, *sizes: Any) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return other sizes beside the ragged one; see `Tensor.reshape`."""
        return operators.packet("reshape").function(self, _sizes(sizes))

    def view(self, *sizes: Any) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return other sizes beside the ragged one, without a copy; see `Tensor.view`."""
        return operators.packet("view").function(self, _sizes(sizes))

    def expand(self, *sizes: Any) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Repeat in dimensions of size 1; see `Tensor.expand`."""
        return operators.packet("expand").function(self, _sizes(sizes))

    def __getitem__(self, key: Any) -> Tensor:
        keys = key if isinstance(key, tuple) else (key,)
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            taken = sum(k is not None and k is not Ellipsis for k in keys)
            keys = (*keys[:at], *(slice(None),) * (self.ndim - taken), *keys[at + 1 :])
        first, rest = keys[0], keys[1:]
        if isinstance(first, int):
            part = self.select(0, first)
            return part[rest] if rest else part
        if not isinstance(first, slice):
            raise ShapeError(
                f"x[{first!r}] of a nested tensor: a number, a slice or ... comes first; use "
                "unbind() for each component"
            )
        chosen = [c[rest] if rest else c for c in parts.components(self)[first]]
        return parts.of_parts("x[…]", chosen, self.layout)

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, int):
            raise ShapeError("x[key] = value of a nested tensor: key must be the number of one")
        self.select(0, key).copy_(value)

    # -- copying ---------------------------------------------------------------------------------

    def __reduce__(self) -> Any:
        return nested_of, (self.value, self.ragged)

    def __deepcopy__(self, memo: dict[int, Any]) -> NestedTensor:
        return self.holding(self.value.__deepcopy__(memo))


def _sizes(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    given = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    return tuple(-1 if isinstance(size, RaggedSize) else size for size in given)


def nested_of(values: Any, ragged: Ragged) -> NestedTensor:
    """The nested tensor of these values."""
    if isinstance(values, Tensor) and not ragged.fits(tuple(values.shape)):
        raise ShapeError(
            f"values of shape {show(values.shape)} for {ragged.count} nested components of "
            f"{ragged.extent} rows in all. vmap cannot take nested tensors apart or put them "
            "together: pass in_dims=None, or unbind() and pad them"
        )
    tensor = object.__new__(NestedTensor)
    tensor.value = values
    tensor.ragged = ragged
    tensor.extra = None
    tensor.home = NESTED
    return tensor


# --- operators ------------------------------------------------------------------------------------


def _is_elementwise(row: Row) -> bool:
    """Whether an operator is elementwise, or makes a tensor like its argument."""
    if row.texts.get("nested") == POINTWISE or row.archetype.shape == "broadcast":
        return True
    makes = row.archetype.name == "creation" and "size" not in row.schema.names
    return makes or (row.shape == _SAME and not any(n in DIMS for n in row.schema.names))


def _elementwise(op: Operator, values: list[Any]) -> Any:
    like, below = parts.aligned(op.name, values)
    return _wrapped(op.call(below), like.ragged)


def _wrapped(results: Any, ragged: Ragged) -> Any:
    if isinstance(results, (tuple, list)):
        return type(results)([_wrapped(r, ragged) for r in results])
    return nested_of(results, ragged) if isinstance(results, Tensor) else results


def _whole(op: Operator, values: list[Any]) -> Any:
    """Reduce all elements of all components."""
    return op.call([parts.compact(v).value if parts.is_nested(v) else v for v in values])


def _along(op: Operator, values: list[Any]) -> Any:
    """Run an operator along dimensions of the components."""
    names = op.schema.names
    like = next((v for v in values if parts.is_nested(v)), None)
    if like is None:
        raise _missing(op)
    touched: set[int] = set()
    given = list(values)
    for place, name in enumerate(names):
        if name not in DIMS or values[place] is None or values[place] == ():
            continue
        given[place], inner = _inside(op.name, values[place], like.ndim)
        touched |= set(inner)
    if not touched:
        return _whole(op, values)
    ragged = like.ragged
    if ragged.dim is None or ragged.dim in touched:
        return _along_ragged(op, given, like, touched)
    if any(isinstance(v, Tensor) and not v.is_nested and v.ndim > 1 for v in given):
        raise _missing(op)
    same, below = parts.aligned(op.name, [v if parts.is_nested(v) else None for v in given])
    results = op.call([v if b is None else b for v, b in zip(given, below, strict=True)])
    first = results[0] if isinstance(results, (tuple, list)) else results
    gone = sum(d < ragged.dim for d in touched) if first.ndim < same.value.ndim else 0
    return _wrapped(results, same.ragged.along(ragged.dim - gone))


def _inside(what: str, dims: Any, ndim: int) -> tuple[Any, tuple[int, ...]]:
    """Dimensions counted in the components: as given (a number or a list), and as a tuple."""
    wrapped = wrap_dims(what, dims, ndim)
    if 0 in wrapped:
        raise DimensionError(f"{what}: dim={dims} of a nested tensor: {parts.BATCH}")
    inner = tuple(d - 1 for d in wrapped)
    return (inner[0] if isinstance(dims, int) else inner), inner


def _along_ragged(op: Operator, given: list[Any], like: Any, touched: set[int]) -> Any:
    """Run an operator along the dimension in which components differ."""
    ragged = like.ragged
    segments = _SEGMENTS.get(op.row.texts.get("reduces", ""))
    if segments and touched == {ragged.dim} and like.dtype.is_floating_point:
        return _by_segments(op, given, parts.compact(like), segments)
    reduces = op.row.archetype.name == "reduction" or "keepdim" in op.schema.names
    split = {i: parts.components(v) for i, v in enumerate(given) if parts.is_nested(v)}
    results = [
        op.call([split[i][n] if i in split else v for i, v in enumerate(given)])
        for n in range(ragged.count)
    ]
    if results and isinstance(results[0], (tuple, list)):
        columns = [_together(op, column, like, reduces) for column in zip(*results, strict=True)]
        return type(results[0])(columns)
    return _together(op, results, like, reduces)


def _together(op: Operator, results: Any, like: Any, reduces: bool) -> Any:
    """The components' results as one: dense if the ragged dimension is gone, else nested."""
    if reduces and results and like.ragged.dim is not None:
        return operators.packet("stack").function(list(results))
    return parts.of_parts(op.name, list(results), like.layout)


def _by_segments(op: Operator, given: list[Any], like: Any, segments: str) -> Any:
    arguments = dict(zip(op.schema.names, given, strict=True))
    values = like.value if arguments.get("dtype") is None else like.value.to(arguments["dtype"])
    dim = like.ragged.dim
    lengths = runtime.tensor_of(like.ragged.length_array)
    reduce = operators.packet("segment_reduce").function
    result = reduce(values.movedim(dim, 0), segments, lengths=lengths)
    return result.unsqueeze(dim + 1) if arguments.get("keepdim") else result


def install() -> None:
    """Let decompositions make nested tensors, and functions take and return them."""
    runtime.nested = nested_of
    pytrees.register(
        NestedTensor, lambda t: ((t.value,), t.ragged), lambda ragged, c: nested_of(c[0], ragged)
    )

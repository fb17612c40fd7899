"""Components of nested tensors, by operators on their values.

A nested tensor has `value`, the packed values, and `ragged`, the places of its components in them
(structures/ragged.py). The values may belong to any transform.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.core.errors import ShapeError
from adjoint.core.layouts import Layout, strided
from adjoint.core.shapes import show
from adjoint.ops import runtime
from adjoint.structures.ragged import of_shapes

Tensor = Any
BATCH = "the components are dimension 0, and each has its own sizes; use unbind()"


def kept(self: Tensor, values: Tensor, dim: int | None = None) -> Tensor:
    """A nested tensor like `self` with other values; `dim` is their ragged dimension."""
    return runtime.nested(values, self.ragged if dim is None else self.ragged.along(dim))


def is_nested(value: Any) -> bool:
    """Whether a value is a nested tensor."""
    return isinstance(value, runtime.Tensor) and value.is_nested


# --- components -------------------------------------------------------------------------------


def components(self: Tensor) -> list[Tensor]:
    """The tensors that a nested tensor is made of."""
    ragged, values = self.ragged, self.value
    dim = 0 if ragged.dim is None else ragged.dim
    if ragged.is_packed:
        parts = list(values.split_with_sizes(ragged.lengths, dim)) if ragged.count else []
    else:
        places = zip(ragged.starts, ragged.lengths, strict=True)
        parts = [values.narrow(dim, start, length) for start, length in places]
    if ragged.dim is None:
        return [part.reshape(shape) for part, shape in zip(parts, ragged.shapes, strict=True)]
    return parts


def of_parts(what: str, parts: Sequence[Tensor], layout: Layout = strided) -> Tensor:
    """The nested tensor of these components."""
    ragged = of_shapes(what, layout, [tuple(part.shape) for part in parts])
    if not parts:
        return runtime.nested(ops.zeros((0,)), ragged)
    if ragged.dim is None:
        return runtime.nested(ops.cat([part.reshape((-1,)) for part in parts]), ragged)
    return runtime.nested(ops.cat(list(parts), ragged.dim), ragged)


def compact(self: Tensor) -> Tensor:
    """A nested tensor with the same components, without gaps in the values."""
    ragged = self.ragged
    if ragged.is_packed:
        return self
    places = runtime.tensor_of(ragged.place_array)
    return runtime.nested(self.value.index_select(ragged.dim or 0, places), ragged.packed())


def spread(self: Tensor, padding: Any, size: int | None = None) -> Tensor:
    """The components padded to one dense tensor: component, position, other dimensions."""
    ragged = self.ragged
    longest = max(ragged.lengths, default=0) if size is None else size
    rows = self.value.movedim(ragged.dim, 0)
    starts, lengths = map(runtime.tensor_of, (ragged.start_array, ragged.length_array))
    return ops._padded_rows(rows, starts, lengths, longest, padding)


def gathered(self: Tensor, rows: Tensor) -> Tensor:
    """The inverse of `spread`: a nested tensor like `self` from a padded dense one."""
    ragged = self.ragged
    starts, lengths = map(runtime.tensor_of, (ragged.start_array, ragged.length_array))
    packed = ops._packed_rows(rows, starts, lengths, ragged.extent)
    return kept(self, packed.movedim(0, ragged.dim))


# --- values that correspond element by element ------------------------------------------------


def aligned(what: str, values: Sequence[Any]) -> tuple[Tensor, list[Any]]:
    """The first nested tensor among the arguments, and all arguments in the form of its values."""
    nested = [v for v in values if is_nested(v)]
    like = nested[0]
    dense = any(isinstance(v, runtime.Tensor) and v.ndim and not v.is_nested for v in values)
    same = all(v.ragged.same_places(like.ragged) for v in nested)
    if not same or (dense and not like.ragged.is_packed):
        like = compact(like)
        values = [compact(v) if is_nested(v) else v for v in values]
    return like, [_operand_like(what, like, v) for v in values]


def _operand_like(what: str, like: Tensor, value: Any) -> Any:
    if not isinstance(value, runtime.Tensor):
        return value
    if not value.is_nested:
        return _dense_operand(what, like, value)
    if not value.ragged.same_places(like.ragged):
        raise ShapeError(
            f"{what}: the components of two nested tensors must have the same sizes, got "
            f"{sizes_of(like)} and {sizes_of(value)}"
        )
    return value.value


def sizes_of(self: Tensor) -> str:
    """The sizes of the first components, for messages."""
    shape, ragged = tuple(self.value.shape), self.ragged
    shown = [show(ragged.shape_of(shape, i)) for i in range(min(ragged.count, 4))]
    return ", ".join(shown) + (", …" if ragged.count > 4 else "")


def _dense_operand(what: str, like: Tensor, dense: Tensor) -> Tensor:
    """A dense tensor in the form of the values: it broadcasts, has one row for each component, or
    is padded to the longest component.
    """
    ragged = like.ragged
    if dense.ndim == 0:
        return dense
    if ragged.dim is None or dense.ndim > like.ndim:
        raise ShapeError(
            f"{what}: a tensor of shape {show(dense.shape)} does not go with a nested tensor of "
            f"components {sizes_of(like)}; use unbind() for each of them"
        )
    if dense.ndim < like.value.ndim - ragged.dim:
        return dense
    whole = dense.reshape((*(1,) * (like.ndim - dense.ndim), *dense.shape))
    count, length = whole.shape[0], whole.shape[ragged.dim + 1]
    longest = max(ragged.lengths, default=0)
    if count not in (1, ragged.count) or length not in (1, longest):
        raise ShapeError(
            f"{what}: a tensor of shape {show(dense.shape)} does not broadcast to a nested tensor "
            f"of {ragged.count} components {sizes_of(like)}"
        )
    if length == 1 and count == 1:
        return whole.squeeze(0)
    rows = whole.movedim(ragged.dim + 1, 1)
    if length == 1:
        owners = runtime.tensor_of(ragged.owner_array)
        return rows.squeeze(1).index_select(0, owners).movedim(0, ragged.dim)
    return gathered(like, rows.expand((ragged.count, *rows.shape[1:]))).value

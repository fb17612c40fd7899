"""Nested tensors by their values: making them, splitting them, computing with them.

A nested tensor has `value`, the packed values, and `ragged`, the places of its components in them
(structures/ragged.py). A row names in the column `nested:` the function that runs its operator on
nested tensors. All of them use operators on the values, which may belong to any transform.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import attention as geometry
from adjoint.checks import nested as checks
from adjoint.core import dtypes
from adjoint.core.errors import ArgumentError, DimensionError, ShapeError, ValueRangeError
from adjoint.core.layouts import jagged, strided
from adjoint.core.shapes import Shape, show, wrap_dim
from adjoint.decompositions.attention.scores import coins_of, new_seed
from adjoint.ops import runtime
from adjoint.ops.nested import (
    BATCH,
    compact,
    components,
    gathered,
    is_nested,
    kept,
    of_parts,
    sizes_of,
    spread,
)
from adjoint.structures.ragged import (
    Ragged,
    RaggedSize,
    bounds,
    flat,
    lined_up,
    of_shapes,
    strided_places,
    vector,
)

Tensor = Any


def _dim(what: str, self: Tensor, dim: int) -> int:
    """A dimension of a nested tensor, counted in its components."""
    found = wrap_dim(what, dim, self.ndim)
    if found == 0:
        raise DimensionError(f"{what}: dim={dim} of a nested tensor: {BATCH}")
    return found - 1


# --- rows between offsets ---------------------------------------------------------------------


def jagged_to_padded(
    values: Tensor, offsets: Sequence[Tensor], max_lengths: Sequence[int], padding_value: float
) -> Tensor:
    starts, lengths = _between("_jagged_to_padded_dense_forward", offsets)
    if len(max_lengths) != 1:
        raise ShapeError(
            f"_jagged_to_padded_dense_forward: one size for the rows, got {tuple(max_lengths)}"
        )
    return ops._padded_rows(values, starts, lengths, max_lengths[0], padding_value)


def padded_to_jagged(dense: Tensor, offsets: Sequence[Tensor], total_L: int | None) -> Tensor:
    starts, lengths = _between("_padded_dense_to_jagged_forward", offsets)
    total = int(offsets[0][-1].item()) if total_L is None else total_L
    return ops._packed_rows(dense, starts, lengths, total)


def _between(what: str, offsets: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    if len(offsets) != 1 or offsets[0].ndim != 1 or not offsets[0].shape[0]:
        raise ShapeError(f"{what}: needs one vector of offsets, got {len(offsets)} tensors")
    return offsets[0][:-1], offsets[0].diff()


# --- making nested tensors ----------------------------------------------------------------------


def from_tensor_list(list: Sequence[Tensor], dtype: Any, *_: Any) -> Tensor:
    """The strided nested tensor of the tensors in a list."""
    parts = [part if dtype is None else part.to(dtype) for part in list]
    return of_parts("_nested_tensor_from_tensor_list", parts)


def _of_rows(padded: Tensor, ragged: Ragged) -> Tensor:
    """The nested tensor with structure `ragged` from a padded tensor, along `ragged.dim` + 1."""
    rows = padded.movedim((ragged.dim or 0) + 1, 1)
    starts, lengths = map(runtime.tensor_of, (ragged.start_array, ragged.length_array))
    packed = ops._packed_rows(rows, starts, lengths, ragged.extent)
    return runtime.nested(packed.movedim(0, ragged.dim or 0), ragged)


def _check_mask(t: Tensor, mask: Tensor) -> None:
    if t.ndim != 3 or tuple(mask.shape) != tuple(t.shape[:2]) or mask.dtype.name != "bool":
        raise ShapeError(
            "_nested_tensor_from_mask: needs a batch of sequences of vectors and a bool mask of "
            f"its first two dimensions, got {show(t.shape)} and {mask.dtype.name} "
            f"{show(mask.shape)}"
        )


def from_mask(t: Tensor, mask: Tensor, mask_check: bool) -> Tensor:
    """The rows that a mask keeps, which must be the first ones of each sequence."""
    _check_mask(t, mask)
    if mask_check and bool((mask.to(dtypes.int8).diff(dim=1) > 0).any()):
        raise ValueRangeError(
            "_nested_tensor_from_mask: in each row of the mask all True must come first; sort the "
            "rows, or use mask_check=False to take as many of the first ones"
        )
    lengths = mask.sum((1,)).tolist()
    return _of_rows(t, lined_up(strided, lengths))


def from_padded(padded: Tensor, sizes: Tensor, fuse_transform_0213: bool) -> Tensor:
    """Components of given sizes, cut from the corner of each padded one."""
    what = "_nested_from_padded"
    if fuse_transform_0213:  # attention heads before places: components have them side by side
        if padded.ndim != 4:
            raise ShapeError(f"{what}: needs 4 dimensions, got {show(padded.shape)}")
        padded = padded.transpose(1, 2).flatten(2, 3)
    shapes = checks.table_of_sizes(what, sizes)
    _check_inside(what, padded, shapes)
    ragged = of_shapes(what, strided, shapes)
    if ragged.dim is not None and shapes[:1] and shapes[0][1:] == tuple(padded.shape[2:]):
        return _of_rows(padded, ragged)
    parts = [_corner(padded.select(0, i), shape) for i, shape in enumerate(shapes)]
    return of_parts(what, parts)


def _check_inside(what: str, padded: Tensor, shapes: Sequence[Shape]) -> None:
    if len(shapes) != padded.shape[0]:
        raise ShapeError(f"{what}: {len(shapes)} rows of sizes for {padded.shape[0]} components")
    for shape in shapes:
        if len(shape) != padded.ndim - 1 or any(
            a > b for a, b in zip(shape, padded.shape[1:], strict=True)
        ):
            raise ShapeError(
                f"{what}: a component of {show(shape)} does not lie inside the padded "
                f"{show(padded.shape[1:])}"
            )


def _corner(self: Tensor, shape: Shape) -> Tensor:
    for dim, size in enumerate(shape):
        self = self.narrow(dim, 0, size)
    return self


def like_example(padded: Tensor, nt_example: Tensor) -> Tensor:
    """As `from_padded`, with the sizes of a nested tensor."""
    _nested("_nested_from_padded_and_nested_example", nt_example)
    return from_padded(padded, tensor_sizes(nt_example), False)


def from_padded_tensor(
    padded: Tensor, offsets: Tensor, dummy: Tensor, ragged_idx: int, low: Any, high: Any, total: Any
) -> Tensor:
    """Jagged components, cut from the start of each padded one."""
    what = "_nested_from_padded_tensor"
    numbers = checks.numbers(what, "offsets", offsets)
    checks.check_offsets(what, numbers, numbers[-1] if numbers else 0)
    dim = _ragged_dim(what, ragged_idx, padded.ndim - 1)
    lengths = [b - a for a, b in itertools.pairwise(numbers)]
    if len(lengths) != padded.shape[0] or max(lengths, default=0) > padded.shape[dim + 1]:
        raise ShapeError(
            f"{what}: {len(lengths)} components of up to {max(lengths, default=0)} do not lie "
            f"inside a padded tensor of shape {show(padded.shape)}"
        )
    return _of_rows(padded, lined_up(jagged, lengths, dim))


def _ragged_dim(what: str, ragged_idx: int, ndim: int) -> int:
    if not 1 <= ragged_idx <= ndim:
        raise DimensionError(
            f"{what}: the ragged dimension must be 1 to {ndim}, got {ragged_idx}; 0 counts the "
            "components"
        )
    return ragged_idx - 1


def view_from_jagged(
    self: Tensor, offsets: Tensor, dummy: Tensor, lengths: Tensor | None, ragged_idx: int, *_: Any
) -> Tensor:
    """Jagged components in packed values, from one offset to the next or with lengths."""
    what = "nested_tensor_from_jagged"
    dim = _ragged_dim(what, ragged_idx, self.ndim)
    extent = self.shape[dim]
    numbers = checks.numbers(what, "offsets", offsets)
    checks.check_offsets(what, numbers, extent)
    sizes = [b - a for a, b in itertools.pairwise(numbers)]
    if lengths is not None:
        sizes = list(checks.numbers(what, "lengths", lengths))
    checks.check_lengths(what, numbers[:-1], sizes, extent)
    return runtime.nested(self, Ragged(jagged, dim, numbers[:-1], RaggedSize(tuple(sizes)), extent))


def view_from_buffer(self: Tensor, sizes: Tensor, strides: Tensor, offsets: Tensor) -> Tensor:
    """Strided components in a vector; components whose elements are not in order are copied."""
    what = "_nested_view_from_buffer"
    if self.ndim != 1:
        raise ShapeError(f"{what}: the buffer must be a vector, got {show(self.shape)}")
    shapes = checks.table_of_sizes(what, sizes)
    steps = checks.table_of_sizes(what, strides)
    starts = checks.numbers(what, "offsets", offsets)
    if not len(shapes) == len(steps) == len(starts):
        raise ShapeError(
            f"{what}: {len(shapes)} sizes, {len(steps)} strides and {len(starts)} offsets must be "
            "equally many"
        )
    checks.check_lengths(what, starts, list(map(_reach, shapes, steps)), self.shape[0])
    if all(map(_lies_in_order, shapes, steps)):
        return runtime.nested(self, flat(strided, shapes, starts, self.shape[0]))
    places = runtime.tensor_of(strided_places(shapes, steps, starts))
    return runtime.nested(self.index_select(0, places), flat(strided, shapes))


def _reach(shape: Shape, strides: Shape) -> int:
    """The distance in the buffer between the first and the last element of a component."""
    if len(shape) != len(strides):
        raise ShapeError(f"_nested_view_from_buffer: sizes {shape} and strides {strides}")
    return 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def _in_order(shape: Shape) -> Shape:
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def _lies_in_order(shape: Shape, strides: Shape) -> bool:
    wanted = zip(shape, strides, _in_order(shape), strict=True)
    return all(size <= 1 or stride == order for size, stride, order in wanted)


# --- what they are made of ----------------------------------------------------------------------


def _nested(what: str, self: Tensor) -> None:
    if not is_nested(self):
        raise ArgumentError(f"{what}: needs a nested tensor, got one of {show(self.shape)}")


def get_values(self: Tensor) -> Tensor:
    """The packed values; of a strided one, as a vector."""
    _nested("_nested_get_values", self)
    values = self.value
    return values.alias() if self.layout is jagged else values.reshape((-1,))


def get_offsets(self: Tensor) -> Tensor:
    """Where components begin among the values, and where the last one ends."""
    _nested("_nested_get_offsets", self)
    return runtime.tensor_of(self.ragged.offset_array)


def tensor_sizes(self: Tensor) -> Tensor:
    """The sizes of the components, one row for each."""
    _nested("_nested_tensor_size", self)
    shape, ragged = tuple(self.value.shape), self.ragged
    return _table([ragged.shape_of(shape, i) for i in range(ragged.count)])


def _vector(numbers: Sequence[int]) -> Tensor:
    return runtime.tensor_of(vector(numbers))


def _table(rows: Sequence[Shape]) -> Tensor:
    width = len(rows[0]) if rows else 0
    return _vector([n for row in rows for n in row]).reshape((len(rows), width))


def contiguous_strides_offsets(nested_size: Tensor) -> tuple[Tensor, Tensor]:
    """The strides and offsets of components of these sizes, one after another in a vector."""
    shapes = checks.table_of_sizes("_nested_compute_contiguous_strides_offsets", nested_size)
    return _table([_in_order(s) for s in shapes]), _vector(flat(strided, shapes).starts)


def to_padded(self: Tensor, padding: float, output_size: Sequence[int] | None) -> Tensor:
    """A dense tensor of the largest sizes, or larger ones, with padding around the components."""
    what = "to_padded_tensor"
    if not is_nested(self):
        raise ShapeError(f"{what}: needs a nested tensor, got a dense one of {show(self.shape)}")
    shape, ragged = tuple(self.value.shape), self.ragged
    shapes = [ragged.shape_of(shape, i) for i in range(ragged.count)]
    least = (ragged.count, *map(max, zip(*shapes, strict=True))) if shapes else (0, *shape)
    wanted = tuple(output_size) if output_size is not None else least
    cut = ragged.dim + 1 if ragged.layout is jagged and ragged.dim is not None else None
    if len(wanted) != len(least) or any(
        a < b and d != cut for d, (a, b) in enumerate(zip(wanted, least, strict=True))
    ):
        raise ShapeError(
            f"{what}: output_size {show(wanted)} does not hold a nested tensor of largest sizes "
            f"{show(least)}"
        )
    if ragged.dim is None:
        parts = [_padded_to(part, wanted[1:], padding) for part in components(self)]
        return ops.stack(parts) if parts else self.value.new_zeros(wanted)
    rows = spread(self, padding, wanted[ragged.dim + 1])
    return _padded_to(rows.movedim(1, ragged.dim + 1), wanted, padding)


def _padded_to(self: Tensor, shape: Shape, padding: float) -> Tensor:
    if tuple(self.shape) == tuple(shape):
        return self
    missing = [b - a for a, b in zip(self.shape, shape, strict=True)]
    return self.constant_pad_nd([n for m in reversed(missing) for n in (0, m)], padding)


# --- operators on nested tensors ------------------------------------------------------------------


def contiguous(self: Tensor, memory_format: Any) -> Tensor:
    """The tensor itself if its components fill the values in order, else a copy."""
    if self.is_contiguous():
        return self
    packed = compact(self)
    return kept(packed, packed.value.contiguous())


def unbind(self: Tensor, dim: int) -> list[Tensor]:
    if wrap_dim("unbind", dim, self.ndim):
        raise DimensionError(
            f"unbind: dim={dim} of a nested tensor; its components are dimension 0"
        )
    return components(self)


def select(self: Tensor, dim: int, index: int) -> Tensor:
    if wrap_dim("select", dim, self.ndim) == 0:
        ragged = self.ragged
        number = wrap_index("select", index, ragged.count)
        at = 0 if ragged.dim is None else ragged.dim
        part = self.value.narrow(at, ragged.starts[number], ragged.lengths[number])
        return part.reshape(ragged.shapes[number]) if ragged.dim is None else part
    inner, ragged = _dim("select", self, dim), self.ragged
    if ragged.dim in (None, inner):
        return each("select", self, lambda part: part.select(inner, index))
    return kept(self, self.value.select(inner, index), ragged.dim - (inner < ragged.dim))


def wrap_index(what: str, index: int, size: int) -> int:
    if not -size <= index < size:
        raise DimensionError(f"{what}: there are {size} components, and no number {index}")
    return index % size


def each(what: str, self: Tensor, function: Any) -> Tensor:
    """A function of every component; dense where the results have one shape, else nested."""
    parts = [function(part) for part in components(self)]
    if parts and len({tuple(part.shape) for part in parts}) == 1 and self.ragged.dim is not None:
        return ops.stack(parts)
    return of_parts(what, parts, self.layout)


def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    a, b = _dim("transpose", self, dim0), _dim("transpose", self, dim1)
    ragged = self.ragged
    if ragged.dim is None:
        return of_parts(
            "transpose", [part.transpose(a, b) for part in components(self)], self.layout
        )
    moved = {a: b, b: a}.get(ragged.dim, ragged.dim)
    return kept(self, self.value.transpose(a, b), moved)


def permute(self: Tensor, dims: Sequence[int]) -> Tensor:
    if not dims or wrap_dim("permute", dims[0], self.ndim):
        raise DimensionError(f"permute: dims={tuple(dims)} of a nested tensor: {BATCH}")
    order = [_dim("permute", self, d) for d in dims[1:]]
    ragged = self.ragged
    if ragged.dim is None:
        return of_parts("permute", [part.permute(order) for part in components(self)], self.layout)
    values = self.value.permute(order)
    return kept(self, values, order.index(ragged.dim))


def unsqueeze(self: Tensor, dim: int) -> Tensor:
    inner, ragged = wrap_dim("unsqueeze", dim, self.ndim + 1) - 1, self.ragged
    if inner < 0:
        raise DimensionError(f"unsqueeze: dim={dim} of a nested tensor: {BATCH}")
    if ragged.dim is None:
        return of_parts("unsqueeze", [part.unsqueeze(inner) for part in components(self)])
    return kept(self, self.value.unsqueeze(inner), ragged.dim + (inner <= ragged.dim))


def reshape(self: Tensor, size: Sequence[int]) -> Tensor:
    """Reshape the dimensions other than the ragged one, which is -1 in `size`."""
    return _reshaped("reshape", self, size, copies=True)


def view(self: Tensor, size: Sequence[int]) -> Tensor:
    """As `reshape`, without a copy."""
    return _reshaped("view", self, size, copies=False)


def _reshaped(what: str, self: Tensor, size: Sequence[int], *, copies: bool) -> Tensor:
    ragged, shape = self.ragged, tuple(self.value.shape)
    inner = tuple(size[1:])
    if ragged.dim is not None and inner.count(-1) == 1 and size[0] in (-1, ragged.count):
        place = inner.index(-1)
        fits = math.prod(inner[:place]) == math.prod(shape[: ragged.dim])
        if fits and math.prod(inner[place + 1 :]) == math.prod(shape[ragged.dim + 1 :]):
            wanted = (*inner[:place], ragged.extent, *inner[place + 1 :])
            values = self.value.reshape(wanted) if copies else self.value.view(wanted)
            return kept(self, values, place)
    raise ShapeError(
        f"{what}: a nested tensor of {ragged.count} components {sizes_of(self)} cannot have the "
        f"sizes {tuple(size)}: the first is the number of components, the ragged one is -1, and "
        "what is before and after it keeps its number of elements"
    )


def expand(self: Tensor, size: Sequence[int], implicit: bool) -> Tensor:
    """Repeat in dimensions of size 1; the ragged dimension is -1 in `size`."""
    ragged = self.ragged
    if ragged.dim is None or len(size) != self.ndim or size[ragged.dim + 1] != -1:
        raise ShapeError(
            f"expand: sizes {tuple(size)} for a nested tensor of components {sizes_of(self)}: one "
            "for each dimension, and -1 for the ragged one"
        )
    if size[0] not in (-1, ragged.count):
        raise ShapeError(f"expand: there are {ragged.count} components, not {size[0]}")
    return kept(self, self.value.expand(tuple(size[1:])))


def cat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    if not all(map(is_nested, tensors)):
        raise ShapeError("cat: all tensors must be nested, or none")
    first = tensors[0]
    if wrap_dim("cat", dim, first.ndim) == 0:
        return of_parts("cat", [part for t in tensors for part in components(t)], first.layout)
    inner, ragged = _dim("cat", first, dim), first.ragged
    same = all(t.ragged.same_places(ragged) for t in tensors)
    if ragged.dim not in (None, inner) and same:
        return kept(first, ops.cat([t.value for t in tensors], inner))
    if any(t.ragged.count != ragged.count for t in tensors):
        counts = ", ".join(str(t.ragged.count) for t in tensors)
        raise ShapeError(f"cat: nested tensors of {counts} components, which must be equally many")
    groups = zip(*map(components, tensors), strict=True)
    return of_parts("cat", [ops.cat(list(group), inner) for group in groups], first.layout)


def softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return _normalized("softmax", ops._softmax, self, dim, half_to_float)


def log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return _normalized("log_softmax", ops._log_softmax, self, dim, half_to_float)


def _normalized(what: str, function: Any, self: Tensor, dim: int, to_float: bool) -> Tensor:
    inner, ragged = _dim(what, self, dim), self.ragged
    if ragged.dim is None:
        parts = [function(part, inner, to_float) for part in components(self)]
        return of_parts(what, parts, self.layout)
    if inner != ragged.dim:
        return kept(self, function(self.value, inner, to_float))
    return gathered(self, function(spread(self, -math.inf), 1, to_float))


def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    _check_only("linear", input, weight, bias)
    if input.ragged.dim is None:
        parts = [ops.linear(part, weight, bias) for part in components(input)]
        return of_parts("linear", parts, input.layout)
    _check_last("linear", input, 1)
    return kept(input, ops.linear(input.value, weight, bias))


def _check_only(what: str, input: Tensor, *others: Any) -> None:
    """Raise unless the input is nested, and nothing else."""
    if not is_nested(input) or any(map(is_nested, others)):
        raise ShapeError(f"{what}: the input may be nested, and weight and bias must be dense")


def _check_last(what: str, self: Tensor, count: int) -> None:
    """Raise if the ragged dimension is among the last ones."""
    if self.ragged.dim >= self.value.ndim - count:
        raise ShapeError(
            f"{what}: the last {count} dimensions of a nested tensor must be those that its "
            f"components have in common, and dimension {self.ragged.dim + 1} is not; transpose "
            "it, or use unbind()"
        )


def native_layer_norm(
    input: Tensor, normalized_shape: Shape, weight: Any, bias: Any, eps: float
) -> tuple[Tensor, ...]:
    _check_only("layer_norm", input, weight, bias)
    if input.ragged.dim is not None:
        _check_last("layer_norm", input, len(normalized_shape))
        found = ops.native_layer_norm(input.value, normalized_shape, weight, bias, eps)
        return tuple(kept(input, values) for values in found)
    each_one = [
        ops.native_layer_norm(part, normalized_shape, weight, bias, eps)
        for part in components(input)
    ]
    return tuple(of_parts("layer_norm", parts) for parts in zip(*each_one, strict=True))


def fused_rms_norm(
    input: Tensor, normalized_shape: Shape, weight: Any, eps: float | None
) -> tuple[Tensor, ...]:
    _check_only("rms_norm", input, weight)
    if input.ragged.dim is None:
        each_one = [
            ops._fused_rms_norm(part, normalized_shape, weight, eps) for part in components(input)
        ]
        return tuple(of_parts("rms_norm", parts) for parts in zip(*each_one, strict=True))
    _check_last("rms_norm", input, len(normalized_shape))
    found = ops._fused_rms_norm(input.value, normalized_shape, weight, eps)
    return tuple(kept(input, values) for values in found)


def embedding(weight: Tensor, indices: Tensor, *rest: Any) -> Tensor:
    if is_nested(weight):
        raise ShapeError("embedding: the indices may be nested, and the weight must be dense")
    if indices.ragged.dim is None:
        parts = [ops.embedding(weight, part, *rest) for part in components(indices)]
        return of_parts("embedding", parts, indices.layout)
    return kept(indices, ops.embedding(weight, indices.value, *rest))


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    """Attention inside each component: a query has the keys of its own, and no padding is there."""
    what = "scaled_dot_product_attention"
    _check_sequences(what, query, key, value, attn_mask)
    geometry.check_dropout(what, dropout_p)
    query, key, value = (compact(x) for x in (query, key, value))
    q, k, v = query.value, key.value, value.value
    if enable_gqa and q.ndim == 3 and k.shape[0] != q.shape[0]:
        geometry.groups(what, q, k, v)
        k, v = (x.repeat_interleave(q.shape[0] // x.shape[0], 0) for x in (k, v))
    geometry.check(what, q, k, v)
    starts, ends = map(runtime.tensor_of, bounds(query.ragged, key.ragged, lower=is_causal))
    coins = coins_of(new_seed(dropout_p), q.shape[:-1], dropout_p) if dropout_p else None
    factor = geometry.scale_of(q, scale)
    return kept(query, ops._attention(q, k, v, None, starts, ends, coins, dropout_p, factor)[0])


def _check_sequences(what: str, query: Tensor, key: Tensor, value: Tensor, mask: Any) -> None:
    if mask is not None:
        raise ShapeError(f"{what}: nested tensors take no attn_mask; use is_causal, or unbind()")
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not is_nested(tensor) or tensor.ragged.dim != tensor.value.ndim - 2:
            raise ShapeError(
                f"{what}: {name} must be nested, with sequences of different lengths in the last "
                f"dimension but one, as (components, heads, sequence, features)"
            )
    if query.ragged.count != key.ragged.count or not key.ragged.same_components(value.ragged):
        raise ShapeError(
            f"{what}: query, key and value must have equally many components, and key and value "
            f"of the same sizes, got {sizes_of(query)}; {sizes_of(key)}; {sizes_of(value)}"
        )


def matmul(self: Tensor, other: Tensor) -> Tensor:
    """Products of matrices: component by component, or with dense ones for all or for each."""
    if is_nested(self) and is_nested(other):
        return _product(self, other)
    if is_nested(self):
        ragged = self.ragged
        if ragged.dim is not None and other.ndim <= 2:
            _check_last("matmul", self, 1)
            return kept(self, self.value.matmul(other))
        if ragged.dim == 0 and self.ndim == other.ndim == 3 and other.shape[0] == ragged.count:
            return gathered(self, spread(self, 0).matmul(other))
        return _with_dense(self, other, lambda a, b: a.matmul(b))
    ragged = other.ragged
    if self.ndim == 2 and ragged.dim is not None and ragged.dim == other.value.ndim - 1:
        return kept(other, self.matmul(other.value))
    return _with_dense(other, self, lambda a, b: b.matmul(a))


def _with_dense(nested: Tensor, dense: Tensor, product: Any) -> Tensor:
    ragged = nested.ragged
    if dense.ndim == nested.ndim and dense.shape[0] == ragged.count:
        parts = zip(components(nested), dense.unbind(0), strict=True)
        return of_parts("matmul", [product(a, b) for a, b in parts], nested.layout)
    if dense.ndim <= 2:
        return of_parts("matmul", [product(a, dense) for a in components(nested)], nested.layout)
    raise ShapeError(
        f"matmul: a dense tensor of shape {show(dense.shape)} beside a nested tensor of "
        f"{ragged.count} components {sizes_of(nested)}: it needs as many of them, or at most 2 "
        "dimensions"
    )


def _product(self: Tensor, other: Tensor) -> Tensor:
    a, b = self.ragged, other.ragged
    if a.count != b.count:
        raise ShapeError(f"matmul: {a.count} components times {b.count}")
    last = None not in (a.dim, b.dim) and a.dim == self.value.ndim - 1
    if last and b.dim == other.value.ndim - 2 and a.size == b.size and self.ndim == other.ndim == 3:
        dense = spread(self, 0).transpose(1, 2).matmul(spread(other, 0))
        return dense if self.layout is jagged else of_parts("matmul", list(dense.unbind(0)))
    parts = zip(components(self), components(other), strict=True)
    return of_parts("matmul", [x.matmul(y) for x, y in parts])


def bmm(self: Tensor, mat2: Tensor) -> Tensor:
    for tensor in (self, mat2):
        if tensor.ndim != 3:
            raise ShapeError(f"bmm: needs 3 dimensions, got {tensor.ndim}")
    return matmul(self, mat2)

"""`ad.nested`: tensors whose components have different sizes, as `torch.nested`.

The components are packed in one tensor of values, so pointwise operators and products with dense
matrices cost what they cost for that one tensor, and no padding is computed with. Both layouts of
PyTorch are there: `ad.strided`, whose components may differ in every dimension, and `ad.jagged`,
whose components differ in one, for instance sequences of different lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.calls.methods import as_tensor, device_of
from adjoint.core.dtypes import to_dtype
from adjoint.core.errors import ArgumentError, DimensionError, ShapeError
from adjoint.core.layouts import jagged, strided, to_layout
from adjoint.core.shapes import show
from adjoint.homes.levels import on_level
from adjoint.homes.nested import NestedTensor, nested_of
from adjoint.ops.nested import of_parts
from adjoint.structures.ragged import Ragged, RaggedSize
from adjoint.tensor.tensor import Tensor

__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged",
    "to_padded_tensor",
]  # fmt: skip


def _layout(what: str, layout: Any) -> Any:
    found = strided if layout is None else to_layout(what, layout)
    if found not in (strided, jagged):
        raise ArgumentError(f"{what}: layout must be ad.strided or ad.jagged, got {found!r}")
    return found


def _components(what: str, tensors: Any) -> list[Tensor]:
    if not isinstance(tensors, (list, tuple)):
        raise ArgumentError(
            f"{what}: needs a list of tensors, one for each component, got {type(tensors).__name__}"
        )
    parts = [as_tensor(t) for t in tensors]
    if any(part.is_nested for part in parts):
        raise ArgumentError(f"{what}: the components must be dense tensors")
    return parts


def nested_tensor(
    tensor_list: Sequence[Any],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> NestedTensor:
    """Return a nested tensor with copies of the components, without their history.

    `layout` is `ad.strided` unless given. Inside a transform, the components keep their
    derivatives, as `as_nested_tensor` does.

    >>> import adjoint as ad
    >>> ad.nested.nested_tensor([ad.tensor([1.0, 2.0]), ad.tensor([3.0])])
    nested_tensor([
      tensor([1., 2.]),
      tensor([3.])
    ])
    """
    device_of("nested_tensor", device)
    parts = [p if on_level(p) else p.detach() for p in _components("nested_tensor", tensor_list)]
    made = _joined("nested_tensor", parts, dtype, layout)
    return made.requires_grad_() if requires_grad else made  # type: ignore[return-value]


def as_nested_tensor(
    ts: Any, dtype: Any = None, device: Any = None, layout: Any = None
) -> NestedTensor:
    """Return a nested tensor of these components, with their history.

    A dense tensor is a batch of equal components, and a nested one stays as it is.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> ad.nested.as_nested_tensor([x, x[:1]], layout=ad.jagged).sum().backward()
    >>> x.grad
    tensor([2., 1.])
    """
    device_of("as_nested_tensor", device)
    if isinstance(ts, NestedTensor) and (layout is None or to_layout("", layout) is ts.layout):
        return ts if dtype is None else ts.to(dtype)  # type: ignore[return-value]
    if isinstance(ts, Tensor):
        ts = list(ts.unbind(0))
    return _joined("as_nested_tensor", _components("as_nested_tensor", ts), dtype, layout)


def _joined(what: str, parts: list[Tensor], dtype: Any, layout: Any) -> Any:
    if dtype is not None:
        parts = [part.to(to_dtype(dtype)) for part in parts]
    return of_parts(what, parts, _layout(what, layout))


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Any = None,
    lengths: Any = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """Return the jagged nested tensor whose components lie in `values`, from offset to offset.

    With `lengths` alone they follow one another; with both, there are gaps between them. The
    nested tensor shares the memory of `values`.

    >>> import adjoint as ad
    >>> x = ad.nested.nested_tensor_from_jagged(ad.arange(5.0), ad.tensor([0, 2, 5]))
    >>> [c.tolist() for c in x]
    [[0.0, 1.0], [2.0, 3.0, 4.0]]
    """
    if offsets is None:
        if lengths is None:
            raise ArgumentError("nested_tensor_from_jagged: needs offsets, lengths, or both")
        sizes = as_tensor(lengths)
        offsets, lengths = ops.cat([sizes.new_zeros((1,)), sizes.cumsum(0)]), None
    bounds = as_tensor(offsets)
    sizes = None if lengths is None else as_tensor(lengths)
    dummy = values.detach()
    return ops._nested_view_from_jagged(values, bounds, dummy, sizes, jagged_dim or 1)


def narrow(
    tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = strided
) -> NestedTensor:
    """Return a nested tensor of pieces of a dense one: component i is tensor[i, start : start +
    length], with a start and a length for all or for each. A jagged one shares the memory.

    >>> import adjoint as ad
    >>> x = ad.arange(6.0).reshape(2, 3)
    >>> [c.tolist() for c in ad.nested.narrow(x, 1, 0, ad.tensor([3, 1]), layout=ad.jagged)]
    [[0.0, 1.0, 2.0], [3.0]]
    """
    found = _layout("narrow", layout)
    if dim != 1 or tensor.ndim < 2:
        raise DimensionError(
            f"nested.narrow: dim must be 1 of a tensor of at least 2 dimensions, got dim={dim} of "
            f"{show(tensor.shape)}"
        )
    count, size = tensor.shape[:2]
    starts = _for_each("start", start, count)
    lengths = _for_each("length", length, count)
    for a, b in zip(starts, lengths, strict=True):
        if a < 0 or b < 0 or a + b > size:
            raise ShapeError(f"nested.narrow: start {a} and length {b} in a dimension of {size}")
    if found is jagged:
        begins = tuple(i * size + a for i, a in enumerate(starts))
        ragged = Ragged(jagged, 0, begins, RaggedSize(lengths), count * size)
        return nested_of(tensor.flatten(0, 1), ragged)
    rows = zip(tensor.unbind(0), starts, lengths, strict=True)
    return _joined("nested.narrow", [row.narrow(0, a, b) for row, a, b in rows], None, found)


def _for_each(name: str, value: Any, count: int) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,) * count
    numbers = tuple(as_tensor(value).tolist())
    if len(numbers) != count:
        raise ShapeError(f"nested.narrow: {len(numbers)} numbers for {name} of {count} components")
    return numbers


def to_padded_tensor(
    input: Tensor, padding: float, output_size: Any = None, out: Any = None
) -> Tensor:
    """Return a dense tensor of the largest sizes, or of larger ones, with padding beside them.

    >>> import adjoint as ad
    >>> x = ad.nested.nested_tensor([ad.tensor([1.0, 2.0]), ad.tensor([3.0])])
    >>> ad.nested.to_padded_tensor(x, -1.0)
    tensor([[ 1.,  2.],
            [ 3., -1.]])
    """
    result = ops.to_padded_tensor(input, padding, output_size)
    return result if out is None else out.copy_(result)


def masked_select(tensor: Tensor, mask: Tensor) -> NestedTensor:
    """Return a jagged nested tensor of what a mask selects in each row of a dense tensor.

    >>> import adjoint as ad
    >>> x, mask = ad.arange(4.0).reshape(2, 2), ad.tensor([[True, False], [True, True]])
    >>> [c.tolist() for c in ad.nested.masked_select(x, mask)]
    [[0.0], [2.0, 3.0]]
    """
    if mask.dtype.name != "bool" or tensor.ndim < 1:
        raise ArgumentError(
            f"nested.masked_select: the mask must be bool, got {mask.dtype.name}, and the tensor "
            f"must have dimensions, got {show(tensor.shape)}"
        )
    whole = mask.expand(tensor.shape)
    count = tensor.shape[0]
    lengths = whole.reshape((count, -1)).sum(1)
    return nested_tensor_from_jagged(tensor.masked_select(whole), lengths=lengths)


def __dir__() -> list[str]:
    return sorted(__all__)

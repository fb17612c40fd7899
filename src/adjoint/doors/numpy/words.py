"""Words of `names.txt`: functions of dimensions, shapes and elements that expressions call.

Everything here is made of operators, so that every transform goes through it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint import exchange as exchange
from adjoint.calls.methods import tensor
from adjoint.core.dtypes import OF, DType, bool_, complex128, float64, int64, uint64
from adjoint.core.errors import ArgumentError, DimensionError, ShapeError
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import Array, floating
from adjoint.tensor.tensor import Tensor


def made(array: Any, dtype: Any = None) -> Tensor:
    """A new tensor of NumPy's values, which may be written to."""
    return tensor(np.asarray(array, None if dtype is None else dtype.np))


def dims_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The dimensions that `axis` names, from 0; None names all."""
    if axis is None:
        return tuple(range(ndim))
    given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    dims = tuple([int(d) + ndim if d < 0 else int(d) for d in given])
    for d, g in zip(dims, given, strict=True):
        if not 0 <= d < ndim:
            raise DimensionError(f"axis {g} is out of bounds for an array of {ndim} dimensions")
    if len(set(dims)) != len(dims):
        raise ArgumentError(f"axis={axis} names a dimension twice")
    return dims


def joined(a: Tensor, axis: Any, keepdims: Any) -> tuple[Tensor, list[int]]:
    """The tensor with the dimensions of `axis` as its last one, and the shape of what is left."""
    dims = dims_of(axis, a.ndim)
    left = [d for d in range(a.ndim) if d not in dims]
    sizes = a.shape
    shape = [1 if d in dims else n for d, n in enumerate(sizes) if keepdims or d not in dims]
    if len(dims) == 1:
        return (a if dims[0] == a.ndim - 1 else a.movedim(dims[0], -1)), shape
    count = math.prod(sizes[d] for d in dims)
    ordered = a if not dims else a.permute([*left, *dims])
    return ordered.reshape([*(sizes[d] for d in left), count]), shape


# Operators that take one dimension at most; the others take any.
_SINGLE = frozenset(("prod", "argmax", "argmin"))


def reduced(name: str, a: Tensor, axis: Any = None, keepdims: Any = False, **more: Any) -> Tensor:
    """A reduction over the dimensions that `axis` names; over none, of each element alone."""
    function = getattr(ad, name)
    if type(axis) is int and a.ndim:  # the short way
        return function(a, axis, keepdim=bool(keepdims), **more)
    dims = dims_of(axis, a.ndim)
    if not dims:
        shape = a.shape
        found = function(a.unsqueeze(-1), -1 if name in _SINGLE else (-1,), **more)
        return found.reshape(shape)
    if name not in _SINGLE:
        return function(a, dims, keepdim=bool(keepdims), **more)
    if len(dims) == 1:
        return function(a, dims[0], keepdim=bool(keepdims), **more)
    line, shape = joined(a, axis, keepdims)
    return function(line, -1, **more).reshape(shape)


def lined(a: Tensor, axis: Any) -> tuple[Tensor, int]:
    """The tensor and a dimension of it; without an axis, its elements in a row."""
    return (a.reshape(-1), 0) if axis is None else (a, int(axis))


def kept(a: Tensor, where: Any, other: Any) -> Tensor:
    """The elements where a condition holds, and another number elsewhere."""
    return a if where is True else ad.where(Array(where).to(bool_), a, other)


def sum_dtype(a: Tensor, dtype: DType | None = None) -> DType | None:
    """The dtype in which NumPy adds up whole numbers, if no other is asked for; None of others."""
    if dtype is not None or a.dtype.is_differentiable:
        return dtype
    return uint64 if a.dtype.np.kind == "u" else int64


def started(operator: str, result: Tensor, initial: Any) -> Tensor:
    """A total, with an initial value if there is one."""
    if initial is None:
        return result
    return getattr(ad, operator)(result, Array(initial).to(result.dtype))


def with_integers(a: Tensor) -> Tensor:
    """The tensor in the dtype of its products with int64."""
    target = OF[np.promote_types(a.dtype.np, np.int64)]
    return a if a.dtype is target else a.to(target)


def doubles(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors in float64 or complex128."""
    return tuple([a.to(complex128 if a.dtype.is_complex else float64) for a in tensors])


def in_dtype_of(a: Tensor, result: Tensor) -> Tensor:
    """A result in the dtype of its operands; operators add up short integers in long ones."""
    return result if result.dtype is a.dtype else result.to(a.dtype)


def lowest(a: Tensor) -> Any:
    """The least number of a dtype, which no maximum notices."""
    return _limits(a.dtype)[0]


def highest(a: Tensor) -> Any:
    """The largest number of a dtype."""
    return _limits(a.dtype)[1]


def _limits(dtype: DType) -> tuple[Any, Any]:
    if dtype.is_differentiable:
        return -math.inf, math.inf
    if dtype is bool_:
        return False, True
    info = np.iinfo(dtype.np)
    return int(info.min), int(info.max)


def count_of(a: Tensor, where: Any, axis: Any, keepdims: Any) -> Any:
    """How many elements a mean is taken of."""
    if where is True:
        return math.prod(a.shape[d] for d in dims_of(axis, a.ndim))
    return reduced("sum", Array(where).to(int64).expand(a.shape), axis, keepdims)


def in_order(a: Tensor, order: str | None) -> Tensor:
    """The tensor, transposed for order "F": its rows then list the elements in Fortran's order."""
    if order not in (None, "C", "K", "A", "F"):
        raise ArgumentError(f"order={order!r} is one of 'C', 'F', 'A', 'K'")
    return a.permute(list(range(a.ndim))[::-1]) if order == "F" else a


def reshaped(a: Tensor, shape: Any, order: str | None = "C") -> Tensor:
    """The elements in another shape, taken and placed in C's or in Fortran's order."""
    sizes = [int(n) for n in shape] if isinstance(shape, (tuple, list)) else [int(shape)]
    if order != "F":
        return in_order(a, order).reshape(sizes)
    turned = in_order(a, "F").reshape(sizes[::-1])
    return turned.permute(list(range(len(sizes)))[::-1])


def places(shape: Sequence[int], indices: Any) -> Tensor:
    """The positions in the flattened tensor of the elements that an index selects."""
    return Array(np.arange(math.prod(shape)).reshape(tuple(shape)))[indices]


def so_many(a: Tensor, size: int, fill_value: Any) -> Tensor:
    """The positions of `size` elements that are not zero, one position in a row."""
    return ad.nonzero_static(a, size=size, fill_value=int(fill_value))


def places_of(a: Tensor, size: int | None, fill_value: Any) -> tuple[Tensor, ...]:
    """The positions of nonzero elements, a vector for each dimension: `size` of them, or all."""
    found = ad.nonzero_numpy(a) if size is None else so_many(a, size, fill_value).unbind(1)
    return tuple(found)


def bits_of(a: Tensor) -> Tensor:
    """How many bits of a whole number's size are 1."""
    size = ad.abs(a)
    bits = [ad.bitwise_and(ad.bitwise_right_shift(size, n), 1) for n in range(a.dtype.itemsize * 8)]
    return ad.sum(ad.stack(bits), 0)


def expanded(a: Tensor, axis: Any) -> Tensor:
    """The tensor with new dimensions of size 1 at these places of the result."""
    given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    for d in sorted(dims_of(given, a.ndim + len(given))):
        a = a.unsqueeze(d)
    return a


def at_least(ndim: int, arrays: tuple[Any, ...]) -> Any:
    """Arrays with at least one, two or three dimensions; NumPy adds them on both sides."""
    function = getattr(ad, f"atleast_{ndim}d")
    found = [function(Array(a)) for a in arrays]
    return found[0] if len(found) == 1 else tuple(found)


def pieces(a: Tensor, indices_or_sections: Any, axis: int, *, even: bool = False) -> list[Tensor]:
    """Parts of a tensor: so many, or between these indices."""
    parts, size = indices_or_sections, a.shape[axis]
    if np.ndim(parts):
        ends = [min(max(i + size if i < 0 else i, 0), size) for i in map(int, parts)]
        starts, ends = [0, *ends], [*ends, size]
    else:
        count = int(parts)
        if even and size % count:
            raise ShapeError(f"split: {size} elements do not divide into {parts} equal parts")
        ends = [size // count * (i + 1) + min(i + 1, size % count) for i in range(count)]
        starts = [0, *ends[:-1]]
    # one operator for each, since an array of NumPy's may be written to through its parts
    pairs = zip(starts, ends, strict=True)
    return [a.narrow(axis, start, max(end - start, 0)) for start, end in pairs]


def product(a: Tensor, b: Tensor) -> Tensor:
    """NumPy's dot: sums of products over the last dimension of a and the last but one of b."""
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    if b.ndim == 1 or (a.ndim <= 2 and b.ndim == 2):
        return ad.matmul(a, b)
    return ad.tensordot(a, b, [a.ndim - 1], [b.ndim - 2])


def contracted(a: Tensor, b: Tensor, axes: Any) -> Tensor:
    """Sums of products over pairs of dimensions: so many, or two lists."""
    if np.ndim(axes) == 0:
        count = int(axes)
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise ShapeError(f"tensordot: axes={count} is more than the operands' dimensions")
        left, right = range(a.ndim - count, a.ndim), range(count)
    else:
        left, right = (np.atleast_1d(np.asarray(side)).tolist() for side in axes)
    return ad.tensordot(a, b, list(left), list(right))


def spread(a: Tensor, shape: Any) -> Tensor:
    """The tensor with its elements repeated to a shape."""
    return a.expand([int(n) for n in ([shape] if np.ndim(shape) == 0 else shape)])


def truth(value: Tensor) -> bool:
    """A truth value as Python's."""
    return bool(value)


def as_floating(a: Tensor, dtype: Any) -> Tensor:
    """The tensor in the dtype that a mean is computed in."""
    return floating(a) if dtype is None else a.to(dtype)

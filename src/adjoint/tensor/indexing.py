"""Python's square brackets: `x[key]` and `x[key] = value`, with PyTorch's results.

A key is read from left to right. Numbers, slices, None and Ellipsis become views (select, slice,
unsqueeze); tensors, arrays and lists are collected, and one `index` or `index_put_` at the end does
them all. A slice with a negative step is a view of the same elements in ascending order, which is
flipped: a copy when it is read, and flipped back into the view when it is written to. Only
operators are used, so indexing works in every transform.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.checks.indexing import is_mask
from adjoint.core.dtypes import OF
from adjoint.core.errors import AdjointError, ArgumentError, DimensionError, DtypeError, GradError
from adjoint.core.promotion import can_cast
from adjoint.core.shapes import show
from adjoint.core.storage import is_duck_array
from adjoint.loops.gate import LARGE
from adjoint.ops import runtime
from adjoint.tensor.nodes import Leaf, before_write, count_write
from adjoint.tensor.tensor import Tensor, is_plain

_Found = list[tuple[int, Any]]  # dimension of the view, index tensor

_EVERYTHING = slice(None)
_SIMPLE = frozenset((int, slice, type(None), type(Ellipsis)))
_NUMBERS = (bool, int, float, complex)
_INDEX_DTYPES = frozenset((np.dtype(np.int64), np.dtype(np.bool_)))
_MOST_DIMENSIONS = 32  # a longer list of anything is an index, as in PyTorch


def getitem(tensor: Any, key: Any) -> Tensor:
    """Return `tensor[key]`."""
    kind = type(key)
    if kind is int:
        return tensor.select(0, key)
    if kind is slice:
        key = (key,)
    elif is_plain(key) and key.value.dtype in _INDEX_DTYPES and key.value.ndim:
        return ops.index.Tensor.function(tensor, [key])
    elif kind is not tuple:
        key = _as_tuple(key)
    view, indices, backwards = take_apart(tensor, key)
    if backwards:
        view = view.flip(backwards)
    if indices:
        return ops.index.Tensor.function(view, indices)
    return tensor.alias() if view is tensor else view


def setitem(tensor: Any, key: Any, value: Any) -> None:
    """Write `value` to `tensor[key]`."""
    if is_plain(tensor) and tensor.edge is None and _written(tensor, key, value):
        return
    if type(key) is not tuple:
        key = (key,) if type(key) in _SIMPLE else _as_tuple(key)
    view, indices, backwards = take_apart(tensor, key)
    if not backwards:
        _write(view, indices, value)
    else:
        flipped = view.flip(backwards)
        _write(flipped, indices, value)
        view.copy_(flipped.flip(backwards))


def _write(view: Any, indices: list[Any], value: Any) -> None:
    if indices:
        _put(view, indices, value)
    elif type(value) in _NUMBERS:
        view.fill_(value)
    else:
        view.copy_(_shortened(_as_value(view, value), view.ndim))


# ---- the short way ----------------------------------------------------------------------------


def _written(tensor: Tensor, key: Any, value: Any) -> bool:
    """Write straight to memory if nothing has a history; return whether that was done.

    Unusual and wrong keys are left to the operators, which raise the right errors.
    """
    before_write(tensor, "__setitem__")
    view = None if tensor.extra is None else tensor.extra.view
    if view is not None and (not is_plain(view.base) or view.base.edge is not None):
        return False
    array = tensor.value
    if is_plain(value):
        if value.edge is not None or value.value.dtype is not array.dtype:
            return False
        value = value.value
    elif not _fits(array.dtype, value):
        return False
    if is_plain(key) and key.value.dtype in _INDEX_DTYPES and key.value.ndim:
        key = key.value
        if key.ndim > 1 and key.dtype == np.int64:
            return False  # NumPy does not promise which of two writes to one place is last
    elif not (_is_simple(key) or (type(key) is tuple and all(map(_is_simple, key)))):
        return False
    if not array.flags.writeable or 0 in array.strides:
        return False
    try:
        if array.size >= LARGE and _is_long(array, key):
            return False  # operators use all cores for large arrays
        array[key] = value
    except (IndexError, TypeError, ValueError):
        return False
    count_write(tensor, "__setitem__")
    return True


def _is_long(array: Any, key: Any) -> bool:
    """Whether the write concerns a large array: by a mask, or to a large part."""
    if type(key) is np.ndarray:
        return key.dtype == np.bool_ and key.ndim == array.ndim
    return array[key].size >= LARGE


def _fits(dtype: np.dtype[Any], value: Any) -> bool:
    """Whether NumPy stores a number in an array of `dtype` without a warning or an error."""
    kind = type(value)
    if kind is float or kind is int:
        return dtype.kind in "fc" and dtype.itemsize > 2 and -3e38 < value < 3e38
    return kind is bool and dtype.kind == "b"


def _is_simple(entry: Any) -> bool:
    kind = type(entry)
    if kind is slice:
        return entry.step is None or (type(entry.step) is int and entry.step != 0)
    return kind is int or entry is None or entry is Ellipsis


def where(self: Any, condition: Any, other: Any) -> Tensor:
    """Return `self` where the condition holds and `other` elsewhere."""
    return ops.where(condition, self, other)


def as_strided(
    self: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Return a view of the memory behind `self` with this geometry, counted in elements.

    Through a view it may reach elements of the base that `self` does not have; taken from the base
    itself, neither their gradient nor their tangent is lost.

    >>> import adjoint as ad
    >>> ad.arange(5.0).as_strided((3, 2), (1, 2))
    tensor([[0., 2.],
            [1., 3.],
            [2., 4.]])
    """
    view = None if self.extra is None else self.extra.view
    has_history = self.edge is not None and type(self.edge) is not Leaf
    if (
        (has_history or self.home is not None)
        and view is not None
        and type(view.base) is type(self)
    ):
        if storage_offset is None:
            storage_offset = self.storage_offset()
        self = view.base
    return ops.as_strided(self, size, stride, storage_offset)


def nonzero(self: Any, *, as_tuple: bool = False, out: Any = None) -> Any:
    """Return the indices of the nonzero elements: a row each, or a tuple of a vector per dimension.

    >>> import adjoint as ad
    >>> ad.nonzero(ad.tensor([0.0, 2.0, 3.0]))
    tensor([[1],
            [2]])
    >>> ad.nonzero(ad.tensor([0.0, 2.0, 3.0]), as_tuple=True)
    (tensor([1, 2]),)
    """
    if as_tuple:
        return tuple(ops.nonzero_numpy(self))
    return ops.nonzero(self) if out is None else ops.nonzero(self, out=out)


def _put(view: Any, indices: list[Any], value: Any) -> None:
    if type(value) in _NUMBERS:
        mask = indices[0]
        if len(indices) == 1 and is_mask(mask) and mask.shape == view.shape:
            view.masked_fill_(mask != 0, value)
            return
        value = view.detach().new_full((), value)
    value = _as_value(view, value)
    if value.dtype is not view.dtype and can_cast(value.dtype, view.dtype):
        value = value.to(view.dtype)  # as `copy_` does where there is no index tensor
    view.index_put_(indices, _shortened(value, _result_ndim(view, indices)))


def _result_ndim(view: Any, indices: Sequence[Any]) -> int:
    """How many dimensions `view[indices]` has."""
    consumed = sum(i.ndim if is_mask(i) else 1 for i in indices if i is not None)
    common = max(1 if is_mask(i) else i.ndim for i in indices if i is not None)
    return int(view.ndim - consumed + common)


def _shortened(value: Any, ndim: int) -> Any:
    """Drop leading dimensions of size 1 beyond `ndim`: x[0] = ones(1, 3)."""
    shape = value.shape
    excess = len(shape) - ndim
    if excess > 0 and all(s == 1 for s in shape[:excess]):
        return value.reshape(shape[excess:])
    return value


def _as_value(tensor: Any, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value
    return runtime.tensor_of(np.asarray(value, dtype=tensor.dtype.np))


# ---- taking a key apart -----------------------------------------------------------------------


def take_apart(tensor: Any, key: tuple[Any, ...]) -> tuple[Any, list[Any], list[int]]:
    """Return a view of `tensor`, index tensors to apply to it, and the dimensions to flip before
    (slices with a negative step).
    """
    missing = None  # how many dimensions an Ellipsis stands for; counted when there is one
    dim = 0
    result = tensor
    found: _Found = []
    backwards: list[int] = []
    for entry in key:
        kind = type(entry)
        if kind is int:
            if dim >= result.ndim:
                _too_many(tensor, key)
            result = result.select(dim, entry)
        elif kind is slice:
            if dim >= result.ndim:
                _too_many(tensor, key)
            if entry != _EVERYTHING:
                step = 1 if entry.step is None else entry.step
                if isinstance(step, (int, np.integer)) and step < 0:
                    result = _ascending(result, dim, entry)
                    backwards.append(dim)
                else:
                    result = result.slice(dim, entry.start, entry.stop, step)
            dim += 1
        elif entry is None:
            result = result.unsqueeze(dim)
            dim += 1
        elif entry is Ellipsis:
            if missing is None:
                missing = tensor.ndim - sum(_width(e) for e in key)
                dim += max(missing, 0)  # a second Ellipsis stands for nothing
        else:
            result, dim = _advanced(tensor, key, result, dim, entry, found)
    return result, _listed(found) if found else [], backwards


def _ascending(tensor: Any, dim: int, entry: slice) -> Any:
    """The view of the elements of a slice with a negative step, in ascending order."""
    size = tensor.shape[dim]
    places = range(size)[entry][::-1]
    if len(places) == size:
        return tensor
    return (
        tensor.slice(dim, places.start, places.stop, places.step)
        if places
        else tensor.narrow(dim, 0, 0)
    )


def _advanced(
    tensor: Any, key: tuple[Any, ...], result: Any, dim: int, entry: Any, found: _Found
) -> tuple[Any, int]:
    """Apply an entry that is no plain number or slice; return the view and the next dimension."""
    entry = _as_index(entry)
    if isinstance(entry, bool):
        # A bool adds a dimension, of which everything or nothing is taken.
        found.append((dim, runtime.tensor_of(np.zeros(int(entry), np.int64))))
        return result.unsqueeze(dim), dim + 1
    if isinstance(entry, int):
        if dim >= result.ndim:
            _too_many(tensor, key)
        return result.select(dim, entry), dim
    if entry.ndim == 0 and is_mask(entry):  # a mask whose value is unknown
        found.append((dim, entry.reshape((1,))))
        return result.unsqueeze(dim), dim + 1
    width = entry.ndim if is_mask(entry) else 1
    if dim + width > result.ndim:
        _too_many(tensor, key)
    found.append((dim, entry))
    return result, dim + width


def _listed(found: _Found) -> list[Any]:
    """Return the indices as a list with None where a dimension has none."""
    result: list[Any] = []
    dim = 0
    for place, index in found:
        result.extend([None] * (place - dim))
        result.append(index)
        dim = place + (index.ndim if is_mask(index) else 1)
    return result


def _width(entry: Any) -> int:
    """How many dimensions of the tensor an entry of a key uses up."""
    if entry is None or entry is Ellipsis or isinstance(entry, (bool, np.bool_)):
        return 0
    if isinstance(entry, (int, slice, np.integer)):
        return 1
    if not isinstance(entry, (Tensor, np.ndarray)):
        entry = np.asarray(_numbers(entry))
    return int(entry.ndim) if is_mask(entry) else 1


def _as_tuple(key: Any) -> tuple[Any, ...]:
    """Return a key that is not a tuple as one.

    A list that holds more than numbers is a tuple in disguise, as PyTorch has it.
    """
    if isinstance(key, list) and len(key) < _MOST_DIMENSIONS and any(map(_is_structure, key)):
        return tuple(key)
    return (key,)


def _is_structure(entry: Any) -> bool:
    return (
        entry is None
        or entry is Ellipsis
        or isinstance(entry, (slice, Tensor, np.ndarray, list, tuple, range))
    )


def _as_index(entry: Any) -> Any:
    """Return an entry as a Python bool or int, or as a tensor of indices."""
    if isinstance(entry, (bool, np.bool_)):
        return bool(entry)
    if isinstance(entry, Tensor):
        return index_of(entry)
    if isinstance(entry, (list, tuple, range)):
        entry = _array_of(entry)
    elif is_duck_array(entry):
        entry = np.asarray(entry)
    elif not isinstance(entry, np.ndarray):
        try:
            return operator.index(entry)
        except TypeError:
            raise ArgumentError(
                "a tensor is indexed with integers, slices, None, Ellipsis, and tensors, arrays or "
                f"lists of integers or booleans, got {type(entry).__name__} {entry!r}"
            ) from None
    if entry.dtype.kind not in "iub":
        raise DtypeError(f"an index must have an integer or boolean dtype, got {entry.dtype}")
    if entry.ndim == 0:
        return entry.item()
    return runtime.tensor_of(entry if entry.dtype in OF else entry.astype(np.int64))


def index_of(index: Any) -> Any:
    """Return an index tensor; one without dimensions as its value, if that is known."""
    if index.dtype.is_differentiable:
        raise DtypeError(f"an index must have an integer or boolean dtype, got {index.dtype}")
    if index.ndim:
        return index
    try:
        value = index.item()
    except (AdjointError, TypeError, AttributeError) as error:
        if isinstance(error, GradError):
            raise
        return index  # inside a transform its value is not known
    return bool(value) if is_mask(index) else value


def _array_of(entry: Any) -> Any:
    if len(entry) == 0:
        return np.zeros(0, np.int64)
    array = np.asarray(_numbers(entry))
    if array.dtype.kind not in "iub":
        raise DtypeError(f"a list of indices must hold integers or booleans, got {entry!r}")
    return array


def _numbers(entry: Any) -> Any:
    """Return a nested list with the tensors in it as numbers."""
    if isinstance(entry, Tensor):
        return entry.tolist()
    return [_numbers(e) for e in entry] if isinstance(entry, (list, tuple)) else entry


def _too_many(tensor: Any, key: tuple[Any, ...]) -> None:
    if tensor.ndim == 0:
        raise DimensionError(
            "a tensor without dimensions cannot be indexed; x.item() gives its value as a number"
        )
    asked = sum(_width(e) for e in key)
    raise DimensionError(
        f"too many indices: {asked} for a tensor of {tensor.ndim} dimensions ({show(tensor.shape)})"
    )

"""The memory behind an array: what `as_strided` may reach, and the array's place in it.

A view keeps its base alive, and the base owns (or was given) one block of memory. That block,
counted in elements of the array, is the array's storage; the array itself is an offset, a shape
and strides in it, as in PyTorch. Arrays over foreign buffers have the buffer's window as storage.
Nothing here copies, and nothing reaches outside the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.core.errors import ArgumentError
from adjoint.core.shapes import row_major

Array = np.ndarray[Any, Any]


def storage_of(array: Array) -> tuple[Array, int]:
    """Return the whole memory behind `array`, flat and of its dtype, and where in it it starts.

    >>> base = np.arange(6.0).reshape(2, 3)
    >>> flat, offset = storage_of(base[1, 1:])
    >>> flat.size, offset, np.shares_memory(flat, base)
    (6, 4, True)
    """
    memory, place = _memory(array)
    itemsize = array.itemsize
    # A base of another dtype (the complex array behind `z.imag`) may start between two elements.
    shift = place % itemsize
    count = (memory.size - shift) // itemsize
    flat: Array = np.ndarray((count,), array.dtype, memory, shift)
    return flat, (place - shift) // itemsize


def strides_in_elements(array: Array) -> tuple[int, ...]:
    """Return the strides of `array` counted in elements, as `Tensor.stride()`.

    >>> strides_in_elements(np.zeros((2, 3)).T)
    (1, 3)
    """
    itemsize = array.itemsize
    return tuple([s // itemsize for s in array.strides])


def order_of(array: Array) -> Any:
    """Return the `order` argument with which NumPy keeps strides as PyTorch does.

    PyTorch ignores strides of 0; NumPy would take such a dimension for the innermost one.
    """
    return "C" if 0 in array.strides else "K"


def offset_in_elements(array: Array) -> int:
    """Return where in its storage `array` starts, as `Tensor.storage_offset()`."""
    if array.base is None:
        return 0  # it owns its memory and begins it
    place = address(array) - _start(_root(array))
    return place // array.itemsize


def strided_view(
    array: Array, size: tuple[int, ...], stride: tuple[int, ...], offset: int
) -> Array:
    """Return the view of the memory behind `array` with that geometry, counted in elements.

    The caller has checked that the view is inside (`checks.indexing.check_strided`); so does NumPy.
    """
    memory, place = _memory(array)
    itemsize = array.itemsize
    if 0 in size:  # nothing is reached, so any offset is allowed
        return np.ndarray(size, array.dtype, memory, 0, tuple([s * itemsize for s in stride]))
    start = place % itemsize + offset * itemsize
    return np.ndarray(size, array.dtype, memory, start, tuple([s * itemsize for s in stride]))


def is_expanded(array: Array) -> bool:
    """Whether several elements of `array` are one place in memory because of a stride of 0."""
    return bool(array.size) and any(
        s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True)
    )


def overlaps(array: Array) -> bool:
    """Whether elements of `array` share places in memory: windows, expanded dimensions.

    >>> overlaps(np.lib.stride_tricks.sliding_window_view(np.arange(5), 3)), overlaps(np.eye(3).T)
    (True, False)
    """
    reach = array.itemsize  # bytes that the inner dimensions occupy
    steps = zip(array.strides, array.shape, strict=True)
    for step, count in sorted((abs(s), n) for s, n in steps if n > 1):
        if step < reach:
            return bool(array.size)
        reach += step * (count - 1)
    return False


class _Imagined:
    """A block of bytes that does not exist: it has a size, and is never read."""

    def __init__(self, count: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": (count,),
            "typestr": "|u1",
            "data": (address(_CELL), True),
        }


_CELL = np.zeros(64, np.uint8)


def imagined(shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None) -> Array:
    """Return an array with these strides (row-major by default) and no memory, of which views can
    be taken. Reading its elements is an error that NumPy does not notice.

    >>> array = imagined((10**6, 10**6), np.float64)
    >>> array.T.strides, offset_in_elements(array[1:, 2:])
    ((8, 8000000), 1000002)
    """
    if strides is None:
        size = np.dtype(dtype).itemsize
        strides = [size * step for step in row_major(shape)]
    if 0 in shape:
        return np.ndarray(shape, dtype, b"", 0, strides)
    steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    before = -sum(s for s in steps if s < 0)
    count = before + sum(s for s in steps if s > 0) + np.dtype(dtype).itemsize
    return np.ndarray(shape, dtype, np.asarray(_Imagined(count)), before, strides)


def address(array: Array) -> int:
    """Return the address of the first element."""
    return int(array.__array_interface__["data"][0])


def _root(array: Array) -> Array:
    """Return the array at the end of the chain of bases, which spans the whole block."""
    root = array
    while True:
        base: Any = root.base
        if isinstance(base, memoryview):
            base = base.obj
        if not isinstance(base, np.ndarray):
            # `as_strided` and `broadcast_to` put a dummy object between a view and its base.
            base = getattr(base, "base", None)
        if not isinstance(base, np.ndarray) or not _covers(base, array):
            return root
        root = base


def _covers(base: Array, array: Array) -> bool:
    """Whether `base` is the memory that contains `array`, and not merely an owner of it."""
    start = address(array)
    low = _start(base)
    return low <= start <= low + _length(base)


def _start(root: Array) -> int:
    """Return the lowest address that `root` reaches."""
    start = address(root)
    if root.size and min(root.strides, default=0) < 0:
        start += sum(s * (n - 1) for s, n in zip(root.strides, root.shape, strict=True) if s < 0)
    return start


def _length(root: Array) -> int:
    """Return the number of bytes from the lowest to the highest that `root` reaches."""
    if root.size == 0:
        return 0
    reach = sum(abs(s) * (n - 1) for s, n in zip(root.strides, root.shape, strict=True))
    return int(reach + root.itemsize)


def _memory(array: Array) -> tuple[Array, int]:
    """Return the block behind `array` as bytes, and the place of its first element in it."""
    root = _root(array)
    low = _start(root)
    count = _length(root)
    if root.flags.c_contiguous:
        memory = root.reshape(-1).view(np.uint8)
    elif root.flags.f_contiguous:
        memory = root.T.reshape(-1).view(np.uint8)
    else:
        memory = _bytes_between(root, count)
    return memory, address(array) - low


def _bytes_between(root: Array, count: int) -> Array:
    """Return the `count` bytes from the lowest address of `root`, whatever its strides."""
    first = root[(*[-1 if s < 0 else 0 for s in root.strides], ...)]
    cell = first.reshape(1).view(np.uint8)
    return np.lib.stride_tricks.as_strided(
        cell, (count,), (1,), writeable=bool(root.flags.writeable)
    )


def fills_memory(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Whether elements fill their memory without gaps, in any order of dimensions.

    >>> fills_memory((2, 3), (4, 8), 4), fills_memory((2, 3), (4, 16), 4)
    (True, False)
    """
    reached = itemsize
    for size, stride in sorted(zip(shape, strides, strict=True), key=lambda pair: pair[1]):
        if size == 1:
            continue
        if stride != reached:
            return False
        reached *= size
    return True


def is_duck_array(value: Any) -> bool:
    """Whether a value is another library's array that NumPy accepts: a column of pandas."""
    kind = type(value)
    return (
        hasattr(kind, "__array_ufunc__")
        and hasattr(kind, "__array__")
        and not isinstance(value, (np.ndarray, np.generic))
    )


def without_subclass(array: Array) -> Array:
    """An array of a subclass, such as np.matrix, as a plain array on the same memory."""
    if isinstance(array, np.ma.MaskedArray):
        raise ArgumentError(
            "tensors have no masks, and this array is masked: pass array.filled(value), or "
            "array.data and the mask as two tensors"
        )
    return np.asarray(array)

"""Tensors as places in blocks of memory, which is how every format writes them.

Saving: `Blocks` collects the memory behind tensors, each block once, so that views which share
memory still share it when they are read. Loading: a `Memory` is one block of a file; `tensor` puts
a tensor on it, after checks that it lies inside. Nothing is copied per tensor, and what must be
copied is paid from a `Budget` that the size of the file sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.core.dtypes import DType, bool_, complex32, complex64, float16, float32
from adjoint.core.errors import FileError
from adjoint.core.records import record
from adjoint.core.remembering import cached_property
from adjoint.core.shapes import row_major, show
from adjoint.core.storage import address, storage_of, strides_in_elements
from adjoint.homes.complex32 import holding_rounded
from adjoint.nn.parameter import Parameter
from adjoint.serialization.refusals import brief, brief_shape
from adjoint.tensor.nodes import own_counter
from adjoint.tensor.tensor import Tensor, make

Array = np.ndarray[Any, Any]

_MOST_DIMS = 64  # of NumPy


@record
class Place:
    """Where a tensor lies."""

    block: int  # 0
    dtype: DType  # ad.float32
    offset: int  # in elements, as the strides: 3
    shape: tuple[int, ...]  # (2, 3)
    stride: tuple[int, ...]  # (3, 1)


# ---- saving -------------------------------------------------------------------------------------


class Blocks:
    """The memory behind the tensors of a file, each block once."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []  # flat, of the dtype of the first tensor on each
        self._numbers: dict[tuple[int, int], int] = {}
        self._kept: list[Array] = []

    def place(self, tensor: Tensor) -> Place:
        """Return where a plain tensor lies, and keep its memory."""
        array = tensor.array
        if any(s < 0 or s % array.itemsize for s in array.strides):
            array = np.array(array, order="C")
        flat, offset = storage_of(array)
        number = self._number(flat, half=tensor.dtype is complex32)
        # An array without elements has strides of 0 in NumPy, and ordinary ones in PyTorch.
        strides = strides_in_elements(array) if array.size else row_major(array.shape)
        return Place(number, tensor.dtype, offset, array.shape, strides)

    def _number(self, flat: Array, *, half: bool) -> int:
        key = (address(flat), flat.nbytes)
        if key not in self._numbers or not flat.nbytes:
            self._numbers[key] = len(self.arrays)
            self._kept.append(flat)  # so that no other array gets its address meanwhile
            # complex32 is written as PyTorch has it: pairs of float16
            self.arrays.append(flat.view(np.float32).astype(np.float16) if half else flat)
        return self._numbers[key]


# ---- loading ------------------------------------------------------------------------------------


class Budget:
    """How many bytes a reader may still copy: a multiple of what the file has."""

    def __init__(self, size: int) -> None:
        self.left = 16 * size + 1_000_000

    def spend(self, count: int) -> None:
        """Pay for a copy of `count` bytes, or refuse the file."""
        self.left -= count
        if self.left < 0:
            raise FileError(
                "the file asks for far more memory than it has bytes; it is damaged, or made to "
                "exhaust memory"
            )


class Memory:
    """One block of memory of a file, and the tensors that were put on it."""

    def __init__(self, data: Array) -> None:
        self.data = data  # bytes
        self.first: Tensor | None = None

    @cached_property
    def halves(self) -> Array:
        """The same bytes taken for pairs of float16, as complex64."""
        whole = self.data[: self.data.size // 4 * 4]
        return whole.view(float16.np).astype(float32.np).view(complex64.np)

    @cached_property
    def is_boolean(self) -> bool:
        """Whether all bytes are 0 or 1; NumPy trusts that of booleans without looking."""
        return int(self.data.max(initial=0)) <= 1

    def array(
        self, dtype: DType, offset: int, shape: Sequence[int], stride: Sequence[int]
    ) -> Array:
        """Return the array of that geometry, counted in elements, if it lies inside."""
        if dtype is bool_ and not self.is_boolean:
            raise FileError("a boolean tensor of the file has elements other than 0 and 1")
        numpy, data = (complex64.np, self.halves) if dtype is complex32 else (dtype.np, self.data)
        itemsize = numpy.itemsize
        check_geometry(offset, shape, stride)
        reach = sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
        inside = (offset + reach + 1) * itemsize <= data.nbytes
        empty = 0 in shape
        if not empty and not inside:
            raise FileError(
                f"a tensor of {show(tuple(shape))} and {dtype.name} does not lie inside its "
                f"storage of {self.data.size} bytes (strides {tuple(stride)}, offset {offset})"
            )
        steps = tuple(s * itemsize for s in stride)
        start = 0 if empty else offset * itemsize
        try:
            return np.ndarray(tuple(shape), numpy, data, start, None if empty else steps)
        except (ValueError, TypeError, OverflowError) as error:
            raise FileError(f"no tensor has the shape {tuple(shape)} ({error})") from error

    def tensor(
        self, dtype: DType, offset: int, shape: Sequence[int], stride: Sequence[int]
    ) -> Tensor:
        """Return the tensor of that geometry; all tensors of one block share its memory."""
        made = make(self.array(dtype, offset, shape, stride))
        if self.first is None:
            self.first = made
        else:
            made.counter = own_counter(self.first)
        return holding_rounded(made) if dtype is complex32 else made


def check_geometry(offset: Any, shape: Sequence[Any], stride: Sequence[Any]) -> None:
    """Raise unless these are whole numbers that can place a tensor."""
    numbers = (offset, *shape, *stride)
    if len(shape) != len(stride) or len(shape) > _MOST_DIMS:
        raise FileError(f"a tensor has {len(shape)} sizes and {len(stride)} strides")
    if not all(type(n) is int and 0 <= n < 2**62 for n in numbers):
        raise FileError(
            f"a tensor has the shape {brief_shape(shape)}, strides {brief_shape(stride)} and "
            f"offset {brief(offset)}"
        )


def finished(tensor: Any, *, requires_grad: bool, parameter: bool) -> Any:
    """The tensor as the leaf or the parameter that was saved."""
    if requires_grad and not tensor.dtype.is_differentiable:
        raise FileError(f"a tensor of {tensor.dtype.name} cannot require a gradient")
    if parameter:
        return Parameter(tensor, requires_grad)
    return tensor.requires_grad_() if requires_grad else tensor


def attributes_of(tensor: Tensor) -> dict[str, Any]:
    """Return what a user has put on a tensor."""
    return {name: value for name, value in vars(tensor).items() if not name.startswith("_")}


def with_attributes(tensor: Any, attributes: Any) -> Any:
    """Put the attributes of a file on a tensor; those that tensors have already are refused."""
    if type(attributes) is not dict:
        raise FileError(f"the attributes of a tensor are a {type(attributes).__name__}")
    for name, value in attributes.items():
        if type(name) is not str or not name.isidentifier() or hasattr(Tensor, name):
            raise FileError(f"a tensor of the file has the attribute {brief(name)}")
        setattr(tensor, name, value)
    return tensor

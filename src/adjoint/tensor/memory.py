"""A tensor's memory: looking at it (`storage`), and taking other memory (`set_`, `resize_`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.checks.shape import inverse, memory_order, own_format
from adjoint.core.errors import ArgumentError, GradError, InplaceError
from adjoint.core.layouts import CONTIGUOUS, ORDERS, PRESERVE, format_number
from adjoint.core.state import current
from adjoint.core.storage import storage_of, strided_view, strides_in_elements
from adjoint.tensor import views
from adjoint.tensor.construct import tensor_from_data
from adjoint.tensor.nodes import Leaf, before_write, count_write, own_counter
from adjoint.tensor.tensor import Tensor, alias, make


class Storage:
    """The whole memory behind a tensor, element by element."""

    __slots__ = ("flat", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor  # any tensor on this memory; its counter counts the writes to all
        self.flat = storage_of(tensor.array)[0]

    def __len__(self) -> int:
        return self.flat.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Storage):
            return NotImplemented
        return (self.data_ptr(), self.nbytes()) == (other.data_ptr(), other.nbytes())

    def __hash__(self) -> int:
        return hash((self.data_ptr(), self.nbytes()))

    def __getitem__(self, index: int) -> Any:
        return self.flat[index].item()

    def size(self) -> int:
        """Return the number of elements."""
        return self.flat.size

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self.flat.nbytes

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self.flat.ctypes.data

    def tolist(self) -> list[Any]:
        """Return the elements as Python numbers."""
        return self.flat.tolist()


def storage(self: Tensor) -> Storage:
    """Return the memory behind the tensor, which its views share."""
    return Storage(self)


def _check_free(what: str, tensor: Tensor) -> None:
    if tensor.home is not None and tensor.home is not type(tensor).subclass_home:
        raise GradError(f"{what}: a tensor inside {tensor.home.name} has no memory of its own")
    before_write(tensor, what)


def set_(
    self: Tensor,
    source: Tensor | Storage,
    storage_offset: int = 0,
    size: Any = None,
    stride: Any = None,
) -> Tensor:
    """Let this tensor use the memory of `source`, with its shape.

    `source` may be a storage: the tensor is then all of it, or the part given by offset, size and
    strides. A leaf becomes a new variable: graphs recorded before belong to the old one.
    """
    if isinstance(source, Storage):
        sizes = (len(source) - storage_offset,) if size is None else tuple(size)
        steps = strides_in_elements(np.empty(sizes, np.uint8)) if stride is None else tuple(stride)
        source = source.tensor.detach().as_strided(sizes, steps, storage_offset)
    elif size is not None or stride is not None or storage_offset:
        raise ArgumentError("set_: an offset, a size and strides belong to a storage")
    if not isinstance(source, Tensor) or source.dtype is not self.dtype:
        kind = source.dtype.name if isinstance(source, Tensor) else type(source).__name__
        raise ArgumentError(f"set_: needs a tensor of dtype {self.dtype.name}, got {kind}")
    _check_free("set_", self)
    views.check_recorded_write(self, "set_")
    hooks = self.edge.hooks if type(self.edge) is Leaf else None
    counter = own_counter(source)
    views.become_view(self, alias(self, self.edge), lambda _: make(source.value))
    self.counter = counter
    if type(self.edge) is Leaf:
        self.edge = Leaf(self)
        if hooks is not None:
            self.edge.take_hooks(hooks)
    count_write(self, "set_")
    return self


def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Change the shape to `sizes` in the same memory, which grows if it must.

    The elements are in row-major order, or in that of the memory format. New ones are not
    initialised.
    """
    given = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    shape = tuple(int(s) for s in given)
    if self.edge is not None and not current().inference:
        raise GradError("resize_: a tensor that requires a gradient cannot be resized")
    _check_free("resize_", self)
    number = CONTIGUOUS if memory_format is None else own_format("resize_", memory_format)
    order = memory_order("resize_", number, shape) or tuple(range(len(shape)))
    if shape == tuple(self.shape) and memory_format is None:
        return self
    flat, offset = storage_of(self.value)
    places = np.empty([shape[d] for d in order], self.value.dtype).transpose(inverse(order))
    strides = strides_in_elements(places)
    if offset + math.prod(shape) <= flat.size:
        resized = strided_view(self.value, shape, strides, offset)
    elif views.is_shared(self):
        raise InplaceError(
            "resize_: the tensor shares its memory with views, which cannot follow it into new "
            "memory; clone() it first"
        )
    else:
        resized, kept = places, flat[offset:]
        resized.transpose(order).reshape(-1)[: kept.size] = kept
    self.value = resized
    count_write(self, "resize_")
    return self


def resize_as_(self: Tensor, other: Tensor, *, memory_format: Any = None) -> Tensor:
    """Change the shape to that of `other`, with preserve_format its order too: see `resize_`."""
    number = None if memory_format is None else format_number("resize_as_", memory_format)
    if number == PRESERVE:
        orders = () if other.is_contiguous() else ORDERS
        number = next((n for n in orders if other.is_contiguous(n)), CONTIGUOUS)
    return resize_(self, tuple(other.shape), memory_format=number)


def new(self: Tensor, *args: Any) -> Tensor:
    """Return a tensor of this dtype: of given sizes, not initialised, or with the given data.

    A tuple is taken for sizes, as `x.shape` is one.
    """
    if len(args) == 1 and not isinstance(args[0], (int, tuple)):
        made = make(tensor_from_data(args[0], self.dtype))
    else:
        sizes = args[0] if args and isinstance(args[0], tuple) else args or (0,)
        made = make(np.empty(sizes, self.dtype.np))
    return made if self.home is None else self.home.of_class(self, made)


def install() -> None:
    """Put the methods on the tensor class."""
    for method in (storage, set_, resize_, resize_as_, new):
        setattr(Tensor, method.__name__, method)
    Tensor.untyped_storage = storage  # type: ignore[attr-defined]

"""Memory that processes share: `x.share_memory_()`.

The elements move to a block of Python's shared memory (`multiprocessing.heap`). A forked process
sees it; a tensor passed to a spawned process, or put into a queue, is pickled as a reference to its
block, so it is shared there, too.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from adjoint.core.dtypes import DType
from adjoint.core.lazy import Lazy
from adjoint.tensor.nodes import Leaf
from adjoint.tensor.tensor import Tensor, make

heap = Lazy("multiprocessing.heap")
reduction = Lazy("multiprocessing.reduction")

Array = np.ndarray[Any, Any]
_blocks: dict[int, Any] = {}  # blocks of shared memory, by the address of the array on them


def _on_block(block: Any, dtype: DType, shape: tuple[int, ...]) -> Array:
    """An array on a block, which lives as long as the array and its views."""
    whole = np.frombuffer(block.create_memoryview(), dtype.np, int(np.prod(shape)))
    _blocks[whole.ctypes.data] = block
    weakref.finalize(whole, _blocks.pop, whole.ctypes.data, None)
    return whole.reshape(shape)


def is_shared(self: Tensor) -> bool:
    """Whether the memory is shared with other processes."""
    return self.home is type(self).class_home and self.array.ctypes.data in _blocks


def share_memory_(self: Tensor) -> Tensor:
    """Move the elements to memory that is shared with processes started from this one.

    >>> import adjoint as ad
    >>> x = ad.ones(3).share_memory_()
    >>> x.is_shared(), x
    (True, tensor([1., 1., 1.]))
    """
    if not is_shared(self):
        array = self.array
        shared = _on_block(heap.BufferWrapper(max(array.nbytes, 1)), self.dtype, array.shape)
        shared[...] = array
        self.data = make(shared)
    reduction.ForkingPickler.register(type(self), _reduce)
    return self


def _reduce(tensor: Tensor) -> Any:
    """Pickle a tensor for another process: as a reference to its block, or by its elements."""
    block = _blocks.get(tensor.array.ctypes.data) if tensor.is_leaf and is_shared(tensor) else None
    if block is None:
        return tensor.__reduce__()
    kind, shape = type(tensor), tuple(tensor.shape)
    return _rebuild, (block, tensor.dtype, shape, kind, tensor.requires_grad, vars(tensor))


def _rebuild(
    block: Any,
    dtype: DType,
    shape: tuple[int, ...],
    kind: Any,
    requires_grad: bool,
    attributes: dict[str, Any],
) -> Tensor:
    plain = make(_on_block(block, dtype, shape))
    made: Any = plain if kind is Tensor else plain.as_subclass(kind)
    vars(made).update(attributes)
    made.edge = Leaf(made) if requires_grad else None
    return made


def install() -> None:
    """Put the methods on the tensor class."""
    Tensor.is_shared, Tensor.share_memory_ = is_shared, share_memory_  # type: ignore[attr-defined]

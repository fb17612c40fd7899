"""`allow_mutation_on_saved_tensors`: in-place writes to saved tensors that backward tolerates.

Each tensor that the tape saves in such a block is noted under the counter of its memory. Before a
write to that memory its saved tensors that are still alive are copied; backward uses the copies.
"""

from __future__ import annotations

import weakref
from typing import Any

from adjoint.core.errors import GradError, InplaceError, OutsideContext
from adjoint.core.state import State
from adjoint.tensor.modes import saved_tensors_hooks
from adjoint.tensor.nodes import Counter, own_counter, savers
from adjoint.tensor.tensor import Tensor, alias, make


class _CopyOnWrite:
    """A saved tensor: shares memory until somebody is about to write there, then holds a copy."""

    __slots__ = ("__weakref__", "context", "tensor", "version")

    def __init__(self, context: Any, tensor: Tensor) -> None:
        self.context = context
        self.tensor = alias(tensor)
        self.version = tensor.counter.count


class allow_mutation_on_saved_tensors(saved_tensors_hooks):  # noqa: N801 - PyTorch's name
    """A block in which saved tensors may be changed in place; backward must run in it, too.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> with ad.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     z = (y**2).sum()
    ...     y.sin_()
    ...     z.backward()
    tensor([0.8415, 0.9093], grad_fn=<SinBackward0>)
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(self) -> None:
        super().__init__(self._pack, self._unpack)
        self.is_open = False
        # PyTorch's names: copies by handle, and the handles of saved tensors
        self.cloned: weakref.WeakKeyDictionary[_CopyOnWrite, Tensor] = weakref.WeakKeyDictionary()
        self.tid_to_weakhandle: weakref.WeakValueDictionary[Any, _CopyOnWrite] = (
            weakref.WeakValueDictionary()
        )

    def changes(self, before: State) -> dict[str, Any]:
        if any(isinstance(s, allow_mutation_on_saved_tensors) for s in savers):
            raise GradError("allow_mutation_on_saved_tensors contexts cannot be nested")
        return super().changes(before)

    def __enter__(self) -> allow_mutation_on_saved_tensors:
        super().__enter__()
        self.is_open = True
        savers.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        savers.remove(self)
        self.is_open = False
        super().__exit__(*error)
        self.cloned.clear()
        self.tid_to_weakhandle.clear()

    def _clone(self) -> Any:
        return allow_mutation_on_saved_tensors()

    def _pack(self, tensor: Tensor) -> _CopyOnWrite:
        counter, array = own_counter(tensor), tensor.value
        place = array.__array_interface__["data"][0], array.shape, array.strides, array.dtype
        key = (id(counter), counter.count, place)
        handle = self.tid_to_weakhandle.get(key)
        if handle is None:
            handle = self.tid_to_weakhandle[key] = _CopyOnWrite(self, tensor)
        return handle

    def _unpack(self, handle: _CopyOnWrite) -> Tensor:
        if not self.is_open or handle.context is not self:
            raise OutsideContext(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in "
                "which the graph was made"
            )
        copy = self.cloned.get(handle)
        if copy is not None:
            return copy
        if handle.tensor.counter.count != handle.version:
            raise InplaceError("a saved tensor was written to behind the back of its context")
        return handle.tensor

    def before_write(self, counter: Counter) -> None:
        """Copy the tensors that were saved on the memory of a counter."""
        for handle in list(self.tid_to_weakhandle.values()):
            if handle.tensor.counter is counter and handle not in self.cloned:
                self.cloned[handle] = make(handle.tensor.value.copy())
                handle.tensor = self.cloned[handle]

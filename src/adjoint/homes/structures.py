"""Structures: tensors that hold an ordinary tensor of values, and numbers that place them.

Sparse and nested tensors are structures. The tape and the transforms know the values alone: history
and gradient of a structure are those of its values. The numbers are known in every transform, and
the home of a structure is above all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core.errors import AdjointError, GradError
from adjoint.core.importing import imported
from adjoint.ops import kinks
from adjoint.ops.directions import direction_of
from adjoint.tensor.home import Home
from adjoint.tensor.tensor import Tensor


class StructuredTensor(Tensor):
    """A tensor of values, with numbers that say where the values belong."""

    __slots__ = ()

    stored: Any  # the values: a plain tensor, or one of a transform

    def holding(self, values: Any) -> Any:
        """A tensor of the same structure with other values."""
        raise AssertionError(f"{type(self).__name__} defines holding")

    def gradient(self, values: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The gradient of this tensor, from that of its values."""
        return self.holding(values)

    def fitted(self, grad: Any) -> Any:
        """A gradient of this tensor as one of its values."""
        raise AssertionError(f"{type(self).__name__} defines fitted")

    @property
    def edge(self) -> Any:  # type: ignore[override]
        return self.stored.edge

    @edge.setter
    def edge(self, edge: Any) -> None:
        if edge is not None:
            raise GradError(f"the edge of a {type(self).__name__} is that of its values")
        self.stored = self.stored.detach()

    @property
    def requires_grad(self) -> bool:
        return self.stored.requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for a gradient of this leaf, or stop asking."""
        if requires_grad and not self.stored.requires_grad:
            self.stored = self.stored.detach()
        self.stored.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        return self.stored.is_leaf

    @property
    def grad_fn(self) -> Any:
        return self.stored.grad_fn

    @property
    def grad(self) -> Any:
        found = self.stored.grad
        return None if found is None else self.gradient(found)

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f".grad must be a tensor or None, got {type(value).__name__}")
        self.stored.grad = None if value is None else self.fitted(value)

    @grad.deleter
    def grad(self) -> None:
        self.stored.grad = None

    @property
    def retains_grad(self) -> bool:
        return self.stored.retains_grad

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf tensor in `.grad`."""
        self.stored.retain_grad()

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook(grad)`, of a gradient of this structure; a result replaces it."""

        def on_values(grad: Any) -> Any:
            found = hook(self.gradient(grad))
            return None if found is None else self.fitted(found)

        return self.stored.register_hook(on_values if callable(hook) else hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook(tensor)` after `.grad` of this leaf was accumulated."""
        return self.stored.register_post_accumulate_grad_hook(lambda _: hook(self))

    def __copy__(self) -> Tensor:
        return self.holding(self.stored)


class PackedTensor(StructuredTensor):
    """A structure whose slot `value` holds its values."""

    __slots__ = ()

    @property
    def stored(self) -> Any:  # type: ignore[override]
        return self.value

    @stored.setter
    def stored(self, values: Any) -> None:
        self.value = values

    @property
    def counter(self) -> Any:  # type: ignore[override]
        return self.value.counter


class PackedHome(Home):
    """The home of packed tensors: it answers with the shape, array, … of the values."""

    def shape(self, tensor: Any) -> tuple[int, ...]:
        return tensor.stored.shape

    def array(self, tensor: Any) -> Any:
        return tensor.stored.array

    def strides(self, tensor: Any) -> Any:
        return tensor.stored.stride()

    def storage_offset(self, tensor: Any) -> int:
        return tensor.stored.storage_offset()

    def is_contiguous(self, tensor: Any) -> bool:
        return tensor.stored.is_contiguous()

    def is_limit(self, tensor: Any) -> bool:
        return kinks.is_limit(tensor.stored)

    def meets_kink(self, tensor: Any) -> bool:
        return kinks.meets_kink(tensor.stored)

    def direction(self, tensor: Any) -> Any:
        return direction_of(tensor.stored)

    def data(self, tensor: Any) -> Any:
        return tensor.holding(tensor.stored.data)

    def detach(self, tensor: Any) -> Any:
        return tensor.holding(tensor.stored.detach())

    def check_leaves(self, tensor: Any, what: str) -> None:
        tensor.stored.check_leaves(what)

    def text(self, tensor: Any) -> str:
        return repr(tensor.stored)


class DressedTensor(PackedTensor):
    """A structure that holds one tensor and follows other rules: NumPy's, or those of numbers."""

    __slots__ = ()

    @property
    def array(self) -> Any:
        return self.value.array

    def item(self) -> Any:
        """Return the one element as a Python number."""
        return self.value.item()

    def tolist(self) -> Any:
        """Return the elements as nested Python lists."""
        return self.value.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """Return NumPy's array of the values, sharing memory."""
        return self.value.numpy(force=force)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        value = self.value
        if value.home is None or value.dtype.is_differentiable:
            return value.__array__(dtype, copy)
        array = value.array  # indices, say: values without derivatives may leave a transform
        return array.astype(dtype or array.dtype, copy=bool(copy))

    def _number(self, what: str) -> Any:
        return self.value._number(what)

    def __float__(self) -> float:
        try:
            return float(self.value)
        except AdjointError as error:  # NumPy asks for numbers when it writes to its own arrays
            buffered = imported("adjoint.doors.numpy.refusals").of_written()
            raise (GradError(buffered) if buffered else error) from None

    def fitted(self, grad: Any) -> Any:
        """A gradient of this tensor as one of its values."""
        return grad.value if isinstance(grad, DressedTensor) else grad


def undressed(value: Any) -> Any:
    """The tensor that a dressed one holds, for ordinary operators; other values unchanged."""
    return value.undressed() if isinstance(value, DressedTensor) else value


def inner(tensor: Any) -> Any:
    """The tensor that carries the derivative: of a structure, its values."""
    return tensor.stored if isinstance(tensor, StructuredTensor) else tensor


def outer(tensor: Any, grad: Any) -> Any:
    """The gradient of a tensor, from that of `inner(tensor)`."""
    structured = grad is not None and isinstance(tensor, StructuredTensor)
    return tensor.gradient(grad) if structured else grad

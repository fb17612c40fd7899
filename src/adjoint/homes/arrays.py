"""NumPy's arrays: tensors under NumPy's rules, which functions see in place of NumPy's own arrays.

An array holds a tensor, plain or of any transform, and its home is above all others: operators run
on the tensors, and their results become arrays again. doors/numpy/methods.py puts NumPy's methods
and operators on the class; this module defines what a write to an array does.

Note [Writes to arrays]. NumPy's programs write to arrays whenever they like: to arguments, to what
a derivative needs later, through one of several views. So arrays that share memory share a
`Memory`. Before a write its tensor is cloned if anyone else, such as the tape, may hold its values,
and each array becomes the same view of the clone that it was of the old tensor. Nobody notices: the
clone has the same history. An array that was never written to and has no views needs no `Memory`.

Note [Elements are numbers]. `x[0]`, a sum and what functions return for numbers is a `number`: an
array without dimensions that nothing can be written to. `s += 1` makes another number, and no later
write to the array that it was taken from reaches it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.homes.structures import DressedTensor, PackedHome, StructuredTensor
from adjoint.ops.operator import Operator, packet
from adjoint.tensor import views as paths
from adjoint.tensor.home import Height
from adjoint.tensor.modes import enable_grad
from adjoint.tensor.tensor import Tensor, make


class Memory:
    """The tensor behind arrays that share memory: Note [Writes to arrays]."""

    __slots__ = ("__weakref__", "fixed", "held", "members", "mirrors", "source", "tensor")

    def __init__(self, tensor: Any, *, held: bool = True, fixed: bool = False) -> None:
        self.tensor = tensor  # the whole; each member is a view of it by its path
        self.held = held  # whether anyone else may hold its values
        self.fixed = fixed  # whether it is the caller's, who must see writes
        self.members: list[weakref.ref[ndarray]] = []
        # a reversed array is a copy of another: the copies of this one, and the array it copies
        self.mirrors: list[weakref.ref[Memory]] = []
        self.source: tuple[ndarray, list[int]] | None = None  # (array, its reversed dimensions)

    def join(self, array: ndarray, path: tuple[paths.Step, ...]) -> None:
        """Add an array to the members."""
        array.memory, array.path = self, path
        members = self.members
        members.append(weakref.ref(array))
        if len(members) >= 16 and len(members) & (len(members) - 1) == 0:  # drop the dead
            members[:] = [m for m in members if m() is not None]

    def is_shared(self) -> bool:
        """Whether a write to one array must reach others."""
        living = [m for m in self.members if m() is not None]
        mirrored = any(m() is not None for m in self.mirrors)
        return self.fixed or len(living) > 1 or mirrored or self.source is not None

    def move(self) -> None:
        """Continue with a copy of the tensor, which nobody else holds. A write to a tensor near a
        kink reaches the value alone, so the copy is an ordinary tensor.
        """
        with enable_grad():
            self.become(packet("_ordinary")(self.tensor))
        self.held = False

    def become(self, tensor: Any) -> None:
        """Continue with another tensor of the same values."""
        self.tensor = tensor
        for member in [m() for m in self.members]:
            if member is not None:
                member.value = paths.replay(member.path, tensor)

    def changed(self, by: Memory | None = None) -> None:
        """Pass a write on to the reversed copies of this memory, and to the array it is a reversed
        copy of.

        `by` is the one from which the write came.
        """
        if self.source is not None and self.source[0].memory is not by:
            array, dims = self.source
            array.write(lambda target: target.copy_(self.tensor.flip(dims)), by=self)
        for mirror in [m() for m in self.mirrors]:
            if mirror is not None and mirror is not by and mirror.source is not None:
                array, dims = mirror.source
                mirror.become(array.value.flip(dims))
                mirror.held = True
                mirror.changed(self)


class ArrayHome(PackedHome):
    """Runs operators on the tensors that arrays hold."""

    height = Height.ARRAY
    name = "NumPy's arrays"
    sees_all = True

    def process(self, op: Operator, values: list[Any]) -> Any:
        operands = Operands()
        found = op.call(operands.tensors(values))
        return operands.arrays_of(found, views=op.schema.is_view)

    def process_inplace(
        self, op: Operator, functional: Callable[..., Any], values: list[Any], /
    ) -> Any:
        """Write to the tensor of an array."""
        target, rest = values[0], Operands().tensors(values[1:])
        if isinstance(target, ndarray):
            target.write(lambda tensor: op.call([tensor, *rest]))
        else:
            op.call([target, *rest])
        return target

    def detach(self, tensor: Any) -> Any:
        return like(tensor, tensor.undressed().detach())

    def data(self, tensor: Any) -> Any:
        return like(tensor, tensor.undressed().data)

    def text(self, tensor: Any) -> str:
        return text(tensor)


ARRAYS = ArrayHome()


class ndarray(DressedTensor):  # noqa: N801 - NumPy spells it so
    """An array of NumPy's kind that can be differentiated: what functions see of NumPy's arrays.

    Methods, defaults, comparisons, copies and dtypes are NumPy's. Elements are numbers: `s = x[0];
    s += 1` leaves the array alone. Parts such as `x[1:]` are views, as in NumPy. What NumPy has no
    name for is the tensor's: `x.detach()`, `x.backward()`. `ad.as_tensor(x)` is the tensor.

    >>> import adjoint as ad
    >>> import adjoint.numpy as np
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> x[0], x[1] = x[1], x[0]
    >>> x.std(), ad.as_tensor(x).std()
    (array(0.81649658), tensor(1., dtype=ad.float64))
    """

    # Most arrays have only their tensor: defaults on the class cost nothing.
    class_home = home = ARRAYS
    extra = None
    memory: Memory | None = None  # None: not shared, and never written to
    path: tuple[paths.Step, ...] = ()  # its path from the tensor of its memory

    def __new__(cls, *args: Any, **keywords: Any) -> Any:
        raise TypeError("arrays are made by adjoint.numpy.array, zeros, …, not by their class")

    def undressed(self) -> Any:
        """The tensor, for a caller that may keep it."""
        if self.memory is not None:
            self.memory.held = True
        return self.value

    def holding(self, values: Any) -> Any:
        """Other values as an array."""
        return like(self, values)

    def shared(self) -> Memory:
        """The memory of the array, made now if necessary, to be shared with other arrays."""
        if self.memory is None:
            Memory(self.value).join(self, ())
        assert self.memory is not None
        return self.memory

    def stored_as(self) -> Any:
        """A NumPy array with the strides that NumPy would give this one; its numbers mean nothing.
        None if this array has these strides itself.
        """
        memory = self.memory
        if memory is None or memory.source is None:
            return None
        array, dims = memory.source
        base = array.stored_as()
        base = np.empty(tuple(array.shape)) if base is None else base
        turned = base[tuple(slice(None, None, -1 if d in dims else 1) for d in range(base.ndim))]
        return paths.replay(self.path, make(turned)).value

    def write(self, change: Callable[[Any], Any], by: Memory | None = None) -> None:
        """Let a function write to the tensor: Note [Writes to arrays]."""
        memory = self.shared()
        if memory.held and not memory.fixed:
            memory.move()
        elif paths.is_one_of_several(self.value):
            self.value = paths.replay(self.path, memory.tensor)
        change(self.value)
        memory.changed(by)

    def replace(self, result: Any) -> None:
        """Replace all elements by a new tensor, to which nobody else will write."""
        memory = self.memory
        if memory is None:
            self.value = result
        elif not self.path and not memory.is_shared():
            self.value = memory.tensor = result
            memory.held = True
        else:
            self.write(lambda target: target.copy_(result))

    def viewed(self, tensor: Any, path: tuple[paths.Step, ...] | None = None) -> ndarray:
        """A view of the tensor as a view of the array."""
        memory = self.shared()
        if path is None:
            path = paths.path_of(tensor)[len(paths.path_of(self.value)) :]
        made = array_of(tensor)
        memory.join(made, (*self.path, *path))
        return made

    def mirrored(self, dims: list[int]) -> ndarray:
        """The array with some dimensions reversed: a copy that follows it, and that it follows."""
        made = array_of(self.value.flip(dims))
        memory = made.shared()
        memory.source = (self, dims)
        self.shared().mirrors.append(weakref.ref(memory))
        return made

    def __reduce__(self) -> Any:
        return (array_of if type(self) is ndarray else number_of), (self.undressed(),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = memo[id(self)] = like(self, self.value.__deepcopy__(memo))
        return made

    def __copy__(self) -> Any:
        return like(self, self.value.clone())


class number(ndarray):  # noqa: N801 - as ndarray
    """An element of an array, or a function's result without dimensions: it never changes."""


def array_of(tensor: Any) -> Any:
    """A tensor as an array, which may have no dimensions."""
    made = object.__new__(ndarray)
    made.value = tensor
    return made


def number_of(tensor: Any) -> Any:
    """A tensor without dimensions as a number."""
    made = object.__new__(number)
    made.value = tensor
    return made


def result_of(tensor: Any) -> Any:
    """The result of a function of arrays: an array, or a number if it has no dimensions."""
    made = object.__new__(ndarray if tensor.ndim else number)
    made.value = tensor
    return made


def like(array: Any, tensor: Any) -> Any:
    """A tensor as an array or a number, the same kind as `array`."""
    return number_of(tensor) if type(array) is number and not tensor.ndim else array_of(tensor)


def text(array: Any) -> str:
    """The text of an array; NumPy's text if the values are known."""
    tensor = array.value
    return repr(tensor.value) if tensor.home is None else repr(tensor)


class Operands:
    """The arrays among the arguments of a call; the operator runs on their tensors."""

    __slots__ = ("arrays",)

    def __init__(self) -> None:
        self.arrays: list[ndarray] = []

    def tensors(self, values: Any) -> list[Any]:
        """Arguments with tensors in place of arrays, in lists too."""
        found = []
        for value in values:
            if isinstance(value, ndarray):
                self.arrays.append(value)
                value = value.value
            elif type(value) is list:
                value = self.tensors(value)
            elif isinstance(value, DressedTensor):  # a number
                value = value.undressed()
            found.append(value)
        return found

    def arrays_of(
        self, found: Any, *, views: bool = False, dress: Callable[[Any], Any] = result_of
    ) -> Any:
        """Results as arrays, by `dress`; `views`: results that share memory do so in NumPy, too."""
        if isinstance(found, Tensor):
            return self._array(found, views, dress)
        if isinstance(found, (list, tuple)):
            parts = [self.arrays_of(f, views=views, dress=dress) for f in found]
            return found._make(parts) if hasattr(found, "_make") else type(found)(parts)  # type: ignore[attr-defined]
        return found

    def _array(self, found: Any, views: bool, dress: Callable[[Any], Any]) -> Any:
        if isinstance(found, StructuredTensor):
            return found
        for array in self.arrays:
            shares = _shares(found, array.value)
            if shares and views and _shares_in_numpy(found, array):
                return array.viewed(found)
            if array.memory is not None and (shares or may_be_kept(found)):
                array.memory.held = True
        return dress(found)


def _shares_in_numpy(found: Any, array: Any) -> bool:
    """Whether NumPy's result would share memory with an array that is a reversed copy here."""
    layout = array.stored_as()
    if layout is None or found is array.value:
        return True
    step = paths.path_of(found)[len(paths.path_of(array.value)) :]
    return bool(np.may_share_memory(paths.replay(step, make(layout)).value, layout))


def _shares(found: Any, tensor: Any) -> bool:
    """Whether a result is a view of an operand, or the operand itself."""
    return found is tensor or (
        found.extra is not None
        and found.extra.view is not None
        and found.extra.view.base is paths.base_of(tensor)
    )


def may_be_kept(tensor: Any) -> bool:
    """Whether a tape has recorded how a tensor was computed, and may hold its memory."""
    while isinstance(tensor, Tensor):
        if tensor.edge is not None:
            return True
        tangent = None if tensor.home is None else getattr(tensor, "companion", None)
        if isinstance(tangent, Tensor) and may_be_kept(tangent):
            return True
        tensor = tensor.value
    return False

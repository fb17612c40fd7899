"""Homes: objects that run the operators on tensors that are not plain.

A tensor's `home` runs the operators on it (`process`, `process_inplace`), and answers each question
whose answer depends on the kind of tensor: its shape, its numbers, its text. The methods written
here are right for homes whose tensors hold arrays, as plain ones do; tensors of transforms hold
tensors (`levels.py`).

Next to its value a home keeps one more thing in the tensor's slot `companion`: a tangent (forward
mode), the batch axis or None (`vmap`), the near tensors of a limit, a `Fan`, a sparse `Pattern`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from adjoint.core.devices import CPU, Device
from adjoint.core.layouts import Layout, strided
from adjoint.core.storage import storage_of, strides_in_elements
from adjoint.ops.operator import Operator
from adjoint.tensor.nodes import ZERO
from adjoint.tensor.tensor import Tensor, alias, data_of


class Height(IntEnum):
    """The order of homes: the highest one among the arguments of an operator runs it first."""

    SUBCLASS = 0  # a user's class sees the calls that nothing else sees
    META = 1
    DUAL = 2
    LIMIT = 3  # a tensor from a kink may have a tangent
    FAN = 4  # a matrix with a cluster may be at a kink, too
    TRANSFORM = 5  # transforms differentiate all of these; an inner one is higher than an outer one
    HALF = 1 << 29  # above all transforms: they see its numbers in complex64
    SPARSE = 1 << 30  # above all transforms: they see the values of a sparse tensor alone
    NESTED = 1 << 31  # above all transforms, like SPARSE
    NUMBER = 1 << 32  # above every other operand, which is combined with a number
    ARRAY = 1 << 33  # above everything: NumPy's rules decide, everything below sees tensors

    @classmethod
    def of_transform(cls, position: int) -> int:
        """The height of the transform at a position of the stack, 1 for the outermost.

        Each transform leaves room for one home above it: a trace has a home for tensors near kinks,
        which is lower than the transforms inside the trace.
        """
        return cls.TRANSFORM + 2 * position


class Home:
    """Base of levels (one for each open transform) and of interpreters (one in the process)."""

    name = "a transform"
    height: int  # of `Height`
    takes_out = True  # whether out= may be given; the result is then copied to it
    stays = False  # whether an unpickled tensor lives here, too
    sees_all = False  # whether decomposed operators come here whole, before their parts
    device: Device = CPU

    def process(self, op: Operator, values: list[Any]) -> Any:
        """Run an operator, some of whose arguments live here."""
        raise AssertionError(f"{type(self).__name__} defines process")

    def process_inplace(
        self, op: Operator, functional: Callable[..., Any], values: list[Any], /
    ) -> Any:
        """Run an operator that writes to its first argument; `functional` returns the result."""
        raise AssertionError(f"{type(self).__name__} defines process_inplace")

    # -- gradients that arrive ------------------------------------------------------------------

    sums_in_place = False  # whether a `.grad` that lives here is added to in place

    def plain_gradient(self, grad: Tensor) -> Tensor:
        """A gradient as an ordinary tensor, for nodes that take no others: sparse made dense."""
        return grad

    def shown(self, grad: Any) -> Any:
        """A gradient in the form that users see, after a pass that met a node of this home."""
        return grad

    # -- what its tensors say ------------------------------------------------------------------

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        return tensor.value.shape

    def array(self, tensor: Tensor) -> Any:
        return tensor.value

    def strides(self, tensor: Tensor) -> tuple[int, ...]:
        return strides_in_elements(tensor.value)

    def storage_offset(self, tensor: Tensor) -> int:
        return storage_of(tensor.value)[1]

    def is_contiguous(self, tensor: Tensor) -> bool:
        return bool(tensor.value.flags.c_contiguous)

    def layout(self, tensor: Tensor) -> Layout:
        return strided

    def requires_grad(self, tensor: Tensor) -> bool:
        """Whether a tensor without an edge requires a gradient; a tensor of a graph may."""
        return False

    def direction(self, tensor: Tensor) -> Any:
        """The tangent of a tensor, here or on a level below; None if it has none."""
        return None

    def rate(self, tensor: Tensor, direction: Any) -> Any:
        """The derivative of a tensor along a direction of the inputs; None if nobody knows it. See
        homes/rates.py.
        """
        return None

    def is_limit(self, tensor: Tensor) -> bool:
        """Whether a tensor came from a kink: Note [Kinks] in limits.py."""
        return False

    def is_fan(self, tensor: Tensor) -> bool:
        """Whether a tensor stands for a fan: homes/fans.py."""
        return False

    def is_in_graph(self, tensor: Tensor) -> bool:
        """Whether a tensor stands for a value of a graph."""
        return False

    def meets_kink(self, tensor: Tensor) -> bool:
        """Whether a tensor, which is differentiated, is 0 somewhere."""
        return not tensor.value.all()

    def text(self, tensor: Tensor) -> str:
        return tensor._text()

    def data(self, tensor: Tensor) -> Tensor:
        return data_of(tensor)

    def detach(self, tensor: Tensor) -> Tensor:
        return alias(tensor)

    def of_class(self, tensor: Tensor, made: Tensor) -> Tensor:
        """The new tensor `made`, turned into the class of `tensor` if that is a user's subclass."""
        return made

    def after_detach(self, tensor: Tensor) -> None:
        """Called by detach_() after it has taken the edge away."""

    def check_leaves(self, tensor: Tensor, what: str) -> None:
        tensor.check_leaves_tape(what)

    def check_numbers(self, what: str) -> None:
        """Raise if tensors of this home have no numbers, which `what` (item(), say) needs."""

    def check_numpy(self, what: str) -> None:
        """Raise if tensors of this home cannot become arrays, which `what` (numpy(), say) needs."""
        self.check_numbers(what)

    def check_backward(self) -> None:
        """Raise if tensors cannot be differentiated on the tape."""

    def has_leaves(self, tensor: Tensor, wanted: bool) -> bool:
        """Whether requires_grad_() makes a tensor a leaf of the tape; raise if it may not."""
        return True


def new_tensor(home: Home | None, value: Any, edge: Any = None, kind: type = Tensor) -> Any:
    """Make a tensor with this home."""
    tensor = object.__new__(kind)
    tensor.value = value
    tensor.edge = edge
    tensor.counter = ZERO
    tensor.extra = None
    tensor.home = home
    return tensor

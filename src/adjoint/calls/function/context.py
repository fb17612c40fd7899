"""What a function leaves behind: its context, the node on the tape, the saved tensors.

The context (`ctx`) and the node (`grad_fn`) share one dictionary of attributes, so that whatever
the user keeps on `ctx` can be seen on `grad_fn`. The node holds the context; the context refers to
its node weakly, so that a context does not keep the tape alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from adjoint.core.errors import GradError
from adjoint.core.source_lines import warn
from adjoint.core.state import current
from adjoint.homes import forward
from adjoint.tape.observe import Packed, raise_changed
from adjoint.tape.saved import SavedTensor
from adjoint.tensor.modes import no_grad
from adjoint.tensor.nodes import Node, Output, Rule, Watch, version
from adjoint.tensor.tensor import Tensor, alias, make


class FunctionContext:
    """The first argument of `forward`, `backward` and `jvp`: keep on it what they need."""

    def __init__(self) -> None:
        self.needs_input_grad: tuple[bool, ...] = ()
        self.materialize_grads = True
        self.to_save: tuple[Any, ...] = ()
        self.saved_for_forward: tuple[Any, ...] = ()
        self.dirty_tensors: tuple[Tensor, ...] = ()
        self.non_differentiable: tuple[Tensor, ...] = ()
        self._materialize_non_diff_grads = True
        self._node_reference: Any = None  # a weak reference to the node, once there is one
        self._with_history = True  # whether saved tensors are returned with their history
        self._in_jvp = False  # whether `jvp` is running

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save inputs or outputs for `backward`; changes in place are then noticed."""
        _check_tensors("save_for_backward", tensors, TypeError, none=True)
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save tensors for `jvp`."""
        _check_tensors("save_for_forward", tensors, TypeError, none=True)
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs `forward` changed in place; they must be returned."""
        _check_tensors("mark_dirty", tensors, GradError, none=False)
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        _check_tensors("mark_non_differentiable", tensors, GradError, none=False)
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether absent output gradients come as zeros (the default) or as None."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors of `save_for_backward`; inside `jvp`, those of `save_for_forward`."""
        if self._in_jvp:
            return self.saved_for_forward
        return self.to_save if self._node_reference is None else self._recorded().saved_tensors

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The old name of `saved_tensors`."""
        warn("saved_variables is deprecated; use saved_tensors", DeprecationWarning)
        return self.saved_tensors

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """Where `backward` sends its gradients."""
        return self._recorded().next_functions

    def name(self) -> str:
        """The name of the node: 'CubeBackward'."""
        return self._recorded().rule.name

    def _recorded(self) -> FunctionNode:
        node = None if self._node_reference is None else self._node_reference()
        if node is None:
            raise GradError("this context has no place on the tape, or its graph has been freed")
        return node

    def take_saved(self, function: Any) -> tuple[Any, ...]:
        """The tensors for a node to keep: those of `jvp` if backward is derived from it."""
        derived = function.reverse() is None
        kept, self.to_save = (self.saved_for_forward if derived else self.to_save), ()
        return kept

    @contextmanager
    def pulling(self, graph: bool) -> Generator[None]:
        """The block in which `backward` runs; `graph`: it is differentiated itself."""
        before, self._with_history = self._with_history, graph
        try:
            yield
        finally:
            self._with_history = before

    @contextmanager
    def pushing(self) -> Generator[None]:
        """The block in which `jvp` runs."""
        before, self._in_jvp = self._in_jvp, True
        try:
            yield
        finally:
            self._in_jvp = before


def _check_tensors(
    what: str, values: tuple[Any, ...], kind: type[Exception], *, none: bool
) -> None:
    for number, value in enumerate(values):
        if not isinstance(value, Tensor) and not (none and value is None):
            raise kind(
                f"{what} takes tensors{' or None' if none else ''}, argument {number} is "
                f"{type(value).__name__}; keep other things as attributes of ctx"
            )


class _OfTheContext:
    """An attribute that other nodes use themselves; on function nodes it belongs to the user."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, node: Any, owner: type) -> Any:
        try:
            return node.__dict__[self.name]
        except KeyError:
            raise AttributeError(f"{owner.__name__} has no {self.name!r}") from None

    def __set__(self, node: Any, value: Any) -> None:
        node.__dict__[self.name] = value


class FunctionNode(Node):
    """A call of a function on the tape; each `Function` class has a class of nodes of its own."""

    __slots__ = ("__dict__", "_are_tensors", "_context", "_inputs", "_zeros")

    function: Any = None  # the Function class
    shape: Any = _OfTheContext()
    dtype: Any = _OfTheContext()
    versions: Any = _OfTheContext()
    counters: Any = _OfTheContext()

    def __init__(
        self,
        rule: Rule,
        following: tuple[Any, ...],
        context: FunctionContext,
        are_tensors: list[bool],
    ) -> None:
        super().__init__(rule, following, (), None, None)
        self.__dict__ = context.__dict__
        context._node_reference = weakref.ref(self)
        self._context = context
        self._are_tensors = are_tensors  # of the arguments; tensors have an edge in `next`
        self._inputs: list[Any] = []  # kept if backward is derived from jvp
        self._zeros: list[Any] = []  # for each output: makes zeros for its gradient, or None

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors of `save_for_backward`."""
        return tuple(None if s.is_none else s.unpack(self) for s in self._raw_saved_tensors)

    @property
    def _raw_saved_tensors(self) -> tuple[KeptTensor, ...]:
        if self.saved is None:
            raise GradError(
                f"saved_tensors of {self.rule.name} are used after they have already been freed by "
                "a first backward; use retain_graph=True there"
            )
        return self.saved


class KeptTensor(SavedTensor):
    """A tensor saved for backward: an input itself, an output as its value."""

    __slots__ = ("hooked", "number", "packed", "tensor", "value", "watch")

    number: int | None  # which output it is
    tensor: Any  # an input, or a tensor made in forward; None for an output
    value: Any  # of an output
    packed: Any  # in place of both, if a hook packed the tensor
    hooked: bool
    watch: Watch

    @property
    def is_none(self) -> bool:
        """Whether it is the None that the user saved."""
        return self.tensor is None and self.value is None and self.packed is None

    def register_hooks(
        self, pack_hook: Callable[..., Any], unpack_hook: Callable[..., Any]
    ) -> None:
        """Pack the tensor now, and unpack it when backward needs it."""
        if not (callable(pack_hook) and callable(unpack_hook)):
            raise TypeError("register_hooks: incompatible function arguments, give two functions")
        if self.hooked:
            raise GradError("register_hooks: hooks of this saved tensor have already been set")
        if self.is_none:
            raise GradError("register_hooks: a hook on a saved None is forbidden")
        self._pack(pack_hook, unpack_hook)

    def _pack(self, pack_hook: Callable[..., Any], unpack_hook: Callable[..., Any]) -> None:
        if self.tensor is None:
            given = make(self.value)
            given.counter = self.watch.counters[0]
        else:
            given = self.tensor if self.tensor.edge is None else alias(self.tensor)
        before = version(given)
        with no_grad():
            packed = pack_hook(given)
        if version(given) != before:
            raise GradError("a pack hook changed the saved tensor in place; clone() it there")
        edge = None if self.tensor is None else self.tensor.edge
        self.packed, self.hooked = Packed(packed, unpack_hook, edge), True
        self.tensor = self.value = None

    def unpack(self, node: FunctionNode) -> Any:
        """The tensor, with its history if the context wants that."""
        tensor = self._value(node)
        if self.number is not None:
            return self._linked(node, tensor)
        # a linear pass records, but must not record the history of saved tensors
        linear = node.home is None and current().recording and not node._context._with_history
        if linear and tensor.edge is not None:
            return forward.dual(alias(tensor), forward.DUALS.tangent(tensor))
        return tensor

    def _value(self, node: FunctionNode) -> Tensor:
        if self.packed is not None:
            return self.packed.unpack()
        counter = self.watch.changed()
        if counter is not None:
            raise_changed(node, counter)
        if self.tensor is not None:
            return self.tensor
        made = make(self.value)
        made.counter = self.watch.counters[0]
        return made

    def _linked(self, node: FunctionNode, tensor: Tensor) -> Tensor:
        """Give an unpacked output its edge: the node that made it."""
        assert self.number is not None
        number = self.number
        tracked = node._context._with_history and tensor.is_differentiable_dtype()
        tensor.edge = Output(node, number) if tracked else None
        tangent = node.extra.tangents.get(number) if node.extra is not None else None
        return forward.dual(tensor, tangent)


def keep(tensor: Tensor | None, number: int | None) -> KeptTensor:
    """Save a tensor; `number`: which output of the function it is, None for other tensors."""
    saved = object.__new__(KeptTensor)
    saved.number, saved.packed, saved.hooked = number, None, False
    saved.tensor = saved.value = None
    if tensor is None:
        return saved
    saved.watch = Watch(tensor)
    if number is None:
        saved.tensor = tensor
    else:
        saved.value = tensor.value  # saving the output itself would make a cycle with its node
    hooks = current().saved_hooks
    if hooks and isinstance(tensor.value, np.ndarray):
        saved._pack(*hooks[-1])
    return saved

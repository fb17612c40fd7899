"""`ad.autograd.graph`: looking at the tape, and hooks on what it saves."""

from __future__ import annotations

import abc
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from adjoint.calls.function.context import FunctionContext
from adjoint.core.errors import GradError, ValueRangeError
from adjoint.core.state import changed, current
from adjoint.tape import backward_passes
from adjoint.tape.backward_passes import queue_callback
from adjoint.tape.edges import GradientEdge, get_gradient_edge
from adjoint.tape.mutation import allow_mutation_on_saved_tensors
from adjoint.tape.saved import SavedTensor
from adjoint.tensor import nodes
from adjoint.tensor.modes import node_creation_hook, saved_tensors_hooks
from adjoint.tensor.nodes import Handle, count_write, is_inference
from adjoint.tensor.tensor import Tensor, make

__all__ = [
    "AccumulateGrad",
    "GradientEdge",
    "Node",
    "SavedTensor",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "node_creation_hook",
    "queue_callback",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class Node(abc.ABC):  # noqa: B024 - asked with isinstance only
    """Everything that gradients pass: nodes of operators, and those that accumulate into leaves."""


AccumulateGrad = nodes.Leaf
Node.register(nodes.Node)
Node.register(AccumulateGrad)
Node.register(FunctionContext)  # `ctx`, which shares its attributes with the node


class save_on_cpu(saved_tensors_hooks):  # noqa: N801 - PyTorch's name
    """Save copies, so that writes in place do not disturb backward.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> with ad.autograd.graph.save_on_cpu():
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cpu") -> None:
        super().__init__(lambda t: np.array(t.array), make)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Say that memory was written to behind adjoint's back, so that backward notices.

    >>> import adjoint as ad
    >>> x = ad.ones(2)
    >>> ad.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for one in [tensor] if isinstance(tensor, Tensor) else tensor:
        if not is_inference(one):  # which counts nothing, and which nobody can have saved
            count_write(one, "increment_version")


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Generator[None]:
    """Refuse `saved_tensors_hooks` in a block, with this message.

    >>> import adjoint as ad
    >>> with ad.autograd.graph.disable_saved_tensors_hooks("not here"):
    ...     ad.ones(2, requires_grad=True).exp()
    tensor([2.7183, 2.7183], grad_fn=<ExpBackward0>)
    """
    if current().saved_hooks:
        raise GradError(error_message)
    with changed(hooks_refused=error_message):
        yield


class _Several:
    """Removes several hooks."""

    def __init__(self, handles: list[Handle]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Take the hooks away; doing it twice is harmless."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _Several:
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()


class _Gathering:
    """The gradients of several tensors in one backward pass, as they come in."""

    def __init__(self, run: Any, edges: list[Any]) -> None:
        self.grads: list[Any] = [None] * len(edges)
        self.missing = {i for i, e in enumerate(edges) if run.reaches(e)}
        self.called = False


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all"
) -> _Several:
    """Call `fn` once in each backward pass: when the gradients of all `tensors` are known.

    It gets the list of them, None for a tensor that the pass does not reach. With mode="any" it is
    called with the first gradient instead.

    >>> import adjoint as ad
    >>> x, y = ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True)
    >>> handle = ad.autograd.graph.register_multi_grad_hook((x, y), lambda grads: print(len(grads)))
    >>> (x * y).sum().backward()
    2
    """
    if mode not in ("all", "any"):
        raise ValueRangeError(
            f"register_multi_grad_hook: mode must be 'all' or 'any', got {mode!r}"
        )
    tensors = list(tensors)
    edges = [get_gradient_edge(t).edge for t in tensors]
    underway: weakref.WeakKeyDictionary[Any, _Gathering] = weakref.WeakKeyDictionary()

    def seen(number: int, grad: Tensor | None) -> None:
        run = backward_passes.innermost()
        gathered = underway.get(run)
        if gathered is None:
            gathered = underway[run] = _Gathering(run, edges)
            if mode == "all":  # a gradient on the way to one of them may turn out to be absent
                run.callbacks.append(lambda: finish(gathered))
        gathered.grads[number] = grad
        gathered.missing.discard(number)
        if mode == "all" and not gathered.missing:
            finish(gathered)
        elif mode == "any" and not gathered.called:
            gathered.called = True
            fn(grad)

    def finish(gathered: _Gathering) -> None:
        if not gathered.called:
            gathered.called = True
            fn(gathered.grads)

    def hook_of(number: int) -> Callable[[Tensor | None], None]:
        return lambda grad: seen(number, grad)

    return _Several([t.register_hook(hook_of(i)) for i, t in enumerate(tensors)])

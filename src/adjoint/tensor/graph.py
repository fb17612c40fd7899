"""`ad.autograd.graph`: looking at the tape, and hooks on what it saves."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from adjoint.core.errors import GradError
from adjoint.core.state import changed, current
from adjoint.tensor.modes import saved_tensors_hooks
from adjoint.tensor.tape import Handle, Node
from adjoint.tensor.tensor import Tensor, make

__all__ = [
    "Node",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class save_on_cpu(saved_tensors_hooks):  # noqa: N801 - PyTorch's name
    """Save copies, so that writes in place do not disturb backward."""

    def __init__(self, pin_memory: bool = False) -> None:
        super().__init__(lambda t: np.array(t.array), make)


def get_gradient_edge(tensor: Tensor) -> tuple[Any, int]:
    """Return the node that the gradient of `tensor` goes to, and the number of its output there."""
    return (tensor.grad_fn or tensor.edge, tensor.output_nr)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Generator[None]:
    """Refuse `saved_tensors_hooks` in a block, with this message."""
    if current().saved_hooks:
        raise GradError(error_message)
    with changed(hooks_refused=error_message):
        yield


class _Several:
    """Removes several hooks."""

    def __init__(self, handles: list[Handle]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all"
) -> _Several:
    """Call `fn` once the gradients of all `tensors` are known (mode 'all': with the list of them),
    or of the first.
    """
    if mode not in ("all", "any"):
        raise GradError(f"register_multi_grad_hook: mode must be 'all' or 'any', got {mode!r}")
    seen: list[Any] = [None] * len(tensors)

    def hook_of(number: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            first = all(s is None for s in seen)
            seen[number] = grad
            if mode == "any" and first:
                fn(grad)
            if all(s is not None for s in seen):
                grads = list(seen)
                seen[:] = [None] * len(seen)
                if mode == "all":
                    fn(grads)

        return hook

    return _Several([t.register_hook(hook_of(i)) for i, t in enumerate(tensors)])

"""Running the users' hooks of a node, and checking what they return.

The order at a node is: hooks of its output tensors, gradients that `retain_grad` keeps, hooks
before the node, the node, hooks after it. The value that a hook returns replaces the gradient and
must fit it; None keeps it. An output whose gradient is absent comes as None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.core.errors import DtypeError, GradError, ShapeError
from adjoint.core.shapes import show
from adjoint.core.state import current
from adjoint.tape.leaves import add_to_grad
from adjoint.tensor.nodes import Leaf, Node
from adjoint.tensor.tensor import Tensor, is_plain, make

ndarray = np.ndarray


def as_tensor(value: Any) -> Any:
    """Wrap an array as a tensor; tensors and None pass."""
    if type(value) is ndarray:
        return make(value)
    return make(np.asarray(value)) if isinstance(value, np.generic) else value


def lowered(value: Any, like: Any) -> Any:
    """The value that a hook returned, as an array if the replaced gradient `like` is one."""
    return value.value if type(like) is ndarray and is_plain(value) else value


def on_outputs(node: Node, grad: Any) -> Any:
    """Run the hooks of a node's output tensors, and keep the gradients of retain_grad()."""
    extra = node.extra
    if extra is None or not (extra.tensor_hooks or extra.captures):
        return grad
    several = node.outputs is not None
    grads = list(grad) if several else [grad]
    for number, hooks in extra.tensor_hooks.items():
        grads[number] = on_tensor(hooks, grads[number])
    for number, reference in extra.captures.items():
        tensor = reference()
        if tensor is not None and grads[number] is not None:
            add_to_grad(tensor, grads[number], create_graph=current().recording != 0)
    return grads if several else grads[0]


def on_tensor(hooks: dict[int, Callable[..., Any]], grad: Any) -> Any:
    """Run the hooks of one tensor on its gradient."""
    for hook in list(hooks.values()):
        changed = hook(as_tensor(grad))
        if changed is not None:
            grad = _checked(hook, changed, grad)
    return grad


def before(node: Node, grad: Any) -> Any:
    """Run the hooks before a node on the gradients of all its outputs."""
    extra = node.extra
    if extra is None or not extra.pre_hooks:
        return grad
    if node.outputs is None:
        return on_all(extra.pre_hooks, [grad])[0]
    return on_all(extra.pre_hooks, grad)


def on_all(hooks: dict[int, Callable[..., Any]], grads: list[Any]) -> list[Any]:
    """Run hooks that take and return a tuple of gradients."""
    for hook in list(hooks.values()):
        changed = hook(tuple(as_tensor(g) for g in grads))
        if changed is not None:
            grads = _all_checked(hook, changed, grads)
    return grads


def after(
    hooks: dict[int, Callable[..., Any]], sent: Sequence[Any], grad: Any, numbers: int = 0
) -> Sequence[Any]:
    """Run the hooks after a node on the gradients of its inputs and of its outputs.

    `numbers` counts the inputs that are Python numbers; they come last and have no gradient.
    """
    outputs = tuple(as_tensor(g) for g in (grad if type(grad) is list else [grad]))
    sent = (*sent, *(None,) * numbers)
    for hook in list(hooks.values()):
        changed = hook(tuple(as_tensor(g) for g in sent), outputs)
        if changed is not None:
            sent = _all_checked(hook, changed, sent)
    return sent[: len(sent) - numbers]


def on_accumulated(leaf: Leaf, tensor: Tensor) -> None:
    """Run the hooks of a leaf whose `.grad` has just been added to."""
    hooks = leaf.hooks
    assert hooks is not None
    for hook in list(hooks.accumulated.values()):
        if hook(tensor) is not None:
            raise GradError(
                f"a post-accumulate hook ({_name(hook)}) must return None: it changes the tensor "
                "or its .grad in place"
            )


def _name(hook: Any) -> str:
    return getattr(hook, "__name__", type(hook).__name__)


def _all_checked(hook: Any, changed: Any, grads: Sequence[Any]) -> list[Any]:
    if not isinstance(changed, tuple):
        raise TypeError(
            f"the hook {_name(hook)} of a node must return a tuple of gradients or None, got "
            f"{type(changed).__name__}"
        )
    if len(changed) != len(grads):
        raise GradError(
            f"the hook {_name(hook)} returned {len(changed)} gradients for {len(grads)}"
        )
    return [
        None if c is None else _checked(hook, c, g) for c, g in zip(changed, grads, strict=True)
    ]


def _checked(hook: Any, changed: Any, grad: Any) -> Any:
    """The gradient that a hook returned in place of `grad`; raise if it does not fit."""
    if not isinstance(changed, Tensor):
        raise TypeError(
            f"the gradient hook {_name(hook)} must return a tensor or None, got "
            f"{type(changed).__name__}"
        )
    if grad is None:
        raise GradError(
            f"the hook {_name(hook)} returned a gradient for an output that has none (None); "
            "return None"
        )
    known = as_tensor(grad)
    if changed.shape != known.shape:
        raise ShapeError(
            f"the gradient hook {_name(hook)} changed the shape from {show(known.shape)} to "
            f"{show(changed.shape)}"
        )
    if changed.dtype is not known.dtype:
        raise DtypeError(
            f"the gradient hook {_name(hook)} changed the dtype from {known.dtype.name} to "
            f"{changed.dtype.name}"
        )
    return lowered(changed, grad)

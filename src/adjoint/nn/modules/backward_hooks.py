"""Hooks that see gradients: full ones, around a whole module, and PyTorch's old ones.

Full hooks run in the backward of two functions that return what they get, one around the arguments
of a module and one around its results: on the tape and in every transform. Old hooks are hooks of
the last operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adjoint.calls.function import Function
from adjoint.core.errors import HookError
from adjoint.core.source_lines import warn
from adjoint.tensor.tensor import Tensor, recording

if TYPE_CHECKING:
    from adjoint.nn.modules.module import Module

Hook = Callable[..., Any]


def old_backward_hooks(module: Any, hooks: list[Hook], args: Any, result: Any) -> None:
    """Register hooks of the old kind on the last operator of a module."""
    first = result
    while not isinstance(first, Tensor):
        if isinstance(first, dict):
            first = next(v for v in first.values() if isinstance(v, Tensor))
        else:
            first = first[0]
    if first.grad_fn is None:
        return
    for hook in hooks:
        first.grad_fn.register_hook(
            lambda inputs, outputs, hook=hook: hook(module, inputs, outputs)
        )
    if not _one_operator(first.grad_fn, args, result):
        warn(
            "a hook of register_backward_hook sees the last operator of the first output alone, "
            f"which is not all of {type(module).__name__}; use register_full_backward_hook",
            FutureWarning,
        )


def _one_operator(node: Any, args: Any, result: Any) -> bool:
    """Whether a node leads from all tensors of the arguments to all of the result."""
    inputs = args if isinstance(args, tuple) else (args,)
    outputs = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(value, Tensor) for value in (*inputs, *outputs)):
        return False
    before = {input.edge for input in inputs if input.edge is not None}
    return {output.grad_fn for output in outputs} == {node} and set(node.next) - {None} == before


class Watch:
    """Runs the hooks for gradients of one call."""

    def __init__(self, module: Module, before: list[Hook], full: list[Hook]) -> None:
        self.module = module
        self.hooks_before = before
        self.hooks = full
        self.grad_outputs: tuple[Any, ...] | None = None  # of the pass that is under way
        self.sees_inputs = False  # whether an argument has a gradient
        self.count = 0  # of all positional arguments

    def around_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, such that their gradients are seen."""
        self.count = len(args)
        passed = _passed(_Inputs, self, args)
        if passed is None:
            return args
        self.sees_inputs = True
        return passed

    def around_outputs(self, result: Any) -> Any:
        """The result, such that its gradients are seen."""
        if not isinstance(result, (Tensor, tuple)):
            warn(
                "backward hooks are not called: the output of a module with such hooks should be a "
                f"Tensor or a tuple of Tensors, got {type(result).__name__}"
            )
            return result
        several = isinstance(result, tuple)
        passed = _passed(_Outputs, self, result if several else (result,))
        if passed is None:
            return result
        if not several:
            return passed[0]
        return type(result)(*passed) if hasattr(result, "_fields") else type(result)(passed)

    def on_outputs(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run the hooks before a module; all of them if no gradient goes further."""
        for hook in self.hooks_before:
            grads = _changed(hook(self.module, grads), grads, "grad_output")
        self.grad_outputs = grads
        if not self.sees_inputs:
            self.without_inputs()
        return grads

    def without_inputs(self) -> None:
        if self.hooks:
            warn(
                "a full backward hook is called with the gradients of outputs alone: no input of "
                f"{type(self.module).__name__} requires a gradient"
            )
        nothing = (None,) * self.count
        for hook in self.hooks:
            changed = hook(self.module, nothing, self.grad_outputs)
            if changed is not None and any(g is not None for g in changed):
                raise HookError(
                    "a backward hook of a module whose inputs need no gradient must return None"
                )
        self.grad_outputs = None

    def on_inputs(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run the hooks after a module, unless gradients came past its outputs."""
        if self.grad_outputs is None:
            return grads
        for hook in self.hooks:
            grads = _changed(hook(self.module, grads, self.grad_outputs), grads, "grad_input")
        self.grad_outputs = None
        return grads


def _changed(changed: Any, grads: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    """What a hook returned in place of gradients, if it fits."""
    if changed is None:
        return grads
    changed = changed if isinstance(changed, tuple) else (changed,)
    if len(changed) != len(grads):
        raise HookError(
            f"a backward hook returned {len(changed)} gradients for a {what} of {len(grads)}"
        )
    return changed


def _passed(kind: Any, watch: Watch, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Values whose tensors went through a function; None where no tensor has a gradient."""
    places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
    tensors = [values[i] for i in places]
    if not recording() or not any(t.requires_grad for t in tensors):
        return None
    passed = kind.apply(watch, places, len(values), *tensors)
    found = list(values)
    for place, tensor in zip(places, passed, strict=True):
        found[place] = tensor
    return tuple(found)


class _Seen(Function):
    """Returns its tensors; the gradients go through a method of the watch."""

    generate_vmap_rule = True

    @staticmethod
    def forward(watch: Watch, places: list[int], count: int, *tensors: Any) -> Any:
        return tensors

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.watch, ctx.places, ctx.count, *tensors = inputs
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return tuple(None if t is None else t.view_as(t) for t in tangents[3:])

    @staticmethod
    def seen(method: Callable[..., Any], ctx: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Gradients of tensors, as a hook wants them: None for what is no tensor."""
        spread: list[Any] = [None] * ctx.count
        for place, grad in zip(ctx.places, grads, strict=True):
            spread[place] = grad
        changed = method(tuple(spread))
        return None, None, None, *(changed[place] for place in ctx.places)


class _Inputs(_Seen):
    """Around the arguments of a module."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return _Seen.seen(ctx.watch.on_inputs, ctx, grads)


class _Outputs(_Seen):
    """Around the results of a module."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return _Seen.seen(ctx.watch.on_outputs, ctx, grads)

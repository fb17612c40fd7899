"""Hooks of modules: functions that see, or change, what passes a module on its way.

A module without hooks has no record of them, so that a call asks one question. `run` is the call
with hooks: before forward, after it, and for gradients. Gradients are met by two functions that
return what they get, one around the inputs and one around the outputs; their backward runs the
hooks, on the tape and in every transform.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from adjoint.core.errors import HookError
from adjoint.nn.modules.members import Members
from adjoint.tensor.function import Function
from adjoint.tensor.tape import Handle
from adjoint.tensor.tensor import Tensor, recording

if TYPE_CHECKING:
    from adjoint.nn.modules.module import Module

Hook = Callable[..., Any]
Table = OrderedDict[int, Hook]


class Hooks:
    """The hooks of one module, or of all of them."""

    def __init__(self) -> None:
        self.before: Table = OrderedDict()  # hook(module, args) or hook(module, args, kwargs)
        self.before_with_kwargs: dict[int, bool] = {}  # the numbers of those that get kwargs
        self.after: Table = OrderedDict()  # hook(module, args, output), likewise
        self.after_with_kwargs: dict[int, bool] = {}
        self.after_always: dict[int, bool] = {}  # those that are called after an error, too
        self.backward_before: Table = OrderedDict()  # hook(module, grad_output)
        self.backward: Table = OrderedDict()  # hook(module, grad_input, grad_output)
        self.is_full: bool | None = None  # False: the backward hooks are PyTorch's old ones

    def add_backward(self, hook: Hook, *, full: bool) -> Handle:
        """Add a hook for gradients, if the others are of its kind."""
        if self.is_full not in (None, full):
            raise HookError(
                "a module has either full backward hooks or those of register_backward_hook; "
                "use register_full_backward_hook for all"
            )
        self.is_full = full
        return Handle(self.backward, hook)


EVERYWHERE: list[Hooks] = []  # hooks of all modules: one record, once the first is registered


def _everywhere() -> Hooks:
    if not EVERYWHERE:
        EVERYWHERE.append(Hooks())
    return EVERYWHERE[0]


def _add_after(hooks: Hooks, hook: Hook, with_kwargs: bool, always_call: bool) -> Handle:
    marks = [hooks.after_with_kwargs] * with_kwargs + [hooks.after_always] * always_call
    return Handle(hooks.after, hook, *marks)


def register_module_forward_pre_hook(hook: Hook) -> Handle:
    """Call `hook(module, args)` before the forward of every module."""
    return Handle(_everywhere().before, hook)


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> Handle:
    """Call `hook(module, args, output)` after the forward of every module."""
    return _add_after(_everywhere(), hook, with_kwargs, always_call)


def register_module_full_backward_pre_hook(hook: Hook) -> Handle:
    """Call `hook(module, grad_output)` before gradients pass any module."""
    return Handle(_everywhere().backward_before, hook)


def register_module_full_backward_hook(hook: Hook) -> Handle:
    """Call `hook(module, grad_input, grad_output)` when gradients have passed any module."""
    return _everywhere().add_backward(hook, full=True)


def register_module_backward_hook(hook: Hook) -> Handle:
    """As PyTorch's old hook; use `register_module_full_backward_hook`."""
    return _everywhere().add_backward(hook, full=False)


class Hooked(Members):
    """The hooks of a module: registering them, and calls."""

    _hooks: Hooks | None = None  # made when the first hook is registered

    def _own_hooks(self) -> Hooks:
        if self._hooks is None:
            self._hooks = Hooks()
        return self._hooks

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> Handle:
        """Call `hook(module, args)` before forward; what it returns replaces the arguments.

        With `with_kwargs` it is `hook(module, args, kwargs)`, and returns both or None. `prepend`:
        before the hooks that are there.

        >>> import adjoint as ad
        >>> net = ad.nn.Sequential()
        >>> handle = net.register_forward_pre_hook(lambda module, args: args[0] * 2)
        >>> net(ad.tensor(3.0))
        tensor(6.)
        >>> handle.remove()
        >>> net(ad.tensor(3.0))
        tensor(3.)
        """
        hooks = self._own_hooks()
        handle = Handle(hooks.before, hook, *[hooks.before_with_kwargs] * with_kwargs)
        return _placed(handle, hooks.before, prepend)

    def register_forward_hook(
        self,
        hook: Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> Handle:
        """Call `hook(module, args, output)` after forward; what it returns replaces the output.

        With `with_kwargs` it is `hook(module, args, kwargs, output)`. `always_call`: after an
        error, too. `prepend`: before the hooks that are there.
        """
        hooks = self._own_hooks()
        return _placed(_add_after(hooks, hook, with_kwargs, always_call), hooks.after, prepend)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(module, grad_output)` before gradients pass; a result replaces them."""
        hooks = self._own_hooks()
        return _placed(Handle(hooks.backward_before, hook), hooks.backward_before, prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(module, grad_input, grad_output)` when gradients of the inputs are known.

        What it returns replaces `grad_input`. Both are tuples over the positional tensors.

        >>> import adjoint as ad
        >>> net = ad.nn.Sequential()
        >>> _ = net.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 10,))
        >>> x = ad.tensor(1.0, requires_grad=True)
        >>> net(x).backward()
        >>> x.grad
        tensor(10.)
        """
        hooks = self._own_hooks()
        return _placed(hooks.add_backward(hook, full=True), hooks.backward, prepend)

    def register_backward_hook(self, hook: Hook) -> Handle:
        """As PyTorch's old hook, which sees the last operator; use the full one."""
        return self._own_hooks().add_backward(hook, full=False)

    @property
    def _forward_pre_hooks(self) -> Table:
        return self._own_hooks().before

    @property
    def _forward_hooks(self) -> Table:
        return self._own_hooks().after

    @property
    def _backward_pre_hooks(self) -> Table:
        return self._own_hooks().backward_before

    @property
    def _backward_hooks(self) -> Table:
        return self._own_hooks().backward

    @property
    def _forward_pre_hooks_with_kwargs(self) -> dict[int, bool]:
        return self._own_hooks().before_with_kwargs

    @property
    def _forward_hooks_with_kwargs(self) -> dict[int, bool]:
        return self._own_hooks().after_with_kwargs

    @property
    def _forward_hooks_always_called(self) -> dict[int, bool]:
        return self._own_hooks().after_always


def hooks_before(module: Any) -> Table:
    """The hooks before the forward of a module; a module without hooks stays one."""
    return OrderedDict() if module._hooks is None else module._hooks.before


def _placed(handle: Handle, hooks: Table, prepend: bool) -> Handle:
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


# --- the call -----------------------------------------------------------------------------------


def run(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a module with its hooks and those of all modules."""
    call = _Call(module)
    try:
        return call.run(args, kwargs)
    except Exception:
        call.after_error()
        raise


class _Call:
    """One call of a module that has hooks."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.tables = [*EVERYWHERE]
        if module._hooks is not None:
            self.tables.append(module._hooks)
        self.called: set[int] = set()  # the numbers of hooks after forward that were called
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}
        self.result: Any = None

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.args, self.kwargs = args, kwargs
        for number, hook, hooks in self.listed("before"):
            self.before(hook, number in hooks.before_with_kwargs)
        watch = self.watch()
        if watch is not None:
            self.args = watch.around_inputs(self.args)
        self.result = self.module.forward(*self.args, **self.kwargs)
        for number, hook, hooks in self.listed("after"):
            self.after(number, hook, hooks)
        if watch is not None:
            self.result = watch.around_outputs(self.result)
        old = [hook for _, hook, hooks in self.listed("backward") if hooks.is_full is False]
        if old:
            _old_backward_hooks(self.module, old, self.args, self.result)
        return self.result

    def listed(self, name: str) -> Iterator[tuple[int, Hook, Hooks]]:
        for hooks in self.tables:
            for number, hook in list(getattr(hooks, name).items()):
                yield number, hook, hooks

    def before(self, hook: Hook, with_kwargs: bool) -> None:
        if not with_kwargs:
            changed = hook(self.module, self.args)
            if changed is not None:
                self.args = changed if isinstance(changed, tuple) else (changed,)
            return
        changed = hook(self.module, self.args, self.kwargs)
        if changed is None:
            return
        if not (isinstance(changed, tuple) and len(changed) == 2):
            raise HookError(
                "a forward pre-hook with kwargs must return None or a tuple of new args and "
                f"kwargs, got {type(changed).__name__}"
            )
        self.args, self.kwargs = changed

    def after(self, number: int, hook: Hook, hooks: Hooks) -> None:
        self.called.add(number)
        kwargs = (self.kwargs,) if number in hooks.after_with_kwargs else ()
        changed = hook(self.module, self.args, *kwargs, self.result)
        if changed is not None:
            self.result = changed

    def after_error(self) -> None:
        """Call the hooks that are always called; an error of theirs is a warning."""
        for number, hook, hooks in self.listed("after"):
            if number in hooks.after_always and number not in self.called:
                try:
                    self.after(number, hook, hooks)
                except Exception as error:
                    warnings.warn(
                        "a forward hook with always_call=True raised an error, which is left for "
                        f"the one of the module: {error}",
                        stacklevel=2,
                    )

    def watch(self) -> _Watch | None:
        """What runs the full backward hooks, if there are any."""
        full = [hook for _, hook, hooks in self.listed("backward") if hooks.is_full]
        before = [hook for _, hook, _ in self.listed("backward_before")]
        return _Watch(self.module, before, full) if full or before else None


def _old_backward_hooks(module: Any, hooks: list[Hook], args: Any, result: Any) -> None:
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
        warnings.warn(
            "a hook of register_backward_hook sees the last operator of the first output alone, "
            f"which is not all of {type(module).__name__}; use register_full_backward_hook",
            FutureWarning,
            stacklevel=2,
        )


def _one_operator(node: Any, args: Any, result: Any) -> bool:
    """Whether a node leads from all tensors of the arguments to all of the result."""
    inputs = args if isinstance(args, tuple) else (args,)
    outputs = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(value, Tensor) for value in (*inputs, *outputs)):
        return False
    before = {input.edge for input in inputs if input.edge is not None}
    return {output.grad_fn for output in outputs} == {node} and set(node.next) - {None} == before


# --- gradients ----------------------------------------------------------------------------------


class _Watch:
    """Runs the hooks for gradients of one call."""

    def __init__(self, module: Module, before: list[Hook], full: list[Hook]) -> None:
        self.module = module
        self.hooks_before = before
        self.hooks = full
        self.grad_outputs: tuple[Any, ...] | None = None  # of the pass that is under way
        self.inputs: int | None = None  # how many arguments there are, if one has a gradient
        self.count = 0  # of all positional arguments

    def around_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, such that their gradients are seen."""
        self.count = len(args)
        passed = _passed(_Inputs, self, args)
        if passed is None:
            return args
        self.inputs = len(args)
        return passed

    def around_outputs(self, result: Any) -> Any:
        """The result, such that its gradients are seen."""
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                "backward hooks are not called: the output of a module with such hooks should be a "
                f"Tensor or a tuple of Tensors, got {type(result).__name__}",
                stacklevel=2,
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
        if self.inputs is None:
            self.without_inputs()
        return grads

    def without_inputs(self) -> None:
        if self.hooks:
            warnings.warn(
                "a full backward hook is called with the gradients of outputs alone: no input of "
                f"{type(self.module).__name__} requires a gradient",
                stacklevel=2,
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


def _passed(kind: Any, watch: _Watch, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
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
    def forward(watch: _Watch, places: list[int], count: int, *tensors: Any) -> Any:
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

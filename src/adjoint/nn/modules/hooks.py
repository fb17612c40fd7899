"""Hooks of modules: functions that see, or change, what passes a module on its way.

A module without hooks has no record of them, so that a call asks one question. `run` is the call
with hooks: before forward, after it, and for gradients (`backward_hooks.py`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from adjoint.core.errors import HookError
from adjoint.core.source_lines import warn
from adjoint.nn.modules.backward_hooks import Hook, Watch, old_backward_hooks
from adjoint.nn.modules.members import Members
from adjoint.tensor.nodes import Handle

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
    compiled_reads_also = (EVERYWHERE,)  # by a program

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
            old_backward_hooks(self.module, old, self.args, self.result)
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
                    warn(
                        "a forward hook with always_call=True raised an error, which is left for "
                        f"the one of the module: {error}"
                    )

    def watch(self) -> Watch | None:
        """What runs the full backward hooks, if there are any."""
        full = [hook for _, hook, hooks in self.listed("backward") if hooks.is_full]
        before = [hook for _, hook, _ in self.listed("backward_before")]
        return Watch(self.module, before, full) if full or before else None

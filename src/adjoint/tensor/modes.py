"""Modes: no_grad, anomaly mode, saved-tensor hooks, as contexts and decorators.

Note [Scopes]: a mode that is entered makes a new `State` (core/state.py) and remembers, in an
`EnteredMode`, the fields that it changed. Usually modes end in the reverse order, and the earlier
record is put back. Generators can end them in any order; then the mode that ends gives its earlier
values to the next one above that changed the same fields, so that after the last one everything is
as before.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import ContextVar
from typing import Any, Self, TypeVar, overload

from adjoint.core.devices import CPU, Device, existing_device
from adjoint.core.dtypes import default_of
from adjoint.core.errors import GradError
from adjoint.core.source_lines import warn
from adjoint.core.state import (
    OBSERVED,
    OFF,
    State,
    current,
    dtype_blocks,
    inference_modes,
    seeing,
    state,
)

F = TypeVar("F", bound=Callable[..., Any])


class EnteredMode:
    """One entered mode."""

    __slots__ = ("before", "owner", "undo")

    def __init__(self, owner: Mode, undo: dict[str, Any], before: State) -> None:
        self.owner = owner
        self.undo = undo  # the fields that the mode changed, with their earlier values
        self.before = before  # the earlier state


def _enter(mode: Mode) -> None:
    before = current()
    changes = mode.changes(before)
    scope = EnteredMode(mode, {name: getattr(before, name) for name in changes}, before)
    made = before.but(**changes, scopes=(*before.scopes, scope))
    made.scope = scope
    state.set(made)


def _leave(mode: Mode) -> None:
    now = current()
    scope = now.scope
    if scope is not None and scope.owner is mode:
        state.set(scope.before)
    else:
        state.set(_without(now, mode))


def _without(now: State, mode: Mode) -> State:
    """The state without the last entry of a mode; Note [Scopes].

    A mode that was entered in another context changes nothing here.
    """
    numbers = [i for i, s in enumerate(now.scopes) if s.owner is mode]
    if not numbers:
        return now
    scopes = list(now.scopes)
    undo = scopes.pop(numbers[-1]).undo
    changes: dict[str, Any] = {}
    for name, value in undo.items():
        heirs = (i for i in range(numbers[-1], len(scopes)) if name in scopes[i].undo)
        heir = next(heirs, None)
        if heir is None:
            changes[name] = value
        else:  # a new object, since contexts share the old one
            above = scopes[heir]
            scopes[heir] = EnteredMode(above.owner, above.undo | {name: value}, above.before)
    return now.but(**changes, scopes=tuple(scopes))


class Mode:
    """A context manager that is also a decorator, for functions, generators and coroutines."""

    def changes(self, before: State) -> dict[str, Any]:
        """The fields of the state that the mode sets, with their values."""
        raise AssertionError(f"{type(self).__name__} defines changes")

    def __enter__(self) -> Any:
        _enter(self)

    def __exit__(self, *_: Any) -> None:
        _leave(self)

    def _clone(self) -> Any:
        return type(self)()

    def __call__(self, function: F) -> F:
        if not callable(function):
            raise TypeError(
                f"{type(self).__name__} decorates functions, got {type(function).__name__}"
            )
        if inspect.isclass(function):
            warn(
                f"{type(self).__name__} on a class is deprecated: it covers the making of an "
                "instance and none of its methods. Decorate __init__, or the methods you mean.",
                FutureWarning,
            )
        if inspect.isasyncgenfunction(function):
            inside: Any = self._around_async_generator(function)
        elif inspect.iscoroutinefunction(function):
            inside = self._around_coroutine(function)
        elif inspect.isgeneratorfunction(function):
            inside = self._around_generator(function)
        else:
            inside = self._around(function)
        return functools.wraps(function)(inside)  # type: ignore[return-value]

    def _around(self, function: Any) -> Any:
        def inside(*args: Any, **keywords: Any) -> Any:
            with self._clone():
                return function(*args, **keywords)

        return inside

    def _around_coroutine(self, function: Any) -> Any:
        async def inside(*args: Any, **keywords: Any) -> Any:
            with self._clone():
                return await function(*args, **keywords)

        return inside

    def _around_generator(self, function: Any) -> Any:
        def inside(*args: Any, **keywords: Any) -> Generator[Any, Any, Any]:
            return (yield from _GeneratorInMode(self, function(*args, **keywords)))

        return inside

    def _around_async_generator(self, function: Any) -> Any:
        """Like `_GeneratorInMode`, for async generators, which have no `yield from`."""

        async def inside(*args: Any, **keywords: Any) -> AsyncGenerator[Any, Any]:
            generator = function(*args, **keywords)
            resume = generator.__anext__
            while True:
                with self._clone():
                    try:
                        value = await resume()
                    except StopAsyncIteration:
                        return
                try:
                    sent = yield value
                except GeneratorExit:
                    with self._clone():
                        await generator.aclose()
                    raise
                except BaseException as error:
                    resume = functools.partial(generator.athrow, error)
                else:
                    resume = functools.partial(generator.asend, sent)

        return inside


class _GeneratorInMode(Generator[Any, Any, Any]):
    """A generator that runs in a mode; the code that iterates over it does not."""

    def __init__(self, mode: Mode, generator: Generator[Any, Any, Any]) -> None:
        self._mode, self._generator = mode, generator

    def send(self, value: Any, /) -> Any:
        with self._mode._clone():
            return self._generator.send(value)

    def throw(self, *error: Any) -> Any:
        with self._mode._clone():
            return self._generator.throw(*error)

    def close(self) -> None:
        with self._mode._clone():
            self._generator.close()


class SeenMode(Mode):
    """A mode that sees calls of operators: Note [Seen calls] in core/state.py."""

    def __enter__(self) -> Any:
        seeing.append(self)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        seeing.remove(self)


class default_device(SeenMode):  # noqa: N801 - as the other modes
    """Make new tensors on a device, where none is named."""

    def __init__(self, device: Any) -> None:
        self.device = None if device is None else existing_device("default device", device)

    def changes(self, before: State) -> dict[str, Any]:
        return {"default_device": self.device, "seen": True}

    def _clone(self) -> Any:
        return default_device(self.device)


class default_dtype(Mode):  # noqa: N801 - as the other modes
    """Make tensors of Python floats in a dtype, in a block or a function.

    Each thread and each asyncio task has its own. Traces and compiled functions keep the default
    that they were made with: a new one is part of the signature.

    >>> import adjoint as ad
    >>> with ad.default_dtype(ad.float64):
    ...     x = ad.tensor([0.1, 0.2])
    >>> x.dtype, ad.tensor([0.1, 0.2]).dtype
    (ad.float64, ad.float32)
    >>> @ad.default_dtype(ad.float64)
    ... def exact():
    ...     return ad.ones(2)
    >>> exact().dtype
    ad.float64
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype = default_of("default_dtype", dtype)

    def changes(self, before: State) -> dict[str, Any]:
        return {"default_dtype": self.dtype}

    def __enter__(self) -> None:
        dtype_blocks.append(self)
        super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        dtype_blocks.remove(self)

    def _clone(self) -> Any:
        return default_dtype(self.dtype)


# The modes that `with device:` opened, in that order; a device is a name and cannot hold its own.
_devices: ContextVar[tuple[default_device, ...]] = ContextVar("adjoint devices", default=())


def _enter_device(self: Device) -> Device:
    mode = default_device(self)
    mode.__enter__()
    _devices.set((*_devices.get(), mode))
    return self


def _exit_device(self: Device, *error: Any) -> None:
    *others, mode = _devices.get()
    _devices.set(tuple(others))
    mode.__exit__(*error)


def _call_device(self: Device, function: F) -> F:
    return default_device(self)(function)


Device.__enter__ = _enter_device  # type: ignore[attr-defined]
Device.__exit__ = _exit_device  # type: ignore[attr-defined]
Device.__call__ = _call_device  # type: ignore[attr-defined]
_default: list[object] = []  # the mode that `set_default_device` put into `seeing`


def set_default_device(device: Any) -> None:
    """Make new tensors on this device from now on, where none is named; None: on the CPU.

    >>> import adjoint as ad
    >>> ad.set_default_device("meta")
    >>> ad.zeros(3).device
    device(type='meta')
    >>> ad.set_default_device(None)
    """
    chosen = None if device is None else existing_device("set_default_device", device)
    if chosen is not None and not _default:
        _default.append(set_default_device)
        seeing.append(set_default_device)
    now = current()
    seen = chosen is not None or bool(now.function_modes or now.autocast)
    state.set(now.but(default_device=chosen, seen=seen))


def get_default_device() -> Device:
    """Return the device on which tensors are made where none is named.

    >>> import adjoint as ad
    >>> with ad.device("meta"):
    ...     ad.get_default_device()
    device(type='meta')
    """
    return current().default_device or CPU


class set_grad_enabled(Mode):  # noqa: N801 - PyTorch's name
    """Record the tape, or not, from now on or in a block.

    >>> import adjoint as ad
    >>> x = ad.ones(2, requires_grad=True)
    >>> with ad.set_grad_enabled(False):
    ...     (x * 2).requires_grad
    False
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        before = current()
        made = before.but(**self.changes(before))
        self.made: tuple[State, State] | None = before, made  # until a block or function is given
        state.set(made)

    def changes(self, before: State) -> dict[str, Any]:
        return {"recording": before.when_on() if self.mode else OFF}

    def __call__(self, function: F) -> F:
        self._take_back()
        return super().__call__(function)

    def __enter__(self) -> None:
        self._take_back()
        super().__enter__()

    def _take_back(self) -> None:
        """Undo the change made at once: the mode turned out to be for a block."""
        if self.made is not None:
            (before, made), now, self.made = self.made, current(), None
            state.set(before if now is made else now.but(recording=before.recording))

    def _clone(self) -> Any:
        return set_grad_enabled(self.mode)


class _Switch(Mode):
    """Sets recording on entry; nests and can be reused."""

    on: bool

    @overload
    def __new__(cls, function: None = None) -> Self: ...
    @overload
    def __new__(cls, function: F) -> F: ...
    def __new__(cls, function: Any = None) -> Any:
        made = super().__new__(cls)
        return made if function is None else made(function)  # a bare decorator: @no_grad

    def changes(self, before: State) -> dict[str, Any]:
        return {"recording": before.when_on() if self.on else OFF}


class no_grad(_Switch):  # noqa: N801 - PyTorch's name
    """Run without recording: results do not require gradients. A context and a decorator.

    >>> import adjoint as ad
    >>> x = ad.ones(2, requires_grad=True)
    >>> with ad.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    on = False


class enable_grad(_Switch):  # noqa: N801 - PyTorch's name
    """Record again inside `no_grad`. A context and a decorator.

    >>> import adjoint as ad
    >>> x = ad.ones(2, requires_grad=True)
    >>> with ad.no_grad(), ad.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    on = True


class inference_mode(Mode):  # noqa: N801 - PyTorch's name
    """Run without recording, and make tensors that can never be recorded: `is_inference()` tells.

    >>> import adjoint as ad
    >>> with ad.inference_mode():
    ...     x = ad.ones(2)
    >>> x.is_inference()
    True
    """

    mode: bool

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    @overload
    def __new__(cls, mode: F) -> F: ...
    def __new__(cls, mode: Any = True) -> Any:
        made = super().__new__(cls)
        bare = callable(mode)  # a decorator without brackets: @inference_mode
        made.mode = bare or bool(mode)
        return made(mode) if bare else made

    def changes(self, before: State) -> dict[str, Any]:
        return {"recording": OFF if self.mode else before.when_on(), "inference": self.mode}

    def __enter__(self) -> None:
        inference_modes.append(self)
        super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        inference_modes.remove(self)

    def _clone(self) -> Any:
        return inference_mode(self.mode)


def is_grad_enabled() -> bool:
    """Whether operators record the tape in this context.

    >>> import adjoint as ad
    >>> ad.is_grad_enabled()
    True
    """
    return current().recording != OFF


def is_inference_mode_enabled() -> bool:
    """Whether this context is inside `inference_mode`.

    >>> import adjoint as ad
    >>> ad.is_inference_mode_enabled()
    False
    """
    return current().inference


class detect_anomaly(Mode):  # noqa: N801 - PyTorch's name
    """Remember the forward call of every operator, and raise when backward makes a NaN."""

    def __init__(self, check_nan: bool = True) -> None:
        self.wanted = (True, check_nan)
        warn(
            "Anomaly Detection has been enabled: every operator keeps its traceback and every "
            "gradient is checked, which is slow. Use it for debugging only."
        )

    def changes(self, before: State) -> dict[str, Any]:
        anomaly, check_nan = self.wanted
        wanted = before.but(anomaly=anomaly)
        recording = wanted.when_on() if before.recording else OFF
        return {"anomaly": anomaly, "check_nan": check_nan, "recording": recording}

    def _clone(self) -> Any:
        return set_detect_anomaly(*self.wanted)


class set_detect_anomaly(detect_anomaly):  # noqa: N801 - PyTorch's name
    """Switch anomaly mode on or off, from now on or in a block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.wanted = (mode, check_nan)
        super().__enter__()

    def __enter__(self) -> None:
        """Do nothing: the mode was entered when it was made."""


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on in this context.

    >>> import adjoint as ad
    >>> ad.is_anomaly_enabled()
    False
    """
    return current().anomaly


class saved_tensors_hooks(Mode):  # noqa: N801 - PyTorch's name
    """Pack what the tape saves, and unpack it when backward needs it.

    `pack(tensor)` may return anything (a file name, a compressed array); `unpack` must give back a
    tensor of the same content.

    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> halves = lambda t: t.to(ad.bfloat16)
    >>> with ad.autograd.graph.saved_tensors_hooks(halves, lambda t: t.float()):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(self, pack_hook: Callable[..., Any], unpack_hook: Callable[..., Any]) -> None:
        self.hooks = (pack_hook, unpack_hook)

    def changes(self, before: State) -> dict[str, Any]:
        if before.hooks_refused:
            raise GradError(before.hooks_refused)
        hooks = (*before.saved_hooks, self.hooks)
        return {"saved_hooks": hooks, "recording": OBSERVED if before.recording else OFF}

    def _clone(self) -> Any:
        return saved_tensors_hooks(*self.hooks)


class node_creation_hook(Mode):  # noqa: N801 - PyTorch's name
    """Call a hook with each node that is recorded in a block, once it holds what it saves.

    The hook returns None, and computes nothing that would be recorded. Of several hooks the
    outermost is called first.

        >>> import adjoint as ad
        >>> x, names = ad.ones(2, requires_grad=True), []
        >>> with ad.autograd.graph.node_creation_hook(lambda node: names.append(node.name())):
        ...     y = x.exp().sum()
        >>> names
        ['ExpBackward0', 'SumBackward0']
    """

    def __init__(self, hook: Callable[[Any], None]) -> None:
        self.hook = hook

    def changes(self, before: State) -> dict[str, Any]:
        hooks = (*before.node_hooks, self.hook)
        return {"node_hooks": hooks, "recording": OBSERVED if before.recording else OFF}

    def _clone(self) -> Any:
        return node_creation_hook(self.hook)

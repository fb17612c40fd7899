"""What the current thread is doing: recording or not, and with which observers.

`modes.recording` is read on every call of an operator, so it is one small integer: 0 records
nothing, 1 records the tape, 2 records it with observers (anomaly mode, saved-tensor hooks).
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from adjoint.core.errors import GradError

F = TypeVar("F", bound=Callable[..., Any])

OFF, ON, OBSERVED = 0, 1, 2


class Modes(threading.local):
    """The modes of one thread."""

    recording: int = ON
    inference: bool = False
    anomaly: bool = False
    check_nan: bool = True
    saved_hooks: tuple[tuple[Callable[..., Any], Callable[..., Any]], ...] = ()
    hooks_refused: str = ""  # why saved-tensor hooks may not be used now
    duals: list[Any] | None = None  # weak references to the dual tensors of the level that is open
    retain: bool = False  # whether the backward pass under way keeps the graph
    passes: tuple[tuple[int, int], ...] = ()  # numbers of the nodes that backward passes made
    at_kinks: int = 0  # LIMIT, NEAR or EXACT: Note [Kinks] in tensor/limits.py

    def level_when_on(self) -> int:
        return OBSERVED if self.anomaly or self.saved_hooks else ON


modes = Modes()


class Mode:
    """A context manager that is also a decorator, for functions and generators."""

    def __call__(self, function: F) -> F:
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)

        @functools.wraps(function)
        def inside(*args: Any, **keywords: Any) -> Any:
            with self._clone():
                return function(*args, **keywords)

        return inside  # type: ignore[return-value]

    def _wrap_generator(self, function: Any) -> Any:
        @functools.wraps(function)
        def inside(*args: Any, **keywords: Any) -> Any:
            generator = function(*args, **keywords)
            sent: Any = None
            while True:
                with self._clone():
                    try:
                        value = generator.send(sent)
                    except StopIteration as stop:
                        return stop.value
                sent = yield value

        return inside

    def _clone(self) -> Any:
        return type(self)()

    def __enter__(self) -> Any:
        raise AssertionError("a mode defines __enter__")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        raise AssertionError("a mode defines __exit__")


class set_grad_enabled(Mode):  # noqa: N801 - PyTorch's name
    """Record the tape, or not, from now on or in a block.

    >>> import adjoint as ad
    >>> x = ad.ones(2, requires_grad=True)
    >>> with ad.set_grad_enabled(False):
    ...     (x * 2).requires_grad
    False
    """

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self.before = modes.recording
        modes.recording = modes.level_when_on() if mode else OFF

    def __call__(self, function: F) -> F:
        modes.recording = self.before
        return super().__call__(function)

    def _clone(self) -> Any:
        return set_grad_enabled(self.mode)

    def __enter__(self) -> None:
        modes.recording = modes.level_when_on() if self.mode else OFF

    def __exit__(self, *_: Any) -> None:
        modes.recording = self.before


class _Switch(Mode):
    """Sets recording on entry; nests and can be reused."""

    on: bool

    def __init__(self, function: Any = None) -> None:
        self.before: list[int] = []

    def __new__(cls, function: Any = None) -> Any:
        made = super().__new__(cls)
        if function is not None:  # used as a bare decorator: @no_grad
            made.__init__()
            return made(function)
        return made

    def __enter__(self) -> None:
        self.before.append(modes.recording)
        modes.recording = modes.level_when_on() if self.on else OFF

    def __exit__(self, *_: Any) -> None:
        modes.recording = self.before.pop()


class no_grad(_Switch):  # noqa: N801 - PyTorch's name
    """Run without recording: results do not require gradients. A context and a decorator."""

    on = False


class enable_grad(_Switch):  # noqa: N801 - PyTorch's name
    """Record again inside `no_grad`. A context and a decorator."""

    on = True


class inference_mode(Mode):  # noqa: N801 - PyTorch's name
    """Run without recording, as `no_grad`; `is_inference_mode_enabled()` tells."""

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self.before: list[tuple[int, bool]] = []

    def __new__(cls, mode: Any = True) -> Any:
        made = super().__new__(cls)
        if callable(mode):
            made.__init__()
            return made(mode)
        return made

    def _clone(self) -> Any:
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        self.before.append((modes.recording, modes.inference))
        modes.inference = self.mode
        modes.recording = OFF if self.mode else modes.level_when_on()

    def __exit__(self, *_: Any) -> None:
        modes.recording, modes.inference = self.before.pop()


def is_grad_enabled() -> bool:
    """Whether operators record the tape in this thread."""
    return modes.recording != OFF


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside `inference_mode`."""
    return modes.inference


class detect_anomaly(Mode):  # noqa: N801 - PyTorch's name
    """Remember the forward call of every operator, and raise when backward makes a NaN."""

    def __init__(self, check_nan: bool = True) -> None:
        self.wanted = (True, check_nan)
        self.before: list[tuple[bool, bool, int]] = []

    def _clone(self) -> Any:
        return detect_anomaly(self.wanted[1])

    def __enter__(self) -> None:
        self.before.append((modes.anomaly, modes.check_nan, modes.recording))
        modes.anomaly, modes.check_nan = self.wanted
        if modes.recording:
            modes.recording = modes.level_when_on()

    def __exit__(self, *_: Any) -> None:
        modes.anomaly, modes.check_nan, modes.recording = self.before.pop()


class set_detect_anomaly(detect_anomaly):  # noqa: N801 - PyTorch's name
    """Switch anomaly mode on or off, from now on or in a block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        super().__init__(check_nan)
        self.wanted = (mode, check_nan)
        self.__enter__()

    def _clone(self) -> Any:
        return set_detect_anomaly(*self.wanted)

    def __enter__(self) -> None:
        if not self.before:
            super().__enter__()


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on in this thread."""
    return modes.anomaly


class saved_tensors_hooks:  # noqa: N801 - PyTorch's name
    """Pack what the tape saves, and unpack it when backward needs it.

    `pack(tensor)` may return anything (a file name, a compressed array); `unpack` must give back a
    tensor of the same content.
    """

    def __init__(self, pack_hook: Callable[..., Any], unpack_hook: Callable[..., Any]) -> None:
        self.hooks = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
        if modes.hooks_refused:
            raise GradError(modes.hooks_refused)
        self.before = (modes.saved_hooks, modes.recording)
        modes.saved_hooks = (*modes.saved_hooks, self.hooks)
        if modes.recording:
            modes.recording = OBSERVED

    def __exit__(self, *_: Any) -> None:
        modes.saved_hooks, modes.recording = self.before

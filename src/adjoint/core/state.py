"""The state of a context: whether it records, the open transforms, modes and hooks.

It is one record in one context variable, so each thread and each asyncio task has its own, and
reading it is cheap enough for every operator: `current().recording`. A record never changes. A
change makes another record, and is undone by putting the earlier one back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

OFF, ON, OBSERVED = 0, 1, 2  # recording: nothing, the tape, the tape with observers


class State:
    """One state. Its fields are set when it is made; `but` makes a changed copy."""

    __slots__ = ("__dict__", "scope")

    recording: int = ON  # OFF, ON or OBSERVED
    inference: bool = False
    anomaly: bool = False
    check_nan: bool = True
    saved_hooks: tuple[tuple[Callable[..., Any], Callable[..., Any]], ...] = ()
    node_hooks: tuple[Callable[..., Any], ...] = ()  # called with each new node of the tape
    hooks_refused: str = ""  # why saved-tensor hooks may not be used now
    passes: tuple[Any, ...] = ()  # the backward passes under way, innermost last
    at_kinks: int = 0  # LIMIT, NEAR or EXACT: Note [Kinks] in homes/limits.py
    scale: Any = None  # an array, the factors of iδ where at_kinks is NEAR; None stands for ones
    # the operator that runs, its arguments on the topmost level that differentiates, and the state
    # there, if it has a kink: homes/rates.py
    asked: Any = None
    # order of derivative from which a trace also computes near branch points; 0 means never,
    # because the program gives up a call that meets one
    roots_from: int = 1
    levels: tuple[Any, ...] = ()  # the open transforms, outermost first
    differentiating: int = 0  # how many of all open transforms differentiate
    orders: int = 0  # number of open grad and vjp on the eager tape
    variables: tuple[
        Any, ...
    ] = ()  # edges of the arguments of open grad and vjp, on the eager tape
    written: list[Any] | None = None  # tensors written to inside the innermost of these
    seen: bool = False  # whether modes, classes, autocast or a default device see calls
    function_modes: tuple[Any, ...] = ()  # users' modes, innermost last: homes/overrides.py
    asks_classes: bool = True  # whether users' classes see calls: DisableTorchFunctionSubclass
    autocast: Any = None  # the innermost autocast: calls/autocast.py
    default_dtype: Any = None  # of a block; None: the process's (core/dtypes.py)
    default_device: Any = None  # the device of new tensors that name none
    scopes: tuple[Any, ...] = ()  # the open modes of tensor/modes.py, outermost first

    scope: Any  # the mode whose entry made this record; not copied to changed records

    def but(self, **changes: Any) -> State:
        """A copy of the record with other values of some fields."""
        made = object.__new__(State)
        made.__dict__ = self.__dict__ | changes
        made.scope = None
        return made

    def when_on(self) -> int:
        """The value of `recording` when switched on: OBSERVED if there are observers, else ON."""
        return OBSERVED if self.anomaly or self.saved_hooks or self.node_hooks else ON


_FIELDS = [name for name in State.__annotations__ if name != "scope"]
_START = State().but(**{name: getattr(State, name) for name in _FIELDS})

# The open inference modes of all contexts: Note [Inference] in tensor/nodes.py.
inference_modes: list[object] = []

# Note [Seen calls]: this list holds the open modes of all contexts that see calls: function modes,
# autocast, a default device. While it is not empty, an operator tests whether its call is `seen` in
# its own context, and if so goes through `dispatch.slow`, which applies these modes. Without a mode
# a call pays for testing an empty list only.
seeing: list[object] = []

# The open `default_dtype` blocks of all contexts: while there are none, nobody reads the context.
dtype_blocks: list[object] = []

state: ContextVar[State] = ContextVar("adjoint state", default=_START)
current = state.get


class changed:  # noqa: N801 - reads as a phrase: with changed(recording=OFF)
    """A block with other values of some fields; at its end the earlier record is put back."""

    __slots__ = ("before", "changes")

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def __enter__(self) -> None:
        self.before = before = current()
        state.set(before.but(**self.changes))

    def __exit__(self, *_: Any) -> None:
        state.set(self.before)

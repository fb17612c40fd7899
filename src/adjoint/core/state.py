"""The state of a context: recording or not, in which transforms, with which observers.

It is one record in one context variable, so each thread and each asyncio task has its own, and
reading it is cheap enough for every operator: `current().recording`. A record never changes.
A change makes another record, and is undone by putting the earlier one back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

OFF, ON, OBSERVED = 0, 1, 2  # recording: nothing, the tape, the tape with observers


class State:
    """One record. Fields are set when it is made; `but` makes another one."""

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
    # from which derivative on a trace is computed near branch points, too; at 0 it need not be, as
    # its program gives a call up that meets one
    roots_from: int = 1
    levels: tuple[Any, ...] = ()  # the open transforms, outermost first
    differentiating: int = 0  # how many of all open transforms differentiate
    orders: int = 0  # how many grad and vjp are open on the eager tape
    variables: tuple[
        Any, ...
    ] = ()  # edges of the arguments of open grad and vjp, on the eager tape
    written: list[Any] | None = None  # tensors that were written to inside the innermost of these
    seen: bool = False  # whether calls of operators are seen by what the next three fields hold
    function_modes: tuple[Any, ...] = ()  # users' modes, innermost last: homes/overrides.py
    asks_classes: bool = True  # whether users' classes see calls: DisableTorchFunctionSubclass
    autocast: Any = None  # the innermost autocast: calls/autocast.py
    default_dtype: Any = None  # that of a block; None: the one of the process (core/dtypes.py)
    default_device: Any = None  # where new tensors are made that no device is named for
    scopes: tuple[Any, ...] = ()  # the open modes of tensor/modes.py, outermost first

    scope: Any  # the scope whose record this is, if no other change was made since; not copied

    def but(self, **changes: Any) -> State:
        """The same record with other values of some fields."""
        made = object.__new__(State)
        made.__dict__ = self.__dict__ | changes
        made.scope = None
        return made

    def when_on(self) -> int:
        """How to record, if at all."""
        return OBSERVED if self.anomaly or self.saved_hooks or self.node_hooks else ON


_FIELDS = [name for name in State.__annotations__ if name != "scope"]
_START = State().but(**{name: getattr(State, name) for name in _FIELDS})

# The open inference modes of all contexts: Note [Inference] in tensor/nodes.py.
inference_modes: list[object] = []

# Note [Seen calls]: while this list is not empty, an operator looks whether its call is `seen` in
# its context, and if so takes the long way (`dispatch.slow`), where function modes, autocast and a
# default device have their say. It holds the open modes of all contexts that see calls, so that
# without one a call pays for nothing but a look at an empty list.
seeing: list[object] = []

# The open `default_dtype` blocks of all contexts: without one nobody need ask for the context's.
dtype_blocks: list[object] = []

state: ContextVar[State] = ContextVar("adjoint state", default=_START)
current = state.get


class changed:  # noqa: N801 - reads as a phrase: with changed(recording=OFF)
    """Other values of some fields in a block; at its end the record is the one from before."""

    __slots__ = ("before", "changes")

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def __enter__(self) -> None:
        self.before = before = current()
        state.set(before.but(**self.changes))

    def __exit__(self, *_: Any) -> None:
        state.set(self.before)

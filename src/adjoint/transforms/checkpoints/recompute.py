"""Checkpoints on the eager tape: nodes keep a number in place of each tensor that they save.

The function runs on the tape as usual, with a hook that takes every tensor that a node would save
and leaves a placeholder. When backward needs one, the function runs again with another hook, which
finds the tensors in the same order; the run stops as soon as it has all tensors that are still
wanted. They serve one backward pass, and each is released when it is used.

The arguments of a checkpoint inside another one are saved by the hook of the outer one, so that
nothing in between is kept.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from adjoint.core.errors import CheckpointError, InplaceError
from adjoint.core.source_lines import CallSite, caller, show_place
from adjoint.core.state import changed, current
from adjoint.tape import backward_passes
from adjoint.tape.observe import pack_value
from adjoint.tensor.modes import enable_grad, saved_tensors_hooks
from adjoint.tensor.nodes import Watch
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.checkpoints.determinism import Fingerprint

_early_stop: ContextVar[bool | None] = ContextVar("early stop", default=None)
_debug: ContextVar[bool | None] = ContextVar("checkpoint debug", default=None)


@contextmanager
def _set(variable: ContextVar[Any], value: Any) -> Generator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def set_checkpoint_early_stop(enable: bool) -> Any:
    """Whether checkpoints made in a block stop recomputing when they have all that is needed."""
    return _set(_early_stop, enable)


def set_checkpoint_debug_enabled(enabled: bool | None) -> Any:
    """Debug all checkpoints made in a block, or none; None leaves it to each."""
    return _set(_debug, enabled)


class _Stop(Exception):
    """Ends a recomputation that has found all wanted tensors."""


class _Placeholder:
    """The number that a node keeps in place of a saved tensor."""

    __slots__ = ("__weakref__", "frame", "number")

    def __init__(self, frame: Frame, number: int) -> None:
        self.frame = frame
        self.number = number


class KeptArgument:
    """A tensor argument, which must have the same values when the function runs again."""

    __slots__ = ("packed", "tensor", "watch")

    def __init__(self, tensor: Tensor) -> None:
        hooks = current().saved_hooks
        self.packed: Any = None
        self.tensor: Tensor | None = None
        if hooks:
            self.packed = pack_value(tensor, *hooks[-1])
        else:
            self.tensor, self.watch = tensor, Watch(tensor)

    def value(self) -> Tensor:
        if self.packed is not None:
            return self.packed.unpack()
        assert self.tensor is not None
        if self.watch.changed() is not None:
            raise InplaceError(
                "an argument of checkpoint was changed in place before backward, which runs the "
                "function again; clone() it first"
            )
        return self.tensor


class Frame:
    """One checkpointed call: runs the function again for the tensors that its nodes saved."""

    def __init__(
        self,
        run: Callable[[Sequence[Tensor]], Any],
        tensors: Sequence[Tensor],
        *,
        check: bool,
        debug: bool,
        early_stop: bool,
    ) -> None:
        self.run = run  # runs the function on these tensors, in the state of the first run
        self.arguments = [KeptArgument(t) for t in tensors]
        now = current()
        # backward may run inside transforms that were opened after the first run
        depths = ("levels", "differentiating", "orders", "at_kinks")
        self.state = {name: getattr(now, name) for name in depths}
        self.check = check
        override = _debug.get()
        self.debug = debug if override is None else override
        override = _early_stop.get()
        self.early_stop = early_stop if override is None else override
        self.complete = False  # whether the first run has ended
        self.facts: list[Fingerprint] = []  # fingerprints of the saved tensors, in order
        self.places: list[CallSite | None] = []  # where each was saved, if debug
        self.handles: list[Any] = []  # weak references to the placeholders that nodes still hold
        self.found: weakref.WeakKeyDictionary[Any, dict[int, Any]] = weakref.WeakKeyDictionary()

    def hooks(self) -> saved_tensors_hooks:
        """The mode in which the function runs the first time."""
        return saved_tensors_hooks(self._pack, _unpack)

    def _pack(self, tensor: Tensor) -> _Placeholder:
        handle = _Placeholder(self, len(self.handles))
        self.handles.append(weakref.ref(handle))
        self.facts.append(Fingerprint(tensor.value))
        if self.debug:
            self.places.append(caller())
        return handle

    def value(self, number: int) -> Tensor:
        """A saved tensor, computed again once for each backward pass."""
        run = backward_passes.innermost()
        found = None if run is None else self.found.get(run)
        if found is None:
            found = self._recompute()
            if run is not None:
                self.found[run] = found
        if number not in found:
            raise CheckpointError(
                "checkpoint: a saved tensor is unpacked a second time in one backward pass, and "
                "was let go after the first; keep it in a variable"
            )
        tensor, watch = found.pop(number)
        if watch.changed() is not None:
            raise InplaceError(
                "checkpoint: the function changes a tensor in place that backward needs "
                f"({self.facts[number]}); use the out-of-place operator there"
            )
        return tensor

    def _recompute(self) -> dict[int, Any]:
        wanted = [i for i, h in enumerate(self.handles) if h() is not None]
        again = _Recomputation(self, wanted)
        tensors = [a.value() for a in self.arguments]
        with (
            changed(**self.state),
            enable_grad(),
            saved_tensors_hooks(again.pack, _same),
            suppress(_Stop),
        ):
            self.run(tensors)
        again.check_count()
        return again.found


def _unpack(handle: _Placeholder) -> Tensor:
    return handle.frame.value(handle.number)


def _same(tensor: Tensor) -> Tensor:
    return tensor


class _Recomputation:
    """One recomputation."""

    def __init__(self, frame: Frame, wanted: list[int]) -> None:
        self.frame = frame
        self.wanted = set(wanted)
        self.last = len(frame.handles) - 1
        self.counter = itertools.count()
        self.seen = 0
        self.found: dict[int, Any] = {}

    def pack(self, tensor: Tensor) -> Tensor:
        number = next(self.counter)
        self.seen += 1
        frame = self.frame
        if number > self.last:
            if frame.complete and frame.check:
                raise CheckpointError(
                    "checkpoint: the function is trying to save more tensors during recomputation "
                    f"than the {self.last + 1} of its first run; it must do the same each time"
                )
            return tensor
        if frame.check:
            self._compare(number, tensor)
        if number in self.wanted:
            self.found[number] = (tensor, Watch(tensor))
        if frame.early_stop and number == self.last:
            raise _Stop
        return tensor

    def _compare(self, number: int, tensor: Tensor) -> None:
        frame = self.frame
        difference = frame.facts[number].differ(Fingerprint(tensor.value))
        if difference:
            where = (
                f"\nIt was saved at {show_place(frame.places[number])}, and now at "
                f"{show_place(caller())} (you see this because debug=True was given)"
                if frame.debug
                else " Give debug=True to see where."
            )
            raise CheckpointError(
                f"checkpoint: the function computes something else when it runs again: saved "
                f"tensor {number}, {difference}. It must do the same each time.{where}"
            )

    def check_count(self) -> None:
        """Raise unless the run has saved as many tensors as the first one."""
        if self.frame.check and self.seen < len(self.frame.handles):
            raise CheckpointError(
                "checkpoint: a different number of tensors was saved when the function ran again: "
                f"{self.seen} in place of {len(self.frame.handles)}; it must do the same each time"
            )


def on_the_tape(frame: Frame, function: Callable[[], Any]) -> Any:
    """Run the function the first time, so that its nodes keep handles."""
    with frame.hooks():
        result = function()
    frame.complete = True
    return result

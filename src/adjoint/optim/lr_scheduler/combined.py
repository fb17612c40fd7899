"""Schedulers of schedulers: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from adjoint.core.errors import ArgumentError, ValueRangeError
from adjoint.optim.lr_scheduler.base import LRScheduler, set_value, values_of
from adjoint.optim.lr_scheduler.plateau import ReduceLROnPlateau


class _Combined(LRScheduler):
    """A scheduler that holds others, of the same optimiser."""

    _schedulers: Sequence[Any]

    def _check(self, schedulers: Sequence[Any], optimizer: Any) -> None:
        name = type(self).__name__
        for number, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise ArgumentError(f"{name}: number {number} is no scheduler: {scheduler!r}")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueRangeError(
                    f"{name}: number {number} is a ReduceLROnPlateau, whose step needs a metric; "
                    "step it by itself"
                )
            if scheduler.optimizer is not optimizer:
                raise ValueRangeError(f"{name}: number {number} has another optimiser")

    def state_dict(self) -> dict[str, Any]:
        """Return the attributes, with the state dicts of the schedulers."""
        states = [s.state_dict() for s in self._schedulers]
        return {**super().state_dict(), "_schedulers": states}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the attributes, and those of each scheduler."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


class SequentialLR(_Combined):
    """One scheduler after the other; `milestones` are the epochs at which the next one begins.

    >>> import adjoint as ad
    >>> from adjoint.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR
    >>> optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=1.0)
    >>> warm = ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> scheduler = SequentialLR(optimizer, [warm, ExponentialLR(optimizer, 0.5)], milestones=[2])
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(scheduler.get_last_lr())
    [0.5]
    [1.0]
    [0.5]
    [0.25]
    """

    def __init__(
        self, optimizer: Any, schedulers: list[Any], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(milestones) != len(schedulers) - 1:
            raise ValueRangeError(
                f"SequentialLR: {len(schedulers)} schedulers, of which there must be one, have "
                f"{len(schedulers) - 1} milestones between them, got {len(milestones)}"
            )
        self._check(schedulers, optimizer)
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:  # each scheduler has made its first step already
            set_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Take back the first step of schedulers, and of those that they hold."""
        scheduler = self if sched is None else sched
        if hasattr(scheduler, "_schedulers"):
            for held in scheduler._schedulers:
                self.recursive_undo(held)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    def step(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Go to the next epoch, and at a milestone to the next scheduler."""
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[number]
        if number > 0 and self._milestones[number - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Combined):
    """Several schedulers at once: each changes what the one before has set.

    >>> import adjoint as ad
    >>> from adjoint.optim.lr_scheduler import ChainedScheduler, ConstantLR, ExponentialLR
    >>> optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=1.0)
    >>> warm = ConstantLR(optimizer, factor=0.5, total_iters=9)
    >>> scheduler = ChainedScheduler([warm, ExponentialLR(optimizer, 0.5)])
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(self, schedulers: Sequence[Any], optimizer: Any = None) -> None:
        if not schedulers:
            raise ValueRangeError("ChainedScheduler: at least one scheduler is needed, got none")
        optimizer = optimizer or getattr(schedulers[0], "optimizer", None)
        self._check(schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = values_of(optimizer, "lr")

    def step(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Step every scheduler."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = values_of(self.optimizer, "lr")

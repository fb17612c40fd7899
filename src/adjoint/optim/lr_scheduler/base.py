"""`LRScheduler`: what all schedulers of learning rates share.

A scheduler counts epochs and sets the learning rate of each group of its optimiser. Attributes are
PyTorch's, since a state dict is a scheduler's attributes.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from adjoint.core.errors import ArgumentError, ValueRangeError
from adjoint.optim.optimizer import Optimizer
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor

EPOCH_DEPRECATION_WARNING = (
    "scheduler.step(epoch): the epoch is deprecated, as in PyTorch; call step()"
)


class LRScheduler:
    """Base of the schedulers: call `step()` after each epoch, after `optimizer.step()`.

    A subclass writes `get_lr`, the learning rates of epoch `last_epoch`, one for each group.

    >>> import adjoint as ad
    >>> class Halving(ad.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [base / 2**self.last_epoch for base in self.base_lrs]
    >>> optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=0.4)
    >>> scheduler = Halving(optimizer)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.2]
    """

    _get_lr_called_within_step = False
    _is_initial = False
    _last_lr: list[Any]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(self, optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"{type(self).__name__}(last_epoch={last_epoch}): group {number} has no "
                    "initial_lr; load the optimiser's state dict first, or begin with -1"
                )
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        optimizer.step_of_scheduler = _function(optimizer.step)  # type: ignore[attr-defined]
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the learning rates of the first epoch."""
        self._step_count = 0
        with self._during("_is_initial"):
            self.step()

    @contextmanager
    def _during(self, flag: str) -> Generator[None]:
        setattr(self, flag, True)
        try:
            yield
        finally:
            setattr(self, flag, False)

    def state_dict(self) -> dict[str, Any]:
        """Return every attribute but the optimiser."""
        return {key: value for key, value in vars(self).items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the attributes of a state dict."""
        vars(self).update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """Return the learning rates that were set last."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Compute the learning rates of this epoch; called by `step`."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to compute get_lr()")

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch and set its learning rates; or to `epoch`, which is deprecated."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warn_of_epoch()
        self._update_lr(epoch)

    def _check_order(self) -> None:
        """Warn if the optimiser has not stepped yet: its first learning rate would be skipped."""
        known = getattr(self.optimizer, "step_of_scheduler", None)
        if _function(self.optimizer.step) is not known:
            warnings.warn(
                "optimizer.step was replaced after the scheduler was made; whether it is called "
                "before scheduler.step() cannot be told",
                UserWarning,
                stacklevel=3,
            )
        elif "step" not in vars(self.optimizer) and not getattr(
            self.optimizer, "_opt_called", False
        ):
            warnings.warn(
                "scheduler.step() was called before optimizer.step(), so that the first learning "
                "rate is skipped; call optimizer.step() first",
                UserWarning,
                stacklevel=3,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        with self._during("_get_lr_called_within_step"):
            if epoch is None:
                self.last_epoch += 1
                lrs = self.get_lr()
            else:
                self.last_epoch = epoch
                lrs = getattr(self, "_get_closed_form_lr", self.get_lr)()
        self._set_lrs(lrs)

    def _set_lrs(self, lrs: list[Any]) -> None:
        for group, lr in zip(self.optimizer.param_groups, lrs, strict=True):
            set_value(group, "lr", lr)
        self._last_lr = values_of(self.optimizer, "lr")


class Schedule(LRScheduler):
    """A scheduler of ours: its `get_lr` is for `step`, and says so to others."""

    def get_lr(self) -> list[Any]:
        """Compute the learning rates of this epoch; called by `step`."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "get_lr() computes for step(); get_last_lr() returns the learning rates",
                UserWarning,
                stacklevel=2,
            )
        return self._lrs()

    def _lrs(self) -> list[Any]:
        raise NotImplementedError


def check_optimizer(scheduler: Any, optimizer: Any) -> None:
    """Raise unless it is an optimiser."""
    if not isinstance(optimizer, Optimizer):
        raise ArgumentError(
            f"{type(scheduler).__name__}: an optimiser is needed, got {type(optimizer).__name__}"
        )


def copied(value: Any) -> Any:
    """A number as it is, a tensor as a copy."""
    return value.detach().clone() if isinstance(value, Tensor) else value


def values_of(optimizer: Optimizer, key: str) -> list[Any]:
    """An option of every group."""
    return [copied(group[key]) for group in optimizer.param_groups]


def set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option of a group; a tensor stays the same tensor."""
    if isinstance(group[key], Tensor):
        with no_grad():
            group[key].fill_(float(value))
    else:
        group[key] = value


def one_for_each(what: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A value for each group: the list that is given, or one value for all."""
    count = len(optimizer.param_groups)
    values = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(values) != count:
        raise ValueRangeError(f"{what}: the optimiser has {count} groups, got {len(values)} values")
    return [copied(v) for v in values]


def warn_of_epoch() -> None:
    """Warn that `epoch` is deprecated."""
    warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=3)


def without_functions(values: list[Any]) -> list[Any]:
    """Functions for a state dict: None, or the attributes of an object that can be called."""
    return [None if isinstance(v, types.FunctionType) else vars(v).copy() for v in values]


def _function(method: Any) -> Any:
    return getattr(method, "__func__", method)

"""Schedulers that raise the learning rate and lower it again, and momentum the other way."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from adjoint.core.errors import ValueRangeError
from adjoint.optim.lr_scheduler.base import (
    Schedule,
    check_optimizer,
    one_for_each,
    set_value,
    without_functions,
)


class _Cycle(Schedule):
    """A scheduler that also cycles momentum: `momentum` of a group, or the first of its `betas`."""

    cycle_momentum: bool

    def _begin_momentum(self, base: Any, most: Any, *, first: bool) -> tuple[list[Any], list[Any]]:
        """Momentum of each group at the ends of a cycle; at its beginning, set the larger one."""
        optimizer, name = self.optimizer, type(self).__name__
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueRangeError(
                f"{name}(cycle_momentum=True): {type(optimizer).__name__} has neither momentum nor "
                "betas; use cycle_momentum=False"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        bases = one_for_each(f"{name}(base_momentum)", optimizer, base)
        mosts = one_for_each(f"{name}(max_momentum)", optimizer, most)
        if first:
            for group, low, high in zip(optimizer.param_groups, bases, mosts, strict=True):
                self._set_momentum(group, high)
                group["max_momentum"] = high
                group["base_momentum"] = low
        return bases, mosts

    def _set_momentum(self, group: dict[str, Any], momentum: Any) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(_Cycle):
    """From `base_lr` to `max_lr` and back, again and again; steps are batches.

    `mode`: "triangular" keeps the height, "triangular2" halves it every cycle, "exp_range" shrinks
    it by `gamma` every step; or `scale_fn`, a function of the cycle or of the iteration
    (`scale_mode`). Momentum goes from `max_momentum` to `base_momentum` meanwhile. Smith 2017.

    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> scheduler = ad.optim.lr_scheduler.CyclicLR(optimizer, 0.25, 0.75, step_size_up=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Any,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(self, optimizer)
        self.optimizer = optimizer
        base_lrs = one_for_each("CyclicLR(base_lr)", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_value(group, "lr", lr)
        self.max_lrs = one_for_each("CyclicLR(max_lr)", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueRangeError(
                f"CyclicLR(mode={mode!r}): use 'triangular', 'triangular2', 'exp_range', or give a "
                "scale_fn"
            )
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        by_iteration = scale_mode == "iterations" if scale_fn else mode == "exp_range"
        self.scale_mode = "iterations" if by_iteration else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._begin_momentum(
                base_momentum, max_momentum, first=last_epoch == -1
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """How high a cycle is, of the first one; `x` counts cycles or iterations."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def _lrs(self) -> list[Any]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        rises = x <= self.step_ratio
        height = x / self.step_ratio if rises else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            ends = zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            )
            for group, low, high in ends:
                self._set_momentum(group, high - (high - low) * height)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * height for low, high in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Return every attribute but the optimiser, without a function `scale_fn`."""
        state = super().state_dict()
        if self._scale_fn_custom is not None:
            state["_scale_fn_custom"] = without_functions([self._scale_fn_custom])[0]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the attributes of a state dict."""
        own, kept = self._scale_fn_custom, state_dict["_scale_fn_custom"]
        super().load_state_dict(state_dict)
        self._scale_fn_custom = own
        if kept is not None:
            vars(own).update(kept)


_COSINE, _LINEAR = "cos", "linear"


class OneCycleLR(_Cycle):
    """One cycle for a whole training: up to `max_lr`, then down far below the beginning.

    The first `pct_start` of `total_steps` (or of `epochs` · `steps_per_epoch`) rise from
    max_lr / div_factor, the others fall to 1/final_div_factor of that; with `three_phase` they
    first fall as they rose. Steps are batches. Smith and Topin 2019.

    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> scheduler = ad.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [1.0]
    """

    def __init__(
        self,
        optimizer: Any,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(self, optimizer)
        self.optimizer = optimizer
        self.total_steps = _whole_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueRangeError(f"OneCycleLR(pct_start={pct_start}): must be a float from 0 to 1")
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        if anneal_strategy not in (_COSINE, _LINEAR):
            raise ValueRangeError(
                f"OneCycleLR(anneal_strategy={anneal_strategy!r}): use 'cos' or 'linear'"
            )
        self._anneal_func_type = anneal_strategy
        max_lrs = one_for_each("OneCycleLR(max_lr)", optimizer, max_lr)
        if last_epoch == -1:
            for group, most in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"] = most / div_factor
                group["max_lr"] = most
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin_momentum(base_momentum, max_momentum, first=last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def _lrs(self) -> list[Any]:
        if self.last_epoch > self.total_steps:
            raise ValueRangeError(
                f"OneCycleLR.step(): step {self.last_epoch} of {self.total_steps}, the end"
            )
        start = 0.0
        phase = self._schedule_phases[0]
        for phase in self._schedule_phases:
            if self.last_epoch <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        done = (self.last_epoch - start) / (phase["end_step"] - start)
        lrs = []
        for group in self.optimizer.param_groups:
            lrs.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], done))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._between(*ends, done))
        return lrs

    def _between(self, start: Any, end: Any, done: float) -> Any:
        if self._anneal_func_type == _LINEAR:
            return (end - start) * done + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)


def _whole_steps(total: Any, epochs: Any, per_epoch: Any) -> int:
    """The length of the cycle, in steps."""
    given = [total] if total is not None else [epochs, per_epoch]
    if not all(isinstance(n, int) and n > 0 for n in given):
        raise ValueRangeError(
            "OneCycleLR: total_steps, or epochs and steps_per_epoch, must be whole numbers above "
            f"0, got total_steps={total}, epochs={epochs}, steps_per_epoch={per_epoch}"
        )
    return math.prod(given)


def _phases(total: int, share: float, three: bool) -> list[dict[str, Any]]:
    """The phases of a cycle: where each ends, and the options between which it goes."""
    ends = [
        (float(share * total) - 1, "initial_lr", "max_lr"),
        *([(float(2 * share * total) - 2, "max_lr", "initial_lr")] if three else []),
        (total - 1, "initial_lr" if three else "max_lr", "min_lr"),
    ]
    return [
        {
            "end_step": end,
            "start_lr": start_lr,
            "end_lr": end_lr,
            "start_momentum": "base_momentum" if start_lr == "max_lr" else "max_momentum",
            "end_momentum": "base_momentum" if end_lr == "max_lr" else "max_momentum",
        }
        for end, start_lr, end_lr in ends
    ]

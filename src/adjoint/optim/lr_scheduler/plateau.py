"""A scheduler that waits until a metric no longer improves."""

from __future__ import annotations

import math
from typing import Any

from adjoint.core.errors import ValueRangeError
from adjoint.optim.lr_scheduler.base import (
    LRScheduler,
    check_optimizer,
    one_for_each,
    set_value,
    values_of,
    warn_of_epoch,
)


class ReduceLROnPlateau(LRScheduler):
    """Times `factor` when a metric has not improved for more than `patience` epochs.

    `mode` says whether a smaller metric ("min") or a larger one ("max") is better, `threshold` by
    how much: of the best so far ("rel") or as it is ("abs", `threshold_mode`). After a change
    nothing is counted for `cooldown` epochs; no learning rate goes below `min_lr`, and none changes
    by less than `eps`.

    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    >>> for loss in (3.0, 3.0, 3.0):
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Any,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: Any = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueRangeError(f"ReduceLROnPlateau(factor={factor}): must be less than 1")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueRangeError(
                f"ReduceLROnPlateau(mode={mode!r}, threshold_mode={threshold_mode!r}): use 'min' "
                "or 'max', and 'rel' or 'abs'"
            )
        check_optimizer(self, optimizer)
        self.factor = factor
        self.optimizer = optimizer
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = one_for_each("ReduceLROnPlateau(min_lr)", optimizer, min_lr)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = values_of(optimizer, "lr")
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs are not counted, so soon after a change."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Count an epoch with its metric; a number, or a tensor of one."""
        current = float(metrics)
        if epoch is not None:
            warn_of_epoch()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = values_of(self.optimizer, "lr")

    def _is_better(self, metric: float, best: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            return sign * metric > sign * (best * (1 + sign * self.threshold))
        return sign * metric > sign * (best + sign * self.threshold)

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise ValueRangeError(
                    f"ReduceLROnPlateau: the optimiser has {len(groups)} groups now, and min_lrs "
                    f"{len(self.min_lrs)}; set scheduler.min_lrs"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                set_value(group, "lr", new)

"""Schedulers along half a cosine, from the first learning rate to the least."""

from __future__ import annotations

import math
from typing import Any

from adjoint.core.errors import ValueRangeError
from adjoint.optim.lr_scheduler.base import Schedule


class CosineAnnealingLR(Schedule):
    """From the first learning rate to `eta_min` in `T_max` epochs, along a cosine, and back.

    Loshchilov and Hutter 2017, without restarts.

    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Any,
        T_max: int,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _height(self, epoch: int) -> float:
        """Twice how far the learning rate is above the least, of the most it can be."""
        return 1 + math.cos(math.pi * epoch / self.T_max)

    def _lrs(self) -> list[Any]:
        lrs = [group["lr"] for group in self.optimizer.param_groups]
        if self._is_initial:
            return [lr * 1 for lr in lrs]
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # from the lowest point
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            pairs = zip(self.base_lrs, lrs, strict=True)
            return [lr + (base - self.eta_min) * rise for base, lr in pairs]
        ratio = self._height(self.last_epoch) / self._height(self.last_epoch - 1)
        return [ratio * (lr - self.eta_min) + self.eta_min for lr in lrs]

    def _get_closed_form_lr(self) -> list[Any]:
        half = self._height(self.last_epoch) / 2
        return [self.eta_min + (base - self.eta_min) * half for base in self.base_lrs]


class CosineAnnealingWarmRestarts(Schedule):
    """A cosine that starts again: after `T_0` epochs, then after `T_mult` times as many, and so on.

    `step(epoch)` may be called with fractions of an epoch. Loshchilov and Hutter 2017.

    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Any,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(T_0, int) or not isinstance(T_mult, int) or T_0 < 1 or T_mult < 1:
            raise ValueRangeError(
                f"CosineAnnealingWarmRestarts(T_0={T_0}, T_mult={T_mult}): whole numbers of at "
                "least 1 are needed"
            )
        if not isinstance(eta_min, (float, int)):
            raise ValueRangeError(
                "CosineAnnealingWarmRestarts(eta_min): a number is needed, got "
                f"{type(eta_min).__name__}"
            )
        self.T_0 = T_0
        self.T_i = T_0  # epochs of this round
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch  # epochs since the round began
        super().__init__(optimizer, last_epoch)

    def _lrs(self) -> list[Any]:
        half = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * half for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to `epoch`, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._jump(epoch)
        self.last_epoch = math.floor(epoch)
        with self._during("_get_lr_called_within_step"):
            lrs = self.get_lr()
        self._set_lrs(lrs)

    def _jump(self, epoch: float) -> None:
        """Find the round of an epoch."""
        if epoch < 0:
            raise ValueRangeError(f"step(epoch={epoch}): must be at least 0")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            rounds = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            before = self.T_0 * (self.T_mult**rounds - 1) / (self.T_mult - 1)
            self.T_i, self.T_cur = self.T_0 * self.T_mult**rounds, epoch - before

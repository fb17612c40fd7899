"""Schedulers that multiply the learning rate by a factor.

Each says by what the learning rate changes at an epoch (`_ratio`), so that schedulers can be
chained, and what it is of the first one (`_factor`), for a jump to an epoch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from adjoint.core.errors import ArgumentError, ValueRangeError
from adjoint.optim.lr_scheduler.base import Schedule, one_for_each, without_functions


class _ByFactor(Schedule):
    """A scheduler that multiplies the learning rates of all groups by one factor."""

    def _ratio(self) -> float:
        """By what the learning rate changes from the last epoch to this one."""
        raise NotImplementedError

    def _factor(self) -> float:
        """What the learning rate is, of the one at the beginning."""
        raise NotImplementedError

    def _lrs(self) -> list[Any]:
        ratio = self._ratio()
        return [group["lr"] * ratio for group in self.optimizer.param_groups]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self._factor()
        return [base * factor for base in self.base_lrs]


class _ByFunctions(Schedule):
    """A scheduler with a function of the epoch for each group."""

    def __init__(
        self,
        optimizer: Any,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        name = type(self).__name__
        given = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda]
        if not all(map(callable, given)):
            raise ArgumentError(f"{name}(lr_lambda): functions of the epoch are needed")
        if isinstance(lr_lambda, (list, tuple)):
            one_for_each(f"{name}(lr_lambda)", optimizer, given)
        else:
            given *= len(optimizer.param_groups)
        self.lr_lambdas = given
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return every attribute but the optimiser; functions are left out, callable objects kept
        by their attributes.
        """
        return {**super().state_dict(), "lr_lambdas": without_functions(self.lr_lambdas)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the attributes of a state dict."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, kept in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if kept is not None:
                vars(function).update(kept)


class LambdaLR(_ByFunctions):
    """The first learning rate times a function of the epoch, or one function for each group.

    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def _lrs(self) -> list[Any]:
        pairs = zip(self.lr_lambdas, self.base_lrs, strict=True)
        return [base * function(self.last_epoch) for function, base in pairs]


class MultiplicativeLR(_ByFunctions):
    """The last learning rate times a function of the epoch, or one function for each group.

    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def _lrs(self) -> list[Any]:
        pairs = zip(self.lr_lambdas, self.optimizer.param_groups, strict=True)
        return [g["lr"] * (1 if self._is_initial else f(self.last_epoch)) for f, g in pairs]


class StepLR(_ByFactor):
    """Times `gamma` every `step_size` epochs.

    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Any, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _ratio(self) -> float:
        return self.gamma if self.last_epoch and self.last_epoch % self.step_size == 0 else 1

    def _factor(self) -> float:
        return self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(_ByFactor):
    """Times `gamma` at each of the epochs `milestones`.

    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Any, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _ratio(self) -> float:
        return self.gamma ** self.milestones[self.last_epoch]

    def _factor(self) -> float:
        return self.gamma ** bisect_right(sorted(self.milestones.elements()), self.last_epoch)


class ConstantLR(_ByFactor):
    """Times `factor` until epoch `total_iters`, then as it was.

    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=4)
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Any,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueRangeError(f"ConstantLR(factor={factor}): must be from 0 to 1")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _ratio(self) -> float:
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else 1

    def _factor(self) -> float:
        return 1.0 if self.last_epoch >= self.total_iters else self.factor


class LinearLR(_ByFactor):
    """Times a factor that goes from `start_factor` to `end_factor` in `total_iters` epochs.

    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> for _ in range(2):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [0.5]
    [0.75]
    """

    def __init__(
        self,
        optimizer: Any,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ValueRangeError(
                f"LinearLR(start_factor={start_factor}, end_factor={end_factor}): factors are from "
                "0 to 1, and the first is not 0"
            )
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _at(self, epoch: int) -> float:
        """The factor of an epoch, times `total_iters`."""
        rise = self.end_factor - self.start_factor
        return self.total_iters * self.start_factor + epoch * rise

    def _ratio(self) -> float:
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1
        return self._at(self.last_epoch) / self._at(self.last_epoch - 1)

    def _factor(self) -> float:
        return self._at(min(self.total_iters, self.last_epoch)) / self.total_iters


class ExponentialLR(_ByFactor):
    """Times `gamma` every epoch.

    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Any, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _ratio(self) -> float:
        return 1 if self._is_initial else self.gamma

    def _factor(self) -> float:
        return self.gamma**self.last_epoch


class PolynomialLR(_ByFactor):
    """Times (1 - epoch / total_iters)^power, down to 0 at `total_iters`.

    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4, power=2.0)
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Any, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _at(self, epoch: int) -> float:
        return 1.0 - min(self.total_iters, epoch) / self.total_iters

    def _ratio(self) -> float:
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1
        return (self._at(self.last_epoch) / self._at(self.last_epoch - 1)) ** self.power

    def _factor(self) -> float:
        return self._at(self.last_epoch) ** self.power

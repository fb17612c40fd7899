"""`ad.optim.swa_utils`: averages of a model's weights over a training, as in PyTorch.

Stochastic weight averaging (Izmailov et al. 2018) takes the plain mean, an exponential moving
average weighs the last models most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from adjoint import ops
from adjoint.core.dtypes import int64
from adjoint.core.errors import ValueRangeError
from adjoint.nn.modules.batchnorm import _BatchNorm
from adjoint.nn.modules.module import Module
from adjoint.optim.lr_scheduler.base import Schedule, one_for_each
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Tensor]  # (average, model's value, count so far)
MultiAverage = Callable[[list[Tensor], list[Tensor], Any], None]  # the same for lists, in place


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return the exponential moving average: decay·average + (1 - decay)·value.

    >>> get_ema_avg_fn(0.75)(1.0, 2.0, 3)
    1.25
    """
    _check_decay("get_ema_avg_fn", decay)

    def ema_update(average: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        return decay * average + (1 - decay) * current

    return ema_update


def get_swa_avg_fn() -> Average:
    """Return the plain mean of all values so far.

    >>> get_swa_avg_fn()(1.0, 2.0, 3)
    1.25
    """

    def swa_update(average: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        return average + (current - average) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """Return the exponential moving average of lists of tensors, in place.

    >>> import adjoint as ad
    >>> averages = [ad.tensor([1.0])]
    >>> get_ema_multi_avg_fn(0.75)(averages, [ad.tensor([2.0])], 3)
    >>> averages
    [tensor([1.2500])]
    """
    _check_decay("get_ema_multi_avg_fn", decay)
    return _for_lists(get_ema_avg_fn(decay), lambda num_averaged: 1 - decay)


def get_swa_multi_avg_fn() -> MultiAverage:
    """Return the plain mean of lists of tensors, in place.

    >>> import adjoint as ad
    >>> averages = [ad.tensor([1.0])]
    >>> get_swa_multi_avg_fn()(averages, [ad.tensor([2.0])], 3)
    >>> averages
    [tensor([1.2500])]
    """
    return _for_lists(get_swa_avg_fn(), lambda num_averaged: 1 / (num_averaged + 1))


def _for_lists(average: Average, weight: Callable[[Any], Any]) -> MultiAverage:
    """An average of lists, in place, from that of one tensor and the weight of a new value."""

    def update(averages: list[Tensor], current: list[Tensor], num_averaged: Any) -> None:
        with no_grad():
            if averages[0].is_floating_point() or averages[0].is_complex():
                ops._foreach_lerp_(averages, current, float(weight(num_averaged)))
                return
            for mean, value in zip(averages, current, strict=True):
                mean.copy_(average(mean, value, num_averaged))

    return update


def _check_decay(what: str, decay: float) -> None:
    if not 0 <= decay <= 1:
        raise ValueRangeError(f"{what}(decay={decay}): must be from 0 to 1")


class AveragedModel(Module):
    """A copy of a model whose parameters are averages: `update_parameters(model)` after each step
    or epoch.

    `avg_fn(average, value, count)` returns the average of one tensor, `multi_avg_fn` changes lists
    of them in place; without either it is the plain mean. Buffers are averaged with `use_buffers`,
    else copied. `device` is accepted and means nothing beside the CPU.

    >>> import adjoint as ad
    >>> model = ad.nn.ParameterList([ad.zeros(1)])
    >>> averaged = ad.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = model[0].data.fill_(value)
    ...     averaged.update_parameters(model)
    >>> averaged.module[0].detach(), averaged.n_averaged
    (tensor([3.]), tensor(3))
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("AveragedModel: give avg_fn or multi_avg_fn, not both")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", ops.zeros((), dtype=int64))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the averaged model."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the model's parameters into the averages; the first ones are copied."""
        means, values = ([t.detach() for t in self._members(m)] for m in (self.module, model))
        with no_grad():
            if self.n_averaged == 0:
                for mean, value in zip(means, values, strict=True):
                    mean.copy_(value)
            elif self.avg_fn is not None:
                for mean, value in zip(means, values, strict=True):
                    mean.copy_(self.avg_fn(mean, value, self.n_averaged))
            else:
                self._average_lists(means, values)
            if not self.use_buffers:
                for kept, buffer in zip(self.module.buffers(), model.buffers(), strict=True):
                    kept.detach().copy_(buffer.detach())
            self.n_averaged += 1

    def _members(self, model: Module) -> Iterable[Tensor]:
        return chain(model.parameters(), model.buffers() if self.use_buffers else ())

    def _average_lists(self, means: list[Tensor], values: list[Tensor]) -> None:
        """Average lists of tensors of one dtype."""
        average = self.multi_avg_fn or get_swa_multi_avg_fn()
        for dtype in dict.fromkeys(t.dtype for t in means):
            places = [i for i, t in enumerate(means) if t.dtype is dtype]
            average([means[i] for i in places], [values[i] for i in places], self.n_averaged)


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Set the statistics of batch normalisation to those of the data, for an averaged model.

    `loader` gives batches, or tuples whose first entry is the batch. `device` is accepted and means
    nothing beside the CPU.

    >>> import adjoint as ad
    >>> model = ad.nn.BatchNorm1d(1)
    >>> ad.optim.swa_utils.update_bn([ad.tensor([[1.0], [3.0]])], model)
    >>> model.running_mean
    tensor([2.])
    """
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    if not norms:
        return
    was_training = model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean over batches
    try:
        with no_grad():
            for batch in loader:
                model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        model.train(was_training)


class SWALR(Schedule):
    """To the learning rate `swa_lr` of averaging in `anneal_epochs`, by "cos" or "linear".

    >>> import adjoint as ad
    >>> optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = ad.optim.swa_utils.SWALR(optimizer, 0.5, 2, anneal_strategy="linear")
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.75]
    """

    def __init__(
        self,
        optimizer: Any,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueRangeError(
                f"SWALR(anneal_strategy={anneal_strategy!r}): use 'cos' or 'linear'"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueRangeError(
                f"SWALR(anneal_epochs={anneal_epochs}): a whole number of at least 0 is needed"
            )
        lrs = one_for_each("SWALR(swa_lr)", optimizer, swa_lr)
        for group, lr in zip(optimizer.param_groups, lrs, strict=True):
            group["swa_lr"] = lr
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: float) -> float:
        """How much of `swa_lr` the learning rate of a step has."""
        t = max(0, min(1, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def _lrs(self) -> list[Any]:
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        lrs = []
        for group in self.optimizer.param_groups:
            lr, target = group["lr"], group["swa_lr"]
            start = target if before == 1 else (lr - before * target) / (1 - before)
            lrs.append(target * now + start * (1 - now))
        return lrs


def __dir__() -> list[str]:
    return sorted(__all__)

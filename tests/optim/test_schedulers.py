"""Schedulers: what holds for all of them. tests/oracle/test_optim.py compares them with PyTorch."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import pytest

import adjoint as ad
from adjoint.optim import lr_scheduler as lrs


def optimizer_of(lr: Any = 1.0, **options: Any) -> Any:
    return ad.optim.SGD([ad.ones(2, requires_grad=True)], lr=lr, momentum=0.9, **options)


SCHEDULERS: dict[str, Any] = {
    "LambdaLR": lambda o: lrs.LambdaLR(o, halved),
    "MultiplicativeLR": lambda o: lrs.MultiplicativeLR(o, halved),
    "StepLR": lambda o: lrs.StepLR(o, 3),
    "MultiStepLR": lambda o: lrs.MultiStepLR(o, [2, 4]),
    "ConstantLR": lambda o: lrs.ConstantLR(o),
    "LinearLR": lambda o: lrs.LinearLR(o),
    "ExponentialLR": lambda o: lrs.ExponentialLR(o, 0.5),
    "PolynomialLR": lambda o: lrs.PolynomialLR(o, 20),
    "CosineAnnealingLR": lambda o: lrs.CosineAnnealingLR(o, 5),
    "CosineAnnealingWarmRestarts": lambda o: lrs.CosineAnnealingWarmRestarts(o, 3),
    "CyclicLR": lambda o: lrs.CyclicLR(o, 0.1, 1.0, 3),
    "OneCycleLR": lambda o: lrs.OneCycleLR(o, 1.0, 20),
    "ChainedScheduler": lambda o: lrs.ChainedScheduler([lrs.StepLR(o, 2), lrs.LinearLR(o)]),
    "SequentialLR": lambda o: lrs.SequentialLR(o, [lrs.LinearLR(o), lrs.StepLR(o, 2)], [4]),
}


def halved(epoch: int) -> float:
    return 0.5


def rates(optimizer: Any, scheduler: Any, epochs: int) -> list[float]:
    found = []
    for _ in range(epochs):
        optimizer.step()
        scheduler.step()
        found.append(float(optimizer.param_groups[0]["lr"]))
    return found


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_schedule_goes_on_after_its_state_dict(name: str) -> None:
    whole_optimizer = optimizer_of()
    whole = rates(whole_optimizer, SCHEDULERS[name](whole_optimizer), 12)
    optimizer = optimizer_of()
    scheduler = SCHEDULERS[name](optimizer)
    rates(optimizer, scheduler, 6)
    saved = pickle.loads(pickle.dumps((scheduler.state_dict(), optimizer.state_dict())))
    other = optimizer_of(lr=7.0)
    resumed = SCHEDULERS[name](other)
    resumed.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    assert rates(other, resumed, 6) == pytest.approx(whole[6:])


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_tensor_learning_rate_stays_the_same_tensor(name: str) -> None:
    lr = ad.tensor(1.0, dtype=ad.float64)
    optimizer, plain = optimizer_of(lr), optimizer_of()
    found = rates(optimizer, SCHEDULERS[name](optimizer), 6)
    assert optimizer.param_groups[0]["lr"] is lr
    assert found == pytest.approx(rates(plain, SCHEDULERS[name](plain), 6))


@pytest.mark.parametrize("name", ["StepLR", "MultiStepLR", "LinearLR", "ExponentialLR",
                                  "PolynomialLR", "ConstantLR", "CosineAnnealingLR"])  # fmt: skip
def test_closed_forms_are_what_steps_come_to(name: str) -> None:
    optimizer, other = optimizer_of(), optimizer_of()
    found = rates(optimizer, SCHEDULERS[name](optimizer), 12)
    scheduler = SCHEDULERS[name](other)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for epoch in (12, 3, 7):
            scheduler.step(epoch)
            assert scheduler.get_last_lr()[0] == pytest.approx(found[epoch - 1])


def test_a_deep_copy_of_an_optimiser_has_a_schedule_of_its_own() -> None:
    optimizer = optimizer_of()
    lrs.ExponentialLR(optimizer, 0.5)
    other = copy.deepcopy(optimizer)
    rates(other, lrs.ExponentialLR(other, 0.5), 2)
    assert (optimizer.param_groups[0]["lr"], other.param_groups[0]["lr"]) == (1.0, 0.25)


def test_a_schedule_that_steps_before_its_optimiser_warns() -> None:
    scheduler = lrs.StepLR(optimizer_of(), 2)
    with pytest.warns(UserWarning, match="before optimizer"):
        scheduler.step()


def test_get_lr_outside_of_step_warns() -> None:
    scheduler = lrs.StepLR(optimizer_of(), 2)
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()


def test_a_plateau_is_waited_for() -> None:
    optimizer = optimizer_of()
    scheduler = lrs.ReduceLROnPlateau(optimizer, patience=1, factor=0.5, cooldown=2, min_lr=0.3)
    found = []
    for metric in (3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0):
        scheduler.step(ad.tensor(metric))
        found.append(optimizer.param_groups[0]["lr"])
    assert found == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3]


@pytest.mark.parametrize(
    "make",
    [
        lambda o: lrs.StepLR(None, 3),
        lambda o: lrs.ConstantLR(o, factor=2.0),
        lambda o: lrs.LinearLR(o, start_factor=0.0),
        lambda o: lrs.CyclicLR(o, 0.1, 1.0, mode="mine"),
        lambda o: lrs.CyclicLR(o, [0.1, 0.2], 1.0),
        lambda o: lrs.OneCycleLR(o, 1.0),
        lambda o: lrs.OneCycleLR(o, 1.0, 10, pct_start=2.0),
        lambda o: lrs.CosineAnnealingWarmRestarts(o, 0),
        lambda o: lrs.ReduceLROnPlateau(o, factor=1.0),
        lambda o: lrs.ReduceLROnPlateau(o, mode="mine"),
        lambda o: lrs.SequentialLR(o, [lrs.StepLR(o, 3)], [1]),
        lambda o: lrs.ChainedScheduler([lrs.ReduceLROnPlateau(o)]),
        lambda o: lrs.ChainedScheduler([lrs.StepLR(o, 3), lrs.StepLR(optimizer_of(), 3)]),
        lambda o: lrs.LambdaLR(o, [halved, halved]),
    ],
)
def test_options_out_of_range_are_refused(make: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        make(optimizer_of())

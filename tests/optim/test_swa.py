"""Averages of models over a training."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.optim import swa_utils


def network(value: float) -> Any:
    model = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.BatchNorm1d(3))
    with ad.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.fill_(value)
    return model


AVERAGES: dict[str, tuple[dict[str, Any], float]] = {
    "mean": ({}, 4.0),
    "mean of lists": ({"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()}, 4.0),
    "mean of one": ({"avg_fn": swa_utils.get_swa_avg_fn()}, 4.0),
    "moving": ({"avg_fn": swa_utils.get_ema_avg_fn(0.5)}, 5.0),
    "moving of lists": ({"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.5)}, 5.0),
}


@pytest.mark.parametrize("use_buffers", [True, False])
@pytest.mark.parametrize("name", AVERAGES)
def test_parameters_are_averaged_and_buffers_if_asked(name: str, use_buffers: bool) -> None:
    options, expected = AVERAGES[name]
    averaged = swa_utils.AveragedModel(network(0.0), use_buffers=use_buffers, **options)
    for value in (2.0, 4.0, 6.0 if expected == 4.0 else 7.0):
        averaged.update_parameters(network(value))
    for p in averaged.module.parameters():
        np.testing.assert_allclose(p.detach().numpy(), expected)
    mean = averaged.module.get_buffer("1.running_mean").numpy()
    last = 6.0 if expected == 4.0 else 7.0
    np.testing.assert_allclose(mean, expected if use_buffers else last)
    assert averaged.n_averaged == 3


def test_an_averaged_model_is_a_module_with_a_state_dict() -> None:
    averaged = swa_utils.AveragedModel(network(1.0))
    averaged.update_parameters(network(3.0))
    other = swa_utils.AveragedModel(network(0.0))
    other.load_state_dict(pickle.loads(pickle.dumps(averaged.state_dict())))
    x = ad.ones(4, 2)
    np.testing.assert_allclose(
        copy.deepcopy(other).eval()(x).detach().numpy(), averaged.eval()(x).detach().numpy()
    )


def test_update_bn_takes_the_mean_over_batches() -> None:
    norm = ad.nn.BatchNorm1d(1, momentum=0.3)
    batches = [ad.tensor([[1.0], [3.0]]), ad.tensor([[5.0], [9.0]])]
    norm.eval()
    swa_utils.update_bn([(batch, "label") for batch in batches], norm)
    assert norm.running_mean.item() == pytest.approx(4.5)
    assert norm.running_var.item() == pytest.approx((2.0 + 8.0) / 2)
    assert (norm.momentum, norm.training) == (0.3, False)


def test_options_out_of_range_are_refused() -> None:
    optimizer = ad.optim.SGD([ad.ones(2, requires_grad=True)])
    for make in (
        lambda: swa_utils.get_ema_avg_fn(1.5),
        lambda: swa_utils.SWALR(optimizer, 0.1, anneal_strategy="mine"),
        lambda: swa_utils.SWALR(optimizer, 0.1, anneal_epochs=-1),
    ):
        with pytest.raises(ValueError, match="use|must|needed"):
            make()

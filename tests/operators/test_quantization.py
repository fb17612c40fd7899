"""Fake quantization: errors, observers that write, and training straight through."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError


def test_gradients_go_straight_through_inside_the_range_and_stop_outside() -> None:
    x = ad.tensor([-9.0, 0.3, 9.0])
    loss = lambda x: (2 * ad.fake_quantize_per_tensor_affine(x, 0.5, 0, -4, 4)).sum()
    assert ad.grad(loss)(x).tolist() == [0.0, 2.0, 0.0]
    assert ad.jvp(loss, (x,), (ad.ones(3),))[1].item() == 2.0
    assert ad.compile(ad.grad(loss))(x).tolist() == [0.0, 2.0, 0.0]


def test_a_scale_that_is_learnt_moves_to_where_the_error_is_least() -> None:
    x = ad.linspace(-1.0, 1.0, 101)
    zero = ad.zeros(1)
    rounded = lambda s: ad.ops._fake_quantize_learnable_per_tensor_affine(x, s, zero, -4, 3)
    scale = ad.tensor([0.05])
    error = lambda s: (rounded(s) - x).square().mean()
    before = error(scale)
    for _ in range(100):
        scale = scale - 0.05 * ad.grad(error)(scale)
    assert error(scale) < 0.1 * before
    assert 0.2 < scale.item() < 0.3


def test_an_observer_writes_its_statistics_in_place() -> None:
    low, high = ad.full((1,), ad.inf), ad.full((1,), -ad.inf)
    scale, zero = ad.ones(1), ad.zeros(1, dtype=ad.int32)
    on = ad.tensor([1])

    def observe(x: ad.Tensor) -> ad.Tensor:
        state = low, high, scale, zero
        return ad.fused_moving_avg_obs_fake_quant(x, on, on, *state, 0.5, 0, 255, -1)

    observe(ad.tensor([-1.0, 2.0]))
    assert (low.item(), high.item()) == (-1.0, 2.0)
    observe(ad.tensor([-3.0, 2.0]))
    assert (low.item(), high.item()) == (-2.0, 2.0)
    assert scale.item() == pytest.approx(4 / 255)
    assert zero.tolist() == [128]


def test_nan_stays_and_is_outside_the_range() -> None:
    found, mask = ad.ops.fake_quantize_per_tensor_affine_cachemask(
        ad.tensor([ad.nan, ad.inf]), 0.5, 0, -4, 4
    )
    assert np.isnan(found[0].item())
    assert found[1].item() == 2.0
    assert mask.tolist() == [False, False]


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16, ad.float64])
def test_the_result_has_the_dtype_of_the_input(dtype: ad.DType) -> None:
    x = ad.tensor([0.3, 5.0], dtype=dtype)
    assert ad.fake_quantize_per_tensor_affine(x, 0.5, 0, -4, 4).dtype is dtype


def test_arguments_that_do_not_fit_are_refused() -> None:
    x = ad.ones(2, 3)
    with pytest.raises(ArgumentError, match="quant_min=4 must not be above"):
        ad.fake_quantize_per_tensor_affine(x, 0.5, 0, 4, -4)
    with pytest.raises(ArgumentError, match="zero_point=9 must lie between"):
        ad.fake_quantize_per_tensor_affine(x, 0.5, 9, -4, 4)
    with pytest.raises(DtypeError, match="floating point"):
        ad.fake_quantize_per_tensor_affine(x.long(), 0.5, 0, -4, 4)
    with pytest.raises(ShapeError, match="each of 3 slices along dimension 1"):
        ad.fake_quantize_per_channel_affine(x, ad.ones(2), ad.zeros(2).int(), 1, -4, 4)
    running = ad.zeros(1), ad.zeros(2), ad.ones(2), ad.zeros(2)
    on = ad.tensor([1])
    with pytest.raises(ShapeError, match="running_min must have one number for each of 2"):
        ad.fused_moving_avg_obs_fake_quant(x, on, on, *running, 0.5, -4, 4, 0, True)
    assert running[1].tolist() == [0.0, 0.0]


def quantised(
    x: Any, scale: Any, zero_point: Any, low: int, high: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Numbers on the grid scale · (q - zero_point), and whether they were in its range."""
    q = np.rint(x / scale) + zero_point
    return (np.clip(q, low, high) - zero_point) * scale, (q >= low) & (q <= high)


def drawn(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(4).standard_normal(shape) * 5


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_gradients_of_learnt_grids_are_the_formula(axis: int | None) -> None:
    x, low, high, factor = drawn(4, 6), -8, 7, 0.25
    count = 1 if axis is None else x.shape[axis]
    scale, zero = np.linspace(0.4, 1.3, count), np.linspace(-2.0, 3.0, count)
    shape = [-1 if axis == d else 1 for d in range(2)]
    given = [ad.tensor(a, requires_grad=True) for a in (x, scale, zero)]
    if axis is None:
        op = ad.ops._fake_quantize_learnable_per_tensor_affine
        y = op(*given, low, high, factor)
    else:
        op = ad.ops._fake_quantize_learnable_per_channel_affine
        y = op(*given, axis, low, high, factor)
    weight = drawn(6, 4).T
    (y * ad.tensor(weight)).sum().backward()
    s, z = scale.reshape(shape), np.rint(zero).reshape(shape)
    q = np.rint(x / s + z)
    inside = (q >= low) & (q <= high)
    found, _ = quantised(x, s, z, low, high)
    np.testing.assert_allclose(y.detach(), found, atol=1e-12)
    bound = np.where(q < low, low, high) - z
    others = None if axis is None else 1 - axis
    of_scale = np.where(inside, np.rint(x / s + z) - z - x / s, bound)
    of_zero = np.where(inside, 0.0, -s)
    np.testing.assert_allclose(given[0].grad, weight * inside, atol=1e-12)
    for tensor, slope in ((given[1], of_scale), (given[2], of_zero)):
        expected = factor * (weight * slope).sum(others).reshape(-1)
        np.testing.assert_allclose(tensor.grad, expected, atol=1e-10)

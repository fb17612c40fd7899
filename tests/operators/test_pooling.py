"""Pooling: which element is the largest, layouts, batches, geometry that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import (
    ArgumentError,
    DtypeError,
    IndexOutOfRange,
    ShapeError,
    ValueRangeError,
)

F = ad.nn.functional
NAN, INFINITY = float("nan"), float("inf")


def image(*shape: int, dtype: Any = np.float64) -> ad.Tensor:
    return ad.from_numpy(np.random.default_rng(0).normal(size=shape).astype(dtype))


def channels_last(x: ad.Tensor) -> ad.Tensor:
    return x.contiguous(memory_format="channels_last")


# --- which element is the largest ----------------------------------------------------------------


def test_max_pool_chooses_the_first_of_equals_in_both_modes() -> None:
    x = ad.ones(1, 4, 4)
    indices = F.max_pool2d(x, 3, stride=1, return_indices=True)[1]
    assert indices.tolist() == [[[0, 1], [4, 5]]]
    reverse = ad.grad(lambda x: F.max_pool2d(x, 3, stride=1).sum())(x)
    assert reverse.tolist() == [[[1, 1, 0, 0], [1, 1, 0, 0], [0] * 4, [0] * 4]]
    tangent = ad.arange(16.0).reshape(1, 4, 4)
    _, forward = ad.jvp(lambda x: F.max_pool2d(x, 3, stride=1), (x,), (tangent,))
    assert forward.tolist() == [[[0, 1], [4, 5]]]


@pytest.mark.parametrize("pool", [F.max_pool2d, ad.compile(lambda x, k: F.max_pool2d(x, k))])
def test_nan_is_larger_than_everything(pool: Callable[..., Any]) -> None:
    x = ad.tensor([[[NAN, INFINITY], [1.0, NAN]]])
    assert np.isnan(pool(x, 2).item())


def test_the_last_nan_of_a_window_is_chosen_as_in_pytorch() -> None:
    x = ad.tensor([[[NAN, INFINITY, NAN, 0.0]]])
    assert F.max_pool2d(x, (1, 4), return_indices=True)[1].item() == 2
    large = ad.full((1, 8, 8), NAN)
    assert F.max_pool2d(large, 8, return_indices=True)[1].item() == 63
    for size in (1, 3):  # windows that divide the plane, and others
        pool = lambda x, size=size: F.adaptive_max_pool2d(x, size, return_indices=True)[1]
        assert pool(large)[0, -1, -1].item() == 63
        assert ad.equal(pool(large), ad.compile(pool)(large))


def test_padding_is_below_minus_infinity() -> None:
    x = ad.full((1, 1, 4), -INFINITY)
    values, indices = F.max_pool2d(x, (1, 2), padding=(0, 1), return_indices=True)
    assert indices.tolist() == [[[0, 1, 3]]]
    assert np.isneginf(values.numpy()).all()


def test_integers_are_pooled() -> None:
    x = ad.tensor([[[-128, -128], [-128, -128]]], dtype=ad.int8)
    values, indices = F.max_pool2d(x, 2, padding=1, return_indices=True)
    assert values.dtype is ad.int8
    assert indices.tolist() == [[[0, 1], [2, 3]]]
    means = F.avg_pool2d(ad.tensor([[[-3, -4], [0, 0]]]), 2)
    assert means.dtype is ad.int64
    assert means.tolist() == [[[-1]]]


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
def test_narrow_floats_are_summed_in_float32(dtype: ad.DType) -> None:
    x = ad.full((1, 64, 64), 1.01, dtype=dtype)
    for pooled in (F.avg_pool2d(x, 64), F.adaptive_avg_pool2d(x, 1), F.avg_pool2d(x, (64, 1))):
        assert pooled.dtype is dtype
        assert (pooled == x[0, 0, 0]).all()


# --- zeros, and infinite derivatives beside them -------------------------------------------------


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.max_pool2d(x, 2, return_indices=True)[0],
        lambda x: F.max_pool3d(x.unsqueeze(0), (1, 2, 2)),
        lambda x: F.adaptive_max_pool2d(x, 1),
        lambda x: F.avg_pool2d(x[:, :1], 1, stride=2),
    ],
)
def test_elements_that_are_not_chosen_have_no_gradient(pool: Callable[..., Any]) -> None:
    x = ad.tensor([[[4.0, 0.0], [0.0, 0.0]]])
    assert ad.grad(lambda x: pool(x.sqrt()).sum())(x).tolist() == [[[0.25, 0], [0, 0]]]


@pytest.mark.parametrize("norm", [1, 2, 3, 1.5])
def test_norm_of_zeros_has_a_finite_gradient(norm: float) -> None:
    x = ad.tensor([[0.0, 0.0, 3.0, 4.0]], dtype=ad.float64)
    gradient = ad.grad(lambda x: F.lp_pool1d(x, norm, 2).sum())(x)
    assert gradient[0, :2].tolist() == ([1.0, 1.0] if norm == 1 else [0.0, 0.0])
    total = 3.0**norm + 4.0**norm
    expected = np.array([3.0, 4.0]) ** (norm - 1) * total ** (1 / norm - 1)
    assert np.allclose(gradient[0, 2:].numpy(), expected)


# --- layouts and batches -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.max_pool2d(x, 2, return_indices=True)[1],
        lambda x: F.avg_pool2d(x, 3, 2, 1),
        lambda x: F.adaptive_avg_pool2d(x, (2, 5)),
        lambda x: F.adaptive_avg_pool2d(x, 3),
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=(4, 5)),
        lambda x: ad.grad(lambda x: (F.max_pool2d(x, 3, 1, 1) ** 2).sum())(x),
        lambda x: ad.grad(lambda x: (F.avg_pool2d(x, 3, 1, 1) ** 2).sum())(x),
        lambda x: ad.grad(lambda x: (F.adaptive_avg_pool2d(x, 3) ** 2).sum())(x),
    ],
)
def test_channels_last_is_kept(pool: Callable[..., Any]) -> None:
    x = image(2, 3, 4, 5)
    expected, got = pool(x), pool(channels_last(x))
    assert np.allclose(expected.numpy(), got.numpy())
    assert expected.is_contiguous()
    assert np.moveaxis(got.numpy(), 1, -1).flags.c_contiguous


def test_vmap_refuses_samples_without_channels() -> None:
    with pytest.raises(ShapeError, match="3 without a batch; got 4×5"):
        ad.vmap(lambda x: F.max_pool2d(x, 2))(image(3, 4, 5))


def test_unpooling_writes_the_last_of_repeated_indices_in_both_modes() -> None:
    indices = ad.tensor([[[1, 1]]])
    x = ad.tensor([[[5.0, 7.0]]])
    unpool = lambda x: ad.ops.max_unpool2d(x, indices, (1, 3))
    assert unpool(x).tolist() == [[[0, 7, 0]]]
    assert ad.grad(lambda x: unpool(x).sum())(x).tolist() == [[[0, 1]]]
    assert ad.jvp(unpool, (x,), (ad.tensor([[[2.0, 3.0]]]),))[1].tolist() == [[[0, 3, 0]]]


def test_fractional_windows_stay_inside_and_reach_the_end() -> None:
    x = ad.arange(81.0).reshape(1, 9, 9)
    values, indices = F.fractional_max_pool2d(x, 3, output_ratio=(0.5, 0.5), return_indices=True)
    assert values.shape == (1, 4, 4)
    assert values[0, -1, -1].item() == 80
    assert (x.reshape(-1)[indices] == values).all()


# --- geometry that cannot be ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: F.max_pool2d(x, 6), ShapeError, "do not fit into 4×5; use a smaller kernel"),
        (lambda x: F.max_pool2d(x, 3, padding=2), ValueRangeError, "half of kernel_size"),
        (lambda x: F.max_pool2d(x, 2, padding=-1), ValueRangeError, "between 0 and half"),
        (lambda x: F.max_pool2d(x, 2, stride=0), ValueRangeError, "stride must be at least 1"),
        (lambda x: F.max_pool2d(x, 0), ValueRangeError, "kernel_size must be at least 1"),
        (lambda x: F.max_pool2d(x, 2, dilation=0), ValueRangeError, "dilation must be"),
        (lambda x: F.max_pool2d(x, (2, 2, 2)), ShapeError, "kernel_size must be a number, or 2"),
        (lambda x: F.max_pool2d(x[0, 0], 2), ShapeError, "or 3 without a batch; got 4×5"),
        (lambda x: F.max_pool2d(x[:, :0], 2), ShapeError, "only the batch may be empty"),
        (lambda x: F.max_pool2d(x > 0, 2), DtypeError, "pools real numbers, got"),
        (lambda x: F.max_pool1d(x[0, 0], 6), ShapeError, "max_pool1d: windows of"),
        (lambda x: F.max_pool1d(x, 2), ShapeError, "max_pool1d: the input needs 3 dimensions"),
        (lambda x: F.avg_pool2d(x, 2, divisor_override=0), ValueRangeError, "must not be 0"),
        (lambda x: F.avg_pool2d(x.to(ad.int32), 2), DtypeError, "real numbers or int64"),
        (lambda x: F.avg_pool1d(x[0, 0, 0], 2), ShapeError, "avg_pool1d: the input needs"),
        (lambda x: F.adaptive_avg_pool2d(x, -1), ValueRangeError, "must lie between 0"),
        (lambda x: ad.ops.adaptive_avg_pool2d(x, (2,)), ShapeError, "output_size needs 2 numbers"),
        (lambda x: F.adaptive_avg_pool2d(x[..., :0], 2), ShapeError, "dimension 3 of the input"),
        (lambda x: F.adaptive_avg_pool2d(x[0, 0], (2, 2)), ValueRangeError, "has no channels"),
        (lambda x: F.adaptive_max_pool2d(x.long(), 2), DtypeError, "real numbers"),
        (lambda x: F.fractional_max_pool2d(x, 2), ArgumentError, "give output_size"),
        (lambda x: F.fractional_max_pool2d(x, 2, output_ratio=1.5), ValueRangeError, "0 and 1"),
        (lambda x: F.fractional_max_pool2d(x, 2, output_size=5), ShapeError, "do not fit into"),
        (
            lambda x: ad.ops.fractional_max_pool2d(x, 2, 2, ad.rand(2, 3, 3, dtype=x.dtype)),
            ShapeError,
            "random_samples must be 2×3×2",
        ),
        (
            lambda x: ad.ops.fractional_max_pool2d(x, 2, 2, ad.rand(2, 3, 2, dtype=ad.float32)),
            DtypeError,
            "the dtype of the input",
        ),
    ],
)
def test_geometry_that_cannot_be_is_refused(
    call: Callable[..., Any], kind: type[Exception], message: str
) -> None:
    x = image(2, 3, 4, 5)
    before = x.clone()
    with pytest.raises(kind, match=message):
        call(x)
    with pytest.raises(kind, match=message):
        ad.compile(call)(x)
    assert (x == before).all()


INDICES = ad.zeros(1, 1, 2, 2, dtype=ad.int64)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: F.max_unpool2d(x, INDICES + 16, 2), IndexOutOfRange, "index 16 is out of range"),
        (lambda x: F.max_unpool2d(x, INDICES - 1, 2), IndexOutOfRange, "max_unpool2d: index -1"),
        (lambda x: F.max_unpool2d(x, INDICES.int(), 2), DtypeError, "indices must be int64"),
        (lambda x: F.max_unpool2d(x, INDICES[..., :1], 2), ShapeError, "indices must be 1×1×2×2"),
        (lambda x: F.max_unpool2d(x, INDICES, 2, output_size=(9, 9)), ValueRangeError, "a stride"),
        (lambda x: F.max_unpool2d(x, INDICES, 2, output_size=(4,)), ValueRangeError, "2 numbers"),
        (lambda x: ad.ops.max_unpool2d(x, INDICES, (4, 4, 4)), ShapeError, "leave out batch"),
        (
            lambda x: ad.ops.max_unpool3d(x, INDICES, (1, 4, 4), (0, 2, 2), (0, 0, 0)),
            ValueRangeError,
            "stride needs 3 numbers",
        ),
        (
            lambda x: ad.ops.max_pool2d_with_indices_backward(
                x, ad.ones(1, 1, 4, 4), 2, 2, 0, 1, False, INDICES + 99
            ),
            IndexOutOfRange,
            "max_pool2d_with_indices_backward: index 99",
        ),
        (
            lambda x: ad.ops.max_pool2d_with_indices_backward(
                x, ad.ones(1, 1, 6, 4), 2, 2, 0, 1, False, INDICES
            ),
            ShapeError,
            "grad_output must be 1×1×3×2",
        ),
        (
            lambda x: ad.ops._adaptive_avg_pool2d_backward(x, ad.ones(1, 2, 4, 4)),
            ShapeError,
            "the channels of the input",
        ),
    ],
)
def test_indices_that_cannot_be_are_refused(
    call: Callable[..., Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        call(ad.ones(1, 1, 2, 2))


# --- vendors -------------------------------------------------------------------------------------


def test_ctc_of_vendors_has_no_gradient_where_there_is_no_way() -> None:
    log_probs = image(2, 1, 3)
    text = (ad.tensor([[1, 1]]), (2,), (2,))
    loss, gradient = ad.ops.miopen_ctc_loss(log_probs, *text, 0, False, True)
    assert loss.item() == INFINITY
    assert (gradient == 0).all()


def test_pooling_along_a_long_dimension_takes_time_in_proportion() -> None:
    x = ad.arange(300_000.0).reshape(1, -1)
    assert ad.equal(F.max_pool1d(x, 3, padding=1)[0, 1:], ad.arange(4.0, 300_000.0, 3.0))


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.avg_pool2d(x, (2**62, 2)),
        lambda x: F.avg_pool2d(x, 2, (1, 2**61)),
        lambda x: F.avg_pool2d(x, 2, padding=(2**62, 0)),
        lambda x: F.lp_pool2d(x, 2.0, 2**62),
        lambda x: F.adaptive_avg_pool2d(x, 2**61),
        lambda x: F.adaptive_max_pool2d(x, 2**61),
    ],
)
def test_windows_of_absurd_sizes_are_refused(pool: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueRangeError, match=str(2**31 - 1)):
        pool(ad.ones(1, 2, 4, 4))


@pytest.mark.parametrize("dims", [2, 3])
def test_maxima_keep_channels_last_without_a_batch(dims: int) -> None:
    form = ad.channels_last if dims == 2 else ad.channels_last_3d
    pool = F.max_pool2d if dims == 2 else F.max_pool3d
    x = ad.arange(3.0 * 4**dims).reshape(1, 3, *(4,) * dims)
    image = x.to(memory_format=form).squeeze(0)
    for found, wanted in zip(
        pool(image, 2, return_indices=True), pool(x[0], 2, return_indices=True), strict=True
    ):
        assert found.unsqueeze(0).is_contiguous(memory_format=form)
        assert ad.equal(found, wanted)

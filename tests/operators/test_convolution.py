"""Convolutions: what was asked for where geometry is impossible, and equations between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.core.errors import DtypeError, ShapeError, ValueRangeError

F = ad.nn.functional


def normal(*shape: int, dtype: Any = ad.float64) -> ad.Tensor:
    return ad.randn(*shape, dtype=dtype, generator=ad.Generator().manual_seed(sum(shape)))


IMPOSSIBLE: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "channels": (ShapeError, "needs an input of 2 channels", lambda: F.conv1d(
        normal(1, 3, 5), normal(4, 2, 3))),
    "window": (ShapeError, "a window of 5 elements", lambda: F.conv1d(
        normal(1, 3, 4), normal(4, 3, 3), dilation=2)),
    "groups": (ShapeError, "groups=3 must divide", lambda: F.conv1d(
        normal(1, 3, 5), normal(4, 1, 3), groups=3)),
    "no groups": (ValueRangeError, "groups must be at least 1", lambda: F.conv1d(
        normal(1, 3, 5), normal(4, 3, 3), groups=0)),
    "dimensions": (ShapeError, "or 3 without a batch", lambda: F.conv2d(
        normal(3, 5), normal(4, 3, 3, 3))),
    "stride": (ValueRangeError, "stride must be from 1 to", lambda: F.conv1d(
        normal(1, 3, 5), normal(4, 3, 3), stride=0)),
    "padding": (ValueRangeError, "padding must be from 0 to", lambda: F.conv1d(
        normal(1, 3, 5), normal(4, 3, 3), padding=-1)),
    "far": (ValueRangeError, "dilation must be from 1 to 16777216", lambda: F.conv1d(
        normal(1, 3, 5), normal(4, 3, 3), dilation=1 << 40)),
    "how many": (ShapeError, "has 3 numbers", lambda: ad.ops.convolution(
        normal(1, 3, 5, 5), normal(4, 3, 3, 3), None, (1, 1, 1), (0,), (1,), False, (0,), 1)),
    "bias": (ShapeError, "one number for each of 4 channels", lambda: F.conv1d(
        normal(1, 3, 5), normal(4, 3, 3), normal(3))),
    "output_padding": (ValueRangeError, "smaller than stride or dilation", lambda: (
        F.conv_transpose1d(normal(1, 3, 5), normal(3, 4, 3), output_padding=1))),
    "nothing left": (ShapeError, "takes all elements off", lambda: F.conv_transpose1d(
        normal(1, 3, 1), normal(3, 4, 3), padding=2)),
    "same with stride": (ValueRangeError, "needs stride 1", lambda: F.conv1d(
        normal(1, 3, 5), normal(4, 3, 3), padding="same", stride=2)),
    "mode": (ValueRangeError, "'valid' or 'same'", lambda: F.conv1d(
        normal(1, 3, 5), normal(4, 3, 3), padding="full")),
    "dtype": (DtypeError, "a convolution does not convert", lambda: F.conv1d(
        normal(1, 3, 5), normal(4, 3, 3, dtype=ad.float32))),
    "bool": (DtypeError, "no product of bool", lambda: F.conv1d(
        ad.ones(1, 3, 5, dtype=ad.bool), ad.ones(4, 3, 3, dtype=ad.bool))),
    "empty": (ShapeError, "spatial sizes of the input", lambda: F.conv1d(
        normal(1, 3, 0), normal(4, 3, 3), padding=2)),
    "gradient": (ShapeError, "has the shape 1×4×3", lambda: ad.ops.convolution_backward(
        normal(1, 4, 5), normal(1, 3, 5), normal(4, 3, 3), None, (1,), (0,), (1,), False, (0,), 1,
        (True, True, True))),
    "no room": (ShapeError, "no room for a window of 3×3", lambda: F.unfold(
        normal(1, 2, 2, 5), 2, dilation=2)),
    "columns": (ShapeError, "at 9 = 3×3 places; got 8×8", lambda: F.fold(
        normal(1, 8, 8), (4, 4), (2, 2))),
    "kernel_size": (ShapeError, "kernel_size=\\(3, 3\\) is not that of the weight", lambda: (
        ad.ops.thnn_conv2d(normal(1, 2, 4, 4), normal(3, 2, 2, 2), (3, 3)))),
    "one group": (ShapeError, "needs an input of 1 channels", lambda: ad.ops.slow_conv_dilated2d(
        normal(1, 2, 4, 4), normal(2, 1, 2, 2), (2, 2))),
    "in time": (ShapeError, "needs an input \\(time, batch, channels\\)", lambda: F.conv_tbc(
        normal(4, 2), normal(2, 2, 3), normal(3))),
}  # fmt: skip


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_impossible_geometry_says_why(case: str) -> None:
    error, words, call = IMPOSSIBLE[case]
    with pytest.raises(error, match=words):
        call()


def test_gradients_of_a_masked_output_are_none() -> None:
    x, w = normal(1, 3, 5), normal(4, 3, 3)
    found = ad.ops.convolution_backward(
        normal(1, 4, 3), x, w, None, (1,), (0,), (1,), False, (0,), 1, (False, True, False)
    )
    assert [g is None for g in found] == [True, False, True]
    assert found[1].shape == w.shape


def test_a_frozen_weight_does_not_keep_the_input() -> None:
    x, w = normal(1, 3, 5).requires_grad_(), normal(4, 3, 3)
    y = F.conv1d(x, w)
    x2 = x.detach()
    x2.zero_()  # nobody kept it: the gradient of x needs the weight alone
    y.sum().backward()
    assert x.grad is not None


def test_channels_last_are_kept() -> None:
    x, w = normal(2, 3, 5, 6), normal(4, 3, 3, 3)
    wanted = F.conv2d(x, w, padding=1)
    last = ad.channels_last
    for given in ((x.to(memory_format=last), w), (x, w.to(memory_format=last))):
        found = F.conv2d(*given, padding=1)
        assert found.is_contiguous(memory_format=last)
        assert ad.allclose(found, wanted)
    assert wanted.is_contiguous()
    up = F.conv_transpose2d(x.to(memory_format=last), normal(3, 4, 2, 2), stride=2)
    assert up.is_contiguous(memory_format=last)
    assert ad.allclose(up, F.conv_transpose2d(x, normal(3, 4, 2, 2), stride=2))


def test_channels_last_are_kept_in_three_dimensions() -> None:
    x, w = normal(2, 3, 4, 3, 2), normal(4, 3, 2, 2, 1)
    found = F.conv3d(x.to(memory_format=ad.channels_last_3d), w)
    assert found.is_contiguous(memory_format=ad.channels_last_3d)
    assert ad.allclose(found, F.conv3d(x, w))


@pytest.mark.parametrize("dtype", [ad.complex128, ad.int64, ad.float16])
def test_channels_last_are_kept_in_every_dtype(dtype: Any) -> None:
    x = (normal(2, 3, 5, 6) * 3).round().to(dtype)
    w = (normal(4, 3, 3, 3) * 3).round().to(dtype)
    found = F.conv2d(x.to(memory_format=ad.channels_last), w)
    assert found.is_contiguous(memory_format=ad.channels_last)
    assert ad.equal(found, F.conv2d(x, w))


def test_a_stride_between_no_two_windows_does_not_count() -> None:
    x, w = normal(1, 2, 5).requires_grad_(), normal(3, 2, 4)
    far = F.conv1d(x, w, stride=1 << 24)
    assert ad.equal(far, F.conv1d(x, w)[:, :, :1])
    (grad,) = ad.autograd.grad(far.sum(), x)
    assert ad.allclose(grad[0, :, :4], w.sum(0))


@pytest.mark.parametrize("dtype", [ad.float32, ad.complex64])
def test_a_convolution_of_no_channels_is_its_bias(dtype: Any) -> None:
    x, bias = ad.zeros(2, 0, 7, dtype=dtype, requires_grad=True), ad.ones(3, dtype=dtype)
    bias.requires_grad_()
    result = F.conv1d(x, ad.zeros(3, 0, 2, dtype=dtype), bias, stride=2)
    assert ad.equal(result, ad.ones(2, 3, 3, dtype=dtype))
    result.backward(ad.ones_like(result))
    assert x.grad.shape == x.shape
    assert bias.grad.tolist() == [6.0] * 3

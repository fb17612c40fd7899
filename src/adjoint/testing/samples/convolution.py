"""Samples of convolutions: strides, padding, dilation, groups, transposed, without a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import adjoint as ad
from adjoint.testing.samples import Make, Sample, sampler

Samples = Iterator[Sample]
FORWARD = (False, (0,))


@sampler("convolution")
def convolutions(make: Make) -> Samples:
    plain = ((1,), (0,), (1,))
    yield Sample(make(2, 2, 5), make(3, 2, 2), make(3), *plain, *FORWARD, 1, name="one dimension")
    yield Sample(
        make(2, 2, 4, 3), make(3, 2, 3, 2), None, (1, 1), (1, 0), (1, 1), False, (0, 0), 1,
        name="padded",
    )  # fmt: skip
    yield Sample(
        make(1, 2, 7, 5), make(2, 2, 2, 2), make(2), (2, 3), (1, 2), (2, 1), *FORWARD, 1,
        name="stride and dilation",
    )  # fmt: skip
    yield Sample(make(2, 4, 4), make(6, 2, 3), make(6), *plain, *FORWARD, 2, name="two groups")
    yield Sample(make(2, 3, 4, 4), make(3, 1, 2, 2), make(3), *plain, *FORWARD, 3, name="depthwise")
    yield Sample(make(1, 2, 4), make(4, 1, 2), None, *plain, *FORWARD, 2, name="two each")
    yield Sample(make(2, 3, 3), make(2, 3, 1), make(2), *plain, *FORWARD, 1, name="pointwise")
    yield Sample(
        make(1, 2, 3, 2, 3), make(2, 2, 2, 1, 2), None, (1,), (0, 1, 0), (1,), *FORWARD, 1,
        name="three dimensions",
    )  # fmt: skip
    yield Sample(
        make(5, 2, 2).transpose(0, 2), make(2, 3, 2).transpose(0, 1), None, *plain, *FORWARD, 1,
        name="non-contiguous",
    )  # fmt: skip
    yield Sample(make(0, 2, 4), make(3, 2, 2), make(3), *plain, *FORWARD, 1, name="empty batch")
    yield Sample(make(2, 2, 3), make(2, 3, 2), make(3), *plain, True, (0,), 1, name="transposed")
    yield Sample(
        make(1, 2, 2, 3), make(2, 1, 3, 2), make(2), (2, 3), (1, 0), (1, 2), True, (1, 0), 2,
        name="transposed with everything",
    )  # fmt: skip
    yield Sample(
        make(2, 2, 3), make(2, 2, 2), None, (2,), (0,), (3,), True, (2,), 1,
        name="transposed with much output padding",
    )  # fmt: skip
    yield Sample(
        make(1, 2, 5), make(2, 2, 2), None, (1,), (2,), (1,), True, (0,), 1,
        name="transposed with much padding",
    )  # fmt: skip
    yield Sample(
        make(1, 2, 3), make(2, 2, 1), make(4), (1,), (0,), (3,), True, (1,), 2,
        name="transposed pointwise with output padding",
    )  # fmt: skip


def gradients(sample: Sample) -> Any:
    """The shape of the result of a `convolution`, for a gradient of it."""
    return ad.ops.convolution(*sample.args).shape


@sampler("_convolution_weight_backward")
def weight_gradients(make: Make) -> Samples:
    for sample in convolutions(make):
        input, weight, _, *rest = sample.args
        yield Sample(make(*gradients(sample)), input, tuple(weight.shape), *rest, name=sample.name)


@sampler("_convolution_input_backward")
def input_gradients(make: Make) -> Samples:
    for sample in convolutions(make):
        input, weight, _, stride, padding, dilation, transposed, _, groups = sample.args
        yield Sample(
            make(*gradients(sample)), weight, tuple(input.shape), stride, padding, dilation,
            transposed, groups, name=sample.name,
        )  # fmt: skip


@sampler("convolution_backward")
def backwards(make: Make) -> Samples:
    every = (True, True, True)
    plain = ((1,), (0,), (1,), False, (0,), 1)
    yield Sample(make(2, 3, 3), make(2, 2, 4), make(3, 2, 2), (3,), *plain, every, name="plain")
    yield Sample(
        make(1, 2, 2, 3), make(1, 2, 5, 4), make(2, 1, 2, 2), None, (2, 2), (0, 1), (2, 1), False,
        (0, 0), 2, (True, True, False), name="everything",
    )  # fmt: skip
    yield Sample(
        make(2, 2, 8), make(2, 2, 3), make(2, 2, 3), (2,), (2,), (0,), (1,), True, (1,), 1, every,
        name="transposed",
    )  # fmt: skip
    yield Sample(
        make(2, 3, 3), make(2, 2, 4), make(3, 2, 2), (3,), *plain, (False, True, False),
        name="weight alone",
    )  # fmt: skip
    yield Sample(make(0, 3, 3), make(0, 2, 4), make(3, 2, 2), (3,), *plain, every, name="empty")


@sampler("_convolution_double_backward")
def double_backwards(make: Make) -> Samples:
    given = (make(1, 2, 3, 3), make(2, 2, 2, 2), make(2))
    at = (make(1, 2, 2, 2), make(2, 2, 2, 2), make(1, 2, 3, 3))
    how = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    yield Sample(*given, *at, *how, (True, True, True), name="all")
    yield Sample(None, given[1], None, *at, *how, (True, True, True), name="of the weight")
    up = ((2,), (0,), (1,), True, (1,), 2)
    yield Sample(
        make(1, 2, 3), None, make(2), make(1, 2, 7), make(2, 1, 2), make(1, 2, 3), *up,
        (True, False, True), name="transposed",
    )  # fmt: skip


@sampler("conv1d")
def conv1ds(make: Make) -> Samples:
    yield Sample(make(2, 2, 5), make(3, 2, 2), make(3), name="plain")
    yield Sample(make(2, 5), make(3, 2, 2), make(3), 2, 1, name="without a batch")
    yield Sample(make(1, 4, 5), make(2, 2, 2), None, 1, 0, 2, 2, name="dilated groups")


@sampler("conv2d")
def conv2ds(make: Make) -> Samples:
    yield Sample(make(2, 2, 3, 4), make(3, 2, 2, 2), make(3), name="plain")
    yield Sample(make(2, 3, 4), make(2, 2, 2, 3), None, (2, 1), (0, 1), name="without a batch")
    yield Sample(make(1, 2, 4, 4), make(2, 1, 2, 2), None, 1, 1, 2, 2, name="dilated depthwise")


@sampler("conv3d")
def conv3ds(make: Make) -> Samples:
    yield Sample(make(1, 2, 3, 2, 2), make(2, 2, 2, 1, 2), make(2), name="plain")
    yield Sample(make(2, 2, 2, 3), make(2, 2, 1, 2, 2), None, 1, (0, 0, 1), name="without a batch")


@sampler("conv1d.padding")
def conv1d_modes(make: Make) -> Samples:
    yield Sample(make(2, 2, 4), make(3, 2, 3), make(3), 1, "same", name="same")
    yield Sample(make(2, 4), make(3, 2, 2), None, 1, "same", 3, name="same with an odd one")
    yield Sample(make(2, 2, 4), make(3, 2, 2), None, 2, "valid", name="valid")


@sampler("conv2d.padding")
def conv2d_modes(make: Make) -> Samples:
    yield Sample(make(1, 2, 3, 3), make(2, 2, 2, 3), make(2), 1, "same", name="same")
    yield Sample(make(2, 3, 4), make(2, 2, 2, 2), None, 1, "valid", name="valid")


@sampler("conv3d.padding")
def conv3d_modes(make: Make) -> Samples:
    yield Sample(make(1, 1, 2, 3, 2), make(2, 1, 2, 1, 3), None, 1, "same", name="same")


@sampler("conv_transpose1d")
def conv_transpose1ds(make: Make) -> Samples:
    yield Sample(make(2, 2, 3), make(2, 3, 2), make(3), name="plain")
    yield Sample(make(2, 3), make(2, 2, 3), make(4), 2, 1, 1, 2, name="without a batch")
    yield Sample(make(1, 2, 3), make(2, 1, 2), None, 1, 0, 0, 1, 2, name="dilated")


@sampler("conv_transpose2d.input")
def conv_transpose2ds(make: Make) -> Samples:
    yield Sample(make(1, 2, 2, 3), make(2, 2, 2, 2), make(2), name="plain")
    yield Sample(make(2, 2, 3), make(2, 1, 3, 2), None, (2, 1), 1, (1, 0), 2, name="groups")


@sampler("conv_transpose3d.input")
def conv_transpose3ds(make: Make) -> Samples:
    yield Sample(make(1, 2, 1, 2, 2), make(2, 2, 2, 1, 2), make(2), 2, name="plain")
    yield Sample(make(2, 2, 1, 2), make(2, 1, 1, 2, 2), None, name="without a batch")


# --- other names ---------------------------------------------------------------------------------


@sampler("_convolution_mode")
def convolution_modes(make: Make) -> Samples:
    yield Sample(make(1, 2, 4), make(2, 2, 2), make(2), (1,), "same", (1,), 1, name="same")
    yield Sample(make(1, 2, 4), make(2, 1, 2), None, (2,), "valid", (1,), 2, name="valid")


@sampler("thnn_conv2d", "_slow_conv2d_forward")
def slow_conv2ds(make: Make) -> Samples:
    yield Sample(make(1, 2, 4, 3), make(3, 2, 2, 2), (2, 2), make(3), (2, 1), (1, 0), name="plain")
    yield Sample(make(1, 2, 2, 3), make(2, 2, 2, 1), (2, 1), None, (1, 1), (0, 0), name="no bias")


@sampler("slow_conv3d", "slow_conv3d_forward")
def slow_conv3ds(make: Make) -> Samples:
    k = (2, 1, 2)
    yield Sample(
        make(1, 2, 3, 2, 2), make(2, 2, *k), k, make(2), (1, 1, 1), (0, 0, 1), name="plain"
    )
    yield Sample(
        make(1, 2, 3, 2, 2), make(2, 1, *k), k, None, (2, 1, 1), (0, 0, 0), name="two groups"
    )


@sampler("slow_conv_dilated2d")
def dilated_conv2ds(make: Make) -> Samples:
    how = ((2, 2), make(2), (1, 1), (1, 0), (2, 1))
    yield Sample(make(1, 2, 3, 3), make(2, 2, 2, 2), *how, name="plain")


@sampler("slow_conv_dilated3d")
def dilated_conv3ds(make: Make) -> Samples:
    how = ((1, 2, 2), make(2), (1, 1, 1), (0, 1, 0), (1, 2, 1))
    yield Sample(make(1, 2, 2, 2, 3), make(2, 2, 1, 2, 2), *how, name="plain")


@sampler("_conv_depthwise2d")
def depthwise_conv2ds(make: Make) -> Samples:
    how = ((2, 2), make(2), (1, 1), (1, 0), (2, 1))
    yield Sample(make(1, 2, 3, 3), make(2, 1, 2, 2), *how, name="depthwise")


@sampler("conv_depthwise3d")
def depthwise_conv3ds(make: Make) -> Samples:
    how = ((1, 2, 2), make(2), (1, 1, 1), (0, 1, 0), (1, 2, 1))
    yield Sample(make(1, 2, 2, 2, 3), make(2, 1, 1, 2, 2), *how, name="depthwise")


@sampler("slow_conv_transpose2d")
def slow_conv_transpose2ds(make: Make) -> Samples:
    how = ((2, 2), make(3), (2, 1), (1, 0), (1, 0), (1, 2))
    yield Sample(make(1, 2, 2, 3), make(2, 3, 2, 2), *how, name="plain")


@sampler("slow_conv_transpose3d")
def slow_conv_transpose3ds(make: Make) -> Samples:
    yield Sample(make(1, 2, 2, 1, 2), make(2, 2, 1, 2, 2), (1, 2, 2), make(2), name="plain")


@sampler("conv_tbc")
def convolutions_in_time(make: Make) -> Samples:
    yield Sample(make(4, 2, 2), make(2, 2, 3), make(3), name="plain")
    yield Sample(make(4, 1, 2), make(3, 2, 2), make(2), 1, name="padded")


@sampler("conv_tbc_backward")
def convolution_in_time_backwards(make: Make) -> Samples:
    yield Sample(make(5, 2, 3), make(4, 2, 2), make(2, 2, 3), make(3), 1, name="padded")


# --- windows as columns --------------------------------------------------------------------------


@sampler("im2col")
def images(make: Make) -> Samples:
    yield Sample(make(2, 2, 3, 4), (2, 3), (1, 1), (0, 0), (1, 1), name="plain")
    yield Sample(make(1, 2, 5, 4), (2, 2), (3, 1), (1, 0), (1, 2), name="everything")
    yield Sample(make(2, 3, 3), (2, 1), (1, 1), (0, 1), (2, 1), name="without a batch")
    yield Sample(make(0, 2, 3, 3), (2, 2), (1, 1), (0, 0), (1, 1), name="empty")
    yield Sample(make(3, 2, 3, 2).transpose(0, 3), (2, 2), 1, 0, 1, name="non-contiguous")


@sampler("col2im")
def columns_of_images(make: Make) -> Samples:
    yield Sample(make(2, 8, 6), (3, 4), (2, 2), (1, 1), (0, 0), (1, 1), name="plain")
    yield Sample(make(1, 4, 8), (5, 4), (2, 2), (3, 1), (1, 0), (1, 2), name="everything")
    yield Sample(make(4, 4), (3, 2), (2, 1), (1, 1), (1, 0), (2, 1), name="without a batch")
    yield Sample(make(0, 8, 4), (3, 3), (2, 2), (1, 1), (0, 0), (1, 1), name="empty")

"""Padding: transposes, batches, errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ShapeError

F = ad.nn.functional
MODES = ("constant", "reflect", "replicate", "circular")


@pytest.mark.parametrize("mode", MODES)
def test_vmap_pads_samples_and_never_the_batch(mode: str) -> None:
    x = ad.arange(24, dtype=ad.float32).reshape(2, 3, 4)
    got = ad.vmap(lambda x: F.pad(x, (1, 2), mode))(x)
    expected = np.stack([F.pad(sample, (1, 2), mode).numpy() for sample in x])
    assert np.array_equal(got.numpy(), expected)
    with pytest.raises(ShapeError):
        ad.vmap(lambda x: F.pad(x, (1, 1), mode))(ad.ones(3))


@pytest.mark.parametrize("dtype", [ad.bool, ad.int64, ad.float16, ad.complex64])
def test_constant_pad_keeps_the_dtype(dtype: ad.DType) -> None:
    x = ad.ones(2, dtype=dtype)
    assert F.pad(x, (1, 1), value=1.0).dtype is dtype
    assert F.pad(x, (1, 0)).tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: F.pad(x, (1,)), "holds pairs"),
        (lambda x: F.pad(x, (1, 1) * 4), "4 dimensions, and the input has 3"),
        (lambda x: F.pad(x, (-3, -2)), "takes 5 elements off"),
        (lambda x: F.pad(x, (4, 0), "reflect"), "at most 3"),
        (lambda x: F.pad(x, (5, 0), "circular"), "at most 4"),
        (lambda x: F.pad(x[..., :0], (1, 0), "replicate"), "only the batch may be empty"),
        (lambda x: F.pad(x, (1, 1), "mirror"), "there are 'reflect'"),
        (lambda x: F.pad(x, (1, 1), "reflect", 2.0), "only 'constant'"),
        (lambda x: F.pad(x, (1, 1, 1, 1, 1, 1), "reflect"), "5, or 4 without a batch"),
        (lambda x: ad.ops.reflection_pad1d(x, (1, 1, 1, 1)), "needs 2 numbers"),
        (lambda x: ad.ops.reflection_pad1d_backward(x, x, (1, 1)), "the padded shape"),
    ],
)
def test_padding_errors(call: Callable[[ad.Tensor], ad.Tensor], message: str) -> None:
    with pytest.raises(ad.AdjointError, match=message):
        call(ad.ones(2, 3, 4))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("widths", [(0, 0), (-1, -1)])
def test_padded_tensors_have_memory_of_their_own(mode: str, widths: tuple[int, int]) -> None:
    x = ad.zeros(1, 1, 4, 4)
    ad.nn.functional.pad(x, (0, 0, *widths), mode=mode).fill_(4.0)
    assert x.sum().item() == 0.0


def test_constant_padding_keeps_channels_last() -> None:
    x = ad.ones(2, 3, 4, 5).to(memory_format=ad.channels_last)
    padded = ad.nn.functional.pad(x, (1, 2, 1, 0))
    assert padded.is_contiguous(memory_format=ad.channels_last)
    assert padded.shape == (2, 3, 5, 8)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padding_with_own_elements_keeps_channels_last(mode: str) -> None:
    x = ad.arange(120.0).reshape(2, 3, 4, 5)
    padded = F.pad(x.to(memory_format=ad.channels_last), (1, 2, 1, 0), mode)
    assert padded.is_contiguous(memory_format=ad.channels_last)
    assert ad.equal(padded, F.pad(x, (1, 2, 1, 0), mode))


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padding_with_own_elements_needs_some(mode: str) -> None:
    assert F.pad(ad.zeros(0, 3, 4), (1, 1), mode).shape == (0, 3, 6)  # the batch may be empty
    with pytest.raises(ShapeError, match="only the batch may be empty"):
        F.pad(ad.zeros(3, 0, 4), (1, 1), mode)
    with pytest.raises(ShapeError, match="leaves nothing of dimension 2"):
        F.pad(ad.zeros(1, 1, 4), (-2, -2), mode)

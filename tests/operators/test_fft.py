"""Fourier transforms: dtypes, sizes, conventions of derivatives, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad


def test_float32_stays_float32() -> None:
    x = ad.randn(4, 6)
    assert ad.fft.fft(x).dtype is ad.complex64
    assert ad.fft.rfft(x).dtype is ad.complex64
    assert ad.fft.irfft(ad.fft.rfft(x)).dtype is ad.float32
    x.requires_grad_()
    ad.fft.rfft2(x).abs().sum().backward()
    assert x.grad.dtype is ad.float32


def test_integers_become_the_default_float() -> None:
    assert ad.fft.fft(ad.tensor([1, 2, 3])).dtype is ad.complex64


def test_irfft_does_not_see_the_imaginary_part_of_the_mean() -> None:
    z = ad.randn(4, dtype=ad.complex128).requires_grad_()
    weights = ad.randn(6, dtype=ad.float64)
    (ad.fft.irfft(z) * weights).sum().backward()
    assert z.grad.numpy()[0].imag == 0
    assert abs(z.grad.numpy()[3].imag) < 1e-15
    assert abs(z.grad.numpy()[1].imag) > 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ad.fft.fft(x, norm="unit"), ValueError, "'ortho'"),
        (lambda x: ad.fft.fft(x, 0), ValueError, "0 points"),
        (lambda x: ad.fft.irfft(x[:1]), ValueError, "0 points"),
        (lambda x: ad.fft.rfft(x + 0j), TypeError, "real"),
        (lambda x: ad.fft.fftn(x, dim=(0, 0)), ValueError, "twice"),
        (lambda x: ad.fft.fftn(x, (2, 2)), ValueError, "more sizes"),
        (lambda x: ad.fft.rfftn(x, dim=()), ValueError, "at least one"),
        (lambda x: ad.fft.fft(x.half()), TypeError, "float32"),
        (lambda x: ad.fft.fft(x[0]), IndexError, "scalar"),
    ],
)
def test_bad_arguments_are_explained(call: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call(ad.ones(4))


def test_istft_inverts_stft() -> None:
    x = ad.randn(2, 20, dtype=ad.float64)
    window = ad.signal.windows.hann(8, sym=False, dtype=ad.float64)
    spectra = ad.stft(x, 8, 2, window=window, return_complex=True)
    assert spectra.shape == (2, 5, 11)
    back = ad.istft(spectra, 8, 2, window=window, length=20)
    assert np.allclose(back.numpy(), x.numpy(), atol=1e-12)
    with pytest.raises(ValueError, match="uncovered"):
        ad.istft(spectra, 8, 2, window=window, center=False)
    with pytest.raises(TypeError, match="return_complex"):
        ad.stft(x, 8)


@pytest.mark.parametrize(("n_fft", "hop", "length"), [(8, 3, 6), (9, 2, 4), (8, 3, 8), (8, 3, 1)])
def test_stft_aligned_to_the_window(n_fft: int, hop: int, length: int) -> None:
    """Piece k is signal[k·hop : k·hop + win_length], in the middle of n_fft points."""
    generator = np.random.default_rng(0)
    signal, window = generator.standard_normal(21), generator.standard_normal(length)
    got = ad.stft(
        ad.tensor(signal), n_fft, hop, length, ad.tensor(window), center=False,
        return_complex=True, align_to_window=True,
    ).numpy()  # fmt: skip
    count = 1 + (21 - length) // hop
    left = (n_fft - length) // 2
    room = np.zeros((count, n_fft))
    for k in range(count):
        room[k, left : left + length] = signal[k * hop : k * hop + length] * window
    assert np.allclose(got, np.fft.rfft(room).T)

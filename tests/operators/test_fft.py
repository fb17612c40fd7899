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


@pytest.mark.parametrize("n", [1, 2, 5, 6])
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_transforms_invert_each_other(n: int, norm: str | None) -> None:
    x = ad.randn(3, n, dtype=ad.float64)
    there_and_back = {
        "c": ad.fft.ifft(ad.fft.fft(x, norm=norm), norm=norm).real,
        "r": ad.fft.irfft(ad.fft.rfft(x, norm=norm), n, norm=norm),
        "h": ad.fft.hfft(ad.fft.ihfft(x, norm=norm), n, norm=norm),
    }
    for back in there_and_back.values():
        assert np.allclose(back.numpy(), x.numpy(), atol=1e-12)


def test_gradient_of_power_is_by_parseval() -> None:
    """Σ|fft(x)|² = n Σ|x|², so its gradient is 2 n x, for complex x as for real."""
    for dtype in (ad.float64, ad.complex128):
        x = ad.randn(5, dtype=dtype).requires_grad_()
        spectrum = ad.fft.fft(x)
        (spectrum * spectrum.conj()).real.sum().backward()
        assert np.allclose(x.grad.numpy(), 10 * x.detach().numpy())


def test_irfft_does_not_see_the_imaginary_part_of_the_mean() -> None:
    z = ad.randn(4, dtype=ad.complex128).requires_grad_()
    weights = ad.randn(6, dtype=ad.float64)
    (ad.fft.irfft(z) * weights).sum().backward()
    assert z.grad.numpy()[0].imag == 0
    assert abs(z.grad.numpy()[3].imag) < 1e-15
    assert abs(z.grad.numpy()[1].imag) > 0


def test_second_order_and_forward_mode_of_a_spectral_function() -> None:
    x = ad.randn(6, dtype=ad.float64)
    hessian = ad.hessian(lambda x: (ad.fft.rfft(x).abs() ** 2).sum())(x).numpy()
    half = np.fft.rfft(np.eye(6))
    assert np.allclose(hessian, 2 * (half @ half.conj().T).real, atol=1e-10)


def test_frequencies_and_shifts() -> None:
    for n in (1, 4, 5):
        assert np.allclose(ad.fft.fftfreq(n, 0.5).numpy(), np.fft.fftfreq(n, 0.5))
        assert np.allclose(ad.fft.rfftfreq(n, 0.5).numpy(), np.fft.rfftfreq(n, 0.5))
        x = ad.arange(n)
        assert ad.fft.ifftshift(ad.fft.fftshift(x)).tolist() == x.tolist()


def test_vmap_runs_one_transform() -> None:
    x = ad.randn(3, 4, 6, dtype=ad.float64)
    got = ad.vmap(lambda m: ad.fft.rfftn(m), in_dims=1)(x)
    assert np.allclose(got.numpy(), np.fft.rfftn(np.moveaxis(x.numpy(), 1, 0), axes=(1, 2)))


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

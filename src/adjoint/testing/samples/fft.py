"""Samples of Fourier transforms: odd and even sizes, padding, trimming, every norm."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import adjoint as ad
from adjoint.testing.samples import Make, Sample, sampler

Samples = Iterator[Sample]
NORMS = (None, "ortho", "forward")


@sampler("_fft_c2c")
def complex_to_complex(make: Make) -> Samples:
    if not make.is_complex:
        return
    yield Sample(make(5), (0,), 0, True, name="forward")
    yield Sample(make(2, 4), (1,), 1, False, name="backward")
    yield Sample(make(3, 4), (1, 0), 2, True, name="both")
    yield Sample(make(4, 3).t(), (-1,), 2, False, name="transposed")
    yield Sample(make(3), (), 1, True, name="no dimension")
    yield Sample(make(0, 3), (1,), 0, True, name="empty")


@sampler("_fft_r2c", real=True)
def real_to_complex(make: Make) -> Samples:
    for onesided in (True, False):
        kind = "half" if onesided else "whole"
        yield Sample(make(5), (0,), 0, onesided, name=f"odd {kind}")
        yield Sample(make(2, 4), (1,), 1, onesided, name=f"even {kind}")
        yield Sample(make(3, 4), (1, 0), 2, onesided, name=f"both {kind}")
    yield Sample(make(2, 1), (1,), 0, True, name="of one")
    yield Sample(make(0, 3), (1,), 0, True, name="empty")


@sampler("_fft_c2r")
def complex_to_real(make: Make) -> Samples:
    if not make.is_complex:
        return
    yield Sample(make(3), (0,), 0, 5, name="odd")
    yield Sample(make(2, 3), (1,), 1, 4, name="even")
    yield Sample(make(3, 4), (1, 0), 2, 5, name="both")
    yield Sample(make(2, 1), (-1,), 0, 1, name="of one")


@sampler("fft_fft", "fft_ifft", "fft_irfft", "fft_hfft")
def one_dimension(make: Make) -> Samples:
    for norm in NORMS:
        yield Sample(make(2, 4), norm=norm, name=f"norm {norm}")
    yield Sample(make(3, 5), 7, 0, name="padded")
    yield Sample(make(3, 6), 3, 1, name="trimmed")
    yield Sample(make(5, 2).t(), name="transposed")


@sampler("fft_rfft", "fft_ihfft", real=True)
def one_real_dimension(make: Make) -> Samples:
    yield from one_dimension(make)


def _sizes(make: Make) -> Samples:
    for norm in NORMS:
        yield Sample(make(3, 4), norm=norm, name=f"norm {norm}")
    yield Sample(make(3, 4), (4, 3), name="resized")
    yield Sample(make(3, 4), None, (0, 1), name="dimensions")
    yield Sample(make(2, 3, 4), (3, 3), (-1, 0), name="other dimensions")


@sampler(
    "fft_fft2",
    "fft_ifft2",
    "fft_irfft2",
    "fft_hfft2",
    "fft_fftn",
    "fft_ifftn",
    "fft_irfftn",
    "fft_hfftn",
)
def several_dimensions(make: Make) -> Samples:
    yield from _sizes(make)


@sampler("fft_rfft2", "fft_rfftn", "fft_ihfft2", "fft_ihfftn", real=True)
def several_real_dimensions(make: Make) -> Samples:
    yield from _sizes(make)


@sampler("fft_fftshift", reference=lambda self, dim=None: np.fft.fftshift(self, dim))
@sampler("fft_ifftshift", reference=lambda self, dim=None: np.fft.ifftshift(self, dim))
def shifts(make: Make) -> Samples:
    yield Sample(make(5), name="odd")
    yield Sample(make(3, 4), name="all")
    yield Sample(make(3, 4), (1,), name="one dimension")


@sampler("fft_fftfreq", "fft_rfftfreq")
def frequencies(make: Make) -> Samples:
    yield Sample(5, name="odd")
    yield Sample(4, 0.5, dtype=ad.float64, name="even")


@sampler("stft.center")
def centred_pieces(make: Make) -> Samples:
    window = make.positive(4)
    yield Sample(make(9), 4, 2, 4, window, return_complex=True, name="window")
    for mode in ("constant", "replicate", "circular"):
        yield Sample(make(2, 7), 4, pad_mode=mode, return_complex=True, name=mode)
    yield Sample(make(2, 8), 5, 3, 3, normalized=True, onesided=False, return_complex=True)
    options = dict(center=False, return_complex=True, align_to_window=True)
    yield Sample(make(2, 8), 6, 2, 3, make.positive(3), **options, name="aligned")


@sampler("stft")
def pieces(make: Make) -> Samples:
    yield Sample(make(9), 4, 2, return_complex=True, name="vector")
    yield Sample(make(2, 9), 4, 2, 3, make.positive(3), return_complex=False, name="as real")


@sampler("istft")
def from_pieces(make: Make) -> Samples:
    if not make.is_complex:
        return
    window = ad.tensor([0.5, 1.0, 0.8, 0.4], dtype=ad.float64)
    yield Sample(make(3, 5), 4, 2, window=window, name="half")
    yield Sample(make(2, 4, 5), 4, 1, center=False, normalized=True, name="whole")
    yield Sample(make(3, 5), 4, 2, length=6, name="length")
    yield Sample(make(4, 5), 4, 2, return_complex=True, onesided=False, name="complex")


@sampler("_require_cover")
def covers(make: Make) -> Samples:
    yield Sample(make(3), name="vector")
    yield Sample(make(), name="0-d")

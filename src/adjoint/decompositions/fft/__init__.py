"""Fourier transforms in terms of three primitives, and transforms of short pieces of a signal."""

from adjoint.decompositions.fft.frames import istft, stft, stft_center
from adjoint.decompositions.fft.transforms import (
    fft,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    hfftn,
    ifft,
    ifftn,
    ifftshift,
    ihfft,
    ihfftn,
    irfft,
    irfftn,
    rfft,
    rfftfreq,
    rfftn,
)

"""stft: the spectra of overlapping pieces of a signal. istft: the signal from them.

The signal is the last dimension, with at most one dimension in front.
"""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError
from adjoint.core.shapes import show

Tensor = Any


def _hop_and_length(
    what: str, n_fft: int, hop_length: int | None, win_length: int | None
) -> tuple[int, int]:
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    if n_fft <= 0:
        raise ShapeError(f"{what}(n_fft={n_fft}): there must be at least one point.")
    if hop <= 0:
        raise ShapeError(f"{what}(hop_length={hop}): pieces must be at least one point apart.")
    if not 0 < length <= n_fft:
        raise ShapeError(f"{what}(win_length={length}): must lie between 1 and n_fft={n_fft}.")
    return hop, length


def _window(what: str, given: Tensor | None, length: int, n_fft: int, like: Tensor) -> Tensor:
    """The window, or ones, with zeros on both sides up to n_fft points."""
    window: Tensor = ops.ones((length,), dtype=like.dtype.to_real()) if given is None else given
    if tuple(window.shape) != (length,):
        raise ShapeError(
            f"{what}: the window must have win_length={length} points, got {show(window.shape)}."
        )
    return _between_zeros(window, length, n_fft)


def _between_zeros(self: Tensor, length: int, n_fft: int) -> Tensor:
    """As many zeros on both sides as make n_fft points of `length`."""
    left = (n_fft - length) // 2
    right = n_fft - length - left
    if not left and not right:
        return self
    before, after = (self.new_zeros((*self.shape[:-1], count)) for count in (left, right))
    return ops.cat([before, self, after], -1)


def _padded(what: str, self: Tensor, count: int, mode: str) -> Tensor:
    """The signal with `count` points more on each side."""
    size = self.shape[-1]
    if mode == "constant":
        zeros = self.new_zeros((*self.shape[:-1], count))
        return ops.cat([zeros, self, zeros], -1)
    k = ops.arange(-count, size + count)
    if mode == "reflect":
        if count >= size:
            raise ShapeError(
                f"{what}: reflecting {count} points needs a signal that is longer, got {size}."
            )
        k = (size - 1) - ((size - 1) - k.abs()).abs()
    elif mode == "replicate":
        k = k.clamp(0, size - 1)
    elif mode == "circular":
        k = k % size
    else:
        raise ArgumentError(
            f"{what}(pad_mode={mode!r}): use 'reflect', 'constant', 'replicate' or 'circular'."
        )
    return self.index_select(self.ndim - 1, k)


def stft_center(
    self: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    center: bool,
    pad_mode: str,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
    align_to_window: bool | None,
) -> Tensor:
    """stft of the signal with half a piece more on each side, so that pieces are centred."""
    if center:
        if align_to_window is not None:
            raise ArgumentError("stft(align_to_window=…) has a meaning with center=False only.")
        if self.ndim not in (1, 2):
            raise ShapeError(f"stft: needs a signal or a batch of them, got {show(self.shape)}.")
        self = _padded("stft", self, n_fft // 2, pad_mode)
    rest = (normalized, onesided, return_complex, align_to_window)
    return stft(self, n_fft, hop_length, win_length, window, *rest)


def stft(
    self: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
    align_to_window: bool | None,
) -> Tensor:
    """fft of window · piece, for pieces at distances `hop_length`: frequencies × pieces."""
    is_complex = self.is_complex() or (window is not None and window.is_complex())
    if return_complex is None and not is_complex:
        raise ArgumentError("stft() of real numbers needs return_complex=True (or False)")
    if not self.dtype.is_differentiable:
        raise DtypeError(f"stft: needs floating point or complex numbers, got {self.dtype}.")
    if onesided and is_complex:
        raise ArgumentError("stft(onesided=True): complex numbers have no half spectrum.")
    if self.ndim not in (1, 2):
        raise ShapeError(f"stft: needs a signal or a batch of them, got {show(self.shape)}.")
    hop, length = _hop_and_length("stft", n_fft, hop_length, win_length)
    if n_fft > self.shape[-1]:
        raise ShapeError(f"stft(n_fft={n_fft}): the signal has only {self.shape[-1]} points.")
    if align_to_window:  # the first window starts with the signal, not the zeros before it
        self = _between_zeros(self, length, n_fft)
    weights = _window("stft", window, length, n_fft, self)
    pieces = self.unfold(self.ndim - 1, n_fft, hop) * weights
    last, mode = (pieces.ndim - 1,), int(normalized)
    if is_complex:
        spectra = ops._fft_c2c(pieces, last, mode, True)
    else:
        spectra = ops._fft_r2c(pieces, last, mode, onesided is not False)
    result = spectra.transpose(-1, -2)
    return result if return_complex or return_complex is None else ops.view_as_real(result.clone())


def istft(
    self: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    center: bool,
    normalized: bool,
    onesided: bool | None,
    length: int | None,
    return_complex: bool,
) -> Tensor:
    """The signal whose stft is nearest: pieces times window, added up, over the sum of window²."""
    half, hop, weights = _istft_arguments(self, n_fft, hop_length, win_length, window, onesided)
    if return_complex and half:
        raise ArgumentError("istft(return_complex=True) needs the whole spectrum: onesided=False.")
    if not return_complex and window is not None and window.is_complex():
        raise ArgumentError("istft: a complex window gives a complex signal; return_complex=True.")
    pieces = _pieces(self.transpose(-1, -2), n_fft, normalized, half, return_complex)
    count = pieces.shape[-2]
    size = n_fft + hop * (count - 1)
    signal = _added(pieces * weights, size, hop)
    overlap = _added((weights * weights).expand((count, n_fft)), size, hop)
    start = n_fft // 2 if center else 0
    end = size - start if length is None else min(start + length, size)
    overlap = ops._require_cover(overlap.narrow(0, start, end - start))
    signal = signal.narrow(signal.ndim - 1, start, end - start) / overlap
    missing = 0 if length is None else length - (end - start)
    if missing <= 0:
        return signal
    return ops.cat([signal, signal.new_zeros((*signal.shape[:-1], missing))], -1)


def _istft_arguments(
    self: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    onesided: bool | None,
) -> tuple[bool, int, Tensor]:
    """Whether spectra are halves, the step, and the window."""
    if not self.is_complex():
        raise DtypeError(f"istft: needs complex spectra, got {self.dtype}; use view_as_complex.")
    if self.ndim not in (2, 3) or self.numel() == 0:
        raise ShapeError(
            f"istft: needs frequencies × pieces, maybe with a batch in front, got "
            f"{show(self.shape)}."
        )
    hop, size = _hop_and_length("istft", n_fft, hop_length, win_length)
    if hop > size:
        raise ShapeError(f"istft(hop_length={hop}): pieces of {size} points leave gaps.")
    half = self.shape[-2] != n_fft if onesided is None else onesided
    wanted = n_fft // 2 + 1 if half else n_fft
    if self.shape[-2] != wanted:
        raise ShapeError(f"istft: needs {wanted} frequencies, got a tensor of {show(self.shape)}.")
    return half, hop, _window("istft", window, size, n_fft, self)


def _pieces(spectra: Tensor, n_fft: int, normalized: bool, half: bool, is_complex: bool) -> Tensor:
    """The pieces of the signal, from their spectra."""
    last, mode = (spectra.ndim - 1,), 1 if normalized else 2
    if is_complex:
        return ops._fft_c2c(spectra, last, mode, False)
    if not half:
        spectra = spectra.narrow(spectra.ndim - 1, 0, n_fft // 2 + 1)
    return ops._fft_c2r(spectra, last, mode, n_fft)


def _added(pieces: Tensor, size: int, hop: int) -> Tensor:
    """Pieces added up where they overlap: the transpose of unfold."""
    shape = (*pieces.shape[:-2], size)
    return ops.unfold_backward(pieces, shape, len(shape) - 1, pieces.shape[-1], hop)

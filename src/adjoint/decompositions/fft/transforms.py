"""The functions of `ad.fft`: sizes, padding and trimming, norms, and the primitives.

As PyTorch's: integers become the default float; `n` and `s` pad with zeros or trim at the end; for
a half spectrum they are the size of the real side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.core.dtypes import DEFAULT, REDUCED
from adjoint.core.errors import DimensionError, DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import show, wrap_dim, wrap_dims

Tensor = Any
Sizes = Sequence[int] | None

# norm= in terms of `normalization`: 0 none, 1 divides by √n, 2 by n
FORWARD = {None: 0, "backward": 0, "ortho": 1, "forward": 2}
BACKWARD = {None: 2, "backward": 2, "ortho": 1, "forward": 0}


def _normalization(what: str, norm: str | None, *, forward: bool) -> int:
    known = FORWARD if forward else BACKWARD
    if norm not in known:
        raise ValueRangeError(f"{what}(norm={norm!r}): use 'backward', 'ortho' or 'forward'.")
    return known[norm]


def _number(what: str, self: Tensor) -> Tensor:
    """A tensor of a dtype that can be transformed."""
    if self.dtype.np in REDUCED:
        raise DtypeError(f"{what}: needs float32 or wider, got {self.dtype}; convert it first.")
    return self if self.dtype.is_differentiable else self.to(DEFAULT.dtype)


def _real(what: str, self: Tensor) -> Tensor:
    if self.is_complex():
        raise DtypeError(f"{what}: needs real numbers, got {self.dtype}; take .real, or use fft.")
    return _number(what, self)


def _complex(what: str, self: Tensor) -> Tensor:
    self = _number(what, self)
    return self if self.is_complex() else self.to(self.dtype.to_complex())


def _resized(what: str, self: Tensor, dim: int, size: int) -> Tensor:
    """Padded with zeros, or trimmed, at the end."""
    if size < 1:
        raise ShapeError(f"{what}: a transform of {size} points; there must be at least 1.")
    have = self.shape[dim]
    if size == have:
        return self
    if size < have:
        return self.narrow(dim, 0, size)
    shape = (*self.shape[:dim], size - have, *self.shape[dim + 1 :])
    return ops.cat([self, self.new_zeros(shape)], dim)


def _one(what: str, self: Tensor, dim: int) -> int:
    if self.ndim == 0:
        raise DimensionError(f"{what}: a scalar has no dimension to transform.")
    return wrap_dim(what, dim, self.ndim)


def _several(what: str, self: Tensor, s: Sizes, dim: Sizes) -> tuple[tuple[int, ...], list[int]]:
    """The dimensions, and the sizes to transform."""
    if s is not None and dim is None:
        if len(s) > self.ndim:
            raise ShapeError(
                f"{what}(s={tuple(s)}): more sizes than the input {show(self.shape)} has."
            )
        dim = range(self.ndim - len(s), self.ndim)
    if dim is None:
        dims = tuple(range(self.ndim))
    elif len(dim) and self.ndim == 0:
        raise DimensionError(f"{what}(dim={tuple(dim)}): a scalar has no dimension to transform.")
    else:
        dims = wrap_dims(what, tuple(dim), self.ndim) if len(dim) else ()
    if s is not None and len(s) != len(dims):
        raise ShapeError(f"{what}: {len(s)} sizes in s={tuple(s)} for {len(dims)} dimensions.")
    given = [-1] * len(dims) if s is None else list(s)
    return dims, [self.shape[d] if n == -1 else n for d, n in zip(dims, given, strict=True)]


def _all_resized(what: str, self: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    for dim, size in zip(dims, sizes, strict=True):
        self = _resized(what, self, dim, size)
    return self


def _needs_one(what: str, dims: Sequence[int]) -> None:
    if not dims:
        raise ShapeError(f"{what}: needs at least one dimension to transform.")


# --- complex to complex --------------------------------------------------------------------------


def _both(
    what: str, self: Tensor, dims: Any, sizes: Any, norm: str | None, forward: bool
) -> Tensor:
    """fft and ifft of real or complex numbers."""
    mode = _normalization(what, norm, forward=forward)
    self = _all_resized(what, _number(what, self), dims, sizes)
    if self.is_complex():
        return ops._fft_c2c(self, dims, mode, forward)
    spectrum = ops._fft_r2c(self, dims, mode, False)
    return spectrum if forward else spectrum.conj()


def fft(self: Tensor, n: int | None, dim: int, norm: str | None) -> Tensor:
    """Σ x[m] exp(-2πi km/n)."""
    dim = _one("fft", self, dim)
    return _both("fft", self, (dim,), (self.shape[dim] if n is None else n,), norm, True)


def ifft(self: Tensor, n: int | None, dim: int, norm: str | None) -> Tensor:
    """1/n Σ x[k] exp(2πi km/n)."""
    dim = _one("ifft", self, dim)
    return _both("ifft", self, (dim,), (self.shape[dim] if n is None else n,), norm, False)


def fftn(self: Tensor, s: Sizes, dim: Sizes, norm: str | None) -> Tensor:
    """fft along each of the dimensions."""
    return _both("fftn", self, *_several("fftn", self, s, dim), norm, True)


def ifftn(self: Tensor, s: Sizes, dim: Sizes, norm: str | None) -> Tensor:
    """ifft along each of the dimensions."""
    return _both("ifftn", self, *_several("ifftn", self, s, dim), norm, False)


# --- real to half a spectrum ---------------------------------------------------------------------


def _halved(what: str, self: Tensor, dims: Any, sizes: Any, norm: str | None) -> Tensor:
    mode = _normalization(what, norm, forward=True)
    return ops._fft_r2c(_all_resized(what, _real(what, self), dims, sizes), dims, mode, True)


def rfft(self: Tensor, n: int | None, dim: int, norm: str | None) -> Tensor:
    """fft of real numbers, the half that says it all."""
    dim = _one("rfft", self, dim)
    return _halved("rfft", self, (dim,), (self.shape[dim] if n is None else n,), norm)


def rfftn(self: Tensor, s: Sizes, dim: Sizes, norm: str | None) -> Tensor:
    """rfft along the last dimension, then fft along the others."""
    dims, sizes = _several("rfftn", self, s, dim)
    _needs_one("rfftn", dims)
    return _halved("rfftn", self, dims, sizes, norm)


def ihfft(self: Tensor, n: int | None, dim: int, norm: str | None) -> Tensor:
    """The half of ifft of real numbers."""
    dim = _one("ihfft", self, dim)
    return ihfftn(self, None if n is None else (n,), (dim,), norm, what="ihfft")


def ihfftn(self: Tensor, s: Sizes, dim: Sizes, norm: str | None, what: str = "ihfftn") -> Tensor:
    """ihfft along the last dimension, then ifft along the others."""
    dims, sizes = _several(what, self, s, dim)
    _needs_one(what, dims)
    mode = _normalization(what, norm, forward=False)
    self = _all_resized(what, _real(what, self), dims, sizes)
    half = ops._fft_r2c(self, dims[-1:], mode, True).conj()
    return ops._fft_c2c(half, dims[:-1], mode, False) if len(dims) > 1 else half


# --- half a spectrum to real ---------------------------------------------------------------------


def _real_size(what: str, self: Tensor, dims: Sequence[int], sizes: list[int], s: Sizes) -> int:
    """The size of the real side along the last dimension; sizes[-1] becomes the half's."""
    _needs_one(what, dims)
    given = None if s is None or s[-1] == -1 else s[-1]
    size = 2 * (self.shape[dims[-1]] - 1) if given is None else given
    if size < 1:
        raise ShapeError(f"{what}: a transform to {size} points; there must be at least 1.")
    sizes[-1] = size // 2 + 1
    return size


def irfft(self: Tensor, n: int | None, dim: int, norm: str | None) -> Tensor:
    """ifft of a spectrum given by one half; the result is real."""
    dim = _one("irfft", self, dim)
    return irfftn(self, None if n is None else (n,), (dim,), norm, what="irfft")


def irfftn(self: Tensor, s: Sizes, dim: Sizes, norm: str | None, what: str = "irfftn") -> Tensor:
    """ifft along all dimensions but the last, irfft there."""
    dims, sizes = _several(what, self, s, dim)
    size = _real_size(what, self, dims, sizes, s)
    mode = _normalization(what, norm, forward=False)
    half = _all_resized(what, _complex(what, self), dims, sizes)
    return ops._fft_c2r(half, dims, mode, size)


def hfft(self: Tensor, n: int | None, dim: int, norm: str | None) -> Tensor:
    """fft of a Hermitian signal given by one half; the result is real."""
    dim = _one("hfft", self, dim)
    return hfftn(self, None if n is None else (n,), (dim,), norm, what="hfft")


def hfftn(self: Tensor, s: Sizes, dim: Sizes, norm: str | None, what: str = "hfftn") -> Tensor:
    """fft along all dimensions but the last, hfft there: c2r of the conjugate."""
    dims, sizes = _several(what, self, s, dim)
    size = _real_size(what, self, dims, sizes, s)
    mode = _normalization(what, norm, forward=True)
    half = _all_resized(what, _complex(what, self), dims, sizes)
    return ops._fft_c2r(half.conj(), dims, mode, size)


# --- frequencies ---------------------------------------------------------------------------------


def fftshift(self: Tensor, dim: Sizes) -> Tensor:
    """Frequency 0 moved to the middle."""
    dims = wrap_dims("fftshift", dim, self.ndim)
    return self.roll([self.shape[d] // 2 for d in dims], dims) if dims else self.clone()


def ifftshift(self: Tensor, dim: Sizes) -> Tensor:
    """The inverse of fftshift."""
    dims = wrap_dims("ifftshift", dim, self.ndim)
    return self.roll([(self.shape[d] + 1) // 2 for d in dims], dims) if dims else self.clone()


def _frequencies(k: Tensor, n: int, d: float, dtype: Any) -> Tensor:
    wanted = k.to(DEFAULT.dtype if dtype is None else dtype)
    return wanted * (1.0 / (n * d)) if n * d else wanted / 0.0


def fftfreq(n: int, d: float, dtype: Any, *_: Any) -> Tensor:
    """0, 1, …, -2, -1, over n·d."""
    if n < 0:
        raise ValueRangeError(f"fftfreq(n={n}): n cannot be negative.")
    if n == 0:
        return ops.zeros((0,), dtype=DEFAULT.dtype if dtype is None else dtype)
    k = ops.arange(n)
    return _frequencies(ops.where(k < (n + 1) // 2, k, k - n), n, d, dtype)


def rfftfreq(n: int, d: float, dtype: Any, *_: Any) -> Tensor:
    """0, 1, …, n // 2, over n·d."""
    if n < 0:
        raise ValueRangeError(f"rfftfreq(n={n}): n cannot be negative.")
    if n == 0:
        return ops.zeros((1,), dtype=DEFAULT.dtype if dtype is None else dtype)
    return _frequencies(ops.arange(n // 2 + 1), n, d, dtype)

"""Shape rules of Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.core.shapes import Spec, wrap_dim


def c2c(self: Spec, dim: Sequence[int], normalization: int, forward: bool) -> Spec:
    """Like the input."""
    return self


def _with_size(self: Spec, dim: Sequence[int], size: int) -> tuple[int, ...]:
    last = wrap_dim("fft", dim[-1], self.ndim)
    return (*self.shape[:last], size, *self.shape[last + 1 :])


def r2c(self: Spec, dim: Sequence[int], normalization: int, onesided: bool) -> Spec:
    """Complex; half of the last dimension named, if one side is kept."""
    shape = self.shape
    if onesided and len(dim):
        shape = _with_size(self, dim, shape[wrap_dim("fft", dim[-1], self.ndim)] // 2 + 1)
    return Spec(shape, self.dtype.to_complex())


def c2r(self: Spec, dim: Sequence[int], normalization: int, last_dim_size: int) -> Spec:
    """Real; the size given."""
    return Spec(_with_size(self, dim, last_dim_size), self.dtype.to_real())


def same(self: Spec) -> Spec:
    """Like the input."""
    return self

"""Formulas on arrays, in place: small arrays at once, large ones by a loop in C (loops.py); until
that is built, and without a compiler, in pieces that stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from adjoint.kernels.pieces import PIECE
from adjoint.optim.loops import Loop, apply

Array = np.ndarray[Any, Any]
_FLOAT32 = np.dtype(np.float32)
LARGE = 1 << 12  # elements from which a loop in C pays


class Kernel:
    """A formula with its numbers, for arrays of a dtype; half precision computes in float32."""

    def __init__(self, formula: Callable[..., Any], numbers: Any, dtype: Any) -> None:
        self.formula, self.dtype = formula, dtype
        self.wide = dtype if dtype.char in "fd" else _FLOAT32
        # as arrays: NumPy takes twice as long for a Python number
        self.n = SimpleNamespace(
            **{k: None if v is None else np.array(v, self.wide) for k, v in vars(numbers).items()}
        )
        self.loop: Loop | None = None

    def update(self, arrays: list[Array]) -> None:
        """Write the formula's values over the arrays: the parameter, its gradient, which stays as
        it is, and its state.
        """
        if self.wide is not self.dtype:
            _write(arrays, self._computed([a.astype(_FLOAT32) for a in arrays]))
        elif arrays[0].size < LARGE or not _lie_alike(arrays):
            _write(arrays, self._computed(arrays))
        elif not self._by_loop(arrays):
            self._in_pieces([a.reshape(-1) for a in arrays])

    def _computed(self, arrays: list[Array]) -> Any:
        return apply(self.formula, np, self.n, *arrays)

    def _by_loop(self, arrays: list[Array]) -> bool:
        if self.loop is None:
            self.loop = Loop(self.formula, self.n, len(arrays), self.dtype)
        return self.loop(arrays)

    def _in_pieces(self, flat: list[Array]) -> None:
        for start in range(0, flat[0].size, PIECE):
            piece = [a[start : start + PIECE] for a in flat]
            _write(piece, self._computed(piece))


def as_real(array: Array) -> Array:
    """A complex array as an array of real and imaginary parts, on the same memory."""
    real = array.real  # its strides are those of the complex array
    strides = (*array.strides, real.itemsize)
    return np.lib.stride_tricks.as_strided(real, (*array.shape, 2), strides)


def _lie_alike(arrays: list[Array]) -> bool:
    """Whether arrays have one shape and dtype and lie densely, as a loop in C takes for granted."""
    shape, dtype = arrays[0].shape, arrays[0].dtype
    return all(
        a.shape == shape and a.dtype is dtype and a.flags.c_contiguous and a.flags.aligned
        for a in arrays
    )


def _write(arrays: list[Array], new: Sequence[Array]) -> None:
    arrays[0][...] = new[0]
    for array, value in zip(arrays[2:], new[1:], strict=True):
        array[...] = value

"""Formulas on arrays, in place: at once if they are small, in pieces if they are large.

Pieces stay in the cache, so that what stands between the operators of a formula never reaches
memory. With a C compiler the formula is compiled, once for pieces of a dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

import adjoint
from adjoint import ops
from adjoint.core.pieces import LARGE, PIECE
from adjoint.native import build

Array = np.ndarray[Any, Any]
Formula = Callable[..., Any]
_FLOAT32 = np.dtype(np.float32)
NATIVE_PIECE = 1 << 18  # elements of a piece for native code, which needs one pass


def apply(formula: Formula, xp: Any, n: Any, p: Any, g: Any, *state: Any) -> Any:
    """A formula with what goes before it: the sign of the gradient and weight decay."""
    if n.maximize is not None:
        g = -g
    if n.decay is not None:
        g = g + p * n.decay
    if n.shrink is not None:
        p = p * n.shrink
    return formula(xp, n, p, g, *state)


def in_arrays(numbers: Any, dtype: Any) -> Any:
    """Numbers as arrays of a dtype; half precision computes in float32."""
    dtype = dtype if dtype.char in "fd" else _FLOAT32
    return SimpleNamespace(
        **{k: None if v is None else np.array(v, dtype) for k, v in vars(numbers).items()}
    )


def as_real(array: Array) -> Array:
    """A complex array as an array of real and imaginary parts, on the same memory."""
    real = array.real  # its strides are those of the complex array
    strides = (*array.strides, real.itemsize)
    return np.lib.stride_tricks.as_strided(real, (*array.shape, 2), strides)


def update(formula: Formula, n: Any, arrays: list[Array]) -> None:
    """Write the formula's values over the arrays: the parameter, its gradient, which stays as it
    is, and its state.
    """
    first = arrays[0]
    if first.dtype.char not in "fd":
        _write(arrays, apply(formula, np, n, *[a.astype(_FLOAT32) for a in arrays]))
    elif first.size >= LARGE and all(a.flags.c_contiguous for a in arrays):
        _update_in_pieces(formula, n, [a.reshape(-1) for a in arrays])
    else:
        _write(arrays, apply(formula, np, n, *arrays))


def _write(arrays: list[Array], new: Sequence[Array]) -> None:
    arrays[0][...] = new[0]
    for array, value in zip(arrays[2:], new[1:], strict=True):
        array[...] = value


def _update_in_pieces(formula: Formula, n: Any, flat: list[Array]) -> None:
    size, done = flat[0].size, 0
    if size >= NATIVE_PIECE and build.compiler() is not None:
        present = tuple([k for k, v in vars(n).items() if v is not None])
        absent = tuple([k for k, v in vars(n).items() if v is None])
        native = _native(formula, present, absent)
        numbers = np.array([vars(n)[k] for k in present], flat[0].dtype)
        for done in range(NATIVE_PIECE, size + 1, NATIVE_PIECE):
            piece = [a[done - NATIVE_PIECE : done] for a in flat]
            _write(piece, [t.value for t in native(numbers, *piece)])
    for start in range(done, size, PIECE):
        piece = [a[start : start + PIECE] for a in flat]
        _write(piece, apply(formula, np, n, *piece))


@lru_cache(maxsize=64)
def _native(formula: Formula, present: tuple[str, ...], absent: tuple[str, ...]) -> Any:
    """The formula as native code; the numbers that are there come in one array."""

    def kernel(numbers: Any, *arrays: Any) -> tuple[Any, ...]:
        return tuple(apply(formula, ops, unpacked(present, absent, numbers), *arrays))

    return adjoint.compile(kernel)  # which imports the compiler: few need it


def unpacked(present: tuple[str, ...], absent: tuple[str, ...], numbers: Any) -> Any:
    """Numbers by name, from one tensor that holds those which are there."""
    named = {name: numbers[i] for i, name in enumerate(present)}
    return SimpleNamespace(**dict.fromkeys(absent), **named)

"""Products whose partial products leave the range: mantissas and exponents are multiplied
separately.

1e200 · 1e200 · 1e-300 · 1e-100 is 1, though it passes infinity. The quick way comes first; where a
product of it is 0, subnormal or no number, and no factor is, it is computed again.
"""

from __future__ import annotations

import numpy as np

from adjoint.kernels.reduction.common import Array
from adjoint.kernels.reduction.scaling import is_safe, scaled, sizes

_BLOCK = 256  # so many mantissas, each at least 1/2, have a product in range
_SAFE = {
    char: (float(np.finfo(char).tiny), float(np.finfo(char).max) * (1 - 2.0**-20)) for char in "fd"
}


def may_be_lost(products: Array, x: Array, axes: tuple[int, ...]) -> bool:
    """Whether a product left the range, and may have come back: no factor of it is 0 or infinite.

    The products have one element for each line of factors over `axes`, or as many as there are.
    """
    size = sizes(products)
    least, most = _SAFE[size.dtype.char]
    if is_safe(size, (least, most)) or not x.size:
        return False
    odd = ((x == 0) | ~np.isfinite(x)).any(axes, keepdims=True)
    if products.ndim < x.ndim:
        odd = odd.squeeze(axes)
    with np.errstate(invalid="ignore"):
        return bool((~((size > least) & (size < most)) & ~odd).any())


def product(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """∏ x over `axes`."""
    kept = tuple([1 if d in axes else n for d, n in enumerate(x.shape)])
    others = [d for d in range(x.ndim) if d not in axes]
    rows = x.transpose(*axes, *others).reshape(-1, *[x.shape[d] for d in others])
    mantissas, exponents = running(rows, 0)
    found: Array = scaled(mantissas[-1], exponents[-1])
    return found.reshape(kept) if keepdims else found


def running(x: Array, axis: int) -> tuple[Array, Array]:
    """Running products along an axis as mantissas and exponents."""
    lines = np.moveaxis(x, axis, 0)
    mantissas, exponents = _running(lines.reshape(len(lines), -1))
    shape = lines.shape
    return (
        np.moveaxis(mantissas.reshape(shape), 0, axis),
        np.moveaxis(exponents.reshape(shape), 0, axis),
    )


def _split(x: Array) -> tuple[Array, Array]:
    exponents = np.frexp(sizes(x))[1].astype(np.int64)
    return scaled(x, -exponents), exponents


def _running(x: Array) -> tuple[Array, Array]:
    """The running products of rows: in blocks, joined by the running products of their ends."""
    count, width = x.shape
    mantissas, exponents = _split(x)
    if count <= _BLOCK:
        return np.multiply.accumulate(mantissas, 0), np.add.accumulate(exponents, 0)
    blocks = -(-count // _BLOCK)
    more = blocks * _BLOCK - count
    inside = np.concatenate([mantissas, np.ones((more, width), x.dtype)])
    inside = np.multiply.accumulate(inside.reshape(blocks, _BLOCK, width), 1)
    places = np.concatenate([exponents, np.zeros((more, width), np.int64)])
    places = np.add.accumulate(places.reshape(blocks, _BLOCK, width), 1)
    ends, rest = _running(inside[:-1, -1])
    before, moved = _split(ends)
    inside[1:] *= before[:, None]
    places[1:] += (moved + rest + np.add.accumulate(places[:-1, -1], 0))[:, None]
    shape = (blocks * _BLOCK, width)
    return inside.reshape(shape)[:count], places.reshape(shape)[:count]


def running_product(x: Array, axis: int) -> Array:
    """Running products along an axis."""
    return scaled(*running(x, axis))


def products_of_others(x: Array) -> Array:
    """∏_{j≠i} x[j] along the first axis."""
    before, after = running(x[:-1], 0), running(x[:0:-1], 0)
    one, zero = np.ones_like(x[:1]), np.zeros(x[:1].shape, np.int64)
    left = _split(np.concatenate([one, before[0]]))
    right = _split(np.concatenate([after[0][::-1], one]))
    exponents = np.concatenate([zero, before[1]]) + np.concatenate([after[1][::-1], zero])
    return scaled(left[0] * right[0], exponents + left[1] + right[1])

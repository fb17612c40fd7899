"""Differences, integrals, histograms and polynomials."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.dtypes import float64
from adjoint.core.errors import ArgumentError, ShapeError
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import Array, Float, array_or_refuse, common
from adjoint.doors.numpy.functions.making import linspace
from adjoint.doors.numpy.functions.products import convolution
from adjoint.doors.numpy.words import dims_of, doubles, made
from adjoint.tensor.tensor import Tensor


def diff(a: Tensor, n: int, axis: int, prepend: Any, append: Any) -> Tensor:
    """Differences of neighbours, `n` times."""
    if n == 0:
        return a
    ends = []
    for value in (prepend, append):
        end = None if value is None else Array(value)
        if end is not None and end.ndim == 0:
            d = axis % a.ndim
            end = end.expand([1 if i == d else size for i, size in enumerate(a.shape)])
        ends.append(end)
    present = common(a, *(e for e in ends if e is not None))
    rest = iter(present[1:])
    first, last = (None if e is None else next(rest) for e in ends)
    return ad.diff(present[0], n, axis, first, last)


def ediff1d(ary: Tensor, to_end: Any, to_begin: Any) -> Tensor:
    """Differences of all elements in a row, with others before and after."""
    parts = [ad.diff(ary.reshape(-1))]
    if to_begin is not None:
        parts.insert(0, Array(to_begin).reshape(-1).to(ary.dtype))
    if to_end is not None:
        parts.append(Array(to_end).reshape(-1).to(ary.dtype))
    return ad.cat(parts)


def gradient(f: Tensor, *varargs: Any, axis: Any, edge_order: int) -> Any:
    """Central differences along dimensions, at the given distances or places."""
    dims = dims_of(axis, f.ndim)
    spacings = list(varargs) or [1.0]
    if len(spacings) == 1:
        spacings = spacings * len(dims)
    if len(spacings) != len(dims):
        raise ArgumentError(f"gradient: {len(dims)} dimensions need as many spacings, or one")
    found = [_slope(f, d, h, edge_order) for d, h in zip(dims, spacings, strict=True)]
    return found[0] if isinstance(axis, int) or f.ndim == 1 else tuple(found)


def _slope(f: Tensor, d: int, spacing: Any, edge_order: int) -> Tensor:
    """Differences of second order inside; at the ends of the order that is asked for."""
    size = f.shape[d]
    if size <= edge_order:
        raise ShapeError(f"gradient: dimension {d} of size {size} is too small")
    places = Array(spacing)
    if places.ndim:
        steps = ad.diff(places).to(f.dtype)
    else:
        steps = places.to(f.dtype).expand((size - 1,))
    y = f.movedim(d, -1)
    left, right = steps[:-1], steps[1:]
    total = left + right
    inside = (
        y[..., :-2] * (-right / (left * total))
        + y[..., 1:-1] * ((right - left) / (left * right))
        + y[..., 2:] * (left / (right * total))
    )
    first, last = _end(y, steps, edge_order), -_end(y.flip(-1), steps.flip(0), edge_order)
    return ad.cat([first, inside, last], -1).movedim(-1, d)


def _end(y: Tensor, steps: Tensor, edge_order: int) -> Tensor:
    """The slope at the first place, of the first two or three values."""
    h = steps[0]
    if edge_order == 1:
        return (y[..., 1:2] - y[..., :1]) / h
    k = steps[1]
    return (
        y[..., :1] * (-(2 * h + k) / (h * (h + k)))
        + y[..., 1:2] * ((h + k) / (h * k))
        + y[..., 2:3] * (-h / (k * (h + k)))
    )


def trapezoid(y: Tensor, x: Any, dx: Any, axis: int) -> Tensor:
    """The integral of straight lines between points."""
    if x is None:
        d = Array(dx).to(y.dtype) if isinstance(dx, (Tensor, np.ndarray)) else dx
    else:
        places = Float(x)
        d = ad.diff(places, 1, -1 if places.ndim == 1 else axis)
        if places.ndim == 1:
            d = d.reshape([-1 if i == axis % y.ndim else 1 for i in range(y.ndim)])
    size = y.shape[axis]
    pairs = y.narrow(axis, 1, size - 1) + y.narrow(axis, 0, size - 1)
    return ad.sum(d * pairs / 2, axis)


# ---- histograms ---------------------------------------------------------------------------------


def edges_of(a: Tensor, bins: Any, limits: Any) -> Tensor:
    """The edges of bins: as given, or so many between two numbers, the extremes unless said."""
    if isinstance(bins, Tensor) or np.ndim(bins):
        return Array(bins)
    if isinstance(bins, str):
        return made(np.histogram_bin_edges(array_or_refuse("histogram", a), bins, limits))
    low, high = (ad.amin(a), ad.amax(a)) if limits is None else (Float(v) for v in limits)
    same = low == high
    low, high = ad.where(same, low - 0.5, low), ad.where(same, high + 0.5, high)
    return linspace(low, high, int(bins) + 1).to(a.dtype)


def histogram(a: Tensor, bins: Any, range: Any, density: Any, weights: Any) -> Any:
    """How many elements are in each bin, or the sum of their weights, which is differentiated."""
    counts, edges = histogramdd([a.reshape(-1)], [bins], [range], density, weights)
    return counts, edges[0]


def histogram2d(x: Tensor, y: Tensor, bins: Any, range: Any, density: Any, weights: Any) -> Any:
    """How many points of the plane are in each bin."""
    counts, edges = histogramdd([x, y], bins, range, density, weights)
    return counts, edges[0], edges[1]


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    """How many points are in each bin of a grid."""
    if isinstance(sample, (list, tuple)):
        columns = [Float(c).reshape(-1) for c in sample]
    else:
        table = ad.atleast_2d(Float(sample))
        columns = list(table.unbind(1))
    count = len(columns)
    several = isinstance(bins, (list, tuple)) or np.ndim(bins)
    wanted = list(bins) if several else [bins] * count
    if count == 2 and len(wanted) not in (1, 2):
        wanted = [bins, bins]
    ranges = [None] * count if range is None else list(range)
    edges = [edges_of(c, b, r) for c, b, r in zip(columns, wanted, ranges, strict=True)]
    shape = [e.shape[0] - 1 for e in edges]
    flat: Any = 0
    inside: Any = True
    for column, edge, size in zip(columns, edges, shape, strict=True):
        edge, c = common(edge, column.detach())
        place = ad.searchsorted(edge, c, right=True) - 1
        place = ad.where(c == edge[-1], size - 1, place)
        inside = inside & (place >= 0) & (place < size)
        flat = flat * size + place.clamp(0, size - 1)
    weight = ad.ones_like(flat) if weights is None else Array(weights).reshape(-1)
    weight = ad.where(inside, weight, 0)
    counts = ad.zeros((int(np.prod(shape)),), dtype=weight.dtype).index_add(0, flat, weight)
    counts = counts.reshape(shape)
    counts = counts.to(float64) if density or (weights is None and count > 1) else counts
    if density:
        volume: Any = 1.0
        for d, edge in enumerate(edges):
            volume = volume * ad.diff(edge).reshape([-1 if i == d else 1 for i in _range(count)])
        counts = counts / volume / ad.sum(counts)
    return counts, edges


_range = range  # which NumPy's argument hides


# ---- polynomials --------------------------------------------------------------------------------


def leading(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Coefficients as vectors."""
    return ad.atleast_1d(a), ad.atleast_1d(b)


def aligned_sum(a: Tensor, b: Tensor) -> Tensor:
    """The sum of two polynomials, the highest powers of which come first."""
    a, b = leading(a, b)
    size = max(a.shape[0], b.shape[0])
    return ad.constant_pad_nd(a, (size - a.shape[0], 0)) + ad.constant_pad_nd(
        b, (size - b.shape[0], 0)
    )


def polyval(p: Tensor, x: Tensor) -> Tensor:
    """A polynomial by Horner's rule."""
    p, x = common(p, x)
    result = ad.zeros_like(x)
    for coefficient in p.unbind(0):
        result = result * x + coefficient
    return result


def derived(p: Tensor, m: int) -> Tensor:
    """The derivative of a polynomial."""
    for _ in range(m):
        p = p[:-1] * made(np.arange(p.shape[0] - 1, 0, -1), p.dtype)
    return p


def integrated(p: Tensor, m: int, k: Any) -> Tensor:
    """The integral of a polynomial, with constants k."""
    constants = [0.0] * m if k is None else list(np.atleast_1d(k))
    constants = constants * m if len(constants) == 1 else constants
    for constant in constants[:m]:
        powers = made(np.arange(p.shape[0], 0, -1), p.dtype)
        p = ad.cat([p / powers, Array(constant).to(p.dtype).reshape(1)])
    return p


def polydiv(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Quotient and remainder of polynomials."""
    u, v = leading(*common(u, v))
    size, rest = v.shape[0], u
    quotient = []
    for _ in range(u.shape[0] - size + 1):
        factor = rest[:1] / v[0]
        quotient.append(factor)
        rest = (rest - ad.constant_pad_nd(factor * v, (0, rest.shape[0] - size)))[1:]
    kept = rest.detach().numpy() if rest.home is None else np.ones(rest.shape[0])
    first = int(np.argmax(np.abs(kept) > 1e-8)) if (np.abs(kept) > 1e-8).any() else len(kept) - 1
    rest = rest[max(first, 0) :] if rest.shape[0] else ad.zeros((1,), dtype=u.dtype)
    return (ad.cat(quotient) if quotient else ad.zeros((1,), dtype=u.dtype)), rest


def poly(seq_of_zeros: Tensor) -> Tensor:
    """The polynomial with these roots, or the characteristic one of a matrix."""
    zeros = ad.linalg_eigvals(seq_of_zeros) if seq_of_zeros.ndim == 2 else seq_of_zeros
    result = ad.ones((1,), dtype=zeros.dtype)
    for zero in zeros.reshape(-1).unbind(0):
        result = convolution(result, ad.stack([ad.ones_like(zero), -zero]), "full")
    real = seq_of_zeros.ndim == 2 and not seq_of_zeros.dtype.is_complex
    return ad.real(result) if real else result


def roots(p: Tensor) -> Tensor:
    """The roots of a polynomial: eigenvalues of its companion matrix."""
    p = p if p.dtype.is_differentiable else p.to(float64)
    nonzero = np.nonzero(p.detach().numpy())[0] if p.home is None else np.arange(p.shape[0])
    if not nonzero.size:
        return ad.zeros((0,), dtype=p.dtype)
    ends = p.shape[0] - 1 - int(nonzero[-1])
    p = p[int(nonzero[0]) : int(nonzero[-1]) + 1]
    size = p.shape[0] - 1
    zeros = ad.zeros((ends,), dtype=p.dtype.to_complex())
    if size < 1:
        return zeros
    below = made(np.eye(size, k=-1), p.dtype)[1:]
    companion = ad.cat([(-p[1:] / p[0]).reshape((1, -1)), below], 0)
    return ad.cat([ad.linalg_eigvals(companion), zeros])


def polyfit(x: Tensor, y: Tensor, deg: Any, rcond: Any, full: bool, w: Any, cov: Any) -> Tensor:
    """The polynomial nearest to points, by least squares."""
    if full or cov:
        raise ArgumentError("polyfit: full= and cov= are not there; see np.linalg.lstsq")
    x, y = doubles(x, y)
    table = ad.vander(x, int(deg) + 1)
    right = y if y.ndim == 2 else y.unsqueeze(1)
    if w is not None:
        weight = Float(w).to(x.dtype).unsqueeze(1)
        table, right = table * weight, right * weight
    scale = ad.sqrt(ad.sum(table * table, 0))
    found = ad.linalg_lstsq(table / scale, right)[0] / scale.unsqueeze(1)
    return found if y.ndim == 2 else found.squeeze(1)

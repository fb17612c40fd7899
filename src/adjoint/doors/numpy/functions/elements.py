"""Functions of elements that take more than an expression: choices, interpolation, phases."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.dtypes import bool_, finfo
from adjoint.core.errors import ArgumentError
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import Array, Number, common, common_numbers
from adjoint.doors.numpy.dressing import dressed_like, made_like
from adjoint.doors.numpy.words import places_of
from adjoint.tensor.tensor import Tensor


def where(
    condition: Tensor, x: Any, y: Any, *, size: int | None = None, fill_value: Any = 0
) -> Any:
    """One or the other, by a condition; with a condition alone, where it holds."""
    if x is None and y is None:
        return places_of(condition, size, fill_value)
    if x is None or y is None:
        raise ArgumentError("where() takes a condition alone, or both x and y")
    return ad.where(condition.to(bool_), *common_numbers(Number(x), Number(y)))


def clipped(a: Tensor, low: Any, high: Any) -> Tensor:
    """The tensor with its elements between two bounds; the upper one wins, as in NumPy."""
    bounds = [None if v is None else Number(v) for v in (low, high)]
    a = common_numbers(a, *(v for v in bounds if v is not None))[0]
    if all(v is None or not isinstance(v, Tensor) for v in bounds):
        return a if low is None and high is None else ad.clamp(a, *bounds)
    if bounds[0] is not None:
        a = ad.maximum(*common(a, Array(bounds[0])))
    return a if bounds[1] is None else ad.minimum(*common(a, Array(bounds[1])))


def select(conditions: list[Tensor], choices: list[Tensor], default: Any) -> Tensor:
    """Of each element the choice whose condition is the first to hold."""
    if len(conditions) != len(choices):
        raise ArgumentError("select: there must be as many choices as conditions")
    result = Number(default)
    for condition, choice in list(zip(conditions, choices, strict=True))[::-1]:
        result = ad.where(condition.to(bool_), *common_numbers(choice, result))
    return result


def piecewise(given: Any, conditions: Any, functions: Any, *args: Any, **keywords: Any) -> Tensor:
    """Of each element the function whose condition is the last to hold; one more is the default."""
    x = Array(given)
    if isinstance(conditions, (list, tuple)) and (not conditions or np.ndim(conditions[0])):
        masks = [Array(c).to(bool_) for c in conditions]
    else:
        rows = Array(conditions).to(bool_)
        masks = [rows] if rows.ndim == x.ndim else list(rows.unbind(0))
    if len(functions) not in (len(masks), len(masks) + 1):
        raise ArgumentError(
            f"piecewise: {len(masks)} conditions need as many functions, or one more"
        )

    def value(function: Any) -> Tensor:
        seen = dressed_like(given, x)
        found = function(seen, *args, **keywords) if callable(function) else function
        return Array(found).to(x.dtype).expand(x.shape)

    result = value(functions[len(masks)] if len(functions) > len(masks) else 0)
    for mask, function in zip(masks, functions):
        result = ad.where(mask, value(function), result)
    return made_like(given, result.to(x.dtype))


def interpolated(x: Tensor, xp: Tensor, fp: Tensor, left: Any, right: Any, period: Any) -> Tensor:
    """Values between points (xp, fp) on straight lines; `left` and `right` beyond them."""
    if period is not None:
        period = abs(period)
        order = (xp % period).argsort()
        x, xp, fp = x % period, (xp % period)[order], fp[order]
        xp = ad.cat([xp[-1:] - period, xp, xp[:1] + period])
        fp = ad.cat([fp[-1:], fp, fp[:1]])
        left = right = None
    if xp.shape[0] == 1:
        inside = fp[0].expand(x.shape)
    else:
        above = ad.searchsorted(xp.detach(), x.detach(), right=True).clamp(1, xp.shape[0] - 1)
        below = above - 1
        start, width = xp[below], xp[above] - xp[below]
        part = ad.where(width == 0, 0.0, (x - start) / ad.where(width == 0, 1.0, width))
        inside = fp[below] + part * (fp[above] - fp[below])
    low = fp[0] if left is None else Array(left).to(fp.dtype)
    high = fp[-1] if right is None else Array(right).to(fp.dtype)
    return ad.where(x < xp[0], low, ad.where(x > xp[-1], high, inside))


def unwrap(p: Tensor, discont: Any, axis: int, *, period: Any) -> Tensor:
    """Phases without jumps of more than half a period: whole periods are added."""
    steps = p.diff(dim=axis).detach()
    half = period / 2
    folded = (steps + half) % period - half
    folded = ad.where((folded == -half) & (steps > 0), half, folded)
    change = folded - steps
    change = ad.where(steps.abs() < (half if discont is None else discont), 0.0, change)
    size = p.shape[axis]
    first = p.narrow(axis, 0, min(size, 1))
    rest = p.narrow(axis, min(size, 1), max(size - 1, 0))
    return ad.cat([first, rest + change.cumsum(axis)], axis)


def real_if_close(a: Tensor, tol: float) -> Tensor:
    """The real part, if all imaginary ones are within `tol` epsilons of 0."""
    if not a.dtype.is_complex:
        return a
    bound = tol * finfo(a.dtype).eps if tol > 1 else tol
    return ad.real(a) if bool((ad.imag(a).abs() < bound).all()) else a

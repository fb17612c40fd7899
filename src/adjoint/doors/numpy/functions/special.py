"""Special functions with SciPy's signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.errors import ArgumentError
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import Float, common
from adjoint.doors.numpy.words import dims_of
from adjoint.tensor.tensor import Tensor


def gamma_sign(x: Tensor) -> Tensor:
    """The sign of Γ(x): it alternates between negative whole numbers."""
    below = ad.floor(x)
    odd = ad.remainder(below, 2) != 0
    sign = ad.where((x < 0) & odd, -1.0, 1.0).to(x.dtype)
    return ad.where((x < 0) & (below == x), float("nan"), sign)


def named(name: str, *args: Tensor) -> Tensor:
    """SciPy's function of that name; its derivatives are in formulas/scipy.py."""
    return ad._scipy(*args, name)


def all_results(name: str, count: int, *args: Tensor) -> tuple[Tensor, ...]:
    """SciPy's function of that name, which has several results."""
    return tuple(ad._scipy(*args, name, part) for part in range(count))


def airy(x: Tensor) -> tuple[Tensor, ...]:
    """Ai, Ai′, Bi and Bi′."""
    of_first = ad.special_airy_ai(x), ad._airy_ai_derivative(x, 1)
    return (*of_first, *(ad._scipy(x, "airy", part) for part in (2, 3)))


def arithmetic_geometric_mean(x: Tensor, y: Tensor) -> Tensor:
    """π/2 a/K(1 - (b/a)²), a the larger; K, which changes slowly, is log(4a/b) where b is small.
    Where a and b are alike π/4 (a + b)/K(k²), k = (a - b)/(a + b), DLMF 19.8.5, which is even in k.
    """
    first = ad.abs(x) >= ad.abs(y)
    large, small = ad.where(first, x, y), ad.where(first, y, x)
    ratio = small / ad.where(large == 0, 1.0, large)
    far, alike = ratio < 1e-8, ratio > 0.05
    total = ad.where(alike, x + y, 1.0)
    between = total * (np.pi / 4) / named("ellipk", ad.square(ad.where(alike, x - y, 0.0) / total))
    near = named("ellipkm1", ad.square(ad.where(far | alike, 0.5, ratio)))
    none = ratio == 0
    period = ad.where(far, -ad.log(ad.where(far & ~none, ratio, 1.0) / 4), near)
    found = ad.where(none, ad.where(small == 0, 0.0, large), large * (np.pi / 2) / period)
    found = ad.where(alike, between, found)
    return ad.where((x < 0) & (y > 0) | (x > 0) & (y < 0), np.nan, found)


def turned(x: Tensor, quarters: int) -> Tensor:
    """sin(x + 90 · quarters), x in degrees."""
    rest, turns = _in_quarters(x)
    turns = turns + quarters
    found = ad.where(ad.remainder(turns, 2) == 0, ad.sin(rest), ad.cos(rest))
    return ad.where(ad.remainder(turns, 4) < 2, found, -found)


def tangent(x: Tensor) -> Tensor:
    """tan(x), x in degrees: infinity at its poles."""
    rest, turns = _in_quarters(x)
    steep = ad.remainder(turns, 2) != 0
    return ad.where(steep, 1 / ad.tan(ad.where(steep, 0 - rest, 1.0)), _near_zero(~steep, rest))


def cotangent(x: Tensor) -> Tensor:
    """cot(x), x in degrees: infinity at its poles."""
    rest, turns = _in_quarters(x)
    steep = ad.remainder(turns, 2) == 0
    return ad.where(steep, 1 / ad.tan(ad.where(steep, rest, 1.0)), -_near_zero(~steep, rest))


def _near_zero(where: Tensor, x: Tensor) -> Tensor:
    return ad.tan(ad.where(where, x, 0.0))


def _in_quarters(x: Tensor) -> tuple[Tensor, Tensor]:
    """(radians left of x degrees, quarters of a turn taken away), subtracted exactly in degrees."""
    rest = ad.fmod(x, 360.0)
    turns = ad.round(rest.detach() / 90)
    return ad.deg2rad(rest - 90 * turns), turns


def odds(p: Tensor) -> Tensor:
    """p/(1 - p)."""
    return p / (1 - p)


def analytic(name: str, x: Tensor, n: int = 0) -> Tensor:
    """exprel, log1prel, sinhc or dawsn, or a derivative of it."""
    return ad._analytic_derivative(x, name, n)


def beta_of_odds(a: Tensor, b: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """I(a, b) at p/(p + q), by the smaller fraction."""
    low, whole = p < q, p + q
    below = ad.special_betainc(a, b, ad.where(low, p / whole, 0.25))
    return ad.where(low, below, named("betaincc", b, a, ad.where(low, 0.25, q / whole)))


def relative_entropy(x: Tensor, y: Tensor) -> Tensor:
    """x log(x/y); infinite where an argument is negative, or y alone is 0."""
    valid = (x > 0) & (y > 0)
    u, v = ad.where(valid, x, 1.0), ad.where(valid, y, 1.0)
    outside = ad.where((x == 0) & (y >= 0), ad.zeros_like(x * y), np.inf)
    outside = ad.where(ad.isnan(x) | ad.isnan(y), np.nan, outside)
    return ad.where(valid, u * _log_ratio(u, v), outside)


def _log_ratio(x: Tensor, y: Tensor) -> Tensor:
    """log(x/y) of positive numbers: near 1 of x - y, which is exact there."""
    close = (x < 2 * y) & (y < 2 * x)
    step = (x - y) / y
    near = ad.log1p(ad.where(close, step, 0.0))
    u, v = ad.where(close, 1.0, x), ad.where(close, 1.0, y)
    return ad.where(close, near, ad.log(u) - ad.log(v))


def divergence(x: Tensor, y: Tensor) -> Tensor:
    """x log(x/y) - x + y; near x = y (1 + d) y ((1 + d) L(d) - 1), L(d) = log(1 + d)/d."""
    close = (x > 0) & (y > 0) & (x < 1.5 * y) & (y < 1.5 * x)
    u, v = ad.where(close, x, 1.0), ad.where(close, y, 1.0)
    d = (u - v) / v
    near = -(u - v) * d * (u / v) * analytic("log1prel", d, 1)
    far = relative_entropy(ad.where(close, 1.0, x), ad.where(close, 2.0, y))
    return ad.where(close, near, far - ad.where(close, 1.0, x) + ad.where(close, 2.0, y))


def pseudo_huber_loss(x: Tensor, y: Tensor) -> Tensor:
    """x (h - x), h² = x² + y²; where y is small x y²/(x + h)."""
    h = ad.hypot(x, y)
    close = ad.abs(y) < x
    u, v = ad.where(close, x, 1.0), ad.where(close, y, 0.0)
    near = u * v * (v / (u + ad.hypot(u, v)))
    return ad.where(x < 0, np.inf, ad.where(close, near, x * (h - x)))


def bessel(kind: str, order: Tensor, x: Tensor) -> Tensor:
    """A Bessel function by SciPy's name; one whole order for all elements has a faster operator."""
    whole = _whole(order)
    if whole is None or (kind.endswith("e") and whole > 1):
        return ad._bessel(x, order, kind)
    return _OF_WHOLE_ORDER[kind](ad.broadcast_tensors([order, x])[1], whole)


def _whole(order: Tensor) -> int | None:
    """The order as a whole number, if all elements are equal and an operator takes it; or None."""
    if order.home is not None or order.edge is not None or not order.numel():
        return None  # of a transform: there the operator says that it has no derivative in it
    first = order.reshape(-1)[0].item()
    return int(first) if first in range(100) and bool((order == first).all()) else None


_OF_WHOLE_ORDER: dict[str, Callable[[Tensor, int], Tensor]] = {
    "jv": lambda x, n: ad._bessel_j_derivative(x, n, 0),
    "yv": lambda x, n: ad._bessel_y_derivative(x, n, 0),
    "iv": lambda x, n: ad._bessel_i_derivative(x, n, 0),
    "kv": lambda x, n: ad._bessel_k_derivative(x, n, 0),
    "ive": lambda x, n: (ad.special_i0e, ad.special_i1e)[n](x),
    "kve": lambda x, n: ad._scaled_k_derivative(x, n, 0),  # of orders 0 and 1
}


def logsumexp(a: Tensor, axis: Any, b: Any, keepdims: bool, return_sign: bool) -> Any:
    """log Σ b exp(a), and the sign of the sum if it is asked for."""
    dims = dims_of(axis, a.ndim)
    if b is None and not return_sign:
        return ad.logsumexp(a, dims, keepdim=keepdims)
    a, weights = common(a, ad.ones_like(a) if b is None else Float(b))
    top = ad.amax(a.detach(), dims, keepdim=True)
    top = ad.where(ad.isfinite(top), top, 0.0)
    total = ad.sum(weights * ad.exp(a - top), dims, keepdim=keepdims)
    top = top if keepdims else top.squeeze(dims)
    if return_sign:
        return ad.log(ad.abs(total)) + top, ad.sgn(total)
    return ad.log(total) + top


def polygamma(n: Any, x: Tensor) -> Tensor:
    """The n-th derivative of the digamma function; n is a whole number."""
    if isinstance(n, Tensor):
        n = n.item()
    if int(n) != n:
        raise ArgumentError(f"polygamma: n={n} is a whole number")
    return ad.polygamma(int(n), x)

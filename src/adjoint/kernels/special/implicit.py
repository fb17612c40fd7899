"""How samples of gamma and beta distributions move with their parameters.

A sample z with distribution function F(z; a) stays at the same F when a moves: dz/da = -F_a / F_z
(implicit reparameterisation, Figurnov et al. 2018). With p = F_z this is -(L M + M_a), where
M = F/p and L = ∂ log p/∂a; on the other side of the bulk L N + N_a with N = (1 - F)/p. Neither M
nor N underflows, and the terms have one sign out in the tails. Derivatives in the parameters are
those of M, N and L, to any order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.kernels.special.common import Array, check_orders, in_double
from adjoint.kernels.special.gamma import exp_excess

BLOCK = 4096  # elements at a time, so that the nodes of all of them fit a cache
SERIES_UP_TO = 5.0  # shapes up to here have a power series on the left
REACH = 42.0  # integrands are followed down to exp(-REACH)


def _in_blocks(compute: Callable[..., Array], *operands: Array) -> Array:
    """Compute element by element, a block at a time."""
    wide = np.broadcast_arrays(*operands)
    flat = [x.reshape(-1) for x in wide]
    result = np.empty(flat[0].shape)
    with np.errstate(all="ignore"):
        for start in range(0, result.size, BLOCK):
            stop = start + BLOCK
            result[start:stop] = compute(*(x[start:stop] for x in flat))
    return result.reshape(wide[0].shape)


# --- gamma ---------------------------------------------------------------------------------------


def gamma_slope(self: Array, output: Array, order: int) -> Array:
    """∂ⁿ/∂aⁿ of g(a, z), the slope dz/da of a sample z of the gamma distribution of shape a."""
    check_orders("_gamma_slope", order)

    def compute(a: Array, z: Array) -> Array:
        return _in_blocks(lambda a, z: _gamma_slope(a, z, order), a, z)

    return in_double(compute, self, output)


def _gamma_slope(a: Array, z: Array, order: int) -> Array:
    result = np.where((z == 0) & (a >= 0), 0.0, math.nan)
    inside = (a > 0) & (z > 0) & np.isfinite(a) & np.isfinite(z)
    series = inside & (a < SERIES_UP_TO) & (z <= a + 1)
    for part, compute in ((series, _gamma_series), (inside & ~series, _gamma_integral)):
        if part.any():
            result[part] = compute(a[part], z[part], order)
    return result * math.factorial(order)


def _product(x: Sequence[Array], y: Sequence[Array]) -> list[Array]:
    """The product of two Taylor polynomials in the shape."""
    zero = np.zeros(())
    return [sum((x[i] * y[j - i] for i in range(j + 1)), zero) for j in range(len(x))]


def _over(x: Sequence[Array], a: Array) -> list[Array]:
    """x(δ) / (a + δ) for a Taylor polynomial x: a yⱼ + yⱼ₋₁ = xⱼ."""
    quotient: list[Array] = []
    for coefficient in x:
        quotient.append((coefficient - quotient[-1] if quotient else coefficient) / a)
    return quotient


def _bracket(log_slope: Sequence[Array], m: Sequence[Array]) -> list[Array]:
    """L m + m', one order below m."""
    moved = [(j + 1) * m[j + 1] for j in range(len(m) - 1)]
    return [x + y for x, y in zip(_product(log_slope, m[:-1]), moved)]


def _log_slope(a: Array, z: Array, order: int) -> list[Array]:
    """log z - ψ(a + δ) as a Taylor polynomial."""
    from scipy import special

    large = a > 20
    b = np.where(large, a, 21)
    square = 1 / (b * b)
    gap = 0.5 / b + square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    ratio = (z - b) / b
    near = np.where(np.abs(ratio) < 0.5, np.log1p(ratio), np.log(z / b))
    first = np.where(large, near + gap, np.log(z) - special.digamma(a))
    return [first, *(-special.polygamma(k, a) / math.factorial(k) for k in range(1, order + 1))]


def _gamma_series(a: Array, z: Array, order: int) -> Array:
    """M = (z/a) m, m = Σ zᵏ / ((a+1)…(a+k)): g = -(z/a) ((log z - ψ(a+1)) m + m')."""
    term = [np.ones_like(a), *(np.zeros_like(a) for _ in range(order + 1))]
    m = list(term)
    for k in range(1, 400):
        term = [z * t for t in _over(term, a + k)]
        m = [x + t for x, t in zip(m, term)]
        if all((np.abs(t) <= 1e-17 * np.abs(x)).all() for x, t in zip(m, term)):
            break
    slope = _over(_bracket(_log_slope(a + 1, z, order), m), a)
    return -z * slope[order]


def _gamma_integral(a: Array, z: Array, order: int) -> Array:
    """M or N, whichever tail is the smaller one, as z ∫ exp(-φ(y)) dy with t = z exp(±y).

    φ(y) = ±(z - a) y + z (exp(±y) - 1 ∓ y), and (±y)ᵏ under the integral for derivatives.
    """
    side = np.where(z > a, 1.0, -1.0)
    reach = _reach(side, a, z)
    nodes, weights = _gauss_legendre(48)
    y = reach[:, None] * nodes
    signed = side[:, None] * y
    exponent = (side * (z - a))[:, None] * y + z[:, None] * exp_excess(signed)
    mass = np.exp(-exponent) * weights
    tail = [z * reach * (mass * signed**k).sum(-1) / math.factorial(k) for k in range(order + 2)]
    return side * _bracket(_log_slope(a, z, order), tail)[order]


def _reach(side: Array, a: Array, z: Array) -> Array:
    """Where φ is REACH, by Newton's method on a convex function."""
    slope = side * (z - a)
    y = (np.sqrt(slope * slope + 2 * REACH * z) - slope) / z
    for _ in range(8):
        value = slope * y + z * exp_excess(side * y) - REACH
        y = np.maximum(y - value / (slope + side * z * np.expm1(side * y)), 0.1 * y)
    return y


@functools.cache
def _gauss_legendre(count: int) -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2


# --- beta ----------------------------------------------------------------------------------------

STEP = 0.125
LOG_NODES = np.arange(-38.0, 6.0, STEP)  # of the trapezoidal rule in log y
_TOGETHER = 1 << 13  # values of an integrand that are computed at once


def beta_slope(x: Array, a: Array, b: Array, order: int, order_other: int) -> Array:
    """∂ⁱ⁺ʲ/∂aⁱ∂bʲ of the slope dx/da of a sample x of the beta distribution of a and b."""
    check_orders("_beta_slope", order, order_other)

    def compute(x: Array, a: Array, b: Array) -> Array:
        return _in_blocks(lambda x, a, b: _beta_slope(x, a, b, order, order_other), x, a, b)

    return in_double(compute, x, a, b)


def _beta_slope(x: Array, a: Array, b: Array, i: int, j: int) -> Array:
    result = np.where(((x == 0) | (x == 1)) & (a > 0) & (b > 0), 0.0, math.nan)
    inside = (a > 0) & (b > 0) & (x > 0) & (x < 1) & np.isfinite(a) & np.isfinite(b)
    lower = inside & (x * (a + b) < a)
    for part, compute in ((lower, _beta_lower), (inside & ~lower, _beta_upper)):
        if part.any():
            result[part] = compute(x[part], a[part], b[part], i, j)
    return result


def _beta_lower(x: Array, a: Array, b: Array, i: int, j: int) -> Array:
    """M = (x/a) m: slope -(x/a) ((log x - ψ(a+1) + ψ(a+b)) m + m_a), with Leibniz' rule."""
    m = _beta_tail(x, a, b, i + 1, j)
    total = np.zeros_like(x)
    for r in range(i + 1):
        factor = math.comb(i, r) * (-1) ** r * math.factorial(r) / a ** (r + 1)
        total += factor * _beta_bracket(x, a + 1, a + b, m, i - r, j)
    return -x * total


def _beta_upper(x: Array, a: Array, b: Array, i: int, j: int) -> Array:
    """N = ((1-x)/b) n, n the tail of the mirrored distribution: ((1-x)/b) (L n + n_a)."""
    mirrored = _beta_tail(1 - x, b, a, j, i + 1)
    n = {(p, q): mirrored[q, p] for q, p in mirrored}
    total = np.zeros_like(x)
    for r in range(j + 1):
        factor = math.comb(j, r) * (-1) ** r * math.factorial(r) / b ** (r + 1)
        total += factor * _beta_bracket(x, a, a + b, n, i, j - r)
    return (1 - x) * total


def _beta_bracket(x: Array, a: Array, both: Array, m: Any, i: int, j: int) -> Array:
    """∂ⁱ⁺ʲ/∂aⁱ∂bʲ of L m + m_a with L = log x - ψ(a) + ψ(both), `both` moving with a and b."""
    from scipy import special

    total = m[i + 1, j].copy()
    for p in range(i + 1):
        for q in range(j + 1):
            slope = special.polygamma(p + q, both) - (special.polygamma(p, a) if q == 0 else 0)
            slope = slope + np.log(x) if p == q == 0 else slope
            total += math.comb(i, p) * math.comb(j, q) * slope * m[i - p, j - q]
    return total


def _beta_tail(x: Array, a: Array, b: Array, i: int, j: int) -> dict[tuple[int, int], Array]:
    """Derivatives up to i and j of m(a, b) = 1 + ∫ exp(-ay) G'(y) dy, where x m / a = F/p.

    With t = x exp(-y): G(y) = ((1-t)/(1-x))ᵇ⁻¹ = exp((b-1) λ), λ = log(1 + x (1 - e⁻ʸ)/(1-x)).
    """
    moments = {(p, q): np.zeros_like(x) for p in range(i + 1) for q in range(j + 1)}
    odds = x / (1 - x)
    scale = _beta_scale(odds, a, b)
    nodes = np.exp(LOG_NODES).reshape((-1,) + (1,) * x.ndim)
    together = max(_TOGETHER // max(x.size, 1), 1)  # nodes at once, so that short arrays are quick
    for first in range(0, len(nodes), together):
        y = scale * nodes[first : first + together]
        fall = -np.expm1(-y)
        bend = np.log1p(odds * fall)
        slope = odds * (1 - fall) / (1 + odds * fall)
        mass = np.exp((b - 1) * bend - a * y) * slope * (y * STEP)
        for p, q in moments:
            power = (b - 1) * bend**q + (q * bend ** (q - 1) if q else 0)
            moments[p, q] += (mass * (-y) ** p * power).sum(0)
    moments[0, 0] += 1
    return moments


def _beta_scale(odds: Array, a: Array, b: Array) -> Array:
    """Where exp((b-1) λ(y) - ay) has fallen to about 1/e: bisection in log y."""
    low = np.log(1 / a)
    high = low + np.log1p(np.maximum(b - 1, 0) * np.log1p(odds))
    for _ in range(30):
        middle = (low + high) / 2
        y = np.exp(middle)
        far = a * y - (b - 1) * np.log1p(-odds * np.expm1(-y)) > 1
        low, high = np.where(far, low, middle), np.where(far, middle, high)
    return np.exp(high)

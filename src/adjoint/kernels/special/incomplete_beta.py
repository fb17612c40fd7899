"""The beta function and the incomplete beta function, derivatives of every order in a, b and x.

As for the incomplete gamma function, ∂ⁱ⁺ʲI/∂aⁱ∂bʲ integrates the derivative of the density over the
shorter tail, with log t and log(1-t) counted from their means. Every function takes x and
y = 1 - x, of which the smaller has all digits: the other tail is the same with (a, x) and (b, y)
exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from adjoint.kernels.special.common import (
    HALF_LINE,
    Array,
    check_orders,
    exact_product,
    exp_over,
    in_double,
    ufunc,
)
from adjoint.kernels.special.gamma import (
    difference_in,
    exp_excess,
    log_excess,
    log_gamma,
    polygamma_real,
    stirling_error,
    weighted_excess,
)
from adjoint.kernels.special.incomplete import CANCELLING, igamma, igammac

TINY = 1e-300  # in place of 0
NOTHING = 1e-20  # a shape that is nothing beside 1
LARGE, LARGEST = 1e4, 1e9  # the shapes from which SciPy's fraction takes thousands of steps
STEEP = 1e17  # times the square of a shape: beside the other one it is nothing
HUGE = 1e250  # beyond, products of two parts are too large
MANY = 8.5  # up to here C is split into its factors
Table = dict[tuple[int, int], Array]  # derivatives by their orders in a and b


def beta(self: Any, other: Any) -> Array:
    """B(a, b), by its logarithm from a + b = 10 on."""
    return in_double(beta_of, self, other)


def beta_of(a: Array, b: Array) -> Array:
    from scipy import special

    a, b = np.broadcast_arrays(a, b)
    large = (a > 0) & (b > 0) & (a + b >= 10)
    # SciPy multiplies values of Γ, which end at 171
    far = np.maximum(np.maximum(np.abs(a), np.abs(b)), np.abs(a + b)) > 170
    far &= ~(is_pole(a) | is_pole(b) | is_pole(a + b)) & np.isfinite(a + b)
    found = special.beta(a, b)
    if (some := large | far).any():
        one, two = a[some], b[some]
        sign = special.gammasgn(one) * special.gammasgn(two) * special.gammasgn(one + two)
        found[some] = sign * np.exp(log_beta(one, two))
    return found


def betaln(self: Any, other: Any) -> Array:
    """log|B(a, b)|."""
    return in_double(log_beta, self, other)


def log_beta(a: Array, b: Array) -> Array:
    """log|B(a, b)|, where an argument is negative by that of positive ones."""
    a, b = np.broadcast_arrays(a, b)
    low, high, both = np.minimum(a, b), np.maximum(a, b), a + b
    with np.errstate(all="ignore"):
        below = (low < 0) & ~(is_pole(low) | is_pole(high) | is_pole(both))
        found = log_beta_above_zero(a, b)
        if below.any():
            found[below] = log_beta_reflected(low[below], high[below], both[below])
    return found


def log_beta_reflected(low: Array, high: Array, both: Array) -> Array:
    """By Γ(x) Γ(1-x) = π / sin πx."""
    sines = log_sin_pi(both) - log_sin_pi(low)
    for_sum = math.log(math.pi) - np.log(-low) - log_sin_pi(low) - log_beta_above_zero(both, -low)
    for_one = log_beta_above_zero(high, 1 - both) + sines
    rest = np.log(1 - both) + log_beta_above_zero(1 - low, 1 - high)
    for_none = math.log(math.pi) + sines - log_sin_pi(high) - rest
    return np.select([both > 0, high > 0], [for_sum, for_one], for_none)


def is_pole(x: Array) -> Array:
    """Whether Γ(x) is infinite."""
    return (x <= 0) & (x == np.floor(x))


def log_sin_pi(x: Array) -> Array:
    """log|sin πx|."""
    rest = np.abs(x - np.rint(x))  # the sine of a tiny one has fewer digits
    near = rest < 1e-9
    return np.where(near, math.log(math.pi) + np.log(rest), np.log(np.sin(math.pi * rest)))


def log_beta_above_zero(a: Array, b: Array) -> Array:
    """By Stirling's formula from a + b = 10 on, where log Γ would cancel."""
    large = (a > 0) & (b > 0) & (a + b >= 10)
    plain = log_gamma(a) + log_gamma(b) - log_gamma(a + b)
    low, high = np.where(large, np.minimum(a, b), 5.0), np.where(large, np.maximum(a, b), 5.0)
    ratio, less = high / low, np.log1p(low / high)  # of a tiny number the ratio is too large
    mixing = high * less + low * np.where(
        ratio < 1e300, np.log1p(ratio), np.log(high) - np.log(low)
    )
    errors = stirling_error(low) + stirling_error(high) - stirling_error(low + high)
    stirling = 0.5 * (math.log(2 * math.pi) + less - np.log(low)) + errors - mixing
    return np.where(large, stirling, plain)


def betainc(a: Any, b: Any, x: Any) -> Array:
    """I(a, b, x), in double: SciPy's loop for float32 has five digits."""
    return in_double(betainc_of, a, b, x)


def betainc_of(a: Array, b: Array, x: Array) -> Array:
    """SciPy's, but where shapes are tiny, huge, or far apart: there it has NaN, or few digits."""
    a, b, x = np.broadcast_arrays(a, b, x)
    found = ufunc("betainc", a, b, x)
    low, high = np.minimum(a, b), np.maximum(a, b)
    inside = (low > 0) & (high < math.inf) & (x > 0) & (x < 1)
    with np.errstate(all="ignore"):
        far = high > STEEP * (1 + low * low)
    tiny = low < NOTHING
    large = (low > LARGE) & (high > LARGEST)
    for part, compute in (
        (inside & tiny, betainc_of_tiny),
        (inside & far & ~tiny, betainc_far_apart),
        (inside & large & ~far, betainc_of_large),
        (inside & (x < TINY) & ~(tiny | far | large), betainc_next_to_zero),
    ):
        if part.any():
            found[part] = compute(a[part], b[part], x[part])
    return found


def betainc_of_tiny(a: Array, b: Array, x: Array) -> Array:
    """b/(a+b), and for a tiny b in proportion to it."""
    one = np.maximum(a, NOTHING)
    share = b / NOTHING * ((one + NOTHING) / (one + b))
    in_proportion = share * betainc_of(one, np.full_like(b, NOTHING), x)
    return np.where(a < NOTHING, b / (a + b), in_proportion)


def betainc_next_to_zero(a: Array, b: Array, x: Array) -> Array:
    """In proportion to xᵃ."""
    return np.power(x / TINY, a) * betainc_of(a, b, np.full_like(x, TINY))


def betainc_far_apart(a: Array, b: Array, x: Array) -> Array:
    """(1-x)ᵇ is an exponential beside xᵃ: P(a, -b log(1-x)), and Q(b, -a log x)."""
    y = 1 - x
    first = a < b
    shape = np.where(first, a, b)
    at = np.where(first, -b * log_of(y, x), -a * log_of(x, y))
    return np.where(first, igamma(shape, at), igammac(shape, at))


def betainc_of_large(a: Array, b: Array, x: Array) -> Array:
    """The integral of the density up to x, or from x on."""
    scale = np.where(np.maximum(a, b) > HUGE, 2.0**-300, 1.0)  # a step, of which sums are too large
    a, b, y = a * scale, b * scale, 1 - x
    left = is_left(a, b, x)
    shape, other = np.where(left, a, b), np.where(left, b, a)
    x, y = np.where(left, x, y), np.where(left, y, x)
    integral = moments(shape, other, x, y, 0, 0, x, x)[0, 0]
    value = np.exp(log_power(shape, other, x, y)) / y * harmonic(a, b, 0, 0) * integral
    return np.where(left, value, 1 - value)


def beta_density(a: Any, b: Any, x: Any, i: int, j: int) -> Array:
    """∂ⁱ⁺ʲ/∂aⁱ∂bʲ of p = ∂I/∂x = xᵃ⁻¹ (1-x)ᵇ⁻¹ / B(a, b)."""
    check_orders("_beta_density", i, j)
    return in_double(lambda a, b, x: density_in_shapes(a, b, x, i, j), a, b, x)


def density_in_shapes(a: Array, b: Array, x: Array, i: int, j: int) -> Array:
    a, b, x = np.broadcast_arrays(a, b, x)
    constant = ((a == 0) | (b == 0)) & (i + j == 0)  # I is 0 or 1 for all x
    result = np.where(far_out(a, b, x) | constant, 0.0, at_ends(a, b, x, i, j))
    a, b = beside_zero(a, b)
    inside = (a > 0) & (b > 0) & np.isfinite(a + b) & (x > 0) & (x < 1)
    a, b, x = a[inside], b[inside], x[inside]
    y = 1 - x
    inner = bell(slopes(a, b, i, j, log_of(x, y), log_of(y, x)), i, j)
    outer = {(k, l): harmonic(a, b, k, l) for k in range(i + 1) for l in range(j + 1)}
    result[inside] = exp_over(log_power(a, b, x, y), x) / y * leibniz(outer, inner, i, j)
    return result


def beside_zero(a: Array, b: Array) -> tuple[Array, Array]:
    """a and b, one of which may be 0, just above it: derivatives there are limits."""
    low = np.minimum(a, b) >= 0
    one, other = low & (a < TINY) & (b > TINY), low & (b < TINY) & (a > TINY)
    return np.where(one, TINY, a), np.where(other, TINY, b)


def far_out(a: Array, b: Array, x: Array) -> Array:
    """Where one of a and b is infinite, and I has become 0 or 1 for good."""
    one = np.isinf(a) & np.isfinite(b) & (a > 0) & (b > 0)
    other = np.isinf(b) & np.isfinite(a) & (b > 0) & (a > 0)
    return (one | other) & (x >= 0) & (x <= 1)


def at_ends(a: Array, b: Array, x: Array, i: int, j: int) -> Array:
    """The limits for x → 0 and x → 1, NaN elsewhere."""
    at_zero, at_one = end_of_density(a, b, i, j), end_of_density(b, a, j, i)
    return np.where(x == 0, at_zero, np.where(x == 1, at_one, math.nan))


def end_of_density(a: Array, b: Array, i: int, j: int) -> Array:
    """The limit at 0 of the derivative of xᵃ⁻¹ / B(a, b), which is b for a = 1."""
    from scipy import special

    sign = np.sign(special.rgamma(a) * special.rgamma(b)) * special.gammasgn(a + b)
    pole = sign * math.inf * (-1.0) ** i if j == 0 else np.full(a.shape, math.nan)
    level = b if j == 0 else np.full(a.shape, float(j == 1))
    at_one = level if i == 0 else pole
    flat = (a > 1) | (a <= 0) & (a == np.rint(a))
    return np.where(flat, 0.0, np.where(a == 1, at_one, pole))


def betainc_derivative(a: Any, b: Any, x: Any, i: int, j: int) -> Array:
    """∂ⁱ⁺ʲI(a, b, x)/∂aⁱ∂bʲ, i + j ≥ 1."""
    check_orders("_betainc_derivative", i, j)
    return in_double(lambda a, b, x: in_shapes(a, b, x, i, j), a, b, x)


def in_shapes(a: Array, b: Array, x: Array, i: int, j: int) -> Array:
    a, b, x = np.broadcast_arrays(a, b, x)
    a, b = beside_zero(a, b)
    valid = (a > 0) & (b > 0) & np.isfinite(a + b)
    result = np.where(valid & ((x == 0) | (x == 1)) | far_out(a, b, x), 0.0, math.nan)
    inside = valid & (x > 0) & (x < 1)
    left = inside & is_left(a, b, x)
    right = inside & ~left
    result[left] = lower(a[left], b[left], x[left], 1 - x[left], i, j)
    result[right] = -lower(b[right], a[right], 1 - x[right], x[right], j, i)
    return result


def lower(a: Array, b: Array, x: Array, y: Array, i: int, j: int) -> Array:
    """∂ⁱ⁺ʲI/∂aⁱ∂bʲ where x lies left of the mean."""
    result = np.empty_like(a)
    tiny = a < 0.5
    small = ~tiny & ((a < 1) | ((a < MANY) & (b * x < 1) & (x < 0.5)))
    ways = (
        (tiny, partial(from_power, factor=power_near_pole)),
        (small, partial(from_power, factor=power_by_factors)),
        (~tiny & ~small, tail),
    )
    for part, compute in ways:
        if part.any():
            result[part] = compute(a[part], b[part], x[part], y[part], i, j)
    return result


def from_power(
    a: Array, b: Array, x: Array, y: Array, i: int, j: int, factor: Callable[..., Table]
) -> Array:
    """I = C xᵃ (1 + a ∫ e^{-as} ((1-t)ᵇ⁻¹ - 1) ds), t = x e⁻ˢ, C = (b)ₐ / Γ(a+1), for small x.

    Whatever derivative is taken of it, no term outweighs the sum. `factor` has those of C xᵃ.
    """
    orders = [(k, l) for k in range(i + 1) for l in range(j + 1)]
    integrals = {order: np.zeros_like(a) for order in orders}
    for node, weight in HALF_LINE:
        s = node / (a + 1)
        log_rest = np.log1p(-x * np.exp(-s))
        power = (b - 1) * log_rest
        part = np.exp(-a * s) * (weight / (a + 1))
        add_powers(integrals, part * np.expm1(power), -s, log_rest, range(i + 1), range(1))
        slope = part * np.exp(power) * log_rest
        add_powers(integrals, slope, -s, log_rest, range(i + 1), range(1, j + 1))
    inner = {(k, l): a * integrals[k, l] + (k * integrals[k - 1, l] if k else 0) for k, l in orders}
    inner[0, 0] += 1
    scale = np.exp(log_power(a, b, x, y) - b * log_of(y, x))
    return scale * leibniz(factor(a, b, i, j, log_of(x, y)), inner, i, j)


def power_near_pole(a: Array, b: Array, i: int, j: int, log_x: Array) -> Table:
    """Derivatives of C xᵃ = b/(a+b) · xᵃ Γ(1+a+b)/(Γ(1+a) Γ(1+b)) over the last factor."""
    smooth = bell(slopes(a, b, i, j, log_x, np.zeros_like(a)), i, j)
    orders = [(k, l) for k in range(i + 1) for l in range(j + 1)]
    outer = {(k, l): share(a, b, k, l) for k, l in orders}
    return {(k, l): leibniz(outer, smooth, k, l) for k, l in orders}


def power_by_factors(a: Array, b: Array, i: int, j: int, log_x: Array) -> Table:
    """The same with C = b(b+1)…(b+m-1) · Γ(a+b)/(Γ(b+m) Γ(a+1)), m ≥ 1 the integer next to a.

    At an integer a it is a polynomial in b, whose derivatives may vanish.
    """
    count = np.maximum(np.rint(a), 1)
    rising = [np.ones_like(a), *(np.zeros_like(a) for _ in range(j))]
    for m in range(int(MANY)):
        used = m < count
        for l in range(j, -1, -1):
            step = (b + m) * rising[l] + (l * rising[l - 1] if l else 0)
            rising[l] = np.where(used, step, rising[l])
    scale = b / ((a + b) * rising[0])
    rest: Table = {(1, 0): log_x + difference_in(1 + a, b - 1, 0)}
    rest[0, 1] = difference_in(count + b, a - count, 0)
    for n in range(2, i + 1):
        rest[n, 0] = difference_in(1 + a, b - 1, n - 1)
    for n in range(2, j + 1):
        rest[0, n] = difference_in(count + b, a - count, n - 1)
    for k in range(1, i + 1):
        for l in range(1, j + 1):
            rest[k, l] = polygamma_real(k + l - 1, a + b)
    smooth = bell(rest, i, j)
    return {
        (k, l): scale * sum(math.comb(l, q) * rising[q] * smooth[k, l - q] for q in range(l + 1))
        for k in range(i + 1)
        for l in range(j + 1)
    }


def tail(a: Array, b: Array, x: Array, y: Array, i: int, j: int) -> Array:
    """∫ p⁽ⁱʲ⁾ dt below x, a ≥ 1: Leibniz' rule on 1/B and on moments of the logarithms."""
    nothing = np.zeros_like(a)
    centred = slopes(a, b, i, j, nothing, nothing)
    first, second = centred[1, 0], centred[0, 1]
    inner = bell({**centred, (1, 0): nothing, (0, 1): nothing}, i, j)
    rational = {(k, l): harmonic(a, b, k, l) for k in range(i + 1) for l in range(j + 1)}
    outer = {(k, l): leibniz(rational, inner, k, l) for k, l in rational}
    integrals = moments(a, b, x, y, i, j, log_of(x, y) + first, log_of(y, x) + second)
    return np.exp(log_power(a, b, x, y)) / y * leibniz(outer, integrals, i, j)


def moments(
    a: Array, b: Array, x: Array, y: Array, i: int, j: int, first: Array, second: Array
) -> Table:
    """∫ logᵏ t logˡ(1-t) e^{-as} ((1-t)/y)ᵇ⁻¹ ds with t = x e⁻ˢ, logarithms from their means.

    `first` and `second` are those at x. The integrand varies on the scale of 1/(a - (b-1) x/y), or
    of its bend at s = 0 where x is close to the mode.
    """
    odds, slope = x / y, (x - offset(a, b, x, y)) / y
    scale = np.maximum(slope, np.sqrt(np.abs(b - 1) * odds) * np.sqrt(1 + odds))
    result = {(k, l): np.zeros_like(a) for k in range(i + 1) for l in range(j + 1)}
    large = np.flatnonzero(a + b > CANCELLING)
    far_b, far_slope, far_odds = b[large], slope[large], odds[large]
    for node, weight in HALF_LINE:
        s = node / scale
        rise = -odds * np.expm1(-s)
        log_rise = np.log1p(rise)
        power = (b - 1) * log_rise - a * s
        if large.size:
            power[large] = -decay(far_b, far_slope, far_odds, s[large], rise[large])
        part = np.exp(power) * (weight / scale)
        add_powers(result, part, first - s, second + log_rise, range(i + 1), range(j + 1))
    return result


def decay(b: Array, slope: Array, odds: Array, s: Array, rise: Array) -> Array:
    """a s - (b-1) log(1 + rise) without a difference of large numbers."""
    return slope * s + (b - 1) * (odds * exp_excess(-s) + log_excess(rise, 1 + rise))


def add_powers(
    table: Table, part: Array, x: Array, y: Array, orders: range, other_orders: range
) -> None:
    """Add part · xᵏ yˡ to the integrals, l counted from the first of the other orders."""
    for k in orders:
        term = part
        for l in other_orders:
            table[k, l] += term
            term = term * y
        part = part * x


# --- derivatives in a and b ---------------------------------------------------------------------


def log_power(a: Array, b: Array, x: Array, y: Array) -> Array:
    """log(xᵃ yᵇ Γ(1+a+b) / (Γ(1+a) Γ(1+b))), by Stirling's formula about x = a/(a+b)."""
    excess = offset(a, b, x, y)
    logs = [np.log(v) for v in (x, y, a, b, a + b)]
    deviance = weighted_excess(a, excess, x * ((a + b) / a), logs[0] + logs[4] - logs[2])
    deviance += weighted_excess(b, -excess, y * ((a + b) / b), logs[1] + logs[4] - logs[3])
    errors = stirling_error(a + b) - stirling_error(a) - stirling_error(b)
    return errors - deviance - 0.5 * np.log(2 * math.pi * harmonic(a, b, 0, 0))


def offset(a: Array, b: Array, x: Array, y: Array) -> Array:
    """x b - a y = x (a + b) - a = b - y (a + b), by the smaller of x and y: it has all digits."""
    scale = np.where(np.maximum(a, b) > HUGE, 2.0**-100, 1.0)
    a, b = a * scale, b * scale
    total = a + b
    lost = np.minimum(a, b) - (total - np.maximum(a, b))
    product, error = exact_product(np.minimum(x, y), total)
    found = (product - np.where(x < y, a, b)) + (error + np.minimum(x, y) * lost)
    return np.where(x < y, found, -found) / scale


def is_left(a: Array, b: Array, x: Array) -> Array:
    """Whether x lies left of (a + 1)/(a + b + 2)."""
    return offset(a, b, x, 1 - x) < 1 - 2 * x


def log_of(x: Array, y: Array) -> Array:
    """log x, x + y = 1."""
    return np.where(x < 0.5, np.log(x), np.log1p(-y))


def slopes(a: Array, b: Array, i: int, j: int, log_x: Array, log_y: Array) -> Table:
    """Derivatives of a log x + b log y + log(Γ(1+a+b) / (Γ(1+a) Γ(1+b))), no order above i and j.

    The pole of 1/B at 0 is left to `harmonic`: near it polygammas of a would cancel.
    """
    result = {(1, 0): log_x + difference_in(1 + a, b, 0)}
    result[0, 1] = log_y + difference_in(1 + b, a, 0)
    for n in range(2, i + 1):
        result[n, 0] = difference_in(1 + a, b, n - 1)
    for n in range(2, j + 1):
        result[0, n] = difference_in(1 + b, a, n - 1)
    together = {n: polygamma_real(n - 1, 1 + a + b) for n in range(2, i + j + 1) if i and j}
    for k in range(1, i + 1):
        for l in range(1, j + 1):
            result[k, l] = together[k + l]
    return result


def bell(slopes: Table, i: int, j: int) -> Table:
    """exp(-f) ∂ᵏ⁺ˡ/∂aᵏ∂bˡ exp(f) for k ≤ i, l ≤ j from the derivatives of f."""
    result = {(0, 0): np.ones_like(slopes[1, 0])}
    for l in range(1, j + 1):
        terms = [math.comb(l - 1, q) * slopes[0, q + 1] * result[0, l - 1 - q] for q in range(l)]
        result[0, l] = np.add.reduce(terms)
    for k in range(1, i + 1):
        for l in range(j + 1):
            terms = [
                math.comb(k - 1, p) * math.comb(l, q) * slopes[p + 1, q] * result[k - 1 - p, l - q]
                for p in range(k)
                for q in range(l + 1)
            ]
            result[k, l] = np.add.reduce(terms)
    return result


def leibniz(outer: Table, inner: Table, i: int, j: int) -> Array:
    """∂ⁱ⁺ʲ of a product from the derivatives of its factors."""
    terms = [
        math.comb(i, k) * math.comb(j, l) * outer[k, l] * inner[i - k, j - l]
        for k in range(i + 1)
        for l in range(j + 1)
    ]
    return np.add.reduce(terms)


def harmonic(a: Array, b: Array, i: int, j: int) -> Array:
    """∂ⁱ⁺ʲ/∂aⁱ∂bʲ of ab/(a+b), the part of 1/B that vanishes with a or b."""
    total = a + b
    x, y = a / total, b / total
    if i + j == 0:
        return np.minimum(a, b) * np.maximum(x, y)
    if i + j == 1:
        return y * y if i else x * x
    square = i * (i - 1) * (y * y) - 2 * i * j * (x * y) + j * (j - 1) * (x * x)
    return -((-1.0) ** (i + j)) * math.factorial(i + j - 2) * square / total ** (i + j - 1)


def share(a: Array, b: Array, i: int, j: int) -> Array:
    """∂ⁱ⁺ʲ/∂aⁱ∂bʲ of b/(a+b)."""
    total = a + b
    if i + j == 0:
        return b / total
    factor = (-1.0) ** (i + j) * math.factorial(i + j - 1)
    return factor * (i * (b / total) - j * (a / total)) / total ** (i + j)

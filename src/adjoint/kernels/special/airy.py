"""The Airy function and its slope: SciPy's in the middle, asymptotic series on both sides.

Their phase and exponent ζ = 2/3 |x|^{3/2} is large where they are used, so it is taken to twice the
precision, and to as many digits as it takes where even that is too little.
"""

from __future__ import annotations

import math
from functools import cache, partial

import numpy as np

from adjoint.kernels.special.common import Array, choose, exact_product, horner, in_double

LEFT, RIGHT = -12.0, 10.0  # beyond, the series have all digits
HUGE = 1e9  # beyond, two float64 do not hold the phase
TERMS = 30
PI_BITS = 1800


def airy_ai(x: Array) -> Array:
    return in_double(lambda y: airy(y, 0), x)


def airy_ai_slope(x: Array) -> Array:
    return in_double(lambda y: airy(y, 1), x)


def airy(x: Array, n: int) -> Array:
    """Ai (n = 0) or Ai' (n = 1)."""
    from scipy import special

    def inner(x: Array) -> Array:
        return choose(x, x > RIGHT, partial(falling, n=n), lambda x: special.airy(x)[n])

    return choose(x, x < LEFT, partial(oscillating, n=n), inner)


@cache
def coefficients(n: int) -> tuple[float, ...]:
    """uₖ = (6k-5)(6k-3)(6k-1) / (216 k (2k-1)) uₖ₋₁, and vₖ = (6k+1)/(1-6k) uₖ for the slope."""
    u = [1.0]
    for k in range(1, TERMS):
        u.append(u[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1)))
    return tuple((6 * k + 1) / (1 - 6 * k) * c if n else c for k, c in enumerate(u))


def falling(x: Array, n: int) -> Array:
    """e^{-ζ}/(2√π x^{1/4}) Σ uₖ/(-ζ)ᵏ, and -x^{1/4} e^{-ζ}/(2√π) Σ vₖ/(-ζ)ᵏ."""
    x = np.minimum(x, 200.0)  # where they are 0
    zeta, rest = two_thirds_power(x)
    root = np.sqrt(np.sqrt(x))
    scale = np.exp(-zeta) * (1 - rest) / (2 * math.sqrt(math.pi))
    series = horner(-1 / zeta, coefficients(n))
    return -scale * root * series if n else scale / root * series


def oscillating(x: Array, n: int) -> Array:
    """(P cos ω + Q sin ω)/(√π z^{1/4}) and z^{1/4} (R sin ω - S cos ω)/√π, z = -x, ω = ζ - π/4."""
    z = -x
    sine, cosine = phase(z)
    zeta = 2 / 3 * z * np.sqrt(z)
    inverse = -1 / (zeta * zeta)
    even, odd = (horner(inverse, coefficients(n)[k::2]) for k in (0, 1))
    odd = odd / zeta
    ahead, turned = cosine + sine, sine - cosine  # √2 cos ω and √2 sin ω
    root = np.sqrt(np.sqrt(z))
    if n:
        return root * (even * turned - odd * ahead) / math.sqrt(2 * math.pi)
    return (even * ahead + odd * turned) / (root * math.sqrt(2 * math.pi))


def phase(z: Array) -> tuple[Array, Array]:
    """sin ζ and cos ζ; ∞ has no phase."""
    zeta, rest = two_thirds_power(np.minimum(z, HUGE))
    for at in np.flatnonzero(z > HUGE):
        zeta[at], rest[at] = exact_phase(float(z[at])), 0.0
    sine, cosine = np.sin(zeta), np.cos(zeta)
    near, far = np.cos(rest), np.sin(rest)
    return sine * near + cosine * far, cosine * near - sine * far


def two_thirds_power(z: Array) -> tuple[Array, Array]:
    """ζ = 2/3 z √z as a sum of two float64."""
    root = np.sqrt(z)
    square, error = exact_product(root, root)
    root_rest = ((z - square) - error) / (2 * root)
    product, error = exact_product(z, root)
    rest = error + z * root_rest
    zeta = 2 * product / 3
    triple, error = exact_product(zeta, np.full_like(zeta, 3.0))
    return zeta, (((2 * product - triple) - error) + 2 * rest) / 3


def exact_phase(z: float) -> float:
    """ζ less the full turns, in integers."""
    if math.isinf(z):
        return math.nan
    above, below = z.as_integer_ratio()
    bits = 80 + int(1.5 * math.log2(z))
    zeta = math.isqrt((4 * above**3 << 2 * bits) // (9 * below**3))
    turn = 2 * pi_in_bits() >> (PI_BITS - bits)
    return (zeta % turn) / (1 << bits)


@cache
def pi_in_bits() -> int:
    """π 2**PI_BITS, from 16 arctan(1/5) - 4 arctan(1/239)."""

    def arctan_of_inverse(n: int) -> int:
        total, power, k = 0, (1 << PI_BITS + 64) // n, 1
        while power:
            total += (power if k % 4 == 1 else -power) // k
            power //= n * n
            k += 2
        return total

    return (16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)) >> 64

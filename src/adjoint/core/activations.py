"""Constants of activation functions that kernels in NumPy and C and decompositions share."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

# --- mish ---------------------------------------------------------------------------------------
# With u = eˣ and b = u² + 2u + 2 its gate tanh(log(1 + u)) is (u² + 2u)/b. The k-th derivative of
# the gate is p/bᵏ⁺¹, where p is a polynomial with integer coefficients; the next p is u p' b -
# (k+1) p u b'.

BELOW = (2, 2, 1)  # b, lowest power first
Polynomial = tuple[int, ...]


@cache
def gate_numerator(k: int) -> Polynomial:
    """p of the k-th derivative of mish's gate, with a coefficient for each power up to 2k + 2.

    >>> gate_numerator(0), gate_numerator(1)
    ((0, 2, 1), (0, 4, 4, 0, 0))
    """
    if k == 0:
        return (0, 2, 1)
    before = gate_numerator(k - 1)
    up, down = _times(_moved(before), BELOW), _times(before, _moved(BELOW))
    return tuple(a - k * b for a, b in zip(up, down, strict=True))


def _moved(p: Polynomial) -> Polynomial:
    """u p'(u), the derivative in x."""
    return tuple(k * c for k, c in enumerate(p))


def _times(p: Polynomial, q: Polynomial) -> Polynomial:
    found = [0] * (len(p) + len(q) - 1)
    for i, a in enumerate(p):
        for j, b in enumerate(q):
            found[i + j] += a * b
    return tuple(found)


def gate_sides(k: int) -> tuple[Polynomial, Polynomial]:
    """p/u in u, for the left, and p u⁻²ᵏ⁻² in 1/u, for the right; lowest power first."""
    p = gate_numerator(k)
    return p[1:], p[::-1]


# --- gelu's approximation x σ(v), v = RATE (x + CUBE x³) -----------------------------------------

RATE, CUBE = 2 * 0.7978845608028654, 0.044715  # 2 √(2/π)
EXACT_RATE, EXACT_CUBE = Fraction(RATE), Fraction(RATE) * Fraction(CUBE)  # v = x (a + b x²)

# --- x - tanh(x) --------------------------------------------------------------------------------
#
# tanh(x) / x = 1/(1 + k), k = x²/(3 + x²/(5 + …)): some steps of k are x² times a quotient of two
# polynomials in x² with positive coefficients, lowest power first. So x - tanh(x) = x k/(1 + k)
# keeps all digits. Up to x = 1 nine steps are right to 2e-19, five to 1e-9.

TANHSHRINK = (
    (218243025.0, 16081065.0, 289575.0, 1430.0, 1.0),
    (654729075.0, 91891800.0, 2837835.0, 25740.0, 55.0),
)
TANHSHRINK_FLOAT = ((3465.0, 189.0, 1.0), (10395.0, 1260.0, 21.0))

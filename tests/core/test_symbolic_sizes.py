"""Sizes that stay open: arithmetic, order and text agree with the numbers that they stand for."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest

from adjoint.compiler.symbolic.polynomials import Fits, NotWhole, QuotientFits, WholeFits
from adjoint.core import symbolic_sizes
from adjoint.core.symbolic_sizes import NotOpen, SymbolicSize, assuming, divided, surely, symbol

EXAMPLE = (30, 17, 50)
POINTS = [(2, 2, 2), (2, 9, 3), (7, 2, 40), (30, 17, 50), (101, 64, 5)]


def linear(random_: random.Random, size: Any) -> Any:
    """Sums, multiples and quotients of a size and numbers: of open sizes, or of numbers alone."""
    found = size
    for _ in range(random_.randint(1, 4)):
        found = found * random_.choice((1, 1, 2, 3)) + random_.randint(-4, 4)
        if random_.random() < 0.6:
            found = found // random_.choice((2, 2, 3, 4))
    return found


def polynomial(random_: random.Random) -> Any:
    """Sums and products of symbols, quotients of them, and numbers."""
    names = [symbol(k, size) for k, size in enumerate(EXAMPLE)]
    names += [names[0] // 2, (names[1] + 1) // 3]
    total: Any = random_.randint(-4, 4)
    for _ in range(random_.randint(1, 3)):
        term: Any = random_.choice((-3, -1, 1, 2, 5))
        for _ in range(random_.randint(0, 2)):
            term = term * random_.choice(names)
        total = total + term if random_.random() < 0.5 else term - total
    return total


@pytest.mark.parametrize("seed", range(60))
def test_arithmetic_is_that_of_the_numbers(seed: int) -> None:
    random_ = random.Random(seed)
    a, b = polynomial(random_), polynomial(random_)
    for point in POINTS:
        x, y = symbolic_sizes.at(a, point), symbolic_sizes.at(b, point)
        assert symbolic_sizes.at(a + b, point) == x + y
        assert symbolic_sizes.at(a - b, point) == x - y
        assert symbolic_sizes.at(a * b, point) == x * y
        names = {f"size{k}": n for k, n in enumerate(point)}
        assert eval(str(a).replace("/", "//"), {}, names) == x  # the text is an expression of C
    assert int(a) == symbolic_sizes.at(a, EXAMPLE)
    if b:
        assert divided(a * b, b) == a


@pytest.mark.parametrize("seed", range(60))
def test_what_is_sure_holds_for_all_sizes_and_what_is_decided_under_its_assumptions(
    seed: int,
) -> None:
    random_ = random.Random(1000 + seed)
    a, b = polynomial(random_), polynomial(random_)
    with assuming(EXAMPLE) as assumed:
        smaller = a < b
    for point in itertools.product((2, 3, 5, 40), repeat=3):
        if surely(a - b):
            assert symbolic_sizes.at(a, point) >= symbolic_sizes.at(b, point)
        if all(symbolic_sizes.at(each, point) >= 0 for each in assumed):
            assert smaller == (symbolic_sizes.at(a, point) < symbolic_sizes.at(b, point))


@pytest.mark.parametrize("seed", range(30))
def test_quotients_are_those_of_the_numbers_and_written_in_one_way(seed: int) -> None:
    a = linear(random.Random(seed), symbol(1, 17))
    for n in range(2, 120):
        assert symbolic_sizes.at(a, (0, n)) == linear(random.Random(seed), n)
    if isinstance(a, SymbolicSize):
        assert (a * 6 + 5) // 6 == a
        for k in (2, 3, 4):
            parts = [(a + offset) // k for offset in range(k)]
            assert sum(parts[1:], parts[0]) == a  # Hermite's identity
            assert surely(a - k * parts[0])
            assert surely(k * parts[0] + k - 1 - a)


def test_equal_means_equal_for_all_sizes() -> None:
    n, m = symbol(0, 12), symbol(1, 12)
    assert n != m
    assert n != 12
    assert n - 12
    assert n - 12 != 0
    assert n * m - m * n == 0
    assert hash(n * 2 + 1) == hash(1 + n + n)


def test_a_quotient_that_is_not_whole_for_all_sizes_is_refused() -> None:
    n = symbol(0, 12)
    m = symbol(1, 7)
    assert (n * 6) // 3 == 2 * n
    assert 1 // n == 0
    for wrong in (lambda: n * m // 5, lambda: (n * n + 1) // 2, lambda: n // m):
        with pytest.raises(NotOpen):
            wrong()


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_numbers_of_some_sizes_give_their_polynomial(count: int) -> None:
    random_ = random.Random(count)
    points = [tuple(random_.sample(range(17, 400), count)) for _ in range(2 * count + 3)]
    names = [symbol(k, n) for k, n in enumerate(points[0])]
    last = names[-1]
    for wanted in (last, 3 * last - 2, last * last + last, names[0] * last * 4 + 1):
        for kind in (Fits, WholeFits, QuotientFits):
            assert kind(points).fit([symbolic_sizes.at(wanted, p) for p in points]) == wanted
    reals = [lambda n: 2 / (3 * n), lambda n: n**-0.5, lambda n: -1 / (n - 1)]
    reals += [lambda n: 2 * math.pi / n, lambda n: 1e-16 * (n + 7), lambda n: math.e * n**0.5]
    for real in reals:
        number = Fits(points).fit_real([real(p[-1]) for p in points])
        assert isinstance(number.size, SymbolicSize)
        for n in (2, 9, 1001):
            assert number.at((5,) * (count - 1) + (n,)) == pytest.approx(real(n), rel=1e-15)


def test_numbers_without_a_polynomial_are_refused() -> None:
    points = [(17,), (19,), (20,), (33,), (40,)]
    with pytest.raises(NotOpen, match="which is no polynomial"):
        Fits(points).fit([n // 2 for (n,) in points])
    with pytest.raises(NotOpen, match="which is no polynomial"):
        QuotientFits(points).fit([n * n % 101 for (n,) in points])
    even = [(2 * n,) for (n,) in points]
    with pytest.raises(NotWhole):
        WholeFits(even).fit([n // 2 for (n,) in even])
    assert WholeFits(even).fit([n * (n - 1) // 2 for (n,) in even]).at((7,)) == 21


@pytest.mark.parametrize("count", [1, 2])
def test_numbers_of_some_sizes_give_their_quotients(count: int) -> None:
    """What layers of strides make of sizes, one after the other, and the products of that."""
    random_ = random.Random(count)
    points = [tuple(random_.sample(range(500, 3000), count)) for _ in range(2 * count + 9)]
    first, last = symbol(0, points[0][0]), symbol(count - 1, points[0][-1])
    fits = QuotientFits(points)
    halves = [first // 2, (last - 1) // 2 + 1]
    quarters = [halves[0] // 2, (halves[1] - 1) // 2 + 1]
    areas = [3 * halves[0] * halves[1], quarters[0] * quarters[1]]
    for wanted in (*halves, *quarters, *areas, first - halves[0], first // 16, (last - 7) // 5 + 1):
        assert fits.fit([symbolic_sizes.at(wanted, p) for p in points]) == wanted

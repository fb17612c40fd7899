"""Sizes that stay open: whole numbers that are known for an example, and as polynomials.

A `Size` is an `int`, its value for the example, that also knows how it depends on size symbols, and
so do all sums, products and exact quotients of it. Equality is that of polynomials. An order that
does not hold for all sizes is decided by the example, and remembered as an assumption (`assuming`):
code made under it serves the sizes for which it holds. A `Real` is the same for a number in an
expression: 1/n, √n.

As text a size is an expression of C, so whatever is printed with it is right for all sizes.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from adjoint.core.lazy import Lazy

if TYPE_CHECKING:
    import fractions
else:
    fractions = Lazy("fractions")  # for open sizes

Monomial = tuple[int, ...]  # symbols, sorted: (0, 0, 2) is n₀² n₂
Terms = Mapping[Monomial, Any]  # monomial -> coefficient, none is 0
LEAST = 2  # the smallest size that stays open: 0 and 1 broadcast


class NotOpen(Exception):
    """Something that cannot be said for all sizes."""


_assumed: ContextVar[dict[Size, None] | None] = ContextVar("assumed", default=None)


@contextmanager
def assuming() -> Generator[dict[Size, None]]:
    """The sizes that are assumed to be at least 0 in here."""
    found: dict[Size, None] = {}
    token = _assumed.set(found)
    try:
        yield found
    finally:
        _assumed.reset(token)


def symbol(number: int, example: int) -> Size:
    """An open size."""
    return Size(example, {(number,): 1})


class Size(int):
    """A whole number that depends on open sizes.

    >>> n = symbol(0, 100)
    >>> int(2 * n + 1), f"{2 * n + 1}", (n * n + n) // n == n + 1
    (201, '(2 * size0 + 1)', True)
    """

    terms: Terms

    def __new__(cls, example: int, terms: Terms) -> Size:
        made = super().__new__(cls, example)
        made.terms = terms
        return made

    # -- arithmetic -------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        found = dict(self.terms)
        for powers, coefficient in _terms(other).items():
            found[powers] = found.get(powers, 0) + coefficient
        return made(int(self) + int(other), found)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return self + -other if isinstance(other, int) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        found: dict[Monomial, Any] = {}
        for first, a in self.terms.items():
            for second, b in _terms(other).items():
                powers = tuple(sorted(first + second))
                found[powers] = found.get(powers, 0) + a * b
        return made(int(self) * int(other), found)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return quotient(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return quotient(other, self)

    def __mod__(self, other: Any) -> Any:
        return self - other * quotient(self, other)

    def __rmod__(self, other: Any) -> Any:
        return other - self * quotient(other, self)

    def __divmod__(self, other: Any) -> Any:
        whole = quotient(self, other)
        return whole, self - other * whole

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __pos__(self) -> Any:
        return self

    # -- order ------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms

    def __ne__(self, other: object) -> bool:  # int has one of its own
        return not self == other

    def __bool__(self) -> bool:
        return True  # it is not 0 for all sizes, though it may be for the example

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __lt__(self, other: Any) -> bool:
        return decided(other - self - 1)

    def __le__(self, other: Any) -> bool:
        return decided(other - self)

    def __gt__(self, other: Any) -> bool:
        return decided(self - other - 1)

    def __ge__(self, other: Any) -> bool:
        return decided(self - other)

    # -- text and values --------------------------------------------------------------------------

    def __format__(self, _: str) -> str:
        return str(self)

    def __str__(self) -> str:
        denominator = math.lcm(*(fractions.Fraction(c).denominator for c in self.terms.values()))
        parts = [_part(powers, c * denominator) for powers, c in sorted(self.terms.items())]
        text = " + ".join(reversed(parts))
        return f"(({text}) / {denominator})" if denominator > 1 else f"({text})"

    __repr__ = __str__

    def at(self, sizes: Sequence[int]) -> Any:
        """The number for given sizes; a fraction where it is no whole one."""
        return _at(self.terms, sizes)

    def like(self, sizes: Sequence[int]) -> Size:
        """The same with other sizes for an example."""
        return Size(int(self.at(sizes)), self.terms)


class Real(float):
    """A number that depends on open sizes: factor · size ^ power."""

    factor: float
    size: Size
    power: float

    def __new__(cls, factor: float, size: Size, power: float) -> Real:
        made = super().__new__(cls, _real(factor, int(size), power))
        made.factor, made.size, made.power = factor, size, power
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Real) and self._key() == other._key()

    def __ne__(self, other: object) -> bool:  # float has one of its own
        return not self == other

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> Any:
        return self.factor, self.size, self.power

    def like(self, sizes: Sequence[int]) -> Real:
        """The same with other sizes for an example."""
        return Real(self.factor, self.size.like(sizes), self.power)

    def at(self, sizes: Sequence[int]) -> float:
        """The number for given sizes."""
        return _real(self.factor, self.size.at(sizes), self.power)

    def __str__(self) -> str:
        root = f"sqrt((double){self.size})" if abs(self.power) == 0.5 else f"((double){self.size})"
        sign = "/" if self.power < 0 else "*"
        return f"({self.factor!r} {sign} {root})"

    def __format__(self, _: str) -> str:
        return str(self)

    __repr__ = __str__


def _real(factor: float, size: Any, power: float) -> float:
    root = math.sqrt(size) if abs(power) == 0.5 else float(size)
    return factor / root if power < 0 else factor * root


def at(value: Any, sizes: Sequence[int]) -> Any:
    """A number, or a tuple of them, for given sizes."""
    if isinstance(value, (Size, Real)):
        return value.at(sizes)
    if type(value) is tuple:
        return tuple(at(v, sizes) for v in value)
    return value


def is_open(value: Any) -> bool:
    """Whether a number, or one in a tuple, depends on open sizes."""
    if type(value) is tuple:
        return any(map(is_open, value))
    return isinstance(value, (Size, Real))


def made(example: int, terms: Terms) -> int:
    """A number by its polynomial: a plain one if that is constant."""
    kept = {powers: c for powers, c in terms.items() if c}
    return Size(example, kept) if any(kept) else example


def quotient(a: int, b: int) -> int:
    """a // b where it is known for all sizes: exact, or 0 because a < b."""
    exact = divided(a, b)
    if exact is not None:
        return exact
    if 0 <= a < b:
        return 0
    raise NotOpen(f"{a} divided by {b} is not whole for all sizes")


def divided(a: int, b: int) -> int | None:
    """a / b if it is whole for all sizes, else None."""
    if not isinstance(a, Size) and not isinstance(b, Size):
        return a // b if b and a % b == 0 else None
    rest, found = dict(_terms(a)), {}
    lead, first = max(_terms(b).items(), key=lambda term: (len(term[0]), term[0]))
    while rest:
        powers, coefficient = max(rest.items(), key=lambda term: (len(term[0]), term[0]))
        left = _without(powers, lead)
        if left is None:
            return None
        factor = _exact(fractions.Fraction(coefficient) / fractions.Fraction(first))
        found[left] = found.get(left, 0) + factor
        for more, c in _terms(b).items():
            key = tuple(sorted(more + left))
            rest[key] = rest.get(key, 0) - factor * c
            if not rest[key]:
                del rest[key]
    if any(fractions.Fraction(c).denominator > 1 for c in found.values()):
        return None
    return made(int(a) // int(b), found)


def share(a: int, b: int) -> int:
    """a / b, where it does not matter that this may be a fraction for some sizes."""
    if not isinstance(a, Size):
        return a // b
    return made(int(a) // b, {p: fractions.Fraction(c) / b for p, c in a.terms.items()})


def surely(difference: int) -> bool:
    """Whether a number is at least 0, for all sizes."""
    if not isinstance(difference, Size):
        return difference >= 0
    return all(c >= 0 for c in _shifted(difference.terms).values())


def decided(difference: int) -> bool:
    """Whether a number is at least 0: for all sizes, or for those like the example's."""
    if not isinstance(difference, Size):
        return difference >= 0
    if surely(difference):
        return True
    opposite = -difference - 1
    if surely(opposite):
        return False
    holds = int(difference) >= 0
    assumed = _assumed.get()
    if assumed is not None:
        assumed[difference if holds else opposite] = None
    return holds


def _shifted(terms: Terms) -> dict[Monomial, Any]:
    """The polynomial of how much sizes exceed the least ones: all its variables are at least 0."""
    found: dict[Monomial, Any] = {}
    for powers, coefficient in terms.items():
        parts: list[tuple[Monomial, Any]] = [((), coefficient)]
        for s in powers:
            parts = [p for m, c in parts for p in (((*m, s), c), (m, c * LEAST))]
        for m, c in parts:
            key = tuple(sorted(m))
            found[key] = found.get(key, 0) + c
    return found


def _terms(value: int) -> Terms:
    if isinstance(value, Size):
        return value.terms
    return {(): value} if value else {}


def _at(terms: Terms, sizes: Sequence[int]) -> Any:
    return _exact(sum(c * math.prod(sizes[s] for s in powers) for powers, c in terms.items()))


def _exact(number: Any) -> Any:
    """A fraction as a whole number if it is one."""
    return int(number) if fractions.Fraction(number).denominator == 1 else number


def _without(powers: Monomial, others: Monomial) -> Monomial | None:
    left = list(powers)
    for each in others:
        if each not in left:
            return None
        left.remove(each)
    return tuple(left)


def _part(powers: Monomial, coefficient: Any) -> str:
    names = [f"size{s}" for s in powers]
    if coefficient != 1 or not names:
        names = [str(int(coefficient)), *names]
    return " * ".join(names)

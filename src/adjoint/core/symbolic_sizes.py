"""Symbolic sizes: integers with a value for an example, and a polynomial for all sizes.

A `SymbolicSize` is an `int`, its value for the example, that also knows how it depends on size
symbols; sums, products and exact quotients of it are symbolic, too. An inexact quotient by a number
is a symbol of its own (`Floor`), so halves of sizes are polynomials, too. Equality is that of
polynomials. A comparison that does not hold for all sizes is decided by the example, and remembered
as an assumption (`assuming`): code made under it serves the sizes for which the assumption holds. A
`Real` is the same for a number in an expression: 1/n, √n.

As text a size is a C expression, so a program printed with it is right for all sizes.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from adjoint.core.lazy import Lazy

if TYPE_CHECKING:
    import fractions
else:
    fractions = Lazy("fractions")  # needed for symbolic sizes only


T = TypeVar("T")


class Floor(NamedTuple):
    """⌊(size + offset) / divisor⌋, where 0 ≤ offset < divisor."""

    size: int  # an open size
    offset: int
    divisor: int

    def __str__(self) -> str:
        above = f"(size{self.size} + {self.offset})" if self.offset else f"size{self.size}"
        return f"({above} / {self.divisor})"


Symbol = int | Floor
Monomial = tuple[Symbol, ...]  # sorted: (0, 0, 2) is n₀² n₂
Terms = Mapping[Monomial, Any]  # monomial -> coefficient, none is 0
LEAST = 1  # the smallest size that is symbolic: size 0 has programs of its own
_PERIOD = 4096  # the longest period of a quotient (its steps repeat) that is examined
_CASES = 256  # most remainders for which a comparison is examined
_WRITTEN_OUT = 4  # up to this divisor the sum of all quotients is rewritten as the size


class NotOpen(Exception):
    """Raised for a statement that cannot be made for all sizes."""


_assumed: ContextVar[dict[SymbolicSize, None] | None] = ContextVar("assumed", default=None)
_example: ContextVar[Sequence[int] | None] = ContextVar("example", default=None)
_first: ContextVar[Sequence[int]] = ContextVar("first", default=())


@contextmanager
def called_with(sizes: Sequence[int]) -> Generator[None]:
    """A block that makes programs for a function whose first call has these symbolic sizes."""
    token = _first.set(sizes)
    try:
        yield
    finally:
        _first.reset(token)


def first() -> Sequence[int]:
    """The symbolic sizes' values at the first call; empty outside `called_with`."""
    return _first.get()


@contextmanager
def assuming(example: Sequence[int]) -> Generator[dict[SymbolicSize, None]]:
    """A block in which an example decides comparisons; gives the sizes assumed to be ≥ 0."""
    found: dict[SymbolicSize, None] = {}
    tokens = _assumed.set(found), _example.set(example)
    try:
        yield found
    finally:
        _assumed.reset(tokens[0])
        _example.reset(tokens[1])


def example() -> Sequence[int]:
    """The example values of the symbolic sizes in this block; empty outside `assuming`."""
    return _example.get() or ()


# Note [Programs of many sizes] To get one program for all sizes, a function is traced for a few
# sizes, and the graphs must be alike. So while such a trace is made (`is_for_many`), an operator
# with a special case for some sizes (a pool whose windows are even, a frame of no elements) takes
# the general way; and a choice made by sizes for speed (the order of a contraction) is made once.
_chosen: ContextVar[dict[Hashable, Any] | None] = ContextVar("chosen", default=None)


@contextmanager
def for_many(choices: dict[Hashable, Any] | None) -> Generator[None]:
    """A block that traces for many sizes; `choices` of earlier traces are used and extended. None:
    for one size.
    """
    token = _chosen.set(choices)
    try:
        yield
    finally:
        _chosen.reset(token)


def is_for_many() -> bool:
    """Whether the trace must serve many sizes: Note [Programs of many sizes]."""
    return _chosen.get() is not None


def chosen(what: Hashable, choose: Callable[[], T]) -> T:
    """The result of `choose()`, which depends on sizes; computed once for a program."""
    made = _chosen.get()
    if made is None:
        return choose()
    if what not in made:
        made[what] = choose()
    return made[what]


def symbol(number: int, example: int) -> SymbolicSize:
    """A symbolic size."""
    return SymbolicSize(example, {(number,): 1})


class SymbolicSize(int):
    """An integer that depends on symbolic sizes.

    >>> n = symbol(0, 100)
    >>> int(2 * n + 1), f"{2 * n + 1}", (n * n + n) // n == n + 1
    (201, '(2 * size0 + 1)', True)
    """

    terms: Terms
    asked: tuple[Sequence[int] | None, int]  # (sizes, its value for them): the last it was asked

    def __new__(cls, example: int, terms: Terms) -> SymbolicSize:
        made = super().__new__(cls, example)
        made.terms = terms
        made.asked = None, example
        return made

    def __int__(self) -> int:
        """The value for the example of `assuming`, else for the one that made the size."""
        sizes = _example.get()
        if sizes is None:
            return super().__int__()
        if self.asked[0] is not sizes:
            self.asked = sizes, int(self.at(sizes))
        return self.asked[1]

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
        if not isinstance(other, SymbolicSize):
            example = int(self) * other
            scaled = {powers: a * other for powers, a in self.terms.items()}
            return SymbolicSize(example, scaled) if other else 0
        found: dict[Monomial, Any] = {}
        for first, a in self.terms.items():
            for second, b in other.terms.items():
                powers = _sorted(first + second)
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
        return isinstance(other, SymbolicSize) and self.terms == other.terms

    def __ne__(self, other: object) -> bool:  # int has one of its own
        return not self == other

    def __bool__(self) -> bool:
        return True  # it is not 0 for all sizes, even if it is for the example

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
        terms = sorted(self.terms.items(), key=lambda term: _order(term[0]))
        parts = [_part(powers, c * denominator) for powers, c in terms]
        text = " + ".join(reversed(parts))
        return f"(({text}) / {denominator})" if denominator > 1 else f"({text})"

    __repr__ = __str__

    def at(self, sizes: Sequence[int]) -> Any:
        """The value for given sizes; a fraction if it is not an integer."""
        return _at(self.terms, sizes)

    def like(self, sizes: Sequence[int]) -> SymbolicSize:
        """The same with other sizes for an example."""
        return SymbolicSize(int(self.at(sizes)), self.terms)


class Real(float):
    """A real number that depends on symbolic sizes: factor · size ^ power."""

    factor: float
    size: SymbolicSize
    power: float

    def __new__(cls, factor: float, size: SymbolicSize, power: float) -> Real:
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
    """factor · size ^ power as native code computes it: division by 0 gives infinity or NaN."""
    if size < 0 and abs(power) == 0.5:
        return math.nan
    root = math.sqrt(size) if abs(power) == 0.5 else float(size)
    if root == 0 and power < 0:
        return math.copysign(math.inf, factor) if factor else math.nan
    return factor / root if power < 0 else factor * root


def at(value: Any, sizes: Sequence[int]) -> Any:
    """A number, or a tuple of them, for given sizes."""
    if isinstance(value, (SymbolicSize, Real)):
        return value.at(sizes)
    if type(value) is tuple:
        return tuple(at(v, sizes) for v in value)
    return value


def with_known(value: Any, known: Mapping[int, int]) -> Any:
    """A number, or a tuple of numbers, with the values of some symbolic sizes put in."""
    if type(value) is tuple:
        return tuple([with_known(v, known) for v in value])
    if not isinstance(value, SymbolicSize) or symbols_of(value).isdisjoint(known):
        return value
    found: dict[Monomial, Any] = {}
    for powers, coefficient in value.terms.items():
        left = tuple([s for s in powers if _base(s)[0] not in known])
        factors = (_value(s, known) for s in powers if _base(s)[0] in known)
        found[left] = found.get(left, 0) + coefficient * math.prod(factors)
    constant = _exact(found.get((), 0))
    return made(int(value) if any(c for p, c in found.items() if p) else constant, found)


def symbols_of(value: int) -> set[int]:
    """The symbolic sizes that a number depends on."""
    return {_base(s)[0] for powers in _terms(value) for s in powers}


def largest(value: int, most: Mapping[int, int]) -> int | None:
    """The largest value of a number if symbolic sizes are at most `most`; None: unknown."""
    if not isinstance(value, SymbolicSize):
        return value
    grows = all(c > 0 for powers, c in value.terms.items() if powers)
    return _at(value.terms, most) if grows and symbols_of(value) <= most.keys() else None


def is_open(value: Any) -> bool:
    """Whether a number, or one in a tuple, depends on symbolic sizes."""
    if type(value) is tuple:
        return any(map(is_open, value))
    return isinstance(value, (SymbolicSize, Real))


def made(example: int, terms: Terms) -> int:
    """The number with this polynomial: a plain int if the polynomial is constant."""
    kept = {powers: c for powers, c in terms.items() if c}
    if sum(len(p) == 1 and isinstance(p[0], Floor) for p in kept) > 1:
        kept = _in_one_way(frozenset(kept.items()))
    return SymbolicSize(example, kept) if any(kept) else example


def quotient(a: int, b: int) -> int:
    """a // b for all sizes, if it is exact, or b is a number, or a < b; else raise."""
    exact = divided(a, b)
    if exact is not None:
        return exact
    if isinstance(a, SymbolicSize) and not isinstance(b, SymbolicSize) and b > 0:
        found = _rounded_down(a, b)
        if found is not None:
            return found
    if 0 <= a < b:
        return 0
    raise NotOpen(f"{a} divided by {b} is not whole for all sizes")


def divided(a: int, b: int) -> int | None:
    """a / b if it is whole for all sizes, else None."""
    if not isinstance(a, SymbolicSize) and not isinstance(b, SymbolicSize):
        return a // b if b and a % b == 0 else None
    rest, found = dict(_terms(a)), {}
    lead, first = max(_terms(b).items(), key=lambda term: _order(term[0]))
    while rest:
        powers, coefficient = max(rest.items(), key=lambda term: _order(term[0]))
        left = _without(powers, lead)
        if left is None:
            return None
        factor = _exact(fractions.Fraction(coefficient) / fractions.Fraction(first))
        found[left] = found.get(left, 0) + factor
        for more, c in _terms(b).items():
            key = _sorted(more + left)
            rest[key] = rest.get(key, 0) - factor * c
            if not rest[key]:
                del rest[key]
    if any(fractions.Fraction(c).denominator > 1 for c in found.values()):
        return None
    return made(int(a) // int(b), found)


def share(a: int, b: int) -> int:
    """a / b for a caller that accepts a fraction for some sizes."""
    if not isinstance(a, SymbolicSize):
        return a // b
    return made(int(a) // b, {p: fractions.Fraction(c) / b for p, c in a.terms.items()})


def is_whole(number: SymbolicSize) -> bool:
    """Whether a polynomial is a whole number for all sizes: n (n - 1) / 2 is, n / 2 is not."""
    if all(type(c) is int for c in number.terms.values()):
        return True
    # so is a polynomial that is an integer at as many neighbours as it has powers, in each
    # direction
    powers: dict[Symbol, int] = {}
    for monomial in number.terms:
        for s, count in Counter(monomial).items():
            powers[s] = max(powers.get(s, 0), count)
    for point in itertools.product(*(range(count + 1) for count in powers.values())):
        values = dict(zip(powers, point, strict=True))
        found = sum(
            c * math.prod(values[s] for s in monomial) for monomial, c in number.terms.items()
        )
        if fractions.Fraction(found).denominator > 1:
            return False
    return True


def surely(difference: int) -> bool:
    """Whether a number is at least 0 for all sizes."""
    if not isinstance(difference, SymbolicSize):
        return difference >= 0
    return _is_sure(frozenset(difference.terms.items()))


def decided(difference: int) -> bool:
    """Whether a number is at least 0: for all sizes, or at the example, as an assumption."""
    if not isinstance(difference, SymbolicSize):
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


# Note [Remainders of sizes] Let L be a common multiple of the divisors of all quotients of a size
# n. Then n = L m + r with 0 ≤ r < L, and each quotient is a polynomial of m: ⌊(n + a) / k⌋ = (L /
# k) m + ⌊(r + a) / k⌋. So a statement about a polynomial with quotients is examined for each
# remainder.


@lru_cache(maxsize=4096)
def _is_sure(terms: frozenset[tuple[Monomial, Any]]) -> bool:
    """Whether a polynomial is at least 0 for all sizes, because all its coefficients are if it is
    written in the amounts by which sizes exceed the smallest: Note [Remainders of sizes].
    """
    periods: dict[int, int] = {}
    for symbol_ in {s for powers, _ in terms for s in powers}:
        size, divisor = _base(symbol_)
        periods[size] = math.lcm(periods.get(size, 1), divisor)
    if math.prod(periods.values()) > _CASES:
        return False
    for rests in itertools.product(*map(range, periods.values())):
        cases = {s: (p, r) for (s, p), r in zip(periods.items(), rests, strict=True)}
        if any(c < 0 for c in _shifted(terms, cases).values()):
            return False
    return True


def _shifted(terms: Any, cases: dict[int, tuple[int, int]]) -> dict[Monomial, Any]:
    """The polynomial of m - m₀, where sizes are L m + r and m₀ is the least m; by size L and r."""
    lines = {}  # each symbol as slope · (m - m₀) + start
    for symbol_ in {s for powers, _ in terms for s in powers}:
        size, divisor = _base(symbol_)
        period, rest = cases[size]
        least = max(-(-(LEAST - rest) // period), 0) * period + rest
        start = (least + symbol_.offset) // divisor if isinstance(symbol_, Floor) else least
        lines[symbol_] = period // divisor, start
    found: dict[Monomial, Any] = {}
    for powers, coefficient in terms:
        parts: list[tuple[Monomial, Any]] = [((), coefficient)]
        for s in powers:
            (slope, start), variable = lines[s], _base(s)[0]
            parts = [p for m, c in parts for p in (((*m, variable), c * slope), (m, c * start))]
        for m, c in parts:
            key = _sorted(m)
            found[key] = found.get(key, 0) + c
    return found


def _base(symbol_: Symbol) -> tuple[int, int]:
    """The size that a symbol depends on, and its divisor (1 for the size itself)."""
    return (symbol_.size, symbol_.divisor) if isinstance(symbol_, Floor) else (symbol_, 1)


@lru_cache(maxsize=4096)
def _in_one_way(terms: frozenset[tuple[Monomial, Any]]) -> dict[Monomial, Any]:
    """The polynomial with its part that is linear in a size and its quotients in canonical form."""
    found = dict(terms)
    for size in {p[0].size for p in found if len(p) == 1 and isinstance(p[0], Floor)}:
        part = {p: c for p, c in found.items() if len(p) == 1 and _base(p[0])[0] == size}
        period = math.lcm(*(_base(p[0])[1] for p in part))
        if period > _CASES or not all(type(c) is int for c in part.values()):
            continue
        found = {p: c for p, c in found.items() if p not in part}
        values = [_at(part, {size: n}) for n in range(LEAST, LEAST + 2 * period + 1)]
        for p, c in _linear(size, values, period):
            found[p] = found.get(p, 0) + c
    return {p: c for p, c in found.items() if c}


def _rounded_down(a: SymbolicSize, b: int) -> int | None:
    """⌊a / b⌋ for a number that is linear in one size and its quotients; None for any other."""
    symbols = {s for powers in a.terms for s in powers}
    whole = all(len(p) < 2 and type(c) is int for p, c in a.terms.items())
    if len({_base(s)[0] for s in symbols}) != 1 or not whole:
        return None
    size = _base(next(iter(symbols)))[0]
    period = math.lcm(*(_base(s)[1] for s in symbols)) * b
    if period > _PERIOD:
        return None
    values = [int(_at(a.terms, {size: n})) // b for n in range(LEAST, LEAST + 2 * period + 1)]
    found = dict(_linear(size, values, period))
    return made(int(a) // b, found)


def _linear(size: int, values: list[int], period: int) -> Iterator[tuple[Monomial, int]]:
    """The terms of a number whose steps repeat with a period; `values` are at LEAST, LEAST + 1, ….
    Equal values give equal terms.
    """
    steps = [b - a for a, b in itertools.pairwise(values)]
    period = next(
        k for k in range(1, period + 1)
        if period % k == 0 and all(a == b for a, b in zip(steps, steps[k:]))
    )  # fmt: skip
    by_rest = [steps[(rest - LEAST) % period] for rest in range(period)]
    slope = by_rest[0]
    if period > _WRITTEN_OUT:
        slope = Counter(by_rest).most_common(1)[0][0]
    start = values[0] - slope * LEAST
    yield (size,), slope
    for rest, step in enumerate(by_rest):
        if step != slope:
            jump = Floor(size, period - 1 - rest, period)  # it grows by 1 at this remainder
            start -= (step - slope) * ((LEAST + jump.offset) // period)
            yield (jump,), step - slope
    yield (), start


def _terms(value: int) -> Terms:
    if isinstance(value, SymbolicSize):
        return value.terms
    return {(): value} if value else {}


def _at(terms: Terms, sizes: Sequence[int] | Mapping[int, int]) -> Any:
    values = (c * math.prod(_value(s, sizes) for s in powers) for powers, c in terms.items())
    return _exact(sum(values))


def _value(symbol_: Symbol, sizes: Sequence[int] | Mapping[int, int]) -> int:
    """The number that a symbol stands for."""
    if isinstance(symbol_, Floor):
        return (sizes[symbol_.size] + symbol_.offset) // symbol_.divisor
    return sizes[symbol_]


def _sorted(powers: Monomial) -> Monomial:
    return tuple(sorted(powers, key=_place)) if len(powers) > 1 else powers


def _place(symbol_: Symbol) -> tuple[int, int, int]:
    """The sort key of a symbol."""
    if isinstance(symbol_, Floor):
        return symbol_.size, symbol_.divisor, symbol_.offset
    return symbol_, 0, 0


def _order(powers: Monomial) -> tuple[int, list[tuple[int, int, int]]]:
    """The sort key of a monomial."""
    return len(powers), [_place(s) for s in powers]


def _exact(number: Any) -> Any:
    """A fraction as an int if it is one."""
    if type(number) is int:
        return number
    return int(number) if fractions.Fraction(number).denominator == 1 else number


def _without(powers: Monomial, others: Monomial) -> Monomial | None:
    left = list(powers)
    for each in others:
        if each not in left:
            return None
        left.remove(each)
    return tuple(left)


def _part(powers: Monomial, coefficient: Any) -> str:
    names = [str(s) if isinstance(s, Floor) else f"size{s}" for s in powers]
    if coefficient != 1 or not names:
        names = [str(int(coefficient)), *names]
    return " * ".join(names)

"""Index arithmetic: which element of a value an iteration of a loop reads.

An index of a value has one `Affine` for each dimension of the value: a whole number plus multiples
of the loop's variables. A view (slice, transpose, broadcast, diagonal) changes the index only. The
address in memory is the sum of the index times the strides.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from adjoint.core.records import record
from adjoint.core.shapes import Shape, row_major
from adjoint.core.symbolic_sizes import divided, is_open, surely, with_known


@record
class Affine:
    """offset + Σ coefficient · variable"""

    offset: int = 0
    terms: tuple[tuple[int, int], ...] = ()  # ((variable, coefficient), …), sorted, none is 0

    def __add__(self, other: Affine) -> Affine:
        found = dict(self.terms)
        for variable, coefficient in other.terms:
            found[variable] = found.get(variable, 0) + coefficient
        kept = tuple(sorted((v, c) for v, c in found.items() if c))
        return Affine(self.offset + other.offset, kept)

    def __mul__(self, factor: int) -> Affine:
        if not factor:
            return Affine()
        return Affine(self.offset * factor, tuple((v, c * factor) for v, c in self.terms))

    def at(self, values: Sequence[Affine]) -> Affine:
        """Replace each variable v by `values[v]`."""
        return _linear(self.offset, ((values[v], coefficient) for v, coefficient in self.terms))

    def coefficient(self, variable: int) -> int:
        return next((c for v, c in self.terms if v == variable), 0)

    def coefficients(self, count: int) -> list[int]:
        """The coefficients of the first `count` variables."""
        found = [0] * count
        for variable, coefficient in self.terms:
            if variable < count:
                found[variable] = coefficient
        return found

    def without(self, variables: Container[int]) -> Affine:
        """The sum without the terms of some variables."""
        return Affine(self.offset, tuple(t for t in self.terms if t[0] not in variables))

    def with_known(self, known: Mapping[int, int]) -> Affine:
        """Replace some symbolic sizes by numbers."""
        return Affine(with_known(self.offset, known), with_known(self.terms, known))

    def range(self, bounds: Bounds) -> tuple[int, int]:
        """The least and the largest value while each variable runs from low to high - 1."""
        least = largest = self.offset
        for variable, c in self.terms:
            low, high = bounds[variable]
            first, last = (low, high - 1) if c > 0 else (high - 1, low)
            least += c * first
            largest += c * last
        return least, largest


Index = tuple[Affine, ...]
# for each variable: its lowest value, and one past its highest
Bounds = Sequence[tuple[int, int]] | Mapping[int, tuple[int, int]]


def variable(number: int) -> Affine:
    return Affine(0, ((number, 1),))


@lru_cache
def identity(count: int) -> Index:
    return tuple(map(variable, range(count)))


def flat(index: Index, strides: Sequence[int]) -> Affine:
    """The address of an index, for an array with these strides."""
    return _linear(0, zip(index, strides, strict=True))


def _linear(offset: int, parts: Iterable[tuple[Affine, int]]) -> Affine:
    """offset + Σ part · factor"""
    terms: dict[int, int] = {}
    for part, factor in parts:
        if not factor:
            continue
        if part.offset:
            offset = offset + part.offset * factor
        for variable, coefficient in part.terms:
            terms[variable] = terms.get(variable, 0) + coefficient * factor
    return Affine(offset, tuple(sorted([(v, c) for v, c in terms.items() if c])))


def broadcast(index: Index, shape: Shape) -> Index:
    """The index in a value of shape `shape`, for an index in the shape that it broadcasts to."""
    return tuple(
        Affine() if size == 1 else each
        for each, size in zip(index[len(index) - len(shape) :], shape, strict=True)
    )


def split(total: Affine, shape: Shape, bounds: Bounds) -> Index | None:
    """The index in `shape` of a row-major position; None if that index is not affine."""
    found: list[Affine] = []
    for size in reversed(shape[1:]):
        over, left = _divided(total.offset, size)
        parts = [(v, c, divided(c, size)) for v, c in total.terms]
        rest = Affine(left, tuple((v, c) for v, c, q in parts if q is None))
        least, largest = rest.range(bounds)
        if not (surely(least) and surely(size - 1 - largest)):
            return None
        found.append(rest)
        total = Affine(over, tuple((v, q) for v, _, q in parts if q is not None))
    return (total, *reversed(found)) if shape else ()


@record
class RowShape:
    """The shape of a value seen as rows: (before, count, behind), with elements for each row."""

    before: int
    count: Any
    behind: int

    @property
    def elements(self) -> int:
        """The number of elements of one row."""
        return self.before * self.behind

    def element(self, address: Affine, bounds: Bounds) -> Affine | None:
        """Which element of a row an address is, its row left out; None if it leaves the row."""
        index = split(address, (self.before, self.count, self.behind), bounds)
        if index is None or index[1] != Affine():
            return None
        return index[0] * self.behind + index[2]


def _divided(offset: int, size: int) -> tuple[int, int]:
    """Quotient and remainder. A symbolic offset that is no multiple of `size` is all remainder."""
    if not is_open((offset, size)):
        return divmod(offset, size)
    exact = divided(offset, size)
    return (0, offset) if exact is None else (exact, 0)


def reshaped(source: Shape, target: Shape, index: Index, bounds: Bounds) -> Index | None:
    """The index in `source` for an index in its reshape `target`; None if it is not affine."""
    if 0 in source:  # no elements, whatever the other sizes are
        return tuple(Affine() for _ in source)
    found: list[Affine] = []
    s = t = 0
    while s < len(source) or t < len(target):
        first_s, first_t = s, t
        here = there = 1
        while True:
            if here == there and (s > first_s or t > first_t):
                break
            if s == len(source) and t == len(target):
                return None  # as many elements for the example, but not for every size
            if s < len(source) and (int(here) <= int(there) or t == len(target)):
                here *= source[s]
                s += 1
            else:
                there *= target[t]
                t += 1
        sizes = target[first_t:t]
        part = split(flat(index[first_t:t], row_major(sizes)), source[first_s:s], bounds)
        if part is None:
            return None
        found += part
    return tuple(found)


def refinement(a: Shape, b: Shape) -> Shape | None:
    """The coarsest shape, without sizes of 1, that refines both shapes; None if there is none.

    (1000, 250) and (1000, 25, 10) -> (1000, 25, 10);  (4, 6) and (6, 4) -> None
    """
    steps = sorted(_dimension_strides(a) | _dimension_strides(b), key=int)
    total = math.prod(a)
    found: list[int] = []
    for step, following in zip(steps, [*steps[1:], total], strict=True):
        size = divided(following, step)
        if size is None:
            return None
        found.append(size)
    return tuple(reversed([size for size in found if size != 1]))


def _dimension_strides(shape: Shape) -> set[int]:
    """The strides of the dimensions of a contiguous array."""
    return {1, *[s for s, size in zip(row_major(shape), shape, strict=True) if size != 1]}

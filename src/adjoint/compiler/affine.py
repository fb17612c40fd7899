"""Index arithmetic: where in a value an iteration of a loop reads.

An index of a value has one `Affine` for each of its dimensions: a whole number and multiples of the
loop's variables. Views (slices, transposes, broadcasts, diagonals) change an index and nothing
else; the address in memory is their sum with the strides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint.core.records import record
from adjoint.core.shapes import Shape


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
        """The same with each variable replaced."""
        found = Affine(self.offset)
        for variable, coefficient in self.terms:
            found = found + values[variable] * coefficient
        return found

    def coefficient(self, variable: int) -> int:
        return next((c for v, c in self.terms if v == variable), 0)

    def range(self, bounds: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """The least and the largest value while each variable runs from low to high - 1."""
        least = largest = self.offset
        for variable, c in self.terms:
            low, high = bounds[variable]
            least += min(c * low, c * (high - 1))
            largest += max(c * low, c * (high - 1))
        return least, largest


Index = tuple[Affine, ...]
Bounds = Sequence[tuple[int, int]]  # of each variable: low, and one past the last


def variable(number: int) -> Affine:
    return Affine(0, ((number, 1),))


def identity(count: int) -> Index:
    return tuple(map(variable, range(count)))


def row_major(shape: Shape) -> tuple[int, ...]:
    """The strides, in elements, of a contiguous array."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def flat(index: Index, strides: Sequence[int]) -> Affine:
    """The address of an index."""
    total = Affine()
    for each, stride in zip(index, strides, strict=True):
        total = total + each * stride
    return total


def broadcast(index: Index, shape: Shape) -> Index:
    """The index in a value of `shape` that is broadcast to where `index` points."""
    return tuple(
        Affine() if size == 1 else each
        for each, size in zip(index[len(index) - len(shape) :], shape, strict=True)
    )


def split(total: Affine, shape: Shape, bounds: Bounds) -> Index | None:
    """The index in `shape` of a row-major position; None where it is not affine."""
    found: list[Affine] = []
    for size in reversed(shape[1:]):
        quotient = Affine(
            total.offset // size, tuple((v, c // size) for v, c in total.terms if c % size == 0)
        )
        rest = Affine(total.offset % size, tuple((v, c) for v, c in total.terms if c % size))
        least, largest = rest.range(bounds)
        if least < 0 or largest >= size:
            return None
        found.append(rest)
        total = quotient
    return (total, *reversed(found)) if shape else ()


def reshaped(source: Shape, target: Shape, index: Index, bounds: Bounds) -> Index | None:
    """The index in `source` for an index in `target`, a reshape of it; None: not affine."""
    found: list[Affine] = []
    s = t = 0
    while s < len(source) or t < len(target):
        first_s, first_t = s, t
        here = there = 1
        while True:
            if here == there and (s > first_s or t > first_t):
                break
            if s < len(source) and (here <= there or t == len(target)):
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
    """The coarsest shape that both split into, sizes of 1 left out; None if there is none.

    (1000, 250) and (1000, 25, 10) -> (1000, 25, 10);  (4, 6) and (6, 4) -> None
    """
    steps = sorted(_steps(a) | _steps(b))
    total = math.prod(a)
    found: list[int] = []
    for step, following in zip(steps, [*steps[1:], total], strict=True):
        if following % step:
            return None
        found.append(following // step)
    return tuple(reversed([size for size in found if size != 1]))


def _steps(shape: Shape) -> set[int]:
    """The strides at which dimensions begin."""
    return {1, *(s for s, size in zip(row_major(shape), shape, strict=True) if size != 1)}

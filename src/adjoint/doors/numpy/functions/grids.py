"""Objects that brackets make arrays with: `np.r_`, `np.c_`, `np.mgrid`, `np.ogrid`."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.errors import ArgumentError
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import Array, common
from adjoint.doors.numpy.dressing import Arguments
from adjoint.doors.numpy.words import made
from adjoint.homes.arrays import array_of
from adjoint.tensor.tensor import Tensor


class Joiner:
    """Joins what is in brackets: numbers, slices, which are ranges, and arrays."""

    def __init__(self, axis: int, ndim: int, place: int) -> None:
        self.axis, self.ndim, self.place = axis, ndim, place  # of what is joined

    def __getitem__(self, key: Any) -> Tensor:
        parts = list(key) if isinstance(key, tuple) else [key]
        if isinstance(parts[0], str):
            return self._told(parts.pop(0))[tuple(parts)]
        given = Arguments()
        parts = given.tensors(parts)
        return given.dressed(ad.cat(list(common(*map(self._part, parts))), self.axis))

    def _part(self, entry: Any) -> Tensor:
        a = made(np.r_[entry]) if isinstance(entry, slice) else Array(entry)
        if a.ndim >= self.ndim:
            return a
        missing = self.ndim - a.ndim
        before = missing if self.place < 0 else min(self.place, missing)
        return a.reshape([*(1,) * before, *a.shape, *(1,) * (missing - before)])

    def _told(self, text: str) -> Joiner:
        """The joiner that a text "axis,dimensions,place" before the parts asks for."""
        try:
            numbers = [int(n) for n in text.split(",")]
        except ValueError:
            raise ArgumentError(
                f"np.r_[{text!r}, ...] makes a matrix; use np.vstack, or numbers as in '0,2'"
            ) from None
        given = [*numbers, *(self.axis, self.ndim, self.place)[len(numbers) :]]
        return Joiner(*given)


class Grid:
    """Coordinates of a grid, by slices in brackets."""

    def __init__(self, theirs: Any) -> None:
        self.theirs = theirs

    def __getitem__(self, key: Any) -> Any:
        found = self.theirs[key]
        if isinstance(found, tuple):
            return tuple(array_of(made(f)) for f in found)
        return array_of(made(found))


r_, c_ = Joiner(0, 1, -1), Joiner(-1, 2, 0)
mgrid, ogrid = Grid(np.mgrid), Grid(np.ogrid)

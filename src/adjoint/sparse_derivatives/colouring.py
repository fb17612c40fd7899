"""Colourings: columns or rows of a sparse matrix that are computed together, as one sum.

A direct method reads every entry off a sum: no row has two entries in columns of one colour. For a
symmetric matrix either of two places will do (a star colouring), and with columns and rows together
either of two sums (a star colouring of the graph of rows and columns). Several orders of vertices
are tried, and the fewest colours kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from adjoint.c_kernels import colouring as greedy
from adjoint.core.records import record

Array = np.ndarray[Any, np.dtype[Any]]
Matrix = Any  # a boolean CSR matrix of SciPy

REVERSE = 1.5  # times as long as a product with a column takes a product with a row
_TURNS = 12  # in which the best colouring is tried again in another order
_LARGE = 1 << 22  # edges of a graph from which only one order is tried


@record
class Colouring:
    """Sums of columns and of rows, and for each entry of the matrix the sum that holds it.

    Entries are in the order of the CSR matrix.
    """

    columns: Array  # the colour of each column; -1: in no sum
    rows: Array  # the colour of each row; -1: in no sum
    forward: int  # the number of sums of columns
    reverse: int  # the number of sums of rows
    places: Array  # in the sums of columns (colours × rows), followed by those of rows (× columns)

    @property
    def count(self) -> int:
        """The number of colours."""
        return self.forward + self.reverse

    @property
    def cost(self) -> float:
        """The cost in products with a column."""
        return self.forward + REVERSE * self.reverse

    def seeds(self, of_rows: bool) -> Array:
        """One row of zeros and ones for each colour."""
        colours, count = (self.rows, self.reverse) if of_rows else (self.columns, self.forward)
        return (colours == np.arange(count)[:, None]).astype(np.float64)


def of_columns(matrix: Matrix) -> Colouring:
    """The best colouring of the columns."""
    colours = _column_colours(matrix)
    rows, columns = _coordinates(matrix)
    places = colours[columns] * matrix.shape[0] + rows
    absent = np.full(matrix.shape[0], -1)
    return Colouring(colours, absent, _count(colours), 0, places)


def of_rows(matrix: Matrix) -> Colouring:
    """The best colouring of the rows."""
    colours = _column_colours(sparse.csr_array(matrix.T))
    rows, columns = _coordinates(matrix)
    places = colours[rows] * matrix.shape[1] + columns
    absent = np.full(matrix.shape[1], -1)
    return Colouring(absent, colours, 0, _count(colours), places)


def symmetric(matrix: Matrix) -> Colouring:
    """The best star colouring of a symmetric matrix; sums of columns alone."""
    colours = _star_colours(matrix)
    count = _count(colours)
    rows, columns = _coordinates(matrix)
    alone = _is_alone(rows, colours[columns], count)
    size = matrix.shape[0]
    places = np.where(alone, colours[columns] * size + rows, colours[rows] * size + columns)
    return Colouring(colours, np.full(size, -1), count, 0, places)


def of_both(matrix: Matrix) -> Colouring:
    """The best colouring of columns and rows together: for dense rows and dense columns."""
    height, width = matrix.shape
    zero = sparse.csr_array
    whole = sparse.block_array(
        [[zero((width, width), dtype=np.bool_), matrix.T], [matrix, zero((height, height))]],
        format="csr", dtype=np.bool_,
    )  # fmt: skip
    found = _star_colours(whole)
    column, row = _renumbered(found[:width]), _renumbered(found[width:])
    rows, columns = _coordinates(matrix)
    forward, reverse = _count(column), _count(row)
    by_column = _is_alone(rows, column[columns], forward)
    by_row = _is_alone(columns, row[rows], reverse)
    column_used, row_used = _chosen(column[columns], row[rows], by_column, by_row)
    column, row = _kept(column, column_used), _kept(row, row_used)
    forward, reverse = _count(column), _count(row)
    is_forward = by_column & (column[columns] >= 0)
    places = np.where(
        is_forward,
        column[columns] * height + rows,
        forward * height + row[rows] * width + columns,
    )
    return Colouring(column, row, forward, reverse, places)


def best(matrix: Matrix, *, is_symmetric: bool = False) -> Colouring:
    """The colouring that costs least."""
    if is_symmetric:
        return symmetric(matrix)
    found = min(of_columns(matrix), of_rows(matrix), key=lambda c: c.cost)
    longest = np.diff(matrix.indptr).max(initial=0), _lengths(matrix).max(initial=0)
    if matrix.nnz == 0 or min(longest) * 4 < found.count or found.count > 16:
        found = min(found, of_both(matrix), key=lambda c: c.cost)
    return found


def _lengths(matrix: Matrix) -> Array:
    """The number of entries of each column."""
    return np.bincount(matrix.indices, minlength=matrix.shape[1])


def _coordinates(matrix: Matrix) -> tuple[Array, Array]:
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return rows, matrix.indices.astype(np.int64)


def _graph(matrix: Matrix) -> greedy.Graph:
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)


def _column_colours(matrix: Matrix) -> Array:
    columns, rows = _graph(matrix), _graph(sparse.csr_array(matrix.T))
    least = int(np.diff(matrix.indptr).max(initial=0))
    neighbours = np.bincount(
        _coordinates(matrix)[1], np.diff(matrix.indptr)[_coordinates(matrix)[0]], matrix.shape[1]
    )
    return _fewest(
        lambda order: greedy.of_columns(order, rows, columns), least, neighbours, _met(matrix)
    )


def _met(matrix: Matrix) -> Callable[[], greedy.Graph] | None:
    """A function that returns the graph of columns that meet in a row; None if it is too large."""
    lengths = np.diff(matrix.indptr).astype(float)
    if (lengths**2).sum() > _LARGE:
        return None
    return lambda: _graph(_without_diagonal(matrix.T.astype(np.int8) @ matrix.astype(np.int8)))


def _star_colours(matrix: Matrix) -> Array:
    graph = _graph(_without_diagonal(matrix))
    degrees = np.diff(graph[0])
    return _fewest(lambda order: greedy.of_stars(order, graph), 1, degrees, lambda: graph)


def _without_diagonal(matrix: Matrix) -> Matrix:
    found = sparse.coo_array(matrix)
    away = found.row != found.col
    places = found.row[away], found.col[away]
    return sparse.csr_array((np.ones(places[0].size, np.bool_), places), found.shape)


def _fewest(colours: Callable[[Array], Array], least: int, degrees: Array, graph: Any) -> Array:
    """The colouring with the fewest colours among those by some orders."""
    found: Array | None = None
    for order in _orders(degrees, graph):
        found = min([*([] if found is None else [found]), colours(order)], key=_count)
        if _count(found) <= least:
            return found
    assert found is not None
    for turn in range(_TURNS if degrees.sum() <= _LARGE else 0):
        if _count(found) <= least:
            break
        found = min(found, colours(_by_classes(found, turn)), key=_count)
    return found


def _count(colours: Array) -> int:
    return int(colours.max(initial=-1)) + 1


def _by_classes(colours: Array, turn: int) -> Array:
    """The vertices of one colour after those of another: by these again never takes more colours.

    The last colour comes first, or the most frequent one, or any.
    """
    ranks = (
        -np.arange(_count(colours)),
        -np.bincount(colours),
        np.random.default_rng(turn).permutation(_count(colours)),
    )[turn % 3]
    return np.argsort(ranks[colours], kind="stable")


def _orders(degrees: Array, graph: Any) -> Iterator[Array]:
    """Natural, largest degree first, smallest degree last, and at random."""
    yield np.arange(degrees.size)
    if degrees.sum() > _LARGE:
        return
    yield np.argsort(-degrees, kind="stable")
    if graph is not None:
        yield greedy.smallest_last(graph())
    yield np.random.default_rng(0).permutation(degrees.size)


def _is_alone(lines: Array, colours: Array, count: int) -> Array:
    """Which entries are the only ones of their colour in their line."""
    _, inverse, counts = np.unique(
        lines * max(count, 1) + colours, return_inverse=True, return_counts=True
    )
    return counts[inverse] == 1


def _chosen(column: Array, row: Array, by_column: Array, by_row: Array) -> tuple[Array, Array]:
    """The colours of columns and of rows that are needed for all entries."""
    columns = np.unique(column[by_column & ~by_row])
    rows = np.unique(row[by_row & ~by_column])
    while True:
        open_ = ~(by_column & np.isin(column, columns)) & ~(by_row & np.isin(row, rows))
        if not open_.any():
            return columns, rows
        of_column, of_row = np.bincount(column[open_]), np.bincount(row[open_])
        if of_column.max() >= of_row.max() / REVERSE:
            columns = np.append(columns, of_column.argmax())
        else:
            rows = np.append(rows, of_row.argmax())


def _renumbered(colours: Array) -> Array:
    return np.unique(colours, return_inverse=True)[1].reshape(colours.shape)


def _kept(colours: Array, used: Array) -> Array:
    """The colours numbered anew, with -1 for those that are not used."""
    numbers = np.full(int(colours.max(initial=-1)) + 2, -1)
    numbers[np.sort(used)] = np.arange(used.size)
    return numbers[colours]

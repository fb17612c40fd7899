"""The order of the entries of a derivative: block after block, and in each as its format says.

A block is the derivative of one output in one input, a matrix with a row for each element of the
output and a column for each element of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from adjoint.core.errors import GradError
from adjoint.core.records import record
from adjoint.core.remembering import cached_property
from adjoint.ops.operator import packet
from adjoint.sparse import sparse_csr_tensor
from adjoint.tensor.tensor import is_plain, make

Array = np.ndarray[Any, np.dtype[Any]]
FORMATS = ("csr", "csc", "coo", "tensor")


@record
class Entries:
    """Entries of a matrix, in any order, some perhaps at one place; such entries are added."""

    rows: Array
    columns: Array
    places: Array  # of each entry in `values`
    values: Any  # a flat tensor

    def lower(self) -> Entries:
        """The entries of the lower triangle."""
        there = self.columns <= self.rows
        return Entries(self.rows[there], self.columns[there], self.places[there], self.values)


@record
class Block:
    """A matrix without its entries."""

    shape: tuple[int, int]
    rows: Array
    columns: Array
    low: int  # of its range of all entries
    high: int
    form: str  # "csr"

    def matrix(self, entries: Any) -> Any:
        """The matrix with its entries, a tensor of the entries of all blocks."""
        if entries.shape[0] > self.high - self.low:
            entries = entries[self.low : self.high]
        form = self.form
        if form == "tensor":
            starts, columns = make(self.starts.astype(np.int64)), make(self.columns.copy())
            return sparse_csr_tensor(starts, columns, entries, self.shape)
        numbers = _numbers(entries, form)
        if form == "coo":
            return sparse.coo_array((numbers, (self.rows.copy(), self.columns.copy())), self.shape)
        kind = sparse.csc_array if form == "csc" else sparse.csr_array
        found = kind((numbers, self.indices.copy(), self.starts.copy()), self.shape)
        found.has_canonical_format = True  # sorted, without duplicates
        return found

    @cached_property
    def indices(self) -> Array:
        """The columns, or the rows of a matrix by columns, as SciPy stores them."""
        return _small(self.rows if self.form == "csc" else self.columns)

    @cached_property
    def starts(self) -> Array:
        """Where each row begins, or each column."""
        lines, count = (
            (self.columns, self.shape[1]) if self.form == "csc" else (self.rows, self.shape[0])
        )
        return _small(np.searchsorted(lines, np.arange(count + 1)))


def _small(numbers: Array) -> Array:
    """Integers of 32 bits, if these suffice."""
    return numbers.astype(np.int32) if numbers.max(initial=0) < 1 << 31 else numbers


def _numbers(entries: Any, form: str) -> Array:
    if not is_plain(entries) or entries.requires_grad:
        raise GradError(
            f'a matrix of SciPy (format="{form}") cannot be differentiated: ask for '
            'format="tensor", or take the derivative outside of the transform'
        )
    return np.asarray(entries.value)


def arranged(
    entries: Entries, heights: Sequence[int], widths: Sequence[int], form: str
) -> tuple[Any, list[list[Block]]]:
    """The entries in the order of the format, and the blocks [output][input] that they fill."""
    row_ends, column_ends = np.cumsum([0, *heights]), np.cumsum([0, *widths])
    output = np.searchsorted(row_ends, entries.rows, "right") - 1
    given = np.searchsorted(column_ends, entries.columns, "right") - 1
    rows, columns = entries.rows - row_ends[output], entries.columns - column_ends[given]
    outer, inner = (columns, rows) if form == "csc" else (rows, columns)
    order = np.lexsort((inner, outer, given, output))
    output, given, rows, columns = output[order], given[order], rows[order], columns[order]
    is_new = np.ones(order.size, np.bool_)
    same = [each[1:] == each[:-1] for each in (output, given, rows, columns)]
    is_new[1:] = ~np.logical_and.reduce(same)
    values = _picked(entries, order, is_new)
    output, given, rows, columns = (a[is_new] for a in (output, given, rows, columns))
    block = output * len(widths) + given
    ends = np.searchsorted(block, np.arange(len(heights) * len(widths) + 1))
    blocks = [
        [
            Block(
                (heights[o], widths[i]),
                rows[low:high],
                columns[low:high],
                int(low),
                int(high),
                form,
            )
            for i in range(len(widths))
            for low, high in [ends[o * len(widths) + i : o * len(widths) + i + 2]]
        ]
        for o in range(len(heights))
    ]
    return values, blocks


def _picked(entries: Entries, order: Array, is_new: Array) -> Any:
    """The values in an order, with the sum of those that are not new and the one before."""
    values, places = entries.values, entries.places[order]
    in_order = places.size == values.shape[0] and (places == np.arange(places.size)).all()
    picked = values if in_order else values[make(places)]
    if is_new.all():
        return picked
    zeros = make(np.zeros(int(is_new.sum()), values.dtype.np))
    return packet("index_add")(zeros, 0, make(np.cumsum(is_new) - 1), picked)


def as_entries(matrix: Any) -> tuple[Array, Array]:
    """The rows and columns of the entries of a CSR matrix."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return rows, matrix.indices.astype(np.int64)

"""Derivatives as patterns: for each element of a value, the columns that it may depend on.

A pattern is a boolean CSR matrix of SciPy, whose functions are linear in the number of entries.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from adjoint.graph.ir import Value
from adjoint.sparse_derivatives.propagation import Algebra, Collection, Run
from adjoint.tensor.tensor import is_plain, make

Pattern = Any  # sparse.csr_array of bool: elements × columns


class Patterns(Algebra[Pattern]):
    """Patterns of a given number of columns."""

    takes_any = True

    def __init__(self, columns: int) -> None:
        self.columns = columns

    def moved(self, parts: dict[Value, Pattern], run: Run) -> list[Pattern | None]:
        start, numbers, rows = 1, {}, [sparse.csr_array((1, self.columns), dtype=np.bool_)]
        for value, part in parts.items():
            count = math.prod(value.shape)
            numbers[value] = make(np.arange(start, start + count, dtype=float).reshape(value.shape))
            rows.append(part)
            start += count
        together: Any = sparse.vstack(rows, format="csr")
        return [together[r.value.astype(np.int64).ravel()] for r in run(numbers)]

    def scaled(self, part: Pattern, value: Value, run: Run, *, is_known: bool) -> Pattern | None:
        if not is_known:
            return part
        (factors,) = run({value: make(np.ones(value.shape, value.dtype.np))})
        if not is_plain(factors):
            return part
        zero = np.broadcast_to(factors.value == 0, factors.shape).ravel()
        if not zero.any():
            return part
        return sparse.diags_array(~zero, dtype=np.bool_).tocsr() @ part

    def collected(self, part: Pattern, value: Value, into: Collection) -> Pattern:
        targets = into.targets.ravel()
        sources = np.flatnonzero(targets)
        shape = (math.prod(into.result.shape), targets.size)
        ones = np.ones(sources.size, np.bool_)
        return sparse.csr_array((ones, (targets[sources] - 1, sources)), shape) @ part

    def connected(self, part: Pattern, matrix: Any, result: Value) -> Pattern:
        return matrix @ part

    def count(self, part: Pattern) -> int:
        return part.nnz

    def spread(self, part: Pattern, result: Value) -> Pattern:
        columns, count = np.unique(part.indices), math.prod(result.shape)
        ends = np.arange(count + 1) * columns.size
        ones = np.ones(count * columns.size, np.bool_)
        return sparse.csr_array((ones, np.tile(columns, count), ends), (count, self.columns))

    def joined(self, parts: list[Pattern]) -> Pattern:
        found = parts[0]
        for part in parts[1:]:
            found = found + part
        return found

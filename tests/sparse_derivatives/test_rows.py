"""The law of patterns over the table: no derivative has an entry outside its pattern.

The pattern holds at every point, so it is compared with the dense derivative at the samples, to
first order and, for a random combination of the results, to second order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.testing.jacobians import Call, array_of, random_like, tensor_of
from adjoint.testing.laws import Case, cases
from adjoint.testing.laws.case import depends_on_values

ROWS = {row.full_name: row for row in TABLE.rows() if not row.random}
LARGEST = 1 << 12  # entries of a dense derivative
ROUNDING = 1e-13  # of entries that are 0
FEW = 2  # samples of an operator


def calls_of(row: Row) -> list[Call]:
    """The operator at some samples, as a function of real tensors with real results."""
    found = []
    for case in cases(row, ad.float64):
        if len(found) < FEW and is_traceable(case):
            call = Call.of(case.run, case.arguments)
            columns = sum(t.numel() for t in call.inputs)
            outputs = [t for t in call(call.inputs) if t.requires_grad]
            rows = sum(t.numel() for t in outputs)
            real = not any(t.is_complex() for t in (*call.inputs, *outputs))
            if real and outputs and columns * max(rows, columns) <= LARGEST:
                found.append(call)
    return found


def is_traceable(case: Case) -> bool:
    return not (depends_on_values(case) or case.reads_memory or case.row.archetype.maps)


def differentiable(call: Call) -> Any:
    """The operator as a function of a flat tensor that returns a flat tensor."""
    shapes = [tuple(t.shape) for t in call.inputs]
    kept = [t.requires_grad for t in call(call.inputs)]

    def function(flat: Any) -> Any:
        parts = flat.split([int(np.prod(s)) for s in shapes])
        given = [p.reshape(s) for p, s in zip(parts, shapes, strict=True)]
        results = [r for r, k in zip(call(given), kept, strict=True) if k]
        return ad.cat([r.reshape(-1) for r in results])

    return function


def check(function: Any, x: Any, order: int) -> None:
    pattern = ad.sparsity(function, x, order=order).pattern.toarray()
    dense = (ad.jacobian if order == 1 else ad.hessian)(function)(x)
    sizes = np.abs(array_of(dense))
    missed = (sizes > ROUNDING * max(sizes.max(initial=0), 1)) & ~pattern
    assert not missed.any(), f"{missed.sum()} entries of {np.argwhere(missed)[:5].tolist()}"


def combined(function: Any, x: Any) -> Any:
    """A random combination of the results."""
    weights = tensor_of(random_like(array_of(function(x)), np.random.default_rng(0)))
    return lambda x: (function(x) * weights).sum()


@pytest.mark.parametrize("name", ROWS)
def test_no_entry_is_missed(name: str) -> None:
    for call in calls_of(ROWS[name]):
        x = ad.cat([t.detach().reshape(-1) for t in call.inputs])
        function = differentiable(call)
        check(function, x, 1)
        check(combined(function, x), x, 2)

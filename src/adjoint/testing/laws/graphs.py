"""Laws 6 and 7: traced equals eager, a decomposition equals its kernel."""

from __future__ import annotations

import numpy as np

import adjoint as ad
from adjoint.table.rows import Row
from adjoint.testing import jacobians
from adjoint.testing.jacobians import Call, array_of
from adjoint.testing.laws.case import (
    Case,
    assert_close,
    depends_on_values,
    with_gradients,
)


def traced_equals_eager(case: Case) -> None:
    """The graph gives the same values and history, is legal, and its text reads back as itself."""
    tensors = jacobians.tensors_in(case.arguments)
    values = Call(case.run, case.arguments, tuple(tensors))
    expected = values(tensors)
    try:
        graph = ad.trace(lambda *given: values(given), *(_spec(t) for t in tensors))
    except ad.graph.TraceError as error:
        if depends_on_values(case):
            return
        raise AssertionError(f"{case.title}: {error}") from error
    ad.graph.verify(graph)
    ad.manual_seed(0)
    got = graph(*tensors)
    assert len(got) == len(expected), (
        f"{case.title}: traced, {len(got)} results instead of {len(expected)}"
    )
    for number, (a, b) in enumerate(zip(got, expected, strict=True)):
        assert_close(f"{case.title}: traced, result {number} differs", array_of(a), array_of(b))
        assert a.requires_grad == b.requires_grad, (
            f"{case.title}: traced, result {number} has another history"
        )
    text = str(graph)
    again = str(ad.graph.parse(text, graph.constants))
    assert again == text, f"{case.title}: the graph's text changes when read back:\n{text}\n{again}"


def _spec(tensor: ad.Tensor) -> ad.ShapeDtype:
    return ad.ShapeDtype(tuple(tensor.shape), tensor.dtype, requires_grad=tensor.requires_grad)


def decomposition_equals_kernel(case: Case) -> None:
    """A row's kernel and its decomposition give the same values, dtypes and gradients.

    No gradient is a zero gradient here. At inputs that are not finite only the values are compared.
    """
    if not has_both(case.row):
        return
    finite = all(np.isfinite(array_of(t)).all() for t in jacobians.tensors_in(case.arguments))
    expected, wanted = with_gradients(case, case.run)
    got, found = with_gradients(case, case.run_decomposed)
    assert len(got) == len(expected), (
        f"{case.title}: decomposed, {len(got)} results instead of {len(expected)}"
    )
    for number, (a, b) in enumerate(zip(got, expected, strict=True)):
        assert_close(f"{case.title}: decomposed, result {number} differs", a, b)
    for number, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if finite:
            pole = ~(np.isfinite(a) | np.isfinite(b))  # of a quotient: inf one way, NaN the other
            a, b = np.where(pole, 0, a), np.where(pole, 0, b)
            assert_close(f"{case.title}: decomposed, gradient {number} differs", a, b)


def has_both(row: Row) -> bool:
    """Whether law 7 says something of a row; decomposed, random numbers come in another order."""
    return bool(row.kernel and row.decompose) and not row.random and not row.schema.mutates

"""Decompositions: the table of them, the pass, the primitives, and what rows get through them."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core import dtypes
from adjoint.core.errors import ArgumentError
from adjoint.graph.ir import Graph
from adjoint.ops import operator as operators
from adjoint.ops.operator import Operator
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.testing import jacobians, samples
from tests import DATA, primitives
from tests.counting import function_calls

with (DATA / "core_decompositions.csv").open() as _file:
    CORE = [row["operator"] for row in csv.DictReader(_file)]


def names_in(graph: Graph) -> set[str]:
    found: set[str] = set()
    for node in graph.nodes:
        found |= {node.name} if isinstance(node.op, Operator) else set()
        found = found.union(*(names_in(inner) for inner in node.graphs.values()))
    return found


def row_of(name: str) -> Row | None:
    base, _, overload = name.partition(".")
    for candidate in (base, base.removesuffix("_")):
        overload = "" if overload == "default" else overload
        if candidate in TABLE and overload in TABLE.overloads(candidate):
            return TABLE.row(candidate, overload)
    return None


def test_the_table_has_every_row_with_a_decomposition() -> None:
    table = ad.decompositions.table
    assert set(table) == {row.full_name for row in TABLE.rows() if row.decompose}
    assert len(table) == len(list(table))
    assert "var.correction" in table
    assert "mul.Tensor" not in table
    assert "nonsense" not in table
    assert table["relu"] is table["relu.default"]
    with pytest.raises(KeyError):
        table["mul.Tensor"]


@pytest.mark.parametrize("family", sorted({TABLE.family(n) for n in TABLE.names()}))
def test_entries_take_what_the_operator_takes(family: str) -> None:
    """A decomposition is called as the operator is: by position and keyword, defaults left out."""
    rows = [r for r in TABLE.rows() if r.family == family and r.decompose]
    for row in rows:
        decomposed = ad.decompositions.table[row.full_name]
        operator = getattr(getattr(ad.ops, row.name), row.schema.overload or "default")
        required = [a for a in row.schema.arguments if not (a.has_default or a.type.is_optional)]
        if required:
            with pytest.raises(ArgumentError, match=required[0].name):
                decomposed()
        if row.schema.mutates or (row.kernel and family == "random"):
            continue
        for sample, _ in samples.for_row(row, dtypes.float64)[:2]:
            with ad.no_grad():
                args = [samples.whole(a) for a in sample.args]
                ad.manual_seed(0)
                expected = operator(*args, **sample.kwargs)
                ad.manual_seed(0)
                found = decomposed(*args, **sample.kwargs)
            for a, b in zip(_flat(found), _flat(expected), strict=True):
                assert a.dtype == b.dtype
                assert np.allclose(a, b, equal_nan=True, rtol=1e-6), row.full_name


def _flat(results: Any) -> list[Any]:
    if isinstance(results, int):
        return [np.asarray(results)]
    return [jacobians.array_of(t) for t in jacobians.tensors_in(samples.densely(results))]


def test_entries_refuse_what_the_operator_refuses() -> None:
    x = ad.ones(2, 2)
    addmm = ad.decompositions.table["addmm.default"]
    assert (addmm(x, x, x) == 3).all()
    assert (addmm(x, x, mat2=x, beta=2) == 4).all()
    for args, keywords in (((x, x), {}), ((x, x, x), {"gamma": 1}), ((x, x, x), {"self": x})):
        with pytest.raises(ArgumentError):
            addmm(*args, **keywords)


def test_entries_take_all_arguments_in_order() -> None:
    x = ad.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=ad.float64)
    assert (
        ad.decompositions.table["var.correction"](x, (0,), 1, False).tolist() == x.var(0).tolist()
    )


@pytest.mark.parametrize("name", CORE)
def test_core_operators_are_decomposed_or_documented_primitives(name: str) -> None:
    base, _, overload = name.partition(".")
    if overload.startswith("Out"):
        base = base.removesuffix("_")
        assert operators.exists(base) or base not in TABLE  # out= is there for every operator
        return
    row = row_of(name)
    if row is None:
        # a family that is not here yet; an overload of an operator that is here must exist
        assert base not in TABLE, f"{base} is here without its overload {name}"
        return
    if name.endswith(("_.default", "_.Scalar", "_.Tensor")) and base.endswith("_"):
        assert operators.exists(base)
    documented = primitives.names_by_family().get(row.family, {})
    assert row.decompose or row.schema.name in documented
    assert row.decompose or f"- `{row.schema.name}`" in primitives.PAGE.read_text(encoding="utf-8")


def test_the_page_of_primitives_is_that_of_the_table() -> None:
    text = primitives.PAGE.read_text(encoding="utf-8")
    assert text == primitives.page(), "docs/primitives.md is old: run python -m tests.primitives"


def test_decompose_leaves_primitives_alone() -> None:
    def f(x: Any) -> Any:
        y = ad.cond(x.sum() > 0, lambda v: v.std(), lambda v: v.logsumexp(0).mean(), x)
        return y + x.addcmul(x, x).clamp(-1, 1).relu().mean() + x.tan().sum()

    x = ad.tensor(np.random.default_rng(0).normal(size=(3, 4)))
    graph = ad.trace(ad.value_and_grad(f), x)
    small = ad.decompose(graph)
    ad.graph.verify(small)
    composites = {n for n in names_in(small) if n in ad.decompositions.table}
    assert not composites
    assert {n for n in names_in(graph) if n in ad.decompositions.table}, (
        "there was something to decompose"
    )
    for a, b in zip(small(x), graph(x), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def test_decompose_keeps_what_it_is_told_to() -> None:
    graph = ad.trace(lambda x: x.relu() + x.addcmul(x, x), ad.ShapeDtype(3))
    assert "relu.default" in names_in(ad.decompose(graph, keep=["relu"]))
    assert "relu.default" in names_in(ad.decompose(graph, keep=["relu.default"]))
    assert "addcmul.default" in names_in(ad.decompose(graph, keep=lambda op: op.name == "addcmul"))
    assert names_in(ad.decompose(graph, keep="relu")) & {"relu.default", "addcmul.default"} == {
        "relu.default"
    }
    with pytest.raises(ArgumentError, match="no such operator"):
        ad.decompose(graph, keep=["rleu"])


def test_decompose_does_not_change_the_graph_it_is_given() -> None:
    graph = ad.trace(lambda x: x.relu(), ad.ShapeDtype(3))
    before = str(graph)
    ad.decompose(graph)
    assert str(graph) == before


def test_new_nodes_remember_the_users_line() -> None:
    graph = ad.trace(lambda x: x.std(), ad.ShapeDtype(3))
    places = {node.place for node in ad.decompose(graph).nodes}
    assert len(places) == 1
    assert next(iter(places)).startswith("test_decompose.py:")


def test_decompose_is_linear_in_the_graph() -> None:
    def graph(steps: int) -> ad.graph.Graph:
        def chain(x: Any) -> Any:
            for _ in range(steps):
                x = x.relu().addcmul(x, x, value=0.1)
            return x

        return ad.trace(chain, ad.ShapeDtype(2))

    small, large = graph(300), graph(600)
    assert len(ad.decompose(small)) > 900
    calls, more = (function_calls(lambda g=g: ad.decompose(g)) for g in (small, large))
    assert more < 2.2 * calls


def test_a_loop_in_a_decomposition_is_decomposed_too() -> None:
    x, h = ad.ShapeDtype((3, 2, 4)), ad.ShapeDtype((1, 2, 4))
    weights = [ad.ShapeDtype((4, 4)), ad.ShapeDtype((4, 4)), ad.ShapeDtype(4), ad.ShapeDtype(4)]

    def f(x: Any, h: Any, *weights: Any) -> Any:
        return ad.ops.rnn_tanh.input(x, h, list(weights), True, 1, 0.0, False, False, False)[0]

    graph = ad.decompose(ad.trace(f, x, h, *weights))
    bodies = [inner for node in graph.nodes for inner in node.graphs.values()]
    names = {node.name for g in (graph, *bodies) for node in g.nodes}
    assert bodies
    kept = {n for n in names if n in ad.graph.passes.decompose.table}
    assert not kept

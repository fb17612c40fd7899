"""Colourings: every entry of a matrix is read off a sum of columns or of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from adjoint.c_kernels import colouring as greedy
from adjoint.c_kernels import loading
from adjoint.sparse_derivatives import colouring
from adjoint.sparse_derivatives.blocks import as_entries
from adjoint.sparse_derivatives.colouring import Colouring

KINDS = (colouring.of_columns, colouring.of_rows, colouring.of_both, colouring.best)


def assert_recovers(found: Colouring, dense: Any) -> None:
    """The entries at the places of the sums that the colours ask for are those of the matrix."""
    forward = found.seeds(of_rows=False) @ dense.T
    reverse = found.seeds(of_rows=True) @ dense
    sums = np.concatenate([forward.ravel(), reverse.ravel()])
    entries = dense[as_entries(sparse.csr_array(dense != 0))]
    np.testing.assert_allclose(sums[found.places], entries)


def random_matrix(seed: int) -> Any:
    random = np.random.default_rng(seed)
    shape = random.integers(1, 14, 2)
    return random.normal(size=shape) * (random.random(shape) < random.uniform(0, 0.6))


@pytest.mark.parametrize("seed", range(40))
def test_entries_are_recovered(seed: int) -> None:
    dense = random_matrix(seed)
    for kind in KINDS:
        assert_recovers(kind(sparse.csr_array(dense != 0)), dense)
    square = dense.T @ dense
    assert_recovers(colouring.symmetric(sparse.csr_array(square != 0)), square)


@pytest.mark.parametrize("seed", range(5))
def test_python_colours_as_c_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dense = random_matrix(seed)
    square = sparse.csr_array((dense.T @ dense) != 0)
    order = np.arange(square.shape[0])
    graph = square.indptr.astype(np.int64), square.indices.astype(np.int64)
    away = colouring._graph(colouring._without_diagonal(square))
    by_c = greedy.of_columns(order, graph, graph), greedy.of_stars(order, away)
    monkeypatch.setattr(loading, "routine", lambda *_: None)
    by_python = greedy.of_columns(order, graph, graph), greedy.of_stars(order, away)
    np.testing.assert_equal(by_c, by_python)
    assert sorted(greedy.smallest_last(away)) == [*order]


def test_smallest_last_orders_all_vertices() -> None:
    star = np.array([0, 3, 4, 5, 6]), np.array([1, 2, 3, 0, 0, 0])
    assert sorted(greedy.smallest_last(star)) == [0, 1, 2, 3]
    assert 0 in greedy.smallest_last(star)[:2]  # the centre has the most neighbours


def test_an_arrowhead_needs_few_colours() -> None:
    """Dense rows want reverse mode, dense columns forward mode: both together."""
    dense = np.eye(200)
    dense[:4], dense[:, :4] = 1, 1
    found = colouring.best(sparse.csr_array(dense != 0))
    assert found.forward > 0 < found.reverse
    assert found.count <= 10
    assert_recovers(found, dense)


def test_a_band_has_as_many_colours_as_diagonals() -> None:
    band = sparse.diags_array([1, 1, 1], offsets=[-1, 0, 1], shape=(50, 50), dtype=bool).tocsr()
    assert colouring.of_columns(band).count == 3
    assert colouring.symmetric(band).count <= 3

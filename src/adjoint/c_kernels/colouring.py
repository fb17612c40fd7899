"""Greedy colourings of graphs, in C (colouring.c), or in Python where there is no C compiler."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.c_kernels import loading

Array = np.ndarray[Any, Any]
Graph = tuple[Array, Array]  # the starts and the ends of edges, vertex after vertex, int64


def of_columns(order: Array, rows: Graph, columns: Graph) -> Array:
    """Colours 0, 1, … for columns such that no row has two columns of one colour.

    `rows` are the rows of each column, `columns` the columns of each row.
    """
    colours = np.zeros(order.size, np.int64)
    run = loading.routine("colouring", "columns", "long")
    if run is None:
        _greedily(order, colours, lambda v: _ends(columns, _ends(rows, [v])))
    else:
        mark = np.zeros(order.size + 2, np.int64)
        loading.call(run, loading.block([order.size]), order, *rows, *columns, mark, colours)
    return colours - 1


def of_stars(order: Array, graph: Graph) -> Array:
    """Colours 0, 1, … for vertices such that each path of four vertices has three colours."""
    colours = np.zeros(order.size, np.int64)
    run = loading.routine("colouring", "star", "long")
    if run is None:
        _greedily(order, colours, lambda v: _forbidding(graph, colours, v))
    else:
        mark = np.zeros(order.size + 2, np.int64)
        loading.call(run, loading.block([order.size]), order, *graph, mark, colours)
    return colours - 1


def smallest_last(graph: Graph) -> Array:
    """The order whose last vertex has the smallest degree, and so on without it."""
    degree = np.diff(graph[0])
    run = loading.routine("colouring", "smallest_last", "long")
    if run is None:
        return np.argsort(-degree, kind="stable")
    first = np.full(int(degree.max(initial=0)) + 2, -1)
    room = np.empty((2, degree.size), np.int64)
    order = np.empty(degree.size, np.int64)
    loading.call(run, loading.block([degree.size]), *graph, degree, first, *room, order)
    return order


def _greedily(order: Array, colours: Array, forbidding: Any) -> None:
    """Give each vertex the least colour that no forbidding vertex has."""
    for vertex in order.tolist():
        taken = set(colours[forbidding(vertex)].tolist())
        colours[vertex] = next(c for c in range(1, len(taken) + 2) if c not in taken)


def _ends(graph: Graph, vertices: Any) -> Array:
    starts, ends = graph
    return np.concatenate([ends[:0], *[ends[starts[v] : starts[v + 1]] for v in vertices]])


def _forbidding(graph: Graph, colours: Array, vertex: int) -> Array:
    """The vertices whose colours would make a path of two colours through a vertex."""
    found = [*_ends(graph, [vertex])]
    for near in _ends(graph, [vertex]):
        for far in _ends(graph, [near]):
            beyond = _ends(graph, [far])
            closes = (colours[beyond[beyond != near]] == colours[near]).any()
            if far != vertex and (colours[near] == 0 or closes):
                found.append(far)
    return np.array(found, np.int64)

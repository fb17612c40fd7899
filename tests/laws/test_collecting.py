"""What nobody holds is freed at once, without Python's search for circles."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import adjoint as ad

X = ad.linspace(0.25, 0.75, 6, dtype=ad.float64)


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _total(x: Any) -> Any:
    return (x.sin() * x).sum()


TRACES: dict[str, Callable[[], Any]] = {
    "function": lambda: ad.trace(_total, X),
    "gradient": lambda: ad.trace(ad.grad(_total), X),
    "hessian": lambda: ad.trace(ad.hessian(_total), X),
    "jvp": lambda: ad.trace(lambda x: ad.jvp(_total, (x,), (x,)), X),
    "vmap": lambda: ad.trace(ad.vmap(lambda s: s * 2), X),
    "scan": lambda: ad.trace(lambda x: ad.scan(lambda c, t: (c * t, c), x[0], x)[0], X),
    "branch": lambda: ad.trace(lambda x: ad.cond(x[0] > 0, lambda: x * 2, lambda: x), X),
    "constant": lambda: ad.trace(lambda x: x * X + ad.tensor([1.0]), X),
    "simplified": lambda: ad.simplify(ad.trace(_total, X)),
    "text": lambda: str(ad.trace(_total, X)),
    "parsed": lambda: ad.graph.parse(str(ad.trace(_total, X))),
    "exported": lambda: ad.export.python(ad.trace(_total, X)),
}


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_leaves_no_circles(name: str, uncollected: None) -> None:
    for _ in range(2):
        TRACES[name]()
    gc.collect()
    TRACES[name]()
    assert gc.collect() == 0


def test_nodes_and_values_that_somebody_holds_outlive_their_graph(uncollected: None) -> None:
    """Then the circles stay, for the collector."""
    graph = ad.trace(_total, X)
    nodes, outputs, gone = list(graph.nodes), graph.outputs, weakref.ref(graph)
    del graph
    assert gone() is None
    assert [node.name for node in nodes] == ["sin.default", "mul.Tensor", "sum.default"]
    assert nodes[1].args[0] is nodes[0].output
    assert nodes[0].output.node is nodes[0]
    assert nodes[0].output.uses == {nodes[1]: 1}
    assert outputs[0].node is nodes[2]
    one = ad.trace(_total, X).outputs[0]
    assert [v.name for v in one.node.inputs()] == ["mul"]
    assert nodes[0].graph is None

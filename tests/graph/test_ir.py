"""The graph itself: use lists under edits, insertion points, clones, and the rules of `verify`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import adjoint as ad
from adjoint.graph.ir import Constant, Graph, GraphError, Node, Type
from adjoint.graph.verify import verify
from adjoint.ops.operator import operator

F3 = Type((3,), ad.float32)


def chain() -> Graph:
    """y = sin(x); z = x * y; return z"""
    graph = Graph()
    x = graph.add_input(F3, "x")
    y = graph.add(operator("sin"), (x,), (F3,)).output
    graph.outputs = [graph.add(operator("mul", "Tensor"), (x, y), (F3,)).output]
    return graph


def names(graph: Graph) -> list[str]:
    return [n.op.name for n in graph.nodes]


def test_use_lists_count_each_use() -> None:
    graph = chain()
    (x,) = graph.inputs
    sin, mul = graph.nodes
    assert x.uses == {sin: 1, mul: 1}
    mul.set_args((x, x))
    assert x.uses == {sin: 1, mul: 2}
    assert sin.output.uses == {}
    verify(graph)


def test_replace_uses_reaches_nodes_and_outputs() -> None:
    graph = chain()
    (x,) = graph.inputs
    sin, mul = graph.nodes
    graph.replace_uses(sin.output, x)
    assert mul.args == (x, x)
    graph.remove(sin)
    graph.replace_uses(mul.output, x)
    graph.remove(mul)
    assert graph.outputs == [x]
    assert len(graph) == 0
    verify(graph)


def test_remove_refuses_what_is_used() -> None:
    graph = chain()
    sin, mul = graph.nodes
    with pytest.raises(GraphError, match="%sin is used by"):
        graph.remove(sin)
    with pytest.raises(GraphError, match="%mul is an output"):
        graph.remove(mul)


def test_insertion_point() -> None:
    graph = chain()
    sin, mul = graph.nodes
    with graph.inserting_before(mul):
        neg = graph.add(operator("neg"), (sin.output,), (F3,))
        with graph.inserting_before(sin):
            graph.add(operator("exp"), (graph.inputs[0],), (F3,))
    mul.replace_input(sin.output, neg.output)
    assert names(graph) == ["exp", "sin", "neg", "mul"]
    assert [n.op.name for n in graph.reversed_nodes()] == ["mul", "neg", "sin", "exp"]
    verify(graph)


def test_clone_shares_no_values() -> None:
    graph = chain()
    copy = verify(graph.clone())
    assert copy.ssa() == graph.ssa()
    assert not set(copy.inputs) & set(graph.inputs)
    copy.outputs = [copy.inputs[0]]
    assert graph.outputs[0].name == "mul"


def test_inline_gives_the_outputs_there() -> None:
    graph, inner = chain(), chain()
    outputs = graph.inline(inner, {inner.inputs[0]: graph.outputs[0]})
    graph.outputs = outputs
    x = ad.tensor([0.5, 1.0, 2.0])
    once = x * x.sin()
    assert ad.allclose(verify(graph)(x), once * once.sin())


def broken_use_list(graph: Graph) -> None:
    graph.inputs[0].uses.clear()


def used_before_defined(graph: Graph) -> None:
    sin, mul = graph.nodes
    sin.set_args((mul.output,))


def wrong_type(graph: Graph) -> None:
    sin, _ = graph.nodes
    sin.output.retype(Type((4,), ad.float32))


def same_name(graph: Graph) -> None:
    sin, _ = graph.nodes
    sin.output.name = "x"


def foreign_output(graph: Graph) -> None:
    graph.outputs = [chain().inputs[0]]


def odd_output(graph: Graph) -> None:
    graph.outputs = [object()]


def too_few_arguments(graph: Graph) -> None:
    _, mul = graph.nodes
    mul.set_args(mul.args[:1])


def number_for_a_tensor(graph: Graph) -> None:
    _, mul = graph.nodes
    mul.set_args((graph.inputs[0], 3.0))


def in_place(graph: Graph) -> None:
    sin, _ = graph.nodes
    sin.op = operator("sin_")


def gradient_from_nowhere(graph: Graph) -> None:
    sin, _ = graph.nodes
    sin.output.retype(Type((3,), ad.float32, requires_grad=True))


def wrong_constant(graph: Graph) -> None:
    graph.add(Constant(ad.zeros(2)), (), (F3,))


def inner_graph(graph: Graph) -> None:
    inner = chain()
    broken_use_list(inner)
    graph.last.graphs = {"body": inner}  # type: ignore[union-attr]


RULES: dict[Callable[[Graph], None], str] = {
    broken_use_list: "%x: its use list says nobody, and it is used by %sin",
    used_before_defined: "%mul: is used by %sin = sin.default before it is defined",
    wrong_type: r"%sin: has type f32\[4\], and the shape rule of sin.default gives f32\[3\]",
    same_name: "%x: has a name that another value has",
    foreign_output: "%x: is an output, and not a value of this graph",
    odd_output: "is an output; outputs are values or plain numbers",
    too_few_arguments: "%mul = mul.Tensor: has 1 arguments, and the schema 2",
    number_for_a_tensor: "%mul = mul.Tensor: its argument other is 3.0, not a Tensor",
    in_place: "writes in place; a graph is functional",
    gradient_from_nowhere: "%sin: requires a gradient, and sin.default passes none on",
    wrong_constant: r"holds a tensor of type f32\[2\]",
    inner_graph: "graph f.mul.body: %x: its use list",
}


@pytest.mark.parametrize("damage", RULES, ids=lambda f: f.__name__)
def test_verify_names_the_value_and_the_rule(damage: Callable[[Graph], None]) -> None:
    graph = verify(chain())
    damage(graph)
    with pytest.raises(GraphError, match=RULES[damage]):
        verify(graph)


def test_statistics_count_products_and_memory() -> None:
    graph = ad.trace(
        lambda x, y: (x @ y).t().exp(), ad.ShapeDtype((10, 20)), ad.ShapeDtype((20, 30))
    )
    found = graph.statistics()
    assert found.nodes == 3
    assert found.flops == 2 * 10 * 20 * 30 + 300
    assert found.bytes == 4 * (200 + 600 + 300) + 4 * (300 + 300)  # the view moves nothing
    assert found.peak == 4 * (200 + 600 + 300 + 300)
    assert list(found.operators) == ["matmul", "t", "exp"]
    assert "3 nodes" in str(found)


def test_peak_memory_frees_after_the_last_use() -> None:
    def long(x: ad.Tensor) -> ad.Tensor:
        for _ in range(50):
            x = x.sin()
        return x

    assert ad.trace(long, ad.ShapeDtype(1000)).statistics().peak == 3 * 4000


def test_node_needs_one_output() -> None:
    with pytest.raises(GraphError, match="has 0 outputs"):
        _ = Node(operator("sin"), ()).output

"""`differentiate`: the pair of graphs equals the tape and keeps its calling convention."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core import pytrees
from adjoint.core.source_lines import show_place
from adjoint.graph import Gradient, Graph, statistics
from adjoint.graph.ir import Value

MODES = ("auto", "nothing", "everything")


def make(*shape: int, seed: int = 0) -> ad.Tensor:
    return ad.tensor(np.random.default_rng(seed).uniform(0.5, 1.5, shape))


def leaves(output: Any) -> list[Any]:
    return [v for v in pytrees.leaves(output) if isinstance(v, ad.Tensor)]


def tape(function: Callable[..., Any], inputs: list[Any], cotangents: list[Any]) -> tuple[Any, ...]:
    variables = [x.detach().requires_grad_() if x.dtype.is_floating_point else x for x in inputs]
    outputs = leaves(function(*variables))
    pairs = [
        (o, c)
        for o, c in zip(outputs, cotangents, strict=True)
        if o.requires_grad and c is not None
    ]
    wanted = [v for v in variables if v.requires_grad]
    if not pairs:
        return (None,) * len(wanted)
    return ad.autograd.grad([o for o, _ in pairs], wanted, [c for _, c in pairs], allow_unused=True)


def cotangents_of(outputs: list[Any], seed: int = 7) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [
        ad.tensor(rng.standard_normal(o.shape)) if o.dtype.is_floating_point else None
        for o in outputs
    ]


def assert_same(got: Any, expected: Any) -> None:
    assert (got is None) == (expected is None)
    if got is not None:
        np.testing.assert_allclose(
            got.detach().numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-12
        )


def check(function: Callable[..., Any], *inputs: Any, recompute: Any = "auto") -> Gradient:
    """Compare a pair with the tape; return it."""
    pair = ad.differentiate(ad.trace(function, *inputs), recompute=recompute)
    outputs, captured = pair.run(*inputs)
    expected = leaves(function(*inputs))
    for got, want in zip(outputs, expected, strict=True):
        assert_same(got, want)
    cotangents = cotangents_of(expected)
    given = [c if i in pair.output_grads else None for i, c in enumerate(cotangents)]
    found = [
        g
        for g, x in zip(pair.pull(captured, given), inputs, strict=True)
        if x.dtype.is_floating_point
    ]
    for got, want in zip(found, tape(function, list(inputs), given), strict=True):
        assert_same(got, want)
    convention(pair)
    return pair


def convention(pair: Gradient) -> None:
    """What the record says fits the two graphs."""
    count = len(pair.output_grads) + len(pair.captured_inputs) + len(pair.captured_outputs)
    assert len(pair.df.inputs) == count
    assert len(pair.df.outputs) == len(pair.input_grads)
    types = [pair.f.outputs[i].type for i in pair.output_grads]
    types += [pair.f.inputs[i].type for i in pair.captured_inputs]
    types += [pair.f.outputs[i].type for i in pair.captured_outputs]
    assert [v.shape for v in pair.df.inputs] == [t.shape for t in types]
    assert [v.dtype for v in pair.df.inputs] == [t.dtype for t in types]
    for position, value in zip(pair.input_grads, pair.df.outputs, strict=True):
        assert value.shape == pair.f.inputs[position].shape


@ad.custom_vjp
def steep(x: Any) -> Any:
    """x², whose derivative is said to be 3x³: the rule must be found in every order."""
    return x * x


steep.defvjp(lambda x: (x * x, x), lambda x, grad: (3 * grad * x**3,))


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "pointwise": (lambda x: (x.sin() * x).sum(), ((3,),)),
    "matmul": (lambda x, y: (x @ y).tanh().sum(), ((3, 4), (4, 2))),
    "broadcast": (lambda x, y: (x * y).exp().mean(0), ((3, 4), (4,))),
    "several outputs": (lambda x: (x.cumsum(0), x.max(1).values, x.var()), ((3, 4),)),
    "indices": (lambda x: x.max(1), ((3, 4),)),
    "list of views": (lambda x: [t.sin() for t in x.unbind(0)], ((3, 4),)),
    "cat": (lambda x, y: ad.cat([x, x * y, y]).logsumexp(0), ((3,), (3,))),
    "slices": (lambda x: x[1:, ::2].prod(), ((3, 4),)),
    "einsum": (lambda x: ad.einsum("ij,kj->ik", x, x).sum(), ((3, 4),)),
    "where": (lambda x: ad.where(x > 1, x, x * x).norm(), ((3, 4),)),
    "statistics": (lambda x: x.std(0).sum() + x.cumprod(1).sum(), ((3, 4),)),
    "index": (lambda x: x[ad.tensor([0, 2, 0])].sum(0), ((3, 4),)),
    "in place": (lambda x: (x * 2).mul_(x).add_(1).sum(), ((3,),)),
    "custom rule": (lambda x: steep(x.sin() @ x.t()).exp().sum(), ((3, 3),)),
    "strides": (lambda x: (x * 2).t().as_strided((2, 2), (1, 2)).sin(), ((3, 3),)),
    "cond": (lambda x: ad.cond(x.sum() > 0, lambda x: x.exp() @ x, ad.zeros_like, x), ((3, 3),)),
    "scan": (lambda x: ad.scan(lambda c, r: ((c * r).sin() + c, c.sum()), x[0], x), ((3, 4),)),
    "while_loop": (
        lambda x: ad.while_loop(lambda c: (c * c).sum() < 50, lambda c: c * x + c, x),
        ((3,),),
    ),
}


@pytest.mark.parametrize("recompute", MODES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_pair_equals_the_tape(name: str, recompute: str) -> None:
    function, shapes = FUNCTIONS[name]
    check(function, *(make(*s, seed=i) for i, s in enumerate(shapes)), recompute=recompute)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_order_by_differentiating_df(name: str) -> None:
    """Differentiate df, chain it with f's backward, and compare with the tape's second order."""
    function, shapes = FUNCTIONS[name]
    inputs = [make(*s, seed=i) for i, s in enumerate(shapes)]

    def scalar(*xs: Any) -> Any:
        return sum((o * o).sum() for o in leaves(function(*xs)) if o.dtype.is_floating_point)

    first = ad.trace(ad.grad(scalar, argnums=tuple(range(len(inputs)))), *inputs)
    check(lambda *xs: first(*xs), *inputs)
    pair = ad.differentiate(ad.trace(scalar, *inputs))
    gradient = ad.trace(lambda *xs: _gradient(pair, xs), *inputs)
    check(lambda *xs: gradient(*xs), *inputs)
    expected = leaves(ad.grad(scalar, argnums=tuple(range(len(inputs))))(*inputs))
    for got, want in zip(leaves(gradient(*inputs)), expected, strict=True):
        assert_same(got, want)


def _gradient(pair: Gradient, inputs: Any) -> list[Any]:
    outputs, captured = pair.run(*inputs)
    return [g for g in pair.pull(captured, [ad.ones_like(outputs[0])]) if g is not None]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_df_is_differentiable_in_what_it_captures(name: str) -> None:
    function, shapes = FUNCTIONS[name]
    pair = ad.differentiate(ad.trace(function, *(make(*s) for s in shapes)))
    inputs = [
        make(*v.shape, seed=i) if v.dtype.is_floating_point else None
        for i, v in enumerate(pair.df.inputs)
    ]
    if all(i is not None for i in inputs):
        again = ad.differentiate(pair.df)
        convention(again)
        outputs, captured = again.run(*inputs)
        found = again.pull(captured, cotangents_of(outputs))
        expected = tape(lambda *xs: list(_flat(pair.df, xs)), inputs, cotangents_of(outputs))
        for got, want in zip(found, expected, strict=True):
            assert_same(got, want)


def _flat(graph: Graph, values: Any) -> Any:
    result = graph(*values)
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jvp_graph_equals_jvp(name: str) -> None:
    function, shapes = FUNCTIONS[name]
    inputs = [make(*s, seed=i) for i, s in enumerate(shapes)]
    tangents = [make(*s, seed=i + 10) for i, s in enumerate(shapes)]
    graph = ad.graph.jvp(ad.trace(function, *inputs))
    found = _flat(graph, [*inputs, *tangents])

    def floats(*xs: Any) -> list[Any]:
        return [o for o in leaves(function(*xs)) if o.dtype.is_floating_point]

    _, expected = ad.jvp(floats, tuple(inputs), tuple(tangents))
    count = len(leaves(function(*inputs)))
    for got, want in zip(found[count:], expected, strict=True):
        assert_same(got, want)


# -- odd cases
# -----------------------------------------------------------------------------------------------


def test_repeated_output_gets_a_gradient_each() -> None:
    pair = check(lambda x: (x * 2, x, x), make(3))
    assert pair.output_grads[:3] == (0, 1, 2)
    doubled = ad.differentiate(ad.trace(lambda x: (lambda y: (y, y))(x.sin()), make(3)))
    outputs, captured = doubled.run(make(3))
    one = doubled.pull(captured, [ad.ones(3, dtype=ad.float64), None])[0]
    two = doubled.pull(captured, [ad.ones(3, dtype=ad.float64), ad.ones(3, dtype=ad.float64)])[0]
    np.testing.assert_allclose(two.numpy(), 2 * one.numpy())
    assert len(outputs) == 2


def test_unused_input_receives_no_gradient() -> None:
    pair = check(lambda x, y: x * 2, make(3), make(2))
    assert pair.input_grads == (0,)
    assert pair.pull([], [make(3)])[1] is None


def test_input_that_is_an_output() -> None:
    pair = check(lambda x: x, make(3))
    assert len(pair.f) == 0
    assert pair.captured_outputs == ()


def test_output_captured_in_place_is_not_returned_twice() -> None:
    pair = check(lambda x: x.exp(), make(3), recompute="nothing")
    assert pair.captured_outputs == (0,)
    assert len(pair.f.outputs) == 1


def test_temporary_becomes_an_extra_output_with_a_gradient_of_its_own() -> None:
    pair = check(lambda x: x.exp().tanh().sum(), make(3), recompute="nothing")
    assert len(pair.f.outputs) > pair.real_outputs
    assert any(i >= pair.real_outputs for i in pair.output_grads)


def test_outputs_without_gradient_have_no_gradient_input() -> None:
    pair = check(lambda x: (x.argmax(), x.detach() * 2, x * 2, x > 1), make(4))
    assert pair.output_grads == (2,)


def test_integer_inputs_receive_no_gradient() -> None:
    pair = check(lambda x, i: x[i] * 2, make(4), ad.tensor([0, 1, 1]))
    assert pair.input_grads == (0,)


def test_constants_are_copied_into_the_backward() -> None:
    table = make(3)
    pair = check(lambda x: (x * table).sum(), make(3), recompute="nothing")
    assert pair.captured_inputs == ()
    assert pair.captured_outputs == ()


def test_graph_that_needs_a_gradient_only_in_part() -> None:
    x, y = make(3).requires_grad_(), make(3)
    pair = ad.differentiate(ad.trace(lambda x, y: (x.sin() * y.cos()).sum(), x, y))
    assert pair.input_grads == (0,)
    by_position = ad.differentiate(ad.trace(lambda x, y: x * y, make(3), make(3)), wrt=[1])
    assert by_position.input_grads == (1,)


def test_random_values_are_kept_and_not_drawn_again() -> None:
    def noisy(x: Any) -> Any:
        return (x * ad.rand_like(x)).sum()

    pair = ad.differentiate(ad.trace(noisy, make(5)), recompute="everything")
    outputs, captured = pair.run(make(5))
    (grad,) = pair.pull(captured, [ad.ones((), dtype=ad.float64)])
    np.testing.assert_allclose((grad * make(5)).sum().item(), outputs[0].item())


def test_absent_gradients_skip_their_blocks() -> None:
    pair = ad.differentiate(ad.trace(lambda x, y: (x.sin(), y.cos()), make(3), make(3)))
    _, captured = pair.run(make(3), make(3))
    left, right = pair.pull(captured, [ad.ones(3, dtype=ad.float64), None])
    assert right is None
    np.testing.assert_allclose(left.numpy(), np.cos(make(3).numpy()))
    assert pair.pull(captured, [None, None]) == [None, None]
    assert {n.block.operator for n in pair.df.nodes if n.block} >= {"sin.default", "cos.default"}


def test_operator_without_derivative_is_named() -> None:
    graph = ad.trace(lambda x, s: ad.normal(x, s), make(3), make(3))
    with pytest.raises(ad.AdjointError) as caught:
        ad.differentiate(
            ad.trace(lambda x, m: x.masked_fill(m > 0, 0.0).repeat_interleave(m), make(3), make(3))
        )
    assert str(caught.value)
    assert len(graph) > 0


def test_a_function_in_place_of_a_graph_is_refused() -> None:
    with pytest.raises(TypeError, match=r"ad\.trace"):
        ad.differentiate(lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"ad\.trace"):
        ad.export.python(3)


def test_bytes_limit_what_is_kept() -> None:
    def deep(x: Any) -> Any:
        for _ in range(6):
            x = x.sin().exp()
        return x.sum()

    graph = ad.trace(deep, make(100))
    everything = ad.differentiate(graph, recompute=0)
    assert len(everything.f.outputs) == 1
    plenty = ad.differentiate(graph, recompute=10**9)
    assert len(plenty.f.outputs) > 1
    with pytest.raises(ad.AdjointError, match="recompute"):
        ad.differentiate(graph, recompute="a bit")


def test_minimum_cut_keeps_less_than_everything_used() -> None:
    def function(x: Any, w: Any) -> Any:
        y = x @ w
        return (y.sin() * y.cos() * y.exp()).sum()

    graph = ad.trace(function, make(20, 3), make(3, 20))

    def kept(pair: Gradient) -> int:
        return sum(statistics.size(pair.f.outputs[i].type) for i in pair.captured_outputs)

    assert kept(ad.differentiate(graph)) < kept(ad.differentiate(graph, recompute="nothing"))
    assert kept(ad.differentiate(graph)) == 20 * 20 * 8  # the product, from which the rest is cheap


def test_of_equal_cuts_the_one_nearest_the_backward_is_taken() -> None:
    """The result of exp is as large as the product, and nothing is computed from it again."""
    graph = ad.trace(lambda x, w: (x @ w).exp().sum(), make(20, 3), make(3, 20))
    pair = ad.differentiate(graph)
    (kept,) = (pair.f.outputs[i] for i in pair.captured_outputs)
    assert kept.node.op.name == "exp"
    assert "exp" not in {n.op.name for n in pair.df.nodes}


def test_the_backward_of_a_scan_does_not_run_it_again() -> None:
    """Its carries are kept. Gradients in them, which second derivatives have, cost others none."""
    function, shapes = FUNCTIONS["scan"]
    pair = check(function, *(make(*s) for s in shapes))
    assert [n.args[4] for n in pair.df.nodes if n.op.name == "scan"] == [True]
    absent = tuple(n for n, i in enumerate(pair.output_grads) if i >= pair.real_outputs)
    first = pair.specialised(absent)
    (loop,) = (n for n in first.nodes if n.op.name == "scan")
    (whole,) = (n for n in pair.df.nodes if n.op.name == "scan")
    assert len(loop.graphs["body"]) < len(whole.graphs["body"])
    assert len(loop.args[2]) == len(whole.args[2]) - len(absent)


def test_a_loop_keeps_no_carries_that_its_backward_does_not_take() -> None:
    for name in ("scan", "while_loop"):
        function, shapes = FUNCTIONS[name]
        graph = ad.trace(function, *(make(*s) for s in shapes))
        pair = ad.differentiate(graph, recompute="everything")
        count = [len(n.outputs) for n in graph.nodes if n.op.name == name]
        assert [len(n.outputs) for n in pair.f.nodes if n.op.name == name] == count


def test_a_sum_with_an_absent_gradient_is_the_other_one() -> None:
    """Kept temporaries have gradients in second derivatives only; the first ones add no zeros."""
    graph = ad.trace(lambda x, w: (x @ w).tanh().sum(), make(3, 4), make(4, 2))
    pair = ad.differentiate(graph)
    first = pair.specialised((1,))
    assert "zeros" not in {n.op.name for n in first.nodes}
    assert len(first) == len(pair.df) - 1


def layer(x: Any, w: Any) -> Any:
    y = (x @ w).tanh()
    z = ad.einsum("ij,ij->i", y, x)
    return (z.logsumexp(0) + y).sum()


LINES = {f"test_differentiate.py:{layer.__code__.co_firstlineno + i}" for i in (1, 2, 3)}


def test_nodes_of_df_carry_the_line_of_the_operator_that_they_differentiate() -> None:
    """In any order of derivative, sums of gradients included."""
    graph = ad.trace(layer, make(3, 3), make(3, 3))
    pair = ad.differentiate(graph)
    second = ad.differentiate(pair.df)
    for made in (pair.f, pair.df, second.f, second.df, ad.graph.jvp(graph), ad.graph.jvp(pair.df)):
        assert {n.place for n in made.nodes} <= LINES
    assert {n.place for n in pair.df.nodes} == LINES


def test_a_gradient_that_is_traced_carries_the_lines_of_its_function() -> None:
    """As `ad.compile` traces it; the line of the call is that of the 1 that it starts with."""
    graph = ad.trace(layer, make(3, 3), make(3, 3))
    for function in (layer, graph):
        traced = ad.trace(ad.grad(function), make(3, 3), make(3, 3))
        others = {n.op.name for n in traced.nodes if n.place not in LINES}
        assert others == {"detach", "ones_like"}
        assert {n.place for n in traced.nodes} >= LINES


def test_an_operator_of_a_graph_is_recorded_where_it_was_written() -> None:
    graph = ad.trace(layer, make(3, 3), make(3, 3))
    y = graph(make(3, 3).requires_grad_(), make(3, 3))
    assert show_place(y.grad_fn.place) in LINES


def test_transpose_of_a_linear_graph() -> None:
    graph = ad.trace(lambda x: (x.cumsum(0) * 3).flip(0), make(4))
    matrix = ad.jacobian(lambda x: graph(x))(make(4))
    transposed = ad.jacobian(lambda y: ad.graph.transpose(graph)(y))(make(4))
    np.testing.assert_allclose(transposed.numpy(), matrix.numpy().T)
    with pytest.raises(ad.graph.GraphError, match="not linear"):
        ad.graph.transpose(ad.trace(lambda x: x * x, make(3)))


# -- random graphs from the table
# ------------------------------------------------------------------------------

UNARY = ("sin", "cos", "tanh", "exp", "sigmoid", "neg", "abs", "square", "atan", "relu")
BINARY = ("add", "sub", "mul", "maximum", "minimum", "hypot", "atan2")


def random_function(seed: int, length: int) -> Callable[..., Any]:
    """A function of two tensors made of operators drawn from the table; values stay bounded."""

    def function(x: Any, y: Any) -> Any:
        choose = random.Random(seed)
        values = [x, y]
        for _ in range(length):
            a, b = choose.choice(values), choose.choice(values)
            kind = choose.randrange(9)
            if kind < 3:
                made = getattr(ad, choose.choice(UNARY))(a.tanh())
            elif kind < 6:
                made = getattr(ad, choose.choice(BINARY))(a, b * 0.5)
            elif kind == 6:
                made = a + b.sum(choose.randrange(2), keepdim=True) * 0.1
            elif kind == 7:
                made = (a @ b.t() @ b).tanh() + a.flip(0) * 0.1
            else:
                made = ad.where(a > b, a.cumsum(1), b[ad.tensor([2, 0, 1])]).tanh()
            values.append(made)
        return values[-1].sum(), values[-2], choose.choice(values)

    return function


@pytest.mark.parametrize("recompute", MODES)
@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_equal_the_tape(seed: int, recompute: str) -> None:
    pair = check(
        random_function(seed, 60),
        make(3, 4, seed=seed),
        make(3, 4, seed=seed + 1),
        recompute=recompute,
    )
    assert all(isinstance(v, Value) for v in pair.df.outputs)


def test_a_long_random_graph_equals_the_tape() -> None:
    check(random_function(99, 400), make(3, 4), make(3, 4, seed=1))

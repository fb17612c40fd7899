"""Hooks: on tensors, on accumulation, on nodes, on saved tensors; and walking the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.tape import engine
from adjoint.tape.backward_passes import BackwardRequest
from tests.values import close, leaf

# On tensors


def test_hook_sees_the_gradient_of_a_leaf() -> None:
    x = leaf(2.0)
    seen: list[ad.Tensor] = []
    x.register_hook(lambda g: seen.append(g))
    (x * x).sum().backward()
    assert close(seen[0], [4.0])
    assert close(x.grad, [4.0])


def test_hook_replaces_the_gradient() -> None:
    x = leaf(2.0)
    y = x * 3
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert close(x.grad, [30.0])


def test_hooks_run_in_the_order_of_registration() -> None:
    x = leaf(2.0)
    x.register_hook(lambda g: g + 1)
    x.register_hook(lambda g: g * 10)
    x.sum().backward()
    assert close(x.grad, [20.0])


def test_hook_sees_the_sum_over_all_uses() -> None:
    x = leaf(2.0)
    y = x * 1
    seen: list[ad.Tensor] = []
    y.register_hook(lambda g: seen.append(g))
    (y * 2 + y * 3).sum().backward()
    assert len(seen) == 1
    assert close(seen[0], [5.0])


def test_hook_can_be_removed() -> None:
    x = leaf(2.0)
    handle = x.register_hook(lambda g: g * 10)
    handle.remove()
    x.sum().backward()
    assert close(x.grad, [1.0])
    with x.register_hook(lambda g: g * 10):
        pass
    x.sum().backward()
    assert close(x.grad, [2.0])


def test_hook_of_a_leaf_is_kept_for_later_graphs() -> None:
    x = leaf(2.0)
    x.register_hook(lambda g: g * 2)
    x.sum().backward()
    x.sum().backward()
    assert close(x.grad, [4.0])


def test_hook_runs_in_grad() -> None:
    x = leaf(2.0)
    y = x * 3
    y.register_hook(lambda g: g * 2)
    assert close(ad.autograd.grad(y.sum(), x)[0], [6.0])
    y = x * 3
    y.register_hook(lambda g: g * 2)
    assert close(ad.autograd.grad(y.sum(), y)[0], [2.0])


def test_hook_needs_requires_grad() -> None:
    with pytest.raises(RuntimeError):
        ad.tensor([1.0]).register_hook(lambda g: g)


def test_error_in_a_hook_comes_out_and_the_next_backward_works() -> None:
    x = leaf(2.0)
    y = x * 2

    def fail(grad: ad.Tensor) -> None:
        raise KeyError("mine")

    y.register_hook(fail)
    with pytest.raises(KeyError, match="mine"):
        y.sum().backward()
    x.sum().backward()
    assert close(x.grad, [1.0])


def test_retained_grad_is_the_one_after_hooks() -> None:
    x = leaf(2.0)
    y = x * 3
    y.retain_grad()
    y.register_hook(lambda g: g * 7)
    y.sum().backward()
    assert close(y.grad, [7.0])


def test_hook_with_create_graph_is_differentiable() -> None:
    x = leaf(2.0)
    y = x * x
    y.register_hook(lambda g: g * x)
    (g,) = ad.autograd.grad(y.sum(), x, create_graph=True)
    assert close(g, [8.0])
    assert close(ad.autograd.grad(g.sum(), x)[0], [8.0])


def test_hook_after_an_in_place_operator_belongs_to_the_old_value() -> None:
    x = leaf(2.0)
    y = x * 3
    seen: list[str] = []
    y.register_hook(lambda g: seen.append("before"))
    y.mul_(2)
    y.register_hook(lambda g: seen.append("after"))
    y.sum().backward()
    assert seen == ["after", "before"]


def test_post_accumulate_hook_runs_after_the_grad_is_there() -> None:
    x = leaf(2.0)
    seen: list[float] = []

    def record(tensor: ad.Tensor) -> None:
        assert tensor is x
        assert tensor.grad is not None
        seen.append(tensor.grad.item())
        tensor.grad = None

    handle = x.register_post_accumulate_grad_hook(record)
    (x * x).sum().backward()
    (x * x).sum().backward()
    assert seen == [4.0, 4.0]
    assert x.grad is None
    handle.remove()
    (x * x).sum().backward()
    assert close(x.grad, [4.0])


def test_post_accumulate_hook_needs_a_leaf() -> None:
    with pytest.raises(RuntimeError):
        (leaf(1.0) * 2).register_post_accumulate_grad_hook(lambda t: None)


def test_post_accumulate_hook_does_not_run_in_grad() -> None:
    x = leaf(2.0)
    seen: list[ad.Tensor] = []
    x.register_post_accumulate_grad_hook(seen.append)
    ad.autograd.grad((x * x).sum(), x)
    assert seen == []


# On nodes


def test_node_hook_sees_inputs_and_outputs() -> None:
    x = leaf(2.0)
    y = x * 3
    assert y.grad_fn is not None
    seen: list[Any] = []
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
    y.sum().backward()
    inputs, outputs = seen[0]
    assert close(inputs[0], [3.0])
    assert close(outputs[0], [1.0])


def test_node_hook_replaces_the_gradients_of_inputs() -> None:
    x = leaf(2.0)
    y = x.exp()
    assert y.grad_fn is not None
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 0 + 5,))
    y.sum().backward()
    assert close(x.grad, [5.0])


def test_node_prehook_replaces_the_gradients_of_outputs() -> None:
    x = leaf(2.0)
    y = x * 3
    assert y.grad_fn is not None
    handle = y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 10,))
    y.sum().backward(retain_graph=True)
    assert close(x.grad, [30.0])
    handle.remove()
    x.grad = None
    y.sum().backward()
    assert close(x.grad, [3.0])


def test_tensor_hooks_run_before_node_prehooks() -> None:
    order: list[str] = []
    x = leaf(2.0)
    y = x * 3
    assert y.grad_fn is not None
    y.grad_fn.register_prehook(lambda outputs: order.append("node"))
    y.register_hook(lambda g: order.append("tensor"))
    y.sum().backward()
    assert order == ["tensor", "node"]


def test_graph_can_be_walked() -> None:
    x = leaf(2.0)
    y = (x * 3).exp()
    node = y.grad_fn
    assert node is not None
    assert "exp" in node.name().lower()
    ((before, index),) = [e for e in node.next_functions if e[0] is not None]
    assert index == 0
    assert "mul" in before.name().lower()
    accumulate = next(f for f, _ in before.next_functions if f is not None)
    assert accumulate.variable is x


def test_next_functions_have_one_entry_per_input() -> None:
    x, y = leaf(1.0), ad.tensor([2.0], dtype=ad.float64)
    node = (x * y).grad_fn
    assert node is not None
    assert [f is None for f, _ in node.next_functions] == [False, True]


# On saved tensors


def test_saved_tensors_hooks_pack_and_unpack() -> None:
    packed: list[ad.Tensor] = []
    unpacked: list[Any] = []

    def pack(tensor: ad.Tensor) -> Any:
        packed.append(tensor)
        return ("packed", tensor.detach().numpy().copy())

    def unpack(value: Any) -> ad.Tensor:
        unpacked.append(value)
        return ad.from_numpy(value[1])

    x, y = leaf(2.0), leaf(5.0)
    with ad.autograd.graph.saved_tensors_hooks(pack, unpack):
        z = x * y
    assert len(packed) == 2
    assert unpacked == []
    z.sum().backward()
    assert len(unpacked) == 2
    assert close(x.grad, [5.0])
    assert close(y.grad, [2.0])


def test_saved_tensors_hooks_can_change_what_is_seen() -> None:
    x = leaf(2.0)
    with ad.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 10):
        y = x * x
    y.sum().backward()
    assert close(x.grad, [40.0])


def test_saved_tensors_hooks_end_with_the_block() -> None:
    x = leaf(2.0)
    seen: list[ad.Tensor] = []
    with ad.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        x * x
    count = len(seen)
    assert count > 0
    x * x
    assert len(seen) == count


def test_saved_tensors_hooks_innermost_wins() -> None:
    x = leaf(2.0)
    seen: list[str] = []
    hooks = ad.autograd.graph.saved_tensors_hooks
    with (
        hooks(lambda t: seen.append("outer") or t, lambda t: t),
        hooks(lambda t: seen.append("inner") or t, lambda t: t),
    ):
        x.exp()
    assert set(seen) == {"inner"}


def test_saved_tensors_hooks_with_double_backward() -> None:
    x = leaf(2.0)
    with ad.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = (x * x * x).sum()
    (g,) = ad.autograd.grad(y, x, create_graph=True)
    assert close(g, [12.0])


def test_save_on_cpu() -> None:
    x = leaf(2.0)
    with ad.autograd.graph.save_on_cpu():
        y = x * x
    y.sum().backward()
    assert close(x.grad, [4.0])


def test_saved_tensors_hooks_can_be_disabled() -> None:
    graph = ad.autograd.graph
    with (
        graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(RuntimeError, match="not here"),
        graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    ):
        pass


# Checkpointing


# Hooks of leaves


def test_hooks_run_without_recording_unless_the_graph_is_created() -> None:
    x = leaf(2.0)
    seen: list[bool] = []
    x.register_hook(lambda g: seen.append(ad.is_grad_enabled()))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(ad.is_grad_enabled()))
    (x * x).sum().backward()
    assert seen == [False, False]
    ad.autograd.grad((x * x).sum(), x, create_graph=True)
    assert seen == [False, False, True]


def test_post_accumulate_hook_can_update_its_leaf() -> None:
    x = leaf(2.0)

    def descend(tensor: ad.Tensor) -> None:
        tensor.add_(tensor.grad, alpha=-0.1)
        tensor.grad = None

    x.register_post_accumulate_grad_hook(descend)
    (x * x).sum().backward()
    assert close(x, [1.6])
    assert x.grad is None


def test_a_leaf_with_hooks_is_complete_before_the_pass_ends() -> None:
    order: list[str] = []
    x, w = leaf(2.0), leaf(3.0)
    x.register_post_accumulate_grad_hook(lambda t: order.append("x"))
    w.register_post_accumulate_grad_hook(lambda t: order.append("w"))
    y = x.exp()
    z = y.sin() * w + w
    y.register_hook(lambda g: order.append("y"))
    z.sum().backward()
    assert order == ["w", "y", "x"]
    assert close(w.grad, np.sin(np.exp(2.0)) + 1)


def test_hooks_of_a_leaf_run_in_a_fixed_order() -> None:
    x = leaf(2.0)
    y = x * 1
    assert y.grad_fn is not None
    accumulate = y.grad_fn.next_functions[0][0]
    order: list[Any] = []
    accumulate.register_hook(lambda i, o: order.append(("after", i, o[0].item())))
    x.register_post_accumulate_grad_hook(lambda t: order.append("accumulated"))
    accumulate.register_prehook(lambda g: (g[0] * 5,))
    x.register_hook(lambda g: g * 2)
    y.sum().backward()
    assert order == ["accumulated", ("after", (), 10.0)]
    assert close(x.grad, [10.0])
    assert close(ad.autograd.grad((x * 1).sum(), x)[0], [2.0])  # nothing is accumulated


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        ("text", TypeError),
        (3.0, TypeError),
        (ad.ones(3, dtype=ad.float64), RuntimeError),
        (ad.ones(1, dtype=ad.float32), RuntimeError),
    ],
)
@pytest.mark.parametrize("on_leaf", [False, True])
def test_what_a_hook_returns_must_fit(returned: Any, error: type[Exception], on_leaf: bool) -> None:
    x = leaf(2.0)
    y = x * 3
    (x if on_leaf else y).register_hook(lambda g: returned)
    with pytest.raises(error):
        y.sum().backward()


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        ([1.0], TypeError),
        (ad.ones(1, dtype=ad.float64), TypeError),
        ((ad.ones(1, dtype=ad.float64),) * 2, RuntimeError),
        ((ad.ones(2, dtype=ad.float64),), RuntimeError),
    ],
)
def test_what_a_hook_of_a_node_returns_must_fit(returned: Any, error: type[Exception]) -> None:
    x = leaf(2.0)
    for before in (True, False):
        y = x.exp()
        assert y.grad_fn is not None
        if before:
            y.grad_fn.register_prehook(lambda g: returned)
        else:
            y.grad_fn.register_hook(lambda i, o: returned)
        with pytest.raises(error):
            y.sum().backward()


def test_post_accumulate_hook_returns_none() -> None:
    x = leaf(2.0)
    x.register_post_accumulate_grad_hook(lambda t: t.grad)
    with pytest.raises(RuntimeError):
        x.sum().backward()


def test_hook_of_an_absent_output_gets_none() -> None:
    x = leaf(2.0, 3.0)
    a, b = x.unbind()
    seen: list[Any] = []
    a.register_hook(seen.append)
    b.backward()
    assert seen == [None]
    assert close(x.grad, [0.0, 1.0])


def test_captured_gradient_is_seen_before_hooks_where_the_pass_goes_on() -> None:
    x = leaf(1.0)
    y = x * 2
    z = y * 3
    y.register_hook(lambda g: g * 10)
    gx, gy = ad.autograd.grad(z.sum(), (x, y), retain_graph=True)
    assert close(gx, [60.0])
    assert close(gy, [3.0])
    assert close(ad.autograd.grad(z.sum(), y)[0], [30.0])


# Several tensors


@pytest.mark.parametrize("mode", ["all", "any"])
def test_multi_grad_hook_fires_once_in_a_pass(mode: str) -> None:
    x, y, unused = leaf(2.0), leaf(3.0), leaf(5.0)
    seen: list[Any] = []
    register = ad.autograd.graph.register_multi_grad_hook
    handle = register((x, y, unused), seen.append, mode=mode)
    for _ in range(2):
        (x * y).sum().backward()
    assert len(seen) == 2
    if mode == "all":
        assert close(seen[0][0], [3.0])
        assert close(seen[0][1], [2.0])
        assert seen[0][2] is None
    handle.remove()
    (x * y).sum().backward()
    assert len(seen) == 2


def test_multi_grad_hook_in_grad_waits_for_what_the_pass_reaches() -> None:
    x, y = leaf(2.0), leaf(3.0)
    seen: list[Any] = []
    ad.autograd.graph.register_multi_grad_hook((x, y), seen.append)
    ad.autograd.grad((x * y).sum(), x)
    assert [g is None for g in seen[0]] == [False, True]


def test_multi_grad_hook_knows_two_modes() -> None:
    with pytest.raises(ValueError):
        ad.autograd.graph.register_multi_grad_hook((leaf(1.0),), print, mode="first")


# After writes in place


def test_retained_gradient_follows_the_tensor() -> None:
    y = leaf(1.0, 2.0) * 1
    y.retain_grad()
    part = y[:1]
    part.retain_grad()
    y.mul_(3)
    (y.sum() + part.sum()).backward()
    assert close(y.grad, [2.0, 1.0])
    assert close(part.grad, [1.0])


def test_hooks_of_a_view_that_is_written_to_are_passed_by() -> None:
    base = leaf(1.0) * 1
    view, other = base[:], base[:]
    seen: list[str] = []
    view.register_hook(lambda g: seen.append("old"))
    other.register_hook(lambda g: seen.append("old"))
    view.mul_(2)
    other.register_hook(lambda g: seen.append("new"))
    (view + other).sum().backward()
    assert seen == ["new"]


# Edges, nodes and what they saved


def test_edges_stand_for_tensors() -> None:
    graph = ad.autograd.graph
    x = leaf(1.0, 2.0)
    y = x.sin()
    z = y.exp().sum()
    edge = graph.get_gradient_edge(y)
    assert isinstance(edge, graph.GradientEdge)
    (gy,) = ad.autograd.grad(z, edge, retain_graph=True)
    (gx,) = ad.autograd.grad([edge], [x], [gy])
    assert close(gx, ad.autograd.grad(x.sin().exp().sum(), x)[0])
    with pytest.raises(RuntimeError):
        ad.autograd.grad(edge, x)  # not a scalar
    with pytest.raises(RuntimeError):
        graph.get_gradient_edge(ad.ones(2))


def test_an_edge_stays_with_the_version_it_was_made_of() -> None:
    y = leaf(1.0) * 1
    edge = ad.autograd.graph.get_gradient_edge(y)
    y *= 2
    old, new = ad.autograd.grad(y.sum(), (edge, y))
    assert close(old, [2.0])
    assert close(new, [1.0])


def test_backward_takes_edges_as_inputs() -> None:
    x, other = leaf(1.0), leaf(1.0)
    ((x * 3) * other).sum().backward(inputs=[ad.autograd.graph.get_gradient_edge(x)])
    assert close(x.grad, [3.0])
    assert other.grad is None


def test_every_place_that_gradients_pass_is_a_node() -> None:
    graph = ad.autograd.graph
    x = leaf(1.0)
    y = x.exp()
    assert isinstance(y.grad_fn, graph.Node)
    assert isinstance(y.grad_fn.next_functions[0][0], graph.AccumulateGrad)
    assert issubclass(graph.AccumulateGrad, graph.Node)
    assert not isinstance(1, graph.Node)


def test_a_node_can_be_called() -> None:
    x = leaf(2.0)
    node = (x * x).grad_fn
    assert node is not None
    assert close(node(ad.ones(1, dtype=ad.float64))[0], [2.0])
    with pytest.raises(TypeError):
        node()


def test_a_node_knows_the_gradients_it_takes() -> None:
    x = ad.randn(2, 3, requires_grad=True)
    variance, mean = ad.var_mean(x, 0)
    assert variance.grad_fn is mean.grad_fn
    assert [m.shape for m in variance.grad_fn._input_metadata] == [(3,), (3,)]
    assert variance.grad_fn._input_metadata[0].dtype is ad.float32


def test_saved_values_are_tensors() -> None:
    x = leaf(2.0)
    y = x * x
    assert y.grad_fn is not None
    assert y.grad_fn._saved_self is x
    z = x.exp()
    assert z.grad_fn is not None
    saved = z.grad_fn._saved_result
    assert saved.grad_fn is z.grad_fn
    with ad.no_grad():
        z.add_(1)
    assert saved._version == z._version
    y.sum().backward()
    with pytest.raises(RuntimeError):
        y.grad_fn._saved_self
    assert "_saved_self" in dir(y.grad_fn)


def test_hooks_of_one_saved_tensor() -> None:
    x = leaf(3.0)
    y = x * x
    assert y.grad_fn is not None
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t * 2, lambda t: t)
    with pytest.raises(RuntimeError):
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    y.sum().backward()
    assert close(x.grad, [9.0])
    with pytest.raises(RuntimeError):
        ad.autograd.SavedTensor()


def test_a_write_to_the_other_saved_tensor_is_noticed_beside_a_hook() -> None:
    x = leaf(3.0)
    a, b = x * 1, x * 1
    y = a * b
    assert y.grad_fn is not None
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    b.add_(1)
    with pytest.raises(RuntimeError):
        y.sum().backward()


def test_pack_hook_may_not_write_to_its_argument() -> None:
    x = leaf(3.0)
    with (
        ad.autograd.graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t),
        pytest.raises(RuntimeError),
    ):
        x.exp()


def test_unpack_hook_returns_a_tensor() -> None:
    x = leaf(3.0)
    with ad.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: 1):
        y = x.exp()
    with pytest.raises(TypeError):
        y.sum().backward()


def test_increment_version_tells_backward_of_a_foreign_write() -> None:
    x = leaf(3.0)
    y = x.exp()
    y.numpy(force=True)[:] = 0
    ad.autograd.graph.increment_version(y)
    with pytest.raises(RuntimeError):
        y.sum().backward()


def test_callbacks_run_at_the_end_of_their_pass() -> None:
    order: list[str] = []
    x, y = leaf(1.0), leaf(1.0)
    queue = ad.autograd.graph.queue_callback
    z = x * y
    x.register_hook(lambda g: queue(lambda: order.append("end")))
    y.register_post_accumulate_grad_hook(lambda t: order.append("y"))
    z.sum().backward()
    assert order == ["y", "end"]
    with pytest.raises(RuntimeError):
        queue(print)


def test_a_number_counts_as_an_input_without_an_edge() -> None:
    x = leaf(2.0)
    for y in (x + 5, x * 5, x - 5, x / 5):
        assert y.grad_fn is not None
        assert [n is None for n, _ in y.grad_fn.next_functions] == [False, True]
    seen: list[Any] = []
    y = x * 5
    assert y.grad_fn is not None
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append(inputs) or (inputs[0] * 2, None))
    y.sum().backward()
    assert seen[0][1] is None
    assert close(x.grad, [10.0])


def test_increment_version_passes_inference_tensors() -> None:
    with ad.inference_mode():
        x = ad.ones(2)
        ad.autograd.graph.increment_version(x)
    y = ad.ones(2)
    ad.autograd.graph.increment_version([x, y])
    assert y._version == 1


def test_an_observer_of_a_pass_is_told_each_node_before_its_rule_runs() -> None:
    x = leaf(2.0)
    y = (x.sin() * x).sum()
    seen: list[str] = []
    how = BackwardRequest(observer=lambda node: seen.append(node.name()))
    (grad,) = engine.gradients([y], [ad.ones(())], [x], how)
    assert seen == ["SumBackward0", "MulBackward0", "SinBackward0"]
    assert close(grad, np.sin(2.0) + 2 * np.cos(2.0))


def test_a_creation_hook_sees_every_node_once_with_what_it_saves() -> None:
    x, y = ad.tensor([1.0, 2.0], requires_grad=True), ad.tensor([3.0, 4.0], requires_grad=True)
    seen: list[Any] = []
    with ad.autograd.graph.node_creation_hook(seen.append):
        product = x * y
        parts = product.exp().split(1)
        with ad.no_grad():
            x.exp()
        total = (parts[0] + parts[1]).sum()
    product.exp()  # outside
    names = [node.name() for node in seen]
    assert names == [
        "MulBackward0",
        "ExpBackward0",
        "SplitBackward0",
        "AddBackward0",
        "SumBackward0",
    ]
    assert seen[0] is product.grad_fn
    assert seen[2] is parts[1].grad_fn
    assert seen[-1] is total.grad_fn
    assert ad.equal(seen[0]._saved_self, x)


def test_creation_hooks_nest_and_see_functions_and_second_derivatives() -> None:
    class Double(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    x, calls = ad.tensor([1.0], requires_grad=True), []
    hook = ad.autograd.graph.node_creation_hook
    with (
        hook(lambda n: calls.append(("outer", n.saved_tensors))),
        hook(lambda _: calls.append(("inner", None))),
    ):
        Double.apply(x)
    assert [who for who, _ in calls] == ["outer", "inner"]
    assert ad.equal(calls[0][1][0], x)
    names: list[str] = []
    with ad.autograd.graph.node_creation_hook(lambda node: names.append(node.name())):
        (grad,) = ad.autograd.grad((x * x).sum(), x, create_graph=True)
    assert grad.grad_fn.name() in names[2:]


def test_a_creation_hook_returns_none_and_records_nothing() -> None:
    x = ad.ones(1, requires_grad=True)
    hook = ad.autograd.graph.node_creation_hook
    with hook(lambda node: node), pytest.raises(RuntimeError, match="must return None"):
        x * 2
    inside = "from inside a node creation hook"
    with hook(lambda _: (x + 1) and None), pytest.raises(RuntimeError, match=inside):
        x * 2
    assert (x * 2).grad_fn is not None


def test_boxed_gradients_come_as_one_list() -> None:
    class Both(ad.autograd.Function):
        boxed_grads_call = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2, x * 3

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            """Nothing is saved."""

        @staticmethod
        def backward(ctx: Any, grads: list[Any]) -> Any:
            assert type(grads) is list
            total = grads[0] * 2 + grads[1] * 3
            grads.clear()
            return total

    x = ad.ones(2, requires_grad=True)
    first, second = Both.apply(x)
    (first + second).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    assert ad.vmap(ad.grad(lambda x: sum(Both.apply(x))))(x.detach()).tolist() == [5.0, 5.0]


def test_the_edge_of_a_users_function_stands_for_its_output() -> None:
    class Twice(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return 2 * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return 2 * grad

    x = ad.ones(1, requires_grad=True)
    edge = ad.autograd.graph.get_gradient_edge(Twice.apply(x * 3))
    ad.autograd.backward(edge)
    assert x.grad.tolist() == [6.0]

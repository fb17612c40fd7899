"""Checkpoints: the same derivatives, nothing kept; a function that changes its mind is caught."""

from __future__ import annotations

import contextlib
import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.transforms.checkpoints.determinism import Fingerprint
from adjoint.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

apart = functools.partial(checkpoint, use_reentrant=False)


def leaf(*values: float) -> ad.Tensor:
    return ad.tensor(list(values), dtype=ad.float64, requires_grad=True)


def close(tensor: Any, expected: Any) -> bool:
    return bool(np.allclose(np.asarray(tensor.detach().numpy()), np.asarray(expected)))


def by_turns(*functions: Callable[..., Any]) -> Callable[..., Any]:
    """A function that does something else each time."""
    turns = iter(functions)
    return lambda *args: next(turns)(*args)


def gradients(f: Callable[..., Any], *inputs: ad.Tensor) -> list[Any]:
    found = ad.autograd.grad(f(*inputs).sum(), inputs)
    return [g.numpy() for g in found]


BLOCKS: dict[str, Callable[[ad.Tensor], ad.Tensor]] = {
    "results": lambda x: x.exp().tanh().sigmoid(),
    "inputs": lambda x: (x * x).sin() * x,
    "in place": lambda x: (x * 2).mul_(x).add_(1).exp(),
    "views": lambda x: (x.view(-1, 1) @ x.view(1, -1)).t().sin(),
    "lists": lambda x: ad.stack([x.sin(), x.cos(), x]).prod(0),
    "several outputs": lambda x: x.sort(0)[0] * x.max(0)[0],
    "nothing saved": lambda x: x + x.clone(),
    "no gradient inside": lambda x: x * x.detach().sin(),
    "indices": lambda x: x[ad.tensor([0, 1, 0])] ** 2,
}


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_checkpoint_changes_no_gradient(block: str, early_stop: bool, depth: int) -> None:
    f = BLOCKS[block]
    checkpointed: Callable[..., Any] = f
    for _ in range(depth):
        checkpointed = functools.partial(apart, checkpointed)
    x = leaf(0.5, 1.5)
    with set_checkpoint_early_stop(early_stop):
        assert np.allclose(gradients(checkpointed, x), gradients(f, x))
        (g,) = ad.autograd.grad(checkpointed(x).sum(), x, create_graph=True)
        (expected,) = ad.autograd.grad(f(x).sum(), x, create_graph=True)
        assert close(g, expected.detach().numpy())
        if expected.requires_grad:
            (h,) = ad.autograd.grad(g.sum(), x)
            assert close(h, ad.autograd.grad(expected.sum(), x)[0].numpy())


def test_checkpoints_in_a_row_and_inside_one_another() -> None:
    inner = functools.partial(apart, lambda x: x.sin().exp())
    outer = functools.partial(apart, lambda x: inner(inner(x) * x))

    def plain(x: ad.Tensor) -> ad.Tensor:
        y = x.sin().exp() * x
        return y.sin().exp()

    x = leaf(0.3, 0.7)
    assert np.allclose(gradients(outer, x), gradients(plain, x))


def test_derivatives_inside_a_checkpoint() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        y = x.sin().exp()
        (g,) = ad.autograd.grad(y.sum(), x, create_graph=True)
        return g * y

    x = leaf(0.3, 0.7)
    assert np.allclose(gradients(functools.partial(apart, f), x), gradients(f, x))


def test_transforms_inside_nested_checkpoints() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        return ad.jacobian(lambda u: u.sin() * u.sum())(x[:1]).sum() * x.exp()

    x = leaf(0.3, 0.7)
    nested = functools.partial(apart, functools.partial(apart, f))
    assert np.allclose(gradients(nested, x), gradients(f, x))


def test_a_checkpoint_keeps_only_its_arguments() -> None:
    kept: list[weakref.ref[Any]] = []

    def f(x: ad.Tensor) -> ad.Tensor:
        for _ in range(4):
            x = x.sin() * x
            kept.append(weakref.ref(x.value))
        return x

    x = leaf(1.0, 2.0)
    y = apart(lambda x: apart(f, x * 1) + 0, x)
    assert [r() is None for r in kept] == [True] * 4
    y.sum().backward()
    del y
    assert all(r() is None for r in kept)


def test_a_checkpoint_is_freed_without_the_garbage_collector() -> None:
    gc.disable()
    try:
        x = leaf(1.0)
        y = apart(lambda x: x.sin().exp(), x)
        node = weakref.ref(y.grad_fn)
        y.sum().backward()
        del y
        assert node() is None
    finally:
        gc.enable()


# What differs when the function runs again


def more(x: ad.Tensor) -> ad.Tensor:
    return x.sin().exp().sin()


def fewer(x: ad.Tensor) -> ad.Tensor:
    return x.sin().exp()


DIFFERENT = {
    "fewer": (more, fewer, "different number"),
    "shape": (fewer, lambda x: (x.sin() * ad.ones(3, 1, dtype=ad.float64)).exp(), "became"),
    "dtype": (fewer, lambda x: x.to(ad.float32).sin().exp(), "became"),
    "numbers": (fewer, lambda x: (x * 1.5).sin().exp(), "other numbers"),
    "one number": (fewer, lambda x: (x + ad.tensor([0.0, 1.0])).sin().exp(), "other numbers"),
}


@pytest.mark.parametrize("case", DIFFERENT)
@pytest.mark.parametrize("as_decorator", [True, False])
def test_a_function_that_computes_something_else_is_found_out(
    case: str, as_decorator: bool
) -> None:
    first, second, message = DIFFERENT[case]
    f, x = by_turns(first, second), leaf(0.5, 1.5)
    y = ad.checkpoint(f)(x) if as_decorator else apart(f, x)
    with pytest.raises(RuntimeError, match=message):
        y.sum().backward()


def test_more_saved_tensors_matter_only_without_early_stop() -> None:
    x = leaf(0.5, 1.5)
    apart(by_turns(fewer, more), x).sum().backward()
    assert close(x.grad, np.cos([0.5, 1.5]) * np.exp(np.sin([0.5, 1.5])))
    with set_checkpoint_early_stop(False):
        y = apart(by_turns(fewer, more), x)
    with pytest.raises(RuntimeError, match="more tensors"):
        y.sum().backward()


def test_the_check_can_be_switched_off_and_explained() -> None:
    first, second, _ = DIFFERENT["numbers"]
    x = leaf(0.5)
    apart(by_turns(first, second), x, determinism_check="none").sum().backward()
    y = apart(by_turns(first, second), x, debug=True)
    with pytest.raises(RuntimeError, match=r"test_checkpoints\.py:\d+"):
        y.sum().backward()
    with set_checkpoint_debug_enabled(True):
        y = apart(by_turns(first, second), x)
    with pytest.raises(RuntimeError, match="debug=True was given"):
        y.sum().backward()
    with pytest.raises(TypeError, match="determinism_check"):
        apart(first, x, determinism_check="sometimes")


def test_random_numbers_are_repeated_unless_told_otherwise() -> None:
    def noisy(x: ad.Tensor) -> ad.Tensor:
        return x * ad.rand(2, dtype=ad.float64) * x

    x = leaf(1.0, 2.0)
    ad.manual_seed(0)
    y = apart(noisy, x)
    after = ad.rand(1)
    factors = y.detach().numpy() / np.array([1.0, 4.0])
    y.sum().backward()
    assert close(x.grad, 2 * factors * np.array([1.0, 2.0]))
    ad.manual_seed(0)
    apart(noisy, x)
    assert close(ad.rand(1), after.numpy())
    y = apart(noisy, x, preserve_rng_state=False)
    with pytest.raises(RuntimeError, match="other numbers"):
        y.sum().backward()


@pytest.mark.parametrize("nested", [True, False])
def test_a_write_to_an_argument_is_noticed(nested: bool) -> None:
    x = leaf(0.5)
    w = x * 1
    y = apart(lambda w: apart(fewer, w), w) if nested else apart(fewer, w)
    w.add_(1)
    with pytest.raises(RuntimeError, match="changed in place"):
        y.sum().backward()


def test_a_write_inside_to_a_saved_value_is_noticed() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        y = x.exp()
        z = y * y
        y.add_(1)
        return z

    x = leaf(0.5)
    apart(f, x).sum().backward()  # the run stops before the write
    assert close(x.grad, 2 * np.exp([1.0]))
    with set_checkpoint_early_stop(False):
        y = apart(f, leaf(0.5))
    with pytest.raises(RuntimeError, match="in place"):
        y.sum().backward()


# Passes


def test_each_pass_computes_again_and_stops_early() -> None:
    calls = {"first": 0, "last": 0}

    def f(x: ad.Tensor) -> ad.Tensor:
        calls["first"] += 1
        y = x.sin().cos()
        calls["last"] += 1
        return y + 0

    x = leaf(1.0)
    y = apart(f, x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert calls == {"first": 3, "last": 1}
    apart(lambda x: f(x).clone(), leaf(1.0))
    calls.update(first=0, last=0)
    apart(lambda x: [f(x), x.clone()][1], leaf(1.0)).sum().backward()
    assert calls == {"first": 1, "last": 1}


def test_saved_values_can_be_looked_at() -> None:
    count = []

    def f(x: ad.Tensor) -> ad.Tensor:
        count.append(1)
        return x.exp()

    y = apart(f, leaf(1.0))
    assert close(y.grad_fn._saved_result, np.exp([1.0]))
    assert close(y.grad_fn._saved_result, np.exp([1.0]))
    assert len(count) == 3


def test_hooks_on_the_nodes_inside_run() -> None:
    seen: list[Any] = []
    y = apart(lambda x: x.sin().cos().sin(), leaf(1.0))
    y.grad_fn.next_functions[0][0].register_hook(lambda *_: seen.append(1))
    y.sum().backward()
    assert seen == [1]


def test_arguments_and_results_of_any_structure() -> None:
    def f(data: dict[str, Any], *, scale: float, name: str) -> Any:
        return {"y": data["x"].exp() * scale * data["more"][0], "name": name, "none": None}

    x, w = leaf(0.5), leaf(2.0)
    out = apart(f, {"x": x, "more": [w]}, scale=3.0, name="abc")
    assert out["name"] == "abc"
    assert out["none"] is None
    out["y"].sum().backward()
    assert close(x.grad, 6 * np.exp([0.5]))
    assert close(w.grad, 3 * np.exp([0.5]))


def test_contexts_of_the_first_and_of_later_runs() -> None:
    log: list[str] = []

    @contextlib.contextmanager
    def noted(word: str) -> Any:
        log.append(word)
        yield

    y = apart(lambda x: x.exp(), leaf(1.0), context_fn=lambda: (noted("first"), noted("again")))
    assert log == ["first"]
    y.sum().backward()
    assert log == ["first", "again"]
    with pytest.raises(TypeError, match="two contexts"):
        apart(lambda x: x, leaf(1.0), context_fn=lambda: 3)


# Reentrant checkpoints, and the arguments of PyTorch's function


def test_reentrant_checkpoints() -> None:
    w, x = leaf(2.0), leaf(0.5)
    y = checkpoint(lambda x: (x * w).exp(), x, use_reentrant=True)
    assert y.grad_fn.name().endswith("Backward")
    y.sum().backward()
    assert close(x.grad, 2 * np.exp([1.0]))
    assert close(w.grad, 0.5 * np.exp([1.0]))
    y = checkpoint(ad.exp, x, use_reentrant=True)
    with pytest.raises(RuntimeError, match="incompatible"):
        ad.autograd.grad(y.sum(), x)
    with pytest.raises(TypeError, match="only supported"):
        checkpoint(ad.exp, x, use_reentrant=True, debug=True)
    with pytest.raises(TypeError, match="positional"):
        checkpoint(ad.exp, x, use_reentrant=True, scale=1)
    with pytest.raises(RuntimeError, match="none of the outputs"):
        (checkpoint(lambda x: x.detach(), x, use_reentrant=True) + x).sum().backward()


def test_use_reentrant_should_be_said() -> None:
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint(ad.exp, leaf(1.0))
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint_sequential([ad.exp, ad.sin], 2, leaf(1.0))


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoint_sequential(use_reentrant: bool) -> None:
    x = leaf(0.5)
    functions = [ad.sin, ad.exp, ad.tanh, ad.cos]
    checkpoint_sequential(functions, 2, x, use_reentrant=use_reentrant).sum().backward()
    expected = gradients(lambda x: x.sin().exp().tanh().cos(), leaf(0.5))
    assert close(x.grad, expected[0])
    with pytest.raises(TypeError, match="segments"):
        checkpoint_sequential(functions, 5, x, use_reentrant=False)


# Inside transforms


@pytest.mark.parametrize("transform", ["grad", "jvp", "vmap", "hessian"])
def test_another_shape_is_found_out_inside_transforms(transform: str) -> None:
    changing = by_turns(fewer, *[lambda x: ad.stack([x, x]).sin()] * 9)
    f = ad.checkpoint(changing)
    x = ad.tensor([0.5, 1.5], dtype=ad.float64)
    runs: dict[str, Callable[[], Any]] = {
        "grad": lambda: ad.vmap(ad.grad(lambda v: f(v).sum()))(x),
        "jvp": lambda: ad.jvp(f, (x,), (x,)),
        "vmap": lambda: ad.grad(lambda v: ad.vmap(f)(v).sum())(x),
        "hessian": lambda: ad.hessian(lambda v: f(v).sum())(x),
    }
    with pytest.raises(RuntimeError, match="again"):
        runs[transform]()


# Selective checkpoints


def chain(x: ad.Tensor, w: ad.Tensor) -> ad.Tensor:
    return ((x @ w).sin() @ w).exp().sum(0)


POLICIES: dict[str, Any] = {
    "products": [ad.ops.matmul.default],
    "nothing": [],
    "everything": lambda context, op, *args: CheckpointPolicy.MUST_SAVE,
    "bool": lambda context, op, *args: op is ad.ops.sin.default,
    "prefer": lambda context, op, *args: CheckpointPolicy.PREFER_RECOMPUTE,
}


@pytest.mark.parametrize("policy", POLICIES)
def test_selective_checkpoints_change_no_gradient(policy: str) -> None:
    data = np.random.default_rng(0).standard_normal((2, 2, 2))
    x, w = (ad.tensor(d, dtype=ad.float64, requires_grad=True) for d in data)
    contexts = functools.partial(create_selective_checkpoint_contexts, POLICIES[policy])
    found = gradients(functools.partial(apart, chain, context_fn=contexts), x, w)
    for got, expected in zip(found, gradients(chain, x, w), strict=True):
        assert np.allclose(got, expected)


def test_a_kept_result_is_not_computed_again() -> None:
    asked: list[tuple[bool, str]] = []

    def policy(context: Any, op: Any, *args: Any) -> bool:
        asked.append((context.is_recompute, op.name))
        return op.name == "matmul"

    x = ad.eye(2, dtype=ad.float64, requires_grad=True)
    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    y = apart(lambda x: (x @ x).sin().cos().sum(), x, context_fn=contexts)
    assert type(y) is ad.Tensor
    y.backward(retain_graph=True)
    assert (False, "matmul") in asked
    assert (True, "matmul") in asked
    with pytest.raises(RuntimeError, match="extra time"):
        y.backward()


def test_a_kept_result_that_is_written_to() -> None:
    contexts = functools.partial(create_selective_checkpoint_contexts, [ad.ops.sin.default])

    def f(x: ad.Tensor) -> ad.Tensor:
        return x.sin().mul_(2).cos().exp()

    x = leaf(0.5)
    with pytest.raises(RuntimeError, match="mutated"):
        apart(f, x, context_fn=contexts).sum().backward()
    allowed = functools.partial(contexts, allow_cache_entry_mutation=True)
    found = gradients(functools.partial(apart, f, context_fn=allowed), x)
    assert np.allclose(found, gradients(f, x))


def test_a_write_is_not_kept() -> None:
    everything = functools.partial(
        create_selective_checkpoint_contexts,
        lambda context, op, *args: True,
        allow_cache_entry_mutation=True,
    )

    def f(x: ad.Tensor) -> ad.Tensor:
        y = x.clone()
        y[:1] += 0.5
        return (y * y).mul_(x).sin()

    x = leaf(0.5, 1.5)
    found = gradients(functools.partial(apart, f, context_fn=everything), x)
    assert np.allclose(found, gradients(f, x))


@pytest.mark.parametrize("kept", ["sub", "norm", "mul", "sum"])
def test_a_selective_checkpoint_around_a_kink(kept: str) -> None:
    """What a kink adds to a result is not kept, though the result beside it is as any other."""

    def f(x: ad.Tensor) -> ad.Tensor:
        y = x - x.detach()
        return (y.norm() * y).sum() + x.sum()

    policy = lambda context, op, *args: op.name == kept
    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    x = leaf(1.0, 2.0, 3.0)
    (found,) = gradients(functools.partial(apart, f, context_fn=contexts), x)
    assert close(ad.as_tensor(found), gradients(f, x)[0])


def test_a_write_to_a_view_near_a_kink_in_a_selective_checkpoint() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        sizes = (x - x.detach()).abs()
        part = sizes[:2]
        part += x[1:] * 3
        return (sizes * sizes).sum() + part.sum()

    contexts = functools.partial(create_selective_checkpoint_contexts, [ad.ops.mul.Tensor])
    x = leaf(1.0, 2.0, 3.0)
    (found,) = gradients(functools.partial(apart, f, context_fn=contexts), x)
    assert close(ad.as_tensor(found), gradients(f, x)[0])


def test_a_checkpoint_around_roots_at_zero() -> None:
    """A second run saves the numbers that the first one saved, near a kink, too."""
    f = lambda x: (x.sqrt() * x.sqrt() + (0.3 * x).sqrt() ** 4).sum()
    x = leaf(0.0, 4.0, 0.0)
    (found,) = gradients(functools.partial(apart, f), x)
    assert close(ad.as_tensor(found), gradients(f, x)[0])


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_kink_does_not_run_a_checkpoint_before_it(reentrant: bool) -> None:
    runs = []

    def f(x: ad.Tensor) -> ad.Tensor:
        runs.append(x)
        return x * x.exp()

    x = leaf(0.0, 4.0, 0.0)
    y = checkpoint(f, x, use_reentrant=reentrant)
    z = y.sqrt() * y.sqrt()
    assert len(runs) == 1
    z.sum().backward()
    assert len(runs) == 2
    assert close(x.grad, [1.0, 5 * np.exp(4.0), 1.0])


def test_a_selective_checkpoint_that_writes_to_its_argument() -> None:
    contexts = functools.partial(create_selective_checkpoint_contexts, [ad.ops.sin.default])

    def f(y: ad.Tensor) -> ad.Tensor:
        return y.mul_(2).sin()

    x = leaf(0.5)
    y = x * 1
    apart(f, y, context_fn=contexts)
    y.sum().backward()
    assert close(x.grad, [2.0])


def test_a_composed_operator_is_kept_whole() -> None:
    asked: list[Any] = []

    def policy(context: Any, op: Any, *args: Any) -> bool:
        asked.append(op.name)
        return op.name == "softplus"

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    x = leaf(0.5, 1.5)
    f = functools.partial(apart, lambda x: ad.nn.functional.softplus(x).sin(), context_fn=contexts)
    plain = gradients(lambda x: ad.nn.functional.softplus(x).sin(), x)
    assert np.allclose(gradients(f, x), plain)


def test_what_a_policy_may_be() -> None:
    with pytest.raises(ValueError, match="operators"):
        create_selective_checkpoint_contexts([2])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="operators"):
        create_selective_checkpoint_contexts([ad.ops.sin])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="either a function or a list of ops"):
        create_selective_checkpoint_contexts(2)  # type: ignore[arg-type]


def test_a_sum_that_cancels_is_compared_by_the_size_of_its_terms() -> None:
    numbers = np.linspace(-1.0, 1.0, 1001)
    first, again = Fingerprint(numbers), Fingerprint(numbers + np.spacing(numbers))
    assert first.differ(again) == ""
    assert "other numbers" in first.differ(Fingerprint(numbers + 1e-3))


def layers() -> Any:
    ad.manual_seed(0)
    parts = [ad.nn.Linear(3, 8), ad.nn.ReLU(), ad.nn.Dropout(0.5), ad.nn.Linear(8, 2), ad.nn.Tanh()]
    return ad.nn.Sequential(*parts)


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("segments", [1, 2, 5])
def test_modules_in_checkpoints_learn_as_without(use_reentrant: bool, segments: int) -> None:
    x = ad.rand(4, 3, requires_grad=True)
    grads = []
    for run in (
        lambda model: model(x),
        lambda model: checkpoint(model, x, use_reentrant=use_reentrant),
        lambda model: checkpoint_sequential(model, segments, x, use_reentrant=use_reentrant),
    ):
        model = layers()
        ad.manual_seed(1)  # of dropout
        run(model).sum().backward()
        grads.append([p.grad for p in model.parameters()])
    for others in grads[1:]:
        ad.testing.assert_close(others, grads[0])


def test_a_module_that_does_something_else_raises() -> None:
    model = ad.nn.Linear(2, 2)
    result = checkpoint(model, ad.rand(3, 2), use_reentrant=False).sum()
    model.forward = lambda x: x.sin().sum() * model.weight.sum()
    with pytest.raises(ad.utils.checkpoint.CheckpointError):
        result.backward()
    first, again = ad.utils.checkpoint.noop_context_fn()
    with first, again:
        pass


def test_checkpoint_without_a_function_decorates() -> None:
    class Net:
        @checkpoint(use_reentrant=False, preserve_rng_state=False)
        def scaled(self, x: ad.Tensor, debug: float) -> ad.Tensor:
            return x.sin() * debug  # a keyword of the function, not of checkpoint

    x = ad.tensor(0.5, requires_grad=True)
    assert Net.scaled.__name__ == "scaled"
    Net().scaled(x, debug=3.0).backward()
    assert ad.allclose(x.grad, 3 * x.detach().cos())


@pytest.mark.parametrize(("early_stop", "ran"), [(True, [1, 1]), (False, [1, 1, 2])])
def test_early_stop_ends_the_second_run_with_the_last_value_that_is_needed(
    early_stop: bool, ran: list[int]
) -> None:
    runs: list[int] = []

    def function(x: ad.Tensor) -> ad.Tensor:
        runs.append(1)
        y = x.exp() * x
        if len(runs) > 1:
            runs.append(2)
        return y

    x = ad.tensor(0.5, requires_grad=True)
    checkpoint(function, x, use_reentrant=False, early_stop=early_stop).backward()
    assert runs == ran


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("enabled", [True, False])
def test_the_second_run_has_the_autocast_of_the_first(use_reentrant: bool, enabled: bool) -> None:
    dtypes = []

    def product(x: ad.Tensor) -> ad.Tensor:
        dtypes.append((x @ x).dtype)
        return x @ x

    x = ad.eye(2, requires_grad=True)
    with ad.autocast("cpu", dtype=ad.bfloat16, enabled=enabled):
        loss = checkpoint(product, x, use_reentrant=use_reentrant).float().sum()
    with ad.autocast("cpu", dtype=ad.bfloat16, enabled=not enabled):
        loss.backward()
    assert dtypes == [ad.bfloat16 if enabled else ad.float32] * 2
    assert x.grad.dtype == ad.float32

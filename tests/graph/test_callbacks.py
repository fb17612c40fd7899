"""Python functions that programs call: ad.debug, pure_callback."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ArgumentError, GradError, ShapeError

X = ad.tensor([1.0, 2.0, 3.0])


def watched(x: Any) -> Any:
    """A function that prints in the order of its lines, dead values included."""
    ad.debug.print("begin")
    y = x * x
    ad.debug.print("y = {}, again {y:.1f}", y, y=y)
    ad.debug.print("dead = {}", x - 1)
    return y.sin()


LINES = "begin\ny = 4.0, again 4.0\ndead = 1.0\n"
RUNS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda x: watched(x),
    "grad": lambda x: ad.grad(watched)(x),
    "jvp": lambda x: ad.jvp(watched, (x,), (x,)),
    "second order": lambda x: ad.grad(ad.grad(watched))(x),
    "tape": lambda x: watched(x.clone().requires_grad_()).backward(),
    "trace": lambda x: ad.trace(watched, x)(x),
    "grad of trace": lambda x: ad.grad(ad.trace(watched, x))(x),
    "trace of grad": lambda x: ad.trace(ad.grad(watched), x)(x),
    "simplified": lambda x: ad.simplify(ad.trace(watched, x))(x),
    "compile": lambda x: ad.compile(watched)(x),
    "compile of grad": lambda x: ad.compile(ad.grad(watched))(x),
    "compiled backward": lambda x: ad.compile(watched)(x.clone().requires_grad_()).backward(),
    "differentiate": lambda x: _pulled(x),
    "branch": lambda x: ad.compile(ad.grad(lambda x: ad.cond(x > 0, watched, ad.cos, x)))(x),
    "vmap of one": lambda x: ad.vmap(lambda s: watched(s[0]))(x.reshape(1, 1)),
}


def _pulled(x: Any) -> None:
    pair = ad.differentiate(ad.trace(watched, x))
    outputs, captured = pair.run(x)
    pair.pull(captured, [ad.ones_like(outputs[0])])


@pytest.mark.parametrize("name", RUNS)
def test_lines_are_printed_once_and_in_order_by_every_transform(name: str, capsys: Any) -> None:
    RUNS[name](ad.tensor(2.0))
    assert capsys.readouterr().out == LINES


def test_a_compiled_function_prints_at_every_call(capsys: Any) -> None:
    f = ad.compile(watched)
    for _ in range(3):
        f(ad.tensor(2.0))
    assert capsys.readouterr().out == LINES * 3


@pytest.mark.parametrize("compiled", [False, True])
def test_each_step_and_each_sample_is_seen(compiled: bool) -> None:
    seen: list[float] = []

    def total(xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            ad.debug.callback(lambda v: seen.append(float(v)), x)
            return c * x, c

        return ad.scan(step, ad.tensor(1.0), xs)[0]

    f = ad.compile(ad.grad(total)) if compiled else ad.grad(total)
    f(X)
    assert seen == [1.0, 2.0, 3.0]
    seen.clear()
    g = ad.vmap(
        lambda s: (ad.debug.callback(lambda v, w: seen.append(float(v + w)), s, X[0]), s)[1]
    )
    (ad.compile(g) if compiled else g)(X)
    assert seen == [2.0, 3.0, 4.0]


def test_a_rule_prints_when_its_backward_runs(capsys: Any) -> None:
    @ad.custom_vjp
    def f(x: Any) -> Any:
        return x**2

    def backward(x: Any, g: Any) -> Any:
        ad.debug.print("g = {}", g)
        ad.debug.print("x = {}", x)
        return (2 * x * g,)

    f.defvjp(lambda x: (x**2, x), backward)
    for run in (ad.grad(f), ad.compile(ad.grad(f))):
        run(ad.tensor(3.0))
        assert capsys.readouterr().out == "g = 1.0\nx = 3.0\n"
    x = ad.tensor(3.0, requires_grad=True)
    y = ad.compile(lambda x: f(x) * 2)(x)
    assert capsys.readouterr().out == ""
    y.backward()
    assert capsys.readouterr().out == "g = 2.0\nx = 3.0\n"


def test_a_callback_sees_arrays_that_it_cannot_change() -> None:
    def write(array: Any, *, n: int) -> None:
        assert type(array) is np.ndarray
        assert n == 3
        array[0] = 5.0

    with pytest.raises(ValueError, match="read-only"):
        ad.debug.callback(write, X, n=3)
    assert X.tolist() == [1.0, 2.0, 3.0]


# --- pure_callback ------------------------------------------------------------------------------


def outer(a: Any, b: Any) -> Any:
    shape = {"p": ad.ShapeDtype((a.shape[0], b.shape[0])), "s": ad.ShapeDtype(())}
    return ad.pure_callback(lambda a, b: {"p": np.outer(a, b), "s": a.sum()}, shape, a, b)


def test_results_of_any_function_in_every_mode() -> None:
    expected = {"p": ad.outer(X, X + 1), "s": X.sum()}
    for f in (
        outer,
        ad.trace(outer, X, X),
        ad.compile(outer),
        ad.compile(lambda a, b: outer(a, b)),
    ):
        found = f(X, X + 1)
        for key, value in expected.items():
            np.testing.assert_allclose(found[key], value)
    assert ad.eval_shape(outer, X, X)["p"] == ad.ShapeDtype((3, 3))


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
@pytest.mark.parametrize("compiled", [False, True])
def test_vmap_calls_for_each_sample_or_for_all(method: str, compiled: bool) -> None:
    shapes: list[Any] = []

    def product(a: Any, b: Any) -> Any:
        shapes.append((a.shape, b.shape))
        return a * b

    f = lambda a, b: ad.pure_callback(product, a, a, b, vmap_method=method)
    mapped = ad.vmap(f, in_axes=(0, None))
    rows = ad.arange(6.0).reshape(2, 3)
    found = (ad.compile(mapped) if compiled else mapped)(rows, X)
    np.testing.assert_allclose(found, rows * X)
    assert (
        set(shapes)
        == {
            "sequential": {((3,), (3,))},
            "expand_dims": {((2, 3), (1, 3))},
            "broadcast_all": {((2, 3), (2, 3))},
        }[method]
    )


def test_a_callback_has_the_derivative_that_a_rule_gives_it() -> None:
    sine = lambda x: ad.pure_callback(np.sin, x, x)
    for differentiated in (
        lambda: ad.grad(sine)(1.0),
        lambda: ad.jvp(sine, (X,), (X,)),
        lambda: sine(X.clone().requires_grad_()),
        lambda: ad.compile(ad.grad(lambda x: sine(x).sum()))(X),
    ):
        with pytest.raises(GradError, match="no derivative; give it one with ad.custom_jvp"):
            differentiated()
    assert ad.grad(lambda x: x * sine(ad.stop_gradient(x)))(0.0).item() == 0.0
    f = ad.custom_jvp(sine)
    f.defjvp(lambda primals, tangents: (f(*primals), ad.cos(primals[0]) * tangents[0]))
    for order in (
        ad.grad,
        ad.jacfwd,
        lambda f: ad.grad(ad.grad(f)),
        lambda f: ad.compile(ad.grad(f)),
    ):
        found, expected = order(f)(ad.tensor(0.7)), order(ad.sin)(ad.tensor(0.7))
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(ad.vmap(ad.grad(f))(X), ad.cos(X), rtol=1e-6)


def test_mistakes_are_explained() -> None:
    with pytest.raises(ShapeError, match="returned an array of shape"):
        ad.pure_callback(lambda x: x[:2], X, X)
    with pytest.raises(ValueError, match="result should have the structure"):
        ad.pure_callback(lambda x: (x, x), X, X)
    with pytest.raises(ArgumentError, match="vmap_method must be one of"):
        ad.pure_callback(np.sin, X, X, vmap_method="legacy")
    with pytest.raises(ArgumentError, match="needs a function"):
        ad.debug.callback(X)


def test_a_function_that_a_program_calls_may_call_the_program() -> None:
    depth = [0]

    def host(a: Any) -> Any:
        if depth[0] == 2:
            return a * 1.0
        depth[0] += 1
        try:
            return compiled(ad.tensor(a * 0.5)).numpy() + 1
        finally:
            depth[0] -= 1

    def function(x: Any) -> Any:
        return ad.pure_callback(host, ad.ShapeDtype((3,), ad.float64), x.sin()) * 2

    compiled = ad.compile(function)
    x = ad.tensor([1.0, 2.0, 3.0], dtype=ad.float64)
    inner = lambda v: v.sin() * 2
    middle = lambda v: (inner(v.sin() * 0.5) + 1) * 2
    outer = lambda v: (middle(v.sin() * 0.5) + 1) * 2
    for _ in range(2):
        assert ad.allclose(compiled(x), outer(x))


# --- arrays that a user keeps -------------------------------------------------------------------


KEPT: dict[str, Callable[[list[Any]], Callable[[Any], Any]]] = {
    "callback": lambda kept: lambda x: (ad.debug.callback(kept.append, x * 2), x.sin())[1],
    "of an argument": lambda kept: lambda x: (ad.debug.callback(kept.append, x), x.sin())[1],
    "pure_callback": lambda kept: (
        lambda x: ad.pure_callback(lambda v: (kept.append(v), np.sin(v))[1], x, x * 2)
    ),
    "in a scan": lambda kept: (
        lambda x: ad.scan(
            lambda c, s: ((ad.debug.callback(kept.append, c * s), c + s)[1], c), x[0], x
        )[0]
    ),
    "in a branch": lambda kept: (
        lambda x: ad.cond(
            x.sum() > -1, lambda: (ad.debug.callback(kept.append, x + 1), x * 2)[1], lambda: x
        )
    ),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("case", KEPT)
def test_arrays_that_a_user_keeps_stay_as_they_are(case: str, compiled: bool) -> None:
    """They outlive the next calls, writes to arguments, and the program."""
    kept: list[Any] = []
    function = KEPT[case](kept)
    run = ad.compile(function) if compiled else function
    x = ad.zeros(5)
    copies: list[Any] = []
    for _ in range(3):
        run(x)
        copies += [a.copy() for a in kept[len(copies) :]]
        x.add_(1)
    del run, function
    gc.collect()
    assert len(kept) >= 3
    for array, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


KERNELS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "another dtype": (lambda x: x.astype(np.float32), "1000 and float32"),
    "fewer elements": (lambda x: x[:1].copy(), "1 and float64"),
    "another order": (lambda x: x.reshape(-1, 1), "1000×1 and float64"),
}


@pytest.mark.parametrize("case", KERNELS)
def test_a_kernel_that_its_row_does_not_describe_raises(case: str, tmp_path: Path) -> None:
    """Native code would read beyond what it returned."""
    name = f"told_{case.replace(' ', '_')}"
    kernel, said = KERNELS[case]
    module = types.ModuleType(name)
    module.__dict__["kernel"] = lambda x: kernel(x)
    module.__dict__["kernel"].__module__ = name
    row = f"- name: {name}(Tensor self) -> Tensor\n  like: pointwise\n  kernel: {name}.kernel\n"
    (tmp_path / f"{name}.yaml").write_text(f"{row}  self: grad\n")
    (op,) = ad.library(tmp_path / f"{name}.yaml", kernels=module)
    compiled = ad.compile(lambda x: op(x * 2) + 1)
    for _ in range(3):
        with pytest.raises(ad.errors.TableError, match=f"returned an array of {said}.*row says"):
            compiled(ad.ones(1000, dtype=ad.float64))


def test_a_kernel_of_a_user_may_keep_its_arrays(tmp_path: Path) -> None:
    kept: list[Any] = []
    module = types.ModuleType("keeps")
    module.__dict__["kernel"] = lambda x: (kept.append(x), x * 2)[1]
    module.__dict__["kernel"].__module__ = "keeps"
    row = "- name: keeps_its_array(Tensor self) -> Tensor\n  like: pointwise\n"
    (tmp_path / "keeps.yaml").write_text(f"{row}  kernel: keeps.kernel\n  self: grad * 2\n")
    (op,) = ad.library(tmp_path / "keeps.yaml", kernels=module)
    compiled = ad.compile(lambda x: op(x * 2) + 1)
    for number in range(3):
        compiled(ad.full((5,), float(number)))
    assert [a.tolist() for a in kept if a.size == 5] == [[2.0 * n] * 5 for n in range(3)]

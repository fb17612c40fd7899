"""Branches and loops: eager, transformed, traced, printed, differentiated."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError

W = ad.tensor([0.5, 0.3], dtype=ad.float64)
XS = ad.tensor(np.random.default_rng(0).normal(size=(4, 2)))


def branch(x: Any, y: Any) -> Any:
    """A branch each way, closing over y."""
    return ad.cond(
        x.sum() > 0, lambda v: (v * y).sin().sum(), lambda v: (v * v * v).sum() + y.sum(), x
    )


def recurrent(w: Any, xs: Any) -> Any:
    """A recurrence that closes over its weights."""

    def step(c: Any, x: Any) -> Any:
        c = {"h": (w * c["h"] + x).tanh(), "n": c["n"] + 1}
        return c, c["h"] * x

    c, ys = ad.scan(step, {"h": ad.zeros(2, dtype=ad.float64), "n": ad.tensor(0)}, xs)
    return c["h"].sum() * c["n"] + ys.sin().sum()


def backwards(w: Any, xs: Any) -> Any:
    """The last x first."""
    c, ys = ad.scan(lambda c, x: ((w * c).sin() + x, c * w), w, xs, reverse=True)
    return (c * c).sum() + (ys * xs).sum()


def newton(a: Any, b: Any) -> Any:
    """√a, one component at a time; how often depends on the numbers."""
    a = (a * a).sum() + 1

    def body(x: Any) -> Any:
        return (x + a / x) / 2

    return ad.while_loop(lambda x: (x * x - a).abs() > 1e-10, body, ad.ones_like(a)) * b.sum()


def powers(w: Any, xs: Any) -> Any:
    """A loop of a known number of steps."""
    return ad.fori_loop(1, 4, lambda i, c: c * w.sin() + xs.sum(0) * i, w).sum()


def counted(w: Any, xs: Any) -> Any:
    """A loop whose number of steps is a tensor."""
    count = (xs.sum(1) > -100).sum()
    return ad.fori_loop(0, count, lambda i, c: (c * w).cos() + i, w).sum() + xs.sum()


def nested(w: Any, xs: Any) -> Any:
    """A branch and a loop in a loop."""

    def step(c: Any, x: Any) -> Any:
        inner = ad.while_loop(lambda v: (v * v).sum() > 1, lambda v: v * w * 0.9, x * 3)
        c = ad.cond(c.sum() > 0, lambda v: v * inner, lambda v: v - x, c)
        return c, inner.sum()

    c, ys = ad.scan(step, w, xs)
    return c.sum() + ys.sum()


def switched(w: Any, xs: Any) -> Any:
    """Three branches, closing over a tensor; each index is met, in and out of range."""
    branches = (lambda v: (v * w).sin(), lambda v: v * v * xs[0], lambda v: v.exp())
    choose = lambda index, x: ad.switch(index, branches, x).sum()
    chosen = [choose(i, xs[1]) for i in (-3, 1)]
    return ad.scan(lambda c, i: (c + choose(i, w), None), sum(chosen), ad.tensor([0, 1, 2, 9]))[0]


def turns(w: Any, xs: Any) -> Any:
    """Loops with steps written out: some at a time, with one left over, and all."""
    step = lambda c, x: ((w * c).sin() + x, c * x)
    found = [
        ad.scan(step, w, xs[:3], reverse=reverse, unroll=unroll)
        for reverse, unroll in ((False, 2), (True, 2), (False, True), (True, 9))
    ]
    return sum((c * c).sum() + (y * xs[1:]).sum() for c, y in found)


def linear(w: Any, xs: Any) -> Any:
    """The recurrence c ← a·c + x along a dimension, by an associative function of pairs."""
    combine = lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1])
    a = w.sin().expand(4, 2)
    down = ad.associative_scan(combine, (a, xs))[1]
    across = ad.associative_scan(combine, (a[:3].T, xs[:3].T), reverse=True, axis=-1)[1]
    return (down * xs).sum() + (across**2).sum()


def mapped(w: Any, xs: Any) -> Any:
    """One row after the other, and three at a time."""
    f = lambda x: {"y": (x * w).sin(), "z": x.sum()}
    one, three = ad.map(f, xs), ad.map(f, xs, batch_size=3)
    return (one["y"] * three["y"]).sum() + (one["z"] * three["z"]).sum()


FUNCTIONS = (
    *(branch, recurrent, backwards, newton, powers, counted, nested),
    *(switched, turns, linear, mapped),
)

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f,
    "grad": ad.grad,
    "grad in the second": lambda f: ad.grad(f, 1),
    "jvp": lambda f: lambda w, xs: ad.jvp(f, (w, xs), (w + 1, xs * 2))[1],
    "reverse over reverse": lambda f: ad.grad(lambda w, xs: ad.grad(f)(w, xs).sin().sum()),
    "forward over reverse": lambda f: (
        lambda w, xs: ad.jvp(lambda v: ad.grad(f)(v, xs), (w,), (w + 1,))[1]
    ),
    "reverse over forward": lambda f: ad.grad(
        lambda w, xs: ad.jvp(lambda v: f(v, xs), (w,), (w + 1,))[1].sum()
    ),
    "hessian": ad.hessian,
    "vmap": lambda f: (
        lambda w, xs: ad.vmap(lambda s: f(w * s, xs - s))(
            ad.tensor([0.5, -1.0, 2.0], dtype=ad.float64)
        )
    ),
    "vmap of grad": lambda f: (
        lambda w, xs: ad.vmap(lambda s: ad.grad(f)(w * s, xs))(
            ad.tensor([0.5, -2.0], dtype=ad.float64)
        )
    ),
    "grad of vmap": lambda f: ad.grad(
        lambda w, xs: ad.vmap(lambda s: f(w, xs * s))(
            ad.tensor([0.5, -2.0], dtype=ad.float64)
        ).sum()
    ),
}


def close(a: Any, b: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(
        np.asarray(a.numpy()), np.asarray(b.numpy()), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_eager_derivatives_equal_differences(function: Any) -> None:
    assert ad.testing.gradcheck(
        function, (W.clone().requires_grad_(), XS.clone().requires_grad_()), check_forward_ad=True
    )


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: t.replace(" ", "_"))
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_traced_equals_eager(function: Any, transform: str) -> None:
    made = TRANSFORMS[transform](function)
    graph = ad.trace(made, W, XS)
    ad.graph.verify(graph)
    close(graph(W, XS), made(W, XS))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_vmap_equals_a_loop(function: Any) -> None:
    scales = ad.tensor([0.5, -1.0, 2.0], dtype=ad.float64)
    for made in (function, ad.grad(function)):
        expected = ad.stack([made(W * s, XS - s) for s in scales])
        close(ad.vmap(lambda s, made=made: made(W * s, XS - s))(scales), expected)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_graph_with_regions_can_be_mapped_differentiated_and_traced_again(function: Any) -> None:
    graph = ad.trace(ad.grad(function), W, XS)
    scales = ad.tensor([0.5, -1.0, 2.0], dtype=ad.float64)
    close(
        ad.vmap(lambda s: graph(W * s, XS))(scales),
        ad.vmap(lambda s: ad.grad(function)(W * s, XS))(scales),
    )
    plain = ad.trace(function, W, XS)
    close(ad.grad(plain)(W, XS), ad.grad(function)(W, XS))
    close(ad.trace(ad.grad(plain), W, XS)(W, XS), ad.grad(function)(W, XS))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_graph_with_regions_prints_as_python_that_reads_back_and_runs(function: Any) -> None:
    graph = ad.trace(ad.grad(function), W, XS)
    text = str(graph)
    again = ad.graph.parse(text, graph.constants)
    assert str(again) == text
    close(again(W, XS), graph(W, XS))
    space: dict[str, Any] = {"constants": graph.constants}
    exec(text, space)
    close(space[graph.signature.name](W, XS), graph(W, XS))


def test_a_fresh_process_reads_a_graph_with_regions() -> None:
    text = str(ad.trace(newton, W, XS))
    code = f"import adjoint as ad; print(len(ad.graph.parse({text!r})))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_differentiate_goes_through_regions(function: Any) -> None:
    graph = ad.trace(function, W, XS)
    pair = ad.differentiate(graph)
    outputs, captured = pair.run(W, XS)
    close(outputs[0], function(W, XS))
    grads = pair.pull(captured, [ad.ones((), dtype=ad.float64)])
    close(grads[0], ad.grad(function)(W, XS))
    close(grads[1], ad.grad(function, 1)(W, XS))


def test_simplified_and_decomposed_graphs_with_regions_give_the_same() -> None:
    for function in FUNCTIONS:
        graph = ad.trace(ad.grad(function), W, XS)
        for changed in (ad.simplify(graph), ad.decompose(graph)):
            ad.graph.verify(changed)
            close(changed(W, XS), graph(W, XS))


def test_the_eager_tape_goes_through_loops() -> None:
    w = W.clone().requires_grad_()
    newton(w, XS).backward()
    close(w.grad, ad.grad(newton)(W, XS))


def test_a_masked_branch_leaks_no_nan() -> None:
    safe = ad.vmap(ad.grad(lambda x: ad.cond(x > 0, ad.sqrt, ad.zeros_like, x)))
    x = ad.tensor([4.0, 0.0, -1.0])
    assert safe(x).tolist() == [0.25, 0.0, 0.0]
    assert ad.trace(safe, x)(x).tolist() == [0.25, 0.0, 0.0]


def test_scan_without_steps_has_the_right_shapes() -> None:
    def run(xs: Any) -> Any:
        return ad.scan(lambda c, x: (c + x.sum(), x.double()), ad.tensor(1.0), xs)

    xs = ad.zeros(0, 3)
    for made in (run, ad.trace(run, xs)):
        carry, ys = made(xs)
        assert carry.item() == 1.0
        assert tuple(ys.shape) == (0, 3)
        assert ys.dtype is ad.float64


def test_a_loop_without_steps_has_the_gradient_of_its_start() -> None:
    f = lambda x: ad.while_loop(lambda v: v > 1e9, lambda v: v * v, x)
    assert ad.grad(f)(3.0).item() == 1.0
    assert ad.trace(ad.grad(f), ad.tensor(3.0))(ad.tensor(3.0)).item() == 1.0


def test_scan_takes_a_length_instead_of_xs_and_pytrees() -> None:
    carry, ys = ad.scan(lambda c, _: ({"a": c["a"] * 2}, c["a"]), {"a": ad.tensor(1)}, None, 4)
    assert carry["a"].item() == 16
    assert ys.tolist() == [1, 2, 4, 8]
    carry, ys = ad.scan(
        lambda c, x: (c, (x["p"] + x["q"][0], None)), 0.0, {"p": ad.arange(3), "q": (ad.ones(3),)}
    )
    assert ys[0].tolist() == [1, 2, 3]
    assert ys[1] is None


def test_a_python_condition_chooses_at_once() -> None:
    assert ad.cond(True, lambda x: x + 1, lambda x: "never", 1) == 2


def test_what_only_a_branch_needs_runs_in_the_branch() -> None:
    def ends_for_positive(x: Any, step: Any) -> Any:
        return ad.while_loop(lambda c: (c > 0).all(), lambda c: c - step, x * x)

    def chosen(x: Any, step: Any) -> Any:
        return ad.cond(step > 0, lambda: ends_for_positive(x, step).sum(), lambda: x.exp().sum())

    x, one = XS[0], ad.tensor(1.0, dtype=ad.float64)
    for f in (chosen, ad.grad(chosen), ad.grad(chosen, 1), lambda *v: ad.jvp(chosen, v, v)):
        graph = ad.graph.verify(ad.trace(f, x, one))
        names = {node.name for node in graph.nodes}
        assert not names & {"while_loop", "exp.default"}, "a branch runs though it is not chosen"
        for step in (one, -one):
            found, expected = graph(x, step), f(x, step)
            for a, b in zip(_each(found), _each(expected), strict=True):
                assert ad.allclose(a, b)


def _each(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize(
    "write", [lambda y: y.mul_(2), lambda y: y[:1].mul_(2), lambda y: y.t_(), lambda y: y.zero_()]
)
def test_a_branch_or_body_that_writes_to_an_older_tensor_is_refused(
    write: Callable[[Any], Any],
) -> None:
    def in_branch(x: Any) -> Any:
        y = x * 1
        return ad.cond(x.sum() > 0, lambda: write(y).sum(), lambda: y.sum()), y

    def in_body(x: Any) -> Any:
        y = x * 1
        return ad.scan(lambda c, s: (c + write(y).sum(), s), x.sum(), x)[0], y

    def in_while(x: Any) -> Any:
        y = x * 1
        return ad.while_loop(lambda c: c < 3, lambda c: (write(y), c + 1)[1], ad.tensor(0)), y

    for f in (in_branch, in_body, in_while):
        with pytest.raises(ad.graph.TraceError, match=r"test_control.py:\d+: .* outside the br"):
            ad.trace(f, XS)


def _add(to: Any, value: Any) -> Any:
    to += value
    return to


WRITES_TO_ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "cond": lambda x: ad.cond(x.sum() > -99, lambda v: _add(v, 1), lambda v: v * 1, x),
    "carry": lambda x: ad.scan(lambda c, s: (_add(c, s), c), x[0], x),
    "row": lambda x: ad.scan(lambda c, s: (c + _add(s, 1), s), x[0], x),
    "view": lambda x: ad.scan(lambda c, s: (c, _add(c[:1], 1)), x[0], x),
    "turn": lambda x: ad.while_loop(lambda c: c.sum() < 99, lambda c: _add(c, 1), x),
    "condition": lambda x: ad.while_loop(lambda c: _add(c, 1).sum() < 99, lambda c: c + 1, x),
    "count": lambda x: ad.fori_loop(0, 3, lambda i, c: c.t_() + i, x[:2]),
}


@pytest.mark.parametrize("name", WRITES_TO_ARGUMENTS)
def test_a_branch_or_body_that_writes_to_its_argument_is_refused(name: str) -> None:
    """In every mode: a list of rows would hold one tensor many times, and a graph other numbers."""
    f = WRITES_TO_ARGUMENTS[name]
    runs: list[Callable[..., Any]] = [f, lambda x: ad.vmap(f)(ad.stack([x, x]))]
    runs += [lambda x: ad.trace(f, x), ad.compile(f), lambda x: ad.vjp(lambda x: f(x * 1), x)]
    for run in runs:
        with pytest.raises(ad.errors.InplaceError, match=r"in place.*clone\(\)"):
            run(XS.clone())


def test_a_branch_may_write_to_what_it_made() -> None:
    def chosen(x: Any) -> Any:
        def written() -> Any:
            y = x * 2  # of tensors from outside alone
            y[1:].mul_(3)
            z = ad.tensor([1.0, 2.0], dtype=ad.float64)
            z[0].add_(1)
            z[:1] = x[0, :1]
            return y * z

        return ad.cond(x.sum() > -99, written, lambda: x * 1).sum()

    for f in (chosen, ad.grad(chosen)):
        assert ad.allclose(ad.graph.verify(ad.trace(f, XS))(XS), f(XS))


WRITTEN_LATER: dict[str, Callable[[Any], Any]] = {
    "scan": lambda v: ad.scan(lambda c, s: ((c * 0.7 + s).tanh(), c * s), v[0], v)[1],
    "while_loop": lambda v: ad.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1].sin() * v), (ad.tensor(0), v)
    )[1],
    "cond": lambda v: ad.cond(v.sum() > -99, lambda: v.exp(), lambda: v),
}


@pytest.mark.parametrize("name", WRITTEN_LATER)
def test_a_loop_keeps_what_it_was_given_though_it_is_written_to_later(name: str) -> None:
    def loss(x: Any, *, write: bool) -> Any:
        v = x * 1
        y = WRITTEN_LATER[name](v)
        v = v.mul_(3) if write else v * 3
        return (y * v).sum()

    written = ad.grad(lambda x: loss(x, write=True))
    expected = ad.grad(lambda x: loss(x, write=False))(XS)
    assert ad.allclose(ad.trace(written, XS)(XS), expected)
    mapped = ad.vmap(written)
    pair = ad.stack([XS, XS])
    assert ad.allclose(ad.trace(mapped, pair)(pair)[1], expected)


INNER: dict[str, Callable[..., Any]] = {
    "while_loop": lambda x: ad.while_loop(
        lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] * x), (ad.tensor(0), x)
    )[1],
    "cond": lambda x: ad.cond(x.sum() > 0, lambda: x * x, lambda: x),
    "scan": lambda x: ad.scan(lambda c, v: (c * v, None), x, ad.stack([x, x]))[0],
}


@pytest.mark.parametrize("name", INNER)
def test_a_loop_of_no_turns_may_hold_a_region_of_tensors_from_outside(name: str) -> None:
    def loss(x: Any) -> Any:
        return ad.fori_loop(0, 0, lambda i, c: INNER[name](x) + c, x.sin()).sum()

    x = XS[0]
    assert ad.allclose(ad.hessian(loss)(x), ad.diag(-x.sin()))
    assert ad.allclose(ad.vmap(ad.grad(loss))(XS), XS.cos())


def test_a_large_loop_takes_one_node() -> None:
    graph = ad.trace(
        lambda x: ad.scan(lambda c, v: (c * v, None), ad.ones(()), x)[0], ad.ShapeDtype(10_000)
    )
    assert len(graph) < 5


def test_random_numbers_in_a_loop_are_drawn_when_the_graph_runs() -> None:
    graph = ad.trace(
        lambda x: ad.scan(lambda c, v: (c + ad.rand(()) * v, None), ad.zeros(()), x)[0],
        ad.ShapeDtype(3),
    )
    x = ad.ones(3)
    ad.manual_seed(1)
    first, second = graph(x), graph(x)
    ad.manual_seed(1)
    assert graph(x).item() == first.item() != second.item()


BAD: dict[str, tuple[type[Exception], str, Callable[[Any], Any]]] = {
    "carry changes dtype": (
        DtypeError,
        "carry is i64.* before a step and f32",
        lambda x: ad.scan(lambda c, v: (c + v, None), 0, x),
    ),
    "carry changes shape": (
        ShapeError,
        r"carry\[0\] is",
        lambda x: ad.scan(lambda c, v: ((c[0] + x,), None), (0.0,), x),
    ),
    "while changes dtype": (
        DtypeError,
        "while_loop: carry",
        lambda x: ad.while_loop(lambda c: c < 3, lambda c: c + 0.5, 0),
    ),
    "no pair": (ArgumentError, r"pair \(carry, y\)", lambda x: ad.scan(lambda c, v: c, 0.0, x)),
    "no length": (ArgumentError, "length=", lambda x: ad.scan(lambda c, v: (c, c), 0.0)),
    "two lengths": (
        ShapeError,
        "one length",
        lambda x: ad.scan(lambda c, v: (c, c), 0.0, (x, ad.ones(5))),
    ),
    "condition has a shape": (
        ShapeError,
        "use .all",
        lambda x: ad.cond(x > 0, lambda: x, lambda: x),
    ),
    "no branches": (ArgumentError, "at least one", lambda x: ad.switch(0, [])),
    "index is no number": (
        ArgumentError,
        "one whole number, got float32",
        lambda x: ad.switch(x[0], [ad.sin], x),
    ),
    "index is many numbers": (
        ArgumentError,
        r"int64 of shape \(3,\)",
        lambda x: ad.switch(x.long(), [ad.sin], x),
    ),
    "no turn": (
        ArgumentError,
        "unroll must be",
        lambda x: ad.scan(lambda c, v: (c, v), 0.0, x, unroll=0),
    ),
    "a function that reduces": (
        ShapeError,
        "combine them one by one",
        lambda x: ad.associative_scan(lambda a, b: (a + b).sum(), x),
    ),
    "no such axis": (
        ShapeError,
        "axis=1 for a tensor of 1",
        lambda x: ad.associative_scan(ad.add, x, axis=1),
    ),
    "no batch": (ArgumentError, "batch_size", lambda x: ad.map(ad.sin, x, batch_size=0)),
    "carry changes structure": (
        ValueError,
        "carry",
        lambda x: ad.scan(lambda c, v: ((c, c), None), 0.0, x),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_explained_in_eager_and_traced(name: str) -> None:
    error, message, function = BAD[name]
    for run in (function, lambda x: ad.trace(function, x)):
        with pytest.raises(error, match=message):
            run(ad.ones(3))


def test_branches_of_two_types_are_refused_in_a_trace() -> None:
    with pytest.raises(
        DtypeError, match=r"cond: result is f32\[\] from the first function and f64"
    ):
        ad.trace(lambda x: ad.cond(x > 0, lambda v: v, lambda v: v.double(), x), ad.tensor(1.0))


@pytest.mark.parametrize("loop", [
    lambda x: ad.while_loop(lambda c: c.sum() > 1e9, lambda c: c * 2, x),
    lambda x: ad.fori_loop(0, 0, lambda i, c: c * 2, x),
    lambda x: ad.scan(lambda c, s: (c, s), x, x)[0],
    lambda x: ad.cond(x.sum() > -1e9, lambda u: u, lambda u: u * 2, x),
    lambda x: ad.cond(x.sum() > -1e9, lambda u: u[:], lambda u: u * 2, x),
])  # fmt: skip
def test_what_comes_back_as_it_was_given_has_memory_of_its_own(loop: Any) -> None:
    """A write to it does not reach what was given, in eager mode as in a graph."""

    def f(x: Any) -> Any:
        y = x * 1
        result = loop(y)
        y.mul_(3)
        result.add_(1)
        return y, result

    x = ad.tensor([1.0, 2.0])
    for run in (f, lambda x: ad.trace(f, x)(x), ad.compile(f)):
        y, result = run(x)
        assert ad.allclose(y, x * 3)
        assert ad.allclose(result, x + 1)


@pytest.mark.parametrize("reverse", [False, True])
def test_results_of_a_traced_loop_may_be_written_to_before_its_backward(reverse: bool) -> None:
    def f(x: Any) -> Any:
        last, rows = ad.scan(lambda c, s: ((c * s).sin(), c * s), x[0], x, reverse=reverse)
        rows.mul_(2)
        last.add_(1)
        return (rows * last).sum()

    x = ad.tensor(np.linspace(0.5, 1.5, 4))
    expected = ad.grad(f)(x).numpy()
    np.testing.assert_allclose(ad.compile(ad.grad(f))(x).numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(ad.vmap(ad.grad(f))(x[None])[0].numpy(), expected, rtol=1e-12)


def test_a_traced_gradient_of_a_loop_does_not_ask_whether_outside_is_recorded() -> None:
    loss = lambda w: ad.scan(lambda c, _: ((c * w).sin(), c), 1.0, length=3)[0]
    branch = lambda w: ad.cond(w > 0, lambda v: v * v, lambda v: v, w)
    w = ad.tensor(0.7)
    for f in (loss, branch):
        expected = ad.grad(f)(w)
        assert expected != 0
        with ad.no_grad():
            assert ad.allclose(ad.trace(ad.grad(f), w)(w), expected)


def test_switch_takes_the_nearest_branch() -> None:
    branches = [lambda x, i=i: x + i for i in range(5)]
    for f in (ad.switch, lambda i, *rest: ad.trace(ad.switch, i, *rest)(i, *rest)):
        found = [f(ad.tensor(i), branches, ad.tensor(0.0)).item() for i in range(-2, 8)]
        assert found == [0, 0, 0, 1, 2, 3, 4, 4, 4, 4]
    assert [ad.switch(i, branches, 0.0) for i in (-1, 3, 7)] == [0, 3, 4]
    assert ad.vmap(lambda i: ad.switch(i, branches, ad.tensor(0.0)))(ad.arange(-1, 6)).tolist() == [
        0,
        0,
        1,
        2,
        3,
        4,
        4,
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 13])
def test_an_associative_scan_is_a_running_result(size: int) -> None:
    x = ad.tensor(np.random.default_rng(size).normal(size=(2, size)))
    close(ad.associative_scan(ad.add, x, axis=1), x.cumsum(1))
    close(ad.associative_scan(ad.mul, x, axis=-1), x.cumprod(1))
    close(ad.associative_scan(ad.add, x, axis=1, reverse=True), x.flip(1).cumsum(1).flip(1))
    matrices = ad.tensor(np.random.default_rng(size).normal(size=(size, 2, 2)))  # do not commute
    found = ad.associative_scan(ad.matmul, matrices)
    close(found[-1], ad.linalg.multi_dot([ad.eye(2, dtype=ad.float64), *matrices]))


def test_an_associative_scan_calls_its_function_a_logarithm_of_times() -> None:
    calls = []
    ad.associative_scan(lambda a, b: calls.append(1) or a + b, ad.ones(1000))
    assert len(calls) <= 20


def test_map_over_nothing_has_the_right_shape() -> None:
    for batch_size in (None, 4):
        found = ad.map(lambda x: (x, x.sum()), ad.ones(0, 3), batch_size=batch_size)
        assert [tuple(t.shape) for t in found] == [(0, 3), (0,)]


def test_written_out_steps_are_no_loop() -> None:
    f = lambda x: ad.scan(lambda c, v: (c * v, c), ad.tensor(1.0), x, unroll=True)[0]
    assert "scan" not in str(ad.trace(f, ad.ones(3)))
    half = lambda x: ad.scan(lambda c, v: (c * v, c), ad.tensor(1.0), x, unroll=2)[1]
    graph = ad.trace(half, ad.ones(5))
    assert graph(ad.arange(1.0, 6.0)).tolist() == [1, 1, 2, 6, 24]
    (loop,) = [n for n in graph.nodes if n.name == "scan"]
    assert loop.args[3] == 2  # two turns of two steps


def test_fori_loop_unrolls_where_bounds_are_known() -> None:
    f = lambda x: ad.fori_loop(0, 3, lambda i, c: c * x + i, x, unroll=True)
    assert "scan" not in str(ad.trace(f, ad.tensor(2.0)))
    assert f(ad.tensor(2.0)).item() == ad.trace(f, ad.tensor(2.0))(ad.tensor(2.0)).item()
    with pytest.raises(ArgumentError, match="unroll needs bounds"):
        ad.fori_loop(0, ad.tensor(3), lambda i, c: c, 0.0, unroll=2)


# -- native loops of as many turns as it takes


def grows(x: Any, limit: Any) -> Any:
    """Turns until a sum passes a limit, which may be none, or a hundred thousand."""
    going = lambda c: c[0] < limit
    body = lambda c: (c[0] + 1, (c[1] * 0.99 + x.sin() * 0.1).tanh())
    return ad.while_loop(going, body, (ad.tensor(0), x))[1].sum()


def inside(x: Any, limit: Any) -> Any:
    """A while_loop in each turn of a scan, and a scan in each turn of that."""

    def turn(c: Any, row: Any) -> Any:
        inner = lambda v: ad.scan(lambda a, b: ((a * b).sin(), a), v, x[:2])[0] * 0.9 + row
        found = ad.while_loop(
            lambda v: v[0] < limit, lambda v: (v[0] + 1, inner(v[1])), (c[0], c[1])
        )
        return (found[0] - 1, found[1].tanh()), found[1]

    return ad.scan(turn, (ad.tensor(0), x.sum()), x)[1].sum()


MODES: dict[str, Callable[..., Any]] = {
    "gradient": ad.grad,
    "value and gradient": ad.value_and_grad,
    "hessian": ad.hessian,
    "forward over reverse": lambda f: lambda x, n: ad.jvp(lambda x: ad.grad(f)(x, n), (x,), (x,)),
    "gradient of a gradient": lambda f: ad.grad(lambda x, n: ad.grad(f)(x, n).square().sum()),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", [grows, inside])
def test_gradients_of_while_loops_are_native(function: Any, mode: str) -> None:
    f = MODES[mode](function)
    compiled = ad.compile(f)
    x = ad.tensor([0.3, -0.5, 0.8], dtype=ad.float64)
    assert compiled.lower(x, ad.tensor(3)).callbacks() == []
    for turns in (0, 1, 7):
        expected = ad.core.pytrees.leaves(f(x, ad.tensor(turns)))
        found = ad.core.pytrees.leaves(compiled(x, ad.tensor(turns)))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-12)


def test_batches_of_while_loops_have_native_gradients() -> None:
    f = ad.vmap(ad.grad(grows))
    compiled, xs = ad.compile(f), ad.tensor(np.random.default_rng(0).normal(size=(4, 3)))
    limits = ad.tensor([0, 3, 1, 9])
    np.testing.assert_allclose(compiled(xs, limits).numpy(), f(xs, limits).numpy(), rtol=1e-10)
    assert compiled.lower(xs, limits).callbacks() == []


def test_a_tape_grows_and_serves_shorter_loops_after_longer_ones() -> None:
    compiled, x = ad.compile(ad.grad(grows)), ad.tensor([0.3, -0.5], dtype=ad.float64)
    for turns in (5, 100_000, 2, 0, 300):
        found = compiled(x, ad.tensor(turns))
        if turns < 1000:
            expected = ad.grad(grows)(x, ad.tensor(turns))
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9)
        assert np.isfinite(found.numpy()).all()


def kept(compiled: Any) -> list[Any]:
    """The tapes of the programs of a function."""
    return [tape for program, _ in compiled.programs.values() for tape in program.tapes.values()]


@pytest.mark.parametrize(
    ("function", "mode"),
    [
        (grows, "gradient"),
        (grows, "forward over reverse"),
        (grows, "gradient of a gradient"),
        (inside, "gradient"),
    ],
)
def test_carries_computed_again_are_those_of_the_loop(
    function: Any, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen carries and the ones kept on the way back serve any number of turns, bit for bit."""
    f, x = MODES[mode](function), ad.tensor([0.3, -0.5, 0.8], dtype=ad.float64)
    whole, thinned = ad.compile(f), ad.compile(f)
    for turns in (0, 1, 16, 17, 31, 33, 100, 1234):
        monkeypatch.delenv("ADJOINT_TAPE", raising=False)
        expected = whole(x, ad.tensor(turns))
        monkeypatch.setenv("ADJOINT_TAPE", "8")
        found = thinned(x, ad.tensor(turns))
        for a, b in zip(*map(ad.core.pytrees.leaves, (found, expected)), strict=True):
            assert a.numpy().tobytes() == b.numpy().tobytes()
    assert not any(tape.shift for tape in kept(whole))
    assert any(tape.shift for tape in kept(thinned))


def test_the_memory_of_a_gradient_does_not_grow_with_the_turns_of_its_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ADJOINT_TAPE", "100000")
    compiled, x = ad.compile(ad.grad(grows)), ad.ones(100, dtype=ad.float64)
    sizes = []
    for turns in (1000, 10_000, 50_000):
        compiled(x, ad.tensor(turns))
        sizes.append(sum(tape.room for tape in kept(compiled)))
    assert max(sizes) <= 100_000 + 64 * (8 + 800) + 4096


def test_turns_of_a_batch_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    xs = ad.tensor(np.random.default_rng(0).normal(size=(3, 2)))
    f, limits = ad.vmap(ad.grad(grows)), ad.tensor([0, 77, 40])
    expected = ad.compile(f)(xs, limits)
    monkeypatch.setenv("ADJOINT_TAPE", "8")
    compiled = ad.compile(f)
    assert compiled(xs, limits).numpy().tobytes() == expected.numpy().tobytes()
    assert all(tape.shift for tape in kept(compiled))


def test_the_bound_of_tapes_is_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJOINT_TAPE", "256M")
    with pytest.raises(ArgumentError, match="ADJOINT_TAPE must be a number of bytes"):
        ad.compile(ad.grad(grows))(ad.ones(2), ad.tensor(3))

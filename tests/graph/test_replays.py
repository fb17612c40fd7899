"""Random numbers in loops, branches and users' rules: what runs again draws what it drew first.

The law: a function that is linear, whatever it draws, is <its gradient, x>, in each construct by
each path; two calls draw differently, the same seed gives the same numbers as eager code, and
leaves the generators where eager code leaves them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.generator import drawing_again

F = ad.nn.functional
N = 9
X = ad.tensor(np.linspace(0.5, 2, N))
ALONG = ad.tensor(np.linspace(-1, 2, N))
OTHER = ad.Generator()  # that a function is given by name


def seeded(seed: int) -> None:
    ad.manual_seed(seed)
    OTHER.manual_seed(seed + 1)


def places() -> tuple[bytes, bytes]:
    """How far the generators have come."""
    return tuple(np.asarray(g.get_state()).tobytes() for g in (ad.default_generator, OTHER))


def drop(c: Any) -> Any:
    return F.dropout(c, 0.3)


def mask(c: Any) -> Any:
    return c * ad.randn_like(c)


def given(c: Any) -> Any:
    return c * ad.rand(c.shape, generator=OTHER, dtype=c.dtype)


def linear(x: Any) -> Any:
    return x * ad.rand_like(x)


rule = ad.custom_vjp(linear)


@lambda fwd: rule.defvjp(fwd, lambda m, g: (g * m,))
def _(x: Any) -> Any:
    m = ad.rand_like(x)
    return x * m, m


@ad.custom_gradient
def returned(x: Any) -> Any:
    m = ad.rand_like(x)
    return x * m, lambda g: (g * m,)


class Masked(ad.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        m = ad.rand_like(x)
        return x * m, m

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> Any:
        return g * ctx.saved_tensors[0]


class Layers(ad.nn.Module):
    """Recurrent layers that are linear, with dropout between them."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = ad.nn.RNN(3, 3, 2, nonlinearity="relu", bias=False, dropout=0.4)
        for p in self.rnn.parameters():
            ad.nn.init.constant_(p, 0.2)
        self.double().requires_grad_(False)

    def forward(self, x: Any) -> Any:
        return self.rnn(x)


LAYERS = Layers()


def repeated(step: Callable[[Any], Any], times: int = 3) -> Callable[[Any], Any]:
    return lambda x: ad.scan(lambda c, t: (step(c), t), x, ad.arange(float(times)))[0]


def turning(step: Callable[[Any], Any], times: float = 1.2) -> Callable[[Any], Any]:
    """A loop whose number of turns is random, too."""

    def loop(x: Any) -> Any:
        start = ad.zeros((), dtype=x.dtype)
        grows = lambda s: (s[0] + ad.rand((), dtype=x.dtype), step(s[1]))
        return ad.while_loop(lambda s: s[0] < times, grows, (start, x))[1]

    return loop


def mapped(f: Callable[..., Any], randomness: str = "different") -> Callable[..., Any]:
    return ad.vmap(f, randomness=randomness)


def choice(x: Any) -> Any:
    return ad.cond(ad.rand(()) > 0.5, drop, mask, x)


LINEAR: dict[str, Callable[[Any], Any]] = {
    "scan": repeated(drop),
    "stacked": lambda x: ad.scan(lambda c, t: (c, mask(c) * t), x, ad.arange(1.0, 4.0))[1],
    "two carries, backwards": lambda x: ad.scan(
        lambda c, t: ((mask(c[0]) + c[1], drop(c[1])), t * c[0].sum()),
        (x, x * 2),
        ad.arange(1.0, 4.0),
        reverse=True,
    )[1],
    "unrolled": lambda x: ad.scan(lambda c, t: (mask(c), t), x, ad.arange(5.0), unroll=2)[0],
    "scan in scan": repeated(lambda c: repeated(mask, 2)(drop(c)), 2),
    "scan of what is outside": lambda x: repeated(lambda c: c + repeated(mask, 2)(x), 2)(x),
    "map": lambda x: ad.map(lambda v: drop(v * ad.ones(4, dtype=x.dtype)), x),
    "associative_scan": lambda x: ad.associative_scan(lambda a, b: mask(a) + b, x),
    "fori_loop": lambda x: ad.fori_loop(0, 3, lambda i, c: drop(c), x),
    "fori_loop, tensors": lambda x: ad.fori_loop(
        ad.tensor(0), ad.tensor(3), lambda i, c: mask(c), x
    ),
    "while_loop": turning(lambda c: mask(c) + drop(c)),
    "random condition": lambda x: ad.while_loop(lambda s: ad.rand(()) < 0.8, mask, x),
    "while in scan": repeated(turning(mask), 2),
    "scan in while": turning(repeated(mask, 2)),
    "while in while": turning(turning(mask)),
    "cond": lambda x: ad.cond(x.sum() > 0, drop, mask, x),
    "cond, random": lambda x: choice(x) + drop(x),
    "cond, closure": lambda x: ad.cond(ad.rand(()) < 2, lambda v: drop(v) + mask(x), drop, x),
    "cond in scan": repeated(choice, 6),
    "cond in while": turning(choice),
    "while in cond": lambda x: ad.cond(x.sum() > 0, turning(mask), drop, x),
    "switch in scan": repeated(
        lambda c: ad.switch(ad.randint(0, 3, ()), (drop, mask, lambda v: v * 2), c), 5
    ),
    "rule": repeated(lambda c: rule(mask(c))),
    "rule that is returned": repeated(lambda c: returned(mask(c))),
    "function": repeated(lambda c: Masked.apply(drop(c))[0]),
    "function in while": turning(lambda c: Masked.apply(c)[0]),
    "checkpoint": repeated(ad.checkpoint(lambda c: mask(drop(c)))),
    "checkpointed": ad.checkpoint(repeated(lambda c: mask(drop(c)))),
    "generators": repeated(lambda c: given(c) + drop(c)),
    "generators in while": turning(lambda c: given(c) + mask(c)),
    "vmap in scan": repeated(mapped(lambda v: mask(v) * ad.rand((), dtype=v.dtype))),
    "same in scan": repeated(mapped(lambda v: mask(v), "same")),
    "vmap": lambda x: mapped(repeated(mask))(ad.stack([x, 2 * x])),
    "vmap, same": lambda x: mapped(repeated(mask), "same")(ad.stack([x, 2 * x])),
    "vmap of what is outside": lambda x: mapped(lambda v: v * repeated(mask)(x))(
        ad.ones(3, dtype=x.dtype)
    ),
    "vmap of while": lambda x: mapped(
        lambda n, v: ad.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, mask(s[1])), (0, v))[1]
    )(ad.tensor([1, 3]), ad.stack([x, 2 * x])),
    "vmap of random condition": lambda x: mapped(
        lambda v: ad.while_loop(lambda s: ad.rand(()) < 0.7, mask, v)
    )(ad.stack([x, 2 * x])),
    "vmap of cond": lambda x: mapped(lambda p, v: ad.cond(p, drop, mask, v))(
        ad.tensor([True, False]), ad.stack([x, 2 * x])
    ),
    "vmap of cond in scan": repeated(mapped(lambda v: ad.cond(v > 0, drop, mask, v))),
    "one state for all samples": lambda x: mapped(lambda p, v: v * ad.normal(p, 1.0), "same")(
        ad.tensor(np.linspace(0.3, 0.9, N)), x
    ),
    "grad in scan": repeated(
        lambda c: ad.grad(lambda v: (mask(v) * c).sum())(ad.ones_like(c.detach()))
    ),
    "probability in the carry": repeated(lambda c: c * ad.bernoulli(c.detach().sigmoid())),
    "layers": lambda x: LAYERS(x.reshape(3, 1, -1))[0],
    "lstm": lambda x: ad.scan(
        lambda c, t: ((drop(c[0]) + c[1] * t, mask(c[1])), c[0]), (x, x), ad.arange(1.0, 5.0)
    )[1],
}


def dot(a: Any, b: Any) -> Any:
    return (a * b).sum()


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as its graph, which is checked, printed and read back."""

    def run(*args: Any) -> Any:
        graph = ad.trace(function, *args)
        ad.graph.verify(graph)
        again = ad.graph.parse(graph.python(), graph.constants)
        return again(*args)

    return run


def first_order(transform: Callable[..., Any]) -> Callable[..., Any]:
    def run(f: Any, x: Any) -> tuple[Any, Any]:
        value, grad = transform(f)(x)
        return value, dot(grad, x)

    return run


def by_tape(f: Any, x: Any) -> tuple[Any, Any]:
    leaf = x.clone().requires_grad_()
    value = ad.compile(f)(leaf)
    value.backward()
    return value.detach(), dot(leaf.grad, x)


def in_halves(recompute: Any) -> Callable[..., Any]:
    def run(f: Any, x: Any) -> tuple[Any, Any]:
        pair = ad.differentiate(ad.trace(f, x), recompute=recompute)
        ad.graph.verify(pair.f)
        ad.graph.verify(pair.df)
        outputs, captured = pair.run(x)
        (grad,) = pair.pull(captured, [ad.ones_like(outputs[0])])
        return outputs[0], dot(grad, x)

    return run


def rows_by_reverse(f: Any, x: Any) -> tuple[Any, Any]:
    """A Jacobian: a vmap that is opened when the numbers have been drawn."""
    twice = ad.tensor([1.0, 2.0], dtype=x.dtype)

    def two(y: Any) -> Any:
        value = f(y)
        return value * twice, value

    rows, value = traced(lambda x: ad.jacrev(two, has_aux=True)(x))(x)
    return value * twice, rows @ x


def squared(f: Any) -> Any:
    return lambda x: f(x) ** 2 / 2


# Of q = f²/2 at x the gradient is f·g and the Hessian g gᵀ, so <grad, x> = 2 q, and the derivative
# of q along v is <x, H v>.


def forward_over_reverse(f: Any, x: Any) -> tuple[Any, Any]:
    run = lambda x: ad.jvp(ad.value_and_grad(squared(f)), (x,), (ALONG,))
    (value, grad), (slope, along) = traced(run)(x)
    return ad.stack([2 * value, slope]), ad.stack([dot(grad, x), dot(along, x)])


def reverse_over_reverse(f: Any, x: Any) -> tuple[Any, Any]:
    def inner(y: Any) -> Any:
        value, grad = ad.value_and_grad(squared(f))(y)
        return dot(grad, ALONG), (value, grad)

    along, (value, grad) = traced(ad.grad(inner, has_aux=True))(x)
    return ad.stack([2 * value, dot(grad, ALONG)]), ad.stack([dot(grad, x), dot(along, x)])


def batches(transform: Any, randomness: str) -> Callable[..., Any]:
    def run(f: Any, x: Any) -> tuple[Any, Any]:
        rows = ad.stack([x, 2 * x, x + 1])
        value, grad = transform(ad.vmap(ad.value_and_grad(f), randomness=randomness))(rows)
        return value, (grad * rows).sum(1)

    return run


PATHS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "eager": first_order(ad.value_and_grad),
    "graph": first_order(lambda f: traced(ad.value_and_grad(f))),
    "compiled": first_order(lambda f: ad.compile(ad.value_and_grad(f))),
    "of compiled": first_order(lambda f: ad.value_and_grad(ad.compile(f))),
    "tape": by_tape,
    "halves": in_halves("auto"),
    "halves, nothing": in_halves("nothing"),
    "halves, everything": in_halves("everything"),
    "jvp": lambda f, x: traced(lambda x: ad.jvp(f, (x,), (x,)))(x),
    "jacrev": rows_by_reverse,
    "forward over reverse": forward_over_reverse,
    "reverse over reverse": reverse_over_reverse,
    "vmap": batches(traced, "different"),
    "vmap, same": batches(traced, "same"),
    "vmap, eager": batches(lambda f: f, "different"),
}
# A few constructs stand for what the compiler does with all of them; second orders of nested loops
# take long.
BY_C = {"scan", "while in scan", "cond in while", "rule that is returned", "generators in while"}
NESTED = {"while in while", "while in scan", "scan in while", "while in cond", "cond in while"}
SKIPPED = dict.fromkeys(("compiled", "of compiled", "tape"), LINEAR.keys() - BY_C) | dict.fromkeys(
    ("forward over reverse", "reverse over reverse"), NESTED
)
ANEW = {"graph", "compiled", "of compiled", "tape", "halves"}  # where a second call is made


@pytest.mark.parametrize("construct", LINEAR)
def test_a_linear_function_is_its_gradient_times_x(construct: str) -> None:
    f = lambda x: LINEAR[construct](x).sum()
    seeded(3)
    value = f(X)
    after = places()
    for path, run in PATHS.items():
        if construct in SKIPPED.get(path, ()):
            continue
        seeded(3)
        found, along = run(f, X)
        came = places()
        np.testing.assert_allclose(found, along, rtol=1e-9, atol=1e-12, err_msg=path)
        if found.ndim == 0:  # the same numbers as eager code has
            np.testing.assert_allclose(found, value, rtol=1e-12, err_msg=path)
        if not path.startswith("vmap"):
            assert came == after, f"{path}: the generators went on from elsewhere"
        if path in ANEW:
            assert not np.array_equal(run(f, X)[0], found), f"{path}: two calls, the same numbers"


def curved(x: Any) -> Any:
    """Not linear, with numbers in a loop, a branch and a distribution that depends on x."""

    def step(c: Any, t: Any) -> Any:
        c = ad.cond(ad.rand(()) > 0.4, lambda v: drop(v).tanh(), lambda v: v * v.sin(), c)
        return c + c.sigmoid() * ad.randn_like(c), (c * t).exp().sum()

    last, sums = ad.scan(step, x, ad.arange(1.0, 4.0) / 10)
    return (last**2).sum() + sums.sum()


@pytest.mark.parametrize("transform", [lambda f: f, traced, ad.compile])
def test_the_gradient_is_that_of_the_function_with_the_same_seed(transform: Any) -> None:
    def at(x: Any) -> Any:
        seeded(7)
        return curved(x).item()

    seeded(7)
    value, grad = transform(ad.value_and_grad(curved))(X)
    step = 1e-6
    units = np.eye(N) * step
    slopes = [(at(X + ad.tensor(u)) - at(X - ad.tensor(u))) / (2 * step) for u in units]
    assert abs(at(X) - value.item()) < 1e-12
    np.testing.assert_allclose(grad, slopes, rtol=1e-5, atol=1e-7)


class Noisy(ad.autograd.Function):
    """A gradient with noise of its own."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ad.rand_like(g)


NOISY = {
    "scan": repeated(lambda c: Noisy.apply(drop(c)) + c),
    "while": turning(lambda c: Noisy.apply(mask(c)) + c),
    "cond": lambda x: ad.cond(x.sum() > 0, lambda v: Noisy.apply(drop(v)) + v, mask, x),
    "generators": repeated(lambda c: Noisy.apply(drop(c)) + given(c)),
}


@pytest.mark.parametrize("construct", NOISY)
@pytest.mark.parametrize("transform", [traced, ad.compile])
def test_what_a_derivative_draws_is_drawn_for_the_first_time(
    construct: str, transform: Any
) -> None:
    f = ad.value_and_grad(lambda x: NOISY[construct](x).sum())
    seeded(5)
    expected = f(X)
    after = places()
    seeded(5)
    found = transform(f)(X)
    assert places() == after
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_second_derivatives_of_a_rule_draw_its_residuals_again() -> None:
    square = ad.custom_vjp(lambda x: x**2 * ad.rand_like(x))

    def forward(x: Any) -> Any:
        m = ad.rand_like(x)
        return x**2 * m, x * m

    square.defvjp(forward, lambda r, g: (2 * r * g,))

    def slope(x: Any) -> Any:
        value, grad = ad.value_and_grad(lambda x: square(x).sum())(x)
        return dot(grad, x), value  # twice the value

    for transform in (lambda f: f, traced, ad.compile):
        curve, value = transform(ad.grad(slope, has_aux=True))(X)
        np.testing.assert_allclose(dot(curve, X), 4 * value, rtol=1e-12)


def test_jacobians_of_checkpoints_and_rules_share_numbers_among_their_rows() -> None:
    for f in (ad.checkpoint(mask), returned, rule, ad.checkpoint(returned)):
        both = lambda x, f=f: (lambda y: (y, y))(f(x))
        rows, value = ad.jacrev(both, has_aux=True)(X)
        np.testing.assert_allclose(rows @ X, value, rtol=1e-12)
        batch = ad.stack([X, 2 * X])
        run = ad.vmap(ad.jacrev(both, has_aux=True), randomness="different")
        rows, value = run(batch)
        np.testing.assert_allclose((rows @ batch.unsqueeze(-1)).squeeze(-1), value, rtol=1e-12)


def test_a_compiled_step_through_a_loop_with_dropout() -> None:
    model = ad.nn.Module()
    model.weight = ad.nn.Parameter(ad.ones(200))
    cell = lambda c, t: (F.dropout(c, 0.5), t)
    model.forward = lambda x: ad.scan(cell, model.weight * 2, x)[0].sum()
    step = ad.optim.compiled_step(model, None, ad.optim.SGD(model.parameters(), lr=0.25))
    losses = []
    for _ in range(4):
        before = model.weight.detach().clone()
        losses.append(step(ad.ones(3)).item())
        grad = (before - model.weight.detach()) / 0.25
        np.testing.assert_allclose(dot(grad, before), losses[-1], rtol=1e-5)
    assert len(set(losses)) == 4


def test_sizes_stay_open_around_a_loop_that_draws() -> None:
    f = ad.compile(ad.value_and_grad(lambda x: repeated(drop)(x).sum()), dynamic={"x": 0})
    for size in (6, 9, 40):
        x = ad.rand(size) + 1
        seeded(size)
        value, grad = f(x)
        np.testing.assert_allclose(dot(grad, x), value, rtol=1e-5)
        seeded(size)
        np.testing.assert_allclose(repeated(drop)(x).sum(), value, rtol=1e-5)


def test_a_replay_leaves_other_threads_alone() -> None:
    """A block that draws again has a stream of its own."""
    ad.manual_seed(1)
    state = ad.get_rng_state()
    first = ad.rand(3)
    with drawing_again([None], [state]), ThreadPoolExecutor(1) as pool:
        outside = pool.submit(lambda: ad.rand(3)).result()
        assert ad.equal(ad.rand(3), first)
    ad.manual_seed(1)
    assert ad.equal(ad.rand(6)[3:], outside)


def test_a_pass_that_replaces_a_node_that_draws_takes_it_out() -> None:
    f = lambda x: Masked.apply(x)[0].sum()
    seeded(2)
    f(X)
    after = places()
    seeded(2)
    ad.compile(f)(X)
    assert places() == after


def test_large_constants_of_two_bodies_keep_their_names_apart() -> None:
    a, b = ad.rand(100), ad.rand(100)
    f = lambda x: repeated(lambda c: c + b)(repeated(lambda c: c * a)(x))
    x = ad.rand(100)
    assert ad.equal(traced(f)(x), f(x))

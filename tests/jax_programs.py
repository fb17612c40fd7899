"""Programs as users of JAX write them, after the idioms of its documentation.

Each takes the modules that its import lines would name, `jax`, `jax.numpy` and `jax.jit`, and
returns numbers. tests/doors/test_jax_idioms.py runs them with adjoint in their place and compares
with the numbers that JAX gave (tests/data/jax_idioms.json); `python -m tests.jax_programs`, where
JAX is installed, computes those anew.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests import DATA

STORED = DATA / "jax_idioms.json"
PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[function.__name__] = function
    return function


def numbers(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape)


# --- gradients ----------------------------------------------------------------------------------


def _logistic(jnp: Any) -> Any:
    inputs = jnp.asarray(numbers(0, 4, 3))
    targets = jnp.asarray([True, True, False, True])

    def loss(w: Any, b: Any) -> Any:
        predictions = 0.5 * (jnp.tanh((inputs @ w + b) / 2) + 1)
        label_probabilities = jnp.where(targets, predictions, 1 - predictions)
        return -jnp.sum(jnp.log(label_probabilities))

    return loss, jnp.asarray(numbers(1, 3)), jnp.asarray(0.3)


@program
def logistic_regression(jax: Any, jnp: Any, jit: Any) -> Any:
    loss, w, b = _logistic(jnp)
    both = jax.grad(loss, (0, 1))(w, b)
    value, in_b = jax.value_and_grad(loss, argnums=1)(w, b)
    as_dict = jax.grad(lambda p: loss(p["W"], p["b"]))({"W": w, "b": b})
    fast = jit(jax.value_and_grad(loss))(w, b)
    return both, value, in_b, as_dict["W"], as_dict["b"], fast


@program
def gradient_descent_over_a_tree(jax: Any, jnp: Any, jit: Any) -> Any:
    def init(layers: Any) -> Any:
        return [
            {"weights": jnp.asarray(numbers(i, n, m)), "biases": jnp.zeros(m)}
            for i, (n, m) in enumerate(itertools.pairwise(layers))
        ]

    def forward(params: Any, x: Any) -> Any:
        *hidden, last = params
        for layer in hidden:
            x = jnp.tanh(x @ layer["weights"] + layer["biases"])
        return x @ last["weights"] + last["biases"]

    def loss(params: Any, x: Any, y: Any) -> Any:
        return jnp.mean((forward(params, x) - y) ** 2)

    @jit
    def update(params: Any, x: Any, y: Any) -> Any:
        grads = jax.grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    params = init([1, 5, 1])
    x = jnp.linspace(-1, 1, 9).reshape(9, 1)
    for _ in range(20):
        params = update(params, x, x**2)
    norm = jax.tree.reduce(lambda a, b: a + b, jax.tree.map(lambda p: jnp.sum(p**2), params))
    return loss(params, x, x**2), norm, len(jax.tree.leaves(params))


@program
def per_example_gradients(jax: Any, jnp: Any, jit: Any) -> Any:
    def loss(params: Any, x: Any, y: Any) -> Any:
        return (jnp.tanh(x @ params["w"]) + params["b"] - y) ** 2

    params = {"w": jnp.asarray(numbers(0, 3)), "b": jnp.asarray(0.5)}
    x, y = jnp.asarray(numbers(1, 6, 3)), jnp.asarray(numbers(2, 6))
    found = jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))(params, x, y)
    mean = jax.grad(lambda p: jnp.mean(jax.vmap(lambda a, b: loss(p, a, b))(x, y)))(params)
    return found["w"], found["b"], mean["w"]


@program
def hessian_vector_products(jax: Any, jnp: Any, jit: Any) -> Any:
    def f(x: Any) -> Any:
        return jnp.sum(jnp.sin(x) * x**3) + jnp.prod(x)

    def forward_over_reverse(f: Any, primals: Any, tangents: Any) -> Any:
        return jax.jvp(jax.grad(f), primals, tangents)[1]

    def reverse_over_forward(f: Any, primals: Any, tangents: Any) -> Any:
        g = lambda primals: jax.jvp(f, primals, tangents)[1]
        return jax.grad(g)(primals)[0]

    def reverse_over_reverse(f: Any, primals: Any, tangents: Any) -> Any:
        g = lambda x: jnp.sum(jax.grad(f)(x) * tangents[0])
        return jax.grad(g)(*primals)

    x, v = jnp.asarray(numbers(0, 4)), jnp.asarray(numbers(1, 4))
    products = [
        p(f, (x,), (v,)) for p in (forward_over_reverse, reverse_over_forward, reverse_over_reverse)
    ]
    matrices = [jax.hessian(f)(x), jax.jacfwd(jax.jacrev(f))(x), jax.jacrev(jax.jacfwd(f))(x)]
    return products, matrices


@program
def jacobians_of_trees(jax: Any, jnp: Any, jit: Any) -> Any:
    def predict(params: Any, inputs: Any) -> Any:
        return jnp.tanh(inputs @ params["W"] + params["b"])

    params = {"W": jnp.asarray(numbers(0, 3)), "b": jnp.asarray(0.1)}
    inputs = jnp.asarray(numbers(1, 4, 3))
    found = [j(predict)(params, inputs) for j in (jax.jacfwd, jax.jacrev)]
    aux = jax.jacrev(lambda p: (predict(p, inputs), inputs[0, 0]), has_aux=True)(params)[1]
    return [(j["W"], j["b"]) for j in found], aux


@program
def matrix_jacobian_products(jax: Any, jnp: Any, jit: Any) -> Any:
    f = lambda w: jnp.tanh(jnp.asarray(numbers(0, 4, 3)) @ w)
    w = jnp.asarray(numbers(1, 3))
    m = jnp.asarray(numbers(2, 5, 4))
    _, vjp_fun = jax.vjp(f, w)
    (pulled,) = jax.vmap(vjp_fun)(m)
    push = lambda v: jax.jvp(f, (w,), (v,))[1]
    pushed = jax.vmap(push, out_axes=1)(jnp.asarray(numbers(3, 5, 3)))
    y, linear = jax.linearize(f, w)
    (transposed,) = jax.linear_transpose(lambda v: jnp.asarray(numbers(0, 4, 3)) @ v, w)(m[0])
    return pulled, pushed, y, linear(w), transposed


@program
def newtons_method(jax: Any, jnp: Any, jit: Any) -> Any:
    def f(x: Any) -> Any:
        return jnp.sum((x[1:] - x[:-1] ** 2) ** 2) + jnp.sum((1 - x) ** 2)

    hessian = jax.jacfwd(jax.jacrev(f))

    @jit
    def step(x: Any) -> Any:
        return x - jnp.linalg.solve(hessian(x), jax.grad(f)(x))

    x = jnp.asarray([1.3, 0.7, 0.8])
    for _ in range(6):
        x = step(x)
    return x, f(x)


@program
def holomorphic_derivatives(jax: Any, jnp: Any, jit: Any) -> Any:
    f = lambda z: jnp.sin(z) * z**2
    z = jnp.asarray(0.3 + 0.4j)
    found = jax.grad(f, holomorphic=True)(z)
    jacobian = jax.jacfwd(lambda z: jnp.exp(z) * z[::1], holomorphic=True)(jnp.stack([z, 2 * z]))
    return found.real, found.imag, jacobian.real, jacobian.imag


# --- advanced autodiff --------------------------------------------------------------------------


@program
def meta_learning(jax: Any, jnp: Any, jit: Any) -> Any:
    def meta_loss(theta: Any, data: Any) -> Any:
        loss = lambda w: jnp.sum((w * data - jnp.sin(data)) ** 2)
        adapted = theta - 0.1 * jax.grad(loss)(theta)
        return loss(adapted)

    data = jnp.asarray(numbers(0, 5))
    return jax.value_and_grad(meta_loss)(jnp.asarray(0.7), data)


@program
def temporal_difference(jax: Any, jnp: Any, jit: Any) -> Any:
    value = lambda theta, state: theta @ state

    def td_loss(theta: Any, before: Any, reward: Any, after: Any) -> Any:
        target = reward + value(theta, after)
        return -0.5 * (jax.lax.stop_gradient(target) - value(theta, before)) ** 2

    theta = jnp.asarray([0.1, -0.1, 0.0])
    states = jnp.asarray(numbers(0, 4, 3))
    one = jax.grad(td_loss)(theta, states[0], 1.0, states[1])
    batch = jax.vmap(jax.grad(td_loss), in_axes=(None, 0, None, 0))(
        theta, states[:-1], 1.0, states[1:]
    )
    return one, batch


@program
def straight_through(jax: Any, jnp: Any, jit: Any) -> Any:
    def quantised(x: Any) -> Any:
        zero = x - jax.lax.stop_gradient(x)
        return zero + jax.lax.stop_gradient(jnp.round(x))

    return quantised(jnp.asarray(3.2)), jax.grad(quantised)(jnp.asarray(3.2))


@program
def masked_loss(jax: Any, jnp: Any, jit: Any) -> Any:
    def loss(w: Any, x: Any, mask: Any) -> Any:
        safe = jnp.where(mask, x, 1.0)
        logs = jnp.where(mask, jnp.log(safe * w), 0.0)
        return jnp.sum(logs**2) / jnp.sum(mask)

    x = jnp.asarray([1.0, 2.0, 0.0, 3.0])
    mask = x > 0
    return jit(jax.value_and_grad(loss))(jnp.asarray(2.0), x, mask)


@program
def checkpointed(jax: Any, jnp: Any, jit: Any) -> Any:
    @jax.checkpoint
    def block(x: Any, w: Any) -> Any:
        return jnp.tanh(jnp.sin(x) * w)

    f = lambda x, w: jnp.sum(block(block(x, w), w))
    x, w = jnp.asarray(numbers(0, 3)), jnp.asarray(numbers(1, 3))
    return jax.grad(f, (0, 1))(x, w), jax.hessian(f)(x, w)


# --- derivatives of one's own -------------------------------------------------------------------


@program
def stable_log1pexp(jax: Any, jnp: Any, jit: Any) -> Any:
    @jax.custom_jvp
    def log1pexp(x: Any) -> Any:
        return jnp.log(1.0 + jnp.exp(x))

    @log1pexp.defjvp
    def log1pexp_jvp(primals: Any, tangents: Any) -> Any:
        (x,) = primals
        (x_dot,) = tangents
        ans = log1pexp(x)
        ans_dot = (1 - 1 / (1 + jnp.exp(x))) * x_dot
        return ans, ans_dot

    f = jax.grad(log1pexp)
    x = jnp.asarray([1.0, -2.0, 0.5])
    return f(3.0), f(100.0), jit(jax.vmap(f))(x), jax.vmap(jax.grad(f))(x)


@program
def rules_for_each_argument(jax: Any, jnp: Any, jit: Any) -> Any:
    @jax.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x**2 * y

    f.defjvps(
        lambda x_dot, primal_out, x, y: 2 * x * y * x_dot,
        lambda y_dot, primal_out, x, y: x**2 * y_dot,
    )
    return jax.grad(f, (0, 1))(2.0, 3.0), jax.jvp(f, (2.0, 3.0), (1.0, 2.0))


@program
def clipped_gradients(jax: Any, jnp: Any, jit: Any) -> Any:
    @jax.custom_vjp
    def clip_gradient(lo: Any, hi: Any, x: Any) -> Any:
        return x

    def clip_gradient_fwd(lo: Any, hi: Any, x: Any) -> Any:
        return x, (lo, hi)

    def clip_gradient_bwd(res: Any, g: Any) -> Any:
        lo, hi = res
        return (None, None, jnp.clip(g, lo, hi))

    clip_gradient.defvjp(clip_gradient_fwd, clip_gradient_bwd)
    f = lambda x: jnp.sin(clip_gradient(-0.75, 0.75, x))
    t = jnp.linspace(0, 10, 7)
    return jax.vmap(jax.grad(f))(t), jit(jax.vmap(jax.grad(f)))(t)


@program
def functions_as_arguments(jax: Any, jnp: Any, jit: Any) -> Any:
    @functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
    def app(f: Any, x: Any) -> Any:
        return f(x)

    @app.defjvp
    def app_jvp(f: Any, primals: Any, tangents: Any) -> Any:
        (x,) = primals
        (x_dot,) = tangents
        return f(x), 2.0 * x_dot

    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def back(f: Any, x: Any) -> Any:
        return f(x)

    def back_fwd(f: Any, x: Any) -> Any:
        return f(x), x

    def back_bwd(f: Any, x: Any, g: Any) -> Any:
        return (5 * x * g,)

    back.defvjp(back_fwd, back_bwd)
    cube = lambda x: x**3
    return app(cube, 3.0), jax.grad(app, 1)(cube, 3.0), jax.grad(back, argnums=1)(cube, 4.0)


@program
def fixed_points(jax: Any, jnp: Any, jit: Any) -> Any:
    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def fixed_point(f: Any, a: Any, x_guess: Any) -> Any:
        def cond_fun(carry: Any) -> Any:
            x_prev, x = carry
            return jnp.abs(x_prev - x) > 1e-12

        def body_fun(carry: Any) -> Any:
            _, x = carry
            return x, f(a, x)

        _, x_star = jax.lax.while_loop(cond_fun, body_fun, (x_guess, f(a, x_guess)))
        return x_star

    def fixed_point_fwd(f: Any, a: Any, x_init: Any) -> Any:
        x_star = fixed_point(f, a, x_init)
        return x_star, (a, x_star)

    def fixed_point_rev(f: Any, res: Any, x_star_bar: Any) -> Any:
        a, x_star = res
        _, vjp_a = jax.vjp(lambda a: f(a, x_star), a)
        (a_bar,) = vjp_a(fixed_point(functools.partial(rev_iter, f), (a, x_star, x_star_bar),
                                     x_star_bar))  # fmt: skip
        return a_bar, jnp.zeros_like(x_star)

    def rev_iter(f: Any, packed: Any, u: Any) -> Any:
        a, x_star, x_star_bar = packed
        _, vjp_x = jax.vjp(lambda x: f(a, x), x_star)
        return x_star_bar + vjp_x(u)[0]

    fixed_point.defvjp(fixed_point_fwd, fixed_point_rev)

    def newton_sqrt(a: Any) -> Any:
        update = lambda a, x: 0.5 * (x + a / x)
        return fixed_point(update, a, a)

    two = jnp.asarray(2.0)
    return newton_sqrt(two), jax.grad(newton_sqrt)(two), jax.grad(jax.grad(newton_sqrt))(two)


@program
def gradients_beside_outputs(jax: Any, jnp: Any, jit: Any) -> Any:
    @jax.custom_gradient
    def f(x: Any, y: Any) -> Any:
        return x * y, lambda g: (g * y * 3, g * x)

    return f(3.0, 4.0), jax.grad(f, argnums=(0, 1))(3.0, 4.0)


# --- control flow -------------------------------------------------------------------------------


@program
def recurrent_network(jax: Any, jnp: Any, jit: Any) -> Any:
    def rnn(params: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = jnp.tanh(params["W"] @ h + params["U"] @ x + params["b"])
            return h, h

        return jax.lax.scan(step, jnp.zeros(3), xs)

    def loss(params: Any, xs: Any) -> Any:
        last, hs = rnn(params, xs)
        return jnp.sum(last**2) + jnp.mean(hs)

    params = {"W": jnp.asarray(numbers(0, 3, 3)), "U": jnp.asarray(numbers(1, 3, 2)),
              "b": jnp.asarray(numbers(2, 3))}  # fmt: skip
    xs = jnp.asarray(numbers(3, 6, 2))
    grads = jit(jax.grad(loss))(params, xs)
    batch = jax.vmap(loss, in_axes=(None, 0))(params, jnp.stack([xs, 2 * xs]))
    return grads["W"], grads["U"], grads["b"], batch


@program
def loops_and_branches(jax: Any, jnp: Any, jit: Any) -> Any:
    lax = jax.lax
    total = lax.fori_loop(0, 10, lambda i, v: v + i * 0.5, 0.0)
    power = lambda x: lax.fori_loop(0, 5, lambda i, v: v * x, 1.0)
    countdown = lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 1, c[1] * 2.0), (5, 1.0))
    choose = lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda x: x**2], x)
    safe = lambda x: lax.cond(x > 0, lambda x: jnp.sqrt(x), lambda x: -x, x)
    carry, ys = lax.scan(lambda c, _: (c * 2.0, c), 1.0, None, length=4)
    back = lax.scan(lambda c, x: (c + x, c * x), 0.0, jnp.asarray([1.0, 2.0, 3.0]), reverse=True)
    x = jnp.asarray([-2.0, 3.0])
    return (
        total, jax.grad(power)(1.1), countdown[1],
        jax.vmap(choose, in_axes=(0, None))(jnp.asarray([0, 1, 2, 7]), jnp.asarray(0.4)),
        jax.vmap(jax.grad(safe))(x), carry, ys, back,
        lax.map(lambda v: jnp.sin(v) * 2, x), lax.map(jnp.sin, jnp.linspace(0, 1, 5), batch_size=2),
    )  # fmt: skip


@program
def linear_recurrences(jax: Any, jnp: Any, jit: Any) -> Any:
    def binary(left: Any, right: Any) -> Any:
        (a, b), (c, d) = left, right
        return a * c, b * c + d

    def run(a: Any, x: Any) -> Any:
        return jax.lax.associative_scan(binary, (a, x))[1]

    a, x = jnp.asarray(numbers(0, 7)), jnp.asarray(numbers(1, 7))
    sums = jax.lax.associative_scan(lambda a, b: a + b, x.reshape(1, 7), reverse=True, axis=1)
    return run(a, x), jax.grad(lambda a: jnp.sum(run(a, x)))(a), sums


@program
def roots(jax: Any, jnp: Any, jit: Any) -> Any:
    def newton(f: Any, x0: Any) -> Any:
        return jax.lax.fori_loop(0, 30, lambda _, x: x - f(x) / jax.grad(f)(x), x0)

    def root(a: Any) -> Any:
        f = lambda x: x**3 + a * x - 2.0
        return jax.lax.custom_root(f, jnp.asarray(1.0), newton, lambda g, y: y / g(1.0))

    a = jnp.asarray(0.7)
    second = jax.grad(jax.grad(root))(a)
    forward = jax.jvp(root, (a,), (jnp.asarray(1.0),))
    return (
        root(a),
        jax.grad(root)(a),
        second,
        forward,
        jax.vmap(jax.grad(root))(jnp.stack([a, 2 * a])),
    )


@program
def linear_solves(jax: Any, jnp: Any, jit: Any) -> Any:
    def solution(a: Any, b: Any) -> Any:
        solve = lambda matvec, r: jnp.linalg.solve(a, r)
        transpose_solve = lambda vecmat, r: jnp.linalg.solve(a.T, r)
        return jax.lax.custom_linear_solve(lambda x: a @ x, b, solve, transpose_solve)

    a = jnp.asarray(numbers(0, 3, 3) + 3 * np.eye(3))
    b = jnp.asarray(numbers(1, 3))
    f = lambda a, b: jnp.sum(solution(a, b) ** 3)
    return f(a, b), jax.grad(f, (0, 1))(a, b), jax.hessian(f, argnums=1)(a, b)


# --- trees and batches --------------------------------------------------------------------------


@program
def trees(jax: Any, jnp: Any, jit: Any) -> Any:
    @dataclasses.dataclass
    class Model:
        w: Any
        b: Any
        power: int

    jax.tree_util.register_dataclass(Model, data_fields=["w", "b"], meta_fields=["power"])

    @jax.tree_util.register_pytree_node_class
    class Pair:
        def __init__(self, first: Any, second: Any) -> None:
            self.first, self.second = first, second

        def tree_flatten(self) -> Any:
            return (self.first, self.second), None

        @classmethod
        def tree_unflatten(cls, aux: Any, children: Any) -> Any:
            return cls(*children)

    model = Model(jnp.asarray(2.0), jnp.asarray(3.0), 2)
    grads = jit(jax.grad(lambda m: m.w**m.power * m.b))(model)
    pair = jax.jvp(
        lambda p: Pair(p.first * p.second, p.second), (Pair(2.0, 3.0),), (Pair(1.0, 0.0),)
    )
    episodes = [{"t": 1.0, "o": 3.0}, {"t": 2.0, "o": 4.0}]
    turned = jax.tree.transpose(
        outer_treedef=jax.tree.structure([0 for _ in episodes]),
        inner_treedef=jax.tree.structure(episodes[0]),
        pytree_to_transpose=episodes,
    )
    named = jax.tree_util.tree_map_with_path(
        lambda path, v: len(jax.tree_util.keystr(path)) * v, {"a": [1.0, 2.0], "b": None}
    )
    total = jax.tree.reduce(lambda a, b: a + b, [1.0, None, (2.0, {"k": 3.0})])
    return (
        grads.w, grads.b, grads.power, pair[1].first, turned["t"], turned["o"], named["a"], total,
        jax.tree.all(jax.tree.map(lambda a: a > 0, episodes)),
        len(jax.tree.leaves([1, None], is_leaf=lambda x: x is None)),
    )  # fmt: skip


@program
def batches(jax: Any, jnp: Any, jit: Any) -> Any:
    def convolve(x: Any, w: Any) -> Any:
        return jnp.stack([x[i - 1 : i + 2] @ w for i in range(1, len(x) - 1)])

    x, w = jnp.arange(5.0), jnp.asarray([2.0, 3.0, 4.0])
    xs, ws = jnp.stack([x, x + 1]), jnp.stack([w, w * 2])
    columns = jax.vmap(convolve, in_axes=1, out_axes=1)(xs.T, ws.T)
    scaled = jax.vmap(lambda p, x: p["a"] * x + p["b"], in_axes=({"a": None, "b": 0}, -1))(
        {"a": jnp.asarray(2.0), "b": jnp.asarray([1.0, 2.0])}, xs.T
    )
    named = jax.vmap(lambda x, *, w: x @ w)(ws, w=ws)
    distances = jax.vmap(jax.vmap(lambda a, b: jnp.sum((a - b) ** 2), (None, 0)), (0, None))
    return jax.vmap(convolve)(xs, ws), columns, scaled, named, distances(xs, xs)


@program
def host_functions(jax: Any, jnp: Any, jit: Any) -> Any:
    gamma = np.vectorize(math.lgamma)

    @jax.custom_jvp
    def log_gamma(x: Any) -> Any:
        return jax.pure_callback(lambda x: gamma(x), x, x, vmap_method="expand_dims")

    @log_gamma.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return log_gamma(x), (jnp.log(x) - 1 / (2 * x)) * t

    x = jnp.asarray([1.5, 2.5, 6.0])
    return log_gamma(x), jit(jax.vmap(jax.grad(log_gamma)))(x), jax.vmap(log_gamma)(x)


@program
def functional_updates(jax: Any, jnp: Any, jit: Any) -> Any:
    def prefix_products(x: Any) -> Any:
        body = lambda i, out: out.at[i].set(out[i - 1] * x[i])
        return jax.lax.fori_loop(1, 5, body, jnp.zeros(5).at[0].set(x[0]))

    x = jnp.asarray(numbers(0, 5))
    counts = jnp.zeros(3).at[jnp.asarray([0, 0, 2, 0])].add(1.0)
    masked = x.at[1:3].multiply(10.0).at[-1].min(-5.0)
    return prefix_products(x), jit(jax.grad(lambda x: prefix_products(x)[-1]))(x), counts, masked


@program
def auxiliary_data(jax: Any, jnp: Any, jit: Any) -> Any:
    def f(x: Any) -> Any:
        y = jnp.sin(x)
        return jnp.sum(y**2), {"y": y, "n": 3}

    x = jnp.asarray(numbers(0, 3))
    (value, aux), grad = jax.value_and_grad(f, has_aux=True)(x)
    grad_only, more = jax.grad(f, has_aux=True)(x)
    _, pull, third = jax.vjp(f, x, has_aux=True)
    _, pushed, fourth = jax.jvp(f, (x,), (x,), has_aux=True)
    shapes = jax.eval_shape(f, x)
    return (
        value, aux["y"], aux["n"], grad, grad_only, more["y"], pull(jnp.ones(())), third["y"],
        pushed, fourth["y"], list(shapes[1]["y"].shape),
    )  # fmt: skip


@program
def differential_equations(jax: Any, jnp: Any, jit: Any) -> Any:
    def trajectory(params: Any, start: Any, dt: Any) -> Any:
        def field(state: Any) -> Any:
            x, y = state["x"], state["y"]
            return {"x": params["a"] * x - x * y, "y": x * y - params["b"] * y}

        def midpoint(state: Any, _: Any) -> Any:
            half = jax.tree.map(lambda s, k: s + dt / 2 * k, state, field(state))
            state = jax.tree.map(lambda s, k: s + dt * k, state, field(half))
            return state, state["x"]

        return jax.lax.scan(midpoint, start, None, length=20)[1]

    params = {"a": jnp.asarray(1.1), "b": jnp.asarray(0.9)}
    start = {"x": jnp.asarray(1.0), "y": jnp.asarray(0.5)}
    loss = lambda p: jnp.sum((trajectory(p, start, 0.1) - 1.0) ** 2)
    grads = jit(jax.grad(loss))(params)
    in_a = jax.jacfwd(lambda a: trajectory({**params, "a": a}, start, 0.1))(params["a"])
    return trajectory(params, start, 0.1), grads["a"], grads["b"], in_a


@program
def gaussian_process(jax: Any, jnp: Any, jit: Any) -> Any:
    x, y = jnp.asarray(numbers(0, 6)), jnp.asarray(numbers(1, 6))

    def negative_log_likelihood(params: Any) -> Any:
        scale, noise = jnp.exp(params["scale"]), jnp.exp(params["noise"])
        kernel = lambda a, b: jnp.exp(-0.5 * ((a - b) / scale) ** 2)
        gram = jax.vmap(lambda a: jax.vmap(lambda b: kernel(a, b))(x))(x)
        factor = jnp.linalg.cholesky(gram + noise * jnp.eye(6))
        alpha = jnp.linalg.solve(factor, y)
        return 0.5 * jnp.sum(alpha**2) + jnp.sum(jnp.log(jnp.diagonal(factor)))

    params = {"scale": jnp.asarray(0.1), "noise": jnp.asarray(-1.0)}
    value, grads = jit(jax.value_and_grad(negative_log_likelihood))(params)
    curvature = jax.hessian(negative_log_likelihood)(params)
    return value, grads["scale"], grads["noise"], curvature["scale"]["noise"]


@program
def kalman_filter(jax: Any, jnp: Any, jit: Any) -> Any:
    def log_likelihood(theta: Any, observations: Any) -> Any:
        transition = jnp.stack([jnp.stack([theta[0], theta[1]]), jnp.stack([-theta[1], theta[0]])])

        def step(carry: Any, z: Any) -> Any:
            mean, cov, total = carry
            mean, cov = transition @ mean, transition @ cov @ transition.T + 0.1 * jnp.eye(2)
            spread = cov[0, 0] + 0.2
            gain, miss = cov[:, 0] / spread, z - mean[0]
            cov = cov - gain[:, None] * cov[0][None, :]
            total = total - 0.5 * (jnp.log(spread) + miss**2 / spread)
            return (mean + gain * miss, cov, total), mean

        start = (jnp.zeros(2), jnp.eye(2), jnp.asarray(0.0))
        (_, _, total), means = jax.lax.scan(step, start, observations, unroll=2)
        return total, means

    theta, z = jnp.asarray([0.9, 0.3]), jnp.asarray(numbers(0, 7))
    (value, means), grads = jit(jax.value_and_grad(log_likelihood, has_aux=True))(theta, z)
    hessian = jax.hessian(lambda t: log_likelihood(t, z)[0])(theta)
    return value, means, grads, hessian


@program
def random_numbers_of_keys(jax: Any, jnp: Any, jit: Any) -> Any:
    key = jax.random.PRNGKey(7)
    a, b, c = jax.random.split(key, 3)
    each = jax.vmap(lambda k: jax.random.normal(k, (2,)))(jax.random.split(key, 4))
    fast = jit(lambda k: jax.random.uniform(jax.random.fold_in(k, 3), (2, 2), minval=-1.0))(key)
    logits = jnp.asarray(numbers(0, 3, 4))
    return (
        a, each, fast,
        jax.random.bernoulli(a, 0.3, (5,)), jax.random.exponential(b, (3,)),
        jax.random.gumbel(c, (2,)), jax.random.categorical(a, logits),
        jax.random.permutation(b, 9), jax.random.permutation(c, logits, axis=1),
        jax.random.choice(a, 9, (4,), replace=False),
        jax.random.choice(b, logits[0], (3,), p=jnp.asarray([0.1, 0.2, 0.3, 0.4])),
    )  # fmt: skip


@program
def training_with_keys(jax: Any, jnp: Any, jit: Any) -> Any:
    def init(key: Any, sizes: Any) -> Any:
        keys = jax.random.split(key, len(sizes) - 1)
        shapes = itertools.pairwise(sizes)
        return [jax.random.normal(k, s) / s[0] ** 0.5 for k, s in zip(keys, shapes, strict=True)]

    def loss(params: Any, key: Any, x: Any) -> Any:
        for i, w in enumerate(params):
            keep = jax.random.bernoulli(jax.random.fold_in(key, i), 0.8, (w.shape[0],))
            x = jnp.tanh((x * keep) @ w)
        return jnp.mean(x**2)

    @jit
    def step(params: Any, key: Any, x: Any) -> Any:
        grads = jax.grad(loss)(params, key, x)
        return jax.tree.map(lambda p, g: p - 0.5 * g, params, grads)

    key, of_params, of_data = jax.random.split(jax.random.PRNGKey(0), 3)
    params, x = init(of_params, [3, 4, 2]), jax.random.uniform(of_data, (6, 3))
    for _ in range(4):
        key, used = jax.random.split(key)
        params = step(params, used, x)
    return params, loss(params, key, x)


def flat(tree: Any) -> list[Any]:
    """The numbers of a result, in order; dictionaries are not among them."""
    if isinstance(tree, (tuple, list)):
        return [number for each in tree for number in flat(each)]
    return np.asarray(tree, dtype=np.float64).reshape(-1).tolist()


def main() -> None:
    """Store what JAX computes."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    found = {name: flat(run(jax, jnp, jax.jit)) for name, run in PROGRAMS.items()}
    STORED.write_text(json.dumps({"jax": jax.__version__, **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()

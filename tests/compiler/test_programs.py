"""Law 8 for programs: compiled equals eager, in value and gradient, for programs that people write,
for random ones, and for inputs that are out of the ordinary.

Random programs are Python text (`random_programs`): a failure prints the program and the shapes of
its inputs.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.plan import FusedLoop
from adjoint.core import pytrees
from adjoint.toolchain import build
from tests.random_programs import Program as RandomProgram
from tests.random_programs import modes
from tests.targets import plan_of, target_with, use_target

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")

F = ad.nn.functional
pytestmark = pytest.mark.usefixtures("float64_by_default")  # programs are written without dtypes
Program = tuple[Callable[..., Any], tuple[Any, ...]]  # a function to a scalar, and its arguments


def make(*shape: int, seed: int = 0) -> ad.Tensor:
    """Numbers of both signs, in float64."""
    return ad.tensor(np.random.default_rng(seed + math.prod(shape)).standard_normal(shape))


def positive(*shape: int, seed: int = 0) -> ad.Tensor:
    return ad.tensor(np.random.default_rng(seed).uniform(0.2, 1.2, shape))


def whole(high: int, *shape: int, seed: int = 0) -> ad.Tensor:
    return ad.tensor(np.random.default_rng(seed).integers(0, high, shape))


def assert_same(got: Any, expected: Any, tolerance: float = 1e-10) -> None:
    assert pytrees.structure(got) == pytrees.structure(expected)
    pairs = zip(pytrees.leaves(got), pytrees.leaves(expected), strict=True)
    for number, (a, b) in enumerate(pairs):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), f"result {number}"
        if not a.dtype.is_differentiable:
            np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=f"result {number}")
            continue
        scale = max(1.0, float(np.abs(b.detach().numpy()).max(initial=0.0)))
        np.testing.assert_allclose(
            a.detach().numpy(),
            b.detach().numpy(),
            rtol=0,
            atol=tolerance * scale,
            err_msg=f"result {number}",
        )


# -- networks -------------------------------------------------------------------------------------


def perceptron(x: Any, y: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    hidden = F.gelu(F.linear(x, w1, b1))
    return F.mse_loss(F.linear(hidden, w2, b2), y)


def attention(x: Any, w_qkv: Any, w_out: Any, gain: Any, bias: Any) -> Any:
    """A block of four heads with a causal mask, before a layer norm and a residual."""
    batch, length, width = x.shape
    h = F.layer_norm(x, (width,), gain, bias)
    q, k, v = (
        t.reshape(batch, length, 4, -1).transpose(1, 2) for t in (h @ w_qkv).chunk(3, dim=-1)
    )
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    future = ad.ones(length, length, dtype=ad.bool).triu(1)
    mixed = scores.masked_fill(future, -math.inf).softmax(-1) @ v
    return ((x + mixed.transpose(1, 2).reshape(batch, length, width) @ w_out) ** 2).mean()


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    return (
        (centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gain + bias)
        .sin()
        .sum()
    )


def lstm(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
    def step(state: Any, now: Any) -> Any:
        h, c = state
        i, f, g, o = (now @ w + h @ u + b).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return (h, c), h

    (h, c), outputs = ad.scan(step, (h, c), x)
    return (outputs**2).mean() + (h * c).sum()


def gru(x: Any, h: Any, w: Any, u: Any) -> Any:
    def step(h: Any, now: Any) -> Any:
        r, z, n = (now @ w).chunk(3, -1)
        hr, hz, hn = (h @ u).chunk(3, -1)
        z = (z + hz).sigmoid()
        h = (1 - z) * (n + (r + hr).sigmoid() * hn).tanh() + z * h
        return h, h.sum()

    h, sums = ad.scan(step, h, x, reverse=True)
    return h.square().sum() + sums.prod()


def embedding_cross_entropy(table: Any, w: Any, words: Any, targets: Any) -> Any:
    h = F.embedding(words, table).mean(1).tanh()
    return F.cross_entropy(h @ w, targets)


def convolution(image: Any, filters: Any) -> Any:
    """A convolution as unfolded windows times filters, then a pool of extrema."""
    windows = image.unfold(1, 3, 1).unfold(2, 3, 1)
    y = ad.einsum("chwij,fcij->fhw", windows, filters).relu()
    return y.unfold(1, 2, 2).unfold(2, 2, 2).amax((3, 4)).sum()


# -- statistics -----------------------------------------------------------------------------------


def kalman(a: Any, c: Any, q: Any, r: Any, y: Any) -> Any:
    """The log-likelihood of a linear-Gaussian model."""
    n, m = a.shape[0], c.shape[0]
    process, noise = q @ q.mT + ad.eye(n), r @ r.mT + ad.eye(m)

    def step(state: Any, y: Any) -> Any:
        mean, p = state
        mean, p = a @ mean, a @ p @ a.mT + process
        factor = ad.linalg.cholesky(c @ p @ c.mT + noise)
        error = ad.linalg.solve_triangular(factor, (y - c @ mean)[:, None], upper=False)
        gain = ad.linalg.solve_triangular(factor, c @ p, upper=False)
        score = -0.5 * error.square().sum() - factor.diagonal().log().sum()
        return (mean + (gain.mT @ error)[:, 0], p - gain.mT @ gain), score

    start = (ad.zeros(n), ad.eye(n))
    return ad.scan(step, start, y)[1].sum()


def hidden_markov(start: Any, transition: Any, emission: Any, observed: Any) -> Any:
    """The forward algorithm in logarithms."""
    log_a = transition.log_softmax(1)
    log_b = emission.log_softmax(1)

    def step(alpha: Any, symbol: Any) -> Any:
        return (alpha[:, None] + log_a).logsumexp(0) + log_b[:, symbol], None

    alpha, _ = ad.scan(step, start.log_softmax(0) + log_b[:, observed[0]], observed[1:])
    return alpha.logsumexp(0)


def gaussian_process(x: Any, y: Any, log_length: Any, log_noise: Any) -> Any:
    distance = (x[:, None, :] - x[None, :, :]).square().sum(-1)
    kernel = (-0.5 * distance / (2 * log_length).exp()).exp()
    factor = ad.linalg.cholesky(kernel + (log_noise.exp() + 0.1) * ad.eye(x.shape[0]))
    z = ad.linalg.solve_triangular(factor, y[:, None], upper=False)
    return 0.5 * z.square().sum() + factor.diagonal().log().sum()


def mixture(x: Any, weights: Any, means: Any, spreads: Any) -> Any:
    z = (x[:, None, :] - means) / spreads.exp()
    scores = -0.5 * z.square().sum(-1) - spreads.sum(-1) + weights.log_softmax(0)
    return -scores.logsumexp(1).mean()


def logistic(users: Any, items: Any, bias: Any, u: Any, i: Any, clicked: Any) -> Any:
    """Logistic regression on the products of rows that are looked up."""
    score = (users[u] * items[i]).sum(1) + bias.gather(0, i)
    return F.binary_cross_entropy_with_logits(score, clicked) + 0.01 * users.square().sum()


def ranking(scores: Any, relevance: Any) -> Any:
    """A pairwise loss on scores, and one on the sorted ones."""
    pairs = F.softplus(scores[None, :] - scores[:, None]) * (relevance[:, None] > relevance)
    values, order = scores.sort(descending=True)
    return pairs.sum() + (values * relevance[order]).cumsum(0).mean() + scores.topk(3).values.prod()


# -- physics --------------------------------------------------------------------------------------


def runge_kutta(u: Any, k: Any) -> Any:
    def slope(u: Any) -> Any:
        x, y, z = u
        return ad.stack([k[0] * (y - x), x * (k[1] - z) - y, x * y - k[2] * z])

    def step(u: Any, _: Any) -> Any:
        a = slope(u)
        b = slope(u + 0.005 * a)
        c = slope(u + 0.005 * b)
        d = slope(u + 0.01 * c)
        u = u + 0.01 / 6 * (a + 2 * b + 2 * c + d)
        return u, u.sum()

    u, path = ad.scan(step, u, None, length=25)
    return u.square().sum() + path.mean()


def bodies(position: Any, velocity: Any, mass: Any) -> Any:
    """Leapfrog steps of bodies that attract one another, and their energy."""

    def acceleration(x: Any) -> Any:
        d = x[None, :, :] - x[:, None, :]
        return (mass[None, :, None] * d * (d.square().sum(-1, keepdim=True) + 0.1) ** -1.5).sum(1)

    def step(_: Any, state: Any) -> Any:
        x, v = state
        v = v + 0.01 * acceleration(x)
        return x + 0.02 * v, v + 0.01 * acceleration(x + 0.02 * v)

    x, v = ad.fori_loop(0, 6, step, (position, velocity))
    return 0.5 * (mass[:, None] * v.square()).sum() + x.norm(dim=1).sum()


def diffusion_fixed(u: Any, kappa: Any) -> Any:
    """Explicit steps; the boundary stays, since only the inside is written."""

    def step(u: Any, _: Any) -> Any:
        u = u.clone()
        u[1:-1, 1:-1] += kappa * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        )
        return u, None

    return ad.scan(step, u, None, length=7)[0].square().sum()


def diffusion_periodic(u: Any, kappa: Any) -> Any:
    for _ in range(3):
        around = u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1)
        u = u + kappa * (around - 4 * u)
    return (u * u.roll(2, 1)).sum()


def diffusion_padded(u: Any, kappa: Any) -> Any:
    """Zero outside, then mirrored at the boundary."""
    p = F.pad(u, (1, 1, 1, 1))
    u = u + kappa * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u)
    left, right = u[:, 1:2], u[:, -2:-1]
    q = ad.cat([left, u, right], 1)
    return (u + kappa * (q[:, 2:] - 2 * u + q[:, :-2])).exp().mean()


def advection(u: Any, speed: Any) -> Any:
    """Upwind differences, which depend on the sign of the speed."""
    for _ in range(4):
        behind = u - ad.cat([u[-1:], u[:-1]])
        ahead = ad.cat([u[1:], u[:1]]) - u
        u = u - 0.1 * speed * ad.where(speed > 0, behind, ahead)
    return (u**3).sum()


# -- numerical mathematics ------------------------------------------------------------------------


def newton(a: Any, x: Any) -> Any:
    """x² = a by as many steps as it takes, differentiated through one more."""

    def going(state: Any) -> Any:
        x, count = state
        return ((x * x - a.detach()).abs().amax() > 1e-12) & (count < 50)

    def step(state: Any) -> Any:
        x, count = state
        return 0.5 * (x + a.detach() / x), count + 1

    x, _ = ad.while_loop(going, step, (x.detach(), ad.tensor(0)))
    return (0.5 * (x + a / x)).sum()


def sparse_product(values: Any, x: Any, rows: Any, columns: Any) -> Any:
    """A sparse matrix by its coordinates, twice applied."""
    y = ad.zeros_like(x).index_add(0, rows, values * x[columns])
    z = ad.zeros_like(x).scatter_add(0, columns, values * y.tanh()[rows])
    return (z * x).sum()


def fourier(x: Any, gain: Any) -> Any:
    spectrum = ad.fft.rfft(x) * gain
    return (ad.fft.irfft(spectrum, n=x.shape[-1]) * x).sum() + spectrum.abs().square().sum()


def eigenvalues(a: Any, b: Any) -> Any:
    w, v = ad.linalg.eigh(a @ a.mT + ad.eye(a.shape[0]))
    return (w.log() * b).sum() + (v.mT @ b).abs().sum() + (w * 2).exp().log().sum()


def exponential(a: Any, x: Any) -> Any:
    """Scaling and squaring of a Taylor polynomial, and the library's own."""
    scaled = a / 8
    term = total = ad.eye(a.shape[0])
    for k in range(1, 9):
        term = term @ scaled / k
        total = total + term
    for _ in range(3):
        total = total @ total
    return (total @ x).sum() + (ad.linalg.matrix_exp(a * 0.1) @ x).square().sum()


def spline(x: Any, knots: Any, values: Any, slopes: Any) -> Any:
    """Cubic Hermite interpolation: the piece is found by searchsorted."""
    k = (ad.searchsorted(knots, x) - 1).clamp(0, knots.shape[0] - 2)
    width = knots[k + 1] - knots[k]
    t = (x - knots[k]) / width
    a, b = values[k], values[k + 1]
    s, e = slopes[k] * width, slopes[k + 1] * width
    return (a + t * (s + t * (3 * (b - a) - 2 * s - e + t * (s + e - 2 * (b - a))))).sum()


def branches(x: Any, w: Any) -> Any:
    y = ad.cond(x.sum() > 0, lambda u: (u * w).sin(), lambda u: u - w, x)
    z = ad.cond(x.sum() <= 0, lambda u: (u * w).sin(), lambda u: (u - w).exp(), x)
    return (y * z).sum()


PROGRAMS: dict[str, tuple[Program, tuple[int, ...]]] = {
    "perceptron": (
        (perceptron, (make(9, 5), make(9, 2), make(17, 5), make(17), make(2, 17), make(2))),
        (2, 3, 4, 5),
    ),
    "attention": (
        (attention, (make(2, 7, 16), make(16, 48), make(16, 16), make(16), make(16, seed=1))),
        (0, 1, 2, 3, 4),
    ),
    "layer norm": ((layer_norm, (make(33, 17), make(17), make(17, seed=1))), (0, 1, 2)),
    "lstm": (
        (lstm, (make(6, 3, 4), make(3, 5), make(3, 5, seed=1), make(4, 20), make(5, 20), make(20))),
        (0, 1, 2, 3, 4, 5),
    ),
    "gru": ((gru, (make(5, 2, 3), make(2, 4), make(3, 12), make(4, 12))), (0, 1, 2, 3)),
    "embedding and cross entropy": (
        (
            embedding_cross_entropy,
            (make(20, 8), make(8, 6), whole(20, 10, 4), whole(6, 10, seed=1)),
        ),
        (0, 1),
    ),
    "convolution": ((convolution, (make(2, 11, 12), make(3, 2, 3, 3))), (0, 1)),
    "kalman": (
        (kalman, (make(3, 3) * 0.3, make(2, 3), make(3, 3, seed=1), make(2, 2), make(8, 2))),
        (0, 1, 2, 3, 4),
    ),
    "hidden markov": (
        (hidden_markov, (make(5), make(5, 5), make(5, 7), whole(7, 12))),
        (0, 1, 2),
    ),
    "gaussian process": (
        (gaussian_process, (make(17, 2), make(17), make() * 0.1, make(seed=1) * 0.1)),
        (0, 1, 2, 3),
    ),
    "mixture": ((mixture, (make(50, 3), make(4), make(4, 3), make(4, 3, seed=1))), (0, 1, 2, 3)),
    "logistic": (
        (
            logistic,
            (make(9, 4), make(8, 4), make(8), whole(9, 30), whole(8, 30), positive(30)),
        ),
        (0, 1, 2),
    ),
    "ranking": ((ranking, (make(11), positive(11))), (0, 1)),
    "runge-kutta": ((runge_kutta, (positive(3), positive(3, seed=1))), (0, 1)),
    "bodies": ((bodies, (make(6, 3), make(6, 3, seed=1), positive(6))), (0, 1, 2)),
    "diffusion, fixed": ((diffusion_fixed, (make(12, 9), positive())), (0, 1)),
    "diffusion, periodic": ((diffusion_periodic, (make(12, 9), positive())), (0, 1)),
    "diffusion, padded": ((diffusion_padded, (make(12, 9), positive())), (0, 1)),
    "advection": ((advection, (make(33), make(33, seed=1))), (0, 1)),
    "newton": ((newton, (positive(7), positive(7, seed=1))), (0,)),
    "sparse product": (
        (sparse_product, (make(40), make(12), whole(12, 40), whole(12, 40, seed=1))),
        (0, 1),
    ),
    "fourier": ((fourier, (make(4, 16), make(9))), (0, 1)),
    "eigenvalues": ((eigenvalues, (make(5, 5), positive(5))), (0, 1)),
    "exponential": ((exponential, (make(6, 6) * 0.5, make(6))), (0, 1)),
    "spline": (
        (spline, (make(40), ad.linspace(-3, 3, 9, dtype=ad.float64), make(9), make(9, seed=1))),
        (0, 2, 3),
    ),
    "branches": ((branches, (make(8), make(8, seed=1))), (0, 1)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_and_its_gradient(name: str) -> None:
    (function, arguments), argnums = PROGRAMS[name]
    both = ad.value_and_grad(function, argnums=argnums)
    compiled = ad.compile(both)
    assert_same(compiled(*arguments), both(*arguments))
    other = [a if a.dtype is not ad.float64 else a * 0.9 + 0.01 for a in arguments]
    assert_same(compiled(*other), both(*other))
    assert len(compiled.programs) == 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_backward_through_a_compiled_program(name: str) -> None:
    (function, arguments), argnums = PROGRAMS[name]
    leaves = [a.clone().requires_grad_() if k in argnums else a for k, a in enumerate(arguments)]
    wanted = [leaves[k] for k in argnums]
    got = ad.autograd.grad(ad.compile(function)(*leaves), wanted)
    assert_same(list(got), list(ad.autograd.grad(function(*leaves), wanted)))


def test_program_with_random_numbers() -> None:
    """New numbers at each call, the same ones after the same seed."""

    def noisy(x: Any) -> Any:
        noise = ad.randn(4, 5) * 0.1
        keep = ad.rand(4, 5) > 0.5
        return ((x + noise) * keep).sum(1), noise, F.dropout(x, 0.5)

    compiled = ad.compile(noisy)
    x = make(4, 5)
    ad.manual_seed(3)
    first, second = compiled(x), compiled(x)
    ad.manual_seed(3)
    assert_same(compiled(x), first)
    assert not np.array_equal(first[1].numpy(), second[1].numpy())
    ad.manual_seed(3)
    assert_same(noisy(x), first)


# -- random programs ------------------------------------------------------------------------------

SHARED = 5  # random programs in one compiled function
SEEDS = range(150)
THREADED = range(1000, 1016)


def difference(got: Any, expected: Any) -> str:
    """What differs between the results of two runs; nothing if they are the same."""
    try:
        assert_same(got, expected, tolerance=1e-9)
    except AssertionError as error:
        return str(error)
    return ""


def compare(programs: list[RandomProgram]) -> None:
    """Run all modes of some programs, compiled as one function, twice, and in eager mode."""
    parts = [(p, name, *m) for p in programs for name, m in modes(p).items()]

    def every(given: list[list[Any]]) -> list[Any]:
        return [f(*v) for (*_, f, _), v in zip(parts, given, strict=True)]

    given = [arguments for *_, arguments in parts]
    with np.errstate(all="ignore"):
        expected = every(given)
    compiled = ad.compile(every)
    for call in ("first", "second"):
        for (program, name, *_), ours, theirs in zip(parts, compiled(given), expected, strict=True):
            if wrong := difference(ours, theirs):
                pytest.fail(f"{name}, {call} call: {wrong}\n{program}", pytrace=False)


@pytest.mark.parametrize("first", SEEDS[::SHARED])
def test_random_programs(first: int) -> None:
    compare([RandomProgram(seed) for seed in range(first, first + SHARED)])


@pytest.mark.parametrize("first", THREADED[::4])
def test_random_programs_that_threads_share(first: int) -> None:
    """Large enough for two threads where OMP_NUM_THREADS allows them."""
    compare([RandomProgram(seed, 100_000, threads=True) for seed in range(first, first + 4)])


# -- programs that went wrong once ----------------------------------------------------------------


def written(x: Any) -> Any:
    v = x.unflatten(0, (1, -1)).clone()
    v.diagonal(0, 0, 1).fill_(1.0)
    return v


def written_to_nothing(x: Any) -> Any:
    v = x * 2
    v[1:1:3] = 0.5
    return F.pad(v, (0, 1), value=-0.2) * 3


def written_and_read(x: Any) -> Any:
    v = x * 1.5
    v[1:6:3] *= v[1:6:3].clone().sin()
    return ad.zeros(7).index_add(0, ad.tensor([3]), v.index_select(0, ad.tensor([3]))) + v


def norm_of_written(x: Any) -> Any:
    """What is saved for the gradient was written to before it was saved."""
    v = x * 1.5
    v[1:6:3] *= v[1:6:3].clone().sin()
    return ((v + 0).norm() * v).sum() + v.norm() + ad.hypot(v, x + 2).sum()


def counted(x: Any) -> Any:
    """A loop whose number of turns is not known while tracing."""
    start = (ad.tensor(0), x)
    return ad.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, (c[1] * 0.8).sin()), start)[1]


def normalised_differences(x: Any) -> Any:
    """More accumulators than fit on the stack, each thread having its own."""
    s = (x[:, None] - x[None, :] * 0.5).sin()
    return (s / (s.square().sum(1, keepdim=True) + 1) * s.cos().flip(0)).sum()


def pulled_back_in_a_branch(x: Any) -> Any:
    """The turns of a loop are handed on to a branch and to other loops."""
    out, pull = ad.vjp(counted, x)
    seed = ad.ones_like(out)
    return (
        ad.cond(x.sum() > 0, lambda: pull(seed)[0] * 2, lambda: x),
        ad.scan(lambda c, s: (c + pull(seed * s)[0], c), x, x)[0],
        ad.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, pull(c[1])[0]), (ad.tensor(0), x)),
    )


SMALL = ad.tensor([0.3, -1.2, 0.5, 2.0, -0.1, 0.9, 1.4], dtype=ad.float64)
TRUTH = ad.tensor([True, False, True, True, False, False, True])
EYE = ad.eye(3, dtype=ad.float64)
REGRESSIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "turns in a branch": (pulled_back_in_a_branch, (SMALL,)),
    "a reshape as operand of a callback": (lambda x: x.exp()[:, None].sort(0).values, (SMALL,)),
    "a reshape as operand of a solver": (lambda a: ad.linalg.solve(a, a[0]), (EYE + 0.2,)),
    "a flattened input reduced": (lambda x: (x.prod(), x.reshape(-1).amax(0)), (make(2, 3),)),
    "dimensions joined, then reduced": (lambda x: x.reshape(4, 2).sum(0), (make(2, 2, 2),)),
    "as_strided": (lambda x: (x * 2).as_strided((3, 2), (1, 2), 1), (make(3, 4),)),
    "numbers to truth": (lambda x, n: (x.bool(), n.bool()), (SMALL, ad.tensor([256, 0, 3]))),
    "sums of truth": (lambda b: (b + b, (b + b).sum(), (b | b) == b, b * b, b.any()), (TRUTH,)),
    "a number other than 1 as truth": (lambda b: ad.full((7,), 2, dtype=ad.bool) | b, (TRUTH,)),
    "no dimension to reduce": (
        lambda b, x: (ad.ops.any.dims(x, ()), ad.ops.all.dims(b, ())),
        (TRUTH, SMALL * TRUTH),
    ),
    "sum of truth along a dimension of one": (lambda b: b[:, None].sum(1), (TRUTH,)),
    "large whole numbers": (
        lambda n: (n.abs(), n**3, n // 3, n % 7, n * n),
        (ad.tensor([2**60 + 1, -(2**60) - 1, 3**30, -5]),),
    ),
    "whole powers": (lambda n, m: n**m, (ad.tensor([2, 3, 1, -2]), ad.tensor([61, 39, 5, 3]))),
    "products that cancel": (
        lambda x, y, z, w: (x * y - z * w).sqrt(),
        (SMALL.abs(), SMALL.abs() + 1, SMALL.abs().clone(), SMALL.abs() + 1),
    ),
    "a view that is none": (
        lambda x: (ad.ops._neg_view(x), ad.ops._neg_view(x.sum()), ad.ops._neg_view(x[0])),
        (SMALL,),
    ),
    "gradient of a loop": (ad.grad(lambda x: counted(x).sum()), (SMALL,)),
    "gradient of a loop over nothing": (ad.grad(lambda x: counted(x).sum()), (SMALL[:0],)),
    "a put into a reshape": (written, (SMALL,)),
    "a put of nothing": (written_to_nothing, (SMALL,)),
    "a put that is read": (written_and_read, (SMALL,)),
    "an index into a 0-d tensor": (
        lambda x: (x.index_select(0, ad.tensor([0])), x.take(ad.tensor([0, 0])), x.flip(0)),
        (make(),),
    ),
    "a gather along a dimension of one": (
        lambda x, i: (x[:, None].exp()[:, i] - 1.0) * x[:, None],
        (SMALL, ad.tensor([0])),
    ),
    "a gather from a reshape": (
        lambda x, i: F.linear(x, x[0, :, :1].repeat(3, 2)).index_select(1, i).tanh(),
        (make(5, 4, 2), ad.tensor([0, 1])),
    ),
    "gradient of a product by index": (
        ad.grad(lambda x, i: x[:3].scatter_reduce(0, i, x, "prod").sum()),
        (SMALL, ad.tensor([0, 1, 1, 2, 0, 2, 2])),
    ),
    "gradient of a fill at negative places": (
        ad.grad(lambda x: (x.index_fill(0, ad.tensor([0, -3]), x[1]) ** 2).sum()),
        (SMALL,),
    ),
    "forward mode of a write": (
        lambda x: ad.jvp(lambda v: v.slice_scatter(v[:2] * v[2:4], 0, 1, 3), (x,), (x,)),
        (SMALL,),
    ),
    "gradient of a norm after a write": (ad.grad(norm_of_written), (SMALL,)),
    "curvature of a norm after a write": (
        lambda x: (
            ad.jvp(ad.grad(norm_of_written), (x,), (x * 0.2,)),
            ad.hessian(norm_of_written)(x),
        ),
        (SMALL,),
    ),
    "many pieces": (lambda x: ad.cat([x * k for k in range(300)]), (SMALL,)),
    "what a factor says": (lambda a: list(ad.linalg.cholesky_ex(a)), (EYE + 0.1,)),
    "double, float and double": (lambda x: ((x + x).float().double(), x + x), (make(2, 17),)),
    "more sums than fit on the stack": (ad.value_and_grad(normalised_differences), (make(1030),)),
    "extrema over rows": (
        lambda x: (x.exp().amin(0), x.sin().amax(0), x.mean()),
        (make(7, 1025, 5),),
    ),
}


@pytest.mark.parametrize("name", REGRESSIONS)
def test_program_that_went_wrong_once(name: str) -> None:
    function, arguments = REGRESSIONS[name]
    compiled = ad.compile(function)
    with np.errstate(all="ignore"):
        expected = function(*arguments)
    for _ in range(2):
        results = compiled(*arguments)
        assert_same(results, expected)
        for result in pytrees.leaves(results):
            if result.dtype is ad.bool:
                assert np.ascontiguousarray(result.numpy()).view(np.uint8).max(initial=0) <= 1


ROWS_TO_SHARE: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "in whole vectors": (lambda x: x.sin().exp(), (25,)),
    "sums in whole vectors": (lambda x: (x.sin().sum(), x.cos()), (25,)),
    "sums of rows": (lambda x: (x.sin().sum(1), x.exp().sum(0), x.tanh().mean()), (7, 25)),
    "extrema": (lambda x: (x.sin().amax(), x.sin().argmax(0), x.amin(1)), (5, 9)),
    "transposed": (lambda x: (x.mT.exp() * 2, x.sum()), (40, 70)),
    "totals": (lambda x: (x.cumsum(0), x.sin().cumsum(1)), (6, 9)),
}


@pytest.mark.usefixtures("threads_restored")
def test_threads_share_rows_and_do_none_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    one = target_with(threads={"work": 1, "awake": 1})  # work that is worth a second thread
    use_target(monkeypatch, one)
    given = [make(*shape) for _, shape in ROWS_TO_SHARE.values()]

    def every(given: list[Any]) -> Any:
        return [f(x) for (f, _), x in zip(ROWS_TO_SHARE.values(), given, strict=True)]

    for threads in (3, 1, 8):
        ad.set_num_threads(threads)
        assert_same(ad.compile(every)(given), every(given))


@pytest.mark.parametrize("limit", ["OMP_DYNAMIC=true", "OMP_THREAD_LIMIT=1"])
def test_fewer_threads_than_asked_for_do_all_the_work(limit: str) -> None:
    program = (
        "import numpy as np; import adjoint as ad; x = ad.tensor(np.ones((2000, 1000)));"
        "got = ad.compile(lambda x: (x.sin().sum(), x.cos().sum(0)))(x);"
        "wanted = 2e6 * np.sin(1), 2e3 * np.cos(1);"
        "print([np.allclose(t.numpy(), w) for t, w in zip(got, wanted)])"
    )
    name, _, value = limit.partition("=")
    env = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**env, name: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "[True, True]", done.stderr


FORKED = """
import os, signal
import adjoint as ad
x = ad.ones(600, 600, dtype=ad.float64)
f = ad.compile(lambda x: (x.sin().sum(), (x @ x).sum()))
def found():
    return [float(v) for v in (*f(x), (x * 2).exp().sum())]
wanted = found()  # by two threads
child = os.fork()
if child:
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.alarm(60)  # nobody else would end it
for threads in (None, 2):
    if threads:
        ad.set_num_threads(threads)
    if not all(abs(a - b) < 1e-6 * abs(b) for a, b in zip(found(), wanted)):
        os._exit(1)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_was_forked_does_not_wait_for_threads_of_its_parent() -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", FORKED], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# -- inputs that are out of the ordinary ----------------------------------------------------------

INDEXED: dict[str, Callable[[Any, Any], Any]] = {
    "index": lambda x, i: x[i] * 2,
    "write": lambda x, i: x.index_put((i,), x[0]),
    "index_select": lambda x, i: x.index_select(0, i).exp(),
    "gather": lambda x, i: x.gather(0, i[:, None].expand(-1, 2)),
    "scatter": lambda x, i: x.scatter(0, i[:, None], 1.5),
    "scatter_add": lambda x, i: x.scatter_add(0, i[:, None], x[:2, :1]),
    "index_add": lambda x, i: x.index_add(0, i, x[:2]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:2]),
    "take": lambda x, i: x[:, 0].take(i),
    "embedding": lambda x, i: F.embedding(i, x),
    "one_hot": lambda x, i: F.one_hot(i, 5) * x[0, 0],
    "cross_entropy": lambda x, i: F.cross_entropy(x[:2, :5], i),
    "scan": lambda x, i: ad.scan(lambda c, k: (c + x[k[None]], None), x[:1], i)[0],
    "gradient": lambda x, i: ad.grad(lambda x: (x[i] ** 2).sum())(x),
    "after a callback": lambda x, i: x.sort(0).values[i].sort(1).values + 1,
}


def error_of(function: Callable[..., Any], *args: Any) -> tuple[type, str] | None:
    try:
        function(*args)
    except Exception as error:
        return type(error), str(error)
    return None


@pytest.mark.parametrize("wrong", [[0, 5], [-1, 0], [-6, 1], [2**40, 0]], ids=str)
@pytest.mark.parametrize("name", INDEXED)
def test_index_out_of_range_raises_the_error_of_eager(name: str, wrong: list[int]) -> None:
    """The same class and words; and the function works afterwards."""
    function, x = INDEXED[name], make(5, 8)
    compiled = ad.compile(function)
    good, bad = ad.tensor([4, 1]), ad.tensor(wrong)
    for _ in range(2):
        assert error_of(compiled, x, bad) == error_of(function, x, bad)
        assert_same(compiled(x, good), function(x, good))


MATRICES: dict[str, tuple[Callable[..., Any], Any]] = {
    "cholesky": (lambda a: ad.linalg.cholesky(a) * 2, -1.0),
    "cholesky of a batch": (lambda a: ad.linalg.cholesky(ad.stack([a * a * 0 + ad.eye(3), a])), -1),
    "gradient of cholesky": (ad.grad(lambda a: ad.linalg.cholesky(a).sum()), -1.0),
    "cholesky in a loop": (
        lambda a: ad.fori_loop(0, 2, lambda _, b: ad.linalg.cholesky(a) + b, a), -1.0
    ),
    "solve": (lambda a: ad.linalg.solve(a, a[0]) * 2, 0.0),
    "inverse": (lambda a: ad.linalg.inv(a) * 2, 0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", MATRICES)
def test_matrix_without_a_factor_raises_the_error_of_eager(name: str) -> None:
    function, factor = MATRICES[name]
    compiled = ad.compile(function)
    good = ad.eye(3) * 2 + 0.1
    for _ in range(2):
        assert error_of(compiled, good * factor) == error_of(function, good * factor) is not None
        assert_same(compiled(good), function(good))


def test_wrong_shapes_raise_the_error_of_eager() -> None:
    function = lambda x, y: (x + y).sum()
    compiled = ad.compile(function)
    compiled(make(3, 4), make(4))
    with pytest.raises(ad.AdjointError) as eager:
        function(make(3, 4), make(3))
    with pytest.raises(type(eager.value)):
        compiled(make(3, 4), make(3))
    assert_same(compiled(make(3, 4), make(4)), function(make(3, 4), make(4)))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "pointwise": lambda x: (x.sin() * 2 + x).sum(1),
    "product": lambda x: x @ x.mT,
    "calls back": lambda x: ad.sort(x, 1).values * 2,
    "itself": lambda x: x,
    "views": lambda x: (x.t(), x[1:], x.flip(1)[:, ::2]),
    "loop": lambda x: ad.scan(lambda c, s: (c + s, c), x.sum(0), x),
    "put": lambda x: x.slice_scatter(x[:, :2] * 2, 1, 0, 4, 2),
}


def layouts() -> dict[str, Any]:
    base = np.random.default_rng(0).standard_normal((9, 10))
    frozen = base[:4, :6].copy()
    frozen.setflags(write=False)
    return {
        "transposed": base[:6, :4].T,
        "backwards": base[7:3:-1, 5::-1],
        "with steps": base[:8:2, ::2][:, :4],
        "repeated": np.broadcast_to(base[0], (4, 10)),
        "by columns": np.asfortranarray(base[:4]),
        "read-only": frozen,
        "no rows": base[:0],
        "big-endian": base[:4].astype(">f8"),
    }


@pytest.mark.parametrize("layout", layouts())
@pytest.mark.parametrize("name", FUNCTIONS)
def test_layout_of_an_input_does_not_matter(name: str, layout: str) -> None:
    """Tensors and arrays of any layout; they are left as they were, and no result shares them."""
    function, array = FUNCTIONS[name], layouts()[layout]
    native = np.array(array, np.float64)
    before = native.copy()
    compiled = ad.compile(function)
    given = ad.from_numpy(array) if layout != "big-endian" and array.flags.writeable else array
    for argument in (given, ad.tensor(native), array):
        results = compiled(argument)
        assert_same(results, function(ad.tensor(native)))
        for result in pytrees.leaves(results):
            assert not np.shares_memory(result.numpy(), array)
    np.testing.assert_array_equal(np.asarray(array, np.float64), before)


SHARING: dict[str, Callable[[Any], Any]] = {
    "one value twice": lambda x: (lambda y: (y, y))(x * 2),
    "views of one value": lambda x: (lambda y: (y, y.t(), y[1:], y.reshape(-1)))(x.exp()),
    "inputs": lambda x: (x, x, x.t(), x.reshape(-1)),
    "constants": lambda x: (ad.arange(4.0), ad.zeros(3), ad.eye(3), ad.zeros(3), x * 0),
    "results of a callback": lambda x: (lambda s: (s.values, s.values, s.values[1:]))(x.sort(1)),
    "a loop": lambda x: (lambda c, y: (c, y, y[-1]))(*ad.scan(lambda c, t: (c + t,) * 2, x[0], x)),
    "a carry that stays": lambda x: ad.scan(lambda c, t: (c, t), x[0], x),
    "a loop that does nothing": lambda x: ad.while_loop(lambda c: c.sum() > 99, lambda c: -c, x),
    "a branch": lambda x: (ad.cond(x.sum() < 99, lambda u: u, lambda u: u * 2, x), x),
    "gradients": ad.value_and_grad(lambda x: (x * x).sum()),
    "an expanded value": lambda x: (lambda y: (y.expand(3, 6), y))(x.sum(0)),
    "a row": lambda x: (lambda y: (y[1:], y[:1]))(x.exp()),
    "a constant from outside": lambda x: (x * 2, TRUTH, TRUTH[:2]),
    "large results": lambda x: (lambda y: (y, y, y.sum(0)))(x[:, :, None] * ad.ones(9000)),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARING)
def test_results_share_no_memory(name: str) -> None:
    """Results share memory with no other result, no input, and no earlier call's result.

    All are overwritten here, and the next call is right.
    """
    function = SHARING[name]
    compiled = ad.compile(function)
    array = np.random.default_rng(0).standard_normal((4, 6))
    expected = [t.numpy().copy() for t in pytrees.leaves(function(ad.tensor(array)))]
    x = ad.from_numpy(array)
    before, held = array.copy(), [array]
    for _ in range(3):
        results = [t.numpy() for t in pytrees.leaves(compiled(x))]
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-12)
            assert not any(np.shares_memory(result, other) for other in held)
            held.append(result)
        for result in results:
            result[...] = 77
        np.testing.assert_array_equal(array, before)


def test_memory_of_a_large_result_is_not_reused_while_a_view_lives() -> None:
    compiled = ad.compile(lambda x: x * 2)
    x = make(100_000)
    for look in (
        lambda t: t[:5].numpy(),
        lambda t: t.numpy()[:5],
        lambda t: memoryview(t.numpy())[:5],
    ):
        part = look(compiled(x))
        compiled(x + 1)
        np.testing.assert_array_equal(np.asarray(part), x.numpy()[:5] * 2)
    leaf = compiled(x).requires_grad_()
    loss = (leaf * leaf).sum()
    compiled(x + 1)
    np.testing.assert_array_equal(ad.autograd.grad(loss, leaf)[0].numpy(), 4 * x.numpy())


def test_threads_call_one_function_with_several_shapes() -> None:
    function = lambda x: (x @ x).sin().sort(1).values.cumsum(0) * x.sum()
    compiled, wrong = ad.compile(function), list[str]()

    def work(number: int) -> None:
        for call in range(20):
            x = make(*((8, 8) if number % 2 else (5, 5)), seed=100 * number + call)
            wrong.extend(filter(None, [difference(compiled(x), function(x))]))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert not wrong


EXTREME: dict[str, Callable[[Any], Any]] = {
    "amax": lambda x: (x.amax(), x.amax(0), x.amax(1, keepdim=True)),
    "amin": lambda x: (x.amin(), x.amin(0), x.amin(1, keepdim=True)),
    "max and min": lambda x: (x.max(1), x.min(0), x.argmax(1), x.argmin(0)),
    "where": lambda x: (ad.where(x > 0, x, x * 2), ad.where(x == x, x, 0.0)),
    "maximum": lambda x: (ad.maximum(x, x.flip(1)), ad.minimum(x, x.flip(1))),
    "fmax": lambda x: (ad.fmax(x, x.flip(1)), ad.fmin(x, x.flip(1))),
    "clamp": lambda x: (x.clamp(-1, 1), x.clamp_min(0.5), x.clamp_max(0.5), x.relu()),
    "sums": lambda x: (x.sum(), x.sum(0), x.mean(1), x.prod(0), x.cumsum(1), x.cumprod(0)),
    "softmax": lambda x: (x.softmax(1), x.log_softmax(0), x.logsumexp(1)),
    "comparisons": lambda x: (x > 0, x >= x, x == x, x != x, x < 1, x <= -0.0),
    "tests": lambda x: (x.isnan(), x.isinf(), x.isfinite(), x.any(), x.bool(), x.all(0)),
    "signs": lambda x: (x.sign(), x.abs(), -x, ad.copysign(x * 0 + 1, x), x.signbit(), x * -1),
    "functions": lambda x: (x.sqrt(), 1 / x, x.log(), x.exp(), x.tanh(), x.sigmoid(), x.floor()),
    "powers": lambda x: (x**2, x**0.5, x**-1, x**3, 2**x, x**0),
    "numbers": lambda x: (x.nan_to_num(), x.nansum(), x.var(1), x.norm(), x.sin(), x.atan()),
    "gradient of amax": ad.grad(lambda x: x.amax(0).sum() + x.amin(1).sum()),
    "gradient of where": ad.grad(lambda x: ad.where(x > 0, x.sqrt(), 0.0).sum()),
}
nan, inf = math.nan, math.inf


@pytest.mark.parametrize("name", EXTREME)
def test_nan_and_infinity_are_where_they_are_in_eager(name: str) -> None:
    """Rows of several lengths, so that whole vectors and the elements beside them are both met."""
    rows = [[1, nan, 3], [nan, 1, 2], [nan] * 3, [-inf, inf, nan], [-inf] * 3, [inf, 0.0, -0.0]]
    given = [ad.tensor(np.array(rows * k).reshape(6, -1)) for k in (1, 7, 40)]

    def every(*xs: Any) -> Any:
        return [EXTREME[name](x) for x in xs]

    with np.errstate(all="ignore"):
        expected = pytrees.leaves(every(*given))
    for a, b in zip(pytrees.leaves(ad.compile(every)(*given)), expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-13)
        if a.dtype is ad.float64 and name in ("signs", "clamp", "where", "functions"):
            zeros = np.nonzero(b.numpy() == 0)
            np.testing.assert_array_equal(
                np.signbit(a.numpy()[zeros]), np.signbit(b.numpy()[zeros])
            )


def test_loops_that_read_one_element_in_every_turn_are_functions_of_their_own() -> None:
    """As parts of their caller gcc does not make vectors of them."""
    gradient = ad.grad(lambda x: (x * x.cos()).sum().square())
    compiled, x = ad.compile(gradient), make(1000)
    kernels = compiled.lower(x).source.split("static void ")[1:]
    assert [kernel.startswith("APART") for kernel in kernels if "sin(" in kernel] == [True]
    assert_same(compiled(x), gradient(x))


def test_long_programs_are_loops_of_bounded_size() -> None:
    """Compilers take more than linear time for long functions; the values are the same."""

    def chain(x: Any) -> Any:
        for _ in range(900):
            x = (x * 1.01).sin()
        return x.sum()

    def wide(*xs: Any) -> Any:
        return sum((x * k).sin().sum() for k, x in enumerate(xs))

    for function, count in ((chain, 1), (wide, 150)):
        args = [ad.full((5,), 0.1 * k, dtype=ad.float64) for k in range(count)]
        gradient = ad.grad(function, argnums=tuple(range(count)))
        plan = plan_of(ad.trace(gradient, *args))
        loops = [step for step in plan.steps if isinstance(step, FusedLoop)]
        assert max(Counter(plan.home.values()).values()) <= 600
        assert max(len(loop.combining) for loop in loops) <= 24
        assert len(loops) > 2

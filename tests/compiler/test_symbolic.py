"""Sizes that stay open in networks as people write them: one program, whatever the first call was.

Each program is called with sizes of its own, with sizes that happen to be equal, and with 1; values
and gradients are those of eager mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.symbolic import learning, polynomials
from adjoint.core import pytrees
from adjoint.toolchain import build

F = ad.nn.functional
pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")


def make(*shape: int, seed: int = 0) -> ad.Tensor:
    return ad.tensor(np.random.default_rng(seed + sum(shape)).standard_normal(shape) * 0.3)


def assert_same(got: Any, expected: Any) -> None:
    assert pytrees.structure(got) == pytrees.structure(expected)
    for a, b in zip(pytrees.leaves(got), pytrees.leaves(expected), strict=True):
        assert a.shape == b.shape
        assert a.dtype is b.dtype
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)


def transformer(x: Any, p: Any) -> Any:
    """One layer, causal, with four heads."""
    batch, length, width = x.shape
    parts = (F.layer_norm(x, (width,)) @ p["in"]).chunk(3, -1)
    q, k, v = (y.reshape(batch, length, 4, width // 4).transpose(1, 2) for y in parts)
    scores = q @ k.mT / (width // 4) ** 0.5
    scores = scores.masked_fill(ad.ones(length, length, dtype=ad.bool).triu(1), -1e9)
    attended = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
    x = x + attended @ p["out"]
    return x + F.gelu(F.layer_norm(x, (width,)) @ p["up"]) @ p["down"]


def layer(width: int) -> Any:
    shapes = {
        "in": (width, 3 * width), "out": (width, width), "up": (width, 2 * width),
        "down": (2 * width, width),
    }  # fmt: skip
    return {name: make(*shape) for name, shape in shapes.items()}


def convolutions(x: Any, p: Any) -> Any:
    x = F.max_pool2d(F.relu(F.conv2d(x, p["first"], padding=1)), 2)
    x = F.relu(F.conv2d(x, p["second"], stride=2, padding=1))
    return F.conv2d(x, p["third"], padding=2, dilation=2, groups=2).tanh().mean((2, 3))


KERNELS = {"first": make(4, 3, 3, 3), "second": make(6, 4, 3, 3), "third": make(4, 3, 3, 3)}


def lstm(x: Any, w: Any, u: Any) -> Any:
    start = ad.zeros(x.shape[1], u.shape[0], dtype=x.dtype)

    def step(carry: Any, row: Any) -> Any:
        h, c = carry
        i, f, o, z = (row @ w + h @ u).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * z.tanh()
        h = o.sigmoid() * c.tanh()
        return (h, c), h

    return ad.scan(step, (start, start), x)[1]


def einsums(x: Any, y: Any, w: Any) -> Any:
    weights = ad.einsum("bthd,bshd->bhts", x, y).softmax(-1)
    return ad.einsum("bthd,hde->bte", ad.einsum("bhts,bshd->bthd", weights, y), w)


def u_net(x: Any, p: Any) -> Any:
    """Even heights and widths only: the way up doubles."""
    wide = F.silu(F.conv2d(x, p["down"], padding=1))
    deep = F.silu(F.conv2d(F.max_pool2d(wide, 2), p["deep"], padding=1))
    up = F.conv_transpose2d(deep, p["up"], stride=2)
    return F.conv2d(ad.cat([up, wide], 1), p["out"], padding=1)


WEIGHTS = {
    "down": make(4, 2, 3, 3), "deep": make(6, 4, 3, 3), "up": make(6, 4, 2, 2),
    "out": make(3, 8, 3, 3),
}  # fmt: skip


def patches(x: Any) -> Any:
    """Images in patches of 8 by 8 with sines of their places."""
    n, c, h, w = x.shape
    cut = x.reshape(n, c, h // 8, 8, w // 8, 8).permute(0, 2, 4, 1, 3, 5)
    rows = cut.reshape(n, (h // 8) * (w // 8), c * 64)
    return rows * ad.arange(rows.shape[1], dtype=x.dtype)[:, None].sin()


def rotary(x: Any) -> Any:
    half = x.shape[2] // 2
    angle = ad.arange(x.shape[1], dtype=x.dtype)[:, None] * 10000 ** (
        -ad.arange(half, dtype=x.dtype) / half
    )
    a, b = x[..., :half], x[..., half:]
    return ad.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


def lengths(q: Any, k: Any, count: Any) -> Any:
    """Attention to the first `count` places of each sequence."""
    inside = ad.arange(k.shape[1]) < count[:, None]
    scores = ad.where(inside[:, None], q @ k.mT / q.shape[2] ** 0.5, float("-inf"))
    return scores.softmax(-1) @ k


def resizing(x: Any) -> Any:
    """Weights of the neighbours are a table for each size."""
    wide = F.interpolate(x, scale_factor=2, mode="bilinear")
    return wide + F.interpolate(x, scale_factor=2) * ad.linspace(0, 1, wide.shape[3]).to(x.dtype)


def in_blocks(x: Any) -> Any:
    """Rows are filled up to a multiple of 8."""
    return F.pad(x, (0, -x.shape[1] % 8)).reshape(x.shape[0], -1, 8).std(2)


# (function, open dimensions, arguments for sizes, sizes)
Program = tuple[Callable[..., Any], Any, Callable[..., Any], list[tuple[int, ...]]]
PROGRAMS: dict[str, Program] = {
    "transformer": (
        transformer, {0: (0, 1, 2), 1: (0, 1)},
        lambda b, t, d: (make(b, t, 4 * d), layer(4 * d)),
        [(3, 5, 4), (2, 7, 3), (4, 6, 2), (5, 5, 4)],
    ),
    "convolutions": (
        convolutions, {0: (0, 2, 3)}, lambda n, h, w: (make(n, 3, h, w), KERNELS),
        [(2, 12, 16), (3, 9, 20), (4, 17, 13), (14, 14, 14), (2, 11, 11)],
    ),
    "lstm": (
        lstm, {0: (0, 1, 2), 1: (0, 1), 2: (0, 1)},
        lambda t, b, i, h: (make(t, b, i), make(i, 4 * h), make(h, 4 * h)),
        [(5, 3, 7, 6), (9, 2, 6, 5), (4, 4, 4, 4), (3, 4, 3, 4)],
    ),
    "einsums": (
        einsums, {0: (0, 1, 3), 1: (0, 1, 3), 2: (1, 2)},
        lambda b, t, s, d, e: (make(b, t, 3, d), make(b, s, 3, d), make(3, d, e)),
        [(2, 5, 7, 4, 6), (7, 2, 5, 8, 3), (4, 4, 4, 4, 4), (2, 6, 6, 3, 5)],
    ),
    "u-net": (
        u_net, {0: (0, 2, 3)}, lambda n, h, w: (make(n, 2, h, w), WEIGHTS),
        [(2, 12, 16), (3, 8, 20), (5, 10, 10), (8, 8, 8)],
    ),
    "patches": (
        patches, {0: (0, 1, 2, 3)}, lambda n, c, h, w: (make(n, c, h, w),),
        [(2, 3, 16, 24), (5, 2, 40, 8), (8, 8, 8, 8), (3, 4, 16, 16)],
    ),
    "rotary": (
        rotary, {0: (0, 1, 2)}, lambda b, t, d: (make(b, t, 2 * d),),
        [(2, 8, 5), (3, 7, 9), (6, 6, 3), (4, 5, 2)],
    ),
    "lengths": (
        lengths, {0: (0, 1, 2), 1: (0, 1, 2), 2: 0},
        lambda b, t, s, d: (make(b, t, d), make(b, s, d), ad.arange(b) % s + 1),
        [(2, 5, 7, 3), (3, 4, 9, 5), (4, 4, 4, 4), (5, 5, 7, 6)],
    ),
    "resizing": (
        resizing, {0: (0, 1, 2, 3)}, lambda n, c, h, w: (make(n, c, h, w),),
        [(2, 3, 5, 4), (3, 2, 7, 9), (4, 4, 4, 4), (2, 5, 6, 6)],
    ),
    "attention": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True),
        {0: (0, 1, 2, 3), 1: (0, 1, 2, 3)},
        lambda b, h, t, s, d: (make(b, h, t, d), make(b, h, s, d)),
        [(2, 3, 5, 7, 4), (3, 2, 9, 4, 5), (1, 4, 6, 6, 3), (4, 4, 4, 4, 4)],
    ),
    "in blocks": (
        in_blocks, {0: (0, 1)}, lambda n, m: (make(n, m),), [(3, 13), (5, 23), (9, 4), (7, 7)],
    ),
    "pools": (  # of windows that are even for some sizes, and do not fit others
        lambda x: F.adaptive_avg_pool1d(F.avg_pool1d(x, 3, 2, 1), 3),
        {0: (0, 2)}, lambda n, w: (make(n, 2, w),), [(2, 10), (3, 9), (6, 6), (2, 12), (5, 7)],
    ),
    "windows that share images out": (
        lambda x: F.adaptive_avg_pool2d(x, (4, 5)) - F.adaptive_max_pool2d(x, (4, 5)),
        {0: (0, 2, 3)}, lambda n, h, w: (make(n, 2, h, w),),
        [(2, 8, 10), (3, 9, 11), (6, 6, 6), (2, 13, 24), (5, 3, 2), (1, 30, 17)],
    ),
    "windows over the end": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), {0: (2, 3)},
        lambda h, w: (make(1, 2, h, w),), [(8, 10), (9, 11), (6, 6), (13, 24), (2, 3)],
    ),
    "cut to even sizes": (  # of which either may be whole
        lambda x: x[:, : x.shape[1] // 2 * 2, : x.shape[2] // 2 * 2].sin(), {0: (0, 1, 2)},
        lambda n, h, w: (make(n, h, w),),
        [(2, 13, 6), (3, 8, 10), (4, 9, 11), (5, 5, 5), (6, 4, 7)],
    ),
    "a turned image": (
        lambda x, turn: F.grid_sample(
            x, F.affine_grid(turn, tuple(x.shape), align_corners=False), align_corners=False
        ), {0: (0, 2, 3), 1: 0},
        lambda n, h, w: (make(n, 2, h, w), make(n, 2, 3, seed=1)),
        [(2, 8, 10), (3, 9, 11), (6, 6, 6), (4, 5, 7)],
    ),
    "half as large again": (
        lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"), {0: (0, 2, 3)},
        lambda n, h, w: (make(n, 2, h, w),), [(2, 8, 10), (3, 7, 9), (4, 5, 12), (6, 6, 6)],
    ),
    "three factors": (  # in an order that other sizes would not choose
        lambda x, w, y: ad.einsum("bi,oij,bj->bo", x, w, y),
        {0: (0, 1), 1: (0, 1, 2), 2: (0, 1)},
        lambda b, i, j, o: (make(b, i), make(o, i, j), make(b, j)),
        [(2, 3, 4, 5), (30, 5, 2, 7), (4, 4, 4, 4), (3, 9, 2, 2)],
    ),
    "distances": (
        lambda x, y: ad.cdist(x, y).amin(1), {0: (0, 1), 1: (0, 1)},
        lambda n, m, d: (make(n, d), make(m, d, seed=9)), [(5, 6, 3), (7, 2, 4), (4, 4, 4)],
    ),
    "deviations": (
        lambda x: x.std(0) + x.var(1).sum(), {0: (0, 1)}, lambda n, m: (make(n, m),),
        [(5, 4), (7, 3), (2, 6), (4, 4)],
    ),
}  # fmt: skip


SIDES = {
    "convolutions": 5,
    "u-net": 2,
    "patches": 8,
    "pools": 3,
    "half as large again": 2,
    "windows over the end": 2,
    "cut to even sizes": 2,
    "a turned image": 2,
}  # the least sizes that these take


def with_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    def loss(*args: Any) -> Any:
        result = function(*args)
        return result.square().mean() + result.sum()

    return ad.value_and_grad(loss)


@pytest.mark.parametrize("name", PROGRAMS)
def test_networks_are_compiled_once(name: str, built: list[str]) -> None:
    """Also where sizes happen to be equal, or are 1."""
    function, dynamic, arguments, points = PROGRAMS[name]
    eager = with_gradients(function)
    compiled = ad.compile(eager, dynamic=dynamic)
    for point in points:
        args = arguments(*point)
        assert_same(compiled(*args), eager(*args))
    tiny = [(1, *points[0][1:]), (*points[0][:-1], 1)]
    if name in SIDES:
        tiny = [(1, *points[0][1:]), (1, *(SIDES[name] for _ in points[0][1:]))]
    for point in tiny if name != "deviations" else []:
        args = arguments(*point)
        assert_same(compiled(*args), eager(*args))
    assert len(built) == 1


@pytest.mark.parametrize("name", ["lstm", "lengths", "in blocks", "deviations", "patches"])
def test_sizes_that_are_equal_in_the_first_call_are_told_apart(name: str, built: list[str]) -> None:
    function, dynamic, arguments, points = PROGRAMS[name]
    eager = with_gradients(function)
    compiled = ad.compile(eager, dynamic=dynamic)
    for point in reversed(points):
        args = arguments(*point)
        assert_same(compiled(*args), eager(*args))
    assert len(built) == 1


@pytest.mark.parametrize("first", [(1, 5, 7, 3), (2, 2, 2, 3), (64, 2, 17, 81)])
def test_sizes_that_come_first_may_be_special(first: Any, built: list[str]) -> None:
    """They are 1, or all the same, or have the same remainders in another order."""
    function, dynamic, arguments, _ = PROGRAMS["lengths"]
    eager = with_gradients(function)
    compiled = ad.compile(eager, dynamic=dynamic)
    for point in (first, (2, 5, 1, 3), (2, 5, 7, 3), (3, 1, 4, 1)):
        args = arguments(*point)
        assert_same(compiled(*args), eager(*args))
    assert len(built) == 1


def test_examples_of_three_open_sizes_need_little_memory() -> None:
    largest = 0

    def function(x: Any) -> Any:
        nonlocal largest
        largest = max(largest, int(np.prod(x.shape)))
        return (x.sin() * np.float64(2)).sum(-1)

    compiled = ad.compile(function, dynamic={"x": (0, 1, 2)})
    for sizes in ((3, 4, 5), (7, 2, 6), (9, 8, 3)):
        x = ad.tensor(np.random.default_rng(0).standard_normal(sizes))
        np.testing.assert_allclose(compiled(x).numpy(), function(x).numpy(), rtol=1e-12)
    assert largest <= 1 << 27, "a constant of that size takes gigabytes"


def rows(x: Any) -> Any:
    """Totals of rows, their functions, and elements that are made of them."""
    weights = (x - x.amax(-1, keepdim=True)).exp()
    return (weights / weights.sum(-1, keepdim=True)).cos() * x


def distances(x: Any) -> Any:
    """A sum over a short dimension for each element of a row."""
    return (-(x[:, None] - x[None]).square().sum(-1)).exp()


@pytest.mark.parametrize("function", [rows, distances])
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_one_program_serves_short_rows_and_long_ones(
    function: Any, dtype: ad.dtype, built: list[str]
) -> None:
    """Whole vectors, what is left of them, blocks of rows: around every length where that changes.
    A row with NaN is NaN.
    """
    eager = ad.value_and_grad(lambda x: function(x).square().sum())
    compiled = ad.compile(eager, dynamic={0: (0, 1)})
    for number, width in enumerate((3, 40, 7, 8, 15, 16, 2, 17, 33, 39, 24, 9, 31, 100)):
        x = make(5 + 3 * (number % 2), width).to(dtype)
        x[0, width // 2] = np.nan if number % 3 == 2 else 0
        got, expected = (pytrees.leaves(f(x)) for f in (compiled, eager))
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4 if dtype is ad.float32 else 1e-9, atol=1e-6)
    assert len(built) == 1


SMALL: dict[
    str, Callable[..., Any]
] = {  # functions of n by m, for which 1 is special in eager mode
    "transposed": lambda x: (x @ x.mT).triu(1) + x.mT.sum() * (x @ x.mT).diagonal(),
    "moved": lambda x: x.roll(1, 0).flip(1).repeat(2, 3) + x.tile(2, 3),
    "cut": lambda x: ad.cat([x[1:], x[:1] * 2], 0).cumprod(0),
    "filled": lambda x: F.pad(x[None, None], (1, 2, 2, 1), mode="replicate") * 3,
    "factored": lambda x: ad.linalg.cholesky(x @ x.mT + ad.eye(x.shape[0], dtype=x.dtype)),
    "product of all": lambda x: ad.kron(x, x.mT),
    "resized": lambda x: F.interpolate(x[None, None], size=(7, 3), mode="bilinear"),
    "jacobian": lambda x: ad.jacrev(lambda row: row.sin() * row.sum())(x.sum(0)),
    "repeated": lambda x: x.repeat_interleave(3, 1).logcumsumexp(0),
    "chosen": lambda x: x.sort(-1)[0] * x.argsort(0) + x.index_select(0, ad.arange(x.shape[0])),
}


@pytest.mark.parametrize("name", SMALL)
def test_sizes_of_one_need_no_other_program(name: str, built: list[str]) -> None:
    eager = with_gradients(SMALL[name])
    compiled = ad.compile(eager, dynamic={0: (0, 1)})
    for sizes in ((5, 4), (7, 3), (1, 6), (3, 1), (2, 2), (1, 1)):
        x = make(*sizes)
        assert_same(compiled(x), eager(x))
    assert len(built) == 1


NOTHING: dict[
    str, Callable[..., Any]
] = {  # functions of n by m, of which parts are empty if n is 1
    "differences": lambda x: x.diff(dim=0).sin().sum(0) + x.square(),
    "neighbours": lambda x: x[:-1] * x[1:],
    "every third": lambda x: x[1::3].sum(0) * x,
    "the larger half": lambda x: x.topk(x.shape[0] // 2, 0)[0],
    "turned by half": lambda x: x.roll(x.shape[0] // 2, 0),
}


@pytest.mark.parametrize("name", NOTHING)
def test_parts_without_elements_need_no_other_program(name: str, built: list[str]) -> None:
    eager = ad.value_and_grad(lambda x: (NOTHING[name](x) * 1.5).sum())
    compiled = ad.compile(eager, dynamic={0: (0, 1)})
    for sizes in ((5, 4), (1, 6), (7, 1), (2, 2), (1, 1)):
        x = make(*sizes)
        assert_same(compiled(x), eager(x))
    assert len(built) == 1


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_images_that_have_their_size_stay_as_they_are(mode: str, built: list[str]) -> None:
    """Infinities, too."""
    compiled = ad.compile(lambda x: F.interpolate(x, size=(5, 4), mode=mode), dynamic={0: (2, 3)})
    for h, w in ((7, 6), (5, 4), (5, 9), (3, 4)):
        x = make(1, 1, h, w)
        x[0, 0, 1, 1] = np.inf if (h, w) == (5, 4) else 1
        assert_same(compiled(x), F.interpolate(x, size=(5, 4), mode=mode))
    assert len(built) == 1


@pytest.mark.parametrize("sizes", [(3, 16, 8), (8, 64, 16)])
def test_sizes_of_which_many_are_multiples_of_others_stay_open(
    sizes: Any, built: list[str]
) -> None:
    """Powers of two: which of them must be multiples is found by taking all others apart."""
    function, dynamic, arguments, _ = PROGRAMS["transformer"]
    compiled = ad.compile(function, dynamic=dynamic)
    for point in (sizes, (2, 5, 3), (4, 7, 6)):
        args = arguments(*point)
        assert_same(compiled(*args), function(*args))
    assert len(built) == 1


def test_an_inner_size_that_happens_to_be_even_may_be_odd(built: list[str]) -> None:
    compiled = ad.compile(lstm, dynamic={0: (0, 1, 2), 1: (0, 1), 2: (0, 1)})
    for t, b, i, h in ((4, 8, 16, 32), (3, 5, 7, 2), (16, 32, 32, 64)):
        args = make(t, b, i), make(i, 4 * h), make(h, 4 * h)
        assert_same(compiled(*args), lstm(*args))
    assert len(built) == 1


SHORT: dict[str, Callable[..., Any]] = {  # functions of n by m by k
    "totals": lambda x: x.std(-1) + x.sum(0).norm(dim=-1) - x.amax(1).mean(1, True),
    "moved": lambda x: x.permute(2, 0, 1) * ad.arange(x.shape[1]) + x.shape[2],
    "running": lambda x: x.cumsum(1).roll(1, 2).flip(0),
    "chosen": lambda x: x.gather(1, x.argsort(1)).softmax(-1) * x.logsumexp(0),
}


@pytest.mark.parametrize("name", SHORT)
def test_programs_with_loops_of_the_first_sizes_serve_all_others(
    name: str, built: list[str]
) -> None:
    """Short sizes of the first call are numbers in loops of their own."""
    eager = with_gradients(SHORT[name])
    compiled = ad.compile(eager, dynamic={0: (0, 1, 2)})
    first = (20, 3, 5)
    for sizes in (first, (7, 3, 5), (20, 3, 6), (20, 4, 5), (300, 3, 5), (2, 40, 9), first):
        x = make(*sizes)
        assert_same(compiled(x), eager(x))
    assert len(built) == 1
    assert "_usual(" in built[0]


def test_remainders_that_choose_numbers_have_a_program_each(built: list[str]) -> None:
    """The graphs are of one length, and numbers in them tell sizes apart."""
    eager = with_gradients(lambda x: x.roll((1, 3, 2)[x.shape[0] % 3], 0) * x[:4].sum())
    compiled = ad.compile(eager, dynamic={0: 0})
    for size in (12, 7, 8, 13, 15, 20, 31, 9, 100):
        x = make(size)
        assert_same(compiled(x), eager(x))
    assert len(built) == 3


def test_the_least_of_sizes_has_a_program_for_each_order(built: list[str]) -> None:
    """A diagonal has as many elements as the shorter side."""
    eager = with_gradients(lambda x: x.diagonal() * x[0, 0])
    compiled = ad.compile(eager, dynamic={0: (0, 1)})
    for sizes in ((3, 8), (5, 6), (2, 9), (7, 7), (9, 4), (6, 5), (4, 11), (1, 5), (8, 1)):
        x = make(*sizes)
        assert_same(compiled(x), eager(x))
    assert len(built) == 2


def test_sizes_of_nothing_are_not_compiled(built: list[str]) -> None:
    eager = ad.value_and_grad(lambda x, y: (ad.cat([x, y]).sin() @ y.mT).sum())
    compiled = ad.compile(eager, dynamic={0: (0, 1), 1: (0, 1)})
    for n, m, k in ((0, 2, 3), (2, 0, 3), (3, 4, 5), (2, 3, 0), (0, 0, 0), (6, 2, 3)):
        args = make(n, k), make(m, k, seed=1)
        assert_same(compiled(*args), eager(*args))
    assert len(built) == 1


def test_equal_constants_are_told_apart_by_their_tensors(built: list[str]) -> None:
    """The biases of a network begin with the same numbers."""
    first, second = (ad.zeros(100, dtype=ad.float64) for _ in range(2))
    function = ad.compile(lambda x: (x + first).sin() * (x.cos() + second), dynamic={0: 0})
    for n in (3, 7, 2):
        x = make(n, 100)
        assert_same(function(x), x.sin() * x.cos())
    assert len(built) == 1


def test_examples_of_functions_with_remainders_need_little_memory() -> None:
    """Four open sizes, of which the function wants even ones."""
    largest = 0

    def function(x: Any) -> Any:
        nonlocal largest
        largest = max(largest, int(np.prod(x.shape)))
        shape = (*x.shape[:3], x.shape[3] // 2, 2)
        return x.reshape(shape).sum(-1) if x.shape[2] % 2 else x[..., ::2] * 2

    compiled = ad.compile(function, dynamic={"x": (0, 1, 2, 3)})
    for sizes in ((3, 4, 5, 6), (7, 2, 6, 4), (2, 8, 3, 8), (4, 4, 4, 4)):
        x = ad.tensor(np.random.default_rng(0).standard_normal(sizes))
        np.testing.assert_allclose(compiled(x).numpy(), function(x).numpy(), rtol=1e-12)
    assert largest <= 1 << 27, "a constant of that size takes gigabytes"


def normalized(x: Any, *weights: Any) -> Any:
    for w in weights:
        x = x + ad.nn.functional.gelu(ad.nn.functional.layer_norm(x @ w, (6,)))
    return x.square().mean()


def test_each_size_is_traced_and_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the graph of the first call is seen to be the open one without simplifying either."""
    traced: list[Any] = []
    lowered: list[Any] = []

    def f(x: Any, *weights: Any) -> Any:
        traced.append(x.shape)
        return normalized(x, *weights)

    def lower(*args: Any) -> Any:
        lowered.append(args)
        return lowering(*args)

    def simplify(*_: Any) -> Any:
        raise AssertionError

    lowering = learning.lower
    monkeypatch.setattr(learning, "lower", lower)
    monkeypatch.setattr(polynomials._Instance, "graphs", simplify)
    compiled = ad.compile(ad.grad(f), dynamic={"x": 0})
    draw = np.random.default_rng(5)
    given = [ad.tensor(draw.normal(size=size)) for size in ((12, 6), (6, 6), (6, 6))]
    got = compiled(*given)
    assert len(traced) == len({*traced}) == len(lowered) <= 4
    np.testing.assert_allclose(got.numpy(), ad.grad(normalized)(*given).numpy(), rtol=1e-9)

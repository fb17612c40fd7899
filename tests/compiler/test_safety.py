"""Compiled programs stay inside their memory: they run under AddressSanitizer and UBSan.

A process of its own, with the sanitizer loaded before everything else, compiles and runs the
programs below, and compares with eager: this file is that process when it is run as a program.
Memory of NumPy's arrays is then guarded on both sides, and an access just outside ends the process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core import pytrees
from adjoint.toolchain import build
from tests.compiler.test_interface import ODD, OPEN, assert_same
from tests.compiler.test_split_calls import positives, price

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")

# -O0 keeps every access of the source; add -g to see lines in a report, for three times the time.
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=all -O0"
OPTIONS = {  # Python itself leaks; tracing asks for memory that it does not touch
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=66:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=67",
    "OMP_NUM_THREADS": "2",
}


def make(*shape: int, seed: int = 0) -> ad.Tensor:
    values = np.random.default_rng(seed).uniform(0.5, 1.5, shape)
    return ad.tensor(values, dtype=ad.float64)


def whole(*shape: int, high: int, seed: int = 0) -> ad.Tensor:
    return ad.tensor(np.random.default_rng(seed).integers(0, high, shape))


# -- the programs: a function and its arguments

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def in_blocks(x: Any, a: Any, b: Any) -> Any:
    """Products and loops that run together over blocks of rows, the last one of them short."""
    hidden = ad.tanh(x @ a)
    return ((ad.softmax(hidden, 1) @ b) ** 2).sum() + hidden.amax()


def masked_rows(*matrices: Any) -> Any:
    """Masks that stay in a block of rows, leave it, and are read from memory."""
    total = 0.0
    for x in matrices:
        y = x / (x.square().sum(1, keepdim=True) + 1).sqrt() + x.amax(0, keepdim=True)
        y = y / (y.square().sum(0, keepdim=True) + 1).sqrt() + y.amax(1, keepdim=True)
        total = total + ad.where(x.amax(1, keepdim=True) == x, y, x * y).sum()
    return total


def every_axis(x: Any) -> Any:
    """Sums, means and extrema over each axis and pair of axes, kept or not."""
    axes = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    total = sum((x.sum(a) ** 2).sum() + (x.mean(a, keepdim=True) * x).sum() for a in axes)
    return total + sum((x.amax(a) * x.amin(a)).sum() for a in axes)


def rearranged(x: Any) -> Any:
    """Transposes, flips and reshapes of views, so that strides are of every kind."""
    y = x.permute(2, 0, 1).flip(0, 2) * x.permute(2, 0, 1)
    z = y.transpose(0, 1).reshape(-1, x.shape[1]).flip(1)
    return (z.t() * z.t().exp()).sum(0).norm() + x.flip(1).unfold(1, 2, 1).sum()


def cut_and_padded(x: Any) -> Any:
    a = x[1:-1, :-1:2] * x[:-2, 1::2]
    zeros = ad.zeros(a.shape[0], 3, dtype=ad.float64)
    b = ad.cat([zeros[:, :2], a, zeros], 1)
    c = (x[:4] * 0).slice_scatter(a, 1, 2, 6).select_scatter(x[0], 0, -1)
    return (b * b).sum() + c[:, ::3].sin().sum() + x[-1, -1] * x[0, 0] + (c * x[:4].flip(0)).sum()


def joined(x: Any, y: Any) -> Any:
    rows = ad.cat([x, y * 2, x[:1], x[:0]], 0)
    pairs = ad.stack([x, x.exp()], 1)
    return (rows * rows).sum() + pairs.sum(0).prod() + ad.cat([x.t(), y.t()], 1).amax(1).sum()


def recurrent(x: Any, w: Any) -> Any:
    """A cell with gates, over time."""

    def step(carry: Any, now: Any) -> Any:
        h, c = carry
        gates = [(now * w[i] + h * w[i + 4]).sigmoid() for i in range(3)]
        c = c * gates[0] + gates[1] * (now * w[3] + h * w[7]).tanh()
        h = gates[2] * c.tanh()
        return (h, c), h.sum()

    zero = ad.zeros(x.shape[1], dtype=ad.float64)
    (h, c), outputs = ad.scan(step, (zero, zero), x)
    return (h * c).sum() + (outputs * outputs).sum()


def runge_kutta(u: Any, w: Any) -> Any:
    def slope(u: Any) -> Any:
        return ad.stack([w[0] * u[0] - u[0] * u[1], u[0] * u[1] - w[1] * u[1], u[2] * w[2]])

    def step(u: Any, _: Any) -> Any:
        k1 = slope(u)
        k2 = slope(u + 0.05 * k1)
        k3 = slope(u + 0.05 * k2)
        k4 = slope(u + 0.1 * k3)
        u = u + (k1 + 2 * k2 + 2 * k3 + k4) / 60
        return u, u[::2]

    last, path = ad.scan(step, u, None, length=9)
    return last.sum() + (path * path).sum()


def backwards_in_time(x: Any, w: Any) -> Any:
    def outer(carry: Any, now: Any) -> Any:
        inner, parts = ad.scan(lambda d, s: (d * w + s, d.flip(0)[:2]), carry, x, reverse=True)
        return inner.tanh() * now, parts.sum()

    carry, parts = ad.scan(outer, x[0], x.sum(1), reverse=True)
    return carry.sum() + parts.prod()


def over_time(gates: Any, state: Any, weight: Any) -> Any:
    """A layer by our routine, over sequences of several lengths."""
    sizes = ad.tensor([3, 3, 1, 1])
    layer = ad.ops._lstm_layer
    output, cells, _ = layer(gates, state, state, weight, None, sizes, False)
    return (output * cells).sum() + layer(gates, state, state, weight, None, None, True)[0].sum()


def until_it_is_small(x: Any) -> Any:
    """A hundred turns and more: with few bytes for its tape, most are computed again."""
    turn = lambda c: ((c[0] * 0.97 + x.sin() * 0.01).tanh(), c[1] + 1)
    return ad.while_loop(lambda c: c[1] < 150, turn, (x, ad.tensor(0)))[0].sum()


def taken_and_put(x: Any, y: Any) -> Any:
    """Every way to read and write by index."""
    index = ad.tensor([[0, 2, 1, 6], [4, 0, 0, 3], [6, 6, 5, 1]])
    rows = ad.tensor([2, 0, 2, -1])
    a = x.gather(1, index) * 2
    b = ad.zeros_like(x).scatter_add(1, index, y[:, :4])
    c = x[rows, ad.tensor([0, 6, -7, 1])] + x[rows].sum(1) + x[:, rows].sum()
    d = x.index_put((rows, ad.tensor([1, 1, 2, 3])), y[0, :4], accumulate=True)
    e = x.index_select(1, rows + 1).exp() * x.take(index.t()).sum()
    f = x.scatter(0, index[:, :3] % 3, y[:, :3]) * x.index_add(0, rows % 3, y[:1].expand(4, 7))
    return (a * a).sum() + (b * b).sum() + c.prod() + (d * d).sum() + e.sum() + f.sum()


def normalised(x: Any) -> Any:
    y = x.softmax(1) * x.log_softmax(0) + x.logsumexp(1, keepdim=True)
    return (y * y).sum() + x.std(0).sum() + x.var() + (x / x.norm(dim=1, keepdim=True)).sum()


def factored(x: Any, b: Any) -> Any:
    matrix = x @ x.t() + 4 * ad.eye(x.shape[0], dtype=ad.float64)
    factor = ad.linalg.cholesky(matrix)
    z = ad.linalg.solve_triangular(factor, b, upper=False)
    return (z * z).sum() + factor.diagonal().log().sum() + factor.tril(-1).sum()


def multiplied(x: Any, y: Any) -> Any:
    z = (x @ y).tanh()
    return (z * z).sum() + (z @ z.t()).diagonal().sum() + (z[0] @ z[0]) + (x[0] @ y).sum()


def batched_product(x: Any, y: Any) -> Any:
    return (ad.einsum("bij,bkj->bik", x, y).exp().mean(1) * x.sum(2)[:, : y.shape[1]]).sum()


def accumulated(x: Any) -> Any:
    sorted_, _ = x.sort(1, descending=True)
    return (x.cumsum(1) * x.cumprod(0)).sum() + sorted_[:, :2].sum() + x.max(1).values.prod()


def many_sizes(*xs: Any) -> Any:
    """Loops whose lengths are no multiples of a vector."""
    return sum((x.sin() * x.exp()).sum() + (x[1:] - x[:-1]).square().sum() for x in xs)


def wide_and_narrow(*xs: Any) -> Any:
    return sum((x.exp() / x.sum(1, keepdim=True)).amax(0).sum() + x.t().tanh().sum() for x in xs)


GRADIENTS: dict[str, Program] = {
    "texts": (
        lambda p: ad.nn.functional.ctc_loss(
            p.log_softmax(2), ad.tensor([[1, 2, 2], [3, 1, 0]]), (6, 4), (3, 2)
        ),
        (make(6, 2, 4),),
    ),
    "pointwise": (
        lambda x, y, z: ((x * y).exp() + (x - z).sin() * y + 2 ** (x * 0.1)).sum(),
        (make(5, 1, 3), make(4, 1), make(3)),
    ),
    "calls apart": (price, tuple(positives(1030, ad.float64))),
    "branches": (
        lambda x: (
            ad.where(x > 1, x * x, x.log()).clamp(-0.5, 2.0).sum() + ad.maximum(x, x.t()).sum()
        ),
        (make(5, 5),),
    ),
    "reductions": (every_axis, (make(3, 5, 7),)),
    "reductions of one element": (every_axis, (make(1, 1, 1),)),
    "views": (rearranged, (make(3, 4, 5),)),
    "slices and pads": (cut_and_padded, (make(6, 9),)),
    "cat and stack": (joined, (make(3, 4), make(2, 4))),
    "recurrent scan": (recurrent, (make(6, 5), make(8, 5))),
    "runge-kutta": (runge_kutta, (make(3), make(3, seed=1))),
    "nested reverse scan": (backwards_in_time, (make(4, 3), make(3))),
    "LSTM layer": (over_time, (make(4, 3, 20), make(3, 5), make(20, 5))),
    "while loop": (until_it_is_small, (make(5),)),
    "small product": (multiplied, (make(2, 3), make(3, 5))),
    "large product": (multiplied, (make(67, 129), make(129, 65))),
    "product with a vector of one": (multiplied, (make(1, 1), make(1, 1))),
    "batched product": (batched_product, (make(3, 6, 5), make(3, 4, 5))),
    "sweep": (in_blocks, (make(5003, 7), make(7, 30), make(30, 3))),
    "indices": (taken_and_put, (make(3, 7), make(3, 7, seed=1))),
    "softmax": (normalised, (make(5, 6),)),
    "cholesky": (factored, (make(4, 4), make(4, 2))),
    "cumulative and sorted": (accumulated, (make(4, 5),)),
    "masks in blocks of rows": (
        masked_rows,
        tuple(make(m, n) for m in (9, 30, 70) for n in (3, 20)),
    ),
    "empty": (lambda x, y: (x.exp() * 2).sum() + (x.sum(1) * y).sum() + 1, (make(3, 0), make(3))),
    "0-d": (lambda x, y: x.exp() * y + (x * y).sum() * x[None].sum(0), (make(), make())),
    "non-contiguous": (
        lambda x, y: (x * y.t()).sum(0).exp().prod() + y[:, 0].sum(),
        (make(9, 8)[1::2, ::3].t(), make(8, 3)[::2].expand(4, 3)),
    ),
    "sizes of vectors": (many_sizes, tuple(make(n, seed=n) for n in range(1, 34))),
    "sizes of matrices": (
        wide_and_narrow,
        tuple(make(m, n) for m in (1, 3, 4, 9) for n in (1, 2, 5, 8, 17)),
    ),
}


def by_rank(x: Any, long: Any, q: Any) -> list[Any]:
    """Everything that is sorted or chosen by rank, along rows and columns, short and long."""
    found: list[Any] = [long.topk(300), long.kthvalue(7), long.median(), long.sort(), long.mode()]
    for dim in (0, 1):
        found += [x.sort(dim), x.topk(2, dim), x.quantile(q, dim), x.nanmedian(dim), x.cummax(dim)]
    return [*found, x.nanquantile(q), ad.isin(long, x.flatten()), ad.frexp(x)]


def spectra(x: Any, long: Any) -> list[Any]:
    """Transforms of lines side by side, of lines in two parts, and by convolutions."""
    half = ad.fft.rfft(long)
    rows = [ad.fft.fft(x, dim=dim).abs() for dim in (0, 1)]
    even = ad.fft.irfft(ad.fft.rfft(x, dim=0), n=x.shape[0], dim=0)
    return [half.abs(), ad.fft.irfft(half, n=long.shape[0]), ad.fft.fft2(x).abs(), even, *rows]


VALUES: dict[str, Program] = {
    "ranks": (by_rank, (make(31, 5), make(5000, seed=1), ad.tensor([0.2, 1.0], dtype=ad.float64))),
    "spectra": (spectra, (make(131, 12), make(4098, seed=1))),
    "distances": (
        lambda x, y: [ad.cdist(x, y, p) for p in (1.0, 2.0, ad.inf)],
        (make(3, 5, 7), make(3, 34, 7, seed=1)),
    ),
    "scatters": (
        lambda x, i, y: [
            x.scatter_reduce(dim, i, y, how, include_self=own)
            for dim in (0, 1)
            for how in ("sum", "amax", "mean")
            for own in (True, False)
        ],
        (make(4, 5), ad.tensor([[0, 3, 1], [2, 2, 0]]), make(2, 3)),
    ),
    "matrix_exp": (lambda x: ad.linalg.matrix_exp(x * 4), (make(2, 5, 5),)),
    "hessian": (ad.vmap(ad.hessian(lambda x: (x.sin() * x.flip(0)).prod())), (make(4, 3),)),
    "jacobians": (
        ad.vmap(ad.jacrev(lambda x, w: ad.stack([x[0] * w, x[1:].sum() / w]), (0, 1))),
        (make(6, 3), make(6)),
    ),
    "halves": (
        lambda x: (
            [(x.to(dtype) * 3).exp().float() for dtype in (ad.float16, ad.bfloat16)]
            + [x.half().sum(0).float(), (x.bfloat16() @ x.bfloat16().mT).float()]
        ),
        (make(5, 7) * 4,),
    ),
    "complex numbers": (
        lambda z, x: [
            z * z / (z + 2),
            z.exp().abs(),
            (z @ z.mT).real,
            ad.where(x > 1, z, -z),
            z.sum(0),
            *(ad.fft.fft(z, n=n) for n in (1, 8, 30, 37)),
            ad.fft.rfft(x, n=9),
            ad.fft.rfft2(x),
            ad.fft.irfft(z, n=12),
            ad.fft.irfft(z, n=7),
            ad.fft.ifftn(z),
            ad.view_as_real(z),
        ],
        (ad.complex(make(3, 7), make(3, 7, seed=1)), make(3, 7)),
    ),
    "orders and places": (
        lambda x, i: [
            *x.sort(0, descending=True),
            *x.sort(1),
            *x.median(0),
            x.median(),
            *x.mode(1),
            *x.cummax(0),
            *x.cummin(1),
            x.logcumsumexp(0),
            ad.searchsorted(x[0].sort()[0], x),
            x.histc(5),
            *x.frexp(),
            x.scatter_reduce(1, i, x, "amax"),
            x.quantile(0.3, 1),
            x.scatter_reduce(0, i % 5, x, "mean", include_self=False),
            x.topk(2, 0)[1],
            ad.nonzero_static(x > 1, size=7),
            i.div(i + 1, rounding_mode="floor"),
            ad.segment_reduce(x, "sum", lengths=ad.tensor([2, 0, 3])),
            ad.combinations(x[0], 2),
            ad.as_strided_scatter(x, x[:2, :3], (2, 3), (1, 8), 3),
        ],
        (make(5, 40), whole(5, 40, high=40)),
    ),
    "factors of matrices": (
        lambda a, b, w: [
            ad.linalg.solve(a, b),
            ad.linalg.inv(a),
            ad.linalg.det(a),
            *ad.linalg.slogdet(a),
            *ad.linalg.qr(w),
            *ad.linalg.qr(w.mT, "complete"),
            *ad.linalg.lu_factor(w),
            ad.linalg.eigvalsh(a @ a.mT),
            ad.linalg.svdvals(w),
            ad.linalg.pinv(w),
            *ad.linalg.svd(w)[:2],
            *ad.linalg.cholesky_ex(a @ a.mT),
            ad.linalg.matrix_exp(a),
            *ad.linalg.ldl_factor(a + a.mT),
            ad.linalg.lstsq(w.mT, b).solution,
            ad.linalg.solve_triangular(a[0], b, upper=True),
        ],
        (make(2, 4, 4) + 3 * ad.eye(4), make(2, 4, 3), make(2, 3, 4)),
    ),
    "special functions": (
        lambda x, y, n: [
            ad.igamma(x, y),
            ad.special.betainc(x, y, x / 2),
            ad.special.zeta(x + 1, y),
            ad.special.airy_ai(x),
            ad.special.legendre_polynomial_p(x, n),
            ad.special.scaled_modified_bessel_k0(x),
            ad.ops._beta_slope(x / 2, x, y, 1, 1),
            ad.ops._log_ndtr_derivative(x, 11),
            ad.ops._betainc_derivative(x, y, x / 2, 5, 6),
            ad.ops._orthogonal_polynomial(x, n, "laguerre_l", 11),
            ad.ops._gamma_slope(x, y, 11),
        ],
        (
            make(9),
            make(9, seed=1),
            ad.tensor([0.0, 1, 2, 12, 40, -1, np.nan, np.inf, 900], dtype=ad.float64),
        ),
    ),
    "integers": (
        lambda x, y: [x * y + 3, x - y, (x % 3) * 2, x.sum(0), x.abs().amax(1), x // (y + 1), x**2],
        (whole(4, 5, high=9) - 4, whole(5, high=7)),
    ),
    "integers that wrap": (
        lambda x: [x * x, x + x, x - (-x), x.sum(), -x],
        (ad.tensor([2**62 + 1, -(2**63), 2**63 - 1, 3]),),
    ),
    "truth": (
        lambda x, y: [(x > 1) & (y < 1), ~(x == y), (x > 1).sum(0), (x > 2).any(1), (x > 0).all()],
        (make(3, 5), make(3, 5, seed=1)),
    ),
    "float32": (
        lambda x: (x.float().exp().sum(1), x.float()[:, 1:].softmax(0), x.float().long()),
        (make(5, 9),),
    ),
    "outputs that are views": (lambda x: (x.t(), x[1:, ::2], x.flip(0), x * 2), (make(4, 5),)),
    "empty results": (lambda x: (x[3:] * 2, x[:, :0].exp(), x[:0].sum(0)), (make(3, 4),)),
}


def prepared(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if name in VALUES:
        return VALUES[name]
    function, arguments = GRADIENTS[name]
    return ad.value_and_grad(function, argnums=tuple(range(len(arguments)))), arguments


def check(name: str) -> None:
    """Compile, run twice, compare with eager."""
    function, arguments = prepared(name)
    compiled = ad.compile(function)
    expected = pytrees.leaves(function(*arguments))
    tolerance = 2e-5 if name == "float32" else 1e-10
    for _ in range(2):
        got = pytrees.leaves(compiled(*arguments))
        for a, b in zip(got, expected, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=tolerance)


OPEN_SIZES = {f"open sizes: {name}": each[:3] for name, each in (OPEN | ODD).items()}


def check_open(name: str) -> None:
    """One program for many sizes, short ones among them."""
    function, dynamic, calls = OPEN_SIZES[name]
    compiled = ad.compile(function, dynamic=dynamic)
    for arguments in calls:
        assert_same(compiled(*arguments), function(*arguments))


OVERFLOWS = {
    "write behind": "void wrong(void **p) { ((double *)p[0])[N] = 1; }",
    "read before": "void wrong(void **p) { double *x = p[0]; x[0] = x[-1 - N + 3]; }",
    "shift too far": "void wrong(void **p) { *(int *)p[0] = 1 << (N + 40); }",
    "misaligned": "void wrong(void **p) { *(double *)((char *)p[0] + N) = 1; }",
    "index of an array": "void wrong(void **p) { int a[3] = {0}; *(int *)p[0] = a[N]; }",
}


def misbehave(name: str) -> None:
    """Run C that is wrong, on an array of three numbers."""
    array = np.zeros(3)
    text = "static volatile int three = 3;\n" + OVERFLOWS[name].replace("N", "three")
    block = np.array([array.ctypes.data], np.uintp)
    build.load(text, "wrong")(block.ctypes.data)


def main(names: list[str]) -> None:
    for name in names:
        try:
            kind = {**dict.fromkeys(OVERFLOWS, misbehave), **dict.fromkeys(OPEN_SIZES, check_open)}
            kind.get(name, check)(name)
            print(f"passed: {name}", flush=True)
        except Exception as error:
            print(f"failed: {name}: {type(error).__name__}: {error}", flush=True)


# -- the tests


def runtime() -> str:
    """The library of the compiler's AddressSanitizer, which must be loaded first."""
    command = build.compiler()
    assert command is not None
    for name in ("libclang_rt.asan-x86_64.so", "libclang_rt.asan.so", "libasan.so"):
        question = [*command, f"-print-file-name={name}"]
        said = subprocess.run(question, capture_output=True, text=True, check=False).stdout.strip()
        if os.path.isabs(said) and os.path.exists(said):
            return os.path.realpath(said)
    pytest.skip(f"{' '.join(command)} has no AddressSanitizer")


def sanitized(file: str, *names: str) -> subprocess.CompletedProcess[str]:
    """Run a file as a program under the sanitizers, with objects from the cache of all tests."""
    env = {
        **os.environ,
        **OPTIONS,
        "LD_PRELOAD": runtime(),
        "ADJOINT_CFLAGS": FLAGS,
        "ADJOINT_TAPE": "8",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, file, *names]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=3600, check=False
    )


def leave_the_compiler_alone() -> None:
    """The compiler, which such a program calls, runs without the sanitizer: it is not tested."""
    del os.environ["LD_PRELOAD"]


@pytest.fixture(scope="module")
def outcome() -> subprocess.CompletedProcess[str]:
    """What happened to all programs, in one process."""
    return sanitized(__file__, *GRADIENTS, *VALUES, *OPEN_SIZES)


@pytest.mark.parametrize("name", [*GRADIENTS, *VALUES, *OPEN_SIZES])
def test_compiled_program_stays_in_its_memory(
    name: str, outcome: subprocess.CompletedProcess[str]
) -> None:
    lines = outcome.stdout.splitlines()
    assert f"passed: {name}" in lines, "\n".join(
        [*(line for line in lines if line.startswith("failed")), outcome.stderr[:3000]]
    )


@pytest.mark.parametrize("name", OVERFLOWS)
def test_sanitizers_notice_what_is_wrong(name: str) -> None:
    """The harness can fail: code that does wrong ends the process, with a report."""
    result = sanitized(__file__, name)
    assert result.returncode != 0
    assert "passed" not in result.stdout
    assert "AddressSanitizer" in result.stderr or "runtime error" in result.stderr


INDICES: dict[str, Callable[[Any, Any], Any]] = {
    "index": lambda x, i: x[i] * 2,
    "index_select": lambda x, i: x.index_select(0, i).exp(),
    "gather": lambda x, i: x.gather(0, i[:, None].expand(-1, 2)),
    "scatter": lambda x, i: x.scatter(0, i[:, None], 1.5) + 1,
    "scatter_add": lambda x, i: x.scatter_add(0, i[:, None], x[:2, :1]).sum(),
    "index_put": lambda x, i: x.index_put((i,), x[0]),
    "index_add": lambda x, i: x.index_add(0, i, x[:2]),
    "take": lambda x, i: x[:, 0].take(i) * 2,
    "gradient": lambda x, i: ad.grad(lambda x: (x[i] ** 2).sum())(x),
}


@pytest.mark.parametrize("wrong", [[0, 5], [-6, 1], [2**40, 0], [-(2**62), 0]], ids=str)
@pytest.mark.parametrize("name", INDICES)
def test_index_out_of_range_raises_as_eager_does(name: str, wrong: list[int]) -> None:
    """Nothing outside is read or written, and the program works afterwards."""
    function = INDICES[name]
    compiled = ad.compile(function)
    x = make(5, 8)
    before = x.clone()
    good = ad.tensor([4, 1])
    expected = function(x, good).numpy()
    np.testing.assert_allclose(compiled(x, good).numpy(), expected, rtol=1e-12)
    with pytest.raises(Exception) as eager:
        function(x, ad.tensor(wrong))
    assert isinstance(eager.value, IndexError)
    for _ in range(2):
        with pytest.raises(IndexError):
            compiled(x, ad.tensor(wrong))
    np.testing.assert_allclose(compiled(x, good).numpy(), expected, rtol=1e-12)
    np.testing.assert_array_equal(x.numpy(), before.numpy())


if __name__ == "__main__":
    leave_the_compiler_alone()
    main(sys.argv[1:])

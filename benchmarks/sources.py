"""The C of some thirty programs, to see what a change of the compiler changes in them.

    python -m benchmarks.sources before        # writes before/<program>.c
    python -m benchmarks.sources after before  # and compares: which programs differ, and where

A change that should not change programs leaves every text as it was, up to the order of the
functions in the preludes.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import adjoint as ad
from benchmarks import compile_time

functional = ad.nn.functional
# what may begin the text after the prelude
_AFTER = (
    "static void", "void segment", "typedef int", "typedef void", "typedef struct",
    "#define APART", "#pragma omp declare reduction",
)  # fmt: skip


def ones(*shape: int, dtype: Any = None) -> Any:
    return ad.ones(*shape, dtype=dtype or ad.float32)


def _sum_of(f: Callable[..., Any]) -> Callable[..., Any]:
    return ad.value_and_grad(lambda *args: f(*args).sum())


def _bytes(x: Any, mask: Any) -> Any:
    return ad.where(mask, x.tanh(), x * 0.5).sum(1) + (x > 0).sum(1)


def _swept(x: Any, w: Any, v: Any) -> Any:
    hidden = (x @ w).tanh()
    return ((hidden @ v).log_softmax(1) * hidden[:, :10]).sum()


def _heavy(x: Any) -> Any:
    y = ad.lgamma(x) * x.erf() + x.sin().exp() * ad.special.i0(x) + ad.digamma(x) * x.atan2(x + 1)
    return y * x.tanh() + (x * 0.3).expm1() * x.log1p() + x.cos() * x.sqrt() + x.pow(1.7)


def _gathered(x: Any, at: Any) -> Any:
    return x[at].cumsum(0) + ad.zeros_like(x[at]).index_add(0, at, x[at]) + ad.cat([x, x])[at]


def _until(x: Any) -> Any:
    return ad.while_loop(lambda y: y.sum() < 100.0, lambda y: y * 1.5 + y.sin(), x)


def _attended(q: Any, k: Any, v: Any) -> Any:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def _solved(a: Any, b: Any) -> Any:
    return ad.linalg.solve(a @ a.mT + ad.eye(4), b) + ad.linalg.cholesky(a @ a.mT + ad.eye(4)) @ b


def _extremes(x: Any) -> Any:
    return x.amax(1).sum() + x.amin(0).sum() + x.prod(1).sum() + (x > 0.5).any(1).sum()


def _normed(x: Any, w: Any) -> Any:
    return functional.layer_norm(functional.gelu(x @ w), (16,)).softmax(-1).square()


def _pooled(x: Any, w: Any) -> Any:
    return functional.max_pool2d(functional.conv2d(x, w, padding=1).relu(), 2)


def _branch(x: Any) -> Any:
    return ad.cond(x.sum() > 0, lambda y: y.exp(), lambda y: y.sin() * 2, x)


def _sorted(x: Any) -> Any:
    return x.sort(1)[0] * ad.fft.rfft(x).abs().sum() + x.topk(3)[0].sum()


def _priced(s: Any, k: Any, t: Any) -> Any:
    spread = 0.2 * t.sqrt()
    d = ((s / k).log() + 0.02 * t) / spread
    normal = lambda z: 0.5 * (1 + (z / 2**0.5).erf())
    return s * normal(d + spread) - k * (-0.02 * t).exp() * normal(d)


Program = tuple[Callable[..., Any], list[Any], Any]
PROGRAMS: dict[str, Callable[[], Program]] = {
    "bytes": lambda: (_bytes, [ones(300, 40), ones(300, 40, dtype=ad.bool)], None),
    "swept": lambda: (_sum_of(_swept), [ones(9000, 30), ones(30, 20), ones(20, 10)], None),
    "swept open": lambda: (
        _sum_of(_swept), [ones(9000, 30), ones(30, 20), ones(20, 10)], {0: 0}),
    "heavy": lambda: (_sum_of(_heavy), [ones(5000)], None),
    "heavy open": lambda: (_sum_of(_heavy), [ones(5000)], {0: 0}),
    "gathered": lambda: (_gathered, [ones(50, 3), ad.arange(0, 50, 2)], None),
    "until": lambda: (ad.grad(lambda x: _until(x).sum()), [ones(7)], None),
    "attended": lambda: (_sum_of(_attended), [ones(2, 3, 40, 8)] * 3, None),
    "attended long": lambda: (_sum_of(_attended), [ones(2, 3, 200, 8)] * 3, None),
    "solved": lambda: (_sum_of(_solved), [ones(5, 4, 4), ones(5, 4, 2)], None),
    "extremes": lambda: (_extremes, [ones(100, 30)], None),
    "extremes open": lambda: (_extremes, [ones(100, 30)], {0: (0, 1)}),
    "normed": lambda: (_sum_of(_normed), [ones(600, 32), ones(32, 16)], None),
    "normed open": lambda: (_sum_of(_normed), [ones(600, 32), ones(32, 16)], {0: 0}),
    "normed short": lambda: (_sum_of(_normed), [ones(3, 32), ones(32, 16)], {0: 0}),
    "normed half": lambda: (
        _sum_of(_normed), [ones(60, 32, dtype=ad.bfloat16), ones(32, 16, dtype=ad.bfloat16)], None),
    "pooled": lambda: (_sum_of(_pooled), [ones(2, 3, 16, 16), ones(4, 3, 3, 3)], None),
    "branch": lambda: (_sum_of(_branch), [ones(10)], None),
    "sorted": lambda: (_sorted, [ones(20, 30)], None),
    "transposed": lambda: (lambda x: x.mT * 2 + 1, [ones(300, 200)], None),
    "complex": lambda: (
        lambda x: (x * x.conj()).exp().sum(0), [ones(30, 20, dtype=ad.complex64)], None),
    "many pieces": lambda: (lambda x: ad.cat([x * i for i in range(20)]).sin(), [ones(40)], None),
    "few pieces": lambda: (lambda x: ad.cat([x, x * 2, x.sin()]).cumsum(0), [ones(40)], None),
    "Black–Scholes": lambda: (_sum_of(_priced), [ones(100_000)] * 3, None),
}  # fmt: skip


def _timed(make: Any, how: str, dtype: str, sizes: Any) -> Program:
    """A program of `compile_time`, with 60 operators."""
    ad.set_default_dtype(getattr(ad, dtype))
    try:
        f, arguments = make(ad, 60)
    finally:
        ad.set_default_dtype(ad.float32)
    return compile_time.transformed(ad, how, f, len(arguments)), arguments, sizes


def programs() -> Iterator[tuple[str, Callable[[], Program]]]:
    """The programs of this file, and those of `compile_time`."""
    yield from PROGRAMS.items()
    for name, (make, count, dtype) in compile_time.PROGRAMS.items():
        if count <= 1000:  # others are the same programs, longer
            yield name, partial(_timed, make, "gradient", dtype, None)
    for name, (make, _, how, sizes) in compile_time.MORE.items():
        yield name, partial(_timed, make, how, "float64", sizes)


def source_of(program: Program) -> str:
    """The C text of a program."""
    function, arguments, sizes = program
    return ad.compile(function, dynamic=sizes).lower(*arguments).source


def _without_order(text: str) -> list[str]:
    """The lines of a source, with those of its prelude (one for each function) in order."""
    lines = text.splitlines()
    start = next((k for k, line in enumerate(lines) if line.startswith(_AFTER)), 0)
    return sorted(lines[:start]) + lines[start:]


def compare(name: str, text: str, before: str) -> int:
    """Print how two texts of a program differ; return whether they do."""
    found = [*difflib.unified_diff(_without_order(before), _without_order(text), lineterm="", n=1)]
    print(f"{name}: {len(found)} lines differ" if found else f"{name}: the same")
    print("\n".join(found[:40]), end="\n" if found else "")
    return bool(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("--only", default="", help="a part of the names of programs")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    different = 0
    for name, make in programs():
        if given.only not in name:
            continue
        text = source_of(make())
        file = f"{name.replace(' ', '_').replace(',', '')}.c"
        (given.folder / file).write_text(text)
        if given.before is not None:
            different += compare(name, text, (given.before / file).read_text())
    print(f"{different} programs differ" if given.before else "written")
    return different


if __name__ == "__main__":
    raise SystemExit(main())

"""Eager operators on large arrays, ours over PyTorch's, one operator after the other.

    python benchmarks/eager_kernels.py [--size 1000000] [--threads 2] [PATTERN]

Each library runs in a process of its own; they take turns, so that both meet the same machine. The
number of an operator is the median of its rounds, forward only.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

ROUNDS, SECONDS = 5, 0.02  # turns of each library, and how long one lasts at least

UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "digamma", "erf", "erfc", "exp", "expm1",
    "floor", "log1p", "neg", "reciprocal", "relu", "round", "sigmoid", "sign", "sin", "sinh",
    "square", "tan", "tanh", "trunc",
)  # fmt: skip
POSITIVE = ("lgamma", "log", "log10", "log2", "rsqrt", "sqrt")
BINARY = ("add", "atan2", "div", "fmod", "hypot", "maximum", "minimum", "mul", "pow", "sub")
ACTIVATIONS = ("elu", "gelu", "hardswish", "leaky_relu", "mish", "selu", "silu", "softplus")


def calls(lib: Any, size: int, dtype: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The operators, each with its arguments."""
    import numpy as np

    draw = np.random.default_rng(0)
    make = lambda x: lib.tensor(x.astype(dtype))
    x, y = make(draw.uniform(-0.9, 0.9, size)), make(draw.uniform(0.1, 2.0, size))
    side = math.isqrt(size)
    matrix = make(draw.standard_normal((side, side)))
    batch = make(draw.standard_normal((max(size // 50_000, 1), 50, 20, 50)))
    index = lib.tensor(draw.integers(0, side, (side, side)))
    weight, label = make(draw.standard_normal(side)), lib.tensor(draw.integers(0, side, side))
    f = lib.nn.functional
    for name in UNARY:
        yield name, lambda name=name: getattr(lib, name)(x)
    for name in POSITIVE:
        yield name, lambda name=name: getattr(lib, name)(y)
    for name in BINARY:
        yield name, lambda name=name: getattr(lib, name)(y, x)
    for name in ACTIVATIONS:
        yield name, lambda name=name: getattr(f, name)(x)
    yield "gelu tanh", lambda: f.gelu(x, approximate="tanh")
    yield "clamp", lambda: lib.clamp(x, -0.5, 0.5)
    yield "erfinv", lambda: lib.erfinv(x)
    yield "where", lambda: lib.where(x > 0, x, y)
    yield "lerp", lambda: lib.lerp(x, y, 0.3)
    yield "sum", lambda: x.sum()
    yield "sum of rows", lambda: matrix.sum(1)
    yield "sum of columns", lambda: matrix.sum(0)
    yield "mean", lambda: x.mean()
    yield "var", lambda: matrix.var(1)
    yield "amax", lambda: matrix.amax(1)
    yield "cumsum", lambda: matrix.cumsum(1)
    yield "cumprod", lambda: matrix.cumprod(1)
    yield "softmax", lambda: matrix.softmax(1)
    yield "log_softmax", lambda: matrix.log_softmax(1)
    yield "logsumexp", lambda: matrix.logsumexp(1)
    yield "layer_norm", lambda: f.layer_norm(matrix, (side,), weight, weight)
    yield "batch_norm", lambda: f.batch_norm(batch, None, None, training=True)
    yield "cross_entropy", lambda: f.cross_entropy(matrix, label)
    yield "gather", lambda: matrix.gather(1, index)
    yield "scatter_add", lambda: matrix.scatter_add(1, index, matrix)
    yield "index_select", lambda: matrix.index_select(0, label)
    yield "transpose", lambda: matrix.t().contiguous()
    yield "cat", lambda: lib.cat([x, y])
    yield "sort", lambda: x.sort()


def serve(library: str, size: int, dtype: str, pattern: str) -> None:
    """Time one operator for each line that asks for it."""
    if library == "torch":
        import torch as lib

        lib.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    else:
        import adjoint as lib
    known = {name: call for name, call in calls(lib, size, dtype) if fnmatch.fnmatch(name, pattern)}
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        call = known[line.strip()]
        call()
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < SECONDS:
            call()
            count += 1
        print((time.perf_counter() - start) / count, flush=True)


def started(library: str, args: argparse.Namespace, dtype: str) -> subprocess.Popen[str]:
    settings = {"OMP_NUM_THREADS": str(args.threads), "ADJOINT_NATIVE": "wait"}
    command = [sys.executable, __file__, args.pattern, "--serve", library, "--dtype", dtype]
    return subprocess.Popen(
        [*command, "--size", str(args.size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env=os.environ | settings,
    )  # fmt: skip


def ask(process: subprocess.Popen[str], name: str) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    print(name, file=process.stdin, flush=True)
    return float(process.stdout.readline())


def compare(args: argparse.Namespace, dtype: str) -> dict[str, tuple[float, float]]:
    """Milliseconds of each operator, ours and PyTorch's."""
    ours, theirs = (started(library, args, dtype) for library in ("adjoint", "torch"))
    assert ours.stdout is not None
    assert theirs.stdout is not None
    names = json.loads(ours.stdout.readline())
    assert json.loads(theirs.stdout.readline()) == names
    found = {}
    for name in names:
        pairs = [(ask(ours, name), ask(theirs, name)) for _ in range(ROUNDS)]
        a, b = (1e3 * statistics.median(column) for column in zip(*pairs, strict=True))
        found[name] = a, b
        print(f"{dtype}  {name:16} {a:9.3f} {b:9.3f}   {a / b:6.2f}", flush=True)
    for process in (ours, theirs):
        process.kill()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="*")
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--dtype", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve, args.size, args.dtype, args.pattern)
        return
    print("dtype    operator           adjoint     torch    ratio   (ms)")
    ratios = [a / b for dtype in ("float32", "float64") for a, b in compare(args, dtype).values()]
    mean = math.exp(statistics.mean(map(math.log, ratios)))
    slow = sum(r > 1.5 for r in ratios)
    print(f"\n{len(ratios)} operators: geometric mean {mean:.2f}, {slow} above 1.5")


if __name__ == "__main__":
    main()

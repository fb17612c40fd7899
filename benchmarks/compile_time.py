"""How long compiling takes: programs of about 1,000 operators, with their gradients.

Operators are those that the function calls, before differentiation; those inside loops count once.
Nothing comes from the cache on disk. Seconds are wall time: two compilers work on a long source
where there are two cores. Open sizes are traced and lowered for some examples, as part of `trace`.

    python benchmarks/compile_time.py [part of a name …] [--torch]

Prints a table; with --torch, also how many times as long the first call of torch.compile takes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

Program = tuple[Callable[..., Any], list[Any]]
_LOOPS = ("nest", "shape", "sweep", "add_versions", "place", "write")  # stages
_COLUMNS = ("operators", "trace", "lower+fuse", "loops+C", "C compiler", "wall", "per 1,000")


def chain(xp: Any, count: int) -> Program:
    def f(x: Any) -> Any:
        for i in range(count // 2):
            x = (x * 1.01).sin() if i % 2 else (x + 0.5).tanh()
        return x.sum()

    return f, [xp.ones(100)]


def mixed(xp: Any, count: int) -> Program:
    """Products, softmax, means, views."""

    def f(x: Any, w: Any) -> Any:
        for _ in range(count // 9):
            y = (x @ w).softmax(-1) + x
            y = y - y.mean(0)
            x = (y * 0.5).tanh().reshape(-1).reshape(20, 16).transpose(0, 1).transpose(0, 1)
        return x.square().sum()

    return f, [xp.ones(20, 16), xp.ones(16, 16)]


def matrices(xp: Any, count: int) -> Program:
    """Products of 4 by 4 matrices."""

    def f(x: Any, w: Any) -> Any:
        for _ in range(count):
            x = x @ w
        return x.sum()

    return f, [xp.ones(4, 4), xp.eye(4)]


def rnn(xp: Any, count: int) -> Program:
    """A recurrent net, unrolled."""

    def f(x: Any, w: Any, u: Any) -> Any:
        h = xp.zeros(8, 16)
        for t in range(count // 5):
            h = (x[t] @ w + h @ u).tanh()
        return h.square().sum()

    return f, [xp.ones(count // 5, 8, 4), xp.ones(4, 16), xp.ones(16, 16) * 0.1]


def wide(xp: Any, count: int) -> Program:
    """Many inputs, each with its own small result."""

    def f(*xs: Any) -> Any:
        return sum((x * (i + 1)).sin().sum() for i, x in enumerate(xs))

    return f, [xp.ones(10) for _ in range(count // 4)]


def shapes(xp: Any, count: int) -> Program:
    """Parameters of many shapes."""

    def f(*xs: Any) -> Any:
        return sum((x * x + 1.5).sqrt().mean() for x in xs)

    return f, [xp.ones(2 + i % 50, 1 + i // 50) for i in range(count // 5)]


def layers(xp: Any, count: int) -> Program:
    """A deep net with parameters of its own in each layer: linear, norm, gelu, residual."""
    functional = xp.nn.functional

    def f(x: Any, *parameters: Any) -> Any:
        for i in range(0, len(parameters), 2):
            y = functional.layer_norm(functional.linear(x, parameters[i], parameters[i + 1]), (32,))
            x = x + functional.gelu(y)
        return x.square().mean()

    return f, [xp.ones(64, 32), *[xp.ones(32, 32) * 0.1, xp.ones(32)] * (count // 5)]


def scalars(xp: Any, count: int) -> Program:
    """A simulation, step by step, of numbers."""

    def f(x: Any, v: Any, k: Any) -> Any:
        for _ in range(count // 6):
            v = v - (k * x.sin() + v * 0.1) * 0.01
            x = x + v * 0.01
        return x * x + v * v

    return f, [xp.ones(()), xp.zeros(()), xp.ones(())]


def elements(xp: Any, count: int) -> Program:
    """Single elements of a vector, read and put together again."""

    def f(x: Any) -> Any:
        found = [x[i] * x[(i + 1) % len(x)] for i in range(count // 4)]
        return xp.stack(found).square().sum()

    return f, [xp.ones(count // 4)]


def constants(xp: Any, count: int) -> Program:
    """Tables from outside."""
    tables = [xp.ones(8) * i for i in range(count // 3)]

    def f(x: Any) -> Any:
        for table in tables:
            x = (x + table).cos()
        return x.sum()

    return f, [xp.ones(8)]


def outputs(xp: Any, count: int) -> Program:
    """Many results, and a sum of them all."""

    def f(x: Any) -> Any:
        found = [(x * i).exp() for i in range(count // 3)]
        return sum(y.sum() for y in found)

    return f, [xp.ones(12)]


def einsums(xp: Any, count: int) -> Program:
    def f(x: Any, w: Any) -> Any:
        for i in range(count // 2):
            x = xp.einsum("bij,jk->bik" if i % 2 else "bij,kj->bki", x, w)
            x = x.tanh()
        return x.sum()

    return f, [xp.ones(3, 6, 6), xp.ones(6, 6) * 0.1]


def convolutions(xp: Any, count: int) -> Program:
    functional = xp.nn.functional

    def f(x: Any, *kernels: Any) -> Any:
        for kernel in kernels:
            x = functional.conv2d(x, kernel, padding=1).relu() * 0.5 + x
        return x.mean()

    return f, [xp.ones(2, 8, 16, 16), *[xp.ones(8, 8, 3, 3) * 0.01] * (count // 4)]


def norms(xp: Any, count: int) -> Program:
    """Reductions along both dimensions."""

    def f(x: Any) -> Any:
        for i in range(count // 6):
            x = x / (x.square().sum(i % 2, keepdim=True) + 1).sqrt() + x.amax(1 - i % 2, True)
        return x.sum()

    return f, [xp.ones(30, 20)]


PROGRAMS: dict[str, tuple[Callable[[Any, int], Program], int, str]] = {
    "chain": (chain, 1000, "float64"),
    "chain, 5,000": (chain, 5000, "float64"),
    "mixed": (mixed, 1000, "float64"),
    "mixed, float32": (mixed, 1000, "float32"),
    "4x4 products": (matrices, 1000, "float64"),
    "rnn unrolled": (rnn, 1000, "float64"),
    "rnn unrolled, 5,000": (rnn, 5000, "float32"),
    "wide": (wide, 1000, "float64"),
    "many shapes": (shapes, 1000, "float64"),
    "deep net": (layers, 500, "float32"),
    "scalars unrolled": (scalars, 1000, "float64"),
    "scalars unrolled, 5,000": (scalars, 5000, "float64"),
    "single elements": (elements, 1000, "float64"),
    "constants": (constants, 1000, "float64"),
    "outputs": (outputs, 1000, "float64"),
    "einsum": (einsums, 1000, "float64"),
    "convolutions": (convolutions, 200, "float32"),
    "norms": (norms, 1000, "float64"),
}


def scanned(ad: Any, inner: int) -> Program:
    """Two loops over time, one in the other, with a body of many operators."""

    def body(c: Any, x: Any) -> Any:
        for i in range(inner // 3):
            c = (c * x + 0.1 * i).tanh()
        return c, c.sum()

    def f(x: Any, xs: Any) -> Any:
        def outer(c: Any, row: Any) -> Any:
            c, ys = ad.scan(body, c, row)
            return c.sin(), ys.sum()

        end, sums = ad.scan(outer, x, xs)
        return end.sum() + sums.sum()

    return f, [ad.ones(5), ad.ones(4, 6, 5)]


# Transforms and loops that the rivals write in other words; the last of each row are open sizes.
MORE: dict[str, tuple[Callable[[Any, int], Program], int, str, Any]] = {
    "scans, nested": (scanned, 200, "gradient", None),
    "Hessian of scalars": (scalars, 200, "hessian", None),
    "jvp of mixed": (mixed, 500, "jvp", None),
    "chain, open size": (chain, 1000, "gradient", {"x": 0}),
    "deep net, open size": (layers, 250, "gradient", {"x": 0}),
    "norms, open size": (norms, 500, "gradient", {"x": 0}),
}


def transformed(ad: Any, how: str, f: Any, count: int) -> Any:
    """What is compiled of a function of so many arguments."""
    if how == "gradient":
        return ad.value_and_grad(f, argnums=tuple(range(count)))
    return ad.hessian(f) if how == "hessian" else lambda *args: ad.jvp(f, args, args)


def cases(ad: Any) -> Iterator[tuple[str, Callable[[], tuple[Any, Any, list[Any], Any]]]]:
    """Names, and functions that make (what to count, what to compile, arguments, open sizes)."""

    def case(make: Any, count: int, dtype: str, how: str, sizes: Any) -> Any:
        ad.set_default_dtype(getattr(ad, dtype))
        f, arguments = make(ad, count)
        return f, transformed(ad, how, f, len(arguments)), arguments, sizes

    for name, (make, count, dtype) in PROGRAMS.items():
        yield name, partial(case, make, count, dtype, "gradient", None)
    for name, (make, count, how, sizes) in MORE.items():
        yield name, partial(case, make, count, "float64", how, sizes)


def operators(graph: Any) -> int:
    """The nodes of a graph, with those inside its regions."""
    inner = (operators(g) for node in graph.nodes for g in node.graphs.values())
    return len(graph) + sum(inner)


def measured(ad: Any, function: Any, arguments: list[Any], sizes: Any) -> dict[str, float]:
    """Seconds of one compilation, by stage."""
    compiled = ad.compile(function, dynamic=sizes)
    started = time.perf_counter()
    stages = compiled.lower(*arguments)
    wall = time.perf_counter() - started
    took = stages.seconds
    found = {
        "lower+fuse": took["lower"] + took["keep_steps"] + took["fuse"],
        "loops+C": sum(took[stage] for stage in _LOOPS),
        "C compiler": took["build"],
    }
    return {"trace": wall - sum(found.values()), **found, "wall": wall}


def torch_seconds(name: str) -> float:
    """The first call of torch.compile, in a process of its own with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, "--only-torch", name]
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": folder}
        run = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    return float(run.stdout or "nan")


def only_torch(name: str) -> None:
    import torch

    torch.compile(torch.sin)(torch.ones(3))  # what is loaded once
    make, count, dtype = PROGRAMS[name]
    torch.set_default_dtype(getattr(torch, dtype))
    f, arguments = make(torch, count)
    both = torch.compile(torch.func.grad_and_value(f, argnums=tuple(range(len(arguments)))))
    started = time.perf_counter()
    both(*arguments)
    print(time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of the names of programs")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--only-torch", metavar="NAME", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only_torch:
        only_torch(asked.only_torch)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ADJOINT_CACHE"] = folder
        table(asked.names, asked.torch)


def warm(ad: Any) -> None:
    """Let the compiler be found, and kernels in C be built: once for each machine."""
    for dtype in (ad.float32, ad.float64):
        image, kernel = ad.ones(1, 8, 16, 16, dtype=dtype), ad.ones(8, 8, 3, 3, dtype=dtype)
        ad.compile(lambda x, w: ad.nn.functional.conv2d(x, w).sum() + (x @ x).sum())(image, kernel)


def table(names: list[str], with_torch: bool) -> None:
    import adjoint as ad

    warm(ad)
    titles = [*_COLUMNS, *["torch.compile / ours"] * with_torch]
    print(f"| {'program':24} | {' | '.join(titles)} |")
    print("| --- |" + " ---: |" * len(titles))
    for name, make in cases(ad):
        if names and not any(part in name for part in names):
            continue
        f, function, arguments, sizes = make()
        count = operators(ad.trace(f, *arguments))
        found = measured(ad, function, arguments, sizes)
        cells = [f"{found[column]:.2f}" for column in _COLUMNS[1:-1]]
        cells.append(f"{found['wall'] * 1000 / count:.2f}")
        if with_torch:
            theirs = torch_seconds(name) / found["wall"] if name in PROGRAMS else 0
            cells.append(f"{theirs:.1f}" if theirs else "")
        print(f"| {name:24} | {count:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

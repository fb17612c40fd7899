"""How much memory forward and backward take, against what must be kept for the backward.

A chain of pointwise operators on one long vector, in a process of its own for each tool; the peak
of resident memory is compared with the saved values alone. Of five operators (mul, tanh, add, sin,
exp) three need a value: tanh and exp their results, sin its input. A ratio near 1 says that
nothing is kept twice, and that gradients are freed as the backward goes.

    python benchmarks/eager_memory.py [--tools adjoint,torch] [--size 2000000] [--rounds 10]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
TOOLS = ("adjoint", "torch", "autograd")
SAVED_PER_ROUND = 3  # tanh and exp: their results; sin: its input
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# Freed arrays go back to the system at once, so that resident memory is what is in use.
SMALL_HEAP = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def chain(xp: Any, x: Any, a: Any, b: Any, rounds: int) -> Any:
    for _ in range(rounds):
        x = xp.exp(xp.sin(xp.tanh(x * a) + b))
    return x


def gradient(tool: str, size: int, rounds: int) -> None:
    """Compute one gradient of the chain."""
    arrays = [np.full(size, v, np.float32) for v in (0.5, 0.7, 0.1)]
    if tool == "autograd":
        import autograd
        import autograd.numpy as anp

        x, a, b = arrays
        autograd.grad(lambda x: anp.sum(chain(anp, x, a, b, rounds)))(x)
        return
    xp: Any = __import__(tool)
    x, a, b = (xp.from_numpy(v) for v in arrays)
    chain(xp, x.requires_grad_(), a, b, rounds).sum().backward()


def peak() -> int:
    """Return the largest resident memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def work(tool: str, size: int, rounds: int) -> None:
    gradient(tool, 16, 1)  # imports and warms up
    before = peak()
    gradient(tool, size, rounds)
    print(json.dumps(peak() - before))


def measure(tool: str, size: int, rounds: int) -> int:
    command = [sys.executable, __file__, "--worker", tool, "--size", str(size)]
    command += ["--rounds", str(rounds)]
    environment = os.environ | ONE_THREAD | SMALL_HEAP
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--size", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--worker", choices=TOOLS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.size, options.rounds)
        return
    array = 4 * options.size
    inputs = 3 * array
    needed = SAVED_PER_ROUND * options.rounds * array + inputs
    lines = [
        "| tool | peak (MB) | inputs and saved values (MB) | ratio |",
        "| --- | --- | --- | --- |",
    ]
    results = {}
    for tool in options.tools.split(","):
        used = measure(tool, options.size, options.rounds)
        results[tool] = {"peak": used, "needed": needed, "ratio": used / needed}
        lines.append(f"| {tool} | {used / 1e6:.0f} | {needed / 1e6:.0f} | {used / needed:.3f} |")
    text = "\n".join(lines)
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "eager_memory.md").write_text(text + "\n", encoding="utf-8")
    (RESULTS / "eager_memory.json").write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

"""How much memory forward and backward take, against what must be kept for the backward.

chain: pointwise operators on one long vector, in a process of its own for each tool; the peak of
resident memory is compared with the saved values alone. Of five operators (mul, tanh, add, sin,
exp) three need a value: tanh and exp their results, sin its input. A ratio near 1 says that
nothing is kept twice, and that gradients are freed as the backward goes.

attention: eight heads, sequences of 4096, 64 features, compared with queries, keys, values, the
output, and the gradients of all four; all scores would be eight times as much.

    python benchmarks/eager_memory.py [chain|attention] [--tools adjoint,torch] [--size 2000000]
        [--rounds 10]
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
HEADS, LENGTH, FEATURES = 8, 4096, 64
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


def attention(tool: str, length: int) -> None:
    """Compute one gradient of attention."""
    xp: Any = __import__(tool)
    functional = __import__(f"{tool}.nn.functional", fromlist=["nn"])
    shape = (1, HEADS, length, FEATURES)
    arrays = [np.full(shape, v, np.float32) for v in (0.5, 0.7, 0.1, 0.2)]
    q, k, v, grad = (xp.from_numpy(a) for a in arrays)
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    functional.scaled_dot_product_attention(q, k, v).backward(grad)


def peak() -> int:
    """Return the largest resident memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def work(program: str, tool: str, size: int, rounds: int) -> None:
    if program == "attention":
        attention(tool, 16)
        before = peak()
        attention(tool, LENGTH)
    else:
        gradient(tool, 16, 1)  # imports and warms up
        before = peak()
        gradient(tool, size, rounds)
    print(json.dumps(peak() - before))


def measure(program: str, tool: str, size: int, rounds: int) -> int:
    command = [sys.executable, __file__, program, "--worker", tool, "--size", str(size)]
    command += ["--rounds", str(rounds)]
    environment = os.environ | ONE_THREAD | SMALL_HEAP
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", nargs="?", choices=("chain", "attention"), default="chain")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--size", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--worker", choices=TOOLS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.program, options.worker, options.size, options.rounds)
        return
    array = 4 * options.size
    needed = SAVED_PER_ROUND * options.rounds * array + 3 * array
    if options.program == "attention":
        needed = 8 * 4 * HEADS * LENGTH * FEATURES
    lines = [
        "| tool | peak (MB) | values to hold (MB) | ratio |",
        "| --- | --- | --- | --- |",
    ]
    results = {}
    for tool in options.tools.split(","):
        if options.program == "attention" and tool == "autograd":
            continue
        used = measure(options.program, tool, options.size, options.rounds)
        results[tool] = {"peak": used, "needed": needed, "ratio": used / needed}
        lines.append(f"| {tool} | {used / 1e6:.0f} | {needed / 1e6:.0f} | {used / needed:.3f} |")
    text = "\n".join(lines)
    print(text)
    RESULTS.mkdir(exist_ok=True)
    name = RESULTS / ("eager_memory" if options.program == "chain" else "attention_memory")
    name.with_suffix(".md").write_text(text + "\n", encoding="utf-8")
    name.with_suffix(".json").write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

"""How long a fresh process takes to its first gradient: adjoint, HIPS autograd, JAX and PyTorch.

Three numbers for each tool that is installed: seconds to import it beyond NumPy, from there to the
first eager gradient (sine, product, matrix product, rectifier, softmax, cross entropy), and, in a
process of its own, from the import to the first compiled gradient. Every number is the median over
fresh processes, after one that fills the caches: Python's bytecode, and what a tool keeps on disk.

    python benchmarks/cold_start.py [--rounds 9] [--tools adjoint,autograd] [--clock processor]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile

START = """
import time
import numpy as np
clock = getattr(time, {clock!r})
x, w = np.linspace(-1, 1, 12).reshape(3, 4), np.linspace(-2, 2, 20).reshape(4, 5)
target = np.array([0, 1, 2])
marks = [clock()]
"""
END = """
marks.append(clock())
print(*[after - before for before, after in zip(marks, marks[1:])])
"""
MARK = "\nmarks.append(clock())\n"

# Of each tool: how it is imported, its first eager gradient, its first compiled one ('' for none).
ADJOINT = (
    "import adjoint as ad",
    """
x, w = ad.tensor(x, requires_grad=True), ad.tensor(w, requires_grad=True)
y = ((x.sin() * x) @ w).relu()
loss = ad.nn.functional.cross_entropy(y, ad.tensor(target)) + (y.softmax(1) * y).sum()
loss.backward()
""",
    """
f = ad.compile(ad.value_and_grad(lambda x, w: ((x.sin() * x) @ w).relu().sum()))
f(x, w)
""",
)
AUTOGRAD = (
    "import autograd, autograd.numpy as anp",
    """
def f(x, w):
    y = anp.maximum(anp.dot(anp.sin(x) * x, w), 0)
    logs = y - anp.log(anp.sum(anp.exp(y), 1, keepdims=True))
    return -anp.mean(logs[anp.arange(3), target]) + anp.sum(anp.exp(logs) * y)
autograd.grad(f, (0, 1))(x, w)
""",
    "",
)
JAX = (
    "import jax, jax.numpy as jnp",
    """
def f(x, w):
    y = jax.nn.relu((jnp.sin(x) * x) @ w)
    logs = jax.nn.log_softmax(y, 1)
    return -jnp.mean(logs[jnp.arange(3), target]) + jnp.sum(jax.nn.softmax(y, 1) * y)
jax.block_until_ready(jax.grad(f, (0, 1))(x, w))
""",
    """
f = jax.jit(jax.value_and_grad(lambda x, w: jax.nn.relu((jnp.sin(x) * x) @ w).sum(), (0, 1)))
jax.block_until_ready(f(x, w))
""",
)
TORCH = (
    "import torch",
    """
x, w = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
y = ((x.sin() * x) @ w).relu()
loss = torch.nn.functional.cross_entropy(y, torch.tensor(target)) + (y.softmax(1) * y).sum()
loss.backward()
""",
    "",
)
TOOLS = {"adjoint": ADJOINT, "autograd": AUTOGRAD, "jax": JAX, "torch": TORCH}


def seconds(program: str, clock: str, caches: str) -> list[float]:
    """What one fresh process prints."""
    environment = os.environ | {
        "PYTHONPYCACHEPREFIX": f"{caches}/bytecode",
        "ADJOINT_CACHE": f"{caches}/adjoint",
        "JAX_COMPILATION_CACHE_DIR": f"{caches}/jax",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PLATFORMS": "cpu",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    text = START.format(clock=clock) + program + END
    run = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True
    )
    return [float(word) for word in run.stdout.split()]


def medians(program: str, clock: str, rounds: int, caches: str) -> list[float]:
    """The median of each number over fresh processes; the first one only fills the caches."""
    seconds(program, clock, caches)
    taken = [seconds(program, clock, caches) for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*taken, strict=True)]


def measure(tool: str, clock: str, rounds: int, caches: str) -> tuple[float, float, float | None]:
    """Seconds of a tool: import, first gradient, first compiled call."""
    load, eager, compiled = TOOLS[tool]
    imported, first = medians(load + MARK + eager, clock, rounds, caches)
    if not compiled:
        return imported, first, None
    return imported, first, medians(load + MARK + compiled, clock, rounds, caches)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="fresh processes of each kind")
    parser.add_argument(
        "--tools", help=f"of {','.join(TOOLS)}; those that are installed if not given"
    )
    parser.add_argument(
        "--clock",
        choices=("wall", "processor"),
        default="processor",
        help="processor: for a machine that is shared",
    )
    chosen = parser.parse_args()
    tools = chosen.tools.split(",") if chosen.tools else list(TOOLS)
    clock = {"wall": "perf_counter", "processor": "process_time"}[chosen.clock]
    print(f"seconds ({chosen.clock}), median of {chosen.rounds} fresh processes")
    print(f"{'':10}{'import':>10}{'gradient':>10}{'compiled':>10}")
    with tempfile.TemporaryDirectory() as caches:
        for tool in tools:
            if importlib.util.find_spec(tool) is not None:
                cells = measure(tool, clock, chosen.rounds, caches)
                shown = (f"{c:10.3f}" if c is not None else f"{'-':>10}" for c in cells)
                print(f"{tool:10}{''.join(shown)}", flush=True)


if __name__ == "__main__":
    main()

"""What an operator costs in eager mode: adjoint, PyTorch and HIPS autograd in one run.

Each tool lives in a worker process of its own, and only one works at a time, on one thread. The
rounds are interleaved (every tool, then every tool again), so that a slow minute of the machine
hits all of them; medians are reported. The workers return what they computed, and the run fails if
they disagree.

    python benchmarks/eager_overhead.py [--rounds 15] [--tools adjoint,torch]

Prints a table and writes benchmarks/results/eager_overhead.{md,json}.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
TOOLS = ("adjoint", "torch", "autograd")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
BLOCK = 0.02  # seconds of one measurement
ROUNDS_OF_CHAIN = 10
OPERATORS = 5 * ROUNDS_OF_CHAIN

# name -> (operators in one call, unit)
TASKS: dict[str, tuple[int, str]] = {
    "forward, vectors of 10": (OPERATORS, "µs per operator"),
    "forward, vectors of 1000": (OPERATORS, "µs per operator"),
    "forward and backward, vectors of 10": (OPERATORS + 1, "µs per operator"),
    "forward and backward, vectors of 1000": (OPERATORS + 1, "µs per operator"),
    "training step of an MLP, 64×32-32-10": (1, "µs per step"),
}
Task = Callable[[], Any]


# --- what is measured, written once for all tools ------------------------------------------------


def chain(xp: Any, x: Any, a: Any, b: Any) -> Any:
    """Fifty operators of the five kinds; values stay bounded."""
    for _ in range(ROUNDS_OF_CHAIN):
        x = xp.exp(xp.sin(xp.tanh(x * a) + b))
    return x


def mlp_loss(xp: Any, parameters: Any, inputs: Any, targets: Any) -> Any:
    """Cross entropy of a network with one hidden layer."""
    w1, b1, w2, b2 = parameters
    logits = xp.tanh(inputs @ w1 + b1) @ w2 + b2
    total = xp.log(xp.exp(logits).sum(1))
    return (total - (logits * targets).sum(1)).mean()


def vectors(size: int) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(0)
    return tuple(generator.uniform(0.5, 1.5, size).astype(np.float32) for _ in range(3))


def network() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    shapes = ((32, 32), (32,), (32, 10), (10,))
    parameters = [(0.1 * generator.standard_normal(s)).astype(np.float32) for s in shapes]
    inputs = generator.standard_normal((64, 32)).astype(np.float32)
    targets = np.eye(10, dtype=np.float32)[generator.integers(0, 10, 64)]
    return parameters, inputs, targets


# --- the tools -------------------------------------------------------------------------------


def tape_tasks(xp: Any, tensor: Callable[[np.ndarray], Any]) -> dict[str, Task]:
    """Tasks of a tool with tensors and `backward`: adjoint and PyTorch."""
    tasks: dict[str, Task] = {}
    for size in (10, 1000):
        x, a, b = map(tensor, vectors(size))
        leaf = tensor(vectors(size)[0]).requires_grad_()

        def forward(x: Any = x, a: Any = a, b: Any = b) -> Any:
            return chain(xp, x, a, b)

        def both(leaf: Any = leaf, a: Any = a, b: Any = b) -> Any:
            leaf.grad = None
            chain(xp, leaf, a, b).sum().backward()
            return leaf.grad

        tasks[f"forward, vectors of {size}"] = forward
        tasks[f"forward and backward, vectors of {size}"] = both
    arrays, inputs, targets = network()
    parameters = [tensor(p).requires_grad_() for p in arrays]
    data = tensor(inputs), tensor(targets)

    def step() -> Any:
        loss = mlp_loss(xp, parameters, *data)
        loss.backward()
        with xp.no_grad():
            for p in parameters:
                p -= 0.01 * p.grad
                p.grad = None
        return loss

    tasks["training step of an MLP, 64×32-32-10"] = step
    return tasks


def adjoint_tasks() -> dict[str, Task]:
    import adjoint as ad

    return tape_tasks(ad, ad.tensor)


def torch_tasks() -> dict[str, Task]:
    import torch

    torch.set_num_threads(1)
    return tape_tasks(torch, torch.tensor)


def autograd_tasks() -> dict[str, Task]:
    import autograd
    import autograd.numpy as anp

    tasks: dict[str, Task] = {}
    for size in (10, 1000):
        x, a, b = vectors(size)
        gradient = autograd.grad(lambda x, a=a, b=b: anp.sum(chain(anp, x, a, b)))
        tasks[f"forward, vectors of {size}"] = lambda x=x, a=a, b=b: chain(anp, x, a, b)
        tasks[f"forward and backward, vectors of {size}"] = lambda x=x, g=gradient: g(x)
    parameters, inputs, targets = network()

    def loss(parameters: Any) -> Any:
        w1, b1, w2, b2 = parameters
        logits = anp.dot(anp.tanh(anp.dot(inputs, w1) + b1), w2) + b2
        total = anp.log(anp.sum(anp.exp(logits), 1))
        return anp.mean(total - anp.sum(logits * targets, 1))

    both = autograd.value_and_grad(loss)

    def step() -> Any:
        value, gradients = both(parameters)
        for p, g in zip(parameters, gradients, strict=True):
            p -= np.float32(0.01) * g
        return value

    tasks["training step of an MLP, 64×32-32-10"] = step
    return tasks


MAKERS = {"adjoint": adjoint_tasks, "torch": torch_tasks, "autograd": autograd_tasks}


# --- worker and parent -----------------------------------------------------------------------


def work(tool: str) -> None:
    """Answer each task's name on standard input with seconds per call, until the input ends."""
    tasks = MAKERS[tool]()
    counts: dict[str, int] = {}
    print(json.dumps(sorted(tasks)), flush=True)
    for line in sys.stdin:
        command, _, name = line.strip().partition(" ")
        task = tasks[name]
        if command == "value":
            values = np.asarray(task().tolist(), dtype=float)
            counts[name] = calibrate(task)
            print(json.dumps(float(values.mean())), flush=True)
        else:
            print(json.dumps(measure(task, counts[name])), flush=True)


def calibrate(task: Task) -> int:
    """Return how many calls take about BLOCK seconds."""
    count = 1
    while (elapsed := count * measure(task, count)) < BLOCK / 2:
        count *= 2
    return max(1, round(count * BLOCK / elapsed))


def measure(task: Task, count: int) -> float:
    gc.collect()
    start = time.perf_counter()
    for _ in range(count):
        task()
    return (time.perf_counter() - start) / count


class Worker:
    """A tool in its own process."""

    def __init__(self, tool: str) -> None:
        command = [sys.executable, __file__, "--worker", tool]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | ONE_THREAD,
        )
        self._answer()

    def ask(self, line: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a worker failed: {' '.join(map(str, self.process.args))}")
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def run(tools: tuple[str, ...], rounds: int) -> dict[str, dict[str, float]]:
    """Return microseconds per unit, by task and tool."""
    workers = {tool: Worker(tool) for tool in tools}
    times: dict[str, dict[str, list[float]]] = {t: {tool: [] for tool in tools} for t in TASKS}
    for task in TASKS:
        values = {tool: worker.ask(f"value {task}") for tool, worker in workers.items()}
        if not np.allclose(list(values.values()), values[tools[0]], rtol=1e-4):
            raise SystemExit(f"the tools disagree on '{task}': {values}")
    for number in range(rounds):
        for task in TASKS:
            turn = number % len(tools)  # nobody always goes first
            for tool in tools[turn:] + tools[:turn]:
                times[task][tool].append(workers[tool].ask(f"time {task}"))
    for worker in workers.values():
        worker.close()
    return {
        task: {
            tool: statistics.median(seconds) * 1e6 / TASKS[task][0]
            for tool, seconds in by_tool.items()
        }
        for task, by_tool in times.items()
    }


def table(results: dict[str, dict[str, float]], tools: tuple[str, ...]) -> str:
    """Return the results as Markdown; a ratio above 1 says how many times adjoint is faster."""
    first, *others = tools
    head = ["task", "unit", *tools, *(f"{t} / {first}" for t in others)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for task, micros in results.items():
        cells = [task, TASKS[task][1], *(f"{micros[t]:.2f}" for t in tools)]
        cells += [f"{micros[t] / micros[first]:.2f}" for t in others]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--worker", choices=TOOLS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker)
        return
    tools = tuple(options.tools.split(","))
    results = run(tools, options.rounds)
    text = table(results, tools)
    print(text)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    note = f"Medians of {options.rounds} interleaved rounds, one thread, float32. {machine}.\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "eager_overhead.md").write_text(f"{note}\n{text}\n", encoding="utf-8")
    (RESULTS / "eager_overhead.json").write_text(
        json.dumps(
            {"machine": machine, "rounds": options.rounds, "microseconds": results}, indent=1
        ),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()

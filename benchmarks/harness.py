"""What benchmarks have in common: a worker process for each tool, and interleaved rounds.

Only one worker works at a time, on one thread. Every tool has its turn, then every tool again, so
that a slow minute of the machine hits all of them; medians are reported. The workers return what
they computed, and the run fails if they disagree.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
BLOCK = 0.02  # seconds of one measurement
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}

Task = Callable[[], Any]
Clock = Callable[[], float]  # seconds
Times = dict[str, dict[str, float]]  # microseconds by task and tool


@dataclass(frozen=True)
class Benchmark:
    """One benchmark: what is measured, and with which tools."""

    file: str  # of the script that the workers run: "benchmarks/eager_overhead.py"
    title: str  # for --help
    tasks: dict[str, tuple[int, str]]  # name -> (units in one call, "µs per operator")
    makers: dict[str, Callable[[], dict[str, Task]]]  # tool -> its tasks
    note: str = "float32"  # beside the machine, in the results

    @property
    def name(self) -> str:
        return Path(self.file).stem


def work(benchmark: Benchmark, tool: str, clock: Clock) -> None:
    """Answer each task's name on standard input with seconds per call, until the input ends."""
    tasks = benchmark.makers[tool]()
    counts: dict[str, int] = {}
    print(json.dumps(sorted(tasks)), flush=True)
    for line in sys.stdin:
        command, _, name = line.strip().partition(" ")
        task = tasks[name]
        if command == "value":
            values = np.asarray(task().tolist(), dtype=float)
            counts[name] = calibrate(task, clock)
            print(json.dumps(float(values.mean())), flush=True)
        else:
            print(json.dumps(measure(task, counts[name], clock)), flush=True)


def calibrate(task: Task, clock: Clock) -> int:
    """Return how many calls take about BLOCK seconds."""
    count = 1
    while (elapsed := count * measure(task, count, clock)) < BLOCK / 2:
        count *= 2
    return max(1, round(count * BLOCK / elapsed))


def measure(task: Task, count: int, clock: Clock) -> float:
    """Return seconds per call."""
    gc.collect()
    start = clock()
    for _ in range(count):
        task()
    return (clock() - start) / count


class Worker:
    """A tool in its own process."""

    def __init__(self, file: str, tool: str, clock: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, file, "--worker", tool, "--clock", clock],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | ONE_THREAD,
        )
        self._answer()

    def ask(self, line: str) -> float:
        """Send a command and return the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a worker failed: {self.process.args}")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def run(benchmark: Benchmark, tools: tuple[str, ...], rounds: int, clock: str) -> Times:
    """Return microseconds per unit, by task and tool."""
    tasks = benchmark.tasks
    workers = {tool: Worker(benchmark.file, tool, clock) for tool in tools}
    times: dict[str, dict[str, list[float]]] = {t: {tool: [] for tool in tools} for t in tasks}
    for task in tasks:
        values = {tool: worker.ask(f"value {task}") for tool, worker in workers.items()}
        if not np.allclose(list(values.values()), values[tools[0]], rtol=1e-4):
            raise SystemExit(f"the tools disagree on '{task}': {values}")
    for number in range(rounds):
        for task in tasks:
            turn = number % len(tools)  # nobody always goes first
            for tool in tools[turn:] + tools[:turn]:
                times[task][tool].append(workers[tool].ask(f"time {task}"))
    for worker in workers.values():
        worker.close()
    return {
        task: {
            tool: statistics.median(seconds) * 1e6 / tasks[task][0]
            for tool, seconds in by_tool.items()
        }
        for task, by_tool in times.items()
    }


def table(benchmark: Benchmark, results: Times, tools: tuple[str, ...]) -> str:
    """Return the results as Markdown; a ratio above 1: the first tool is so much faster."""
    first, *others = tools
    head = ["task", "unit", *tools, *(f"{t} / {first}" for t in others)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for task, micros in results.items():
        cells = [task, benchmark.tasks[task][1], *(f"{micros[t]:.2f}" for t in tools)]
        cells += [f"{micros[t] / micros[first]:.2f}" for t in others]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(benchmark: Benchmark) -> None:
    """The command line: run, print the table, write it to benchmarks/results."""
    parser = argparse.ArgumentParser(description=benchmark.title)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tools", default=",".join(benchmark.makers))
    parser.add_argument(
        "--clock", choices=tuple(CLOCKS), default="wall", help="processor: for a shared machine"
    )
    parser.add_argument("--worker", choices=tuple(benchmark.makers), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(benchmark, options.worker, CLOCKS[options.clock])
        return
    tools = tuple(options.tools.split(","))
    results = run(benchmark, tools, options.rounds, options.clock)
    text = table(benchmark, results, tools)
    print(text)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    rounds = f"Medians of {options.rounds} interleaved rounds, one thread, {options.clock} clock"
    note = f"{rounds}, {benchmark.note}. {machine}.\n"
    record = {"machine": machine, "rounds": options.rounds, "microseconds": results}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{benchmark.name}.md").write_text(f"{note}\n{text}\n", encoding="utf-8")
    (RESULTS / f"{benchmark.name}.json").write_text(json.dumps(record, indent=1), encoding="utf-8")

"""Runs workloads while another process keeps one core busy, and compares medians with minima.

A process that computes and does nothing else is pinned to the last of the tools' cores. It stops
and goes on between samples, so that each tool is timed with and without it, in turn with others.
Single calls are timed: a block of calls would hide whether one of them or all of them are late.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks import workloads
from benchmarks.runner import LOGS, Options, Worker, WorkerError
from benchmarks.tools import TOOLS

OURS = ("adjoint", "adjoint eager")
_BUSY = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print("ready", flush=True)
while True:
    pass
"""


@dataclass
class Calls:
    """One tool on one case: seconds of single calls."""

    quiet: list[float] = field(default_factory=list)
    loaded: list[float] = field(default_factory=list)
    error: str | None = None

    @property
    def least(self) -> float:
        return min(self.quiet + self.loaded)

    @property
    def slowdown(self) -> float:
        """The median of calls on the loaded machine, over the fastest call."""
        return statistics.median(self.loaded) / self.least

    @property
    def mean_slowdown(self) -> float:
        return statistics.fmean(self.loaded) / self.least


@dataclass
class LoadedResult:
    """All tools on one case."""

    title: str
    case: str
    tools: dict[str, Calls] = field(default_factory=dict)

    def best_rival(self) -> str | None:
        """The other tool whose median suffers least, hand-written C among them."""
        timed = {t: c for t, c in self.tools.items() if t not in OURS and not c.error}
        return min(timed, key=lambda tool: timed[tool].slowdown, default=None)

    def ratio(self) -> float | None:
        """Our slow-down over the best rival's."""
        ours, rival = self.tools.get("adjoint"), self.best_rival()
        if ours is None or ours.error or rival is None:
            return None
        return ours.slowdown / self.tools[rival].slowdown

    def record(self) -> dict[str, Any]:
        return asdict(self)


class Load:
    """A process that keeps a core busy while it is let."""

    def __init__(self, core: int) -> None:
        command = [sys.executable, "-c", _BUSY, str(core)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.process.stdout.readline()
        self.process.send_signal(signal.SIGSTOP)

    @contextmanager
    def on(self) -> Generator[None]:
        self.process.send_signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def run(names: list[str], options: Options, say: Any = print) -> list[LoadedResult]:
    """Run workloads and return what was measured."""
    results: list[LoadedResult] = []
    LOGS.mkdir(parents=True, exist_ok=True)
    load = Load(sorted(os.sched_getaffinity(0))[: options.threads][-1])
    with tempfile.TemporaryDirectory(prefix="adjoint-bench-") as cache:
        workers = {tool: Worker(tool, options, cache) for tool in options.tools}
        try:
            for name in names:
                workload = workloads.load(name)
                chosen = workload.quick or tuple(workload.cases)[:1]
                for case in chosen if options.quick else workload.cases:
                    result = LoadedResult(workload.title, case)
                    _run_case(result, name, workers, load, options)
                    results.append(result)
                    say(line_of(result))
        finally:
            load.close()
            for worker in workers.values():
                worker.close()
    return results


def _run_case(
    result: LoadedResult, name: str, workers: dict[str, Worker], load: Load, options: Options
) -> None:
    for tool, worker in workers.items():
        if workloads.load(name).has(TOOLS[tool]):
            result.tools[tool] = Calls()
            with _noted(result, tool):
                worker.ask(do="prepare", workload=name, case=result.case)
    for number in range(options.rounds):
        tools = [tool for tool, calls in result.tools.items() if not calls.error]
        turn = number % max(len(tools), 1)  # nobody always goes first
        for tool in tools[turn:] + tools[:turn]:
            calls = result.tools[tool]
            with _noted(result, tool):
                calls.quiet += workers[tool].ask(do="calls", what="gradient")["seconds"]
                with load.on():
                    calls.loaded += workers[tool].ask(do="calls", what="gradient")["seconds"]
    for worker in workers.values():
        worker.release()


@contextmanager
def _noted(result: LoadedResult, tool: str) -> Generator[None]:
    """Note an error of a worker; the tool is not timed any more."""
    try:
        yield
    except WorkerError as error:
        result.tools[tool].error = str(error)


def line_of(result: LoadedResult) -> str:
    """One line while the suite runs."""
    parts = [
        f"{tool} {calls.error or f'{calls.slowdown:.2f}'}" for tool, calls in result.tools.items()
    ]
    return f"{result.title}, {result.case}: median over minimum {'; '.join(parts)}"


def table(results: list[LoadedResult]) -> list[list[str]]:
    """Milliseconds by case and tool, and how much slower the busy core makes calls."""
    head = ["workload", "tool", "minimum", "median, quiet", "median, loaded", "mean, loaded"]
    lines = [[*head, "median / minimum", "mean / minimum", "ours / best rival"]]
    for result in results:
        for tool, calls in result.tools.items():
            lines.append([f"{result.title}, {result.case}", tool, *_cells(result, tool, calls)])
    return lines


def _cells(result: LoadedResult, tool: str, calls: Calls) -> list[str]:
    if calls.error:
        return ["failed", *[""] * 6]
    times = (calls.least, statistics.median(calls.quiet), statistics.median(calls.loaded))
    times += (statistics.fmean(calls.loaded),)
    ratio = result.ratio() if tool == "adjoint" else None
    found = [*(f"{t * 1e3:.3g}" for t in times)]
    found += [f"{calls.slowdown:.2f}", f"{calls.mean_slowdown:.2f}"]
    return [*found, "" if ratio is None else f"{ratio:.2f}"]

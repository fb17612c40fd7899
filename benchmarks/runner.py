"""Runs workloads: one worker process for each tool, one at work at a time, rounds interleaved.

Idle pools of threads of one library slow down another in the same process, hence the processes.
Every tool has its turn, then every tool again, so that a slow minute hits all of them; medians are
reported. A sample during which the worker had to wait for a core, since other processes were busy,
is taken again.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import workloads
from benchmarks.tools import THREAD_VARIABLES, TOOLS
from benchmarks.workload import Workload

ROOT = Path(__file__).parents[1]
LOGS = Path(__file__).parent / "results" / "logs"  # what the workers print
WAITED = 0.03  # share of a sample that a worker may have waited for a core
RETAKES = 4


@dataclass(frozen=True)
class Options:
    """How to run."""

    tools: tuple[str, ...]
    rounds: int = 11
    block: float = 0.05  # seconds of one sample
    threads: int = os.cpu_count() or 1
    clock: str = "seconds"  # or "processor"
    patience: float = 120  # seconds to wait for an answer: compilation
    quick: bool = False


@dataclass
class Measured:
    """One tool on one case; seconds and bytes."""

    gradient: float = 0.0
    primal: float | None = None
    compile: float = 0.0
    peak: int | None = None
    disturbed: int = 0  # samples of the gradient that were kept although the worker had to wait
    spread: float = 0.0  # half of the range between the quartiles, relative to the median
    error: str | None = None


@dataclass
class Result:
    """All tools on one case."""

    workload: str
    title: str
    case: str
    target: float | None
    tools: dict[str, Measured] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        return asdict(self)


class WorkerError(Exception):
    """A worker died or did not answer in time."""


class Worker:
    """A tool in its own process, started when it is first asked."""

    def __init__(self, tool: str, options: Options, cache: str) -> None:
        self.tool, self.options, self.cache = tool, options, cache
        self.process: subprocess.Popen[str] | None = None

    def ask(self, patience: float | None = None, **order: Any) -> dict[str, Any]:
        """Send an order and return the answer."""
        process = self.process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            self.close()
            raise WorkerError("its process ended") from None
        return self._answer(patience or self.options.patience)

    def release(self) -> None:
        """Let the worker forget its task, if it is still there."""
        if self.process is not None:
            with contextlib.suppress(WorkerError):
                self.ask(do="release")

    def _start(self) -> subprocess.Popen[str]:
        threads = self.options.threads
        command = [sys.executable, "-m", "benchmarks.worker", self.tool, str(self.options.block)]
        # What an earlier run compiled must not be found again: the time to compile is measured.
        caches = {
            name: f"{self.cache}/{name}" for name in ("ADJOINT_CACHE", "TORCHINDUCTOR_CACHE_DIR")
        }
        path = {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
        cpu = {"JAX_PLATFORMS": "cpu"}  # also on a machine with a GPU
        env = os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads)) | caches | path | cpu
        env["ADJOINT_NATIVE"] = "wait"  # what is measured is there from the first call
        env |= {"PYTENSOR_FLAGS": f"base_compiledir={self.cache}/pytensor"}
        log = os.open(LOGS / f"{self.tool}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=env,
            cwd=self.cache,
        )
        os.close(log)
        cores = sorted(os.sched_getaffinity(0))[:threads]
        os.sched_setaffinity(
            self.process.pid, cores
        )  # JAX takes as many threads as it may use cores
        self._answer(120)
        return self.process

    def _answer(self, patience: float) -> dict[str, Any]:
        assert self.process is not None
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], patience)[0]:
            self.close()
            raise WorkerError(f"no answer in {patience:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            self.close()
            raise WorkerError("its process ended")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def differ(a: dict[str, Any], b: dict[str, Any], tolerance: float) -> bool:
    """Whether two summaries of an array are not of the same array."""
    if a["size"] != b["size"]:
        return True
    scale = max(a["largest"], b["largest"], 1e-300)
    left, right = (np.array([*v["means"], *v["elements"]]) for v in (a, b))
    return not bool(np.all(np.abs(left - right) <= tolerance * scale))


def run(names: list[str], options: Options, say: Any = print) -> list[Result]:
    """Run workloads and return what was measured."""
    results: list[Result] = []
    LOGS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="adjoint-bench-") as cache:
        workers = {tool: Worker(tool, options, cache) for tool in options.tools}
        try:
            for name in names:
                workload = workloads.load(name)
                chosen = workload.quick or tuple(workload.cases)[:1]
                for case in chosen if options.quick else workload.cases:
                    results.append(run_case(name, workload, case, workers, options))
                    say(line_of(results[-1]))
        finally:
            for worker in workers.values():
                worker.close()
    return results


def run_case(
    name: str, workload: Workload, case: str, workers: dict[str, Worker], options: Options
) -> Result:
    """Prepare all tools, compare what they compute, and time them in turn."""
    result = Result(name, workload.title, case, workload.target)
    values: dict[str, Any] = {}
    for tool, worker in workers.items():
        if not workload.has(TOOLS[tool]):
            continue
        measured = result.tools[tool] = Measured()
        try:
            answer = worker.ask(do="prepare", workload=name, case=case)
            measured.compile = answer["compile"]
            measured.peak = worker.ask(do="memory")["peak"]
            measured.primal = 0.0 if answer["primal"] else None
            values[tool] = answer["values"]
        except WorkerError as error:
            measured.error = str(error)
    compare(result, values, workload.tolerance_of(case))
    working = {
        tool: w
        for tool, w in workers.items()
        if tool in result.tools and not result.tools[tool].error
    }
    for what in ("gradient", "primal"):
        measure(result, working, what, options)
    for worker in working.values():
        worker.release()
    return result


def compare(result: Result, values: dict[str, Any], tolerance: float) -> None:
    """Mark the tools whose results differ from those of the majority."""
    agreeing = {
        tool: sum(same(mine, theirs, tolerance) for theirs in values.values())
        for tool, mine in values.items()
    }
    most = max(agreeing.values(), default=0)
    for tool, count in agreeing.items():
        if count < most:
            result.tools[tool].error = "computes something else"


def same(mine: Any, theirs: Any, tolerance: float) -> bool:
    return len(mine) == len(theirs) and not any(
        differ(a, b, tolerance) for a, b in zip(mine, theirs)
    )


def measure(result: Result, workers: dict[str, Worker], what: str, options: Options) -> None:
    """Interleaved rounds of one kind of call."""
    chosen = [t for t in workers if what == "gradient" or result.tools[t].primal is not None]
    times: dict[str, list[float]] = {tool: [] for tool in chosen}
    for number in range(options.rounds if what == "gradient" else max(options.rounds // 2, 1)):
        turn = number % max(len(chosen), 1)  # nobody always goes first
        for tool in chosen[turn:] + chosen[:turn]:
            if result.tools[tool].error:
                continue
            try:
                took, disturbed = take(workers[tool], what, options)
            except WorkerError as error:
                result.tools[tool].error = str(error)
                continue
            times[tool].append(took)
            result.tools[tool].disturbed += disturbed and what == "gradient"
    for tool, seconds in times.items():
        if seconds:
            setattr(result.tools[tool], what, statistics.median(seconds))
            if what == "gradient":
                low, high = np.quantile(seconds, (0.25, 0.75))
                result.tools[tool].spread = float(high - low) / 2 / statistics.median(seconds)


def take(worker: Worker, what: str, options: Options) -> tuple[float, bool]:
    """A sample without foreign load if one can be had, else the least disturbed of several."""
    best: dict[str, Any] = {"waited": float("inf")}
    for _ in range(1 + RETAKES):
        sample = worker.ask(do="time", what=what)
        if sample["waited"] < best["waited"]:
            best = sample
        if best["waited"] <= WAITED or options.clock == "processor":
            break
    return best[options.clock], best["waited"] > WAITED


def line_of(result: Result) -> str:
    """One line while the suite runs."""
    parts = [
        f"{tool} {m.error or f'{m.gradient * 1e3:.4g} ms'}" for tool, m in result.tools.items()
    ]
    return f"{result.title}, {result.case}: {'; '.join(parts)}"

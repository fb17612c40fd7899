"""The process of one tool: answers lines of JSON on standard input until it ends.

    {"do": "prepare", "workload": "rk4", "case": "f64"}   build, call once, say what came out
    {"do": "time", "what": "gradient"}                    one sample
    {"do": "calls", "what": "gradient"}                   the seconds of each call of a sample
    {"do": "memory"}                                      peak in a call, above that of the data
    {"do": "release"}                                     forget it

It is started by `runner` as `python -m benchmarks.worker jax 0.05`, the seconds of a sample last.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import workloads
from benchmarks.tools import TOOLS, Task, Tool

SAMPLES = 16  # elements of each array that are compared one by one


class Bench:
    """The tool's current task."""

    def __init__(self, tool: Tool, block: float) -> None:
        self.tool, self.block = tool, block
        self.task: Task | None = None
        self.counts: dict[str, int] = {}
        self.before = 0
        tool.warm_up()

    def release(self) -> dict[str, Any]:
        """Forget the task and its data."""
        self.task = None
        self.counts.clear()
        self.tool.forget()
        gc.collect()
        return {}

    def prepare(self, workload: str, case: str) -> dict[str, Any]:
        self.release()
        wanted = workloads.load(workload)
        arrays = wanted.data(wanted.cases[case])
        self.before = status_bytes("VmRSS")
        start = time.perf_counter()
        self.task = wanted.task(self.tool, case, arrays)
        results = self.task.gradient()
        first = time.perf_counter() - start
        steady = self.time("gradient")["seconds"]
        values = [summary(r) for r in leaves(results)]
        return {
            "first": first,
            "compile": max(first - steady, 0.0),
            "values": values,
            "primal": self.task.primal is not None,
        }

    def time(self, what: str) -> dict[str, Any]:
        """One sample: seconds of wall and processor for a call, and the share of time it waited."""
        call = self._call(what)
        if what not in self.counts:
            self.counts[what] = calibrate(call, self.block)
        return sample(call, self.counts[what])

    def calls(self, what: str) -> dict[str, Any]:
        """The seconds of single calls, one after the other for as long as a sample."""
        call, found = self._call(what), []
        start = end = time.perf_counter()
        while end - start < self.block:
            before = end
            call()
            end = time.perf_counter()
            found.append(end - before)
        return {"seconds": found}

    def memory(self) -> dict[str, Any]:
        call = self._call("gradient")
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        call()
        return {"peak": max(status_bytes("VmHWM") - self.before, 0)}

    def _call(self, what: str) -> Callable[[], Any]:
        assert self.task is not None
        call = getattr(self.task, what)
        assert call is not None
        return call


def calibrate(call: Callable[[], Any], block: float) -> int:
    """How many calls make one sample."""
    call()
    count = 1
    while (elapsed := count * sample(call, count)["processor"]) < block / 4 and count < 1 << 20:
        count *= 2
    return max(1, round(count * block / max(elapsed, 1e-9)))


def sample(call: Callable[[], Any], count: int) -> dict[str, float]:
    gc.collect()
    gc.disable()
    waited, processor, start = waiting(), time.process_time(), time.perf_counter()
    for _ in range(count):
        call()
    wall = time.perf_counter() - start
    processor, waited = time.process_time() - processor, waiting() - waited
    gc.enable()
    return {"seconds": wall / count, "processor": processor / count, "waited": waited / wall}


def waiting() -> float:
    """Seconds that threads of this process were ready to run but had no core."""
    total = 0
    try:
        for thread in os.listdir("/proc/self/task"):
            total += int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[1])
    except (OSError, IndexError):  # not Linux: each involuntary switch as a slice of 3 ms
        return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw * 3e-3
    return total * 1e-9


def status_bytes(name: str) -> int:
    """VmRSS or VmHWM of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


def leaves(results: Any) -> list[Any]:
    """Arrays in nested lists, tuples and dicts."""
    if isinstance(results, dict):
        results = list(results.values())
    if isinstance(results, (list, tuple)):
        return [leaf for item in results for leaf in leaves(item)]
    return [results]


def summary(array: Any) -> dict[str, Any]:
    """What is compared between tools: shape, largest element, two sums, some elements."""
    values = np.asarray(array.detach() if hasattr(array, "detach") else array, dtype=float).ravel()
    places = np.linspace(0, values.size - 1, min(values.size, SAMPLES)).astype(int)
    signs = np.where(np.arange(values.size) % 3 == 0, -1.0, 1.0)
    return {
        "size": values.size,
        "largest": float(np.abs(values).max(initial=0)),
        "means": [
            float(values.mean()),
            float((values * signs).mean()),
            float(np.abs(values).mean()),
        ],
        "elements": values[places].tolist(),
    }


def main() -> None:
    channel = os.fdopen(os.dup(1), "w")  # what libraries print must not reach the protocol
    os.dup2(2, 1)
    tool, block = TOOLS[sys.argv[1]], float(sys.argv[2])
    bench = Bench(tool, block)
    print(json.dumps({"ready": tool.name}), file=channel, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = getattr(bench, order.pop("do"))(**order)
        except Exception as error:
            traceback.print_exc()
            first = (str(error).strip() or "no message").splitlines()[0]
            answer = {"error": f"{type(error).__name__}: {first}"}
        print(json.dumps(answer), file=channel, flush=True)


if __name__ == "__main__":
    main()

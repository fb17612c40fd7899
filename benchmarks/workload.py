"""What a workload is: cases, data, and how each tool computes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.tools import Special, Task, Tool

Case = dict[str, Any]
Arrays = list[np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Workload:
    """One program, at several sizes, written for several tools."""

    title: str  # for the table: "Black–Scholes, five gradients"
    cases: dict[str, Case]  # label -> parameters: {"1e5 f64": {"n": 100_000, "dtype": "float64"}}
    data: Callable[[Case], Arrays]  # the arguments, made with a fixed seed
    build: Callable[[Tool, Case, Arrays], Task]  # for the tools that are not `Special`
    special: dict[str, Callable[[Tool, Case, Arrays], Task]] = field(
        default_factory=dict
    )  # other programs, by tool
    skip: dict[str, str] = field(default_factory=dict)  # tool -> why it is left out
    quick: tuple[str, ...] = ()  # cases of --quick; none: the first
    target: float | None = None  # our time over the best rival's, at most

    def has(self, tool: Tool) -> bool:
        """Whether there is a program for a tool."""
        return tool.name in self.special or not (
            isinstance(tool, Special) or tool.name in self.skip
        )

    def task(self, tool: Tool, case: str, arrays: Arrays) -> Task:
        """What a tool runs for a case."""
        return self.special.get(tool.name, self.build)(tool, self.cases[case], arrays)

    def tolerance_of(self, case: str) -> float:
        """How far results may differ, relative to the largest element of an array."""
        return 1e-3 if self.cases[case].get("dtype") == "float32" else 1e-7


def random(seed: int = 0) -> np.random.Generator:
    """The generator that workloads draw their data from."""
    return np.random.default_rng(seed)

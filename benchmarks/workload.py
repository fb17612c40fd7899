"""What a workload is: cases, data, and how each tool computes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.tools import Special, Task, Tool

Case = dict[str, Any]
Arrays = list[np.ndarray[Any, Any]]
EVERYWHERE = ("adjoint", "torch.compile", "torch", "jax", "autograd")


@dataclass(frozen=True)
class Workload:
    """One program, at several sizes, written for several tools."""

    title: str  # for the table: "Black–Scholes, five gradients"
    cases: dict[str, Case]  # label -> parameters: {"1e5 f64": {"n": 100_000, "dtype": "float64"}}
    data: Callable[[Case], Arrays]  # the arguments, made with a fixed seed
    build: Callable[[Tool, Case, Arrays], Task]  # for the tools of EVERYWHERE
    special: dict[str, Callable[[Tool, Case, Arrays], Task]] = field(default_factory=dict)  # other programs, by tool
    skip: dict[str, str] = field(default_factory=dict)  # tool -> why it is left out
    quick: tuple[str, ...] = ()  # cases of --quick; none: the first
    tolerance: float = 1e-7  # relative to the largest element of an array; float32 cases: 1e-3
    target: float | None = None  # our time over the best rival's, at most

    def task(self, tool: Tool, case: str) -> Task | None:
        """What a tool runs for a case; None if it has no program."""
        parameters = self.cases[case]
        maker = self.special.get(tool.name)
        if maker is None and (isinstance(tool, Special) or tool.name in self.skip):
            return None
        return (maker or self.build)(tool, parameters, self.data(parameters))


def random(seed: int = 0) -> np.random.Generator:
    """The generator that workloads draw their data from."""
    return np.random.default_rng(seed)

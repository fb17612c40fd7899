"""One LSTM layer over 64 steps, PyTorch's operator of that name; gradient in weights and input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.tools import Task, Tool
from benchmarks.workload import Arrays, Case, Workload, random


def data(case: Case) -> Arrays:
    """w_ih, w_hh, b_ih, b_hh, the sequence, the first state and cell."""
    draw, n = random(), case["units"]
    weights = [draw.normal(size=(4 * n, n)) / np.sqrt(n) for _ in range(2)]
    biases = [0.1 * draw.normal(size=4 * n) for _ in range(2)]
    x = draw.normal(size=(case["steps"], case["batch"], n))
    state = [np.zeros((1, case["batch"], n)) for _ in range(2)]
    return [a.astype(np.float32) for a in (*weights, *biases, x, *state)]


def program(xp: Any) -> Callable[..., Any]:
    def loss(w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, x: Any, h: Any, c: Any) -> Any:
        weights = [w_ih, w_hh, b_ih, b_hh]
        y, _, _ = xp.lstm(x, [h, c], weights, True, 1, 0.0, True, False, False)
        return (y * y).mean()

    return loss


def build(tool: Tool, case: Case, arrays: Arrays) -> Task:
    return tool.task(program(tool.xp), tuple(range(5)), arrays)


WORKLOAD = Workload(
    title="LSTM layer",
    cases={"64×16×128": {"steps": 64, "batch": 16, "units": 128, "dtype": "float32"}},
    data=data,
    build=build,
    special={"adjoint eager": build},
    skip={"autograd": "has no LSTM", "jax": "written with PyTorch's functions"},
    target=1.0,
)

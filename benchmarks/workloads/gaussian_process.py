"""Marginal likelihood of a Gaussian process: gradient in length scales, variance and noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.tools import Task, Tool
from benchmarks.workload import Arrays, Case, Workload, random


def data(case: Case) -> Arrays:
    draw = random()
    x = draw.uniform(-2, 2, (case["n"], case["d"]))
    y = np.sin(x.sum(1)) + 0.1 * draw.normal(size=case["n"])
    return [np.zeros(case["d"]), np.array([0.0, -2.0]), x, y, np.eye(case["n"])]


def program(xp: Any, solve: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def likelihood(scales: Any, others: Any, x: Any, y: Any, identity: Any) -> Any:
        z = x * xp.exp(-scales)
        squares = xp.sum(z * z, 1)
        distances = squares[:, None] + squares[None, :] - 2 * (z @ z.T)
        K = xp.exp(others[0] - 0.5 * distances) + xp.exp(others[1]) * identity
        L = xp.linalg.cholesky(K)
        a = solve(L, y[:, None])
        return 0.5 * xp.sum(a * a) + xp.sum(xp.log(xp.diag(L)))

    return likelihood


def build(tool: Tool, case: Case, arrays: Arrays) -> Task:
    xp = tool.xp
    if hasattr(xp, "solve_triangular"):
        solve = lambda L, b: xp.solve_triangular(L, b, lower=True)
    else:
        solve = lambda L, b: xp.linalg.solve_triangular(L, b, upper=False)
    return tool.task(program(xp, solve), (0, 1), arrays)


WORKLOAD = Workload(
    title="Gaussian process likelihood",
    cases={"n=500": {"n": 500, "d": 4}},
    data=data,
    build=build,
    target=0.9,
)

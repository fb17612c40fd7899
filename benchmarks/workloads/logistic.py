"""Logistic regression on rows with few features: weights are gathered, gradients scattered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.tools import Task, Tool
from benchmarks.workload import Arrays, Case, Workload, random


def data(case: Case) -> Arrays:
    """Weights, bias; which features a row has, their values, and its label ±1."""
    draw = random()
    rows, few, features = case["rows"], case["few"], case["features"]
    return [
        draw.normal(size=features),
        np.zeros(()),
        draw.integers(0, features, (rows, few)),
        draw.normal(size=(rows, few)),
        draw.integers(0, 2, rows) * 2.0 - 1.0,
    ]


def program(xp: Any, zero: Any) -> Callable[..., Any]:
    def loss(weights: Any, bias: Any, features: Any, values: Any, labels: Any) -> Any:
        logits = xp.sum(weights[features] * values, 1) + bias
        return xp.mean(xp.logaddexp(zero, -labels * logits)) + 1e-4 * xp.sum(weights * weights)

    return loss


def build(tool: Tool, case: Case, arrays: Arrays) -> Task:
    return tool.task(program(tool.xp, tool.array(np.zeros(()))), (0, 1), arrays)


WORKLOAD = Workload(
    title="Logistic regression, gathers",
    cases={"10k×20 of 100k": {"rows": 10_000, "few": 20, "features": 100_000}},
    data=data,
    build=build,
)

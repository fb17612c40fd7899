"""A small network of convolutions for pictures of 32 × 32; gradient of its loss in all weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.tools import Task, Tool
from benchmarks.workload import Arrays, Case, Workload, random


def data(case: Case) -> Arrays:
    """Kernels and biases of two convolutions, the last matrix and bias, pictures, labels."""
    draw = random()
    shapes = [(16, 3, 3, 3), (32, 16, 3, 3), (10, 32 * 8 * 8)]
    weights = [draw.normal(size=s) / np.sqrt(np.prod(s[1:])) for s in shapes]
    biases = [0.1 * draw.normal(size=s[0]) for s in shapes]
    pictures = draw.normal(size=(case["batch"], 3, 32, 32))
    labels = draw.integers(10, size=case["batch"])
    return [*(a.astype(np.float32) for a in (*weights, *biases, pictures)), labels]


def program(xp: Any) -> Callable[..., Any]:
    f = xp.functional

    def loss(w1: Any, w2: Any, w3: Any, b1: Any, b2: Any, b3: Any, x: Any, labels: Any) -> Any:
        x = f.max_pool2d(f.relu(f.conv2d(x, w1, b1, padding=1)), 2)
        x = f.max_pool2d(f.relu(f.conv2d(x, w2, b2, padding=1)), 2)
        return f.cross_entropy(f.linear(x.flatten(1), w3, b3), labels)

    return loss


def build(tool: Tool, case: Case, arrays: Arrays) -> Task:
    return tool.task(program(tool.xp), tuple(range(6)), arrays)


WORKLOAD = Workload(
    title="Convolutional network",
    cases={"32 pictures": {"batch": 32, "dtype": "float32"}},
    data=data,
    build=build,
    special={"adjoint eager": build},
    skip={"autograd": "has no convolutions", "jax": "written with PyTorch's functions"},
    target=1.0,
)

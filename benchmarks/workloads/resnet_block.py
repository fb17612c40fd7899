"""A residual block: two convolutions with batch normalisation; gradient in weights and input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.tools import Task, Tool
from benchmarks.workload import Arrays, Case, Workload, random


def data(case: Case) -> Arrays:
    """Two kernels, scale and shift of two normalisations, the input."""
    draw, c = random(), case["channels"]
    kernels = [draw.normal(size=(c, c, 3, 3)) / np.sqrt(9 * c) for _ in range(2)]
    scales = [np.ones(c), np.zeros(c), np.ones(c), np.zeros(c)]
    x = draw.normal(size=(case["batch"], c, case["size"], case["size"]))
    return [a.astype(np.float32) for a in (*kernels, *scales, x)]


def program(xp: Any) -> Callable[..., Any]:
    f = xp.functional

    def normal(x: Any, scale: Any, shift: Any) -> Any:
        return f.batch_norm(x, None, None, scale, shift, training=True)

    def loss(w1: Any, w2: Any, s1: Any, b1: Any, s2: Any, b2: Any, x: Any) -> Any:
        inner = f.relu(normal(f.conv2d(x, w1, padding=1), s1, b1))
        y = f.relu(normal(f.conv2d(inner, w2, padding=1), s2, b2) + x)
        return (y * y).mean()

    return loss


def build(tool: Tool, case: Case, arrays: Arrays) -> Task:
    return tool.task(program(tool.xp), tuple(range(7)), arrays)


WORKLOAD = Workload(
    title="ResNet block",
    cases={"8×64×28×28": {"batch": 8, "channels": 64, "size": 28, "dtype": "float32"}},
    data=data,
    build=build,
    special={"adjoint eager": build},
    skip={"autograd": "has no convolutions", "jax": "written with PyTorch's functions"},
    target=1.0,
)

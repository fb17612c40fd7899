"""A training step of a perceptron on 64 images, float32: loss, gradients and updated weights."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.tools import Task, Tool
from benchmarks.workload import Arrays, Case, Workload, random

RATE = 0.1


def data(case: Case) -> Arrays:
    """Weights and biases in turn, then images and classes as rows with a single one."""
    draw = random()
    sizes = case["sizes"]
    arrays: Arrays = []
    for rows, columns in pairwise(sizes):
        arrays += [draw.normal(size=(rows, columns)) / np.sqrt(rows), np.zeros(columns)]
    classes = np.eye(sizes[-1])[draw.integers(0, sizes[-1], case["batch"])]
    return [
        a.astype(np.float32)
        for a in (*arrays, draw.normal(size=(case["batch"], sizes[0])), classes)
    ]


def program(xp: Any) -> Callable[..., Any]:
    def loss(*args: Any) -> Any:
        *weights, x, classes = args
        for i in range(0, len(weights), 2):
            x = x @ weights[i] + weights[i + 1]
            if i < len(weights) - 2:
                x = xp.relu(x)
        return xp.cross_entropy(x, classes)

    return loss


def build(tool: Tool, case: Case, arrays: Arrays) -> Task:
    count = len(arrays) - 2
    loss, numbers = program(tool.xp), tuple(range(count))

    def updated(value: Any, gradients: Any, args: Any) -> Any:
        return [value, *(w - RATE * g for w, g in zip(args, gradients))]

    if tool.name in ("torch", "autograd"):
        both = tool.value_and_grad(loss, numbers)

        def eager(*args: Any) -> Any:
            value, gradients = both(*args)
            return updated(
                value,
                gradients,
                [getattr(a, "data", a) if tool.name == "torch" else a for a in args],
            )

        return tool.call(eager, arrays)
    return tool.call(lambda *args: updated(*gradient_of(tool, loss, numbers)(*args), args), arrays)


def gradient_of(
    tool: Tool, loss: Callable[..., Any], numbers: tuple[int, ...]
) -> Callable[..., Any]:
    """Value and gradient inside a function that will be compiled."""
    if tool.name == "adjoint":
        return tool.xp.value_and_grad(loss, numbers)
    if tool.name == "jax":
        return tool.xp.jax.value_and_grad(loss, numbers)
    flipped = tool.xp.func.grad_and_value(loss, numbers)
    return lambda *args: flipped(*args)[::-1]


WORKLOAD = Workload(
    title="MLP step 64×784-512-512-10",
    cases={"f32": {"batch": 64, "sizes": (784, 512, 512, 10), "dtype": "float32"}},
    data=data,
    build=build,
    target=0.95,
)

"""ADBench's LSTM (l2_c1024): two layers, 1023 predictions, gradient in all weights.

Its gates weigh each unit by itself: there is no product of matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import limits
from benchmarks.tools import Task, Tool
from benchmarks.workload import Arrays, Case, Workload, random


def data(case: Case) -> Arrays:
    """Weights and biases of the gates, three vectors around them, inputs, outputs, state."""
    layers, bits, count = case["layers"], case["bits"], case["count"]
    draw = random()
    characters = (draw.uniform(size=(count, bits)) < 0.5).astype(float)
    return [
        draw.uniform(-1, 1, (layers, 2, 4, bits)),
        draw.uniform(-1, 1, (3, bits)),
        characters[:-1].copy(),
        characters[1:].copy(),
        draw.uniform(-1, 1, (layers, 2, bits)),
    ]


def program(xp: Any, case: Case) -> Callable[..., Any]:
    layers = case["layers"]

    def cell(weights: Any, x: Any, h: Any, c: Any) -> Any:
        w, b = weights[0], weights[1]
        forget = xp.sigmoid(x * w[0] + b[0])
        enter = xp.sigmoid(h * w[1] + b[1])
        leave = xp.sigmoid(x * w[2] + b[2])
        c = c * forget + enter * xp.tanh(h * w[3] + b[3])
        return leave * xp.tanh(c), c

    def objective(main: Any, extra: Any, inputs: Any, wanted: Any, state: Any) -> Any:
        def step(carry: Any, pair: Any) -> Any:
            x, gold = pair
            x = x * extra[0]
            after = []
            for layer in range(layers):
                h, c = cell(main[layer], x, *carry[layer])
                after.append((h, c))
                x = h
            y = x * extra[1] + extra[2]
            return tuple(after), xp.sum(gold * (y - xp.log(xp.sum(xp.exp(y)) + 2)))

        start = tuple((state[layer, 0], state[layer, 1]) for layer in range(layers))
        _, scores = xp.scan(step, start, (inputs, wanted))
        return -xp.sum(scores) / scores.shape[0]

    return objective


def build(tool: Tool, case: Case, arrays: Arrays) -> Task:
    return tool.task(program(tool.xp, case), (0, 1), arrays)


def limit(tool: Tool, case: Case, arrays: Arrays) -> Task:
    results = [np.empty(()), np.empty_like(arrays[0]), np.empty_like(arrays[1])]
    return limits.task(limits.load("lstm").lstm, [*arrays, *results], results)


WORKLOAD = Workload(
    title="LSTM (ADBench l2_c1024)",
    cases={"f64": {"layers": 2, "bits": 14, "count": 1024}},
    data=data,
    build=build,
    skip={"torch.compile": "compiles for a minute, 9 times slower than JAX (ANCHORS)"},
    special={"limit": limit},
    target=0.3,
)

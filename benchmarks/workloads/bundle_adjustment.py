"""ADBench's bundle adjustment: the 2 × 15 Jacobian block of every observation.

Tools with `vmap` map the Jacobian of one observation over all. For eager tools an expert batches by
hand: blocks do not share arguments, so the gradient of the sum of one residual over all
observations is a row of every block.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import limits
from benchmarks.tools import Task, Tool
from benchmarks.workload import Arrays, Case, Workload, random


def data(case: Case) -> Arrays:
    """Cameras, points, weights and features, gathered: one row for each observation."""
    draw = random()
    cameras = draw.normal(size=(case["cameras"], 11)) * 0.1 + 0.3
    points = draw.normal(size=(case["points"], 3)) + np.array([0, 0, 5])
    n = case["observations"]
    return [
        cameras[draw.integers(0, len(cameras), n)],
        points[draw.integers(0, len(points), n)],
        draw.uniform(0.5, 1, n),
        draw.normal(size=(n, 2)),
    ]


def residual(xp: Any, cam: Any, X: Any, weight: Any, feature: Any) -> tuple[Any, Any]:
    """Two residuals: turn (Rodrigues), project, distort, compare; components are the last index."""
    r = [cam[..., i] for i in range(3)]
    p = [X[..., i] - cam[..., 3 + i] for i in range(3)]
    angle = xp.sqrt(r[0] * r[0] + r[1] * r[1] + r[2] * r[2])
    cosine, sine = xp.cos(angle), xp.sin(angle)
    k = [v / angle for v in r]
    along = (k[0] * p[0] + k[1] * p[1] + k[2] * p[2]) * (1 - cosine)
    cross = [k[1] * p[2] - k[2] * p[1], k[2] * p[0] - k[0] * p[2], k[0] * p[1] - k[1] * p[0]]
    q = [p[i] * cosine + cross[i] * sine + k[i] * along for i in range(3)]
    u, v = q[0] / q[2], q[1] / q[2]
    squared = u * u + v * v
    scale = (1 + cam[..., 9] * squared + cam[..., 10] * squared * squared) * cam[..., 6]
    return (
        weight * (u * scale + cam[..., 7] - feature[..., 0]),
        weight * (v * scale + cam[..., 8] - feature[..., 1]),
    )


def build(tool: Tool, case: Case, arrays: Arrays) -> Task:
    xp = tool.xp
    one = lambda *args: xp.stack(residual(xp, *args))
    module = xp.func if tool.name == "torch.compile" else xp
    blocks = module.vmap(module.jacrev(one, (0, 1, 2)))
    return tool.call(blocks, arrays)


def torch(tool: Tool, case: Case, arrays: Arrays) -> Task:
    xp = tool.xp
    given = [xp.from_numpy(a) for a in arrays]
    inputs = [a.requires_grad_() for a in given[:3]]

    def blocks() -> Any:
        sums = [r.sum() for r in residual(xp, *given)]
        rows = [xp.autograd.grad(s, inputs, retain_graph=True) for s in sums]
        return [xp.stack(pair, 1) for pair in zip(*rows)]

    return Task(blocks)


def autograd(tool: Tool, case: Case, arrays: Arrays) -> Task:
    xp, inputs, feature = tool.xp, tuple(arrays[:3]), arrays[3]
    gradients = [
        xp.autograd.grad(lambda inputs, i=i: xp.sum(residual(xp, *inputs, feature)[i]))
        for i in (0, 1)
    ]
    return Task(lambda: [xp.stack(pair, 1) for pair in zip(*(g(inputs) for g in gradients))])


def limit(tool: Tool, case: Case, arrays: Arrays) -> Task:
    n = case["observations"]
    results = [np.empty((n, 2, 11)), np.empty((n, 2, 3)), np.empty((n, 2))]
    function = limits.load("bundle_adjustment").blocks
    return limits.task(function, [n, *arrays, *results], results)


WORKLOAD = Workload(
    title="Bundle adjustment, Jacobian blocks",
    cases={"ba1, 31843 observations": {"cameras": 49, "points": 7776, "observations": 31843}},
    data=data,
    build=build,
    special={"torch": torch, "autograd": autograd, "limit": limit},
    target=0.3,
)

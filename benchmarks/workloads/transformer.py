"""A Transformer block: attention and a perceptron with residuals; gradient in all weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.tools import Task, Tool
from benchmarks.workload import Arrays, Case, Workload, random


def data(case: Case) -> Arrays:
    """qkv, output, up and down matrices; scale and shift of both norms; the input."""
    draw = random()
    w = case["width"]
    shapes = [(w, 3 * w), (w, w), (w, 4 * w), (4 * w, w)]
    matrices = [draw.normal(size=s) / np.sqrt(s[0]) for s in shapes]
    norms = [np.ones(w), np.zeros(w), np.ones(w), np.zeros(w)]
    x = draw.normal(size=(case["batch"], case["length"], w))
    return [a.astype(np.float32) for a in (*matrices, *norms, x)]


def program(xp: Any, case: Case, transpose: Callable[..., Any]) -> Callable[..., Any]:
    batch, length, width, heads = (case[k] for k in ("batch", "length", "width", "heads"))
    size = width // heads

    def attention(x: Any, qkv: Any, out: Any) -> Any:
        parts = transpose((x @ qkv).reshape(batch, length, 3, heads, size), (2, 0, 3, 1, 4))
        q, k, v = parts[0], parts[1], parts[2]
        scores = q @ transpose(k, (0, 1, 3, 2)) * size**-0.5
        mixed = transpose(xp.softmax(scores, -1) @ v, (0, 2, 1, 3)).reshape(batch, length, width)
        return mixed @ out

    def loss(
        qkv: Any, out: Any, up: Any, down: Any, s1: Any, b1: Any, s2: Any, b2: Any, x: Any
    ) -> Any:
        x = x + attention(xp.layer_norm(x, s1, b1), qkv, out)
        x = x + xp.gelu(xp.layer_norm(x, s2, b2) @ up) @ down
        return xp.mean(x * x)

    return loss


def build(tool: Tool, case: Case, arrays: Arrays) -> Task:
    transpose = (
        tool.xp.transpose if tool.name in ("jax", "autograd") else lambda x, dims: x.permute(*dims)
    )
    return tool.task(program(tool.xp, case, transpose), tuple(range(8)), arrays)


WORKLOAD = Workload(
    title="Transformer block 8×128×256",
    cases={"f32": {"batch": 8, "length": 128, "width": 256, "heads": 4, "dtype": "float32"}},
    data=data,
    build=build,
    skip={"autograd": "takes a second"},
    target=0.95,
)

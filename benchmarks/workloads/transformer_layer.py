"""A Transformer layer with PyTorch's attention operator; gradient in all weights and the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.tools import Task, Tool
from benchmarks.workload import Arrays, Case, Workload
from benchmarks.workloads import transformer


def program(xp: Any, case: Case) -> Callable[..., Any]:
    batch, length, width, heads = (case[k] for k in ("batch", "length", "width", "heads"))
    f = xp.functional

    def attention(x: Any, qkv: Any, out: Any) -> Any:
        parts = (x @ qkv).reshape(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        mixed = f.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, length, width) @ out

    def loss(
        qkv: Any, out: Any, up: Any, down: Any, s1: Any, b1: Any, s2: Any, b2: Any, x: Any
    ) -> Any:
        x = x + attention(f.layer_norm(x, (width,), s1, b1), qkv, out)
        x = x + f.gelu(f.layer_norm(x, (width,), s2, b2) @ up, approximate="tanh") @ down
        return (x * x).mean()

    return loss


def build(tool: Tool, case: Case, arrays: Arrays) -> Task:
    return tool.task(program(tool.xp, case), tuple(range(9)), arrays)


WORKLOAD = Workload(
    title="Transformer layer, causal",
    cases={
        "8×128×256": {"batch": 8, "length": 128, "width": 256, "heads": 4, "dtype": "float32"},
        "2×1024×256": {"batch": 2, "length": 1024, "width": 256, "heads": 4, "dtype": "float32"},
    },
    data=transformer.data,
    build=build,
    special={"adjoint eager": build},
    skip={"autograd": "has no attention", "jax": "written with PyTorch's functions"},
    target=1.0,
)

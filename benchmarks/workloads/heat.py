"""The heat equation on a square, 100 explicit steps: gradient of a misfit in the initial state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.tools import Task, Tool
from benchmarks.workload import Arrays, Case, Workload, random

STEPS, RATE = 100, 0.2


def data(case: Case) -> Arrays:
    draw = random()
    return [draw.normal(size=(case["n"], case["n"])), draw.normal(size=(case["n"], case["n"]))]


def change(u: Any) -> Any:
    """What the inside of the square gains in one step."""
    neighbours = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    return RATE * (neighbours - 4 * u[1:-1, 1:-1])


def in_place(u: Any) -> Any:
    """One step, for tools with assignment."""
    after = u.clone()
    after[1:-1, 1:-1] += change(u)
    return after


def padded(xp: Any) -> Callable[[Any], Any]:
    return lambda u: u + xp.pad(change(u), 1, "constant")


def misfit(scan: Callable[..., Any], step: Callable[[Any], Any]) -> Callable[..., Any]:
    def f(start: Any, wanted: Any) -> Any:
        end, _ = scan(lambda u, _: (step(u), None), start, length=STEPS)
        return 0.5 * ((end - wanted) * (end - wanted)).sum()

    return f


def build(tool: Tool, case: Case, arrays: Arrays) -> Task:
    return tool.task(misfit(tool.xp.scan, in_place), (0,), arrays)


def torch(tool: Tool, case: Case, arrays: Arrays) -> Task:
    """Padding is faster than assignment here, in eager mode and compiled."""
    pad = tool.xp.nn.functional.pad
    return tool.task(misfit(tool.xp.scan, lambda u: u + pad(change(u), (1, 1, 1, 1))), (0,), arrays)


def jax(tool: Tool, case: Case, arrays: Arrays) -> Task:
    return tool.task(misfit(tool.xp.scan, lambda u: u.at[1:-1, 1:-1].add(change(u))), (0,), arrays)


def autograd(tool: Tool, case: Case, arrays: Arrays) -> Task:
    return tool.task(misfit(tool.xp.scan, padded(tool.xp)), (0,), arrays)


WORKLOAD = Workload(
    title="Heat equation 2-d, 100 steps",
    cases={"128×128 f64": {"n": 128}, "512×512 f64": {"n": 512}},
    data=data,
    build=build,
    special={"torch": torch, "jax": jax, "autograd": autograd},
    skip={"torch.compile": "unrolls the loop and compiles for minutes"},
    target=0.5,
)

"""The price of a call under Black–Scholes, summed, and its gradient in all five inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import limits
from benchmarks.tools import Task, Tool
from benchmarks.workload import Arrays, Case, Workload, random

RANGES = (
    (80, 120),
    (80, 120),
    (0.2, 2),
    (0.01, 0.05),
    (0.1, 0.5),
)  # spot, strike, time, rate, volatility


def data(case: Case) -> Arrays:
    draw = random()
    return [draw.uniform(*bounds, case["n"]).astype(case["dtype"]) for bounds in RANGES]


def program(xp: Any) -> Callable[..., Any]:
    def normal(x: Any) -> Any:
        return 0.5 * (1 + xp.erf(x * 0.7071067811865476))

    def price(spot: Any, strike: Any, time: Any, rate: Any, volatility: Any) -> Any:
        deviation = volatility * xp.sqrt(time)
        d1 = (xp.log(spot / strike) + (rate + 0.5 * volatility * volatility) * time) / deviation
        d2 = d1 - deviation
        return xp.sum(spot * normal(d1) - strike * xp.exp(-rate * time) * normal(d2))

    return price


def build(tool: Tool, case: Case, arrays: Arrays) -> Task:
    return tool.task(program(tool.xp), (0, 1, 2, 3, 4), arrays)


def limit(tool: Tool, case: Case, arrays: Arrays) -> Task:
    function = getattr(limits.load("black_scholes"), f"black_scholes_{case['dtype']}")
    results = [np.empty((), case["dtype"]), *(np.empty_like(a) for a in arrays)]
    return limits.task(function, [case["n"], *arrays, *results], results)


def pytensor(tool: Tool, case: Case, arrays: Arrays) -> Task:
    import pytensor
    import pytensor.tensor as pt

    inputs = [pt.vector(dtype=case["dtype"]) for _ in arrays]
    value = program(pt)(*inputs)
    function = pytensor.function(inputs, [value, *pytensor.grad(value, inputs)], trust_input=True)
    return Task(lambda: function(*arrays))


WORKLOAD = Workload(
    title="Black–Scholes, 5 gradients",
    cases={
        f"{label} {short}": {"n": n, "dtype": dtype}
        for label, n in (("1e3", 1000), ("1e5", 100_000), ("1e7", 10_000_000))
        for short, dtype in (("f64", "float64"), ("f32", "float32"))
    },
    data=data,
    build=build,
    special={"limit": limit, "pytensor": pytensor},
    quick=("1e3 f64", "1e5 f64", "1e5 f32"),
    target=0.6,
)

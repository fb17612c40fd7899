"""100 operators on 10 numbers: what remains is the cost of a call."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import limits
from benchmarks.tools import Task, Tool, casadi_task
from benchmarks.workload import Arrays, Case, Workload, random

ROUNDS = 20  # of five operators


def data(case: Case) -> Arrays:
    return [random().uniform(-1, 1, 10)]


def program(xp: Any, x: Any) -> Any:
    for _ in range(ROUNDS):
        x = xp.tanh(xp.sin(x) * 1.1 + x) * 0.9
    return x.sum() if hasattr(x, "sum") else xp.sum1(x)


def build(tool: Tool, case: Case, arrays: Arrays) -> Task:
    return tool.task(lambda x: program(tool.xp, x), (0,), arrays)


def casadi(tool: Tool, case: Case, arrays: Arrays) -> Task:
    import casadi as ca

    x = ca.SX.sym("x", 10)
    value = program(ca, x)
    return casadi_task([x], [value, ca.gradient(value, x)], arrays, [np.zeros(1), np.zeros(10)])


def limit(tool: Tool, case: Case, arrays: Arrays) -> Task:
    results = [np.empty(()), np.empty(10)]
    return limits.task(limits.load("tiny_chain").chain, [*arrays, *results], results)


def pytensor(tool: Tool, case: Case, arrays: Arrays) -> Task:
    import pytensor
    import pytensor.tensor as pt

    x = pt.dvector()
    value = program(pt, x)
    function = pytensor.function([x], [value, pytensor.grad(value, x)], trust_input=True)
    return Task(lambda: function(arrays[0]))


WORKLOAD = Workload(
    title="100 operators on 10 numbers",
    cases={"f64": {}},
    data=data,
    build=build,
    special={"casadi": casadi, "limit": limit, "pytensor": pytensor},
    target=0.2,
)

"""100 operators on 10 numbers: what remains is the cost of a call."""

from __future__ import annotations

from typing import Any

from benchmarks.tools import Task, Tool
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
    """Compiled by gcc, called through buffers: its fastest way."""
    import casadi as ca
    import numpy as np

    x = ca.SX.sym("x", 10)
    value = program(ca, x)
    options = dict(jit=True, compiler="shell", jit_options=dict(flags=["-O3", "-march=native"]))
    function = ca.Function("f", [x], [value, ca.gradient(value, x)], options)
    buffer, run = function.buffer()
    results = [np.zeros(()), np.zeros(10)]
    buffer.set_arg(0, memoryview(arrays[0]))
    for i, result in enumerate(results):
        buffer.set_res(i, memoryview(result))

    def gradient() -> Any:
        run()
        return [r.copy() for r in results]

    return Task(gradient)


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
    special={"casadi": casadi, "pytensor": pytensor},
    target=0.2,
)

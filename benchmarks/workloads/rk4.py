"""Lotka–Volterra by classical Runge–Kutta, 1000 steps: the gradient in its rates and its start."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import limits
from benchmarks.tools import Task, Tool
from benchmarks.workload import Arrays, Case, Workload

STEPS, H = 1000, 0.01


def data(case: Case) -> Arrays:
    return [np.array([1.5, 1.0, 3.0, 1.0]), np.array([1.0, 1.0])]


def step(rates: Any, state: Any) -> Any:
    """One step on scalars, two equations written out."""
    a, b, c, d = rates[0], rates[1], rates[2], rates[3]
    x, y = state

    def field(x: Any, y: Any) -> Any:
        return a * x - b * x * y, d * x * y - c * y

    k1, l1 = field(x, y)
    k2, l2 = field(x + H / 2 * k1, y + H / 2 * l1)
    k3, l3 = field(x + H / 2 * k2, y + H / 2 * l2)
    k4, l4 = field(x + H * k3, y + H * l3)
    return x + H / 6 * (k1 + 2 * k2 + 2 * k3 + k4), y + H / 6 * (l1 + 2 * l2 + 2 * l3 + l4)


def program(xp: Any) -> Callable[..., Any]:
    def energy(rates: Any, start: Any) -> Any:
        (x, y), _ = xp.scan(lambda s, _: (step(rates, s), None), (start[0], start[1]), length=STEPS)
        return x * x + y * y

    return energy


def build(tool: Tool, case: Case, arrays: Arrays) -> Task:
    return tool.task(program(tool.xp), (0, 1), arrays)


def jax(tool: Tool, case: Case, arrays: Arrays) -> Task:
    """Unrolling ten steps is faster than one, and does not take long to compile."""

    def energy(rates: Any, start: Any) -> Any:
        body = lambda s, _: (step(rates, s), None)
        (x, y), _ = tool.xp.scan(body, (start[0], start[1]), length=STEPS, unroll=10)
        return x * x + y * y

    return tool.task(energy, (0, 1), arrays)


def casadi(tool: Tool, case: Case, arrays: Arrays) -> Task:
    """A function of one step, mapped over time, compiled by gcc."""
    import casadi as ca

    rates, state = ca.SX.sym("p", 4), ca.SX.sym("s", 2)
    one = ca.Function("one", [state, rates], [ca.vertcat(*step(rates, (state[0], state[1])))])
    p, s = ca.MX.sym("p", 4), ca.MX.sym("s", 2)
    end = one.mapaccum(STEPS)(s, ca.repmat(p, 1, STEPS))[:, -1]
    value = ca.sumsqr(end)
    options = dict(jit=True, compiler="shell", jit_options=dict(flags=["-O3", "-march=native"]))
    function = ca.Function(
        "f", [p, s], [value, ca.gradient(value, p), ca.gradient(value, s)], options
    )
    buffer, run = function.buffer()
    results = [np.zeros(()), np.zeros(4), np.zeros(2)]
    for i, array in enumerate(arrays):
        buffer.set_arg(i, memoryview(array))
    for i, result in enumerate(results):
        buffer.set_res(i, memoryview(result))

    def gradient() -> Any:
        run()
        return [r.copy() for r in results]

    return Task(gradient)


def limit(tool: Tool, case: Case, arrays: Arrays) -> Task:
    function = limits.load("rk4").rk4
    results = [np.empty(()), np.empty(4), np.empty(2)]
    states = np.empty((STEPS, 2))
    given = [
        ctypes.c_long(STEPS),
        ctypes.c_double(H),
        *map(limits.address, (*arrays, *results, states)),
    ]

    def gradient() -> Any:
        function(*given)
        return results

    return Task(gradient)


WORKLOAD = Workload(
    title="RK4 Lotka–Volterra, 1000 steps",
    cases={"f64": {}},
    data=data,
    build=build,
    special={"jax": jax, "casadi": casadi, "limit": limit},
    skip={"torch.compile": "compiles for 40 seconds, 8 times slower than JAX (ANCHORS)"},
    target=0.1,
)

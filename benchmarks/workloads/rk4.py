"""Lotka–Volterra by classical Runge–Kutta, 1000 steps: the gradient in its rates and its start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import limits
from benchmarks.tools import Task, Tool, casadi_task
from benchmarks.workload import Arrays, Case, Workload

STEPS, H = 1000, 0.01


def data(case: Case) -> Arrays:
    return [np.array([1.5, 1.0, 3.0, 1.0]), np.array([1.0, 1.0])]


def field(rates: Any, x: Any, y: Any) -> Any:
    a, b, c, d = rates
    return a * x - b * x * y, d * x * y - c * y


def step(rates: Any, state: Any) -> Any:
    """One step on scalars, both equations written out."""
    x, y = state
    k1, l1 = field(rates, x, y)
    k2, l2 = field(rates, x + H / 2 * k1, y + H / 2 * l1)
    k3, l3 = field(rates, x + H / 2 * k2, y + H / 2 * l2)
    k4, l4 = field(rates, x + H * k3, y + H * l3)
    return x + H / 6 * (k1 + 2 * k2 + 2 * k3 + k4), y + H / 6 * (l1 + 2 * l2 + 2 * l3 + l4)


def program(scan: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    def energy(rates: Any, start: Any) -> Any:
        p = [rates[i] for i in range(4)]
        body = lambda state, _: (step(p, state), None)
        (x, y), _ = scan(body, (start[0], start[1]), length=STEPS, **options)
        return x * x + y * y

    return energy


def build(tool: Tool, case: Case, arrays: Arrays) -> Task:
    return tool.task(program(tool.xp.scan), (0, 1), arrays)


def jax(tool: Tool, case: Case, arrays: Arrays) -> Task:
    """Unrolling four steps halves the time; more only takes longer to compile."""
    return tool.task(program(tool.xp.scan, unroll=4), (0, 1), arrays)


def casadi(tool: Tool, case: Case, arrays: Arrays) -> Task:
    """A function of one step, accumulated over time, compiled by gcc."""
    import casadi as ca

    rates, state = ca.SX.sym("p", 4), ca.SX.sym("s", 2)
    after = step([rates[i] for i in range(4)], (state[0], state[1]))
    one = ca.Function("one", [state, rates], [ca.vertcat(*after)])
    p, s = ca.MX.sym("p", 4), ca.MX.sym("s", 2)
    value = ca.sumsqr(one.mapaccum(STEPS)(s, ca.repmat(p, 1, STEPS))[:, -1])
    gradients = [ca.gradient(value, p), ca.gradient(value, s)]
    return casadi_task([p, s], [value, *gradients], arrays, [np.zeros(1), np.zeros(4), np.zeros(2)])


def limit(tool: Tool, case: Case, arrays: Arrays) -> Task:
    results = [np.empty(()), np.empty(4), np.empty(2)]
    states = np.empty((STEPS, 2))
    return limits.task(limits.load("rk4").rk4, [STEPS, H, *arrays, *results, states], results)


WORKLOAD = Workload(
    title="RK4 Lotka–Volterra, 1000 steps",
    cases={"f64": {}},
    data=data,
    build=build,
    special={"jax": jax, "casadi": casadi, "limit": limit},
    skip={"torch.compile": "compiles for 40 seconds, 8 times slower than JAX (ANCHORS)"},
    target=0.1,
)

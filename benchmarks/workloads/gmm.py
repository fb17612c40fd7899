"""ADBench's Gaussian mixture: log likelihood with a Wishart prior, gradient in all parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import multigammaln

from benchmarks import limits
from benchmarks.tools import Task, Tool
from benchmarks.workload import Arrays, Case, Workload, random

GAMMA = 1.0  # of the Wishart prior, whose m is 0


def data(case: Case) -> Arrays:
    """alphas (K), means (K, d), factors (K, d + d(d-1)/2), points (n, d)."""
    n, d, K = case["n"], case["d"], case["K"]
    draw = random()
    return [
        draw.normal(size=K),
        draw.uniform(size=(K, d)),
        draw.normal(size=(K, d * (d + 1) // 2)) * 0.3,
        draw.normal(size=(n, d)),
    ]


def constant(case: Case) -> float:
    """What does not depend on the parameters."""
    n, d, K = case["n"], case["d"], case["K"]
    freedom = d + 1
    wishart = freedom * d * (np.log(GAMMA) - 0.5 * np.log(2)) - multigammaln(0.5 * freedom, d)
    return float(-n * d * 0.5 * np.log(2 * np.pi) - K * wishart)


def places(d: int) -> np.ndarray[Any, Any]:
    """Where the elements of a strict lower triangle, columns first, lie in a d × d matrix."""
    return np.array([i * d + j for j in range(d) for i in range(j + 1, d)])


def program(xp: Any, case: Case, sources: Any, lower: Any, diagonal: Any) -> Callable[..., Any]:
    """All distances by one product of matrices: Q_k (x - mu_k) = Q_k x - Q_k mu_k."""
    n, d, K = case["n"], case["d"], case["K"]
    fixed = constant(case)

    def objective(alphas: Any, means: Any, factors: Any, x: Any) -> Any:
        scales = xp.exp(factors[:, :d])
        # Q: the factor's elements put where they belong, exp on the diagonal
        Q = factors[:, sources].reshape(K, d, d) * lower + scales[:, None, :] * diagonal
        shifts = xp.sum(Q * means[:, None, :], 2).reshape(K * d)
        z = (x @ Q.reshape(K * d, d).T - shifts).reshape(n, K, d)
        inner = alphas + xp.sum(factors[:, :d], 1) - 0.5 * xp.sum(z * z, 2)
        likelihood = xp.sum(xp.logsumexp(inner, 1)) - n * xp.logsumexp(alphas, 0)
        rest = factors[:, d:]
        prior = 0.5 * GAMMA**2 * (xp.sum(scales * scales) + xp.sum(rest * rest))
        return likelihood + prior + fixed

    return objective


def constants(case: Case) -> Arrays:
    """Where in a row of factors the elements of a triangle are, the triangle, and its diagonal."""
    d = case["d"]
    sources = np.zeros(d * d, np.int64)
    sources[places(d)] = np.arange(d, d + len(places(d)))
    return [sources, np.tril(np.ones((d, d)), -1), np.eye(d)]


def build(tool: Tool, case: Case, arrays: Arrays) -> Task:
    given = [tool.array(a) for a in constants(case)]
    return tool.task(program(tool.xp, case, *given), (0, 1, 2), arrays)


def limit(tool: Tool, case: Case, arrays: Arrays) -> Task:
    results = [np.empty(()), *(np.empty_like(a) for a in arrays[:3])]
    sizes = [case[s] for s in ("n", "d", "K")]
    given = [*sizes, *arrays, GAMMA, constant(case), *results]
    return limits.task(limits.load("gmm").gmm, given, results)


WORKLOAD = Workload(
    title="GMM (ADBench)",
    cases={
        f"{label} d={d} K={K}": {"n": n, "d": d, "K": K}
        for label, n in (("1k", 1000), ("10k", 10_000))
        for d, K in ((2, 5), (10, 25), (20, 50), (64, 25))
        if (d, n) != (64, 10_000)
    },
    data=data,
    build=build,
    special={"limit": limit},
    quick=("1k d=10 K=25",),
    target=0.4,
)

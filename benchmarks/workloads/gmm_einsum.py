"""The Gaussian mixture as people write it: distances as one einsum over x - means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.tools import Task, Tool
from benchmarks.workload import Arrays, Case, Workload
from benchmarks.workloads import gmm


def program(xp: Any, case: Case, sources: Any, lower: Any, diagonal: Any) -> Callable[..., Any]:
    n, d, K = case["n"], case["d"], case["K"]
    fixed = gmm.constant(case)

    def objective(alphas: Any, means: Any, factors: Any, x: Any) -> Any:
        scales = xp.exp(factors[:, :d])
        Q = factors[:, sources].reshape(K, d, d) * lower + scales[:, None, :] * diagonal
        z = xp.einsum("kij,nkj->nki", Q, x[:, None] - means)
        inner = alphas + xp.sum(factors[:, :d], 1) - 0.5 * xp.sum(z * z, 2)
        likelihood = xp.sum(xp.logsumexp(inner, 1)) - n * xp.logsumexp(alphas, 0)
        rest = factors[:, d:]
        prior = 0.5 * gmm.GAMMA**2 * (xp.sum(scales * scales) + xp.sum(rest * rest))
        return likelihood + prior + fixed

    return objective


def build(tool: Tool, case: Case, arrays: Arrays) -> Task:
    constants = [tool.array(a) for a in gmm.constants(case)]
    return tool.task(program(tool.xp, case, *constants), (0, 1, 2), arrays)


WORKLOAD = Workload(
    title="GMM by einsum",
    cases=gmm.WORKLOAD.cases,
    data=gmm.data,
    build=build,
    special={"limit": gmm.limit},
    quick=gmm.WORKLOAD.quick,
    target=0.4,
)

"""The benchmark suite: hand-written limits equal our gradients; tables and a plot of results."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from adjoint.toolchain import build
from benchmarks import plot, report, runner, worker, workloads
from benchmarks.tools import TOOLS

needs_compiler = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")
SMALL: dict[str, dict[str, Any]] = {
    "black_scholes": {"n": 101, "dtype": "float64"},
    "gmm": {"n": 50, "d": 3, "K": 4},
    "gmm_einsum": {"n": 50, "d": 3, "K": 4},
    "bundle_adjustment": {"cameras": 4, "points": 9, "observations": 37},
    "rk4": {},
}


@needs_compiler
@pytest.mark.parametrize("name", SMALL)
def test_the_limit_computes_our_gradient(name: str) -> None:
    workload, case = workloads.load(name), SMALL[name]
    arrays = workload.data(case)
    ours = worker.leaves(workload.build(TOOLS["adjoint"], case, arrays).gradient())
    limit = worker.leaves(workload.special["limit"](TOOLS["limit"], case, arrays).gradient())
    assert len(ours) == len(limit)
    for a, b in zip(ours, limit):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-9, atol=1e-9 * np.abs(b).max())


@pytest.mark.parametrize("name", workloads.NAMES)
def test_workloads_name_known_tools_and_cases(name: str) -> None:
    workload = workloads.load(name)
    assert {*workload.special, *workload.skip} <= set(TOOLS)
    assert set(workload.quick) <= set(workload.cases)
    assert workload.has(TOOLS["adjoint"])


def test_a_tool_that_computes_something_else_is_not_timed() -> None:
    right, wrong = np.arange(5.0), np.array([0, 1, 2 + 1e-3, 3, 4])
    result = runner.Result("x", "X", "small", None)
    tools = {"adjoint": right, "jax": right, "torch": wrong}
    result.tools = {tool: runner.Measured() for tool in tools}
    runner.compare(result, {t: [worker.summary(v)] for t, v in tools.items()}, 1e-7)
    assert [t for t, m in result.tools.items() if m.error] == ["torch"]


def test_report_and_plot() -> None:
    options = runner.Options(tools=("adjoint", "limit", "autograd"), rounds=3, threads=1)
    result = runner.Result("x", "X & Y", "small", 0.5)
    times = {"adjoint": 2e-3, "limit": 1e-3, "autograd": 8e-3}
    result.tools = {t: runner.Measured(gradient=s, primal=s / 2) for t, s in times.items()}
    failed = runner.Result("y", "Y", "large", None)
    failed.tools = {"adjoint": runner.Measured(error="no erf")}
    text = report.times([result, failed], options.tools)
    assert "| X & Y, small | 2 | 1 | 8 | 0.25 | ≤ 0.5 | 2 |" in text
    assert "failed" in text
    assert "**geometric mean** | 0.25 |" in report.ratios([result, failed], options.tools)
    assert "| gradient / primal | 2 | 2 |" in report.costs([result], options.tools)
    assert "Y, large: adjoint: no erf" in report.failures([result, failed])
    assert ElementTree.fromstring(plot.bars([result, failed], options)).tag.endswith("svg")


def test_a_sample_says_how_long_a_call_took() -> None:
    found = worker.sample(lambda: sum(range(1000)), 10)
    assert 0 < found["seconds"] < 1
    assert found["waited"] >= 0

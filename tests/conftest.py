"""Shared by all tests: rows that a test adds go with it, memory plans and loops are checked."""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import adjoint as ad
from adjoint.compiler import arena, loop_types, pipeline, plan, program, shaping
from adjoint.compiler.symbolic import learning
from adjoint.compiler.targets.c.target import CPU
from adjoint.loops import loop_programs
from adjoint.table import TABLE
from adjoint.toolchain import build
from tests import tables

os.environ.setdefault("ADJOINT_NATIVE", "wait")  # every run computes alike
gc.set_threshold(20_000)  # looking after every 700 objects is a twentieth of the time of laws
collect_ignore_glob = [
    "programs/*",
    "data/*",
]  # run by doors/test_torch_programs.py, with another torch


@pytest.fixture(autouse=True)
def _leave_the_table_as_it_was() -> Iterator[None]:
    count = len(TABLE)
    known = set(TABLE.names()) if count else set()
    yield
    if len(TABLE) != count:
        tables.forget(set(TABLE.names()) - known)


@pytest.fixture(autouse=True, scope="session")
def _check_plans_and_loops() -> Iterator[None]:
    """What a stage returns is verified, and every loop program after every pass."""

    def verify(draft: shaping.Draft) -> None:
        loop_types.verify_types(loop_programs.verify(draft.program))

    between = tuple(each for change in CPU.passes for each in (change, verify))
    target = replace(CPU, passes=between)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "STAGES", tuple(map(_verified, pipeline.STAGES)))
        for module in (program, learning):
            patch.setattr(module, "CPU", target)
        yield


def _verified(stage: pipeline.Stage) -> pipeline.Stage:
    """A stage, and a check of what it returns."""
    checks: dict[str, Any] = {"fuse": plan.verify, "place": arena.verify}
    check = checks.get(stage.__name__)
    if check is None:
        return stage

    @functools.wraps(stage)
    def verified(data: Any) -> Any:
        return check(stage(data))

    return verified


@pytest.fixture
def threads_restored() -> Iterator[None]:
    before = ad.get_num_threads()
    yield
    ad.set_num_threads(before)


@pytest.fixture
def float64_by_default() -> Iterator[None]:
    ad.set_default_dtype(ad.float64)
    yield
    ad.set_default_dtype(ad.float32)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that were built, each once."""
    sources: list[str] = []
    real = build.load

    def load(source: str, name: str) -> Any:
        if source not in sources:
            sources.append(source)
        return real(source, name)

    monkeypatch.setattr(build, "load", load)
    return sources


def pytest_collection_finish() -> None:
    """Modules and collected tests stay: the garbage collector need not look at them every time."""
    gc.collect()
    gc.freeze()

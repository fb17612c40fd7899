"""Programs for another target than this machine: one with other numbers, for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adjoint.compiler import pipeline, program
from adjoint.compiler.lower import Choices
from adjoint.compiler.pipeline import Unplanned
from adjoint.compiler.plan import Plan
from adjoint.compiler.symbolic import learning
from adjoint.compiler.target import Target
from adjoint.compiler.targets.c.target import CPU
from adjoint.graph.ir import Graph


def target_with(**groups: dict[str, Any]) -> Target:
    """The target of this machine with other numbers: target_with(threads={"work": 1})."""
    target = program.CPU  # with checks between its passes: tests/conftest.py
    changed = {name: replace(getattr(target, name), **own) for name, own in groups.items()}
    return replace(target, **changed)


def use_target(monkeypatch: pytest.MonkeyPatch, target: Target) -> None:
    """Compile for a target for the rest of a test."""
    for module in (program, learning):
        monkeypatch.setattr(module, "CPU", target)


def plan_of(graph: Graph) -> Plan:
    """The plan of a graph, for this machine."""
    return pipeline.fuse(pipeline.lower(Unplanned(graph, Choices(CPU))))

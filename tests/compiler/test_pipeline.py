"""The stages of the compiler hand data on; what they return is verified; a node is defined once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import adjoint as ad
from adjoint.compiler import definitions, pipeline, plan
from adjoint.compiler.arena import ProgramLayout
from adjoint.compiler.lower import Choices
from adjoint.compiler.pipeline import Unplanned
from adjoint.compiler.plan import Plan, RoutineCall
from adjoint.compiler.targets.c.target import CPU
from adjoint.toolchain import build
from tests.compiler.test_programs import make
from tests.targets import plan_of, target_with, use_target

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")


def net(x: Any, w: Any) -> Any:
    return ((x @ w).tanh().softmax(1) * 2).sum()


def traced() -> Any:
    return ad.trace(ad.grad(net), make(40, 30), make(30, 20))


def test_each_stage_takes_what_the_one_before_it_returns() -> None:
    seconds: dict[str, float] = {}
    made = pipeline.run(Unplanned(traced(), Choices(CPU)), pipeline.STAGES, seconds.setdefault)
    assert list(made) == list(seconds) == [stage.__name__ for stage in pipeline.STAGES]
    assert isinstance(made["fuse"], Plan)
    layouts = ("nest", "shape", "sweep", "add_versions", "place")
    assert all(isinstance(made[name], ProgramLayout) for name in layouts)
    placed = made["place"]
    assert placed.offsets
    assert placed.programs.keys() == placed.versions.keys()
    assert made["order"].host.parts
    assert made["write"].source.startswith("/*")
    assert len(made["build"].segments) == 1


def test_a_node_is_defined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowering asks whether it is native, and fusion how it is computed."""
    found: Counter[Any] = Counter()
    define = definitions.define

    def counted(node: Any, target: Any) -> Any:
        found[node, node.args] += 1
        return define(node, target)

    monkeypatch.setattr(definitions, "define", counted)
    plan_of(traced())
    assert len(found) > 10
    assert max(found.values()) == 1


def test_a_plan_whose_steps_read_too_early_is_refused() -> None:
    made = plan_of(traced())
    assert plan.verify(made) is made
    call = next(step for step in made.steps if isinstance(step, RoutineCall))
    value = call.operands[0].value
    made.memory[value] = len(made.steps)
    with pytest.raises(AssertionError, match="which others store"):
        plan.verify(made)


def test_a_target_decides_what_a_routine_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no object has to be built for the answer."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("a routine was built")

    monkeypatch.setattr(build, "library", refuse)
    monkeypatch.setenv("ADJOINT_NATIVE", "0")
    graph = ad.trace(lambda x: x.sort(1)[0] @ x.mT, make(40, 30))
    names = [step.routine for step in plan_of(graph).steps if isinstance(step, RoutineCall)]
    assert names == ["sort", "product"]


def test_a_target_has_numbers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = lambda: ad.compile(lambda x: [(x * k).sin().sum() for k in range(8)]).lower(make(50))
    loops = len(graph().layout.programs)
    use_target(monkeypatch, target_with(limits={"combining": 1}))
    assert len(graph().layout.programs) > loops

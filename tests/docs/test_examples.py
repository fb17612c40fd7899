"""The scripts of examples/ run."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests import ROOT

SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
TRAINING = [path for path in SCRIPTS if "support.running" in path.read_text(encoding="utf-8")]
EXAMPLES = [p for p in SCRIPTS if p not in TRAINING] + [ROOT / "docs" / "adjoint_in_200_lines.py"]


def run(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", str(script), *arguments],
        capture_output=True, text=True, timeout=1200, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def train(name: str, picture: Path, *arguments: str) -> tuple[int, dict[str, str]]:
    """The status of a program that trains, and what its last lines say, by the word before ':'."""
    done = run(ROOT / "examples" / f"{name}.py", "--quick", "--out", str(picture), *arguments)
    assert not done.stderr, done.stderr
    return done.returncode, dict(re.findall(r"^(.+?): (.*)$", done.stdout, re.MULTILINE))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(script: Path) -> None:
    done = run(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.fixture(scope="module")
def compiled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, int, dict[str, str]]:
    """A program that was trained compiled: its name, its picture, its status, what it said."""
    picture = tmp_path_factory.mktemp(request.param) / "picture.svg"
    return request.param, picture, *train(request.param, picture, "--compiled")


@pytest.mark.parametrize("compiled", [path.stem for path in TRAINING], indirect=True)
def test_compiled_training_reaches_its_goal_and_draws_it(compiled: Any) -> None:
    _, picture, status, said = compiled
    assert status == 0, said
    assert re.search(r"\(goal: at (least|most) \S+", said["reached"])
    assert re.fullmatch(r"eager \S+ ms, compiled \S+ ms, speed-up \S+", said["a step"])
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


@pytest.mark.parametrize("compiled", ["cart_pole", "lbfgs", "neural_ode", "pinn"], indirect=True)
def test_eager_training_reaches_what_compiled_training_reaches(compiled: Any) -> None:
    name, picture, _, said = compiled
    _, eager = train(name, picture.with_name("eager.svg"))
    reached = [float(re.findall(r"\S+(?= \(goal)", each["reached"])[0]) for each in (said, eager)]
    assert reached[0] == pytest.approx(reached[1], rel=0.02)


def test_training_that_misses_its_goal_fails(tmp_path: Path) -> None:
    status, said = train("lbfgs", tmp_path / "picture.svg", "--epochs", "1")
    assert status == 1
    assert "missed" in said


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3
    assert len(TRAINING) >= 9

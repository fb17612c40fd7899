"""The scripts of examples/ run."""

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parent.parent
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


@pytest.mark.parametrize("name", [path.stem for path in TRAINING])
def test_compiled_training_reaches_its_goal_and_draws_it(name: str, tmp_path: Path) -> None:
    picture = tmp_path / "picture.svg"
    status, said = train(name, picture, "--compiled")
    assert status == 0, said
    assert re.search(r"\(goal: at (least|most) \S+", said["reached"])
    assert re.fullmatch(r"eager \S+ ms, compiled \S+ ms, speed-up \S+", said["a step"])
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


@pytest.mark.parametrize("name", ["cart_pole", "lbfgs", "neural_ode", "pinn"])
def test_eager_training_reaches_what_compiled_training_reaches(name: str, tmp_path: Path) -> None:
    found = [train(name, tmp_path / "p.svg", *how)[1]["reached"] for how in ((), ("--compiled",))]
    eager, compiled = (float(re.findall(r"\S+(?= \(goal)", line)[0]) for line in found)
    assert compiled == pytest.approx(eager, rel=0.02)


def test_training_that_misses_its_goal_fails(tmp_path: Path) -> None:
    status, said = train("lbfgs", tmp_path / "picture.svg", "--epochs", "1")
    assert status == 1
    assert "missed" in said


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3
    assert len(TRAINING) >= 9

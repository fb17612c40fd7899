"""The `adjoint` command: what it prints, and how it fails."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from adjoint.cli import main
from adjoint.table import TABLE


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    status = main(arguments)
    output = capsys.readouterr()
    assert status == 0, output.err
    return output.out


@pytest.mark.parametrize("function", ["rosenbrock", "himmelblau", "logistic"])
def test_demo_checks_its_derivatives(function: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "demo", function)
    deviations = re.findall(r"(?:gradient|hessian) +(\d\.\de-\d\d)", text)
    assert len(deviations) == 2
    assert all(float(d) < 1e-6 for d in deviations)


def test_demo_of_rosenbrock_prints_the_known_gradient(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "demo")
    assert re.search(r"value +24\.2\n", text)
    assert re.search(r"gradient +-215\.6 +-88\n", text)
    assert re.search(r"hessian +1330 +480\n +480 +200\n", text)


def test_demo_names_rows_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "demo")
    places = re.findall(r"(\S+\.yaml):(\d+)", text)
    assert places
    for path, line in places:
        assert Path(path).read_text().splitlines()[int(line) - 1].startswith("- name:")


def test_ops_lists_every_operator(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "ops").splitlines()
    assert {line.split()[0] for line in lines[:-1]} == set(TABLE.names())
    assert lines[-1] == f"{len(TABLE.names())} operators"


def test_ops_searches_by_part_and_by_pattern(capsys: pytest.CaptureFixture[str]) -> None:
    assert "addmm" in run(capsys, "ops", "mm")
    matched = [line.split()[0] for line in run(capsys, "ops", "?mm").splitlines()[:-1]]
    assert matched == ["bmm"]
    families = {
        line.split()[1] for line in run(capsys, "ops", "--family", "matmul").splitlines()[:-1]
    }
    assert families == {"matmul"}


@pytest.mark.parametrize("arguments", [("show", "mm"), ("ops", "--show", "mm")])
def test_show_prints_the_row(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    text = run(capsys, *arguments)
    assert "name: mm(Tensor self, Tensor mat2) -> Tensor" in text
    assert "self: grad.mm(mat2.mH)" in text


def test_show_prints_one_overload(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "show", "sum.dim_IntList")
    assert text.count("- name:") == 1
    assert "sum.dim_IntList(" in text


@pytest.mark.parametrize("name", ["matmul", "tanh", "addmm_", "einsum", "bilinear"])
def test_where_points_at_definitions(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "where", name)
    places = re.findall(r"(\S+\.py):(\d+) (\w+)", text)
    for path, line, function in places:
        source = Path(path).read_text().splitlines()[int(line) - 1 :][:8]
        assert any(f"def {function}(" in text or "@" in text for text in source), (path, line)
    assert re.search(r"row +\S+\.yaml:\d+", text)


def test_where_finds_all_layers_of_an_operator(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "where", "matmul")
    assert "table/matmul.yaml" in text
    for layer in ("kernels", "shapes", "formulas", "samples"):
        assert f"{layer}/matmul.py" in text


def test_unknown_operator_is_an_error_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "matmull"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("adjoint show: there is no operator 'matmull'")
    assert "matmul" in error.split("did you mean")[1]
    assert main(["ops", "no_such_thing"]) == 1


def test_command_is_installed_as_a_module() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "adjoint", "--version"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert re.fullmatch(r"adjoint \d+\.\d+\.\d+\n", run.stdout)


def test_coverage_counts_every_row_and_finds_no_loop(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "coverage")
    rows = list(TABLE.rows())
    counts = {line.split("  ")[0].strip(): line.split() for line in text.splitlines() if line}
    assert counts["rows"][-1] == str(len(rows))
    for question in ("value", "reverse", "forward", "shape", "batching"):
        lines = text.splitlines()
        start = lines.index(question) + 1
        block = lines[start : next(i for i in range(start, len(lines)) if lines[i][:1] != " ")]
        assert sum(int(line.split()[-1]) for line in block) == len(rows), question
    assert "loop:" not in text
    assert "missing:" not in text


def test_coverage_of_one_family(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "coverage", "--family", "matmul")
    assert text.split("\n", 1)[0].split() == ["matmul"]
    assert main(["coverage", "--family", "nothing"]) == 1
    assert "matmul" in capsys.readouterr().err

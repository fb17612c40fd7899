"""A fresh process loads what it needs, and takes from an earlier one what that has worked out.

Facts about modules, files and calls; times are measured by benchmarks/cold_start.py.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import adjoint as ad
from adjoint.table import TABLE
from adjoint.table.prepared import Prepared
from adjoint.table.reading import load
from adjoint.table.rows import prepare, restore

FIRST_GRADIENT = """
import sys
import numpy as np
import adjoint as ad

x = ad.tensor(np.linspace(-1.0, 1.0, 12).reshape(3, 4), requires_grad=True)
w = ad.tensor(np.linspace(-2.0, 2.0, 20).reshape(4, 5), requires_grad=True)
y = ((x.sin() * x) @ w).relu()
target = ad.tensor(np.array([0, 1, 2]))
loss = ad.nn.functional.cross_entropy(y, target) + y.softmax(1).mul(y).sum()
loss.backward()
"""
REPORT = f"""
{FIRST_GRADIENT}
from adjoint.table.prepared import PREPARED
print(loss.item(), x.grad.tolist(), w.grad.tolist())
print(len(PREPARED._added), [m for m in ("yaml", "scipy") if m in sys.modules])
"""
# Whoever parses a row or a formula, or writes a function, ends the program.
REFUSING = """
import adjoint
from adjoint.table import formula
from adjoint.calls import recording, reverse

def refuse(*_):
    raise SystemExit("not prepared")

adjoint.table.load = formula.expression = refuse
recording.FunctionWriter.__init__ = reverse._lines = refuse
"""
NOTHING_NEW = "0 []"


def start(program: str, **environment: str) -> subprocess.Popen[str]:
    """A program in a process of its own, where a warning is an error."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> list[str]:
    """The lines that it printed; it must end well and quietly."""
    output, errors = process.communicate()
    assert errors == ""
    assert process.returncode == 0
    return output.splitlines()


def run(program: str, cache: Path | str, **environment: str) -> list[str]:
    return finish(start(program, ADJOINT_CACHE=str(cache), **environment))


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    place = tmp_path / "cache"
    place.mkdir(mode=0o700)
    return place


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The cache that a first process leaves, and the numbers that it gets."""
    place = tmp_path_factory.mktemp("first")
    numbers, needed = run(REPORT, place)
    assert needed.endswith("['yaml']")
    assert needed != NOTHING_NEW
    return place, numbers


@pytest.fixture
def cache(first: tuple[Path, str], empty: Path) -> Path:
    """A cache in which one process has prepared what the next one needs."""
    shutil.copytree(first[0], empty, dirs_exist_ok=True)
    return empty


def prepared_file(cache: Path) -> Path:
    (found,) = cache.glob("prepared-*")
    return found


# -- from process to process ---------------------------------------------------------------------


def test_a_second_process_parses_nothing_and_writes_nothing(
    first: tuple[Path, str], cache: Path
) -> None:
    before = prepared_file(cache).stat().st_mtime_ns
    assert run(REFUSING + REPORT, cache) == [first[1], NOTHING_NEW]
    assert prepared_file(cache).stat().st_mtime_ns == before


def test_a_prepared_function_shows_its_text(cache: Path) -> None:
    show = "import adjoint as ad; ad.sin(ad.ones(2)); print(ad.ops.sin.default.source)"
    assert run(show, cache) == run(show, cache.parent / "another")


@pytest.mark.parametrize("hurt", ["truncated", "garbage", "empty", "open to others", "a link"])
def test_a_file_that_cannot_be_believed_is_made_again(
    first: tuple[Path, str], cache: Path, hurt: str
) -> None:
    path = prepared_file(cache)
    content = path.read_bytes()
    if hurt == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif hurt == "garbage":
        path.write_bytes(random.Random(0).randbytes(5000))
    elif hurt == "empty":
        path.write_bytes(b"")
    elif hurt == "open to others":
        path.chmod(0o666)
    else:
        path.rename(cache.parent / "elsewhere")
        path.symlink_to(cache.parent / "elsewhere")
    numbers, needed = run(REPORT, cache)
    assert needed != NOTHING_NEW
    assert numbers == first[1]
    assert run(REFUSING + REPORT, cache) == [numbers, NOTHING_NEW]
    assert not prepared_file(cache).is_symlink()


@pytest.mark.parametrize("where", ["file/below", "~nobody_of_this_name/cache", "shared/cache"])
def test_without_a_directory_of_its_own_a_process_works_quietly(
    first: tuple[Path, str], tmp_path: Path, where: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "shared" / "cache").mkdir(parents=True)
    (tmp_path / "shared").chmod(0o777)
    place = where if where.startswith("~") else tmp_path / where
    numbers, needed = run(REPORT, place)
    assert numbers == first[1]
    assert needed != NOTHING_NEW
    assert list(tmp_path.rglob("prepared-*")) == []


def test_processes_that_start_at_once_do_not_disturb_each_other(
    first: tuple[Path, str], empty: Path
) -> None:
    together = [start(REPORT, ADJOINT_CACHE=str(empty)) for _ in range(3)]
    assert {finish(process)[0] for process in together} == {first[1]}
    assert run(REFUSING + REPORT, empty) == [first[1], NOTHING_NEW]


# -- the files that it depends on ----------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, empty: Path) -> Path:
    """A copy of the package that may be edited, its functions prepared."""
    source = tmp_path / "source"
    shutil.copytree(
        Path(ad.__file__).parent,
        source / "adjoint",
        ignore=shutil.ignore_patterns("__pycache__", "testing", "compiler", "export", "graph"),
    )
    run(REPORT, empty, PYTHONPATH=str(source))
    return source


def test_an_edited_row_takes_effect_at_once(package: Path, empty: Path) -> None:
    here = {"PYTHONPATH": str(package)}
    before = run(REPORT, empty, **here)
    assert before[1] == NOTHING_NEW
    table = package / "adjoint" / "table" / "pointwise.yaml"
    status, text = table.stat(), table.read_text()
    start, end = text.split("- name: sin(", 1)
    assert "grad * self.cos()" in end
    table.write_text(
        f"{start}- name: sin({end.replace('grad * self.cos()', 'grad * self.sin()', 1)}"
    )
    os.utime(table, ns=(status.st_atime_ns, status.st_mtime_ns))  # as long and as old as before
    after = run(REPORT, empty, **here)
    assert after[0] != before[0]
    assert after[1] != NOTHING_NEW


def test_an_edited_module_that_writes_functions_takes_effect_at_once(
    package: Path, empty: Path
) -> None:
    here = {"PYTHONPATH": str(package)}
    writer = package / "adjoint" / "calls" / "recording.py"
    text = writer.read_text()
    assert '"return {self._named(self._outs())}"' in text
    writer.write_text(text.replace('"return {self._named(self._outs())}"', '"return 5"'))
    assert run("import adjoint as ad; print(ad.tensor(1.0).sin())", empty, **here) == ["5"]


def test_modules_edited_while_a_process_runs_are_not_mixed(package: Path, empty: Path) -> None:
    here = {"PYTHONPATH": str(package)}
    writer = package / "adjoint" / "calls" / "recording.py"
    edit = f"import adjoint as ad, os; os.utime({str(writer)!r}); ad.ones(3).tanh()"
    before = prepared_file(empty).read_bytes()
    run(edit, empty, **here)
    assert prepared_file(empty).read_bytes() == before


# -- the file itself -------------------------------------------------------------------------------


def test_what_is_kept_is_recalled_whole_or_not_at_all(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADJOINT_CACHE", str(empty))
    values = {f"key {n}": ("text", n, bytes(n)) for n in range(50)}
    first = Prepared()
    for key, value in values.items():
        first.keep(key, value)
    first.write()
    whole = prepared_file(empty).read_bytes()
    random_ = random.Random(0)
    for _ in range(200):
        content = bytearray(whole)
        content[random_.randrange(len(content))] ^= 1 << random_.randrange(8)
        prepared_file(empty).write_bytes(content[: random_.choice((None, None, len(content) // 2))])
        found = Prepared()
        recalled = {key: found.recall(key) for key in values}
        assert all(v is None or v == values[k] for k, v in recalled.items())


def test_a_process_adds_to_what_others_kept(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJOINT_CACHE", str(empty))
    for key in ("one", "two"):
        process = Prepared()
        assert process.once(key, lambda key=key: key.upper()) == key.upper()
        process.write()
    third = Prepared()
    assert [third.recall(key) for key in ("one", "two", "three")] == ["ONE", "TWO", None]


def test_what_depends_on_another_text_is_not_recalled(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADJOINT_CACHE", str(empty))
    first, second = Prepared(), Prepared()
    first.keep("key", 1)
    first.write()
    second.depend_on("another row")
    assert second.recall("key") is None


def test_rows_are_restored_as_they_were() -> None:
    for name in TABLE.names():
        for overload, source in TABLE._sources[name].items():
            row = load(source)
            again = restore(prepare(row))
            assert again == row, (name, overload)
            for one, other in zip(row.reverse, again.reverse, strict=True):
                if one.formula is not None and other.formula is not None:
                    assert one.formula.names == other.formula.names
                    assert one.formula.conditions == other.formula.conditions

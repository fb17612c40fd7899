"""The wheel and the source archive that `make dist` has built: what is in them, and that they work.

Not part of `make test`: building takes longer than a unit test may.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
MEGABYTES = 2.45  # of the wheel: 1.9 are Python, 0.2 the names and hashes of a thousand files
SECONDS = 0.3  # of `import adjoint` beyond NumPy


def built(pattern: str) -> Path:
    found = list((ROOT / "dist").glob(pattern))
    assert len(found) == 1, f"run `make dist`: dist/{pattern} is {found}"
    return found[0]


@pytest.fixture(scope="module")
def wheel() -> zipfile.ZipFile:
    return zipfile.ZipFile(built("*.whl"))


def test_the_wheel_is_small() -> None:
    assert built("*.whl").stat().st_size <= MEGABYTES * 1e6


def test_the_wheel_has_the_package_its_tables_and_stubs_and_nothing_else(
    wheel: zipfile.ZipFile,
) -> None:
    names = set(wheel.namelist())
    assert {n.partition("/")[0].rpartition(".")[2] for n in names} == {"adjoint", "dist-info"}
    source = ROOT / "src" / "adjoint"
    kept = {".py", ".yaml", ".txt", ".c", ".h", ".typed", ""}
    wanted = [p for p in source.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    absent = [
        p for p in wanted if p.suffix in kept and f"adjoint/{p.relative_to(source)}" not in names
    ]
    assert absent == []
    assert {"adjoint/py.typed", "adjoint/__init__.pyi", "adjoint/tensor/tensor.pyi"} <= names
    assert "def svd(" in wheel.read("adjoint/linalg.pyi").decode()


def test_the_metadata_say_what_the_project_says(wheel: zipfile.ZipFile) -> None:
    (name,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
    metadata = HeaderParser().parsestr(wheel.read(name).decode())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert metadata["Summary"] == project["description"]
    assert metadata["Requires-Python"] == project["requires-python"]
    assert metadata["License-Expression"] == project["license"]
    assert metadata.get_all("Classifier") == project["classifiers"]
    assert set(metadata.get_all("Provides-Extra") or ()) == set(project["optional-dependencies"])
    needed = [r for r in metadata.get_all("Requires-Dist") or () if "extra ==" not in r]
    assert {re.split(r"[<>=]", r)[0] for r in needed} == {"ml-dtypes", "numpy", "pyyaml", "scipy"}
    assert metadata.get_payload() == (ROOT / "README.md").read_text()


def test_the_source_archive_can_be_built_and_tested() -> None:
    with tarfile.open(built("*.tar.gz")) as archive:
        names = {n.partition("/")[2] for n in archive.getnames()}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    tracked = {n for n in listed.stdout.split() if not n.startswith(".")}
    assert tracked - names == set()
    assert not any(n.endswith((".pyi", ".pyc")) for n in names)


# -- in an environment of its own ------------------------------------------------------------------


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and with the libraries that it needs by a path alone."""
    place = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    made = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(made), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "-q", "--no-deps", "--no-index", built("*.whl")], check=True)
    asked = [made, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    Path(packages, "libraries.pth").write_text("\n".join(libraries()))
    return made


def libraries() -> set[str]:
    """Where the libraries are that the package needs."""
    specs = map(importlib.util.find_spec, ("numpy", "scipy", "yaml", "ml_dtypes"))
    return {str(Path(spec.origin).parent.parent) for spec in specs if spec and spec.origin}


def run(python: Path, program: str, place: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["ADJOINT_CACHE"] = str(place / "cache")
    made = subprocess.run(
        [python, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        cwd=place,
        env=environment,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


def test_the_first_example_of_the_readme_runs(python: Path, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    example = readme.split("```python\n")[1].partition("```")[0]
    where = run(python, f"{example}\nprint(ad.__file__)", tmp_path)
    assert Path(where.strip()).is_relative_to(python.parent.parent)


def test_the_command_is_installed(python: Path, tmp_path: Path) -> None:
    command = python.parent / "adjoint"
    shown = subprocess.run([command, "show", "tanh"], capture_output=True, text=True, cwd=tmp_path)
    assert "grad * (1 - result * result).conj()" in shown.stdout, shown.stderr


def test_import_is_quick(python: Path, tmp_path: Path) -> None:
    program = (
        "import numpy, time; started = time.process_time(); import adjoint; "
        "print(time.process_time() - started)"
    )
    assert min(float(run(python, program, tmp_path)) for _ in range(5)) <= SECONDS

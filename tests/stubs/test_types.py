"""What type checkers are told: stubs of everything that is made at run time."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import stubs
from adjoint.ops.operator import exists
from adjoint.table import TABLE
from tests import DATA

USERS_CODE = DATA / "users_code.py"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with its stubs, as a wheel has them."""
    place = tmp_path_factory.mktemp("site") / "adjoint"
    ignored = shutil.ignore_patterns("__pycache__", "*.pyi")
    shutil.copytree(stubs.PACKAGE, place, ignore=ignored, copy_function=os.symlink)
    stubs.write(place)
    return place


def names_in(text: str) -> set[str]:
    """The names that a stub offers."""
    statements = ast.parse(text).body
    (everything,) = (
        n for n in statements if isinstance(n, ast.Assign) and "__all__" in ast.unparse(n)
    )
    return set(ast.literal_eval(everything.value))


def is_ours(value: Any) -> bool:
    """Not what a module imports: `Any`, `importlib`, its own parts."""
    return callable(value) and value.__module__.startswith("adjoint")


def listed(module: Any) -> list[str]:
    """The names that a module says are public."""
    return dir(module) if "__dir__" in vars(module) else list(getattr(module, "__all__", ()))


def test_stubs_have_every_name_that_dir_lists(package: Path) -> None:
    for path, module in {
        "__init__.pyi": ad,
        "linalg.pyi": ad.linalg,
        "fft.pyi": ad.fft,
        "special.pyi": ad.special,
        "nn/functional/__init__.pyi": ad.nn.functional,
        "nn/__init__.pyi": ad.nn,
        "optim/__init__.pyi": ad.optim,
        "func.pyi": ad.func,
    }.items():
        public = {n for n in listed(module) if n[0] != "_" and is_ours(getattr(module, n))}
        assert public - names_in((package / path).read_text()) == set()


def test_a_module_that_finds_names_late_lists_them() -> None:
    """So that completion and the stubs have them."""
    silent = []
    for path in stubs.PACKAGE.rglob("*.py"):
        definitions = {
            n.name: n for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef)
        }
        found = definitions.get("__getattr__")
        internal = path.relative_to(stubs.PACKAGE).parts[0] == "decompositions"
        if found is None or internal or ast.unparse(found.returns or found.args) == "NoReturn":
            continue
        if "__dir__" not in definitions:
            silent.append(path)
    assert silent == []


def test_modules_list_what_is_public_alone() -> None:
    """Not what they import to work with."""
    for name in ad._MODULES:
        module = getattr(ad, name)
        public = {n: getattr(module, n) for n in listed(module) if n[0] != "_"}
        assert {"annotations", "absent", "did_you_mean"} & public.keys() == set(), name
        assert [n for n, v in public.items() if getattr(v, "__module__", "") == "typing"] == [], (
            name
        )


def test_stubs_have_every_operator_as_function_and_as_method(package: Path) -> None:
    offered = names_in((package / "__init__.pyi").read_text())
    public = [n for n in TABLE.names() if not n.startswith("_")]
    assert {n for n in public for m in (n, f"{n}_") if exists(m)} <= offered
    tensor = (package / "tensor" / "tensor.pyi").read_text()
    methods = set(re.findall(r"^    def (\w+)\(self", tensor, re.MULTILINE))
    offered = {n for n in TABLE.methods() if not n.startswith("_")}
    assert offered - methods == set()


def test_users_code_has_exactly_the_errors_that_it_should(package: Path, tmp_path: Path) -> None:
    code = Path(shutil.copy(USERS_CODE, tmp_path))
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(package.parent)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    checker = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    found = subprocess.run(
        [*checker, str(code)], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    problems = json.loads(found.stdout)["generalDiagnostics"]
    got = [(p["range"]["start"]["line"] + 1, p.get("rule", p["message"])) for p in problems]
    lines = enumerate(code.read_text().splitlines(), 1)
    wanted = [(n, line.partition("# error: ")[2]) for n, line in lines if "# error: report" in line]
    assert sorted(got) == wanted

"""Stubs for type checkers: `adjoint stubs` writes them, and wheels contain them.

Operators are made from the table when they are first used, so the source does not show them. The
stub of a module stands beside it, as `linalg.pyi` beside `linalg.py`, where type checkers look
first. In a checkout git ignores them.

    >>> "def qr(" in stubs()["linalg.pyi"]
    True
"""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

from adjoint.core.importing import imported
from adjoint.stubs import modules, operators, tensors, transforms

PACKAGE = Path(__file__).parent.parent
_TENSOR = "tensor/tensor.py"
_RESULTS = "return_types.py"


def stubs() -> dict[str, str]:
    """The text of every stub, by its path in the package."""
    found = {_RESULTS: _result_classes(), _TENSOR: _tensor()}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        wanted = _name(path) in transforms.OVERLOADS or (
            _is_public(path) and modules.has_late_names(path)
        )
        if wanted and name not in found:
            module = _module(path)
            found[name] = modules.stub(module, transforms.of(module))
    return {f"{name}i": text for name, text in sorted(found.items())}


def write(directory: Path = PACKAGE) -> list[Path]:
    """Write the stubs under a directory, beside the modules if none is given; returns their paths.

    A stub that is there and no longer wanted is removed.
    """
    texts = stubs()
    for old in directory.rglob("*.pyi"):
        if old.relative_to(directory).as_posix() not in texts:
            old.unlink()
    written = [directory / name for name in texts]
    for path, text in zip(written, texts.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return written


def _is_public(path: Path) -> bool:
    """Whether users import the module; `decompositions` finds its functions for the table alone."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] not in ("decompositions", "stubs", "testing", "cli")


def _name(path: Path) -> str:
    parts = ["adjoint", *path.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(p for p in parts if p != "__init__")


def _module(path: Path) -> ModuleType:
    return imported(_name(path))


def _tensor() -> str:
    path = PACKAGE / _TENSOR
    classes = (n for n in ast.parse(path.read_text()).body if isinstance(n, ast.ClassDef))
    tensor = next(c for c in classes if c.name == "Tensor")
    return modules.stub(_module(path), {"Tensor": tensors.body(tensor)})


def _result_classes() -> str:
    lines = [
        '"""Several results with names, for type checkers; written by `adjoint stubs`."""',
        "from typing import NamedTuple",
        "",
        "from adjoint.tensor.tensor import Tensor",
        "",
        *operators.result_classes(),
    ]
    return "\n".join(lines)

"""Imports go down only, and the lower layers keep to what they may use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests import SOURCE

EAGER = ("tensor", "tape", "homes", "calls")  # from the lowest
# what a layer may import of ours, beside itself; nothing else
BELOW: dict[str, tuple[str, ...]] = {
    "core": (),
    "structures": ("core",),
    "kinks": ("core",),
    "table": ("core",),
    "checks": ("core",),
    "toolchain": ("core", "_version"),
    "expressions": ("core", "table"),
    "loops": ("core", "table", "toolchain", "expressions"),
    "c_kernels": ("core", "checks", "toolchain", "expressions", "loops"),
    "kernels": ("core", "checks", "structures", "kinks", "expressions", "loops", "c_kernels"),
    "ops": ("core", "structures", "table"),
    "formulas": ("core", "checks", "ops"),
    "shapes": ("core", "checks", "kinks"),
    "batching": ("core", "checks", "ops"),
    "decompositions": ("core", "checks", "structures", "kinks", "ops"),
    "tensor": ("core", "table", "checks", "loops", "c_kernels", "ops"),
    "tape": ("core", "table", "loops", "c_kernels", "ops", "tensor"),
    "homes": ("core", "structures", "kinks", "table", "ops", "tensor", "tape"),
    "calls": ("core", "table", "loops", "c_kernels", "ops", *EAGER),
    "transforms": ("core", "table", "ops", "batching", *EAGER),
    "graph": ("core", "table", "checks", "ops", *EAGER, "transforms"),
    "compiler": (
        *("core", "table", "checks", "expressions", "ops", *EAGER, "transforms", "graph"),
        *("toolchain", "loops", "c_kernels"),
    ),
    "sparse_derivatives": (
        *("core", "c_kernels", "table", "ops", *EAGER, "transforms", "graph", "compiler"),
        "sparse",
    ),
    "reports": (*("core", "ops", "tape", "transforms", "graph", "compiler"),),
    "autograd": ("core", "ops", *EAGER, "doors", "transforms", "absent", "legacy"),
    "nn": ("core", "checks", "table", "ops", *EAGER, "doors", "compiler", "func", "absent"),
    "optim": (
        *("core", "toolchain", "kernels", "expressions", "loops", "ops", *EAGER, "doors"),
        *("transforms", "graph", "compiler", "nn"),
    ),
    "amp": ("core", *EAGER, "absent"),
    "backends": ("core", "kernels", "toolchain", "absent"),
    "distributions": ("core", "ops", *EAGER, "doors", "transforms", "graph"),
    "doors": ("core", "table", "ops", *EAGER, "absent"),
    "doors/numpy": (
        *("core", "checks", "ops", *EAGER, "transforms", "functions", "exchange", "doors"),
        "absent",
    ),
    "numpy": ("core", "homes", "doors", "doors/numpy", "absent"),
    "doors/array_api": ("core", "ops", *EAGER, "exchange", "functions", "doors", "doors/numpy"),
    "array_api": ("core", "doors/array_api", "numpy", "_version"),
    "doors/scipy": ("core", "graph", "transforms", *EAGER, "doors", "doors/numpy", "numpy"),
    "scipy": ("tensor", "core", "doors", "doors/numpy", "doors/scipy", "numpy", "absent"),
    "doors/lax": ("core", "ops", *EAGER),
    "serialization": ("core", *EAGER, "nn", "sparse"),
    "utils": ("core", "ops", *EAGER, "transforms", "exchange", "absent"),
}
NO_PATTERNS = ("compiler", "loops", "optim")
NO_NUMPY = ("checks", "formulas", "batching", "decompositions", "shapes")


def imports_of(path: Path) -> list[tuple[str, int]]:
    """What a module imports when it runs; names that only the type checker needs do not count."""
    found: list[tuple[str, int]] = []
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "adjoint":
                found += [(f"adjoint.{a.name}", node.lineno) for a in node.names]
            else:
                found.append((node.module, node.lineno))
        elif isinstance(node, ast.Import):
            found += [(a.name, node.lineno) for a in node.names]
    return found


def layer_of(parts: Sequence[str]) -> str:
    """The layer of a module: of doors each is one."""
    return "/".join(parts[:2]) if "/".join(parts[:2]) in BELOW else parts[0]


@pytest.mark.parametrize("layer", BELOW)
def test_imports_go_down(layer: str) -> None:
    allowed = {layer, *BELOW[layer]}
    wrong = []
    for path in (SOURCE / layer).rglob("*.py"):
        if layer_of(path.relative_to(SOURCE).parts) != layer:
            continue
        for module, line in imports_of(path):
            parts = module.split(".")
            if parts[0] == "adjoint" and len(parts) > 1 and layer_of(parts[1:]) not in allowed:
                wrong.append(f"{path.relative_to(SOURCE)}:{line} imports {module}")
    assert wrong == []


@pytest.mark.parametrize("layer", NO_PATTERNS)
def test_elements_are_read_as_trees(layer: str) -> None:
    """Nothing learns from C text: what an element is made of, its tree says."""
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in (SOURCE / layer).rglob("*.py")
        for module, line in imports_of(path)
        if module in ("re", "regex")
    ]
    assert wrong == []


def test_no_two_layers_import_each_other() -> None:
    order = TopologicalSorter({layer: {*below} - {layer} for layer, below in BELOW.items()})
    assert set(order.static_order()) >= BELOW.keys()  # a cycle raises


@pytest.mark.parametrize("layer", NO_NUMPY)
def test_rules_use_operators_only(layer: str) -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in (SOURCE / layer).rglob("*.py")
        for module, line in imports_of(path)
        if module.split(".")[0] in ("numpy", "scipy")
    ]
    assert wrong == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_our_own_modules_are_not_imported_inside_functions() -> None:
    inside = []
    for path in SOURCE.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for node in ast.walk(function):
                    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                        "adjoint"
                    ):
                        inside.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert inside == []


def test_what_may_be_locked_in_a_child_process_is_not_used() -> None:
    """core/threads.py makes the locks; functools.cached_property has one of its own."""
    wrong = [
        f"{path.relative_to(SOURCE)} uses {name}"
        for path in SOURCE.rglob("*.py")
        for name in (
            "functools.cached_property",
            "functools import cached_property",
            "threading.Lock(",
            "threading.RLock(",
        )
        if name in path.read_text() and path != SOURCE / "core" / "threads.py"
    ]
    assert wrong == []


def test_modules_are_imported_by_one_thread_at_a_time() -> None:
    """Inside functions `core/importing.py` imports ours, and `Lazy` those of others."""
    asking = [
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if "import_module" in path.read_text()
    ]
    assert sorted(asking) == ["core/importing.py", "core/lazy.py"]


def test_a_tensor_never_changes_its_class() -> None:
    """A tensor that becomes one of a transform gets another home."""
    wrong = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        if "nn" not in path.parts  # modules, which are no tensors, do: lazy.py, parametrize.py
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr == "__class__"
        and isinstance(node.ctx, ast.Store)
    ]
    assert wrong == []


def test_only_modules_of_others_are_loaded_lazily() -> None:
    wrong = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if 'Lazy("adjoint' in path.read_text()
    ]
    assert wrong == []


# a statement of C, or a line of its preprocessor, in a string
_C_TEXT = re.compile(
    r"^\s*#(define|pragma|include)\b|\*restrict\b|\b__builtin_\w+"
    r"|\b(const|long|double|float|int|char|void|static|extern|typedef)\b[^;{}\n]*[;{]\s*$"
    r"|\b(for|while|if) \(.*[;{]",
    re.MULTILINE,
)


def _strings(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The strings of a module, without its docstrings; of f-strings the parts outside braces."""
    texts = (ast.Module, ast.ClassDef, ast.FunctionDef)
    about = {id(n.body[0].value) for n in ast.walk(tree) if isinstance(n, texts) and _is_text(n)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else "x" for p in node.values)
            yield "".join(map(str, parts)), node.lineno
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in about
        ):
            yield node.value, node.lineno


def _is_text(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> bool:
    return bool(node.body) and isinstance(node.body[0], ast.Expr)


def c_texts(path: Path) -> list[int]:
    """The lines of a module at which it writes C."""
    return [line for text, line in _strings(ast.parse(path.read_text())) if _C_TEXT.search(text)]


def test_c_is_written_by_its_target() -> None:
    """Of the compiler only targets write C, or what is like it: all else is data."""
    targets = SOURCE / "compiler" / "targets"
    others = [p for p in (SOURCE / "compiler").rglob("*.py") if not p.is_relative_to(targets)]
    wrong = [f"{p.relative_to(SOURCE)}:{line}" for p in others for line in c_texts(p)]
    assert wrong == []
    found = [path.name for path in (targets / "c").glob("*.py") if c_texts(path)]
    assert {"render.py", "regions.py", "routines.py", "entry.py"} <= {*found}
    found = [path.name for path in (SOURCE / "loops").glob("*.py") if c_texts(path)]
    assert {*found} == {"printer.py", "joining.py", "element_source.py"}

"""The compiler's passes are for every machine: numbers about one stand on its target."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from adjoint.compiler import pipeline
from tests import SOURCE
from tests.laws.test_architecture import imports_of

COMPILER = SOURCE / "compiler"
GENERAL = [
    *(p for p in sorted(COMPILER.rglob("*.py")) if "targets" not in p.parts),
    *(SOURCE / "loops" / f"{name}.py" for name in ("accumulators", "affine", "loop_programs")),
]


def name_of(path: Path) -> str:
    return path.relative_to(COMPILER if path.is_relative_to(COMPILER) else SOURCE).as_posix()


# numbers in general files that are about no machine, each with its reason
NUMBERS = {
    "compiled.py": ({"_MANY", "_WORLDS", "_PROGRAMS", "_BEFORE"}, "programs kept for a user"),
    "reads.py": ({"_SMALL", "_WRITTEN_OUT"}, "how outside values are compared in Python"),
    "attributes.py": ({"_LONG", "_MANY"}, "how outside values are compared in Python"),
    "fast_call.py": ({"_NEW", "_NEW_FROM_DESCR"}, "places in the tables of Python and NumPy"),
    "definitions.py": ({"GATHER"}, "a cost in additions, as the costs of expressions"),
    "loops/accumulators.py": ({"_LEAST"}, "the least number of int64"),
    "loops/loop_programs.py": (
        {"ROW", "BLOCK", "LANE", "ABOVE", "LEFT", "PIECE", "VECTOR"}, "names of variables"),
    "program_decompositions.py": ({"NEAR"}, "when eigenvalues count as equal"),
    "shaping/__init__.py": ({"SHORT_EXAMPLE", "LONG_EXAMPLE"}, "sizes that stand for others"),
    "shaping/bytes.py": ({"_WIDE"}, "bytes of the widest dtype"),
    "shaping/totals.py": ({"_FEW", "_MANY"}, "how exact sums are; a length that is not known"),
    "symbolic/learning.py": (
        {"_SCALES", "_ELEMENTS", "_FIRST", "_DRAWN", "_PERIODS", "_LARGE", "_STEPS", "_FEW",
         "_MORE", "_TRIES", "_TYPICAL", "_SPLIT", "_MULTIPLE", "_WAYS", "_MOST"},
        "how sizes are learnt from traces"),
    "symbolic/polynomials.py": (
        {"_DENOMINATOR", "_MULTIPLE", "_DIVISOR", "_TOGETHER"}, "which polynomials are tried"),
}  # fmt: skip
# general files that know a target, each with its reason
KNOWING = {
    "program.py": "runs programs of this machine",
    "symbolic/learning.py": "lowers for this machine, to compare graphs of several sizes",
}


def _is_number(value: ast.expr | None) -> bool:
    if isinstance(value, ast.UnaryOp):
        return _is_number(value.operand)
    if isinstance(value, ast.BinOp):
        return _is_number(value.left) and _is_number(value.right)
    if isinstance(value, ast.Tuple):
        return bool(value.elts) and all(map(_is_number, value.elts))
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def numbers_in(path: Path) -> Iterator[str]:
    """The constants of a module that are numbers, or tuples of numbers."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        for target in targets:
            assert isinstance(node, (ast.Assign, ast.AnnAssign))
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = [*zip(target.elts, node.value.elts, strict=True)]
            yield from (
                name.id for name, value in pairs if isinstance(name, ast.Name) and _is_number(value)
            )


@pytest.mark.parametrize("path", GENERAL, ids=name_of)
def test_general_passes_have_no_numbers_of_a_machine(path: Path) -> None:
    known, _ = NUMBERS.get(name_of(path), (set[str](), ""))
    assert {*numbers_in(path)} == known


def test_general_passes_know_no_target() -> None:
    found = {
        name_of(path)
        for path in GENERAL
        for module, _ in imports_of(path)
        if module.startswith("adjoint.compiler.targets")
    }
    assert found == {*KNOWING}


def test_the_stages_are_functions_of_one_argument() -> None:
    names = [stage.__name__ for stage in pipeline.STAGES]
    assert names == [
        "lower", "keep_steps", "fuse", "nest", "shape", "sweep", "add_versions", "place", "order",
        "write", "build",
    ]  # fmt: skip
    assert all(stage.__code__.co_argcount == 1 for stage in map(inspect.unwrap, pipeline.STAGES))


def test_each_number_of_the_target_says_what_set_it() -> None:
    """In a comment: a measurement with its commit, or the size of a thing of the processor."""
    lines = (COMPILER / "targets" / "c" / "target.py").read_text().splitlines()
    silent = []
    for node in ast.walk(ast.parse("\n".join(lines))):
        line = lines[node.lineno - 1] if isinstance(node, ast.keyword) else ""
        if isinstance(node, ast.keyword) and _is_number(node.value) and "  # " not in line:
            silent.append(line)
    assert silent == []

"""The dialect of the doors' tables: what each kind of row means, and which rows are refused."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import adjoint as ad
from adjoint import doors
from adjoint.core.errors import TableError

TABLE = """\
# a comment
abs, absolute = abs
acos, doubled
half(x: Tensor, by: float = 0.5) = x * by
largest, amax(x, /, *, axis=-1)
    = ad.amax(x, axis)
rounded(x) -> int = int(doubled(x))
doubled_later(x, *more, key=None)
power{2,3}(x) = x ** {}
{cos,sin}_twice(x) = {}({}(x))
[parts]
sum(x) -> tuple[Tensor, ...] = tuple(unbind(x)) or sum(x)
"""


def doubled(x: Any) -> Any:
    """Twice x."""
    return 2 * x


WORDS = {"doubled": doubled, "doubled_later": lambda x, *more, key: (doubled(x), more, key)}


def function(path: Path, name: str, section: str = "") -> Any:
    return doors.read(str(path))[section][name].function("somewhere", WORDS)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "names.txt"
    path.write_text(TABLE)
    return path


def test_a_row_without_brackets_is_the_function_itself(table: Path) -> None:
    assert function(table, "abs") is function(table, "absolute") is ad.abs
    assert function(table, "acos") is ad.acos
    assert function(table, "doubled") is doubled


def test_a_function_has_the_signature_and_the_types_of_its_row(table: Path) -> None:
    half = function(table, "half")
    assert half(ad.tensor(3.0)).item() == 1.5
    assert half.__module__ == "somewhere"
    assert half.__annotations__ == {"x": "Tensor", "by": "float", "return": "Tensor"}
    assert get_type_hints(half) == {"x": ad.Tensor, "by": float, "return": ad.Tensor}
    assert inspect.signature(half).parameters["by"].default == 0.5
    assert half.__doc__ == "half(x: Tensor, by: float = 0.5)\n\nIn operators: `x * by`."
    assert function(table, "sum", "parts").__annotations__["return"] == tuple[ad.Tensor, ...]


def test_all_names_of_a_row_have_its_expression(table: Path) -> None:
    x = ad.tensor([[1.0, 3.0]])
    assert function(table, "largest")(x).item() == function(table, "amax")(x).item() == 3.0
    assert function(table, "rounded")(1) == 2


def test_a_row_without_an_expression_calls_the_word_of_its_name(table: Path) -> None:
    assert function(table, "doubled_later")(1, 2, key=3) == (2, (2,), 3)


def test_a_name_with_braces_stands_for_several_rows(table: Path) -> None:
    assert [function(table, f"power{n}")(2) for n in (2, 3)] == [4, 8]
    assert function(table, "sin_twice")(ad.tensor(1.0)).equal(ad.tensor(1.0).sin().sin())


def test_help_has_the_example_beside_the_table(table: Path) -> None:
    (table.parent / "examples").mkdir()
    (table.parent / "examples" / table.name).write_text("half: A half.\n>>> 4 / 2\n2.0\n")
    parts = ["A half.", ">>> import adjoint as ad\n>>> 4 / 2\n2.0", "In operators: `x * by`."]
    assert function(table, "half").__doc__ == "\n\n".join(parts)


def test_a_traceback_shows_the_row(table: Path) -> None:
    code = function(table, "largest").__code__
    assert (code.co_filename, code.co_firstlineno) == (str(table), 5)


@pytest.mark.parametrize("rows", ["sin\nsin(x)", "sin, sin(x)", "sin(x", "sin x = sin", "= sin(x)"])
def test_rows_that_are_none_are_refused(tmp_path: Path, rows: str) -> None:
    path = tmp_path / "names.txt"
    path.write_text(rows)
    with pytest.raises(TableError, match=f"names.txt:{1 + rows.count(chr(10))}: "):
        doors.read(str(path))


def test_a_name_that_means_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_text("\n\ntwice(x) = twofold(x)")
    with pytest.raises(TableError, match=r"names.txt:3: twofold is no operator and no word"):
        function(path, "twice")


def test_threads_get_the_same_function(table: Path) -> None:
    module: dict[str, Any] = {"__name__": "somewhere"}
    find, _ = doors.door(module, str(table), "", WORDS)
    first = find("half")
    assert find("half") is first is module["half"]

"""Functions in the language of elements: what a text means, and what is told of a wrong one."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from adjoint.core.errors import TableError
from adjoint.expressions import definitions, functions, special_functions
from adjoint.expressions.c_text import function_text
from adjoint.expressions.trees import ElementFunction
from tests import SOURCE


def defined(text: str) -> dict[str, ElementFunction]:
    """The functions of a text, by their names."""
    found = definitions.read(text.splitlines(), "mine.txt")
    return {each.name: definitions.parsed(each) for each in found}


def in_c(text: str, name: str) -> list[str]:
    """The lines of the C text of a function."""
    return function_text(defined(text)[name]).splitlines()[1:-1]


def test_a_text_for_both_types_makes_a_function_of_each() -> None:
    found = defined("ad_bump@(x, width):\n  exp@(-x * x / width) + 0.25@\n")
    assert {*found} == {"ad_bump", "ad_bumpf"}
    told = "double ad_bump(double x, double width) {\n  return exp(-x * x / width) + 0.25;\n}"
    assert function_text(found["ad_bump"]) == told
    assert "return expf(-x * x / width) + 0.25f;" in function_text(found["ad_bumpf"])


def test_a_name_may_be_given_again() -> None:
    text = "ad_sum(x):\n  let y = x + 1, x = y * y\n  x + y\n"
    assert in_c(text, "ad_sum") == [
        "  const double y = x + 1;", "  const double x_2 = y * y;", "  return x_2 + y;"
    ]  # fmt: skip


def test_repeated_steps_follow_each_other() -> None:
    text = "ad_loop(x):\n  let y = x\n  repeat k from 1 to 2:\n    let y = y * x + k\n  y\n"
    assert in_c(text, "ad_loop") == [
        "  const double y = x;", "  const double y_2 = y * x + 1;",
        "  const double y_3 = y_2 * x + 2;", "  return y_3;",
    ]  # fmt: skip


def test_a_function_is_made_for_each_number() -> None:
    found = defined("ad_times{n}(x) for n from 2 to 3:\n  power(x, {n}) + {n+1}\n")
    assert [str(function_text(f)).splitlines()[1] for f in found.values()] == [
        "  return x * x + 3;", "  return x * x * x + 4;"
    ]  # fmt: skip


def test_what_follows_an_early_result_is_not_computed() -> None:
    text = "ad_mine(x):\n  if x > 1: log(x)\n  lgamma(x)\n"
    assert in_c(text, "ad_mine") == ["  if (x > 1) return log(x);", "  return lgamma(x);"]


def test_what_nothing_uses_is_left_out() -> None:
    assert in_c("ad_mine(x):\n  let y = exp(x), z = y + 1\n  x\n", "ad_mine") == ["  return x;"]


def test_bits_are_whole_numbers_as_large_as_the_number() -> None:
    lines = in_c("ad_mine@(x):\n  from_bits(bits(x) << DIGITS@)\n", "ad_minef")
    assert lines == ["  return ad_from_bitsf(ad_bitsf(x) << 23);"]


WRONG = {
    "there is no 'y' here": "ad_mine(x):\n  let z = x\n  y + z\n",
    "there is no function ad_nothing()": "ad_mine(x):\n  let z = x\n  ad_nothing(z)\n",
    "there is no constant NOTHING": "ad_mine(x):\n  let z = x\n  z + NOTHING\n",
    "exp() takes 1 arguments, got 2": "ad_mine(x):\n  let z = x\n  exp(x, z)\n",
    "'half' means something in other languages": "ad_mine(x):\n\n  let half = x\n  half\n",
    "this stands behind the result": "ad_mine(x):\n  x\n  let y = x\n",
    "'y' is left over": "ad_mine(x):\n  let z = x\n  x y\n",
    "'$' is nothing that may stand here": "ad_mine(x):\n  let z = x\n  x $ z\n",
}


@pytest.mark.parametrize("told", WRONG)
def test_a_mistake_is_told_with_its_line(told: str) -> None:
    with pytest.raises(TableError, match=re.escape(f"mine.txt:3: function: {told}")):
        defined(WRONG[told])


def test_a_function_needs_a_head_and_a_result() -> None:
    with pytest.raises(TableError, match=r"mine.txt:1: this begins no function: 'mine\(x\):'"):
        defined("mine(x):\n  x\n")
    with pytest.raises(TableError, match="ad_mine has no result"):
        defined("ad_mine(x):\n  let y = x\n")


# -- laws of all functions ------------------------------------------------------------------------


def test_every_function_is_read() -> None:
    assert len(definitions.names()) > 300
    for name in definitions.names():
        found = definitions.find(name)
        assert found is not None
        assert found.name == name


def test_no_function_calls_itself() -> None:
    """Neither OpenCL C nor vectors have recursion; a cycle raises."""
    texts = special_functions.called()
    calls = {
        name: {*special_functions.named_in(text)} & texts.keys() for name, text in texts.items()
    }
    for name in definitions.names():
        found = definitions.find(name)
        assert found is not None
        calls[name] = {*found.calls} & {*texts, *definitions.names()}
    assert {*TopologicalSorter(calls).static_order()} == {*calls}


NOT_PORTABLE = re.compile(
    r"\b(long|union|_Complex|extern|static|half|real|__\w+|goto|unsigned|float)\b|\bdouble \*\w+ ="
)


def test_functions_with_loops_are_c_of_every_target() -> None:
    comment = re.compile(r"/\*.*?\*/", re.DOTALL)
    wrong = {
        f"{path.name}: {found[0]}"
        for path in (SOURCE / "expressions" / "special").glob("*.c")
        for found in NOT_PORTABLE.finditer(comment.sub("", path.read_text("ascii")))
    }
    assert wrong == set()


def test_a_function_that_the_c_library_has_is_declared_once() -> None:
    text = functions.prelude(["ad_airy", "ad_polynomial", "exp"], 0)
    assert text.count("extern double frexp(double, int *);") == 1
    assert text.count("extern double exp(double);") == 1


def test_texts_have_lines_that_fit() -> None:
    for path in Path(definitions.__file__).parent.glob("function_texts/*.txt"):
        assert max(map(len, path.read_text("utf-8").splitlines())) <= 100, path.name

"""Every public operator says what it does, and has an example that runs."""

from __future__ import annotations

import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import adjoint as ad
from adjoint.doors import DoorRow, read
from adjoint.table import FAMILIES, TABLE, examples
from tests.operator_examples import DOORS, FOLDER, filled

OPTIONS = doctest.NORMALIZE_WHITESPACE
PROPERTIES = {"numpy_T": ".T", "matrix_H": ".H"}
WITH_EXAMPLES = [family for family in FAMILIES if (FOLDER / f"{family}.txt").exists()]


def public(family: str) -> list[str]:
    return [n for n in TABLE.names() if TABLE.family(n) == family and not n.startswith("_")]


def run(text: str, name: str) -> str:
    """The report of a doctest; empty if it holds."""
    found = doctest.DocTestParser().get_doctest(text, {"ad": ad}, name, None, 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=OPTIONS)
    runner.run(found, out=report.append)
    return "".join(report)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_public_operator_has_one_example(family: str) -> None:
    assert [e.name for e in examples.blocks(family)] == public(family)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_public_operator_says_what_it_does(family: str) -> None:
    silent = [
        name
        for name in public(family)
        if not examples.of(family, name).sentence
        and not TABLE.row(name, TABLE.overloads(name)[0]).doc
    ]
    assert silent == []


@pytest.mark.parametrize("family", WITH_EXAMPLES)
def test_examples_run(family: str) -> None:
    assert "".join(run(e.lines, e.name) for e in examples.blocks(family)) == ""


@pytest.mark.parametrize("path", DOORS, ids=lambda path: path.stem)
def test_examples_of_rows_of_doors_run_and_show_a_result(path: Path) -> None:
    for example in examples.blocks_of(str(path)):
        assert example.sentence, example.name
        *_, last = doctest.DocTestParser().get_examples(example.lines)
        assert last.want, example.name
        assert f".{example.name}" in example.lines, example.name
        assert run(example.lines, example.name) == ""


def is_member(row: DoorRow) -> bool:
    """Whether a row is part of the class of its section: mean in [gammas.Gamma]."""
    _, dot, name = row.section.partition(".")
    return bool(dot) and row.name != name


@pytest.mark.parametrize("path", DOORS, ids=lambda path: path.stem)
def test_every_row_of_a_door_with_examples_has_one(path: Path) -> None:
    sections = read(str(path.parents[1] / path.name)).values()
    rows = [row for section in sections for row in section.values() if row.name[0] != "_"]
    written = sorted(r.name for r in rows if r.signature is not None and not is_member(r))
    assert sorted(e.name for e in examples.blocks_of(str(path))) == written


@pytest.mark.parametrize("family", WITH_EXAMPLES)
def test_examples_show_a_result_and_name_their_operator(family: str) -> None:
    for example in examples.blocks(family):
        *_, last = doctest.DocTestParser().get_examples(example.lines)
        assert last.want, example.name
        spelled = PROPERTIES.get(example.name) or re.sub(
            r"^(linalg|special|fft)_", ".", example.name
        )
        assert spelled in example.lines, example.name


def test_a_docstring_is_a_doctest_on_its_own() -> None:
    for function in (ad.sum, ad.sin, ad.linalg.svd, ad.Tensor.cumsum, ad.ops.neg.default.function):
        assert function.__doc__ is not None
        assert ">>> import adjoint as ad\n" in function.__doc__
        assert run(function.__doc__, "docstring") == ""


def test_every_public_function_has_an_example() -> None:
    old = ("Tensor", "library")  # FloatTensor; docs/howto/own_operator.md has that of library
    silent = [
        name
        for name in dir(ad)
        if inspect.isfunction(found := getattr(ad, name))
        and not name.endswith(old)
        and ">>> " not in (found.__doc__ or "")
    ]
    assert silent == []


def test_an_inplace_variant_says_what_it_writes() -> None:
    assert "`sin`, written over self. The sine." in str(ad.Tensor.sin_.__doc__)


def test_results_that_are_missing_are_filled_in() -> None:
    example = examples.Example("neg", "−x.", ">>> x = ad.ones(2)\n>>> -x")
    assert (
        filled(example, again=False) == "neg: −x.\n>>> x = ad.ones(2)\n>>> -x\ntensor([-1., -1.])"
    )


def test_import_reads_no_examples() -> None:
    program = (
        "import sys; opened = []\n"
        "sys.addaudithook(lambda e, a: opened.append(str(a[0])) if e == 'open' else None)\n"
        "import adjoint\n"
        "print([p for p in opened if p.endswith('.txt')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr

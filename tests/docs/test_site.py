"""The pages of operators are made from the table: formulas, pictures, modes, laws. `make docs`."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pytest

import adjoint as ad
from adjoint.table import FAMILIES, TABLE
from adjoint.testing import laws
from adjoint.testing.certificates import ledger
from docs.building import (
    certificates,
    charts,
    facts,
    formulas,
    links,
    operators,
    pictures,
    reference,
    stage,
)

SHOWN = ("tanh", "sum", "linalg_qr", "where", "dropout_", "_erfcx_derivative", "eq")
WORST = ledger.Entry(1.5, "eager reverse", 0.25)
LINES = {(f"{name}(x)", "float64"): (WORST,) * 4 for name in ("tanh", "erf")}


def words(mathml: str) -> str:
    """MathML without its elements."""
    return "".join(ElementTree.fromstring(mathml).itertext()).replace("\u2061", "")


# -- formulas -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("grad * self.cos()", "z‾⋅cos(x)"),
        ("grad * (1 - result * result).conj()", "z‾⋅(1−z⋅z)*"),
        ("grad * result.conj()", "z‾⋅z*"),  # a bar is a gradient, never a conjugate
        ("-grad * self", "−z‾⋅x"),
        ("grad * -self", "z‾⋅(−x)"),
        ("a + -b * c", "a+(−b⋅c)"),
        ("-(-a)", "−(−a)"),
        ("-grad / (self * self)", "−z‾x⋅x"),
        ("a - (b - c)", "a−(b−c)"),
        ("a - b - c", "a−b−c"),
        ("a * (b * c)", "a⋅b⋅c"),
        ("(a + b) * c", "(a+b)⋅c"),
        ("-(a + b)", "−(a+b)"),
        ("(-a) ** 2", "(−a)2"),
        ("self_t * 2 + other_p", "x˙⋅2+y"),
        ("linalg.qr_vjp(grad_Q, R)", "qr_vjp(Q‾,R)"),
        ("where(self > 0, grad, 0)", "{z‾if\u00a0x>00otherwise"),
        ("a if n == 1 else b if n == 2 else c", "{aif\u00a0n=1bif\u00a0n=2cotherwise"),
        ("grads[0].mH", "z‾0H"),
        ("self.log1p()", "log(1+x)"),
        ("result * 1.1283791670955126", "z⋅2π"),
        ("[f(x) for x in tensors]", "[f(x):x∈tensors]"),
    ],
)
def test_a_formula_is_printed_as_mathematics(text: str, read: str) -> None:
    assert words(formulas.expression(text)) == read


def test_what_is_no_mathematics_is_not_printed() -> None:
    with pytest.raises(formulas.Unprintable):
        formulas.expression("list(map(lambda x: x, self))")


def test_nearly_every_formula_of_the_table_is_printed() -> None:
    texts = [
        r.formula.text for row in TABLE.rows() for r in (*row.reverse, *row.forward) if r.formula
    ]
    refused = 0
    for text in dict.fromkeys(texts):
        try:
            ElementTree.fromstring(formulas.expression(text))
        except formulas.Unprintable:
            refused += 1
    assert refused <= 0.02 * len(texts)


# -- pages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHOWN)
def test_the_page_of_an_operator_says_everything(name: str) -> None:
    fact = facts.of(name)
    page = operators.page(fact, LINES)
    for row in fact["rows"]:
        assert row["text"] in page
    for mathml in re.findall(r"<math.*?</math>", page):
        ElementTree.fromstring(mathml)
    assert "<h2>In the table</h2>" in page
    assert "<h2>Where it runs</h2>" in page
    assert ("```pycon" in page) == (not name.startswith("_"))
    assert ("<svg" in page) == (name == "tanh")
    assert "<h2>Laws</h2>" in page
    assert "{" not in re.sub(r"```.*?```", "", page, flags=re.DOTALL)  # nothing left unfilled


def test_a_page_shows_the_certificate_of_a_function() -> None:
    page = operators.page(facts.of("erf"), LINES)
    assert "<td><code>erf(x)</code></td><td>adjoint</td><td>1.5</td>" in page
    assert "<td>0.25</td>" in page
    assert "<h2>Certificate</h2>" in page


def test_the_table_of_certificates_is_that_of_the_ledger() -> None:
    page = certificates.PAGE.read_text(encoding="utf-8")
    assert certificates.with_table(page, ledger.read(certificates.LEDGER)) == page


def test_every_family_and_law_has_words() -> None:
    assert set(operators.FAMILIES) == set(FAMILIES)
    assert set(operators.LAWS) == set(laws.LAWS)


def test_a_picture_is_drawn_of_functions_of_one_number_only() -> None:
    ElementTree.fromstring(pictures.picture("erf"))
    assert pictures.picture("erf").count("<polyline") == 3
    assert pictures.picture("add") == pictures.picture("isnan") == pictures.picture("frexp") == ""


def test_a_curve_is_cut_where_it_jumps() -> None:
    x = np.linspace(-1.0, 1.0, 101)
    pieces = list(pictures._pieces(x, np.sign(x + 1e-9), -1.1, 1.1))
    assert len(pieces) == 2


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The reference, as if three operators had pages."""
    return dict(reference.Reference(["sin", "relu", "linalg_svd"]).pages())


def test_the_reference_has_a_page_for_every_public_module(pages: dict[str, str]) -> None:
    listed = " ".join(reference.MODULES.values()).split()
    assert {*ad._MODULES} <= {*listed, *reference.WITHOUT.split()}
    assert {f"reference/{name}.md" for name in listed} < pages.keys()
    for name in listed:
        assert f"]({name}.md)" in pages["reference/index.md"]


def test_a_page_of_the_reference_has_every_name_of_its_module(pages: dict[str, str]) -> None:
    for path, page in pages.items():
        name = Path(path).stem
        if path in ("functions.md", "reference/index.md"):
            continue
        for public in reference.names_of(reference.module(name)):
            assert re.search(rf"^`+{{py:\w+}} {public}\b|^\| `{public}` \| ", page, re.MULTILINE)


def test_an_object_is_described_once_and_operators_on_their_own_pages(
    pages: dict[str, str],
) -> None:
    entry = re.compile(r"^`{5}{py:\w+} (\w+)", re.MULTILINE)
    entries = [(path, name) for path, page in pages.items() for name in entry.findall(page)]
    assert len(entries) == len(set(entries)) > 1000
    for name in ("grad", "vmap", "compile", "no_grad", "manual_seed", "scan"):
        assert f"}} {name}(" in pages["functions.md"]
    assert "| `scan` | {py:obj}`adjoint.scan` |" in pages["reference/lax.md"]
    assert (
        "| `svd` | [`ad.linalg_svd`](../operators/linalg_svd.md) |" in pages["reference/linalg.md"]
    )


def test_operators_that_are_methods_are_described_on_their_pages_alone() -> None:
    ad.ones(2).bfloat16()  # from now on the class has its function
    described = dict(reference._members(ad.Tensor))
    assert "backward" in described
    assert "bfloat16" not in described


def test_signatures_are_shown_as_they_are_written() -> None:
    assert reference.signature(ad.nn.L1Loss).endswith("reduction: str = 'mean')")
    assert reference.signature(ad.grad).startswith("(f: Callable[..., Any], argnums: Argnums = 0")


def test_the_chart_of_benchmarks_holds_the_numbers_of_the_page() -> None:
    page = (stage.DOCS / "benchmarks.md").read_text(encoding="utf-8")
    lines = charts.results(page)
    assert len(lines) > 5
    assert all(line.tools["adjoint"].gradient > 0 for line in lines)
    ElementTree.fromstring(charts.chart(page))
    assert charts.PICTURE in charts.with_chart(page)


@pytest.mark.parametrize("module", [charts, facts, formulas, reference, stage])
def test_examples_in_docstrings_hold(module: ModuleType) -> None:
    done = doctest.testmod(module)
    assert done.attempted
    assert not done.failed


# -- links ----------------------------------------------------------------------------------------


def test_links_that_leave_the_pages_are_turned(tmp_path: Path) -> None:
    stage.stage(stage.Folder(tmp_path))
    for page in tmp_path.rglob("*.md"):
        for link in stage.links(page.read_text(encoding="utf-8")):
            found = (page.parent / link).resolve()
            assert tmp_path.resolve() in found.parents, (page, link)
    assert (tmp_path / "contributing.md").exists()
    assert (tmp_path / "code/docs/adjoint_in_200_lines.py.md").exists()


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#here">b</a><a href="c.html">c</a>')
    (tmp_path / "b.html").write_text('<p id="there"><a href="a.html">a</a><img src="x.svg">')
    assert sorted(links.broken(tmp_path)) == [
        "a.html: no file c.html",
        "a.html: no place b.html#here",
        "b.html: no file x.svg",
    ]

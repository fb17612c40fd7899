"""The C text of a tree means that tree, and says what the text of the row says."""

from __future__ import annotations

import pytest

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.expressions.c_text import printed
from adjoint.expressions.parsing import parse
from adjoint.expressions.rows import expression
from adjoint.expressions.trees import Binary, Choose, Convert, Expression, Number, Operand, Unary
from adjoint.table import TABLE
from adjoint.table.formula import Location
from adjoint.table.rows import Row, is_reference
from adjoint.testing import laws

ROWS = [row for row in TABLE.rows() if row.element]
KINDS = {"real": "float64", "whole": "int64", "bool": "bool"}  # in which C needs no suffix
NOWHERE = Location("", 0)


def elements(row: Row, dtype: DType) -> list[Expression]:
    """The trees of a row for the arguments of its samples."""
    found = []
    try:
        cases = laws.cases(row, dtype)
    except RuntimeWarning:  # its samples are NaN, which no whole number is
        return []
    for case in cases:
        given = dict(zip(row.schema.names, case.sample.args, strict=False)) | case.sample.kwargs
        tree = expression(row, dtype, {a.name: a.default for a in row.schema.arguments} | given)
        found += [] if tree is None else [tree]
    return found


def reread(tree: Expression) -> Expression:
    """The tree of the C text of a tree."""
    operands = {p.name: p.dtype for p in tree.walk() if isinstance(p, Operand)}
    dtype = dtypes.float64 if any(p.dtype.is_differentiable for p in tree.walk()) else dtypes.int64
    names = {n: n for n in operands}
    return parse(printed(tree, names), operands, dtype, NOWHERE, ours=True)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.full_name)
def test_the_c_text_of_an_element_means_its_tree(row: Row) -> None:
    """Brackets stand where C needs them: reading the text gives the tree again."""
    for kind in row.element.keys() & KINDS.keys():
        for tree in elements(row, dtypes.named(KINDS[kind])):
            if not any(_is_unusual(part) for part in tree.walk()):
                assert reread(tree) == tree


def _is_unusual(tree: Expression) -> bool:
    """Whether the language of elements has no number such as this one."""
    return isinstance(tree, Number) and repr(tree.value)[0] not in "0123456789"


@pytest.mark.parametrize("suffix", ["", "f"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.full_name)
def test_the_c_text_of_an_element_has_the_signs_and_names_of_the_row(row: Row, suffix: str) -> None:
    dtype = dtypes.float32 if suffix else dtypes.float64
    text = row.element.get("real", "variants.")
    if is_reference(text) or "inf" in text or "." in text:
        return  # real numbers are spelled in C's way
    tree = expression(row, dtype, {})
    assert tree is not None
    spelled = printed(tree, {n: n for n in tree.operands})
    assert _plain(spelled) == _plain(text.replace("@", suffix))


def _plain(text: str) -> str:
    return "".join(c for c in text if c not in " ()\n")


def test_brackets_stand_where_the_order_changes() -> None:
    a, b, c = (Operand(n, dtypes.float64) for n in "abc")
    spelled = {
        "a - (b - c)": Binary("-", a, Binary("-", b, c)),
        "a - b - c": Binary("-", Binary("-", a, b), c),
        "(a + b) * c": Binary("*", Binary("+", a, b), c),
        "a * b + c": Binary("+", Binary("*", a, b), c),
        "-(-a)": Unary("-", Unary("-", a)),
        "-(a + b)": Unary("-", Binary("+", a, b)),
        "(a < b) & (b < c)": Binary("&", Binary("<", a, b), Binary("<", b, c)),
        "(a < b ? a : b) * c": Binary("*", Choose(Binary("<", a, b), a, b), c),
        "a < b ? a : b < c ? b : c": Choose(Binary("<", a, b), a, Choose(Binary("<", b, c), b, c)),
        "((float)(a + b))": Convert(Binary("+", a, b), dtypes.float32),
        "((long long)ad_whole_long(a))": Convert(a, dtypes.int64),
        "(a != 0)": Convert(a, dtypes.bool_),
        "ad_to_half_bits(b)": Convert(b, dtypes.float16),
    }
    for text, tree in spelled.items():
        assert printed(tree, {n: n for n in "abc"}) == text

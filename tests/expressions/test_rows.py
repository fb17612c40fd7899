"""The column `element`: an element stands in its row, and does nothing but compute a number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import TableError
from adjoint.expressions.rows import check
from adjoint.table import TABLE
from adjoint.toolchain import build
from tests import tables

HEAD = "- name: bump(Tensor self, Tensor other, Scalar width=1, str mode='a') -> Tensor\n"
REST = "  like: pointwise\n  kernel: xp.add(self, other)\n  element: {}\n  self, other: grad\n"
ROW = HEAD + REST


def mistakes(tmp_path: Path, text: str) -> str:
    with pytest.raises(TableError) as raised, tables.added(tmp_path, ROW.format(text)):
        pass
    return str(raised.value)


def test_our_texts_pass_the_checks() -> None:
    assert [m for row in TABLE.rows() for m in check(row)] == []


@pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")
def test_a_row_of_a_library_fuses(tmp_path: Path) -> None:
    """One loop for the operator, its neighbours and their gradients; no call of its kernel."""
    rows = (
        "- name: softbump(Tensor self, Scalar width=1) -> Tensor\n"
        "  like: pointwise_float\n"
        "  kernel: xp.exp(-self * self / width)\n"
        "  element: exp@(-self * self / width)\n"
        "  self: grad * result * self * (-2 / width)\n"
    )
    with tables.added(tmp_path, rows):
        compiled = ad.compile(ad.value_and_grad(lambda x: (ad.softbump(x, 2.0) * x).sum()))
        for dtype, tolerance in ((ad.float64, 1e-14), (ad.float32, 1e-5)):
            x = ad.linspace(-1.0, 2.0, 50, dtype=dtype)
            expected = ad.value_and_grad(lambda x: (ad.softbump(x, 2.0) * x).sum())(x)
            for ours, eager in zip(compiled(x), expected, strict=True):
                np.testing.assert_allclose(ours.numpy(), eager.numpy(), rtol=tolerance)
            assert compiled.lower(x).callbacks() == []


@pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")
def test_kinds_of_numbers_have_texts_of_their_own(tmp_path: Path) -> None:
    rows = (
        "- name: above(Tensor self, Tensor other) -> Tensor\n"
        "  like: pointwise\n"
        "  kernel: xp.maximum\n"
        "  element: {real: 'ad_max@(self, other)', whole: '(self > other ? self : other)'}\n"
        "  self, other: non_differentiable\n"
    )
    with tables.added(tmp_path, rows):
        compiled = ad.compile(ad.above)
        for values in ([1, 5, -3], [0.5, np.nan, 2.0], [True, False, True]):
            x = ad.tensor(np.array(values))
            y = x.flip(0)
            np.testing.assert_array_equal(compiled(x, y).numpy(), ad.above(x, y).numpy())
            kernels = [] if x.dtype is not ad.bool else ["above.default"]
            assert compiled.lower(x, y).callbacks() == kernels


HOSTILE = (
    "*self", "&self", "*(&self + 100)", "self++", "--self", "self - --self", "self = 1",
    "self += 1", "self, other", "self; other", "(self", "self)", "self other", "",
    "system(self)", "exp(system(self))", "malloc(1)", "abort()", "_exit(1)", "__asm__(self)",
    "__builtin_trap()", "__builtin_unreachable()", "((void (*)(void))0)()", "(long long)self",
    "(double *)self", "sizeof(self)", "self[0]", "self.x", "self->x", '"text"', "'a'", "`x`",
    "\\", "#include", "self /* other */", "self // other", "{self}", "self ? other", "self : other",
    "exp(self, other)", "exp()", "exp@", "exp", "@", "self@", "pow(self)",
    "ad_digamma@(self)", "0x10", "010", "1.", ".5", "1e9999", "9999999999999999999999", "1u", "1LL",
    "goto x", "asm(1)", "mode", "mode ? self : other", "grad", "result", "width()", "self % other",
    "self & other", "~self", "1 / 2", "self << 2", "self >> 2", "variants.power", "self\\u0028",
    "exp(" * 60 + "self" + ")" * 60, "(" * 3000 + "self" + ")" * 3000, "-" * 1500 + "self",
    "!" * 1999 + "x", "self + " * 600 + "self",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_refused_with_their_place(text: str, tmp_path: Path) -> None:
    quoted = "'" + text.replace("'", "''") + "'"
    told = mistakes(tmp_path, quoted)
    assert told.startswith(f"{tmp_path}/mine.yaml:4:")
    assert "bump" not in TABLE


WHOLE = ("self / other", "self % 3", "exp(self)", "0.5 * self", "self << 1", "pow(self, 2)")


@pytest.mark.parametrize("text", WHOLE)
def test_whole_numbers_are_not_divided(text: str, tmp_path: Path) -> None:
    """A division by 0 would end the program: such a row runs its kernel."""
    mistakes(tmp_path, f"{{whole: '{text}'}}")


def test_a_misspelt_name_is_told_with_the_nearest(tmp_path: Path) -> None:
    told = mistakes(tmp_path, "self / widht")
    assert f"{tmp_path}/mine.yaml:4:19: element: 'widht' is no argument that is a number; " in told
    told = mistakes(tmp_path, "expp@(self)")
    assert "element: there is no function expp@(); did you mean exp" in told
    told = mistakes(tmp_path, "{reel: self}")
    assert ":4:13: element: 'reel' is not among real, whole, bool, complex, number, all; " in told
    assert "element: bool has a second text" in mistakes(tmp_path, "{all: self, bool: other}")


def test_the_former_name_of_the_column_is_read_with_a_warning(tmp_path: Path) -> None:
    def element(rows: str) -> object:
        with tables.added(tmp_path, rows):
            return TABLE.row("bump").element

    rows = ROW.format("self + other / width").replace("  element:", "  c:")
    told = r"mine.yaml:4: the column c is called element now"
    with pytest.warns(DeprecationWarning, match=told):
        found = element(rows)
    assert found == {"real": "self + other / width"}
    refused = pytest.raises(TableError, match=r"mine.yaml:6:3: duplicate key 'element'")
    with pytest.warns(DeprecationWarning, match=r"mine.yaml:6: the column c"), refused:
        element(ROW.format("self + other") + "  c: self\n")


def test_complex_numbers_have_texts_in_our_own_rows_alone(tmp_path: Path) -> None:
    assert "our own rows alone" in mistakes(tmp_path, "{complex: self < other}")


def test_only_elementwise_operators_have_a_text(tmp_path: Path) -> None:
    rows = HEAD + "  kernel: xp.add(self, other)\n  element: self + other\n  self, other: grad\n"
    told = r"mine.yaml:3:12: element is for operators that are like: pointwise"
    with pytest.raises(TableError, match=told), tables.added(tmp_path, rows):
        pass

"""The column `c`: an operator's C text stands in its row, and does nothing but compute a number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import check_c
from adjoint.core.errors import TableError
from adjoint.table import TABLE
from adjoint.toolchain import build
from tests import tables

HEAD = "- name: bump(Tensor self, Tensor other, Scalar width=1, str mode='a') -> Tensor\n"
ROW = HEAD + "  like: pointwise\n  kernel: xp.add(self, other)\n  c: {}\n  self, other: grad\n"


def mistakes(tmp_path: Path, text: str) -> str:
    with pytest.raises(TableError) as raised, tables.added(tmp_path, ROW.format(text)):
        pass
    return str(raised.value)


def test_our_texts_pass_the_checks() -> None:
    assert [m for row in TABLE.rows() for m in check_c(row)] == []


@pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")
def test_a_row_of_a_library_fuses(tmp_path: Path) -> None:
    """One loop for the operator, its neighbours and their gradients; no call of its kernel."""
    rows = (
        "- name: softbump(Tensor self, Scalar width=1) -> Tensor\n"
        "  like: pointwise_float\n"
        "  kernel: xp.exp(-self * self / width)\n"
        "  c: exp@(-self * self / width)\n"
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
        "  c: {real: 'ad_max@(self, other)', whole: '(self > other ? self : other)'}\n"
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
    assert f"{tmp_path}/mine.yaml:4:13: c: 'widht' is no argument that is a number; " in mistakes(
        tmp_path, "self / widht"
    )
    assert "c: there is no function expp@(); did you mean exp" in mistakes(tmp_path, "expp@(self)")
    told = mistakes(tmp_path, "{reel: self}")
    assert ":4:7: c: 'reel' is not among real, whole, bool, complex, number, all; did you" in told
    assert "c: bool has a second text" in mistakes(tmp_path, "{all: self, bool: other}")


def test_complex_numbers_have_texts_in_our_own_rows_alone(tmp_path: Path) -> None:
    assert "our own rows alone" in mistakes(tmp_path, "{complex: self < other}")


def test_only_elementwise_operators_have_a_text(tmp_path: Path) -> None:
    rows = HEAD + "  kernel: xp.add(self, other)\n  c: self + other\n  self, other: grad\n"
    told = r"mine.yaml:3:6: c is for operators that are like: pointwise"
    with pytest.raises(TableError, match=told), tables.added(tmp_path, rows):
        pass

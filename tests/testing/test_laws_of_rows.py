"""The laws find what is wrong with a row, and pass one that is right: for users' own tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core import dtypes
from adjoint.table import TABLE
from adjoint.table.reading import WORDS as TABLE_WORDS
from adjoint.testing import Sample, laws, sampler, samples
from adjoint.testing.closeness import near
from adjoint.testing.samples import automatic
from tests import tables

RIGHT = """
- name: testing_square(Tensor self) -> Tensor
  like: pointwise
  kernel: xp.square
  self: grad * 2 * self.conj()
- name: testing_outer(Tensor self, Tensor other) -> Tensor
  decompose: self.unsqueeze(-1) * other
"""

WRONG = {
    "factor": ("grad * 3 * self.conj()", "xp.square", "reverse_equals_differences"),
    "conjugate": ("grad * 2 * self", "xp.square", "conjugate"),
    "second": ("grad * 2 * self.conj().detach()", "xp.square", "second_order_equals_differences"),
    "touches": ("grad * 2 * self.conj()", "testing_wrong.touches", "inputs_are_untouched"),
    "layout": ("grad * 2 * self.conj()", "testing_wrong.layout", "layout_does_not_matter"),
    "dtype": ("grad * 2 * self.conj()", "testing_wrong.widen", "shape_rule_is_right"),
}


def touches(self: Any) -> Any:
    result = np.square(self)
    if self.flags.writeable:
        self *= 1.5
    return result


def layout(self: Any) -> Any:
    return np.square(self) if self.flags.c_contiguous else np.square(self) + 1


def widen(self: Any) -> Any:
    return np.square(self.astype(np.complex128))


@pytest.fixture(scope="module", autouse=True)
def _tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Add the rows of this module, and take them away again: the table is everybody's."""
    before = set(TABLE.names())
    folder: Path = tmp_path_factory.mktemp("tables")
    right, wrong = folder / "testing_right.yaml", folder / "testing_wrong.yaml"
    right.write_text(RIGHT, encoding="utf-8")
    wrong.write_text(
        "".join(
            f"- name: testing_{name}(Tensor self) -> Tensor\n  like: pointwise\n"
            f"  kernel: {kernel}\n  self: {formula}\n"
            for name, (formula, kernel, _) in WRONG.items()
        ),
        encoding="utf-8",
    )
    ad.library(right)
    ad.library(wrong, SimpleNamespace(touches=touches, layout=layout, widen=widen))
    sampler("testing_outer", reference=np.outer)(outer_samples)
    yield
    tables.forget(set(TABLE.names()) - before)


def outer_samples(make: Any) -> Iterator[Sample]:
    yield Sample(make(2), make(3), name="plain")
    yield Sample(make(0), make(3), name="empty")


def test_right_rows_pass() -> None:
    assert ad.testing.check("testing_square") > 50
    assert ad.testing.check("testing_outer") > 10


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rows_are_found(name: str) -> None:
    with pytest.raises(AssertionError) as caught:
        ad.testing.check(f"testing_{name}", dtypes=("float64", "complex128", "float32"))
    assert WRONG[name][2] in str(caught.value)
    assert f"testing_{name}" in str(caught.value)


def test_forward_that_is_not_the_adjoint_is_found(tmp_path: Path) -> None:
    table = tmp_path / "testing_modes.yaml"
    table.write_text(
        "- name: testing_modes(Tensor self) -> Tensor\n  like: pointwise\n  kernel: xp.square\n"
        "  self: grad * 2 * self.conj()\n  result: self_t * self_p\n",
        encoding="utf-8",
    )
    ad.library(table)
    with pytest.raises(AssertionError, match="jvp_is_adjoint_of_vjp"):
        ad.testing.check("testing_modes")


def test_wrong_value_is_found() -> None:
    case = laws.Case(
        TABLE.row("testing_square"),
        Sample(ad.tensor([2.0])),
        dtypes.float32,
        lambda x: x * x * 1.01,
    )
    with pytest.raises(AssertionError, match="reference"):
        laws.value_equals_reference(case)


def test_samples_are_the_same_every_time() -> None:
    row = TABLE.row("testing_square")
    first, again = (samples.for_row(row, dtypes.float64) for _ in range(2))
    assert [s.name for s, _ in first] == [s.name for s, _ in again]
    for (a, _), (b, _) in zip(first, again):
        assert (a.args[0] == b.args[0]).all()


def test_samples_lie_in_the_domain() -> None:
    make = samples.Make(dtypes.float64, "any")
    assert (make.positive(100) > 0).all()
    assert (make.unit(100).abs() < 1).all()
    assert (make.above_one(100) > 1).all()
    assert ((make.probability(100) > 0) & (make.probability(100) < 1)).all()
    assert make.index(5, 100).max().item() <= 4
    gaps = np.diff(np.sort(make.distinct(50).detach().numpy()))
    assert gaps.min() > 0.05


def test_matrices_of_samples_are_what_they_say() -> None:
    for dtype in (dtypes.float64, dtypes.complex128):
        make = samples.Make(dtype, "any")
        h = make.hermitian(2, 4, 4).detach().numpy()
        assert np.allclose(h, np.conj(np.swapaxes(h, -1, -2)))
        p = make.positive_definite(3, 3).detach().numpy()
        assert np.linalg.eigvalsh(p).min() > 0.4
        a = make.invertible(2, 3, 5).detach().numpy()
        assert np.linalg.svd(a, compute_uv=False).min() > 0.4


def test_domains_are_the_words_that_the_table_knows() -> None:
    assert {*automatic.DOMAINS, automatic.OWN} == {"", *TABLE_WORDS["domain"]}


def test_an_infinity_is_near_itself_alone() -> None:
    infinite = np.array([np.inf, -np.inf, np.inf, np.inf, np.inf])
    got = np.array([np.inf, -np.inf, 3.0, -np.inf, np.nan])
    assert near(got, infinite, 1e-3, 1e-3).tolist() == [True, True, False, False, False]
    assert near(infinite, got, 1e-3, 1e-3).tolist() == [True, True, False, False, False]

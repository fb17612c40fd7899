"""The laws of DESIGN §9 over the table: operator × sample × dtype."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from adjoint.core import dtypes
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.testing import laws, samples
from adjoint.testing.laws import Case

DTYPES = (dtypes.float64, dtypes.complex128, dtypes.float32)
FEW = 3  # samples in float32, where no derivative is compared with differences


@dataclass(frozen=True)
class Divergence:
    """One line of known_divergences.txt."""

    law: str
    operator: str
    sample: str
    reason: str

    def covers(self, law: str, case: Case) -> bool:
        pairs = (
            (law, self.law),
            (case.row.full_name, self.operator),
            (case.sample.name, self.sample),
        )
        return all(fnmatch.fnmatchcase(value, pattern) for value, pattern in pairs)


def read_divergences() -> list[Divergence]:
    lines = (
        (Path(__file__).parent / "known_divergences.txt").read_text(encoding="utf-8").splitlines()
    )
    entries = [line.split("|") for line in lines if line.strip() and not line.startswith("#")]
    return [Divergence(*(part.strip() for part in entry)) for entry in entries]


KNOWN = read_divergences()
ROWS: list[Row] = list(TABLE.rows())
CASES: list[tuple[str, Case]] = [
    (law, case)
    for row in ROWS
    for dtype in DTYPES
    for case in laws.cases(row, dtype)[: None if dtype is not dtypes.float32 else FEW]
    for law in laws.laws_of(case)
]


def over(law: str) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
    """Parametrise a test over the cases of a law."""
    chosen = [case for name, case in CASES if name == law]
    ids = [f"{c.row.full_name}-{c.sample.name}-{c.dtype.name}" for c in chosen]
    return pytest.mark.parametrize("case", chosen, ids=ids)


def uphold(law: str, case: Case) -> None:
    """Run a law; a known divergence must still diverge."""
    known = [d for d in KNOWN if d.covers(law, case)]
    if not known:
        laws.LAWS[law](case)
        return
    try:
        laws.LAWS[law](case)
    except Exception:
        return
    pytest.fail(f"holds after all; take it off known_divergences.txt: {known[0]}")


@over("value_equals_reference")
def test_value_equals_reference(case: Case) -> None:
    uphold("value_equals_reference", case)


@over("reverse_equals_differences")
def test_reverse_equals_differences(case: Case) -> None:
    uphold("reverse_equals_differences", case)


@over("second_order_equals_differences")
def test_second_order_equals_differences(case: Case) -> None:
    uphold("second_order_equals_differences", case)


@over("jvp_is_adjoint_of_vjp")
def test_jvp_is_adjoint_of_vjp(case: Case) -> None:
    uphold("jvp_is_adjoint_of_vjp", case)


@over("vmap_equals_loop")
def test_vmap_equals_loop(case: Case) -> None:
    uphold("vmap_equals_loop", case)


@over("shape_rule_is_right")
def test_shape_rule_is_right(case: Case) -> None:
    uphold("shape_rule_is_right", case)


@over("traced_equals_eager")
def test_traced_equals_eager(case: Case) -> None:
    uphold("traced_equals_eager", case)


@over("decomposition_equals_kernel")
def test_decomposition_equals_kernel(case: Case) -> None:
    uphold("decomposition_equals_kernel", case)


@over("inputs_are_untouched")
def test_inputs_are_untouched(case: Case) -> None:
    uphold("inputs_are_untouched", case)


@over("shared_memory_is_known")
def test_shared_memory_is_known(case: Case) -> None:
    uphold("shared_memory_is_known", case)


@over("layout_does_not_matter")
def test_layout_does_not_matter(case: Case) -> None:
    uphold("layout_does_not_matter", case)


UNSAMPLED = {
    name.strip(): reason.strip()
    for line in (Path(__file__).parent / "unsampled.txt").read_text().splitlines()
    if line and not line.startswith("#")
    for name, _, reason in [line.partition("|")]
}


def bare_rows() -> set[str]:
    """Rows without a sample, and differentiable ones whose samples let no derivative through."""
    covered = {case.row.full_name for _, case in CASES}
    derived = {case.row.full_name for law, case in CASES if law == "reverse_equals_differences"}
    return {
        row.full_name
        for row in ROWS
        if row.full_name not in covered or (row.differentiable and row.full_name not in derived)
    }


def test_every_row_has_samples() -> None:
    assert bare_rows() - UNSAMPLED.keys() == set()


def test_rows_without_samples_are_listed_with_a_reason() -> None:
    assert UNSAMPLED.keys() - bare_rows() == set(), "these have samples now: take them off the list"
    assert all(UNSAMPLED.values())


def test_every_sampler_names_a_row() -> None:
    known = {row.full_name.removesuffix(".default") for row in ROWS}
    strangers = [name for name in samples.registered() if name not in known]
    assert strangers == [], "samplers of operators that the table does not have"


def test_every_divergence_names_a_case() -> None:
    for entry in KNOWN:
        assert entry.reason
        assert any(entry.covers(law, case) for law, case in CASES), f"covers nothing: {entry}"

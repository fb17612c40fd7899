"""The laws of DESIGN §9 over the table: operator × sample × dtype."""

from __future__ import annotations

import fnmatch
import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from adjoint.core import dtypes
from adjoint.table import TABLE
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
ROWS = {row.full_name: row for row in TABLE.rows()}


@cache
def cases_of(name: str) -> list[tuple[str, Case]]:
    """The laws that say something about a row, with the cases they say it of."""
    return [
        (law, case)
        for dtype in DTYPES
        for case in laws.cases(ROWS[name], dtype)[: None if dtype is not dtypes.float32 else FEW]
        for law in laws.laws_of(case)
    ]


def broken(law: str, case: Case) -> str:
    """How a case breaks a law, or an empty text; a known divergence must still diverge."""
    known = next((d for d in KNOWN if d.covers(law, case)), None)
    try:
        laws.LAWS[law](case)
    except Exception as error:
        if known is not None:
            return ""
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{law}: {type(error).__name__} at {place.filename}:{place.lineno}: {error}"
    return "" if known is None else f"{law} holds; take it off known_divergences.txt: {known}"


UNSAMPLED = {
    name.strip(): reason.strip()
    for line in (Path(__file__).parent / "unsampled.txt").read_text().splitlines()
    if line and not line.startswith("#")
    for name, _, reason in [line.partition("|")]
}


def check_samples(name: str) -> None:
    """Each row has a sample, and a differentiable one some whose derivative is compared."""
    said = {law for law, _ in cases_of(name)}
    bare = not said or (ROWS[name].differentiable and "reverse_equals_differences" not in said)
    if name in UNSAMPLED:
        assert bare, "it has samples now: take it off the list"
        assert UNSAMPLED[name]
    else:
        assert not bare


@pytest.mark.parametrize("name", ROWS)
def test_laws(name: str) -> None:
    """All laws, at all samples, in all dtypes."""
    check_samples(name)
    found = [text for law, case in cases_of(name) if (text := broken(law, case))]
    if found:
        pytest.fail(f"{len(found)} of {len(cases_of(name))} broken\n" + "\n".join(found), False)


def test_unsampled_rows_exist() -> None:
    assert UNSAMPLED.keys() - ROWS.keys() == set()


def test_every_sampler_names_a_row() -> None:
    known = {name.removesuffix(".default") for name in ROWS}
    strangers = [name for name in samples.registered() if name not in known]
    assert strangers == [], "samplers of operators that the table does not have"


@pytest.mark.parametrize("entry", KNOWN, ids=lambda entry: f"{entry.law}-{entry.operator}")
def test_every_divergence_names_a_case(entry: Divergence) -> None:
    assert entry.reason
    names = fnmatch.filter(ROWS, entry.operator)
    assert any(entry.covers(law, case) for name in names for law, case in cases_of(name))

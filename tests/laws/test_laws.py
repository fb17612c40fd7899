"""The laws of DESIGN §9 over the table: operator × sample × dtype."""

from __future__ import annotations

import pytest

from adjoint.table import TABLE
from adjoint.testing import laws, samples
from tests import DATA

ROWS = {row.full_name: row for row in TABLE.rows()}


UNSAMPLED = {
    name.strip(): reason.strip()
    for line in (DATA / "unsampled.txt").read_text().splitlines()
    if line and not line.startswith("#")
    for name, _, reason in [line.partition("|")]
}


def check_samples(name: str, said: set[str]) -> None:
    """Each row has a sample, and a differentiable one some whose derivative is compared."""
    bare = not said or (ROWS[name].differentiable and "reverse_equals_differences" not in said)
    if name in UNSAMPLED:
        assert bare, "it has samples now: take it off the list"
        assert UNSAMPLED[name]
    else:
        assert not bare


@pytest.mark.parametrize("name", ROWS)
def test_laws(name: str) -> None:
    """All laws, at all samples, in all dtypes."""
    claims = laws.claims(ROWS[name])
    check_samples(name, {law for law, _ in claims})
    found = [text for claim in claims if (text := laws.judge(*claim).broken)]
    if found:
        pytest.fail(f"{len(found)} of {len(claims)} broken\n" + "\n".join(found), False)


def test_unsampled_rows_exist() -> None:
    assert UNSAMPLED.keys() - ROWS.keys() == set()


def test_every_sampler_names_a_row() -> None:
    known = {name.removesuffix(".default") for name in ROWS}
    strangers = [name for name in samples.registered() if name not in known]
    assert strangers == [], "samplers of operators that the table does not have"

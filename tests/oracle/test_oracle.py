"""Law 10: PyTorch agrees on value, dtype, shape, reverse, forward and second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.oracle import lists, resolve, stored, variants  # noqa: E402 - only where PyTorch is

torch.set_num_threads(1)
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

MISSING = resolve.missing()
PRESENT = [info for info in resolve.INFOS if resolve.title(info) not in MISSING]
KNOWN = lists.divergences()


@pytest.mark.parametrize("info", PRESENT, ids=resolve.title)
def test_pytorch_agrees(info: Any, record_property: Callable[[str, object], None]) -> None:
    report = variants.compare_operator(info)
    record_property("oracle", dict(report.passed))
    entries = [d for d in KNOWN if d.covers(report.title, d.check, d.dtype)]
    used = set()
    unexpected = []
    for failure in report.failures:
        known = [d for d in entries if d.covers(report.title, failure.check, failure.dtype)]
        used.update(known)
        if not known:
            unexpected.append(str(failure))
    shown = "\n".join(unexpected[:20])
    assert not unexpected, f"{report.summary()}\n{len(unexpected)} differences:\n{shown}"
    stale = [d for d in entries if d not in used and "*" not in d.operator]
    assert not stale, f"these differences are gone; take them off divergences.txt: {stale}"


def test_missing_operators_are_listed() -> None:
    listed = lists.missing()
    assert sorted(set(MISSING) - set(listed)) == [], "not in adjoint and not in missing.txt"
    assert sorted(set(listed) - set(MISSING)) == [], "in missing.txt, but adjoint has it"


def test_every_divergence_names_an_operator() -> None:
    titles = [resolve.title(info) for info in resolve.INFOS]
    for entry in KNOWN:
        assert any(entry.covers(t, entry.check, entry.dtype) for t in titles), entry
        assert entry.reason


@pytest.mark.parametrize("filename", stored.FILES)
def test_stored_answers_are_what_pytorch_says(filename: str) -> None:
    written = (stored.FOLDER / filename).read_text(encoding="utf-8").splitlines()
    assert written == stored.FILES[filename]()

"""Every campaign runs clean for a while (`ADJOINT_FUZZ_SECONDS`, 60) from its first seed on."""

from __future__ import annotations

import importlib
import os
import pkgutil

import pytest

from tests import fuzz
from tests.fuzz import campaign

CAMPAIGNS = sorted(
    module.name
    for module in pkgutil.iter_modules(fuzz.__path__)
    if module.name not in ("campaign", "test_campaigns")
)


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_campaign_finds_nothing(name: str) -> None:
    check = importlib.import_module(f"tests.fuzz.{name}").check
    outcome = campaign.run(check, float(os.environ.get("ADJOINT_FUZZ_SECONDS", "60")))
    assert outcome.checks > 0
    assert not outcome.failures, "\n".join(f"seed {s}: {t}" for s, t in outcome.failures.items())

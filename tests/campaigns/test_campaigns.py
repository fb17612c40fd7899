"""Every campaign runs clean for a while (`ADJOINT_FUZZ_SECONDS`, 8) from its first seed on.

Each in a process of its own: they try to break the table, the cache and the state of a process.
"""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys

import pytest

import adjoint as ad
from tests import ROOT, campaigns
from tests.campaigns.programs import is_steady
from tests.random_programs import Program

SECONDS = os.environ.get("ADJOINT_FUZZ_SECONDS", "8")
CAMPAIGNS = sorted(
    module.name
    for module in pkgutil.iter_modules(campaigns.__path__)
    if module.name not in ("campaign", "test_campaigns")
)


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_campaign_finds_nothing(name: str) -> None:
    command = [sys.executable, "-m", f"tests.campaigns.{name}", "--seconds", SECONDS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert int(done.stdout.splitlines()[-1].split()[0]) > 0, "no check was made"


@pytest.mark.parametrize("steady", [True, False])
def test_a_program_is_steady_unless_rounding_decides_its_result(steady: bool) -> None:
    program = Program(0, 60)
    program.lines = [
        "v0 = x0 * 3" if steady else "v0 = x0 * 3 - x0 - x0 - x0",  # 0, up to rounding
        "v1 = ad.where(v0.argmax() % 2 > 0, x0, x0 * 2)",
    ]
    program.arguments = {"x0": ad.linspace(0.1, 1.7, 21, dtype=ad.float64)}
    program.floats, program.results = 1, ["v1"]
    assert is_steady(program) == steady

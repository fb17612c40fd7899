"""Keeps the comparison with PyTorch out of ordinary test runs, and sums it up at the end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore this folder unless it is asked for: importing PyTorch takes seconds."""
    marks = config.getoption("markexpr", "") or ""
    asked = marks.strip() == "oracle" or any("oracle" in str(a) for a in config.args)
    return None if asked and "not oracle" not in marks else True


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many operators and checks were compared."""
    passed: Counter[str] = Counter()
    operators = 0
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            counts = dict(report.user_properties).get("oracle")
            if counts:
                operators += 1
                passed.update(counts)
    if operators:
        terminalreporter.section("PyTorch")
        checks = ", ".join(f"{check} {count}" for check, count in passed.most_common())
        terminalreporter.write_line(f"{operators} operators agree on: {checks}")

"""Run one check after another, with seeds that count up, until the time is over.

A campaign is a module of this folder with `check(seed) -> int`: it makes a case from the seed
alone, raises AssertionError with everything needed to repeat it, and returns how many comparisons
it made. `python -m tests.campaigns.writes --seconds 60 --seed 0` runs one; a failure prints its
seed and goes on.
"""

from __future__ import annotations

import argparse
import importlib
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

Check = Callable[[int], int]


@dataclass
class Outcome:
    checks: int = 0  # comparisons made: 12408
    next_seed: int = 0  # the first seed that was not run
    failures: dict[int, str] = field(default_factory=dict)  # seed -> traceback


@cache
def torch() -> Any:
    """PyTorch, or None where it is not installed; imported when first asked for."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        return None


def run(check: Check, seconds: float, seed: int = 0, most_failures: int = 10) -> Outcome:
    """Run `check` on seed, seed + 1, … for that long, or until it failed that often."""
    outcome = Outcome(next_seed=seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end and len(outcome.failures) < most_failures:
        try:
            outcome.checks += check(outcome.next_seed)
        except Exception:  # whatever a case raises is a finding: it is printed and counted
            outcome.failures[outcome.next_seed] = traceback.format_exc()
        outcome.next_seed += 1
    return outcome


def main(check: Check) -> None:
    """The command line of a campaign; exits with 1 after a failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long (60)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    options = parser.parse_args()
    outcome = run(check, options.seconds, options.seed)
    for seed, text in outcome.failures.items():
        print(f"--seed {seed} fails:\n{text}")
    seeds = f"seeds {options.seed} to {outcome.next_seed - 1}"
    print(f"{outcome.checks} checks, {seeds}, {len(outcome.failures)} failures")
    raise SystemExit(1 if outcome.failures else 0)

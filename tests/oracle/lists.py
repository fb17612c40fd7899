"""Reads the text files that say where adjoint differs from PyTorch, and what it does not have."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Divergence:
    """One line of divergences.txt; each field but the reason may be a glob."""

    operator: str  # "linalg.qr"
    check: str  # "second"
    dtype: str  # "complex*"
    reason: str  # "PyTorch's gradient is NaN here; ours is the limit"

    def covers(self, operator: str, check: str, dtype: str) -> bool:
        pairs = ((operator, self.operator), (check, self.check), (dtype, self.dtype))
        return all(fnmatch.fnmatchcase(value, pattern) for value, pattern in pairs)


def _lines(name: str) -> list[list[str]]:
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return [
        [part.strip() for part in line.split("|")]
        for line in lines
        if line.strip() and not line.startswith("#")
    ]


def divergences() -> list[Divergence]:
    """Return the known differences; a malformed line raises TypeError."""
    return [Divergence(*parts) for parts in _lines("divergences.txt")]


def missing() -> dict[str, str]:
    """Return the OpInfos that adjoint has no operator for, with the reason."""
    return {parts[0]: parts[1] for parts in _lines("missing.txt")}

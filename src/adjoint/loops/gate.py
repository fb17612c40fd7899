"""From how many elements a call of native code pays."""

from __future__ import annotations

LARGE = 1 << 14  # of one operator: NumPy computes fewer as quickly
SEVERAL = 1 << 12  # of a formula of some operators, of which each is a pass over memory in NumPy

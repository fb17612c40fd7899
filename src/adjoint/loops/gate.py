"""From how many elements a call of native code pays."""

from __future__ import annotations

LARGE = 1 << 14  # elements; NumPy computes fewer as quickly

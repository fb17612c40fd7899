"""Sorting under vmap: the dimension moves, the rest follows."""

from __future__ import annotations

from adjoint.batching.common import shifted as shifted

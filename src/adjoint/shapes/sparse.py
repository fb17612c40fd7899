"""Shapes of the primitives of sparse matrices."""

from __future__ import annotations

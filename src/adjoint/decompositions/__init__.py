"""Operators in terms of smaller ones, down to primitive rows; `table` maps names to them.

A name names one overload: `add.Tensor`.
"""

from __future__ import annotations

from typing import Any

from adjoint.core.importing import imported


def __getattr__(name: str) -> Any:
    if name == "table":  # made where graphs are known, one layer up
        return imported("adjoint.graph.passes.decompose").table
    raise AttributeError(f"adjoint.decompositions has no {name!r}")

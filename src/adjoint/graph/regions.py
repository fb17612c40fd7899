"""Regions by name: the operators that run graphs (`cond`, `scan`, `while_loop`), as printed text calls them."""

from __future__ import annotations

from typing import Any

from adjoint.core.errors import ArgumentError
from adjoint.graph.ir import Node, Region

REGIONS: dict[str, Any] = {}


def register(region: Region) -> Region:
    """Make a region known to `parse` and to printed text."""
    if region.name in REGIONS:
        raise ArgumentError(f"there is a region {region.name!r} already")
    REGIONS[region.name] = region
    return region


def region(name: str, /, *args: Any, **graphs: Any) -> Any:
    """Run a region on tensors; `graphs` are graphs, or Python functions that stand for them."""
    if name not in REGIONS:
        raise ArgumentError(f"there is no region {name!r}; there are {', '.join(REGIONS)}")
    found = REGIONS[name]
    return found.run(Node(found, args, graphs), list(args))

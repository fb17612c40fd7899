"""Regions by name, for printed text: operators that run graphs (`cond`, `scan`, `while_loop`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.core.errors import ArgumentError
from adjoint.graph.ir import Node, Region, Type

REGIONS: dict[str, Region] = {}
TYPES: dict[
    str, Callable[[Node], Sequence[Type]]
] = {}  # region -> the types of a node's results, for parsing and checking graphs


def register(region: Region, types: Callable[[Node], Sequence[Type]]) -> Region:
    """Make a region known to `parse`, `verify` and printed graphs."""
    if region.name in REGIONS:
        raise ArgumentError(f"there is a region {region.name!r} already")
    REGIONS[region.name], TYPES[region.name] = region, types
    return region


def region(name: str, /, *args: Any, **graphs: Any) -> Any:
    """Run a region on tensors; `graphs` are graphs or Python functions."""
    if name not in REGIONS:
        raise ArgumentError(f"there is no region {name!r}; there are {', '.join(REGIONS)}")
    found = REGIONS[name]
    return found.run(Node(found, (), graphs), list(args))

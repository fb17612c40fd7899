"""Searching the tape: which nodes lead to the wanted inputs, and how often each is reached.

All searches are iterative: a tape may be a chain of a million nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adjoint.tensor.nodes import Leaf, Node, Output, Refusal, node_of


def leading_to(roots: list[Any], targets: set[Any]) -> set[Any]:
    """All nodes from which a target can be reached, the targets included."""
    needed: set[Any] = set(targets)
    following: dict[Any, list[Any]] = {}  # the next nodes of each node met so far
    stack = [node_of(e) for e in roots if e is not None]
    while stack:
        node = stack.pop()
        after = following.get(node)
        if after is not None:  # met before, or all nodes beyond it have been visited
            if not needed.isdisjoint(after):
                needed.add(node)
        elif isinstance(node, (Node, Refusal)):
            following[node] = after = [node_of(e) for e in node.next if e is not None]
            stack.append(node)
            stack += after
    return needed


def reaches_other_leaves(roots: list[Any], inputs: list[Any]) -> bool:
    """Whether the tape from `roots` ends in leaves other than `inputs`."""
    known = set(inputs)
    stack = list(roots)
    while stack:
        edge = stack.pop()
        node = edge.node if type(edge) is Output else edge
        if node is None or node in known:
            continue
        known.add(node)
        if type(node) is Leaf and not node.closed:
            return True
        stack += node.next
    return False


def uses(roots: Iterable[Any], needed: set[Any] | None) -> dict[Any, int]:
    """How many gradients a pass from `roots` over `needed` sends to each node and leaf."""
    counts: dict[Any, int] = {}
    stack = [e for e in roots if e is not None]
    while stack:
        edge = stack.pop()
        node = edge.node if type(edge) is Output else edge
        if needed is not None and node not in needed:
            continue
        known = counts.get(node, 0)
        counts[node] = known + 1
        if not known and isinstance(node, Node):
            stack.extend(e for e in node.next if e is not None)
    return counts

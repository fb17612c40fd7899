"""`ad.utils._pytree`: nested values, under the names that programs take from PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core import pytrees
from adjoint.core.pytrees import TreeDef as TreeSpec
from adjoint.core.pytrees import map as tree_map

__all__ = [
    "TreeSpec",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]

tree_flatten, tree_leaves, tree_structure = pytrees.flatten, pytrees.leaves, pytrees.structure


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """Return the nested value of a structure with these leaves.

    >>> leaves, structure = tree_flatten({"a": [1, 2]})
    >>> tree_unflatten([3, 4], structure)
    {'a': [3, 4]}
    """
    return pytrees.unflatten(treespec, list(leaves))


def tree_map_only(kind: Any, f: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to the leaves of a class, or of a tuple of classes.

    >>> tree_map_only(int, lambda n: n + 1, (1, "a"))
    (2, 'a')
    """
    return pytrees.map(lambda leaf: f(leaf) if isinstance(leaf, kind) else leaf, tree)


def tree_all(condition: Callable[[Any], bool], tree: Any) -> bool:
    """Whether a condition holds for all leaves."""
    return all(map(condition, pytrees.leaves(tree)))


def tree_any(condition: Callable[[Any], bool], tree: Any) -> bool:
    """Whether a condition holds for a leaf."""
    return any(map(condition, pytrees.leaves(tree)))

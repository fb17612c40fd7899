"""`ad.tree_util`: the functions of `ad.tree` under the names of `jax.tree_util`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adjoint.core.pytrees import DictKey, GetAttrKey, SequenceKey
from adjoint.core.pytrees import TreeDef as PyTreeDef
from adjoint.tree import all as tree_all
from adjoint.tree import broadcast as tree_broadcast
from adjoint.tree import flatten as tree_flatten
from adjoint.tree import flatten_with_path as tree_flatten_with_path
from adjoint.tree import keystr, register_dataclass, register_static
from adjoint.tree import leaves as tree_leaves
from adjoint.tree import leaves_with_path as tree_leaves_with_path
from adjoint.tree import map as tree_map
from adjoint.tree import map_with_path as tree_map_with_path
from adjoint.tree import reduce as tree_reduce
from adjoint.tree import register_node as register_pytree_node
from adjoint.tree import register_node_class as register_pytree_node_class
from adjoint.tree import register_node_class as register_pytree_with_keys_class
from adjoint.tree import structure as tree_structure
from adjoint.tree import transpose as tree_transpose
from adjoint.tree import unflatten as tree_unflatten

__all__ = [
    "DictKey",
    "GetAttrKey",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
]


class Partial(functools.partial[Any]):
    """A function with some arguments given, which are the leaves of a tree.

    >>> import adjoint as ad
    >>> scaled = Partial(lambda a, x: a * x, 3.0)
    >>> ad.grad(lambda f: f(2.0))(scaled).args
    (tensor(2., dtype=ad.float64),)
    """


register_pytree_node(
    Partial,
    lambda made: ((made.args, made.keywords), made.func),
    lambda function, given: Partial(function, *given[0], **given[1]),
)


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], Any],
    unflatten_func: Callable[..., Any],
    flatten_func: Callable[[Any], Any] | None = None,
) -> None:
    """Make instances of a class containers whose children have keys.

    `flatten_with_keys(value)` returns pairs of a key and a child, and hashable auxiliary data.

    >>> import adjoint as ad
    >>> class Box:
    ...     def __init__(self, value): self.value = value
    >>> pairs = lambda box: ([(GetAttrKey("value"), box.value)], None)
    >>> register_pytree_with_keys(Box, pairs, lambda _, children: Box(*children))
    >>> [keystr(path) for path, _ in ad.tree.leaves_with_path([Box(1.0)])]
    ['[0].value']
    """

    def flatten(value: Any) -> Any:
        pairs, data = flatten_with_keys(value)
        return [child for _, child in pairs], data

    register_pytree_node(nodetype, flatten_func or flatten, unflatten_func, flatten_with_keys)


def __dir__() -> list[str]:
    return sorted(__all__)

"""`ad.tree_util`: the functions of `ad.tree` under the names of `jax.tree_util`."""

from __future__ import annotations

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
    "PyTreeDef",
    "SequenceKey",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
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

"""`ad.tree`: nested containers as trees of leaves, under the names of `jax.tree`.

Tuples, lists, dictionaries, named tuples and dataclasses are containers, None is a container of
nothing, and every other value is a leaf unless its class is registered. Dictionaries keep their
order, and where two trees meet their keys are matched in any order.

>>> import adjoint as ad
>>> parameters = {"w": ad.tensor([1.0, 2.0]), "b": ad.tensor(0.5)}
>>> gradients = ad.grad(lambda p: (p["w"] ** 2).sum() + 3 * p["b"])(parameters)
>>> ad.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)
{'w': tensor([0.8000, 1.6000]), 'b': tensor(0.2000)}
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError
from adjoint.core.pytrees import (
    DictKey,
    GetAttrKey,
    IsLeaf,
    Key,
    SequenceKey,
    StructureError,
    TreeDef,
    flatten,
    leaves,
    map,
    register_dataclass,
    structure,
    unflatten,
)

__all__ = [
    "DictKey",
    "GetAttrKey",
    "SequenceKey",
    "StructureError",
    "TreeDef",
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "keystr",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "register_dataclass",
    "register_node",
    "register_node_class",
    "register_static",
    "structure",
    "transpose",
    "unflatten",
]

C = TypeVar("C", bound=type)
_NOTHING: Any = object()  # stands for an argument that is not given
_every = all  # Python's own; the name below is that of a function of trees


def reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _NOTHING,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Combine all leaves with a function of two values, from the first to the last.

    >>> reduce(lambda a, b: a + b, {"x": 1, "y": [2, 3]})
    6
    """
    given = () if initializer is _NOTHING else (initializer,)
    return functools.reduce(function, leaves(tree, is_leaf), *given)


def all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Return whether all leaves are true.

    >>> all({"x": True, "y": [1, None]}), all([True, 0])
    (True, False)
    """
    return _every(leaves(tree, is_leaf))


def transpose(
    outer_treedef: TreeDef, inner_treedef: TreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Turn a tree of trees inside out: the inner structure comes outside.

    With None for `inner_treedef` all inner trees must have one structure, which is found.

    >>> transpose(structure({"a": 0, "b": 0}), structure([0, 0]), {"a": [1, 2], "b": [3, 4]})
    [{'a': 1, 'b': 3}, {'a': 2, 'b': 4}]
    """
    rows = pytrees.flatten_up_to(outer_treedef, pytree_to_transpose, what="transpose")
    if inner_treedef is None:
        if not rows:
            raise ArgumentError("transpose: without leaves the inner structure must be given")
        inner_treedef = structure(rows[0])
    columns = [
        leaves(pytrees.like(inner_treedef, row, what="transpose", root="inner tree"))
        for row in rows
    ]
    turned = zip(*columns, strict=True) if rows else [()] * inner_treedef.num_leaves
    return unflatten(inner_treedef, [unflatten(outer_treedef, column) for column in turned])


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Return a tree like `full_tree` whose leaves are those of `prefix_tree` above them.

    >>> broadcast([0, 1], [{"a": None, "b": 5}, (6, 7)])
    [{'a': None, 'b': 0}, (1, 1)]
    """
    treedef = structure(full_tree, is_leaf)
    found = pytrees.broadcast_prefix(
        prefix_tree, treedef, what="broadcast", root="prefix_tree", is_leaf=is_leaf
    )
    return unflatten(treedef, found)


def flatten_with_path(
    tree: Any, is_leaf: IsLeaf | None = None
) -> tuple[list[tuple[tuple[Key, ...], Any]], TreeDef]:
    """Return pairs of a path and a leaf, and the structure.

    >>> flatten_with_path({"w": [5]})[0]
    [((DictKey(key='w'), SequenceKey(idx=0)), 5)]
    """
    found, treedef = flatten(tree, is_leaf)
    return list(zip(pytrees.key_paths(treedef), found, strict=True)), treedef


def leaves_with_path(tree: Any, is_leaf: IsLeaf | None = None) -> list[tuple[tuple[Key, ...], Any]]:
    """Return pairs of a path and a leaf; `keystr` writes a path as text.

    >>> [(keystr(path), leaf) for path, leaf in leaves_with_path({"w": [5, 6]})]
    [("['w'][0]", 5), ("['w'][1]", 6)]
    """
    return flatten_with_path(tree, is_leaf)[0]


def map_with_path(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None
) -> Any:
    """Return `tree` with `f(path, leaf, ...)` in place of each leaf; see `map`.

    >>> map_with_path(lambda path, leaf: f"{path[0].key}={leaf}", {"w": 1, "b": 2})
    {'w': 'w=1', 'b': 'b=2'}
    """
    found, treedef = flatten(tree, is_leaf)
    others = [pytrees.flatten_up_to(treedef, other, what="map_with_path") for other in rest]
    rows = zip(pytrees.key_paths(treedef), found, *others, strict=True)
    return unflatten(treedef, [f(*row) for row in rows])


def keystr(keys: Sequence[Key], *, simple: bool = False, separator: str = "") -> str:
    """Write a path as Python does; with `simple`, names and numbers alone.

    >>> path = (DictKey("layers"), SequenceKey(0), GetAttrKey("weight"))
    >>> keystr(path), keystr(path, simple=True, separator="/")
    ("['layers'][0].weight", 'layers/0/weight')
    """
    return separator.join([_simple(key) if simple else str(key) for key in keys])


def _simple(key: Key) -> str:
    for name in ("key", "idx", "name"):
        if hasattr(key, name):
            return str(getattr(key, name))
    return str(key)


def register_node(
    cls: type,
    flatten_func: Callable[[Any], tuple[Sequence[Any], Any]],
    unflatten_func: Callable[[Any, Sequence[Any]], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Sequence[tuple[Key, Any]], Any]] | None = None,
) -> None:
    """Make instances of a class containers.

    `flatten_func(value)` returns the children and hashable auxiliary data,
    `unflatten_func(data, children)` makes the value again, of any objects as children;
    `flatten_with_keys_func(value)` returns pairs of a key and a child, and the auxiliary data.

    >>> class Box:
    ...     def __init__(self, value): self.value = value
    >>> register_node(Box, lambda box: ((box.value,), None), lambda _, values: Box(*values))
    >>> map(lambda leaf: leaf + 1, Box(3)).value
    4
    """
    if flatten_with_keys_func is None:
        pytrees.register(cls, flatten_func, unflatten_func)
        return
    with_keys = flatten_with_keys_func

    def keyed(value: Any) -> tuple[Sequence[Any], Any]:
        pairs, data = with_keys(value)
        keys = tuple([key for key, _ in pairs])
        return [child for _, child in pairs], (keys, data)

    pytrees.register(
        cls,
        keyed,
        lambda data, children: unflatten_func(data[1], children),
        keys=lambda data, count: data[0],
    )


def register_node_class(cls: C) -> C:
    """Make a class a container by its methods `tree_flatten` and `tree_unflatten`.

    >>> @register_node_class
    ... class Line:
    ...     def __init__(self, slope, offset): self.slope, self.offset = slope, offset
    ...     def tree_flatten(self): return (self.slope, self.offset), None
    ...     @classmethod
    ...     def tree_unflatten(cls, data, children): return cls(*children)
    >>> leaves(Line(1.0, 2.0))
    [1.0, 2.0]
    """
    made: Any = cls
    keys = getattr(made, "tree_flatten_with_keys", None)
    register_node(cls, lambda value: value.tree_flatten(), made.tree_unflatten, keys)
    return cls


def register_static(cls: C) -> C:
    """Make instances of a class parts of the structure: containers of nothing, compared by ==.

    >>> @register_static
    ... class Name(str): pass
    >>> leaves({"what": Name("sin"), "x": 1.0})
    [1.0]
    """
    pytrees.register(cls, lambda value: ((), value), lambda value, _: value)
    return cls


def __dir__() -> list[str]:
    return sorted(__all__)

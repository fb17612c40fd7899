"""Pytrees: nested tuples, lists, dicts, named tuples and dataclasses as flat lists of leaves.

`flatten` gives the leaves and a `TreeDef`, the structure without them; `unflatten` puts leaves
back. None is a container of nothing, as in JAX. Dictionaries keep their order, and their keys
belong to the structure. Any other class is a leaf unless it is registered (`register`). Containers
are recognised by their exact type, so a subclass of list is a leaf too; only named tuples and
dataclasses are recognised by what they are.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from adjoint.core.errors import AdjointError, ArgumentError
from adjoint.core.records import record

Children = Sequence[Any]
IsLeaf = Callable[[Any], bool]
F = TypeVar("F", bound=type)


class StructureError(AdjointError, ValueError, TypeError):
    """Two pytrees that should have the same structure and have not."""


@record
class SequenceKey:
    """One step of a path: the place in a tuple or list."""

    idx: int  # 2

    def __str__(self) -> str:
        return f"[{self.idx}]"


@record
class DictKey:
    """One step of a path: the key in a dictionary."""

    key: Any  # "w"

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@record
class GetAttrKey:
    """One step of a path: the attribute of a named tuple, dataclass or registered class."""

    name: str  # "weight"

    def __str__(self) -> str:
        return f".{self.name}"


Key = SequenceKey | DictKey | GetAttrKey | Any  # str() writes it as Python does


@record
class Container:
    """How values of one class are flattened and put together again."""

    name: str  # "dict"
    flatten: Callable[[Any], tuple[Children, Any]]  # {'a': 1} -> ([1], ('a',))
    unflatten: Callable[[Any, Children], Any]  # ('a',), [1] -> {'a': 1}
    parts: Callable[[Any, int], list[Key]]  # step to each child: [DictKey('a')]
    show: Callable[[Any, list[str]], str]  # text from the children's texts: "{'a': *}"
    keyed: bool = False  # whether the auxiliary data are keys, matched in any order
    derived: bool = False  # whether it was found from the class; users may register another


class TreeDef:
    """The structure of a pytree: hashable, comparable and printable.

    >>> flatten({"w": [1, 2], "b": None})[1]
    TreeDef({'w': [*, *], 'b': None})
    """

    __slots__ = ("_hash", "children", "data", "kind", "num_leaves")

    def __init__(self, kind: type | None, data: Any, children: tuple[TreeDef, ...]) -> None:
        self.kind = kind  # class of the container; None for a leaf
        self.data = data  # keys of a dict, auxiliary data of a registered class
        self.children = children
        self.num_leaves: int = 1 if kind is None else sum([c.num_leaves for c in children])
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, TreeDef)
            and self.kind is other.kind
            and self.num_leaves == other.num_leaves
            and self.data == other.data
            and self.children == other.children
        )

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.kind, self.data, self.children))
        return self._hash

    def __repr__(self) -> str:
        return f"TreeDef({self.show()})"

    def show(self) -> str:
        """Write the structure with `*` for each leaf."""
        if self.kind is None:
            return "*"
        return _CONTAINERS[self.kind].show(self.data, [c.show() for c in self.children])

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """Return the pytree of this structure with `leaves`."""
        return unflatten(self, leaves)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_leaf, ()) if self is LEAF else (_make, (self.kind, self.data, self.children))


LEAF = TreeDef(None, None, ())


def _leaf() -> TreeDef:
    return LEAF


def _make(kind: type, data: Any, children: tuple[TreeDef, ...]) -> TreeDef:
    _container(kind)  # in a new process the class may not have been met yet
    return TreeDef(kind, data, children)


# --- the containers ---------------------------------------------------------------------------


def _indices(data: Any, count: int) -> list[Key]:
    return [SequenceKey(i) for i in range(count)]


def _keys(data: Any, count: int) -> list[Key]:
    return [DictKey(key) for key in data]


def _names(data: Any, count: int) -> list[Key]:
    return [GetAttrKey(name) for name in data]


def _show_tuple(data: Any, texts: list[str]) -> str:
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def _show_dict(data: Any, texts: list[str]) -> str:
    return "{" + ", ".join(f"{key!r}: {text}" for key, text in zip(data, texts)) + "}"


def _show_named(name: str) -> Callable[[Any, list[str]], str]:
    def show(data: Any, texts: list[str]) -> str:
        return f"{name}({', '.join(f'{key}={text}' for key, text in zip(data, texts))})"

    return show


def _show_defaultdict(data: Any, texts: list[str]) -> str:
    factory, keys = data
    return f"defaultdict({getattr(factory, '__name__', factory)}, {_show_dict(keys, texts)})"


def _rebuild_defaultdict(data: Any, children: Children) -> Any:
    factory, keys = data
    return defaultdict(factory, zip(keys, children))


_BUILT_IN: dict[type, Container] = {
    type(None): Container(
        "None", lambda t: ((), None), lambda d, c: None, _indices, lambda d, t: "None"
    ),
    tuple: Container(
        "tuple", lambda t: (t, None), lambda d, c: tuple(c), _indices, _show_tuple
    ),
    list: Container(
        "list",
        lambda t: (t, None),
        lambda d, c: list(c),
        _indices,
        lambda d, t: f"[{', '.join(t)}]",
    ),
    dict: Container(
        "dict",
        lambda t: (t.values(), tuple(t)),
        lambda d, c: dict(zip(d, c)),
        _keys,
        _show_dict,
        keyed=True,
    ),
    OrderedDict: Container(
        "OrderedDict",
        lambda t: (t.values(), tuple(t)),
        lambda d, c: OrderedDict(zip(d, c)),
        _keys,
        lambda d, t: f"OrderedDict({_show_dict(d, t)})",
        keyed=True,
    ),
    defaultdict: Container(
        "defaultdict",
        lambda t: (t.values(), (t.default_factory, tuple(t))),
        _rebuild_defaultdict,
        lambda d, n: _keys(d[1], n),
        _show_defaultdict,
    ),
    deque: Container(
        "deque",
        lambda t: (t, t.maxlen),
        lambda d, c: deque(c, d),
        _indices,
        lambda d, t: f"deque([{', '.join(t)}])",
    ),
}  # fmt: skip

# Every class met so far, with None for those that are leaves. Plain dictionary reads are safe under
# threads; two threads that meet a class together write the same answer.
_CONTAINERS: dict[Any, Any] = dict(_BUILT_IN)


def _container(cls: type) -> Container | None:
    try:
        return _CONTAINERS[cls]
    except KeyError:
        pass
    found: Container | None = None
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        found = _named_tuple(cls)
    elif dataclasses.is_dataclass(cls):
        found = _dataclass(cls)
    _CONTAINERS[cls] = found
    return found


def _named_tuple(cls: Any) -> Container:
    return Container(
        cls.__name__,
        lambda t: (t, cls._fields),
        lambda d, c: cls._make(c),
        _names,
        _show_named(cls.__name__),
        derived=True,
    )


def _dataclass(cls: Any) -> Container:
    """The container of a dataclass; fields with metadata={"static": True} are structure."""
    fields = dataclasses.fields(cls)
    children = [f.name for f in fields if not f.metadata.get("static")]
    return _attributes(cls, children, [f.name for f in fields if f.metadata.get("static")])


def _attributes(cls: Any, children: Sequence[str], static: Sequence[str]) -> Container:
    """A container with some attributes as children; `static` ones belong to the structure."""
    names = tuple(children)

    def take_apart(tree: Any) -> tuple[Children, Any]:
        fixed = tuple([(name, getattr(tree, name)) for name in static])
        return [getattr(tree, name) for name in names], fixed

    def put_together(data: Any, children: Children) -> Any:
        # Not cls(...): __post_init__ may check or convert the values that a transform puts in place
        # of leaves.
        tree = object.__new__(cls)
        for name, child in (*zip(names, children), *data):
            object.__setattr__(tree, name, child)
        return tree

    def show(data: Any, texts: list[str]) -> str:
        told = [*zip(names, texts), *((name, repr(value)) for name, value in data)]
        return f"{cls.__name__}({', '.join(f'{name}={text}' for name, text in told)})"

    return Container(
        cls.__name__, take_apart, put_together, lambda d, n: _names(names, n), show, derived=True
    )


def register(
    cls: type,
    flatten: Callable[[Any], tuple[Children, Any]],
    unflatten: Callable[[Any, Children], Any],
    *,
    names: Sequence[str] | None = None,
    keys: Callable[[Any, int], Sequence[Key]] | None = None,
) -> None:
    """Make instances of `cls` containers.

    `flatten(value)` returns the children and hashable auxiliary data; `unflatten(data, children)`
    makes the value again, and must accept any objects as children. `names` are the attributes
    that hold the children, or `keys(data, count)` the steps to them, for paths and messages.

    >>> class Pair:
    ...     def __init__(self, a, b): self.a, self.b = a, b
    >>> register(Pair, lambda p: ((p.a, p.b), None), lambda _, c: Pair(*c), names=("a", "b"))
    >>> leaves([Pair(1, 2), 3])
    [1, 2, 3]
    """

    def parts(data: Any, count: int) -> list[Key]:
        if keys is not None:
            return list(keys(data, count))
        return _names(names, count) if names is not None else _indices(data, count)

    def show(data: Any, texts: list[str]) -> str:
        return f"{cls.__name__}({', '.join(texts)})"

    _check_class(cls)
    _CONTAINERS[cls] = Container(cls.__name__, flatten, unflatten, parts, show)


def register_dataclass(
    cls: F, data_fields: Sequence[str] | None = None, meta_fields: Sequence[str] | None = None
) -> F:
    """Make instances of `cls` containers of their attributes `data_fields`; return the class.

    The values of `meta_fields` belong to the structure: they are compared and hashed, and no
    transform sees them. A dataclass is a container without being registered; the names are then
    those of its fields, and `metadata={"static": True}` in a field makes it one of the structure.

    >>> @dataclasses.dataclass
    ... class Layer:
    ...     weight: float
    ...     activation: str = "tanh"
    >>> _ = register_dataclass(Layer, ["weight"], ["activation"])
    >>> flatten(Layer(2.0))
    ([2.0], TreeDef(Layer(weight=*, activation='tanh')))
    """
    _check_class(cls)
    made: Any = cls
    if data_fields is None and meta_fields is None and dataclasses.is_dataclass(made):
        found = _dataclass(made)
    elif data_fields is None or meta_fields is None:
        raise ArgumentError(
            f"register_dataclass({cls.__name__}): give both data_fields and meta_fields, or none "
            "of them for a dataclass"
        )
    else:
        _check_fields(cls, [*data_fields, *meta_fields])
        found = _attributes(cls, data_fields, meta_fields)
    _CONTAINERS[cls] = dataclasses.replace(found, derived=False)
    return cls


def _check_class(cls: Any) -> None:
    if not isinstance(cls, type):
        raise ArgumentError(f"register: {cls!r} is not a class")
    known = _CONTAINERS.get(cls)
    if known is not None and not known.derived:
        raise ArgumentError(f"register: {cls.__name__} is a container already")


def _check_fields(cls: Any, given: list[str]) -> None:
    """Raise unless every field of a dataclass is given exactly once."""
    name = cls.__name__
    if dataclasses.is_dataclass(cls):
        wanted = sorted(f.name for f in dataclasses.fields(cls) if f.init)
        if sorted(given) != wanted:
            raise ArgumentError(
                f"register_dataclass({name}): data_fields and meta_fields must name each "
                f"field once: {', '.join(wanted)}; got {', '.join(given)}"
            )


def is_container(value: Any) -> bool:
    """Return whether `value` is taken apart by `flatten`."""
    return _container(value.__class__) is not None


# --- flatten, unflatten, map ------------------------------------------------------------------


def flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], TreeDef]:
    """Return the leaves of `tree`, in order, and its structure.

    What `is_leaf` says yes to is not taken apart.

    >>> flatten((1, {"a": 2, "b": [3, None]}))
    ([1, 2, 3], TreeDef((*, {'a': *, 'b': [*, None]})))
    """
    found: list[Any] = []
    try:
        return found, _flatten(tree, found.append, is_leaf)
    except RecursionError:
        raise StructureError(
            "a container is nested too deeply, or contains itself; pass flatter arguments"
        ) from None


def _flatten(tree: Any, append: Callable[[Any], None], is_leaf: IsLeaf | None) -> TreeDef:
    cls = tree.__class__
    try:
        container = _CONTAINERS[cls]
    except KeyError:
        container = _container(cls)
    if container is None or (is_leaf is not None and is_leaf(tree)):
        append(tree)
        return LEAF
    if cls is tuple or cls is list:
        children, data = tree, None
    else:
        children, data = container.flatten(tree)
    below = []
    flat = True
    for child in children:
        if is_leaf is None and _CONTAINERS.get(child.__class__, container) is None:
            append(child)
            below.append(LEAF)
        else:
            flat = False
            below.append(_flatten(child, append, is_leaf))
    if flat and data is None:
        return _flat(cls, len(below))
    return TreeDef(cls, data, tuple(below))


@functools.lru_cache(maxsize=1000)
def _flat(cls: type, count: int) -> TreeDef:
    """Return the structure of a container whose children are all leaves; common ones are cached."""
    return TreeDef(cls, None, (LEAF,) * count)


def leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """Return the leaves of `tree`, in order.

    >>> leaves({"x": (1, 2), "y": None})
    [1, 2]
    """
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf | None = None) -> TreeDef:
    """Return the structure of `tree`.

    >>> structure({"x": (1, 2), "y": None})
    TreeDef({'x': (*, *), 'y': None})
    """
    return flatten(tree, is_leaf)[1]


def unflatten(treedef: TreeDef, leaves: Sequence[Any]) -> Any:
    """Return the pytree with the structure `treedef` and `leaves`, in the order of `flatten`.

    >>> unflatten(structure({"x": (1, 2), "y": None}), [3, 4])
    {'x': (3, 4), 'y': None}
    """
    if len(leaves) != treedef.num_leaves:
        raise StructureError(
            f"unflatten: the structure {treedef.show()} has {treedef.num_leaves} leaves, "
            f"got {len(leaves)}"
        )
    return _unflatten(treedef, iter(leaves))


def _unflatten(treedef: TreeDef, leaves: Iterator[Any]) -> Any:
    if treedef is LEAF:
        return next(leaves)
    children = [_unflatten(c, leaves) for c in treedef.children]
    if treedef.kind is tuple:
        return tuple(children)
    return _CONTAINERS[treedef.kind].unflatten(treedef.data, children)


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Return `tree` with `f(leaf, ...)` in place of each leaf.

    Further trees give further arguments. They have the structure of `tree`, or go on below its
    leaves.

    >>> map(lambda a, b: a + b, {"x": 1, "y": 2}, {"y": 20, "x": 10})
    {'x': 11, 'y': 22}
    """
    first, treedef = flatten(tree, is_leaf)
    if not rest:
        return unflatten(treedef, [f(leaf) for leaf in first])
    others = [flatten_up_to(treedef, other, what="map") for other in rest]
    return unflatten(treedef, [f(*each) for each in zip(first, *others)])


def flatten_up_to(treedef: TreeDef, tree: Any, *, what: str, root: str = "tree") -> list[Any]:
    """Return what `tree` has at the leaves of `treedef`, or raise StructureError.

    Keys of dictionaries are matched in any order. `what` and `root` name the call and the
    argument in messages: "vjp: cotangents['w'][2]: ...".
    """
    found: list[Any] = []
    _flatten_up_to(treedef, tree, found.append, what, root)
    return found


def _flatten_up_to(
    treedef: TreeDef, tree: Any, append: Callable[[Any], None], what: str, path: str
) -> None:
    if treedef is LEAF:
        append(tree)
        return
    children, data = _matching_children(treedef, tree, what, path)
    container = _CONTAINERS[treedef.kind]
    parts = container.parts(data, len(children))
    for child, subtree, part in zip(treedef.children, children, parts):
        _flatten_up_to(child, subtree, append, what, f"{path}{part}")


def _matching_children(treedef: TreeDef, tree: Any, what: str, path: str) -> tuple[list[Any], Any]:
    container = _CONTAINERS[treedef.kind]
    if tree.__class__ is not treedef.kind:
        raise StructureError(
            f"{what}: {path} should have the structure {treedef.show()}, got {_describe(tree)}"
        )
    children, data = container.flatten(tree)
    if data != treedef.data:
        if not container.keyed or set(data) != set(treedef.data):
            raise StructureError(_different(treedef, data, container, what, path))
        children = [tree[key] for key in treedef.data]
    children = list(children)
    if len(children) != len(treedef.children):
        raise StructureError(
            f"{what}: {path} should be a {container.name} of {len(treedef.children)}, "
            f"got one of {len(children)}"
        )
    return children, treedef.data


def _different(treedef: TreeDef, data: Any, container: Container, what: str, path: str) -> str:
    if not container.keyed:
        return f"{what}: {path} has the auxiliary data {data!r}, expected {treedef.data!r}"
    missing = [key for key in treedef.data if key not in data]
    extra = [key for key in data if key not in treedef.data]
    told = [f"lacks the keys {missing}"] * bool(missing) + [f"has unknown keys {extra}"] * bool(
        extra
    )
    return f"{what}: {path} {' and '.join(told)}; expected the keys {list(treedef.data)}"


def _describe(tree: Any) -> str:
    if is_container(tree):
        return structure(tree).show()
    return f"a value of type {tree.__class__.__name__}"


def broadcast_prefix(
    prefix: Any, treedef: TreeDef, *, what: str, root: str, is_leaf: IsLeaf | None = None
) -> list[Any]:
    """Return one value of `prefix` for each leaf of `treedef`.

    A leaf of `prefix` stands for all leaves below it: (0, None) for ({"w": *, "b": *}, *) gives
    [0, 0, None]. None counts as a leaf here.
    """
    if prefix is None or not is_container(prefix) or (is_leaf is not None and is_leaf(prefix)):
        return [prefix] * treedef.num_leaves
    if treedef is LEAF:
        raise StructureError(
            f"{what}: {root} is {_describe(prefix)}, and the argument there is a single value"
        )
    children, data = _matching_children(treedef, prefix, what, root)
    parts = _CONTAINERS[treedef.kind].parts(data, len(children))
    found: list[Any] = []
    for child, subtree, name in zip(treedef.children, children, parts):
        found += broadcast_prefix(subtree, child, what=what, root=f"{root}{name}", is_leaf=is_leaf)
    return found


def paths(treedef: TreeDef, root: str = "") -> list[str]:
    """Return the path of each leaf as Python would write it.

    >>> paths(structure(({"w": [1, 2, 3]},)), "args")
    ["args[0]['w'][0]", "args[0]['w'][1]", "args[0]['w'][2]"]
    """
    return [root + "".join([str(key) for key in path]) for path in key_paths(treedef)]


def key_paths(treedef: TreeDef) -> list[tuple[Key, ...]]:
    """Return the path of each leaf as a tuple of steps.

    >>> key_paths(structure({"w": [1]}))
    [(DictKey(key='w'), SequenceKey(idx=0))]
    """
    if treedef is LEAF:
        return [()]
    parts = _CONTAINERS[treedef.kind].parts(treedef.data, len(treedef.children))
    return [(part, *p) for c, part in zip(treedef.children, parts) for p in key_paths(c)]


def like(treedef: TreeDef, tree: Any, *, what: str, root: str) -> Any:
    """Return `tree` with the keys of its dictionaries in the order of `treedef`.

    Raises StructureError in the name of `what` if the structures differ in anything else.
    """
    got = structure(tree)
    if got == treedef:
        return tree
    matched = unflatten(treedef, flatten_up_to(treedef, tree, what=what, root=root))
    if structure(matched) != treedef:
        raise StructureError(
            f"{what}: {root} should have the structure {treedef.show()}, got {got.show()}"
        )
    return matched

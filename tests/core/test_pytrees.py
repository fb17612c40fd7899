"""Flattening and rebuilding nested containers."""

import dataclasses
import pickle
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

from adjoint.core import pytrees

Point = namedtuple("Point", "x y")


@dataclasses.dataclass(frozen=True)
class Layer:
    weight: object
    bias: object = 0.0

    def __post_init__(self):
        assert not isinstance(self.weight, str), "a rebuilt layer is not checked again"


@dataclasses.dataclass(slots=True)
class Slotted:
    value: object


class Registered:
    def __init__(self, first, second, label):
        self.first, self.second, self.label = first, second, label

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __repr__(self):
        return f"Registered({self.first}, {self.second}, {self.label!r})"


pytrees.register(
    Registered,
    lambda r: ((r.first, r.second), r.label),
    lambda label, children: Registered(*children, label),
    names=("first", "second"),
)


class ListSubclass(list):
    pass


TREES = [
    1,
    None,
    (),
    [],
    {},
    (1,),
    [1, (2, 3)],
    {"b": 1, "a": [2, None]},
    {1: "x", (2, 3): "z"},
    OrderedDict(z=1, a=2),
    defaultdict(list, q=9),
    deque([1, 2], maxlen=3),
    Point(1, Point(2, None)),
    Layer([1, 2]),
    Slotted(Slotted(5)),
    Registered(1, [2], "label"),
    {"layers": [Layer(1, 2), Layer((3,), None)], "head": Point(4, 5)},
]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_unflatten_inverts_flatten(tree):
    leaves, treedef = pytrees.flatten(tree)
    again = pytrees.unflatten(treedef, leaves)
    assert again == tree
    assert type(again) is type(tree)
    assert treedef.num_leaves == len(leaves)


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_structure_is_hashable_and_equal_for_equal_structures(tree):
    one, other = pytrees.structure(tree), pytrees.structure(pytrees.map(lambda x: object(), tree))
    assert one == other
    assert hash(one) == hash(other)


def test_structure_survives_pickling():
    treedef = pytrees.structure({"a": (1, Point(2, 3)), "b": Layer(4)})
    assert pickle.loads(pickle.dumps(treedef)) == treedef


def test_leaves_come_in_order_of_insertion():
    assert pytrees.leaves({"b": 1, "a": [2, (3,)]}) == [1, 2, 3]


def test_equal_keys_of_other_type_keep_their_type():
    assert list(pytrees.map(str, {1: 0})) == [1]
    rebuilt = pytrees.map(str, {True: 0})
    assert [type(k) for k in rebuilt] == [bool]


@pytest.mark.parametrize(
    ("one", "other"),
    [((1, 2), [1, 2]), ([1], [1, 2]), ({"a": 1}, {"b": 1}), ([1], [[1]]), (None, 1), ((), [])],
)
def test_different_structures_differ(one, other):
    assert pytrees.structure(one) != pytrees.structure(other)


def test_structure_prints_as_the_tree():
    tree = {"w": [1, (2,), None], "p": Point(3, 4), "l": Layer(5)}
    shown = "TreeDef({'w': [*, (*,), None], 'p': Point(x=*, y=*), 'l': Layer(weight=*, bias=*)})"
    assert repr(pytrees.structure(tree)) == shown


def test_subclass_of_a_container_is_a_leaf():
    value = ListSubclass([1, 2])
    assert pytrees.leaves([value]) == [value]


def test_is_leaf_stops_the_descent():
    found, treedef = pytrees.flatten([(1, 2), 3], is_leaf=lambda t: isinstance(t, tuple))
    assert found == [(1, 2), 3]
    assert treedef.show() == "[*, *]"


def test_map_takes_several_trees_and_matches_keys():
    assert pytrees.map(lambda a, b: a - b, {"x": 1, "y": 2}, {"y": 20, "x": 10}) == {
        "x": -9,
        "y": -18,
    }
    assert pytrees.map(lambda a, b: b, [1, 2], [(3, 4), None]) == [(3, 4), None]


def test_rebuilt_dataclass_skips_its_checks():
    assert pytrees.map(lambda x: "text", Layer(1)).weight == "text"


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ({"x": 1}, {"y": 1}, r"lacks the keys \['x'\] and has unknown keys \['y'\]"),
        ([1, [2, 3]], [1, [2]], r"tree\[1\] should be a list of 2, got one of 1"),
        ([1], (1,), r"should have the structure \[\*\], got \(\*,\)"),
        (
            {"a": [1]},
            {"a": 5},
            r"tree\['a'\] should have the structure \[\*\], got a value of type int",
        ),
    ],
)
def test_mismatch_says_where(one, other, message):
    with pytest.raises(pytrees.StructureError, match=message):
        pytrees.map(max, one, other)


def test_unflatten_counts_leaves():
    with pytest.raises(pytrees.StructureError, match="has 2 leaves, got 3"):
        pytrees.unflatten(pytrees.structure([1, 2]), [1, 2, 3])


def test_container_in_itself_is_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(pytrees.StructureError, match="contains itself"):
        pytrees.flatten(loop)


def test_paths_are_written_as_python():
    tree = ({"w": [1, 2]}, Point(3, Layer(4)), Registered(5, 6, None))
    assert pytrees.paths(pytrees.structure(tree), "args") == [
        "args[0]['w'][0]",
        "args[0]['w'][1]",
        "args[1].x",
        "args[1].y.weight",
        "args[1].y.bias",
        "args[2].first",
        "args[2].second",
    ]


def test_prefix_stands_for_all_leaves_below():
    treedef = pytrees.structure(({"w": 1, "b": 2}, 3, [4, [5, 6]]))
    spread = pytrees.broadcast_prefix((0, None, [1, 2]), treedef, what="vmap", root="in_dims")
    assert spread == [0, 0, None, 1, 2, 2]


def test_prefix_deeper_than_the_tree_is_refused():
    with pytest.raises(pytrees.StructureError, match=r"in_dims\[1\].*a single value"):
        pytrees.broadcast_prefix((0, [1]), pytrees.structure((1, 2)), what="vmap", root="in_dims")


def test_class_registers_once():
    with pytest.raises(TypeError, match="a container already"):
        pytrees.register(Registered, lambda r: ((), None), lambda d, c: None)

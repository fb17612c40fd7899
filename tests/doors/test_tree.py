"""`ad.tree`: functions of nested containers, as users of JAX call them."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from typing import Any

import pytest

import adjoint as ad
from adjoint import tree_util

Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any
    activation: str = dataclasses.field(default="tanh", metadata={"static": True})


class Registered:
    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right


ad.tree.register_node(
    Registered,
    lambda r: ((r.left, r.right), "data"),
    lambda data, children: Registered(*children),
    lambda r: (
        ((ad.tree.GetAttrKey("left"), r.left), (ad.tree.GetAttrKey("right"), r.right)),
        "data",
    ),
)

TREES: list[Any] = [
    5.0,
    None,
    (),
    {"w": [1.0, (2.0, None)], "b": Point(3.0, {"k": 4.0})},
    Layer([1.0, 2.0], 3.0),
    [Registered(1.0, {"a": 2.0}), Layer(3.0, None, "relu")],
]


@pytest.mark.parametrize("tree", TREES)
def test_paths_leaves_and_structure_agree(tree: Any) -> None:
    pairs, structure = ad.tree.flatten_with_path(tree)
    assert [leaf for _, leaf in pairs] == ad.tree.leaves(tree)
    assert structure == ad.tree.structure(tree)
    assert ad.tree.leaves_with_path(tree) == pairs
    named = ad.tree.map_with_path(lambda path, leaf: ad.tree.keystr(path), tree)
    assert ad.tree.leaves(named) == [ad.tree.keystr(path) for path, _ in pairs]
    assert ad.tree.structure(named) == structure
    for path, leaf in pairs:  # a path leads to its leaf
        assert eval(f"tree{ad.tree.keystr(path)}", {"tree": tree}) == leaf


@pytest.mark.parametrize("tree", TREES)
def test_transpose_is_its_own_inverse(tree: Any) -> None:
    inner = {"p": 0, "q": [0, 0]}
    outer = ad.tree.structure(tree)
    nested = ad.tree.map(lambda leaf: {"p": leaf, "q": [leaf + 1, leaf + 2]}, tree)
    turned = ad.tree.transpose(outer, ad.tree.structure(inner), nested)
    assert ad.tree.structure(turned["p"]) == outer
    back = ad.tree.transpose(ad.tree.structure(inner), outer, turned)
    assert ad.tree.structure(back) == ad.tree.structure(nested)
    assert ad.tree.leaves(back) == ad.tree.leaves(nested)
    if ad.tree.leaves(tree):
        found = ad.tree.transpose(outer, None, nested)
        assert ad.tree.structure(found) == ad.tree.structure(turned)


def test_none_is_a_container_of_nothing_unless_it_is_asked_for() -> None:
    assert ad.tree.leaves([1, None, (None,)]) == [1]
    assert ad.tree.leaves([1, None], is_leaf=lambda v: v is None) == [1, None]
    assert ad.tree.map(lambda a, b: a + b, [1, None], [2, None]) == [3, None]
    with pytest.raises(ValueError, match=r"tree\[1\] should have the structure None"):
        ad.tree.map(max, [1, None], [2, 3])


def test_reduce_and_all_go_over_leaves() -> None:
    tree = {"x": 2, "y": (3, None)}
    assert ad.tree.reduce(lambda a, b: a * b, tree) == 6
    assert ad.tree.reduce(lambda a, b: a * b, tree, 10) == 60
    assert ad.tree.reduce(max, None, 7) == 7
    assert ad.tree.all([True, (1, {})]) is True
    assert ad.tree.all([True, (0,)]) is False


def test_a_prefix_is_spread_over_the_tree_below_it() -> None:
    assert ad.tree.broadcast(1, {"a": (0, 0)}) == {"a": (1, 1)}
    with pytest.raises(ValueError, match="lacks the keys"):
        ad.tree.broadcast({"a": 1}, {"b": 0})


def test_static_fields_belong_to_the_structure() -> None:
    one, other = Layer(1.0, 2.0, "tanh"), Layer(1.0, 2.0, "relu")
    assert ad.tree.leaves(one) == [1.0, 2.0]
    assert ad.tree.structure(one) != ad.tree.structure(other)
    assert ad.tree.map(lambda v: 2 * v, other) == Layer(2.0, 4.0, "relu")
    gradient = ad.grad(lambda m: getattr(ad, m.activation)(m.weight * 2.0) + m.bias)(other)
    assert gradient == Layer(ad.tensor(2.0), ad.tensor(1.0), "relu")


def test_a_registration_replaces_what_a_dataclass_is_by_itself_but_no_other() -> None:
    @dataclasses.dataclass
    class Model:
        weight: float
        name: str

    assert ad.tree.leaves(Model(1.0, "m")) == [1.0, "m"]
    ad.tree.register_dataclass(Model, data_fields=["weight"], meta_fields=["name"])
    assert ad.tree.leaves(Model(1.0, "m")) == [1.0]
    with pytest.raises(TypeError, match="container already"):
        ad.tree.register_dataclass(Model, ["weight"], ["name"])


def test_fields_of_a_dataclass_are_all_named_once() -> None:
    @dataclasses.dataclass
    class Model:
        weight: float
        name: str

    with pytest.raises(TypeError, match="each field once: name, weight; got weight"):
        ad.tree.register_dataclass(Model, ["weight"], [])
    with pytest.raises(TypeError, match="both data_fields and meta_fields"):
        ad.tree.register_dataclass(Model, ["weight"])


def test_keys_of_dictionaries_match_in_any_order_wherever_trees_meet() -> None:
    point = {"a": ad.tensor(2.0), "b": ad.tensor(3.0)}
    other = {"b": ad.tensor(1.0), "a": ad.tensor(0.0)}  # the direction b
    f = lambda p: {"u": p["a"] * p["b"], "v": p["a"] ** 2}
    assert ad.jvp(f, (point,), (other,))[1]["u"].item() == 2.0
    assert ad.linearize(f, point)[1](other)["u"].item() == 2.0
    pulled = ad.vjp(f, point)[1]({"v": ad.tensor(1.0), "u": ad.tensor(0.0)})[0]
    assert (pulled["a"].item(), pulled["b"].item()) == (4.0, 0.0)
    turn = lambda p: {"b": p["b"] + 1.0, "a": p["a"] * 2.0}
    for run in (lambda g: g(point), lambda g: ad.trace(g, point)(point)):
        looped, _ = run(lambda p: ad.scan(lambda c, _: (turn(c), None), p, length=2))
        assert (looped["a"].item(), looped["b"].item()) == (8.0, 5.0)
        looped = run(lambda p: ad.while_loop(lambda c: c["a"] < 7.0, turn, p))
        assert (looped["a"].item(), looped["b"].item()) == (8.0, 5.0)
        chosen = run(lambda p: ad.cond(p["a"] < 0, lambda q: {"a": q["a"], "b": q["b"]}, turn, p))
        assert (chosen["a"].item(), chosen["b"].item()) == (4.0, 4.0)


def test_rules_and_steps_may_return_keys_in_any_order() -> None:
    f = ad.custom_vjp(lambda p: p["a"] * 2 + p["b"] * 3)
    f.defvjp(lambda p: (f(p), None), lambda _, g: ({"b": 3 * g, "a": 2 * g},))
    found = ad.grad(f)({"a": 1.0, "b": 1.0})
    assert (found["a"].item(), found["b"].item()) == (2.0, 3.0)
    h = ad.custom_jvp(lambda x: {"a": x * 2, "b": x * 3})
    h.defjvp(lambda primals, tangents: (h(*primals), {"b": 3 * tangents[0], "a": 2 * tangents[0]}))
    assert ad.grad(lambda x: h(x)["a"])(1.0).item() == 2.0
    h.defjvp(lambda primals, tangents: (None, {"a": tangents[0]}))
    with pytest.raises(ValueError, match="the rule: tangent of the output lacks the keys"):
        ad.grad(lambda x: h(x)["a"])(1.0)

    def step(count: int, x: Any) -> Any:
        pair = {"a": x, "b": -x}
        return count + 1, pair if count.item() % 2 else dict(reversed(pair.items()))

    assert ad.scan(step, 0, ad.tensor([1.0, 2.0]))[1]["a"].tolist() == [1.0, 2.0]


def test_the_names_of_tree_util_are_the_functions_of_tree() -> None:
    for name in tree_util.__all__:
        if name.startswith("tree_"):
            assert getattr(tree_util, name) is getattr(ad.tree, name.removeprefix("tree_"))
    assert tree_util.register_pytree_node is ad.tree.register_node


def test_partial_functions_are_trees_of_what_they_were_given() -> None:
    power = lambda a, x, *, n: a * x**n
    made = tree_util.Partial(power, ad.tensor(3.0), n=ad.tensor(2.0))
    assert made(ad.tensor(2.0)).item() == 12.0
    assert [t.item() for t in ad.tree.leaves(made)] == [3.0, 2.0]
    for grad in (ad.grad, lambda f: ad.compile(ad.grad(f))):
        found = grad(lambda f: f(ad.tensor(2.0)))(made)
        assert found.args[0].item() == 4.0
    assert ad.cond(ad.tensor(True), made, lambda x: x, ad.tensor(1.0)).item() == 3.0

"""What code that was written for PyTorch or JAX does beside operators: hints, subclasses, calls."""

from __future__ import annotations

import copy
import importlib
import inspect
import pkgutil
import typing
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.ops import former
from adjoint.table import TABLE

# --- type hints ----------------------------------------------------------------------------------


def public() -> Iterator[Any]:
    """Every class and function that a module of ours shows, and the functions of classes."""
    names = [m.name for m in pkgutil.walk_packages(ad.__path__, "adjoint.")]
    hidden = ("adjoint.__main__", "adjoint.testing.certificates")
    modules = [ad, *(importlib.import_module(n) for n in names if not n.startswith(hidden))]
    seen: set[int] = set()
    for module in modules:
        for name in dir(module):
            value = None if name.startswith("_") else getattr(module, name, None)
            ours = str(getattr(value, "__module__", "")).startswith("adjoint")
            if id(value) in seen or not ours:
                continue
            seen.add(id(value))
            if inspect.isfunction(value):
                yield value
            elif inspect.isclass(value):
                yield value
                yield from filter(inspect.isfunction, vars(value).values())


def test_type_hints_of_everything_public_can_be_asked_for() -> None:
    asked = 0
    for value in public():
        typing.get_type_hints(value)
        asked += 1
    assert asked > 5000
    assert typing.get_type_hints(ad.nn.Linear)["weight"] is ad.Tensor


# --- optimisers that never call __init__ ---------------------------------------------------------


class Wrapping(ad.optim.Optimizer):
    """An optimiser around another one, as many libraries have it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.param_groups, self.state = inner.param_groups, inner.state

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)


class Bare(ad.optim.Optimizer):
    def __init__(self) -> None:
        pass

    def step(self, closure: Any = None) -> int:
        return 5


def test_an_optimiser_needs_no_init() -> None:
    w = ad.ones(2, requires_grad=True)
    optimizer, calls = Wrapping(ad.optim.SGD([w], lr=0.5, momentum=0.1)), []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    for _ in range(2):
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()
    schedule = ad.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    schedule.step()
    assert calls == [1, 1, 1]
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05)
    state = copy.deepcopy(optimizer.state_dict())
    optimizer.load_state_dict(state)
    optimizer.add_param_group({"params": [ad.ones(1, requires_grad=True)]})
    assert "Parameter Group 1" in repr(optimizer)
    bare = Bare()
    assert bare.step() == 5
    assert bare.state_dict() == {"state": {}, "param_groups": []}
    assert not hasattr(bare, "absent")


# --- divergences of anybody's classes -------------------------------------------------------------


class Theirs:
    """A distribution of another library."""


class Derived(Theirs):
    pass


def test_a_divergence_may_be_of_any_class() -> None:
    kl = ad.distributions.kl
    known, found = dict(kl._TABLE), dict(kl._FOUND)
    try:
        ad.distributions.register_kl(Theirs, ad.distributions.Normal)(lambda p, q: q.scale)
        ad.distributions.register_kl(Theirs, Theirs)(lambda p, q: 7)
        normal = ad.distributions.Normal(0.0, 2.0)
        assert ad.distributions.kl_divergence(Derived(), normal).item() == 2
        assert ad.distributions.kl_divergence(Derived(), Theirs()) == 7
        with pytest.raises(NotImplementedError):
            ad.distributions.kl_divergence(normal, Theirs())
        with pytest.raises(ad.AdjointError, match="classes"):
            ad.distributions.register_kl(Theirs(), Theirs)  # type: ignore[arg-type]
    finally:
        kl._TABLE.clear()
        kl._FOUND.clear()
        kl._TABLE.update(known)
        kl._FOUND.update(found)


# --- functional_call ------------------------------------------------------------------------------


class Uses(ad.nn.Module):
    def forward(self, x: Any) -> Any:
        return x * self.extra


def test_a_name_that_a_module_does_not_have_is_an_attribute_of_it_during_the_call() -> None:
    module, x = Uses(), ad.tensor(3.0)
    call = lambda values: ad.func.functional_call(module, values, (x,))
    assert call({"extra": ad.tensor(2.0)}).item() == 6
    assert ad.grad(call)({"extra": ad.tensor(2.0)})["extra"].item() == 3
    assert not hasattr(module, "extra")
    nested = ad.nn.Sequential(module)
    found = ad.func.functional_call(nested, {"0.extra": ad.ones(()), "unused": x}, (x,))
    assert found.item() == 3
    assert not list(nested.named_parameters())
    assert not hasattr(nested, "unused")
    with pytest.raises(RuntimeError, match="extra"):
        ad.func.functional_call(module, {"extra": x}, (x,), strict=True)
    with pytest.raises(ad.AdjointError, match=r"5\.extra"):
        ad.func.functional_call(nested, {"5.extra": x}, (x,))
    with pytest.raises(AttributeError):
        call({})


# --- cond -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", [lambda f: f, ad.compile, ad.vmap])
def test_cond_takes_operands_as_pytorch_and_as_jax_give_them(transform: Any) -> None:
    x = ad.tensor([3.0])
    calls: dict[str, Callable[[Any], Any]] = {
        "one": lambda x: ad.cond(x.sum() > 0, lambda a: a + 1, lambda a: a, (x,)),
        "list": lambda x: ad.cond(x.sum() > 0, lambda a: a + 1, lambda a: a, [x]),
        "operators": lambda x: ad.cond(x.sum() > 0, ad.neg, ad.sin, (x,)).neg() + 1,
        "two": lambda x: ad.cond(x.sum() > 0, lambda a, b: a + b / 3, lambda a, b: b, (x, x)),
        "a pair": lambda x: ad.cond(x.sum() > 0, lambda p: p[0] + p[1] / 3, lambda p: p[0], (x, x)),
        "plain": lambda x: ad.cond(x.sum() > 0, lambda a, b: a + b / 3, lambda a, b: b, x, x),
        "none": lambda x: ad.cond(x.sum() > 0, lambda: x + 1, lambda: x, ()),
    }
    for name, call in calls.items():
        assert transform(call)(x).tolist() == [4.0], name
    assert ad.cond(True, lambda a: a + 1, lambda a: a, (x,)).tolist() == [4.0]


# --- names and former orders of arguments ---------------------------------------------------------


def test_operators_have_pytorchs_name_for_them() -> None:
    a = ad.eye(2)
    assert ad.ops.aten.mm.default is ad.ops.mm.default
    assert ad.ops.aten.add.Tensor(a, a, alpha=2).tolist() == (3 * a).tolist()
    assert ad.ops.aten.mm(a, a).tolist() == a.tolist()
    assert not hasattr(ad.ops.aten, "no_such_operator")
    assert "mm" in dir(ad.ops.aten)


FORMER = [row for row in TABLE.rows() if row.former]
SHAPES = {"addmv": {"self": (2,), "vec": (2,)}, "addr": {"vec1": (2,), "vec2": (2,)},
          "addbmm": {"batch1": (3, 2, 2), "batch2": (3, 2, 2)},
          "baddbmm": dict.fromkeys(("self", "batch1", "batch2"), (3, 2, 2))}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*former order")
@pytest.mark.parametrize("row", FORMER, ids=lambda row: row.full_name)
def test_former_orders_of_arguments_mean_what_they_meant(row: Any) -> None:
    draw = np.random.default_rng(0)
    numbers = {"alpha": 2, "beta": 0.5, "value": 3}
    for order in former.orders(row):
        tensors = {
            name: ad.tensor(draw.normal(size=SHAPES.get(row.name, {}).get(name, (2, 2))))
            for name in order
            if name not in numbers
        }
        given = {name: tensors.get(name, numbers.get(name)) for name in order}
        plain = {k: v for k, v in given.items() if k in tensors}
        named = {k: v for k, v in given.items() if k in numbers}
        expected = getattr(ad, row.name)(*plain.values(), **named)
        found = [getattr(ad, row.name)(*given.values())]
        rest = [v for k, v in given.items() if k != "self"]
        found.append(getattr(given["self"], row.name)(*rest))
        found.append(getattr(given["self"].clone(), f"{row.name}_")(*rest))
        out = ad.empty_like(expected)
        getattr(ad, row.name)(*given.values(), out=out)
        found.append(out)
        for each in found:
            np.testing.assert_array_equal(each, expected)
        leaf = given["self"].clone().requires_grad_()
        getattr(leaf, row.name)(*rest).sum().backward()
        assert leaf.grad is not None
    large = ad.ones(20_000)
    if row.name == "addcmul":
        assert (large.clone().addcmul_(0.5, large, large) == 1.5).all()


def test_a_former_order_is_told_once() -> None:
    x = ad.ones(2)
    former._told.discard("add_")
    with pytest.warns(UserWarning, match=r"add_\(self, other, alpha=…\)"):
        x.clone().add_(2, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x.clone().add_(2, x).tolist() == [3, 3]
    for call in (
        lambda: ad.addcmul(x, x, x, x),
        lambda: ad.addcmul(x, 0.5, 0.5, x),
        lambda: x.clone().addcmul_(x, x, x),
        lambda: ad.add(x, x, 2),
        lambda: ad.addmv(1, x, x),
    ):
        with pytest.raises((ad.AdjointError, TypeError)):
            call()

"""Attributes of tensors, classes derived from the tensor, and copies of both."""

from __future__ import annotations

import copy
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.homes.nested import NestedTensor
from adjoint.homes.sparse import SparseTensor
from adjoint.table import TABLE
from adjoint.testing import samples


class Tagged(ad.Tensor):
    """A class with nothing of its own."""


class Logged(ad.Tensor):
    """A class that sees every call."""

    calls: list[str] = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)  # type: ignore[misc]


def tagged(*values: float, requires_grad: bool = False) -> Any:
    data = ad.tensor(list(values), dtype=ad.float64)
    return ad.Tensor._make_subclass(Tagged, data, requires_grad)  # type: ignore[attr-defined]


# Attributes


def test_tensors_have_attributes() -> None:
    x = ad.ones(2)
    assert vars(x) == {}
    x.tag = "mine"  # type: ignore[attr-defined]
    assert x.tag == "mine"  # type: ignore[attr-defined]
    assert x.__dict__ == {"tag": "mine"}
    del x.tag  # type: ignore[attr-defined]
    assert not hasattr(x, "tag")


def test_dir_lists_what_a_tensor_has() -> None:
    x = ad.ones(2, 2, dtype=ad.complex64)
    x.tag = 1  # type: ignore[attr-defined]
    names = dir(x)
    assert {"tag", "shape", "sin", "grad_fn", "imag"} <= set(names)
    assert [n for n in names if not hasattr(x, n)] == []


@pytest.mark.parametrize("name", ["__name__", "__dict__missing", "__wrapped__", "nothing"])
def test_a_missing_attribute_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(ad.ones(1), name)


@pytest.mark.parametrize(
    "method", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
@pytest.mark.parametrize("kind", ["plain", "subclass"])
def test_copies_keep_class_attributes_and_gradient(method: Any, kind: str) -> None:
    x = tagged(1.0, 2.0) if kind == "subclass" else ad.tensor([1.0, 2.0], dtype=ad.float64)
    x.requires_grad_()
    x.tag = ["mine"]
    made = method(x)
    assert type(made) is type(x)
    assert made.tolist() == [1.0, 2.0]
    assert made.requires_grad
    assert made.is_leaf
    assert made.tag == ["mine"]
    (made * 3).sum().backward()
    assert made.grad.tolist() == [3.0, 3.0]
    assert x.grad is None


def test_a_shallow_copy_shares_memory_and_its_counter() -> None:
    x = ad.tensor([1.0], dtype=ad.float64)
    w = ad.ones(1, dtype=ad.float64, requires_grad=True)
    y = w * x
    copy.copy(x).mul_(2)
    assert x.tolist() == [2.0]
    with pytest.raises(RuntimeError, match="changed in place"):
        y.sum().backward()


# Subclasses


def test_results_of_operators_are_of_the_class() -> None:
    x, y = tagged(1.0, 2.0), ad.tensor([3.0, 4.0], dtype=ad.float64)
    for result in (x + y, y + x, x.sin(), 2 * x, x[0], x.view(2, 1), ad.stack([y, x]), x.sum()):
        assert type(result) is Tagged
    values, places = x.max(0)
    assert type(values) is type(places) is Tagged
    assert x.shape == (2,)
    assert x.tolist() == [1.0, 2.0]
    assert type(ad.nn.functional.softplus(x)) is Tagged


def test_the_most_derived_class_wins() -> None:
    class More(Tagged):
        pass

    x = tagged(1.0)
    more = x.as_subclass(More)
    assert type(x + more) is More
    assert type(more.as_subclass(Tagged)) is Tagged


def test_gradients_of_subclasses() -> None:
    x = tagged(1.0, 2.0, requires_grad=True)
    (x.exp() * x).sum().backward()
    expected = np.exp([1.0, 2.0]) * np.array([2.0, 3.0])
    assert np.allclose(x.grad.numpy(), expected)
    (g,) = ad.autograd.grad((x**3).sum(), x, create_graph=True)
    (h,) = ad.autograd.grad(g.sum(), x)
    assert np.allclose(h.numpy(), [6.0, 12.0])
    plain = ad.tensor([2.0], dtype=ad.float64, requires_grad=True)
    (plain.as_subclass(Tagged) * 5).sum().backward()  # type: ignore[attr-defined]
    assert plain.grad is not None
    assert plain.grad.tolist() == [5.0]


def test_writes_and_views_of_subclasses() -> None:
    x = tagged(1.0, 2.0, 3.0, requires_grad=True)
    base = x * 1
    view = base[1:]
    assert view._base is base
    assert view.mul_(10) is view
    assert type(base) is Tagged
    (base * base).sum().backward()
    assert np.allclose(x.grad.numpy(), [2.0, 400.0, 600.0])
    base = x * 1
    base.unsqueeze_(0)
    view = base[0]
    base.mul_(2)
    assert base.shape == (1, 3)
    x.grad = None
    view.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_write_to_a_saved_subclass_is_noticed() -> None:
    x = tagged(1.0, 2.0, requires_grad=True)
    y = x * 1
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="changed in place"):
        z.sum().backward()


def test_a_class_with_torch_function_sees_every_call() -> None:
    x = ad.ones(2).as_subclass(Logged)  # type: ignore[attr-defined]
    Logged.calls.clear()
    y = (x * 2).softmax(0)
    assert [name.partition("_")[0] for name in Logged.calls] == ["mul", "softmax"]
    assert type(y) is Logged


def test_a_class_with_torch_function_may_be_written_to() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = (x * 1).as_subclass(Logged)  # type: ignore[attr-defined]
    Logged.calls.clear()
    assert y.mul_(3) is y
    assert y.unsqueeze_(0).shape == (1, 2)
    assert [name.partition("_")[0] for name in Logged.calls] == ["mul", "unsqueeze"]
    (y * y).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [18.0, 36.0]


def test_a_class_may_hold_its_data_elsewhere() -> None:
    class Wrapper(ad.Tensor):
        def __init__(self, data: Any) -> None:
            super().__init__()
            self.held = data

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = func(*[a.held if isinstance(a, cls) else a for a in args], **(kwargs or {}))
            return cls(out) if isinstance(out, ad.Tensor) else out

    x = Wrapper(ad.tensor([1.0, 2.0], requires_grad=True))
    y = x * 3
    assert type(y) is Wrapper
    assert y.held.grad_fn is not None

    class Same(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Any) -> Any:
            return value

    assert type(Same.apply(x)) is Wrapper


def test_subclasses_under_transforms() -> None:
    x = tagged(1.0, 2.0)
    assert ad.grad(lambda v: (v * v).sum())(x).tolist() == [2.0, 4.0]
    assert ad.vmap(lambda v: v * 2)(x).tolist() == [2.0, 4.0]
    value, tangent = ad.jvp(lambda v: v.sin(), (x,), (ad.ones(2, dtype=ad.float64),))
    assert np.allclose(tangent.numpy(), np.cos([1.0, 2.0]))
    assert np.allclose(value.numpy(), np.sin([1.0, 2.0]))


def test_nothing_keeps_a_subclass_alive() -> None:
    x = tagged(1.0)
    reference = weakref.ref(x)
    y = x.view(1, 1) * 2
    del x
    assert reference() is None
    assert y.tolist() == [[2.0]]


def test_the_tensor_class_makes_tensors_as_of_old() -> None:
    assert ad.Tensor([1, 2]).tolist() == [1.0, 2.0]
    assert ad.Tensor(2, 3).shape == (2, 3)
    assert ad.Tensor().shape == (0,)


# Parameters


def test_a_parameter_is_a_marked_leaf() -> None:
    data = ad.tensor([1.0, 2.0])
    p = ad.nn.Parameter(data)
    assert isinstance(p, ad.nn.Parameter)
    assert isinstance(p, ad.Tensor)
    assert not isinstance(data, ad.nn.Parameter)
    assert not isinstance(p.detach(), ad.nn.Parameter)
    assert p.is_leaf
    assert p.requires_grad
    assert not ad.nn.Parameter(data, requires_grad=False).requires_grad
    with ad.no_grad():
        p.mul_(2)
    assert data.tolist() == [2.0, 4.0]
    assert isinstance(copy.deepcopy(p), ad.nn.Parameter)
    assert isinstance(pickle.loads(pickle.dumps(p)), ad.nn.Parameter)
    with pytest.raises(TypeError, match="Parameter"):
        ad.nn.Parameter([1.0])  # type: ignore[arg-type]


# Modes that see calls, and objects that stand for tensors


class Names(ad.overrides.TorchFunctionMode):
    """Notes the names of the functions that are called."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_calls_and_not_what_they_consist_of() -> None:
    with Names() as mode:
        x = ad.ones(2, 3)
        ad.nn.functional.softmax(x @ x.T, 1).add_(1.0)
    assert mode.seen[:2] == ["ones", "numpy_T"] or mode.seen[0] == "ones"
    assert {"matmul", "add_"} <= set(mode.seen)
    assert "mm" not in mode.seen
    ad.ones(2)
    assert mode.seen.count("ones") == 1


def test_an_inner_mode_is_asked_first_and_an_outer_one_sees_what_it_calls() -> None:
    outer, inner = Names(), Names()
    with outer, inner:
        ad.ones(2).sin()
    assert outer.seen == inner.seen == ["ones", "sin"]


def test_a_mode_may_answer_itself() -> None:
    class Zero(ad.overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return ad.zeros(1) if func is ad.sin else func(*args, **(kwargs or {}))

    x = ad.ones(2)
    with Zero():
        assert ad.sin(x).tolist() == x.sin().tolist() == [0.0]
        assert ad.vmap(ad.cos)(x).shape == (2,)
    assert ad.sin(x).shape == (2,)


class Constant:
    """Stands for a diagonal matrix; no tensor."""

    def __init__(self, size: int, value: float) -> None:
        self.size, self.value = size, value

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not ad.mean and func is not ad.matmul:
            return NotImplemented
        dense = [a.value * ad.eye(a.size) if isinstance(a, Constant) else a for a in args]
        return func(*dense, **(kwargs or {}))


def test_an_object_that_stands_for_a_tensor_is_asked() -> None:
    two = Constant(3, 2.0)
    assert ad.mean(two).item() == pytest.approx(2 / 3)
    assert ad.matmul(two, ad.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert ad.matmul(ad.ones(3), two).tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(TypeError, match="sin: __torch_function__ of Constant"):
        ad.sin(two)
    assert ad.overrides.is_tensor_like(two)
    assert ad.overrides.has_torch_function((two, 1))


def test_a_users_function_lets_classes_take_its_calls() -> None:
    @ad.overrides.wrap_torch_function(lambda a: (a,))
    def double(a: Any) -> Any:
        return 2 * a

    class Silent(Constant):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func is double, types

    assert double(3) == 6
    assert double(Silent(1, 1.0)) == (True, (Silent,))


def test_classes_are_not_asked_where_they_are_switched_off() -> None:
    class Refusing(ad.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            raise AssertionError("asked")

    x = ad.ones(2).as_subclass(Refusing)
    with ad.DisableTorchFunctionSubclass():
        assert type(x.sin()) is ad.Tensor
    with pytest.raises(AssertionError, match="asked"):
        x.sin()


def test_tensors_of_pytorch_are_refused_and_told_the_way_in() -> None:
    """Their `__torch_function__` would call ours again, and ours theirs, without end."""

    def ask(cls: type, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))

    ask.__module__ = "torch.tensor"
    theirs = type("Tensor", (), {
        "__torch_function__": classmethod(ask), "__dlpack__": None, "__module__": "torch",
    })()  # fmt: skip
    for call in (ad.sin, ad.grad(ad.sin), lambda x: ad.matmul(ad.ones(2), x)):
        with pytest.raises(TypeError, match=r"of torch; ad.from_dlpack\(x\) is a tensor"):
            call(theirs)
    with pytest.raises(TypeError, match="unsupported operand"):
        ad.ones(2) + theirs
    assert ad.Tensor.__torch_function__(ask, (ad.Tensor,), (theirs,)) is NotImplemented


# --- results keep the class -----------------------------------------------------------------------


class Kept(ad.Tensor):
    """A class that changes nothing."""


def kept(value: Any) -> Any:
    """The tensors of an argument as tensors of the class; what has a structure stays."""
    if type(value) is ad.Tensor:
        return value.as_subclass(Kept)
    return type(value)(map(kept, value)) if type(value) in (list, tuple) else value


def classes(result: Any) -> set[type]:
    if isinstance(result, (list, tuple)):
        return {kind for each in result for kind in classes(each)}
    return {type(result)} if isinstance(result, ad.Tensor) else set()


def test_a_device_in_force_is_no_device_of_a_class() -> None:
    with ad.device("cpu"):
        moved = kept(ad.ones(2)).to("cpu", ad.float64)
        assert (type(moved), moved.dtype) == (Kept, ad.float64)
        assert type(ad.ops.to.device(kept(ad.ones(2)), "cpu", ad.float64)) is Kept


def test_every_operator_keeps_the_class() -> None:
    """At zeros, too, where a result that is differentiated has others near it."""
    lost, count = {}, 0
    structures = (SparseTensor, NestedTensor)
    for row in TABLE.rows():
        op = getattr(getattr(ad.ops, row.name), row.schema.overload or "default")
        for sample, _ in list(samples.for_row(row, ad.float64))[:1]:
            given = kept(tuple(sample.args))
            if not classes(given):
                continue
            try:
                op(*sample.args, **sample.kwargs)
            except ad.AdjointError:
                continue  # it writes to a leaf, say
            found = classes(op(*given, **{k: kept(v) for k, v in sample.kwargs.items()}))
            count += 1
            if not all(kind is Kept or issubclass(kind, structures) for kind in found):
                lost[row.full_name] = found
    assert lost == {}
    assert count > 1000


def test_new_tensors_and_memory_keep_the_class() -> None:
    x = ad.ones(2, 2).as_subclass(Kept)
    for made in (
        x.new_tensor([1.0]), x.new_tensor(x), x.new(2), x.new([1.0]), x.clone().resize_(3),
        x.clone().set_(ad.zeros(3)), x.clone().resize_as_(ad.ones(5)),
    ):  # fmt: skip
        assert type(made) is Kept
    assert type(ad.tensor(x)) is ad.Tensor


def test_a_class_keeps_what_is_near_a_kink() -> None:
    """|x|² has the Hessian 2 at 0, whatever the class of x."""
    zeros = ad.zeros(3, dtype=ad.float64)
    for x in (zeros, zeros.as_subclass(Kept)):
        leaf = x.detach().requires_grad_()
        norm = leaf.norm()
        assert type(norm) is type(norm * 2) is type(x)
        (grad,) = ad.autograd.grad(norm**2, leaf, create_graph=True)
        (second,) = ad.autograd.grad(grad.sum(), leaf)
        assert second.tolist() == [2, 2, 2]
        curved = ad.hessian(lambda v: v.norm() ** 2)(x)
        assert curved.tolist() == (2 * ad.eye(3)).tolist()
        written = (leaf.norm() * 1).add_(1)
        assert type(written) is type(x)
        written.backward()
        assert leaf.grad.tolist() == [0, 0, 0]
        assert type(leaf.norm().detach()) is type(x)


def test_a_write_through_a_view_near_a_kink_keeps_the_class() -> None:
    """The derivatives are those of plain tensors: of what was written, and of other views."""
    found = []
    for kind in (ad.Tensor, Kept):
        x = ad.tensor([0.0, -1.0, 2.0], dtype=ad.float64, requires_grad=True)
        sizes = x.as_subclass(kind).abs()
        written, other = sizes[:2], sizes[1:]
        written += x[1:].as_subclass(kind) * 3
        result = (sizes * sizes).sum() + (other * other * other).sum() + written.sum()
        assert {type(t) for t in (sizes, written, other, result)} == {kind}
        (first,) = ad.autograd.grad(result, [x], create_graph=True)
        (second,) = ad.autograd.grad(first.sum(), [x])
        found.append((result.item(), first.tolist(), second.tolist()))
    assert found[0] == found[1] == (417.0, [0.0, -177.0, 502.0], [0.0, -70.0, 278.0])

"""In-place shape operators (t_, unsqueeze_, …) followed by everything that may happen to a tensor.

The law: `y.t_()` is `y = y.t()`, in every mode, whatever was taken of `y` before and is done to it
afterwards. A tensor that was reshaped in place shares its memory as before, and compiled code reads
no place in its arena that something else has overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import arena
from adjoint.table import TABLE

Change = Callable[[Any], Any]

CALLS: dict[str, tuple[Any, ...]] = {
    "squeeze_.default": (),
    "squeeze_.dim": (1,),
    "squeeze_.dims": ((0, 1),),
    "unsqueeze_.default": (2,),
    "transpose_.default": (0, 2),
    "t_.default": (),
    "swapaxes_.default": (1, 2),
    "swapdims_.default": (0, 2),
    "as_strided_.default": ((2, 3), (1, 2), 1),
}


def _example(name: str) -> Any:
    shape = (1, 1, 3) if name == "squeeze_.dims" else (3, 1, 3)
    return ad.tensor(np.random.default_rng(len(name)).uniform(0.3, 1.5, shape))


def _start(name: str, x: Any) -> Any:
    """A tensor that the operator takes: t_ wants a matrix."""
    return x[:, 0] * 1.5 if name.startswith("t_") else x * 1.5


def read(y: Any, change: Change) -> Any:
    y = change(y)
    return y.sigmoid() * y


def read_beside_a_reduction(y: Any, change: Change) -> Any:
    top = (y * 1).amax(-1)
    y = change(y)
    v = y.sigmoid()
    return (v * y.exp()).sum() + (top * top).sum() + v.max(0)[0].sum()


def write_all(y: Any, change: Change) -> Any:
    y = change(y)
    y.mul_(3.0)
    return y * y


def write_a_part(y: Any, change: Change) -> Any:
    y = change(y)
    y[0].mul_(y.sum())
    return y * y


def change_a_view(y: Any, change: Change) -> Any:
    v = y[:]
    v = change(v)
    v.mul_(v.clone().sin())
    return y * y + v.sum()


def change_with_a_view(y: Any, change: Change) -> Any:
    v = y[0]
    y = change(y)
    y.mul_(y.clone().cos())
    return (v * v).sum() + (y * y).sum()


def change_and_write_a_view(y: Any, change: Change) -> Any:
    v = y[0]
    y = change(y)
    v.mul_(v.sum())
    return (v * v).sum() + (y * y * y).sum()


def change_between_uses(y: Any, change: Change) -> Any:
    a = y.exp() * 1
    y = change(y)
    b = y.tanh()
    return (a * a).sum() + b * y


USES = (
    read, read_beside_a_reduction, write_all, write_a_part, change_a_view, change_with_a_view,
    change_and_write_a_view, change_between_uses,
)  # fmt: skip


def _change(name: str, y: Any, *, in_place: bool) -> Any:
    base, _, overload = name.partition(".")
    if not in_place:
        return getattr(ad.ops, base.removesuffix("_"))(y, *CALLS[name])
    getattr(getattr(ad.ops, base), overload)(y, *CALLS[name])
    return y


def _program(name: str, use: Callable[..., Any], *, in_place: bool) -> Callable[[Any], Any]:
    def loss(x: Any) -> Any:
        result = use(_start(name, x), lambda y: _change(name, y, in_place=in_place))
        return (result * result.detach().cos()).sum()

    return loss


def _modes(f: Callable[[Any], Any], x: Any) -> dict[str, Callable[[], Any]]:
    several = ad.stack([x, x * 0.5])
    gradient = ad.grad(f)

    def hessian_product(v: Any) -> Any:
        return ad.jvp(gradient, (v,), (v,))[1]

    return {
        "grad": lambda: gradient(x),
        "jvp": lambda: ad.jvp(f, (x,), (x * x,))[1],
        "vmap of grad": lambda: ad.vmap(gradient)(several),
        "jvp of grad": lambda: hessian_product(x),
        "grad of jvp": lambda: ad.grad(lambda v: ad.jvp(f, (v,), (v,))[1])(x),
        "vmap": lambda: ad.vmap(f)(several),
        "traced": lambda: ad.graph.verify(ad.trace(gradient, x))(x),
        "differentiated": lambda: _pulled(f, x),
        "compiled": lambda: ad.compile(ad.value_and_grad(f))(x)[1],
        "compiled vmap": lambda: ad.compile(ad.vmap(gradient))(several),
        "compiled jvp of grad": lambda: ad.compile(hessian_product)(x),
    }


EAGER = {
    "traced": "grad", "differentiated": "grad", "compiled": "grad",
    "compiled vmap": "vmap of grad", "compiled jvp of grad": "jvp of grad",
}  # fmt: skip


def _pulled(f: Callable[[Any], Any], x: Any) -> Any:
    marked = x.clone().requires_grad_()
    ad.compile(f)(marked).backward()
    return marked.grad


def test_every_inplace_view_is_here() -> None:
    rows = [TABLE.row(n, o) for n in TABLE.names() for o in TABLE.overloads(n)]
    names = {r.schema.full_name for r in rows if r.archetype.name == "inplace_view"}
    assert names == set(CALLS)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", CALLS)
def test_a_shape_changed_in_place_is_a_view_taken(name: str, use: Callable[..., Any]) -> None:
    x = _example(name)
    expected = _modes(_program(name, use, in_place=False), x)
    got = _modes(_program(name, use, in_place=True), x)
    for mode in expected:
        wanted = expected[EAGER.get(mode, mode)]().numpy()
        found = got[mode]().numpy()
        np.testing.assert_allclose(found, wanted, 1e-10, 1e-12, err_msg=f"{mode} of {name}")


@pytest.mark.parametrize("name", CALLS)
def test_history_follows_a_shape_changed_without_recording(name: str) -> None:
    """Under no_grad() nothing is recorded, but a shape is no computation."""
    x = _example(name)

    def weighted(x: Any, *, in_place: bool) -> Any:
        y = _start(name, x)
        with ad.no_grad() if in_place else ad.enable_grad():
            y = _change(name, y, in_place=in_place)
        return (y * ad.arange(float(y.numel())).reshape(y.shape)).sum()

    wanted = ad.grad(lambda v: weighted(v, in_place=False))(x)
    gradient = ad.grad(lambda v: weighted(v, in_place=True))
    for found in (gradient(x), ad.vmap(gradient)(x[None])[0], ad.compile(gradient)(x)):
        np.testing.assert_allclose(found, wanted)


def test_the_check_of_memory_plans_sees_a_place_used_again() -> None:
    program = next(iter(_compiled(lambda x: (x @ x.mT).tanh() @ x + x.sum()).programs.values()))[0]
    layout = arena.verify(program.code.layout)
    assert len(layout.offsets) > 1
    layout.offsets = dict.fromkeys(layout.offsets, 0)
    with pytest.raises(AssertionError, match="memory: step .* reads"):
        arena.verify(layout)


def _compiled(f: Callable[[Any], Any]) -> Any:
    fast = ad.compile(f)
    fast(ad.ones(40, 30))
    return fast


# -- windows that overlap --------------------------------------------------------------------------


def windows(kind: str) -> tuple[Any, Any]:
    """A vector and a view of it in which elements appear several times."""
    base = ad.arange(6.0)
    return base, base.unfold(0, 3, 1) if kind == "unfold" else base.as_strided((4, 3), (1, 1))


@pytest.mark.parametrize("kind", ["unfold", "as_strided"])
def test_an_element_is_written_as_often_as_windows_hold_it(kind: str) -> None:
    """As in PyTorch: additions add up, and functions are applied one after the other."""
    count = [1, 2, 3, 3, 2, 1]
    writes = {
        "add_": (lambda v: v.add_(ad.ones(4, 3)), lambda x, n: x + n),
        "mul_": (lambda v: v.mul_(2), lambda x, n: x * 2**n),
        "add_ with a factor": (lambda v: v.add_(ad.ones(3), alpha=2), lambda x, n: x + 2 * n),
        "iadd": (lambda v: v.__iadd__(1), lambda x, n: x + n),
        "fill_": (lambda v: v.fill_(7), lambda x, n: 7),
        "copy_": (lambda v: v.copy_(ad.ones(4, 3)), lambda x, n: 1),
        "clamp_": (lambda v: v.clamp_(max=2), lambda x, n: min(x, 2)),
    }
    for name, (write, wanted) in writes.items():
        base, view = windows(kind)
        assert write(view) is view
        assert base.tolist() == [wanted(x, n) for x, n in zip(range(6), count, strict=True)], name
    long = ad.zeros(40_000)
    long.unfold(0, 4, 1).add_(1)
    assert long[:5].tolist() == [1, 2, 3, 4, 4]
    assert long[-3:].tolist() == [3, 2, 1]


def test_writes_to_windows_without_a_single_result_or_derivative_are_refused() -> None:
    for write in (
        lambda v: v.cumsum_(0),
        lambda v: v.index_add_(0, ad.tensor([0]), ad.ones(1, 3)),
        lambda v: v.masked_fill_(v > 2, 0),
    ):
        with pytest.raises(ad.errors.InplaceError, match="share places in memory"):
            write(windows("unfold")[1])

    def changed(x: Any) -> Any:
        y = x * 1
        y.unfold(0, 3, 1).mul_(2)
        return (y * y).sum()

    x = ad.arange(6.0)
    for function in (
        lambda: changed(x.clone().requires_grad_()),
        lambda: ad.grad(changed)(x),
        lambda: ad.jvp(changed, (x,), (x,)),
        lambda: ad.compile(changed)(x),
    ):
        with pytest.raises(ad.errors.InplaceError, match="share (one place|places) in memory"):
            function()


def test_one_number_may_be_written_to_what_was_expanded() -> None:
    """In PyTorch, too: every place gets the same, however often it appears."""
    base = ad.tensor([[1.0], [2.0]])
    base.expand(2, 3).fill_(7)
    assert base.tolist() == [[7], [7]]
    base.expand(2, 3).zero_()
    assert base.tolist() == [[0], [0]]
    with pytest.raises(ad.errors.InplaceError, match="expanded"):
        base.expand(2, 3).add_(1)
    x = ad.arange(3.0).requires_grad_()
    y = x * 1
    y[:1].expand(2).fill_(5)
    (y * y).sum().backward()
    assert x.grad.tolist() == [0, 2, 4]

"""Structural zeros: what was not selected has no gradient, whatever derivative it meets.

The law `unselected_elements_have_no_gradient` (testing/laws) states it of every row that selects;
here it is stated of programs: branches, chains, broadcasting, views, writes, in every mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import GradError, TableError
from adjoint.table import TABLE
from adjoint.tape import structural_zeros
from adjoint.tensor.nodes import KEEPS, MOVES, SELECTS
from adjoint.toolchain import build

pytestmark = pytest.mark.filterwarnings("ignore:Anomaly")

Function = Callable[[Any], Any]


def tensor(*values: Any) -> ad.Tensor:
    return ad.tensor(values[0] if len(values) == 1 else list(values), dtype=ad.float64)


def written(v: Any) -> Any:
    """Elements that are overwritten in place after an infinite derivative."""
    y = v.sqrt() * 1.0
    y[0] = 3.0
    return y.sum()


def written_through_a_view(v: Any) -> Any:
    y = v.sqrt() * 1.0
    y.view(2, 2)[0].copy_(v[2:] * 2)
    return y.sum()


# name: (function, point, its gradient there)
PROGRAMS: dict[str, tuple[Function, ad.Tensor, Any]] = {
    "branch not taken": (lambda x: ad.where(x > 0, x.sqrt(), x * x), tensor(-1.0), -2.0),
    "overflow": (lambda x: x.exp().clamp(max=5.0), tensor(1000.0), 0.0),
    "select": (lambda v: v.sqrt()[1], tensor(0.0, 4.0), [0.0, 0.25]),
    "slice": (lambda v: v.log()[1:].sum(), tensor(0.0, 4.0), [0.0, 0.25]),
    "reciprocal": (lambda v: (1 / v)[::2].sum(), tensor(1.0, 0.0, 2.0), [-1.0, 0.0, -0.25]),
    "power": (lambda v: (v**0.5)[1], tensor(0.0, 4.0), [0.0, 0.25]),
    "number": (lambda v: ad.where(v > 0, v, v * np.inf).sum(), tensor(1.0), [1.0]),
    "division by 0": (lambda v: ad.where(v > 0, v, v / 0.0).sum(), tensor(1.0), [1.0]),
    "three halves": (lambda x: ad.where(x > 0, x**1.5, x), tensor(0.0), 1.0),
    "masked_fill": (
        lambda v: v.log().masked_fill(v <= 0, 1.0).sum(),
        tensor(-1.0, 0.0, 2.0),
        [0.0, 0.0, 0.5],
    ),
    "nansum": (lambda v: v.sqrt().nansum(), tensor(-1.0, 1.0), [0.0, 0.5]),
    "nan_to_num": (lambda v: v.log().nan_to_num(0.0).sum(), tensor(-1.0, 2.0), [0.0, 0.5]),
    "fmax": (lambda v: ad.fmax(v.sqrt(), v + 1).sum(), tensor(-2.0, 1.0), [1.0, 1.0]),
    "relu": (lambda v: (-1 / v.abs()).relu().sum(), tensor(0.0, 1.0), [0.0, 0.0]),
    "relu6": (lambda v: ad.nn.functional.relu6(v.exp()).sum(), tensor(1000.0, 0.0), [0.0, 1.0]),
    "floor": (lambda v: v.sqrt().floor().sum(), tensor(0.0, 2.0), [0.0, 0.0]),
    "amax": (lambda v: v.sqrt().amax(), tensor(0.0, 4.0), [0.0, 0.25]),
    "sort": (lambda v: v.sqrt().sort().values[-1], tensor(0.0, 4.0), [0.0, 0.25]),
    "chain": (
        lambda v: ad.where(v > 0, (v.log() * 2 + 1).exp().sqrt(), v.sin()).sum(),
        tensor(-1.0, 4.0, 0.0),
        [np.cos(1.0), np.exp(0.5), 1.0],
    ),
    "two branches": (
        lambda v: (ad.where(v > 0, v.sqrt(), v) * ad.where(v > 0, v.log(), 1.0)).sum(),
        tensor(-1.0, 1.0),
        [1.0, 1.0],
    ),
    "nested branches": (
        lambda v: ad.where(v > -2, ad.where(v > 0, v.sqrt(), 2.0).log(), v).sum(),
        tensor(-1.0, 1.0, -3.0),
        [0.0, 0.5, 1.0],
    ),
    "broadcasting": (
        lambda v: ad.where(tensor([1.0], [0.0]) > 0, 0.0, v.sqrt() + tensor([0.0], [1.0]))[0].sum(),
        tensor(0.0, 4.0),
        [0.0, 0.0],
    ),
    "sum": (lambda v: v.sqrt().sum(1)[0], tensor([1.0, 4.0], [0.0, 0.0]), [[0.5, 0.25], [0, 0]]),
    "mean": (lambda v: ad.where(v > 0, v.sqrt(), 0.0).mean(), tensor(0.0, 1.0), [0.0, 0.25]),
    "permuted": (
        lambda v: v.sqrt().reshape(2, 2).t().flip(0)[0].sum(),
        tensor(0.0, 1.0, 0.0, 4.0),
        [0.0, 0.5, 0.0, 0.25],
    ),
    "pieces": (
        lambda v: v.sqrt().chunk(2)[1].sum() + v.log().unbind()[1],
        tensor(0.0, 1.0, 4.0, 4.0),
        [0.0, 1.0, 0.25, 0.25],
    ),
    "root of a clamp": (lambda v: v.clamp(min=0.0).sqrt().sum(), tensor(-1.0, 4.0), [0.0, 0.25]),
    "arc of a clamp": (
        lambda v: v.clamp(-1, 1).acos().sum(),
        tensor(-2.0, 0.5),
        [0.0, -1 / np.sqrt(0.75)],
    ),
    "power of relu": (lambda v: (v.relu() ** 0.5).sum(), tensor(-1.0, 4.0), [0.0, 0.25]),
    "chain after a selection": (
        lambda v: ((v.relu().sqrt() * v).exp() + v.relu().sqrt()).sum(),
        tensor(-1.0, 1.0),
        [0.0, 1.5 * np.e + 0.5],
    ),
    "root beside constants": (
        lambda v: (ad.cat([v, ad.zeros(1)]).sqrt() + ad.diag(v)[:, :1].sqrt().sum()).sum(),
        tensor(1.0, 4.0),
        [2.0, 0.25],
    ),
    "stretched after a selection": (
        lambda v: (v.relu().sqrt() * ad.ones(3, 2)).sum(1)[1:].sum(),
        tensor(-1.0, 4.0),
        [0.0, 0.5],
    ),
    "entropy": (lambda v: ad.special.entr(v.softmax(0)).sum(), tensor(0.0, -np.inf), [0.0, 0.0]),
    "entropy, underflow": (
        lambda v: ad.special.entr(v.softmax(0)).sum(),
        tensor(0.0, 1e4),
        [0.0, 0.0],
    ),
    "cat": (
        lambda v: ad.cat([v.sqrt(), v])[1:].sum(),
        tensor(0.0, 1.0),
        [1.0, 1.5],
    ),
    "index": (lambda v: v.sqrt()[[1, 1]].sum(), tensor(0.0, 4.0), [0.0, 0.5]),
    "two slices": (
        lambda v: (v.log()[1:-1] * v.log()[2:]).sum(),
        tensor(0.0, 2.0, 4.0),
        [0.0, np.log(2), np.log(2) / 4],
    ),
    "cast": (lambda v: v.sqrt().to(ad.float32).double()[1], tensor(0.0, 4.0), [0.0, 0.25]),
    "write": (written, tensor(0.0, 4.0), [0.0, 0.25]),
    "write through a view": (
        written_through_a_view,
        tensor(0.0, 0.0, 1.0, 4.0),
        [0.0, 0.0, 2.5, 2.25],
    ),
}


def backward(f: Function, x: ad.Tensor) -> Any:
    leaf = x.clone().requires_grad_()
    f(leaf).backward()
    return leaf.grad


def hooked(f: Function, x: ad.Tensor) -> Any:
    """With hooks that look at every gradient on the way, and nothing else."""
    leaf = x.clone().requires_grad_()
    result = f(leaf)
    stack, seen = [result.grad_fn], set[Any]()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        node.register_prehook(lambda grads: None)
        node.register_hook(lambda *grads: None)
        stack += [n for n, _ in node.next_functions]
    return ad.autograd.grad(result, leaf)[0]


def anomalous(f: Function, x: ad.Tensor) -> Any:
    with ad.autograd.detect_anomaly():
        return backward(f, x)


def dual(f: Function, x: ad.Tensor) -> Any:
    """Forward over reverse with dual tensors: the gradient, beside its tangent."""
    with ad.autograd.forward_ad.dual_level():
        given = ad.autograd.forward_ad.make_dual(x.clone().requires_grad_(), ad.ones_like(x))
        grad = ad.autograd.grad(f(given), given)[0]
        return ad.autograd.forward_ad.unpack_dual(grad).primal


def differentiated(f: Function, x: ad.Tensor) -> Any:
    pair = ad.differentiate(ad.trace(f, x))
    _, captured = pair.run(x)
    return pair.pull(captured, [tensor(1.0)])[0]


MODES: dict[str, Callable[[Function, ad.Tensor], Any]] = {
    "grad": lambda f, x: ad.grad(f)(x),
    "backward": backward,
    "with hooks": hooked,
    "in anomaly mode": anomalous,
    "vjp": lambda f, x: ad.vjp(f, x)[1](ad.tensor(1.0, dtype=ad.float64))[0],
    "jacrev": lambda f, x: ad.jacrev(f)(x),
    "jacfwd": lambda f, x: ad.jacfwd(f)(x),
    "vmap": lambda f, x: ad.vmap(ad.grad(f))(ad.stack([x, x]))[1],
    "dual": dual,
    "traced": lambda f, x: ad.trace(ad.grad(f), x)(x),
    "graph": differentiated,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_was_not_selected_has_no_gradient(name: str, mode: str) -> None:
    f, x, expected = PROGRAMS[name]
    assert np.allclose(MODES[mode](f, x).numpy(), expected, rtol=1e-6, atol=0)


@pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_code_agrees(name: str) -> None:
    f, x, expected = PROGRAMS[name]
    assert np.allclose(ad.compile(ad.grad(f))(x).numpy(), expected, rtol=1e-6, atol=0)


SECOND = {
    "reverse over reverse": lambda f: ad.jacrev(ad.jacrev(f)),
    "forward over reverse": lambda f: ad.jacfwd(ad.jacrev(f)),
    "reverse over forward": lambda f: ad.jacrev(ad.jacfwd(f)),
}


@pytest.mark.parametrize("mode", SECOND)
@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives_of_what_was_not_selected_are_zero(name: str, mode: str) -> None:
    f, x, expected = PROGRAMS[name]
    found = SECOND[mode](f)(x).numpy().reshape(x.numel(), x.numel())
    assert np.isfinite(found).all()
    unselected = (np.asarray(expected) == 0).reshape(-1)
    assert not found[unselected].any()
    assert not found[:, unselected].any()


# A computed zero is a number


# forward mode multiplies the zeros of its basis, and anomaly mode raises
def written_result(v: Any) -> Any:
    """The result tells which elements of v matter, and is overwritten."""
    y = v.relu()
    y.sub_(3)
    return (y + 3).sqrt()


def written_argument(v: Any) -> Any:
    u = v * 1
    y = u.clamp(min=0)
    u.sub_(5)
    return y.sqrt()


def written_places(v: Any) -> Any:
    y, places = ad.stack([v, v - 1]).max(0)
    places.add_(1)
    return y.relu().sqrt()


def reshaped_places(v: Any) -> Any:
    y, places = ad.stack([v, v - 1]).max(0)
    places.unsqueeze_(0)
    return y.relu().sqrt()


def tangent(f: Function, x: ad.Tensor) -> Any:
    return ad.jvp(f, (x,), (ad.ones_like(x),))[1]


def dual_tangent(f: Function, x: ad.Tensor) -> Any:
    with ad.autograd.forward_ad.dual_level():
        given = ad.autograd.forward_ad.make_dual(x, ad.ones_like(x))
        return ad.autograd.forward_ad.unpack_dual(f(given)).tangent


FORWARD: dict[str, Callable[[Function, ad.Tensor], Any]] = {
    "jvp": tangent,
    "dual": dual_tangent,
    "vmap": lambda f, x: ad.vmap(lambda v: tangent(f, v))(ad.stack([x, x]))[1],
    "of vmap": lambda f, x: tangent(ad.vmap(f), ad.stack([x, x]))[1],
    "traced": lambda f, x: ad.trace(lambda v: tangent(f, v), x)(x),
}


@pytest.mark.parametrize("mode", FORWARD)
@pytest.mark.parametrize(
    "f",
    [written_result, written_argument, written_places, reshaped_places],
    ids=lambda f: f.__name__,
)
def test_forward_mode_knows_zeros_from_the_values_before_a_write(f: Function, mode: str) -> None:
    found = FORWARD[mode](f, tensor(2.0, -1.0))
    np.testing.assert_allclose(found.numpy(), [0.125**0.5, 0.0], rtol=1e-12)


@pytest.mark.parametrize("mode", [m for m in MODES if m not in ("jacfwd", "in anomaly mode")])
def test_a_computed_zero_times_infinity_is_seen(mode: str) -> None:
    zero_slope = lambda x: (x**0.25) ** 4
    assert np.isnan(MODES[mode](zero_slope, tensor(0.0)).numpy())
    zero_factor = lambda v: (v**0.25 * tensor(0.0, 1.0)).sum()
    assert np.isnan(MODES[mode](zero_factor, tensor(0.0, 4.0)).numpy()).tolist() == [True, False]


def test_a_zero_cotangent_is_a_number() -> None:
    _, pull = ad.vjp(lambda v: v**0.25, tensor(0.0, 4.0))
    assert np.isnan(pull(tensor(0.0, 1.0))[0].numpy()).tolist() == [True, False]


def test_a_selected_element_keeps_its_infinite_gradient() -> None:
    f = lambda v: ad.where(v >= 0, v.sqrt(), 0.0).sum()
    assert ad.grad(f)(tensor(0.0, -1.0)).tolist() == [float("inf"), 0.0]


def test_a_sum_of_gradients_is_structurally_zero_only_where_all_are() -> None:
    f = lambda v: (v**0.25)[1] + 0 * (v**0.25)[0]
    assert np.isnan(ad.grad(f)(tensor(0.0, 4.0)).numpy()).tolist() == [True, False]


@pytest.mark.parametrize("mode", MODES)
def test_real_and_imaginary_parts_are_selected_together(mode: str) -> None:
    def f(x: Any) -> Any:
        y = ad.view_as_complex(ad.stack([x, x.sin()], -1)).square().abs()  # x² + sin² x
        z = ad.complex(y, y * -0.5)
        z.real.mul_(2)
        return z.imag * z.real  # −y²

    x = 0.7
    expected = -2 * (x**2 + np.sin(x) ** 2) * (2 * x + np.sin(2 * x))
    assert np.allclose(MODES[mode](f, tensor(x)).numpy(), expected)


def test_what_a_hook_returns_is_a_number() -> None:
    x = tensor(0.0, 4.0).requires_grad_()
    y = x**0.25
    y.register_hook(lambda g: g.clone())
    y[1].backward()
    assert x.grad is not None
    assert np.isnan(x.grad.numpy()).tolist() == [True, False]


def test_the_hooks_of_saved_tensors_run_once() -> None:
    unpacked: list[ad.Tensor] = []

    def unpack(tensor: ad.Tensor) -> ad.Tensor:
        unpacked.append(tensor)
        return tensor

    x = tensor(0.0, 4.0).requires_grad_()
    with ad.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        y = ad.where(x > 1, x.sqrt(), 0.0).sum()
    assert ad.autograd.grad(y, x)[0].tolist() == [0.0, 0.25]
    assert len(unpacked) == len({id(t) for t in unpacked}) >= 2  # the condition, the root, …


def test_a_retained_gradient_shows_zeros_and_changes_nothing() -> None:
    x = tensor(0.0, 4.0).requires_grad_()
    y = x.sqrt() * 1.0
    z = y.log()
    y.retain_grad()
    z[1].backward()
    assert y.grad is not None
    assert x.grad is not None
    assert y.grad.tolist() == [0.0, 0.5]
    assert x.grad.tolist() == [0.0, 0.125]


def test_anomaly_mode_still_finds_a_computed_nan() -> None:
    x = tensor(0.0).requires_grad_()
    with ad.autograd.detect_anomaly(), pytest.raises(GradError, match="PowBackward0"):
        ((x**0.25) ** 4).backward()


# The price


def masks_in(f: Function, *args: Any) -> int:
    """How many masks the gradient of a function holds, or computes: comparisons with 0."""
    traced = str(ad.trace(ad.grad(f), *args))
    return traced.count("ops.eq.") + traced.count("dtype=ad.bool)")


def test_a_network_of_products_and_relu_computes_no_masks() -> None:
    w, b = tensor(np.ones((3, 3)).tolist()), tensor(1.0, 2.0, 3.0)

    def network(x: Any) -> Any:
        for _ in range(3):
            x = (x @ w + b).relu()
        return x.sum()

    assert not masks_in(network, ad.ones(2, 3).double())


def test_slices_that_cover_everything_need_no_mask() -> None:
    def difference(v: Any) -> Any:
        y = v.tanh()
        return (y[1:] - y[:-1]).square().sum()

    assert not masks_in(difference, tensor(1.0, 2.0, 3.0))
    assert masks_in(lambda v: difference(v[1:].tanh()) + v.exp()[0], tensor(1.0, 2.0, 3.0))


def test_a_graph_masks_the_branch_of_a_choice_once() -> None:
    f = lambda v: (ad.where(v > 0, v.sqrt(), v) + v.relu().sqrt()).sum()
    df = str(ad.differentiate(ad.trace(f, ad.ShapeDtype(3, ad.float64))).df)
    assert "ops.eq." not in df
    assert "ops.ones" not in df
    assert df.count("ops.where.") + df.count("ops.masked_fill.") == 3


def test_a_graph_holds_a_mask_of_rows_as_a_column() -> None:
    f = lambda v: v.exp()[1:].sum()
    traced = str(ad.trace(ad.grad(f), ad.ShapeDtype((3, 1000), ad.float64)))
    assert "ad.tensor([[True], [False], [False]], dtype=ad.bool)" in traced


def test_zeros_are_found_only_where_there_is_a_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    get = structural_zeros.Live.get
    monkeypatch.setattr(
        structural_zeros.Live, "get", lambda self, *a, **k: asked.append(1) or get(self, *a, **k)
    )
    f = lambda v: ad.where(v > 0, v.sqrt(), v * v).sum()
    assert ad.grad(f)(tensor(1.0, -1.0 / 4**0.5)).tolist()[0] == 0.5
    assert len(asked) == 1
    asked.clear()
    assert ad.grad(f)(tensor(1.0, 4.0)).tolist() == [0.5, 0.25]
    assert not asked


def test_a_long_chain_of_selections_is_one_loop() -> None:
    x = tensor(0.0, 1.0).requires_grad_()
    y = x.sqrt()
    for _ in range(3000):
        y = y.clamp_min(-1.0) * 1.0
    (grad,) = ad.autograd.grad(y[1], x)
    assert grad.tolist() == [0.0, 0.5]


# The column


def test_views_sums_and_constants_select_without_saying_so() -> None:
    assert TABLE.row("mean", "dim").selects == "all"
    assert TABLE.row("permute", "default").selects == "all"
    assert TABLE.row("floor", "default").selects == "some"
    assert TABLE.row("mm", "default").selects == ""


def test_rules_do_what_the_column_says() -> None:
    for name, expected in (
        ("ReluBackward0", SELECTS),
        ("TBackward0", MOVES),
        ("ExpBackward0", KEEPS),
    ):
        x = ad.ones(2, 2, requires_grad=True)
        method = {"ReluBackward0": "relu", "TBackward0": "t", "ExpBackward0": "exp"}[name]
        node = getattr(x, method)().grad_fn
        assert (node.name(), node.rule.zeros) == (name, expected)


@pytest.mark.parametrize(
    ("derivative", "word", "message"),
    [
        ("self: grad", "many", "selects cannot be 'many'"),
        ("self: non_differentiable", "some", "selects is for operators with reverse formulas"),
    ],
)
def test_a_column_without_meaning_is_refused(
    tmp_path: Any, derivative: str, word: str, message: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "- name: chosen(Tensor self) -> Tensor\n  like: pointwise\n  kernel: xp.positive\n"
        f"  {derivative}\n  selects: {word}\n"
    )
    with pytest.raises(TableError, match=message):
        ad.library(path)


@pytest.mark.parametrize("run", [lambda f: f, ad.compile], ids=["eager", "compiled"])
def test_zeros_of_a_tangent_that_is_broadcast_and_moved(run: Any) -> None:
    """relu(x) does not depend on x < 0, nor does what is made of it by broadcasting and views."""
    row = ad.tensor([1.0, 2.0, 3.0])
    f = lambda x: (x.relu()[:, None] * row).reshape(-1).sqrt()
    pushed = run(lambda x, v: ad.jvp(f, (x,), (v,))[1])
    found = pushed(ad.tensor([-1.0, 4.0]), ad.ones(2))
    expected = [0.0, 0.0, 0.0, *(row.sqrt() / 4).tolist()]
    assert found.tolist() == pytest.approx(expected)

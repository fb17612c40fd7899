"""Writing in place: version counters, what is refused, and views whose history is rewritten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import forward_ad
from adjoint.core.errors import DtypeError
from tests.values import close, leaf

# Values and history


def test_in_place_returns_self() -> None:
    x = ad.tensor([1.0, 2.0])
    assert x.add_(1) is x
    assert close(x, [2.0, 3.0])


def test_in_place_on_a_result_is_differentiated() -> None:
    x = leaf(1.0, 2.0)
    y = x * 3
    y.add_(1)
    y.mul_(x)
    y.sum().backward()
    assert close(x.grad, 6 * np.array([1.0, 2.0]) + 1)


def test_in_place_with_a_tensor_that_requires_grad() -> None:
    x = leaf(1.0, 2.0)
    y = ad.zeros(2, dtype=ad.float64)
    y += x * x
    assert y.requires_grad
    assert not y.is_leaf
    y.sum().backward()
    assert close(x.grad, [2.0, 4.0])


def test_in_place_on_a_leaf_that_requires_grad_is_refused() -> None:
    x = leaf(1.0)
    with pytest.raises(RuntimeError):
        x.add_(1)
    with pytest.raises(RuntimeError):
        x += 1
    with pytest.raises(RuntimeError):
        x[0] = 3.0
    assert close(x, [1.0])


def test_in_place_on_a_leaf_under_no_grad_is_fine() -> None:
    x = leaf(1.0)
    with ad.no_grad():
        x.add_(1)
        x -= 0.5
    assert close(x, [1.5])
    assert x.is_leaf
    assert x.requires_grad


def test_in_place_on_a_view_of_a_leaf_is_refused() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError):
        x[:1].add_(1)
    with pytest.raises(RuntimeError):
        x.view(2, 1).mul_(2)


def test_result_must_fit_in_place() -> None:
    x = ad.ones(3)
    with pytest.raises(RuntimeError):
        x.add_(ad.ones(2, 3))
    i = ad.ones(3, dtype=ad.int64)
    with pytest.raises(RuntimeError):
        i.add_(0.5)
    with pytest.raises(RuntimeError):
        i.add_(ad.ones(3))
    assert close(i, [1, 1, 1])


def test_in_place_on_an_expanded_tensor_is_refused() -> None:
    x = ad.ones(1, 3).expand(2, 3)
    with pytest.raises(RuntimeError):
        x.add_(1)


def test_operators_of_python_write_in_place() -> None:
    x = ad.tensor([4.0, 9.0])
    y = x
    x += 1
    x -= 2
    x *= 2
    x /= 4
    x **= 2
    assert y is x
    assert close(x, [(3 * 2 / 4) ** 2, (8 * 2 / 4) ** 2])


def test_assignment_by_index_is_differentiated() -> None:
    x, v = leaf(1.0, 2.0, 3.0), leaf(5.0)
    y = x * 2
    y[1] = v[0] * 3
    (y * y).sum().backward()
    assert close(x.grad, [8.0, 0.0, 24.0])
    assert close(v.grad, [2 * 15 * 3.0])


def test_assignment_by_mask_and_by_list() -> None:
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    y[y > 1.5] = 0.0
    y.sum().backward()
    assert close(x.grad, [1.0, 0.0, 0.0])
    z = x * 1
    z[[0, 2]] = ad.tensor([7.0, 8.0], dtype=ad.float64)
    assert close(z, [7.0, 2.0, 8.0])


# Version counters


def test_version_counts_writes() -> None:
    x = ad.ones(3)
    start = x._version
    x.add_(1)
    assert x._version == start + 1
    x[0] = 2.0
    assert x._version == start + 2
    x.detach().mul_(2)
    assert x._version == start + 3


def test_version_is_shared_by_views() -> None:
    x = ad.ones(3)
    view = x[:2]
    x.add_(1)
    assert view._version == x._version
    view.mul_(2)
    assert view._version == x._version


def test_changed_saved_value_is_an_error() -> None:
    x = leaf(2.0)
    y = x.exp()
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError):
        z.sum().backward()


def test_changed_saved_result_is_an_error() -> None:
    x = leaf(2.0)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError):
        y.sum().backward()


@pytest.mark.parametrize("name", ["div", "true_divide", "divide", "pow"])
def test_a_result_that_only_the_other_argument_needs_may_be_written_over(name: str) -> None:
    """v.div_(y); v.mul_(2) as in PyTorch: the slope in y needs the quotient, which v has lost."""

    def slopes(in_place: bool) -> list[Any]:
        x, y = (
            ad.tensor(v, dtype=ad.float64, requires_grad=True) for v in ([0.3, 0.5], [0.7, 2.0])
        )
        v = x * 1
        if in_place:
            getattr(v, f"{name}_")(y)
            v.mul_(2)
        else:
            v = getattr(v, name)(y) * 2
        first = ad.autograd.grad((v**2).sum(), (x, y), create_graph=True)
        return [*first, *ad.autograd.grad((first[0] * first[1]).sum(), (x, y))]

    for found, wanted in zip(slopes(True), slopes(False), strict=True):
        assert found.tolist() == wanted.tolist()


def test_changed_saved_input_is_an_error() -> None:
    x = leaf(2.0)
    w = ad.tensor([3.0], dtype=ad.float64)
    y = x * w
    w.add_(1)
    with pytest.raises(RuntimeError):
        y.sum().backward()


def test_change_through_a_view_is_noticed() -> None:
    x = leaf(2.0, 3.0)
    w = ad.tensor([3.0, 4.0], dtype=ad.float64)
    y = x * w
    w[:1].fill_(0)
    with pytest.raises(RuntimeError):
        y.sum().backward()


def test_change_through_detach_is_noticed() -> None:
    x = leaf(2.0)
    y = x * 3
    z = y * y
    y.detach().zero_()
    with pytest.raises(RuntimeError):
        z.sum().backward()


def test_change_through_data_is_not_noticed() -> None:
    x = leaf(2.0)
    w = ad.tensor([3.0], dtype=ad.float64)
    y = x * w
    w.data.fill_(10)
    y.sum().backward()
    assert close(x.grad, [10.0])


def test_change_of_a_value_that_was_not_saved_is_fine() -> None:
    x = leaf(2.0)
    y = x * 3
    z = y + 1
    y.mul_(5)
    (z.sum() + y.sum()).backward()
    assert close(x.grad, [18.0])


def test_message_names_the_operators() -> None:
    x = leaf(2.0)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="exp"):
        y.sum().backward()


def test_leaf_changed_under_no_grad_after_being_saved() -> None:
    x = leaf(2.0)
    y = x * x
    with ad.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError):
        y.sum().backward()


# Views


def test_view_shares_memory() -> None:
    x = ad.arange(6.0).view(2, 3)
    y = x[1]
    y[0] = 100.0
    assert x[1, 0].item() == 100.0
    assert x.t()[0, 1].item() == 100.0
    assert y._is_view()
    assert not ad.ones(2)._is_view()


def test_view_knows_its_base() -> None:
    x = ad.ones(2, 3)
    assert x[0][1:]._base is x
    assert x._base is None


def test_write_to_a_base_is_seen_in_the_history_of_a_view() -> None:
    x = leaf(1.0, 2.0, 3.0)
    base = x * 1
    view = base[:2]
    base.mul_(3)
    view.sum().backward()
    assert close(x.grad, [3.0, 3.0, 0.0])


def test_write_to_a_view_is_seen_in_the_history_of_the_base() -> None:
    x, w = leaf(1.0, 2.0, 3.0), leaf(10.0, 20.0)
    base = x * 1
    base[:2].mul_(w)
    (base * base).sum().backward()
    assert close(x.grad, [2 * 10 * 10.0, 2 * 40 * 20.0, 6.0])
    assert close(w.grad, [2 * 10 * 1.0, 2 * 40 * 2.0])


def test_write_to_a_view_of_a_view() -> None:
    x = ad.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    base = x * 1
    base[1][1:].mul_(5)
    base.sum().backward()
    assert close(x.grad, [[1, 1, 1], [1, 5, 5]])


def test_write_to_one_view_is_seen_by_another() -> None:
    x = leaf(1.0, 2.0, 3.0)
    base = x * 1
    first, second = base[:2], base[1:]
    first.mul_(10)
    second.sum().backward()
    assert close(x.grad, [0.0, 10.0, 1.0])


def test_view_made_before_the_base_required_grad() -> None:
    base = ad.zeros(3, dtype=ad.float64)
    view = base[1:]
    x = leaf(1.0, 2.0)
    view.copy_(x * x)
    assert base.requires_grad
    base.sum().backward()
    assert close(x.grad, [2.0, 4.0])


def test_transpose_view_written_in_place() -> None:
    x = ad.tensor(np.arange(4.0).reshape(2, 2), requires_grad=True)
    base = x * 2
    base.t()[0].mul_(3)
    base.sum().backward()
    assert close(x.grad, [[6, 2], [6, 2]])


def test_overwritten_part_gets_no_gradient() -> None:
    x = leaf(1.0, 2.0, 3.0)
    base = x * 2
    base[1:].zero_()
    base.sum().backward()
    assert close(x.grad, [2.0, 0.0, 0.0])


def test_fill_in_place_cuts_the_gradient() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    y.fill_(3.0)
    y.sum().backward()
    assert close(x.grad, [0.0, 0.0])


def test_copy_in_place_passes_the_gradient_and_converts() -> None:
    x = ad.tensor([1.0, 2.0], dtype=ad.float32, requires_grad=True)
    y = ad.zeros((2, 2), dtype=ad.float64)
    y.copy_(x)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == ad.float32
    assert close(x.grad, [2.0, 2.0])


def test_double_backward_through_in_place_on_a_view() -> None:
    x = leaf(1.0, 2.0)
    base = x * x
    base[:1].mul_(x[1])
    (g,) = ad.autograd.grad(base.sum(), x, create_graph=True)
    assert close(g, [2 * 1 * 2.0, 1 + 4.0])
    assert close(ad.autograd.grad(g.sum(), x)[0], [4.0 + 2.0, 2.0 + 2.0])


def test_in_place_on_one_of_several_views_is_refused() -> None:
    x = leaf(1.0, 2.0, 3.0, 4.0)
    first, _ = (x * 1).split(2)
    with pytest.raises(RuntimeError):
        first.mul_(2)
    first = (x * 1).unbind(0)[0]
    with pytest.raises(RuntimeError):
        first.mul_(2)


def test_in_place_on_one_of_several_views_without_grad_is_fine() -> None:
    x = ad.arange(4.0)
    first, _ = x.split(2)
    first.mul_(10)
    assert close(x, [0.0, 10.0, 2.0, 3.0])


def test_in_place_on_a_view_made_under_no_grad_is_refused() -> None:
    x = leaf(1.0, 2.0)
    base = x * 1
    with ad.no_grad():
        view = base[:1]
    with pytest.raises(RuntimeError):
        view.mul_(2)


def test_squeeze_and_transpose_in_place() -> None:
    x = leaf(1.0, 2.0)
    y = (x * 2).view(1, 2)
    y = y * 1
    y.t_()
    assert y.shape == (2, 1)
    y.squeeze_()
    assert y.shape == (2,)
    y.unsqueeze_(0)
    y.sum().backward()
    assert close(x.grad, [2.0, 2.0])


def test_real_and_imag_are_views() -> None:
    z = ad.tensor([1 + 2j, 3 + 4j], dtype=ad.complex128)
    z.real.mul_(10)
    z.imag[0] = 0.0
    assert close(z, [10 + 0j, 30 + 4j])


def test_write_to_the_real_part_is_differentiated() -> None:
    z = ad.tensor([1 + 2j], dtype=ad.complex128, requires_grad=True)
    w = z * 1
    w.real.mul_(3)
    (w.real + w.imag).sum().backward()
    assert close(z.grad, [3 + 1j])


def test_reshape_is_a_view_where_it_can_be() -> None:
    x = ad.arange(6.0)
    x.reshape(2, 3)[0, 0] = 9.0
    assert x[0].item() == 9.0
    y = ad.arange(6.0).view(2, 3).t()
    y.reshape(6)[0] = 9.0
    assert y[0, 0].item() == 0.0
    with pytest.raises(RuntimeError):
        y.view(6)


def test_out_argument() -> None:
    x = ad.tensor([1.0, 4.0])
    out = ad.empty(2)
    assert ad.sqrt(x, out=out) is out
    assert close(out, [1.0, 2.0])
    with pytest.raises(RuntimeError):
        ad.sqrt(leaf(1.0), out=ad.empty(1, dtype=ad.float64))
    with pytest.raises(RuntimeError):
        ad.sqrt(x, out=ad.empty(2, dtype=ad.int64))


def test_unsafe_split_allows_in_place() -> None:
    x = leaf(1.0, 2.0)
    first, _ = (x * 1).unsafe_split(1)
    first.mul_(2)
    first.sum().backward()
    assert close(x.grad, [2.0, 0.0])


# -- arrays


ARRAYS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "an operand": lambda x, a, i: (x * a).sum(),
    "a list entry": lambda x, a, i: (ad.stack([x, a])[1] * x).sum(),
    "an index": lambda x, a, i: (x[i] * 3).sum(),
    "a mask": lambda x, a, i: (x[a > 1] * 3).sum(),
    "an argument of checkpoint": lambda x, a, i: ad.checkpoint(lambda v, w: (v * w).sum())(x, a),
    "an argument of a compiled function": lambda x, a, i: COMPILED_PRODUCT(x, a),
    "through where": lambda x, a, i: ad.where(a > 1, x * a, x).sum(),
}
COMPILED_PRODUCT = ad.compile(lambda v, w: (v * w).sum())


@pytest.mark.parametrize("name", ARRAYS)
def test_writes_to_an_array_do_not_reach_the_tape(name: str) -> None:
    x = ad.tensor([1.0, 2.0, 3.0], dtype=ad.float64, requires_grad=True)
    array, index = np.array([1.0, 2.0, 3.0]), np.array([0, 2])
    expected = ad.autograd.grad(ARRAYS[name](x, array, index), x)[0]
    result = ARRAYS[name](x, array, index)
    array[:], index[:] = 0.0, 1
    np.testing.assert_array_equal(ad.autograd.grad(result, x)[0].numpy(), expected.numpy())


@pytest.mark.parametrize("way", [ad.vjp, ad.linearize])
def test_writes_to_an_array_do_not_reach_a_linear_map(way: Any) -> None:
    array = np.array([1.0, 2.0])
    _, linear = way(lambda v: v**3, array)
    array[:] = 5.0
    found = linear(np.ones(2))
    np.testing.assert_allclose((found[0] if way is ad.vjp else found).numpy(), [3.0, 12.0])


# -- out= inside transforms


def _filled_by_out(x: Any) -> Any:
    out = ad.zeros_like(x)
    ad.mul(x, x, out=out)
    return out.sum()


def test_out_carries_tangents_and_batches() -> None:
    x = ad.tensor([1.0, 2.0])
    assert ad.jvp(_filled_by_out, (x,), (ad.ones(2),))[1].item() == 6.0
    assert ad.vmap(_filled_by_out)(ad.ones(3, 2)).tolist() == [2.0, 2.0, 2.0]
    assert ad.trace(_filled_by_out, x)(x).item() == 5.0
    assert ad.compile(_filled_by_out)(x).item() == 5.0


def test_out_is_refused_for_dual_tensors() -> None:
    with forward_ad.dual_level():
        dual, out = forward_ad.make_dual(ad.ones(2), ad.ones(2)), ad.zeros(2)
        with pytest.raises(ad.errors.GradError, match="out="):
            ad.exp(dual, out=out)
        assert out.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("transform", [ad.grad, lambda f: ad.vmap(ad.grad(f))])
def test_out_is_not_differentiated_in_reverse(transform: Any) -> None:
    with pytest.raises(ad.errors.GradError, match="out="):
        transform(_filled_by_out)(ad.ones(2, 2))


# -- complex values for real tensors ---------------------------------------------------------------

_TAKEN: dict[ad.dtype, Callable[[complex], Any]] = {
    ad.bool: bool,
    ad.int64: lambda v: int(v.real),
    ad.float32: lambda v: v.real,
    ad.complex64: lambda v: v,
}
_INTERPRETERS: dict[str, Callable[..., ad.Tensor]] = {
    "eager": lambda f, x, v: f(x, v),
    "mapped": lambda f, x, v: ad.vmap(f)(x[None], v[None])[0],
    "mapped over the value": lambda f, x, v: ad.vmap(lambda v: f(x, v))(v[None])[0],
    "with tangents": lambda f, x, v: ad.jvp(lambda v: f(x, v), (v,), (v,))[0],
    "traced": lambda f, x, v: ad.trace(f, x, v)(x, v),
    "compiled": lambda f, x, v: ad.compile(f)(x, v),
}


@pytest.mark.parametrize("way", _INTERPRETERS)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("fill_", ad.bool), ("fill_", ad.complex64), *(("copy_", d) for d in _TAKEN)],
    ids=str,
)
def test_a_complex_value_is_written_alike_by_every_interpreter(
    name: str, dtype: ad.dtype, way: str
) -> None:
    for number in (2j, 3 + 0j, 0j, 2 - 1j):
        found = _INTERPRETERS[way](
            lambda x, v: getattr(x.clone(), name)(v), ad.ones(2).to(dtype), ad.tensor(number)
        )
        assert (found.dtype, found.tolist()) == (dtype, [_TAKEN[dtype](number)] * 2)


@pytest.mark.parametrize("way", _INTERPRETERS)
@pytest.mark.parametrize("dtype", [ad.int64, ad.float32], ids=str)
def test_a_complex_value_is_not_filled_into_a_real_tensor(dtype: ad.dtype, way: str) -> None:
    x = ad.ones(2).to(dtype)
    for number in (1j, 3 + 0j):
        with pytest.raises(DtypeError, match="^fill: a complex value does not fit"):
            _INTERPRETERS[way](lambda x, v: x.clone().fill_(v), x, ad.tensor(number))
        with pytest.raises(DtypeError, match="^fill: a complex value does not fit"):
            _INTERPRETERS[way](lambda x, _, n=number: x.clone().fill_(n), x, ad.tensor(0.0))


def test_what_is_not_zero_is_true_through_an_index() -> None:
    mask = ad.zeros(3, dtype=ad.bool)
    mask[0] = ad.tensor(1j)
    mask[1:] = ad.tensor([0j, -1j])
    assert mask.tolist() == [True, False, True]

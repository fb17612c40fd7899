"""Leaves: what they are, how gradients accumulate in them, detaching and copying."""

from __future__ import annotations

import copy
import pickle

import pytest

import adjoint as ad
from tests.values import close, leaf

# Leaves


def test_made_tensors_are_leaves() -> None:
    x = leaf(1.0, 2.0)
    assert x.is_leaf
    assert x.requires_grad
    assert x.grad_fn is None
    assert x.grad is None


def test_result_of_a_differentiable_operator_is_not_a_leaf() -> None:
    y = leaf(1.0) * 2
    assert not y.is_leaf
    assert y.requires_grad
    assert y.grad_fn is not None


def test_result_without_requires_grad_is_a_leaf() -> None:
    y = ad.tensor([1.0]) * 2
    assert y.is_leaf
    assert not y.requires_grad
    assert y.grad_fn is None


def test_integers_cannot_require_grad() -> None:
    with pytest.raises(RuntimeError):
        ad.tensor([1, 2], requires_grad=True)
    with pytest.raises(RuntimeError):
        ad.tensor([1, 2]).requires_grad_()


def test_complex_can_require_grad() -> None:
    assert ad.tensor([1j], requires_grad=True).requires_grad


def test_requires_grad_of_a_result_cannot_be_switched_off() -> None:
    y = leaf(1.0) * 2
    with pytest.raises(RuntimeError):
        y.requires_grad = False
    with pytest.raises(RuntimeError):
        y.requires_grad_(False)


def test_requires_grad_of_a_leaf_can_be_switched() -> None:
    x = leaf(1.0)
    x.requires_grad = False
    assert not x.requires_grad
    assert x.requires_grad_() is x
    assert x.requires_grad


def test_integer_results_do_not_require_grad() -> None:
    x = leaf(3.0, 1.0, 2.0)
    values, indices = x.max(0)
    assert values.requires_grad
    assert not indices.requires_grad
    assert not (x > 1).requires_grad
    assert not x.argmax().requires_grad


def test_grad_of_a_result_is_not_kept() -> None:
    x = leaf(2.0)
    y = x * 3
    (y * y).sum().backward()
    assert close(x.grad, [36.0])
    with pytest.warns(UserWarning, match="leaf"):
        assert y.grad is None


def test_retain_grad_keeps_the_grad_of_a_result() -> None:
    x = leaf(2.0)
    y = x * 3
    y.retain_grad()
    assert y.retains_grad
    (y * y).sum().backward()
    assert close(y.grad, [12.0])
    y.retain_grad()  # once more does nothing


def test_retain_grad_of_a_leaf_does_nothing() -> None:
    x = leaf(2.0)
    x.retain_grad()
    assert not x.retains_grad
    (x * x).sum().backward()
    assert close(x.grad, [4.0])


def test_retain_grad_needs_requires_grad() -> None:
    with pytest.raises(RuntimeError):
        ad.tensor([1.0]).retain_grad()


def test_grad_can_be_assigned_and_cleared() -> None:
    x = leaf(1.0, 2.0)
    x.grad = ad.tensor([5.0, 6.0], dtype=ad.float64)
    x.sum().backward()
    assert close(x.grad, [6.0, 7.0])
    x.grad = None
    assert x.grad is None


def test_assigned_grad_must_fit() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError):
        x.grad = ad.tensor([1.0, 2.0, 3.0], dtype=ad.float64)
    with pytest.raises((RuntimeError, TypeError)):
        x.grad = 3.0  # type: ignore[assignment]
    with pytest.raises(RuntimeError):
        x.grad = ad.tensor([1.0, 2.0], dtype=ad.float32)


# Accumulation


def test_backward_accumulates() -> None:
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    (x * x).sum().backward()
    assert close(x.grad, [4.0, 8.0])


def test_grad_does_not_accumulate() -> None:
    x = leaf(1.0, 2.0)
    (g,) = ad.autograd.grad((x * x).sum(), x)
    assert close(g, [2.0, 4.0])
    assert x.grad is None


def test_fan_out_adds() -> None:
    x = leaf(3.0)
    y = x * 2
    z = y + y * y + x
    z.sum().backward()
    assert close(x.grad, [2 + 8 * 3 + 1])


def test_the_same_tensor_twice_in_one_operator() -> None:
    x = leaf(3.0)
    (x * x).sum().backward()
    assert close(x.grad, [6.0])
    x.grad = None
    ad.cat([x, x, x]).sum().backward()
    assert close(x.grad, [3.0])


def test_accumulated_grad_does_not_alias_the_incoming_one() -> None:
    x, y = leaf(1.0, 2.0), leaf(1.0, 2.0)
    g = ad.tensor([1.0, 1.0], dtype=ad.float64)
    (x + y).backward(g)
    (x + y).backward(g)
    assert close(g, [1.0, 1.0])
    assert close(x.grad, [2.0, 2.0])
    assert close(y.grad, [2.0, 2.0])
    with ad.no_grad():
        x.grad.zero_()  # type: ignore[union-attr]
    assert close(y.grad, [2.0, 2.0])


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.filterwarnings("ignore:Using backward")
def test_held_grad_is_not_changed_by_the_next_backward_with_create_graph() -> None:
    x = leaf(2.0)
    (x * x).sum().backward(create_graph=True)
    first = x.grad
    (x * x).sum().backward(create_graph=True)
    assert close(first, [4.0])
    assert close(x.grad, [8.0])


def test_zero_of_a_grad_in_place() -> None:
    x = leaf(2.0)
    (x * x).sum().backward()
    x.grad.zero_()  # type: ignore[union-attr]
    (x * x).sum().backward()
    assert close(x.grad, [4.0])


def test_backward_inputs_limits_accumulation() -> None:
    x, y = leaf(1.0), leaf(2.0)
    (x * y).sum().backward(inputs=[x])
    assert close(x.grad, [2.0])
    assert y.grad is None
    ad.autograd.backward((x * y).sum(), inputs=y)
    assert close(y.grad, [1.0])


def test_backward_inputs_may_be_a_result() -> None:
    x = leaf(3.0)
    y = x * 2
    (y * y).sum().backward(inputs=[y])
    assert x.grad is None
    assert close(y.grad, [12.0])


def test_backward_inputs_must_not_be_empty() -> None:
    x = leaf(1.0)
    with pytest.raises(RuntimeError):
        (x * x).sum().backward(inputs=[])


def test_several_roots() -> None:
    x = leaf(1.0, 2.0)
    ad.autograd.backward([(x * x).sum(), x.sum()])
    assert close(x.grad, [3.0, 5.0])
    (g,) = ad.autograd.grad([x * x, x], [x], [ad.ones_like(x), 2 * ad.ones_like(x)])
    assert close(g, [4.0, 6.0])


# Detaching


def test_detach_cuts_the_graph_and_shares_memory() -> None:
    x = leaf(1.0, 2.0)
    y = x.detach()
    assert not y.requires_grad
    assert y.is_leaf
    y[0] = 7.0
    assert x[0].item() == 7.0


def test_detach_in_the_middle() -> None:
    x = leaf(3.0)
    (x * (x * x).detach()).sum().backward()
    assert close(x.grad, [9.0])


def test_detach_in_place() -> None:
    x = leaf(3.0)
    y = x * x
    y.detach_()
    assert y.is_leaf
    assert not y.requires_grad


def test_detach_in_place_of_a_view_is_refused() -> None:
    x = leaf(3.0, 4.0)
    y = (x * 2)[:1]
    with pytest.raises(RuntimeError):
        y.detach_()


def test_numpy_of_a_tensor_that_requires_grad_is_refused() -> None:
    with pytest.raises(RuntimeError):
        leaf(1.0).numpy()
    assert leaf(1.0).detach().numpy()[0] == 1.0


# Copying


def test_pickle_of_a_leaf() -> None:
    x = leaf(1.0, 2.0)
    y = pickle.loads(pickle.dumps(x))
    assert y.requires_grad
    assert y.is_leaf
    assert close(y, [1.0, 2.0])


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "bfloat16", "float16", "complex64"])
def test_pickle_keeps_dtype_and_values(dtype: str) -> None:
    x = ad.ones((2, 3), dtype=getattr(ad, dtype))
    y = pickle.loads(pickle.dumps(x))
    assert y.dtype == x.dtype
    assert y.shape == x.shape
    assert bool((y == x).all())


def test_deepcopy_of_a_leaf_copies_memory_and_grad() -> None:
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    y = copy.deepcopy(x)
    assert y.requires_grad
    assert close(y.grad, [2.0, 4.0])
    with ad.no_grad():
        y.zero_()
    assert close(x, [1.0, 2.0])


def test_deepcopy_keeps_shared_tensors_shared() -> None:
    x = leaf(1.0)
    a, b = copy.deepcopy([x, x])
    assert a is b
    assert a is not x


def test_deepcopy_keeps_shared_memory_shared() -> None:
    x = ad.arange(6.0).reshape(2, 3)
    whole, turned, tail = copy.deepcopy((x, x.t(), x[1, 1:]))
    assert turned.stride() == (1, 3)
    version = tail._version
    whole[1, 2] = 9.0
    assert turned.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 9.0]]
    assert tail.tolist() == [4.0, 9.0]
    assert tail._version > version
    assert x[1, 2] == 5.0


def test_deepcopy_of_a_result_is_refused() -> None:
    with pytest.raises(RuntimeError):
        copy.deepcopy(leaf(1.0) * 2)


def test_copy_shares_memory() -> None:
    x = ad.tensor([1.0, 2.0])
    y = copy.copy(x)
    y[0] = 5.0
    assert x[0].item() == 5.0


# Memory


def test_set_makes_a_leaf_another_variable_on_other_memory() -> None:
    x = leaf(1.0, 2.0)
    edge = ad.autograd.graph.get_gradient_edge(x)
    old = (x * 2).sum()
    other = ad.ones(3, dtype=ad.float64)
    with ad.no_grad():
        x.set_(other)
    assert x.data_ptr() == other.data_ptr()
    with pytest.raises(RuntimeError):
        ad.autograd.grad(old, x, retain_graph=True)
    assert close(ad.autograd.grad(old, edge)[0], [2.0, 2.0])
    (x * 3).sum().backward()
    assert close(x.grad, [3.0, 3.0, 3.0])
    with pytest.raises(RuntimeError):
        x.set_(other)  # recorded


def test_set_to_a_part_of_itself() -> None:
    x = leaf(1.0, 2.0, 3.0)
    with ad.no_grad():
        x.set_(x[1:])
    assert close(x, [2.0, 3.0])
    ad.cat((x, x)).sum().backward()
    assert close(x.grad, [2.0, 2.0])


def test_resize_keeps_what_fits_and_counts_as_a_write() -> None:
    x = ad.arange(6.0)
    y = x * 1
    y.resize_(2, 2)
    assert close(y, [[0.0, 1.0], [2.0, 3.0]])
    assert y._version == 1
    y.resize_((2, 2))
    assert y._version == 1
    y.resize_(8)
    assert close(y[:4], [0.0, 1.0, 2.0, 3.0])
    assert y.resize_as_(ad.ones(2, 1)).shape == (2, 1)
    with pytest.raises(RuntimeError):
        leaf(1.0).resize_(2)


def test_a_saved_value_that_is_resized_is_noticed() -> None:
    x, c = leaf(1.0, 2.0), ad.tensor([3.0, 4.0], dtype=ad.float64)
    y = x * c
    c.resize_(1)
    with pytest.raises(RuntimeError):
        y.sum().backward()


def test_storage_is_the_whole_memory() -> None:
    x = ad.arange(6.0)
    part = x[2:4]
    assert len(part.storage()) == 6
    assert part.storage().data_ptr() == x.data_ptr()
    assert part.untyped_storage().nbytes() == 24
    assert x.storage().tolist()[5] == part.storage()[5] == 5.0


def test_data_and_grad_are_checked() -> None:
    x = leaf(1.0)
    with pytest.raises(RuntimeError):
        x.grad = x
    with pytest.raises(RuntimeError):
        x.data = ad.tensor([1])
    with pytest.raises(TypeError):
        x.data = None  # type: ignore[assignment]


@pytest.mark.filterwarnings("ignore:Using backward")
def test_leaves_do_not_share_a_gradient_that_has_a_history() -> None:
    x, y = leaf(1.0), leaf(2.0)
    (x + y).sum().backward(create_graph=True)
    assert x.grad is not None
    (x * 3 + y * 5).sum().backward()
    assert close(x.grad, [4.0])
    assert close(y.grad, [6.0])
    with ad.no_grad():
        x.grad.zero_()
    assert close(y.grad, [6.0])


def test_pickle_of_a_result_keeps_its_values_and_not_its_history() -> None:
    y = ad.ones(2, requires_grad=True) * 2
    again = pickle.loads(pickle.dumps(y))
    assert again.is_leaf
    assert again.requires_grad
    assert again.tolist() == [2.0, 2.0]


def test_a_gradient_lies_as_its_leaf() -> None:
    x = ad.randn(2, 3, 4, 5).to(memory_format=ad.channels_last).requires_grad_()
    ad.nn.functional.interpolate(x * 1, scale_factor=2.0, mode="bilinear").sum().backward()
    assert x.grad is not None
    assert x.grad.is_contiguous(memory_format=ad.channels_last)
    thin = ad.ones(1, 2, 2, 1).contiguous(memory_format=ad.channels_last).requires_grad_()
    (thin * thin).sum().backward()
    assert thin.grad is not None
    assert thin.grad.stride() == thin.stride()
    m = ad.randn(3, 4).t().requires_grad_()
    (m @ ad.ones(3)).sum().backward()
    assert m.grad is not None
    assert m.grad.stride() == m.stride()
    gaps = ad.randn(6, 4)[::2].detach().requires_grad_()
    (gaps * 2).sum().backward()
    assert gaps.grad is not None
    assert gaps.grad.is_contiguous()


def test_the_other_name_of_a_gradient_and_storages_of_one_memory() -> None:
    x = ad.ones(3, requires_grad=True)
    x._grad = ad.full((3,), 2.0)
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    assert x.grad is x._grad
    y = ad.arange(6.0)
    assert y.storage() == y[2:].storage()
    assert y.storage() != y.clone().storage()

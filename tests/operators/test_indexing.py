"""Indexing beyond the laws: Python's brackets, memory behind views, repeated writes, errors."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import grad
from adjoint.core.errors import (
    ArgumentError,
    DependsOnValues,
    DimensionError,
    DtypeError,
    IndexOutOfRange,
    InplaceError,
    ShapeError,
    ValueRangeError,
)
from adjoint.core.storage import offset_in_elements, storage_of, strides_in_elements

BASE = np.arange(24.0).reshape(2, 3, 4)
MASK = np.array([[True, False, True], [False, True, True]])
ROWS = np.array([1, 0, -1])

SAME_AS_NUMPY: list[Any] = [
    0, -1, (1, 2, 3), (), ..., None, (0, ...), (..., 1), (None, 0, ..., None), True, False,
    slice(1, None), slice(None, None, 2), slice(None, None, -1), (0, slice(5, None, -2)),
    (slice(None, None, -1), None, ROWS, slice(0, 3, -1)), (..., slice(-2, None, -1), [0, 2]),
    (slice(None), 1), (slice(None), slice(0, 2), slice(3)),
    (slice(5, 9),), ROWS, [1, 0], ([0, 1], [2, 0]), (slice(None), ROWS),
    (ROWS, slice(None), [0, 1, 2]),
    (slice(None), [[0], [1]], [0, 3]), MASK, (MASK, 0), (MASK, slice(2)), (slice(None), MASK[0]),
    (MASK, [0, 1, 2, 3]), (True, 0), (0, True), np.int64(1), np.array(1), (ROWS, None, [0, 1, 2]),
    [], range(2), (..., MASK[0], slice(None)),
]  # fmt: skip


def _name(key: Any) -> str:
    return repr(key).replace("\n", "")


def _with_tensors(key: Any) -> Any:
    if isinstance(key, np.ndarray):
        return ad.from_numpy(key)
    return tuple(map(_with_tensors, key)) if isinstance(key, tuple) else key


@pytest.mark.parametrize("key", SAME_AS_NUMPY, ids=_name)
def test_getitem_equals_numpy(key: Any) -> None:
    expected = BASE[list(key) if isinstance(key, range) else key]
    for spelling in (key, _with_tensors(key)):
        got = ad.from_numpy(BASE.copy())[spelling]
        assert got.shape == expected.shape
        assert np.array_equal(got.numpy(), expected)


@pytest.mark.parametrize("key", SAME_AS_NUMPY, ids=_name)
@pytest.mark.parametrize("recorded", [False, True])
def test_setitem_equals_numpy(key: Any, recorded: bool) -> None:
    plain = list(key) if isinstance(key, range) else key
    expected, shape = BASE.copy(), BASE[plain].shape
    value = np.arange(float(np.prod(shape, dtype=int))).reshape(shape) + 100
    expected[plain] = value
    x = ad.from_numpy(BASE.copy()).requires_grad_(recorded)
    y = x.clone()
    y[_with_tensors(key)] = ad.from_numpy(np.asarray(value))
    assert np.array_equal(y.detach().numpy(), expected)
    if recorded:
        y.sum().backward()
        untouched = expected == BASE
        assert np.array_equal(x.grad.numpy(), untouched.astype(float))


@pytest.mark.parametrize("key", SAME_AS_NUMPY, ids=_name)
def test_setitem_of_a_number(key: Any) -> None:
    plain = list(key) if isinstance(key, range) else key
    expected = BASE.copy()
    expected[plain] = -1
    x = ad.from_numpy(BASE.copy())
    x[_with_tensors(key)] = -1
    assert np.array_equal(x.numpy(), expected)


def test_a_list_with_structure_is_a_tuple() -> None:
    x = ad.from_numpy(BASE)
    assert x[[0, slice(None)]].shape == (3, 4)
    assert x[[[0, 1], [0, 1]]].shape == (2, 4)


def test_a_number_before_a_separated_index_is_a_view_first() -> None:
    # NumPy puts the index first here, PyTorch applies the number before the index.
    assert ad.from_numpy(BASE)[1, :, ROWS].shape == (3, 3)
    assert ad.zeros(2, 5, 4)[0, :, ad.tensor([1, 2])].shape == (5, 2)


def test_uint8_is_a_mask() -> None:
    assert ad.from_numpy(BASE)[ad.tensor([0, 1], dtype=ad.uint8)].shape == (1, 3, 4)


def test_setitem_drops_leading_ones_and_casts() -> None:
    x = ad.zeros(2, 3)
    x[0] = ad.ones(1, 1, 3)
    x[ad.tensor([1])] = ad.ones(1, 1, 3, dtype=ad.float64)
    assert x.sum().item() == 6
    x[x > 0] = np.arange(6)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_writes_are_counted() -> None:
    x = ad.zeros(3)
    x[0] = 1.0
    x[ad.tensor([True, False, True])] = 2.0
    assert x._version == 2


def test_a_write_to_a_saved_value_is_noticed() -> None:
    a = ad.ones(3, requires_grad=True)
    b = ad.zeros(3)
    c = (a * b).sum()
    b[0] = 1.0
    with pytest.raises(RuntimeError, match="__setitem__"):
        c.backward()


def test_every_slice_with_a_negative_step_is_numpys() -> None:
    ends = (None, -7, -3, -1, 0, 2, 4, 9)
    for size, start, stop, step in itertools.product((0, 1, 5), ends, ends, (-1, -2, -7)):
        array, key = np.arange(float(size)), slice(start, stop, step)
        x = ad.tensor(array)
        assert np.array_equal(x[key].numpy(), array[key])
        x[key], array[key] = 7.0, 7.0
        assert np.array_equal(x.numpy(), array)


def test_negative_steps_hold_in_every_transform() -> None:
    def swapped(x: Any) -> Any:
        y = 2 * x[::-1]
        y[::-2] *= x[1:]
        return y

    x = ad.tensor([1.0, 2.0, 3.0], dtype=ad.float64)
    # y = (2 x2 x2, 2 x1, 2 x0 x1)
    jacobian = np.array([[0.0, 0.0, 12.0], [0.0, 2.0, 0.0], [4.0, 2.0, 0.0]])
    for take in (ad.jacrev, ad.jacfwd):
        assert np.array_equal(take(swapped)(x).numpy(), jacobian)
    rows = ad.vmap(swapped)(ad.stack([x, 2 * x]))
    assert np.array_equal(rows[1].numpy(), swapped(2 * x).numpy())
    assert np.array_equal(ad.compile(swapped)(x).numpy(), swapped(x).numpy())
    assert np.array_equal(ad.trace(swapped, x)(x).numpy(), swapped(x).numpy())


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        (3, IndexOutOfRange, "index 3 is out of range for dimension 0 of size 2"),
        ((0, -4), IndexOutOfRange, "index -4"),
        ((0, 0, 0, 0), DimensionError, "too many indices: 4 for a tensor of 3 dimensions"),
        (slice(None, None, 0), ValueRangeError, "positive"),
        (1.5, ArgumentError, "float 1.5"),
        ("a", ArgumentError, "str 'a'"),
        ([0.5], DtypeError, "integers or booleans"),
        (np.array([2]), IndexOutOfRange, "index 2"),
        (np.ones((3, 2), bool), DimensionError, "mask"),
        (([0, 1], [0, 1, 2]), ShapeError, "broadcast"),
    ],
    ids=str,
)
def test_getitem_says_what_is_wrong(key: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ad.from_numpy(BASE)[key]


def test_a_scalar_cannot_be_indexed() -> None:
    with pytest.raises(DimensionError, match="item"):
        ad.tensor(1.0)[0]


def test_negative_indices_only_where_pytorch_takes_them() -> None:
    x = ad.arange(3.0)
    last = ad.tensor([-1])
    assert x[last].item() == x.take(last).item() == 2
    assert x.index_fill(0, last, 5).tolist() == [0, 1, 5]
    for refuse in (
        lambda: x.gather(0, last),
        lambda: x.scatter(0, last, 1.0),
        lambda: x.index_select(0, last),
        lambda: x.index_add(0, last, ad.ones(1)),
    ):
        with pytest.raises(IndexOutOfRange, match="index -1"):
            refuse()


def test_shapes_that_depend_on_values_say_so() -> None:
    x = ad.ones(3).to("meta")
    for ask in (x.nonzero, lambda: x.masked_select(x > 0), lambda: x[x > 0]):
        with pytest.raises(DependsOnValues, match="depends on values"):
            ask()


# ---- repeated writes --------------------------------------------------------------------------


def test_only_the_last_write_has_a_gradient() -> None:
    v = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    index = ad.tensor([1, 1, 0])
    for write in (
        lambda x: x.index_put([index], v),
        lambda x: x.scatter(0, index, v),
        lambda x: x.index_copy(0, index, v),
        lambda x: x.put(index, v),
    ):
        y = write(ad.zeros(3))
        assert y.tolist() == [3, 2, 0]
        assert grad(y.sum(), v)[0].tolist() == [0, 1, 1]


@pytest.mark.parametrize("layout", ["C", "F"])
def test_the_last_write_wins_in_every_layout(layout: Any) -> None:
    index = np.asarray([[0, 1], [1, 0]], order=layout)
    values = np.asarray([[1.0, 2.0], [3.0, 4.0]], order=layout)
    y = ad.zeros(2, dtype=ad.float64).index_put([ad.from_numpy(index)], ad.from_numpy(values))
    assert y.tolist() == [4, 3]


def test_products_with_zeros_to_second_order() -> None:
    x = ad.tensor([2.0], requires_grad=True, dtype=ad.float64)
    s = ad.tensor([0.0, 3.0, 0.0], requires_grad=True, dtype=ad.float64)
    y = x.scatter_reduce(0, ad.tensor([0, 0, 0]), s, "prod").sum()
    (first,) = grad(y, s, create_graph=True)
    assert first.tolist() == [0, 0, 0]
    (second,) = grad(first[0], s)  # d/ds0 of 2 s0 s1 s2 is 2 s1 s2
    assert second.tolist() == [0, 0, 6]


# ---- memory -----------------------------------------------------------------------------------


def test_storage_of_views() -> None:
    fortran = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    flat, offset = storage_of(fortran[1:, 2])
    assert (flat.size, offset, flat[offset]) == (12, 7, fortran[1, 2])
    flat, offset = storage_of(np.arange(6).astype(complex).reshape(2, 3).imag[1])
    assert (flat.size, offset) == (12, 7)
    window = np.frombuffer(bytearray(80), np.float64)[2:]
    flat, offset = storage_of(window)
    flat[offset] = 5
    assert (flat.size, offset, window[0]) == (10, 2, 5)
    reversed_ = np.arange(5.0)[::-1]
    assert (storage_of(reversed_)[1], strides_in_elements(reversed_)) == (4, (-1,))
    half = np.arange(6).astype(ml_dtypes.bfloat16)[3:]
    assert (storage_of(half)[0].dtype, offset_in_elements(half)) == (half.dtype, 3)
    permuted = np.empty((2, 3, 4)).transpose(1, 0, 2).copy(order="K")
    assert storage_of(permuted[1, 1])[0].size == 24


def test_as_strided_reaches_the_base_and_so_does_its_gradient() -> None:
    x = ad.arange(5.0).requires_grad_()
    z = x[2:].as_strided((5,), (1,), 0)
    assert z.tolist() == [0, 1, 2, 3, 4]
    assert grad(z.sum(), x)[0].tolist() == [1] * 5


def _forward(f: Any, x: Any, v: Any) -> Any:
    return ad.jvp(f, (x,), (v,))[1]


@pytest.mark.parametrize(
    "f",
    [
        lambda b: (b * 1)[:, 1:3].as_strided((3, 4), (4, 1), 0).sin(),
        lambda b: (b * 1)[1:, 1:].as_strided((2, 2), (3, 2)).sin(),
        lambda b: (b * 1).t()[2:].as_strided((2, 3), (1, 3), 3).sin(),
    ],
)
def test_as_strided_through_a_view_has_the_same_derivative_in_both_modes(f: Any) -> None:
    x, v = ad.rand(3, 4, dtype=ad.float64), ad.rand(3, 4, dtype=ad.float64)
    wanted = ad.jacrev(f)(x).flatten(-2) @ v.flatten()
    with ad.autograd.forward_ad.dual_level():
        given = ad.autograd.forward_ad.make_dual(x, v)
        found = [ad.autograd.forward_ad.unpack_dual(f(given)).tangent]
    found.append(_forward(f, x, v))
    found.append(ad.trace(lambda x, v: _forward(f, x, v), x, v)(x, v))
    found.append(ad.vmap(lambda x, v: _forward(f, x, v))(x[None], v[None])[0])
    for tangent in found:
        np.testing.assert_allclose(tangent, wanted, rtol=1e-12, atol=1e-14)


def _doubled(base: Any, like: Any, view: Any) -> Any:
    whole = base * 1
    view(whole, like * 1).mul_(2)
    return whole


@pytest.mark.parametrize("name", ["slice_inverse", "view_as", "expand_as", "reshape_as"])
def test_writes_to_views_of_the_shape_of_another_tensor_are_traced(name: str) -> None:
    def f(x: Any, like: Any) -> Any:
        return _doubled(x, like, getattr(ad.Tensor, name, getattr(ad, name, None)))

    x, like = ad.rand(3, 4), ad.rand(3, 4)
    assert ad.equal(ad.trace(f, x, like)(x, like), f(x, like))


def test_a_graph_refuses_to_write_through_the_inverse_of_a_part() -> None:
    def f(x: Any, like: Any) -> Any:
        return _doubled(x, like, lambda x, like: ad.slice_inverse(x[:, 1:3], like, 1, 1, 3))

    with pytest.raises(InplaceError, match="slice_inverse"):
        ad.trace(f, ad.rand(3, 4), ad.rand(3, 4))


def test_as_strided_of_overlapping_memory() -> None:
    x = ad.arange(4.0).requires_grad_()
    weights = ad.arange(6.0).view(3, 2)
    for y in (x, x.expand(3, 4), x.view(2, 2).t()):
        z = y.as_strided((3, 2), (1, 1))
        assert grad((z * weights).sum(), x)[0].tolist() == [0, 3, 7, 5]
    # As an input of its own, an expanded tensor shares each gradient among its copies.
    leaf = ad.arange(4.0).expand(2, 4).detach().requires_grad_()
    z = ad.ops.as_strided(leaf, (4,), (1,), 0)
    assert grad(z.sum(), leaf)[0].tolist() == [[0.5] * 4] * 2


def test_as_strided_scatter_keeps_what_it_does_not_write() -> None:
    x = ad.arange(6.0).requires_grad_()
    s = ad.tensor([10.0, 20.0], requires_grad=True)
    y = x.as_strided_scatter(s, (2,), (3,), 1)
    assert y.tolist() == [0, 10, 2, 3, 20, 5]
    of_x, of_s = grad((y * ad.arange(6.0)).sum(), (x, s))
    assert (of_x.tolist(), of_s.tolist()) == ([0, 0, 2, 3, 0, 5], [1, 4])


def test_as_strided_stays_inside_its_memory() -> None:
    with pytest.raises(IndexOutOfRange, match="reach element 8, and the storage has 8"):
        ad.zeros(8).as_strided((2, 2), (4, 4), 0)
    with pytest.raises(ShapeError, match="negative"):
        ad.zeros(8).as_strided((2,), (-1,))


@pytest.mark.parametrize("sizes", [(0,), (2, 0), (0, 3), (0, 0)])
def test_a_mask_without_elements_selects_nothing(sizes: tuple[int, ...]) -> None:
    array, mask = np.ones((2, 3)), np.zeros(sizes, np.bool_)
    x = ad.tensor(array)
    assert x[ad.tensor(mask)].shape == array[mask].shape
    x[ad.tensor(mask)] = 5.0
    assert x.tolist() == array.tolist()
    assert ad.grad(lambda x: x[ad.tensor(mask)].sum())(x).tolist() == np.zeros((2, 3)).tolist()
    with pytest.raises(IndexError, match="mask"):
        x[ad.zeros(1, dtype=ad.bool)]


@pytest.mark.parametrize("shape", [(0, 0), (0, 1, 0), (0, 5), (3, 0, 2)])
def test_indices_of_which_nothing_is_read_are_not_looked_at_forward_or_back(shape: Any) -> None:
    function = lambda x: x[..., ad.tensor([0, 7])].sum()
    for run in (ad.grad(function), ad.compile(ad.grad(function))):
        assert run(ad.ones(shape)).shape == shape

"""Layouts and memory formats: what tensors say of how their elements lie in memory."""

from __future__ import annotations

import copy
import pickle

import pytest

import adjoint as ad

LAYOUTS = (
    ad.strided, ad.sparse_coo, ad.sparse_csr, ad.sparse_csc, ad.sparse_bsr, ad.sparse_bsc,
    ad.jagged,
)  # fmt: skip
FORMATS = (
    ad.contiguous_format, ad.preserve_format, ad.channels_last, ad.channels_last_3d,
)  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS + FORMATS)
def test_a_layout_stays_itself_when_copied_and_shows_its_name(name):
    assert pickle.loads(pickle.dumps(name)) is name
    assert copy.deepcopy(name) is name
    assert repr(name) == f"ad.{name}"
    assert getattr(ad, str(name)) is name


def test_tensors_are_strided_in_every_transform():
    x = ad.ones(2)
    seen = [x.layout, ad.zeros(2, device="meta").layout]

    def f(x):
        seen.append(x.layout)
        return x.sum()

    ad.grad(f)(x), ad.jvp(f, (x,), (x,)), ad.vmap(f)(ad.ones(2, 3)), ad.trace(f, x)
    ad.vmap(ad.grad(f))(ad.ones(2, 3))
    assert len(seen) == 7
    assert all(s is ad.strided for s in seen)


def test_an_unknown_layout_or_format_is_named_with_the_known_ones():
    with pytest.raises(TypeError, match=r"no layout 'odd'; use one of ad\.strided"):
        ad.zeros(2, layout="odd")
    with pytest.raises(ValueError, match=r"no memory format 'odd'; use one of ad\.contiguous"):
        ad.zeros(2).clone(memory_format="odd")
    with pytest.raises(ValueError, match="no memory format 7"):
        ad.zeros(2).clone(memory_format=7)


# --- memory formats -------------------------------------------------------------------------------

IMAGES = (2, 3, 4, 5)
LAST = (60, 1, 15, 3)  # strides of such images, the channels last
USUAL = (60, 20, 5, 1)


def test_channels_last_is_a_copy_in_that_order_or_the_tensor_itself():
    x = ad.randn(IMAGES)
    for y in (
        x.contiguous(memory_format=ad.channels_last),
        x.to(memory_format=ad.channels_last),
        x.clone(memory_format=ad.channels_last),
    ):
        assert y.stride() == LAST
        assert y.is_contiguous(memory_format=ad.channels_last)
        assert not y.is_contiguous()
        assert not y.is_contiguous(memory_format=ad.channels_last_3d)
        assert (x == y).all()
        assert y.to(memory_format=ad.channels_last) is y
        assert y.to(memory_format=ad.preserve_format) is y
        assert y.contiguous(memory_format=ad.channels_last) is y
        assert y.to(memory_format=ad.contiguous_format).stride() == USUAL
        assert y.to(ad.float64).stride() == LAST
        assert y.to(ad.float64, memory_format=ad.contiguous_format).stride() == USUAL


def test_channels_last_3d_of_five_dimensions():
    x = ad.randn(2, 3, 4, 5, 6).to(memory_format=ad.channels_last_3d)
    assert x.stride() == (360, 1, 90, 18, 3)
    assert x.is_contiguous(memory_format=ad.channels_last_3d)


@pytest.mark.parametrize(
    "make", [ad.empty_like, ad.zeros_like, ad.ones_like, ad.rand_like, ad.randn_like]
)
def test_tensors_like_another_keep_its_format_or_take_the_one_given(make):
    x = ad.randn(IMAGES).to(memory_format=ad.channels_last)
    assert make(x).stride() == make(x, memory_format=ad.preserve_format).stride() == LAST
    assert make(x, memory_format=ad.contiguous_format).stride() == USUAL
    assert make(ad.randn(IMAGES), memory_format=ad.channels_last).stride() == LAST
    assert ad.full_like(ad.randn(IMAGES), 2, memory_format=ad.channels_last).stride() == LAST
    assert ad.empty(IMAGES, memory_format=ad.channels_last).stride() == LAST


@pytest.mark.parametrize(
    "function",
    [ad.sin, ad.relu, lambda x: x + 1, lambda x: x * x, lambda x: x > 0, lambda x: x.double()],
)
def test_pointwise_operators_keep_the_format(function):
    assert function(ad.randn(IMAGES).to(memory_format=ad.channels_last)).stride() == LAST


def test_the_gradient_has_the_format_of_its_leaf():
    x = ad.randn(IMAGES).to(memory_format=ad.channels_last).requires_grad_()
    (x.sin() * x).sum().backward()
    assert x.grad.stride() == LAST


def test_a_format_under_vmap_is_that_of_each_sample():
    x = ad.randn(7, *IMAGES)

    def formatted(x):
        y = x.to(memory_format=ad.channels_last)
        z = ad.zeros_like(x, memory_format=ad.channels_last)
        e = ad.empty(IMAGES, memory_format=ad.channels_last)
        for made in (y, z, e):
            assert made.is_contiguous(memory_format=ad.channels_last)
        return y + z

    assert (ad.vmap(formatted)(x) == x).all()


@pytest.mark.parametrize("form", [ad.channels_last, ad.channels_last_3d])
def test_a_format_refuses_tensors_of_another_rank(form):
    x = ad.zeros(2, 3)
    for call in (
        lambda: x.contiguous(memory_format=form),
        lambda: x.to(memory_format=form),
        lambda: ad.zeros_like(x, memory_format=form),
        lambda: ad.empty(2, 3, memory_format=form),
        lambda: ad.zeros(2, 3).resize_(4, 4, memory_format=form),
    ):
        with pytest.raises(ValueError, match=r"needs [45] dimensions, got 2"):
            call()


def test_preserve_format_needs_a_tensor_whose_order_is_kept():
    with pytest.raises(ValueError, match="preserve_format"):
        ad.empty(2, 3, memory_format=ad.preserve_format)
    with pytest.raises(ValueError, match="preserve_format"):
        ad.zeros(2, 3).t().contiguous(memory_format=ad.preserve_format)


def test_resize_puts_the_elements_in_the_order_of_a_format():
    x = ad.arange(24.0)
    x.resize_(1, 2, 3, 4, memory_format=ad.channels_last)
    assert x.stride() == (24, 1, 8, 2)
    assert x[0, 1, 0].tolist() == [1.0, 3.0, 5.0, 7.0]
    like = ad.zeros(IMAGES).to(memory_format=ad.channels_last)
    assert ad.zeros(3).resize_as_(like).stride() == USUAL
    assert ad.zeros(3).resize_as_(like, memory_format=ad.preserve_format).stride() == LAST
    grown = ad.tensor([1.0, 2.0]).resize_(1, 2, 1, 2, memory_format=ad.channels_last)
    assert grown[0, :, 0, 0].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ad.nn.functional.group_norm(x, 2),
        lambda x: ad.nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"),
        lambda x: x.reshape(-1) * 2,
    ],
)
def test_gradients_lie_in_memory_as_their_leaves(f) -> None:
    x = ad.randn(2, 4, 3, 3).to(memory_format=ad.channels_last).requires_grad_()
    (returned,) = ad.autograd.grad(f(x).square().sum(), x)
    f(x).square().sum().backward()
    assert returned.stride() == x.grad.stride() == x.stride()
    assert ad.equal(returned, x.grad)

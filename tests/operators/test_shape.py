"""Shape: which memory is shared and which is not, strides, errors. The laws check derivatives."""

from typing import Any

import numpy as np
import pytest

import adjoint as ad


def counted(*shape: int, **options: object) -> ad.Tensor:
    return ad.tensor(np.arange(float(np.prod(shape))).reshape(shape), **options)


VIEWS = {
    "view": lambda x: x.view(3, 2),
    "reshape": lambda x: x.reshape(-1),
    "t": lambda x: x.t(),
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(1, 0),
    "movedim": lambda x: x.movedim(0, 1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.unsqueeze(0).squeeze(),
    "expand": lambda x: x.expand(1, 2, 3),
    "flatten": lambda x: x.flatten(),
    "unflatten": lambda x: x.unflatten(1, (3, 1)),
    "narrow": lambda x: x.narrow(0, 0, 2),
    "split": lambda x: x.split(2)[0],
    "chunk": lambda x: x.chunk(1)[0],
    "unbind": lambda x: x.unbind()[0],
    "unfold": lambda x: x.unfold(1, 1, 1),
    "view_as": lambda x: x.view_as(ad.ones(3, 2)),
    "mT": lambda x: x.mT,
    "real": lambda x: x.real,
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_write_to_a_view_is_seen_by_the_base(name: str) -> None:
    base = counted(2, 3)
    VIEWS[name](base).fill_(7.0)
    assert (base == 7.0).any().item()
    assert name == "unbind" or (base == 7.0).all().item()


@pytest.mark.parametrize("name", ["view", "permute", "unsqueeze", "expand", "narrow", "unfold"])
def test_a_write_to_a_view_is_differentiated(name: str) -> None:
    x = counted(2, 3, requires_grad=True)
    base = x * 1.0
    VIEWS[name](base).mul_(3.0)
    (grad,) = ad.autograd.grad(base.sum(), x)
    assert grad.tolist() == [[3.0] * 3] * 2


COPIES = {
    "clone": lambda x: x.clone(),
    "flip": lambda x: x.flip(()),
    "roll": lambda x: x.roll(0),
    "repeat": lambda x: x.repeat(1, 1),
    "tril": lambda x: x.tril(5),
    "rot90": lambda x: x.rot90(0),
    "diag": lambda x: x.diag(),
    "narrow_copy": lambda x: x.narrow_copy(0, 0, 2),
    "cat": lambda x: ad.cat([x]),
    "permute_copy": lambda x: ad.permute_copy(x, (0, 1)),
    "reshape": lambda x: x.t().reshape(6),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_shares_nothing(name: str) -> None:
    base = counted(2, 3)
    COPIES[name](base).fill_(7.0)
    assert base.tolist() == counted(2, 3).tolist()


def test_reshape_that_copied_has_a_history_of_its_own() -> None:
    x = counted(2, 3, requires_grad=True)
    base = x * 1.0
    copy = base.t().reshape(-1)
    copy.mul_(2.0)
    (grad,) = ad.autograd.grad(copy.sum() + 10.0 * base.sum(), x)
    assert grad.tolist() == [[12.0] * 3] * 2


def test_view_says_what_to_do_when_it_cannot() -> None:
    with pytest.raises(RuntimeError, match=r"strides \(1, 3\) cannot be seen as 6 .*reshape"):
        counted(2, 3).t().view(6)
    assert counted(2, 3).t().view(3, 1, 2).stride() == (1, 6, 3)


def test_view_of_a_gradient_laid_out_otherwise() -> None:
    x = counted(2, 3, requires_grad=True)
    base = x * 1.0
    base.view(6)[:3].mul_(2.0)
    (grad,) = ad.autograd.grad(base, x, counted(3, 2).t())
    assert grad.tolist() == [[0.0, 4.0, 8.0], [1.0, 3.0, 5.0]]


def test_expanded_memory_is_not_written_to() -> None:
    with pytest.raises(RuntimeError, match="clone"):
        counted(1, 3).expand(2, 3).add_(1.0)


def test_strides_are_never_negative() -> None:
    x = counted(2, 3)
    for y in (x.flip(0, 1), x.rot90(2), x.fliplr(), x.flipud()):
        assert min(y.stride()) > 0


def test_nothing_to_do_returns_the_tensor_itself() -> None:
    x = ad.ones(3, dtype=ad.float64)
    same = (x.double(), x.contiguous(), x.conj(), x.type_as(x), x.flatten(), x.resolve_conj())
    assert all(y is x for y in same)
    assert x.float() is not x


def test_contiguous_in_channels_last() -> None:
    x = counted(2, 3, 4, 5)
    y = x.contiguous(memory_format="channels_last")
    assert y.stride() == (60, 1, 15, 3)
    assert y.contiguous(memory_format="channels_last") is y
    assert ad.equal(x, y)
    with pytest.raises(ValueError, match="there is no memory format"):
        x.clone(memory_format="rows_last")


def test_clone_keeps_the_order_in_memory() -> None:
    assert counted(2, 3).t().clone().stride() == (1, 3)
    assert counted(1, 3).expand(2, 3).clone().stride() == (3, 1)


def test_cat_does_not_keep_its_inputs() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    h = x * 1.0
    y = ad.cat([h, h])
    h.add_(1.0)  # would raise if cat had saved h
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_cat_promotes_and_skips_the_legacy_empty_tensor() -> None:
    y = ad.cat([ad.zeros(0), ad.ones(2, 2, dtype=ad.int64)], 1)
    assert y.shape == (2, 2)
    assert y.dtype is ad.float32


def test_conjugate_is_a_copy() -> None:
    z = ad.tensor([1 + 2j], requires_grad=True)
    w = z * 1.0
    c = w.conj()
    c.mul_(2.0)
    (grad,) = ad.autograd.grad(c.real.sum() + w.imag.sum(), z)
    assert w.tolist() == [1 + 2j]
    assert grad.tolist() == [2 + 1j]


def test_parts_of_complex_numbers_are_views() -> None:
    z = ad.tensor([1 + 2j, 3 - 1j])
    z.real.mul_(2.0)
    z.imag.zero_()
    ad.view_as_real(z)[0, 1] = 5.0
    assert z.tolist() == [2 + 5j, 6 + 0j]
    with pytest.raises(RuntimeError, match="needs a complex tensor"):
        _ = ad.ones(2).imag


def test_polar_is_differentiable_at_the_origin() -> None:
    r = ad.tensor([0.0], dtype=ad.float64, requires_grad=True)
    (grad,) = ad.autograd.grad(ad.polar(r, ad.tensor([0.0], dtype=ad.float64)).real.sum(), r)
    assert grad.tolist() == [1.0]


def test_in_place_views_change_the_tensor_itself() -> None:
    x = counted(2, 3, requires_grad=True)
    y = x * 2.0
    assert y.t_() is y
    y.unsqueeze_(0).squeeze_(0).transpose_(0, 1).swapaxes_(0, 1)
    assert y.shape == (3, 2)
    (grad,) = ad.autograd.grad((y * counted(3, 2)).sum(), x)
    assert grad.tolist() == (2.0 * counted(3, 2).t()).tolist()


def test_several_tensors_may_be_given_one_by_one() -> None:
    a, b = ad.ones(2), ad.ones(3)
    assert [g.shape for g in ad.meshgrid(a, b, indexing="xy")] == [(3, 2), (3, 2)]
    assert ad.block_diag(a, b).shape == (2, 5)
    assert ad.cartesian_prod(a, b).shape == (6, 2)
    assert [t.shape for t in ad.broadcast_tensors(ad.ones(2, 1), b)] == [(2, 3), (2, 3)]


ERRORS = {
    r"view: 6 elements do not fit the shape \(4, -1\)": lambda x: x.view(4, -1),
    r"permute: 1 dimensions in dims=\(0,\), but the tensor has 2": lambda x: x.permute(0),
    r"only size 1 can become 4": lambda x: x.expand(2, 4),
    r"cat: sizes must agree outside dimension 0": lambda x: ad.cat([x, x.t()]),
    r"stack: all tensors must have one shape": lambda x: ad.stack([x, x.t()]),
    r"split_size must be positive, got 0": lambda x: x.split(0),
    r"must be at least 0 and add up to 2": lambda x: x.split([1, 2]),
    r"do not multiply up to 3": lambda x: x.unflatten(1, (2, 2)),
    r"start=1 and length=2 reach past 2": lambda x: x.narrow(0, 1, 2),
    r"dimension named twice": lambda x: x.flip(0, 0),
    r"does not divide into 2 equal parts": lambda x: x.hsplit(2),
    r"needs at most 2 dimensions, got 3": lambda x: x.unsqueeze(0).t(),
}


@pytest.mark.parametrize("message", ERRORS)
def test_errors_say_what_does_not_fit(message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        ERRORS[message](counted(2, 3))


def test_a_dimension_out_of_range_is_an_index_error() -> None:
    x = counted(2, 3)
    for call in (x.squeeze, x.unbind, lambda d: x.transpose(0, d), lambda d: ad.cat([x, x], d)):
        with pytest.raises(IndexError, match="dimension 5 is out of range"):
            call(5)


def test_flip_keeps_the_order_of_dimensions_in_memory() -> None:
    x = counted(2, 3, 4, 5).to(memory_format=ad.channels_last)
    assert x.flip((2,)).stride() == x.stride()
    assert x.T.flip((0,)).stride() == x.T.stride()


@pytest.mark.parametrize("pieces", [(1,), (0, 3), (4, 2)])
@pytest.mark.parametrize("size", [1, 2])
def test_the_gradient_of_some_pieces_needs_as_many_operators_however_many_others_there_are(
    size: int, pieces: tuple[int, ...]
) -> None:
    def loss(x: Any) -> Any:
        parts = x.unbind() if size == 1 else x.split(2)
        return sum((parts[p] * (p + 2)).sum() for p in pieces)

    graphs = [ad.trace(ad.grad(loss), ad.ShapeDtype(count)) for count in (11, 400)]
    assert len({len(list(graph.nodes)) for graph in graphs}) == 1
    places = [number // size for number in range(11)]
    wanted = [float(p + 2) if p in pieces else 0.0 for p in places]
    assert ad.grad(loss)(ad.ones(11)).tolist() == wanted

"""Losses: far out, at the ends, ignored classes, errors, and their derivatives."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ArgumentError, IndexOutOfRange, ShapeError

F = ad.nn.functional


def double(values: object) -> ad.Tensor:
    return ad.tensor(values, dtype=ad.float64)


def test_cross_entropy_far_out() -> None:
    x = ad.tensor([[1e30, -1e30, 0.0]], requires_grad=True)
    right = F.cross_entropy(x, ad.tensor([0]))
    assert right.item() == 0
    (grad,) = ad.autograd.grad(right, x)
    assert grad.tolist() == [[0.0, 0.0, 0.0]]
    wrong = F.cross_entropy(x, ad.tensor([2]))
    assert wrong.item() == np.float32(1e30)
    (grad,) = ad.autograd.grad(wrong, x)
    assert grad.tolist() == [[1.0, 0.0, -1.0]]


def test_cross_entropy_of_an_impossible_class() -> None:
    x = double([[1.0, 0.5, -np.inf]]).requires_grad_()
    target = double([[0.5, 0.5, 0.0]])
    loss = F.cross_entropy(x, target)
    (grad,) = ad.autograd.grad(loss, x)
    p = np.exp([1.0, 0.5]) / np.exp([1.0, 0.5]).sum()
    assert np.allclose(loss.item(), -np.log(p).mean())
    assert np.allclose(grad.numpy(), [[*(p - 0.5), 0.0]])


def test_ignored_classes_do_not_count() -> None:
    x = double(np.random.default_rng(0).normal(size=(3, 4))).requires_grad_()
    loss = F.cross_entropy(x, ad.tensor([1, -100, 2]))
    alone = F.cross_entropy(x[::2], ad.tensor([1, 2]))
    assert np.allclose(loss.item(), alone.item())
    (grad,) = ad.autograd.grad(loss, x)
    assert grad[1].tolist() == [0.0] * 4
    assert F.cross_entropy(x, ad.tensor([9, 9, 9]), ignore_index=9, reduction="sum").item() == 0
    nothing = F.cross_entropy(x, ad.tensor([9, 9, 9]), ignore_index=9)
    assert np.isnan(nothing.item())
    (grad,) = ad.autograd.grad(nothing, x)
    assert not np.isnan(grad.numpy()).any()


def test_binary_cross_entropy_at_the_ends() -> None:
    p, t = (double(v).requires_grad_() for v in ([0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]))
    losses = F.binary_cross_entropy(p, t, reduction="none")
    assert losses.tolist() == [0.0, 0.0, 100.0, 100.0]
    of_p, of_t = ad.autograd.grad(losses.sum(), (p, t), create_graph=True)
    assert of_p.tolist() == [1.0, -1.0, -1e12, 1e12]  # where a logarithm has ended, 1e12
    assert of_t.tolist() == [100.0, -100.0, 100.0, -100.0]
    (second,) = ad.autograd.grad(of_p.sum(), p)
    assert np.isfinite(second.numpy()).all()


def test_binary_cross_entropy_with_logits_keeps_its_digits_far_out() -> None:
    x = double([-40.0, 40.0]).requires_grad_()
    losses = F.binary_cross_entropy_with_logits(x, double([0.0, 1.0]), reduction="none")
    assert np.allclose(losses.detach().numpy(), np.exp(-40), rtol=1e-12)
    (grad,) = ad.autograd.grad(losses.sum(), x)
    assert np.allclose(grad.numpy(), [np.exp(-40), -np.exp(-40)], rtol=1e-12)


def test_huber_losses_do_not_overflow() -> None:
    x = ad.tensor([1e30, -1e30, float("inf")], requires_grad=True)
    for loss in (F.huber_loss, F.smooth_l1_loss):
        total = loss(x, ad.zeros(3), reduction="none")
        assert total.tolist() == [np.float32(1e30), np.float32(1e30), float("inf")]
        (grad,) = ad.autograd.grad(total.sum(), x)
        assert grad.tolist() == [1.0, -1.0, 1.0]


def test_kl_div_of_probabilities_that_are_0() -> None:
    x = double([-np.inf, -1.0]).requires_grad_()
    loss = F.kl_div(x, double([0.0, 1.0]), reduction="sum")
    assert loss.item() == 1
    (grad,) = ad.autograd.grad(loss, x)
    assert grad.tolist() == [0.0, -1.0]
    assert F.kl_div(x[1:].reshape(1, 1), double([[1.0]]), reduction="batchmean").item() == 1


def test_older_words_for_the_reduction() -> None:
    x, t = double([1.0, 2.0]), double([0.0, 0.0])
    assert F.mse_loss(x, t, reduce=False).tolist() == [1.0, 4.0]
    assert F.mse_loss(x, t, size_average=False).item() == 5
    assert F.mse_loss(x, t, size_average=True).item() == 2.5


def test_weighted_means() -> None:
    x, t, w = double([1.0, 2.0]), double([0.0, 0.0]), double([3.0, 1.0])
    assert F.mse_loss(x, t, weight=w).item() == 7 / 4
    assert F.l1_loss(x, t, weight=w).item() == 5 / 4
    assert F.huber_loss(x, t, weight=w).item() == (0.5 * 3 + 1.5) / 2
    with pytest.raises(ShapeError, match="weight of 1"):
        F.mse_loss(x, t, weight=w[:1])


def test_gaussian_nll_loss_keeps_the_gradient_below_eps() -> None:
    var = double([1e-9]).requires_grad_()
    loss = F.gaussian_nll_loss(double([0.0]), double([1e-3]), var)
    (grad,) = ad.autograd.grad(loss, var)
    assert np.allclose(grad.item(), 0.5 * (1 / 1e-6 - 1e-6 / 1e-12))
    with pytest.raises(ValueError, match="negative"):
        F.gaussian_nll_loss(double([0.0]), double([0.0]), double([-1.0]))
    with pytest.raises(ValueError, match="var of 3"):
        F.gaussian_nll_loss(double([0.0]), double([0.0]), double([1.0, 1.0, 1.0]))


def test_ctc_loss_after_log_softmax_has_a_gradient_that_sums_to_0() -> None:
    rng = np.random.default_rng(0)
    x = ad.from_numpy(rng.normal(size=(6, 2, 4))).requires_grad_()
    loss = F.ctc_loss(F.log_softmax(x, 2), ad.tensor([[1, 2], [3, 3]]), [6, 5], [2, 2])
    (grad,) = ad.autograd.grad(loss, x)
    assert np.abs(grad.numpy()).max() > 1e-3
    assert np.allclose(grad.sum(2).numpy(), 0)
    assert np.allclose(grad[5, 1].numpy(), 0)  # after its last step


def test_ctc_loss_of_an_impossible_text() -> None:
    x = F.log_softmax(ad.ones(2, 1, 3, dtype=ad.float64), 2).requires_grad_()
    given = (ad.tensor([[1, 1]]), [2], [2])  # needs a blank between, so three steps
    assert F.ctc_loss(x, *given).item() == np.inf
    zero = F.ctc_loss(x, *given, zero_infinity=True)
    assert zero.item() == 0
    (grad,) = ad.autograd.grad(zero, x)
    assert not grad.numpy().any()


def test_ctc_loss_traces_with_lengths_in_tensors() -> None:
    x = F.log_softmax(ad.from_numpy(np.random.default_rng(0).normal(size=(4, 2, 3))), 2)
    for targets in (ad.tensor([[1, 2], [2, 1]]), ad.tensor([1, 2, 2])):
        given = (targets, ad.tensor([4, 3]), ad.tensor([2, 1]))
        graph = ad.trace(F.ctc_loss, x, *given)
        assert np.allclose(graph(x, *given).item(), F.ctc_loss(x, *given).item())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: F.cross_entropy(x, ad.tensor([0, 3])), "class 3, and there are 3"),
        (lambda x: F.cross_entropy(x, ad.tensor([0, -1])), "class -1"),
        (lambda x: F.cross_entropy(x, ad.tensor([0, 1, 2])), "takes 2"),
        (lambda x: F.cross_entropy(x, x[:, :2]), "shapes must agree"),
        (lambda x: F.cross_entropy(x, x, ignore_index=1), "no class to ignore"),
        (lambda x: F.cross_entropy(x, ad.tensor([0, 1]), label_smoothing=2.0), "use 0 to 1"),
        (lambda x: F.cross_entropy(x, ad.tensor([0, 1]), x[0, :2]), "each of 3 classes"),
        (lambda x: F.nll_loss(x, x[:, 0]), "integer dtype"),
        (lambda x: F.mse_loss(x, x, reduction="average"), "use 'mean', 'sum' or 'none'"),
        (lambda x: ad.ops.mse_loss(x, x, 3), "0 \\(none\\)"),
        (lambda x: F.binary_cross_entropy(x * 9, x), "between 0 and 1"),
        (lambda x: F.binary_cross_entropy(x, x[0]), "shapes must agree"),
        (lambda x: F.binary_cross_entropy_with_logits(x, x[0]), "shapes must agree"),
        (lambda x: F.huber_loss(x, x, delta=0.0), "positive"),
        (lambda x: F.smooth_l1_loss(x, x, beta=-1.0), "negative"),
        (lambda x: F.multi_margin_loss(x, ad.tensor([0, 1]), p=3), "1 or 2"),
        (lambda x: F.multilabel_margin_loss(x, ad.tensor([0, 1])), "shapes must agree"),
        (lambda x: F.cosine_embedding_loss(x, x, ad.tensor(1)), "one target each"),
        (lambda x: F.triplet_margin_loss(x, x, x, margin=0.0), "positive"),
        (lambda x: F.ctc_loss(x[:, None], ad.tensor([[1]]), [3], [1]), "between 0 and 2"),
        (lambda x: F.ctc_loss(x[:, None], ad.tensor([[1]]), [2], [2]), "do not fit"),
    ],
)
def test_loss_errors(call: Callable[[ad.Tensor], ad.Tensor], message: str) -> None:
    x = double([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    with pytest.raises(ad.AdjointError, match=message):
        call(x)


@pytest.mark.parametrize("dtype", [ad.uint8, ad.int32])
def test_classes_of_every_integer_dtype(dtype: ad.DType) -> None:
    x, w = double([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]), double([1.0, 2.0, 3.0])
    for loss in (F.cross_entropy, F.multi_margin_loss):
        step = ad.vmap(
            ad.grad(lambda x, w, t, loss=loss: loss(x, t, weight=w), (0, 1)), (0, None, 0)
        )
        given, usual = (step(x, w, ad.tensor([2, 1], dtype=d)) for d in (dtype, ad.int64))
        assert all(np.allclose(a.numpy(), b.numpy()) for a, b in zip(given, usual, strict=True))


def test_linear_cross_entropy_some_samples_at_a_time_gives_what_all_give() -> None:
    draw = np.random.default_rng(3)
    x, w, b = (ad.from_numpy(draw.standard_normal(s)) for s in ((7, 3), (5, 3), (5,)))
    x, w, b = (t.requires_grad_() for t in (x, w, b))
    weight = ad.tensor([0.5, 1.0, 2.0, 0.25, 1.5], dtype=ad.float64)
    target = ad.tensor([0, 4, 2, 2, 1, 3, 4])
    for reduction in ("mean", "sum", "none"):
        found = []
        for method in (None, 2, 3, "aspect_ratio:2"):
            size = method if isinstance(method, int) else None
            how = "auto" if size else method
            options = ad.nn.LinearCrossEntropyOptions(batch_chunk_size=size, chunking_method=how)
            loss = ad.nn.functional.linear_cross_entropy(
                x, w, target, linear_bias=b, weight=weight, reduction=reduction, ignore_index=2,
                options=options if method else None,
            )  # fmt: skip
            found.append((loss, *ad.autograd.grad(loss.sum(), (x, w, b))))
        for other in found[1:]:
            for one, another in zip(found[0], other, strict=True):
                np.testing.assert_allclose(one.detach(), another.detach(), atol=1e-13)


def test_linear_cross_entropy_never_holds_all_scores() -> None:
    draw = np.random.default_rng(3)
    x, w = (ad.from_numpy(draw.standard_normal(s)).requires_grad_() for s in ((512, 4), (2000, 4)))
    target = ad.from_numpy(draw.integers(0, 2000, 512))
    options = ad.nn.LinearCrossEntropyOptions(batch_chunk_size=16)
    tracemalloc.start()
    ad.nn.functional.linear_cross_entropy(x, w, target, options=options).backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 512 * 2000 * 8 / 8


def test_linear_cross_entropy_refuses_what_does_not_fit() -> None:
    loss, x, w = ad.nn.functional.linear_cross_entropy, ad.ones(3, 2), ad.ones(4, 2)
    target = ad.tensor([0, 1, 2])
    with pytest.raises(ShapeError, match="features"):
        loss(x, ad.ones(4, 3), target)
    with pytest.raises(ShapeError, match="linear_bias"):
        loss(x, w, target, linear_bias=ad.ones(3))
    both = ad.nn.LinearCrossEntropyOptions(batch_chunk_size=3, chunking_method="aspect_ratio:2")
    with pytest.raises(ArgumentError, match="disagree"):
        loss(x, w, target, options=both)
    with pytest.raises(IndexOutOfRange, match="class 9"):
        loss(x, w, ad.tensor([0, 9, 2]), options=ad.nn.LinearCrossEntropyOptions())


def test_margin_losses_need_classes() -> None:
    for many, loss in enumerate((F.multi_margin_loss, F.multilabel_margin_loss)):
        with pytest.raises(ShapeError, match="no classes"):
            loss(ad.zeros(2, 0), ad.zeros(2, *(0,) * many, dtype=ad.int64))
    none = F.multi_margin_loss(ad.zeros(0, 3), ad.zeros(0, dtype=ad.int64), reduction="none")
    assert none.shape == (0,)  # the batch may be empty


def test_the_margin_loss_of_one_sample_has_the_shape_of_its_target() -> None:
    scores = ad.tensor([0.1, 0.4, 0.2])
    for target in (ad.tensor(1), ad.tensor([1])):
        found = F.multi_margin_loss(scores, target, reduction="none")
        assert found.shape == target.shape
        assert F.multi_margin_loss(scores, target).shape == ()


def test_ctc_needs_probabilities() -> None:
    none = ad.zeros(0, dtype=ad.int64)
    with pytest.raises(ShapeError, match="no elements"):
        F.ctc_loss(ad.zeros(0, 0, 4), none, none, none, reduction="none")


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
@pytest.mark.parametrize("compiled", [False, True])
def test_losses_in_halves_are_rounded_once(dtype: ad.DType, compiled: bool) -> None:
    def value_and_slopes(x: ad.Tensor) -> list[ad.Tensor]:
        half = ad.full_like(x, 0.75)
        losses = (
            lambda x: F.kl_div(x, half, reduction="none"),
            lambda x: F.poisson_nll_loss(x, 2 * half, reduction="none"),
            lambda x: F.gaussian_nll_loss(half, 3 * half, x, reduction="none"),
            lambda x: F.multilabel_soft_margin_loss(x[:, None], half[:, None], reduction="none"),
        )
        return [g(x) for f in losses for g in (f, ad.grad(lambda x, f=f: f(x).sum()))]

    x = ad.tensor([0.28125, 0.404296875, 1.3828125, 2.0], dtype=dtype)
    found = (ad.compile(value_and_slopes) if compiled else value_and_slopes)(x)
    for result, exact in zip(found, value_and_slopes(x.double()), strict=True):
        assert result.dtype == dtype
        assert ad.equal(result, exact.to(dtype))


def test_losses_of_two_halves_are_float32() -> None:
    x, t = ad.ones(2, dtype=ad.float16), ad.zeros(2, dtype=ad.bfloat16)
    assert F.mse_loss(x, t).dtype == F.kl_div(x, t).dtype == ad.float32

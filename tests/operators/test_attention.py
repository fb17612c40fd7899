"""Attention: blocks, masks, dropout, packed sequences, memory, layers, and derivatives of them."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.c_kernels import attention as native
from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError, ValueRangeError
from adjoint.kernels import attention as kernels
from adjoint.nn import functional
from adjoint.testing.references import attention as reference

draw = np.random.default_rng(7)


def normal(*shape: int, dtype: Any = np.float64) -> ad.Tensor:
    return ad.from_numpy(draw.standard_normal(shape).astype(dtype))


def variables(*shapes: tuple[int, ...]) -> list[ad.Tensor]:
    return [normal(*shape).requires_grad_() for shape in shapes]


def gradients(f: Any, *tensors: ad.Tensor) -> list[Any]:
    return [g.numpy() for g in ad.autograd.grad(f(*tensors).sin().sum(), tensors)]


# --- blocks ---------------------------------------------------------------------------------------


@pytest.fixture
def without_native(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's blocks, as on a machine without a C compiler."""
    monkeypatch.setattr(native.AttentionCall, "forward", lambda *_: False)
    monkeypatch.setattr(native.AttentionCall, "backward", lambda *_: False)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch, without_native: None) -> None:
    """Blocks of a few queries and keys, so that small tensors have many."""
    monkeypatch.setattr(kernels, "KEYS", 3)
    monkeypatch.setattr(kernels, "BLOCK", 6)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("masked", [False, True])
def test_many_blocks_give_what_one_gives(masked: bool) -> None:
    q, k, v, g = (draw.standard_normal(s) for s in ((2, 5, 2), (2, 8, 2), (2, 8, 3), (2, 5, 3)))
    bias = draw.standard_normal((5, 8)) if masked else None
    starts = np.array([0, 0, 4, 8, 2]) if masked else None
    ends = np.array([1, 7, 5, 8, 8]) if masked else None
    coins = draw.integers(0, 2**32, (2, 5)) if masked else None
    rest = (bias, starts, ends, coins, 0.3, 0.6)
    output, sums = kernels.attention(q, k, v, *rest)
    wanted = (True, True, True, masked)
    found = kernels.attention_backward(
        g, q, k, v, bias, starts, ends, coins, output, sums, 0.3, 0.6, wanted
    )
    expected = reference.attention(q, k, v, *rest)
    np.testing.assert_allclose(output, expected[0], atol=1e-12)
    np.testing.assert_allclose(sums, expected[1], atol=1e-12)
    slopes = reference.attention_backward(
        g, q, k, v, bias, starts, ends, coins, None, None, 0.3, 0.6, wanted
    )
    for a, b in zip(found, slopes, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.usefixtures("small_blocks")
def test_large_scores_do_not_overflow_between_blocks() -> None:
    q = ad.tensor([[1000.0], [-1000.0]])
    k = ad.tensor([[-1.0], [0.0], [1.0], [0.5], [2.0]])
    found = ad.ops.scaled_dot_product_attention(q, k, k, scale=1.0)
    np.testing.assert_array_equal(found.numpy(), [[2.0], [-1.0]])


@pytest.mark.usefixtures("without_native")
def test_batches_are_worked_on_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "BLOCK", 40)
    q, k, v = variables((5, 4, 2, 3), (5, 1, 3, 3), (4, 3, 3))

    def f(*tensors: ad.Tensor) -> ad.Tensor:
        return ad.ops.scaled_dot_product_attention(*tensors)

    def products(*tensors: ad.Tensor) -> ad.Tensor:
        return ad.ops._scaled_dot_product_attention_math(*tensors)[0]

    for a, b in zip(gradients(f, q, k, v), gradients(products, q, k, v), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def both_ways(*arguments: Any, backward: bool = False) -> list[list[Any]]:
    """What native code and NumPy make of the same arguments."""
    run = kernels.attention_backward if backward else kernels.attention
    found = [list(run(*arguments))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native.AttentionCall, "forward", lambda *_: False)
        patch.setattr(native.AttentionCall, "backward", lambda *_: False)
        found.append(list(run(*arguments)))
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("masks", ["none", "numbers", "truth", "bounds", "coins"])
def test_native_blocks_give_what_numpys_give(dtype: Any, masks: str) -> None:
    """More than one block of queries and of keys, widths that are no whole number of vectors."""
    shapes = ((2, 3, 150, 7), (2, 3, 300, 7), (3, 300, 35), (2, 3, 150, 35))
    q, k, v, g = (draw.standard_normal(s).astype(dtype) for s in shapes)
    v = np.ascontiguousarray(np.broadcast_to(v, (2, 3, 300, 35)))
    k = k.transpose(1, 0, 2, 3).copy().transpose(1, 0, 2, 3)  # heads outside the batch
    bias = starts = ends = coins = None
    if masks == "numbers":
        bias = draw.standard_normal((3, 1, 300)).astype(dtype)
    elif masks == "truth":
        bias = draw.random((2, 1, 150, 300)) > 0.7
        bias[1, 0, 5] = False
    elif masks == "bounds":
        starts, ends = np.arange(150), np.arange(150) * 2 - 20
    elif masks == "coins":
        coins = draw.integers(0, 2**32, (2, 3, 150))
    rest = (bias, starts, ends, coins, 0.3 if masks == "coins" else 0.0, 0.4)
    ours, numpys = both_ways(q, k, v, *rest)
    tolerance = {"rtol": 2e-5, "atol": 2e-5} if dtype is np.float32 else {"atol": 1e-12}
    for a, b in zip(ours, numpys, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)
    arguments = (g, q, k, v, *rest[:4], *numpys, *rest[4:], (True, True, True, False))
    ours, numpys = both_ways(*arguments, backward=True)
    for a, b in zip(ours, numpys, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


def test_native_exponentials_are_accurate_and_keep_nan() -> None:
    for dtype, most in ((np.float32, 2e-7), (np.float64, 4e-16)):
        scores = np.linspace(-40, 0, 2001).astype(dtype)
        value = np.eye(2001, dtype=dtype)
        one = np.ones((1, 1), dtype)
        weights, _ = kernels.attention(one, scores[:, None], value, None, None, None, None, 0, 1.0)
        exact = np.exp(scores.astype(np.longdouble))
        exact /= exact.sum()
        error = np.abs(weights[0] / exact - 1)
        assert error.max() < 40 * most
        scores[7] = np.nan
        found, _ = kernels.attention(one, scores[:, None], value, None, None, None, None, 0, 1.0)
        assert np.isnan(found).all()


def test_memory_is_that_of_inputs_and_outputs() -> None:
    shape = (2, 2048, 32)
    q, k, v = (normal(*shape, dtype=np.float32).requires_grad_() for _ in range(3))
    grad = normal(*shape, dtype=np.float32)
    tracemalloc.start()
    output = ad.ops.scaled_dot_product_attention(q, k, v, is_causal=True)
    output.backward(grad)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    one = math.prod(shape) * 4
    assert peak < 2 * 8 * one - 4 * one, "all but q, k, v and the cotangent were made meanwhile"
    assert peak < 2 * 2048 * 2048 * 4 / 4, "a matrix of all scores has more"


# --- masks ----------------------------------------------------------------------------------------


def test_queries_without_keys_give_zeros_and_no_gradient() -> None:
    q, k, v = variables((3, 2), (4, 2), (4, 2))
    hidden = ad.ones(3, 4, dtype=ad.bool)
    hidden[1] = False
    for mask in (hidden, ad.zeros(3, 4, dtype=ad.float64).masked_fill(~hidden, -math.inf)):
        out = ad.ops.scaled_dot_product_attention(q, k, v, mask)
        assert (out[1] == 0).all()
        for g in ad.autograd.grad(out.square().sum(), (q, k, v), create_graph=True):
            assert ad.isfinite(g).all()
        assert (ad.autograd.grad(out.sum(), q)[0][1] == 0).all()


def test_causal_and_a_mask_are_both_applied() -> None:
    q, k, v = normal(3, 2), normal(3, 2), normal(3, 2)
    mask = ad.tensor([[True, True, True], [False, True, True], [True, True, False]])
    both = mask & ad.ones(3, 3, dtype=ad.bool).tril()
    found = ad.ops.scaled_dot_product_attention(q, k, v, mask, 0.0, True)
    expected = ad.ops.scaled_dot_product_attention(q, k, v, both)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-14)


def test_a_mask_of_float32_goes_with_float16() -> None:
    q, k, v = (normal(3, 4, dtype=np.float16) for _ in range(3))
    found = ad.ops.scaled_dot_product_attention(q, k, v, normal(3, 3, dtype=np.float32))
    assert found.dtype is ad.float16


# --- dropout --------------------------------------------------------------------------------------


def test_dropout_keeps_the_mean_and_the_backward_its_mask() -> None:
    q, k = variables((1, 1, 2), (1, 4000, 2))
    ones = ad.ones(1, 4000, 1, dtype=ad.float64).requires_grad_()
    ad.manual_seed(1)
    mean = ad.ops.scaled_dot_product_attention(q * 0, k, ones, dropout_p=0.25)
    assert abs(mean.item() - 1) < 0.03
    (kept,) = ad.autograd.grad(mean.sum(), ones)
    shares = kept.numpy().ravel() * 4000
    assert set(np.round(shares, 9)) == {0.0, round(4 / 3, 9)}
    assert abs((shares > 0).mean() - 0.75) < 0.03
    assert abs(mean.item() - shares.mean()) < 1e-12


def test_dropout_of_everything_is_zero() -> None:
    q, k, v = variables((3, 2), (4, 2), (4, 2))
    out = ad.ops.scaled_dot_product_attention(q, k, v, dropout_p=1.0)
    assert (out == 0).all()
    assert all((g == 0).all() for g in gradients(lambda *_: out, q, k, v))


def test_neighbouring_coins_do_not_agree() -> None:
    shape, p = (64, 64), 0.5
    seed = ad.tensor(12345)
    coins = ad.from_numpy(reference.coins(seed.item(), (64,)))
    v = ad.eye(64, dtype=ad.float64)
    kept, _ = ad.ops._attention(
        ad.zeros(*shape, dtype=ad.float64), v, v, None, None, None, coins, p, 1.0
    )
    signs = np.where(kept.numpy() > 0, 1.0, -1.0)
    for shift in ((0, 1), (1, 0), (1, 1), (3, 5)):
        agreement = (signs * np.roll(signs, shift, (0, 1))).mean()
        assert abs(agreement) < 0.06


# --- PyTorch's names ------------------------------------------------------------------------------


def test_flash_backward_has_the_mask_of_its_forward() -> None:
    q, k, v = variables((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4))
    for forward, backward, more in (
        ("_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_backward", 0),
        (
            "_scaled_dot_product_fused_attention_overrideable",
            "_scaled_dot_product_cudnn_attention_backward",
            1,
        ),
    ):
        if more:
            made = getattr(ad.ops, forward)(q, k, v, None, 0.5, True)
        else:
            made = getattr(ad.ops, forward)(q, k, v, 0.5, True)
        out, sums, cum_q, cum_k, max_q, max_k, seed, offset, _ = made
        assert (max_q, max_k) == (3, 5)
        grad = normal(*out.shape)
        expected = ad.autograd.grad(out, (q, k, v), grad)
        none = ad.zeros(0)
        if more:
            found = getattr(ad.ops, backward)(
                grad, q, k, v, out, sums.unsqueeze(-1), seed, offset, none, cum_q, cum_k, 3, 5,
                0.5, True,
            )  # fmt: skip
        else:
            found = getattr(ad.ops, backward)(
                grad, q, k, v, out, sums, cum_q, cum_k, 3, 5, 0.5, True, seed, offset
            )
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.numpy(), atol=1e-12)


def test_packed_sequences_are_sequences_on_their_own() -> None:
    q, k, v = normal(7, 2, 3), normal(9, 2, 3), normal(9, 2, 3)
    starts, places = (ad.tensor(x, dtype=ad.int32) for x in ([0, 2, 2, 7], [0, 3, 4, 9]))
    for causal in (False, True):
        out, sums, *_ = ad.ops._flash_attention_forward(
            q, k, v, starts, places, 5, 5, 0.0, causal, False
        )
        assert sums.shape == (2, 7)
        for a, b, c, d in ((0, 2, 0, 3), (2, 7, 4, 9)):
            parts = [x.transpose(0, 1) for x in (q[a:b], k[c:d], v[c:d])]
            lower = ad.ones(b - a, d - c, dtype=ad.bool).tril(d - c - b + a)
            alone = ad.ops.scaled_dot_product_attention(*parts, lower if causal else None)
            np.testing.assert_allclose(out[a:b].transpose(0, 1).numpy(), alone.numpy(), atol=1e-12)


def test_windows_and_used_keys_are_masks() -> None:
    q, k, v = normal(2, 4, 1, 3), normal(2, 6, 1, 3), normal(2, 6, 1, 3)
    out = ad.ops._flash_attention_forward(
        q, k, v, None, None, 4, 6, 0.0, False, False, window_size_left=1, window_size_right=2,
        seqused_k=ad.tensor([5, 6]),
    )[0]  # fmt: skip
    mask = np.zeros((2, 1, 4, 6), np.bool_)
    for b, used in enumerate((5, 6)):
        for i in range(4):
            middle = i + used - 4
            mask[b, 0, i, max(middle - 1, 0) : min(middle + 3, used)] = True
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    expected = ad.ops.scaled_dot_product_attention(q, k, v, ad.from_numpy(mask)).transpose(1, 2)
    np.testing.assert_allclose(out.numpy(), expected.numpy(), atol=1e-12)


def test_efficient_logsumexp_has_room_for_a_multiple_of_32_queries() -> None:
    q = normal(1, 2, 5, 3)
    made = ad.ops._scaled_dot_product_efficient_attention(q, q, q, None, True)
    assert made.log_sumexp.shape == (1, 2, 32)
    assert (made.log_sumexp[..., 5:] == math.inf).all()
    assert ad.ops._scaled_dot_product_efficient_attention(q, q, q, None, False)[1].shape == (
        1,
        2,
        0,
    )


def test_a_backward_refuses_what_does_not_belong_to_it() -> None:
    q, k = normal(2, 3, 4), normal(2, 5, 4)
    out, sums = ad.ops._attention(q, k, k, None, None, None, None, 0.0, 0.5)
    rest = (0.0, 0.5, (True, True, True, False))
    for grad, output, logarithms, words in (
        (out[:, :2], out, sums, "grad must be 2×3×4"),
        (out, out[..., :2], sums, "output must be 2×3×4"),
        (out, out, sums[:, :1], "logsumexp must be 2×3"),
        (out, out, ad.ones(7, 2, 3), "do not broadcast|logsumexp must be 2×3"),
    ):
        with pytest.raises(ShapeError, match=words):
            ad.ops._attention_backward(
                grad, q, k, k, None, None, None, None, output, logarithms, *rest
            )
    single = ad.ops._attention_backward(
        out.to(ad.float32), q, k, k, None, None, None, None, out, sums.to(ad.float32), *rest
    )
    double = ad.ops._attention_backward(out, q, k, k, None, None, None, None, out, sums, *rest)
    for a, b in zip(single, double, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-5)


def test_fused_sdp_choice_is_that_of_pytorch() -> None:
    q, v = normal(1, 2, 3, 4), normal(1, 2, 3, 5)
    choice = ad.ops._fused_sdp_choice
    assert (choice(q, q, q), choice(q, q, v), choice(q[0], q[0], q[0])) == (1, 0, 0)
    assert choice(q, q, q, dropout_p=0.1) == 0


# --- derivatives ----------------------------------------------------------------------------------


# --- layers ---------------------------------------------------------------------------------------


# --- errors ---------------------------------------------------------------------------------------


def test_operands_that_do_not_fit_are_refused() -> None:
    attend = ad.ops.scaled_dot_product_attention
    x = normal(2, 3, 4)
    for call, error, words in (
        (lambda: attend(x, normal(2, 3, 5), x), ShapeError, "as many features"),
        (lambda: attend(x, x, normal(2, 5, 4)), ShapeError, "each key needs a value"),
        (lambda: attend(x[0, 0], x, x), ShapeError, "two dimensions"),
        (lambda: attend(x, normal(3, 3, 4), normal(3, 3, 4)), ShapeError, "do not broadcast"),
        (lambda: attend(x, x.to(ad.float32), x), DtypeError, "convert one"),
        (lambda: attend(x.long(), x.long(), x.long()), DtypeError, "floating point"),
        (lambda: attend(x, x, x, ad.ones(3, 4)), ShapeError, "3×3"),
        (lambda: attend(x, x, x, ad.ones(3, 3).long()), DtypeError, "booleans"),
        (lambda: attend(x, x, x, dropout_p=1.5), ValueRangeError, "probability"),
        (lambda: attend(normal(3, 3, 4), x, x, enable_gqa=True), ShapeError, "multiple"),
        (
            lambda: ad.ops._scaled_dot_product_flash_attention_for_cpu(x, x, x, 0.5),
            ValueRangeError,
            "no dropout",
        ),
        (
            lambda: ad.ops._flash_attention_forward(x, x, x, None, None, 3, 3, 0.0, False, False),
            ShapeError,
            "packed",
        ),
        (
            lambda: ad.ops._flash_attention_forward(
                x, x, x, ad.tensor([0, 2]), ad.tensor([2]), 3, 3, 0.0, False, False
            ),
            ShapeError,
            "2 and 1 numbers",
        ),
        (
            lambda: ad.ops._efficient_attention_forward(
                x, x, x, None, ad.tensor([0, 2]), None, 3, 3, 0.0, 0
            ),
            ValueRangeError,
            "both queries and keys",
        ),
        (lambda: ad.ops._fused_sdp_choice(x, x, x, out=x), ArgumentError, "is a number"),
        (
            lambda: functional.multi_head_attention_forward(
                x, x, x, 4, 3, None, None, None, None, False, 0.0, x, None
            ),
            ShapeError,
            "heads",
        ),
        (
            lambda: functional.multi_head_attention_forward(
                x, x, x, 4, 2, None, None, None, None, False, 0.0, x, None
            ),
            ArgumentError,
            "in_proj_weight",
        ),
    ):
        with pytest.raises(error, match=words):
            call()


@pytest.mark.parametrize("mask", ["none", "causal", "truth", "numbers"])
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_compiled_attention_of_long_sequences_keeps_no_scores(mask: str, dtype: ad.DType) -> None:
    draw = np.random.default_rng(0)
    shapes = ((2, 3, 120, 8), (2, 3, 90, 8), (2, 3, 90, 5))
    q, k, v = (ad.tensor(draw.standard_normal(s)).to(dtype) for s in shapes)
    given = {
        "truth": ad.tensor(draw.random((120, 90)) > 0.3),
        "numbers": ad.tensor(draw.standard_normal((3, 120, 90))).to(dtype),
    }.get(mask)

    def loss(q: ad.Tensor, k: ad.Tensor, v: ad.Tensor) -> ad.Tensor:
        mixed = ad.nn.functional.scaled_dot_product_attention(
            q.mT.contiguous().mT, k, v, given, is_causal=mask == "causal"
        )
        return mixed.sin().sum()

    step = ad.value_and_grad(loss, argnums=(0, 1, 2))
    compiled = ad.compile(step)
    for got, expected in zip(
        pytrees.leaves(compiled(q, k, v)), pytrees.leaves(step(q, k, v)), strict=True
    ):
        np.testing.assert_allclose(
            got, expected, rtol=1e-3 if dtype is ad.float32 else 1e-9, atol=1e-5
        )
    assert "by attend_backward" in str(compiled.lower(q, k, v))

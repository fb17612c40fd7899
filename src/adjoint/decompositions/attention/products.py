"""PyTorch's names of scaled dot product attention, in terms of `_attention`.

Tensors are (…, heads, sequence, features). Besides the output each name has its own results; the
computation is the same, in blocks. A causal mask starts in the upper left corner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import attention as geometry
from adjoint.core import dtypes
from adjoint.core.errors import ValueRangeError
from adjoint.decompositions.attention.scores import (
    INFINITY,
    coins_of,
    kept_of,
    new_seed,
    scores_of,
    weights_of,
)
from adjoint.decompositions.halves import wide

Tensor = Any

PAD = 32  # PyTorch's efficient attention has room for a multiple of so many queries in logsumexp
MATH, FLASH = 0, 1  # PyTorch's numbers of implementations


def causal_ends(query: Tensor, is_causal: bool) -> Tensor | None:
    """Query i has the keys up to i."""
    return ops.arange(1, query.shape[-2] + 1) if is_causal else None


def forward(
    what: str,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    seed: Tensor,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor]:
    """The output, and logsumexp."""
    geometry.check_dropout(what, dropout_p)
    geometry.check(what, query, key, value)
    return ops._attention(
        query, key, value, bias, None, causal_ends(query, is_causal),
        coins_of(seed, query.shape[:-1], dropout_p), dropout_p, geometry.scale_of(query, scale),
    )  # fmt: skip


def backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    output: Tensor,
    logsumexp: Tensor,
    seed: Tensor,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """The gradients of query, key, value and bias that are wanted.

    Where PyTorch's schema has a tensor that may be undefined, an empty one stands for it.
    """
    bias = None if bias is not None and tuple(bias.shape) == (0,) else bias
    wanted = tuple(wanted)
    if bias is None or not bias.dtype.is_floating_point:
        wanted = (*wanted[:3], False)
    found = ops._attention_backward(
        grad, query, key, value, bias, None, causal_ends(query, is_causal),
        coins_of(seed, query.shape[:-1], dropout_p), output, logsumexp, dropout_p,
        geometry.scale_of(query, scale), wanted,
    )  # fmt: skip
    return tuple(gradient if needed else None for gradient, needed in zip(found, wanted))


# --- the function ---------------------------------------------------------------------------------


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    """softmax(scale Q Kᵀ + mask) V; with `enable_gqa`, groups of query heads share a key head."""
    what = "scaled_dot_product_attention"
    geometry.check(what, query, key, value)
    groups = geometry.groups(what, query, key, value) if enable_gqa else 1
    geometry.check_dropout(what, dropout_p)
    if attn_mask is not None:
        geometry.check_bias(what, attn_mask, query.shape[-2], key.shape[-2])
    coins = coins_of(new_seed(dropout_p), query.shape[:-1], dropout_p) if dropout_p else None
    if groups > 1:
        query, key, value, attn_mask, coins = _grouped(query, key, value, attn_mask, coins)
    output, _ = ops._attention(
        query, key, value, attn_mask, None, causal_ends(query, is_causal), coins, dropout_p,
        geometry.scale_of(query, scale),
    )  # fmt: skip
    return output.flatten(-4, -3) if groups > 1 else output


def _grouped(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, coins: Tensor | None
) -> tuple[Any, ...]:
    """Query heads in one more dimension, along which keys and values are repeated."""
    heads = key.shape[-3]
    query = query.unflatten(-3, (heads, -1))
    if mask is not None and mask.ndim > 2:
        mask = mask.unsqueeze(-3) if mask.shape[-3] == 1 else mask.unflatten(-3, (heads, -1))
    coins = None if coins is None else coins.unflatten(-2, (heads, -1))
    return query, key.unsqueeze(-3), value.unsqueeze(-3), mask, coins


def attention_math(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    dropout_mask: Tensor | None,
    scale: float | None,
    enable_gqa: bool,
) -> tuple[Tensor, Tensor]:
    """The output, and the weights of all queries and keys; a True in `dropout_mask` keeps one."""
    what = "_scaled_dot_product_attention_math"
    geometry.check_dropout(what, dropout_p)
    geometry.check(what, query, key, value)
    if enable_gqa:
        groups = geometry.groups(what, query, key, value)
        key, value = (x.repeat_interleave(groups, -3) for x in (key, value))
    ends = causal_ends(query, is_causal)
    factor = geometry.scale_of(query, scale)
    scores = scores_of(query, key, attn_mask, None, ends, factor)
    weights = weights_of(scores, attn_mask, None, ends)
    if dropout_p and dropout_mask is not None:
        weights = weights.masked_fill(dropout_mask.logical_not(), 0)
        value = wide(value) * (1 / (1 - dropout_p))
    elif dropout_p:
        weights = ops.dropout(weights, dropout_p, True)
    return weights.matmul(wide(value)).to(query.dtype), weights.to(query.dtype)


def fused_sdp_choice(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> int:
    """PyTorch's number: 1 where its CPU computes in blocks, else 0. Here blocks are always used."""
    geometry.check("_fused_sdp_choice", query, key, value)
    features = {x.shape[-1] for x in (query, key, value)}
    usual = query.ndim == key.ndim == value.ndim == 4 and len(features) == 1
    some = query.shape[-2] > 0 and key.shape[-2] > 0
    fixed = attn_mask is None or not attn_mask.requires_grad
    return FLASH if usual and some and fixed and dropout_p == 0 else MATH


# --- PyTorch's implementations --------------------------------------------------------------------


def flash_for_cpu(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Tensor | None,
    scale: float | None,
) -> tuple[Tensor, Tensor]:
    """The output, and logsumexp. Without a seed among its results it cannot drop anything."""
    what = "_scaled_dot_product_flash_attention_for_cpu"
    _without_dropout(what, dropout_p)
    mask = None if attn_mask is None else attn_mask.detach()
    return forward(what, query, key, value, mask, new_seed(0), 0.0, is_causal, scale)


def flash_for_cpu_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Tensor | None,
    scale: float | None,
) -> tuple[Tensor | None, ...]:
    """The gradients of query, key and value."""
    _without_dropout("_scaled_dot_product_flash_attention_for_cpu_backward", dropout_p)
    return backward(
        grad_out, query, key, value, attn_mask, output, logsumexp, new_seed(0), 0.0, is_causal,
        scale, (True, True, True, False),
    )[:3]  # fmt: skip


def _without_dropout(what: str, dropout_p: float) -> None:
    if dropout_p != 0:
        raise ValueRangeError(
            f"{what}(dropout_p={dropout_p}): it has no dropout, as in PyTorch; use "
            "scaled_dot_product_attention."
        )


def flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    scale: float | None,
) -> tuple[Any, ...]:
    """The output, logsumexp, no offsets, the lengths, the seed, and weights to look at."""
    seed = new_seed(dropout_p)
    what = "_scaled_dot_product_flash_attention"
    output, sums = forward(what, query, key, value, None, seed, dropout_p, is_causal, scale)
    seen = query.new_zeros((0,))
    if return_debug_mask:
        seen = debug_mask(query, key, seed, dropout_p, is_causal, scale)
    state, unused = flash_state(seed)
    none = no_offsets()
    return output, sums, none, none, query.shape[-2], key.shape[-2], state, unused, seen


def no_offsets() -> Tensor:
    """Where sequences of several lengths would start, if there were any."""
    return ops.zeros((0,), dtype=dtypes.int32)


def flash_state(seed: Tensor) -> tuple[Tensor, Tensor]:
    """The state of random numbers as flash attention returns it: seed and offset, and a spare."""
    zero = ops.zeros((), dtype=dtypes.int64)
    return ops.stack([seed, zero]), zero


def debug_mask(
    query: Tensor, key: Tensor, seed: Tensor, dropout_p: float, is_causal: bool, scale: float | None
) -> Tensor:
    """The weights, negative where they are dropped."""
    ends, factor = causal_ends(query, is_causal), geometry.scale_of(query, scale)
    scores = scores_of(query.detach(), key.detach(), None, None, ends, factor)
    weights = weights_of(scores, None, None, ends)
    coins = coins_of(seed, query.shape[:-1], dropout_p)
    kept = kept_of(coins, dropout_p, key.shape[-2], weights.dtype)
    shown = weights if kept is None else ops.where(kept == 0, -weights, weights)
    return shown.to(query.dtype)


def flash_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Tensor,
    philox_offset: Tensor,
    scale: float | None,
) -> tuple[Tensor | None, ...]:
    """The gradients of query, key and value."""
    return backward(
        grad_out, query, key, value, None, output, logsumexp, first_of(philox_seed), dropout_p,
        is_causal, scale, (True, True, True, False),
    )[:3]  # fmt: skip


def first_of(seed: Tensor) -> Tensor:
    """The seed in a state of one or two numbers."""
    return seed.select(0, 0) if seed.ndim else seed


def efficient(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, ...]:
    """The output, logsumexp with room for a multiple of 32 queries, the seed and its offset."""
    seed = new_seed(dropout_p)
    what = "_scaled_dot_product_efficient_attention"
    output, sums = forward(what, query, key, value, attn_bias, seed, dropout_p, is_causal, scale)
    return output, padded(sums, compute_log_sumexp), seed, ops.zeros((), dtype=dtypes.int64)


def padded(sums: Tensor, wanted: bool) -> Tensor:
    """logsumexp up to a multiple of 32 queries, filled with ∞; empty if it is not wanted."""
    if not wanted:
        return sums.new_zeros((*sums.shape[:-1], 0))
    return ops.constant_pad_nd(sums, (0, -sums.shape[-1] % PAD), INFINITY)


def efficient_backward(
    grad_out_: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    output: Tensor,
    logsumexp: Tensor,
    philox_seed: Tensor,
    philox_offset: Tensor,
    dropout_p: float,
    grad_input_mask: Sequence[bool],
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor | None, ...]:
    """The gradients of query, key, value and bias that are wanted."""
    return backward(
        grad_out_, query, key, value, attn_bias, output, logsumexp[..., : query.shape[-2]],
        philox_seed, dropout_p, is_causal, scale, grad_input_mask,
    )  # fmt: skip


# --- vendors' -------------------------------------------------------------------------------------


def overrideable(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    scale: float | None,
) -> tuple[Any, ...]:
    """Like flash attention, with a bias; seed and offset are separate results."""
    seed = new_seed(dropout_p)
    what = "_scaled_dot_product_fused_attention_overrideable"
    output, sums = forward(what, query, key, value, attn_bias, seed, dropout_p, is_causal, scale)
    seen = query.new_zeros((0,))
    if return_debug_mask:
        seen = debug_mask(query, key, seed, dropout_p, is_causal, scale)
    none, offset = no_offsets(), ops.zeros((), dtype=dtypes.int64)
    return output, sums, none, none, query.shape[-2], key.shape[-2], seed, offset, seen

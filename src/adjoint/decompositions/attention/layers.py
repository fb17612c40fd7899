"""Whole attention layers: projections, heads, attention, and the projection of their results."""

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import show

Tensor = Any

# Masks of `_native_multi_head_attention`: of queries and keys, of keys of each sample, of all.
OF_PAIRS, OF_KEYS, OF_ALL = 0, 1, 2


def transform_bias_rescale_qkv(
    qkv: Tensor, qkv_bias: Tensor, num_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries over √features, keys and values, each (batch, heads, sequence, features)."""
    what = "_transform_bias_rescale_qkv"
    width = qkv.shape[-1]
    if qkv.ndim != 3 or width % (3 * num_heads) or tuple(qkv_bias.shape) != (width,):
        raise ShapeError(
            f"{what}: needs (batch, sequence, 3 · {num_heads} · features) and a bias for each of "
            f"the last, got {show(qkv.shape)} and {show(qkv_bias.shape)}."
        )
    parts = (qkv + qkv_bias).unflatten(-1, (3, num_heads, -1)).permute((2, 0, 3, 1, 4))
    query, key, value = parts.unbind(0)
    return query * (1 / math.sqrt(width // (3 * num_heads))), key, value


def native_multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None,
    need_weights: bool,
    average_attn_weights: bool,
    mask_type: int | None,
) -> tuple[Tensor, Tensor | None]:
    """The layer's output, and its weights if they are wanted; a True in the mask hides a key."""
    what = "_native_multi_head_attention"
    if query.ndim != 3 or query.shape[-1] != embed_dim or embed_dim % num_head:
        raise ShapeError(
            f"{what}: needs a query (batch, sequence, {embed_dim}) and a number of heads that "
            f"divides {embed_dim}, got {show(query.shape)} and {num_head} heads."
        )
    inputs = (query, key, value)
    weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
    projected = [ops.linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True)]
    q, k, v = (x.unflatten(-1, (num_head, -1)).transpose(1, 2) for x in projected)
    allowed = None if mask is None else _allowed(what, mask, mask_type)
    if need_weights:
        output, seen = ops._scaled_dot_product_attention_math(q, k, v, allowed)
        shown = seen.mean((1,)) if average_attn_weights else seen
    else:
        output, shown = ops.scaled_dot_product_attention(q, k, v, allowed), None
    return ops.linear(output.transpose(1, 2).flatten(2), proj_weight, proj_bias), shown


def _allowed(what: str, mask: Tensor, kind: int | None) -> Tensor:
    """True where a key counts, with dimensions for batch, heads, queries and keys."""
    if kind not in (OF_PAIRS, OF_KEYS, OF_ALL):
        raise ValueRangeError(
            f"{what}(mask_type={kind}): 0 is a mask of queries × keys, 1 of batch × keys, 2 of "
            "batch × heads × queries × keys."
        )
    allowed = mask.logical_not()
    return allowed.unsqueeze(1).unsqueeze(1) if kind == OF_KEYS else allowed

"""Attention of several heads with PyTorch's signature: projections, masks, extra keys."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError
from adjoint.core.shapes import show
from adjoint.tensor.tensor import Tensor

WHAT = "multi_head_attention_forward"
INFINITY = float("inf")


class Misfit(ShapeError, ArgumentError, AssertionError):
    """Arguments of attention that do not fit together. Also an AssertionError, as in PyTorch."""


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Project queries, keys and values, attend with several heads, and project the result.

    Sequences are (length, batch, features), or (length, features) without a batch. A mask is of
    booleans, True hiding a key, or of numbers that are added to scores; `key_padding_mask` is for
    the keys of each sample. `bias_k` and `bias_v` are one more key and value, `add_zero_attn` adds
    one of zeros, `static_k` and `static_v` take the place of projected ones. `is_causal` is a hint
    that `attn_mask` is the causal one. The weights come as (batch, queries, keys), averaged over
    heads unless `average_attn_weights` is False, and are None unless `need_weights`.

    >>> import adjoint as ad
    >>> x, w, b = ad.ones(3, 2, 4), ad.ones(12, 4), ad.zeros(12)
    >>> layer = (w, b, None, None, False, 0.0, ad.eye(4), None)
    >>> out, weights = multi_head_attention_forward(x, x, x, 4, 2, *layer)
    >>> out.shape, weights.shape
    ((3, 2, 4), (2, 3, 3))
    """
    has_batch = _check(query, key, value, embed_dim_to_check, num_heads)
    if is_causal and attn_mask is None:
        raise ArgumentError(
            f"{WHAT}(is_causal=True): it is a hint about attn_mask; give the mask as well."
        )
    if not has_batch:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    if use_separate_proj_weight:
        q, k, v = _separate(query, key, value, weights, in_proj_bias)
    else:
        q, k, v = _together(query, key, value, in_proj_weight, in_proj_bias)
    causal = is_causal and key_padding_mask is None and not need_weights
    heads = _Heads(query.shape[1], num_heads, embed_dim_to_check // num_heads)
    mask = None if causal else heads.mask(attn_mask, key_padding_mask, q.shape[0], key.shape[0])
    if bias_k is not None or bias_v is not None:
        k, v = _with_bias(k, v, bias_k, bias_v, static_k, static_v)
        mask = None if mask is None else _one_more(mask)
    q, k, v = (
        heads.split(q),
        heads.given("static_k", static_k, k),
        heads.given("static_v", static_v, v),
    )
    if add_zero_attn:
        zeros = k.new_zeros((*k.shape[:2], 1, k.shape[3]))
        k, v = ops.cat([k, zeros], 2), ops.cat([v, zeros], 2)
        mask = None if mask is None else _one_more(mask)
    p = dropout_p if training else 0.0
    if need_weights:
        mixed, seen = _with_weights(q, k, v, mask, p)
        seen = seen.mean((1,)) if average_attn_weights else seen
    else:
        mixed, seen = ops.scaled_dot_product_attention(q, k, v, mask, p, causal), None
    output = ops.linear(mixed.permute((2, 0, 1, 3)).flatten(2), out_proj_weight, out_proj_bias)
    if not has_batch:
        return output.squeeze(1), None if seen is None else seen.squeeze(0)
    return output, seen


def _check(query: Tensor, key: Tensor, value: Tensor, width: int, heads: int) -> bool:
    """Raise unless the shapes fit together; return whether there is a batch."""
    shapes = ", ".join(show(x.shape) for x in (query, key, value))
    if query.ndim not in (2, 3) or not query.ndim == key.ndim == value.ndim:
        raise Misfit(
            f"{WHAT}: query, key and value must all be (length, batch, features) or all (length, "
            f"features), got {shapes}."
        )
    if query.shape[-1] != width or heads < 1 or width % heads:
        raise Misfit(
            f"{WHAT}: the query must have embed_dim={width} features, a multiple of the number of "
            f"heads, got {show(query.shape)} and {heads} heads."
        )
    if key.shape[:-1] != value.shape[:-1] or query.shape[1:-1] != key.shape[1:-1]:
        raise Misfit(f"{WHAT}: each key needs a value, and all a batch of one size, got {shapes}.")
    return query.ndim == 3


# --- projections ----------------------------------------------------------------------------------


def _together(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, ...]:
    """Projections by one matrix of three parts; equal inputs are projected by one product."""
    if weight is None:
        raise ArgumentError(
            f"{WHAT}: give in_proj_weight, or use_separate_proj_weight=True and three weights."
        )
    if query is key is value:
        return tuple(ops.linear(query, weight, bias).chunk(3, -1))
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    inputs = zip((query, key, value), weight.chunk(3), biases, strict=True)
    return tuple(ops.linear(x, w, b) for x, w, b in inputs)


def _separate(
    query: Tensor, key: Tensor, value: Tensor, weights: tuple[Tensor | None, ...], bias: Any
) -> tuple[Tensor, ...]:
    """Projections by three matrices; keys and values may have features of their own."""
    if any(w is None for w in weights):
        raise ArgumentError(
            f"{WHAT}(use_separate_proj_weight=True): give q_proj_weight, k_proj_weight and "
            "v_proj_weight."
        )
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    inputs = zip((query, key, value), weights, biases, strict=True)
    return tuple(ops.linear(x, w, b) for x, w, b in inputs)


def _with_bias(
    k: Tensor, v: Tensor, bias_k: Tensor | None, bias_v: Tensor | None, *static: Tensor | None
) -> tuple[Tensor, Tensor]:
    """One more key and value for every sample."""
    if bias_k is None or bias_v is None:
        raise Misfit(f"{WHAT}: give both bias_k and bias_v, or none of them.")
    if any(x is not None for x in static):
        raise Misfit(f"{WHAT}: bias_k and bias_v cannot be added to static_k and static_v.")
    more = (1, k.shape[1], k.shape[2])
    return ops.cat([k, bias_k.expand(more)]), ops.cat([v, bias_v.expand(more)])


def _one_more(mask: Tensor) -> Tensor:
    """A mask with one more key, which counts."""
    return ops.constant_pad_nd(mask, (0, 1), mask.dtype.name == "bool")


# --- heads and masks ------------------------------------------------------------------------------


class _Heads:
    """Splits features into heads: (length, batch, features) to (batch, heads, length, size)."""

    def __init__(self, batch: int, heads: int, size: int) -> None:
        self.batch, self.heads, self.size = batch, heads, size

    def split(self, x: Tensor) -> Tensor:
        return x.reshape((x.shape[0], self.batch, self.heads, self.size)).permute((1, 2, 0, 3))

    def given(self, name: str, static: Tensor | None, projected: Tensor) -> Tensor:
        """Keys or values that are given as (batch · heads, length, size), else projected ones."""
        if static is None:
            return self.split(projected)
        if static.ndim != 3 or static.shape[::2] != (self.batch * self.heads, self.size):
            raise Misfit(
                f"{WHAT}: {name} must be (batch · heads, length, features of a head), here "
                f"{self.batch * self.heads} × length × {self.size}, got {show(static.shape)}."
            )
        return static.unflatten(0, (self.batch, self.heads))

    def mask(
        self, pairs: Tensor | None, padding: Tensor | None, queries: int, keys: int
    ) -> Tensor | None:
        """Both masks as one that attention takes: True where a key counts, or added to scores."""
        masks = []
        if pairs is not None:
            several = (self.batch * self.heads, queries, keys)
            if tuple(pairs.shape) not in (several[1:], several):
                raise Misfit(
                    f"{WHAT}: attn_mask must be {show(several[1:])} or {show(several)}, got "
                    f"{show(pairs.shape)}."
                )
            masks.append(pairs if pairs.ndim == 2 else pairs.unflatten(0, (self.batch, self.heads)))
        if padding is not None:
            if tuple(padding.shape) != (self.batch, keys):
                raise Misfit(
                    f"{WHAT}: key_padding_mask must be {self.batch}×{keys} (batch × keys), got "
                    f"{show(padding.shape)}."
                )
            masks.append(padding.unsqueeze(1).unsqueeze(1))
        return _combined(masks)


def _combined(masks: list[Tensor]) -> Tensor | None:
    for mask in masks:
        if mask.dtype.name != "bool" and not mask.dtype.is_floating_point:
            raise DtypeError(
                f"{WHAT}: a mask is of booleans (True hides a key) or of floating point numbers "
                f"that are added to scores, got {mask.dtype}."
            )
    if not masks:
        return None
    if all(m.dtype.name == "bool" for m in masks):
        hidden = masks[0] if len(masks) == 1 else masks[0] | masks[1]
        return hidden.logical_not()
    added = [_added(mask) for mask in masks]
    return added[0] if len(added) == 1 else added[0] + added[1]


def _with_weights(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """Attention and its weights; where all keys are hidden both are NaN, as in PyTorch."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    if mask is not None:
        hiding = mask.dtype.name == "bool"
        scores = scores.masked_fill(mask.logical_not(), -INFINITY) if hiding else scores + mask
    weights = ops.softmax(scores, -1)
    if dropout_p > 0:
        weights = ops.dropout(weights, dropout_p, True)
    return weights @ v, weights


def _added(mask: Tensor) -> Tensor:
    """The numbers that a mask adds to scores."""
    if mask.dtype.name != "bool":
        return mask
    return ops.where(mask, -INFINITY, 0.0)

"""PyTorch's attention of sequences: (batch, sequence, heads, features), or packed sequences.

Sequences of different lengths are concatenated, (total, heads, features); `cum_seq` holds the start
of each, and the end of the last. Each query then has the keys of its own sequence, from `starts` to
`ends`. A causal mask or a window aligned with the lower right corner lets the last query see the
last key; one aligned with the upper left corner, the first query the first key.
"""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.checks import attention as geometry
from adjoint.core import dtypes
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.decompositions.attention.products import (
    PAD,
    backward,
    first_of,
    flash_state,
    overrideable,
)
from adjoint.decompositions.attention.scores import INFINITY, coins_of, new_seed

Tensor = Any
Bounds = tuple[Tensor | None, Tensor | None]

UPPER_LEFT, LOWER_RIGHT = 1, 2  # `custom_mask_type`; 0: none


class Sequences:
    """Where the queries and keys of each query's sequence start, and how many there are."""

    def __init__(self, queries: int, keys: int, cum_q: Tensor | None, cum_k: Tensor | None) -> None:
        _check_offsets(cum_q, cum_k)
        self.places = ops.arange(queries)
        self.packed = cum_q is not None
        if cum_q is None or cum_k is None:
            self.first_query: Any = 0
            self.first_key: Any = 0
            self.queries: Any = queries
            self.keys: Any = keys
            return
        q, k = cum_q.to(dtypes.int64), cum_k.to(dtypes.int64)
        self.number = (self.places.unsqueeze(-1) >= q.narrow(0, 1, q.shape[0] - 2)).sum(-1)
        number = self.number
        self.first_query, self.first_key = q[number], k[number]
        self.queries = q[number + 1] - self.first_query
        self.keys = k[number + 1] - self.first_key

    def bounds(
        self, corner: int, left: int | None, right: int | None, used: Tensor | None
    ) -> Bounds:
        """The first key of each query, and the one after its last.

        Query i sees keys from i - left to i + right, counted from a corner. Of each sequence only
        the first `used` keys count.
        """
        keys = self.keys if used is None else used.to(dtypes.int64).reshape((-1, 1, 1))
        middle = self.places - self.first_query
        if corner == LOWER_RIGHT:
            middle = middle + (keys - self.queries)
        starts = ends = None
        if left is not None and left >= 0:
            starts = self.first_key + (middle - left).clamp(min=0)
        elif self.packed:
            starts = self.first_key
        if right is not None and right >= 0:
            ends = self.first_key + ops.minimum(middle + right + 1, keys + 0 * middle)
        elif self.packed or used is not None:
            ends = self.first_key + keys + 0 * middle
        return starts, ends


def _heads_first(what: str, *tensors: Tensor) -> list[Tensor]:
    """(batch, sequence, heads, features), or without the batch, as (batch, heads, sequence, …)."""
    found = []
    for tensor in tensors:
        if tensor.ndim not in (3, 4):
            raise ShapeError(
                f"{what}: needs (batch, sequence, heads, features), or (total, heads, features) "
                f"for packed sequences, got {show(tensor.shape)}."
            )
        tensor = tensor if tensor.ndim == 4 else tensor.unsqueeze(0)
        found.append(tensor.transpose(1, 2))
    return _repeated(what, found)


def _repeated(what: str, tensors: list[Tensor]) -> list[Tensor]:
    """Keys and values, which fewer heads may share, for each head of the queries."""
    if len(tensors) < 3 or tensors[0].shape[1] == tensors[1].shape[1]:
        return tensors
    groups = geometry.groups(what, *tensors[:3])
    keys, values = (x.repeat_interleave(groups, 1) for x in tensors[1:3])
    return [tensors[0], keys, values, *tensors[3:]]


def _back(output: Tensor, like: Tensor) -> Tensor:
    """A gradient with the dimensions of `like`, summed over the heads that shared it."""
    turned = output.transpose(1, 2)
    if turned.shape[2] != like.shape[-2]:
        turned = turned.unflatten(2, (like.shape[-2], -1)).sum(3)
    return turned if like.ndim == 4 else turned.squeeze(0)


# --- flash ----------------------------------------------------------------------------------------


def flash_bounds(
    rows: Sequences, is_causal: bool, left: int | None, right: int | None, used: Tensor | None
) -> Bounds:
    """The bounds of flash attention, whose masks are aligned with the lower right corner."""
    return rows.bounds(LOWER_RIGHT, left, 0 if is_causal else right, used)


def flash_sequences(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    scale: float | None,
    window_size_left: int | None,
    window_size_right: int | None,
    seqused_k: Tensor | None,
    alibi_slopes: Tensor | None,
    block_table: Tensor | None,
    num_splits: int | None,
) -> tuple[Tensor, ...]:
    """The output, logsumexp, the state of random numbers, a spare, and no debug mask."""
    what = "_flash_attention_forward"
    geometry.check_dropout(what, dropout_p)
    _check_packed(what, query, cum_seq_q)
    if block_table is not None:  # pages of keys and values, in the order that each sequence has
        key, value = (x[block_table.to(dtypes.int64)].flatten(1, 2) for x in (key, value))
    q, k, v = _heads_first(what, query, key, value)
    rows = Sequences(q.shape[2], k.shape[2], cum_seq_q, cum_seq_k)
    starts, ends = flash_bounds(rows, is_causal, window_size_left, window_size_right, seqused_k)
    bias = None if alibi_slopes is None else _alibi(alibi_slopes, rows, k.shape[2])
    seed = new_seed(dropout_p)
    output, sums = ops._attention(
        q, k, v, bias, starts, ends, coins_of(seed, q.shape[:-1], dropout_p), dropout_p,
        geometry.scale_of(q, scale),
    )  # fmt: skip
    state, unused = flash_state(seed)
    sums = sums if query.ndim == 4 else sums.squeeze(0)
    return _back(output, query), sums, state, unused, query.new_zeros((0,))


def _alibi(slopes: Tensor, rows: Sequences, keys: int) -> Tensor:
    """-slope · distance of each head: (batch or 1, heads, queries, keys)."""
    middle = rows.places - rows.first_query + (rows.keys - rows.queries) + rows.first_key
    distance = (middle.unsqueeze(-1) - ops.arange(keys)).abs()
    slopes = slopes if slopes.ndim == 2 else slopes.unsqueeze(0)
    return slopes.detach().unsqueeze(-1).unsqueeze(-1) * -distance


def _check_packed(what: str, query: Tensor, offsets: Tensor | None) -> None:
    if offsets is None and query.ndim == 3:
        raise ShapeError(
            f"{what}: a query of {show(query.shape)} holds packed sequences; say where they start "
            "by cum_seq_q and cum_seq_k, or add a batch dimension."
        )


def _check_offsets(of_queries: Tensor | None, of_keys: Tensor | None) -> None:
    """Raise unless both are there, or none, and each says where as many sequences start."""
    if of_queries is None and of_keys is None:
        return
    given = (of_queries, of_keys)
    if any(x is None or x.ndim != 1 or x.dtype.category != dtypes.INTEGER for x in given):
        raise ValueRangeError(
            "attention of packed sequences: give offsets of both queries and keys, a vector of "
            "integers each, or none of them."
        )
    sizes = [0 if x is None else x.shape[0] for x in given]
    if min(sizes) < 2 or sizes[0] != sizes[1]:
        raise ShapeError(
            "attention of packed sequences: offsets hold where each sequence starts and the last "
            f"one ends, for queries and keys alike; got {sizes[0]} and {sizes[1]} numbers."
        )


def flash_sequences_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    cum_seq_q: Tensor,
    cum_seq_k: Tensor,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    rng_state: Tensor,
    unused: Tensor,
    scale: float | None,
    window_size_left: int | None,
    window_size_right: int | None,
) -> tuple[Tensor, ...]:
    """The gradients of query, key and value."""
    q, k, v, g, o = _heads_first("_flash_attention_backward", query, key, value, grad_out, output)
    packed = query.ndim == 3
    offsets = (cum_seq_q, cum_seq_k) if packed else (None, None)
    rows = Sequences(q.shape[2], k.shape[2], *offsets)
    starts, ends = flash_bounds(rows, is_causal, window_size_left, window_size_right, None)
    coins = coins_of(first_of(rng_state), q.shape[:-1], dropout_p)
    found = ops._attention_backward(
        g, q, k, v, None, starts, ends, coins, o, logsumexp.unsqueeze(0) if packed else logsumexp,
        dropout_p, geometry.scale_of(q, scale), (True, True, True, False),
    )  # fmt: skip
    return tuple(_back(x, like) for x, like in zip(found, (query, key, value)))


# --- efficient ------------------------------------------------------------------------------------


def efficient_bounds(rows: Sequences, kind: int, window: int | None, used: Tensor | None) -> Bounds:
    """The bounds of efficient attention: `kind` names the corner of a causal mask."""
    if kind not in (0, UPPER_LEFT, LOWER_RIGHT):
        raise ValueRangeError(
            f"_efficient_attention_forward(custom_mask_type={kind}): 0 is no mask, 1 a causal one "
            "from the upper left corner, 2 from the lower right."
        )
    left = None if not window else window - 1
    return rows.bounds(kind, left if kind else None, 0 if kind else None, used)


def efficient_sequences(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    cu_seqlens_q: Tensor | None,
    cu_seqlens_k: Tensor | None,
    max_seqlen_q: int | None,
    max_seqlen_k: int | None,
    dropout_p: float,
    custom_mask_type: int,
    compute_log_sumexp: bool,
    scale: float | None,
    seqlen_k: Tensor | None,
    window_size: int | None,
) -> tuple[Any, ...]:
    """The output, logsumexp of each sequence, the seed, its offset, and the longest lengths."""
    what = "_efficient_attention_forward"
    geometry.check_dropout(what, dropout_p)
    _check_packed(what, query, cu_seqlens_q)
    q, k, v = _heads_first(what, query, key, value)
    rows = Sequences(q.shape[2], k.shape[2], cu_seqlens_q, cu_seqlens_k)
    starts, ends = efficient_bounds(rows, custom_mask_type, window_size, seqlen_k)
    seed = new_seed(dropout_p)
    output, sums = ops._attention(
        q, k, v, bias, starts, ends, coins_of(seed, q.shape[:-1], dropout_p), dropout_p,
        geometry.scale_of(q, scale),
    )  # fmt: skip
    longest_q = q.shape[2] if max_seqlen_q is None else max_seqlen_q
    longest_k = k.shape[2] if max_seqlen_k is None else max_seqlen_k
    sums = _by_sequence(sums, cu_seqlens_q, longest_q, compute_log_sumexp)
    offset = ops.zeros((), dtype=dtypes.int64)
    return _back(output, query), sums, seed, offset, longest_q, longest_k


def _by_sequence(sums: Tensor, cum: Tensor | None, longest: int, wanted: bool) -> Tensor:
    """logsumexp with sequences in front, up to a multiple of 32 queries, filled with ∞."""
    count = sums.shape[0] if cum is None else cum.shape[0] - 1
    if not wanted:
        return sums.new_zeros((count, sums.shape[1], 0))
    if cum is None:
        return ops.constant_pad_nd(sums, (0, -sums.shape[-1] % PAD), INFINITY)
    starts = cum.to(dtypes.int64)
    places = ops.arange(longest + -longest % PAD)
    at = starts.narrow(0, 0, count).unsqueeze(-1) + places
    found = sums.squeeze(0)[:, at.clamp(0, sums.shape[-1] - 1)]
    outside = at >= starts.narrow(0, 1, count).unsqueeze(-1)
    return found.masked_fill(outside, INFINITY).transpose(0, 1)


def efficient_sequences_backward(
    grad_out_: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    output: Tensor,
    cu_seqlens_q: Tensor | None,
    cu_seqlens_k: Tensor | None,
    max_seqlen_q: int,
    max_seqlen_k: int,
    logsumexp: Tensor,
    dropout_p: float,
    philox_seed: Tensor,
    philox_offset: Tensor,
    custom_mask_type: int,
    bias_requires_grad: bool,
    scale: float | None,
    num_splits_key: int | None,
    window_size: int | None,
    shared_storage_dqdkdv: bool,
) -> tuple[Tensor | None, ...]:
    """The gradients of query, key, value, and of the bias if it is wanted."""
    what = "_efficient_attention_backward"
    q, k, v, g, o = _heads_first(what, query, key, value, grad_out_, output)
    rows = Sequences(q.shape[2], k.shape[2], cu_seqlens_q, cu_seqlens_k)
    starts, ends = efficient_bounds(rows, custom_mask_type, window_size, None)
    coins = coins_of(philox_seed, q.shape[:-1], dropout_p)
    sums = logsumexp[..., : q.shape[2]]
    if cu_seqlens_q is not None:
        inside = rows.places - rows.first_query
        sums = logsumexp.transpose(0, 1)[:, rows.number, inside].unsqueeze(0)
    with_bias = bias is not None and bias_requires_grad
    found = ops._attention_backward(
        g, q, k, v, bias, starts, ends, coins, o, sums, dropout_p, geometry.scale_of(q, scale),
        (True, True, True, with_bias),
    )  # fmt: skip
    gradients = [_back(x, like) for x, like in zip(found, (query, key, value))]
    return (*gradients, found[3] if with_bias else None)


# --- cuDNN ----------------------------------------------------------------------------------------


def cudnn_sequences(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    compute_log_sumexp: bool,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    scale: float | None,
) -> tuple[Any, ...]:
    """As `_scaled_dot_product_cudnn_attention`, and packed sequences (total, heads, features)."""
    if cum_seq_q is None or cum_seq_k is None:
        output, sums, *rest = overrideable(
            query, key, value, attn_bias, dropout_p, is_causal, return_debug_mask, scale
        )
        return output, sums.unsqueeze(-1), *rest
    what = "_cudnn_attention_forward"
    q, k, v = _heads_first(what, query, key, value)
    rows = Sequences(q.shape[2], k.shape[2], cum_seq_q, cum_seq_k)
    starts, ends = rows.bounds(UPPER_LEFT, None, 0 if is_causal else None, None)
    seed = new_seed(dropout_p)
    output, sums = ops._attention(
        q, k, v, attn_bias, starts, ends, coins_of(seed, q.shape[:-1], dropout_p), dropout_p,
        geometry.scale_of(q, scale),
    )  # fmt: skip
    offset = ops.zeros((), dtype=dtypes.int64)
    seen = query.new_zeros((0,))
    sums = sums.squeeze(0).mT.unsqueeze(-1)
    return _back(output, query), sums, cum_seq_q, cum_seq_k, max_q, max_k, seed, offset, seen


def cudnn_sequences_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    philox_seed: Tensor,
    philox_offset: Tensor,
    attn_bias: Tensor | None,
    cum_seq_q: Tensor,
    cum_seq_k: Tensor,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor | None, ...]:
    """The gradients of query, key and value."""
    if query.ndim == 4:
        return backward(
            grad_out, query, key, value, attn_bias, output, logsumexp.squeeze(-1), philox_seed,
            dropout_p, is_causal, scale, (True, True, True, False),
        )[:3]  # fmt: skip
    what = "_cudnn_attention_backward"
    q, k, v, g, o = _heads_first(what, query, key, value, grad_out, output)
    rows = Sequences(q.shape[2], k.shape[2], cum_seq_q, cum_seq_k)
    starts, ends = rows.bounds(UPPER_LEFT, None, 0 if is_causal else None, None)
    found = ops._attention_backward(
        g, q, k, v, None, starts, ends, coins_of(philox_seed, q.shape[:-1], dropout_p), o,
        logsumexp.squeeze(-1).mT.unsqueeze(0), dropout_p, geometry.scale_of(q, scale),
        (True, True, True, False),
    )  # fmt: skip
    return tuple(_back(x, like) for x, like in zip(found, (query, key, value)))

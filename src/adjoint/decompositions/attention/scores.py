"""Attention with all its scores at once: products, a softmax, and dropout of weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import attention as geometry
from adjoint.core import dtypes
from adjoint.decompositions.halves import wide

Tensor = Any

INFINITY = float("inf")
BITS = 0xFFFFFFFF  # the largest number of 32 bits


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    starts: Tensor | None,
    ends: Tensor | None,
    coins: Tensor | None,
    dropout_p: float,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """softmax(scale Q Kᵀ + bias) V, and log Σ exp of the scores of each query."""
    sizes = geometry.sizes(query, key, value, bias, starts, ends, coins)
    scores = scores_of(query, key, bias, starts, ends, scale)
    weights = weights_of(scores, bias, starts, ends)
    kept = kept_of(coins, dropout_p, sizes.keys, weights.dtype)
    result = (weights if kept is None else weights * kept).matmul(wide(value))
    each = (*sizes.batch, sizes.queries)
    result = result.expand((*each, sizes.features)).to(query.dtype)
    return result, _logarithms(scores.detach(), sizes.keys).expand(each)


def attention_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    starts: Tensor | None,
    ends: Tensor | None,
    coins: Tensor | None,
    output: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    scale: float,
    output_mask: Sequence[bool],
) -> tuple[Tensor, ...]:
    """V̄ = Pᵀ Ō,  S̄ = P ∘ (Ō Vᵀ - Σ P ∘ Ō Vᵀ),  Q̄ = scale S̄ K,  K̄ = scale S̄ᵀ Q,  bias: S̄.

    Derivatives go through the operands, to which output and logsumexp belong, so the weights are
    computed again; native code recognises them as the weights of the forward.
    """
    sizes = geometry.sizes(query, key, value, bias, starts, ends, coins)
    geometry.check_results(grad, output, logsumexp, sizes)
    weights = weights_of(scores_of(query, key, bias, starts, ends, scale), bias, starts, ends)
    kept = kept_of(coins, dropout_p, sizes.keys, weights.dtype)
    inner = wide(grad).matmul(wide(value).mT)
    inner = inner if kept is None else inner * kept
    of_scores = ops._softmax_gradient(inner, weights, -1, weights.dtype)
    scaled = of_scores * scale
    dropped = weights if kept is None else weights * kept
    makers = (
        lambda: scaled.matmul(wide(key)),
        lambda: scaled.mT.matmul(wide(query)),
        lambda: dropped.mT.matmul(wide(grad)),
        lambda: of_scores,
    )
    found = []
    for make, like, wanted in zip(makers, (query, key, value, bias), output_mask, strict=True):
        if wanted and like is not None:
            found.append(make().sum_to_size(like.shape).to(like.dtype))
        else:
            found.append(query.new_zeros((0,)))
    return tuple(found)


def scores_of(
    query: Tensor,
    key: Tensor,
    bias: Tensor | None,
    starts: Tensor | None,
    ends: Tensor | None,
    scale: float,
) -> Tensor:
    """scale Q Kᵀ + bias, and -∞ where a score does not count."""
    scores = wide(query).matmul(wide(key).mT) * scale
    if bias is not None and bias.dtype is dtypes.bool_:
        scores = scores.masked_fill(bias.logical_not(), -INFINITY)
    elif bias is not None:
        scores = scores + bias.to(scores.dtype)
    if starts is not None:
        places = ops.arange(key.shape[-2])
        scores = scores.masked_fill(places < starts.unsqueeze(-1), -INFINITY)
    if ends is not None:
        places = ops.arange(key.shape[-2])
        scores = scores.masked_fill(places >= ends.unsqueeze(-1), -INFINITY)
    return scores


def weights_of(
    scores: Tensor, bias: Tensor | None, starts: Tensor | None, ends: Tensor | None
) -> Tensor:
    """The softmax of scores; only with a mask may a query have no keys."""
    if bias is None and starts is None and ends is None:
        return ops._softmax(scores, -1, False)
    return ops._safe_softmax(scores, -1)


def _logarithms(scores: Tensor, keys: int) -> Tensor:
    """log Σ exp of each query's scores, 0 where there are none."""
    if not keys:
        return scores.sum(-1)
    sums = scores.logsumexp((-1,))
    return sums.masked_fill(sums == -INFINITY, 0)


# --- dropout --------------------------------------------------------------------------------------


def new_seed(dropout_p: float) -> Tensor:
    """A random number from which dropout draws; 0 where nothing is dropped."""
    if dropout_p == 0:
        return ops.zeros((), dtype=dtypes.int64)
    return ops.randint(2**63 - 1, ())


def coins_of(seed: Tensor, shape: Sequence[int], dropout_p: float) -> Tensor | None:
    """A number of 32 bits for each query. Note [Coins] in checks/attention.py."""
    if dropout_p == 0:
        return None
    count = 1
    for size in shape:
        count *= size
    places = mixed((ops.arange(count).reshape(tuple(shape)) + seed) & BITS)
    return mixed(places ^ ((seed >> 32) & BITS))


def mixed(x: Tensor) -> Tensor:
    """32-bit numbers, each bit of which depends on every bit of x."""
    for _ in range(2):
        x = ((x ^ (x >> 16)) * geometry.MIXER) & BITS
    return x ^ (x >> 16)


def kept_of(coins: Tensor | None, dropout_p: float, keys: int, dtype: Any) -> Tensor | None:
    """1/(1 - p) for weights that are kept, 0 for the others."""
    if coins is None:
        return None
    drawn = mixed((coins.unsqueeze(-1) + mixed(ops.arange(keys))) & BITS)
    factor = 1 / (1 - dropout_p) if dropout_p < 1 else 0.0
    return (drawn >= geometry.threshold(dropout_p)).to(dtype) * factor

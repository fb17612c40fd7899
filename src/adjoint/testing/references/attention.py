"""Attention query by query and key by key, in Python's numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.testing.references.elements import Array

MASK = 0xFFFFFFFF


def mixed(x: int) -> int:
    """A number of 32 bits made of another."""
    for _ in range(2):
        x = (x ^ (x >> 16)) * 0x45D9F3B & MASK
    return x ^ (x >> 16)


class Call:
    """One call of attention; `at` is the index of a query: batch and place."""

    def __init__(
        self, query: Array, key: Array, value: Array, bias: Any, starts: Any, ends: Any,
        coins: Any, dropout_p: float, scale: float,
    ) -> None:  # fmt: skip
        tensors = [np.asarray(x, np.float64) for x in (query, key, value)]
        each = [x.shape[:-2] for x in tensors] + ([] if bias is None else [bias.shape[:-2]])
        each += [x.shape[:-1] for x in (starts, ends, coins) if x is not None]
        self.batch = np.broadcast_shapes(*each)
        self.q, self.k, self.v = (np.broadcast_to(x, (*self.batch, *x.shape[-2:])) for x in tensors)
        self.places = (*self.batch, self.q.shape[-2])
        pairs = (*self.places, self.k.shape[-2])
        bias = np.zeros(()) if bias is None else np.asarray(bias)
        added = np.where(bias, 0.0, -np.inf) if bias.dtype == np.bool_ else bias
        self.added = np.broadcast_to(added.astype(np.float64), pairs)
        self.starts, self.ends, self.coins = (
            None if x is None else np.broadcast_to(x, self.places) for x in (starts, ends, coins)
        )
        self.p, self.scale = dropout_p, scale

    def weights(self, at: tuple[int, ...]) -> tuple[dict[int, float], float]:
        """The weight of each key that counts, and log Σ exp."""
        first = 0 if self.starts is None else int(self.starts[at])
        last = self.k.shape[-2] if self.ends is None else int(self.ends[at])
        scores = {
            j: self.scale * float(self.q[at] @ self.k[at[:-1]][j]) + float(self.added[at][j])
            for j in range(max(first, 0), min(last, self.k.shape[-2]))
        }
        scores = {j: s for j, s in scores.items() if s > -math.inf}
        if not scores:
            return {}, 0.0
        total = math.log(sum(math.exp(s) for s in scores.values()))
        return {j: math.exp(s - total) for j, s in scores.items()}, total

    def kept(self, at: tuple[int, ...], j: int) -> float:
        """What dropout multiplies a weight by."""
        if self.coins is None:
            return 1.0
        drawn = mixed((int(self.coins[at]) + mixed(j)) & MASK)
        return 1 / (1 - self.p) if drawn >= self.p * 2**32 else 0.0


def attention(*arguments: Any) -> tuple[Array, Array]:
    """The output, and log Σ exp of scores."""
    call = Call(*arguments)
    output, sums = np.zeros((*call.places, call.v.shape[-1])), np.zeros(call.places)
    for at in np.ndindex(*call.places):
        weights, sums[at] = call.weights(at)
        for j, weight in weights.items():
            output[at] += call.kept(at, j) * weight * call.v[at[:-1]][j]
    return output, sums


def attention_backward(grad: Any, *arguments: Any) -> tuple[Array, ...]:
    """The gradients of query, key, value and bias, summed over what was repeated."""
    *operands, _, _, dropout_p, scale, wanted = arguments
    call = Call(*[*operands, dropout_p, scale])
    grad = np.asarray(grad, np.float64)
    found = [np.zeros(x.shape) for x in (call.q, call.k, call.v, call.added)]
    for at in np.ndindex(*call.places):
        weights, _ = call.weights(at)
        inner = {j: call.kept(at, j) * float(grad[at] @ call.v[at[:-1]][j]) for j in weights}
        mean = sum(weights[j] * inner[j] for j in weights)
        for j, weight in weights.items():
            slope = weight * (inner[j] - mean)
            found[0][at] += scale * slope * call.k[at[:-1]][j]
            found[1][at[:-1]][j] += scale * slope * call.q[at]
            found[2][at[:-1]][j] += call.kept(at, j) * weight * grad[at]
            found[3][at][j] += slope
    shapes = [np.shape(x) if w else (0,) for x, w in zip(operands[:4], wanted, strict=True)]
    return tuple(
        _folded(x, shape) if w else np.zeros(0)
        for x, shape, w in zip(found, shapes, wanted, strict=True)
    )


def _folded(x: Array, shape: tuple[int, ...]) -> Array:
    """Summed to a shape that broadcasts to that of x."""
    x = x.sum(tuple(range(x.ndim - len(shape))))
    once = tuple(i for i, n in enumerate(shape) if n == 1 < x.shape[i])
    return x.sum(once, keepdims=True) if once else x


def scaled(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    """scaled_dot_product_attention without dropout."""
    assert not dropout_p, "written for attention without dropout"
    if enable_gqa:
        key, value = (np.repeat(x, query.shape[-3] // x.shape[-3], axis=-3) for x in (key, value))
    ends = np.arange(1, query.shape[-2] + 1) if is_causal else None
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return attention(query, key, value, attn_mask, None, ends, None, 0.0, factor)[0]


def placed(*names: str) -> Callable[..., Array]:
    """`scaled` for an operator with these arguments after query, key and value."""

    def reference(query: Array, key: Array, value: Array, *args: Any, **kwargs: Any) -> Array:
        given = dict(zip(names, args, strict=False)) | kwargs
        return scaled(query, key, value, **{n: v for n, v in given.items() if n in KNOWN})

    return reference


def coins(seed: int, shape: tuple[int, ...]) -> Array:
    """The numbers that decide dropout, one for each query."""
    made = [
        mixed(mixed((place + seed) & MASK) ^ ((seed >> 32) & MASK))
        for place in range(math.prod(shape))
    ]
    return np.array(made, dtype=np.int64).reshape(shape)


def backward(names: tuple[str, ...]) -> Callable[..., tuple[Array, ...]]:
    """`attention_backward` for an operator with arguments of these names."""

    def reference(*args: Any, **kwargs: Any) -> tuple[Array, ...]:
        given = dict(zip(names, args, strict=False)) | kwargs
        query, key, value = (given[n] for n in ("query", "key", "value"))
        bias = given.get("attn_bias", given.get("attn_mask"))
        bias = None if bias is None or bias.shape == (0,) else bias
        ends = np.arange(1, query.shape[-2] + 1) if given["is_causal"] else None
        p = given["dropout_p"]
        drawn = coins(int(np.ravel(given["philox_seed"])[0]), query.shape[:-1]) if p else None
        wanted = given.get("grad_input_mask", (True, True, True, False))
        found = attention_backward(
            given.get("grad_out", given.get("grad_out_")), query, key, value, bias, None, ends,
            drawn, None, None, p, 1 / math.sqrt(query.shape[-1]), wanted,
        )  # fmt: skip
        return tuple(x for x, needed in zip(found, wanted, strict=True) if needed)

    return reference


KNOWN = ("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
REFERENCES = {"_attention": attention, "_attention_backward": attention_backward}

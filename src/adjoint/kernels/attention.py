"""Attention in blocks: products of a block of queries and a block of keys, one after the other.

softmax(Q Kᵀ) V needs no matrix of all scores (Rabe and Staats 2021; Dao et al. 2022). For each
query a running maximum m, normaliser l and sum o are kept; a block of scores s turns them into

    m' = max(m, max s),   l' = l exp(m - m') + Σ exp(s - m'),   o' = o exp(m - m') + exp(s - m') V,

and the result is o / l. The backward computes a block of scores again, and its weights from the
logarithm of the normaliser: P = exp(S - log Σ exp S). Memory is that of arguments and results, and
one or two blocks.

Leading dimensions broadcast. Scores are computed at least in float32. Where there is a C compiler,
native code (c_kernels/attention.c) does the same; what is here does every case.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from adjoint.c_kernels import attention as native
from adjoint.checks import attention as geometry
from adjoint.core.records import record
from adjoint.core.shapes import Shape
from adjoint.kernels.halves import widen

Array = np.ndarray[Any, Any]
Index = tuple[Any, ...]

BLOCK = 1 << 16  # scores that are worked on at once, so that they stay in the cache
KEYS = 512  # keys in a block


def attention(
    query: Array,
    key: Array,
    value: Array,
    bias: Array | None,
    starts: Array | None,
    ends: Array | None,
    coins: Array | None,
    dropout_p: float,
    scale: float,
) -> tuple[Array, Array]:
    """softmax(scale Q Kᵀ + bias) V, and log Σ exp of the scores of each query."""
    sizes = geometry.sizes(query, key, value, bias, starts, ends, coins)
    narrow = query.dtype
    q, k, v = (widen(x) for x in (query, key, value))
    output = _like(query, q.dtype, (*sizes.batch, sizes.queries, sizes.features))
    sums = np.empty((*sizes.batch, sizes.queries, 1), q.dtype)
    call = native.AttentionCall(q, k, v, bias, starts, ends, coins, dropout_p, scale, sizes)
    if call.forward(output, sums[..., 0]):
        return output.astype(narrow, copy=False), sums[..., 0]
    q, k, v = (_spread(x, sizes.batch, 2) for x in (q, k, v))
    scores = _Scores(q, k, scale, _Mask.of(bias, starts, ends, coins, dropout_p, sizes, q.dtype))
    with np.errstate(all="ignore"):
        for index, rows in _blocks(sizes):
            _attend(scores, v[index], output[index][..., rows, :], sums[index], index, rows)
    return output.astype(narrow, copy=False), sums[..., 0]


def _attend(
    scores: _Scores, value: Array, output: Array, logarithms: Array, index: Index, rows: slice
) -> None:
    """Write the results of a block of queries."""
    largest = total = None
    for columns, s in scores.blocks(index, rows):
        top = s.max(-1, keepdims=True)
        top = top if largest is None else np.maximum(top, largest)
        anchor = np.where(top == -np.inf, 0, top).astype(s.dtype, copy=False)
        s -= anchor
        np.exp(s, out=s)
        part = s.sum(-1, keepdims=True)
        scores.mask.drop(s, index, rows, columns)
        if largest is None or total is None:
            np.matmul(s, value[..., columns, :], out=output)
        else:
            shrink = np.exp(largest - anchor)
            output *= shrink
            output += np.matmul(s, value[..., columns, :])
            part += total * shrink
        largest, total = top, part
    here = logarithms[..., rows, :]
    if largest is None or total is None:  # there are no keys
        output[...] = 0
        here[...] = 0
        return
    empty = total == 0  # every key is masked: the result is 0
    total[empty] = 1
    largest[empty] = 0
    output /= total
    np.add(largest, np.log(total), out=here)


def attention_backward(
    grad: Array,
    query: Array,
    key: Array,
    value: Array,
    bias: Array | None,
    starts: Array | None,
    ends: Array | None,
    coins: Array | None,
    output: Array,
    logsumexp: Array,
    dropout_p: float,
    scale: float,
    output_mask: Sequence[bool],
) -> tuple[Array, Array, Array, Array]:
    """V̄ = Pᵀ Ō,  S̄ = P ∘ (Ō Vᵀ - Σ Ō ∘ O),  Q̄ = scale S̄ K,  K̄ = scale S̄ᵀ Q,  bias: S̄.

    Results that are not wanted are empty.
    """
    sizes = geometry.sizes(query, key, value, bias, starts, ends, coins)
    geometry.check_results(grad, output, logsumexp, sizes)
    q, k, v, g, o = (widen(x) for x in (query, key, value, grad, output))
    operands = (query, key, value, query if bias is None else bias)
    sums = [_Sum(x, q.dtype, sizes.batch) if m else None for x, m in zip(operands, output_mask)]
    nothing = np.empty(0, query.dtype)
    if sums[3] is None and all(s is None or s.whole for s in sums):
        call = native.AttentionCall(q, k, v, bias, starts, ends, coins, dropout_p, scale, sizes)
        if call.backward(g, o, logsumexp, [None if s is None else s.total for s in sums[:3]]):
            found = [nothing if s is None else s.result for s in sums]
            return found[0], found[1], found[2], nothing
    q, k, v, g, o = (_spread(x, sizes.batch, 2) for x in (q, k, v, g, o))
    scores = _Scores(q, k, scale, _Mask.of(bias, starts, ends, coins, dropout_p, sizes, q.dtype))
    logarithms = _spread(logsumexp[..., None], sizes.batch, 2)
    with np.errstate(all="ignore"):
        for index, rows in _blocks(sizes):
            _AttentionGradients(scores, v, g, o, logarithms, sums).add(index, rows)
    of_query, of_key, of_value, of_bias = (nothing if s is None else s.result for s in sums)
    return of_query, of_key, of_value, of_bias


@record
class _AttentionGradients:
    """Adds the gradients that a block of queries gives."""

    scores: _Scores
    value: Array
    grad: Array
    output: Array
    logarithms: Array
    sums: list[_Sum | None]  # for query, key, value and bias

    def add(self, index: Index, rows: slice) -> None:
        grad = self.grad[index][..., rows, :]
        value = self.value[index]
        along = np.einsum("...i,...i->...", grad, self.output[index][..., rows, :])[..., None]
        logarithms = self.logarithms[index][..., rows, :]
        of_query, of_key, of_value, of_bias = self.sums
        mask = self.scores.mask
        query, key = self.scores.scaled(index, rows), self.scores.key[index]
        room = np.empty(0)
        for columns, weights in self.scores.blocks(index, rows):
            weights -= logarithms
            np.exp(weights, out=weights)
            room = np.empty(weights.shape, weights.dtype) if room.shape != weights.shape else room
            inner = np.matmul(grad, value[..., columns, :].mT, out=room)
            kept = mask.kept(index, rows, columns, grad.dtype)
            if kept is not None:
                inner *= kept
            inner -= along
            inner *= weights
            if of_value is not None:
                if kept is not None:
                    weights *= kept
                of_value.add(index, columns, weights.mT, grad)
            if of_query is not None:
                of_query.add(index, rows, inner, key[..., columns, :], self.scores.scale)
            if of_key is not None:
                of_key.add(index, columns, inner.mT, query)
            if of_bias is not None:
                of_bias.add_block(index, rows, columns, inner)


class _Sum:
    """A gradient that blocks are added to; one for a tensor that was repeated is a sum."""

    def __init__(self, like: Array, dtype: np.dtype[Any], batch: Shape) -> None:
        self.like = like
        self.total = _like(like, dtype, like.shape)
        self.total[...] = 0
        lead = (1,) * (len(batch) - (like.ndim - 2))
        self.padded = self.total[(None,) * len(lead)]
        self.batch = (*lead, *like.shape[:-2])
        self.whole = self.batch == batch

    @property
    def result(self) -> Array:
        """The gradient in the tensor's own dtype."""
        return self.total.astype(self.like.dtype, copy=False)

    def add(self, index: Index, rows: slice, a: Array, b: Array, factor: float = 1) -> None:
        """Add a product of matrices to some rows."""
        part = np.matmul(a, b)
        if factor != 1:
            part *= factor
        self.add_block(index, rows, slice(None), part)

    def add_block(self, index: Index, rows: slice, columns: slice, part: Array) -> None:
        """Add to some rows and columns, which may be one for all."""
        place: list[Any] = list(index)
        if not self.whole:
            part, place = self._folded(index, part)
        here = self.padded[tuple(place)]
        rows = rows if here.shape[-2] > 1 else slice(None)
        columns = columns if here.shape[-1] > 1 else slice(None)
        target = here[..., rows, columns]
        for axis in (-2, -1):
            if target.shape[axis] == 1 < part.shape[axis]:
                part = part.sum(axis, keepdims=True)
        target += part

    def _folded(self, index: Index, part: Array) -> tuple[Array, list[Any]]:
        """The part summed over repeated dimensions, and where it belongs."""
        place: list[Any] = []
        for axis, at in enumerate(index):
            repeated = self.batch[axis] == 1
            place.append((slice(0, 1) if isinstance(at, slice) else 0) if repeated else at)
        kept = part.ndim - 2
        for axis in range(len(self.batch) - kept, len(self.batch)):
            inside = axis - len(self.batch) + kept
            if self.batch[axis] == 1 < part.shape[inside]:
                part = part.sum(inside, keepdims=True)
        return part, place


@record
class _Scores:
    """The scores of blocks of queries and keys."""

    query: Array
    key: Array
    scale: float
    mask: _Mask

    def scaled(self, index: Index, rows: slice) -> Array:
        """Some queries times the scale."""
        return self.query[index][..., rows, :] * self.query.dtype.type(self.scale)

    def blocks(self, index: Index, rows: slice) -> Iterator[tuple[slice, Array]]:
        """One block after the other: its keys, and its scores, which the caller may write to."""
        query, key = self.scaled(index, rows), self.key[index]
        room = np.empty(0, query.dtype)
        first, last = self.mask.reach(index, rows, key.shape[-2])
        for start in range(first, last, KEYS):
            columns = slice(start, min(start + KEYS, last))
            shape = (*query.shape[:-1], columns.stop - start)
            room = np.empty(shape, query.dtype) if room.shape != shape else room
            s = np.matmul(query, key[..., columns, :].mT, out=room)
            self.mask.hide(s, index, rows, columns)
            yield columns, s


@record
class _Mask:
    """What is added to scores, which of them count, and which weights are dropped."""

    bias: Array | None  # batch, queries, keys: added, or True where a score counts
    starts: Array | None  # batch, queries, 1: the first key of each query
    ends: Array | None  # the key after its last
    coins: Array | None  # a random number of 32 bits for each query
    dropout_p: float

    @staticmethod
    def of(
        bias: Array | None,
        starts: Array | None,
        ends: Array | None,
        coins: Array | None,
        dropout_p: float,
        sizes: geometry.AttentionSizes,
        dtype: np.dtype[Any],
    ) -> _Mask:
        """The arguments of an operator as arrays of all dimensions."""
        if bias is not None:
            bias = bias if bias.dtype == np.bool_ else bias.astype(dtype, copy=False)
            bias = np.broadcast_to(bias, (*sizes.batch, sizes.queries, sizes.keys))
        each = (*sizes.batch, sizes.queries)
        bounds = [
            None if x is None else np.broadcast_to(x, each)[..., None] for x in (starts, ends)
        ]
        if coins is not None:
            coins = np.broadcast_to(coins.astype(np.uint32), each)[..., None]
        return _Mask(bias, bounds[0], bounds[1], coins, dropout_p)

    def reach(self, index: Index, rows: slice, keys: int) -> tuple[int, int]:
        """The range of keys that some query of a block has."""
        first, last = 0, keys
        if self.starts is not None:
            first = max(int(self.starts[index][..., rows, :].min(initial=keys)), 0)
        if self.ends is not None:
            last = min(int(self.ends[index][..., rows, :].max(initial=0)), keys)
        return first, last

    def hide(self, s: Array, index: Index, rows: slice, columns: slice) -> None:
        """Add the bias; scores that do not count become -∞."""
        if self.bias is not None:
            bias = self.bias[index][..., rows, columns]
            if bias.dtype == np.bool_:
                np.copyto(s, -np.inf, where=~bias)
            else:
                s += bias
        numbers = np.arange(columns.start, columns.stop)
        if self.starts is not None:
            starts = self.starts[index][..., rows, :]
            if starts.size and starts.max() > columns.start:
                np.copyto(s, -np.inf, where=numbers < starts)
        if self.ends is not None:
            ends = self.ends[index][..., rows, :]
            if ends.size and ends.min() < columns.stop:
                np.copyto(s, -np.inf, where=numbers >= ends)

    def kept(self, index: Index, rows: slice, columns: slice, dtype: np.dtype[Any]) -> Array | None:
        """1/(1 - p) for weights that are kept, 0 for the others."""
        if self.coins is None:
            return None
        places = mixed(np.arange(columns.start, columns.stop, dtype=np.uint32))
        drawn = mixed(self.coins[index][..., rows, :] + places)
        factor = 1 / (1 - self.dropout_p) if self.dropout_p < 1 else 0
        return (drawn >= geometry.threshold(self.dropout_p)) * dtype.type(factor)

    def drop(self, weights: Array, index: Index, rows: slice, columns: slice) -> None:
        """Drop weights, and scale the others."""
        kept = self.kept(index, rows, columns, weights.dtype)
        if kept is not None:
            weights *= kept


def mixed(x: Array) -> Array:
    """32-bit numbers, each bit of which depends on every bit of x; see `geometry.MIXER`."""
    for _ in range(2):
        x = (x ^ (x >> np.uint32(16))) * np.uint32(geometry.MIXER)
    return x ^ (x >> np.uint32(16))


def _spread(array: Array, batch: Shape, inner: int) -> Array:
    """A view with all leading dimensions."""
    shape = (*batch, *array.shape[array.ndim - inner :])
    return array if array.shape == shape else np.broadcast_to(array, shape)


def _like(array: Array, dtype: np.dtype[Any], shape: Shape) -> Array:
    """An array with the order of dimensions in memory that another has; rows are never strided."""
    if array.ndim == len(shape):
        made = np.empty_like(array, dtype, order="K", shape=shape)
        if made.strides[-1] == made.itemsize:
            return made
    return np.empty(shape, dtype)


def _blocks(sizes: geometry.AttentionSizes) -> Iterator[tuple[Index, slice]]:
    """Indices of leading dimensions, and rows of queries, whose scores make one block."""
    keys = max(min(sizes.keys, KEYS), 1)
    rows = max(min(sizes.queries, BLOCK // keys), 1)
    for index in _parts(sizes.batch, max(BLOCK // (rows * keys), 1)):
        for start in range(0, sizes.queries, rows):
            yield index, slice(start, min(start + rows, sizes.queries))


def _parts(batch: Shape, most: int) -> Iterator[Index]:
    """Indices of leading dimensions that hold at most so many matrices each."""
    if 0 in batch:
        return
    inner, axis = 1, len(batch)
    while axis and inner * batch[axis - 1] <= most:
        axis -= 1
        inner *= batch[axis]
    if not axis:
        yield ()
        return
    step = max(most // inner, 1)
    for lead in itertools.product(*map(range, batch[: axis - 1])):
        for start in range(0, batch[axis - 1], step):
            yield (*lead, slice(start, min(start + step, batch[axis - 1])))

"""Random numbers under vmap: 'different' draws for all samples in one call, 'same' once for all.

Where the distribution itself differs from sample to sample, 'same' means the same stream of random
numbers: each sample is drawn from the state that the first one was drawn from.
"""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.batching.common import Batch, again, named, padded, whole
from adjoint.ops import streams

Tensor = Any


def sized(batch: Batch, *values: Any) -> Tensor:
    """rand, randn, randint, normal: the batch is one more size."""
    arguments = named(batch, values)
    arguments["size"] = (batch.size, *arguments["size"])
    return again(batch, arguments)


def permuted(batch: Batch, *values: Any) -> Tensor:
    """randperm: each row of a table of equal weights, drawn until nothing is left."""
    arguments = named(batch, values)
    count, dtype = arguments["n"], arguments["dtype"]
    probe = again(batch, arguments)  # one permutation, for its checks and its dtype
    if count == 0 or batch.size == 0:
        return probe.new_zeros((batch.size, count))
    weights = ops.ones((batch.size, count))
    drawn = ops.multinomial(weights, count, False, generator=arguments.get("generator"))
    return drawn if dtype is None else drawn.to(probe.dtype)


def filled(batch: Batch, self: Tensor, *rest: Any) -> Tensor:
    """Numbers in the shape of a tensor, whose values do not matter."""
    if batch.randomness == "same":
        one = self.new_zeros(self.shape[1:]) if batch.has[0] else self
        return whole(batch, batch.op.call([one, *rest]), False)
    return batch.op.call([whole(batch, self, batch.has[0]), *rest])


def drawn(batch: Batch, *values: Any) -> Tensor:
    """The distribution is in the values of a tensor: bernoulli, poisson."""
    if batch.randomness == "same":
        return _from_one_state(batch, values)
    return batch.op.call(
        [whole(batch, v, h) if n is not None else v for v, h, n in _tensors(batch, values)]
    )


def bernoulli_of(batch: Batch, self: Tensor, p: Tensor, generator: Any) -> Tensor:
    """`p` broadcasts to `self`."""
    if batch.randomness == "same":
        return _from_one_state(batch, (self, p, generator))
    target = whole(batch, self, batch.has[0])
    return batch.op.call(
        [target, padded(p, batch.has[1], batch.ndims[1], batch.ndims[0]), generator]
    )


def pair(batch: Batch, *values: Any) -> Tensor:
    """Two tensors that broadcast, or one and a number, and a generator: binomial, normal."""
    if batch.randomness == "same":
        return _from_one_state(batch, values)
    rank = max(n for n in batch.ndims if n is not None)
    operands = [
        v if n is None else padded(whole(batch, v, h), True, n, rank)
        for v, h, n in _tensors(batch, values)
    ]
    return batch.op.call(operands)


def multinomial(
    batch: Batch, self: Tensor, num_samples: int, replacement: bool, generator: Any
) -> Tensor:
    if batch.randomness == "same":
        return _from_one_state(batch, (self, num_samples, replacement, generator))
    weights = whole(batch, self, batch.has[0])
    if weights.ndim == 2:
        return batch.op.call([weights, num_samples, replacement, generator])
    result = batch.op.call([weights.flatten(0, 1), num_samples, replacement, generator])
    return result.reshape((*weights.shape[:2], num_samples))


def below(batch: Batch, *values: Any) -> Tensor:
    """randint_like with a bound for each sample."""
    arguments = named(batch, values)
    has = dict(zip(batch.op.schema.names, batch.has, strict=True))
    ndim = batch.ndims[0]
    if not has["high"]:
        return filled(batch, *values)
    if batch.randomness == "same":
        return _from_one_state(batch, values)
    target = whole(batch, arguments["self"], has["self"])
    fractions = ops.rand(
        target.shape, generator=arguments.get("generator"), dtype=ops.rand((0,)).double().dtype
    )
    high = padded(arguments["high"], True, 0, ndim)
    return (fractions * high).floor().to(arguments["dtype"] or target.dtype)


def _tensors(batch: Batch, values: Any) -> Any:
    return zip(values, batch.has, batch.ndims, strict=True)


def _from_one_state(batch: Batch, values: Any) -> Tensor:
    """Draw sample after sample, all from one state; the stream continues after the last."""
    generator = named(batch, values).get("generator")
    if not batch.size:
        one = batch.op.call(
            [v.new_ones(v.shape[1:]) if h else v for v, h, _ in _tensors(batch, values)]
        )
        return one.new_zeros((0, *one.shape))

    def sample(i: int) -> list[Any]:
        return [v.select(0, i) if h else v for v, h, _ in _tensors(batch, values)]

    state = streams.read(generator)
    results = []
    for i in range(batch.size - 1):
        given = sample(i)
        tensors = [v for v, n in zip(given, batch.ndims, strict=True) if n is not None]
        results += streams.again([generator], [state], _with(batch, given), tensors)
    return ops.stack([*results, batch.op.call(sample(batch.size - 1))])


def _with(batch: Batch, given: list[Any]) -> Any:
    """The operator as a function of its tensors."""

    def run(tensors: list[Any]) -> list[Any]:
        left = iter(tensors)
        values = [
            next(left) if n is not None else v for v, n in zip(given, batch.ndims, strict=True)
        ]
        return [batch.op.call(values)]

    return run

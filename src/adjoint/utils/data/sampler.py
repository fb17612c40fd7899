"""Samplers: in which order a `DataLoader` asks for samples.

Orders are drawn in the process that iterates, from a generator: equal seeds give equal orders,
whatever the number of workers. They are not PyTorch's orders, since generators have other streams
(`core/generator.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from adjoint import ops
from adjoint.calls.methods import as_tensor
from adjoint.core.dtypes import float64, int64
from adjoint.core.errors import ArgumentError, ValueRangeError
from adjoint.core.generator import Generator

T_co = TypeVar("T_co", covariant=True)


def drawn_seed(generator: Generator | None = None) -> int:
    """Draw a seed from a generator, or from the default one."""
    return int(ops.empty((), dtype=int64).random_(generator=generator).item())


def _check_positive(what: str, name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueRangeError(f"{what}: {name} should be a positive integer, got {value!r}")


def _check_bool(what: str, name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ArgumentError(f"{what}: {name} should be True or False, got {value!r}")


class Sampler(Generic[T_co]):
    """An order of samples: a subclass has `__iter__`, which gives their numbers.

    >>> import adjoint as ad
    >>> class Backwards(ad.utils.data.Sampler):
    ...     def __init__(self, data): self.data = data
    ...     def __iter__(self): return iter(range(len(self.data) - 1, -1, -1))
    ...     def __len__(self): return len(self.data)
    >>> list(ad.utils.data.DataLoader("abc", sampler=Backwards("abc"), batch_size=None))
    ['c', 'b', 'a']
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")


class SequentialSampler(Sampler[int]):
    """Samples in their own order.

    >>> import adjoint as ad
    >>> list(ad.utils.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Samples in random order, with replacement if asked.

    Without a generator, one is seeded by a number of the default one at each iteration.

    >>> import adjoint as ad
    >>> sampler = ad.utils.data.RandomSampler("abcd", generator=ad.Generator().manual_seed(0))
    >>> sorted(sampler), len(sampler)
    ([0, 1, 2, 3], 4)
    """

    _PIECE = 32  # how many numbers are drawn at once with replacement

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        _check_bool("RandomSampler", "replacement", replacement)
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if num_samples is not None:
            _check_positive("RandomSampler", "num_samples", num_samples)

    @property
    def num_samples(self) -> int:
        """How many numbers one iteration gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        generator = self.generator or Generator().manual_seed(drawn_seed())
        count, total = len(self.data_source), self.num_samples
        if self.replacement:
            for start in range(0, total, self._PIECE):
                size = (min(self._PIECE, total - start),)
                yield from ops.randint(0, count, size, generator=generator).tolist()
            return
        for _ in range(total // count if count else 0):
            yield from ops.randperm(count, generator=generator).tolist()
        if count and total % count:
            yield from ops.randperm(count, generator=generator).tolist()[: total % count]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given numbers in random order.

    >>> import adjoint as ad
    >>> sorted(ad.utils.data.SubsetRandomSampler([2, 5, 7]))
    [2, 5, 7]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for place in ops.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[place]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Numbers of samples, drawn with probabilities in proportion to weights.

    >>> import adjoint as ad
    >>> set(ad.utils.data.WeightedRandomSampler([0.0, 1.0, 0.0], 5))
    {1}
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        _check_positive("WeightedRandomSampler", "num_samples", num_samples)
        _check_bool("WeightedRandomSampler", "replacement", replacement)
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.ndim != 1:
            raise ValueRangeError(
                f"WeightedRandomSampler: weights should be a vector, got {self.weights.shape}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = ops.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` numbers of another sampler; the last one may be shorter.

    >>> import adjoint as ad
    >>> list(ad.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        _check_positive("BatchSampler", "batch_size", batch_size)
        _check_bool("BatchSampler", "drop_last", drop_last)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        numbers = iter(self.sampler)
        while batch := list(itertools.islice(numbers, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

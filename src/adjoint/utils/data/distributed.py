"""`DistributedSampler`: the share of one of several processes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sized

from adjoint import ops
from adjoint.core.errors import ValueRangeError
from adjoint.core.generator import Generator
from adjoint.utils.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """The share of one of `num_replicas` processes that go through a dataset together.

    All replicas must have the same seed. Samples are repeated so that shares are equal, or left out
    with `drop_last`; `set_epoch` changes the order. A single process is a world of one, which is
    the default; adjoint starts no others.

    >>> import adjoint as ad
    >>> parts = [ad.utils.data.DistributedSampler(range(5), 2, r, shuffle=False) for r in (0, 1)]
    >>> [list(part) for part in parts]
    [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.num_replicas = 1 if num_replicas is None else num_replicas
        self.rank = 0 if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueRangeError(
                f"DistributedSampler: rank {self.rank} is not below num_replicas "
                f"{self.num_replicas}"
            )
        self.dataset = dataset
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        count, world = len(dataset), self.num_replicas
        self.num_samples = count // world if drop_last and count % world else -(-count // world)
        self.total_size = self.num_samples * world

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            order = ops.randperm(count, generator=generator).tolist()
        else:
            order = list(range(count))
        whole = list(itertools.islice(itertools.cycle(order), self.total_size))
        return iter(whole[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch."""
        self.epoch = epoch

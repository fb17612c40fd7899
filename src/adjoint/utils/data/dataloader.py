"""`DataLoader`: batches of a dataset, made in this process or by worker processes."""

from __future__ import annotations

import itertools
import multiprocessing
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

from adjoint.core.errors import ArgumentError, ValueRangeError
from adjoint.core.generator import Generator
from adjoint.core.threads import cores
from adjoint.utils.data.collation import default_collate, default_convert
from adjoint.utils.data.crew import Crew
from adjoint.utils.data.dataset import IterableDataset
from adjoint.utils.data.fetching import Fetching
from adjoint.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    drawn_seed,
)

T_co = TypeVar("T_co", covariant=True)

# What a loader is made of stays as it is: samplers were made of it.
_FIXED = frozenset(
    ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
)


class _Forever(Sampler[None]):
    """The numbers of an iterable dataset, which has none."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class DataLoader(Generic[T_co]):
    """Batches of a dataset, in an order that a sampler gives.

    `dataset` has samples by number, or is an `IterableDataset`. Samples are asked for in their own
    order, at random (`shuffle=True`), as `sampler` says, or in lists as `batch_sampler` says, and
    are collated by `collate_fn`, usually `default_collate`; with `batch_size=None` there are no
    batches, and samples are converted by `default_convert`.

    With `num_workers`, so many processes make batches, `prefetch_factor` each in advance. Arrays
    come from them in shared memory. An exception of a worker is raised here, with its traceback; a
    worker that dies, or has nothing ready after `timeout` seconds, raises too. Workers end with
    the iteration, or, with `persistent_workers`, with the loader. `multiprocessing_context` is how
    they start: "fork", "spawn" or "forkserver"; not by "fork", the dataset must be picklable.

    The order comes from `generator`, or from the default one, in this process: a seed gives the
    same order for every number of workers. Worker n starts with `ad.manual_seed`, `random.seed` and
    `np.random.seed` from a number drawn here plus n; `worker_init_fn(n)` runs after that.
    `pin_memory` is accepted and changes nothing, since there is no other device to copy to.

    >>> import adjoint as ad
    >>> data = ad.utils.data.TensorDataset(ad.arange(5), ad.arange(5) ** 2)
    >>> for x, y in ad.utils.data.DataLoader(data, batch_size=2):
    ...     print(x, y)
    tensor([0, 1]) tensor([0, 1])
    tensor([2, 3]) tensor([4, 9])
    tensor([4]) tensor([16])
    """

    __initialized = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self._iterable = isinstance(dataset, IterableDataset)
        _check_order(self._iterable, shuffle, sampler, batch_sampler)
        _check_batches(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor or (2 if num_workers else None)
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        if sampler is None:
            sampler = self._own_sampler(bool(shuffle))
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        default = default_convert if batch_sampler is None else default_collate
        self.collate_fn = default if collate_fn is None else collate_fn
        self._kept: Crew | None = None  # the persistent workers
        self._promised: int | None = None  # the length that an iterable dataset was said to have
        self.__initialized = True

    def _own_sampler(self, shuffle: bool) -> Sampler[Any]:
        if self._iterable:
            return _Forever()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)
        return SequentialSampler(self.dataset)

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__initialized and name in _FIXED:
            raise ValueRangeError(
                f"DataLoader.{name} cannot change, since samplers were made with it; make another "
                "DataLoader"
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How worker processes start."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None and not self.num_workers:
            raise ValueRangeError(
                "DataLoader: multiprocessing_context is for worker processes, and num_workers=0"
            )
        if isinstance(context, str):
            known = multiprocessing.get_all_start_methods()
            if context not in known:
                raise ValueRangeError(
                    f"DataLoader: multiprocessing_context={context!r}; use one of {known}"
                )
            context = multiprocessing.get_context(context)
        if context is not None and not isinstance(context, BaseContext):
            raise ArgumentError(
                f"DataLoader: multiprocessing_context={context!r} is no context of multiprocessing"
            )
        self._context = context

    @property
    def _auto_collation(self) -> bool:
        """Whether samples are put together in batches here."""
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        """What gives the numbers of samples, or lists of them."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def _fetching(self) -> Fetching:
        batched = self._auto_collation
        return Fetching(self.dataset, self._iterable, batched, self.collate_fn, self.drop_last)

    def __iter__(self) -> Iterator[T_co]:
        seed = drawn_seed(self.generator)
        if not self.num_workers:
            return _OneProcess(self)
        crew = self._kept
        if crew is None or not crew.workers:
            crew = self._started(seed)
            if self.persistent_workers:
                self._kept = crew
            return _Workers(self, crew)
        return _Workers(self, crew, again=True)

    def _started(self, seed: int) -> Crew:
        return Crew(
            self._fetching(),
            self.num_workers,
            self._context or multiprocessing.get_context(),
            seed,
            self.worker_init_fn,
            prefetch=self.prefetch_factor or 2,
            timeout=self.timeout,
            in_order=self.in_order,
        )

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)
        count = len(self.dataset)
        if self.batch_size is not None:
            count = count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        self._promised = count
        return count


def _check_workers(
    num_workers: Any, timeout: Any, prefetch_factor: Any, persistent_workers: Any
) -> None:
    if num_workers < 0:
        raise ValueRangeError(f"DataLoader: num_workers={num_workers}; 0 makes batches here")
    if num_workers > cores():
        warnings.warn(
            f"DataLoader: num_workers={num_workers}, and this process may use {cores()} cores; "
            "more workers than cores wait for one another",
            UserWarning,
            stacklevel=3,
        )
    if timeout < 0:
        raise ValueRangeError(f"DataLoader: timeout={timeout} must not be negative")
    if prefetch_factor is not None and (num_workers == 0 or prefetch_factor < 1):
        raise ValueRangeError(
            f"DataLoader: prefetch_factor={prefetch_factor} with num_workers={num_workers}; it is "
            "how many batches, at least 1, each worker makes in advance"
        )
    if persistent_workers and num_workers == 0:
        raise ValueRangeError("DataLoader: persistent_workers=True, and num_workers=0")


def _check_order(iterable: bool, shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    if shuffle not in (None, True, False):
        raise ValueRangeError(f"DataLoader: shuffle={shuffle!r} should be True or False")
    if not iterable:
        return
    given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in given.items():
        if value is not None:
            raise ValueRangeError(
                f"DataLoader: an IterableDataset has its own order, and {name}={value!r} was given"
            )


def _check_batches(
    batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: Any
) -> None:
    if sampler is not None and shuffle:
        raise ValueRangeError("DataLoader: give a sampler or shuffle=True, not both")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler or drop_last):
        raise ValueRangeError(
            "DataLoader: a batch_sampler says all about batches; leave out batch_size, shuffle, "
            "sampler and drop_last"
        )
    if batch_size is None and batch_sampler is None and drop_last:
        raise ValueRangeError("DataLoader: drop_last=True, and batch_size=None makes no batches")


class _Epoch:
    """One iteration of a loader."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._given = 0

    def __iter__(self) -> Any:
        return self

    def __len__(self) -> int:
        return len(self._loader._index_sampler)

    def _count(self) -> None:
        """Warn if an iterable dataset has more samples than it said when it was asked."""
        self._given += 1
        promised = self._loader._promised
        if promised is not None and self._given > promised:
            warnings.warn(
                f"the DataLoader of an IterableDataset said that its length is {promised}, and "
                f"this is number {self._given}; with workers, each must give its share: see "
                "get_worker_info()",
                UserWarning,
                stacklevel=3,
            )


class _OneProcess(_Epoch):
    """An iteration in this process."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._indices = iter(loader._index_sampler)
        self._fetch = loader._fetching().start()

    def __next__(self) -> Any:
        batch = self._fetch(next(self._indices))
        if self._loader._iterable:
            self._count()
        return batch


class _Workers(_Epoch):
    """An iteration of worker processes."""

    def __init__(self, loader: DataLoader[Any], crew: Crew, *, again: bool = False) -> None:
        super().__init__(loader)
        self._crew = crew
        crew.begin(iter(loader._index_sampler), again=again)

    def __next__(self) -> Any:
        try:
            batch = self._crew.next()
        except StopIteration:
            if not self._loader.persistent_workers:
                self._crew.close()
            raise
        if self._loader._iterable:
            self._count()
        return batch

"""Datasets: samples by number, or one after the other; and datasets made of others."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar, overload

from adjoint import ops
from adjoint.calls.methods import tensor as tensor_of
from adjoint.core.dtypes import int64
from adjoint.core.errors import DatasetError, IndexOutOfRange, ValueRangeError
from adjoint.core.generator import Generator, default_generator
from adjoint.core.shapes import show
from adjoint.tensor.tensor import Tensor

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Dataset(Generic[T_co]):
    """Samples by number: a subclass has `__getitem__`, and `__len__` if samplers are to count.

    A method `__getitems__(numbers)` may give a whole batch of samples at once.

    >>> import adjoint as ad
    >>> class Squares(ad.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, number):
    ...         return number**2
    >>> list(ad.utils.data.DataLoader(Squares(), batch_size=2))
    [tensor([0, 1]), tensor([4, 9])]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Samples one after the other: a subclass has `__iter__`.

    Each worker process of a `DataLoader` has a copy; `get_worker_info()` tells them apart, so that
    each can give its share.

    >>> import adjoint as ad
    >>> class Countdown(ad.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter([3, 2, 1])
    >>> list(ad.utils.data.DataLoader(Countdown(), batch_size=2))
    [tensor([3, 2]), tensor([1])]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")

    def __add__(self, other: Dataset[T_co]) -> Any:
        return ChainDataset([self, other])


class Rows(Sequence[tuple[Tensor, ...]]):
    """Samples of a `TensorDataset`, which are one tensor each as long as nobody looks at one."""

    __slots__ = ("numbers", "tensors")

    def __init__(self, tensors: tuple[Tensor, ...], numbers: Sequence[int]) -> None:
        self.tensors = tensors
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> tuple[Tensor, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> Rows: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Rows(self.tensors, self.numbers[index])
        number = self.numbers[index]
        return tuple([t[number] for t in self.tensors])

    def collated(self) -> list[Tensor]:
        """Return the batch."""
        numbers = tensor_of(self.numbers, dtype=int64)
        return [ops.index_select(t, 0, numbers) for t in self.tensors]


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors of the same length: sample n is the tuple of their rows n.

    >>> import adjoint as ad
    >>> data = ad.utils.data.TensorDataset(ad.arange(6).reshape(3, 2), ad.tensor([0, 1, 0]))
    >>> len(data), data[1]
    (3, (tensor([2, 3]), tensor(1)))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors or any(t.ndim == 0 or len(t) != len(tensors[0]) for t in tensors):
            shapes = ", ".join(show(t.shape) for t in tensors)
            raise DatasetError(
                f"TensorDataset: tensors of the same length are needed, got {shapes}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([t[index] for t in self.tensors])

    def __getitems__(self, indices: Sequence[int]) -> Rows:
        length = len(self)
        if indices and not -length <= min(indices) <= max(indices) < length:
            raise IndexOutOfRange(f"TensorDataset: {indices} of {length} samples")
        whole = [i + length if i < 0 else i for i in indices] if min(indices, default=0) < 0 else 0
        return Rows(self.tensors, whole or indices)

    def __len__(self) -> int:
        return len(self.tensors[0])


class StackDataset(Dataset[Any]):
    """Datasets side by side: sample n is the tuple, or the dict by keyword, of their samples n.

    >>> import adjoint as ad
    >>> ad.utils.data.StackDataset(image=[1, 2], label=["a", "b"])[1]
    {'image': 2, 'label': 'b'}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueRangeError("StackDataset: give datasets, or datasets by keyword")
        self.datasets: Any = kwargs or args
        lengths = {len(d) for d in self._each()}
        if len(lengths) > 1:
            raise ValueRangeError(f"StackDataset: the datasets have lengths {sorted(lengths)}")
        self._length = lengths.pop()

    def _each(self) -> Sequence[Any]:
        return list(self.datasets.values()) if isinstance(self.datasets, dict) else self.datasets

    def _together(self, parts: Sequence[Any]) -> Any:
        keyed = isinstance(self.datasets, dict)
        return dict(zip(self.datasets, parts, strict=True)) if keyed else tuple(parts)

    def __getitem__(self, index: Any) -> Any:
        return self._together([dataset[index] for dataset in self._each()])

    def __getitems__(self, indices: list[int]) -> list[Any]:
        columns = [samples_of(dataset, indices) for dataset in self._each()]
        for column in columns:
            if len(column) != len(indices):
                raise ValueRangeError(
                    f"StackDataset: __getitems__ of {len(indices)} numbers gave {len(column)}"
                )
        return [self._together([c[n] for c in columns]) for n in range(len(indices))]

    def __len__(self) -> int:
        return self._length


def samples_of(dataset: Any, indices: list[Any]) -> Any:
    """Return samples by their numbers, at once where the dataset can."""
    together = getattr(dataset, "__getitems__", None)
    if together is None or not _gives_batches(type(dataset)):
        return [dataset[i] for i in indices]
    return together(indices)


@lru_cache(maxsize=256)
def _gives_batches(kind: type) -> bool:
    """Whether `__getitems__` speaks for a class: not if a subclass has another `__getitem__`."""
    for base in kind.__mro__:
        if "__getitems__" in vars(base):
            return True
        if "__getitem__" in vars(base):
            return False
    return True  # an attribute of the object


class ConcatDataset(Dataset[T_co]):
    """Datasets one behind the other; also written `first + second`.

    >>> import adjoint as ad
    >>> data = ad.utils.data.ConcatDataset([[1, 2], [3]])
    >>> len(data), data[2], data[-3]
    (3, 3, 1)
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets: list[Any] = list(datasets)
        if not self.datasets:
            raise DatasetError("ConcatDataset: there are no datasets")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise DatasetError("ConcatDataset: an IterableDataset has no numbers; ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def _place(self, index: int) -> tuple[int, int]:
        """Return which dataset a sample is in, and its number there."""
        length = len(self)
        if not -length <= index < length:
            raise IndexOutOfRange(f"ConcatDataset: sample {index} of {length}")
        number = index % length
        which = bisect.bisect_right(self.cumulative_sizes, number)
        return which, number - (self.cumulative_sizes[which - 1] if which else 0)

    def __getitem__(self, index: int) -> T_co:
        which, number = self._place(index)
        return self.datasets[which][number]


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one behind the other; also written `first + second`.

    >>> import adjoint as ad
    >>> class Upto(ad.utils.data.IterableDataset):
    ...     def __init__(self, end): self.end = end
    ...     def __iter__(self): return iter(range(self.end))
    >>> list(ad.utils.data.ChainDataset([Upto(2), Upto(3)]))
    [0, 1, 0, 1, 2]
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _each(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise DatasetError(
                    f"ChainDataset: takes IterableDatasets, got a {type(dataset).__name__}; "
                    "ConcatDataset takes others"
                )
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._each():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._each())  # type: ignore[arg-type]


class Subset(Dataset[T_co]):
    """Some samples of a dataset, by their numbers.

    >>> import adjoint as ad
    >>> data = ad.utils.data.Subset("abcde", [4, 0])
    >>> data[0], data[1], len(data)
    ('e', 'a', 2)
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> Any:
        return samples_of(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[Any]]:
    """Share the samples of a dataset at random among subsets of these lengths, or fractions.

    Fractions are rounded down, and the samples that are left go one each to the first subsets.

    >>> import adjoint as ad
    >>> generator = ad.Generator().manual_seed(0)
    >>> parts = ad.utils.data.random_split(range(10), [0.7, 0.3], generator)
    >>> [len(part) for part in parts], sorted(i for part in parts for i in part)
    ([7, 3], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    counts = _counts(len(dataset), lengths)
    for number, count in enumerate(counts):
        if count == 0:
            warnings.warn(
                f"random_split: subset {number} has no samples", UserWarning, stacklevel=2
            )
    order = ops.randperm(
        sum(counts), generator=default_generator if generator is None else generator
    )
    numbers = order.tolist()
    ends = itertools.accumulate(counts)
    return [Subset(dataset, numbers[e - c : e]) for e, c in zip(ends, counts, strict=True)]


def _counts(total: int, lengths: Sequence[int | float]) -> list[int]:
    """Return how many samples each part gets."""
    if lengths and math.isclose(sum(lengths), 1) and sum(lengths) <= 1 + 1e-9:
        if any(not 0 <= share <= 1 for share in lengths):
            raise ValueRangeError(f"random_split: fractions {lengths} must lie in [0, 1]")
        counts = [math.floor(total * share) for share in lengths]
        for number in range(total - sum(counts)):
            counts[number % len(counts)] += 1
        return counts
    if sum(lengths) != total:
        raise ValueRangeError(
            f"random_split: lengths of {sum(lengths)} samples in all, and the dataset has {total}"
        )
    return [int(count) for count in lengths]

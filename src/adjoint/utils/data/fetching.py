"""Fetching: from the numbers that a sampler gives to a batch; the same in every process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from adjoint.core.records import record
from adjoint.utils.data.dataset import samples_of


@record
class Fetching:
    """How batches of a dataset are made."""

    dataset: Any
    iterable: bool  # whether samples come one after the other, without numbers
    batched: bool  # whether the sampler gives lists of numbers
    collate: Callable[[Any], Any]
    drop_last: bool

    def start(self) -> Callable[[Any], Any]:
        """Return the function from numbers to a batch; it raises StopIteration at the end."""
        return self._along(self.dataset) if self.iterable else self._by_number

    def _by_number(self, index: Any) -> Any:
        dataset = self.dataset
        return self.collate(samples_of(dataset, index) if self.batched else dataset[index])

    def _along(self, dataset: Iterable[Any]) -> Callable[[Any], Any]:
        samples, over = iter(dataset), False

        def following(index: Any) -> Any:
            nonlocal over
            if not self.batched:
                return self.collate(next(samples))
            found = [] if over else list(itertools.islice(samples, len(index)))
            over = len(found) < len(index)
            if not found or (over and self.drop_last):
                raise StopIteration
            return self.collate(found)

        return following

"""Datasets, samplers and `DataLoader`, under the names of `torch.utils.data`.

Data pipes (`IterDataPipe`, `MapDataPipe` and what belongs to them), which PyTorch has given up,
are left out: write a `Dataset` or an `IterableDataset`.
"""

from __future__ import annotations

from typing import NoReturn

from adjoint.utils.data.collation import collate, default_collate, default_convert
from adjoint.utils.data.dataloader import DataLoader
from adjoint.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from adjoint.utils.data.distributed import DistributedSampler
from adjoint.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from adjoint.utils.data.workers import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "collate",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

_PIPES = frozenset((
    "DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "argument_validation",
    "functional_datapipe", "guaranteed_datapipes_determinism", "non_deterministic",
    "runtime_validation", "runtime_validation_disabled",
))  # fmt: skip


def __getattr__(name: str) -> NoReturn:
    why = ": data pipes are left out; write a Dataset or an IterableDataset"
    raise AttributeError(f"adjoint.utils.data has no {name!r}{why if name in _PIPES else ''}")

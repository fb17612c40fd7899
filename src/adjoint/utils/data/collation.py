"""Collation: samples to a batch. A table from types to functions says how; users may add rows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.calls.methods import as_tensor, tensor
from adjoint.core.dtypes import OF, float64
from adjoint.core.errors import ArgumentError, ShapeError
from adjoint.tensor.tensor import Tensor
from adjoint.utils.data.dataset import Rows

CollateMap = Mapping[type | tuple[type, ...], Callable[..., Any]]


def default_convert(data: Any) -> Any:
    """Turn the NumPy arrays of a sample into tensors, in containers too; leave the rest.

    >>> import adjoint as ad, numpy as np
    >>> ad.utils.data.default_convert({"x": np.zeros(2), "y": "text"})
    {'x': tensor([0., 0.], dtype=ad.float64), 'y': 'text'}
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        known = data.dtype in OF
        return as_tensor(np.asarray(data)) if known else data
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*[default_convert(value) for value in data])
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like(data, [default_convert(value) for value in data])
    return data


def _like(sample: Any, made: Any) -> Any:
    """Put what was made into a container of the sample's class, where that can be done."""
    kind = type(sample)
    if kind is type(made):
        return made
    try:
        if isinstance(sample, MutableMapping):
            changed = copy.copy(sample)
            changed.update(made)
            return changed
        if isinstance(sample, MutableSequence):
            changed = copy.copy(sample)
            for number, value in enumerate(made):
                changed[number] = value
            return changed
        return kind(made)
    except TypeError:  # a class with another constructor, such as range
        return made


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Collate samples with a table of functions by type, for instance one with types of yours.

    A function gets the list of samples and the table: `function(batch, collate_fn_map=table)`.
    Containers are collated part by part.

    >>> from adjoint.utils.data import collation
    >>> rows = {complex: lambda batch, *, collate_fn_map=None: sum(batch)}
    >>> collation.collate([(1j, 2j), (3j, 4j)], collate_fn_map=rows)
    [4j, 6j]
    """
    table = collate_fn_map or {}
    sample = batch[0]
    function = _function_for(sample, table)
    if function is not None:
        return function(batch, collate_fn_map=table)
    if isinstance(sample, Mapping):
        made = {k: collate([s[k] for s in batch], collate_fn_map=table) for k in sample}
        return _like(sample, made)
    if isinstance(sample, Sequence) and not isinstance(sample, (str, bytes)):
        return _columns(batch, sample, table)
    raise ArgumentError(
        "default_collate: samples must be tensors, NumPy arrays or numbers, numbers, texts, dicts "
        f"or sequences of those, got a {type(sample).__name__}; give the DataLoader a collate_fn"
    )


def _function_for(sample: Any, table: CollateMap) -> Callable[..., Any] | None:
    kind = type(sample)
    found = table.get(kind)
    if found is not None:
        return found
    return next((table[t] for t in table if isinstance(sample, t)), None)


def _columns(batch: Any, sample: Any, table: CollateMap) -> Any:
    lengths = {len(each) for each in batch}
    if len(lengths) > 1:
        raise ShapeError(f"default_collate: samples of a batch have lengths {sorted(lengths)}")
    columns = [collate(list(c), collate_fn_map=table) for c in zip(*batch, strict=True)]
    if isinstance(sample, tuple):
        return type(sample)(*columns) if hasattr(sample, "_fields") else columns
    return _like(sample, columns)


def _tensors(batch: Any, *, collate_fn_map: CollateMap) -> Any:
    return ops.stack(list(batch), 0)


def _arrays(batch: Any, *, collate_fn_map: CollateMap) -> Any:
    if batch[0].dtype not in OF:
        raise ArgumentError(
            f"default_collate: arrays of NumPy's {batch[0].dtype} have no tensors; give the "
            "DataLoader a collate_fn"
        )
    return collate([as_tensor(each) for each in batch], collate_fn_map=collate_fn_map)


def _numpy_numbers(batch: Any, *, collate_fn_map: CollateMap) -> Any:
    return as_tensor(np.asarray(batch))


def _floats(batch: Any, *, collate_fn_map: CollateMap) -> Any:
    return tensor(batch, dtype=float64)


def _integers(batch: Any, *, collate_fn_map: CollateMap) -> Any:
    return tensor(batch)


def _as_they_are(batch: Any, *, collate_fn_map: CollateMap) -> Any:
    return batch


default_collate_fn_map: dict[type | tuple[type, ...], Callable[..., Any]] = {
    Tensor: _tensors,
    np.ndarray: _arrays,
    (np.bool_, np.number): _numpy_numbers,
    float: _floats,
    int: _integers,
    str: _as_they_are,
    bytes: _as_they_are,
}


def default_collate(batch: Any) -> Any:
    """Make a batch of samples: tensors are stacked, numbers become a tensor, dicts and sequences
    are collated part by part, texts stay a list.

    >>> import adjoint as ad
    >>> ad.utils.data.default_collate([{"x": ad.zeros(2), "n": 1}, {"x": ad.ones(2), "n": 2}])
    {'x': tensor([[0., 0.], [1., 1.]]), 'n': tensor([1, 2])}
    """
    if type(batch) is Rows:
        return batch.collated()
    return collate(batch, collate_fn_map=default_collate_fn_map)

"""safetensors: tensors by name, a JSON header in front of their bytes, no code anywhere.

    8 bytes: the length of the header · the header · the bytes of the tensors, one after the other

`save_file` and `load_file` are called as those of the package of that name; `ad.load` reads such
files as well, and `ad.save` writes them by their suffix. The header of a file is checked as a whole
before anything is made of it: tensors cover the bytes without gaps or overlaps.
"""

from __future__ import annotations

import io
import json
import math
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.devices import existing_device
from adjoint.core.dtypes import DType
from adjoint.core.errors import ArgumentError, FileError
from adjoint.core.records import record
from adjoint.core.shapes import row_major
from adjoint.core.storage import address, storage_of
from adjoint.serialization.replacing import replace_file
from adjoint.serialization.sources import Source, is_path, opened
from adjoint.serialization.storages import Memory
from adjoint.tensor.tensor import Tensor

__all__ = ["load", "load_file", "safe_open", "save", "save_file"]

_DTYPES: dict[str, DType] = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "I16": dtypes.int16,
    "U16": dtypes.uint16, "F16": dtypes.float16, "BF16": dtypes.bfloat16, "I32": dtypes.int32,
    "U32": dtypes.uint32, "F32": dtypes.float32, "F64": dtypes.float64, "I64": dtypes.int64,
    "U64": dtypes.uint64, "C64": dtypes.complex64,
}  # fmt: skip
_WORDS = {dtype: word for word, dtype in _DTYPES.items()}
_LONGEST = 100_000_000  # bytes of a header


@record
class Entry:
    """One tensor of a header."""

    name: str  # "layer.weight"
    dtype: DType
    shape: tuple[int, ...]
    start: int  # where its bytes start in the file
    size: int  # in bytes


# ---- reading ------------------------------------------------------------------------------------


def is_one(start: bytes) -> bool:
    """Whether a file starts as a safetensors file does."""
    return len(start) > 8 and start[8:9] == b"{" and _length(start) <= _LONGEST


def _length(start: bytes) -> int:
    return struct.unpack_from("<Q", start)[0]


def header_of(source: Source) -> tuple[list[Entry], dict[str, str]]:
    """Return the tensors that a header describes, in the order of their bytes, and its metadata."""
    if source.size < 8:
        raise FileError(f"{source.name}: is too short for a safetensors file")
    length = _length(source.read(0, 8))
    if length > min(_LONGEST, source.size - 8):
        raise FileError(f"{source.name}: the header of {length} bytes is longer than the file")
    try:
        text = json.loads(source.read(8, length), object_pairs_hook=_without_doubles)
        metadata = text.pop("__metadata__", {})
        entries = [_entry(name, facts, 8 + length) for name, facts in text.items()]
        if not all(type(t) is str for pair in metadata.items() for t in pair):
            raise FileError("__metadata__ must be texts by name")
    except FileError as error:
        raise FileError(f"{source.name}: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FileError(f"{source.name}: the header is damaged: {error!r}") from error
    entries.sort(key=lambda e: (e.start, e.size))
    _check_cover(source, entries, 8 + length)
    return entries, metadata


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise FileError("a name occurs twice in the header")
    return found


def _entry(name: str, facts: dict[str, Any], start: int) -> Entry:
    word, shape, (first, last) = facts["dtype"], facts["shape"], facts["data_offsets"]
    if word not in _DTYPES:
        raise FileError(f"{name!r} is of dtype {word!r:.40}, which adjoint does not have")
    numbers = (*shape, first, last)
    if not all(type(n) is int and 0 <= n < 2**62 for n in numbers) or len(shape) > 64:
        raise FileError(f"{name!r} has the shape {shape} at {[first, last]}")
    dtype = _DTYPES[word]
    if math.prod(shape) * dtype.itemsize != last - first:
        raise FileError(f"{name!r} has the shape {shape} of {dtype.name} and {last - first} bytes")
    return Entry(name, dtype, tuple(shape), start + first, last - first)


def _check_cover(source: Source, entries: list[Entry], start: int) -> None:
    """Raise unless the tensors lie one after the other, from the header to the end."""
    for entry in entries:
        if entry.start != start:
            raise FileError(f"{source.name}: {entry.name!r} does not lie behind the one before it")
        start += entry.size
    if start != source.size:
        raise FileError(
            f"{source.name}: the tensors end at byte {start}, and the file at {source.size}"
        )


def _tensor(source: Source, entry: Entry) -> Tensor:
    memory = Memory(source.array(entry.start, entry.size))
    return memory.tensor(entry.dtype, 0, entry.shape, row_major(entry.shape))


def read(source: Source) -> dict[str, Tensor]:
    """Return all tensors of a file by name."""
    return {entry.name: _tensor(source, entry) for entry in header_of(source)[0]}


def load_file(filename: Any, device: Any = "cpu", *, mmap: bool = True) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file by name.

    The file is mapped into memory: tensors are read when they are first used, and writes to them
    stay in memory. `mmap=False` reads everything at once.

    >>> import adjoint as ad, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/model.safetensors"
    ...     ad.utils.safetensors.save_file({"weight": ad.ones(2)}, path)
    ...     ad.utils.safetensors.load_file(path)
    {'weight': tensor([1., 1.])}
    """
    existing_device("load_file", device)
    source = opened("load_file", filename, mapped=mmap and is_path(filename))
    try:
        return read(source)
    finally:
        source.close()


def load(data: bytes) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file that is given as bytes.

    >>> import adjoint as ad
    >>> data = ad.utils.safetensors.save({"x": ad.ones(2)})
    >>> ad.utils.safetensors.load(data)
    {'x': tensor([1., 1.])}
    """
    return read(Source(io.BytesIO(data), "<bytes>"))


class safe_open:  # noqa: N801 - the name is that of the package
    """A safetensors file whose tensors are read one by one.

    >>> import adjoint as ad, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/model.safetensors"
    ...     ad.utils.safetensors.save_file({"w": ad.arange(6).reshape(2, 3)}, path, {"step": "3"})
    ...     with ad.utils.safetensors.safe_open(path) as file:
    ...         file.keys(), file.metadata(), file.get_slice("w")[:, 1]
    (['w'], {'step': '3'}, tensor([1, 4]))
    """

    def __init__(self, filename: Any, framework: str = "pt", device: Any = "cpu") -> None:
        """`framework` is accepted for those who name PyTorch: the tensors are adjoint's."""
        existing_device("safe_open", device)
        self._source = opened("safe_open", filename, mapped=is_path(filename))
        try:
            entries, self._metadata = header_of(self._source)
        except BaseException:
            self._source.close()
            raise
        self._entries = {entry.name: entry for entry in entries}

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *error: object) -> None:
        self._source.close()

    def keys(self) -> list[str]:
        """Return the names of the tensors."""
        return sorted(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def metadata(self) -> dict[str, str]:
        """Return the texts that were saved beside the tensors."""
        return dict(self._metadata)

    def get_tensor(self, name: str) -> Tensor:
        """Return a tensor."""
        if name not in self._entries:
            raise ArgumentError(f"{self._source.name}: there is no tensor {name!r}")
        return _tensor(self._source, self._entries[name])

    get_slice = get_tensor  # mapped, so that indexing it reads what is asked for alone


# ---- writing ------------------------------------------------------------------------------------


def save_file(
    tensors: Mapping[str, Tensor], filename: Any, metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors by name to a safetensors file; the file is replaced when all is written.

    Tensors that share memory are refused, since the format cannot say it: clone() one of them. See
    `load_file` for an example.
    """
    pieces = _pieces(tensors, metadata)
    if is_path(filename):
        replace_file(os.fspath(filename), lambda file: _write(pieces, file))
    else:
        _write(pieces, filename)


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes of a safetensors file.

    >>> import adjoint as ad
    >>> data = ad.utils.safetensors.save({"x": ad.ones(2)})
    >>> ad.utils.safetensors.load(data)
    {'x': tensor([1., 1.])}
    """
    file = io.BytesIO()
    _write(_pieces(tensors, metadata), file)
    return file.getvalue()


def write(value: Any, file: Any) -> None:
    """Write a dict of tensors to a file object."""
    _write(_pieces(value, None), file)


def _write(pieces: Sequence[Any], file: Any) -> None:
    for piece in pieces:
        file.write(piece)


def _pieces(tensors: Any, metadata: Any) -> list[Any]:
    """The header and the bytes of each tensor."""
    _check(tensors, metadata)
    # As the package does: the widest first, so that every tensor is aligned.
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    arrays: list[Any] = []
    end = 0
    for name in order:
        tensor = tensors[name]
        array = np.ascontiguousarray(tensor.detach().array)
        header[name] = {
            "dtype": _WORDS[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [end, end + array.nbytes],
        }
        end += array.nbytes
        arrays.append(array.reshape(-1).view(np.uint8))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return [struct.pack("<Q", len(text)), text, *arrays]


def _check(tensors: Any, metadata: Any) -> None:
    """Raise for what the format cannot say."""
    if not isinstance(tensors, Mapping):
        raise ArgumentError(
            f"safetensors: needs a dict of tensors by name, got a {type(tensors).__name__}; "
            "ad.save with another suffix writes other values"
        )
    if not all(type(t) is str for pair in (metadata or {}).items() for t in pair):
        raise ArgumentError("safetensors: metadata must be texts by name")
    owners: dict[int, str] = {}
    for name, tensor in tensors.items():
        if type(name) is not str or not isinstance(tensor, Tensor):
            kind = type(tensor).__name__
            raise ArgumentError(f"safetensors: {name!r} is a {kind}; only tensors have a name here")
        tensor.check_leaves("save_file")
        if tensor.dtype not in _WORDS or tensor.layout != "strided" or tensor.is_meta:
            raise ArgumentError(
                f"safetensors: {name!r} is {tensor.dtype.name} and {tensor.layout!r} on "
                f"{tensor.device}; the format has {', '.join(d.name for d in _WORDS)}, dense"
            )
        if tensor.numel():
            _check_alone(owners, name, tensor)


def _check_alone(owners: dict[int, str], name: str, tensor: Any) -> None:
    place = address(storage_of(tensor.detach().array)[0])
    if place in owners:
        raise ArgumentError(
            f"safetensors: {owners[place]!r} and {name!r} share memory, which the format cannot "
            "say; save one of them, or clone() it"
        )
    owners[place] = name

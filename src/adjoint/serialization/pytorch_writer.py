"""PyTorch's newer format written by hand, so that `torch.load` reads it.

NumPy's values are written as its own pickles have them, which `torch.load` reads with
`weights_only=False`. The member `adjoint` says that the file is ours: `ad.load` then reads them.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.devices import Device
from adjoint.core.dtypes import ALL, DType, bfloat16
from adjoint.core.layouts import Layout
from adjoint.core.shapes import Size
from adjoint.homes.sparse import SparseTensor
from adjoint.nn.parameter import Parameter
from adjoint.serialization import archives
from adjoint.serialization.pickles import Writer
from adjoint.serialization.pytorch import OURS, STORAGES
from adjoint.serialization.refusals import check_depth, check_tensor, refusal
from adjoint.serialization.storages import Blocks, Place, attributes_of
from adjoint.tensor.memory import Storage
from adjoint.tensor.tensor import Tensor, make

_MULTIARRAY = "numpy._core.multiarray"


class _Encoder:
    """Writes values as the pickle that `torch.load` reads."""

    def __init__(self) -> None:
        self.writer = Writer()
        self.blocks = Blocks()
        self.path: list[str] = []
        self._under_way: set[int] = set()
        self._kept: list[Any] = []  # what was remembered by its id

    def value(self, value: Any) -> None:
        """Write a value."""
        writer, kind = self.writer, type(value)
        if value is None or kind is bool:
            writer.constant(value)
        elif kind is int:
            writer.integer(value)
        elif kind is float:
            writer.number(value)
        elif kind is str:
            writer.text(value)
        elif kind in (Device, Layout) or isinstance(value, DType):
            self._name_of(value)
        elif not writer.recall(id(value)):
            self._object(value)

    def _object(self, value: Any) -> None:
        if id(value) in self._under_way:
            raise refusal(self.path, "contains itself; a file holds a value after its parts")
        check_depth(self.path)
        self._under_way.add(id(value))
        self._kept.append(value)
        if isinstance(value, Tensor):
            self._tensor(value)
        elif isinstance(value, Storage):
            self._storage(self.blocks.place(make(value.flat)))
        elif isinstance(value, np.generic):
            self._scalar(value)
        else:
            write = _WRITERS.get(type(value))
            if write is None:
                raise refusal(self.path, value)
            write(self, value)
        self.writer.remember(id(value))
        self._under_way.discard(id(value))

    def _name_of(self, value: Any) -> None:
        if isinstance(value, DType):
            self.writer.name("torch", value.name)
        elif type(value) is Layout:
            self.called("torch.serialization", "_get_layout", f"torch.{value}")
        else:
            self.called("torch", "device", str(value))

    def called(self, module: str, name: str, *arguments: Any) -> None:
        """Write the call of a function."""
        self.writer.name(module, name)
        self._tuple(arguments)
        self.writer.put(b"R")

    def _tuple(self, items: Any) -> None:
        self.writer.put(b"(")
        for item in items:
            self.value(item)
        self.writer.put(b"t")

    def items(self, values: Any) -> None:
        """Write the items of a sequence, one above the other."""
        for number, value in enumerate(values):
            self.at(f"[{number}]", value)

    def at(self, step: str, value: Any) -> None:
        """Write a part of a value."""
        self.path.append(step)
        self.value(value)
        self.path.pop()

    def list(self, values: Any) -> None:
        self.writer.put(b"](")
        self.items(values)
        self.writer.put(b"e")

    def tuple(self, values: Any) -> None:
        self.writer.put(b"(")
        self.items(values)
        self.writer.put(b"t")

    def size(self, values: Any) -> None:
        self.called("torch", "Size", tuple(values))

    def pairs(self, values: Any) -> None:
        """Put the items of a dict into the one on the stack."""
        self.writer.put(b"(")
        for key, value in values.items():
            self.at("", key)
            self.at(f"[{key!r:.60}]", value)
        self.writer.put(b"u")

    def dict(self, values: Any) -> None:
        self.writer.put(b"}")
        self.pairs(values)

    def ordered(self, values: Any) -> None:
        self.called("collections", "OrderedDict")
        self.pairs(values)
        metadata = getattr(values, "_metadata", None)
        if metadata is not None:
            self.writer.put(b"}(")
            self.value("_metadata")
            self.at("._metadata", metadata)
            self.writer.put(b"ub")

    def counter(self, values: Any) -> None:
        self.called("collections", "Counter", dict(values))

    def set(self, values: Any) -> None:
        self.called("__builtin__", "set", list(values))

    def bytes(self, value: Any) -> None:
        self.called("_codecs", "encode", value.decode("latin1"), "latin1")

    def bytearray(self, value: Any) -> None:
        self.called("__builtin__", "bytearray", value.decode("latin1"), "latin1")

    def complex(self, value: Any) -> None:
        self.called("__builtin__", "complex", value.real, value.imag)

    def _scalar(self, value: Any) -> None:
        """A scalar of NumPy."""
        self.writer.name(_MULTIARRAY, "scalar")
        self.writer.put(b"(")
        self._numpy_dtype(np.asarray(value), value)
        self.bytes(value.tobytes())
        self.writer.put(b"tR")

    def array(self, value: Any) -> None:
        """An array of NumPy: a blank one, and its state."""
        self.writer.name(_MULTIARRAY, "_reconstruct")
        self.writer.put(b"(")
        self.writer.name("numpy", "ndarray")
        self._tuple((0,))
        self.bytes(b"b")
        self.writer.put(b"tR(")
        self.value(1)
        self._tuple(value.shape)
        self._numpy_dtype(value, value)
        by_columns = value.flags.f_contiguous and not value.flags.c_contiguous
        self.value(by_columns)
        self.bytes(value.tobytes("F" if by_columns else "C"))
        self.writer.put(b"tb")

    def _numpy_dtype(self, array: Any, value: Any) -> None:
        if array.dtype not in (d.np for d in ALL):
            raise refusal(self.path, value)
        order = "|" if array.dtype.itemsize == 1 else "<"
        self.writer.name("numpy", "dtype")
        self.writer.put(b"(")
        if array.dtype == bfloat16.np:
            self.writer.name("ml_dtypes", "bfloat16")
        else:
            self.value(array.dtype.str[1:])
        self.value(False)
        self.value(True)
        self.writer.put(b"tR")
        self._tuple((3, order, None, None, None, -1, -1, 0))
        self.writer.put(b"b")

    # -- tensors ---------------------------------------------------------------------------------

    def _tensor(self, tensor: Any) -> None:
        check_tensor(self.path, tensor)
        requires_grad, attributes = tensor.requires_grad, attributes_of(tensor)
        if isinstance(tensor, Parameter):
            suffix = "_with_state" if attributes else ""
            self.writer.name("torch._utils", f"_rebuild_parameter{suffix}")
            self.writer.put(b"(")
            self._parts(tensor, requires_grad=False)
            self.writer.constant(requires_grad)
            self.called("collections", "OrderedDict")
        elif attributes and tensor.layout == "strided" and not tensor.is_meta:
            self.writer.name("torch._tensor", "_rebuild_from_type_v2")
            self.writer.put(b"(")
            self._function(tensor)
            self.writer.name("torch", "Tensor")
            self._arguments(tensor, requires_grad)
        else:
            self._parts(tensor, requires_grad=requires_grad)
            return
        if attributes:
            self.at(" attributes", attributes)
        self.writer.put(b"tR")

    def _parts(self, tensor: Any, *, requires_grad: bool) -> None:
        if type(tensor) is SparseTensor:
            self._sparse(tensor)
        elif tensor.is_meta:
            facts = (tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), requires_grad)
            self.called("torch._utils", "_rebuild_meta_tensor_no_storage", *facts)
        else:
            self._function(tensor)
            self._arguments(tensor, requires_grad)
            self.writer.put(b"R")

    def _typed(self, place: Place) -> bool:
        """Whether a class of storages says the dtype."""
        first = self.blocks.arrays[place.block].dtype
        return place.dtype.name in STORAGES and place.dtype.np == first

    def _function(self, tensor: Any) -> None:
        """Write the name of the function that makes a tensor on a storage."""
        version = 2 if self._typed(self.blocks.place(tensor)) else 3
        self.writer.name("torch._utils", f"_rebuild_tensor_v{version}")

    def _arguments(self, tensor: Any, requires_grad: bool) -> None:
        """Write its arguments: the storage, and where the tensor lies in it."""
        place, writer = self.blocks.place(tensor), self.writer
        writer.put(b"(")
        self._storage(place)
        for part in (place.offset, tuple(place.shape), tuple(place.stride), requires_grad):
            self.value(part)
        self.called("collections", "OrderedDict")
        if not self._typed(place):
            self.value(place.dtype)
        writer.put(b"t")

    def _storage(self, place: Place) -> None:
        """Write the name of a storage, which stands outside the pickle."""
        typed, block, writer = self._typed(place), self.blocks.arrays[place.block], self.writer
        writer.put(b"(")
        writer.text("storage")
        if typed:
            writer.name("torch", f"{STORAGES[place.dtype.name]}Storage")
        else:
            writer.name("torch.storage", "UntypedStorage")
        for part in (str(place.block), "cpu", block.size if typed else block.nbytes):
            self.value(part)
        writer.put(b"tQ")

    def _sparse(self, tensor: Any) -> None:
        pattern = tensor.companion
        if tensor.requires_grad:
            raise refusal(
                self.path,
                "is a sparse tensor that requires a gradient, which PyTorch's files cannot say; "
                "detach() it, or save with format='adjoint'",
            )
        self.writer.name("torch._utils", "_rebuild_sparse_tensor")
        self.writer.put(b"(")
        self.value(pattern.layout)
        self.writer.put(b"(")
        for indices in pattern.indices:
            self.value(make(indices))
        self.value(tensor.stored.detach())
        self.size(pattern.shape)
        if pattern.is_coo:
            self.value(pattern.is_coalesced)
        self.writer.put(b"ttR")


_WRITERS: dict[type, Callable[[_Encoder, Any], None]] = {
    dict: _Encoder.dict,
    list: _Encoder.list,
    tuple: _Encoder.tuple,
    Size: _Encoder.size,
    collections.OrderedDict: _Encoder.ordered,
    collections.Counter: _Encoder.counter,
    set: _Encoder.set,
    bytes: _Encoder.bytes,
    bytearray: _Encoder.bytearray,
    complex: _Encoder.complex,
    np.ndarray: _Encoder.array,
}


def encoded(value: Any) -> _Encoder:
    """A value as a pickle, and its storages; raises `Unsaved` if the format cannot hold it."""
    encoder = _Encoder()
    encoder.value(value)
    return encoder


def write(value: Any, file: Any) -> None:
    """Write a value so that `torch.load` reads it."""
    write_encoded(encoded(value), file)


def write_encoded(encoder: _Encoder, file: Any) -> None:
    """Write what `encoded` gave."""
    archive = archives.Writer(file)
    archive.add("archive/data.pkl", encoder.writer.finished())
    archive.add("archive/byteorder", b"little")
    archive.add(f"archive/{OURS}", b"")
    for number, array in enumerate(encoder.blocks.arrays):
        archive.add(f"archive/data/{number}", array.view(np.uint8))
    archive.add("archive/version", b"3\n")
    archive.finish()

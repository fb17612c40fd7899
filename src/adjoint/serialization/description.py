"""adjoint's own format: values as nodes of a JSON text, arrays as `.npy` members beside it.

    model.ad (a zip archive; NumPy's `np.load` opens it, too)
        description.json   {"format": "adjoint", "version": 1, "blocks": [["<f4", 6, 123]],
                            "nodes": [...], "value": [4]}
        arrays/0.npy       the block of memory 0, flat, behind the header of NumPy's format

A value is a JSON scalar or `[n]`, which stands for node n. A node is an object with one field, its
kind: {"list": [1, [0]]}, {"tensor": {...}}. Nodes refer to earlier ones only: reading is one loop,
a value that occurs twice is one value again, and a cycle cannot be written. A module is the name of
its class and its values (`objects.py`); no other field names code.
"""

from __future__ import annotations

import base64
import collections
import json
import math
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.devices import CPU, META, Device
from adjoint.core.dtypes import ALL, NAMES, DType, bfloat16, complex32
from adjoint.core.errors import AdjointError, FileError
from adjoint.core.layouts import FORMATS, LAYOUTS, Layout, MemoryFormat, sparse_coo
from adjoint.core.shapes import Size
from adjoint.homes.meta import meta_tensor
from adjoint.homes.sparse import SparseTensor
from adjoint.nn.parameter import Parameter
from adjoint.serialization import archives
from adjoint.serialization.archives import Member
from adjoint.serialization.keys import checked_key
from adjoint.serialization.objects import (
    class_named,
    function_named,
    is_function,
    is_object,
    name_of,
    restored,
)
from adjoint.serialization.refusals import (
    DEEPEST,
    brief,
    brief_error,
    check_depth,
    check_tensor,
    refusal,
)
from adjoint.serialization.sources import Source
from adjoint.serialization.storages import (
    Blocks,
    Budget,
    Memory,
    Place,
    attributes_of,
    check_geometry,
    finished,
    with_attributes,
)
from adjoint.sparse import sparse_compressed_tensor, sparse_coo_tensor
from adjoint.tensor.memory import Storage
from adjoint.tensor.tensor import Tensor, make

Array = np.ndarray[Any, Any]

MEMBER = "description.json"
VERSION = 1
_INLINE = 2**63  # whole numbers from here on are nodes

Json = Any


# ---- writing ------------------------------------------------------------------------------------


class Encoder:
    """Turns values into nodes."""

    def __init__(self) -> None:
        self.nodes: list[Json] = []
        self.blocks = Blocks()
        self.path: list[str] = []  # to the value under way: ["['model']", "[0]"]
        self._numbers: dict[int, int | None] = {}  # id of a value -> its node; None while under way
        self._kept: list[Any] = []  # what has a number, so that its id stays its own

    def value(self, value: Any) -> Json:
        """Return the JSON for a value: a scalar, or a reference to a node."""
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int and -_INLINE <= value < _INLINE:
            return value
        if kind is float and math.isfinite(value):
            return value
        return self._node(value)

    def _node(self, value: Any) -> list[int]:
        number = self._numbers.get(id(value), -1)
        if number is None:
            raise refusal(self.path, "contains itself; a file holds a value after its parts")
        if number >= 0:
            return [number]
        check_depth(self.path)
        self._numbers[id(value)] = None
        self._kept.append(value)
        name, content = self._described(value)
        self.nodes.append({name: content})
        self._numbers[id(value)] = len(self.nodes) - 1
        return [len(self.nodes) - 1]

    def _described(self, value: Any) -> tuple[str, Json]:
        if isinstance(value, Tensor):
            return self._tensor(value)
        for kind, name, write in _WRITERS:
            if type(value) is kind:
                return name, write(self, value)
        if isinstance(value, np.generic):
            return "scalar", self._array(np.asarray(value), value)
        if isinstance(value, Storage):
            return "storage", self._placed(self.blocks.place(make(value.flat)))
        if is_object(value):
            return "module", [name_of(type(value)), self.value(value.__getstate__())]
        if is_function(value):
            return "function", name_of(value)
        raise refusal(self.path, value)

    def items(self, values: Any) -> list[Json]:
        """The JSON for the items of a sequence."""
        return [self.at(f"[{n}]", v) for n, v in enumerate(values)]

    def at(self, step: str, value: Any) -> Json:
        """The JSON for a part of a value."""
        self.path.append(step)
        found = self.value(value)
        self.path.pop()
        return found

    def pairs(self, values: Any) -> list[Json]:
        """The JSON for the items of a dict."""
        return [[self.at("", k), self.at(f"[{k!r:.60}]", v)] for k, v in values.items()]

    def ordered(self, value: Any) -> Json:
        """The JSON for an OrderedDict; a state dict has the versions of its modules beside it."""
        metadata = getattr(value, "_metadata", None)
        more = {} if metadata is None else {"metadata": self.at("._metadata", metadata)}
        return {"items": self.pairs(value), **more}

    def array(self, value: Any) -> Json:
        """The JSON for a NumPy array."""
        return self._array(value, value)

    def _array(self, array: Any, value: Any) -> Json:
        if array.dtype not in (d.np for d in ALL):
            raise refusal(self.path, value)
        return self._placed(self.blocks.place(make(array)))

    def _placed(self, place: Place) -> Json:
        return {
            "block": place.block,
            "dtype": place.dtype.name,
            "offset": place.offset,
            "shape": list(place.shape),
            "stride": list(place.stride),
        }

    def _tensor(self, tensor: Any) -> tuple[str, Json]:
        check_tensor(self.path, tensor)
        parameter = isinstance(tensor, Parameter)
        facts: dict[str, Json] = {"requires_grad": tensor.requires_grad, "parameter": parameter}
        attributes = attributes_of(tensor)
        if attributes:
            facts["attributes"] = self.at(" attributes", attributes)
        if type(tensor) is SparseTensor:
            return "sparse", self._sparse(tensor) | facts
        if tensor.is_meta:
            shape = list(tensor.shape)
            return "meta", {"dtype": tensor.dtype.name, "shape": shape} | facts
        return "tensor", self._placed(self.blocks.place(tensor)) | facts

    def _sparse(self, tensor: Any) -> dict[str, Json]:
        pattern = tensor.companion
        return {
            "layout": str(pattern.layout),
            "shape": list(pattern.shape),
            "indices": self.items([make(i) for i in pattern.indices]),
            "values": self.value(tensor.stored.detach()),
            "is_coalesced": pattern.is_coalesced,
        }


def _text(data: Any) -> str:
    return base64.b64encode(data).decode()


# Kind of value, name of its node, what stands in the node.
_WRITERS: tuple[tuple[type, str, Callable[[Encoder, Any], Json]], ...] = (
    (dict, "dict", Encoder.pairs),
    (list, "list", Encoder.items),
    (tuple, "tuple", Encoder.items),
    (Size, "Size", Encoder.items),
    (collections.OrderedDict, "OrderedDict", Encoder.ordered),
    (collections.Counter, "Counter", Encoder.pairs),
    (set, "set", Encoder.items),
    (frozenset, "frozenset", Encoder.items),
    (bytes, "bytes", lambda _, v: _text(v)),
    (bytearray, "bytearray", lambda _, v: _text(v)),
    (int, "int", lambda _, v: hex(v)),
    (float, "float", lambda _, v: repr(v)),
    (complex, "complex", lambda _, v: [repr(v.real), repr(v.imag)]),
    (Device, "device", lambda _, v: str(v)),
    (Layout, "layout", lambda _, v: str(v)),
    (MemoryFormat, "memory_format", lambda _, v: str(v)),
    (DType, "dtype", lambda _, v: v.name),
    (type(complex32), "dtype", lambda _, v: v.name),
    (np.ndarray, "array", Encoder.array),
)


def write(value: Any, file: Any) -> None:
    """Write a value to a file object."""
    encoder = Encoder()
    root = encoder.value(value)
    blocks = [_standard(array) for array in encoder.blocks.arrays]
    text = {
        "format": "adjoint",
        "version": VERSION,
        "blocks": [[block.dtype.str, block.size, checksum(block)] for block in blocks],
        "nodes": encoder.nodes,
        "value": root,
    }
    archive = archives.Writer(file)
    archive.add(MEMBER, json.dumps(text, separators=(",", ":")).encode())
    for number, block in enumerate(blocks):
        archive.add(_member(number), _header(block.dtype.str, block.size), block.view(np.uint8))
    archive.finish()


def _standard(array: Array) -> Array:
    """The same bytes with a dtype that NumPy alone knows: of bfloat16, whole numbers."""
    return array.view(np.uint16) if array.dtype == bfloat16.np else array


def checksum(array: Array) -> int:
    """Return a number that tells damaged arrays: the CRC of the sums of pieces of 32 KiB.

    The CRC of all bytes, which the archive has as well, would take most of the time of loading.
    """
    data = array.view(np.uint8)
    whole = data.size // 8 * 8
    words, rest = data[:whole].view(np.uint64), data[whole:]
    sums = np.add.reduceat(words, np.arange(0, words.size, 4096)) if words.size else words
    return zlib.crc32(rest.tobytes(), zlib.crc32(sums.tobytes()))


def _member(number: int) -> str:
    return f"arrays/{number}.npy"


def _header(kind: str, count: int) -> bytes:
    """The header of NumPy's format for a vector: 128 bytes, so that what follows is aligned."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({count},), }}"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + f"{text:<117}\n".encode()


# ---- reading ------------------------------------------------------------------------------------


class Decoder:
    """Turns nodes into values."""

    def __init__(
        self, source: Source, members: dict[str, Member], text: Json, *, anything: bool
    ) -> None:
        self.source, self.members = source, members
        self.anything = anything  # whether modules may be of any class that was imported
        self.sizes = text["blocks"]
        self.budget = Budget(source.size)
        self.values: list[Any] = []
        self.depths: list[int] = []  # how far each value is nested
        self._blocks: dict[int, Memory] = {}
        self._depth = 0  # of the node under way

    def read(self, nodes: list[Json], root: Json) -> Any:
        """Return the value of a file."""
        for node in nodes:
            ((kind, content),) = node.items()
            self._depth = 0
            self.values.append(_READERS[kind](self, content))
            self.depths.append(self._depth + 1)
            if self._depth > DEEPEST:
                raise FileError(f"{self.source.name}: values are nested too deep")
        return self.value(root)

    def value(self, written: Json) -> Any:
        """Return what a scalar or a reference stands for."""
        if type(written) is not list:
            return _scalar(written)
        (number,) = written
        if type(number) is not int or number < 0:
            raise FileError(f"{self.source.name}: {brief(number)} is no reference")
        self._depth = max(self._depth, self.depths[number])
        return self.values[number]

    def items(self, written: Json) -> list[Any]:
        """Return the items of a sequence."""
        return [self.value(w) for w in written]

    def pairs(self, written: Json) -> list[tuple[Any, Any]]:
        """Return the items of a dict."""
        return [(checked_key(self.value(k)), self.value(v)) for k, v in written]

    def keys(self, written: Json) -> list[Any]:
        """Return the items of a set."""
        return [checked_key(self.value(w)) for w in written]

    def ordered(self, written: Json) -> Any:
        """Return an OrderedDict."""
        made: Any = collections.OrderedDict(self.pairs(written["items"]))
        if "metadata" in written:
            made._metadata = self.value(written["metadata"])
        return made

    def _block(self, number: int) -> Memory:
        if number not in self._blocks:
            kind, count, written = self.sizes[number]
            member = self.members[_member(number)]
            header = _header(str(kind), int(count))
            data = archives.content(self.source, member, header=header, checked=False)
            if not self.source.is_mapped and checksum(data) != written:
                raise archives.damaged(
                    self.source, f"the bytes of {member.name!r} are not those that were written"
                )
            self._blocks[number] = Memory(data)
        return self._blocks[number]

    def _geometry(self, written: Json) -> tuple[DType, int, list[int], list[int]]:
        return NAMES[written["dtype"]], written["offset"], written["shape"], written["stride"]

    def array(self, written: Json) -> Any:
        """Return a NumPy array."""
        return self._block(written["block"]).array(*self._geometry(written))

    def tensor(self, written: Json) -> Any:
        """Return a tensor."""
        made = self._block(written["block"]).tensor(*self._geometry(written))
        return self._finished(made, written)

    def meta(self, written: Json) -> Any:
        """Return a tensor without data."""
        shape = written["shape"]
        check_geometry(0, shape, shape)
        return self._finished(meta_tensor(tuple(shape), NAMES[written["dtype"]]), written)

    def module(self, written: Json) -> Any:
        """Return a module, or a record in one, of a class that the reader knows."""
        name, state = written
        return restored(class_named(name, self.anything), self.value(state))

    def sparse(self, written: Json) -> Any:
        """Return a sparse tensor, whose structure is checked as that of any other."""
        indices, values = self.items(written["indices"]), self.value(written["values"])
        layout, shape = LAYOUTS[written["layout"]], written["shape"]
        coalesced = written["is_coalesced"] if layout is sparse_coo else None
        made = sparse_tensor(self.budget, layout, indices, values, shape, coalesced)
        return self._finished(made, written)

    def _finished(self, tensor: Any, written: Json) -> Any:
        requires_grad, parameter = written["requires_grad"], written["parameter"]
        made = finished(tensor, requires_grad=bool(requires_grad), parameter=bool(parameter))
        if "attributes" in written:
            return with_attributes(made, self.value(written["attributes"]))
        return made


def sparse_tensor(
    budget: Budget,
    layout: Layout,
    indices: list[Any],
    values: Any,
    shape: Any,
    is_coalesced: bool | None,
) -> Any:
    """Make a sparse tensor of the parts in a file."""
    check_geometry(0, tuple(shape), tuple(shape))
    for part in (*indices, values):
        budget.spend(part.nbytes)
    try:
        if layout is sparse_coo:
            (places,) = indices
            return sparse_coo_tensor(places, values, tuple(shape), is_coalesced=is_coalesced)
        first, second = indices
        return sparse_compressed_tensor(first, second, values, tuple(shape), layout=layout)
    except AdjointError as error:
        raise FileError(f"a sparse tensor of the file is damaged: {error}") from error


def size_of(sizes: Any) -> Size:
    """Return a shape of a file."""
    check_geometry(0, sizes, sizes)
    return Size(sizes)


def _scalar(written: Json) -> Any:
    if type(written) is dict:
        raise FileError("a node stands where a value should")
    return written


# What a node becomes, by its kind.
_READERS: dict[str, Callable[[Decoder, Json], Any]] = {
    "dict": lambda d, w: dict(d.pairs(w)),
    "list": Decoder.items,
    "tuple": lambda d, w: tuple(d.items(w)),
    "Size": lambda d, w: size_of(d.items(w)),
    "OrderedDict": Decoder.ordered,
    "Counter": lambda d, w: collections.Counter(dict(d.pairs(w))),
    "set": lambda d, w: set(d.keys(w)),
    "frozenset": lambda d, w: frozenset(d.keys(w)),
    "bytes": lambda _, w: base64.b64decode(w, validate=True),
    "bytearray": lambda _, w: bytearray(base64.b64decode(w, validate=True)),
    "int": lambda _, w: int(w, 16),
    "float": lambda _, w: float(w),
    "complex": lambda _, w: complex(float(w[0]), float(w[1])),
    "device": lambda _, w: {"cpu": CPU, "meta": META}.get(w) or Device(w),
    "layout": lambda _, w: LAYOUTS[w],
    "memory_format": lambda _, w: FORMATS[w],
    "dtype": lambda _, w: NAMES[w],
    "array": Decoder.array,
    "scalar": lambda d, w: d.array(w)[()],
    "tensor": Decoder.tensor,
    "meta": Decoder.meta,
    "storage": lambda d, w: Storage(d._block(w["block"]).tensor(*d._geometry(w))),
    "sparse": Decoder.sparse,
    "module": Decoder.module,
    "function": lambda _, w: function_named(w),
}


def read(source: Source, members: dict[str, Member], *, anything: bool = False) -> Any:
    """Return the value in a file of this format; with `anything`, modules of any known class."""
    try:
        text = json.loads(archives.content(source, members[MEMBER]).tobytes())
        if text["format"] != "adjoint" or type(text["version"]) is not int:
            raise FileError(f"{source.name}: {MEMBER} does not describe a file of adjoint")
        if text["version"] > VERSION:
            raise FileError(
                f"{source.name}: was written by a later adjoint, as version {text['version']} of "
                f"its format; this one reads version {VERSION}"
            )
        decoder = Decoder(source, members, text, anything=anything)
        return decoder.read(text["nodes"], text["value"])
    except AdjointError:
        raise
    except Exception as error:
        raise FileError(f"{source.name}: {MEMBER} is damaged: {brief_error(error)}") from error

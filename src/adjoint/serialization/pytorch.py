"""PyTorch's files, read in both of its formats.

The newer format is a zip archive: a pickle, `data.pkl`, and one member for each storage. The older
one (before 1.6) is a row of pickles with the storages behind them. The pickles name functions that
build tensors; `_Builder` has ours by those names, and everything else is refused (`pickles.py`).
"""

from __future__ import annotations

import codecs
import collections
import struct
from collections.abc import Callable
from typing import Any

from adjoint.core.devices import CPU, META, Device
from adjoint.core.dtypes import NAMES, DType, uint8
from adjoint.core.errors import FileError
from adjoint.core.layouts import Layout, sparse_coo, to_layout
from adjoint.homes.meta import meta_tensor
from adjoint.nn.parameter import Parameter
from adjoint.serialization import archives, plain
from adjoint.serialization.archives import Member
from adjoint.serialization.description import size_of, sparse_tensor
from adjoint.serialization.keys import checked_key
from adjoint.serialization.objects import Others, PickleError
from adjoint.serialization.pickles import Reader
from adjoint.serialization.plain import Function
from adjoint.serialization.refusals import brief
from adjoint.serialization.sources import Source
from adjoint.serialization.storages import (
    Budget,
    Memory,
    check_geometry,
    finished,
    with_attributes,
)
from adjoint.tensor.memory import Storage
from adjoint.tensor.tensor import Tensor

STORAGES = {
    "float64": "Double", "float32": "Float", "float16": "Half", "bfloat16": "BFloat16",
    "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte",
    "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


OURS = "adjoint"  # a member that files of PyTorch's format have if they were written here


class _Typed:
    """The class of a storage: what its bytes are."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: DType | None) -> None:
        self.dtype = dtype  # None where the tensor says it

    @property
    def itemsize(self) -> int:
        return 1 if self.dtype is None else self.dtype.itemsize


class _Storage(Storage):
    """A storage of a pickle: its memory, and the dtype of its class."""

    __slots__ = ("dtype", "memory")

    def __init__(self, memory: Memory, dtype: DType | None) -> None:
        self.memory, self.dtype = memory, dtype
        kind = uint8 if dtype is None else dtype
        count = memory.data.size // kind.itemsize
        self.tensor = memory.tensor(kind, 0, (count,), (1,))
        self.flat = self.tensor.array  # which may be a part of another storage


_CONSTANTS: dict[str, Any] = {
    **{f"torch.{name}": dtype for name, dtype in NAMES.items()},
    **{f"torch.{word}Storage": _Typed(NAMES[name]) for name, word in STORAGES.items()},
    **{f"torch.cuda.{word}Storage": _Typed(NAMES[name]) for name, word in STORAGES.items()},
    "torch.storage.UntypedStorage": _Typed(None),
    "torch.storage._UntypedStorage": _Typed(None),
    "torch.UntypedStorage": _Typed(None),
    "torch.Tensor": Tensor,
    "torch.nn.parameter.Parameter": Parameter,
}


class _Builder:
    """What the functions that a pickle of PyTorch names do here.

    A `dry` one makes no tensors: it finds out which storages a pickle of the older format has.
    """

    def __init__(self, budget: Budget, *, dry: bool = False) -> None:
        self.budget = budget
        tensors: dict[str, Callable[..., Any]] = {
            "torch._utils._rebuild_tensor": self.tensor,
            "torch._utils._rebuild_tensor_v2": self.tensor,
            "torch._utils._rebuild_tensor_v3": self.tensor_of_dtype,
            "torch._utils._rebuild_parameter": self.parameter,
            "torch._utils._rebuild_parameter_with_state": self.parameter,
            "torch._utils._rebuild_sparse_tensor": self.sparse,
            "torch._utils._rebuild_meta_tensor_no_storage": self.meta,
            "torch._tensor._rebuild_from_type_v2": self.with_state,
        }
        if dry:
            tensors = dict.fromkeys(tensors, lambda *_: None)
        functions = tensors | {
            "torch.Size": self.size,
            "torch.device": self.device,
            "torch.serialization._get_layout": self.layout,
            "collections.OrderedDict": self.ordered,
            "collections.Counter": self.counter,
            "_codecs.encode": self.encoded,
        }
        for builtin in ("builtins", "__builtin__"):  # of Python 3, of Python 2 and protocol 2
            functions |= {
                f"{builtin}.set": self.set,
                f"{builtin}.frozenset": self.frozenset,
                f"{builtin}.complex": self.complex,
                f"{builtin}.bytearray": self.bytearray,
                f"{builtin}.bytes": self.no_bytes,
            }
        self.names: dict[str, Any] = _CONSTANTS | _functions(functions)

    def names_for(self, plainly: bool) -> dict[str, Any]:
        """What names mean: those of tensors and of what state dicts have; `plainly`, those of all
        plain values of Python and NumPy.
        """
        if not plainly:
            return self.names
        return plain.CONSTANTS | _functions(plain.functions(self.budget)) | self.names

    # -- tensors ---------------------------------------------------------------------------------

    def tensor(
        self,
        storage: _Storage,
        offset: int,
        size: Any,
        stride: Any,
        requires_grad: bool = False,
        hooks: Any = None,
        metadata: Any = None,
    ) -> Any:
        dtype = storage.dtype
        if dtype is None:
            raise FileError("a tensor of the file does not say its dtype")
        made = storage.memory.tensor(dtype, offset, tuple(size), tuple(stride))
        return self._finished(made, requires_grad, metadata)

    def tensor_of_dtype(
        self,
        storage: _Storage,
        offset: int,
        size: Any,
        stride: Any,
        requires_grad: bool,
        hooks: Any,
        dtype: DType,
        metadata: Any = None,
    ) -> Any:
        if not isinstance(dtype, DType):
            raise FileError(f"a tensor of the file has the dtype {brief(dtype)}")
        made = storage.memory.tensor(dtype, offset, tuple(size), tuple(stride))
        return self._finished(made, requires_grad, metadata)

    def _finished(self, tensor: Any, requires_grad: Any, metadata: Any) -> Any:
        if metadata and metadata.get("conj"):
            self.budget.spend(tensor.nbytes)
            tensor = tensor.conj()
        if metadata and metadata.get("neg"):
            self.budget.spend(tensor.nbytes)
            tensor = -tensor
        return finished(tensor, requires_grad=bool(requires_grad), parameter=False)

    def parameter(self, data: Any, requires_grad: Any, hooks: Any = None, state: Any = None) -> Any:
        made = finished(_a_tensor(data), requires_grad=bool(requires_grad), parameter=True)
        return with_attributes(made, state or {})

    def with_state(self, function: Function, kind: Any, arguments: Any, state: Any) -> Any:
        """A tensor with attributes."""
        if type(function) is not Function or kind not in (Tensor, Parameter):
            raise PickleError("a tensor of the file is of a class other than torch.Tensor")
        made: Any = _a_tensor(function.call(*arguments))
        if kind is Parameter and type(made) is Tensor:
            made = self.parameter(made.detach(), made.requires_grad)
        return with_attributes(made, state or {})

    def sparse(self, layout: Layout, data: Any) -> Any:
        if layout is sparse_coo:
            indices, values, size, *coalesced = data
            is_coalesced = bool(coalesced[0]) if coalesced else None
            parts = [_a_tensor(indices)]
        else:
            first, second, values, size = data
            parts, is_coalesced = [_a_tensor(first), _a_tensor(second)], None
        return sparse_tensor(
            self.budget, layout, parts, _a_tensor(values), size, is_coalesced or None
        )

    def meta(self, dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Any:
        check_geometry(0, tuple(size), tuple(size))
        if not isinstance(dtype, DType):
            raise FileError(f"a tensor of the file has the dtype {brief(dtype)}")
        made = meta_tensor(tuple(size), dtype)
        return finished(made, requires_grad=bool(requires_grad), parameter=False)

    # -- plain values ----------------------------------------------------------------------------

    def size(self, sizes: Any = ()) -> Any:
        return size_of(sizes)

    def device(self, kind: Any, index: Any = None) -> Device:
        is_index = index is None or (type(index) is int and 0 <= index < 2**15)
        if type(kind) is not str or not is_index:
            raise FileError(f"a device of the file is {brief(kind)}, {brief(index)}")
        name = kind if index is None else f"{kind}:{index}"
        return {"cpu": CPU, "meta": META}.get(name) or Device(name)

    def layout(self, name: Any) -> Layout:
        if type(name) is not str:
            raise FileError(f"a layout of the file is {brief(name)}")
        return to_layout("ad.load", name)

    def ordered(self, items: Any = ()) -> Any:
        self.budget.spend(64 * len(items))
        return collections.OrderedDict(_pairs(items))

    def counter(self, items: Any = ()) -> Any:
        self.budget.spend(64 * len(items))
        return collections.Counter(dict(_pairs(items)))

    def encoded(self, text: str, encoding: str) -> bytes:
        """Bytes, which protocol 2 writes as a text."""
        if encoding != "latin1" or type(text) is not str:
            raise PickleError(
                f"a pickle encodes a text as {brief(encoding)}; only bytes are so read"
            )
        self.budget.spend(len(text))
        return codecs.encode(text, "latin1")

    def set(self, items: Any = ()) -> Any:
        self.budget.spend(64 * len(items))
        return {checked_key(item) for item in items}

    def frozenset(self, items: Any = ()) -> Any:
        return frozenset(self.set(items))

    def complex(self, real: float, imaginary: float) -> complex:
        return complex(float(real), float(imaginary))

    def no_bytes(self) -> bytes:
        """Protocol 2 writes bytes as texts, if there are any."""
        return b""

    def bytearray(self, data: Any = b"", encoding: str = "latin1") -> Any:
        if type(data) not in (bytes, str):  # a number would ask for that many zeros
            raise PickleError(f"a pickle makes a bytearray of a {type(data).__name__}")
        self.budget.spend(len(data))
        return bytearray(self.encoded(data, encoding) if type(data) is str else data)


def _functions(calls: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    return {name: Function(name, call) for name, call in calls.items()}


def _others(weights_only: bool | None) -> Others:
    return Others(anything=weights_only is False)


def _a_tensor(value: Any) -> Any:
    if not isinstance(value, Tensor):
        raise FileError(f"a tensor of the file is made of {brief(value)}")
    return value


def _pairs(items: Any) -> list[tuple[Any, Any]]:
    """Items of a dict: of another dict, or pairs."""
    found = items.items() if isinstance(items, dict) else items
    return [(checked_key(k), v) for k, v in found]


def read_archive(
    source: Source, members: dict[str, Member], encoding: str, weights_only: bool | None
) -> Any:
    """Read a file of PyTorch in the newer format."""
    root = _root(source, members)
    order = members.get(f"{root}/byteorder")
    if order is not None and _text(source, order, 16) != b"little":
        raise FileError(f"{source.name}: is big-endian; save it again on a little-endian machine")
    budget, memories = Budget(source.size), dict[str, Memory]()

    def persistent(identifier: Any) -> _Storage:
        _, kind, key, _, count = _identifier(identifier, 5)
        if key not in memories:
            member = members.get(f"{root}/data/{key}")
            if member is None:
                raise FileError(f"{source.name}: the storage {brief(key)} is missing")
            checked = member.crc != 0 and not source.is_mapped  # 0: PyTorch can leave it out
            memories[key] = Memory(archives.content(source, member, checked=checked))
        memory = memories[key]
        if count * kind.itemsize > memory.data.size:
            raise FileError(
                f"{source.name}: the storage {brief(key)} has {memory.data.size} bytes, and should "
                f"have {count} elements"
            )
        return _Storage(memory, kind.dtype)

    member = members[f"{root}/data.pkl"]
    text = archives.content(source, member, checked=member.crc != 0).tobytes()
    plainly = weights_only is False or (weights_only is None and f"{root}/{OURS}" in members)
    names, others = _Builder(budget).names_for(plainly), _others(weights_only)
    reader = Reader(text, names, persistent, budget, encoding, others)
    return _named(source, reader.run)


def _named(source: Source, run: Callable[[], Any]) -> Any:
    """Run a reader, and let its errors say the name of the file."""
    try:
        return run()
    except FileError as error:
        if str(error).startswith(source.name):
            raise
        raise type(error)(f"{source.name}: {error}") from error


def _root(source: Source, members: dict[str, Member]) -> str:
    """Return the folder of an archive that everything is in."""
    found = [n.removesuffix("/data.pkl") for n in members if n.endswith("/data.pkl")]
    if any(n.endswith("/constants.pkl") or "/code/" in n for n in members):
        raise FileError(
            f"{source.name}: is a TorchScript archive (torch.jit.save), a program; save the "
            "state_dict() of its module with torch.save"
        )
    if any(n.endswith(("/models/model.json", "serialized_exported_program.json")) for n in members):
        raise FileError(
            f"{source.name}: is an exported program (torch.export.save); save the state_dict of "
            "the program with torch.save"
        )
    if len(found) != 1:
        raise FileError(f"{source.name}: is an archive, and none of adjoint or torch.save")
    return found[0]


def _text(source: Source, member: Member, most: int) -> bytes:
    return source.read(member.start, min(member.size, most))


def _identifier(identifier: Any, count: int) -> Any:
    """Return the parts of the name of a storage, checked."""
    if type(identifier) is not tuple or len(identifier) < count or identifier[0] != "storage":
        raise PickleError(f"a pickle asks for {brief(identifier)}, which is no storage")
    _, kind, key, _, numel = identifier[:5]
    if type(kind) is not _Typed or type(key) is not str:
        raise FileError(f"a storage has the class {brief(kind)} and the name {brief(key)}")
    if type(numel) is not int or not 0 <= numel < 2**62:
        raise FileError(f"a storage has {brief(numel)} elements")
    return identifier


_LEGACY = 0x1950A86A20F9469CFC6C  # the first pickle of the older format


def is_legacy(start: bytes) -> bool:
    """Whether a file starts as those of the older format do."""
    magic = _LEGACY.to_bytes(10, "little")
    return start[:1] == b"\x80" and magic in start[:32]


def read_legacy(source: Source, encoding: str, weights_only: bool | None) -> Any:
    """Read a file of PyTorch in the older format.

    The sizes of storages stand in the pickle of the value, and their places follow from all sizes:
    so that pickle runs twice, at first without tensors.
    """
    text, budget = source.read(0, source.size), Budget(source.size)

    def reader(builder: _Builder, persistent: Callable[[Any], Any]) -> Reader:
        names, others = builder.names_for(weights_only is False), _others(weights_only)
        return Reader(text, names, persistent, budget, encoding, others)

    kinds: dict[str, tuple[_Typed, int]] = {}

    def note(identifier: Any) -> None:
        _, kind, key, _, count = _identifier(identifier, 5)[:5]
        kinds[key] = kind, count

    def run() -> Any:
        first = reader(_Builder(budget, dry=True), note)
        first.run()
        version, system = first.run(), first.run()
        if version != 1001 or type(system) is not dict:
            raise FileError(f"has the version {brief(version)} of PyTorch's older format, not 1001")
        if system.get("little_endian") is not True:
            raise FileError("is big-endian; save it again on a little-endian machine")
        start = first.place
        first.run()
        memories, source.end = _legacy_storages(source, first.run(), first.place, kinds)
        second = reader(_Builder(budget), lambda i: _legacy_storage(memories, i))
        second.place = start
        return second.run()

    return _named(source, run)


def _legacy_storages(
    source: Source, keys: Any, place: int, kinds: dict[str, tuple[_Typed, int]]
) -> tuple[dict[str, Memory], int]:
    """Return the storages that lie one after the other from `place` on, and where they end."""
    memories: dict[str, Memory] = {}
    if type(keys) is not list or not all(type(key) is str for key in keys):
        raise FileError("the list of storages is damaged")
    if set(keys) != set(kinds) or len(keys) != len(kinds):
        raise FileError("the list of storages is damaged")
    for key in keys:
        kind, count = kinds[key]
        (written,) = struct.unpack("<q", source.read(place, 8))
        if written != count:
            raise FileError(f"the storage {brief(key)} has {written} elements, not {count}")
        memories[key] = Memory(source.array(place + 8, count * kind.itemsize))
        place += 8 + count * kind.itemsize
    return memories, place


def _legacy_storage(memories: dict[str, Memory], identifier: Any) -> _Storage:
    _, kind, key, _, _, *view = _identifier(identifier, 5)
    memory = memories[key]
    if view and view[0] is not None:
        _, offset, count = view[0]
        check_geometry(offset, (count,), (1,))
        if (offset + count) * kind.itemsize > memory.data.size:
            raise FileError(f"a part of the storage {brief(key)} lies outside of it")
        part = memory.data[offset * kind.itemsize : (offset + count) * kind.itemsize]
        return _Storage(Memory(part), kind.dtype)
    return _Storage(memory, kind.dtype)

"""Files of every format, mutated: `ad.load` gives a value or raises `FileError`; it runs no code,
ends, and allocates no more than a multiple of what the file has.

Mutations go below the checksums as well: texts of JSON and pickles are changed and packed again.

    python -m tests.campaigns.files --seconds 60 --seed 0
"""

from __future__ import annotations

import collections
import functools
import io
import json
import random
import re
import struct
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.errors import AdjointError
from adjoint.serialization.archives import Writer, content, members
from adjoint.serialization.description import _READERS, checksum
from adjoint.serialization.pytorch import _Builder
from adjoint.serialization.sources import Source
from adjoint.serialization.storages import Budget
from tests.campaigns import campaign
from tests.watching import limited, watched

_NUMBERS = ("0", "1", "-1", "7", "4611686018427387904", "1e400", "1.5", "true", "null", "9" * 40)
_NAMES = (
    b"os\nsystem\n", b"builtins\neval\n", b"__builtin__\nexec\n", b"builtins\ngetattr\n",
    b"torch\nload\n", b"torch._utils\n_rebuild_tensor_v2\n", b"collections\nOrderedDict\n",
    b"torch\nSize\n", b"torch\nFloatStorage\n", b"builtins\nbytearray\n", b"_codecs\nencode\n",
    b"torch._utils\n_rebuild_sparse_tensor\n", b"torch\nfloat32\n", b"numpy\nndarray\n",
)  # fmt: skip
_PIECES = (
    *(b"c" + name for name in _NAMES), b"R", b"b", b"\x81", b"Q", b"o", b"i", b"t", b"(", b".",
    b"0", b"2", b"}", b"]", b")", b"u", b"e", b"s", b"h\x00", b"j\x05\x00\x00\x00", b"N", b"\x88",
    b"J\xff\xff\xff\x7f", b"\x8b\xff\xff\xff\x7f", b"X\xff\xff\xff\xff", b"\x85" * 50, b"K\x07",
    b"\x8a\x08" + b"\x7f" * 8, b"cos\nsystem\nX\x02\x00\x00\x00ls\x85R", b"\x93", b"\x94", b"I7\n",
)  # fmt: skip


def _value() -> Any:
    base = ad.arange(12.0).reshape(3, 4)
    state: Any = collections.OrderedDict(weight=base, bias=ad.nn.Parameter(base[1].clone()))
    state._metadata = {"": {"version": 1}}
    return {
        "state": state,
        "views": [base[1:, ::2], base.t(), base.view(ad.int32)],
        "sparse": ad.eye(3).to_sparse(),
        "rows": ad.eye(3).to_sparse_csr(),
        "half": ad.ones(3, dtype=ad.bfloat16),
        "numpy": [np.float32(1), np.arange(4), np.array(True)],
        "halves": ad.ones(2).chalf(),
        "mask": ad.tensor([True, False]),
        "meta": ad.empty(2, 3, device="meta"),
        "plain": (1, 2**70, -0.5, None, True, "é", b"\0\xff", 1j, {1, (2, (3,))}, ad.float16),
        "counts": collections.Counter("abca"),
        "empty": [ad.zeros(0, 3), ad.tensor(1), [], {}],
    }


@functools.cache
def _corpus() -> list[bytes]:
    found = []
    for form in ("adjoint", "pytorch"):
        file = io.BytesIO()
        ad.save(_value(), file, format=form)
        found.append(file.getvalue())
    file = io.BytesIO()
    ad.save(ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.BatchNorm1d(3), ad.nn.ReLU()), file)
    found.append(file.getvalue())
    tensors = {"w": ad.ones(2, 3), "b": ad.arange(3), "m": ad.tensor([True]), "e": ad.zeros(0)}
    found.append(ad.utils.safetensors.save(tensors, {"step": "3"}))
    return found + _of_torch()


def _of_torch() -> list[bytes]:
    torch = campaign.torch()
    if torch is None:
        return []
    base = torch.arange(12.0).reshape(3, 4)
    value = {
        "layer": torch.nn.Linear(2, 3).state_dict(),
        "views": [base[1:, ::2], base.t()],
        "conjugate": torch.ones(2, dtype=torch.complex64).conj(),
        "sparse": torch.eye(3).to_sparse(),
        "plain": (1, b"x", None, torch.Size([2]), torch.float16, {1}, 1j),
    }
    files = [io.BytesIO() for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(value, files[0])
        torch.save(value, files[1], _use_new_zipfile_serialization=False)
        torch.save(value, files[2], pickle_protocol=4)
    return [file.getvalue() for file in files]


def check(seed: int) -> int:
    """Load one file: a mutated one, or one that is made of a random program or random nodes."""
    random_ = random.Random(seed)
    way = random_.random()
    if way < 0.2:
        data = _archive({"archive/data.pkl": _program(random_)})
    elif way < 0.3:
        data = _archive({"description.json": _description(random_)})
    else:
        data = random_.choice(_corpus())
        for _ in range(random_.choice((1, 1, 1, 2, 4))):
            data = random_.choice(_MUTATIONS)(random_, data)
    asked = random_.choice((None, None, False, True))
    tracemalloc.start()
    events: list[str] = []
    try:
        with warnings.catch_warnings(), limited(10), watched() as events:
            warnings.simplefilter("ignore")
            ad.load(io.BytesIO(data), weights_only=asked)
    except AdjointError:
        pass
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}") from error
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert not events, events
    allowed = 100 * len(data) + 8_000_000
    assert peak <= allowed, f"{peak} bytes for a file of {len(data)}"
    return 1


# -- made at random -----------------------------------------------------------------------------


def _archive(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    writer = Writer(file)
    for name, data in (members | {"archive/data/0": bytes(range(64))}).items():
        writer.add(name, data)
    writer.finish()
    return file.getvalue()


@functools.cache
def _known_names() -> list[str]:
    found = [*_Builder(Budget(0)).names_for(True), "os.system", "builtins.eval"]
    return [
        *found,
        "tests.campaigns.files.Record",
        "enum.Enum",
        "threading.Thread",
        "logging.Logger",
    ]


class Record:
    """What a file may have with `weights_only=False`."""


def _program(random_: random.Random) -> bytes:
    """A pickle of instructions that fit together, which share values through the memo."""
    made: list[bytes] = []
    depth, memo = 0, 0
    for _ in range(random_.choice((3, 10, 40))):
        choice = random_.random()
        if choice < 0.35 or not depth:
            made.append(random_.choice(_VALUES))
            depth += 1
        elif choice < 0.5 and memo:
            made.append(b"h" + bytes([random_.randrange(min(memo, 256))]))
            depth += 1
        elif choice < 0.6:
            made.append(b"\x94")
            memo += 1
        elif choice < 0.7 and depth > 1:
            made.append(random_.choice((b"\x86", b"(\x91", b"0", b"](h\x00e", b"\x8f(h\x00\x90")))
            depth -= made[-1] in (b"\x86", b"0")
            depth += made[-1] not in (b"\x86", b"0")
        else:
            made += [_named(random_), *_arguments(random_, memo)]
            depth += 1
            if random_.random() < 0.4:
                made += [*_arguments(random_, memo), b"b"]
    return b"\x80\x04" + b"".join(made) + random_.choice((b".", b"0.", b"t.", b"\x86."))


_VALUES = (
    b"N", b"\x88", b"K\x03", b"M\xff\xff", b"J\xff\xff\xff\xff", b"\x8a\x10" + b"\x7f" * 16,
    b"X\x03\0\0\0abc", b"X\x00\0\0\0", b"C\x04\0\0\x80?", b"C\x00", b"]", b"}", b")", b"\x8f",
    b"G\x7f\xf8\0\0\0\0\0\0", b"X\x02\0\0\0f4", b"X\x02\0\0\0|O", b"X\x03\0\0\0M8[",
    b"K\x00\x85", b"K\x02K\x02\x86", b"X\x06\0\0\0latin1", b"X\x01\0\0\0C",
    b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x10tQ",
)  # fmt: skip


def _named(random_: random.Random) -> bytes:
    module, _, name = random_.choice(_known_names()).rpartition(".")
    return b"c" + f"{module}\n{name}\n".encode()


def _arguments(random_: random.Random, memo: int) -> list[bytes]:
    found = [b"("]
    for _ in range(random_.choice((0, 1, 1, 2, 2, 3, 4, 5, 6))):
        shared = memo and random_.random() < 0.4
        index = bytes([random_.randrange(min(memo, 256))]) if shared else b""
        either = random_.choice((random_.choice(_VALUES), _named(random_)))
        found.append(b"h" + index if shared else either)
    return [*found, b"t", random_.choice((b"R", b"R", b"\x81", b""))]


_JSON_VALUES = (0, 1, -1, 2**40, 1.5, "a", "", "f4", None, True, "float32", "<f8", "cpu", "YQ==")


def _description(random_: random.Random) -> bytes:
    """Nodes of every kind, whose fields are scalars, lists and references to earlier nodes."""
    nodes: list[Any] = []

    def some(depth: int) -> Any:
        choice = random_.random()
        if nodes and choice < 0.4:
            return [random_.randrange(len(nodes))]
        if depth > 2 or choice < 0.7:
            return random_.choice(_JSON_VALUES)
        if choice < 0.85:
            return [some(depth + 1) for _ in range(random_.randrange(3))]
        return {key: some(depth + 1) for key in random_.sample(_KEYS, random_.randrange(6))}

    for _ in range(random_.choice((2, 10, 40))):
        nodes.append({random_.choice(_KINDS): random_.choice((some(0), [some(1), some(1)]))})
    text = {"format": "adjoint", "version": 1, "blocks": [["<f4", 2, 0]], "nodes": nodes}
    return json.dumps(text | {"value": [len(nodes) - 1]}).encode()


_KINDS = tuple(_READERS)
_KEYS = (
    "block", "dtype", "offset", "shape", "stride", "requires_grad", "parameter", "items",
    "metadata", "layout", "indices", "values", "is_coalesced", "attributes",
)  # fmt: skip


# -- mutations ---------------------------------------------------------------------------------


def _bytes(random_: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    for _ in range(random_.choice((1, 1, 2, 8))):
        at = random_.randrange(len(changed))
        changed[at] = random_.choice((0, 1, 0x7F, 0x80, 0xFF, random_.randrange(256)))
    return bytes(changed)


def _cut(random_: random.Random, data: bytes) -> bytes:
    a, b = sorted(random_.randrange(len(data) + 1) for _ in range(2))
    return random_.choice((data[:a], data[a:], data[:a] + data[b:], data[:b] + data[a:]))


def _numbers(random_: random.Random, data: bytes) -> bytes:
    """Some 4 or 8 bytes as another number: lengths, places, sizes."""
    form = random_.choice(("<I", "<Q", "<H"))
    size = struct.calcsize(form)
    if len(data) < size:
        return data
    at = random_.randrange(len(data) - size + 1)
    largest = 2 ** (8 * size) - 1
    value = random_.choice((0, 1, largest, largest // 2, len(data), random_.randrange(1000)))
    return data[:at] + struct.pack(form, min(value, largest)) + data[at + size :]


def _inside(change: Callable[[random.Random, bytes], bytes]) -> Any:
    """A mutation of one member of an archive, or of a header, with sums and lengths made right."""

    def changed(random_: random.Random, data: bytes) -> bytes:
        source = Source(io.BytesIO(data), "corpus")
        if data[:2] != b"PK":
            if data[8:9] != b"{":
                return change(random_, data)
            (length,) = struct.unpack_from("<Q", data)
            text = change(random_, data[8 : 8 + length])
            return struct.pack("<Q", len(text)) + text + data[8 + length :]
        try:
            found = members(source)
            parts = {n: content(source, m, checked=False).tobytes() for n, m in found.items()}
        except AdjointError:
            return data
        if not found:
            return data
        texts = [n for n in found if n.endswith((".json", ".pkl"))]
        chosen = random_.choice([*texts, *texts, *texts, *found])
        parts[chosen] = change(random_, parts[chosen])
        _sum_again(chosen, parts)
        file = io.BytesIO()
        writer = Writer(file)
        for name, part in parts.items():
            writer.add(name, part)
        writer.finish()
        return file.getvalue()

    return changed


def _sum_again(name: str, parts: dict[str, bytes]) -> None:
    """Let the description have the checksum of an array that was changed."""
    match = re.fullmatch(r"arrays/(\d+)\.npy", name)
    try:
        text = json.loads(parts["description.json"])
        text["blocks"][int(match[1] if match else 0)][2] = checksum(
            np.frombuffer(parts[name][128:], np.uint8)
        )
    except (ValueError, LookupError, TypeError, RecursionError):
        return
    if match:
        parts["description.json"] = json.dumps(text).encode()


def _json_words(random_: random.Random, data: bytes) -> bytes:
    """A number, a text or a list of a JSON text by another."""
    text = data.decode("latin1")
    found = list(re.finditer(r'-?\d+|"[^"]*"|\[[^][]*\]', text))
    if not found:
        return data
    match = random_.choice(found)
    if random_.random() < 0.5:
        new = random_.choice(found)[0]
    else:
        new = random_.choice((*_NUMBERS, '"x"', "[]", "{}", "[0]", "[[1]]", "[" * 2000, '"int"'))
    return (text[: match.start()] + new + text[match.end() :]).encode("latin1")


def _json_nodes(random_: random.Random, data: bytes) -> bytes:
    """A node of a description by another, or a chain of nodes."""
    try:
        text = json.loads(data)
        nodes = text["nodes"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return data
    at = random_.randrange(len(nodes))
    kind = random_.choice(("list", "tuple", "dict", "set", "frozenset", "Counter", "bytes", "int"))
    change = random_.randrange(4)
    if change == 0:
        nodes[at] = random_.choice(nodes)
    elif change == 1:
        nodes[at] = {kind: next(iter(nodes[at].values()))}
    elif change == 2:
        nodes += [{"tuple": [[len(nodes) + n - 1]] * 2} for n in range(random_.choice((30, 300)))]
        text["value"] = [len(nodes)]
        nodes.append({"set": [[len(nodes) - 1]]})
    else:
        text["blocks"][random_.randrange(len(text["blocks"]))] = [
            "<f8",
            random_.choice((0, 10**9)),
            0,
        ]
    return json.dumps(text).encode()


def _opcodes(random_: random.Random, data: bytes) -> bytes:
    at = random_.randrange(len(data) + 1)
    piece = random_.choice(_PIECES)
    return data[:at] + piece + data[at + random_.choice((0, 0, 1, len(piece))) :]


def _global(random_: random.Random, data: bytes) -> bytes:
    """A name of a pickle by another one."""
    found = list(re.finditer(rb"c[\w.]+\n[\w.]+\n", data))
    if not found:
        return data
    match = random_.choice(found)
    return data[: match.start() + 1] + random_.choice(_NAMES) + data[match.end() :]


_MUTATIONS = (
    _bytes, _cut, _numbers, _numbers, *map(_inside, (
        _bytes, _cut, _numbers, _json_words, _json_words, _json_nodes, _json_nodes, _opcodes,
        _opcodes, _global, _global,
    )),
)  # fmt: skip


if __name__ == "__main__":
    campaign.main(check)

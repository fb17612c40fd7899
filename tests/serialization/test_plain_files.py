"""Files: the format that a value gets, plain values in PyTorch's files, and values made to hurt."""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import io
import json
import math
import pathlib
import pickle
import time
import types
import zipfile
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ArgumentError, FileError
from adjoint.serialization.objects import PickleError
from adjoint.serialization.pytorch import _Builder
from adjoint.serialization.storages import Budget
from tests.serialization.test_serialization import (
    BOTH,
    again,
    archive,
    described,
    saved,
    torch_file,
)

F = ad.nn.functional


def test_a_file_object_gets_the_format_that_can_hold_the_value(tmp_path: pathlib.Path) -> None:
    for value in ({"x": ad.ones(2), "n": np.float32(1.5), "a": np.arange(3)}, [1, "a"]):
        assert "archive/data.pkl" in zipfile.ZipFile(io.BytesIO(saved(value))).namelist()
    for value in ([ad.nn.Linear(1, 1)], frozenset({1}), ad.preserve_format):
        assert "description.json" in zipfile.ZipFile(io.BytesIO(saved(value))).namelist()
    with open(tmp_path / "x.ad", "wb") as file:
        ad.save([1], file)
    assert "description.json" in zipfile.ZipFile(tmp_path / "x.ad").namelist()
    with pytest.raises(ArgumentError, match="Linear"):
        ad.save([ad.nn.Linear(1, 1)], tmp_path / "x.bin")


NUMPY = [
    *(np.dtype(name).type(1) for name in ("?", "i1", "u2", "i8", "f2", "f4", "f8", "c8", "c16")),
    ad.bfloat16.np.type(1.5),
    np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
    np.arange(6.0)[::2],
    np.zeros((0, 3)),
    np.array(2.5),
    np.ones(3, ad.bfloat16.np),
    np.array([True, False]),
]


@BOTH
@pytest.mark.parametrize("value", NUMPY, ids=lambda v: f"{v.dtype}-{v.shape}")
def test_numbers_and_arrays_of_numpy_come_back(value: Any, form: str) -> None:
    got = again({"x": value, "t": ad.ones(2)}, form)["x"]
    assert type(got) is type(value)
    assert got.dtype == value.dtype
    np.testing.assert_array_equal(got, value)


class Colour(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Config:
    rate: float = 0.1


class Slotted:
    __slots__ = ("a",)


def slotted() -> Slotted:
    made = Slotted()
    made.a = 3
    return made


class Ends:
    def __del__(self) -> None:
        ran.append("del")


class Keyed:
    def __hash__(self) -> int:
        ran.append("hash")
        return 1


class Woken:
    def __setstate__(self, state: Any) -> None:
        ran.append("setstate")


class New:
    def __new__(cls, *_: Any) -> Any:
        ran.append("new")
        return object.__new__(cls)


ran: list[str] = []
NAMED = collections.defaultdict(list, a=[1])
PLAIN = [
    argparse.Namespace(a=1, b=[2]),
    types.SimpleNamespace(x="y"),
    collections.defaultdict(list, {"a": [1]}),
    collections.defaultdict(set),
    collections.deque([1, 2], maxlen=5),
    pathlib.PurePosixPath("a/b"),
    pathlib.Path("a/b"),
    datetime.datetime(2020, 1, 2, 3, tzinfo=datetime.UTC),
    datetime.date(2020, 1, 2),
    datetime.timedelta(1, 2, 3),
    decimal.Decimal("1.5"),
    range(1, 9, 2),
    slice(1, None),
    np.dtype("f4"),
    np.datetime64("2020-01-01"),
    np.array(["a", "bc"]),
    np.array([b"a", b"xyz"]),
    np.array([1, 2], "m8[ms]"),
    np.arange(3, dtype=">i4"),
    np.float64(2.0),
    Colour.RED,
    Point(1, 2),
    Config(0.5),
    b"",
]


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("value", PLAIN, ids=lambda v: type(v).__name__)
def test_what_needs_no_code_is_read_if_it_is_asked_for(value: Any, protocol: int) -> None:
    data = pickle.dumps({"x": value}, protocol)
    got = ad.load(torch_file(data), weights_only=False)["x"]
    assert type(got) is type(value)
    np.testing.assert_array_equal(got, value)
    if isinstance(value, collections.defaultdict):
        assert got.default_factory is value.default_factory
    if type(value) is not bytes:
        for asked in (None, True):
            with pytest.raises(PickleError, match=r"weights_only=False|safe_globals"):
                ad.load(torch_file(data), weights_only=asked)


def test_objects_that_are_their_attributes_are_made_without_their_class() -> None:
    got = ad.load(torch_file(pickle.dumps(slotted(), 2)), weights_only=False)
    assert type(got) is Slotted
    assert got.a == 3
    made = New()
    ran.clear()
    for value in (Ends(), Woken(), made, {Keyed(): 1}, {(1, Keyed()): 1}):
        data = pickle.dumps(value, 2)
        ran.clear()
        with pytest.raises(PickleError):
            ad.load(torch_file(data), weights_only=False)
        assert ran == []


@pytest.mark.parametrize(
    "value", [argparse.Namespace(a=1), Config(0.5), pathlib.Path("a"), Woken(), NAMED],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_what_a_user_has_named_is_called(value: Any) -> None:
    data = torch_file(pickle.dumps(value, 2))
    named = [type(value), *((list,) if isinstance(value, dict) else ())]
    with ad.serialization.safe_globals(named):
        assert type(ad.load(data)) is type(value)
    kind = type(value)
    data.seek(0)
    with ad.serialization.safe_globals(
        [(kind, f"{kind.__module__}.{kind.__qualname__}"), *named[1:]]
    ):
        assert type(ad.load(data)) is type(value)


def test_programs_of_pytorch_are_told_apart() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("m/data.pkl", b"\x80\x02N.")
        packed.writestr("m/constants.pkl", b"\x80\x02N.")
        packed.writestr("m/code/a.py", b"x = 1\n" * 99, compress_type=zipfile.ZIP_DEFLATED)
    file.seek(0)
    with pytest.raises(FileError, match="TorchScript"):
        ad.load(file)


# ---- what holds itself many times ----------------------------------------------------------------

# a tuple that holds itself twice, 26 deep: its repr, its hash and its text take minutes
_BOMB = b")" + b"\x94h\x00\x86" + b"".join(
    b"\x94h" + bytes([n]) + b"\x86" for n in range(1, 26)
)  # fmt: skip


def _calls() -> dict[str, bytes]:
    """Pickles that put such a tuple wherever a value may be."""
    names = [
        *_Builder(Budget(0)).names_for(True),
        "__main__.x",
        f"{__name__}.Point",
        f"{__name__}.Config",
        f"{__name__}.Colour",
    ]
    found = {}
    for name in names:
        module, _, last = name.rpartition(".")
        named = b"c" + f"{module}\n{last}\n".encode()
        for count in range(8):
            arguments = b"(" + b"h\x19" * count + b"t"
            found[f"{name} {count}"] = named + arguments + b"R."
            found[f"new {name} {count}"] = named + arguments + b"\x81."
        found[f"state of {name}"] = named + b")Rh\x19b."
        found[f"new state of {name}"] = named + b")\x81h\x19b."
        found[f"attributes of {name}"] = named + b")R}h\x19h\x19sb."
    others = {
        "called": b"h\x19)R.", "key": b"}h\x19Ns.", "item": b"\x8f(h\x19\x90.",
        "frozen": b"(h\x19\x91.", "appended to": b"h\x19Na.", "name": b"h\x19h\x19\x93.",
        "storage": b"h\x19Q.", "words": b"N)h\x19\x92.", "arguments": b"cdatetime\ndate\nh\x19R.",
    }  # fmt: skip
    return found | others


def test_no_value_of_a_pickle_is_written_out_or_hashed() -> None:
    started = time.process_time()
    for name, code in _calls().items():
        for asked in (None, False):
            with contextlib.suppress(FileError):
                ad.load(torch_file(b"\x80\x04" + _BOMB + b"\x940" + code), weights_only=asked)
            assert time.process_time() - started < 20, name


def _fields(node: Any) -> Any:
    """Every way to put a reference into a node."""
    yield [25]
    if isinstance(node, dict):
        for key, value in node.items():
            yield from ({**node, key: changed} for changed in _fields(value))
    if isinstance(node, list):
        yield [[25]] * max(len(node), 1)
        for number, value in enumerate(node):
            for changed in _fields(value):
                yield [*node[:number], changed, *node[number + 1 :]]


def test_no_value_of_a_description_is_written_out_or_hashed() -> None:
    file = zipfile.ZipFile(io.BytesIO(saved([_every_kind()], "adjoint")))
    text = json.loads(file.read("description.json"))
    members = {n: file.read(n) for n in file.namelist() if n != "description.json"}
    bomb = [{"tuple": []}, *({"tuple": [[n], [n]]} for n in range(25))]
    started = time.process_time()
    for node in text["nodes"]:
        ((kind, content),) = node.items()
        for changed in _fields(content):
            nodes = [*bomb, {kind: changed}]
            data = json.dumps({**text, "nodes": nodes, "value": [26]}).encode()
            with contextlib.suppress(FileError):
                ad.load(archive(**{"description.json": data, **members}))
            assert time.process_time() - started < 20, node


def _every_kind() -> list[Any]:
    state: Any = collections.OrderedDict(a=1)
    state._metadata = {}
    leaf = ad.ones(2)
    leaf.mine = 1
    return [
        {"a": 1}, [1], (1,), ad.Size([1]), state, collections.Counter("a"), {1}, frozenset({1}),
        b"a", bytearray(b"a"), 2**70, math.inf, 1j, ad.device("cpu"), ad.strided,
        ad.preserve_format, ad.float32, np.ones(2), np.float32(1), leaf, leaf.untyped_storage(),
        ad.eye(2).to_sparse(), ad.eye(2).to_sparse_csr(), ad.empty(1, device="meta"),
        ad.nn.Sequential(ad.nn.Linear(1, 1)), ad.nn.functional.relu,
    ]  # fmt: skip


def test_numbers_of_a_file_that_fit_nothing_are_errors_of_the_file() -> None:
    huge = b"\x8a\xff" + b"\x7f" * 255
    for code in (
        b"c__builtin__\ncomplex\n" + huge + b"K\x01\x86R.",
        b"ctorch\ndevice\nX\x03\0\0\0cpu" + huge + b"\x86R.",
        b"cdatetime\ntimedelta\n" + huge + b"\x85R.",
        b"cdecimal\nDecimal\nX\x03\0\0\0abc\x85R.",
        b"c__builtin__\nrange\nK\0" + huge + b"K\0\x87R.",
    ):
        with pytest.raises(FileError):
            ad.load(torch_file(b"\x80\x02" + code), weights_only=False)
    for node in ({"float": "x"}, {"int": "g"}, {"Size": [10**30]}, {"complex": ["1", None]}):
        with pytest.raises(FileError):
            ad.load(described([node], [0]))


@pytest.mark.parametrize("name", ["__builtins__", "__dict__", "Any", "grad", "np", "_x", "absent"])
def test_a_file_names_functions_of_nn_functional_only(name: str) -> None:
    with pytest.raises(FileError):
        ad.load(described([{"function": f"adjoint.nn.functional.{name}"}], [0]))
    assert ad.load(described([{"function": "adjoint.nn.functional.relu"}], [0])) is F.relu

"""ad.save and ad.load: what comes back is what was saved; files run no code and cannot hurt."""

from __future__ import annotations

import collections
import dataclasses
import enum
import io
import json
import math
import os
import pathlib
import pickle
import struct
import zipfile
import zlib
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ArgumentError, FileError, GradError
from adjoint.serialization.archives import Writer
from adjoint.serialization.description import checksum
from adjoint.serialization.pickles import PickleError

BOTH = pytest.mark.parametrize("form", ["adjoint", "pytorch"])
ALL_DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
              "float16", "bfloat16", "float32", "float64", "complex64", "complex128")  # fmt: skip


def saved(value: Any, form: str | None = None) -> bytes:
    file = io.BytesIO()
    ad.save(value, file, format=form)
    return file.getvalue()


def again(value: Any, form: str | None = None) -> Any:
    return ad.load(io.BytesIO(saved(value, form)))


# ---- what comes back -----------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("name", ALL_DTYPES)
def test_tensors_of_every_dtype_come_back(name: str, form: str) -> None:
    x = ad.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(ad, name))
    got = again(x, form)
    assert got.dtype is x.dtype
    assert got.shape == x.shape
    assert ad.equal(got, x)


@BOTH
def test_complex32_comes_back(form: str) -> None:
    x = ad.tensor([[1 + 2j, 3.0], [0.5j, -1.0]]).chalf()
    got = again(x, form)
    assert got.dtype is ad.complex32
    assert ad.equal(got.cfloat(), x.cfloat())
    assert ad.equal(again(x.t(), form).cfloat(), x.t().cfloat())


@BOTH
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr"])
def test_sparse_tensors_come_back_in_their_layout(layout: str, form: str) -> None:
    dense = ad.tensor([[1.0, 0.0], [0.0, 2.0]])
    blocks = {"blocksize": (1, 1)} if layout == "sparse_bsr" else {}
    x = dense.to_sparse(layout=getattr(ad, layout), **blocks)
    got = again(x, form)
    assert got.layout is x.layout
    assert ad.equal(got.to_dense(), dense)


def test_an_uncoalesced_tensor_stays_so() -> None:
    x = ad.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,))
    assert not again(x).is_coalesced()
    assert again(x.coalesce()).is_coalesced()


@BOTH
def test_plain_values_come_back_with_their_types(form: str) -> None:
    value = {
        "numbers": [0, -1, 2**31, 2**63, -(2**200), 1.5, -0.0, 1e-320, math.inf, 2 - 1j, True],
        "texts": ("", "é\n", "\ud800", b"\0\xff", bytearray(b"x"), None),
        3: {1.5: {(1, ("a",)): {1, 2}}},
        "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
        "counts": collections.Counter("aab"),
        "kinds": [ad.bfloat16, ad.complex32, ad.device("cpu"), ad.sparse_csr, ad.Size((2, 3))],
        "empty": [[], (), {}, set()],
    }
    got = again(value, form)
    assert got == value
    assert repr(got) == repr(value)
    assert type(got["ordered"]) is collections.OrderedDict
    assert got["kinds"][0] is ad.bfloat16
    assert type(got["kinds"][4]) is ad.Size


def test_nan_frozensets_formats_and_arrays_come_back() -> None:
    array = np.arange(6).reshape(2, 3)[:, ::2]
    number, fixed, form, got, scalar = again(
        (math.nan, frozenset((1, 2)), ad.channels_last, array, np.float64(1.5))
    )
    assert math.isnan(number)
    assert fixed == frozenset((1, 2))
    assert form is ad.channels_last
    assert type(got) is np.ndarray
    np.testing.assert_array_equal(got, array)
    assert type(scalar) is np.float64
    assert scalar == 1.5


@BOTH
def test_views_share_memory_again(form: str) -> None:
    base = ad.arange(12.0).reshape(3, 4)
    got = again({"base": base, "row": base[1], "t": base.t(), "steps": base[::2, 1::2]}, form)
    got["base"][1, 1] = 100.0
    assert got["row"][1] == 100
    assert got["t"][1, 1] == 100
    assert got["t"].stride() == base.t().stride()
    assert got["steps"].storage_offset() == 1


def test_a_write_to_loaded_memory_is_known_to_its_other_tensors() -> None:
    base = ad.ones(3)
    x, y = again([base, base[:2]])
    w = ad.ones(2, requires_grad=True)
    loss = (w * y).sum()
    x.fill_(5.0)
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


@BOTH
def test_one_tensor_in_two_places_is_one_tensor_again(form: str) -> None:
    w = ad.nn.Parameter(ad.ones(2))
    shared = [1]
    got = again({"a": w, "b": w, "c": shared, "d": shared}, form)
    assert got["a"] is got["b"]
    assert got["c"] is got["d"]


@BOTH
def test_parameters_and_leaves_come_back_as_such(form: str) -> None:
    value = [
        ad.nn.Parameter(ad.ones(2)),
        ad.nn.Parameter(ad.ones(2), requires_grad=False),
        ad.ones(2, requires_grad=True),
        ad.ones(2),
    ]
    got = again(value, form)
    assert [isinstance(x, ad.nn.Parameter) for x in got] == [True, True, False, False]
    assert [x.requires_grad for x in got] == [True, False, True, False]
    assert all(x.is_leaf and x.grad is None for x in got)


@BOTH
def test_attributes_of_tensors_come_back(form: str) -> None:
    x, p = ad.ones(2), ad.nn.Parameter(ad.ones(2))
    x.unit, p.decay = "metre", {"rate": 0.5}
    got = again([x, p], form)
    assert got[0].unit == "metre"
    assert got[1].decay == {"rate": 0.5}
    assert isinstance(got[1], ad.nn.Parameter)


def test_attributes_cannot_take_the_place_of_methods() -> None:
    nodes = [{"dict": [["backward", 1]]}, {"meta": {
        "dtype": "float32", "shape": [2], "requires_grad": False, "parameter": False,
        "attributes": [0]}}]  # fmt: skip
    with pytest.raises(FileError, match="backward"):
        ad.load(described(nodes, [1]))


@BOTH
def test_storages_come_back_and_are_shared(form: str) -> None:
    base = ad.arange(6.0)
    storage, view = again([base.storage(), base[2:]], form)
    assert storage.tolist() == base.tolist()
    assert storage.data_ptr() == view.data_ptr() - 8
    x = ad.zeros(0).set_(storage, 1, (2, 2), (2, 1))
    assert x.tolist() == [[1, 2], [3, 4]]


@BOTH
def test_the_metadata_of_a_state_dict_comes_back(form: str) -> None:
    state: Any = collections.OrderedDict(weight=ad.ones(1))
    state._metadata = collections.OrderedDict({"": {"version": 2}})
    assert again(state, form)._metadata == state._metadata


@BOTH
def test_odd_tensors_come_back(form: str) -> None:
    values = [ad.tensor(3.0), ad.zeros(0, 3), ad.zeros(2, 0), ad.ones(3).expand(4, 3)]
    values.append(ad.from_numpy(np.arange(3.0)[::-1]))
    got = again([*values, ad.empty(2, 3, device="meta")], form)
    for have, want in zip(got, values, strict=False):
        assert have.shape == want.shape
        assert ad.equal(have, want)
    assert got[3].stride() == (0, 1)
    assert got[5].is_meta
    assert got[5].shape == (2, 3)


def test_equal_values_make_equal_files() -> None:
    assert saved({"a": ad.ones(3), "b": 1}) == saved({"a": ad.ones(3), "b": 1})


def test_numpy_opens_the_archive() -> None:
    found = np.load(io.BytesIO(saved(ad.arange(3.0), "adjoint")))
    np.testing.assert_array_equal(found["arrays/0"], [0.0, 1.0, 2.0])
    assert json.loads(found["description.json"])["format"] == "adjoint"


@BOTH
def test_arrays_are_aligned(form: str) -> None:
    data = saved([ad.ones(3), ad.ones(5, dtype=ad.float64)], form)
    for member in zipfile.ZipFile(io.BytesIO(data)).infolist():
        name, extra = struct.unpack_from("<2H", data, member.header_offset + 26)
        assert (member.header_offset + 30 + name + extra) % 64 == 0


# ---- what is refused -----------------------------------------------------------------------------


@dataclasses.dataclass
class Point:
    x: int = 0


class Pair(NamedTuple):
    a: int
    b: int


Color = enum.Enum("Color", "RED")


class HasState:
    def state_dict(self) -> dict[str, Any]:
        return {}


@BOTH
@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (HasState(), r"HasState.*state_dict\(\)"),
        (Point(), r"Point.*asdict"),
        (Pair(1, 2), r"Pair.*_asdict"),
        (Color.RED, r"Color.*its name"),
        (len, "its name"),
        (collections.defaultdict(int), r"defaultdict.*dict\(x\)"),
        (object(), "object"),
        (slice(3), "slice"),
    ],
)
def test_other_objects_are_refused_by_name_and_place(value: Any, advice: str, form: str) -> None:
    with pytest.raises(ArgumentError, match=r"obj\['a'\]\[1\] is a .*" + advice):
        saved({"a": [1, value]}, form)


@BOTH
def test_a_value_that_contains_itself_is_refused(form: str) -> None:
    value: list[Any] = [1]
    value.append({"again": value})
    with pytest.raises(ArgumentError, match=r"obj\[1\]\['again'\] contains itself"):
        saved(value, form)


@BOTH
def test_values_inside_a_transform_are_not_saved(form: str) -> None:
    def f(x: Any) -> Any:
        saved(x, form)
        return x.sum()

    with pytest.raises(GradError, match=r"ad\.save"):
        ad.grad(f)(ad.ones(2))


class Signal(ad.Tensor):
    pass


@BOTH
def test_tensors_without_memory_or_of_other_classes_are_refused(form: str) -> None:
    with pytest.raises(ArgumentError, match=r"obj\[0\] is a .*Signal.*as_subclass"):
        saved([ad.ones(2).as_subclass(Signal)], form)
    with pytest.raises(ArgumentError, match=r"obj\[0\] has no shape yet"):
        saved([ad.nn.UninitializedParameter()], form)


@BOTH
def test_the_state_of_a_module_comes_back(form: str) -> None:
    class Scale(ad.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = ad.nn.Parameter(ad.zeros(2))
            self.register_buffer("count", ad.tensor(0))

    saved_one, fresh = Scale(), Scale()
    with ad.no_grad():
        saved_one.weight += 3
    fresh.load_state_dict(again(saved_one.state_dict(), form))
    assert ad.equal(fresh.weight, ad.full((2,), 3.0))
    if form == "pytorch":  # whose files have modules of its own
        with pytest.raises(ArgumentError, match=r"Scale.*state_dict"):
            saved(fresh, form)


@BOTH
def test_a_very_deep_value_is_refused(form: str) -> None:
    value: Any = 0
    for _ in range(5000):
        value = [value]
    with pytest.raises(ArgumentError, match="nested deeper"):
        saved(value, form)


# ---- paths and file objects ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.ad", "x.pt", "x.pth", "x", "x.ckpt", "x.bin", "x.pth.tar"])
@pytest.mark.parametrize("kind", [str, pathlib.Path])
def test_paths_of_every_kind(tmp_path: pathlib.Path, name: str, kind: Any) -> None:
    ad.save({"x": ad.arange(3)}, kind(tmp_path / name))
    for mmap in (False, True):
        assert ad.equal(ad.load(kind(tmp_path / name), mmap=mmap)["x"], ad.arange(3))
    magic = "description.json" if name in ("x.ad", "x") else "archive/data.pkl"
    assert magic in zipfile.ZipFile(tmp_path / name).namelist()


def test_files_that_only_write_or_only_read() -> None:
    class Write:
        def __init__(self) -> None:
            self.data = bytearray()

        def write(self, piece: Any) -> int:
            self.data += bytes(piece)[:100]  # as an unbuffered file may
            return min(len(piece), 100)

    class Read:
        def __init__(self, data: bytes) -> None:
            self.read = io.BytesIO(data).read

    out = Write()
    ad.save(ad.arange(100), out)
    assert ad.equal(ad.load(Read(bytes(out.data))), ad.arange(100))


def test_a_file_is_flushed(tmp_path: pathlib.Path) -> None:
    with open(tmp_path / "x.ad", "wb") as file:
        ad.save(1, file)
        assert ad.load(tmp_path / "x.ad") == 1


def test_a_file_object_is_read_from_its_position_on() -> None:
    file = io.BytesIO()
    file.write(b"before")
    ad.save(ad.arange(3), file)
    file.seek(6)
    assert ad.equal(ad.load(file), ad.arange(3))


@pytest.mark.parametrize("name", ["x.ad", "x.pt", "x.safetensors"])
def test_a_failed_save_leaves_the_old_file(tmp_path: pathlib.Path, name: str) -> None:
    path = tmp_path / name
    ad.save({"x": ad.ones(2)}, path)
    before = path.read_bytes()
    with pytest.raises(ArgumentError):
        ad.save({"x": ad.ones(2), "y": object()}, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [name]


def test_a_crash_while_writing_leaves_the_old_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.ad"
    ad.save(1, path)

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Writer, "finish", fail)
    with pytest.raises(KeyboardInterrupt):
        ad.save(2, path)
    assert ad.load(path) == 1
    assert os.listdir(tmp_path) == ["x.ad"]


def test_saving_through_a_link_keeps_the_link(tmp_path: pathlib.Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    ad.save(1, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert ad.load(tmp_path / "real") == 1


def test_a_mapped_file_is_not_written_to(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.ad"
    ad.save(ad.zeros(3), path)
    x = ad.load(path, mmap=True)
    x += 1
    assert ad.equal(x, ad.ones(3))
    assert ad.equal(ad.load(path), ad.zeros(3))


def test_a_file_can_be_replaced_by_what_is_mapped_from_it(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.ad"
    ad.save(ad.arange(5), path)
    ad.save(ad.load(path, mmap=True) * 2, path)
    assert ad.equal(ad.load(path), ad.arange(5) * 2)


def test_where_to_load() -> None:
    data = saved(ad.ones(1))
    for location in (None, "cpu", ad.device("cpu"), {"cuda:0": "cpu"}, lambda s, _: s):
        assert ad.load(io.BytesIO(data), map_location=location).device.type == "cpu"
    with pytest.raises(ArgumentError, match="cuda"):
        ad.load(io.BytesIO(data), map_location="cuda")
    with pytest.raises(ArgumentError, match="meta"):
        ad.load(io.BytesIO(data), map_location="meta")


def test_arguments_that_would_run_code_are_refused() -> None:
    with pytest.raises(ArgumentError, match="pickle_module"):
        ad.load(io.BytesIO(saved(1)), pickle_module=pickle)
    with pytest.raises(ArgumentError, match="pickle_module"):
        ad.save(1, io.BytesIO(), pickle_module=pickle)
    with pytest.raises(ArgumentError, match="use one of"):
        ad.save(1, io.BytesIO(), format="zip")
    with pytest.raises(ArgumentError, match="binary"):
        ad.load(3)
    with pytest.raises(ArgumentError, match="text"):
        ad.load(io.StringIO("x"))
    with pytest.raises(ArgumentError, match="path"):
        ad.load(io.BytesIO(saved(1)), mmap=True)


# ---- damaged and hostile files -------------------------------------------------------------------


@pytest.mark.parametrize("form", ["adjoint", "pytorch", "safetensors"])
def test_every_truncation_is_an_error(form: str) -> None:
    data = saved({"x": ad.ones(40)}, form)
    for end in range(0, len(data) - 1, 7):
        with pytest.raises(FileError):
            ad.load(io.BytesIO(data[:end]))


@BOTH
def test_a_changed_byte_of_an_array_is_an_error(form: str) -> None:
    data = saved(ad.full((40,), 1.5), form)
    at = data.index(np.full(40, 1.5, np.float32).tobytes())
    with pytest.raises(FileError, match="not those that were written"):
        ad.load(io.BytesIO(data[:at] + b"\1" + data[at + 1 :]))


@pytest.mark.parametrize("size", [1, 7, 8, 9, 1000, 32768, 32769, 100_000])
def test_checksums_tell_changed_lost_and_moved_bytes(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)
    right = checksum(data)
    for place in (0, size // 2, size - 1):
        for bit in (1, 128):
            wrong = data.copy()
            wrong[place] ^= bit
            assert checksum(wrong) != right
    if size > 40_000:
        assert checksum(np.roll(data, 32768)) != right
        wrong = data.copy()
        wrong[4096:8192] = 0
        assert checksum(wrong) != right


def archive(**members: bytes) -> io.BytesIO:
    file = io.BytesIO()
    writer = Writer(file)
    for name, data in members.items():
        writer.add(name, data)
    writer.finish()
    file.seek(0)
    return file


def described(nodes: list[Any], value: Any, blocks: Any = (), **more: Any) -> io.BytesIO:
    text = {"format": "adjoint", "version": 1, "blocks": blocks, "nodes": nodes, "value": value}
    return archive(**{"description.json": json.dumps(text | more).encode()})


TENSOR = {"block": 0, "dtype": "float32", "offset": 0, "shape": [2], "stride": [1],
          "requires_grad": False, "parameter": False}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [10**12], "stride": [1]},
        {"offset": 1},
        {"offset": -1},
        {"stride": [-1]},
        {"stride": [2]},
        {"shape": [2, 2]},
        {"shape": [2**62, 2**62], "stride": [0, 0]},
        {"dtype": "float64"},
        {"dtype": "os.system"},
        {"block": 7},
        {"shape": ["2"]},
        {"shape": [True]},
        {"dtype": "int64", "shape": [1], "requires_grad": True},
    ],
)
def test_a_tensor_outside_its_block_is_an_error(change: dict[str, Any]) -> None:
    data = saved(ad.ones(2), "adjoint")
    member = zipfile.ZipFile(io.BytesIO(data)).read("arrays/0.npy")
    text: dict[str, Any] = {"format": "adjoint", "version": 1, "value": [0]}
    text["blocks"] = [["<f4", 2, checksum(np.ones(2, np.float32))]]
    text["nodes"] = [{"tensor": TENSOR | change}]
    file = archive(**{"description.json": json.dumps(text).encode(), "arrays/0.npy": member})
    with pytest.raises(FileError):
        ad.load(file)


@pytest.mark.parametrize(
    ("nodes", "value"),
    [
        ([{"list": [[0]]}], [0]),
        ([{"list": [[1]]}, {"list": []}], [0]),
        ([{"list": []}], [-1]),
        ([{"call": "os.system"}], [0]),
        ([{"list": [], "dict": []}], [0]),
        ([{"dict": [[[0], 1]]}], [0]),
        ([{"list": []}, {"dict": [[[0], 1]]}], [1]),
        ([{"int": "x"}], [0]),
        ([{"bytes": "***"}], [0]),
        ({}, [0]),
        ([], {"list": []}),
        ([{"tuple": [[n - 1]] if n else []} for n in range(1000)], [999]),
        ([{"tuple": [[n - 1]] * 2 if n else []} for n in range(60)] + [{"set": [[59]]}], [60]),
    ],
)
def test_a_broken_description_is_an_error(nodes: Any, value: Any) -> None:
    with pytest.raises(FileError):
        ad.load(described(nodes, value))


def test_a_later_version_says_so() -> None:
    with pytest.raises(FileError, match="later adjoint"):
        ad.load(described([], 1, version=2))


def test_json_that_is_nested_without_end_is_an_error() -> None:
    with pytest.raises(FileError):
        ad.load(archive(**{"description.json": b"[" * 100_000}))


def test_compressed_members_are_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("archive/data.pkl", b"\0" * 10_000_000)
    file.seek(0)
    with pytest.raises(FileError, match="compressed"):
        ad.load(file)


def test_members_that_overlap_are_refused() -> None:
    data = bytearray(saved([ad.ones(40), ad.zeros(40)], "adjoint"))
    entry = data.rindex(b"PK\x01\x02")
    first = data.index(b"PK\x01\x02") + 46 + len("description.json")
    assert data[first : first + 4] == b"PK\x01\x02"
    data[entry + 42 : entry + 46] = data[first + 42 : first + 46]  # the second at the first's place
    name = data.index(b"arrays/1.npy", entry)
    data[name : name + 12] = b"arrays/0.npy"
    with pytest.raises(FileError, match="two members"):
        ad.load(io.BytesIO(bytes(data)))
    data[name : name + 12] = b"arrays/1.npy"
    with pytest.raises(FileError, match="not where"):
        ad.load(io.BytesIO(bytes(data)))


def test_a_boolean_that_is_neither_true_nor_false_is_an_error() -> None:
    data = bytearray(saved({"x": ad.tensor([True, False])}, "safetensors"))
    data[-1] = 2
    with pytest.raises(FileError, match="boolean"):
        ad.load(io.BytesIO(bytes(data)))


# ---- pickles -------------------------------------------------------------------------------------


def torch_file(pickled: bytes, **storages: bytes) -> io.BytesIO:
    members = {f"archive/data/{key}": data for key, data in storages.items()}
    return archive(**{"archive/data.pkl": pickled, **members})


class Runs:
    def __reduce__(self) -> Any:
        return os.getcwd, ()


@pytest.mark.parametrize(
    "pickled",
    [
        pickle.dumps(Runs(), 2),
        pickle.dumps(Runs(), 5),
        pickle.dumps(Point(), 2),
        pickle.dumps(print, 2),
        pickle.dumps(np.float64(1.0), 2),
        b"\x80\x02c__builtin__\neval\nX\x01\x00\x00\x001\x85R.",
        b"\x80\x02cbuiltins\ngetattr\n.",
        b"\x80\x02ctorch\nfloat32\n)R.",
        b"\x80\x02ctorch\nSize\n)\x81}b.",
        b"(S'x'\nios\nsystem\n.",
    ],
)
def test_other_names_are_refused(pickled: bytes) -> None:
    with pytest.raises(PickleError):
        ad.load(torch_file(pickled))


def test_the_refusal_names_what_was_asked_for() -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"names (posix|nt)\.getcwd"):
        ad.load(torch_file(pickle.dumps(Runs(), 2)))


@pytest.mark.parametrize(
    "pickled",
    [b"", b".", b"N", b"NN.", b"h\x07.", b"t.", b"X\xff\xff\xff\xffa.", b"\x8b\xff\xff\xff\x7f.",
     b"]s.", b"N]s.", b"Q.", b"NQ.", b"}]Ns.", b"\x80\x02" + b"\x85" * 5 + b"."],
)  # fmt: skip
def test_a_broken_pickle_is_an_error(pickled: bytes) -> None:
    with pytest.raises(FileError):
        ad.load(torch_file(pickled))


def test_a_pickle_cannot_copy_one_text_without_end() -> None:
    text = b"X" + struct.pack("<I", 100_000) + b"x" * 100_000 + b"r\0\0\0\0"
    once = b"c_codecs\nencode\nj\0\0\0\0X\x06\0\0\0latin1\x86R"
    with pytest.raises(FileError, match="far more memory"):
        ad.load(torch_file(b"](" + text + once * 2000 + b"e."))


def test_deep_tuples_are_no_keys() -> None:
    deep = b")" + b"\x85" * 100_000
    with pytest.raises(FileError, match="key"):
        ad.load(torch_file(b"}" + deep + b"Ns."))


def storage(offset: int, size: str, stride: str, numel: int = 4) -> bytes:
    """A tensor of a pickle, with numbers of one digit."""

    def digits(text: str) -> bytes:
        return b"(" + b"".join(b"J" + struct.pack("<i", int(t)) for t in text.split()) + b"t"

    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(("
        b"X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpu"
        + b"J" + struct.pack("<i", numel) + b"tQJ" + struct.pack("<i", offset)
        + digits(size) + digits(stride) + b"\x89ccollections\nOrderedDict\n)RtR."
    )  # fmt: skip


def test_tensors_of_a_pickle_stay_inside_their_storage() -> None:
    data = np.arange(4, dtype=np.float32).tobytes()
    good = ad.load(torch_file(storage(0, "2 2", "2 1"), **{"0": data}))
    assert ad.equal(good, ad.arange(4.0).reshape(2, 2))
    for bad in (
        storage(1, "2 2", "2 1"),
        storage(-1, "2", "1"),
        storage(0, "5", "1"),
        storage(0, "2", "-1"),
        storage(0, "2 2", "1"),
        storage(0, "4", "1", numel=5),
        storage(0, "4", "1", numel=-1),
    ):
        with pytest.raises(FileError):
            ad.load(torch_file(bad, **{"0": data}))
    with pytest.raises(FileError, match="missing"):
        ad.load(torch_file(storage(0, "4", "1")))


def test_a_big_endian_file_is_refused() -> None:
    file = archive(**{"a/data.pkl": b"N.", "a/byteorder": b"big"})
    with pytest.raises(FileError, match="big-endian"):
        ad.load(file)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"\x93NUMPY\1\0", r"np\.load"),
        (pickle.dumps([1, 2]), "pickle"),
        (b"hello", "no file of"),
        (b"\0" * 257 + b"ustar", "tar"),
        (b"PK\x05\x06" + bytes(18), "empty archive"),
    ],
)
def test_other_files_are_told_apart(data: bytes, words: str) -> None:
    with pytest.raises(FileError, match=words):
        ad.load(io.BytesIO(data))


def test_other_archives_are_told_apart() -> None:
    with pytest.raises(FileError, match="TorchScript"):
        ad.load(archive(**{"m/data.pkl": b"N.", "m/constants.pkl": b"N."}))
    with pytest.raises(FileError, match="none of"):
        ad.load(archive(x=b""))


# ---- safetensors ---------------------------------------------------------------------------------

safetensors = ad.utils.safetensors


def test_safetensors_come_back(tmp_path: pathlib.Path) -> None:
    tensors = {n: ad.ones(2, 3).to(getattr(ad, n)) for n in ALL_DTYPES if n != "complex128"} | {
        "empty": ad.zeros(0, 2),
        "number": ad.tensor(2.5),
        "turned": ad.arange(6).view(2, 3).t(),
    }
    path = tmp_path / "x.safetensors"
    safetensors.save_file(tensors, path, {"note": "é"})
    for got in (safetensors.load_file(path), ad.load(path), safetensors.load(path.read_bytes())):
        assert got.keys() == tensors.keys()
        for name, want in tensors.items():
            assert got[name].dtype is want.dtype
            assert got[name].shape == want.shape
            assert ad.equal(got[name], want)
    with safetensors.safe_open(path, framework="pt") as file:
        assert list(file) == sorted(tensors)
        assert file.metadata() == {"note": "é"}
        assert ad.equal(file.get_slice("turned")[1:, 0], ad.tensor([1, 2]))
        with pytest.raises(ArgumentError, match="no tensor"):
            file.get_tensor("x")


def test_safetensors_refuse_what_they_cannot_say() -> None:
    x = ad.ones(3)
    for wrong, words in (
        ({"a": x, "b": x[1:]}, "share memory"),
        ({"a": ad.ones(2, dtype=ad.complex128)}, "complex128"),
        ({"a": ad.eye(2).to_sparse()}, "sparse"),
        ({"a": 3}, "int"),
        ({3: x}, "3"),
        ([x], "dict"),
    ):
        with pytest.raises(ArgumentError, match=words):
            safetensors.save(wrong)
    with pytest.raises(ArgumentError, match="metadata"):
        safetensors.save({"a": x}, {"step": 3})


def header(text: str, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text)) + text.encode() + data


@pytest.mark.parametrize(
    "data",
    [
        header('{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}', bytes(4)),
        header('{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', bytes(8)),
        header('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(8)),
        header('{"a":{"dtype":"F32","shape":[-1],"data_offsets":[4,0]}}', bytes(4)),
        header('{"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}}', bytes(4)),
        header('{"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}}', bytes(4)),
        header('{"a":{"dtype":"F32","shape":[9999999999999],"data_offsets":[0,39999999999996]}}'),
        header('{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},'
               '"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}', bytes(3)),
        header('{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},'
               '"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
        header('{"__metadata__":{"a":1}}'),
        header('{"__metadata__":[]}'),
        header('{"a":[]}'),
        header('{"a":'),
        header("{" * 5000),
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 90) + b"{}",
        b"\2\0\0",
    ],
)  # fmt: skip
def test_a_broken_header_is_an_error(data: bytes) -> None:
    with pytest.raises(FileError):
        safetensors.load(data)


def test_checksums_are_those_of_zip() -> None:
    data = saved([ad.ones(3)], "adjoint")
    found = zipfile.ZipFile(io.BytesIO(data))
    assert found.testzip() is None
    assert zlib.crc32(found.read("arrays/0.npy")) == found.getinfo("arrays/0.npy").CRC


def test_many_members_need_the_large_directory() -> None:
    file = archive(**{f"m{n}": b"" for n in range(70_000)})
    with pytest.raises(FileError, match="none of"):
        ad.load(file)


# -- modules ---------------------------------------------------------------------------------------


class Net(ad.nn.Module):
    """A user's module, with a layer, a buffer and a function."""

    def __init__(self) -> None:
        raise_if_called.append(self)
        super().__init__()
        self.layer = ad.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, activation="relu")
        self.register_buffer("scale", ad.tensor(2.0))

    def forward(self, x: Any) -> Any:
        return self.scale * self.layer(x)


raise_if_called: list[Any] = []


def file_with(value: Any) -> io.BytesIO:
    file = io.BytesIO()
    ad.save(value, file)
    file.seek(0)
    return file


def test_a_module_is_read_if_its_class_is_known() -> None:
    net, x = Net().eval(), ad.rand(3, 1, 4)
    with ad.serialization.safe_globals([Net]):
        made = len(raise_if_called)
        read = ad.load(file_with(net))
        assert len(raise_if_called) == made, "the class was called"
    assert ad.equal(read(x), net(x))
    assert repr(read) == repr(net)
    assert ad.serialization.get_safe_globals() == []


def test_a_module_of_an_unknown_class_is_refused_by_name() -> None:
    file = file_with(Net())
    with pytest.raises(ad.AdjointError, match=r"safe_globals\(\[Net\]\)"):
        ad.load(file)
    file.seek(0)
    assert type(ad.load(file, weights_only=False)) is Net


def test_modules_of_ours_are_always_known(tmp_path: Any) -> None:
    model = ad.nn.Sequential(ad.nn.Conv2d(1, 2, 3), ad.nn.BatchNorm2d(2), ad.nn.Flatten())
    path = tmp_path / "model.pth"
    ad.save(model, path)
    read = ad.load(path)
    x = ad.rand(2, 1, 5, 5)
    assert ad.equal(read(x), model(x))
    assert read.training


def test_a_file_names_no_other_class_and_no_other_function() -> None:
    for kind, content in (
        ("module", ["subprocess.Popen", {}]),
        ("module", ["adjoint.nn.modules.module.sys", {}]),
        ("function", "os.system"),
        ("function", "adjoint.nn.functional.__builtins__"),
    ):
        file = file_with(ad.nn.ReLU())
        text = json.dumps({
            "format": "adjoint", "version": 1, "blocks": [], "value": [1],
            "nodes": [{"dict": []}, {kind: [content[0], [0]] if kind == "module" else content}],
        })  # fmt: skip
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("description.json", text)
        for word in (True, False):
            file.seek(0)
            with pytest.raises(ad.AdjointError, match="safe_globals|damaged"):
                ad.load(file, weights_only=word)


def test_a_module_whose_hooks_were_removed_is_saved() -> None:
    """A lazy layer removes its own once it has seen an input."""
    x = ad.randn(1, 2, 4, 4)
    module = ad.nn.LazyConv2d(3, 2)
    module(x)
    module.register_full_backward_hook(lambda *_: None).remove()
    copy = ad.load(io.BytesIO(saved(module)))
    assert ad.equal(copy(x), module(x))
    module.register_forward_hook(lambda *_: None)
    with pytest.raises(ArgumentError, match="_hooks"):
        saved(module)


def test_a_module_with_options_is_saved() -> None:
    module = ad.nn.LinearCrossEntropyLoss(4, 5)
    copy = ad.load(io.BytesIO(saved(module)))
    assert copy.options == module.options
    assert str(copy) == str(module)

"""Files both ways: what torch.save writes, ad.load reads, and the other way round."""

from __future__ import annotations

import argparse
import collections
import io
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import adjoint as ad  # noqa: E402

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64", "complex64", "complex128", "complex32",
)  # fmt: skip
FORMS: dict[str, dict[str, Any]] = {
    "zip": {},
    "legacy": {"_use_new_zipfile_serialization": False},
    "protocol 4": {"pickle_protocol": 4},
    "protocol 5": {"pickle_protocol": 5},
    "legacy protocol 4": {"_use_new_zipfile_serialization": False, "pickle_protocol": 4},
}
VALUES: dict[str, Callable[[Any], Any]] = {
    "views": lambda lib: (lambda x: [x, x[1:, ::2], x.t(), x[2]])(lib.arange(12.0).reshape(3, 4)),
    "parameters": lambda lib: [
        lib.nn.Parameter(lib.ones(2)),
        lib.nn.Parameter(lib.ones(2), requires_grad=False),
        lib.ones(2, requires_grad=True),
    ],
    "sparse": lambda lib: [
        lib.sparse_coo_tensor(lib.tensor([[0, 0], [1, 1]]), lib.tensor([1.0, 2.0]), (2, 3)),
        lib.eye(3).to_sparse(),
        lib.eye(3).to_sparse_csr(),
        lib.eye(3).to_sparse_csc(),
        lib.eye(4).to_sparse_bsr((2, 2)),
    ],
    "odd": lambda lib: [
        lib.tensor(3.0),
        lib.zeros(0, 3),
        lib.ones(3).expand(4, 3),
        lib.empty(2, 3, device="meta"),
    ],
    "plain": lambda lib: {
        "numbers": [0, 255, 65536, -1, 2**31, 2**70, 1.5, float("inf"), True, None, 2 - 1j],
        "texts": ("", "é", b"\0\xff", bytearray(b"x")),
        "dicts": collections.OrderedDict(a=1, b={1: {2.5: (3,)}}),
        "sets": [{1, 2}, collections.Counter("aab")],
        "kinds": [lib.float16, lib.device("cpu"), lib.sparse_csr, lib.Size((2, 3))],
    },
}


def same(ours: Any, theirs: Any) -> None:
    """Assert that a value of ours is theirs, tensor by tensor."""
    if isinstance(theirs, torch.Tensor):
        _same_tensor(ours, theirs)
    elif isinstance(theirs, dict):
        assert type(ours) is type(theirs)
        assert list(ours) == list(theirs)
        for key, value in theirs.items():
            same(ours[key], value)
    elif isinstance(theirs, (list, tuple)):
        assert isinstance(ours, list if isinstance(theirs, list) else tuple)
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            same(mine, other)
    elif type(theirs).__module__ == "torch":  # dtypes, devices, layouts
        assert str(ours).rpartition(".")[2] == str(theirs).rpartition(".")[2]
    else:
        assert type(ours) is type(theirs)
        assert ours == theirs


def _same_tensor(ours: Any, theirs: Any) -> None:
    assert isinstance(ours, ad.Tensor)
    assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.")
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.layout) == str(theirs.layout).removeprefix("torch.")
    assert ours.requires_grad == theirs.requires_grad
    assert isinstance(ours, ad.nn.Parameter) == isinstance(theirs, torch.nn.Parameter)
    assert ours.is_meta == theirs.is_meta
    if theirs.layout is torch.strided and not theirs.is_meta and theirs.numel():
        assert tuple(ours.stride()) == tuple(theirs.stride())
        assert ours.storage_offset() == theirs.storage_offset()
    if theirs.layout is torch.sparse_coo:
        assert ours.is_coalesced() == theirs.is_coalesced()
    if not theirs.is_meta:
        assert _numbers(ours) == _numbers(theirs)


def _numbers(tensor: Any) -> Any:
    lib = ad if isinstance(tensor, ad.Tensor) else torch
    dense = tensor.detach() if tensor.layout == lib.strided else tensor.detach().to_dense()
    return dense.to(lib.complex128).tolist()


def of_torch(value: Any, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", VALUES)
def test_we_read_what_torch_writes(name: str, form: str) -> None:
    value = VALUES[name](torch)
    same(ad.load(of_torch(value, **FORMS[form])), value)


@pytest.mark.parametrize("name", VALUES)
def test_torch_reads_what_we_write(name: str, tmp_path: Path) -> None:
    value = VALUES[name](ad)
    ad.save(value, tmp_path / "x.pt")
    same(value, torch.load(tmp_path / "x.pt", weights_only=True))
    same(ad.load(tmp_path / "x.pt"), torch.load(tmp_path / "x.pt", mmap=True))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_goes_both_ways(dtype: str, form: str, tmp_path: Path) -> None:
    value = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(torch, dtype))
    ours = ad.load(of_torch(value, **FORMS[form]))
    same(ours, value)
    ad.save(ours, tmp_path / "x.pt")
    same(ours, torch.load(tmp_path / "x.pt"))


@pytest.mark.parametrize("form", FORMS)
def test_views_share_memory_in_both(form: str, tmp_path: Path) -> None:
    base = torch.arange(6.0)
    ours = ad.load(of_torch([base, base[2:]], **FORMS[form]))
    ours[0][2] = 100
    assert ours[1][0] == 100
    ad.save(ours, tmp_path / "x.pt")
    theirs = torch.load(tmp_path / "x.pt")
    theirs[0][2] = 200
    assert theirs[1][0] == 200


def test_conjugates_and_negatives_are_carried_out() -> None:
    value = [torch.tensor([1 + 2j]).conj(), torch.tensor([1 + 2j]).conj().imag]
    assert [x.tolist() for x in ad.load(of_torch(value))] == [x.tolist() for x in value]


def test_model_and_optimiser_state_come_over() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.randn(5, 3)).sum().backward()
    optimiser.step()
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, [3, 5])
    value = [model.state_dict(), optimiser.state_dict(), schedule.state_dict()]
    for form in FORMS.values():
        ours = ad.load(of_torch(value, **form))
        same(ours, value)
        assert ours[0]._metadata == value[0]._metadata
    ours = ad.load(of_torch(value))
    file = io.BytesIO()
    ad.save(ours, file, format="pytorch")
    file.seek(0)
    theirs = torch.load(file)
    same(ours, theirs)
    assert theirs[0]._metadata == value[0]._metadata
    model.load_state_dict(theirs[0])
    optimiser.load_state_dict(theirs[1])


@pytest.mark.parametrize("parameter", [False, True])
def test_attributes_go_both_ways(parameter: bool) -> None:
    value = torch.nn.Parameter(torch.ones(2)) if parameter else torch.ones(2)
    value.unit = "metre"
    ours = ad.load(of_torch(value))
    assert ours.unit == "metre"
    file = io.BytesIO()
    ad.save(ours, file, format="pytorch")
    file.seek(0)
    theirs = torch.load(file)
    same(ours, theirs)
    assert theirs.unit == "metre"


@pytest.mark.parametrize("form", FORMS)
def test_storages_are_read_as_storages(form: str) -> None:
    base = torch.arange(4.0)
    tensor, storage = ad.load(of_torch([base, base.storage()], **FORMS[form]))
    assert storage.tolist() == [0, 1, 2, 3]
    assert storage.data_ptr() == tensor.data_ptr()


def test_files_without_checksums_are_read() -> None:
    torch.serialization.set_crc32_options(False)
    try:
        file = of_torch(torch.arange(4.0))
    finally:
        torch.serialization.set_crc32_options(True)
    assert ad.load(file).tolist() == [0, 1, 2, 3]


def test_several_legacy_files_in_one_are_read_one_by_one() -> None:
    file = io.BytesIO()
    for number in range(3):
        torch.save(torch.full((2,), number), file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert [ad.load(file).tolist() for _ in range(3)] == [[0, 0], [1, 1], [2, 2]]


OBJECTS = {
    "module": lambda: torch.nn.Linear(2, 2),
    "function": lambda: [len],
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8),
}


@pytest.mark.parametrize("form", ["zip", "legacy"])
@pytest.mark.parametrize("name", OBJECTS)
def test_whole_objects_are_refused_by_name(name: str, form: str) -> None:
    with pytest.raises(ad.errors.FileError, match=r"names \w+"):
        ad.load(of_torch(OBJECTS[name](), **FORMS[form]))


@pytest.mark.parametrize("name", ["x.pt", "x.pth", "x.ckpt", "x.bin", "x.pth.tar"])
def test_torch_reads_what_we_write_under_its_names(name: str, tmp_path: Path) -> None:
    value = {"w": ad.ones(2), "best": np.float64(0.5), "curve": np.arange(3, dtype=np.int16)}
    ad.save(value, tmp_path / name)
    with open(tmp_path / "object", "wb") as file:
        ad.save(value, file)
    for path in (tmp_path / name, tmp_path / "object"):
        theirs = torch.load(path, weights_only=False)
        assert type(theirs["best"]) is np.float64
        assert theirs["best"] == 0.5
        assert theirs["curve"].tolist() == [0, 1, 2]
        assert theirs["curve"].dtype == np.int16
        same(value["w"], theirs["w"])
        assert ad.load(path)["best"] == 0.5


@pytest.mark.parametrize("form", FORMS)
def test_values_of_numpy_and_python_come_over(form: str) -> None:
    value = {
        "args": argparse.Namespace(lr=0.1, path=PurePosixPath("a/b")),
        "best": np.float32(0.5),
        "curve": np.arange(6.0).reshape(2, 3).T,
        "seen": collections.defaultdict(list, a=[1]),
        "at": Path("a"),
    }
    got = ad.load(of_torch(value, **FORMS[form]), weights_only=False)
    np.testing.assert_array_equal(got.pop("curve"), value.pop("curve"))
    assert got == value
    with pytest.raises(ad.errors.FileError, match="weights_only=False"):
        ad.load(of_torch(value, **FORMS[form]))
    named = [argparse.Namespace, PurePosixPath, type(Path("a")), np._core.multiarray.scalar]
    named += [np.dtype, collections.defaultdict, list]
    with ad.serialization.safe_globals(named):
        assert ad.load(of_torch(value, **FORMS[form])) == value


def test_a_torchscript_archive_is_called_one(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 3)), tmp_path / "x.pt")
    with pytest.raises(ad.errors.FileError, match="TorchScript"):
        ad.load(tmp_path / "x.pt")
    program = torch.export.export(torch.nn.Linear(2, 3), (torch.ones(1, 2),))
    torch.export.save(program, tmp_path / "x.pt2")
    with pytest.raises(ad.errors.FileError, match="exported program"):
        ad.load(tmp_path / "x.pt2")

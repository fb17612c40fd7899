"""DLPack: memory goes to other libraries and comes from them without copies, or not at all."""

from __future__ import annotations

import gc
import importlib
import weakref
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ExchangeError
from adjoint.exchange import from_dlpack

EXCHANGED = (
    "float32",
    "float64",
    "float16",
    "int8",
    "int64",
    "uint8",
    "uint16",
    "bool",
    "complex64",
)


@pytest.fixture(params=["numpy", "torch"])
def library(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


def address(array: Any) -> int:
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data_ptr()


@pytest.mark.parametrize("dtype", EXCHANGED)
def test_memory_is_shared_both_ways(library: Any, dtype: str) -> None:
    x = ad.arange(6).reshape(2, 3).to(dtype).T[::2]
    there = library.from_dlpack(x)
    back = ad.from_dlpack(there)
    assert address(there) == back.data_ptr() == x.data_ptr()
    assert back.dtype is x.dtype
    assert back.stride() == x.stride()
    assert bool((back == x).all())


def test_bfloat16_is_exchanged_with_pytorch() -> None:
    torch = pytest.importorskip("torch")
    x = ad.tensor([[1.5, -2.0]], dtype=ad.bfloat16)
    there = torch.from_dlpack(x)
    assert there.dtype == torch.bfloat16
    assert there.tolist() == [[1.5, -2.0]]
    back = ad.from_dlpack(there.T)
    assert back.dtype is ad.bfloat16
    assert back.data_ptr() == x.data_ptr()
    assert back.shape == (2, 1)
    assert back.tolist() == [[1.5], [-2.0]]


def test_jax_arrays_are_read_only_here() -> None:
    jax, jnp = pytest.importorskip("jax"), pytest.importorskip("jax.numpy")
    source = jax.device_put(jnp.arange(3.0), jax.devices("cpu")[0])
    x = ad.from_dlpack(source)
    assert x.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(ad.errors.InplaceError, match="read-only"):
        x += 1
    assert jnp.from_dlpack(x.clone()).tolist() == [0.0, 1.0, 2.0]


def test_writes_are_seen_by_the_other_side(library: Any) -> None:
    x = ad.zeros(3)
    there = library.from_dlpack(x)
    there[1] = 5.0
    assert x.tolist() == [0.0, 5.0, 0.0]
    assert x._version == 0
    x[2] = 7.0
    assert there.tolist() == [0.0, 5.0, 7.0]


def test_tensors_of_ours_share_a_version_counter() -> None:
    x = ad.zeros(3)
    y = ad.from_dlpack(x)
    y += 1
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert x._version == y._version == 1


@pytest.mark.parametrize("offered", [np.arange(3.0), ad.arange(3.0)])
def test_copy_says_whether_memory_is_shared(offered: Any) -> None:
    assert from_dlpack(offered, copy=True).data_ptr() != address(offered)
    assert from_dlpack(offered, copy=False).data_ptr() == address(offered)


def test_memory_lives_as_long_as_either_side() -> None:
    source = np.arange(3.0)
    alive = weakref.ref(source)
    x = ad.from_dlpack(source)[1:]
    del source
    gc.collect()
    assert alive() is not None
    assert x.tolist() == [1.0, 2.0]
    del x
    gc.collect()
    assert alive() is None
    there = np.from_dlpack(ad.full((3,), 7.0))
    gc.collect()
    assert there.tolist() == [7.0, 7.0, 7.0]


def test_read_only_memory_stays_read_only() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    x = ad.from_dlpack(array)
    with pytest.raises(ad.errors.InplaceError, match="read-only"):
        x.add_(1)
    assert not np.from_dlpack(x).flags.writeable  # a capsule of version 1 can say so
    with pytest.raises(ExchangeError, match="readonly"):
        x.__dlpack__()  # an older one cannot
    x.__dlpack__(copy=True)


def test_capsules_are_taken_once() -> None:
    x = ad.arange(3.0)
    capsule = ad.to_dlpack(x)
    assert ad.from_dlpack(capsule).data_ptr() == x.data_ptr()
    with pytest.raises(ExchangeError, match="taken before"):
        ad.from_dlpack(capsule)


x = ad.arange(3.0)
REFUSED: dict[str, tuple[Any, str]] = {
    "requires_grad": (lambda: ad.ones(3, requires_grad=True).__dlpack__(), r"detach\(\)"),
    "sparse": (lambda: ad.eye(3).to_sparse().__dlpack__(), r"to_dense\(\)"),
    "meta": (lambda: ad.ones(3, device="meta").__dlpack__(), "no data"),
    "meta_device": (lambda: ad.ones(3, device="meta").__dlpack_device__(), "no memory"),
    "complex32": (lambda: ad.ones(3).chalf().__dlpack__(), "complex32"),
    "grad": (lambda: ad.grad(lambda v: ad.from_dlpack(v).sum())(x), "gradient"),
    "vmap": (lambda: ad.vmap(np.from_dlpack)(x), "inside vmap"),
    "jvp": (lambda: ad.jvp(np.from_dlpack, (x,), (x,)), "inside jvp"),
    "trace": (lambda: ad.trace(lambda v: np.from_dlpack(v), x), "inside ad.trace"),
    "other_device": (lambda: x.__dlpack__(dl_device=(2, 0)), "device"),
    "to_meta": (lambda: ad.from_dlpack(np.ones(3), device="meta"), "no memory"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_go_says_why(what: str) -> None:
    call, why = REFUSED[what]
    with pytest.raises(BufferError, match=why) as caught:
        call()
    assert isinstance(caught.value, ExchangeError)


def test_arguments_that_mean_nothing_here() -> None:
    with pytest.raises(TypeError, match="__dlpack__, got list"):
        ad.from_dlpack([1.0])
    with pytest.raises(ValueError, match="streams"):
        x.__dlpack__(stream=1)
    assert x.__dlpack_device__() == (1, 0)


class OnAnAccelerator:
    """Behaves as CuPy's arrays: on a device, and copied to the CPU when asked."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **wanted: Any) -> Any:
        self.asked = wanted
        return np.arange(3.0).__dlpack__(max_version=wanted["max_version"])


def test_arrays_of_other_devices_are_copied_by_their_library() -> None:
    source = OnAnAccelerator()
    with pytest.raises(ExchangeError, match="device='cpu'"):
        ad.from_dlpack(source)
    assert source.asked == {}
    assert ad.from_dlpack(source, device="cpu").tolist() == [0.0, 1.0, 2.0]
    assert source.asked["dl_device"] == (1, 0)


def test_utils_have_the_same_functions() -> None:
    assert importlib.import_module("adjoint.utils.dlpack").from_dlpack is from_dlpack

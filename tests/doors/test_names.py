"""PyTorch's names mean here what they mean there, and a name that is missing says what to use."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from operator import attrgetter
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import absent
from adjoint.absent import advice


@pytest.mark.parametrize("name", ["jit", "fx", "hub", "eig", "FloatStorage", "SymInt"])
def test_what_is_not_there_says_what_to_use(name: str) -> None:
    with pytest.raises(AttributeError, match=f"adjoint has no '{name}': "):
        getattr(ad, name)


def test_a_misspelt_name_is_answered_with_near_ones() -> None:
    with pytest.raises(AttributeError, match="did you mean matmul"):
        ad.matmull
    with pytest.raises(AttributeError, match=r"adjoint\.cuda has no 'Stream': "):
        ad.cuda.Stream


def test_near_names_are_looked_for_when_a_message_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that ask `hasattr` read none."""
    asked: list[str] = []
    monkeypatch.setattr(absent, "did_you_mean", lambda name, known: asked.append(name) or "")
    for module in (ad, ad.nn, ad.numpy, ad.nn.functional):
        assert not hasattr(module, "unknown")
    assert not asked
    with pytest.raises(AttributeError, match="adjoint has no 'unknown'"):
        ad.unknown
    assert "unknown" in asked


def test_advice_is_given_for_names_that_are_missing_only() -> None:
    plain = [n for n in advice() if "*" not in n and "." not in n and n.isidentifier()]
    present = [n for n in plain if hasattr(ad, n)]
    assert present == []


# -- shapes ----------------------------------------------------------------------------------------


def test_a_shape_is_a_tuple_that_counts_elements() -> None:
    shape = ad.ones(2, 3, 4).shape
    assert type(shape) is ad.Size
    assert shape == (2, 3, 4) == tuple(shape)
    assert (shape.numel(), shape[1:].numel(), shape[-1]) == (24, 12, 4)
    for other in (shape + (5,), (5,) + shape, shape * 2, 2 * shape):  # noqa: RUF005
        assert type(other) is ad.Size
    assert type(ad.zeros(3).size()) is ad.Size
    assert ad.zeros(shape).view(*shape[:1], -1).shape == (2, 12)
    assert pickle.loads(pickle.dumps(shape)) == shape
    assert ad.vmap(lambda row: ad.ones(row.shape))(ad.ones(2, 3)).shape == (2, 3)


# -- devices ---------------------------------------------------------------------------------------


def test_a_device_has_a_type_and_a_number() -> None:
    device = ad.device("cuda", 1)
    assert (device.type, device.index, str(device)) == ("cuda", 1, "cuda:1")
    assert ad.device("cpu", 0) != ad.device("cpu") == ad.zeros(1).device
    assert ad.device("cpu:0") == ad.device("cpu", 0)
    assert repr(ad.device("cpu", 0)) == "device(type='cpu', index=0)"
    assert ad.device(ad.device("cpu")) == ad.device("cpu")
    assert pickle.loads(pickle.dumps(device)) == copy.deepcopy(device) == device
    for wrong in ("gpu", "cpu:x"):
        with pytest.raises(TypeError, match="names no device"):
            ad.device(wrong)
    with pytest.raises(TypeError, match="twice"):
        ad.device("cuda:0", 1)


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps", "xpu"])
def test_a_device_that_is_not_there_is_said_to_be_missing(name: str) -> None:
    x = ad.zeros(2)
    calls: list[Any] = [
        lambda: x.to(name),
        lambda: x.to(device=ad.device(name)),
        lambda: ad.zeros(2, device=name),
        lambda: ad.tensor([1.0], device=name),
        lambda: x.new_zeros(2, device=name),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=rf"no device '{name}' here.*is_available\(\)"):
            call()


def test_tensors_stay_where_they_are_on_the_cpu() -> None:
    x = ad.zeros(2)
    assert x.to("cpu") is x.to(ad.device("cpu", 0)) is x.cpu() is x
    assert x.to("cpu", ad.float64).dtype is ad.float64
    assert x.is_cpu
    assert (x.is_cuda, x.is_mps, x.is_xpu) == (False, False, False)
    assert x.get_device() == -1
    with pytest.raises(TypeError, match="no device 'cuda'"):
        x.cuda()


def test_a_default_device_is_where_new_tensors_are_made() -> None:
    x = ad.ones(2)
    with ad.device("meta"):
        assert ad.zeros(3).is_meta
        assert ad.tensor([1.0]).is_meta
        assert ad.rand(2, 2).sum().is_meta
        assert not ad.zeros_like(x).is_meta
        assert not ad.as_tensor(x).is_meta
        assert not ad.zeros(3, device="cpu").is_meta
        with ad.device("cpu"):
            assert not ad.zeros(3).is_meta
        assert ad.get_default_device() == "meta"
    assert not ad.zeros(3).is_meta
    assert ad.get_default_device() == "cpu"
    assert ad.device("meta")(ad.zeros)(3).is_meta


def test_set_default_device_lasts() -> None:
    ad.set_default_device("meta")
    try:
        assert ad.zeros(3).is_meta
    finally:
        ad.set_default_device(None)
    assert not ad.zeros(3).is_meta
    with pytest.raises(TypeError, match="no device 'cuda'"):
        ad.set_default_device("cuda")


@pytest.mark.parametrize("kind", ["cuda", "mps", "xpu"])
def test_modules_of_devices_answer_no(kind: str) -> None:
    module = getattr(ad, kind)
    assert module.is_available() is False
    assert module.device_count() == 0
    module.synchronize()
    module.empty_cache()
    module.manual_seed(1)
    assert ad.get_device_module(kind) is module


def test_cuda_grants_what_changes_nothing_and_refuses_what_needs_a_device() -> None:
    state = ad.get_rng_state()
    ad.cuda.manual_seed_all(3)
    assert ad.equal(ad.get_rng_state(), state)
    assert ad.cuda.memory_allocated() == 0
    with ad.cuda.device(-1), ad.cuda.stream(None):
        pass
    for call in (ad.cuda.current_device, ad.cuda.get_device_name, lambda: ad.cuda.set_device(0)):
        with pytest.raises(TypeError, match="no device cuda"):
            call()
    assert ad.accelerator.current_accelerator() is None
    assert not ad.accelerator.is_available()


def test_switches_of_backends_can_be_set() -> None:
    before = ad.backends.cudnn.benchmark
    ad.backends.cudnn.benchmark = True
    assert ad.backends.cudnn.benchmark
    ad.backends.cudnn.benchmark = before
    assert not ad.backends.cudnn.is_available()
    assert not ad.backends.mps.is_available()
    with ad.backends.cudnn.flags(enabled=False):
        pass


# -- settings --------------------------------------------------------------------------------------

THREADS = """
import ctypes, adjoint as ad
import numpy as np
from adjoint.core.threads import TEAM
from adjoint.kernels import pieces
from adjoint.toolchain import build
source = TEAM + "\\nvoid most(void **p) { **(int **)p = TEAM; }"
most = build.load(source, "most")
def count():
    found = ctypes.c_int()
    address = ctypes.c_void_p(ctypes.addressof(found))
    most(ctypes.addressof(address))
    return found.value
for wanted in (3, 1, 2):
    ad.set_num_threads(wanted)
    print(wanted == ad.get_num_threads() == pieces.threads() == count())
later = build.load(source + " /* loaded later */", "most")
print(count() == 2)
"""


def test_set_num_threads_reaches_pieces_and_native_code() -> None:
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True)
    assert done.stdout.split() == ["True"] * 4, done.stderr


def test_a_number_of_threads_is_positive() -> None:
    before = ad.get_num_threads()
    for wrong in (0, -1, 1.5):
        with pytest.raises(TypeError, match="positive integer"):
            ad.set_num_threads(wrong)  # type: ignore[arg-type]
    assert ad.get_num_threads() == before


def test_wishes_that_change_nothing_are_remembered() -> None:
    ad.use_deterministic_algorithms(True, warn_only=True)
    assert ad.are_deterministic_algorithms_enabled()
    assert ad.get_deterministic_debug_mode() == 1
    ad.set_deterministic_debug_mode("default")
    assert not ad.are_deterministic_algorithms_enabled()
    ad.set_float32_matmul_precision("high")
    assert ad.get_float32_matmul_precision() == "high"
    ad.set_float32_matmul_precision("highest")
    with pytest.raises(TypeError, match="one of highest"):
        ad.set_float32_matmul_precision("low")


# -- tensors of old --------------------------------------------------------------------------------


def test_old_classes_of_tensors_are_dtypes() -> None:
    assert ad.FloatTensor(2, 3).shape == (2, 3)
    assert ad.FloatTensor(ad.Size((2,))).dtype is ad.float32
    assert ad.LongTensor([1, 2]).tolist() == [1, 2]
    assert ad.ByteTensor(np.ones(2)).dtype is ad.uint8
    assert isinstance(ad.ones(2), ad.FloatTensor)
    assert not isinstance(ad.ones(2), ad.DoubleTensor)
    x = ad.ones(2)
    assert x.type() == "torch.FloatTensor"
    assert x.type("torch.DoubleTensor").dtype is x.type(ad.DoubleTensor).dtype is ad.float64
    assert x.type(ad.int64).type() == "torch.LongTensor"
    assert x.double().new(3, 1).dtype is ad.float64
    assert x.new([1, 2]).tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match=r"x\.to\("):
        ad.LongTensor(x)


def test_a_variable_is_a_tensor() -> None:
    x = ad.autograd.Variable(ad.ones(2), requires_grad=True)
    assert isinstance(x, ad.autograd.Variable)
    assert type(x) is ad.Tensor
    (x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]


# -- functions -------------------------------------------------------------------------------------


def test_trace_of_a_matrix_is_a_number_and_of_a_function_a_graph() -> None:
    x = ad.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    ad.trace(x).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert ad.trace(np.eye(3)).item() == 3.0
    assert type(ad.trace(ad.sin, x)) is ad.graph.Graph
    with pytest.raises(TypeError, match="a function or a matrix"):
        ad.trace(3)  # type: ignore[arg-type]


def test_functions_ask_what_methods_ask() -> None:
    x = ad.ones(2)
    assert ad.is_floating_point(x)
    assert not ad.is_complex(x)
    assert ad.is_signed(x)
    assert ad.is_same_size(x, ad.zeros(2))
    assert ad.is_nonzero(ad.ones(1))
    assert isinstance(ad.float32, ad.dtype)


def test_a_state_of_random_numbers_is_a_tensor_of_bytes() -> None:
    state = ad.get_rng_state()
    assert isinstance(state, ad.Tensor)
    assert state.dtype is ad.uint8
    first = ad.rand(3)
    ad.set_rng_state(state)
    assert ad.equal(ad.rand(3), first)
    with ad.random.fork_rng(devices=[], enabled=True):
        after = ad.rand(3)
    assert ad.equal(ad.rand(3), after)
    generator = ad.Generator(device="cpu")
    assert generator.device == "cpu"
    assert (
        pickle.loads(pickle.dumps(generator)).get_state().tolist() == generator.get_state().tolist()
    )


def test_elements_can_be_written_by_python_functions() -> None:
    x = ad.tensor([[1.0, 2.0]])
    assert x.apply_(lambda v: v + 1).tolist() == [[2.0, 3.0]]
    assert x.map_(ad.tensor([10.0]), lambda a, b: a * b).tolist() == [[20.0, 30.0]]
    assert x.map2_(x, ad.ones(1), lambda a, b, c: a + b + c).tolist() == [[41.0, 61.0]]
    with pytest.raises(RuntimeError, match="not differentiated"):
        ad.ones(2, requires_grad=True).apply_(abs)


def test_buffers_and_files_are_shared(tmp_path: Any) -> None:
    buffer = bytearray(8)
    x = ad.frombuffer(buffer, dtype=ad.int32)
    x += 1
    assert bytes(buffer) == b"\x01\0\0\0" * 2
    path = tmp_path / "numbers"
    y = ad.from_file(path, shared=True, size=3, dtype=ad.float64)
    y += 2.0
    assert np.fromfile(path).tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(ValueError, match="do not hold"):
        ad.frombuffer(buffer, dtype=ad.float64, offset=3)


SHARED = """
import adjoint as ad
import adjoint.multiprocessing as mp

def write(number, x):
    with ad.no_grad():
        x[number] += number + 1.0

if __name__ == "__main__":
    x = ad.nn.Parameter(ad.zeros(3)).share_memory_()
    mp.spawn(write, args=(x,), nprocs=2)
    mp.spawn(write, args=(x,), nprocs=3, start_method="fork")
    print(x.tolist(), x.is_leaf, x.requires_grad)
"""


def test_shared_memory_is_one_memory_in_all_processes(tmp_path: Any) -> None:
    x = ad.zeros(3, requires_grad=True).share_memory_()
    assert x.is_shared()
    assert x.is_leaf
    assert not ad.zeros(3).is_shared()
    path = tmp_path / "shared.py"
    path.write_text(SHARED)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert done.stdout.strip() == "[2.0, 4.0, 3.0] True True", done.stderr


MODULES = (
    *("autograd.forward_ad", "autograd.functional", "debug", "func", "lax", "masked", "nested"),
    *("nn.init", "overrides", "scipy.stats", "signal.windows", "sparse", "tree", "tree_util"),
    *("types", "utils.checkpoint"),
)
WITH_EXAMPLES = ("autograd.functional", "masked", "nn.functional", "nn.init", "signal.windows")


@pytest.mark.parametrize("path", MODULES)
def test_a_module_lists_what_is_its_own(path: str) -> None:
    """`dir()` and completion show no names of typing, and no errors that it may raise."""
    module = attrgetter(path)(ad)
    strangers = {"Any", "Callable", "Sequence", "ArgumentError", "annotations", "math"}
    assert not strangers & set(dir(module))
    assert all(hasattr(module, name) for name in dir(module))


@pytest.mark.parametrize("path", WITH_EXAMPLES)
def test_a_function_has_an_example(path: str) -> None:
    module = attrgetter(path)(ad)
    for name in getattr(module, "__all__", None) or dir(module):
        function = getattr(module, name)
        ours = (getattr(function, "__module__", None) or "").startswith("adjoint.")
        if ours and isinstance(function, FunctionType) and not name.startswith("_"):
            assert ">>>" in (function.__doc__ or ""), name

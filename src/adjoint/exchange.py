"""Tensors on the memory of others: buffers, files, and arrays of other libraries (DLPack)."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import numpy as np

from adjoint.calls.methods import from_numpy
from adjoint.core.devices import Device, existing_device
from adjoint.core.dtypes import DEFAULT, bfloat16, to_dtype
from adjoint.core.errors import AdjointError, ArgumentError, ExchangeError, ValueRangeError
from adjoint.core.importing import imported
from adjoint.core.lazy import Lazy
from adjoint.tensor.modes import get_default_device
from adjoint.tensor.tensor import Tensor

ctypes = Lazy("ctypes")

Array = np.ndarray[Any, Any]


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Wrap the memory of a buffer as a tensor of one dimension.

    >>> import adjoint as ad
    >>> ad.frombuffer(bytearray(b"\\x01\\x02\\x03"), dtype=ad.uint8, offset=1)
    tensor([2, 3], dtype=ad.uint8)
    """
    wanted = to_dtype(dtype)
    left = memoryview(buffer).nbytes - offset
    if left <= 0 or (count < 0 and left % wanted.itemsize):
        raise ValueRangeError(
            f"frombuffer: {left} bytes from offset {offset} on do not hold elements of {wanted}"
        )
    made = from_numpy(np.frombuffer(buffer, wanted.np, count, offset))
    return made.requires_grad_() if requires_grad else made


def from_file(
    filename: Any, shared: bool = False, size: int = 0, *, dtype: Any = None, **options: Any
) -> Tensor:
    """Wrap the bytes of a file as a tensor; with `shared`, writes go to the file, which may grow.

    The other options of a new tensor (device, layout) can only be those of the CPU.

    >>> import adjoint as ad
    >>> import tempfile, numpy
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     numpy.arange(3.0, dtype="f4").tofile(file.name)
    ...     ad.from_file(file.name, size=3)
    tensor([0., 1., 2.])
    """
    wanted = DEFAULT.dtype if dtype is None else to_dtype(dtype)
    if options.get("device") is not None:
        existing_device("from_file", options["device"])
    path = os.fspath(filename)
    if shared:
        with open(path, "ab") as file:
            file.truncate(max(os.path.getsize(path), size * wanted.itemsize))
    return from_numpy(np.memmap(path, wanted.np, "r+" if shared else "c", shape=(size,)))


# Note [DLPack]
# NumPy makes and reads the capsules; arrays keep each other's memory alive through them, and memory
# that may not be written to says so in capsules of version 1. bfloat16, for which NumPy has no
# dtype, travels as 16 bits under another label. Nobody hears of the other side's writes: they are
# seen and not counted (`_version`), as with `from_numpy` and in PyTorch.

_CPU = 1  # DLPack's numbers of types of devices
_READABLE_HERE = (_CPU, 3, 11, 13)  # memory of the CPU, also where it is pinned or managed
_BFLOAT, _UNSIGNED = 4, 1  # DLPack's numbers of types of elements
# Where a capsule's structure has the type of its device; that of its elements is 12 bytes further.
_DEVICE_AT = {b"dltensor": 8, b"dltensor_versioned": 40}


class _Capsule:
    """What a capsule holds, read and changed in place; `name` says which structure it is."""

    def __init__(self, capsule: Any) -> None:
        python = ctypes.pythonapi
        python.PyCapsule_GetName.restype = ctypes.c_char_p
        python.PyCapsule_GetPointer.restype = ctypes.c_void_p
        held = ctypes.py_object(capsule)
        name = python.PyCapsule_GetName(held)
        if name not in _DEVICE_AT:
            raise ExchangeError(
                "from_dlpack: the capsule was taken before, or is none of DLPack; a capsule can be "
                "taken once, so give the array itself"
            )
        self.address = python.PyCapsule_GetPointer(held, ctypes.c_char_p(name)) + _DEVICE_AT[name]

    @property
    def device(self) -> tuple[int, int]:
        """The type and the number of the device."""
        kind, number = (ctypes.c_int32 * 2).from_address(self.address)
        return kind, number

    def relabel(self, before: int, after: int) -> bool:
        """Change the type of elements, if it is `before`; whether it was."""
        label = ctypes.c_uint8.from_address(self.address + 12)
        if label.value != before:
            return False
        label.value = after
        return True


class _Source:
    """An array of another library or a capsule, as NumPy takes it."""

    def __init__(self, offered: Any) -> None:
        self.offered = offered
        self.is_bfloat = False
        self.is_capsule = type(offered).__name__ == "PyCapsule"
        if not self.is_capsule and not hasattr(offered, "__dlpack__"):
            raise ArgumentError(
                f"from_dlpack needs an array with __dlpack__, got {type(offered).__name__}; "
                "ad.asarray takes lists, numbers and buffers"
            )

    def __dlpack_device__(self) -> tuple[int, int]:
        found = _Capsule(self.offered).device if self.is_capsule else None
        return found or self.offered.__dlpack_device__()

    def __dlpack__(self, **wanted: Any) -> Any:
        capsule = self.offered if self.is_capsule else self.offered.__dlpack__(**wanted)
        self.is_bfloat = _Capsule(capsule).relabel(_BFLOAT, _UNSIGNED)
        return capsule

    def array(self, device: Any, copy: bool | None) -> Array:
        """The array, on the memory that is offered where that is possible and wanted."""
        kind = self.__dlpack_device__()[0]
        if device is None and kind not in _READABLE_HERE:
            raise ExchangeError(
                f"from_dlpack: the array is on a device of DLPack's type {int(kind)}, and tensors "
                "live on the CPU; from_dlpack(x, device='cpu') copies it"
            )
        try:
            taken = np.from_dlpack(self, device=device, copy=copy)
        except AdjointError:
            raise
        except (BufferError, RuntimeError) as refusal:
            raise ExchangeError(f"from_dlpack: {refusal}") from None
        return taken.view(bfloat16.np) if self.is_bfloat else taken


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Wrap an array of another library that speaks DLPack, on its memory unless `copy` is set.

    Writes of one side are seen by the other; memory that the other side protects is protected here.
    `copy=False` raises where a copy is needed, `device="cpu"` lets the other side copy from its own
    device.

    >>> import adjoint as ad
    >>> import numpy as np
    >>> ad.from_dlpack(np.arange(3.0))
    tensor([0., 1., 2.], dtype=ad.float64)
    """
    if device is not None and existing_device("from_dlpack", device).type != "cpu":
        raise ExchangeError(f"from_dlpack: a tensor on {str(device)!r} has no memory to exchange")
    if isinstance(ext_tensor, Tensor):
        check_exchangeable(ext_tensor)
        return ext_tensor.detach().clone() if copy else ext_tensor.detach()
    return from_numpy(_Source(ext_tensor).array(None if device is None else "cpu", copy))


def check_exchangeable(tensor: Tensor) -> None:
    """Raise unless the tensor's memory is all there is to know of it."""
    if tensor.requires_grad:
        raise ExchangeError(
            "__dlpack__ of a tensor that requires a gradient, which the other side would not "
            "record: use detach() first"
        )
    if tensor.home is not None:
        try:
            tensor.home.check_numpy("__dlpack__")
        except AdjointError as refusal:
            raise ExchangeError(str(refusal)) from None


def dlpack(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Return the memory as a capsule for another library, which calls this in its `from_dlpack`.

    >>> import adjoint as ad
    >>> import numpy as np
    >>> x = ad.zeros(3)
    >>> np.from_dlpack(x)[1] = 5.0
    >>> x
    tensor([0., 5., 0.])
    """
    check_exchangeable(self)
    if stream is not None:
        raise ValueRangeError(f"__dlpack__(stream={stream!r}): the CPU has no streams, use None")
    array = self.array
    is_bfloat = array.dtype == bfloat16.np
    array = array.view(np.uint16) if is_bfloat else array
    try:
        capsule = array.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)
    except BufferError as refusal:
        raise ExchangeError(f"__dlpack__: {refusal}") from None
    if is_bfloat:
        _Capsule(capsule).relabel(_UNSIGNED, _BFLOAT)
    return capsule


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """Return DLPack's numbers of the device: type and number."""
    if self.is_meta:
        raise ExchangeError("__dlpack_device__: a meta tensor has a shape and no memory")
    return _CPU, 0


def to_dlpack(tensor: Tensor) -> Any:
    """Return a tensor as a capsule for other libraries; they can take the tensor itself.

    >>> import adjoint as ad
    >>> type(ad.to_dlpack(ad.ones(2))).__name__
    'PyCapsule'
    """
    return dlpack(tensor)


def array_namespace(self: Tensor, *, api_version: str | None = None) -> ModuleType:
    """Return the functions of the Python array API standard: the module `adjoint.array_api`.

    >>> import adjoint as ad
    >>> ad.ones(3).__array_namespace__()
    <module 'adjoint.array_api' from ...>
    """
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueRangeError(
            f"__array_namespace__(api_version={api_version!r}): the standard's versions here are "
            "2021.12 to 2024.12"
        )
    return imported("adjoint.array_api")


def to_device(self: Tensor, device: Any, *, stream: Any = None) -> Tensor:
    """Return the tensor on a device, as `x.to(device)`; the name is the array API standard's."""
    if stream is not None:
        raise ValueRangeError(f"to_device(stream={stream!r}): the CPU has no streams, use None")
    return self.to(device=device)


def install() -> None:
    """Let other libraries take tensors."""
    methods: Any = Tensor
    methods.__dlpack__, methods.__dlpack_device__ = dlpack, dlpack_device
    methods.__array_namespace__, methods.to_device = array_namespace, to_device


def get_device_module(device: Any = None) -> ModuleType:
    """Return the module of a type of device: `ad.cpu`, `ad.cuda`.

    >>> import adjoint as ad
    >>> ad.get_device_module("cpu").__name__
    'adjoint.cpu'
    """
    chosen = get_default_device() if device is None else Device(device)
    return imported(f"adjoint.{chosen.type}")

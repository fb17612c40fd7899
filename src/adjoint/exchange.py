"""Tensors on the memory of others: buffers, files, and arrays of other libraries (DLPack)."""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any

import numpy as np

from adjoint.core.devices import Device, present
from adjoint.core.dtypes import DEFAULT, to_dtype
from adjoint.core.errors import ValueRangeError
from adjoint.tensor.methods import from_numpy
from adjoint.tensor.modes import get_default_device
from adjoint.tensor.tensor import Tensor


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
    """
    wanted = DEFAULT.dtype if dtype is None else to_dtype(dtype)
    if options.get("device") is not None:
        present("from_file", options["device"])
    path = os.fspath(filename)
    if shared:
        with open(path, "ab") as file:
            file.truncate(max(os.path.getsize(path), size * wanted.itemsize))
    return from_numpy(np.memmap(path, wanted.np, "r+" if shared else "c", shape=(size,)))


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Wrap an array of another library that speaks DLPack, on its memory unless `copy` is set.

    >>> import adjoint as ad
    >>> import numpy as np
    >>> ad.from_dlpack(np.arange(3.0))
    tensor([0., 1., 2.], dtype=ad.float64)
    """
    if device is not None:
        present("from_dlpack", device)
    array = ext_tensor.array if isinstance(ext_tensor, Tensor) else np.from_dlpack(ext_tensor)
    return from_numpy(array.copy() if copy else array)


def to_dlpack(tensor: Tensor) -> Any:
    """Return a tensor as a capsule for other libraries; they can take the tensor itself."""
    return tensor.__dlpack__()


def get_device_module(device: Any = None) -> ModuleType:
    """Return the module of a type of device: `ad.cpu`, `ad.cuda`."""
    chosen = get_default_device() if device is None else Device(device)
    return importlib.import_module(f"adjoint.{chosen.type}")

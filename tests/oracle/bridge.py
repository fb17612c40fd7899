"""Values of PyTorch as values of adjoint and back, through NumPy.

A tensor crosses with its strides (so that non-contiguous and expanded samples stay so), never
sharing memory; a sparse one with its parts. What adjoint has no word for (float8, ...) raises
`Untranslatable`,
and the sample is counted as left out rather than as a failure.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

import adjoint as ad

Array = np.ndarray[Any, np.dtype[Any]]

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip

MAX_NDIM = 64  # NumPy's


class Untranslatable(Exception):
    """A value of PyTorch that adjoint has no counterpart for."""


def dtype_name(dtype: Any) -> str:
    """Return the name that both libraries use: "float32"."""
    return str(dtype).rsplit(".", 1)[-1]


def ad_dtype(dtype: torch.dtype) -> Any:
    """Return adjoint's dtype for PyTorch's."""
    name = dtype_name(dtype)
    if name not in DTYPES:
        raise Untranslatable(f"dtype {name}")
    return getattr(ad, name)


def torch_array(tensor: torch.Tensor) -> Array:
    """Return the elements of a PyTorch tensor as an array of its own, contiguous."""
    if tensor.device.type != "cpu" or tensor.ndim > MAX_NDIM:
        raise Untranslatable(f"device {tensor.device}, {tensor.ndim} dimensions")
    dense = tensor.detach().resolve_conj().resolve_neg()
    if dense._is_zerotensor():
        dense = dense.clone()  # PyTorch's symbolic zeros have no memory
    if dense.layout != torch.strided:
        dense = dense.to_dense()
    if dense.dtype == torch.complex32:
        dense = dense.to(torch.complex64)  # NumPy's smallest; both sides are compared in it
    if dtype_name(dense.dtype) not in DTYPES:
        raise Untranslatable(f"dtype {dense.dtype}")
    if dense.dtype == torch.bfloat16:
        bits = dense.contiguous().view(torch.int16).numpy()
        return bits.view(ml_dtypes.bfloat16).copy()
    return dense.numpy().copy()


def ad_array(tensor: Any) -> Array:
    """Return the elements of an adjoint tensor as an array of its own."""
    dense = tensor.detach().to_dense()
    return np.array((dense.cfloat() if dense.dtype is ad.complex32 else dense).numpy())


def to_torch(array: Array) -> torch.Tensor:
    """Return a PyTorch tensor with the elements of `array`."""
    if array.dtype == ml_dtypes.bfloat16:
        bits = np.ascontiguousarray(array).view(np.int16)
        return torch.from_numpy(bits.copy()).view(torch.bfloat16).reshape(array.shape)
    return torch.from_numpy(np.array(array))


def to_adjoint(array: Array) -> Any:
    """Return an adjoint tensor with the elements of `array`."""
    return ad.from_numpy(np.array(array))


def tensor_to_adjoint(tensor: torch.Tensor) -> Any:
    """Return a leaf of adjoint with the same elements, strides and requires_grad."""
    if tensor.layout != torch.strided:
        return _sparse_to_adjoint(tensor)
    if isinstance(tensor, torch.nn.Parameter) or type(tensor) is torch.Tensor:
        result = ad.from_numpy(_with_strides(tensor))
        return result.requires_grad_() if tensor.requires_grad else result
    raise Untranslatable(f"tensor type {type(tensor).__name__}")


# Of each layout, how its indices are called, and the constructor's name is that of the layout.
PARTS = {
    "sparse_coo": ("_indices",),
    "sparse_csr": ("crow_indices", "col_indices"),
    "sparse_csc": ("ccol_indices", "row_indices"),
    "sparse_bsr": ("crow_indices", "col_indices"),
    "sparse_bsc": ("ccol_indices", "row_indices"),
}


def _sparse_to_adjoint(tensor: torch.Tensor) -> Any:
    layout = dtype_name(tensor.layout)
    if layout not in PARTS:
        raise Untranslatable(f"layout {layout}")
    values = tensor._values() if layout == "sparse_coo" else tensor.values()
    indices = [tensor_to_adjoint(getattr(tensor, name)()) for name in PARTS[layout]]
    made = getattr(ad, f"{layout}_tensor")(
        *indices, to_adjoint(torch_array(values)), tuple(tensor.shape)
    )
    made = made.coalesce() if layout == "sparse_coo" and tensor.is_coalesced() else made
    return made.requires_grad_() if tensor.requires_grad else made


def _with_strides(tensor: torch.Tensor) -> Array:
    """Return a copy with the same strides, and the same elements around it in its storage."""
    if tensor.numel() == 0 or (tensor.is_contiguous() and tensor.storage_offset() == 0):
        return torch_array(tensor)
    plain = tensor.detach().resolve_conj().resolve_neg()
    whole = torch.empty(0, dtype=plain.dtype).set_(plain.untyped_storage())
    buffer = torch_array(whole)[plain.storage_offset() :]
    steps = [step * buffer.itemsize for step in plain.stride()]
    return np.lib.stride_tricks.as_strided(buffer, tuple(plain.shape), steps)


def translate(value: Any) -> Any:
    """Return the adjoint counterpart of any argument a sample holds."""
    if isinstance(value, torch.Tensor):
        return tensor_to_adjoint(value)
    if isinstance(value, torch.dtype):
        return ad_dtype(value)
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, (torch.memory_format, torch.layout)):
        return _named_constant(value)
    if isinstance(value, list | tuple):
        return type(value)(map(translate, value))
    if isinstance(value, dict):
        return {key: translate(item) for key, item in value.items()}
    if isinstance(value, torch.Generator):
        raise Untranslatable("a generator")
    return value


def _named_constant(value: Any) -> Any:
    name = dtype_name(value)
    if not hasattr(ad, name):
        raise Untranslatable(name)
    return getattr(ad, name)

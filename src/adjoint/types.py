"""`ad.types`: names for annotations, as in `torch.types`, and those of signatures of operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from adjoint.core.devices import Device as _Device
from adjoint.core.dtypes import DType
from adjoint.core.shapes import Size
from adjoint.tensor.tensor import Tensor

__all__ = [
    "DTypeLike", "Device", "DeviceLike", "Number", "Scalar", "TensorLike",
    "_TensorOrTensors", "_bool", "_dtype", "_float", "_int", "_size",
]  # fmt: skip

Scalar: TypeAlias = int | float | complex | bool | np.number[Any] | np.bool_  # `Scalar` of schemas
TensorLike: TypeAlias = Tensor | np.ndarray[Any, Any] | Scalar  # where a tensor is read
DTypeLike: TypeAlias = DType | np.dtype[Any] | type | str
DeviceLike: TypeAlias = _Device | str | int
Number = int | float | bool
Device = _Device | str | int | None
_TensorOrTensors = Tensor | Sequence[Tensor]
_dtype, _int, _float, _bool = DType, int, float, bool
_size = Size | list[int] | tuple[int, ...]


def __dir__() -> list[str]:
    return sorted(__all__)

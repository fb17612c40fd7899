"""`ad.types`: names for annotations, as in `torch.types`."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.core.devices import Device as _Device
from adjoint.core.dtypes import DType
from adjoint.core.shapes import Size
from adjoint.tensor.tensor import Tensor

__all__ = ["Device", "Number", "_TensorOrTensors", "_bool", "_dtype", "_float", "_int", "_size"]

Number = int | float | bool
Device = _Device | str | int | None
_TensorOrTensors = Tensor | Sequence[Tensor]
_dtype, _int, _float, _bool = DType, int, float, bool
_size = Size | list[int] | tuple[int, ...]

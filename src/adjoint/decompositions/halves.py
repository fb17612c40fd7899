"""float16 and bfloat16 where a decomposition says itself what is computed in float32."""

from __future__ import annotations

from typing import Any

from adjoint.core.dtypes import HALVES


def wide(tensor: Any) -> Any:
    """Return a tensor of float16 or bfloat16 in float32, every other one as it is."""
    return tensor.to(tensor.dtype.wide) if tensor.dtype in HALVES else tensor

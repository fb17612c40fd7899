"""Shape rules of padding."""

from __future__ import annotations

from typing import Any

from adjoint.checks import padding
from adjoint.core.shapes import Shape, Spec


def constant_pad_nd(self: Spec, pad: Shape, value: Any) -> Spec:
    """Wider by what each pair says, from the last dimension on."""
    return Spec(padding.padded_shape("constant_pad_nd", self.shape, pad), self.dtype)

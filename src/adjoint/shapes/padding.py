"""Shape rules of padding."""

from __future__ import annotations

from adjoint.checks import padding
from adjoint.core.shapes import Shape, Spec


def reflection(self: Spec, pad: Shape) -> Spec:
    """Wider by elements of its own, which it must have."""
    return _around("reflection_pad", self, pad, "reflect")


def replication(self: Spec, pad: Shape) -> Spec:
    """Wider by its first and last elements."""
    return _around("replication_pad", self, pad, "replicate")


def _around(what: str, self: Spec, pad: Shape, mode: str) -> Spec:
    padding.check_room(what, mode, self, pad)
    return Spec(padding.padded_shape(what, self.shape, pad), self.dtype)

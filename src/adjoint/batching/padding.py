"""Padding under vmap: from the last dimension on, so that a batch in front is no matter."""

from __future__ import annotations

from typing import Any

from adjoint.batching.common import Batch
from adjoint.checks import padding
from adjoint.core.shapes import Shape

Tensor = Any


def constant_pad_nd(batch: Batch, self: Tensor, pad: Shape, value: Any) -> Tensor:
    """The batch itself is never padded."""
    padding.sides("constant_pad_nd", tuple(self.shape[1:]), pad)
    return batch.op.call([self, pad, value])

"""Batches of images, which keep the position of their channels in memory."""

from __future__ import annotations

from typing import Any

from adjoint.core.layouts import channels_last, channels_last_3d

Tensor = Any


def laid_out_as(input: Tensor, result: Tensor) -> Tensor:
    """The result with its channels last in memory where the input has them so."""
    form = {4: channels_last, 5: channels_last_3d}.get(input.ndim)
    if form is None or input.is_contiguous() or not input.is_contiguous(form):
        return result
    return result.contiguous(memory_format=form)

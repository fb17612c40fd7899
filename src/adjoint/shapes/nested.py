"""Shape rules of nested tensors."""

from __future__ import annotations

from typing import Any

from adjoint.core.errors import ShapeError
from adjoint.core.shapes import Spec, show


def padded_rows(self: Spec, starts: Spec, lengths: Spec, size: int, padding: Any) -> Spec:
    _vectors("_padded_rows", self, starts, lengths, 1)
    return Spec((starts.shape[0], size, *self.shape[1:]), self.dtype)


def packed_rows(self: Spec, starts: Spec, lengths: Spec, total: int) -> Spec:
    _vectors("_packed_rows", self, starts, lengths, 2)
    if self.shape[0] != starts.shape[0]:
        raise ShapeError(
            f"_packed_rows: {self.shape[0]} rows ({show(self.shape)}) for {starts.shape[0]} starts"
        )
    return Spec((total, *self.shape[2:]), self.dtype)


def _vectors(what: str, self: Spec, starts: Spec, lengths: Spec, least: int) -> None:
    if starts.ndim != 1 or starts.shape != lengths.shape:
        raise ShapeError(
            f"{what}: starts and lengths must be vectors of one size, got {show(starts.shape)} "
            f"and {show(lengths.shape)}"
        )
    if self.ndim < least:
        raise ShapeError(f"{what}: needs at least {least} dimensions, got {show(self.shape)}")

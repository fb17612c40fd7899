"""Losses: a number that says how far outputs are from targets."""

from __future__ import annotations

import math as math

from adjoint.core.errors import ShapeError as ShapeError
from adjoint.core.shapes import show as show
from adjoint.core.source_lines import warn
from adjoint.nn.functional.linear_losses import (
    LinearCrossEntropyOptions as LinearCrossEntropyOptions,
)
from adjoint.nn.modules import distance as distance
from adjoint.nn.modules import made
from adjoint.nn.modules.linear import Linear as Linear

__getattr__, __dir__, __all__ = made.door(globals())


def reduced(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that the older arguments mean, where they are given."""
    if size_average is None and reduce is None:
        return reduction
    word = "none" if reduce is False else "sum" if size_average is False else "mean"
    warn(f"size_average and reduce are PyTorch's older arguments; use reduction={word!r}.")
    return word

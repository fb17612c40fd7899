"""Methods of arrays that are more than a function of the array."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.dtypes import DType, to_dtype
from adjoint.core.errors import ArgumentError
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import Array


def one_of(given: tuple[Any, ...]) -> Any:
    """One tuple, given as such or as several arguments: `x.reshape((2, 3))`, `x.reshape(2, 3)`."""
    return given[0] if len(given) == 1 else given


def fill(self: Any, value: Any) -> None:
    """Write one number to all elements."""
    self.replace(ad.full_like(self.value, 0) + Array(value).to(self.dtype))


def item(self: Any, *args: Any) -> Any:
    """Return one element as a Python number: the only one, or that of an index."""
    if not args:
        return self.value.item()
    index = one_of(args)
    if isinstance(index, tuple):
        return self[index].value.item()
    return self.value.reshape(-1)[int(index)].item()


def view(self: Any, *args: Any) -> Any:
    """Return the array as a view; also in another shape, as tensors have it."""
    if not args:
        return self.viewed(self.value, ())
    if len(args) == 1 and isinstance(args[0], (DType, np.dtype, type, str)):
        if to_dtype(args[0]) is self.dtype:
            return self.viewed(self.value, ())
        raise ArgumentError(
            f"view({args[0]}): the bits of numbers as another dtype have no derivative; "
            "astype converts the numbers"
        )
    return self.viewed(self.value.view(*args))

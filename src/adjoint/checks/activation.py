"""What activations ask of their numbers."""

from __future__ import annotations

from adjoint.core.dtypes import DType, finfo
from adjoint.core.errors import ValueRangeError


def check_lambd(lambd: float, dtype: DType) -> None:
    """Raise unless softshrink can move numbers of a dtype by `lambd`."""
    largest = finfo(dtype).max
    if not 0 <= lambd <= largest:
        raise ValueRangeError(
            f"softshrink(lambd={lambd}): lambd must lie between 0 and {largest}, the largest "
            f"number of {dtype}."
        )

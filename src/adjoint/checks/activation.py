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


def check_alpha(alpha: float) -> None:
    """Raise unless celu can divide by alpha."""
    if alpha == 0:
        raise ValueRangeError("celu(alpha=0): alpha divides the input and cannot be 0.")


MOST_DERIVATIVES = 100


def check_order(what: str, n: int) -> None:
    """Raise unless `n` can be the order of a derivative."""
    if not 1 <= n <= MOST_DERIVATIVES:
        raise ValueRangeError(f"{what}: n is {n}; it is from 1 to {MOST_DERIVATIVES}.")

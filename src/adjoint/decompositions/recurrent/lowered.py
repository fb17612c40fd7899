"""Recurrent layers inside an autocast, which gives the products a lower precision than the states.

PyTorch's GRU and its cells add these products to the state, which keeps its dtype; its LSTM and its
plain layers, whose steps are one operator in PyTorch, run in the dtype of the products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.core.promotion import promote_types
from adjoint.core.state import current

Tensor = Any


def is_lowered() -> bool:
    """Whether an autocast is open here."""
    now = current().autocast
    return now is not None and now.enabled


def in_one_dtype(gates: Tensor, states: Sequence[Tensor], *others: Tensor | None) -> list[Any]:
    """The gates, and others with them, in the dtype that holds both the gates and the states."""
    dtype = gates.dtype
    for state in states:
        dtype = promote_types(dtype, state.dtype)
    return [None if t is None else t.to(dtype) for t in (gates, *others)]

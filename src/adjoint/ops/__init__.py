"""The operators: `ops.add.Tensor` is one row's operator, `ops.add` chooses by its arguments."""

from __future__ import annotations

from typing import Any

from adjoint.core.errors import MissingOperator
from adjoint.ops.operator import Operator, Packet, packet
from adjoint.table import TABLE


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    found = packet(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return TABLE.names()


__all__ = ["MissingOperator", "Operator", "Packet", "packet"]

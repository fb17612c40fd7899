"""The operators: `ops.add.Tensor` is one row's operator, `ops.add` chooses by its arguments."""

from __future__ import annotations

from typing import Any

from adjoint.core.errors import MissingOperator
from adjoint.ops.operator import Operator, Packet, packet
from adjoint.table import TABLE


class Namespace:
    """The operators under PyTorch's name for them: `ops.aten.mm.default`."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Packet:
        if name.startswith("__"):
            raise AttributeError(name)
        found = packet(name)
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        return TABLE.names()

    def __repr__(self) -> str:
        return f"<operators of {self.__name__}>"


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    found = Namespace(name) if name == "aten" else packet(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return TABLE.names()


__all__ = ["MissingOperator", "Namespace", "Operator", "Packet", "packet"]

"""`ad.linalg`, `ad.special`, `ad.fft`: the operators whose names start so."""

from __future__ import annotations

from typing import Any

from adjoint.core.errors import MissingOperator
from adjoint.ops.operator import exists, packet
from adjoint.table import TABLE


class Namespace:
    """Finds `linalg.qr` as the operator `linalg_qr`."""

    def __init__(self, name: str, **more: Any) -> None:
        self.__name__ = f"adjoint.{name}"
        self._prefix = f"{name}_"
        vars(self).update(more)  # what is no operator: error classes

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not exists(self._prefix + name):
            raise MissingOperator(f"{self.__name__} has no {name!r}")
        function = packet(self._prefix + name).function
        setattr(self, name, function)
        return function

    def __dir__(self) -> list[str]:
        return [n[len(self._prefix) :] for n in TABLE.names() if n.startswith(self._prefix)]

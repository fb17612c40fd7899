"""`import adjoint.autograd.graph`: nodes and hooks; the module is that of a lower layer."""

from __future__ import annotations

from typing import Any

from adjoint.tensor import graph as _own


def __getattr__(name: str) -> Any:
    return getattr(_own, name)


def __dir__() -> list[str]:
    return dir(_own)

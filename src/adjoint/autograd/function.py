"""`import adjoint.autograd.function`: functions of users, a module of a lower layer."""

from __future__ import annotations

from typing import Any

from adjoint.calls import function as _own


def __getattr__(name: str) -> Any:
    return getattr(_own, name)


def __dir__() -> list[str]:
    return dir(_own)

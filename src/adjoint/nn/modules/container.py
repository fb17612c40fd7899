"""`import adjoint.nn.modules.container`: containers by the name of PyTorch's file."""

from __future__ import annotations

from typing import Any

from adjoint.nn.modules import containers as _own


def __getattr__(name: str) -> Any:
    return getattr(_own, name)


def __dir__() -> list[str]:
    return dir(_own)

"""SciPy's special functions on tensors: those of `adjoint.numpy.special`."""

from __future__ import annotations

from typing import Any

from adjoint.numpy import special


def __getattr__(name: str) -> Any:
    return getattr(special, name)


def __dir__() -> list[str]:
    return special.__dir__()

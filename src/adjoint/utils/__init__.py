"""`ad.utils`: data, files of other libraries, checkpointing; each loaded when first asked for."""

from __future__ import annotations

from typing import Any

from adjoint.absent import absent
from adjoint.core.importing import imported
from adjoint.utils import checkpoint

__all__ = ["checkpoint", "data", "safetensors"]  # pyright: ignore[reportUnsupportedDunderAll]

_MODULES = {
    "_pytree": "adjoint.utils._pytree",
    "data": "adjoint.utils.data",
    "dlpack": "adjoint.utils.dlpack",
    "hooks": "adjoint.utils.hooks",
    "safetensors": "adjoint.serialization.safetensors",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise absent(__name__, name, __all__)
    return imported(_MODULES[name])


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})

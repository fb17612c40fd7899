"""`ad.nn`: neural networks, under PyTorch's names.

Modules (`nn/modules`) are imported when the first of them is asked for, so that whoever uses
functions alone does not wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.absent import absent
from adjoint.core.importing import imported
from adjoint.nn import functional, parameter, utils
from adjoint.nn.functional.linear_losses import LinearCrossEntropyOptions
from adjoint.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)

if TYPE_CHECKING:
    from adjoint.nn.modules import *  # noqa: F403

__all__ = [
    "Buffer",
    "LinearCrossEntropyOptions",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "parameter",
    "utils",
]

_MODULES = ("attention", "grad", "init", "modules", "parallel")  # imported when asked for


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return imported(f"adjoint.nn.{name}")
    if name.startswith("__"):
        raise AttributeError(f"adjoint.nn has no {name!r}")
    modules = imported("adjoint.nn.modules")
    if name not in modules.__all__:
        raise absent(__name__, name, __dir__())
    globals()[name] = found = getattr(modules, name)
    return found


def __dir__() -> list[str]:
    modules = imported("adjoint.nn.modules")
    return sorted({*__all__, *_MODULES, *modules.__all__})

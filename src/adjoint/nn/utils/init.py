"""Modules whose parameters are not initialized."""

from __future__ import annotations

import inspect
from typing import Any

from adjoint.core.errors import ArgumentError
from adjoint.nn.modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Any:
    """Make a module without drawing values for its parameters; they hold anything.

    >>> import adjoint as ad
    >>> ad.nn.utils.skip_init(ad.nn.Linear, 2, 3).weight.shape
    (3, 2)
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise ArgumentError(f"skip_init: needs a class of modules, got {module_cls!r}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise ArgumentError(f"skip_init: {module_cls.__name__} has no argument 'device'")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)

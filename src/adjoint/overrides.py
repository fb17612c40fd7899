"""`ad.overrides`: classes and modes that see calls, under the names of `torch.overrides`."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, NoReturn

import adjoint
from adjoint.absent import absent
from adjoint.homes.overrides import (
    TorchFunctionMode,
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    is_tensor_like,
    wrap_torch_function,
)
from adjoint.tensor.tensor import Tensor

__all__ = [
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]

_SPACES = ("linalg", "special", "fft", "nn.functional")
# Functions that make tensors of data or ask about the process: no argument overrides.
_IGNORED = (
    "as_tensor", "asarray", "from_numpy", "tensor", "is_tensor", "is_grad_enabled", "manual_seed",
    "seed", "initial_seed", "get_rng_state", "set_rng_state", "get_default_dtype",
    "set_default_dtype", "get_default_device", "set_default_device", "set_printoptions",
    "get_printoptions", "can_cast", "promote_types", "broadcast_shapes", "compile", "trace",
)  # fmt: skip


def _space(name: str) -> Any:
    found: Any = adjoint
    for part in name.split("."):
        found = getattr(found, part)
    return found


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Return the public functions that no class and no mode is asked about."""
    return {getattr(adjoint, name) for name in _IGNORED}


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return the functions that a `__torch_function__` may be asked about, by where they are.

    >>> import adjoint as ad
    >>> ad.sin in ad.overrides.get_overridable_functions()[ad]
    True
    """
    names = adjoint.table.TABLE.names()
    own = [getattr(adjoint, n) for n in names if not n.startswith("_")]
    found: dict[Any, list[Callable[..., Any]]] = {adjoint: own}
    for space in map(_space, _SPACES):
        found[space] = [f for n in dir(space) if n[0] != "_" and callable(f := getattr(space, n))]
    methods = (getattr(Tensor, n, None) for n in dir(Tensor) if not n.startswith("_"))
    found[Tensor] = [m for m in methods if callable(m)]
    return found


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Return the methods whose results stay plain tensors in subclasses: gradients and bases."""
    return {vars(Tensor)[name].__get__ for name in ("grad", "_base")}


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function that `__torch_function__` got is a method or property of tensors.

    >>> import adjoint as ad
    >>> ad.overrides.is_tensor_method_or_property(ad.Tensor.sin)
    True
    """
    if isinstance(func, types.MethodWrapperType):
        return func.__name__ == "__get__"
    return getattr(Tensor, getattr(func, "__name__", ""), None) is func


def resolve_name(f: Callable[..., Any]) -> str | None:
    """Return the public name of a function, None if it has none.

    >>> import adjoint as ad
    >>> ad.overrides.resolve_name(ad.linalg.qr)
    'adjoint.linalg.qr'
    """
    for space in (*_SPACES, ""):
        owner = _space(space) if space else adjoint
        for name in dir(owner):
            if getattr(owner, name, None) is f:
                return f"adjoint.{space}{'.' * bool(space)}{name}"
    return None


def __getattr__(name: str) -> NoReturn:
    raise absent(__name__, name, __all__)


def __dir__() -> list[str]:
    return sorted(__all__)

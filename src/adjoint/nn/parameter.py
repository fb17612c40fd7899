"""`Parameter` and `Buffer`: tensors that belong to a module.

Both are plain tensors with a mark, so that operators on them take the fast way; `isinstance` asks
for the mark.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.tensor.tensor import Tensor, alias, make

__all__ = ["Buffer", "Parameter", "is_buffer", "is_parameter"]


def is_parameter(value: Any) -> bool:
    """Whether a value is a tensor with the mark of parameters."""
    return isinstance(value, Tensor) and "_is_param" in value.__dict__


def is_buffer(value: Any) -> bool:
    """Whether a value is a tensor with the mark of buffers."""
    return isinstance(value, Tensor) and "_is_buffer" in value.__dict__


class _Marked(type):
    """Tells tensors with a mark from others."""

    mark: str

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and bool(value.__dict__.get(cls.mark))


def _on_memory_of(cls: type, data: Any) -> Any:
    """A tensor on the memory of another one, or an empty one."""
    if data is not None and not isinstance(data, Tensor):
        raise TypeError(f"{cls.__name__} needs a tensor, got {type(data).__name__}")
    return make(np.empty(0, np.float32)) if data is None else alias(data)


class Parameter(metaclass=_Marked):
    """A tensor on the memory of `data` that requires a gradient and counts as a parameter.

    >>> import adjoint as ad
    >>> p = ad.nn.Parameter(ad.ones(2))
    >>> p.requires_grad, isinstance(p, ad.nn.Parameter), isinstance(p * 2, ad.nn.Parameter)
    (True, True, False)
    """

    mark = "_is_param"

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Any:
        made = _on_memory_of(cls, data)
        made._is_param = True
        if requires_grad:
            made.requires_grad_()
        return made


class Buffer(metaclass=_Marked):
    """A tensor on the memory of `data` that a module keeps, and does not learn.

    A module that gets one as an attribute registers it; `persistent` says whether it belongs to
    the module's state.

    >>> import adjoint as ad
    >>> module = ad.nn.Module()
    >>> module.steps = ad.nn.Buffer(ad.zeros(1))
    >>> dict(module.named_buffers())
    {'steps': tensor([0.])}
    """

    mark = "_is_buffer"

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        made = _on_memory_of(cls, data)
        made._is_buffer = True
        made.persistent = persistent
        return made

"""`Parameter`: a leaf tensor that a model learns.

It is a plain tensor with a mark, so that operators on it take the fast way; `isinstance` asks for
the mark.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.tensor.tensor import Tensor, alias, make


class _ParameterType(type):
    """Tells parameters from other tensors."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and bool(vars(value).get("_is_param"))


class Parameter(metaclass=_ParameterType):
    """A tensor on the memory of `data` that requires a gradient and counts as a parameter.

    >>> import adjoint as ad
    >>> p = ad.nn.Parameter(ad.ones(2))
    >>> p.requires_grad, isinstance(p, ad.nn.Parameter), isinstance(p * 2, ad.nn.Parameter)
    (True, True, False)
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Any:
        if data is not None and not isinstance(data, Tensor):
            raise TypeError(f"Parameter needs a tensor, got {type(data).__name__}")
        made: Any = make(np.empty(0, np.float32)) if data is None else alias(data)
        made._is_param = True
        if requires_grad:
            made.requires_grad_()
        return made

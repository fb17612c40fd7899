"""Precision of users' own functions: decorators for `forward` and `backward` of a `Function`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adjoint.calls.autocast import autocast, get_autocast_dtype, is_autocast_enabled
from adjoint.core import pytrees
from adjoint.core.dtypes import float64, to_dtype
from adjoint.tensor.tensor import Tensor

Function = Callable[..., Any]


def custom_fwd(
    fwd: Function | None = None, *, device_type: str, cast_inputs: Any = None
) -> Function:
    """Decorate `forward` of a `Function`, so that `custom_bwd` knows its autocast.

    With `cast_inputs`, its floating point tensors are cast to that dtype inside an autocast, and
    `forward` runs without.

    >>> import adjoint as ad
    >>> class Square(ad.autograd.Function):
    ...     @staticmethod
    ...     @ad.amp.custom_fwd(device_type="cpu", cast_inputs=ad.float32)
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     @ad.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return 2 * grad * ctx.saved_tensors[0]
    >>> with ad.autocast("cpu"):
    ...     Square.apply(ad.ones(2, dtype=ad.bfloat16)).dtype
    ad.float32
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        enabled = is_autocast_enabled(device_type)
        context = args[0]
        context._dtype = get_autocast_dtype(device_type)
        context._fwd_used_autocast = enabled and cast_inputs is None
        if cast_inputs is None or not enabled:
            return fwd(*args, **kwargs)
        args, kwargs = pytrees.map(lambda v: _cast(v, device_type, cast_inputs), (args, kwargs))
        with autocast(device_type, enabled=False):
            return fwd(*args, **kwargs)

    return forward


def custom_bwd(bwd: Function | None = None, *, device_type: str) -> Function:
    """Decorate `backward` of a `Function`: it runs in the autocast of its forward.

    `forward` must be decorated with `custom_fwd`.
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        with autocast(device_type, dtype=context._dtype, enabled=context._fwd_used_autocast):
            return bwd(*args, **kwargs)

    return backward


def _cast(value: Any, device_type: str, dtype: Any) -> Any:
    if not isinstance(value, Tensor) or value.device.type != device_type:
        return value
    floating = value.dtype.is_floating_point and value.dtype is not float64
    return value.to(to_dtype(dtype)) if floating else value

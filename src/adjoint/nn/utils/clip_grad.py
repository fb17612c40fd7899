"""Gradients that are too large, made smaller in place.

Plain gradients are arrays here, each gone over once; others (inside a transform, in half
precision, sparse) are left to operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.calls.methods import tensor
from adjoint.core.errors import ValueRangeError
from adjoint.core.source_lines import caller, warn
from adjoint.tensor.modes import no_grad
from adjoint.tensor.nodes import before_write, count_write
from adjoint.tensor.tensor import Tensor, is_plain, make

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "get_total_norm",
]  # fmt: skip

Tensors = Tensor | Iterable[Tensor]


def _listed(tensors: Tensors) -> list[Any]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _grads(parameters: Tensors) -> list[Any]:
    """The gradients of those parameters that have one."""
    return [p.grad for p in _listed(parameters) if p.grad is not None]


def _are_arrays(tensors: list[Any]) -> bool:
    """Whether tensors are plain, of one of the dtypes that NumPy computes best in."""
    return all(is_plain(t) and t.value.dtype.char in "fd" for t in tensors)


def _change(grads: list[Any], by: str, function: Callable[[Any], Any]) -> None:
    """Let a function change the arrays of gradients in place."""
    place = caller()
    for grad in grads:
        before_write(grad, by)
        function(grad.value)
        count_write(grad, by, place)


def _limit(array: Any, bound: float) -> None:
    np.maximum(array, -bound, out=array)
    np.minimum(array, bound, out=array)


def _length(arrays: list[Any]) -> Any:
    """√Σ x² over all arrays; infinite where squares are, although the length may not be."""
    flat = [array.ravel(order="K") for array in arrays]
    square = math.fsum(float(np.dot(x, x)) for x in flat) if arrays else 0.0
    return np.array(math.sqrt(square), np.result_type(*arrays))


@no_grad()
def get_total_norm(
    tensors: Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of all elements of tensors together.

    `foreach` changes nothing: all tensors are always done in one operator.

    >>> import adjoint as ad
    >>> ad.nn.utils.get_total_norm([ad.tensor([3.0]), ad.tensor([[4.0]])])
    tensor(5.)
    """
    listed = _listed(tensors)
    if not listed:
        return tensor(0.0)
    total = _norm(listed, float(norm_type))
    if error_if_nonfinite and not bool(total.isfinite()):
        raise ValueRangeError(
            f"the norm of order {norm_type} of all gradients is {total.item()}; with "
            "error_if_nonfinite=False they are scaled nevertheless"
        )
    return total


def _norm(tensors: list[Any], order: float) -> Tensor:
    if order == 2.0 and _are_arrays(tensors):
        found = _length([t.value for t in tensors])
        if np.isfinite(found):
            return make(found)
    norms = ops._foreach_norm(tensors, order)
    return ops.linalg_vector_norm(ops.stack(list(norms)), order)


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients by max_norm / total_norm where that is less than 1, in place."""
    grads = _grads(parameters)
    if not grads:
        return
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    if not (_are_arrays(grads) and is_plain(factor)):
        ops._foreach_mul_(grads, factor)
    elif not factor.value >= 1.0:  # and not a number changes them, too
        number = factor.value
        _change(grads, "clip_grad_norm_", lambda x: np.multiply(x, number, out=x))


@no_grad()
def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients such that their norm is at most `max_norm`; return the norm before.

    >>> import adjoint as ad
    >>> p = ad.nn.Parameter(ad.zeros(2))
    >>> p.grad = ad.tensor([3.0, 4.0])
    >>> ad.nn.utils.clip_grad_norm_([p], 1.0)
    tensor(5.)
    >>> p.grad
    tensor([0.6000, 0.8000])
    """
    listed = _listed(parameters)
    if not listed and not isinstance(parameters, (Tensor, list, tuple)):
        warn("clip_grad_norm_: no parameters were given; was the generator used before?")
    total = get_total_norm(_grads(listed), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(listed, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """As `clip_grad_norm_`, which it is now called."""
    warn("nn.utils.clip_grad_norm is now nn.utils.clip_grad_norm_", FutureWarning)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite)


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Bring gradients to the range from -clip_value to clip_value, in place.

    >>> import adjoint as ad
    >>> p = ad.nn.Parameter(ad.zeros(2))
    >>> p.grad = ad.tensor([-3.0, 0.5])
    >>> ad.nn.utils.clip_grad_value_(p, 1.0)
    >>> p.grad
    tensor([-1.0000,  0.5000])
    """
    grads, bound = _grads(parameters), float(clip_value)
    if _are_arrays(grads):
        _change(grads, "clip_grad_value_", lambda x: _limit(x, bound))
    else:
        ops._foreach_clamp_min_(grads, -bound)
        ops._foreach_clamp_max_(grads, bound)

"""Gradients that are too large, made smaller in place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adjoint import ops
from adjoint.core.errors import ValueRangeError
from adjoint.core.places import warn
from adjoint.tensor.methods import tensor
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor

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
    norm_type = float(norm_type)
    norms = ops._foreach_norm(listed, norm_type)
    total = ops.linalg_vector_norm(ops.stack(list(norms)), norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise ValueRangeError(
            f"the norm of order {norm_type} of all gradients is {total.item()}; with "
            "error_if_nonfinite=False they are scaled nevertheless"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients by max_norm / total_norm where that is less than 1, in place."""
    grads = _grads(parameters)
    if grads:
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        ops._foreach_mul_(grads, factor)


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
    grads = _grads(parameters)
    if grads:
        ops._foreach_clamp_min_(grads, -float(clip_value))
        ops._foreach_clamp_max_(grads, float(clip_value))

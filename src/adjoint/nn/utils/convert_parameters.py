"""All parameters of a model as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from adjoint import ops
from adjoint.core.errors import ShapeError
from adjoint.tensor.tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all elements of parameters in a row; differentiable.

    >>> import adjoint as ad
    >>> ad.nn.utils.parameters_to_vector([ad.ones(2), ad.zeros(1, 2)])
    tensor([1., 1., 0., 0.])
    """
    return ops.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let parameters have the elements of a vector, on its memory.

    >>> import adjoint as ad
    >>> p = ad.nn.Parameter(ad.zeros(1, 2))
    >>> ad.nn.utils.vector_to_parameters(ad.tensor([1.0, 2.0]), [p])
    >>> p.tolist()
    [[1.0, 2.0]]
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters: needs a tensor, got {type(vec).__name__}")
    listed = list(parameters)
    needed = sum(parameter.numel() for parameter in listed)
    if vec.numel() < needed:
        raise ShapeError(
            f"vector_to_parameters: the vector has {vec.numel()} elements, the parameters {needed}"
        )
    start = 0
    for parameter in listed:
        stop = start + parameter.numel()
        parameter.data = vec[start:stop].reshape(parameter.shape).data
        start = stop

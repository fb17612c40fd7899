"""Shape rules of pooling."""

from __future__ import annotations

from typing import Any

from adjoint.checks import pooling as rules
from adjoint.core import dtypes
from adjoint.core.shapes import Shape, Spec

INDEX = dtypes.int64


def _pooled(what: str, dims: int, self: Spec, *geometry: Any) -> Shape:
    found = rules.windows(what, self.shape, dims, *geometry)
    rules.check_numbers(what, self.dtype, integers=True)
    return rules.pooled(self.shape, found)


def max_pool2d(self: Spec, *geometry: Any) -> Spec:
    """An element for each window."""
    return Spec(_pooled("max_pool2d", 2, self, *geometry), self.dtype)


def max_pool2d_with_indices(self: Spec, *geometry: Any) -> tuple[Spec, Spec]:
    """An element and an index for each window."""
    shape = _pooled("max_pool2d", 2, self, *geometry)
    return Spec(shape, self.dtype), Spec(shape, INDEX)


def max_pool3d_with_indices(self: Spec, *geometry: Any) -> tuple[Spec, Spec]:
    """An element and an index for each window."""
    shape = _pooled("max_pool3d", 3, self, *geometry)
    return Spec(shape, self.dtype), Spec(shape, INDEX)


def max_pool2d_backward(grad_output: Spec, self: Spec, *geometry: Any) -> Spec:
    """As the input."""
    shape = _pooled("max_pool2d_backward", 2, self, *geometry)
    rules.check_like("max_pool2d_backward", "grad_output", grad_output.shape, shape)
    return Spec(self.shape, grad_output.dtype)


# --- averages ------------------------------------------------------------------------------------


def _averaged(what: str, dims: int, self: Spec, *options: Any) -> Shape:
    return rules.pooled(self.shape, rules.averaged(what, self.shape, self.dtype, dims, *options))


def avg_pool2d(self: Spec, *options: Any) -> Spec:
    """An element for each window."""
    return Spec(_averaged("avg_pool2d", 2, self, *options), self.dtype)


def _averaged_backward(what: str, dims: int, grad_output: Spec, self: Spec, *options: Any) -> Spec:
    shape = _averaged(what, dims, self, *options)
    rules.check_like(what, "grad_output", grad_output.shape, shape)
    return Spec(self.shape, grad_output.dtype)


def avg_pool2d_backward(*arguments: Any) -> Spec:
    """As the input."""
    return _averaged_backward("avg_pool2d_backward", 2, *arguments)


def avg_pool3d_backward(*arguments: Any) -> Spec:
    """As the input."""
    return _averaged_backward("avg_pool3d_backward", 3, *arguments)


def _adaptive_backward(what: str, dims: int, grad_output: Spec, self: Spec) -> Spec:
    rules.check_adapted(what, grad_output.shape, self.shape, dims)
    rules.check_numbers(what, grad_output.dtype, integers=False)
    return Spec(self.shape, grad_output.dtype)


def adaptive_avg_pool2d_backward(grad_output: Spec, self: Spec) -> Spec:
    """As the input."""
    return _adaptive_backward("adaptive_avg_pool2d_backward", 2, grad_output, self)


# --- the largest of windows that share a dimension out -------------------------------------------


def _adaptive_max(what: str, dims: int, self: Spec, output_size: Shape) -> tuple[Spec, Spec]:
    shape = rules.adapted(what, self.shape, dims, output_size)
    rules.check_places(what, self.shape, dims, channels=True)
    rules.check_numbers(what, self.dtype, integers=False)
    return Spec(shape, self.dtype), Spec(shape, INDEX)


def adaptive_max_pool2d(self: Spec, output_size: Shape) -> tuple[Spec, Spec]:
    """An element and an index for each window."""
    return _adaptive_max("adaptive_max_pool2d", 2, self, output_size)


def adaptive_max_pool3d(self: Spec, output_size: Shape) -> tuple[Spec, Spec]:
    """An element and an index for each window."""
    return _adaptive_max("adaptive_max_pool3d", 3, self, output_size)

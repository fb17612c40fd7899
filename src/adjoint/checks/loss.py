"""Shared by rules of losses, without data: reductions by number, classes and their errors.

Everything looks only at `.shape`, `.ndim` and `.dtype`, so arrays, Specs and tensors all do.
"""

from __future__ import annotations

from typing import Any

from adjoint.checks import indexing
from adjoint.core.errors import DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, show

NONE, MEAN, SUM = range(3)  # PyTorch's numbers for `reduction`


def check_reduction(what: str, reduction: int) -> None:
    """Raise unless `reduction` is one of PyTorch's numbers."""
    if reduction not in (NONE, MEAN, SUM):
        raise ValueRangeError(
            f"{what}(reduction={reduction}): there are 0 (none), 1 (mean) and 2 (sum)."
        )


def class_dim(ndim: int) -> int:
    """The dimension of the classes: the second, or the only one."""
    return 1 if ndim > 1 else 0


def without_classes(shape: Shape) -> Shape:
    """The shape of targets for scores of this shape."""
    dim = class_dim(len(shape))
    return (*shape[:dim], *shape[dim + 1 :])


def check_classes(what: str, self: Any, target: Any, weight: Any) -> None:
    """Raise unless there is a class for each sample, and a weight for each class."""
    shape = tuple(self.shape)
    if not shape:
        raise ShapeError(f"{what}: the input is a scalar; it needs a dimension of classes.")
    if indexing.kind(target) not in "iu":
        raise DtypeError(f"{what}: classes must have an integer dtype, got {target.dtype}.")
    wanted = without_classes(shape)
    if tuple(target.shape) not in ((wanted, (1,)) if len(shape) == 1 else (wanted,)):
        raise ShapeError(
            f"{what}: a target of {show(target.shape)} does not fit an input of {show(shape)}, "
            f"which takes {show(wanted)}: all dimensions but that of the classes."
        )
    count = shape[class_dim(len(shape))]
    if weight is not None and tuple(weight.shape) != (count,):
        raise ShapeError(
            f"{what}: weight must have one number for each of {count} classes, got "
            f"{show(weight.shape)}."
        )
    if weight is not None and weight.dtype != self.dtype:
        raise DtypeError(
            f"{what}: the weight has {weight.dtype}, and the input {self.dtype}; convert one."
        )


def check_same_shape(what: str, self: Any, target: Any) -> None:
    """Raise unless both have one shape."""
    if tuple(self.shape) != tuple(target.shape):
        raise ShapeError(
            f"{what}: a target of {show(target.shape)} for an input of {show(self.shape)}; the "
            "shapes must agree."
        )


def check_linear(
    what: str, input: Any, linear_weight: Any, target: Any, linear_bias: Any, samples: int
) -> None:
    """Raise unless input, weight and bias are those of a linear layer, with a class each sample."""
    n, width = tuple(input.shape) if len(input.shape) == 2 else (-1, -1)
    classes = linear_weight.shape[0] if len(linear_weight.shape) == 2 else -1
    if n < 0 or classes < 0 or linear_weight.shape[1] != width:
        raise ShapeError(
            f"{what}: needs an input (samples, features) and a weight (classes, features), got "
            f"{show(input.shape)} and {show(linear_weight.shape)}."
        )
    if tuple(target.shape) != (n,):
        raise ShapeError(
            f"{what}: needs a class for each of {n} samples, got {show(target.shape)}."
        )
    if linear_bias is not None and tuple(linear_bias.shape) != (classes,):
        raise ShapeError(
            f"{what}: needs a bias for each of {classes} classes, got {show(linear_bias.shape)}."
        )
    if samples < 1:
        raise ValueRangeError(f"{what}: at least one sample at a time, got {samples}.")

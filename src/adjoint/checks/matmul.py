"""Shapes and dtypes of matrix products: which operands fit, and the errors for others.

Kernels (in their error path) and shape rules share these checks. Everything here takes shapes and
dtypes, never data.
"""

from __future__ import annotations

from typing import Any

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, broadcast, show


def check_dtypes(what: str, kind: str = "a product", /, **operands: Any) -> None:
    """Raise unless all operands have one dtype, and not bool: products do not promote.

    An operand is our dtype, NumPy's, or None where it is absent.
    """
    found = {
        name: d if isinstance(d, DType) else dtypes.of(d)
        for name, d in operands.items()
        if d is not None
    }
    (first, one), *rest = found.items()
    for name, other in rest:
        if other is not one:
            wide = dtypes.float64 if dtypes.float64 in (one, other) else one
            raise DtypeError(
                f"{what}: {first} is {one.name} and {name} is {other.name}; {kind} does not "
                f"convert, so convert one of them first, for instance with .to({wide!r})."
            )
    if one is dtypes.bool_:
        raise DtypeError(f"{what}: there is no product of bool; convert with .to(ad.int64) first.")


def check_ndim(what: str, name: str, shape: Shape, ndim: int) -> None:
    """Raise unless the operand called `name` has exactly `ndim` dimensions."""
    if len(shape) != ndim:
        kind = {1: "a vector", 2: "a matrix", 3: "a batch of matrices"}[ndim]
        raise ShapeError(
            f"{what}: {name} must be {kind} ({ndim} dimensions), "
            f"and it has {len(shape)} ({show(shape)})."
        )


def matmul_shape(what: str, a: Shape, b: Shape, names: tuple[str, str] = ("a", "b")) -> Shape:
    """Return the shape of `a @ b` for operands of any rank.

    >>> matmul_shape("matmul(a, b)", (5, 1, 2, 3), (4, 3, 7))
    (5, 4, 2, 7)
    """
    for name, shape in zip(names, (a, b)):
        if not shape:
            raise ShapeError(f"{what}: {name} is a scalar; multiply by a scalar with *.")
    columns, rows = a[-1], b[-2:][0]
    if columns != rows:
        left = "columns" if len(a) > 1 else "elements"
        right = "rows" if len(b) > 1 else "elements"
        raise ShapeError(
            f"{what}: {names[0]} has {columns} {left} but {names[1]} has {rows} {right} "
            f"({names[0]}: {show(a)}, {names[1]}: {show(b)})."
        )
    return broadcast(f"{what}, batch dimensions", a[:-2], b[:-2]) + a[-2:-1] + b[-1:][: len(b) - 1]


def bmm_shape(what: str, a: Shape, b: Shape, names: tuple[str, str] = ("a", "b")) -> Shape:
    """Return the shape of a product of two batches of matrices of the same length."""
    for name, shape in zip(names, (a, b)):
        check_ndim(what, name, shape, 3)
    if a[0] != b[0]:
        raise ShapeError(
            f"{what}: {names[0]} holds {a[0]} matrices but {names[1]} holds {b[0]} "
            f"({names[0]}: {show(a)}, {names[1]}: {show(b)}). Only matmul broadcasts batches."
        )
    return matmul_shape(what, a, b, names)


def check_expands(what: str, name: str, shape: Shape, to: Shape) -> None:
    """Raise unless `shape` broadcasts to exactly `to`."""
    fits = len(shape) <= len(to) and all(s in (1, t) for s, t in zip(shape[::-1], to[::-1]))
    if not fits:
        raise ShapeError(
            f"{what}: {name} ({show(shape)}) does not broadcast to the product ({show(to)})."
        )


def linear_shape(what: str, input: Shape, weight: Shape) -> Shape:
    """Return the shape of `input weightᵀ`; weight is a matrix, or a vector for a single output."""
    if len(weight) not in (1, 2):
        raise ShapeError(f"{what}: weight must have 1 or 2 dimensions, and it has {len(weight)}.")
    if not input or input[-1] != weight[-1]:
        raise ShapeError(
            f"{what}: input has {input[-1] if input else 'no'} features in its last dimension but "
            f"weight takes {weight[-1]} (input: {show(input)}, weight: {show(weight)})."
        )
    return input[:-1] + weight[:-1]


def grouped_mm_shape(what: str, a: Shape, b: Shape, offs: Shape | None) -> Shape:
    """Return the shape of a grouped product of shapes `a` and `b`."""
    for name, shape in (("a", a), ("b", b)):
        if len(shape) not in (2, 3):
            raise ShapeError(f"{what}: {name} must have 2 or 3 dimensions, got {show(shape)}.")
    if (len(a) == len(b) == 3) != (offs is None):
        raise ValueRangeError(f"{what}: give offs unless both operands are 3-dimensional.")
    if offs is None:
        return bmm_shape(what, a, b)
    if a[-1] != b[-2]:
        matmul_shape(what, a[-2:], b[-2:])
    check_ndim(what, "offs", offs, 1)
    count = a[0] if len(a) == 3 else b[0] if len(b) == 3 else offs[0]
    if count != offs[0]:
        raise ShapeError(f"{what}: offs names {offs[0]} groups but there are {count} matrices.")
    return (a[-2], b[-1]) if len(a) != len(b) else (offs[0], a[-2], b[-1])

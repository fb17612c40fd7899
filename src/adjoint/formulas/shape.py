"""Derivatives of the shape family that do not fit a line of the table.

All of them transpose linear maps that move values, so of the primal only its shape is needed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import shape as layout
from adjoint.core.shapes import Shape

Tensor = Any


def ragged_cat_vjp(grad: Tensor, shapes: Sequence[Shape], dim: int) -> list[Tensor]:
    """Each tensor's part of the gradient; a skipped `(0,)` tensor gets its zero elements."""
    sizes = [shape[dim] for shape in shapes if len(shape) == grad.ndim]
    pieces = iter(grad.split_with_sizes(sizes, dim))
    return [
        next(pieces) if len(shape) == grad.ndim else ops.zeros(shape, dtype=grad.dtype)
        for shape in shapes
    ]


def block_diag_vjp(grad: Tensor, shapes: Sequence[Shape]) -> list[Tensor]:
    """Each tensor's block of the gradient."""
    _, blocks = layout.block_diag_shape("block_diag", shapes)
    result, row, column = [], 0, 0
    for shape, (rows, columns) in zip(shapes, blocks, strict=True):
        block = grad.narrow(0, row, rows).narrow(1, column, columns)
        result.append(block.reshape(shape))
        row, column = row + rows, column + columns
    return result


def split_vjp(grads: Sequence[Tensor | None], shape: Shape, sizes: Shape, dim: int) -> Tensor:
    """Join the pieces' gradients; pieces without one, one after another, are zeros together."""
    present = next(g for g in grads if g is not None)
    dim = dim % len(shape)
    pieces: list[Tensor] = []
    pairs = zip(grads, sizes, strict=True)
    for absent, run in itertools.groupby(pairs, lambda pair: pair[0] is None):
        if absent:
            size = sum(size for _, size in run)
            pieces.append(ops.zeros((*shape[:dim], size, *shape[dim + 1 :]), dtype=present.dtype))
        else:
            pieces += [g for g, _ in run if g is not None]
    return ops.cat(pieces, dim)


def equal_split_vjp(grads: Sequence[Tensor | None], shape: Shape, size: int, dim: int) -> Tensor:
    """As `split_vjp`, for pieces of one size."""
    return split_vjp(grads, shape, layout.split_sizes("split", shape[dim], size), dim)


def unbind_vjp(grads: Sequence[Tensor | None], dim: int) -> Tensor:
    """Stack the slices' gradients, with zeros in place of missing ones, as `split_vjp` does for
    rows of size 1.
    """
    present = next(g for g in grads if g is not None)
    dim = dim % (present.ndim + 1)
    shape = (*present.shape[:dim], len(grads), *present.shape[dim:])
    rows = [None if g is None else g.unsqueeze(dim) for g in grads]
    return split_vjp(rows, shape, (1,) * len(grads), dim)


def repeat_vjp(grad: Tensor, shape: Shape, repeats: Shape) -> Tensor:
    """Sum over the copies: view as (r0, s0, r1, s1, …) and sum over each r."""
    if not repeats:
        return grad
    padded, _ = layout.repeated("repeat", shape, repeats)
    both = tuple(itertools.chain.from_iterable(zip(repeats, padded, strict=True)))
    return grad.reshape(both).sum(tuple(range(0, len(both), 2))).reshape(shape)


def combinations_vjp(grad: Tensor, shape: Shape, r: int, with_replacement: bool) -> Tensor:
    """Add each entry to the element it came from; combinations of the positions say which."""
    zeros = ops.zeros(shape, dtype=grad.dtype)
    if r == 0:
        return zeros
    index = ops.combinations(ops.arange(shape[0]), r, with_replacement)
    return zeros.index_add(0, index.reshape((-1,)), grad.reshape((-1,)))

"""Functions whose signature in Python is wider than a schema can say; each ends in its operator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks.einsum import from_sublists
from adjoint.core.dtypes import int64
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError
from adjoint.core.shapes import Shape, broadcast
from adjoint.tensor.tensor import Tensor


def einsum(*arguments: Any, path: Sequence[int] | None = None) -> Tensor:
    """Sum products of the operands' elements over indices, as the equation says.

    Takes an equation and operands, or operands each followed by the list of its indices. Repeated
    indices take diagonals, `...` stands for dimensions that broadcast. Three or more operands are
    contracted in a greedy order; `path` gives another one (pairs of positions, flattened).

    >>> import adjoint as ad
    >>> a = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> ad.einsum("ij,jk->ik", a, a)
    tensor([[ 7., 10.],
            [15., 22.]])
    >>> ad.einsum("ii", a), ad.einsum(a, [0, 1], [1])
    (tensor(5.), tensor([4., 6.]))
    """
    if not arguments:
        raise ArgumentError("einsum() needs an equation and operands")
    if isinstance(arguments[0], str):
        equation, *operands = arguments
    else:
        equation, operands = from_sublists(arguments)
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    return ops.einsum(equation, operands, path=path)


def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Sum products over pairs of dimensions: the last `dims` of a and first of b, or two lists.

    >>> import adjoint as ad
    >>> ad.tensordot(ad.ones(2, 3, 4), ad.ones(4, 3, 5), dims=([1, 2], [1, 0])).shape
    (2, 5)
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, (list, tuple)):
        left, right = dims
        return ops.tensordot(a, b, left, right, out=out)
    if not 0 <= dims <= min(a.ndim, b.ndim):
        raise ShapeError(
            f"tensordot(a, b): dims={dims} must be between 0 and the operands' dimensions "
            f"({a.ndim} and {b.ndim})."
        )
    last, first = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    return ops.tensordot(a, b, last, first, out=out)


def chain_matmul(*matrices: Tensor) -> Tensor:
    """Multiply a chain of matrices in the cheapest order; `linalg.multi_dot` takes a list.

    >>> import adjoint as ad
    >>> ad.chain_matmul(ad.ones(1, 3), ad.ones(3, 4), ad.ones(4, 1))
    tensor([[12.]])
    """
    return ops.chain_matmul(list(matrices))


def polygamma_of(self: Tensor, n: int) -> Tensor:
    """Return ψ⁽ⁿ⁾ of every element: the method, whose operator takes n first.

    >>> import adjoint as ad
    >>> ad.tensor([1.0]).polygamma(1)
    tensor([1.6449])
    """
    return ops.polygamma(n, self)


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """Return the packed LU factors and the pivots, and LAPACK's info if asked for.

    >>> import adjoint as ad
    >>> ad.lu(ad.tensor([[2.0, 4.0], [1.0, 5.0]]))
    (tensor([[2.0000, 4.0000],
            [0.5000, 3.0000]]), tensor([1, 2], dtype=ad.int32))
    """
    found = ops._lu_with_info(A, pivot, False)
    return found if get_infos else tuple(found[:2])


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the distinct elements in order, or the distinct slices along `dim`.

    With `return_inverse` also which of them each element is, with `return_counts` how often each
    occurs. Elements that are equal share the gradient of their value evenly.

    >>> import adjoint as ad
    >>> ad.unique(ad.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    if dim is None:
        found = ops._unique2(input, sorted, return_inverse, return_counts)
    else:
        found = ops.unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _asked_for(found, return_inverse, return_counts)


def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the elements (slices along `dim`) that differ from the one before; see `unique`.

    >>> import adjoint as ad
    >>> ad.unique_consecutive(ad.tensor([3, 3, 1, 3]))
    tensor([3, 1, 3])
    """
    found = ops.unique_consecutive(input, return_inverse, return_counts, dim)
    return _asked_for(found, return_inverse, return_counts)


def _asked_for(found: tuple[Tensor, ...], return_inverse: bool, return_counts: bool) -> Any:
    values, inverse, counts = found
    more = [part for part, wanted in ((inverse, return_inverse), (counts, return_counts)) if wanted]
    return (values, *more) if more else values


def broadcast_shapes(*shapes: int | Sequence[int]) -> Shape:
    """Return the shape that tensors of these shapes broadcast to; a number is a vector's size.

    >>> import adjoint as ad
    >>> ad.broadcast_shapes((2, 1), 3)
    (2, 3)
    """
    given = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    if any(n < 0 for shape in given for n in shape):
        raise ShapeError(f"broadcast_shapes: sizes must not be negative, got {given}.")
    return broadcast("broadcast_shapes", *given)


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Return where elements of a flattened tensor are in one of that shape, per dimension.

    >>> import adjoint as ad
    >>> ad.unravel_index(ad.tensor([3, 5]), (2, 3))
    (tensor([1, 1]), tensor([0, 2]))
    """
    if indices.dtype.is_differentiable or indices.dtype.name == "bool":
        raise DtypeError(f"unravel_index: indices are integers, got {indices.dtype}.")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(n < 0 for n in sizes):
        raise ShapeError(f"unravel_index: sizes must not be negative, got {sizes}.")
    wide = indices.to(int64)
    places: list[Tensor] = []
    step = math.prod(sizes)
    for n in sizes:
        step = step // n if n else 0
        places.append(wide // max(step, 1) % max(n, 1))
    return tuple(places)

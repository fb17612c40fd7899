"""Functions whose signature in Python is wider than a schema can say; each ends in its operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.core.contraction import from_sublists
from adjoint.core.errors import ArgumentError, ShapeError
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
    """Multiply a chain of matrices in the cheapest order; `linalg.multi_dot` takes a list."""
    return ops.chain_matmul(list(matrices))


def polygamma_of(self: Tensor, n: int) -> Tensor:
    """Return ψ⁽ⁿ⁾ of every element: the method, whose operator takes n first.

    >>> import adjoint as ad
    >>> ad.tensor([1.0]).polygamma(1)
    tensor([1.6449])
    """
    return ops.polygamma(n, self)


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

"""Products in terms of smaller operators: einsum as moves and matrix products, and its relatives.

Functions take the arguments of their schema positionally and use our operators only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from adjoint import ops
from adjoint.checks import einsum as contraction
from adjoint.checks import matmul as products
from adjoint.checks.einsum import Contraction, Labels, Move
from adjoint.core.dtypes import DType
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import show, wrap_dim
from adjoint.core.symbolic_sizes import chosen

Tensor = Any
Number = bool | int | float | complex


def einsum(equation: str, tensors: Sequence[Tensor], path: Sequence[int] | None) -> Tensor:
    """Sum of products, planned as diagonals, sums, permutations, reshapes and matrix products."""
    program = contraction.plan_equation(equation, [t.shape for t in tensors], path)
    return _run(program, list(tensors), tensors[0].dtype if program.contracts else None)


def _contract(
    inputs: Sequence[Labels], output: Labels, operands: Sequence[Tensor], what: str
) -> Tensor:
    shapes = tuple(tuple(x.shape) for x in operands)
    program = contraction.plan(tuple(inputs), output, shapes, None, what)
    return _run(program, list(operands), operands[0].dtype)


def _run(program: Contraction, operands: list[Tensor], dtype: DType | None) -> Tensor:
    """Run a plan; sums of integers have `dtype`, or become int64 where it is None."""
    operands = [_apply(moves, x, dtype) for moves, x in zip(program.first, operands)]
    for pair in program.pairs:
        left = _apply(pair.left_moves, operands[pair.left], dtype)
        right = _apply(pair.right_moves, operands[pair.right], dtype)
        operands = [x for k, x in enumerate(operands) if k not in (pair.left, pair.right)]
        product = left.matmul(right) if pair.contracts else left * right
        operands.append(_apply(pair.moves, product, dtype))
    return _apply(program.last, operands[0], dtype)


def _apply(moves: tuple[Move, ...], x: Tensor, dtype: DType | None) -> Tensor:
    for name, argument in moves:
        if name == "permute":
            x = x.permute(argument)
        elif name == "reshape":
            x = x.reshape(argument)
        elif name == "sum":
            x = x.sum(argument, dtype=None if x.is_floating_point() else dtype)
        else:
            x = x.diagonal(*argument)
    return x


def tensordot(
    self: Tensor, other: Tensor, dims_self: Sequence[int], dims_other: Sequence[int]
) -> Tensor:
    """Sum over pairs of dimensions; where one of a pair has size 1, it stretches."""
    what = "tensordot(a, b)"
    if len(dims_self) != len(dims_other):
        raise ShapeError(
            f"{what}: dims names {len(dims_self)} dimensions of a and {len(dims_other)} of b."
        )
    products.check_dtypes(what, a=self.dtype, b=other.dtype)
    left = [wrap_dim(what, d, self.ndim) for d in dims_self]
    right = [wrap_dim(what, d, other.ndim) for d in dims_other]
    for name, dims in (("a", left), ("b", right)):
        if len(set(dims)) != len(dims):
            raise ShapeError(f"{what}: dimension of {name} named twice in dims={dims}.")
    a = tuple(range(self.ndim))
    pairs = dict(zip(right, left))
    b = tuple([pairs[d] if d in pairs else self.ndim + d for d in range(other.ndim)])
    output = tuple(x for x in a if x not in left) + tuple(x for x in b if x >= self.ndim)
    return _contract((a, b), output, (self, other), what=what)


def inner(self: Tensor, other: Tensor) -> Tensor:
    """Sum over the last dimension of both."""
    if self.ndim == 0 or other.ndim == 0:
        return self * other
    if self.ndim == other.ndim == 1 and self.shape == other.shape:
        return ops.dot(self, other)
    if self.shape[-1] != other.shape[-1]:
        raise ShapeError(
            f"inner(a, b): the last dimensions must be equal (a: {show(self.shape)}, "
            f"b: {show(other.shape)})."
        )
    return tensordot(self, other, (-1,), (-1,))


def outer(self: Tensor, vec2: Tensor) -> Tensor:
    """All products of two vectors' elements."""
    products.check_ndim("outer(a, b)", "a", tuple(self.shape), 1)
    products.check_ndim("outer(a, b)", "b", tuple(vec2.shape), 1)
    return self.unsqueeze(-1) * vec2


def kron(self: Tensor, other: Tensor) -> Tensor:
    """Replace each element a of self by a · other."""
    ndim = max(self.ndim, other.ndim)
    a = (1,) * (ndim - self.ndim) + tuple(self.shape)
    b = (1,) * (ndim - other.ndim) + tuple(other.shape)
    left = self.reshape([size for s in a for size in (s, 1)])
    right = other.reshape([size for s in b for size in (1, s)])
    return (left * right).reshape([s * t for s, t in zip(a, b)])


def linalg_multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """A chain of matrices, multiplied in the cheapest order; the ends may be vectors."""
    what = "multi_dot"
    if len(tensors) < 2:
        raise ValueRangeError(f"{what}: it takes two tensors or more, got {len(tensors)}.")
    products.check_dtypes(what, **{f"matrix {k}": t.dtype for k, t in enumerate(tensors)})
    first, last = tensors[0], tensors[-1]
    matrices = list(tensors)
    matrices[0] = first.unsqueeze(0) if first.ndim == 1 else first
    matrices[-1] = last.unsqueeze(-1) if last.ndim == 1 else last
    result = _chain(what, matrices)
    if last.ndim == 1:
        result = result.squeeze(-1)
    return result.squeeze(0) if first.ndim == 1 else result


def chain_matmul(matrices: Sequence[Tensor]) -> Tensor:
    """A chain of matrices, multiplied in the cheapest order."""
    if not matrices:
        raise ValueRangeError("chain_matmul: it takes one matrix or more, got none.")
    return _chain("chain_matmul", list(matrices)) if len(matrices) > 1 else matrices[0].clone()


def _chain(what: str, matrices: list[Tensor]) -> Tensor:
    for k, matrix in enumerate(matrices):
        products.check_ndim(what, f"matrix {k}", tuple(matrix.shape), 2)
    for k, (a, b) in enumerate(pairwise(matrices)):
        names = (f"matrix {k}", f"matrix {k + 1}")
        products.matmul_shape(what, tuple(a.shape), tuple(b.shape), names)
    sizes = [m.shape[0] for m in matrices] + [matrices[-1].shape[1]]
    split = chosen(("chain", len(sizes)), lambda: contraction.chain_order(sizes))

    def multiply(i: int, j: int) -> Tensor:
        if i == j:
            return matrices[i]
        k = split[i][j]
        return multiply(i, k).mm(multiply(k + 1, j))

    return multiply(0, len(matrices) - 1)


def trilinear(
    i1: Tensor,
    i2: Tensor,
    i3: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int,
) -> Tensor:
    """Sum over `sumdim` of i1 · i2 · i3, each with size-1 dimensions put in at its `expand`.

    `unroll_dim` only says how PyTorch loops; here matrix products do.
    """
    what = "_trilinear"
    ndim = i1.ndim + len(expand1)
    labels = [
        tuple(d for d in range(ndim) if d not in [wrap_dim(what, e, ndim) for e in expand])
        for expand in (expand1, expand2, expand3)
    ]
    summed = {wrap_dim(what, d, ndim) for d in sumdim}
    # A dimension that is in no operand has size 1: it is put back at the end.
    output = tuple(d for d in range(ndim) if d not in summed)
    named = tuple(d for d in output if any(d in own for own in labels))
    result = _contract(labels, named, (i1, i2, i3), what=what)
    for position, d in enumerate(output):
        if d not in named:
            result = result.unsqueeze(position)
    return result


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """y[…, o] = Σ_ij x1[…, i] W[o, i, j] x2[…, j] + b[o]."""
    what = "bilinear(input1, input2, weight)"
    products.check_ndim(what, "weight", tuple(weight.shape), 3)
    given = (tuple(input1.shape[-1:]), tuple(input2.shape[-1:]))
    if given != ((weight.shape[1],), (weight.shape[2],)) or input1.shape[:-1] != input2.shape[:-1]:
        raise ShapeError(
            f"{what}: input1 ({show(input1.shape)}) and input2 ({show(input2.shape)}) must have "
            f"equal batch dimensions and end in {weight.shape[1]} and {weight.shape[2]} features "
            f"(weight: {show(weight.shape)})."
        )
    result = ops.einsum("...i,oij,...j->...o", [input1, weight, input2])
    return result if bias is None else result + bias


def linear_backward(
    self: Tensor, grad_output: Tensor, weight: Tensor, output_mask: Sequence[bool]
) -> tuple[Any, Any, Any]:
    """The gradients of `linear` in its input, weight and bias."""
    count = math.prod(self.shape[:-1])
    rows = grad_output.reshape(count, weight.shape[0])
    inputs = self.reshape(count, weight.shape[1])
    return (
        grad_output.matmul(weight.conj()) if output_mask[0] else None,
        rows.t().mm(inputs.conj()) if output_mask[1] else None,
        rows.sum(0) if output_mask[2] else None,
    )


def trace(self: Tensor) -> Tensor:
    """Σᵢ self[i, i] of a matrix, which need not be square."""
    if self.ndim != 2:
        raise ShapeError(f"trace: needs a matrix, got {self.ndim} dimensions ({show(self.shape)}).")
    return self.diagonal().sum()


def added(self: Tensor, product: Tensor, beta: Number, alpha: Number) -> Tensor:
    """beta·self + alpha·product; nothing of `self` if beta is 0, not even NaN."""
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return (self if beta == 1 else self * beta) + product


def addmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Number, alpha: Number) -> Tensor:
    return added(self, mat1.mm(mat2), beta, alpha)


def addmv(self: Tensor, mat: Tensor, vec: Tensor, beta: Number, alpha: Number) -> Tensor:
    return added(self, mat.mv(vec), beta, alpha)


def addr(self: Tensor, vec1: Tensor, vec2: Tensor, beta: Number, alpha: Number) -> Tensor:
    return added(self, vec1.unsqueeze(-1) * vec2, beta, alpha)


def addbmm(self: Tensor, batch1: Tensor, batch2: Tensor, beta: Number, alpha: Number) -> Tensor:
    return added(self, batch1.bmm(batch2).sum((0,)), beta, alpha)


def baddbmm(self: Tensor, batch1: Tensor, batch2: Tensor, beta: Number, alpha: Number) -> Tensor:
    return added(self, batch1.bmm(batch2), beta, alpha)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b."""
    product = input.matmul(weight.t() if weight.ndim == 2 else weight)
    return product if bias is None else product + bias


def addmm_activation(
    self: Tensor, mat1: Tensor, mat2: Tensor, beta: Number, alpha: Number, use_gelu: bool
) -> Tensor:
    """relu or gelu of β self + α mat1 mat2."""
    product = ops.addmm(self, mat1, mat2, beta=beta, alpha=alpha)
    return product.gelu() if use_gelu else product.relu()

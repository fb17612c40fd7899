"""Products under vmap: one broadcasting `matmul`, in which a shared operand is not copied."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.batching.common import Batch, padded, whole
from adjoint.checks import matmul as products
from adjoint.core.errors import ShapeError

Tensor = Any


def product(a: Tensor, has_a: bool, n_a: int, b: Tensor, has_b: bool, n_b: int) -> Tensor:
    """a @ b for operands of n_a and n_b dimensions as the user sees them; the batch in front."""
    if not has_a and n_a == 2 and n_b == 1:  # A v for many v: V Aᵀ, one product of matrices
        return b.matmul(a.mT)
    if (not has_b and (n_b <= 2 or n_a >= n_b)) or (not has_a and n_a == 1 and n_b > 1):
        return a.matmul(b)
    row, column = n_a == 1, n_b == 1
    a = a.unsqueeze(-2) if row else a
    b = b.unsqueeze(-1) if column else b
    rank = max(n_a + row, n_b + column)
    result = padded(a, has_a, n_a + row, rank).matmul(padded(b, has_b, n_b + column, rank))
    result = result.squeeze(-1) if column else result
    return result.squeeze(-2 + column) if row else result


def _operands(batch: Batch, first: int) -> tuple[bool, int, bool, int]:
    return batch.has[first], batch.ndims[first], batch.has[first + 1], batch.ndims[first + 1]


def _multiply(batch: Batch, a: Tensor, b: Tensor, first: int = 0) -> Tensor:
    has_a, n_a, has_b, n_b = _operands(batch, first)
    return product(a, has_a, n_a, b, has_b, n_b)


def _need(batch: Batch, *ranks: int, first: int = 0) -> None:
    """Raise unless the operands have these numbers of dimensions."""
    got = batch.ndims[first : first + len(ranks)]
    if got != ranks:
        kinds = {1: "a vector", 2: "a matrix", 3: "a batch of matrices"}
        wanted = " and ".join(kinds[r] for r in ranks)
        shown = " and ".join(str(n) for n in got)
        raise ShapeError(f"{batch.op.name}: needs {wanted}, got tensors of {shown} dimensions.")


def matmul(batch: Batch, self: Tensor, other: Tensor) -> Tensor:
    if 0 in batch.ndims[:2]:
        raise ShapeError("matmul: both operands need at least one dimension; use * with a scalar.")
    return _multiply(batch, self, other)


def mm(batch: Batch, self: Tensor, mat2: Tensor) -> Tensor:
    _need(batch, 2, 2)
    return _multiply(batch, self, mat2)


def bmm(batch: Batch, self: Tensor, mat2: Tensor) -> Tensor:
    _need(batch, 3, 3)
    shapes = [x.shape[h:] for x, h in ((self, batch.has[0]), (mat2, batch.has[1]))]
    if shapes[0][0] != shapes[1][0]:
        raise ShapeError(f"bmm(a, b): a has {shapes[0][0]} matrices and b {shapes[1][0]}.")
    return _multiply(batch, self, mat2)


def mv(batch: Batch, self: Tensor, vec: Tensor) -> Tensor:
    _need(batch, 2, 1)
    return _multiply(batch, self, vec)


def dot(batch: Batch, self: Tensor, tensor: Tensor) -> Tensor:
    _need(batch, 1, 1)
    if not batch.has[0]:  # Σ x y is symmetric
        return tensor.matmul(self)
    return _multiply(batch, self, tensor)


def vdot(batch: Batch, self: Tensor, other: Tensor) -> Tensor:
    _need(batch, 1, 1)
    return other.matmul(self.conj()) if not batch.has[0] else _multiply(batch, self.conj(), other)


# ---- β C + α A B ------------------------------------------------------------------------------


def _added(batch: Batch, self: Tensor, rank: int, result: Tensor, beta: Any, alpha: Any) -> Tensor:
    """β self + α result; with β = 0 the values of self do not count, not even NaN."""
    if batch.ndims[0] > rank:
        raise ShapeError(
            f"{batch.op.name}: self has {batch.ndims[0]} dimensions, the product {rank}."
        )
    if alpha != 1:
        result = (result * alpha).to(result.dtype)
    if beta == 0:
        return result
    term = padded(self, batch.has[0], batch.ndims[0], rank)
    return result + (term if beta == 1 else (term * beta).to(self.dtype))


def addmm(batch: Batch, self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    _need(batch, 2, 2, first=1)
    return _full(batch, _added(batch, self, 2, _of_three(batch, mat1, mat2), beta, alpha), 2)


def addmv(batch: Batch, self: Tensor, mat: Tensor, vec: Tensor, beta: Any, alpha: Any) -> Tensor:
    _need(batch, 2, 1, first=1)
    return _full(batch, _added(batch, self, 1, _of_three(batch, mat, vec), beta, alpha), 1)


def addbmm(
    batch: Batch, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any
) -> Tensor:
    """β C + α Σᵢ AᵢBᵢ."""
    _need(batch, 3, 3, first=1)
    batched = batch.has[1] or batch.has[2]
    result = _of_three(batch, batch1, batch2).sum(1 if batched else 0)
    return _full(batch, _added(batch, self, 2, result, beta, alpha), 2)


def baddbmm(
    batch: Batch, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any
) -> Tensor:
    _need(batch, 3, 3, first=1)
    return _full(batch, _added(batch, self, 3, _of_three(batch, batch1, batch2), beta, alpha), 3)


def _of_three(batch: Batch, a: Tensor, b: Tensor) -> Tensor:
    """The product of the second and third argument, batched if one of them is."""
    has_a, n_a, has_b, n_b = _operands(batch, 1)
    return product(a, has_a, n_a, b, has_b, n_b) if has_a or has_b else a.matmul(b)


def _full(batch: Batch, result: Tensor, rank: int) -> Tensor:
    """Expand a result that all samples share: with β = 0, `self` alone may be batched."""
    return result if result.ndim > rank else whole(batch, result, False)


def linear(batch: Batch, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b."""
    if batch.has == (True, False, False):
        return batch.op.call([input, weight, bias])
    has_x, n_x, has_w, n_w = _operands(batch, 0)
    turned = weight.mT if n_w == 2 else weight
    batched = has_x or has_w
    result = product(input, has_x, n_x, turned, has_w, n_w) if batched else input.matmul(turned)
    if bias is None:
        return result
    rank = n_x - 1 + (n_w == 2)
    return result + padded(bias, batch.has[2], batch.ndims[2], rank)


# ---- groups -----------------------------------------------------------------------------------


def grouped_mm(
    batch: Batch, self: Tensor, mat2: Tensor, offs: Any, bias: Any, out_dtype: Any
) -> Tensor:
    """One product for all: the groups of a sample, an empty group for its rest, the next sample."""
    kinds = batch.ndims[:2]
    a, b = whole(batch, self, batch.has[0]), whole(batch, mat2, batch.has[1])
    if offs is None:
        products.grouped_mm_shape("_grouped_mm(a, b)", tuple(a.shape[1:]), tuple(b.shape[1:]), None)
        return a.matmul(b)
    size, groups = batch.size, offs.shape[-1]
    limits = {(2, 3): a.shape[1], (3, 2): b.shape[-1], (2, 2): a.shape[-1]}
    if kinds not in limits:
        raise ShapeError(
            f"_grouped_mm(a, b, offs): groups are of rows or columns, so one of a and b must be a "
            f"matrix; got {kinds[0]} and {kinds[1]} dimensions."
        )
    limit = limits[kinds]
    ends = whole(batch, offs, batch.has[2])
    ends = ops.cat([ends, ends.new_full((size, 1), limit)], 1) + (ops.arange(size) * limit).to(
        offs.dtype
    ).unsqueeze(1)
    a = _with_empty_group(a).flatten(0, 1) if kinds[0] == 3 else a
    b = _with_empty_group(b).flatten(0, 1) if kinds[1] == 3 else b
    if kinds[0] == 2:
        a = a.flatten(0, 1) if kinds == (2, 3) else a.transpose(0, 1).flatten(1, 2)
    if kinds[1] == 2:
        b = b.flatten(0, 1) if kinds == (2, 2) else b.transpose(0, 1).flatten(1, 2)
    result = batch.op.call([a, b, ends.reshape(-1), bias, out_dtype])
    if kinds == (2, 3):
        return result.reshape((size, limit, result.shape[-1]))
    if kinds == (3, 2):
        return result.reshape((result.shape[0], size, limit)).transpose(0, 1)
    return result.reshape((size, groups + 1, *result.shape[1:])).narrow(1, 0, groups)


def _with_empty_group(x: Tensor) -> Tensor:
    return ops.cat([x, x.new_zeros((x.shape[0], 1, *x.shape[2:]))], 1)


def einsum(batch: Batch, equation: str, tensors: list[Tensor], path: Any) -> Tensor:
    """One letter more, for the batch."""
    letter = next(
        c for c in "ZYXWVUTSRQPONMLKJIHGFEDCBAzyxwvutsrqponmlkjihgfedcba" if c not in equation
    )
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = [
        f"{letter}{t}" if h else t for t, h in zip(inputs.split(","), batch.has[1], strict=True)
    ]
    if not arrow:
        free = sorted({c for c in inputs if c.isalpha() and inputs.count(c) == 1})
        output = ("..." if "..." in inputs else "") + "".join(free)
    return ops.einsum(f"{','.join(terms)}->{letter}{output}", tensors, path=path)

"""Products of sparse matrices: with dense ones, with each other, at given places.

Batches are one large matrix with a block for each (`patterns.rows_and_columns`), so that two
primitives do for all: `_sparse_product`, a sparse matrix times a dense one, and its derivative in
the values, `_sparse_sample`, inner products of given rows.
"""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.checks.sparse import check_inexact
from adjoint.core import dtypes
from adjoint.core.errors import ArgumentError, ShapeError, ValueRangeError
from adjoint.core.layouts import sparse_coo, sparse_csr
from adjoint.core.promotion import promote_types
from adjoint.core.shapes import show
from adjoint.decompositions.sparse.common import (
    assemble,
    check_same_shape,
    coalesced,
    converted,
    densely,
    entries,
    index,
    is_sparse,
    pattern_of,
    rebuilt,
)
from adjoint.decompositions.sparse.elements import add
from adjoint.structures import patterns
from adjoint.structures.patterns import Pattern

Tensor = Any


# ---- the primitives by smaller operators --------------------------------------------------------


def product(rows: Tensor, columns: Tensor, values: Tensor, dense: Tensor, size: int) -> Tensor:
    """out[r] = Σ values[k] dense[c] over the elements k = (r, c)."""
    found = values.unsqueeze(-1) * dense.index_select(0, columns)
    return found.new_zeros((size, dense.shape[1])).index_add(0, rows, found)


def sample(rows: Tensor, columns: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """out[k] = ⟨left[r], right[c]⟩ (not conjugated) for the elements k = (r, c)."""
    check_inexact("_sparse_sample", left.dtype)
    return (left.index_select(0, rows) * right.index_select(0, columns)).sum(-1)


# ---- matrix products ----------------------------------------------------------------------------


def _check_matrices(what: str, one: Tensor, other: Tensor) -> None:
    for tensor in (one, other):
        if is_sparse(tensor) and tensor.companion.dense_dim:
            raise ShapeError(
                f"{what}: a sparse tensor with dense dimensions ({show(tensor.shape)}) is no "
                "matrix; use to_dense()"
            )
    batched = one.ndim == other.ndim > 2 and one.shape[:-2] == other.shape[:-2]
    if not batched and (one.ndim != 2 or other.ndim != 2):
        raise ShapeError(
            f"{what}: takes two matrices, or two batches of as many, got {show(one.shape)} and "
            f"{show(other.shape)}"
        )
    if one.shape[-1] != other.shape[-2]:
        raise ShapeError(
            f"{what}: {show(one.shape)} @ {show(other.shape)}: the first has {one.shape[-1]} "
            f"columns, the second {other.shape[-2]} rows"
        )


def mm(self: Tensor, mat2: Tensor) -> Tensor:
    """The product of matrices, or of batches: sparse if both are, else dense."""
    _check_matrices("mm", self, mat2)
    if is_sparse(self) and is_sparse(mat2):
        return of_sparse(self, mat2)
    if is_sparse(self):
        return _times_dense(self, mat2)
    return _times_dense(mat2.mT, self.mT).mT if is_sparse(mat2) else ops.matmul(self, mat2)


def _times_dense(sparse: Tensor, dense: Tensor) -> Tensor:
    pattern = sparse.companion
    rows, columns = patterns.rows_and_columns(pattern)
    *batch, size, _ = pattern.shape
    dtype = promote_types(sparse.dtype, dense.dtype)
    flat = dense.flatten(0, -2).to(dtype)
    count = patterns.count(batch) * size
    found = ops._sparse_product(index(rows), index(columns), entries(sparse).to(dtype), flat, count)
    return found.reshape((*batch, size, dense.shape[-1]))


def of_sparse(self: Tensor, other: Tensor) -> Tensor:
    """The product of two sparse matrices: COO if the first is, else CSR."""
    one, two = pattern_of("mm", self), pattern_of("mm", other)
    _check_matrices("mm", self, other)
    if self.ndim != 2:
        raise ShapeError("mm: of two sparse tensors, each must be a matrix; use to_dense()")
    first, second, coordinates = patterns.pairs(one, two)
    dtype = promote_types(self.dtype, other.dtype)
    left = entries(self).to(dtype).index_select(0, index(first))
    right = entries(other).to(dtype).index_select(0, index(second))
    layout = sparse_coo if one.is_coo else sparse_csr
    shape = (self.shape[0], other.shape[1])
    pattern, places = patterns.arranged(layout, shape, coordinates)
    return rebuilt(pattern, left * right, places)


def mv(self: Tensor, vec: Tensor) -> Tensor:
    """A sparse matrix times a vector."""
    if is_sparse(vec):
        raise ArgumentError("mv: the vector is sparse; use vec.to_dense()")
    if self.ndim != 2 or vec.ndim != 1:
        raise ShapeError(
            f"mv: takes a matrix and a vector, got {show(self.shape)}, {show(vec.shape)}"
        )
    return mm(self, vec.unsqueeze(-1)).squeeze(-1)


def matmul(self: Tensor, other: Tensor) -> Tensor:
    """As mm; a vector on either side is a row or a column."""
    if other.ndim == 1:
        return mv(self, other)
    if self.ndim == 1:
        if is_sparse(self):
            raise ArgumentError("matmul: the vector is sparse; use to_dense()")
        return mm(self.unsqueeze(0), other).squeeze(0)
    return mm(self, other)


def addmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    """β self + α mat1 @ mat2."""
    found = mm(mat1, mat2)
    if is_sparse(self) != is_sparse(found) and beta != 0:
        self, found = densely(self), densely(found)
    if is_sparse(found):
        if beta == 0:
            return found * alpha
        check_same_shape("addmm", self, found)
        return add(converted(self, found.companion.layout) * beta, found, alpha)
    scaled = found if alpha == 1 else found * alpha
    return scaled.expand(found.shape) if beta == 0 else self * beta + scaled


def addmv(self: Tensor, mat: Tensor, vec: Tensor, beta: Any, alpha: Any) -> Tensor:
    """β self + α mat @ vec."""
    found = mv(mat, vec) * alpha
    return found if beta == 0 else self * beta + found


def sparse_addmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    """addmm with a sparse first matrix."""
    pattern_of("_sparse_addmm", mat1)
    return addmm(self, mat1, mat2, beta, alpha)


def sampled_addmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    """β self + α (mat1 @ mat2 where self has elements)."""
    what = "sampled_addmm"
    pattern = pattern_of(what, self)
    if is_sparse(mat1) or is_sparse(mat2):
        raise ArgumentError(f"{what}: the matrices that are multiplied must be dense")
    _check_matrices(what, mat1, mat2)
    if pattern.shape != (*mat1.shape[:-1], mat2.shape[-1]) or pattern.dense_dim:
        raise ShapeError(
            f"{what}: {show(mat1.shape)} @ {show(mat2.shape)} is not of the shape "
            f"{show(pattern.shape)} of the sparse tensor"
        )
    if not self.dtype == mat1.dtype == mat2.dtype:
        raise ArgumentError(
            f"{what}: dtypes {self.dtype.name}, {mat1.dtype.name} and {mat2.dtype.name}; they "
            "must be equal"
        )
    rows, columns = patterns.rows_and_columns(pattern)
    left, right = mat1.flatten(0, -2), mat2.mT.flatten(0, -2)
    found = ops._sparse_sample(index(rows), index(columns), left, right)
    found = found.reshape(pattern.values_shape) * alpha
    return assemble(pattern, found if beta == 0 else self.stored * beta + found)


# ---- products that are joined otherwise than by a sum -------------------------------------------

_REDUCTIONS = ("sum", "mean", "amax", "amin")


def mm_reduce(self: Tensor, other: Tensor, reduce: str) -> tuple[Tensor, Tensor]:
    """Products self[i, k] other[k, j], for each i and j added, averaged, or the largest of them.

    The second result tells which stored element the largest or smallest product is of; of a row
    without elements, one past the last.
    """
    what = f"sparse.mm(reduce={reduce!r})"
    pattern = pattern_of(what, self)
    if reduce not in _REDUCTIONS:
        raise ValueRangeError(f"{what}: use one of {', '.join(map(repr, _REDUCTIONS))}")
    if pattern.layout is not sparse_csr or is_sparse(other) or self.ndim != 2:
        raise ArgumentError(
            f"{what}: takes a sparse_csr matrix and a dense one, got {self.layout!r} and "
            f"{other.layout!r}"
        )
    _check_matrices(what, self, other)
    if reduce in ("sum", "mean"):
        found = _times_dense(self, other)
        counts = index(patterns.elements_of_rows(pattern)).clamp_min(1).unsqueeze(-1)
        found = found / counts.to(found.dtype) if reduce == "mean" else found
        return found, ops.zeros((0,), dtype=dtypes.int64)
    products, largest = _products(self, other), _extremes(self, other, reduce)
    return _chosen(products, largest), largest


def _products(self: Tensor, other: Tensor) -> Tensor:
    _, columns = self.companion.coordinates
    return entries(self).unsqueeze(-1) * other.index_select(0, index(columns))


def _extremes(self: Tensor, other: Tensor, reduce: str) -> Tensor:
    """The number of the element of each row whose product is largest or smallest, first of ties."""
    pattern = self.companion
    products = _products(self.detach(), other.detach())
    rows = index(pattern.coordinates[0]).unsqueeze(-1).expand(products.shape)
    shape = (self.shape[0], other.shape[1])
    best = ops.scatter_reduce(
        products.new_zeros(shape), 0, rows, products, reduce, include_self=False
    )
    ahead = products == best.gather(0, rows)
    numbers = ops.arange(pattern.nnz).unsqueeze(-1)
    first = ops.where(ahead, numbers, pattern.nnz)
    none = ops.full(shape, pattern.nnz, dtype=dtypes.int64)
    return ops.scatter_reduce(none, 0, rows, first, "amin")


def _chosen(products: Tensor, which: Tensor) -> Tensor:
    """The products that were chosen; 0 where none was."""
    count = products.shape[0]
    if count == 0:
        return products.new_zeros(which.shape)
    found = products.gather(0, which.clamp_max(count - 1))
    return ops.where(which < count, found, found.new_zeros(()))


def mm_reduce_backward(
    self: Tensor,
    grad_out: Tensor,
    weight: Tensor,
    reduce: str,
    arg_out: Tensor,
    output_mask: list[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of the first result in both matrices; the sparse one's has its pattern."""
    pattern = pattern_of("_sparse_mm_reduce_impl_backward", self)
    rows, columns = (index(i) for i in pattern.coordinates)
    if reduce in ("sum", "mean"):
        each = grad_out
        if reduce == "mean":
            counts = index(patterns.elements_of_rows(pattern)).clamp_min(1).unsqueeze(-1)
            each = grad_out / counts.to(grad_out.dtype)
        each = each.index_select(0, rows)
    else:
        used = arg_out < pattern.nnz
        room = grad_out.new_zeros((pattern.nnz + 1, grad_out.shape[1]))
        kept = ops.where(used, grad_out, grad_out.new_zeros(()))
        each = room.scatter_add(0, arg_out, kept).narrow(0, 0, pattern.nnz)
    mine = theirs = None
    if output_mask[0]:
        mine = assemble(pattern, (each * weight.index_select(0, columns).conj()).sum(-1))
    if output_mask[1]:
        shares = each * entries(self).conj().unsqueeze(-1)
        theirs = shares.new_zeros(weight.shape).index_add(0, columns, shares)
    return mine, theirs


def solve(A: Tensor, B: Tensor, left: bool) -> Tensor:
    """X with A X = B, or X A = B."""
    pattern: Pattern = pattern_of("spsolve", A)
    if A.ndim != 2 or A.shape[0] != A.shape[1] or pattern.dense_dim:
        raise ShapeError(f"spsolve: takes a square matrix, got {show(A.shape)}")
    if is_sparse(B) or B.ndim not in (1, 2):
        raise ArgumentError("spsolve: the right side must be a dense vector or matrix")
    if not left:
        found = solve(A.mT, B.mT if B.ndim == 2 else B, True)
        return found.mT if B.ndim == 2 else found
    if B.shape[0] != A.shape[0]:
        raise ShapeError(
            f"spsolve: a matrix of {show(A.shape)} and a right side of {show(B.shape)}"
        )
    dtype = promote_types(A.dtype, B.dtype)
    matrix = coalesced(A)
    rows, columns = (index(i) for i in matrix.companion.coordinates)
    right = B.unsqueeze(-1) if B.ndim == 1 else B
    found = ops._sparse_solve(rows, columns, entries(matrix).to(dtype), right.to(dtype))
    return found.squeeze(-1) if B.ndim == 1 else found


def dense_solve(rows: Tensor, columns: Tensor, values: Tensor, right: Tensor) -> Tensor:
    """Solve a sparse system by a dense matrix."""
    size = right.shape[0]
    matrix = ops._index_backward(values, (size, size), [rows, columns])
    return ops.linalg_solve(matrix, right)

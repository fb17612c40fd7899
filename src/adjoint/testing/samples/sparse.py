"""Samples of sparse tensors, made of their values."""

from __future__ import annotations

from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.samples import Made, Make, Sample, made, sampler

Array = np.ndarray[Any, Any]
Samples = Any

# Coordinates of matrices of 3×4 in order, with a row and a column that hold nothing; and some with
# repetitions.
SORTED = [[0, 0, 2, 2], [1, 3, 0, 1]]
TWICE = [[2, 0, 2, 0, 2], [1, 3, 0, 3, 0]]
STARTS, COLUMNS = [0, 2, 2, 4], [1, 3, 0, 1]  # the same as SORTED by rows
COLUMN_STARTS, ROWS = [0, 1, 3, 3, 4], [2, 0, 2, 0]  # and by columns
BLOCK_STARTS, BLOCKS = [0, 1, 2], [1, 0]  # 4×4 of blocks 2×2


def coo(values: Any, *, indices: Any = SORTED, size: Any = (3, 4)) -> Made:
    """A COO tensor of given values."""
    places = ad.tensor(indices)
    return made(lambda v: ad.sparse_coo_tensor(places, v, size), values)


def coalesced(values: Any, *, indices: Any = SORTED, size: Any = (3, 4)) -> Made:
    """One that knows that it is coalesced."""
    places = ad.tensor(indices)
    return made(lambda v: ad.sparse_coo_tensor(places, v, size, is_coalesced=True), values)


def csr(values: Any, size: Any = (3, 4)) -> Made:
    """A CSR tensor of given values."""
    parts = ad.tensor(STARTS), ad.tensor(COLUMNS)
    return made(lambda v: ad.sparse_csr_tensor(*parts, v, size), values)


def csc(values: Any, size: Any = (3, 4)) -> Made:
    """A CSC tensor of given values."""
    parts = ad.tensor(COLUMN_STARTS), ad.tensor(ROWS)
    return made(lambda v: ad.sparse_csc_tensor(*parts, v, size), values)


def bsr(values: Any) -> Made:
    """A BSR tensor of two blocks 2×2 in 4×4."""
    parts = ad.tensor(BLOCK_STARTS), ad.tensor(BLOCKS)
    return made(lambda v: ad.sparse_bsr_tensor(*parts, v, (4, 4)), values)


def batched(values: Any) -> Made:
    """A batch of two CSR matrices 2×3 with two elements each."""
    parts = ad.tensor([[0, 1, 2], [0, 2, 2]]), ad.tensor([[2, 0], [0, 1]])
    return made(lambda v: ad.sparse_csr_tensor(*parts, v, (2, 2, 3)), values)


def every(make: Make) -> Samples:
    """Tensors of every layout, with names."""
    yield "coo", coo(make(4))
    yield "repeated", coo(make(5), indices=TWICE)
    yield "hybrid", coo(make(3, 2), indices=[[2, 0, 2]], size=(3, 2))
    yield "csr", csr(make(4))
    yield "csc", csc(make(4))
    yield "bsr", bsr(make(2, 2, 2))
    yield "batch", batched(make(2, 2))
    yield "empty", coo(make(0), indices=np.zeros((2, 0), np.int64), size=(3, 4))


# ---- parts --------------------------------------------------------------------------------------


@sampler("_sparse_coo_tensor_with_dims_and_tensors")
def with_dims(make: Make) -> Samples:
    yield Sample(2, 0, (3, 4), ad.tensor(SORTED), make(4), name="sorted", is_coalesced=True)
    yield Sample(2, 0, (3, 4), ad.tensor(TWICE), make(5), name="repeated")
    yield Sample(1, 1, (3, 2), ad.tensor([[2, 0, 2]]), make(3, 2), name="hybrid")
    yield Sample(2, 0, (3, 4), ad.zeros(2, 0, dtype=ad.int64), make(0), name="empty")


@sampler("_sparse_coo_tensor_unsafe")
def unsafe(make: Make) -> Samples:
    yield Sample(ad.tensor(TWICE), make(5), (3, 4), name="repeated")


@sampler("sparse_compressed_tensor.comp_plain_value_size", "_sparse_compressed_tensor_unsafe")
def compressed(make: Make) -> Samples:
    rows, columns = (
        (ad.tensor(STARTS), ad.tensor(COLUMNS)),
        (ad.tensor(COLUMN_STARTS), ad.tensor(ROWS)),
    )
    yield Sample(*rows, make(4), (3, 4), layout=ad.sparse_csr, name="csr")
    yield Sample(*columns, make(4), (3, 4), layout=ad.sparse_csc, name="csc")
    blocks = ad.tensor(BLOCK_STARTS), ad.tensor(BLOCKS)
    yield Sample(*blocks, make(2, 2, 2), (4, 4), layout=ad.sparse_bsr, name="bsr")
    yield Sample(*blocks, make(2, 2, 1), (4, 2), layout=ad.sparse_bsc, name="bsc")
    batch = ad.tensor([[0, 1, 2], [0, 2, 2]]), ad.tensor([[2, 0], [0, 1]])
    yield Sample(*batch, make(2, 2), (2, 2, 3), layout=ad.sparse_csr, name="batch")
    yield Sample(*rows, make(4, 2), (3, 4, 2), layout=ad.sparse_csr, name="hybrid")


@sampler("indices")
def indices_of(make: Make) -> Samples:
    yield Sample(coalesced(make(4)), name="coalesced")


@sampler("_indices", "_values")
def raw_parts(make: Make) -> Samples:
    yield Sample(coo(make(5), indices=TWICE), name="repeated")


@sampler("crow_indices", "col_indices")
def row_parts(make: Make) -> Samples:
    yield Sample(csr(make(4)), name="csr")
    yield Sample(bsr(make(2, 2, 2)), name="bsr")


@sampler("ccol_indices", "row_indices")
def column_parts(make: Make) -> Samples:
    yield Sample(csc(make(4)), name="csc")


@sampler("values")
def values_of(make: Make) -> Samples:
    yield Sample(coalesced(make(4)), name="coo")
    yield Sample(csr(make(4)), name="csr")
    yield Sample(bsr(make(2, 2, 2)), name="bsr")


# ---- layouts ------------------------------------------------------------------------------------


@sampler("_coalesce")
def coalesces(make: Make) -> Samples:
    yield Sample(coo(make(4)), name="sorted")
    yield Sample(coo(make(5), indices=TWICE), name="repeated")
    yield Sample(coo(make(3, 2), indices=[[2, 0, 2]], size=(3, 2)), name="hybrid")


@sampler("_to_dense")
def to_dense(make: Make) -> Samples:
    for name, tensor in every(make):
        yield Sample(tensor, name=name)


@sampler("_to_sparse", "to_sparse")
def to_sparse(make: Make) -> Samples:
    yield Sample(make(2, 3), name="dense")
    yield Sample(make(), name="number")
    yield Sample(make(2, 3, 2), dense_dim=1, name="hybrid")
    yield Sample(make(2, 2), layout=ad.sparse_csc, name="csc")
    yield Sample(make(2, 4), layout=ad.sparse_bsr, blocksize=(1, 2), name="bsr")
    yield Sample(csr(make(4)), name="csr to coo")
    yield Sample(coo(make(5), indices=TWICE), layout=ad.sparse_csr, name="coo to csr")
    yield Sample(make.like(np.diag([1.0, 0.0, 2.0])), name="zeros", kink=True)


@sampler("_to_sparse.sparse_dim", "to_sparse.sparse_dim")
def to_sparse_dim(make: Make) -> Samples:
    yield Sample(make(2, 3, 2), 1, name="one")
    yield Sample(make(2, 3), 2, name="two")


@sampler("_to_sparse_csr", "_to_sparse_csc")
def to_compressed(make: Make) -> Samples:
    yield Sample(make(2, 3), name="dense")
    yield Sample(make(2, 2, 3), name="batch")
    yield Sample(make(2, 3, 2), 1, name="hybrid")
    yield Sample(coo(make(5), indices=TWICE), name="coo")
    yield Sample(bsr(make(2, 2, 2)), name="bsr")


@sampler("_to_sparse_bsr", "_to_sparse_bsc")
def to_blocks(make: Make) -> Samples:
    yield Sample(make(2, 4), (1, 2), name="dense")
    yield Sample(coo(make(5), indices=TWICE), (3, 2), name="coo")


@sampler("sparse_mask")
def masks(make: Make) -> Samples:
    kept = ad.sparse_coo_tensor(SORTED, ad.ones(4), (3, 4), is_coalesced=True)
    rows = ad.sparse_csr_tensor(STARTS, COLUMNS, ad.ones(4), (3, 4))
    yield Sample(make(3, 4), made(lambda: kept), name="dense")
    yield Sample(make(3, 4), made(lambda: rows), name="csr")
    yield Sample(coo(make(5), indices=TWICE), made(lambda: kept), name="coo")
    yield Sample(csc(make(4)), made(lambda: kept), name="csc")


@sampler("_spdiags")
def diagonals(make: Make) -> Samples:
    # the offsets decide on the structure: they are no argument that may be varied
    for name, layout in (("coo", None), ("csr", ad.sparse_csr)):
        yield Sample(make(2, 3), made(lambda: ad.tensor([0, -1])), (3, 4), layout, name=name)


# ---- reductions ---------------------------------------------------------------------------------


@sampler("_sparse_sum")
def sums(make: Make) -> Samples:
    for name, tensor in every(make):
        yield Sample(tensor, name=name)


@sampler("_sparse_sum.dtype")
def sums_in(make: Make) -> Samples:
    yield Sample(coo(make(4)), dtype=ad.complex128, name="complex")


@sampler("_sparse_sum.dim")
def sums_over(make: Make) -> Samples:
    for name, tensor in every(make):
        yield Sample(tensor, (0,), name=name)
    yield Sample(coo(make(5), indices=TWICE), (0, 1), name="all")
    yield Sample(coo(make(3, 2), indices=[[2, 0, 2]], size=(3, 2)), (1,), name="dense dim")


@sampler("_sparse_sum.dim_dtype")
def sums_over_in(make: Make) -> Samples:
    yield Sample(coo(make(4)), (1,), dtype=ad.complex128, name="complex")


@sampler("_sparse_softmax", "_sparse_log_softmax", real=True)
def softmaxes(make: Make) -> Samples:
    for dim in (0, 1):
        yield Sample(coo(make(5), indices=TWICE), dim, False, name=f"dim {dim}")
    yield Sample(coo(make(2, 2), indices=[[2, 0]], size=(3, 2)), -1, False, name="dense dim")
    yield Sample(coo(make(2, 2), indices=[[2, 0]], size=(3, 2)), 0, False, name="hybrid")
    yield Sample(csr(make(4)), 1, False, name="csr")


@sampler("_sparse_softmax.int", "_sparse_log_softmax.int", real=True)
def softmaxes_in(make: Make) -> Samples:
    yield Sample(coo(make(5), indices=TWICE), 1, name="coo")
    yield Sample(csr(make(4)), 0, dtype=ad.float64, name="csr")


@sampler("_sparse_softmax_backward_data", "_sparse_log_softmax_backward_data", real=True)
def softmax_backwards(make: Make) -> Samples:
    for dim in (0, 1):
        yield Sample(coo(make(4)), coo(make(4)), dim, coo(make(4)), name=f"dim {dim}")


# ---- products -----------------------------------------------------------------------------------


def products(make: Make) -> Samples:
    yield Sample(coo(make(5), indices=TWICE), make(4, 2), name="coo")
    yield Sample(csr(make(4)), make(4, 2), name="csr")
    yield Sample(csc(make(4)), make(2, 4).t(), name="csc")
    yield Sample(bsr(make(2, 2, 2)), make(4, 1), name="bsr")
    yield Sample(csr(make(4)), coo(make(2), indices=[[1, 3], [0, 1]], size=(4, 2)), name="sparse")


@sampler("_sparse_addmm")
def sums_of_products(make: Make) -> Samples:
    yield Sample(make(3, 2), coo(make(5), indices=TWICE), make(4, 2), name="coo")
    yield Sample(make(3, 2), csr(make(4)), make(4, 2), beta=2, alpha=0.5, name="scaled")
    yield Sample(make(2), csr(make(4)), make(4, 2), name="broadcast")


@sampler("_sparse_sparse_matmul")
def sparse_products(make: Make) -> Samples:
    right = coo(make(3), indices=[[1, 3, 1], [0, 1, 0]], size=(4, 2))
    yield Sample(coo(make(5), indices=TWICE), right, name="coo")
    yield Sample(csr(make(4)), right, name="csr")
    yield Sample(
        csr(make(4)), coo(make(0), indices=np.zeros((2, 0), np.int64), size=(4, 2)), name="empty"
    )


@sampler("sparse_sampled_addmm")
def sampled(make: Make) -> Samples:
    yield Sample(csr(make(4)), make(3, 2), make(2, 4), name="csr")
    yield Sample(csc(make(4)), make(3, 2), make(2, 4), beta=2, alpha=0.5, name="scaled")
    yield Sample(batched(make(2, 2)), make(2, 2, 2), make(2, 2, 3), name="batch")


@sampler("_sparse_mm_reduce_impl", "_sparse_mm.reduce")
def reduced_products(make: Make) -> Samples:
    for reduce in ("sum", "mean") if make.is_complex else ("sum", "mean", "amax", "amin"):
        yield Sample(csr(make.distinct(4)), make.distinct(4, 2), reduce, name=reduce)


@sampler("_sparse_mm_reduce_impl_backward")
def reduced_backwards(make: Make) -> Samples:
    for reduce in ("sum", "mean") if make.is_complex else ("sum", "mean", "amax"):
        which = ad.tensor([[0, 1], [4, 4], [3, 2]])
        yield Sample(
            csr(make(4)), make(3, 2), make(4, 2), reduce, made(lambda which=which: which),
            [True, True], name=reduce,
        )  # fmt: skip


def _system(values: Any) -> Made:
    places = ad.tensor([[0, 0, 1, 2, 2], [0, 2, 1, 0, 2]])
    shift = ad.tensor([4.0, 0.0, 4.0, 0.0, 4.0], dtype=values.dtype)
    return made(lambda v: ad.sparse_coo_tensor(places, v + shift, (3, 3)).to_sparse_csr(), values)


@sampler("_spsolve")
def systems(make: Make) -> Samples:
    yield Sample(_system(make(5)), make(3), name="vector")
    yield Sample(_system(make(5)), make(3, 2), name="matrix")
    yield Sample(_system(make(5)), make(2, 3), left=False, name="right")


# ---- primitives ---------------------------------------------------------------------------------

_PLACES = [2, 0, 2, 0, 2], [1, 3, 0, 3, 0]


@sampler("_sparse_product")
def triples(make: Make) -> Samples:
    rows, columns = map(ad.tensor, _PLACES)
    yield Sample(rows, columns, make(5), make(4, 2), 3, name="repeated")
    yield Sample(
        ad.tensor([0, 0, 2]), ad.tensor([1, 3, 0]), make(3), make(2, 4).t(), 3, name="sorted"
    )
    none = ad.zeros(0, dtype=ad.int64)
    yield Sample(none, none, make(0), make(4, 2), 3, name="empty")


@sampler("_sparse_sample")
def inner_products(make: Make) -> Samples:
    rows, columns = map(ad.tensor, _PLACES)
    yield Sample(rows, columns, make(3, 2), make(4, 2), name="plain")
    yield Sample(rows, columns, make(3, 0), make(4, 0), name="no width")


@sampler("_sparse_solve")
def solves(make: Make) -> Samples:
    rows, columns = ad.tensor([0, 0, 1, 2]), ad.tensor([0, 2, 1, 2])
    yield Sample(rows, columns, make.above_one(4), make(3, 2), name="triangular")


# ---- operators of other families on sparse tensors ----------------------------------------------


@sampler("neg", "clone", "tanh", "sin", "abs", "square")
def elements(make: Make) -> Samples:
    yield Sample(coo(make(5), indices=TWICE), name="sparse")


@sampler("add.Tensor", "sub.Tensor", "mul.Tensor")
def pairs(make: Make) -> Samples:
    yield Sample(coo(make(4)), coo(make(5), indices=TWICE), name="sparse both")
    yield Sample(csr(make(4)), csc(make(4)), name="sparse rows and columns")
    yield Sample(csr(make(4)), make(3, 4), name="sparse and dense")
    yield Sample(make(3, 4), coo(make(5), indices=TWICE), name="dense and sparse")


@sampler("div.Tensor")
def quotients(make: Make) -> Samples:
    yield Sample(coo(make(5), indices=TWICE), make(3, 4), name="sparse by dense")
    yield Sample(csr(make(4)), make(), name="sparse by number")


@sampler("pow.Tensor_Scalar")
def powers(make: Make) -> Samples:
    yield Sample(coo(make(5), indices=TWICE), 2, name="sparse")


@sampler("mm", "matmul")
def matrix_products(make: Make) -> Samples:
    yield Sample(coo(make(5), indices=TWICE), make(4, 2), name="sparse")
    yield Sample(make(2, 3), csr(make(4)), name="sparse right")
    yield Sample(csr(make(4)), coo(make(4), indices=SORTED[::-1], size=(4, 3)), name="sparse both")


@sampler("bmm")
def batches_of_products(make: Make) -> Samples:
    yield Sample(batched(make(2, 2)), make(2, 3, 2), name="sparse")


@sampler("mv")
def vector_products(make: Make) -> Samples:
    yield Sample(csr(make(4)), make(4), name="sparse")


@sampler("addmm")
def affine_products(make: Make) -> Samples:
    yield Sample(make(3, 2), csr(make(4)), make(4, 2), beta=2, alpha=0.5, name="sparse")
    other = coo(make(4), indices=SORTED[::-1], size=(4, 3))
    yield Sample(make(3, 3), csr(make(4)), other, name="sparse both")


@sampler("sum.dim_IntList")
def sums_of_elements(make: Make) -> Samples:
    yield Sample(coo(make(5), indices=TWICE), (0,), True, name="sparse")


@sampler("transpose.int")
def turns(make: Make) -> Samples:
    for name, tensor in (("coo", coo(make(5), indices=TWICE)), ("bsr", bsr(make(2, 2, 2)))):
        yield Sample(tensor, 0, 1, name=f"sparse {name}")


@sampler("select.int")
def slices(make: Make) -> Samples:
    yield Sample(coo(make(5), indices=TWICE), 1, 0, name="sparse")
    yield Sample(csr(make(4)), 0, -1, name="sparse rows")


@sampler("unsqueeze")
def wider(make: Make) -> Samples:
    yield Sample(coo(make(3, 2), indices=[[2, 0, 2]], size=(3, 2)), 2, name="sparse")

"""Samples of matrix products: ranks, batches, empty inner dimensions, transposes, factors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.samples import Sample, sampler

Samples = Iterator[Sample]


@sampler("mm", reference=lambda self, mat2: np.matmul(self, mat2))
def matrices(make: Any) -> Samples:
    yield Sample(make(2, 3), make(3, 4), name="plain")
    yield Sample(make(3, 2).t(), make(4, 3).t(), name="transposed")
    yield Sample(make(1, 1), make(1, 1), name="1 by 1")
    yield Sample(make(2, 0), make(0, 3), name="empty inner")
    yield Sample(make(0, 2), make(2, 3), name="empty")


@sampler("matmul", "linalg_matmul", reference=lambda self, other: np.matmul(self, other))
def any_rank(make: Any) -> Samples:
    shapes = {
        "1-1": ((3,), (3,)),
        "1-2": ((3,), (3, 2)),
        "2-1": ((2, 3), (3,)),
        "2-2": ((2, 3), (3, 4)),
        "1-3": ((3,), (2, 3, 2)),
        "3-1": ((2, 2, 3), (3,)),
        "2-3": ((2, 3), (4, 3, 2)),
        "3-2": ((4, 2, 3), (3, 2)),
        "3-3": ((2, 2, 3), (2, 3, 2)),
        "broadcast": ((2, 1, 2, 3), (4, 3, 2)),
        "broadcast one": ((1, 2, 3), (4, 3, 2)),
        "empty inner": ((2, 0), (0, 3)),
        "empty batch": ((0, 2, 3), (3, 2)),
        "empty rows": ((2, 0, 3), (2, 3, 2)),
    }
    for name, (a, b) in shapes.items():
        yield Sample(make(*a), make(*b), name=name)
    yield Sample(make(3, 2).t(), make(2, 2, 3).mT, name="transposed")


@sampler("bmm", reference=lambda self, mat2: np.matmul(self, mat2))
def batches(make: Any) -> Samples:
    yield Sample(make(2, 2, 3), make(2, 3, 2), name="plain")
    yield Sample(make(2, 3, 2).mT, make(2, 2, 3).mT, name="transposed")
    yield Sample(make(2, 2, 0), make(2, 0, 3), name="empty inner")
    yield Sample(make(0, 2, 3), make(0, 3, 2), name="empty batch")


@sampler("mv", reference=lambda self, vec: np.matmul(self, vec))
def matrix_vector(make: Any) -> Samples:
    yield Sample(make(2, 3), make(3), name="plain")
    yield Sample(make(3, 2).t(), make(6)[::2], name="strided")
    yield Sample(make(2, 0), make(0), name="empty inner")


@sampler("dot", "inner", reference=lambda self, other: np.dot(self, other))
def vectors(make: Any) -> Samples:
    yield Sample(make(4), make(4), name="plain")
    yield Sample(make(8)[::2], make(4), name="strided")
    yield Sample(make(0), make(0), name="empty")


@sampler("vdot", reference=lambda self, other: np.vdot(self, other))
def conjugated(make: Any) -> Samples:
    yield from vectors(make)


@sampler("inner", reference=lambda self, other: np.inner(self, other))
def inner_any_rank(make: Any) -> Samples:
    yield Sample(make(), make(3), name="0-d")
    yield Sample(make(2, 3), make(2, 2, 3), name="2-3")


@sampler("outer", "ger", reference=lambda self, vec2: np.outer(self, vec2))
def outer(make: Any) -> Samples:
    yield Sample(make(3), make(2), name="plain")
    yield Sample(make(0), make(2), name="empty")


def _factors(make: Any) -> tuple[Any, Any]:
    return (0.5 + 2j, 1.5 - 1j) if make.dtype.is_complex else (0.5, 1.5)


def _sum_of(product: Any) -> Any:
    def reference(self: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        scaled = alpha * product(a, b)
        return scaled + beta * self if beta != 0 else scaled + np.zeros_like(self)

    return reference


@sampler("addmm", reference=_sum_of(np.matmul))
def add_matrices(make: Any) -> Samples:
    beta, alpha = _factors(make)
    yield Sample(make(2, 4), make(2, 3), make(3, 4), name="plain")
    yield Sample(make(2, 4), make(2, 3), make(3, 4), beta=beta, alpha=alpha, name="factors")
    yield Sample(make(4), make(2, 3), make(3, 4), beta=beta, name="broadcast row")
    yield Sample(make(2, 1), make(2, 3), make(3, 4), alpha=alpha, name="broadcast column")
    yield Sample(make(), make(2, 3), make(3, 4), name="broadcast scalar")
    yield Sample(make(2, 4), make(2, 0), make(0, 4), beta=beta, name="empty inner")
    yield Sample(make(2, 4), make(3, 2).t(), make(4, 3).t(), beta=0, name="beta 0")


def _activated(self: Any, a: Any, b: Any, *, use_gelu: bool = False) -> Any:
    x = self + a @ b
    halves = np.vectorize(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)), otypes=[float])
    return x * halves(x) if use_gelu else np.where(x > 0, x, 0)


@sampler("_addmm_activation", reference=_activated, real=True)
def activated(make: Any) -> Samples:
    yield Sample(make(2, 4), make(2, 3), make(3, 4), name="relu")
    yield Sample(make(4), make(2, 3), make(3, 4), use_gelu=True, name="gelu, broadcast")


@sampler("addmm.dtype", reference=lambda self, a, b, dtype: self + a @ b)
def add_matrices_in_another_dtype(make: Any) -> Samples:
    yield Sample(make(2, 2), make(2, 3), make(3, 2), make.dtype, name="plain")


@sampler("addmv", reference=_sum_of(np.matmul))
def add_matrix_vector(make: Any) -> Samples:
    beta, alpha = _factors(make)
    yield Sample(make(2), make(2, 3), make(3), name="plain")
    yield Sample(make(2), make(2, 3), make(3), beta=beta, alpha=alpha, name="factors")
    yield Sample(make(), make(2, 3), make(3), beta=beta, name="broadcast scalar")
    yield Sample(make(2), make(2, 0), make(0), name="empty inner")


@sampler("addr", reference=_sum_of(np.multiply.outer))
def add_outer(make: Any) -> Samples:
    beta, alpha = _factors(make)
    yield Sample(make(2, 3), make(2), make(3), name="plain")
    yield Sample(make(3), make(2), make(3), beta=beta, alpha=alpha, name="factors, broadcast")
    yield Sample(make(2, 3), make(2), make(3), beta=0, name="beta 0")
    yield Sample(make(0, 3), make(0), make(3), name="empty")


@sampler("baddbmm", reference=_sum_of(np.matmul))
def add_batches(make: Any) -> Samples:
    beta, alpha = _factors(make)
    yield Sample(make(2, 2, 2), make(2, 2, 3), make(2, 3, 2), name="plain")
    yield Sample(make(2), make(2, 2, 3), make(2, 3, 2), beta=beta, alpha=alpha, name="broadcast")
    yield Sample(make(2, 2, 2), make(2, 2, 0), make(2, 0, 2), beta=beta, name="empty inner")


@sampler("baddbmm.dtype")
def add_batches_in_another_dtype(make: Any) -> Samples:
    yield Sample(make(2, 2, 2), make(2, 2, 3), make(2, 3, 2), make.dtype, name="plain")


@sampler("addbmm", reference=_sum_of(lambda a, b: np.matmul(a, b).sum(0)))
def add_sum_of_batches(make: Any) -> Samples:
    beta, alpha = _factors(make)
    yield Sample(make(2, 2), make(3, 2, 3), make(3, 3, 2), name="plain")
    yield Sample(make(2), make(3, 2, 3), make(3, 3, 2), beta=beta, alpha=alpha, name="broadcast")
    yield Sample(make(2, 2), make(0, 2, 3), make(0, 3, 2), beta=beta, name="empty batch")


def _linear(input: Any, weight: Any, bias: Any = None) -> Any:
    product = np.matmul(input, weight.T)
    return product if bias is None else product + bias


@sampler("linear", reference=_linear)
def layers(make: Any) -> Samples:
    yield Sample(make(4, 3), make(2, 3), make(2), name="plain")
    yield Sample(make(4, 3), make(2, 3), name="no bias")
    yield Sample(make(3), make(2, 3), make(2), name="vector")
    yield Sample(make(2, 2, 3), make(2, 3), make(2), name="batch")
    yield Sample(make(4, 3), make(3), name="one output")
    yield Sample(make(0, 3), make(2, 3), make(2), name="empty batch")
    yield Sample(make(4, 0), make(2, 0), make(2), name="no features")


@sampler("linear_backward")
def layer_gradients(make: Any) -> Samples:
    mask = (True, True, True)
    yield Sample(make(4, 3), make(4, 2), make(2, 3), mask, name="plain")
    yield Sample(make(2, 2, 3), make(2, 2, 2), make(2, 3), mask, name="batch")


@sampler("mkldnn_linear_backward_input", reference=lambda _, grad, w: grad @ w.conj())
def layer_input_gradients(make: Any) -> Samples:
    yield Sample((4, 3), make(4, 2), make(2, 3), name="plain")
    yield Sample((2, 2, 3), make(2, 2, 2), make(2, 3), name="batch")
    yield Sample((0, 3), make(0, 2), make(2, 3), name="empty batch")


def _einsum(equation: Any, tensors: Any, path: Any = None) -> Any:
    return np.einsum(equation, *tensors)


@sampler("einsum", reference=_einsum)
def equations(make: Any) -> Samples:
    for equation, *shapes in (
        ("ij,jk->ik", (2, 3), (3, 2)),
        ("ij,jk", (2, 3), (3, 2)),
        ("bij,bkj->bik", (2, 2, 3), (2, 2, 3)),
        ("...ij,...jk->...ik", (2, 1, 2, 3), (2, 3, 2)),
        ("ii->i", (3, 3)),
        ("iij->j", (2, 2, 3)),
        ("iii->i", (2, 2, 2)),
        ("iji,jk->ki", (2, 3, 2), (3, 2)),
        ("ij->ji", (2, 3)),
        ("ij->", (2, 3)),
        ("i,j->ij", (2,), (3,)),
        ("ij,kl->", (2, 2), (1, 3)),
        ("ij,ij->j", (2, 3), (2, 3)),
        ("i,i->i", (3,), (1,)),
        ("i,i->", (1,), (3,)),
        ("ij,jk,kl->il", (2, 3), (3, 2), (2, 3)),
        ("bi,oij,bj->bo", (2, 2), (2, 2, 3), (2, 3)),
        (",ij->ij", (), (2, 3)),
        ("ij,jk->ik", (2, 0), (0, 3)),
        ("ij,jk->ik", (0, 2), (2, 3)),
    ):
        operands = [make(*shape) for shape in shapes]
        empty = " empty" if any(0 in shape for shape in shapes) else ""
        yield Sample(equation, operands, name=equation + empty)
    chain = [make(2, 3), make(3, 2), make(2, 3)]
    yield Sample("ij,jk,kl->il", chain, path=(1, 2, 0, 1), name="path")


def _tensordot(self: Any, other: Any, dims_self: Any, dims_other: Any) -> Any:
    return np.tensordot(self, other, (dims_self, dims_other))


@sampler("tensordot", reference=_tensordot)
def paired_dimensions(make: Any) -> Samples:
    yield Sample(make(2, 3), make(3, 2), (1,), (0,), name="matrix product")
    yield Sample(make(2, 3, 2), make(2, 2, 3), (0, -2), (1, 2), name="two pairs")
    yield Sample(make(2, 3), make(2), (), (), name="none: outer product")
    yield Sample(make(2, 0), make(0, 3), (1,), (0,), name="empty inner")


@sampler("kron", reference=lambda self, other: np.kron(self, other))
def kronecker(make: Any) -> Samples:
    yield Sample(make(2, 2), make(2, 3), name="matrices")
    yield Sample(make(2), make(2, 3), name="different ranks")
    yield Sample(make(2, 2, 1), make(3), name="higher rank first")
    yield Sample(make(), make(2), name="0-d")
    yield Sample(make(2, 0), make(2, 2), name="empty")


@sampler("linalg_multi_dot", reference=lambda tensors: np.linalg.multi_dot(tensors))
def chains(make: Any) -> Samples:
    yield Sample([make(2, 3), make(3, 4)], name="two")
    yield Sample([make(2, 3), make(3, 1), make(1, 4), make(4, 2)], name="four")
    yield Sample([make(2), make(2, 3), make(3)], name="vectors at the ends")


def _chain(matrices: Any) -> Any:
    result = np.eye(matrices[0].shape[0])
    for matrix in matrices:
        result = np.einsum("ij,jk->ik", result, matrix)
    return result


@sampler("chain_matmul", reference=_chain)
def matrix_chains(make: Any) -> Samples:
    yield Sample([make(2, 2)], name="one")
    yield Sample([make(2, 3), make(3, 1), make(1, 4)], name="three")


@sampler("_trilinear")
def trilinear(make: Any) -> Samples:
    yield Sample(
        make(2, 3), make(4, 3, 2), make(2, 2), (1, 3), (0,), (1, 2), (2, 3), name="as bilinear"
    )
    yield Sample(make(2, 3), make(2, 3), make(2, 3), (), (), (), (1,), name="all dimensions")
    yield Sample(make(2, 1), make(1, 3), make(2, 3), (), (), (), (0,), name="broadcast")


def _bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    found = np.einsum("...i,oij,...j->...o", input1, weight, input2)
    return found if bias is None else found + bias


@sampler("bilinear", reference=_bilinear)
def bilinear(make: Any) -> Samples:
    yield Sample(make(2, 2), make(2, 3), make(4, 2, 3), make(4), name="plain")
    yield Sample(make(2), make(3), make(4, 2, 3), name="vectors, no bias")
    yield Sample(make(2, 2, 2), make(2, 2, 3), make(1, 2, 3), name="batch")


def _grouped(self: Any, mat2: Any, offs: Any = None) -> Any:
    """Every element of the operands belongs to a group, or to none."""
    if offs is None:
        return np.einsum("gij,gjk->gik", self, mat2)
    starts = np.concatenate(([0], offs[:-1]))
    size = {(2, 3): self.shape[0], (3, 2): mat2.shape[-1], (2, 2): self.shape[-1]}
    place = np.arange(size[self.ndim, mat2.ndim])
    member = ((place >= starts[:, None]) & (place < offs[:, None])).astype(self.dtype)
    equation = {(2, 3): "ij,gjk,gi->ik", (3, 2): "gij,jk,gk->ik", (2, 2): "ij,jk,gj->gik"}
    return np.einsum(equation[self.ndim, mat2.ndim], self, mat2, member)


@sampler("_grouped_mm", reference=_grouped)
def groups(make: Any) -> Samples:
    ends = ad.tensor([1, 3], dtype=ad.int32)
    yield Sample(make(3, 2), make(2, 2, 2), ends, name="rows")
    yield Sample(make(2, 2, 2), make(2, 3), ends, name="columns")
    yield Sample(make(2, 3), make(3, 2), ends, name="inner")
    yield Sample(make(2, 2, 2), make(2, 2, 3), name="batch")
    yield Sample(make(4, 2), make(2, 2, 2), ends, name="rest without a group")
    none_first = ad.tensor([0, 3], dtype=ad.int32)
    yield Sample(make(3, 2), make(2, 2, 2), none_first, name="empty group")


@sampler("trace", reference=np.trace)
def traces(make: Any) -> Samples:
    yield Sample(make(3, 3), name="square")
    yield Sample(make(2, 4).t(), name="tall and transposed")
    yield Sample(make(0, 3), name="empty")

"""Samples of eigenvalues, singular values, functions of matrices, norms, products and distances."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.kinks.fans import FAN
from adjoint.testing.samples import Sample, sampler

Samples = Iterator[Sample]


@sampler("linalg_eigvalsh")
def eigenvalues(make: Any) -> Samples:
    yield Sample(make.hermitian(3, 3), name="plain", kink=True)
    yield Sample(make.hermitian(2, 2, 2), "U", name="batch upper", kink=True)
    yield Sample(make(0, 0), name="empty", kink=True)


@sampler("linalg_svdvals")
def singular_values(make: Any) -> Samples:
    yield Sample(make.invertible(3, 3), name="square")
    yield Sample(make.invertible(4, 2), name="tall")
    yield Sample(make.invertible(2, 2, 3), name="batch wide")
    yield Sample(make(0, 2), name="empty")


@sampler("linalg_eigvals")
def general_eigenvalues(make: Any) -> Samples:
    yield Sample(_spread(make, 3), name="plain")
    if not make.is_complex:  # there LAPACK may exchange the two
        yield Sample(make.like([[1.0, 2.0], [-1.0, 0.5]]), name="conjugate pair")


def _spread(make: Any, n: int) -> Any:
    """A matrix whose eigenvalues are far apart."""
    return make.like(np.array(make.unit(n, n).detach().numpy()) + 3 * np.diag(np.arange(n)))


@sampler("_linalg_inverse_gaps")
def gaps(make: Any) -> Samples:
    yield Sample(make.like([0.5, 1.0, 2.5]), name="plain")
    yield Sample(make.like([[0.5, 1.0], [3.0, -1.0]]), name="batch")
    yield Sample(make.like([]), name="empty")


@sampler("_linalg_inverse_sums")
def sums(make: Any) -> Samples:
    yield Sample(make.like([0.5, 1.0, 2.5]), name="plain")
    yield Sample(make.like([[0.5, 1.0], [3.0, 1.0]]), name="batch")


@sampler("_linalg_require_distinct")
def distinct_values(make: Any) -> Samples:
    yield Sample(make.real(make.like([0.5, 1.0, 2.5])), 0.01, 0, name="plain")
    yield Sample(make.real(make.like([[1.0, 0.5], [3.0, 1.0]])), 0.01, 1, name="batch")


@sampler("_linalg_require_rank")
def triangles(make: Any) -> Samples:
    yield Sample(make.like([[2.0, 1.0], [0.0, 0.5]]), 0.01, name="plain")
    yield Sample(make.like([[[1.0, 3.0, 0.5], [0.0, 1.0, 2.0]]]), 0.0, name="wide")


@sampler("_linalg_inverse_values")
def inverse_values(make: Any) -> Samples:
    yield Sample(make.like([2.5, 1.0, 0.5]), None, 0.0, False, name="plain")
    yield Sample(make.like([[1.0, 0.5], [3.0, 1.0]]), make(2, 2), 0.01, False, name="batch")


@sampler("_linalg_require_diagonalizable")
def bases(make: Any) -> Samples:
    yield Sample(make.invertible(2, 2), make.like([0.5, 2.0]), 0.01, name="plain")


# Fans do not depend on the matrix, which only receives their derivative: differences see nothing.
@sampler("_linalg_eigh_fan", real=True)
def fans_of_eigenvalues(make: Any) -> Samples:
    for name, A in (("plain", make.hermitian(3, 3)), ("batch", make.hermitian(2, 2, 2))):
        w, V = ops.linalg_eigh(A.detach())
        yield Sample(_for_all(A), "L", True, w, V, 0.01, name=name, kink=True)


@sampler("_linalg_svd_fan", real=True)
def fans_of_singular_values(make: Any) -> Samples:
    for name, A in (("square", make.invertible(3, 3)), ("tall", make.invertible(4, 2))):
        U, S, Vh = ops.linalg_svd(A.detach(), False)
        yield Sample(_for_all(A), False, True, None, U, S, Vh, 0.01, name=name, kink=True)


def _for_all(A: Any) -> Any:
    return A.detach().expand((FAN, *A.shape)).clone().requires_grad_(A.requires_grad)


@sampler("_linalg_require_split_gauge")
def turns(make: Any) -> Samples:
    zero = make.like(np.zeros((2, 2)))
    yield Sample(make(FAN, 2, 2), zero, make.real(make.like([1.0, 1.0])), name="none", kink=True)


@sampler("linalg_pinv.atol_rtol_float", "linalg_pinv.atol_rtol_tensor")
def pseudo_inverses(make: Any) -> Samples:
    yield Sample(make.invertible(3, 3), name="square")
    yield Sample(make.invertible(4, 2), name="tall")
    yield Sample(make.invertible(2, 2, 3), name="batch wide")
    yield Sample(make.like(np.eye(3)), name="identity")
    yield Sample(make(0, 2), name="empty")


@sampler("linalg_pinv", "pinverse")
def pseudo_inverses_rcond(make: Any) -> Samples:
    yield Sample(make.invertible(3, 2), 1e-10, name="tall")


@sampler("_linalg_pinv_tangent")
def pseudo_inverses_along(make: Any) -> Samples:
    yield Sample(make.invertible(3, 2), make(3, 2), None, None, name="tall")
    yield Sample(make.invertible(2, 3), make(2, 2, 3), None, None, name="broadcast wide")


@sampler("linalg_lstsq")
def least_squares(make: Any) -> Samples:
    yield Sample(make.invertible(4, 2), make(4, 3), driver="gels", name="tall")
    yield Sample(make.invertible(2, 4), make(2, 1), name="wide")
    yield Sample(make.invertible(3, 3), make(3, 1), name="square")
    yield Sample(make.invertible(2, 3, 2), make(2, 3, 1), driver="gelsd", name="batch")


@sampler("_linalg_lstsq")
def least_squares_core(make: Any) -> Samples:
    yield Sample(make.invertible(4, 2), make(4, 3), 1e-12, name="tall")
    yield Sample(make.invertible(2, 3), make(2, 2, 1), 1e-12, name="broadcast wide")


@sampler("_linalg_sqrtm", "_linalg_logm")
def matrices_with_roots(make: Any) -> Samples:
    yield Sample(make.invertible(3, 3) + 4 * ops.eye(3, dtype=make.dtype), name="plain")
    yield Sample(make.invertible(2, 2, 2) + 4 * ops.eye(2, dtype=make.dtype), name="batch")


@sampler("_linalg_sylvester")
def sylvester_equations(make: Any) -> Samples:
    a, b = make.invertible(3, 3), make.invertible(2, 2)
    shift = [4 * ops.eye(n, dtype=make.dtype) for n in (3, 2)]
    yield Sample(a + shift[0], b + shift[1], make(3, 2), name="plain")
    yield Sample(a + shift[0], b + shift[1], make(2, 3, 2), name="broadcast")


@sampler("linalg_matrix_exp")
def exponentials(make: Any) -> Samples:
    yield Sample(make(3, 3), name="plain")
    yield Sample(make(2, 2, 2), name="batch")
    yield Sample(make.like(np.zeros((2, 2))), name="zero")
    yield Sample(make.like(np.array([[0.0, 1], [0, 0]])), name="nilpotent")
    yield Sample(make(0, 0), name="empty")


@sampler("linalg_matrix_power", "matrix_power")
def powers(make: Any) -> Samples:
    for n in (0, 1, 2, 3, 5, -1, -2):
        yield Sample(make.invertible(2, 2), n, name=f"n {n}")
    yield Sample(make(2, 2, 2), 3, name="batch")


@sampler("linalg_matrix_norm")
def norms(make: Any) -> Samples:
    for ord in (1, -1, 2, -2, math.inf, -math.inf):
        yield Sample(make.invertible(2, 3), ord, name=f"ord {ord}")
    yield Sample(make(2, 3, 2), 1, (0, 2), True, name="dims")
    yield Sample(make(3, 2, 2), math.inf, (1, 0), name="dims swapped")


@sampler("linalg_matrix_norm.str_ord")
def named_norms(make: Any) -> Samples:
    yield Sample(make(2, 3), name="fro")
    yield Sample(make.invertible(3, 2), "nuc", name="nuc")
    yield Sample(make.invertible(2, 3, 2), "nuc", (1, 2), True, name="nuc batch")


@sampler("linalg_norm")
def any_norm(make: Any) -> Samples:
    yield Sample(make(2, 3), name="all")
    yield Sample(make(3), 3, name="vector")
    yield Sample(make.invertible(2, 3), 2, name="matrix")
    yield Sample(make(2, 3, 2), 1, (-1,), True, name="one dim")


@sampler("linalg_norm.ord_str")
def any_named_norm(make: Any) -> Samples:
    yield Sample(make(2, 3), "fro", name="fro")


@sampler("linalg_cond")
def conditions(make: Any) -> Samples:
    for p in (None, 2, -2, 1, -1, math.inf):
        yield Sample(make.invertible(3, 3), p, name=f"p {p}")


@sampler("linalg_cond.p_str")
def named_conditions(make: Any) -> Samples:
    yield Sample(make.invertible(2, 2), "fro", name="fro")
    yield Sample(make.invertible(2, 2, 2), "nuc", name="nuc batch")


@sampler("linalg_matrix_rank.atol_rtol_float", "linalg_matrix_rank.atol_rtol_tensor")
def ranks(make: Any) -> Samples:
    yield Sample(make.invertible(3, 2), name="full")
    yield Sample(make.like(np.diag([1.0, 2.0, 0.0])), name="deficient")


@sampler("linalg_cross", reference=lambda self, other, dim=-1: np.cross(self, other, axis=dim))
def crosses(make: Any) -> Samples:
    yield Sample(make(3), make(3), name="vectors")
    yield Sample(make(2, 3), make(1, 3), name="broadcast")
    yield Sample(make(3, 2), make(3, 2), dim=0, name="dim 0")


@sampler("cross")
def crosses_legacy(make: Any) -> Samples:
    yield Sample(make(3, 2), make(3, 2), name="first of size 3")
    yield Sample(make(2, 3), make(2, 3), -1, name="dim")


@sampler("linalg_vander")
def vandermonde(make: Any) -> Samples:
    yield Sample(make(3), name="plain")
    yield Sample(make.like([[0.0, 1.0], [0.5, 0.0]]), N=4, name="zeros")


@sampler("vander")
def vandermonde_flipped(make: Any) -> Samples:
    yield Sample(make(3), name="plain")
    yield Sample(make.like([0.0, 2.0]), 3, True, name="increasing zeros")


# ---- distances --------------------------------------------------------------------------------


@sampler("cdist", "_cdist_forward", real=True)
def distances(make: Any) -> Samples:
    for p in (2.0, 1.0, 3.0, 1.5, math.inf):
        yield Sample(make.distinct(3, 2), make.unit(2, 2), p, None, name=f"p {p}")
    yield Sample(make.unit(2, 2, 3), make.unit(3, 3), 2.0, None, name="broadcast")
    yield Sample(make(2, 2), make(0, 2), 2.0, None, name="empty")
    points = [[0.5, 1.0], [2.0, 3.0]]
    yield Sample(
        make.like(points), make.like(points), 2.0, None, name="same points", kink=True, order=1
    )


@sampler("_pdist_forward", real=True)
def pair_distances(make: Any) -> Samples:
    for p in (2.0, 1.0, 2.5, math.inf):
        yield Sample(make.distinct(4, 2), p, name=f"p {p}")
    yield Sample(make(1, 2), 2.0, name="one point")


@sampler("_euclidean_dist_backward", real=True)
def gradients_of_euclidean_distances(make: Any) -> Samples:
    x, y = make(3, 2), make(4, 2)
    yield Sample(make(3, 4), x, y, make(3, 4).abs() + 1, name="plain")
    yield Sample(make(2, 3, 4), x, make(2, 4, 2), make(2, 3, 4).abs() + 1, name="batches")
    yield Sample(make(0, 4), make(0, 2), y, make(0, 4), name="no points")
    yield Sample(make(3, 4), x, y, make.like(np.zeros((3, 4))), name="coinciding", kink=True)
    near = make.like(np.array([[0.5, 1], [0.5, 1 + 2.0**-20], [3, -2]]))
    yield Sample(make(3, 4), near, y, make(3, 4).abs() * 2.0**-14 + 2.0**-14, name="near")


@sampler("_euclidean_dist_along", real=True)
def tangents_of_euclidean_distances(make: Any) -> Samples:
    x, y = make(3, 2), make(4, 2)
    yield Sample(make(3, 2), x, y, make(3, 4).abs() + 1, name="plain")
    yield Sample(make(3, 2), x, make(2, 4, 2), make(2, 3, 4).abs() + 1, name="batches")
    yield Sample(make(0, 2), make(0, 2), y, make(0, 4), name="no points")
    yield Sample(make(3, 2), x, y, make.like(np.zeros((3, 4))), name="coinciding", kink=True)


@sampler("pairwise_distance")
def row_distances(make: Any) -> Samples:
    yield Sample(make(3, 2), make(3, 2), name="plain")
    yield Sample(make(2, 2), make(2), 3.0, 1e-6, True, name="broadcast")


@sampler("cosine_similarity", real=True)
def angles(make: Any) -> Samples:
    yield Sample(make(3, 2), make(3, 2), name="rows")
    yield Sample(make(3, 2), make(2), -1, name="broadcast")
    yield Sample(make(3), make(3), 0, name="vectors")
    yield Sample(make(2), make.like([0.0, 0.0]), 0, 0.5, name="zeros", kink=True)
    yield Sample(make(0, 2), make(0, 2), name="empty")


# ---- vectors: real ones; tests/operators/test_linalg.py has the complex ones, up to their phases
# --------


@sampler("_linalg_eigh", real=True)
def eigenvectors(make: Any) -> Samples:
    yield Sample(make.hermitian(3, 3), name="plain", kink=True)
    yield Sample(make.hermitian(2, 2, 2), "U", name="batch upper", kink=True)
    yield Sample(make(0, 0), name="empty", kink=True)


@sampler("_linalg_svd", real=True)
def singular_vectors(make: Any) -> Samples:
    yield Sample(make.invertible(3, 3), name="square")
    yield Sample(make.invertible(4, 2), False, name="thin tall")
    yield Sample(make.invertible(2, 2, 3), False, name="thin batch wide")


@sampler("svd", real=True)
def singular_vectors_legacy(make: Any) -> Samples:
    yield Sample(make.invertible(3, 2), name="some")


@sampler("_lobpcg", real=True)
def some_eigenpairs(make: Any) -> Samples:
    """The limit of 50 steps is that of rounding, so that differences can be formed."""
    options = 50, 1e-15
    start = make(6, 2).detach()
    yield Sample(make.hermitian(6, 6), start, None, 2, *options, True, name="largest")
    yield Sample(make.hermitian(6, 6), start, None, 1, *options, False, name="smallest of two")
    near = make.positive_definite(6, 6).detach()
    yield Sample(
        make.hermitian(2, 6, 6), start, near, 2, *options, True, name="batch, near inverse"
    )
    one = make(3, 1).detach()
    yield Sample(make.hermitian(3, 3), one, None, 1, *options, True, name="one")

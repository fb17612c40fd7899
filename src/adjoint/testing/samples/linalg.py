"""Samples of linear algebra: shapes, batches, triangles, singular and degenerate matrices.

Operators that read one triangle of a Hermitian matrix have the gradient in the space of such
matrices (Note [Hermitian arguments] in table/linalg.yaml), which differences in single elements do
not see: their samples are marked `kink`, and tests/operators/test_linalg.py checks them through a
symmetric argument.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.samples import Sample, sampler

Samples = Iterator[Sample]


# ---- Cholesky and systems ---------------------------------------------------------------------


@sampler("linalg_cholesky_ex", "linalg_cholesky", "cholesky")
def positive_definite(make: Any) -> Samples:
    yield Sample(make.positive_definite(3, 3), name="plain", kink=True)
    yield Sample(make.positive_definite(2, 2, 2), upper=True, name="batch upper", kink=True)
    yield Sample(make.positive_definite(1, 1), name="1 by 1", kink=True)
    yield Sample(make(0, 0), name="empty", kink=True)
    yield Sample(make(0, 2, 2), name="empty batch", kink=True)
    yield Sample(make.positive_definite(3, 3).mT, name="transposed", kink=True)


def _factor(make: Any, *shape: int, upper: bool = False) -> Any:
    a = np.array(make.invertible(*shape).detach().numpy())
    n = shape[-1]
    a = a + 2 * np.eye(n)
    return make.like(np.triu(a) if upper else np.tril(a))


@sampler("cholesky_solve")
def cholesky_solve(make: Any) -> Samples:
    yield Sample(make(3, 2), _factor(make, 3, 3), name="plain")
    yield Sample(make(2, 3, 1), _factor(make, 3, 3, upper=True), True, name="broadcast upper")
    yield Sample(make(0, 2), make(0, 0), name="empty")


@sampler("cholesky_inverse")
def cholesky_inverse(make: Any) -> Samples:
    yield Sample(_factor(make, 3, 3), name="plain")
    yield Sample(_factor(make, 2, 2, 2, upper=True), True, name="batch upper")


@sampler("_linalg_solve")
def systems_checked(make: Any) -> Samples:
    for sample in _systems(make):
        yield Sample(*sample.args, True, name=sample.name)


@sampler("linalg_solve", "linalg_solve_ex", "_linalg_solve_ex")
def systems(make: Any) -> Samples:
    yield from _systems(make)
    yield Sample(make.invertible(3, 3), make(3), name="vector")
    yield Sample(make.invertible(2, 3, 3), make(2, 3), name="vectors")
    yield Sample(make.invertible(2, 2), make(3, 2), left=False, name="right")


def _systems(make: Any) -> Samples:
    yield Sample(make.invertible(3, 3), make(3, 2), name="plain")
    yield Sample(make.invertible(2, 2, 2), make(2, 2, 1), name="batch")
    yield Sample(make.invertible(2, 2), make(3, 2, 1), name="one matrix")
    yield Sample(make.invertible(3, 2, 2), make(2, 2), name="one right-hand side")
    yield Sample(make.invertible(3, 3).mT, make(2, 3).mT, name="transposed")
    yield Sample(make(0, 0), make(0, 2), name="empty")


@sampler("linalg_solve_triangular")
def triangular(make: Any) -> Samples:
    lower, upper = _factor(make, 3, 3), _factor(make, 2, 2, 2, upper=True)
    yield Sample(lower, make(3, 2), upper=False, name="lower")
    yield Sample(upper, make(2, 2, 1), upper=True, name="batch upper")
    yield Sample(lower, make(2, 3), upper=False, left=False, name="right")
    yield Sample(make.unit(3, 3), make(3, 1), upper=True, unitriangular=True, name="unit diagonal")
    yield Sample(_factor(make, 2, 2), make(3, 2, 1), upper=False, name="one matrix")
    yield Sample(make(0, 0), make(0, 2), upper=True, name="empty")
    yield Sample(_factor(make, 3, 3, upper=True).mT, make(3, 2), upper=False, name="transposed")


@sampler("triangular_solve")
def triangular_legacy(make: Any) -> Samples:
    yield Sample(make(3, 2), _factor(make, 3, 3, upper=True), name="upper")
    yield Sample(make(2, 3, 1), _factor(make, 3, 3), False, True, name="lower transposed")
    yield Sample(make(3, 1), make.unit(3, 3), True, False, True, name="unit diagonal")


@sampler("linalg_inv_ex", "linalg_inv", "inverse")
def invertible(make: Any) -> Samples:
    yield Sample(make.invertible(3, 3), name="plain")
    yield Sample(make.invertible(2, 2, 2), name="batch")
    yield Sample(make(0, 0), name="empty")
    yield Sample(make.invertible(3, 3).mT, name="transposed")


@sampler("linalg_tensorsolve")
def tensorsolve(make: Any) -> Samples:
    yield Sample(make.invertible(6, 6).reshape((2, 3, 6)), make(2, 3), name="plain")
    yield Sample(make.invertible(4, 4).reshape((4, 2, 2)), make(4), name="vector")


@sampler("linalg_tensorinv")
def tensorinv(make: Any) -> Samples:
    yield Sample(make.invertible(6, 6).reshape((2, 3, 6)), name="plain")
    yield Sample(make.invertible(4, 4).reshape((4, 2, 2)), 1, name="ind 1")


# ---- determinants -----------------------------------------------------------------------------


@sampler("_linalg_det", "linalg_det", "det", "_linalg_adjugate")
def determinants(make: Any) -> Samples:
    yield Sample(make.invertible(3, 3), name="plain")
    yield Sample(make.invertible(2, 2, 2), name="batch")
    yield Sample(make.like(np.eye(3)), name="identity")
    yield Sample(make.like(np.zeros((2, 2))), name="zero")
    yield Sample(make.like(np.outer([1.0, 2, 3], [1.0, -1, 2])), name="rank one")
    yield Sample(make.like(np.diag([1.0, 2.0, 0.0])), name="singular")
    yield Sample(make.like(np.array([[2.0, 1], [0, 2]])), name="defective")
    yield Sample(make.invertible(1, 1), name="1 by 1")
    yield Sample(make(0, 0), name="empty")


@sampler("_linalg_adjugate_tangent")
def adjugates(make: Any) -> Samples:
    yield Sample(make.invertible(3, 3), make(3, 3), name="plain")
    yield Sample(make.like(np.diag([1.0, 0.0, 0.0])), make(3, 3), name="rank one")
    yield Sample(make(2, 2), make(3, 2, 2), name="broadcast")


@sampler("_linalg_slogdet", "linalg_slogdet", "slogdet")
def signs(make: Any) -> Samples:
    yield Sample(make.invertible(3, 3), name="plain")
    yield Sample(make.invertible(2, 2, 2), name="batch")
    yield Sample(make(0, 0), name="empty")


@sampler("logdet")
def logdet(make: Any) -> Samples:
    yield Sample(make.positive_definite(3, 3), name="plain")
    yield Sample(make.positive_definite(2, 2, 2), name="batch")


# ---- QR, LU, reflections ----------------------------------------------------------------------


@sampler("linalg_qr")
def orthogonal(make: Any) -> Samples:
    yield Sample(make.invertible(3, 3), name="square")
    yield Sample(make.invertible(4, 2), name="tall")
    yield Sample(make.invertible(2, 4), name="wide")
    yield Sample(make.invertible(2, 3, 2), name="batch")
    yield Sample(make.invertible(2, 3), "complete", name="complete wide")
    yield Sample(make.invertible(3, 2), "r", name="r tall")
    yield Sample(make.invertible(2, 3), "r", name="r wide")
    yield Sample(make(0, 3), name="no rows")
    yield Sample(make(3, 0), name="no columns")


@sampler("linalg_lu_factor_ex", "linalg_lu_factor", "linalg_lu")
def triangular_factors(make: Any) -> Samples:
    yield Sample(make.invertible(3, 3), name="square")
    yield Sample(make.invertible(4, 2), name="tall")
    yield Sample(make.invertible(2, 4), name="wide")
    yield Sample(make.invertible(2, 2, 2), name="batch")
    yield Sample(make.positive_definite(3, 3), pivot=False, name="no pivots")
    yield Sample(make(0, 0), name="empty")


def _packed(make: Any, *shape: int) -> tuple[Any, Any]:
    LU, pivots = ad.linalg.lu_factor(make.invertible(*shape).detach())
    return make.like(LU.numpy()), pivots


@sampler("lu_unpack")
def unpack(make: Any) -> Samples:
    yield Sample(*_packed(make, 3, 3), name="square")
    yield Sample(*_packed(make, 2, 3, 2), name="batch tall")
    yield Sample(*_packed(make, 2, 3), True, False, name="wide, no pivots")


@sampler("linalg_lu_solve")
def lu_solve(make: Any) -> Samples:
    yield Sample(*_packed(make, 3, 3), make(3, 2), name="plain")
    yield Sample(*_packed(make, 2, 2, 2), make(2, 1), adjoint=True, name="broadcast adjoint")
    yield Sample(*_packed(make, 3, 3), make(2, 3), left=False, name="right")
    yield Sample(*_packed(make, 2, 2), make(2, 2), left=False, adjoint=True, name="right adjoint")


@sampler("lu_solve")
def lu_solve_legacy(make: Any) -> Samples:
    yield Sample(make(3, 2), *_packed(make, 3, 3), name="plain")


@sampler("_linalg_permutation")
def permutations(make: Any) -> Samples:
    yield Sample(ad.tensor([2, 2, 3], dtype=ad.int32), 3, name="plain")
    yield Sample(ad.tensor([[2, 2], [1, 3]], dtype=ad.int32), 3, name="batch tall")


@sampler("geqrf")
def reflections(make: Any) -> Samples:
    yield Sample(make.invertible(3, 3), name="square")
    yield Sample(make.invertible(4, 2), name="tall")
    yield Sample(make.invertible(2, 2, 3), name="batch wide")


def _reflectors(make: Any, *shape: int) -> tuple[Any, Any]:
    a, tau = ad.geqrf(make.invertible(*shape).detach())
    return make.like(a.numpy()), make.like(tau.numpy())


@sampler("linalg_householder_product")
def products_of_reflections(make: Any) -> Samples:
    yield Sample(*_reflectors(make, 3, 3), name="square")
    yield Sample(*_reflectors(make, 2, 4, 2), name="batch tall")
    yield Sample(make(3, 2), make(1), name="one reflection")
    yield Sample(make(0, 0), make(0), name="empty")


@sampler("ormqr")
def reflected(make: Any) -> Samples:
    yield Sample(*_reflectors(make, 3, 2), make(3, 2), name="left")
    yield Sample(*_reflectors(make, 3, 2), make(3, 2), True, True, name="left transposed")
    yield Sample(*_reflectors(make, 2, 3, 3), make(2, 2, 3), False, name="batch right")


# ---- LDLᴴ -------------------------------------------------------------------------------------


@sampler("linalg_ldl_factor_ex", "linalg_ldl_factor")
def indefinite(make: Any) -> Samples:
    yield Sample(make.hermitian(3, 3), hermitian=True, name="plain", kink=True)
    zero = np.array([[0.0, 2, 1], [2, 0, 1], [1, 1, 3]])
    yield Sample(make.like(zero), name="symmetric block", kink=True)


@sampler("linalg_ldl_solve")
def indefinite_systems(make: Any) -> Samples:
    for name, hermitian in (("hermitian", True), ("symmetric", False)):
        a = make.hermitian(3, 3).detach()
        LD, pivots = ad.linalg.ldl_factor(a if hermitian else a + a.mT, hermitian=hermitian)
        yield Sample(make.like(LD.numpy()), pivots, make(3, 2), hermitian=hermitian, name=name)


@sampler("linalg_pinv.rcond_tensor")
def pseudo_inverses_with_a_tensor(make: Any) -> Samples:
    yield Sample(make(3, 2), ad.tensor(1e-6, dtype=ad.float64), name="tall")


@sampler("linalg_matrix_rank")
def ranks(make: Any) -> Samples:
    yield Sample(make(3, 2), 1e-3, name="tall")


@sampler("linalg_matrix_rank.tol_tensor")
def ranks_with_a_tensor(make: Any) -> Samples:
    yield Sample(make(3, 2), ad.tensor(1e-3, dtype=ad.float64), name="tall")


@sampler("cdist.named_mode")
def distances_in_a_mode(make: Any) -> Samples:
    if make.dtype.is_complex:
        return
    yield Sample(make(3, 2), make(4, 2), 2.0, "use_mm_for_euclid_dist", name="by products")


@sampler("cdist.keyword_mode")
def distances_in_a_mode_by_keyword(make: Any) -> Samples:
    if make.dtype.is_complex:
        return
    yield Sample(
        make(3, 2), make(4, 2), 3.0, compute_mode="donot_use_mm_for_euclid_dist", name="p 3"
    )

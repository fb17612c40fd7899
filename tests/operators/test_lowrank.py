"""Matrices of low rank: what does not depend on the random start is exact, with derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError
from adjoint.lowrank import get_approximate_basis


def product(*shape: int, rank: int = 2, dtype: ad.DType = ad.float64) -> ad.Tensor:
    """A matrix of a rank."""
    ad.manual_seed(7)
    *batch, m, n = shape
    left, right = ad.randn(*batch, m, rank, dtype=dtype), ad.randn(*batch, rank, n, dtype=dtype)
    return left @ right


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (3, 5, 4)])
@pytest.mark.parametrize("dtype", [ad.float64, ad.complex128])
def test_svd_lowrank_gives_back_a_matrix_of_low_rank(
    shape: tuple[int, ...], dtype: ad.DType
) -> None:
    A = product(*shape, dtype=dtype)
    U, S, V = ad.svd_lowrank(A, q=3)
    assert ad.allclose((U * S.unsqueeze(-2).to(dtype)) @ V.mH, A)
    assert ad.allclose(S[..., :2], ad.linalg.svdvals(A)[..., :2])
    U, S, V = ad.svd_lowrank(A, q=2, M=0.5 * A)
    assert ad.allclose((U * S.unsqueeze(-2).to(dtype)) @ V.mH, 0.5 * A)


def test_the_gradient_of_svd_lowrank_is_that_of_the_whole_factorisation() -> None:
    left, right = product(6, 2), product(4, 2)
    small = lambda l: ad.svd_lowrank(l @ right.mT, q=2)[1].square().sum()
    whole = lambda l: ad.linalg.svdvals(l @ right.mT)[:2].square().sum()
    assert ad.allclose(ad.grad(small)(left), ad.grad(whole)(left))
    tangent = ad.ones_like(left)
    assert ad.allclose(ad.jvp(small, (left,), (tangent,))[1], ad.jvp(whole, (left,), (tangent,))[1])


def test_pca_lowrank_finds_the_components_of_centred_rows() -> None:
    A = product(7, 4) + 5
    U, S, V = ad.pca_lowrank(A, q=3)
    centred = A - A.mean((0,), keepdim=True)
    assert ad.allclose((U * S) @ V.mT, centred)
    assert ad.allclose(ad.pca_lowrank(A, q=3, center=False)[1], ad.linalg.svdvals(A)[:3])


def test_a_basis_holds_the_columns_of_a_matrix() -> None:
    A = product(5, 4)
    Q = get_approximate_basis(A, 2)
    assert ad.allclose(Q @ (Q.mT @ A), A)


def symmetric(*shape: int) -> ad.Tensor:
    generator = np.random.default_rng(2)
    A = generator.standard_normal(shape)
    return ad.from_numpy(A + np.swapaxes(A, -1, -2))


@pytest.mark.parametrize("largest", [True, False])
def test_lobpcg_gives_the_pairs_of_eigh(largest: bool) -> None:
    A = symmetric(2, 12, 12)
    values, X = ad.lobpcg(A, k=2, n=3, largest=largest, tol=1e-13)
    w = ad.linalg.eigvalsh(A)
    assert ad.allclose(values, w.flip(-1)[..., :2] if largest else w[..., :2])
    assert ad.allclose(A @ X, X * values.unsqueeze(-2), atol=1e-9)


def test_lobpcg_solves_the_generalised_problem_with_derivatives_in_both_matrices() -> None:
    A = symmetric(9, 9)
    B = symmetric(9, 9) @ symmetric(9, 9) + 3 * ad.eye(9, dtype=ad.float64)
    values, X = ad.lobpcg(A, 2, B, tol=1e-14)
    assert ad.allclose(A @ X, B @ X * values, atol=1e-8)
    assert ad.allclose(X.mT @ B @ X, ad.eye(2, dtype=ad.float64))
    start = ad.randn(9, 2, dtype=ad.float64)

    def loss(A: ad.Tensor, B: ad.Tensor) -> ad.Tensor:
        A, B = (A + A.mT) / 2, (B + B.mT) / 2
        values, X = ad.lobpcg(A, 2, B, start, tol=1e-15)
        return values.square().sum() + X.abs().sum()

    assert ad.testing.gradcheck(loss, (A.requires_grad_(), B.requires_grad_()))


def test_lobpcg_under_vmap_and_compiled_equals_a_loop() -> None:
    A, start = symmetric(3, 6, 6), ad.randn(6, 2, dtype=ad.float64)
    run = lambda A: ad.lobpcg(A, 2, X=start, tol=1e-14)[0]
    alone = ad.stack([run(a) for a in A])
    assert ad.allclose(ad.vmap(run)(A), alone)
    assert ad.allclose(ad.compile(run)(A), alone)
    gradient = ad.grad(lambda A: run(A).sum())
    assert ad.allclose(ad.vmap(gradient)(A), ad.stack([gradient(a) for a in A]))


def test_bad_arguments_are_refused() -> None:
    A = symmetric(6, 6)
    with pytest.raises(ArgumentError, match="q=7 must lie between 0 and 6"):
        ad.svd_lowrank(A, q=7)
    with pytest.raises(ShapeError, match="at least 9 rows"):
        ad.lobpcg(A, k=3)
    with pytest.raises(ShapeError, match="square"):
        ad.lobpcg(A[:, :5], k=1)
    with pytest.raises(DtypeError, match="real floating point"):
        ad.lobpcg(A.to(ad.complex128), k=1)
    with pytest.raises(ArgumentError, match="tracker"):
        ad.lobpcg(A, k=1, tracker=print)
    with pytest.raises(ArgumentError, match="'ortho' or 'basic'"):
        ad.lobpcg(A, k=1, method="other")

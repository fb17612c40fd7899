"""Linear algebra where it is delicate: singular, defective and degenerate matrices, gauges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import DtypeError, GradError, ShapeError, ValueRangeError
from adjoint.testing.certificates import matrices
from adjoint.testing.gradcheck import gradcheck, gradgradcheck

EYE = np.eye(3)
ROTATION = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
REPEATED = ROTATION @ np.diag([1.0, 1.0, 2.0]) @ ROTATION.T


def real(values: Any) -> ad.Tensor:
    return ad.tensor(np.array(values, np.float64), requires_grad=True)


def random(*shape: int, complex: bool = False, seed: int = 1) -> ad.Tensor:
    generator = np.random.default_rng(seed)
    values = generator.standard_normal(shape)
    if complex:
        values = values + 1j * generator.standard_normal(shape)
    return ad.tensor(values, requires_grad=True)


def close(a: Any, b: Any, tolerance: float = 1e-10) -> bool:
    return bool(np.allclose(np.array(a), np.array(b), rtol=tolerance, atol=tolerance))


def both_orders(f: Callable[..., Any], *inputs: ad.Tensor) -> None:
    assert gradcheck(f, inputs)
    assert gradgradcheck(f, inputs)


WEIGHTS = random(3, 3, seed=5).detach()


# ---- determinants -----------------------------------------------------------------------------

SPECIAL = {
    "identity": EYE,
    "zero": np.zeros((3, 3)),
    "rank two": np.diag([1.0, 2.0, 0.0]),
    "rank one": np.ones((3, 3)),
    "defective": np.array([[2.0, 1, 0], [0, 2, 1], [0, 0, 2]]),
    "nilpotent": np.array([[0.0, 1, 0], [0, 0, 1], [0, 0, 0]]),
}


def _hessian_of_det(a: Any) -> Any:
    """det is linear in each element, so differences with step 1 are exact."""
    det = np.linalg.det
    result = np.zeros((3, 3, 3, 3))
    for i in np.ndindex(3, 3):
        for j in np.ndindex(3, 3):
            if i != j:
                e, f = np.zeros((3, 3)), np.zeros((3, 3))
                e[i], f[j] = 1, 1
                result[i + j] = (det(a + e + f) - det(a + e) - det(a + f) + det(a)).round(12)
    return result


@pytest.mark.parametrize("name", SPECIAL)
def test_hessian_of_det(name: str) -> None:
    assert close(
        ad.hessian(ad.linalg.det)(ad.tensor(SPECIAL[name])), _hessian_of_det(SPECIAL[name])
    )


def test_third_derivative_of_det_is_the_permutation_symbol() -> None:
    third = ad.jacfwd(ad.hessian(ad.linalg.det))(ad.tensor(np.ones((3, 3))))
    assert math.isclose(float(third.abs().sum()), 36.0, rel_tol=1e-12)


def test_logdet_and_slogdet_of_negative_determinants() -> None:
    a = real([[0.0, 1.0], [1.0, 0.0]])
    assert math.isnan(float(ad.logdet(a)))
    sign, size = ad.linalg.slogdet(a)
    assert (float(sign), float(size)) == (-1.0, 0.0)


# ---- repeated eigenvalues and singular values -------------------------------------------------


def from_svd(a: ad.Tensor, g: Callable[[ad.Tensor], ad.Tensor] = lambda s: s) -> ad.Tensor:
    U, S, Vh = ad.linalg.svd(a, full_matrices=False)
    return (U * g(S)) @ Vh


def from_eigh(a: ad.Tensor, g: Callable[[ad.Tensor], ad.Tensor] = lambda w: w) -> ad.Tensor:
    w, V = ad.linalg.eigh(a)
    return (V * g(w)) @ V.mH


def test_polar_factor_at_the_identity() -> None:
    found = ad.grad(lambda a: (WEIGHTS * from_svd(a, lambda s: s**0)).sum())(ad.tensor(EYE))
    assert close(found, (WEIGHTS - WEIGHTS.mT) / 2)


def test_projector_on_a_degenerate_space() -> None:
    def inside(a: ad.Tensor) -> ad.Tensor:
        V = ad.linalg.eigh(a)[1][:, :2]
        return (WEIGHTS * (V @ V.mT)).sum()

    def outside(a: ad.Tensor) -> ad.Tensor:
        v = ad.linalg.eigh(a)[1][:, 2]
        return -(WEIGHTS * ad.outer(v, v)).sum()

    x = ad.tensor(REPEATED)
    assert close(ad.grad(inside)(x), ad.grad(outside)(x))


def test_simple_eigenvector_beside_a_degenerate_pair() -> None:
    def f(a: ad.Tensor) -> ad.Tensor:
        v = ad.linalg.eigh(0.5 * (a + a.mT))[1][:, 2]
        return v * v[0].sign()

    x = real(REPEATED)
    assert gradcheck(f, (x,), check_forward_ad=False)


@pytest.mark.parametrize("f", [
    lambda a: ad.linalg.svd(a)[0].sum(),
    lambda a: ad.linalg.svd(a)[2][0, 0],
    lambda a: ad.linalg.eigh(a)[1].sum(),
    lambda a: ad.linalg.eigh(a)[1][:, 0].sum(),
])  # fmt: skip
def test_function_of_the_basis_of_a_repeated_value_raises(f: Callable[..., Any]) -> None:
    with pytest.raises(GradError, match="depends on that choice"):
        ad.grad(f)(ad.tensor(EYE))


def test_function_of_the_phase_of_a_complex_vector_raises() -> None:
    a = random(3, 3, complex=True)
    with pytest.raises(GradError, match="depends on that choice"):
        ad.linalg.svd(a)[0].real.sum().backward()
    with pytest.raises(GradError, match="depends on that choice"):
        ad.linalg.eig(a)[1].real.sum().backward()


def test_full_svd_and_qr_raise_for_the_basis_of_the_complement() -> None:
    a = random(4, 2)
    with pytest.raises(GradError, match="rotation among themselves"):
        (random(4, 4) * ad.linalg.svd(a)[0]).sum().backward()
    with pytest.raises(GradError, match="rotation among themselves"):
        (random(4, 4) * ad.linalg.qr(a, "complete")[0]).sum().backward()


def test_full_svd_and_qr_of_the_space_of_the_complement() -> None:
    a = random(4, 2)
    both_orders(lambda a: (lambda q: q @ q.mH)(ad.linalg.svd(a)[0][:, 2:]), a)
    both_orders(lambda a: (lambda q: q @ q.mH)(ad.linalg.qr(a, "complete")[0][:, 2:]), a)


SECOND_ORDER = {
    "hessian": ad.hessian,
    "forward over reverse": lambda f: ad.jacfwd(ad.jacrev(f)),
    "reverse over forward": lambda f: ad.jacrev(ad.jacfwd(f)),
    "forward over forward": lambda f: ad.jacfwd(ad.jacfwd(f)),
    "reverse over reverse": lambda f: ad.jacrev(ad.jacrev(f)),
    "vmap": lambda f: lambda x: ad.vmap(ad.hessian(f))(ad.stack([x, x]))[1],
}


def second_order(f: Callable[..., Any], x: Any, true: Any, tolerance: float = 1e-7) -> None:
    """Every composition of two derivatives, and backward of backward, gives the same."""
    x, size = ad.tensor(np.array(x, np.float64)), np.size(x)
    for name, transform in SECOND_ORDER.items():
        found = transform(f)(x).reshape(size, size)
        assert close(found, np.reshape(true, (size, size)), tolerance), name
    y = x.clone().requires_grad_()
    (first,) = ad.autograd.grad(f(y), [y], create_graph=True)
    rows = [ad.autograd.grad(g, [y], retain_graph=True)[0] for g in first.reshape(-1)]
    assert close(ad.stack(rows).reshape(size, size), np.reshape(true, (size, size)), tolerance)


def symmetric(a: ad.Tensor) -> ad.Tensor:
    return 0.5 * (a + a.mT)


def hessian_of(f: Callable[..., Any], x: Any) -> Any:
    return ad.hessian(f)(ad.tensor(np.array(x, np.float64)))


def test_a_sum_of_different_functions_in_one_degenerate_space() -> None:
    def f(exp: Callable[..., Any], cube: Callable[..., Any]) -> Callable[..., Any]:
        return lambda a: (WEIGHTS * exp(a)).sum() + (WEIGHTS.mT * WEIGHTS * cube(a)).sum()

    by_vectors = f(
        lambda a: from_eigh(symmetric(a), ad.exp), lambda a: from_eigh(symmetric(a), lambda w: w**3)
    )
    true = f(
        lambda a: ad.linalg.matrix_exp(symmetric(a)),
        lambda a: ad.linalg.matrix_power(symmetric(a), 3),
    )
    x = ad.tensor(REPEATED)
    assert close(ad.grad(by_vectors)(x), ad.grad(true)(x), 1e-9)
    assert close(ad.jacfwd(by_vectors)(x), ad.grad(true)(x), 1e-9)
    second_order(by_vectors, REPEATED, hessian_of(true, REPEATED))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("matrix", [
    [[1.0, 2, 3], [2, 4, 6]], [[1.0, 2], [2, 4], [3, 6]], np.zeros((2, 3)),
    [[1.0, 0], [0, 1], [0, 0]],
])  # fmt: skip
def test_singular_vectors_of_deficient_matrices(matrix: Any, full: bool) -> None:
    def f(a: ad.Tensor) -> ad.Tensor:
        U, S, Vh = ad.linalg.svd(a, full_matrices=full)
        k = S.shape[-1]
        return ((U[:, :k] * S) @ Vh[:k]) ** 3

    x = ad.tensor(np.array(matrix))
    true = ad.jacrev(lambda a: a**3)(x)
    assert close(ad.jacrev(f)(x), true, 1e-8)
    assert close(ad.jacfwd(f)(x), true, 1e-8)
    second_order(lambda a: f(a).sum(), matrix, hessian_of(lambda a: (a**3).sum(), matrix))


@pytest.mark.parametrize("derivative", [ad.jacrev, ad.jacfwd, ad.hessian])
@pytest.mark.parametrize(("f", "matrix"), [
    (lambda a: ad.linalg.svd(a, full_matrices=False)[0].sum(), np.zeros((2, 3))),
    (lambda a: ad.linalg.svd(a, full_matrices=False)[2][1].sum(), [[1.0, 2, 3], [2, 4, 6]]),
    (lambda a: ad.linalg.svd(a)[0][:, 2].sum(), [[1.0, 2], [2, 4], [3, 6]]),
])  # fmt: skip
def test_functions_of_the_vectors_of_a_zero_singular_value_raise(
    f: Callable[..., Any], matrix: Any, derivative: Callable[..., Any]
) -> None:
    with pytest.raises(GradError, match="no derivative"):
        derivative(f)(ad.tensor(np.array(matrix)))


def test_graphs_at_lower_rank_are_right_or_raise() -> None:
    x = ad.tensor(np.array([[1.0, 2, 3], [2, 4, 6]]))

    def parts(a: ad.Tensor, count: int) -> ad.Tensor:
        U, S, Vh = ad.linalg.svd(a, full_matrices=False)
        return ((U[:, :count] * S[:count]) @ Vh[:count] * WEIGHTS[:2]).sum()

    leading = ad.grad(lambda a: parts(a, 1))
    assert close(ad.trace(leading, x)(x), leading(x), 1e-9)
    whole = ad.grad(lambda a: parts(a, 2))
    assert close(whole(x), WEIGHTS[:2], 1e-9)
    with pytest.raises(GradError, match="without ad.trace"):
        ad.trace(whole, x)(x)
    assert close(ad.compile(whole)(x), WEIGHTS[:2], 1e-9)


def test_the_left_vectors_of_a_wide_matrix_of_less_than_full_rank() -> None:
    f = lambda a: ad.linalg.svd(a, full_matrices=False)[0].abs()
    assert gradcheck(f, (real([[1.0, 2, 3], [2, 4, 6]]),))


@pytest.mark.parametrize("transform", [ad.grad, ad.jacfwd])
def test_eigenvectors_of_a_degenerate_matrix_raise(transform: Callable[..., Any]) -> None:
    with pytest.raises(GradError, match="no derivative"):
        transform(lambda a: (WEIGHTS * ad.linalg.eig(a)[1].abs()).sum())(ad.tensor(REPEATED))


def test_values_without_gradients_are_as_lapack_gives_them() -> None:
    assert close(ad.linalg.eigh(ad.tensor(EYE))[1], EYE)


# ---- Hermitian arguments and complex vectors, through functions that do not see the gauge ------


@pytest.mark.parametrize("complex", [False, True])
def test_cholesky_and_eigh_of_a_symmetric_argument(complex: bool) -> None:
    a = random(3, 3, complex=complex)
    both_orders(lambda a: ad.linalg.cholesky(a @ a.mH + ad.eye(3, dtype=ad.float64)), a)
    both_orders(lambda a: ad.linalg.cholesky(a @ a.mH + ad.eye(3, dtype=ad.float64), upper=True), a)
    both_orders(lambda a: ad.linalg.eigvalsh(a + a.mH), a)
    both_orders(lambda a: from_eigh(a + a.mH, ad.sin), a)
    both_orders(lambda a: ad.linalg.eigh(a + a.mH)[1].abs(), a)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 3)])
def test_complex_svd_and_qr(shape: tuple[int, int]) -> None:
    a = random(*shape, complex=True)
    both_orders(lambda a: ad.linalg.svd(a, full_matrices=False)[0].abs(), a)
    both_orders(lambda a: from_svd(a, ad.sin), a)
    both_orders(lambda a: ad.linalg.qr(a), a)


@pytest.mark.parametrize("complex", [False, True])
def test_eig(complex: bool) -> None:
    a = random(3, 3, complex=complex)
    both_orders(lambda a: ad.linalg.eig(a)[1].abs(), a)


# ---- pseudo-inverses and least squares --------------------------------------------------------


def test_pinv_near_a_change_of_rank() -> None:
    a = np.diag([2.0, 1.0, 1e-3]) @ ROTATION
    both = real(a)
    assert gradcheck(lambda a: ad.linalg.pinv(a, rtol=1e-2), (both,))
    assert gradcheck(lambda a: ad.linalg.pinv(a, rtol=1e-6) * 1e-6, (both,), atol=1e-3)


def test_pinv_of_deficient_matrices_along_their_rank() -> None:
    x, y = random(4, 2), random(2, 3, seed=3)
    both_orders(lambda x, y: ad.linalg.pinv(x @ y), x, y)


def test_lstsq_of_deficient_matrices_is_the_shortest() -> None:
    a, b = np.outer([1.0, 2, 3], [1.0, 1.0]), np.array([[1.0], [0.0], [2.0]])
    solution, _, rank, _ = ad.linalg.lstsq(ad.tensor(a), ad.tensor(b))
    assert close(solution, np.linalg.lstsq(a, b, rcond=None)[0])
    assert int(rank) == 1


# ---- distances --------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_cdist_at_coinciding_points_is_finite(p: float) -> None:
    x = real([[0.0, 1.0], [2.0, 3.0], [2.0, 3.0]])
    y = real([[2.0, 3.0], [-1.0, 0.5]])
    (grad,) = ad.autograd.grad(ad.cdist(x, y, p).sum(), [x], create_graph=True)
    assert bool(grad.isfinite().all())
    if p >= 1:
        (second,) = ad.autograd.grad((grad * grad).sum(), [x])
        assert bool(second.isfinite().all())


NEAR_AND_FAR = np.array([[0.5, 0.25], [3.0, 1.0], [-1.0, 2.0]])
DIRECTION = np.array([[1.0, -2.0], [0.5, 3.0], [2.0, 1.0]])


def distances_along(x: Any, y: Any, p: float) -> tuple[Any, Any]:
    """The derivative of all distances along DIRECTION, and the Hessian of their sum times it."""
    difference = x[:, None] - y
    r = np.linalg.norm(difference, p, -1, keepdims=True)
    r = np.where(r == 0, np.inf, r)
    n = np.sign(difference) * np.abs(difference / r) ** (p - 1)
    along = (n * DIRECTION[:, None]).sum(-1)
    curved = np.abs(difference / r) ** (p - 2) * DIRECTION[:, None] - n * along[..., None]
    return along, ((p - 1) * curved / r).sum(1)


@pytest.mark.parametrize("way", ["eager", "compiled"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("p", [2.0, 3.0])
@pytest.mark.parametrize("gap", [1.0, 1e-5, 0.0])
def test_derivatives_of_distances_at_every_scale(
    p: float, gap: float, dtype: str, way: str
) -> None:
    """Also of points much nearer to each other than to the rest; of infinitely near ones 0."""
    points = NEAR_AND_FAR, np.array([[0.0, 2.5], [3.0 + gap, 1.0 + 2 * gap]])
    most = 90 if dtype == "float32" else 700 if gap else 300  # δ² is 2⁻⁴⁰⁰
    put = lambda array: ad.tensor(array, dtype=getattr(ad, dtype))
    given = ad.compile if way == "compiled" else lambda f: f
    for exponent in (0, -most // 2, most // 2, -most, most):
        x, y = [put(np.ldexp(a, exponent)) for a in points]
        f = lambda x, y=y: ad.cdist(x, y, p)
        g = ad.grad(lambda x, f=f: f(x).sum())
        v = put(DIRECTION)
        exact = [np.ldexp(t.numpy().astype(float), -exponent) for t in (x, y)]
        along, curved = distances_along(*exact, p)
        tolerance = 1e-11 if dtype == "float64" else 1e-4
        forward = given(lambda x, f=f, v=v: ad.jvp(f, (x,), (v,))[1])(x)
        np.testing.assert_allclose(forward.numpy(), along, 0, tolerance)
        np.testing.assert_allclose(
            (given(g)(x).numpy() * DIRECTION).sum(1), along.sum(1), 0, tolerance
        )
        for second in (
            lambda x, g=g, v=v: ad.jvp(g, (x,), (v,))[1],
            lambda x, g=g, v=v: ad.grad(lambda x: (g(x) * v).sum())(x),
        ):
            found = np.ldexp(given(second)(x).numpy().astype(float), exponent)
            np.testing.assert_allclose(found, curved, 0, tolerance * np.abs(curved).max())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("p", [-3.0, -1.0, 0.5, 2.5, 3.0, 7.0])
@pytest.mark.parametrize("x", [[3.0, -4, 0.5], [3.0, 0, 1], [0.0, 0, 0], [math.inf, 1, 2],
                               [math.nan, 1, 0], [math.inf] * 3])  # fmt: skip
def test_compiled_norms_have_no_powers_out_of_range(x: Any, p: float, dtype: str) -> None:
    rounding = 1e-14 if dtype == "float64" else 2e-6
    for exponent in (0, -900, 900) if dtype == "float64" else (0, -100, 100):
        given = ad.tensor(np.ldexp(x, exponent), dtype=getattr(ad, dtype))
        norm = lambda x: ad.linalg.vector_norm(x, p)
        compiled = ad.compile(norm)(given).numpy()
        np.testing.assert_allclose(compiled, norm(given).numpy(), rounding)


# ---- norms at their kinks ----------------------------------------------------------------------


def test_what_comes_from_a_kink_shows_its_value() -> None:
    x = real(np.zeros((2, 3)))
    y = ad.linalg.vector_norm(x, dim=1)
    assert y.tolist() == [0.0, 0.0]
    assert bool((y == 0).all())
    assert (y * 2 + 1).tolist() == [1.0, 1.0]
    y += 1
    assert y.tolist() == [1.0, 1.0]
    value, gradient = ad.value_and_grad(lambda x: x.norm())(x.detach())
    assert float(value) == 0
    assert not value.requires_grad
    assert not gradient.numpy().any()


# ---- reflections ------------------------------------------------------------------------------


@pytest.mark.parametrize("complex", [False, True])
def test_geqrf_and_its_product_are_qr(complex: bool) -> None:
    a = random(4, 3, complex=complex)
    packed, tau = ad.geqrf(a)
    assert close(
        (ad.linalg.householder_product(packed, tau) @ packed[:3].triu()).detach(), a.detach()
    )
    both_orders(lambda a: ad.geqrf(a), a)


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("complex", [False, True])
def test_ldl_to_second_order(complex: bool, hermitian: bool) -> None:
    a = random(4, 4, complex=complex)
    shift = ad.tensor(np.diag([0.0, 0.0, 5.0, 0.1]))

    def symmetric(a: ad.Tensor) -> ad.Tensor:
        return a + (a.mH if hermitian else a.mT) + shift

    both_orders(lambda a: ad.linalg.ldl_factor(symmetric(a), hermitian=hermitian)[0], a)
    LD, pivots = ad.linalg.ldl_factor(symmetric(a).detach(), hermitian=hermitian)
    solve = ad.linalg.ldl_solve
    b = random(4, 2, complex=complex, seed=9)
    assert close(
        symmetric(a).detach() @ solve(LD, pivots, b.detach(), hermitian=hermitian), b.detach()
    )
    both_orders(lambda f, b: solve(f, pivots, b, hermitian=hermitian), LD.requires_grad_(), b)


# ---- errors -----------------------------------------------------------------------------------


def test_errors_say_what_is_wrong() -> None:
    with pytest.raises(ShapeError, match="square"):
        ad.linalg.inv(ad.ones(2, 3))
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        ad.linalg.solve(ad.ones(2, 2), ad.ones(2))
    with pytest.raises(ValueRangeError, match="leading minor of order 2 is not positive"):
        ad.linalg.cholesky(ad.tensor([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(RuntimeError, match="batch element 1"):
        ad.linalg.inv(ad.stack([ad.eye(2), ad.zeros(2, 2)]))
    with pytest.raises(DtypeError, match="float32"):
        ad.linalg.det(ad.ones(2, 2, dtype=ad.int64))
    with pytest.raises(ValueRangeError, match="pivots"):
        ad.linalg.lu_solve(ad.eye(2), ad.tensor([7, 2], dtype=ad.int32), ad.eye(2))
    with pytest.raises(ShapeError, match="matrix"):
        ad.vmap(ad.linalg.inv)(ad.eye(2))


def test_singular_matrices_do_not_raise_in_ex() -> None:
    inverse, info = ad.linalg.inv_ex(ad.stack([ad.eye(2), ad.zeros(2, 2)]))
    assert info.tolist() == [0, 1]
    assert bool(inverse[0].isfinite().all())
    _, info = ad.linalg.cholesky_ex(ad.tensor([[1.0, 2.0], [2.0, 1.0]]))
    assert int(info) == 2


# -- parts of a decomposition that are not there ---------------------------------------------------


@pytest.mark.parametrize("size", [0, 3])
@pytest.mark.parametrize(
    "absent",
    [
        lambda A: ad.ops._linalg_eigh(A, compute_v=False)[1:],
        lambda A: ad.ops._linalg_svd(A, compute_uv=False)[::2],
        lambda A: ad.linalg.qr(A, mode="r")[:1],
    ],
    ids=["eigh", "svd", "qr"],
)
def test_what_stands_for_absent_vectors_depends_on_nothing(absent: Any, size: int) -> None:
    A = ad.eye(size, dtype=ad.float64).requires_grad_()
    for part in absent(A):
        assert part.numel() == 0
        if part.requires_grad:
            part.backward(ad.ones_like(part), retain_graph=True)
    assert A.grad is None or not A.grad.any()


@pytest.mark.parametrize("way", ["eager", "recorded", "mapped", "traced"])
@pytest.mark.parametrize("name", ["eigh", "svd"])
def test_values_that_are_parted_must_be_real(name: str, way: str) -> None:
    A = ad.eye(3, dtype=ad.complex128).expand(2, 3, 3).clone()
    values = ad.ones(2, 3, dtype=ad.complex128)

    def fan(A: ad.Tensor, values: ad.Tensor) -> Any:
        if name == "eigh":
            return ad.ops._linalg_eigh_fan(A, "L", True, values, A, 0.01)
        return ad.ops._linalg_svd_fan(A, False, True, None, A, values, A, 0.01)

    ways: dict[str, Callable[[], Any]] = {
        "eager": lambda: fan(A, values),
        "recorded": lambda: fan(A.requires_grad_(), values),
        "mapped": lambda: ad.vmap(fan)(A, values),
        "traced": lambda: ad.trace(fan, A, values),
    }
    with pytest.raises(DtypeError, match="are real, float32 or float64; got ad.complex128"):
        ways[way]()


def test_the_number_of_differences_is_not_known_where_a_difference_is_not() -> None:
    x = ad.tensor([[math.inf, 1.0], [math.inf, 2.0], [0.0, 2.0], [math.nan, 2.0]])
    assert ad.pdist(x, 0.0).nan_to_num(-1.0).tolist() == [-1.0, 2.0, -1.0, 1.0, -1.0, -1.0]
    assert ad.cdist(x[:1], x, 0.0).nan_to_num(-1.0).tolist() == [[-1.0, -1.0, 2.0, -1.0]]


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, math.inf])
@pytest.mark.parametrize(("count", "width"), [(0, 3), (1, 3), (2, 0), (5, 3), (300, 7)])
def test_pdist_is_the_triangle_of_cdist(count: int, width: int, p: float) -> None:
    x = ad.tensor(np.random.default_rng(0).standard_normal((count, width)))
    x = x.masked_fill(x > 2.5, math.nan)
    above = np.triu_indices(count, 1)
    np.testing.assert_allclose(ad.pdist(x, p), ad.cdist(x, x, p).numpy()[above], rtol=1e-14)
    half = ad.pdist(x.half(), p)
    assert half.dtype is ad.float16
    np.testing.assert_allclose(half, ad.cdist(x.half().double(), x.half().double(), p)[above], 4e-3)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.complex64])
def test_cross_products_of_many_points_are_numpys(dtype: Any, dim: int) -> None:
    shape = [3 if d == dim % 3 else 90 for d in range(3)]
    a, b = (np.random.default_rng(k).integers(-9, 9, shape).astype(dtype) for k in (0, 1))
    found = ad.linalg.cross(ad.tensor(a), ad.tensor(b), dim=dim)
    assert found.dtype is ad.tensor(a).dtype
    np.testing.assert_array_equal(found, np.cross(a, b, axis=dim))
    one = ad.linalg.cross(ad.tensor(a), ad.tensor(b).narrow(dim - 1, 0, 1), dim=dim)
    np.testing.assert_array_equal(one, np.cross(a, np.take(b, [0], dim - 1), axis=dim))
    itself = ad.linalg.cross(ad.tensor(a) / 7, ad.tensor(a) / 7, dim=dim)
    assert not itself.any()


def test_cross_products_of_truths_are_refused() -> None:
    with pytest.raises(DtypeError):
        ad.linalg.cross(ad.ones(3, dtype=ad.bool), ad.ones(3, dtype=ad.bool))


def test_pdist_refuses_what_has_no_distances() -> None:
    for dtype in (ad.int64, ad.bool):
        with pytest.raises(DtypeError, match="floating point or complex"):
            ad.pdist(ad.ones(3, 2, dtype=dtype))
    with pytest.raises(ShapeError, match="matrix of points"):
        ad.pdist(ad.ones(3))
    with pytest.raises(ValueRangeError, match="must not be negative"):
        ad.pdist(ad.ones(3, 2), -1.0)
    assert ad.pdist(ad.ones(3, 2, dtype=ad.complex64)).dtype is ad.float32


@pytest.mark.parametrize("name", ["_euclidean_dist_backward", "_euclidean_dist_along"])
@pytest.mark.parametrize("dtype", [ad.int64, ad.float16, ad.complex128, ad.float32])
def test_derivatives_of_distances_refuse_another_dtype(name: str, dtype: Any) -> None:
    """In graphs, too, where they are decomposed."""
    op, points, others = getattr(ad.ops, name), ad.ones(3, 2).double(), ad.zeros(4, 2).double()
    first = ad.ones(3, 4 if name == "_euclidean_dist_backward" else 2).double()
    given = [first, points, others, ad.ones(3, 4, dtype=dtype)]
    for call in (op, lambda *args: ad.trace(op, *args)):
        with pytest.raises(ValueRangeError, match="needs float32 or float64"):
            call(*given)
        with pytest.raises(ValueRangeError, match="needs float32 or float64"):
            call(*(t.half() for t in given))


def test_derivatives_of_lu_do_not_divide_by_its_last_pivot() -> None:
    """Third derivatives of nearly singular A: the last pivot, 2e-5 of 1e5, would lose 9 digits."""
    lu = {f.title: f for f in matrices.functions()}["L and U by lu, general"]
    values = [0.3676901392308416, 1.7392384459785664, 2.359478201464808, 3.4221794119234956]
    x, w, e, known = matrices.case(lu, values, "float64", 770067)
    for mode in ("fff", "rrr", "ffr", "rff"):
        found = float(matrices.derivative(lambda y: lu.ours(y, w), mode, e)(x))
        assert matrices.compared(found, known, 3, "").error <= 10

"""Derivatives at kinks and at repeated values: one truth for every composition of modes.

The law: for every row with the column `kink` or `fan`, and at regular and degenerate points alike,
each composition of two derivatives gives the derivative of a smooth function that is the same, in
eager mode, under vmap, and compiled; a graph gives it or raises. Third derivatives are held to a
wider tolerance.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import DegenerateError, InplaceError
from adjoint.kernels.linalg.limits import limit_of_fan
from adjoint.kinks.fans import steps_of
from adjoint.table import TABLE
from adjoint.testing.certificates import matrices

Function = Callable[[Any], Any]

WEIGHTS = ad.tensor(np.array([[1.0, 2, 0.5], [3, 5, -1], [0.3, 0.7, 2]]))
REGULAR = np.array([[1.0, 2, 0.3], [-0.5, 3, 1], [0.2, 0.7, -2]])
EYE, ZERO, TWICE = np.eye(3), np.zeros((3, 3)), np.diag([2.0, 2, 1])
DEFICIENT = np.array([[1.0, 2, 1], [2, 4, 2], [-1, -2, 3]])  # of rank 2
DEFECTIVE = np.array([[2.0, 1, 0], [0, 2, 0], [0, 0, 1]])


def symmetric(a: Any) -> Any:
    return 0.5 * (a + a.mT)


def through_eigh(a: Any) -> Any:
    w, V = ad.linalg.eigh(symmetric(a))
    return (WEIGHTS * ((V * w.exp()) @ V.mT)).sum()


def through_svd(a: Any) -> Any:
    U, S, Vh = ad.linalg.svd(a, full_matrices=False)
    return (WEIGHTS * ((U * S) @ Vh) ** 2).sum()


def through_eig(a: Any) -> Any:
    w, V = ad.linalg.eig(a)
    return ad.real((WEIGHTS * (V @ ad.diag(w**2) @ ad.linalg.inv(V))).sum())


def through_qr(a: Any) -> Any:
    Q, R = ad.linalg.qr(a)
    return (WEIGHTS * (Q @ R) ** 2).sum()


def through_lu(a: Any) -> Any:
    P, L, U = ad.linalg.lu(a)
    return (WEIGHTS * (P @ L @ U) ** 2).sum()


# name: the row, a function through it, the same function without it, and where
CASES: dict[str, tuple[str, Function, Function, list[Any]]] = {
    "eigvalsh": (
        "_linalg_eigh.default", lambda a: (ad.linalg.eigvalsh(symmetric(a)) ** 3).sum(),
        lambda a: (symmetric(a) @ symmetric(a) @ symmetric(a)).trace(), [EYE, ZERO, TWICE, REGULAR],
    ),
    "eigh": (
        "_linalg_eigh.default", through_eigh,
        lambda a: (WEIGHTS * ad.linalg.matrix_exp(symmetric(a))).sum(), [EYE, ZERO, TWICE, REGULAR],
    ),
    "svdvals": (
        "_linalg_svd.default", lambda a: (ad.linalg.svdvals(a) ** 2).sum(),
        lambda a: (a * a).sum(), [EYE, ZERO, TWICE, REGULAR],
    ),
    "svd": (
        "_linalg_svd.default", through_svd, lambda a: (WEIGHTS * a**2).sum(),
        [EYE, ZERO, REGULAR],
    ),
    "eigvals": (
        "linalg_eig.default", lambda a: ad.real((ad.linalg.eigvals(a) ** 2).sum()),
        lambda a: (a @ a).trace(), [EYE, TWICE, DEFECTIVE, REGULAR],
    ),
    "eig": (
        "linalg_eig.default", through_eig, lambda a: (WEIGHTS * (a @ a)).sum(),
        [EYE, DEFECTIVE, REGULAR],
    ),
    "qr": (
        "linalg_qr.default", through_qr, lambda a: (WEIGHTS * a**2).sum(),
        [EYE, ZERO, DEFICIENT, REGULAR],
    ),
    "lu": (
        "linalg_lu_factor_ex.default", through_lu, lambda a: (WEIGHTS * a**2).sum(),
        [EYE, DEFECTIVE, REGULAR],
    ),
    "norm": (
        "linalg_vector_norm.default", lambda a: ad.linalg.vector_norm(a) ** 4,
        lambda a: (a * a).sum() ** 2, [ZERO, REGULAR],
    ),
    "norms": (
        "linalg_vector_norm.default",
        lambda a: (ad.linalg.vector_norm(a, dim=1) ** 2 * WEIGHTS[0]).sum(),
        lambda a: ((a * a).sum(1) * WEIGHTS[0]).sum(), [ZERO, np.diag([1.0, 0, 0]), REGULAR],
    ),
    "hypot": (
        "hypot.default", lambda a: (ad.hypot(a[0], a[1]) ** 2 * WEIGHTS[0]).sum(),
        lambda a: ((a[0] ** 2 + a[1] ** 2) * WEIGHTS[0]).sum(), [ZERO, EYE, REGULAR],
    ),
    "abs": (
        "abs.default", lambda a: (WEIGHTS * a.abs() ** 4 + a.abs() ** 2).sum(),
        lambda a: (WEIGHTS * a**4 + a**2).sum(), [ZERO, EYE, REGULAR],
    ),
    "std": (
        "std.correction", lambda a: (a.std(1) ** 2 * WEIGHTS[0]).sum(),
        lambda a: (a.var(1) * WEIGHTS[0]).sum(), [ZERO, np.ones((3, 3)), REGULAR],
    ),
    "sqrt": (
        "sqrt.default", lambda a: (WEIGHTS * ((a * a).sqrt() ** 2 + a * a)).sum(),
        lambda a: (2 * WEIGHTS * a * a).sum(), [ZERO, EYE, REGULAR],
    ),
    "_above": (
        "_above.default", lambda a: (ad.linalg.vecdot(a, a).sqrt().cosh() * WEIGHTS[0]).sum(),
        lambda a: _cosh_of_length(a), [ZERO, REGULAR],
    ),
    "power": (
        "pow.Tensor_Scalar", lambda a: (WEIGHTS * ((a * a) ** 0.5) ** 2).sum(),
        lambda a: (WEIGHTS * a * a).sum(), [ZERO, EYE, REGULAR],
    ),
}  # fmt: skip


def _cosh_of_length(a: Any) -> Any:
    """Its first terms, which are all that a derivative at 0 has, and all of them elsewhere."""
    squares = (a * a).sum(1)
    length = (squares + (squares == 0)).sqrt()
    at_zero = 1 + squares / 2 + squares**2 / 24
    return (WEIGHTS[0] * ad.where(squares == 0, at_zero, length.cosh())).sum()


def _by_vjp(f: Function) -> Function:
    def gradient(x: Any) -> Any:
        output, pull = ad.vjp(f, x)
        return pull(ad.ones_like(output))[0]

    return gradient


def _by_jvp(f: Function) -> Function:
    def jacobian(x: Any) -> Any:
        basis = ad.eye(x.numel(), dtype=x.dtype).reshape(-1, *x.shape)
        columns = ad.vmap(lambda v: ad.jvp(f, (x,), (v,))[1], out_dims=-1)(basis)
        return columns.reshape(*columns.shape[:-1], *x.shape)

    return jacobian


def _in_a_batch(f: Function) -> Function:
    return lambda x: ad.vmap(f)(ad.stack([x, x + ad.tensor(REGULAR)]))[0]


FIRST = {"grad": ad.grad, "jacrev": ad.jacrev, "jacfwd": ad.jacfwd, "vjp": _by_vjp, "jvp": _by_jvp}
SECOND = {"jacrev": ad.jacrev, "jacfwd": ad.jacfwd, "jvp": _by_jvp}


def second_order(f: Function) -> dict[str, Function]:
    """All compositions of two derivatives."""
    found = {f"{b} of {a}": SECOND[b](FIRST[a](f)) for b in SECOND for a in FIRST}
    found["hessian"] = ad.hessian(f)
    found["vmap of hessian"] = _in_a_batch(ad.hessian(f))
    return found


def first_order(f: Function) -> dict[str, Function]:
    found = {name: make(f) for name, make in FIRST.items()}
    found["vmap of grad"] = _in_a_batch(ad.grad(f))
    found["grad of vmap"] = lambda x: ad.grad(lambda y: _both(f, y))(x)
    return found


def _both(f: Function, x: Any) -> Any:
    return ad.vmap(f)(ad.stack([x, ad.tensor(REGULAR)])).sum()


def close(found: Any, true: Any, tolerance: float) -> None:
    size = tolerance * (1 + np.abs(true).max())
    np.testing.assert_allclose(np.asarray(found), np.asarray(true), tolerance, size)


def test_every_kink_and_fan_is_here() -> None:
    rows = [TABLE.row(n, o) for n in TABLE.names() for o in TABLE.overloads(n)]
    columns = {r.schema.full_name for r in rows if {"kink", "fan"} & set(r.texts)}
    assert columns == {row for row, *_ in CASES.values()}


@pytest.mark.parametrize(
    ("name", "number"), [(n, i) for n, case in CASES.items() for i in range(len(case[3]))]
)
def test_compositions_of_two_derivatives(name: str, number: int) -> None:
    _, f, smooth, points = CASES[name]
    x = ad.tensor(points[number])
    gradient, hessian = ad.grad(smooth)(x).numpy(), ad.hessian(smooth)(x).numpy()
    for transform in first_order(f).values():
        close(transform(x), gradient, 1e-8)
    for transform in second_order(f).values():
        close(transform(x), hessian, 1e-6)


def _given_or_refused(graph: Any, x: Any, *, regular: bool) -> list[Any]:
    """What a graph returns; nothing if it says that it does not know derivatives here."""
    if regular:
        return graph(x)
    with contextlib.suppress(DegenerateError):
        return graph(x)
    return []


@pytest.mark.parametrize("name", CASES)
def test_compiled_and_traced_derivatives(name: str) -> None:
    _, f, smooth, points = CASES[name]
    chosen = [ad.grad(f), ad.jacrev(ad.grad(f)), ad.jacfwd(ad.jacrev(f)), ad.jacrev(ad.jacfwd(f))]
    every = lambda x: [transform(x) for transform in chosen]
    compiled, graph = ad.compile(every), ad.trace(every, ad.tensor(points[0]))
    pair = ad.compile(f)
    for point in points:
        x = ad.tensor(point)
        gradient, hessian = ad.grad(smooth)(x).numpy(), ad.hessian(smooth)(x).numpy()
        for found, true in zip(compiled(x), [gradient, hessian, hessian, hessian], strict=True):
            close(found, true, 1e-6)
        for found in _given_or_refused(graph, x, regular=point is REGULAR):
            close(found, gradient if found.ndim == 2 else hessian, 1e-6)
        y = x.clone().requires_grad_()
        pair(y).backward()
        close(y.grad, gradient, 1e-8)


@pytest.mark.parametrize("name", CASES)
def test_compositions_of_three_derivatives(name: str) -> None:
    _, f, smooth, points = CASES[name]
    transforms = [
        ad.jacfwd(ad.jacfwd(ad.grad(f))), ad.jacrev(ad.jacfwd(ad.grad(f))),
        ad.jacfwd(ad.hessian(f)), ad.jacrev(ad.jacrev(ad.jacfwd(f))),
        ad.jacfwd(ad.jacfwd(ad.jacfwd(f))),
    ]  # fmt: skip
    for point in points:
        x = ad.tensor(point)
        true = ad.jacfwd(ad.hessian(smooth))(x).numpy()
        for transform in transforms:
            # rounding errors beside a matrix without full rank grow as 1/t³: refused, never wrong
            with contextlib.suppress(*([DegenerateError] if point is DEFICIENT else [])):
                close(transform(x), true, 1e-3)


@pytest.mark.parametrize(
    "write",
    [
        lambda w: w[:2].fill_(3.0),
        lambda w: w[0].mul_(3.0),
        lambda w: w.view(1, 3).diagonal(0, 0, 1).fill_(3.0),
        lambda w: w.__setitem__(0, 3.0),
    ],
    ids=["slice", "element", "diagonal", "item"],
)
def test_a_write_to_a_part_of_what_comes_from_repeated_values_is_refused(write: Function) -> None:
    """It would change the values and not the derivatives, which come from many matrices."""
    w = ad.linalg.eigvalsh(ad.eye(3, dtype=ad.float64).requires_grad_())
    with pytest.raises(InplaceError, match="out of place"):
        write(w.clone())
    assert ad.equal(w.detach(), ad.ones(3, dtype=ad.float64))


@pytest.mark.parametrize(
    "change",
    [
        ("t_",),
        ("swapaxes_", 0, 1),
        ("transpose_", 1, 0),
        ("unsqueeze_", 1),
        ("squeeze_", 0),
        ("as_strided_", (3, 2), (2, 1)),
        ("eq_", 1.0),
        ("mul_", 2.0),
    ],
    ids=lambda change: change[0],
)
def test_what_changes_a_tensor_of_repeated_values_in_place_equals_its_pure_twin(
    change: tuple[Any, ...],
) -> None:
    def gradient(name: str, *, is_pure: bool) -> Any:
        x = ad.eye(3, dtype=ad.float64).repeat(2, 1, 1).requires_grad_()
        w = ad.linalg.eigvalsh(x * ad.tensor([[[1.0]], [[2.0]]], dtype=ad.float64))
        found = getattr(w, name)(*change[1:])
        assert is_pure or found is w
        found = found.double()
        weights = ad.arange(1.0, found.numel() + 1).double().reshape(found.shape)
        total = (found * weights).sum() + (x * 1e-3).sum()
        return found.detach(), ad.autograd.grad(total, x)[0]

    value, slope = gradient(change[0], is_pure=False)
    same_value, same_slope = gradient(change[0].removesuffix("_"), is_pure=True)
    assert ad.equal(value, same_value)
    assert ad.equal(slope, same_slope)


STEPS_BESIDE = steps_of(np.dtype(np.float64), repeated=True)


@pytest.mark.parametrize("seed", range(20))
def test_rounding_that_grows_is_no_pole(seed: int) -> None:
    """Errors of a power of 1/t hide neither a limit, nor a pole that is larger at first."""
    noise = np.random.default_rng(seed).uniform(-1, 1, STEPS_BESIDE.size) / STEPS_BESIDE**2
    y = np.exp(0.1 * STEPS_BESIDE) + 1e-6 * noise
    y[-6:] = -300, 60, 5, 0, -20, 30  # close to the matrix there is nothing but rounding
    limit = limit_of_fan(np.array([700.0, *y])[:, None], repeated=False)
    np.testing.assert_allclose(limit, 1, 1e-3)
    with pytest.raises(DegenerateError, match="depends on that choice"):
        limit_of_fan(np.array([700.0, *(y + 1e-2 / STEPS_BESIDE)])[:, None], repeated=True)


def test_a_function_of_a_cluster_is_no_pole_where_rounding_is() -> None:
    """Fermi's function, values from 4e-12 to 0.01: what is computed at the matrix is off by 349."""
    values = [4.021293286285645e-12, 3.753841012805684e-11, 4.216624841878487e-09, 0.0104869591234]
    fermi = {f.title: f for f in matrices.functions()}["Fermi function by eigh, symmetric"]
    x, w, e, known = matrices.case(fermi, values, "float64", 1552)
    for mode in ("rr", "fr", "rf", "ff"):
        found = float(matrices.derivative(lambda y: fermi.ours(y, w), mode, e)(x))
        np.testing.assert_allclose(found, float(known.values[2]), 1e-3)


@pytest.mark.parametrize(
    ("title", "values", "seed", "modes", "most"),
    [
        # computed at A with all digits, while the matrices of the fan are too far away to show it
        ("lu_solve, general", [0.24914402747594336, 0.24914402753183065, 1.7740675194479942,
                               1.7740675200882545], 1001645, "r f rr fr rrr", 1e2),
        # computed at A with errors that do not show, while the fan passes 0 on its way to the limit
        ("sum of the two smallest, symmetric", [1.0, 1.0000000022171287, 2.0, 3.0], 1001888,
         "rfr ffr rrr fff", 1e4),
        ("sum of the two smallest, symmetric", [1.0, 1.0000000055691123, 2.0, 3.0], 1002642,
         "fff rrr", 1e4),
        ("Fermi function by eigh, symmetric", [0.00024201934059749457, 0.00023819697785815744,
                                               2.5200640235033136, 3.703014395354547], 1001929,
         "rr rf fr ff", 1e6),
    ],
)  # fmt: skip
def test_the_limit_and_what_is_computed_at_the_matrix_are_told_apart(
    title: str, values: list[float], seed: int, modes: str, most: float
) -> None:
    function = {f.title: f for f in matrices.functions()}["Q R by qr, tall"]
    x, w, e, known = matrices.case(function, values, "float64", seed)
    for mode in modes.split():
        found = float(matrices.derivative(lambda y: function.ours(y, w), mode, e)(x))
        assert matrices.compared(found, known, len(mode), "").error <= most


@pytest.mark.parametrize("values", [ad.linalg.eigvalsh, ad.linalg.svdvals])
def test_derivatives_next_to_the_least_of_equal_values_have_all_digits(values: Function) -> None:
    """It depends on |t| beside the matrix, and so do derivatives in what it is combined with."""
    y = ad.tensor([0.3, -0.7, 1.1], dtype=ad.float64)

    def f(a: Any, y: Any) -> Any:
        w = values(a)
        return ((y * w).exp() * w[-1] * w[0]).sum()

    a = ad.tensor(2 * EYE)
    leaf, other = y.clone().requires_grad_(), a.clone().requires_grad_()
    f(other, leaf).backward()
    for found in (leaf.grad, ad.grad(f, argnums=(0, 1))(a, y)[1]):
        np.testing.assert_allclose(found, 8 * np.exp(2 * y.numpy()), 1e-11)


@pytest.mark.parametrize("compiled", [False, True])
def test_rounding_of_a_function_that_hardly_varies_is_no_choice_of_vectors(compiled: bool) -> None:
    """exp A = 1 + A + … of a small A: the 1 is V Vᴴ, of which derivatives cancel all but A's."""
    values = [2.73e-11, 1.79e-08, 1.15e-07, 5.48e-07]
    exp = {f.title: f for f in matrices.functions()}["exp(A) by eigh, hermitian"]
    x, w, e, known = matrices.case(exp, values, "float64", 300828)
    for mode in ("rf", "fr", "ff", "rr"):
        derivative = matrices.derivative(lambda y: exp.ours(y, w), mode, e)
        found = float((ad.compile(derivative) if compiled else derivative)(x))
        assert matrices.compared(found, known, 2, "").error <= 1000


@pytest.mark.parametrize(
    ("seed", "gap", "mode"),
    [
        (49, 6.520350794528839e-08, "fr"),
        (202, 5.3881229799752383e-08, "ff"),
        (322, 3.4937521314145304e-08, "ff"),
        (325, 2.2018668334096837e-07, "ff"),
        (5000452, 3.77825261e-07, "ff"),
    ],
)
def test_large_numbers_that_are_rounded_alike_are_no_support(
    seed: int, gap: float, mode: str
) -> None:
    """At the matrix and beside it 1/gap² loses the same digits; the limit has lost none."""
    projector = {f.title: f for f in matrices.functions()}[
        f"projector, {'hermitian' if seed == 49 or seed == 325 else 'symmetric'}"
    ]
    x, w, e, known = matrices.case(projector, [1.0, 1 + gap, 2.0, 3.0], "float64", seed)
    found = matrices.derivative(lambda y: projector.ours(y, w), mode, e)(x)
    assert matrices.compared(float(found), known, 2, "").error < 1e5


@pytest.mark.parametrize("mode", ["r", "f", "rr", "fr", "rf", "ff", "rrf", "fff"])
@pytest.mark.parametrize("draw", [0, 1, 2])
def test_the_product_of_q_and_r_keeps_its_digits_along_directions_of_its_columns(
    mode: str, draw: int
) -> None:
    """However small a column is beside the others: Q and R are functions of its direction."""
    function = {f.title: f for f in matrices.functions()}["Q R by qr, tall"]
    rng = np.random.default_rng(draw)
    A = rng.standard_normal((5, 4)) * 10.0 ** np.array([-11, -3, -7, 0])[rng.permutation(4)]
    E = rng.standard_normal((5, 4)) * np.linalg.norm(A, axis=0)
    W = rng.standard_normal((5, 4))
    known = matrices.truth(function, A, W, E, float(np.finfo(float).eps))
    x, w, e = map(ad.tensor, (A, W, E))
    found = matrices.derivative(lambda y: function.ours(y, w), mode, e)(x)
    assert matrices.compared(float(found), known, len(mode), "").error < 100


@pytest.mark.parametrize("away", [1e-2, 1e-3, 1e-4, 1e-5])
def test_least_squares_of_nearly_dependent_columns_by_qr(away: float) -> None:
    """The solution is no function of the product Q R: from afar, x = r/(r + t) looks like 0."""
    A = np.random.default_rng(0).standard_normal((6, 3))
    A[:, 2] = A[:, 0] + A[:, 1] + away * A[:, 2]
    b = ad.tensor(A @ [1.0, 2, 3])

    def by_qr(a: Any) -> Any:
        Q, R = ad.linalg.qr(a)
        return (ad.linalg.solve_triangular(R, (Q.mT @ b)[:, None], upper=True) ** 2).sum()

    x = ad.tensor(A)
    true = ad.grad(lambda a: (ad.linalg.lstsq(a, b[:, None])[0] ** 2).sum())(x).numpy()
    for transform in FIRST.values():
        found = transform(by_qr)(x).numpy()
        np.testing.assert_allclose(found, true, 0, 1e-14 / away**2 * np.abs(true).max())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("ord", ["nuc", 2])
def test_norms_of_a_zero_matrix_have_the_subgradient_zero_in_every_mode(
    ord: Any, dtype: str
) -> None:
    """Of a leaf with a tangent, too: singular vectors alone have no derivative there."""
    zero = ad.zeros(3, 3, dtype=getattr(ad, dtype), requires_grad=True)
    direction = ad.arange(9.0).reshape(3, 3).to(zero.dtype)
    with ad.autograd.forward_ad.dual_level():
        dual = ad.autograd.forward_ad.make_dual(zero, direction)
        norm = ad.linalg.norm(dual, ord)
        tangent = ad.autograd.forward_ad.unpack_dual(norm).tangent
    assert float(tangent) == 0
    (grad,) = ad.autograd.grad(ad.linalg.norm(zero, ord), [zero])
    assert not grad.any()

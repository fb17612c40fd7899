"""Sparse Jacobians and Hessians: equal to dense ones, prepared once, never stale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ArgumentError, GradError
from adjoint.toolchain import build
from tests.sparse_derivatives.test_patterns import EXACT

T = ad.float64
X = ad.linspace(0.3, 1.7, 6, dtype=T)


def dense(matrix: Any) -> Any:
    return matrix.to_dense().numpy() if isinstance(matrix, ad.Tensor) else matrix.toarray()


def assert_equal(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(dense(found), expected.numpy().reshape(found.shape), atol=1e-12)


@pytest.mark.parametrize("name", EXACT)
def test_a_sparse_jacobian_equals_the_dense_one(name: str) -> None:
    f = EXACT[name]
    assert_equal(ad.jacobian(f, sparse=True)(X), ad.jacobian(f)(X))


@pytest.mark.parametrize("name", ["slices", "stencil", "product", "softmax", "lengths", "scan"])
def test_a_sparse_hessian_equals_the_dense_one(name: str) -> None:
    f = lambda x: (EXACT[name](x) ** 3).sum()
    assert_equal(ad.hessian(f, sparse=True)(X), ad.hessian(f)(X))


@pytest.mark.parametrize("name", ["slices", "stencil", "softmax", "scatter"])
def test_colours_give_what_diagonals_give(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f = EXACT[name]
    monkeypatch.setattr("adjoint.sparse_derivatives.diagonals.MOST", 0)
    prepared = ad.jacobian(f, sparse=True)
    assert_equal(prepared(X), ad.jacobian(f)(X))
    assert prepared.compute.entries.known[0].colouring is not None
    hessian = ad.hessian(lambda x: (f(x) ** 3).sum(), sparse=True)
    assert_equal(hessian(X), ad.hessian(lambda x: (f(x) ** 3).sum())(X))


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "compiler", lambda: None)
    monkeypatch.setattr("adjoint.compiler.compiled._warn_once", lambda: None)
    assert_equal(ad.jacobian(EXACT["slices"], sparse=True)(X), ad.jacobian(EXACT["slices"])(X))


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "tensor"])
def test_formats(form: str) -> None:
    found = ad.jacobian(EXACT["slices"], sparse=True, format=form)(X)
    assert_equal(found, ad.jacobian(EXACT["slices"])(X))
    if form in ("csr", "csc"):
        assert found.format == form
        found.check_format()
        assert found.has_canonical_format


def test_results_are_differentiable() -> None:
    f = lambda x: (
        ad.jacobian(EXACT["slices"], sparse=True, format="tensor")(x).to_dense() ** 2
    ).sum()
    g = lambda x: (ad.jacobian(EXACT["slices"])(x) ** 2).sum()
    np.testing.assert_allclose(ad.grad(f)(X).numpy(), ad.grad(g)(X).numpy())
    x = X.clone().requires_grad_()
    ad.jacobian(EXACT["slices"], sparse=True, format="tensor")(x).to_dense().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [1, 2, 2, 2, 2, 1])
    with pytest.raises(GradError, match='ask for format="tensor"'):
        ad.grad(lambda x: ad.jacobian(EXACT["slices"], sparse=True)(x).sum())(X)


def test_pytrees_and_argnums() -> None:
    f = lambda p, y: {"a": p["w"][1:] * p["b"], "c": y.sum() * p["w"].sum()}
    p, y = {"w": X, "b": ad.tensor(2.0, dtype=T)}, ad.ones(3, dtype=T)
    found, expected = (
        ad.jacobian(f, argnums=(0, 1), **options)(p, y) for options in ({"sparse": True}, {})
    )
    for name in ("a", "c"):
        for part in ("w", "b"):
            assert_equal(found[name][0][part], expected[name][0][part])
        assert_equal(found[name][1], expected[name][1])
    H = ad.hessian(lambda p: (p["w"] ** 2).sum() * p["b"] ** 2, sparse=True)(p)
    D = ad.hessian(lambda p: (p["w"] ** 2).sum() * p["b"] ** 2)(p)
    assert_equal(H["w"]["b"], D["w"]["b"])


def test_other_arguments_are_followed_and_whole_numbers_choose() -> None:
    f = lambda x, i, *, factor: factor * x[i] ** 2
    prepared = ad.jacobian(f, sparse=True)
    for places in ([0, 3], [5, 1], [2, 2]):
        for factor in (2.0, 3.0):
            found = prepared(X, ad.tensor(places), factor=factor)
            assert_equal(found, ad.jacobian(f)(X, ad.tensor(places), factor=factor))
            assert found.nnz == 2
    assert prepared(X, np.array([4]), factor=1.0).nnz == 1


def test_values_from_outside_are_never_stale() -> None:
    factor, weights = 2.0, ad.ones(6, dtype=T)
    prepared = ad.jacobian(lambda x: x * factor * weights, sparse=True)
    assert prepared(X).data.tolist() == [2.0] * 6
    factor = 3.0
    assert prepared(X).data.tolist() == [3.0] * 6
    weights[0] = 0.0
    assert dense(prepared(X))[0, 0] == 0.0
    weights[0] = 5.0
    assert dense(prepared(X)).diagonal().tolist() == [15.0, *[3.0] * 5]


def test_arrays_give_what_tensors_give() -> None:
    found = ad.jacobian(lambda x: np.sin(x)[1:] * x[0], sparse=True)(X.numpy())
    assert_equal(found, ad.jacobian(lambda x: x.sin()[1:] * x[0])(X))


def test_value_and_jacobian() -> None:
    for options in ({}, {"sparse": True}):
        value, found = ad.value_and_jacobian(EXACT["slices"], **options)(X)
        np.testing.assert_allclose(value.numpy(), EXACT["slices"](X).numpy())
        assert found.shape == (5, 6)


def test_lagrangian_hessian_is_the_lower_triangle() -> None:
    f, g = lambda x: (x**4).sum(), EXACT["slices"]
    multipliers = ad.arange(5.0, dtype=T)
    found = ad.lagrangian_hessian(f, g)(X, 0.5, multipliers)
    whole = ad.hessian(lambda x: 0.5 * f(x) + (multipliers * g(x)).sum())(X).numpy()
    np.testing.assert_allclose(found.toarray(), np.tril(whole))
    assert ad.lagrangian_hessian(f, g)(X, 0.0, multipliers * 0).nnz == found.nnz


def test_float32_and_sizes_that_change() -> None:
    prepared = ad.jacobian(EXACT["slices"], sparse=True)
    for count in (4, 7, 4):
        x = ad.rand(count)
        assert prepared(x).dtype == np.float32
        assert_equal(prepared(x), ad.jacobian(EXACT["slices"])(x))


def test_nothing_depends_on_anything() -> None:
    assert ad.jacobian(lambda x: x * 0, sparse=True)(X).nnz == 0
    assert ad.jacobian(lambda x: ad.zeros(0) * x[:0], sparse=True)(X).shape == (0, 6)


def test_a_matrix_of_a_call_is_its_callers() -> None:
    prepared = ad.jacobian(EXACT["slices"], sparse=True)
    first = prepared(X)
    first.indices[:], first.data[:] = 0, 7.0
    assert_equal(prepared(X), ad.jacobian(EXACT["slices"])(X))


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "complex": (lambda: ad.jacobian(lambda x: x, sparse=True)(X * 1j), GradError, "real numbers"),
    "format": (
        lambda: ad.jacobian(lambda x: x, sparse=True, format="dense"),
        ArgumentError,
        "the formats are csr, csc, coo, tensor",
    ),
    "dense": (
        lambda: ad.hessian(lambda x: x.sum(), format="coo"),
        ArgumentError,
        "format='coo' is for sparse=True",
    ),
    "aux": (
        lambda: ad.jacobian(lambda x: x, has_aux=True, sparse=True),
        ArgumentError,
        "does not go with has_aux",
    ),
    "vector": (
        lambda: ad.hessian(lambda x: x, sparse=True)(X),
        ArgumentError,
        "must return one number",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input(name: str) -> None:
    call, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        call()

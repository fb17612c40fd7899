"""Triangular systems and Cholesky factors in C: by BLAS and LAPACK, and by loops without them."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
import pytest

from adjoint.c_kernels import loading
from adjoint.compiler.targets.c import routines
from adjoint.core.c_types import LETTERS, REAL_KINDS
from adjoint.toolchain import build

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")

KINDS = {"float": 2e-5, "double": 1e-12}  # how exact


def matrices(kind: str, *shapes: tuple[int, int]) -> list[np.ndarray]:
    dtype = next(d for d, each in REAL_KINDS.items() if each == kind)
    rng = np.random.default_rng(0)
    return [rng.uniform(0.5, 1.5, shape).astype(dtype) for shape in shapes]


def call(name: str, kind: str, numbers: Any, arrays: Any, helper: str | None) -> bool:
    """Whether a function of triangles.c failed; `helper` is of BLAS or LAPACK."""
    fields = (ctypes.c_long * len(numbers))(*map(int, numbers))
    given = [None if a is None else ctypes.c_void_p(a.ctypes.data) for a in arrays]
    library, _, symbol = (helper or "").partition(":")
    used = routines.addresses((f"{library}:{LETTERS[kind]}{symbol}",))[0] if helper else None
    run = loading.routine("triangles", name, kind)
    return run(fields, *given, ctypes.c_void_p(used)) != 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("helper", ["blas:trsm", None])
@pytest.mark.parametrize("flags", [*itertools.product((0, 1), repeat=3)])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_triangular_system_is_solved_in_any_order(
    kind: str, helper: str | None, flags: tuple[int, int, int], transposed: bool
) -> None:
    upper, left, unit = flags
    m, n = 7, 5
    size = m if left else n
    a, b = matrices(kind, (size, size), (m, n))
    a += 5 * np.eye(size, dtype=a.dtype)
    given = np.asfortranarray(a) if transposed else a
    steps = [s // a.itemsize for s in given.strides]
    x = np.full((m, n), np.nan, a.dtype)
    numbers = m, n, upper, left, unit, *steps, n, 1
    assert not call("triangular", kind, numbers, (given, b, x), helper)
    triangle = np.triu(a) if upper else np.tril(a)
    if unit:
        np.fill_diagonal(triangle, 1)
    assert np.allclose(triangle @ x if left else x @ triangle, b, atol=KINDS[kind] * 1e3)


@pytest.mark.parametrize("size", [0, 1, 2])
def test_systems_without_rows_or_columns_are_solved(size: int) -> None:
    a, b = matrices("double", (size, size), (size, 0))
    assert not call(
        "triangular", "double", (size, 0, 1, 1, 0, size, 1, 0, 1), (a, b, b), "blas:trsm"
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("helper", ["lapack:potrf", None])
@pytest.mark.parametrize("upper", [0, 1])
def test_a_factor_comes_from_one_triangle(kind: str, helper: str | None, upper: int) -> None:
    (a,) = matrices(kind, (9, 9))
    whole = a @ a.T + 5 * np.eye(9, dtype=a.dtype)
    given = np.triu(whole) if upper else np.tril(whole)
    factor, info = np.full_like(a, np.nan), np.array([-1], np.int32)
    assert not call("cholesky", kind, (9, upper, 1, 9, 1), (given, factor, info), helper)
    product = factor.T @ factor if upper else factor @ factor.T
    assert np.allclose(product, whole, rtol=KINDS[kind] * 10)
    assert (np.tril(factor, -1) if upper else np.triu(factor, 1)).any() == np.False_
    assert info == 0


@pytest.mark.parametrize("helper", ["lapack:potrf", None])
def test_a_matrix_without_a_factor_tells_its_first_minor(helper: str | None) -> None:
    a = np.diag([2.0, 3.0, -1.0, 4.0])
    factor, info = np.empty_like(a), np.zeros(1, np.int32)
    assert not call("cholesky", "double", (4, 0, 0, 4, 1), (a, factor, info), helper)
    assert info == 3
    assert call("cholesky", "double", (4, 0, 1, 4, 1), (a, factor, info), helper)
    assert call("cholesky", "double", (4, 0, 0, 4, 1), (a, factor, None), helper)
    assert call("cholesky", "double", (4, 0, 0, 4, 1), (a, None, None), helper)

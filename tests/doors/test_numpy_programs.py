"""Plain NumPy programs under every transform: NumPy's values, and the derivatives of these.

The programs are those of `numpy_idioms.py`. What they give for NumPy's own arrays is the truth;
derivatives are compared with differences of it, of fourth order.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.numpy_idioms import IDIOMS, X

# Programs whose Python looks at values: a graph cannot follow them, and says so.
LOOKS = {
    "bubble_sort", "builtins_of_python", "conditions_on_values", "dynamic_programming",
    "insertion_sort", "mask_of_another", "mask_read", "mask_scaled", "maximum_kept",
    "method_any_all", "method_searchsorted", "nonzero_places", "put_and_place",
    "where_with_places",
}  # fmt: skip
CHANGES_ITS_ARGUMENT = {
    "argument_changed_whole", "argument_under_another_name", "argument_written_to",
}  # fmt: skip
NAMES = sorted(IDIOMS)
_DIRECTION = np.array([0.3, -0.5, 0.2, 0.7, -0.4])


def _value(name: str, x: Any = X) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return IDIOMS[name](x.copy())


def _differences(name: str, direction: Any, x: Any = X) -> float:
    h = 2e-3
    f = {k: _value(name, x + k * h * direction) for k in (-2, -1, 1, 2)}
    return float((8 * (f[1] - f[-1]) - (f[2] - f[-2])) / (12 * h))


def _gradient(name: str) -> Any:
    return np.array([_differences(name, row) for row in np.eye(len(X))])


def _close(found: Any, expected: Any, rtol: float = 1e-6) -> None:
    scale = float(np.max(np.abs(expected))) + 1e-3
    np.testing.assert_allclose(np.asarray(found), expected, rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("name", NAMES)
def test_reverse_and_forward_mode(name: str) -> None:
    given = X.copy()
    value, gradient = ad.value_and_grad(IDIOMS[name])(given)
    assert type(value) is type(gradient) is ad.Tensor
    assert np.array_equal(given, X)  # the caller's array stays as it is
    _close(value, _value(name), 1e-13)
    _close(gradient, _gradient(name))
    value, tangent = ad.jvp(IDIOMS[name], (given,), (_DIRECTION,))
    _close(value, _value(name), 1e-13)
    _close(tangent, gradient.numpy() @ _DIRECTION, 1e-11)
    assert np.array_equal(given, X)


@pytest.mark.parametrize("name", NAMES)
def test_second_order(name: str) -> None:
    gradient = ad.grad(IDIOMS[name])
    steps = 1e-4 * np.eye(len(X))
    columns = [gradient(X + h).numpy() - gradient(X - h).numpy() for h in steps]
    _close(ad.hessian(IDIOMS[name])(X), np.array(columns) / 2e-4, 1e-5)


GRAPHS = sorted(set(NAMES) - LOOKS)


@pytest.mark.parametrize("name", GRAPHS)
def test_batches_and_graphs(name: str) -> None:
    batch = np.stack([X, X * 1.01])
    expected = [_value(name, row) for row in batch]
    _close(ad.vmap(IDIOMS[name])(batch), expected, 1e-12)
    if name not in CHANGES_ITS_ARGUMENT:  # which a graph leaves alone, and says so
        _close(ad.trace(IDIOMS[name], X)(X), expected[0], 1e-12)
    value, gradient = ad.trace(ad.value_and_grad(IDIOMS[name]), X)(X)
    _close(value, expected[0], 1e-12)
    _close(gradient, _gradient(name))


@pytest.mark.parametrize("name", [*GRAPHS[::9], *sorted(CHANGES_ITS_ARGUMENT)])
def test_compiled_programs(name: str) -> None:
    value, gradient = ad.compile(ad.value_and_grad(IDIOMS[name]))(X)
    _close(value, _value(name), 1e-11)
    _close(gradient, _gradient(name))


@pytest.mark.parametrize("name", sorted(LOOKS))
def test_what_a_graph_cannot_follow_is_refused(name: str) -> None:
    with pytest.raises(ad.AdjointError):
        ad.compile(ad.grad(IDIOMS[name]))(X)

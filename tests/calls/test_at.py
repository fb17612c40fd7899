"""`x.at[key]`: new tensors with other elements at some places, in every transform."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

X = ad.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=ad.float64)
KEYS: dict[str, Any] = {
    "number": 1,
    "negative": -1,
    "slice": (slice(None), slice(0, 2)),
    "step": (0, slice(None, None, -2)),
    "ellipsis": (..., 2),
    "tensor": (0, ad.tensor(2)),
    "list": (0, [0, 2]),
    "twice": (ad.tensor([0, 0, 1]), ad.tensor([1, 1, 2])),
}
METHODS: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "min": np.minimum,
    "max": np.maximum,
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", KEYS)
def test_values_for_one_place_are_all_combined(name: str, method: str) -> None:
    key = KEYS[name]
    arrays = _arrays(key)
    expected = X.numpy().copy()
    values = np.linspace(2.0, 3.0, expected[arrays].size).reshape(expected[arrays].shape)
    METHODS[method].at(expected, arrays, values)
    change = lambda x: getattr(x.at[key], method)(ad.tensor(values))
    for found in (change(X), ad.trace(change, X)(X), ad.compile(change)(X)):
        np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(ad.vmap(change)(ad.stack([X, X + 0]))[1], expected)


def _arrays(key: Any) -> Any:
    given = key if isinstance(key, tuple) else (key,)
    return tuple(k.numpy() if isinstance(k, ad.Tensor) else k for k in given)


@pytest.mark.parametrize("name", KEYS)
def test_set_apply_power_and_get(name: str) -> None:
    key = KEYS[name]
    assert X.at[key].get().tolist() == X[key].tolist()
    expected = X.clone()
    expected[key] = X[key] ** 2
    for found in (
        X.at[key].set(X[key] ** 2),
        X.at[key].power(2),
        X.at[key].apply(lambda v: v * v),
        ad.compile(lambda x: x.at[key].set(x[key] ** 2))(X),
    ):
        np.testing.assert_allclose(found, expected)
    assert X.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


@pytest.mark.parametrize("method", ["set", "add", "multiply", "min"])
def test_derivatives_in_both_arguments(method: str) -> None:
    values = ad.tensor([1.5, 5.5], dtype=ad.float64)
    f = lambda x, v: (getattr(x.at[ad.tensor([0, 1]), 1], method)(v) ** 3).sin()
    assert ad.testing.gradcheck(
        f, (X.clone().requires_grad_(), values.requires_grad_()), check_forward_ad=True
    )
    assert ad.testing.gradgradcheck(f, (X.clone().requires_grad_(), values))


def test_loops_write_at_their_index() -> None:
    def fibonacci(x: Any) -> Any:
        step = lambda i, out: out.at[i].set(out[i - 1] + x * out[i - 2])
        return ad.fori_loop(2, 6, step, ad.ones(6, dtype=ad.float64))

    one = ad.tensor(1.0, dtype=ad.float64)
    assert fibonacci(one).tolist() == [1, 1, 2, 3, 5, 8]
    slope = ad.grad(lambda x: fibonacci(x)[-1])
    assert slope(one).item() == ad.compile(slope)(one).item() == 10.0

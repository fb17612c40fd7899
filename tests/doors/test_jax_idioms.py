"""Programs of JAX's documentation, with adjoint in the place of JAX, give JAX's numbers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import lax
from tests.jax_programs import PROGRAMS, STORED, flat

EXPECTED = json.loads(STORED.read_text())


@pytest.mark.parametrize("jnp", [ad, ad.numpy], ids=["ad", "ad.numpy"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_numbers_of_jax(name: str, jnp: Any) -> None:
    with ad.default_dtype(ad.float64):
        found = flat(PROGRAMS[name](ad, jnp, ad.compile))
    np.testing.assert_allclose(found, EXPECTED[name], rtol=1e-9, atol=1e-10)


def test_every_name_of_lax_is_a_function_of_ours() -> None:
    for name in dir(lax):
        assert callable(getattr(lax, name))
    assert lax.logistic is ad.sigmoid
    with pytest.raises(AttributeError, match="did you mean scan"):
        lax.scann


def test_functions_of_lax_are_jaxs() -> None:
    """Starts count from the end below 0 and are clamped; running totals may start at the end."""
    x = ad.arange(12.0).reshape(3, 4)
    window = lambda s: lax.dynamic_slice(x, (s, -1), (2, 2))
    assert window(9).tolist() == [[6, 7], [10, 11]]
    assert ad.compile(window)(ad.tensor(0)).tolist() == [[2, 3], [6, 7]]
    assert ad.vmap(window)(ad.tensor([0, 1])).shape == (2, 2, 2)
    put = lambda v: lax.dynamic_update_slice(x, v, (2, 1)).sum()
    assert ad.grad(put)(ad.ones(2, 2)).tolist() == [[1, 1], [1, 1]]
    assert lax.dynamic_update_index_in_dim(x, x[0], 1, 0)[1].tolist() == [0, 1, 2, 3]
    assert lax.cummax(ad.tensor([1.0, 3.0, 2.0]), reverse=True).tolist() == [3, 3, 2]
    batched = lax.dot_general(x, x, (([1], [1]), ([0], [0])))
    assert batched.tolist() == (x * x).sum(1).tolist()
    assert lax.slice(x, (0, 1), (3, 4), (2, 2)).tolist() == [[1, 3], [9, 11]]
    assert lax.slice_in_dim(x, 1, 3, axis=1).shape == (3, 2)
    assert lax.select_n(ad.tensor([0, 2, 1]), x[0, :3], x[1, :3], x[2, :3]).tolist() == [0, 9, 6]
    assert lax.broadcasted_iota(int, (2, 3), 1).tolist() == [[0, 1, 2], [0, 1, 2]]
    keys, values = lax.sort_key_val(ad.tensor([3, 1, 2]), x[0, :3])
    assert (keys.tolist(), values.tolist()) == ([1, 2, 3], [1, 2, 0])
    assert {"dynamic_slice", "scan", "rsqrt"} <= set(dir(lax))

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

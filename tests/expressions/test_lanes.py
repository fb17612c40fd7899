"""Vector versions of functions with rare arguments have the values of the functions themselves."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.expressions import functions
from adjoint.toolchain import build

needs_compiler = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")
DIVISIONS = {
    "fmod": (ad.fmod, np.fmod),
    "remainder": (operator.mod, np.remainder),
    "floor_divide": (operator.floordiv, np.floor_divide),
}


def pairs(dtype: Any) -> tuple[Any, Any]:
    """Numbers whose quotients are common and rare, in any order, so that they share vectors."""
    info = np.finfo(dtype)
    ends = [0.0, info.tiny, info.smallest_subnormal, 1e-3, 0.5, 1, 3, 1 / info.eps, 1e30, info.max]
    special = np.array([*ends, *(-e for e in ends), np.inf, -np.inf, np.nan, -0.0], dtype)
    generator = np.random.default_rng(0)
    a, b = (m.ravel() for m in np.meshgrid(special, special))
    near = generator.normal(size=(2, a.size)).astype(dtype) * dtype(100)
    order = generator.permutation(2 * a.size)
    return np.concatenate([a, near[0]])[order], np.concatenate([b, near[1]])[order]


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", DIVISIONS)
def test_rare_and_common_quotients_in_one_vector_are_those_of_numpy(name: str, dtype: Any) -> None:
    function, reference = DIVISIONS[name]
    a, b = pairs(dtype)
    compiled = ad.compile(function)
    for size in (1, 3, 8, 15, 31, a.size):
        got = compiled(ad.tensor(a[:size]), ad.tensor(b[:size])).numpy()
        with np.errstate(all="ignore"):
            want = reference(a[:size], b[:size])
        np.testing.assert_array_equal(got, want)
        ordered = want == want
        np.testing.assert_array_equal(np.signbit(got[ordered]), np.signbit(want[ordered]))


@needs_compiler
def test_quotients_next_to_other_work_are_the_same() -> None:
    a, b = (ad.tensor(each) for each in pairs(np.float64))

    def function(a: Any, b: Any) -> Any:
        rest = ad.fmod(a, b)
        return ad.where(b > 1, rest, a % b), (rest.nan_to_num(0, 0, 0) > 0).sum()

    got, want = ad.compile(function)(a, b), function(a, b)
    np.testing.assert_array_equal(got[0].numpy(), want[0].numpy())
    assert got[1].item() == want[1].item()


def test_only_functions_that_end_early_have_vector_versions() -> None:
    def has_versions(name: str) -> bool:
        return any("simd(" in text for text in functions.declared([name]))

    assert has_versions("ad_fmod")
    assert has_versions("ad_floor_dividef")
    assert not has_versions("ad_erfinv")  # its rare case is a choice, which vectors make
    assert "simd(" not in functions.standalone_prelude(["ad_fmod"])

"""Patterns: exact where rules are, through loops and branches, at a point, as an object."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ArgumentError

T = ad.float64


def written(x: Any) -> Any:
    y = x.clone()
    y[1:3] = x[:2] ** 2
    y[0] += x[-1]
    return y


def nested(x: Any) -> Any:
    inner = lambda c, t: ad.scan(lambda d, s: (s, d * s), c, ad.stack([t, t * t]))
    return ad.scan(lambda c, t: (t, inner(c, t)[1].sum()), x[0], x)[1]


EXACT: dict[str, Callable[[Any], Any]] = {
    "slices": lambda x: x[1:] * x[:-1],
    "stencil": lambda x: x.roll(1, 0) - 2 * x + x.roll(-1, 0),
    "written in place": written,
    "gather": lambda x: x[ad.tensor([0, 2, 2, 1])] ** 2,
    "scatter": lambda x: ad.zeros(4, dtype=T).index_add(0, ad.tensor([0, 2, 2, 1, 0, 3]), x**2),
    "matrix": lambda x: x.reshape(2, 3) @ ad.tensor([[1.0, 0], [0, 2], [0, 0]], dtype=T),
    "product": lambda x: x.reshape(2, 3) @ x.reshape(3, 2),
    "softmax": lambda x: x.reshape(3, 2).softmax(1),
    "means and variances": lambda x: x.reshape(2, 3).mean(1) * x.reshape(2, 3).var(1),
    "lengths": lambda x: x.reshape(3, 2).norm(dim=1),
    "cumulative sum": lambda x: x.cumsum(0),
    "convolution": lambda x: ad.nn.functional.conv1d(x[None, None], ad.ones(1, 1, 3, dtype=T)),
    "triangular": lambda x: ad.linalg.solve_triangular(
        ad.eye(6, dtype=T) + ad.ones(6, 6, dtype=T).tril(-1), x[:, None], upper=False
    ),
    "scan": lambda x: ad.scan(lambda c, t: (t * 2, c.sin() * t), x[0], x)[1],
    "scan of scan": nested,
    "while": lambda x: ad.while_loop(lambda c: c.sum() < 100.0, lambda c: c * 2 + x, x),
    "map": lambda x: ad.map(lambda t: t * t, x),
    "interpolation": lambda x: ad.numpy.interp(x, np.linspace(0, 2, 5), np.arange(5.0)),
}


def patterns(f: Callable[[Any], Any], x: Any, order: int = 1, **options: Any) -> tuple[Any, Any]:
    """The pattern of a derivative, and where the dense derivative is not 0."""
    found = ad.sparsity(f, x, order=order, **options)
    dense = (ad.jacobian if order == 1 else ad.hessian)(f)(x).numpy().reshape(found.shape)
    return found.pattern.toarray(), np.abs(dense) > 1e-12


@pytest.mark.parametrize("name", EXACT)
def test_patterns_are_exact(name: str) -> None:
    found, truth = patterns(EXACT[name], ad.linspace(0.3, 1.7, 6, dtype=T))
    np.testing.assert_array_equal(found, truth)


@pytest.mark.parametrize("name", ["slices", "written in place", "softmax", "lengths"])
def test_hessians_are_exact(name: str) -> None:
    function = EXACT[name]
    found, truth = patterns(lambda x: (function(x) ** 3).sum(), ad.linspace(0.3, 1.7, 6), 2)
    np.testing.assert_array_equal(found, truth)


def test_a_long_scan_has_the_union_of_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adjoint.sparse_derivatives.regions._TURNS", 0)
    f = lambda x: ad.scan(lambda c, t: (c * 0.5 + t, c * t), x[0] * 0, x)[1]
    found, truth = patterns(f, ad.linspace(0.3, 1.7, 6, dtype=T))
    assert found[truth].all()


def test_a_branch_adds_its_entries() -> None:
    f = lambda x: ad.cond(x.sum() > 0, lambda x: x * 2, lambda x: x.flip(0), x)
    x = ad.ones(4, dtype=T)
    found, _ = patterns(f, x)
    np.testing.assert_array_equal(found, np.eye(4, dtype=bool) | np.eye(4, dtype=bool)[::-1])
    local, truth = patterns(f, x, local=True)
    np.testing.assert_array_equal(local, truth)


def test_a_pattern_holds_everywhere_and_a_local_one_at_its_point() -> None:
    f = lambda x: (x[1:] - x[:-1]).relu()
    x = ad.tensor([1.0, 2.0, 0.0, 3.0], dtype=T)
    everywhere, truth = patterns(f, x)
    assert everywhere.sum() == 6
    assert truth.sum() == 4
    np.testing.assert_array_equal(patterns(f, x, local=True)[0], truth)


def test_a_tangent_that_enters_a_function_is_followed() -> None:
    """The derivative of a matrix exponential is computed by one of a larger matrix."""
    f = lambda x: ad.linalg.matrix_exp(x.reshape(3, 3))
    found, truth = patterns(f, ad.linspace(0.1, 0.9, 9, dtype=T))
    assert found[truth].all()


def test_custom_rules_are_seen() -> None:
    @ad.custom_vjp
    def shifted(x: Any) -> Any:
        return x * 1.0

    shifted.defvjp(lambda x: (x * 1.0, None), lambda _, grad: (grad.roll(-1, 0),))
    f = lambda x: ad.grad(lambda x: (shifted(x) * ad.arange(4.0, dtype=T)).pow(2).sum())(x)
    found, truth = patterns(f, ad.ones(4, dtype=T))
    assert found[truth].all()


def test_the_object_is_kept_and_shown(tmp_path: Path) -> None:
    found = ad.sparsity(EXACT["slices"], ad.ones(9))
    assert (found.shape, found.nnz, found.colours, found.mode) == ((8, 9), 16, 2, "forward")
    assert "8 × 9, 16 entries" in repr(found)
    assert found.picture() == "⠙⢦⡀⠀⠀\n⠀⠀⠙⢦⡀"
    assert "<svg" in found._repr_html_()
    found.save(tmp_path / "pattern.npz")
    assert ad.Sparsity.load(tmp_path / "pattern.npz") == found
    np.savez(tmp_path / "other.npz", shape=np.array([2, 2]))
    with pytest.raises(ArgumentError, match="lacks indices"):
        ad.Sparsity.load(tmp_path / "other.npz")


def test_a_file_with_wrong_numbers_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "wrong.npz", indptr=[0, 1], indices=[7], shape=[1, 2], order=1, is_local=0)
    with pytest.raises(ValueError, match=r"indices|column"):
        ad.Sparsity.load(tmp_path / "wrong.npz")


def test_bad_input() -> None:
    with pytest.raises(ArgumentError, match="order must be 1 or 2, got 3"):
        ad.sparsity(lambda x: x, ad.ones(2), order=3)
    with pytest.raises(ArgumentError, match="hessian: the function must return one number"):
        ad.sparsity(lambda x: x, ad.ones(2), order=2)

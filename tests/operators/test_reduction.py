"""Reductions and scans where formulas usually break: kinks, zeros, ties, infinities."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import DimensionError, DtypeError, ShapeError, ValueRangeError

INFINITY = math.inf
Function = Callable[[ad.Tensor], ad.Tensor]


def tensor(values: object) -> ad.Tensor:
    return ad.tensor(values, dtype=ad.float64, requires_grad=True)


def gradient(f: Function, values: object) -> list[float]:
    x = tensor(values)
    return ad.autograd.grad(f(x), x)[0].tolist()


def hessian(f: Function, values: object) -> list[list[float]]:
    """Second derivatives by backward of backward."""
    x = tensor(values)
    (first,) = ad.autograd.grad(f(x), x, create_graph=True)
    rows = [ad.autograd.grad(g, x, retain_graph=True, materialize_grads=True)[0] for g in first]
    return [row.tolist() for row in rows]


def directional(f: Function, values: object, direction: list[float], order: int) -> float:
    """The derivative of some order in one direction, by that many backward passes."""
    x, v = tensor(values), ad.tensor(direction, dtype=ad.float64)
    y = f(x)
    for _ in range(order):
        (g,) = ad.autograd.grad(y, x, create_graph=True)
        y = (g * v).sum()
    return y.item()


# norms and standard deviations at their kink -----------------------------------------------------


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, INFINITY, -INFINITY, -1])
def test_norm_at_zero_has_the_subgradient_zero(p: float) -> None:
    assert gradient(lambda x: x.norm(p), [0.0, 0.0]) == [0.0, 0.0]


def test_higher_derivatives_of_homogeneous_functions_of_the_norm_at_zero() -> None:
    zero, v, square = [0.0, 0.0], [1.0, 0.5], 1.25  # |v|² = 1.25
    assert directional(lambda x: x.norm() ** 4, zero, v, 4) == pytest.approx(24 * square**2)
    assert directional(lambda x: x.norm().cos(), zero, v, 2) == pytest.approx(-square)
    assert directional(lambda x: x[0] * x.norm() ** 2, zero, v, 3) == pytest.approx(6 * square)


# products with zeros -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([2.0, 0.0, 3.0], [0.0, 6.0, 0.0]),
        ([0.0, 2.0, 0.0], [0.0, 0.0, 0.0]),
        ([1e200, 1e200, 1e-300], [1e-100, 1e-100, INFINITY]),
    ],
)
def test_gradient_of_prod_is_the_product_of_the_others(
    values: list[float], expected: list[float]
) -> None:
    assert gradient(lambda x: x.prod(), values) == pytest.approx(expected)


def test_hessian_of_prod_with_two_zeros() -> None:
    expected = [[0.0, 0.0, 5.0], [0.0, 0.0, 0.0], [5.0, 0.0, 0.0]]
    assert hessian(lambda x: x.prod(), [0.0, 5.0, 0.0]) == expected


def test_hessian_of_cumprod_with_zeros() -> None:
    rows = hessian(lambda x: x.cumprod(0).sum(), [0.0, 0.0, 3.0])
    assert rows == [[0.0, 4.0, 0.0], [4.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


# ties --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduce", [ad.amax, ad.max])
def test_extremum_of_all_is_shared_by_ties(reduce: Function) -> None:
    assert gradient(reduce, [1.0, 2.0, 2.0, 0.0]) == [0.0, 0.5, 0.5, 0.0]


def test_extremum_along_a_dimension_goes_to_its_index() -> None:
    assert gradient(lambda x: x.max(0).values, [1.0, 2.0, 2.0]) == [0.0, 1.0, 0.0]


def test_running_maximum_goes_to_the_latest_of_ties() -> None:
    assert gradient(lambda x: x.cummax(0).values[-1], [2.0, 2.0, 1.0]) == [0.0, 1.0, 0.0]


# infinities --------------------------------------------------------------------------------------


def test_logsumexp_of_nothing_but_minus_infinity_has_gradient_zero() -> None:
    assert gradient(lambda x: x.logsumexp(0), [-INFINITY, -INFINITY]) == [0.0, 0.0]


def test_logcumsumexp_after_minus_infinity_is_finite() -> None:
    found = gradient(lambda x: x.logcumsumexp(0)[1:].sum(), [-INFINITY, 1.0, 1.0])
    assert found == pytest.approx([0.0, 1.5, 0.5])


def test_logcumsumexp_of_extreme_values_has_an_exact_gradient() -> None:
    found = gradient(lambda x: x.logcumsumexp(0).sum(), [-1000.0, 1000.0, 5.0])
    assert found == [1.0, 2.0, 0.0]


# which overload ----------------------------------------------------------------------------------


def test_second_argument_of_sum_is_keepdim() -> None:
    assert ad.ones(2, 3).sum(0, True).shape == (1, 3)
    assert ad.ones(2, 3).sum(None, True).shape == (1, 1)


def test_boolean_argument_of_std_is_unbiased() -> None:
    x = ad.tensor([1.0, 3.0])
    assert x.std(False).item() == 1.0
    assert x.std(0, False).item() == 1.0


def test_max_of_two_tensors_compares() -> None:
    found = ad.max(ad.tensor([1, 5]), ad.tensor(3))
    assert found.tolist() == [3, 5]


# sums of large arrays take other ways ------------------------------------------------------------


def test_gradient_of_a_large_product() -> None:
    x = np.random.default_rng(0).uniform(0.9, 1.1, (100, 50))
    for values in (x, np.where(x > 1.09, 0.0, x)):
        found = np.array(gradient(lambda t: t.prod(1).sum(), values))
        others = [np.prod(np.delete(values, k, axis=1), axis=1) for k in range(50)]
        np.testing.assert_allclose(found, np.stack(others, axis=1), rtol=1e-12)


def test_sum_of_many_float32_rows_is_accurate() -> None:
    x = np.random.default_rng(0).random((200_000, 4), np.float32)
    found = ad.from_numpy(x).sum(0).numpy()
    np.testing.assert_allclose(found, x.sum(0, dtype=np.float64), rtol=3e-7)


# errors ------------------------------------------------------------------------------------------


def test_errors_name_the_operator_and_the_way_out() -> None:
    with pytest.raises(DimensionError, match="sum: dimension 2 is out of range"):
        ad.ones(2, 2).sum(2)
    with pytest.raises(DtypeError, match="mean: needs a floating point"):
        ad.tensor([1, 2]).mean()
    with pytest.raises(ShapeError, match="max: an empty tensor"):
        ad.zeros(0).max()
    with pytest.raises(DtypeError, match="amax: complex numbers have no order"):
        ad.ones(2, dtype=ad.complex64).amax()
    with pytest.raises(ValueRangeError, match="segment_reduce: reduce is one of"):
        ad.ops.segment_reduce(ad.ones(3), "median", lengths=ad.tensor([3]))


def test_a_kink_elsewhere_leaves_tiny_gradients_alone() -> None:
    """Infinitely small parts beside a kink are dropped in the pass that met it, and in no other."""
    zero = ad.zeros(3, dtype=ad.float64)
    assert ad.hessian(lambda x: x.norm() ** 2)(zero).tolist() == (2 * ad.eye(3)).tolist()
    x = ad.tensor(1e-280, dtype=ad.float64, requires_grad=True)
    (x * x * 0.5).backward()
    assert x.grad is not None
    assert x.grad.item() == 1e-280


def test_axis_is_another_name_of_dim() -> None:
    x = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.sum(axis=0).tolist() == [4.0, 6.0]
    assert ad.mean(x, axis=(0, 1)).item() == 2.5
    with pytest.raises(TypeError):
        x.sum(0, axis=0)


def test_ddof_is_numpys_name_of_the_correction() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4))
    for name in ("std", "var"):
        found = getattr(ad.tensor(x), name)(axis=0, ddof=0, keepdims=True)
        assert np.allclose(found, getattr(x, name)(axis=0, keepdims=True))


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
@pytest.mark.parametrize(
    "reduce",
    [
        lambda x: ad.linalg.vector_norm(x, dim=-1), lambda x: ad.linalg.vector_norm(x, 3, dim=-1),
        lambda x: x.var(-1), lambda x: x.std(-1), lambda x: x.prod(-1), lambda x: x.cumprod(-1),
        lambda x: x.logcumsumexp(-1), lambda x: ad.renorm(x, 2, 0, 1.0), lambda x: ad.dist(x, -x),
    ],
)  # fmt: skip
def test_derivatives_of_reductions_of_halves_are_rounded_once(
    dtype: ad.DType, reduce: Callable[[ad.Tensor], ad.Tensor]
) -> None:
    rng = np.random.default_rng(3)
    x, tangent = (ad.tensor(rng.uniform(0.5, 2, (8, 5))).to(dtype) for _ in range(2))
    slopes = (
        ad.grad(lambda x: reduce(x).sum()),
        lambda x: ad.jvp(reduce, (x,), (tangent.to(x.dtype),))[1],
    )
    for slope in slopes:
        found = slope(x)
        assert found.dtype == dtype
        half_an_ulp = 0.502 * ad.finfo(dtype).eps
        assert ad.allclose(
            found.double(), slope(x.double()), rtol=half_an_ulp, atol=1e-5 * half_an_ulp
        )

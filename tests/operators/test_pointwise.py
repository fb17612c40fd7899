"""Elementwise operators at kinks, zeros, infinities and with unusual dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import DtypeError, ValueRangeError

INFINITY = math.inf
NAN = math.nan


def leaf(*values: Any, dtype: Any = ad.float64) -> ad.Tensor:
    return ad.tensor(list(values), dtype=dtype, requires_grad=True)


def gradients(function: Any, *inputs: ad.Tensor) -> list[list[Any]]:
    """First derivatives of the sum of a function."""
    found = ad.autograd.grad(function(*inputs).sum(), inputs)
    return [g.tolist() for g in found]


def second(function: Any, x: ad.Tensor) -> list[Any]:
    """The derivative of the sum of the first derivative; 0 if that is constant."""
    (first,) = ad.autograd.grad(function(x).sum(), x, create_graph=True)
    if not first.requires_grad:
        return [0.0] * x.numel()
    return ad.autograd.grad(first.sum(), x)[0].tolist()


def tangent(function: Any, *pairs: tuple[list[float], list[float]]) -> list[float]:
    forward_ad = ad.autograd.forward_ad
    with forward_ad.dual_level():
        duals = [
            forward_ad.make_dual(leaf(*values), ad.tensor(directions, dtype=ad.float64))
            for values, directions in pairs
        ]
        return forward_ad.unpack_dual(function(*duals)).tangent.tolist()


# kinks -------------------------------------------------------------------------------------------


def test_abs_has_gradient_0_at_0() -> None:
    assert gradients(ad.abs, leaf(0.0, -2.0)) == [[0.0, -1.0]]
    assert gradients(ad.abs, leaf(0j, dtype=ad.complex128)) == [[0j]]


@pytest.mark.parametrize("name", ["hypot", "atan2"])
def test_gradient_at_the_origin_is_0_to_second_order(name: str) -> None:
    function = getattr(ad, name)
    x, y = leaf(0.0), leaf(0.0)
    assert gradients(function, x, y) == [[0.0], [0.0]]
    assert second(lambda x: function(x, y), x) == [0.0]


def test_square_of_hypot_has_no_nan_at_0() -> None:
    x = leaf(0.0)
    assert gradients(lambda x: ad.hypot(x, ad.zeros(1, dtype=ad.float64)) ** 2, x) == [[0.0]]
    assert math.isfinite(second(lambda x: ad.hypot(x, ad.zeros(1, dtype=ad.float64)) ** 2, x)[0])


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_atan2_gradient_neither_overflows_nor_underflows(size: float) -> None:
    ((along_y,), (along_x,)) = gradients(ad.atan2, leaf(3 * size), leaf(4 * size))
    assert along_y == pytest.approx(4 / 25 / size)
    assert along_x == pytest.approx(-3 / 25 / size)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_a_tie_gives_each_side_half_in_both_modes(name: str) -> None:
    function = getattr(ad, name)
    assert gradients(function, leaf(1.0), leaf(1.0)) == [[0.5], [0.5]]
    assert tangent(function, ([1.0], [3.0]), ([1.0], [1.0])) == [2.0]


@pytest.mark.parametrize("name", ["fmax", "fmin"])
def test_fmax_gives_a_tie_to_the_first_and_passes_over_nan(name: str) -> None:
    a, b = leaf(1.0, NAN, 1.0), leaf(1.0, 1.0, NAN)
    assert gradients(getattr(ad, name), a, b) == [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]


def test_clamp_keeps_the_gradient_at_a_limit() -> None:
    x = leaf(-1.0, 0.0, 1.0, 2.0, NAN)
    assert gradients(lambda x: x.clamp(-1.0, 1.0), x) == [[1.0, 1.0, 1.0, 0.0, 0.0]]


def test_crossed_limits_give_the_gradient_to_the_upper_one() -> None:
    x, low, high = leaf(0.0, 3.0), leaf(1.0, 1.0), leaf(-1.0, -1.0)
    assert x.clamp(low, high).tolist() == [-1.0, -1.0]
    assert gradients(lambda *a: ad.clamp(*a), x, low, high) == [[0.0] * 2, [0.0] * 2, [1.0] * 2]


def test_equal_limits_do_not_lose_the_gradient() -> None:
    found = gradients(lambda *a: ad.clamp(*a), leaf(-1.0), leaf(0.0), leaf(0.0))
    assert sum(g[0] for g in found) == 1.0


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.relu(),
        lambda x: x.clamp(0.0, 1.0),
        lambda x: x.clamp_min(0.0),
        lambda x: ad.maximum(x, ad.zeros(1, dtype=ad.float64)),
        lambda x: ad.fmax(x, ad.zeros(1, dtype=ad.float64)),
    ],
)
def test_an_infinite_gradient_on_the_side_not_taken_is_no_nan(function: Any) -> None:
    x = leaf(-1.0)
    infinite = ad.tensor([INFINITY], dtype=ad.float64)
    assert ad.autograd.grad(function(x), x, infinite)[0].tolist() == [0.0]


# powers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exponent", "slope", "curvature"), [(0, 0.0, 0.0), (1, 1.0, 0.0), (2, 0.0, 2.0), (3, 0.0, 0.0)]
)
@pytest.mark.parametrize("as_tensor", [False, True])
def test_whole_powers_are_smooth_at_0(
    exponent: int, slope: float, curvature: float, as_tensor: bool
) -> None:
    power = ad.tensor([float(exponent)], dtype=ad.float64) if as_tensor else exponent
    assert gradients(lambda x: x**power, leaf(0.0)) == [[slope]]
    assert second(lambda x: x**power, leaf(0.0)) == [curvature]
    assert tangent(lambda x: x**power, ([0.0], [1.0])) == [slope]


def test_exponent_gradient_is_0_at_base_0() -> None:
    base, exponent = leaf(0.0, 0.0, 0.0), leaf(0.0, 0.5, 2.0)
    assert gradients(ad.pow, base, exponent)[1] == [0.0, 0.0, 0.0]
    assert gradients(lambda e: 0**e, leaf(0.0, 2.0)) == [[0.0, 0.0]]


def test_mixed_derivative_of_a_power_at_exponent_0() -> None:
    x, y = leaf(2.0), leaf(0.0)
    (slope,) = ad.autograd.grad(x**y, x, create_graph=True)
    assert ad.autograd.grad(slope, y)[0].tolist() == [0.5]  # 1/x


def test_negative_base_has_a_gradient_in_the_base_alone() -> None:
    x = leaf(-2.0)
    y = ad.tensor([3.0], dtype=ad.float64)
    assert gradients(lambda x: x**y, x) == [[12.0]]
    assert tangent(lambda x: x**y, ([-2.0], [1.0])) == [12.0]


def test_integer_powers() -> None:
    assert (ad.tensor([3, -2]) ** 2).tolist() == [9, 4]
    base, exponent = ad.tensor([1, 2, -1, -1]), ad.tensor([-1, -1, -1, -2])
    assert (base**exponent).tolist() == [1, 0, -1, 1]
    with pytest.raises(ValueRangeError, match="negative powers"):
        ad.tensor([2]) ** -1


# exponentials ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_logaddexp_of_infinities(name: str) -> None:
    a = leaf(INFINITY, -INFINITY, INFINITY, -INFINITY)
    b = leaf(INFINITY, -INFINITY, 0.0, 0.0)
    assert gradients(getattr(ad, name), a, b) == [[0.5, 0.5, 1.0, 0.0], [0.5, 0.5, 0.0, 1.0]]


def test_ldexp_does_not_overflow_on_the_way() -> None:
    assert ad.ldexp(leaf(1e-300), ad.tensor([1030])).tolist() == [math.ldexp(1e-300, 1030)]


def test_sigmoid_far_out() -> None:
    assert ad.sigmoid(leaf(-1e4, 1e4)).tolist() == [0.0, 1.0]
    z = ad.sigmoid(ad.tensor([-1e4 + 1j, 1e4 + 1j]))
    assert z.tolist() == [0j, 1 + 0j]


def test_log1p_keeps_small_complex_numbers() -> None:
    z = ad.tensor([1e-20 + 1e-20j], dtype=ad.complex128)
    assert z.log1p().tolist() == [1e-20 + 1e-20j]


def test_acosh_in_the_left_half_plane() -> None:
    z, step = -1.5 + 0.5j, 1e-6
    (found,) = gradients(lambda z: z.acosh().real, leaf(z, dtype=ad.complex128))
    slope = (np.arccosh(z + step) - np.arccosh(z - step)) / (2 * step)
    assert found[0] == pytest.approx(np.conj(slope))


# dtypes and errors -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16, ad.float32, ad.float64])
def test_numbers_do_not_change_a_floating_dtype(dtype: Any) -> None:
    x = leaf(0.5, 2.0, dtype=dtype)
    for y in (x + 0.3, 1 - x, x * 2.5, x / 3, x**2, x**0.5, 2**x, x.clamp(0.1), x % 0.3, x.relu()):
        assert y.dtype is dtype
        assert ad.autograd.grad(y.sum(), x)[0].dtype is dtype


def test_integer_division() -> None:
    a, b = ad.tensor([7, -7, 7, -7]), ad.tensor([2, 2, -2, -2])
    assert a.div(b, rounding_mode="floor").tolist() == [3, -4, -4, 3]
    assert a.div(b, rounding_mode="trunc").tolist() == [3, -3, -3, 3]
    assert a.remainder(b).tolist() == [1, 1, -1, -1]
    assert a.fmod(b).tolist() == [1, -1, 1, -1]
    assert (a / b).dtype is ad.float32


@pytest.mark.parametrize(
    "call",
    [
        lambda i: i // 0,
        lambda i: i % 0,
        lambda i: i.fmod(ad.tensor([0])),
        lambda i: i.div(0, rounding_mode="trunc"),
        lambda i: i.div(2, rounding_mode="up"),
        lambda i: i.clamp(),
        lambda i: i.isclose(i, rtol=-1.0),
    ],
)
def test_senseless_values_are_refused(call: Any) -> None:
    with pytest.raises(ValueRangeError):
        call(ad.tensor([1]))


@pytest.mark.parametrize(
    "call",
    [
        lambda: ad.tensor([True]) - ad.tensor([True]),
        lambda: -ad.tensor([True]),
        lambda: ad.tensor([1]).add(ad.tensor([1]), alpha=0.5),
        lambda: ad.tensor([1]).frexp(),
        lambda: ad.tensor([1j]).sign(),
        lambda: ad.tensor([1.0]) & ad.tensor([1.0]),
        lambda: ad.addcdiv(ad.tensor([1]), ad.tensor([1]), ad.tensor([1])),
    ],
)
def test_unfit_dtypes_are_refused(call: Any) -> None:
    with pytest.raises(DtypeError):
        call()


def test_a_negative_factor_of_unsigned_integers_wraps_around() -> None:
    x = ad.tensor([5], dtype=ad.uint8)
    assert x.add(x, alpha=-3).tolist() == [246]


# in place ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [lambda y: y.eq_(1.0), lambda y: y.logical_not_()])
def test_a_write_without_derivative_stops_the_gradient(write: Any) -> None:
    x = leaf(1.0, 2.0)
    y = x * 3
    write(y)
    assert gradients(lambda x: y * y, x) == [[0.0, 0.0]]


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin", "lt", "le", "gt", "ge"])
def test_complex_numbers_have_no_order(name: str) -> None:
    z = ad.tensor([1 + 2j, 3.0])
    for other in (z, ad.ones(2)):
        with pytest.raises(TypeError, match="no order"):
            getattr(ad, name)(z, other)
        with pytest.raises(TypeError, match="no order"):
            getattr(ad, name)(other, z)
    for call in (z.relu, lambda: z.clamp(min=0), lambda: z.clamp_max(1.0), lambda: ad.ones(2) < 1j):
        with pytest.raises(TypeError, match="no order"):
            call()


def test_slopes_of_powers_end_where_bfloat16_does() -> None:
    x = ad.tensor([1.836566794967668e-30], dtype=ad.bfloat16)
    slope = ad.grad(lambda x: (x**-0.3125).sum())
    assert ad.equal(slope(x), slope(x.double()).to(ad.bfloat16))
    x = ad.tensor([97.0], dtype=ad.bfloat16)
    slope = ad.grad(lambda x: ad.grad(lambda x: (2.5**x).sum())(x).sum())
    assert ad.equal(slope(x), slope(x.double()).to(ad.bfloat16))


def test_a_number_over_a_tensor_at_the_ends_of_the_range() -> None:
    for end, dtype in ((1e20, ad.float32), (1e200, ad.float64), (2.0**-100, ad.float32)):
        x = ad.tensor([end], dtype=dtype)
        _, slope = ad.jvp(lambda x, k=end: k / x, (x,), (ad.ones_like(x),))
        assert ad.allclose(slope, -1 / x, rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
@pytest.mark.parametrize(
    ("power", "at"), [(lambda x: x**0.3, 6e4), (lambda x: 1.3**x, 24.0), (lambda x: x**-0.7, 1e-4)]
)
def test_slopes_of_powers_of_halves_have_the_rounded_number(
    dtype: ad.DType, power: Callable[[Any], Any], at: float
) -> None:
    x = ad.tensor([at], dtype=dtype)
    forward = lambda x: ad.jvp(power, (x,), (ad.ones_like(x),))[1]
    reverse = ad.grad(lambda x: power(x).sum())
    assert ad.equal(forward(x), reverse(x))
    assert ad.equal(ad.compile(forward)(x), reverse(x))
    assert ad.equal(reverse(x.expand(50_000).clone())[:1], reverse(x))


_ENDS = [complex(a, b) for a in (0.0, -0.0, 1.0, -7.0, np.inf, -np.inf, np.nan)
         for b in (0.0, -0.0, 2.5, -1.0, np.inf, -np.inf, np.nan)]  # fmt: skip


def _parts_agree(found: Any, wanted: Any, rtol: float) -> None:
    for part in ("real", "imag"):  # of infinite numbers, too
        np.testing.assert_allclose(getattr(found, part), getattr(wanted, part), rtol, 1e-13)


@pytest.mark.parametrize("name", ["log", "log2", "log10", "sgn", "exp", "sqrt", "log1p"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_functions_at_infinities_are_the_same_compiled(name: str, dtype: str) -> None:
    z = ad.tensor(_ENDS, dtype=getattr(ad, dtype))
    with np.errstate(all="ignore"):
        eager, compiled = (f(z).numpy() for f in (getattr(ad, name), ad.compile(getattr(ad, name))))
    _parts_agree(compiled, eager, 1e-5 if dtype == "complex64" else 1e-13)


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_complex_sums_of_powers_at_infinities_are_the_same_compiled(name: str) -> None:
    z = ad.tensor(_ENDS, dtype=ad.complex128)
    a, b = z.repeat(len(_ENDS)), z.repeat_interleave(len(_ENDS))
    with np.errstate(all="ignore"):
        eager = getattr(ad, name)(a, b).numpy()
        compiled = ad.compile(getattr(ad, name))(a, b).numpy()
    _parts_agree(compiled, eager, 1e-13)

"""Activations where they are hard: far out, at kinks, to second and third order, in place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

F = ad.nn.functional
FAR = [-1e200, -1e4, -800.0, 800.0, 1e4, 1e200]
SMOOTH: dict[str, Callable[[Any], Any]] = {
    "mish": F.mish,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus": F.softplus,
    "softplus without threshold": lambda x: F.softplus(x, 1, 1e300),
    "elu": F.elu,
    "celu": lambda x: F.celu(x, 2.0),
    "selu": F.selu,
    "logsigmoid": F.logsigmoid,
}


def derivatives(function: Callable[[Any], Any], at: float, order: int) -> list[float]:
    """f, f', f'', … at a point."""
    found = []
    current = function
    for _ in range(order + 1):
        found.append(float(current(ad.tensor(at, dtype=ad.float64))))
        current = ad.grad(current)
    return found


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("at", FAR)
def test_nothing_overflows_to_third_order(name: str, at: float) -> None:
    values = derivatives(SMOOTH[name], at, 3)
    assert all(map(math.isfinite, values)), values
    assert values[2:] == pytest.approx([0.0, 0.0], abs=1e-150)  # celu's are exp(-400)


def test_mish_is_straight_at_ten_thousand() -> None:
    assert derivatives(F.mish, 1e4, 2) == [1e4, 1.0, 0.0]


@pytest.mark.parametrize("name", SMOOTH)
def test_slope_at_infinity_is_that_of_the_line(name: str) -> None:
    x = ad.tensor(math.inf, dtype=ad.float64, requires_grad=True)
    slope = 1.0507009873554805 if name == "selu" else 0.0 if name == "logsigmoid" else 1.0
    for create_graph in (False, True):
        (grad,) = ad.autograd.grad(SMOOTH[name](x), x, create_graph=create_graph)
        assert float(grad) == pytest.approx(slope)


def test_a_slope_at_nan_does_not_depend_on_the_way_it_is_computed() -> None:
    x = ad.tensor([math.nan, -1.0], requires_grad=True)
    (fast,) = ad.autograd.grad(F.elu(x).sum(), x)
    (general,) = ad.autograd.grad(F.elu(x).sum(), x, create_graph=True)
    assert fast.tolist() == pytest.approx(general.tolist())


def test_float32_is_straight_far_out_too() -> None:
    x = ad.tensor([-1e30, -400.0, 400.0, 1e30], requires_grad=True)
    for function in SMOOTH.values():
        (first,) = ad.autograd.grad(function(x).sum(), x, create_graph=True)
        (second,) = ad.autograd.grad(first.sum(), x)
        assert first.dtype is ad.float32
        assert np.isfinite(first.detach().numpy()).all()
        assert np.array_equal(second.numpy(), np.zeros(4, np.float32))


@pytest.mark.parametrize(
    ("function", "at", "slope"),
    [
        (F.hardtanh, 1.0, 0.0),
        (F.hardtanh, -1.0, 0.0),
        (F.relu6, 0.0, 0.0),
        (F.relu6, 6.0, 0.0),
        (F.hardsigmoid, 3.0, 0.0),
        (F.hardswish, -3.0, 0.0),
        (F.hardswish, 3.0, 1.0),
        (F.hardshrink, 0.5, 0.0),
        (F.softshrink, -0.5, 0.0),
        (lambda x: F.threshold(x, 0.5, 2.0), 0.5, 0.0),
        (F.leaky_relu, 0.0, 0.01),
        (lambda x: F.elu(x, 0.5), 0.0, 0.5),
    ],
)
def test_slope_at_a_kink_is_pytorchs(function: Any, at: float, slope: float) -> None:
    assert float(ad.grad(function)(ad.tensor(at))) == pytest.approx(slope)


def test_gelu_keeps_its_digits_on_the_left() -> None:
    value = float(F.gelu(ad.tensor(-10.0, dtype=ad.float64)))
    assert value == pytest.approx(-7.619853024160527e-23, rel=1e-12)


def test_gelu_names_its_approximations() -> None:
    with pytest.raises(ValueError, match="'none' .* and 'tanh'"):
        F.gelu(ad.ones(2), approximate="cubic")


def test_elu_backward_of_the_result() -> None:
    x = ad.tensor([-1.5, -0.2, 0.7], dtype=ad.float64)
    grad = ad.ones(3, dtype=ad.float64)
    by_input = ad.ops.elu_backward(grad, 1.3, 1.1, 0.9, False, x)
    by_result = ad.ops.elu_backward(grad, 1.3, 1.1, 0.9, True, ad.ops.elu(x, 1.3, 1.1, 0.9))
    assert np.allclose(by_input.numpy(), by_result.numpy(), rtol=1e-12)
    with pytest.raises(ValueError, match="negative alpha"):
        ad.ops.elu_backward(grad, -1.0, 1, 1, True, x)


def test_rrelu_draws_slopes_and_writes_the_noise() -> None:
    x = ad.tensor([-1.0, -1.0, -1.0, 2.0], requires_grad=True)
    noise = ad.zeros(4)
    ad.manual_seed(0)
    result = ad.ops.rrelu_with_noise(x, noise, 0.1, 0.4, True)
    slopes = noise.numpy()
    assert ((slopes[:3] >= 0.1) & (slopes[:3] < 0.4)).all()
    assert slopes[3] == 1
    result.sum().backward()
    assert np.array_equal(x.grad.numpy(), slopes)
    ad.manual_seed(0)
    generator = ad.Generator()
    generator.manual_seed(3)
    first = ad.rrelu(x, training=True, generator=generator).detach().numpy()
    generator.manual_seed(3)
    assert np.array_equal(first, ad.rrelu(x, training=True, generator=generator).detach().numpy())


def test_softmax_of_large_and_of_impossible_elements() -> None:
    x = ad.tensor([1e4, 0.0, -math.inf], dtype=ad.float64, requires_grad=True)
    result = F.softmax(x, dim=0)
    assert result.tolist() == [1.0, 0.0, 0.0]
    result[0].backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("ndim", "dim"), [(1, 0), (2, 1), (3, 0), (4, 1)])
def test_softmax_without_a_dimension_warns_and_takes_pytorchs(ndim: int, dim: int) -> None:
    x = ad.arange(2.0**ndim).reshape((2,) * ndim)
    with pytest.warns(UserWarning, match=f"chooses dim={dim}"):
        result = F.softmax(x)
    assert ad.equal(result, F.softmax(x, dim=dim))


def test_safe_softmax_of_nothing_is_zero_with_zero_gradient() -> None:
    x = ad.full((2, 3), -math.inf, dtype=ad.float64, requires_grad=True)
    result = ad.ops._safe_softmax(x, 1)
    result.sum().backward()
    assert np.array_equal(result.detach().numpy(), np.zeros((2, 3)))
    assert np.array_equal(x.grad.numpy(), np.zeros((2, 3)))


def test_softmax_of_halves_is_rounded_once() -> None:
    x = ad.tensor([1.0, 2.0, 3.0], dtype=ad.bfloat16)
    wide = F.softmax(x.float(), dim=0).to(ad.bfloat16)
    assert F.softmax(x, dim=0).tolist() == wide.tolist()
    assert F.softmax(x, dim=0, dtype=ad.float32).dtype is ad.float32


def test_softmax_of_integers_asks_for_a_dtype() -> None:
    with pytest.raises(TypeError, match="floating point"):
        F.softmax(ad.tensor([1, 2]), dim=0)
    assert F.softmax(ad.tensor([1, 1]), dim=0, dtype=ad.float64).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.softshrink(ad.ones(2), -1.0), ValueError, "between 0 and"),
        (lambda: F.softshrink(ad.ones(2).half(), 65505.0), ValueError, "between 0 and 65504"),
        (lambda: F.celu(ad.ones(2), 0.0), ValueError, "alpha"),
        (lambda: F.hardtanh(ad.ones(2), 1.0, -1.0), ValueError, "min_val"),
        (lambda: F.glu(ad.ones(3)), ValueError, "halved"),
        (lambda: F.prelu(ad.ones(2, 3), ad.ones(2)), ValueError, "channels"),
        (lambda: F.rrelu(ad.ones(2), 0.5, 0.1), ValueError, "lower"),
    ],
)
def test_bad_arguments_are_explained(call: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", ["softplus", "gelu", "silu", "mish", "elu"])
def test_bfloat16_to_third_order(name: str) -> None:
    """Numbers that a formula saved for bfloat16 multiply tensors as any number does."""
    wide = ad.tensor([-0.5, 0.25, 1.5], requires_grad=True)
    narrow = wide.detach().to(ad.bfloat16).requires_grad_()
    results = []
    for x in (wide, narrow):
        y = getattr(ad.nn.functional, name)(x)
        for _ in range(3):
            (y,) = ad.autograd.grad(y.sum(), x, create_graph=True)
        results.append(np.array(y.tolist()))
    assert np.allclose(results[0], results[1], atol=0.05)


@pytest.mark.parametrize("name", ["elu", "celu", "selu"])
def test_second_derivative_at_the_kink_is_that_of_the_right_side(name: str) -> None:
    x = ad.zeros((), dtype=ad.float64, requires_grad=True)
    (slope,) = ad.autograd.grad(getattr(ad.nn.functional, name)(x), x, create_graph=True)
    assert slope.item() >= 1
    assert ad.autograd.grad(slope, x)[0].item() == 0


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("name", ["silu", "mish", "gelu"])
def test_limits_at_infinity(name: str, dtype: str) -> None:
    x = ad.tensor([-np.inf, np.inf], dtype=getattr(ad, dtype), requires_grad=True)
    y = getattr(ad.nn.functional, name)(x)
    assert y.tolist() == [0, np.inf]
    assert ad.autograd.grad(y.sum(), x)[0].tolist() == [0, 1]


def test_gelu_in_float32_has_its_digits() -> None:
    """The tail on the left, too: relative to the value, not to 1."""
    x = np.linspace(-9, 9, 5001)
    single = ad.tensor(x.astype(np.float32), requires_grad=True)
    double = ad.tensor(x.astype(np.float32).astype(np.float64), requires_grad=True)
    values, slopes = [], []
    for z in (single, double):
        y = ad.nn.functional.gelu(z)
        values.append(y.detach().numpy())
        slopes.append(ad.autograd.grad(y.sum(), z)[0].numpy())
    assert np.allclose(values[0], values[1], rtol=4e-6, atol=0)
    assert np.allclose(slopes[0], slopes[1], rtol=4e-6, atol=2e-7)


def test_choices_of_large_arrays_keep_nan_and_signs() -> None:
    """Large arrays choose by bits: NaN, infinities and -0 go through untouched."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal(5000).astype(np.float32)
    x[::7], x[1::7], x[2::7], x[3::7] = np.nan, np.inf, -np.inf, -0.0
    mask = generator.random(5000) < 0.5
    for other in (np.float32(0), np.float32(-0.0), np.float32(2), x[::-1].copy()):
        got = ad.where(ad.tensor(mask), ad.tensor(x), ad.tensor(other)).numpy()
        assert got.tobytes() == np.where(mask, x, other).tobytes()
        if np.ndim(other) == 0:
            filled = ad.tensor(x).masked_fill(ad.tensor(mask), float(other)).numpy()
            assert filled.tobytes() == np.where(mask, other, x).tobytes()


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_a_large_array_is_differentiated_by_rows(name: str) -> None:
    """Larger than what functions of elements take in pieces; each row is on its own."""
    x = ad.rand(3, 1 << 16, requires_grad=True)
    weight = ad.rand(3, 1 << 16)
    (getattr(ad, name)(x, 1) * weight).sum().backward()
    row = x[1].detach().requires_grad_()
    (getattr(ad, name)(row, 0) * weight[1]).sum().backward()
    assert x.grad is not None
    assert row.grad is not None
    np.testing.assert_allclose(x.grad[1].numpy(), row.grad.numpy(), rtol=1e-4, atol=1e-7)


def test_gradient_of_hardswish_in_halves_is_rounded_once() -> None:
    x = ad.linspace(-2.9, 2.9, 100).to(ad.bfloat16)
    weights = x.float().cos().to(ad.bfloat16)
    found = ad.grad(lambda x: (F.hardswish(x) * weights).sum())(x)
    wide = ad.grad(lambda x: (F.hardswish(x) * weights.float()).sum())(x.float())
    assert found.tolist() == wide.to(ad.bfloat16).tolist()


@pytest.mark.parametrize("way", ["small", "rows", "columns", "compiled", "forward"])
def test_small_shares_keep_their_digits_in_the_gradient_of_log_softmax(way: str) -> None:
    mpmath = pytest.importorskip("mpmath")
    x = np.array([-441.0886457519567, -178.40527144279883, -20.3, 0.25, -1.25])
    mpmath.mp.prec = 200
    powers = [mpmath.exp(mpmath.mpf(v)) for v in x]
    shares = np.array([float(-p / mpmath.fsum(powers)) for p in powers[:3]])
    many = 1 if way in ("small", "compiled", "forward") else 2000
    dim = 0 if way == "columns" else 1
    given = ad.tensor(np.tile(x, (many, 1)) if dim else np.tile(x[:, None], (1, many)))
    loss = lambda t: t.log_softmax(dim).select(dim, 3).sum()
    if way == "forward":
        direct = lambda i: ad.jvp(loss, (given,), (ad.eye(5, dtype=ad.float64)[i : i + 1],))[1]
        found = np.array([direct(i).item() for i in range(3)])
    else:
        slope = ad.compile(ad.grad(loss)) if way == "compiled" else ad.grad(loss)
        found = slope(given).numpy()
        found = found[-1, :3] if dim else found[:3, -1]
    np.testing.assert_allclose(found, shares, rtol=8 * np.finfo(float).eps)

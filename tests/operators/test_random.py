"""Samples that move with the parameters of their distribution, against mpmath; generators."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

import adjoint as ad
from adjoint.c_kernels import drawing
from adjoint.toolchain import background

mpmath.mp.dps = 40


def gamma_slope(a: float, z: float, order: int = 0) -> float:
    """-(∂Q/∂a) / (∂Q/∂z) and its derivatives in a, by differences in 40 digits."""

    def slope(a: mpmath.mpf) -> mpmath.mpf:
        density = mpmath.exp((a - 1) * mpmath.log(z) - z - mpmath.loggamma(a))
        tail = mpmath.diff(lambda b: mpmath.gammainc(b, z, mpmath.inf, regularized=True), a)
        return tail / density

    return float(mpmath.diff(slope, a, order) if order else slope(mpmath.mpf(a)))


GAMMAS = [(0.1, 0.01), (0.1, 0.9), (0.5, 3.0), (2.0, 0.1), (2.0, 9.0), (4.9, 5.8), (8.0, 7.0),
          (30.0, 22.0), (30.0, 45.0)]  # fmt: skip


@pytest.mark.parametrize(("a", "z"), GAMMAS)
def test_slope_of_a_gamma_sample(a: float, z: float) -> None:
    shape = ad.tensor(a, dtype=ad.float64, requires_grad=True)
    slope = ad._standard_gamma_grad(shape, ad.tensor(z, dtype=ad.float64))
    assert slope.item() == pytest.approx(gamma_slope(a, z), rel=1e-11)
    (second,) = ad.autograd.grad(slope, shape)
    assert second.item() == pytest.approx(gamma_slope(a, z, 1), rel=1e-9)


def test_gamma_sampler_to_second_order() -> None:
    """z(a) at a fixed quantile: its second derivative is the total one of the slope."""
    a = ad.tensor([0.3, 2.0, 20.0], dtype=ad.float64, requires_grad=True)
    ad.manual_seed(0)
    z = ad._standard_gamma(a)
    (first,) = ad.autograd.grad(z.sum(), a, create_graph=True)
    (second,) = ad.autograd.grad(first.sum(), a)
    for k, shape in enumerate(a.tolist()):
        sample, slope = z[k].item(), gamma_slope(shape, z[k].item())
        assert first[k].item() == pytest.approx(slope, rel=1e-10)
        step = 1e-5
        ahead = gamma_slope(shape + step, sample + step * slope)
        behind = gamma_slope(shape - step, sample - step * slope)
        assert second[k].item() == pytest.approx((ahead - behind) / (2 * step), rel=1e-5)


@pytest.mark.parametrize("a", [1e-3, 1e3, 1e6, 1e9])
def test_slope_of_a_gamma_sample_at_all_magnitudes(a: float) -> None:
    """A large gamma variable is a + √a ε: its slope is 1 + ε/(2√a) + O(1/a)."""
    if a < 1:
        shape, z = ad.tensor([a], dtype=ad.float64), ad.tensor([0.1], dtype=ad.float64)
        assert ad._standard_gamma_grad(shape, z).item() == pytest.approx(gamma_slope(a, 0.1))
        return
    noise = np.array([-3.0, 0.0, 2.0])
    z = ad.tensor(a + math.sqrt(a) * noise)
    slope = ad._standard_gamma_grad(ad.full((3,), a, dtype=ad.float64), z).numpy()
    assert np.abs(slope - 1 - noise / (2 * math.sqrt(a))).max() < 4 / a


def test_dirichlet_gradient_is_the_beta_slope() -> None:
    alpha = ad.tensor([[0.5, 2.0, 7.0], [3.0, 0.1, 1.0]], dtype=ad.float64, requires_grad=True)
    x = ad._sample_dirichlet(alpha)
    assert np.allclose(x.sum(-1).tolist(), 1)
    jacobian = ad.autograd.grad(x[0, 0], alpha)[0][0]
    a, b, value = 0.5, 9.0, x[0, 0].item()
    density = mpmath.mpf(value) ** (a - 1) * (1 - mpmath.mpf(value)) ** (b - 1) / mpmath.beta(a, b)
    moved = mpmath.diff(lambda t: mpmath.betainc(t, b, 0, value, regularized=True), a)
    assert jacobian[0].item() == pytest.approx(float(-moved / density), rel=1e-9)


def test_gradients_of_means_are_unbiased() -> None:
    """d E[z²]/da = 2a + 1 for gamma, d E[x₀]/dα₀ = (A - α₀)/A² for Dirichlet."""
    ad.manual_seed(1)
    a = ad.tensor(1.7, dtype=ad.float64, requires_grad=True)
    z = ad._standard_gamma(a.expand(40000))
    (slope,) = ad.autograd.grad((z * z).mean(), a)
    assert slope.item() == pytest.approx(2 * 1.7 + 1, rel=0.05)
    alpha = ad.tensor([0.6, 1.5], dtype=ad.float64, requires_grad=True)
    x = ad._sample_dirichlet(alpha.expand(20000, 2))
    (slope,) = ad.autograd.grad(x[:, 0].mean(), alpha)
    assert slope.tolist() == pytest.approx([1.5 / 2.1**2, -0.6 / 2.1**2], rel=0.05)


def test_dirichlet_of_tiny_concentrations_is_a_corner() -> None:
    x = ad._sample_dirichlet(ad.full((50, 3), 1e-4, dtype=ad.float64))
    assert not x.isnan().any().item()
    assert np.allclose(np.sort(x.numpy(), -1)[:, 2], 1)


def test_binomial_and_its_zero_gradient() -> None:
    p = ad.tensor([0.0, 0.3, 1.0], dtype=ad.float64, requires_grad=True)
    drawn = ad.binomial(ad.full((1000, 1), 10.0, dtype=ad.float64), p)
    assert drawn.shape == (1000, 3)
    assert drawn.mean(0).tolist() == pytest.approx([0, 3, 10], abs=0.2)
    assert ad.autograd.grad(drawn.sum(), p)[0].tolist() == [0, 0, 0]
    with pytest.raises(ad.AdjointError, match="whole numbers"):
        ad.binomial(ad.tensor([1.5]), ad.tensor([0.5]))


def test_random_namespace_is_the_default_stream() -> None:
    ad.random.manual_seed(4)
    with ad.random.fork_rng():
        inside = ad.rand(3).tolist()
    assert ad.rand(3).tolist() == inside
    state = ad.random.get_rng_state()
    first = ad.rand(3).tolist()
    ad.random.set_rng_state(state)
    assert ad.rand(3).tolist() == first


def test_gamma_sampler_under_transforms() -> None:
    a = ad.tensor([0.5, 2.0, 30.0], dtype=ad.float64)

    def one(x: ad.Tensor) -> float:
        ad.manual_seed(0)
        return ad.grad(ad.grad(ad._standard_gamma))(x).item()

    ad.manual_seed(0)
    mapped = ad.vmap(ad.grad(ad.grad(ad._standard_gamma)), randomness="same")(a)
    assert np.allclose(mapped.tolist(), [one(x) for x in a])
    ad.manual_seed(0)
    forward = ad.jacfwd(ad._sample_dirichlet, randomness="same")(a)
    ad.manual_seed(0)
    assert np.allclose(forward.tolist(), ad.jacrev(ad._sample_dirichlet)(a).tolist())


def test_normal_numbers_of_words_are_normal_and_alike_without_native_code(monkeypatch: Any) -> None:
    words = np.random.default_rng(0).bit_generator.random_raw(1 << 17)
    words[:4] = [0, (1 << 64) - 1, 1 << 63, (1 << 32) - 1]  # the ends of both halves
    with monkeypatch.context() as patch:
        patch.setattr(background, "soon", background.now)
        found = drawing.normal(words)
    monkeypatch.setattr(drawing, "LARGE", 1 << 60)
    np.testing.assert_allclose(found, drawing.normal(words), atol=2e-6)
    assert np.isfinite(found).all()
    assert abs(found.astype(np.float64).mean()) < 0.01
    assert stats.kstest(found, "norm").pvalue > 0.01
    one, other = found.reshape(2, -1)
    assert abs(np.corrcoef(np.abs(one), np.abs(other))[0, 1]) < 0.01


@pytest.mark.parametrize("dtype", [ad.float32, ad.float16, ad.bfloat16, ad.complex64])
def test_many_normal_numbers_repeat_with_their_seed(dtype: Any) -> None:
    draws = []
    for shape in ((drawing.LARGE + 1,), (drawing.LARGE + 1,), (7, 5)):
        ad.manual_seed(3)
        draws.append(ad.randn(shape, dtype=dtype))
        assert draws[-1].dtype is dtype
        assert draws[-1].shape == shape
    assert ad.equal(draws[0], draws[1])
    assert abs(float(draws[0].to(ad.complex128).abs().square().mean()) - 1) < 0.05

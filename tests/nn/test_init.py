"""First values of parameters: each function draws from its distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats

import adjoint as ad
from adjoint.nn import init

N = 100
SIZES = {"fan_in": 5 * 9, "fan_out": N * 9}  # of a weight (N, 5, 3, 3)


def weight() -> Any:
    return ad.empty(N, 5, 3, 3)


@pytest.fixture(autouse=True)
def _seed() -> None:
    ad.manual_seed(0)


def p_value(tensor: Any, distribution: Any) -> float:
    """How probable values are that fit the distribution no better."""
    found = tensor.detach().numpy().ravel()
    return float(scipy.stats.kstest(found, distribution.cdf).pvalue)


def uniform(bound: float) -> Any:
    return scipy.stats.uniform(-bound, 2 * bound)


XAVIER = math.sqrt(2 / (SIZES["fan_in"] + SIZES["fan_out"]))
DISTRIBUTIONS = {
    "uniform_": (lambda t: init.uniform_(t, -1, 3), scipy.stats.uniform(-1, 4)),
    "normal_": (lambda t: init.normal_(t, 1, 2), scipy.stats.norm(1, 2)),
    "trunc_normal_": (
        lambda t: init.trunc_normal_(t, 1, 2, 0, 2), scipy.stats.truncnorm(-0.5, 0.5, 1, 2),
    ),
    "xavier_uniform_": (lambda t: init.xavier_uniform_(t, 2), uniform(2 * math.sqrt(3) * XAVIER)),
    "xavier_normal_": (lambda t: init.xavier_normal_(t, 2), scipy.stats.norm(0, 2 * XAVIER)),
    "kaiming_uniform_": (
        lambda t: init.kaiming_uniform_(t, a=math.sqrt(5)), uniform(1 / math.sqrt(5 * 9)),
    ),
    "kaiming_normal_": (
        lambda t: init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"),
        scipy.stats.norm(0, math.sqrt(2 / SIZES["fan_out"])),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_values_are_of_the_distribution(name: str) -> None:
    draw, distribution = DISTRIBUTIONS[name]
    tensor = weight()
    assert draw(tensor) is tensor
    assert p_value(tensor, distribution) > 0.01


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_values_are_those_of_the_generator(name: str) -> None:
    function = getattr(init, name)
    first, second = (function(weight(), generator=ad.Generator().manual_seed(7)) for _ in range(2))
    assert ad.equal(first, second)


def test_parameters_are_written_to_without_a_history() -> None:
    p = ad.nn.Parameter(ad.zeros(3, 3))
    init.constant_(p, 2.0)
    assert p.is_leaf
    assert p.requires_grad
    assert p.tolist() == [[2.0] * 3] * 3
    assert init.ones_(p).sum().item() == 9.0
    assert init.zeros_(p).sum().item() == 0.0


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 2, 3)])
def test_orthogonal_matrices_are(shape: tuple[int, ...]) -> None:
    matrix = init.orthogonal_(ad.empty(shape, dtype=ad.float64), gain=2.0).reshape(shape[0], -1)
    product = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    assert ad.allclose(product, 4 * ad.eye(product.shape[0], dtype=ad.float64))


def test_a_dirac_convolution_passes_its_channels() -> None:
    x = ad.randn(1, 4, 6)
    kernel = init.dirac_(ad.empty(4, 2, 3), groups=2)
    assert ad.equal(ad.nn.functional.conv1d(x, kernel, padding=1, groups=2), x)


def test_sparse_columns_have_their_zeros() -> None:
    matrix = init.sparse_(ad.empty(10, 4), sparsity=0.35)
    assert (matrix == 0).sum(0).tolist() == [4] * 4


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
def test_truncated_values_in_half_precision_are_inside(dtype: Any) -> None:
    found = init.trunc_normal_(ad.empty(10000, dtype=dtype), std=0.02)
    assert float(found.float().abs().max()) < 0.2


@pytest.mark.parametrize(
    ("name", "gain"),
    [("linear", 1.0), ("tanh", 5 / 3), ("relu", math.sqrt(2)), ("selu", 0.75),
     ("leaky_relu", math.sqrt(2 / 1.0001))],
)  # fmt: skip
def test_gains(name: str, gain: float) -> None:
    np.testing.assert_allclose(init.calculate_gain(name), gain)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: init.calculate_gain("softmax"),
        lambda: init.calculate_gain("leaky_relu", "0.1"),
        lambda: init.xavier_normal_(ad.empty(3)),
        lambda: init.eye_(ad.empty(3)),
        lambda: init.dirac_(ad.empty(3, 3)),
        lambda: init.dirac_(ad.empty(3, 2, 2), groups=2),
        lambda: init.orthogonal_(ad.empty(3)),
        lambda: init.sparse_(ad.empty(3), 0.5),
        lambda: init.kaiming_normal_(ad.empty(3, 3), mode="fan"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError):
        wrong()


def test_names_without_underscore_warn_and_work() -> None:
    with pytest.warns(FutureWarning, match="constant_"):
        assert init.constant(ad.empty(2), 3.0).tolist() == [3.0, 3.0]

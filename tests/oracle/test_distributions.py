"""Distributions against PyTorch's: densities, moments, divergences, gradients, shapes, texts."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributions as theirs

import adjoint as ad
import adjoint.distributions as ours

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore:Singular sample detected"),
    pytest.mark.filterwarnings("ignore:Low df values detected"),
]

RNG = np.random.default_rng(0)


def positive(*shape: int) -> Any:
    return np.exp(RNG.normal(size=shape))


def real(*shape: int) -> Any:
    return RNG.normal(size=shape)


def simplex(*shape: int) -> Any:
    weights = positive(*shape)
    return weights / weights.sum(-1, keepdims=True)


def definite(*shape: int) -> Any:
    root = real(*shape, shape[-1])
    return root @ root.swapaxes(-1, -2) + np.eye(shape[-1])


LOC_SCALE = [
    {"loc": 0.3, "scale": 1.7},
    {"loc": real(3), "scale": positive(2, 3)},
    {"loc": real(2, 1), "scale": 1e-3},
]
POSITIVE_PAIR = [(2.5, 0.7), (positive(3), positive(2, 3)), (positive(2, 1), 30.0)]
BINARY = [
    {"probs": 0.3},
    {"probs": RNG.uniform(size=(2, 3))},
    {"logits": real(4) * 5},
]
CHOICES = [{"probs": simplex(4)}, {"probs": positive(2, 3)}, {"logits": real(2, 1, 3)}]


def pairs(first: str, second: str) -> list[dict[str, Any]]:
    return [{first: a, second: b} for a, b in POSITIVE_PAIR]


EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "Bernoulli": BINARY,
    "Beta": pairs("concentration1", "concentration0"),
    "Binomial": [{"total_count": 7, **b} for b in BINARY]
    + [{"total_count": np.array([3.0, 5.0]), "probs": np.array([0.2, 0.9])}],
    "Categorical": CHOICES,
    "Cauchy": LOC_SCALE,
    "Chi2": [{"df": 3.0}, {"df": positive(2, 3)}],
    "ContinuousBernoulli": [*BINARY, {"probs": np.array([0.4995, 0.5, 0.501, 0.51])}],
    "Dirichlet": [{"concentration": positive(3)}, {"concentration": positive(2, 4)}],
    "Exponential": [{"rate": 0.3}, {"rate": positive(2, 3)}],
    "FisherSnedecor": [*pairs("df1", "df2"), {"df1": 3.0, "df2": 11.0}],
    "Gamma": pairs("concentration", "rate"),
    "GeneralizedPareto": [
        {"loc": 0.2, "scale": 1.5, "concentration": 0.3},
        {"loc": real(3), "scale": positive(2, 3), "concentration": real(3)},
    ],
    "Geometric": BINARY,
    "Gumbel": LOC_SCALE,
    "HalfCauchy": [{"scale": 0.7}, {"scale": positive(2, 3)}],
    "HalfNormal": [{"scale": 0.7}, {"scale": positive(2, 3)}],
    "InverseGamma": pairs("concentration", "rate"),
    "Kumaraswamy": pairs("concentration1", "concentration0"),
    "LKJCholesky": [{"dim": 3, "concentration": 1.5}, {"dim": 4, "concentration": positive(2)}],
    "Laplace": LOC_SCALE,
    "LogNormal": LOC_SCALE[:2],
    "LogisticNormal": [{"loc": real(3), "scale": positive(3)}],
    "LowRankMultivariateNormal": [
        {"loc": real(3), "cov_factor": real(3, 2), "cov_diag": positive(3)},
        {"loc": real(2, 3), "cov_factor": real(4, 1, 3, 2), "cov_diag": positive(2, 3)},
    ],
    "Multinomial": [{"total_count": 5, **c} for c in CHOICES],
    "MultivariateNormal": [
        {"loc": real(3), "covariance_matrix": definite(3)},
        {"loc": real(2, 3), "precision_matrix": definite(4, 1, 3)},
        {"loc": real(5, 2, 3), "scale_tril": np.linalg.cholesky(definite(2, 3))},
    ],
    "NegativeBinomial": [{"total_count": 7.5, **b} for b in BINARY],
    "Normal": LOC_SCALE,
    "OneHotCategorical": CHOICES,
    "OneHotCategoricalStraightThrough": CHOICES,
    "Pareto": [*pairs("scale", "alpha"), {"scale": 1.5, "alpha": 3.5}],
    "Poisson": [{"rate": 0.0}, {"rate": positive(2, 3)}],
    "RelaxedBernoulli": [{"temperature": np.array(0.7), **b} for b in BINARY],
    "RelaxedOneHotCategorical": [{"temperature": np.array(0.7), **c} for c in CHOICES],
    "StudentT": [{"df": 3.5}, {"df": positive(3), "loc": real(3), "scale": positive(2, 3)}],
    "Uniform": [{"low": -1.0, "high": 2.0}, {"low": real(3), "high": real(3) + 9}],
    "VonMises": [
        {"loc": np.array(0.3), "concentration": np.array(2.0)},
        {"loc": real(3), "concentration": positive(2, 3)},
    ],
    "Weibull": pairs("scale", "concentration"),
    "Wishart": [
        {"df": 4.5, "covariance_matrix": definite(3)},
        {"df": np.array([5.0, 9.5]), "precision_matrix": definite(3)},
    ],
}
# Where we are right and PyTorch is not, or has nothing: what is left out, and why.
NEARLY = {"VonMises": 1e-6, "ContinuousBernoulli": 1e-3}  # to what PyTorch approximates
DIVERGENCES = {
    ("Kumaraswamy", "mode"): "PyTorch exchanges the concentrations and gives NaN",
    (
        "Beta",
        "mode",
    ): "PyTorch takes 1 where both are below 1; the density grows fastest at one end",
    ("Beta", "cdf"): "PyTorch has none",
    ("FisherSnedecor", "cdf"): "PyTorch has none",
    ("StudentT", "cdf"): "PyTorch has none",
    ("VonMises", "entropy"): "PyTorch has none",
}
CASES = [
    pytest.param(name, arguments, id=f"{name}-{i}")
    for name, examples in EXAMPLES.items()
    for i, arguments in enumerate(examples)
]


@pytest.fixture(autouse=True)
def double() -> Any:
    torch.manual_seed(0)
    before = torch.get_default_dtype(), ad.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    ad.set_default_dtype(ad.float64)
    yield
    torch.set_default_dtype(before[0])
    ad.set_default_dtype(before[1])


def make(library: Any, tensor: Any, name: str, arguments: dict[str, Any], **options: Any) -> Any:
    given = {
        k: tensor(v, **options) if isinstance(v, (np.ndarray, np.number)) else v
        for k, v in arguments.items()
    }
    return getattr(library, name)(**given), given


def both(name: str, arguments: dict[str, Any], **options: Any) -> Any:
    return (
        make(ours, ad.tensor, name, arguments, **options),
        make(theirs, torch.tensor, name, arguments, **options),
    )


def assert_same(mine: Any, other: Any, tolerance: float = 1e-9) -> None:
    assert tuple(mine.shape) == tuple(other.shape)
    np.testing.assert_allclose(
        mine.detach().numpy(), other.detach().numpy(), rtol=tolerance, atol=tolerance
    )


def crossed(value: Any) -> Any:
    return ad.tensor(value.detach().numpy().copy())


def as_printed(text: str) -> str:
    """PyTorch's text, with sizes as ours prints them, and numbers without their last digits."""
    sizes = re.sub(r"torch\.Size\((\[[^]]*\])\)", lambda m: str(tuple(eval(m[1]))), text)
    return re.sub(r"(\d\.\d{5})\d+", r"\1", sizes)


# -- one distribution ----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "arguments"), CASES)
def test_shapes_and_texts_are_pytorchs(name: str, arguments: Any) -> None:
    (mine, _), (other, _) = both(name, arguments)
    assert mine.batch_shape == tuple(other.batch_shape)
    assert mine.event_shape == tuple(other.event_shape)
    assert as_printed(repr(mine)) == as_printed(repr(other))
    assert mine.has_enumerate_support == other.has_enumerate_support
    assert mine.has_rsample or not other.has_rsample
    assert mine.sample((2,)).shape == tuple(other.sample((2,)).shape)
    assert mine.sample().dtype.name == str(other.sample().dtype).split(".")[1]
    larger = (5, *mine.batch_shape)
    assert mine.expand(larger).batch_shape == larger
    assert mine.expand(larger).sample().shape == tuple(other.expand(larger).sample().shape)


@pytest.mark.parametrize(("name", "arguments"), CASES)
@pytest.mark.parametrize("what", ["mean", "variance", "stddev", "mode"])
def test_moments_are_pytorchs(name: str, arguments: Any, what: str) -> None:
    (mine, _), (other, _) = both(name, arguments)
    if (name, what) in DIVERGENCES:
        return
    try:
        expected = getattr(other, what)
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            getattr(mine, what)
        return
    assert_same(getattr(mine, what), expected, NEARLY.get(name, 1e-9))


@pytest.mark.parametrize(("name", "arguments"), CASES)
def test_log_prob_and_its_gradients_are_pytorchs(name: str, arguments: Any) -> None:
    (mine, my_given), (other, given) = both(name, arguments, requires_grad=True)
    value = other.sample((4,))
    my_value = crossed(value)
    differentiable = not other.support.is_discrete
    value.requires_grad_(differentiable)
    my_value.requires_grad_(differentiable)
    expected, found = other.log_prob(value), mine.log_prob(my_value)
    assert_same(found, expected, NEARLY.get(name, 1e-9))
    inputs = [v for v in [value, *given.values()] if getattr(v, "requires_grad", False)]
    my_inputs = [v for v in [my_value, *my_given.values()] if getattr(v, "requires_grad", False)]
    if not (inputs and expected.requires_grad):
        return
    expected = torch.autograd.grad(expected.sum(), inputs, allow_unused=True)
    found = ad.autograd.grad(found.sum(), my_inputs, allow_unused=True)
    for a, b in zip(found, expected, strict=True):
        if b is not None and b.isfinite().all():
            assert_same(a, b, NEARLY.get(name, 1e-7))


@pytest.mark.parametrize(("name", "arguments"), CASES)
def test_cdf_and_quantiles_are_pytorchs(name: str, arguments: Any) -> None:
    (mine, _), (other, _) = both(name, arguments)
    value = other.sample((4,))
    try:
        expected = other.cdf(value)
    except NotImplementedError:
        if (name, "cdf") not in DIVERGENCES:
            with pytest.raises(NotImplementedError):
                mine.cdf(crossed(value))
        return
    assert_same(mine.cdf(crossed(value)), expected, NEARLY.get(name, 1e-8))
    levels = torch.linspace(0.1, 0.9, 5).reshape(5, *(1,) * len(other.batch_shape))
    try:
        expected = other.icdf(levels)
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            mine.icdf(crossed(levels))
        return
    assert_same(mine.icdf(crossed(levels)), expected, NEARLY.get(name, 1e-6))


@pytest.mark.parametrize(("name", "arguments"), CASES)
def test_entropy_is_pytorchs(name: str, arguments: Any) -> None:
    (mine, _), (other, _) = both(name, arguments)
    try:
        expected = other.entropy()
    except NotImplementedError:
        if (name, "entropy") not in DIVERGENCES:
            with pytest.raises(NotImplementedError):
                mine.entropy()
        return
    assert_same(mine.entropy(), expected, 1e-8)
    assert_same(mine.perplexity(), other.perplexity(), 1e-7)


@pytest.mark.parametrize(("name", "arguments"), CASES)
def test_support_is_pytorchs(name: str, arguments: Any) -> None:
    (mine, _), (other, _) = both(name, arguments)
    assert as_printed(repr(mine.support)) == as_printed(repr(other.support))
    assert mine.support.event_dim == other.support.event_dim
    assert mine.support.is_discrete == other.support.is_discrete
    inside = other.sample((3,))
    for value in (inside, -inside, inside + 0.5, inside * float("nan")):
        expected = other.support.check(value)
        found = mine.support.check(crossed(value))
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    if other.has_enumerate_support and "[3" not in str(arguments.get("total_count")):
        for expand in (True, False):
            assert_same(mine.enumerate_support(expand), other.enumerate_support(expand))


# -- divergences ---------------------------------------------------------------------------------

SIDE: dict[str, list[dict[str, Any]]] = {
    **{name: examples[:2] for name, examples in EXAMPLES.items()},
    "Binomial": [{"total_count": 7, "probs": RNG.uniform(size=(2, 3))}],
    "Uniform": [{"low": 0.25, "high": 0.75}, {"low": 1.5, "high": 2.5}],
    "Pareto": [{"scale": 0.5, "alpha": 3.5}, {"scale": 0.1, "alpha": 1.5}],
    "Categorical": CHOICES[:1],
    "OneHotCategorical": CHOICES[:1],
    "Dirichlet": EXAMPLES["Dirichlet"][:1],
    "Poisson": EXAMPLES["Poisson"][1:],
    "MultivariateNormal": EXAMPLES["MultivariateNormal"][:1],
    "LowRankMultivariateNormal": EXAMPLES["LowRankMultivariateNormal"][:1],
}
LEAVES_OUT = {"Independent", "TransformedDistribution", "ExponentialFamily"}
KINDS = sorted(
    (p.__name__, q.__name__)
    for p, q in torch.distributions.kl._KL_REGISTRY
    if not {p.__name__, q.__name__} & LEAVES_OUT
)


def compare_kl(p: str, q: str, of_p: Any, of_q: Any) -> None:
    (my_p, _), (their_p, _) = both(p, of_p)
    (my_q, _), (their_q, _) = both(q, of_q)
    expected = theirs.kl_divergence(their_p, their_q)
    found = ours.kl_divergence(my_p, my_q)
    # PyTorch forgets the batch of q where all is infinite
    expected = expected.expand(found.shape) if (expected == torch.inf).all() else expected
    assert_same(found, expected, 1e-3 if "ContinuousBernoulli" in (p, q) else 1e-7)


@pytest.mark.parametrize(("p", "q"), KINDS)
def test_divergences_are_pytorchs(p: str, q: str) -> None:
    for of_p in SIDE[p]:
        for of_q in SIDE[q]:
            compare_kl(p, q, of_p, of_q)


def test_every_pair_of_pytorch_is_there() -> None:
    mine = {(p.__name__, q.__name__) for p, q in ours.kl._TABLE}
    assert {(p.__name__, q.__name__) for p, q in theirs.kl._KL_REGISTRY} <= mine


# -- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["", "constraints", "transforms", "utils", "kl"])
def test_every_public_name_is_there(module: str) -> None:
    their_module = getattr(theirs, module) if module else theirs
    my_module = getattr(ours, module) if module else ours
    assert [n for n in their_module.__all__ if not hasattr(my_module, n)] == []


@pytest.mark.parametrize("module", [m.name for m in pkgutil.iter_modules(theirs.__path__)])
def test_every_module_is_importable_and_has_its_classes(module: str) -> None:
    their_module = importlib.import_module(f"torch.distributions.{module}")
    my_module = importlib.import_module(f"adjoint.distributions.{module}")
    public = [n for n in their_module.__all__ if hasattr(theirs, n)]
    assert [n for n in public if not hasattr(my_module, n)] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_parameters_have_pytorchs_names_and_order(name: str) -> None:
    def parameters(kind: type) -> list[str]:
        code = kind.__init__.__code__
        return list(code.co_varnames[: code.co_argcount])

    assert parameters(getattr(ours, name)) == parameters(getattr(theirs, name))

"""Kullback-Leibler divergences: a table from pairs of classes to functions.

Two of one family have a formula of their own. Of two different families the divergence is
E_p log p - E_p log q, and what log q needs are moments of p: each q says once what it needs
(`_CROSS`), and each p once what it has. Where p has values that q has not, it is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from adjoint import ops
from adjoint.core.errors import AdjointError, ArgumentError, ShapeError
from adjoint.core.source_lines import warn
from adjoint.distributions.bounded import ContinuousBernoulli, Uniform
from adjoint.distributions.choices import Categorical, OneHotCategorical
from adjoint.distributions.combined import Independent, TransformedDistribution
from adjoint.distributions.counts import Bernoulli, Binomial, Geometric, Poisson
from adjoint.distributions.distribution import Distribution, ExponentialFamily
from adjoint.distributions.gammas import EULER, Beta, Dirichlet, Exponential, Gamma
from adjoint.distributions.location_scale import Cauchy, Gumbel, HalfNormal, Laplace, Normal
from adjoint.distributions.multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    half_log_det,
    solve_lower,
    squared_length,
)
from adjoint.distributions.narrow import rounded_once
from adjoint.distributions.paretos import Pareto
from adjoint.distributions.utils import sum_rightmost
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.jacobians import jvp

__all__ = ["kl_divergence", "register_kl"]

Divergence = Callable[[Any, Any], Tensor]

_TABLE: dict[tuple[type, type], Divergence] = {}
_FOUND: dict[tuple[type, type], Divergence | None] = {}  # what was looked up since the last change


class NoDivergence(AdjointError, NotImplementedError):
    """A pair of distributions that nobody has registered a divergence for."""


def register_kl(type_p: type, type_q: type) -> Callable[[Divergence], Divergence]:
    """Decorate a function of (p, q) as the divergence of two classes and of their subclasses, which
    may be anybody's.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Normal, kl_divergence, register_kl
    >>> class Mine(Normal):
    ...     pass
    >>> @register_kl(Mine, Mine)
    ... def ours(p, q):
    ...     return ad.zeros(p.batch_shape)
    >>> kl_divergence(Mine(0.0, 1.0), Mine(1.0, 1.0))
    tensor(0.)
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise ArgumentError(f"register_kl: needs two classes, got {kind!r}")

    def register(function: Divergence) -> Divergence:
        _TABLE[type_p, type_q] = function
        _FOUND.clear()
        return function

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p ‖ q) = ∫ p log(p/q), one number for each of the batch.

    >>> from adjoint.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    pair = type(p), type(q)
    if pair not in _FOUND:
        nearest = _nearest(*pair)
        _FOUND[pair] = None if nearest is None else rounded_once(nearest)
    function = _FOUND[pair]
    if function is None:
        raise NoDivergence(
            f"no divergence of {pair[0].__name__} from {pair[1].__name__} is registered; "
            "use register_kl"
        )
    return function(p, q)


def _nearest(type_p: type, type_q: type) -> Divergence | None:
    """The function of the nearest classes above two; a warning if p and q choose otherwise."""
    above_p, above_q = type_p.__mro__, type_q.__mro__
    matches = [(a, b) for a, b in _TABLE if a in above_p and b in above_q]
    if not matches:
        return None
    by_p = min(matches, key=lambda m: (above_p.index(m[0]), above_q.index(m[1])))
    by_q = min(matches, key=lambda m: (above_q.index(m[1]), above_p.index(m[0])))
    if _TABLE[by_p] is not _TABLE[by_q]:
        names = [f"({a.__name__}, {b.__name__})" for a, b in (by_p, by_q)]
        warn(
            f"kl_divergence({type_p.__name__}, {type_q.__name__}): {' and '.join(names)} are "
            f"registered and equally near; {names[0]} is used",
            RuntimeWarning,
        )
    return _TABLE[by_p]


def _infinite_where(condition: Tensor, value: Tensor) -> Tensor:
    return value.where(~condition, math.inf)


def _divergent(p: Any, q: Any) -> Tensor:
    """Infinite: p has values that q cannot have."""
    shape = ops.broadcast_tensors([ops.zeros(p.batch_shape), ops.zeros(q.batch_shape)])[0].shape
    return ops.full(shape, math.inf)


# -- one family -----------------------------------------------------------------------------------


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_families(p: Any, q: Any) -> Tensor:
    """A(η_q) - A(η_p) - ⟨η_q - η_p, ∇A(η_p)⟩: the Bregman divergence of the log-normaliser."""
    if type(p) is not type(q):
        raise NoDivergence(
            f"no divergence of {type(p).__name__} from {type(q).__name__} is registered; "
            "use register_kl"
        )
    at_p, at_q = p._natural_params, q._natural_params
    steps, starts = [], []
    for a, b in zip(at_p, at_q, strict=True):
        a, b = ops.broadcast_tensors([a, b])
        starts.append(a)
        steps.append(b - a)
    value, along = jvp(p._log_normalizer, tuple(starts), tuple(steps))
    return q._log_normalizer(*at_q) - value - along


@register_kl(Bernoulli, Bernoulli)
def _bernoullis(p: Any, q: Any) -> Tensor:
    """Σ pₖ (log pₖ - log qₖ) over success and failure; 0 log 0 is 0.

    Logits tell logarithms that the chances have lost: 17 tells the chance of a failure, 4e-8.
    """
    if p._given == q._given == "logits":
        (yes, no), (q_yes, q_no) = p._logarithms(), q._logarithms()
        return _weighted(p.probs, yes - q_yes) + _weighted(p._rest, no - q_no)
    return _part(p.probs, q.probs) + _part(p._rest, q._rest)


def _weighted(p: Tensor, difference: Tensor) -> Tensor:
    """p times a difference of logarithms, 0 where p is 0."""
    return (p * difference).where(p != 0, 0.0)


def _part(p: Tensor, q: Tensor) -> Tensor:
    """p log(p/q), 0 where p is 0, infinite where q alone is 0."""
    return ops.xlogy(p, p) - ops.xlogy(p, q)


@register_kl(Binomial, Binomial)
def _binomials(p: Any, q: Any) -> Tensor:
    """Of as many trials or more: that of one trial, as often; of fewer: infinite."""
    more = p.total_count > q.total_count
    unequal = p.total_count < q.total_count
    if bool(unequal.any()):
        raise NoDivergence("kl_divergence: p has fewer trials than q, which has no closed form")
    return _infinite_where(more, p.total_count * _bernoullis(p, q))


@register_kl(Categorical, Categorical)
def _categoricals(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = terms.where((q.probs != 0).expand_as(terms), math.inf)
    return terms.where((p.probs != 0).expand_as(terms), 0.0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hots(p: Any, q: Any) -> Tensor:
    return _categoricals(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _geometrics(p: Any, q: Any) -> Tensor:
    """That of one trial, as often as p has trials in the mean."""
    return _bernoullis(p, q) / p.probs


@register_kl(Poisson, Poisson)
def _poissons(p: Any, q: Any) -> Tensor:
    return _part(p.rate, q.rate) - (p.rate - q.rate)


@register_kl(Beta, Beta)
def _betas(p: Any, q: Any) -> Tensor:
    p_total = p.concentration1 + p.concentration0
    shifts = (
        (p.concentration1 - q.concentration1) * p.concentration1.digamma()
        + (p.concentration0 - q.concentration0) * p.concentration0.digamma()
        + (q.concentration1 + q.concentration0 - p_total) * p_total.digamma()
    )
    return q._log_beta() - p._log_beta() + shifts


@register_kl(Dirichlet, Dirichlet)
def _dirichlets(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    constants = q._log_normalizer(b) - p._log_normalizer(a)
    return constants + ((a - b) * (a.digamma() - a.sum(-1, True).digamma())).sum(-1)


@register_kl(Exponential, Exponential)
def _exponentials(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _gammas(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    scale = b * (p.rate / q.rate).log() + a * (q.rate / p.rate - 1)
    return scale + b.lgamma() - a.lgamma() + (a - b) * a.digamma()


@register_kl(Normal, Normal)
def _normals(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale  # its square may be 0 or infinite
    distance = ((p.loc - q.loc) / q.scale).square()
    return 0.5 * (ratio.square() + distance - 1) - ratio.log()


@register_kl(HalfNormal, HalfNormal)
def _half_normals(p: Any, q: Any) -> Tensor:
    return _normals(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplaces(p: Any, q: Any) -> Tensor:
    distance = (p.loc - q.loc).abs()
    near = p.scale / q.scale * (-distance / p.scale).exp()
    return (q.scale / p.scale).log() + distance / q.scale + near - 1


@register_kl(Cauchy, Cauchy)
def _cauchys(p: Any, q: Any) -> Tensor:
    """log(1 + ((γ_p - γ_q)² + (μ_p - μ_q)²) / 4γ_pγ_q).  Chyzak and Nielsen 2019."""
    wider, apart = p.scale - q.scale, p.loc - q.loc
    squares = wider / p.scale * (wider / q.scale) + apart / p.scale * (apart / q.scale)
    return (squares / 4).log1p()


@register_kl(Gumbel, Gumbel)
def _gumbels(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    shift = (q.loc - p.loc) / q.scale
    return -ratio.log() - shift + ratio * EULER + (shift + (1 + ratio).lgamma()).exp() - (1 + EULER)


@register_kl(Pareto, Pareto)
def _paretos(p: Any, q: Any) -> Tensor:
    ratio = p.alpha / q.alpha
    finite = q.alpha * (p.scale / q.scale).log() + ratio.log() + ratio.reciprocal() - 1
    return _infinite_where(p.scale < q.scale, finite)


@register_kl(Uniform, Uniform)
def _uniforms(p: Any, q: Any) -> Tensor:
    outside = (q.low > p.low) | (q.high < p.high)
    return _infinite_where(outside, ((q.high - q.low) / (p.high - p.low)).log())


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoullis(p: Any, q: Any) -> Tensor:
    constants = q._log_normalizer(q.logits) - p._log_normalizer(p.logits)
    return p.mean * (p.logits - q.logits) + constants


@register_kl(Independent, Independent)
def _independents(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NoDivergence("kl_divergence: two Independent take different numbers of dimensions")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    """Equal bijections change nothing."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NoDivergence("kl_divergence: two distributions with different transforms")
    return kl_divergence(p.base_dist, q.base_dist)


# -- normal distributions of vectors --------------------------------------------------------------


def _same_events(p: Any, q: Any) -> int:
    if p.event_shape != q.event_shape:
        raise ShapeError(f"kl_divergence: events have shapes {p.event_shape} and {q.event_shape}")
    return p.event_shape[0]


def _squares(matrix: Tensor) -> Tensor:
    """The sum of the squares of a matrix."""
    return matrix.square().sum((-2, -1))


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normals(p: Any, q: Any) -> Tensor:
    """½ (tr Σ_q⁻¹ Σ_p + |L_q⁻¹ (μ_q - μ_p)|² - n) + log det L_q - log det L_p."""
    size = _same_events(p, q)
    q_factor, p_factor = _matching(q._factor, p._factor)
    trace = _squares(solve_lower(q_factor, p_factor))
    distance = squared_length(q._factor, q.loc - p.loc)
    return 0.5 * (trace + distance - size) + half_log_det(q._factor) - half_log_det(p._factor)


def _matching(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two batches of matrices as batches of one shape."""
    shape = ops.broadcast_tensors([a[..., 0, 0], b[..., 0, 0]])[0].shape
    return a.expand((*shape, *a.shape[-2:])), b.expand((*shape, *b.shape[-2:]))


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _full_from_low_rank(p: Any, q: Any) -> Tensor:
    _same_events(p, q)
    return _to_low_rank(p, q, [p._factor], 2 * half_log_det(p._factor))


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_ranks(p: Any, q: Any) -> Tensor:
    _same_events(p, q)
    roots = [p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()]
    return _to_low_rank(p, q, roots, p._log_det())


def _to_low_rank(p: Any, q: Any, roots: list[Tensor], log_det: Tensor) -> Tensor:
    """The divergence from q; Σ_p is the sum of R Rᵀ over `roots`.

    tr Σ_q⁻¹ R Rᵀ = Σ R²/D - |C⁻¹ Wᵀ D⁻¹ R|², C the factor of q's capacitance.
    """
    factor, diagonal = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag.unsqueeze(-1)
    trace: Any = 0
    for root in roots:
        scaled = root / diagonal
        capacitance, along = _matching(q._capacitance_tril, factor.mT @ scaled)
        trace = trace + (root * scaled).sum((-2, -1)) - _squares(solve_lower(capacitance, along))
    distance = q._distance(q.loc - p.loc)
    return 0.5 * (trace + distance - p.event_shape[0] + q._log_det() - log_det)


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_from_full(p: Any, q: Any) -> Tensor:
    size = _same_events(p, q)
    trace: Any = 0
    for root in (p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()):
        factor, right = _matching(q._factor, root)
        trace = trace + _squares(solve_lower(factor, right))
    distance = squared_length(q._factor, q.loc - p.loc)
    return 0.5 * (trace + distance - size - p._log_det()) + half_log_det(q._factor)


# -- two families: E_p log p - E_p log q ----------------------------------------------------------


def _mean_log(p: Any) -> Tensor:
    """E log x, of positive x."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -EULER - p.rate.log()
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return _mean_log_between(p.low, p.high)


def _mean_log_between(low: Tensor, high: Tensor) -> Tensor:
    """E log x of a uniform x: (b log b - a log a)/(b - a) - 1."""
    return (ops.xlogy(high, high) - ops.xlogy(low, low)) / (high - low) - 1


def _mean_exp_minus(p: Any, scale: Tensor) -> Tensor:
    """E e^(-x/scale)."""
    if isinstance(p, Normal):
        return (-p.loc / scale + 0.5 * (p.scale / scale).square()).exp()
    if isinstance(p, Exponential):
        return p.rate / (p.rate + 1 / scale)
    if isinstance(p, Gamma):
        return (p.concentration * (p.rate / (p.rate + 1 / scale)).log()).exp()
    width = (p.high - p.low) / scale
    return (-p.low / scale).exp() * -(-width).expm1() / width


def _cross_normal(p: Any, q: Any) -> Tensor:
    """-E log q, by the mean and variance of p."""
    spread = p.variance + (p.mean - q.loc).square()
    cross = spread / (2 * q.scale.square()) + q.scale.log() + math.log(2 * math.pi) / 2
    return _infinite_where(p.variance == math.inf, cross) if isinstance(p, Pareto) else cross


def _cross_exponential(p: Any, q: Any) -> Tensor:
    return q.rate * p.mean - q.rate.log()


def _cross_gamma(p: Any, q: Any) -> Tensor:
    shape = q.concentration
    constant = shape.lgamma() - shape * q.rate.log()
    return constant - (shape - 1) * _mean_log(p) + q.rate * p.mean


def _cross_gumbel(p: Any, q: Any) -> Tensor:
    return (
        q.scale.log()
        + (p.mean - q.loc) / q.scale
        + (q.loc / q.scale).exp() * _mean_exp_minus(p, q.scale)
    )


def _cross_laplace(p: Any, q: Any) -> Tensor:
    """By E |x - loc| of a normal x: the mean of a folded normal distribution."""
    gap = (p.loc - q.loc) / p.scale
    absolute = math.sqrt(2 / math.pi) * (-0.5 * gap.square()).exp()
    absolute = p.scale * (absolute + gap * (gap / math.sqrt(2)).erf())
    return (2 * q.scale).log() + absolute / q.scale


def _cross_uniform(p: Any, q: Any) -> Tensor:
    """Of a p on [0, 1]."""
    outside = (q.low > 0) | (q.high < 1)
    return _infinite_where(outside, (q.high - q.low).log())


def _cross_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    return q._log_normalizer(q.logits) - p.mean * q.logits


def _cross_beta(p: Any, q: Any) -> Tensor:
    """Of a uniform p."""
    first = _mean_log_between(p.low, p.high)
    second = _mean_log_between(1 - p.high, 1 - p.low)
    powers = (q.concentration1 - 1) * first + (q.concentration0 - 1) * second
    return q._log_beta() - powers


def _cross_pareto(p: Any, q: Any) -> Tensor:
    """Of a uniform p."""
    inside = (q.alpha + 1) * _mean_log(p) - q.alpha.log() - q.alpha * q.scale.log()
    return _infinite_where(p.low < q.scale, inside)


_CROSS: dict[type, tuple[Divergence, tuple[type, ...]]] = {
    Normal: (
        _cross_normal,
        (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform),
    ),
    Exponential: (_cross_exponential, (Beta, ContinuousBernoulli, Gamma, Pareto, Uniform)),
    Gamma: (_cross_gamma, (Beta, Exponential, Pareto, Uniform)),
    Gumbel: (_cross_gumbel, (Exponential, Gamma, Normal, Uniform)),
    Laplace: (_cross_laplace, (Normal,)),
    Uniform: (_cross_uniform, (Beta, ContinuousBernoulli)),
    ContinuousBernoulli: (_cross_continuous_bernoulli, (Beta, Uniform)),
    Beta: (_cross_beta, (Uniform,)),
    Pareto: (_cross_pareto, (Uniform,)),
}
# Where a uniform p must lie, that q be not 0 on it.
_RANGES: dict[type, tuple[float, float]] = {
    Exponential: (0.0, math.inf),
    Gamma: (0.0, math.inf),
    Beta: (0.0, 1.0),
    ContinuousBernoulli: (0.0, 1.0),
}
_INFINITE: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _by_moments(cross: Divergence, where: tuple[float, float] | None) -> Divergence:
    """The divergence by -E_p log q, infinite if a uniform p leaves the range of q."""

    def divergence(p: Any, q: Any) -> Tensor:
        found = cross(p, q) - p.entropy()
        if where is None or not isinstance(p, Uniform):
            return found
        return _infinite_where((p.low < where[0]) | (p.high > where[1]), found)

    return divergence


for _q, (_cross, _ps) in _CROSS.items():
    for _p in _ps:
        register_kl(_p, _q)(_by_moments(_cross, _RANGES.get(_q)))
for _p, _qs in _INFINITE.items():
    for _q in _qs:
        register_kl(_p, _q)(_divergent)


@register_kl(Bernoulli, Poisson)
def _bernoulli_from_poisson(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)

"""Distributions of vectors and matrices: normal ones, Wishart, correlations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from adjoint import ops
from adjoint.core.dtypes import finfo
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, broadcast
from adjoint.distributions import constraints
from adjoint.distributions.combined import TransformedDistribution
from adjoint.distributions.constraints import Constraint
from adjoint.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    Located,
    noise_like,
)
from adjoint.distributions.gammas import Beta, Chi2
from adjoint.distributions.location_scale import Normal
from adjoint.distributions.transforms.arrays import StickBreakingTransform
from adjoint.distributions.utils import broadcast_all, lazy_property, tensor_of
from adjoint.tensor.tensor import Tensor

_LOG_2PI = math.log(2 * math.pi)


def apply(matrix: Tensor, vector: Tensor) -> Tensor:
    """Matrix times vector, of batches that broadcast."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def solve_lower(factor: Tensor, right: Tensor) -> Tensor:
    """X of L X = B."""
    return ops.linalg_solve_triangular(factor, right, upper=False)


def squared_length(factor: Tensor, vector: Tensor) -> Tensor:
    """|L⁻¹ x|², each factor once for all vectors that it meets.

    Dimensions of the vectors in front of those of the factors become columns of one system.
    """
    size, count = vector.shape[-1], factor.ndim - 2
    batch = vector.shape[:-1]
    if len(batch) < count:
        batch = (*(1,) * (count - len(batch)), *batch)
    front, back = batch[: len(batch) - count], batch[len(batch) - count :]
    back = broadcast("log_prob", back, factor.shape[:-2])
    rows = vector.expand((*front, *back, size)).reshape((math.prod(front), *back, size))
    columns = rows.movedim(0, -1)
    solved = solve_lower(factor.expand((*back, size, size)), columns)
    return solved.square().sum(-2).movedim(-1, 0).reshape((*front, *back))


def half_log_det(factor: Tensor) -> Tensor:
    """log det L, half the log-determinant of L Lᵀ."""
    return factor.diagonal(0, -2, -1).log().sum(-1)


def factor_of_inverse(precision: Tensor) -> Tensor:
    """The Cholesky factor of P⁻¹: that of P with rows and columns reversed, inverted."""
    reverse = (-2, -1)
    upper = ops.linalg_cholesky(precision.flip(reverse)).flip(reverse)
    unit = ops.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return solve_lower(upper.mT, unit.expand(precision.shape))


class _Scattered(Distribution):
    """A positive definite matrix, given as covariance, precision or Cholesky factor.

    The factor is kept as it was given, without the batch of other parameters.
    """

    _MATRICES: ClassVar[dict[str, Constraint]] = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    _unexpanded = ("_factor",)

    def _given_matrix(self, **matrices: Any) -> tuple[str, Tensor]:
        """The name and value of the one that was given."""
        given = [(name, value) for name, value in matrices.items() if value is not None]
        if len(given) != 1:
            raise ValueRangeError(
                f"{type(self).__name__}: give exactly one of covariance_matrix, precision_matrix "
                "and scale_tril"
            )
        name, matrix = given[0][0], tensor_of(given[0][1])
        if matrix.ndim < 2:
            raise ShapeError(
                f"{type(self).__name__}: {name} must be a matrix or a batch of them, "
                f"got {matrix.ndim} dimensions"
            )
        return name, matrix

    def _hold_matrix(self, name: str, matrix: Tensor, batch: Shape) -> None:
        """Keep a matrix, with the batch shape of the distribution."""
        self.__dict__[name] = matrix.expand((*batch, *matrix.shape[-2:]))
        self._matrix = name, matrix

    @lazy_property
    def _factor(self) -> Tensor:
        """The Cholesky factor of the covariance, in the shape that was given."""
        name, matrix = self._matrix
        if name == "scale_tril":
            return matrix
        if name == "covariance_matrix":
            return ops.linalg_cholesky(matrix)
        return factor_of_inverse(matrix)

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *matrix.shape[-2:]))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._whole(self._factor)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self._whole(self._factor @ self._factor.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._whole(ops.cholesky_inverse(self._factor))


class MultivariateNormal(_Scattered, Located):
    """The normal distribution of vectors.

    >>> import adjoint as ad
    >>> from adjoint.distributions import MultivariateNormal
    >>> MultivariateNormal(ad.zeros(2), ad.eye(2)).log_prob(ad.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        **_Scattered._MATRICES,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        loc = tensor_of(loc)
        if loc.ndim < 1:
            raise ShapeError("MultivariateNormal: loc must be at least one-dimensional")
        name, matrix = self._given_matrix(
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        batch = broadcast("MultivariateNormal", matrix.shape[:-2], loc.shape[:-1])
        self._hold_matrix(name, matrix, batch)
        self.loc = loc.expand((*batch, loc.shape[-1]))
        super().__init__(batch, loc.shape[-1:], validate_args)

    @property
    def variance(self) -> Tensor:
        return self._factor.square().sum(-1).expand(self._extended_shape())

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = noise_like(self.loc, self._extended_shape(sample_shape))
        return self.loc + apply(self._factor, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        distance = squared_length(self._factor, value - self.loc)
        return -0.5 * (self._event_shape[0] * _LOG_2PI + distance) - half_log_det(self._factor)

    def entropy(self) -> Tensor:
        each = 0.5 * self._event_shape[0] * (1 + _LOG_2PI) + half_log_det(self._factor)
        return each.expand(self._batch_shape)


class LowRankMultivariateNormal(Located):
    """A normal distribution of covariance W Wᵀ + diag(D): `cov_factor` W, `cov_diag` D.

    Solves and determinants are of matrices as large as W has columns (Woodbury).

    >>> import adjoint as ad
    >>> from adjoint.distributions import LowRankMultivariateNormal
    >>> LowRankMultivariateNormal(ad.zeros(2), ad.tensor([[1.0], [0.0]]), ad.ones(2)).variance
    tensor([2., 1.])
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _unexpanded = (
        "_unbroadcasted_cov_factor",
        "_unbroadcasted_cov_diag",
        "_capacitance_tril",
    )

    def __init__(
        self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None
    ) -> None:
        loc, cov_factor, cov_diag = (tensor_of(v) for v in (loc, cov_factor, cov_diag))
        size = loc.shape[-1:]
        self._check_shapes(loc, cov_factor, cov_diag)
        batch = broadcast(
            "LowRankMultivariateNormal", loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]
        )
        self.loc = loc.expand((*batch, *size))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch, *size))
        # only together do these have one batch shape, which may be smaller than that of loc
        inner = broadcast("LowRankMultivariateNormal", cov_factor.shape[:-2], cov_diag.shape[:-1])
        self._unbroadcasted_cov_factor = cov_factor.expand((*inner, *cov_factor.shape[-2:]))
        self._unbroadcasted_cov_diag = cov_diag.expand((*inner, *size))
        super().__init__(batch, size, validate_args)

    @staticmethod
    def _check_shapes(loc: Tensor, cov_factor: Tensor, cov_diag: Tensor) -> None:
        if loc.ndim < 1:
            raise ShapeError("LowRankMultivariateNormal: loc must be at least one-dimensional")
        size = loc.shape[-1]
        if cov_factor.ndim < 2 or cov_factor.shape[-2] != size:
            raise ShapeError(
                f"LowRankMultivariateNormal: cov_factor must be matrices with {size} rows"
            )
        if cov_diag.shape[-1:] != (size,):
            raise ShapeError(
                f"LowRankMultivariateNormal: cov_diag must be vectors of {size} elements"
            )

    @lazy_property
    def _capacitance_tril(self) -> Tensor:
        """The Cholesky factor of I + Wᵀ D⁻¹ W."""
        factor, diagonal = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        inner = factor.mT @ (factor / diagonal.unsqueeze(-1))
        unit = ops.eye(inner.shape[-1], dtype=inner.dtype, device=inner.device)
        return ops.linalg_cholesky(inner + unit)

    @property
    def variance(self) -> Tensor:
        squares = self._unbroadcasted_cov_factor.square().sum(-1)
        return (squares + self._unbroadcasted_cov_diag).expand(self._extended_shape())

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        factor = self._unbroadcasted_cov_factor
        matrix = factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed()
        return matrix.expand(self._extended_shape(()) + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return ops.linalg_cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance: D⁻¹ - D⁻¹ W (I + Wᵀ D⁻¹ W)⁻¹ Wᵀ D⁻¹."""
        inverse = self._unbroadcasted_cov_diag.reciprocal()
        scaled = self._unbroadcasted_cov_factor.mT * inverse.unsqueeze(-2)
        half = solve_lower(self._capacitance_tril, scaled)
        matrix = inverse.diag_embed() - half.mT @ half
        return matrix.expand(self._extended_shape(()) + self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        shared = noise_like(self.loc, (*shape[:-1], self.cov_factor.shape[-1]))
        own = self._unbroadcasted_cov_diag.sqrt() * noise_like(self.loc, shape)
        return self.loc + apply(self._unbroadcasted_cov_factor, shared) + own

    def _distance(self, difference: Tensor) -> Tensor:
        """xᵀ Σ⁻¹ x by the formula of `precision_matrix`."""
        scaled = difference / self._unbroadcasted_cov_diag
        along = apply(self._unbroadcasted_cov_factor.mT, scaled)
        return (difference * scaled).sum(-1) - squared_length(self._capacitance_tril, along)

    def _log_det(self) -> Tensor:
        """log det Σ = log det (I + Wᵀ D⁻¹ W) + log det D."""
        return 2 * half_log_det(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        distance = self._distance(value - self.loc)
        return -0.5 * (self._event_shape[0] * _LOG_2PI + self._log_det() + distance)

    def entropy(self) -> Tensor:
        each = 0.5 * (self._event_shape[0] * (1 + _LOG_2PI) + self._log_det())
        return each.expand(self._batch_shape)


class LogisticNormal(TransformedDistribution):
    """Probabilities whose stick-breaking logits are normal numbers; one more than there are.

    >>> import adjoint as ad
    >>> from adjoint.distributions import LogisticNormal
    >>> LogisticNormal(ad.zeros(3), ad.ones(3)).sample().shape
    (4,)
    """

    arg_constraints: ClassVar[Any] = Normal.arg_constraints
    support: Any = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        base = base if base.batch_shape else base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The means of the logits."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the logits."""
        return self.base_dist.base_dist.scale


def _log_gamma(a: Tensor, size: int) -> Tensor:
    """The logarithm of the multivariate gamma function: π^(p(p-1)/4) Πⱼ Γ(a - j/2)."""
    return _halves(a, size).lgamma().sum(-1) + size * (size - 1) / 4 * math.log(math.pi)


def _halves(a: Tensor, size: int) -> Tensor:
    """a - j/2, j < size, along a new last dimension."""
    return a.unsqueeze(-1) - ops.arange(size, dtype=a.dtype, device=a.device) / 2


class Wishart(_Scattered, ExponentialFamily):
    """The distribution of the sum of x xᵀ over `df` normal vectors x of a covariance.

    >>> import adjoint as ad
    >>> from adjoint.distributions import Wishart
    >>> Wishart(ad.tensor(3.0), covariance_matrix=ad.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = self._given_matrix(
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        df = tensor_of(df, matrix.dtype).to(matrix.dtype)
        batch = broadcast("Wishart", matrix.shape[:-2], df.shape)
        self._hold_matrix(name, matrix, batch)
        self.df = df.expand(batch)
        self._event_shape = tuple(matrix.shape[-2:])
        super().__init__(batch, self._event_shape, validate_args)

    @property
    def arg_constraints(  # pyright: ignore[reportIncompatibleVariableOverride]
        self,
    ) -> dict[str, Constraint]:
        return {**self._MATRICES, "df": constraints.greater_than(self._event_shape[-1] - 1)}

    @property
    def _matrix_df(self) -> Tensor:
        """The degrees of freedom, in front of a matrix."""
        return self.df.reshape((*self._batch_shape, 1, 1))

    @property
    def mean(self) -> Tensor:
        return self._matrix_df * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self._matrix_df - (self._event_shape[-1] + 1)
        return factor.where(factor > 0, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        matrix = self.covariance_matrix
        diagonal = matrix.diagonal(0, -2, -1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._matrix_df * (matrix.square() + outer)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """F Fᵀ, F = L A; A is triangular, normal numbers below roots of χ² (Bartlett 1933).

        With few degrees of freedom a root may be so near 0 that F Fᵀ is singular to rounding.
        """
        size = self._event_shape[-1]
        chi2 = Chi2(2 * _halves(self.df / 2, size), validate_args=False)
        below = noise_like(self.df, self._extended_shape(sample_shape)).tril(-1)
        factor = self._factor @ (below + chi2.rsample(sample_shape).sqrt().diag_embed())
        factor = _away_from_singular(factor)
        product = factor @ factor.mT
        return (product + product.mT) / 2  # symmetric to the last digit

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        size = self._event_shape[-1]
        volume = (self.df - size - 1) / 2 * ops.linalg_slogdet(value)[1]
        trace = ops.cholesky_solve(value, self._factor).diagonal(0, -2, -1).sum(-1)
        return volume - trace / 2 - self._log_constant()

    def _log_constant(self) -> Tensor:
        """The logarithm of the integral, by which the density is divided."""
        size = self._event_shape[-1]
        powers = self.df * (size * math.log(2) / 2 + half_log_det(self._factor))
        return powers + _log_gamma(self.df / 2, size)

    def _mean_log_det(self) -> Tensor:
        """E log det x."""
        size = self._event_shape[-1]
        return (
            _halves(self.df / 2, size).digamma().sum(-1)
            + size * math.log(2)
            + 2 * half_log_det(self._factor)
        )

    def entropy(self) -> Tensor:
        size = self._event_shape[-1]
        volume = (self.df - size - 1) / 2 * self._mean_log_det()
        return self._log_constant() - volume + self.df * size / 2

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.df / 2, -self.precision_matrix / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        size = y.shape[-1]
        return _log_gamma(x, size) - x * ops.linalg_slogdet(-y)[1]

    @property
    def _mean_carrier_measure(self) -> Tensor:
        return -(self._event_shape[-1] + 1) / 2 * self._mean_log_det()


def _away_from_singular(factor: Tensor) -> Tensor:
    """F with a diagonal so large that F Fᵀ, rounded, has a Cholesky factor.

    It has if the product of the shares that diagonal elements have in the squares of their rows,
    a bound on the smallest eigenvalue after scaling, exceeds n² times the rounding.
    """
    size = factor.shape[-1]
    least = 8 * size**2 * finfo(factor.dtype).eps
    diagonal = factor.diagonal(0, -2, -1)
    squares = factor.square().sum(-1)
    shares = (diagonal.square() / squares).cumprod(-1)
    before = ops.constant_pad_nd(shares[..., :-1], (1, 0), 1).clamp(min=least)
    enough = (least / before * squares).sqrt()
    return factor.tril(-1) + diagonal.maximum(enough).diag_embed()


class LKJCholesky(Distribution):
    """Cholesky factors of D×D correlation matrices of density det^(concentration - 1).

    1 is uniform over correlation matrices; more is nearer to the identity (Lewandowski, Kurowicka
    and Joe 2009). Samples move with the concentration.

    >>> import adjoint as ad
    >>> from adjoint.distributions import LKJCholesky
    >>> factor = LKJCholesky(3, 1.0).sample()
    >>> (factor @ factor.mT).diagonal().allclose(ad.ones(3))
    True
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    has_rsample = True

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueRangeError(f"LKJCholesky: dim is a whole number from 2 on, got {dim}")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        steps = ops.arange(1, dim, dtype=self.concentration.dtype)
        # of row k ≥ 1, the part of its length that is off the diagonal
        rest = self.concentration.unsqueeze(-1) + (dim - 1 - steps) / 2
        self._lengths = Beta(steps / 2, rest, validate_args=False)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The onion: row by row a random direction, and how far it points off the diagonal."""
        shape = self._extended_shape(sample_shape)
        noise = noise_like(self.concentration, (*shape[:-2], self.dim - 1, self.dim)).tril()
        direction = noise / ops.linalg_vector_norm(noise, dim=(-1,), keepdim=True)
        length = self._lengths.rsample(sample_shape)
        below = ops.constant_pad_nd(length.sqrt().unsqueeze(-1) * direction, (0, 0, 1, 0))
        tiny = finfo(length.dtype).tiny
        diagonal = ops.constant_pad_nd((1 - length).clamp(min=tiny).sqrt(), (1, 0), 1)
        return below + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        """Σₖ (D - k + 2(η - 1)) log Lₖₖ, k from 2, minus the logarithm of its integral."""
        value = self._checked(value)
        size = self.dim - 1
        eta = self.concentration
        left = ops.arange(self.dim - 2, -1, -1, dtype=eta.dtype, device=eta.device)
        powers = left + 2 * (eta - 1).unsqueeze(-1)
        density = (powers * value.diagonal(0, -2, -1)[..., 1:].log()).sum(-1)
        a = eta + size / 2
        constant = _log_gamma(a - 0.5, size) - size * a.lgamma()
        return density - constant - size / 2 * math.log(math.pi)

"""Constraints: regions that parameters and samples lie in.

`constraint.check(value)` says for each event whether it lies inside; an event has
`constraint.event_dim` dimensions. `constraints.positive` is an object, `constraints.greater_than`
a class that makes one.

    >>> import adjoint as ad
    >>> from adjoint.distributions import constraints
    >>> constraints.interval(0, 2).check(ad.tensor([-1.0, 1.0, 3.0]))
    tensor([False,  True, False])
    >>> constraints.simplex.check(ad.tensor([[0.5, 0.5], [0.5, 0.6]]))
    tensor([ True, False])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint import ops
from adjoint.core.dtypes import finfo
from adjoint.core.errors import AdjointError, ArgumentError, ShapeError, ValueRangeError
from adjoint.distributions.utils import all_rightmost, shown
from adjoint.tensor.tensor import Tensor

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]

_SUM_TOLERANCE = 1e-6  # by how much the sum of probabilities may miss 1, a matrix its transpose


class Undetermined(AdjointError, NotImplementedError):
    """A fact about a constraint that only an instance of its distribution can tell."""


class Constraint:
    """A region of values, some of whose last dimensions are one event.

    >>> from adjoint.distributions import constraints
    >>> constraints.positive, constraints.positive.event_dim, constraints.positive.is_discrete
    (GreaterThan(lower_bound=0.0), 0, False)
    """

    is_discrete: Any = False  # whether the region is a set of separate points
    event_dim: Any = 0  # how many dimensions an event has
    shows: tuple[str, ...] = ()  # the bounds that its text tells

    def check(self, value: Tensor) -> Tensor:
        """Whether each event of `value` lies inside."""
        raise NotImplementedError(f"{type(self).__name__} does not say what lies inside it")

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={shown(getattr(self, name))}" for name in self.shows)
        return f"{type(self).__name__}({bounds})"


# -- regions that depend on an instance ----------------------------------------------------------


class Dependent(Constraint):
    """The region of a support that depends on parameters; what is known of it beforehand."""

    def __init__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    @property
    def is_discrete(self) -> bool:
        return self._known("is_discrete")

    @property
    def event_dim(self) -> int:
        return self._known("event_dim")

    def _known(self, name: str) -> Any:
        value = getattr(self, f"_{name}")
        if value is NotImplemented:
            raise Undetermined(f"{name} of this support is known of an instance alone")
        return value

    def __call__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> Dependent:
        """Return a dependent constraint of which more is known.

        >>> from adjoint.distributions import constraints
        >>> constraints.dependent(event_dim=1).event_dim
        1
        """
        if is_discrete is NotImplemented:
            is_discrete = self._is_discrete
        if event_dim is NotImplemented:
            event_dim = self._event_dim
        return Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value: Tensor) -> Tensor:
        raise ValueRangeError(
            "a dependent constraint checks nothing; take the support of an instance"
        )


class DependentProperty(property, Dependent):
    """A property that is the support of an instance, and of the class a dependent constraint.

    >>> from adjoint.distributions import Uniform, constraints
    >>> constraints.is_dependent(Uniform.support), Uniform(0.0, 1.0).support
    (True, Interval(lower_bound=0.0, upper_bound=1.0))
    """

    def __init__(
        self,
        fn: Callable[[Any], Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        super().__init__(fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[[Any], Any]) -> DependentProperty:  # pyright: ignore[reportIncompatibleMethodOverride]
        return DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on an instance of its distribution.

    >>> from adjoint.distributions import constraints
    >>> constraints.is_dependent(constraints.real)
    False
    """
    return isinstance(constraint, Dependent)


# -- regions of numbers --------------------------------------------------------------------------


class Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class Real(Constraint):
    """All numbers but NaN."""

    def check(self, value: Tensor) -> Tensor:
        return value == value


class GreaterThan(Constraint):
    """Numbers above a bound."""

    shows = ("lower_bound",)

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class GreaterThanEq(GreaterThan):
    """Numbers above a bound, or at it."""

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class LessThan(Constraint):
    """Numbers below a bound."""

    shows = ("upper_bound",)

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class Interval(Constraint):
    """Numbers between two bounds, which belong to it."""

    shows = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class HalfOpenInterval(Interval):
    """Numbers between two bounds, of which the lower belongs to it."""

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class IntegerGreaterThan(GreaterThanEq):
    """Whole numbers from a bound on."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


class IntegerInterval(Interval):
    """Whole numbers between two bounds, which belong to it."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


# -- regions of vectors --------------------------------------------------------------------------


class Simplex(Constraint):
    """Vectors of numbers from 0 on whose sum is 1."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < _SUM_TOLERANCE)


class OneHot(Constraint):
    """Vectors of one 1 and zeros."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class Multinomial(Constraint):
    """Vectors of counts from 0 on whose sum is at most a bound."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


# -- regions of matrices -------------------------------------------------------------------------


class LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return all_rightmost(value.tril() == value, 2)


class LowerCholesky(LowerTriangular):
    """Lower triangular matrices with a positive diagonal."""

    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(0, -2, -1) > 0).all(-1)


class CorrCholesky(LowerCholesky):
    """Cholesky factors of correlation matrices: rows have length 1."""

    def check(self, value: Tensor) -> Tensor:
        tolerance = finfo(value.dtype).eps * value.shape[-1] * 10
        lengths = ops.linalg_vector_norm(value, dim=(-1,))
        return ((lengths - 1).abs() < tolerance).all(-1) & super().check(value)


class Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        square = value.shape[-2] == value.shape[-1]
        return (ops.ones if square else ops.zeros)(value.shape[:-2]) > 0


class Symmetric(Square):
    """Square matrices equal to their transpose, within 1e-6."""

    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return square
        return all_rightmost(value.isclose(value.mT, atol=_SUM_TOLERANCE), 2)


class PositiveSemidefinite(Symmetric):
    """Symmetric matrices without negative eigenvalues, up to rounding."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        eigenvalues = ops.linalg_eigvalsh(value)
        rounding = finfo(value.dtype).eps * value.shape[-1] * eigenvalues.abs().amax(-1, True)
        return symmetric & (eigenvalues >= -rounding).all(-1)


class PositiveDefinite(Symmetric):
    """Symmetric matrices that have a Cholesky factor."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        return symmetric & (ops.linalg_cholesky_ex(value)[1] == 0)


# -- regions made of regions ---------------------------------------------------------------------


class IndependentConstraint(Constraint):
    """Events of a constraint, some more of whose dimensions are one event together.

    >>> from adjoint.distributions import constraints
    >>> constraints.independent(constraints.real, 2).event_dim
    2
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        if not isinstance(base_constraint, Constraint):
            raise ArgumentError(f"independent: {base_constraint!r} is not a constraint")
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        result = self.base_constraint.check(value)
        if result.ndim < self.reinterpreted_batch_ndims:
            raise ShapeError(
                f"{self!r}: an event has {self.event_dim} dimensions, the value has {value.ndim}"
            )
        return all_rightmost(result, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Values that lie in the support of each component; components are the batch's last dimension.

    >>> import adjoint as ad
    >>> from adjoint.distributions import constraints
    >>> within = constraints.greater_than(ad.tensor([0.0, 1.0]))
    >>> constraints.MixtureSameFamilyConstraint(within).check(ad.tensor([0.5, 1.5]))
    tensor([False,  True])
    """

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise ArgumentError(f"mixture: {base_constraint!r} is not a constraint")
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        if value.ndim < self.event_dim:
            raise ShapeError(
                f"{self!r}: an event has {self.event_dim} dimensions, the value has {value.ndim}"
            )
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return all_rightmost(result, result.ndim - (value.ndim - self.event_dim))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Several(Constraint):
    """One constraint for each piece of a value along a dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int) -> None:
        if not all(isinstance(each, Constraint) for each in cseq):
            raise ArgumentError(f"{type(self).__name__}: not all of {cseq!r} are constraints")
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> bool:
        return any(each.is_discrete for each in self.cseq)


class Cat(_Several):
    """Pieces of given lengths along `dim`, each in its region.

    >>> import adjoint as ad
    >>> from adjoint.distributions import constraints
    >>> both = constraints.cat([constraints.positive, constraints.real], lengths=[1, 2])
    >>> both.check(ad.tensor([-1.0, -1.0, -1.0]))
    tensor([False,  True,  True])
    """

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise ArgumentError(
                f"cat: {len(self.cseq)} constraints and {len(self.lengths)} lengths"
            )

    @property
    def event_dim(self) -> int:
        return max(each.event_dim for each in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        pieces = value.split_with_sizes(self.lengths, self.dim)
        checked = [each.check(piece) for each, piece in zip(self.cseq, pieces, strict=True)]
        return ops.cat(checked, self.dim)


class Stack(_Several):
    """Slices along `dim`, each in its region.

    >>> import adjoint as ad
    >>> from adjoint.distributions import constraints
    >>> both = constraints.stack([constraints.positive, constraints.real])
    >>> both.check(ad.tensor([-1.0, -1.0]))
    tensor([False,  True])
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        super().__init__(cseq, dim)

    @property
    def event_dim(self) -> int:
        dim = max(each.event_dim for each in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        slices = value.unbind(self.dim)
        checked = [each.check(piece) for each, piece in zip(self.cseq, slices, strict=True)]
        return ops.stack(checked, self.dim)


dependent = Dependent()
dependent_property = DependentProperty
independent = IndependentConstraint
boolean = Boolean()
one_hot = OneHot()
nonnegative_integer = IntegerGreaterThan(0)
positive_integer = IntegerGreaterThan(1)
integer_interval = IntegerInterval
real = Real()
real_vector = independent(real, 1)
positive = GreaterThan(0.0)
nonnegative = GreaterThanEq(0.0)
greater_than = GreaterThan
greater_than_eq = GreaterThanEq
less_than = LessThan
multinomial = Multinomial
unit_interval = Interval(0.0, 1.0)
interval = Interval
half_open_interval = HalfOpenInterval
simplex = Simplex()
lower_triangular = LowerTriangular()
lower_cholesky = LowerCholesky()
corr_cholesky = CorrCholesky()
square = Square()
symmetric = Symmetric()
positive_semidefinite = PositiveSemidefinite()
positive_definite = PositiveDefinite()
cat = Cat
stack = Stack

"""Transforms from unconstrained numbers to a constraint: one that is a bijection, or any.

`biject_to(constraint)` returns a bijection, for densities and samplers; `transform_to(constraint)`
may have more inputs than the region has dimensions, and suits optimisers. Both take factories for
other constraints: `biject_to.register(MyConstraint, factory)`.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from adjoint.core.errors import AdjointError, ArgumentError
from adjoint.distributions import constraints, transforms
from adjoint.distributions.constraints import Constraint
from adjoint.distributions.transforms import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Transform]


class NoTransform(AdjointError, NotImplementedError):
    """A constraint that nobody has registered a transform for."""


class ConstraintRegistry:
    """A table from classes of constraints to functions that make transforms.

    >>> import adjoint as ad
    >>> from adjoint.distributions import biject_to, constraints
    >>> biject_to(constraints.less_than(2.0))(ad.tensor(0.0))
    tensor(1.)
    """

    def __init__(self) -> None:
        self._registry: dict[type[Constraint], Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Say what makes the transform to a class of constraints; without a factory, a decorator.

        An object stands for its class.
        """
        if factory is None:
            return lambda function: self.register(constraint, function)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, Constraint)):
            raise ArgumentError(
                f"register: needs a constraint or a class of constraints, got {constraint!r}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NoTransform(f"no transform to {constraint!r} is registered; use .register(…)")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _above(constraint: Any) -> Transform:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


def _below(constraint: Any) -> Transform:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


def _between(constraint: Any) -> Transform:
    low: Any = constraint.lower_bound
    high: Any = constraint.upper_bound
    sigmoid = transforms.SigmoidTransform()
    if all(isinstance(end, Number) for end in (low, high)) and (low, high) == (0, 1):
        return sigmoid
    return transforms.ComposeTransform([sigmoid, transforms.AffineTransform(low, high - low)])


def _of_parts(registry: ConstraintRegistry) -> dict[Any, Factory]:
    """Transforms to constraints that are made of constraints, by a registry."""
    return {
        constraints.independent: lambda c: transforms.IndependentTransform(
            registry(c.base_constraint), c.reinterpreted_batch_ndims
        ),
        constraints.cat: lambda c: transforms.CatTransform(
            [registry(each) for each in c.cseq], c.dim, c.lengths
        ),
        constraints.stack: lambda c: transforms.StackTransform(
            [registry(each) for each in c.cseq], c.dim
        ),
    }


_BOTH: dict[Any, Factory] = {
    constraints.real: lambda _: transforms.identity_transform,
    constraints.greater_than: _above,
    constraints.greater_than_eq: _above,
    constraints.less_than: _below,
    constraints.interval: _between,
    constraints.half_open_interval: _between,
    constraints.corr_cholesky: lambda _: transforms.CorrCholeskyTransform(),
}
_BIJECTIONS: dict[Any, Factory] = {
    constraints.simplex: lambda _: transforms.StickBreakingTransform(),
}
_ANY: dict[Any, Factory] = {
    constraints.simplex: lambda _: transforms.SoftmaxTransform(),
    constraints.lower_cholesky: lambda _: transforms.LowerCholeskyTransform(),
    constraints.positive_definite: lambda _: transforms.PositiveDefiniteTransform(),
    constraints.positive_semidefinite: lambda _: transforms.PositiveDefiniteTransform(),
}

for _registry, _facts in (
    (biject_to, _BOTH | _of_parts(biject_to) | _BIJECTIONS),
    (transform_to, _BOTH | _of_parts(transform_to) | _ANY),
):
    for _constraint, _factory in _facts.items():
        _registry.register(_constraint, _factory)

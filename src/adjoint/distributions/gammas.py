"""Distributions around the gamma function: exponential, gamma, beta, Dirichlet, F, Weibull.

Samples of gamma and Dirichlet distributions move with their parameters by implicit
reparameterisation, to every order: `table/random.yaml`.
"""

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.core.errors import ShapeError
from adjoint.core.shapes import Shape
from adjoint.distributions import made
from adjoint.distributions.combined import TransformedDistribution as TransformedDistribution
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.distribution import ExponentialFamily as ExponentialFamily
from adjoint.distributions.transforms.elements import AffineTransform as AffineTransform
from adjoint.distributions.transforms.elements import PowerTransform as PowerTransform
from adjoint.distributions.utils import broadcast_all
from adjoint.distributions.utils import root as root
from adjoint.distributions.utils import softplus as softplus
from adjoint.distributions.utils import tensor_of as tensor_of
from adjoint.tensor.tensor import Tensor

EULER = 0.57721566490153286061

__getattr__, __dir__, __all__ = made.door(globals())


class OfVectors(Distribution):
    """A distribution of vectors, by one parameter that is a vector."""

    def _hold(self, validate_args: bool | None, **parameters: Any) -> None:
        ((name, value),) = parameters.items()
        (held,) = broadcast_all(value)
        if not held.shape:
            raise ShapeError(f"{type(self).__name__}: `{name}` must be at least one-dimensional")
        self.__dict__[name] = held
        Distribution.__init__(self, held.shape[:-1], held.shape[-1:], validate_args)


class OfTwoShares(Distribution):
    """The first share of a Dirichlet distribution of two."""

    _dirichlet: Any

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        both = ops.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = __getattr__("Dirichlet")(both, validate_args=False)
        super().__init__(both.shape[:-1], (), validate_args)


def where_above(parameter: Tensor, bound: float, moment: Any, other: float = math.inf) -> Tensor:
    """A moment that exists for a parameter above a bound, and `other` elsewhere.

    There the moment is taken of a parameter for which it is finite, so that derivatives are 0.
    """
    exists = parameter > bound
    return moment(parameter.where(exists, bound + 1)).where(exists, other)


def beta_of_odds(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """I(a, b) at x/(x + y), the regularised incomplete beta function, by the smaller fraction."""
    whole = x + y
    upper = 1 - ops.special_betainc(b, a, y / whole)
    return ops.where(x > y, upper, ops.special_betainc(a, b, x / whole))


def mean_square(df: Tensor, shape: Shape) -> Tensor:
    """χ²/df, in double precision, which is for whoever takes roots or ratios of it.

    With few degrees of freedom most samples are less than the least number of float32: the ratio
    of two such samples, and the root in Student's t, are not.
    """
    half = (df.double() / 2).expand(shape)
    return ops._standard_gamma(half) / half

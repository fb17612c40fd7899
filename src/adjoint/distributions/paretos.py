"""Distributions with tails that are powers."""

from __future__ import annotations

import math

from adjoint import ops
from adjoint.distributions import made
from adjoint.distributions.combined import TransformedDistribution as TransformedDistribution
from adjoint.distributions.distribution import Located as Located
from adjoint.distributions.gammas import Exponential as Exponential
from adjoint.distributions.gammas import where_above as where_above
from adjoint.distributions.transforms.elements import AffineTransform as AffineTransform
from adjoint.distributions.transforms.elements import ExpTransform as ExpTransform
from adjoint.distributions.utils import below_one as below_one
from adjoint.distributions.utils import root as root
from adjoint.tensor.tensor import Tensor

FAR = 3.0  # an exponent, or what is added to 1, beyond which nothing cancels by closed forms

__getattr__, __dir__, __all__ = made.door(globals())


def end_of_tail(loc: Tensor, scale: Tensor, concentration: Tensor) -> Tensor:
    """Where the tail of a generalized Pareto distribution ends: at infinity from ξ = 0 on."""
    below_zero = concentration < 0
    k = concentration.where(below_zero, -1.0)
    return (loc - scale / k).where(below_zero, math.inf)


def log1p_over(k: Tensor, z: Tensor) -> Tensor:
    """log(1 + kz)/k, and z where k is 0."""
    shift = k * z
    far = shift > FAR
    near = z * ops._analytic_derivative(shift.where(~far, 0.0), "log1prel", 0)
    return ops.where(far, shift.where(far, 1.0).log1p() / k.where(far, 1.0), near)


def expm1_over(k: Tensor, t: Tensor) -> Tensor:
    """(e^(kt) - 1)/k, and t where k is 0."""
    return t * ops._analytic_derivative(k * t, "exprel", 0)

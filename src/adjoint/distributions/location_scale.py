"""Distributions with a location and a scale: (x - loc)/scale has one that is standard."""

from __future__ import annotations

from adjoint.core.dtypes import finfo
from adjoint.distributions import made
from adjoint.distributions.combined import TransformedDistribution as TransformedDistribution
from adjoint.distributions.distribution import ExponentialFamily as ExponentialFamily
from adjoint.distributions.distribution import Located as Located
from adjoint.distributions.gammas import EULER as EULER
from adjoint.distributions.gammas import Exponential as Exponential
from adjoint.distributions.gammas import mean_square as mean_square
from adjoint.distributions.transforms.elements import AbsTransform as AbsTransform
from adjoint.distributions.transforms.elements import AffineTransform as AffineTransform
from adjoint.distributions.transforms.elements import ExpTransform as ExpTransform
from adjoint.distributions.utils import log1p_square as log1p_square
from adjoint.tensor.tensor import Tensor

__getattr__, __dir__, __all__ = made.door(globals())


def laplace_quantile(offset: Tensor) -> Tensor:
    """The quantile of 1/2 + offset; that of -1/2, which may be drawn, is kept finite."""
    largest = 1 - finfo(offset.dtype).eps
    return -offset.sign() * (-(2 * offset.abs()).clamp(max=largest)).log1p()

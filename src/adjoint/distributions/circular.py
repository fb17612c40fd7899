"""Distributions of angles."""

from __future__ import annotations

from adjoint.distributions import made
from adjoint.distributions.distribution import Located as Located

__getattr__, __dir__, __all__ = made.door(globals())

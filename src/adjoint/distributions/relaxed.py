"""Continuous distributions near discrete ones: the nearer, the lower their temperature."""

from __future__ import annotations

from adjoint.distributions import made
from adjoint.distributions.choices import OfChoices as OfChoices
from adjoint.distributions.combined import TransformedDistribution as TransformedDistribution
from adjoint.distributions.probabilities import Probabilities as Probabilities
from adjoint.distributions.transforms.elements import ExpTransform as ExpTransform
from adjoint.distributions.transforms.elements import SigmoidTransform as SigmoidTransform
from adjoint.distributions.utils import clamp_probs as clamp_probs
from adjoint.distributions.utils import softplus as softplus
from adjoint.distributions.utils import tensor_of as tensor_of

__getattr__, __dir__, __all__ = made.door(globals())

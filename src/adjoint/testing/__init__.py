"""Checks of values and derivatives: assert_close, gradcheck, laws and samples.

>>> import adjoint as ad
>>> ad.testing.check("tanh") > 50  # so many laws held, over samples and dtypes
True
"""

from __future__ import annotations

from adjoint.testing.assertion import assert_close
from adjoint.testing.gradcheck import GradcheckError, gradcheck, gradgradcheck
from adjoint.testing.laws import LAWS, Case, cases, check
from adjoint.testing.making import make_tensor
from adjoint.testing.samples import Make, Sample, sampler

__all__ = [
    "LAWS",
    "Case",
    "GradcheckError",
    "Make",
    "Sample",
    "assert_close",
    "cases",
    "check",
    "gradcheck",
    "gradgradcheck",
    "make_tensor",
    "sampler",
]

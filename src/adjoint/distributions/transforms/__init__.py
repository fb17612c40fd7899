"""Transforms: invertible functions with log-determinants, that change distributions.

`base.py` says what a transform is; the others are grouped by what they act on.
"""

from __future__ import annotations

from adjoint.distributions.transforms.arrays import (
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    ReshapeTransform,
    SoftmaxTransform,
    StickBreakingTransform,
)
from adjoint.distributions.transforms.base import Transform, _InverseTransform
from adjoint.distributions.transforms.combined import (
    CatTransform,
    ComposeTransform,
    IndependentTransform,
    StackTransform,
    identity_transform,
)
from adjoint.distributions.transforms.elements import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "_InverseTransform",
    "identity_transform",
]

"""`ad.optim.lr_scheduler`: learning rates that change from epoch to epoch, as in PyTorch."""

from __future__ import annotations

from adjoint.optim.lr_scheduler.base import EPOCH_DEPRECATION_WARNING, LRScheduler
from adjoint.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from adjoint.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from adjoint.optim.lr_scheduler.cycles import CyclicLR, OneCycleLR
from adjoint.optim.lr_scheduler.factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from adjoint.optim.lr_scheduler.plateau import ReduceLROnPlateau

_LRScheduler = LRScheduler  # PyTorch's older name

__all__ = [
    "EPOCH_DEPRECATION_WARNING",
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

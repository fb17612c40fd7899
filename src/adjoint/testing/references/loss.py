"""Losses of single elements by their definitions on Python's numbers."""

from __future__ import annotations

import math
from typing import Any

from adjoint.testing.references.elements import each


def squared_error(x: Any, target: Any) -> Any:
    return (x - target) ** 2


def huber(x: float, target: float, delta: float) -> float:
    """A parabola that goes on as a line from where its slope is `delta`."""
    distance = abs(x - target)
    return distance**2 / 2 if distance <= delta else delta * distance - delta**2 / 2


def log_of_logistic(x: float) -> float:
    """log 1/(1 + e^-x)."""
    return -math.log1p(math.exp(-x)) if x > 0 else x - math.log1p(math.exp(x))


def logistic_loss(x: float, target: float) -> float:
    return -(target * log_of_logistic(x) + (1 - target) * log_of_logistic(-x))


REFERENCES = {
    "_squared_error": each(squared_error), "_huber": each(huber),
    "_logistic_loss": each(logistic_loss),
}  # fmt: skip

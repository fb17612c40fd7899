"""Gradients of layer norms by the matrix of derivatives of each row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def input_gradient(
    grad: Any, x: Any, shape: tuple[int, ...], mean: Any, rstd: Any, weight: Any = None
) -> Any:
    """Σᵢ gᵢ wᵢ ∂x̂ᵢ/∂xⱼ with ∂x̂ᵢ/∂xⱼ = (δᵢⱼ - 1/n - x̂ᵢ x̂ⱼ/n) / σ."""
    n = math.prod(shape)
    found = []
    for g, row, middle, scale in _rows(n, grad, x, mean, rstd):
        norm = (row - middle) * scale
        matrix = (np.eye(n) - 1 / n - np.outer(norm, norm) / n) * scale
        found.append((g if weight is None else g * weight.reshape(n)) @ matrix)
    return np.array(found).reshape(x.shape)


def gradients(
    grad: Any, x: Any, shape: tuple[int, ...], mean: Any, rstd: Any, weight: Any = None
) -> Any:
    """Those of input, weight and bias: the last two are sums over rows."""
    n = math.prod(shape)
    of_weight, of_bias = np.zeros(n), np.zeros(n)
    for g, row, middle, scale in _rows(n, grad, x, mean, rstd):
        of_weight += g * (row - middle) * scale
        of_bias += g
    of_input = input_gradient(grad, x, shape, mean, rstd, weight)
    return of_input, of_weight.reshape(shape), of_bias.reshape(shape)


def _rows(n: int, grad: Any, x: Any, mean: Any, rstd: Any) -> Any:
    return zip(grad.reshape(-1, n), x.reshape(-1, n), mean.ravel(), rstd.ravel(), strict=True)


REFERENCES = {"_layer_norm_backward": gradients, "_layer_norm_input_backward": input_gradient}

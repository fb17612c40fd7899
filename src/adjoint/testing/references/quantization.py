"""Fake quantization of one number after the other, by Python's own rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any


def one(
    x: float, scale: float, zero_point: float, low: int, high: int, *, early: bool = False
) -> tuple[float, bool]:
    """The rounded number, and whether it was in the range."""
    if math.isnan(x):
        return x, False
    scaled = x * (1 / scale)
    level = round(scaled + zero_point) if early else round(scaled) + zero_point
    kept = min(max(level, low), high)
    return (kept - zero_point) * scale, kept == level


def _each(
    x: Array, scales: Array, zeros: Array, low: int, high: int, *, early: bool = False
) -> tuple[Array, Array]:
    scales, zeros = (np.broadcast_to(v, x.shape) for v in (scales, zeros))
    found = [
        one(float(a), float(s), float(z), low, high, early=early)
        for a, s, z in zip(x.flat, scales.flat, zeros.flat, strict=True)
    ]
    shape = x.shape
    values = np.array([v for v, _ in found], dtype=np.float64).reshape(shape)
    return values, np.array([m for _, m in found], dtype=np.bool_).reshape(shape)


def _along(x: Array, values: Array, axis: int) -> Array:
    shape = [1] * x.ndim
    shape[axis] = -1
    return np.reshape(values, shape)


def per_tensor(self: Array, scale: Any, zero_point: Any, low: int, high: int) -> Any:
    return _each(self, scale, zero_point, low, high)


def per_tensor_of_tensors(
    self: Array, scale: Array, zero_point: Array, is_on: Array, low: int, high: int
) -> Any:
    if not is_on.all():
        return self, np.ones(self.shape, np.bool_)
    return _each(self, scale.reshape(()), zero_point.reshape(()), low, high)


def per_channel(
    self: Array, scale: Array, zero_point: Array, axis: int, low: int, high: int
) -> Any:
    scales, zeros = _along(self, scale, axis), _along(self, zero_point, axis)
    return _each(self, scales, zeros, low, high, early=zero_point.dtype.kind == "f")


def _whole(zero_point: Array, low: int, high: int) -> Array:
    return np.array([min(max(round(float(z)), low), high) for z in zero_point.flat])


def learnable_per_tensor(
    self: Array, scale: Array, zero_point: Array, low: int, high: int, factor: float = 1.0
) -> Any:
    zero = _whole(zero_point, low, high).reshape(())
    return _each(self, scale.reshape(()), zero, low, high)[0]


def learnable_per_channel(
    self: Array, scale: Array, zero_point: Array, axis: int, low: int, high: int,
    factor: float = 1.0,
) -> Any:  # fmt: skip
    zeros = _along(self, _whole(zero_point, low, high), axis)
    return _each(self, _along(self, scale, axis), zeros, low, high)[0]


def masked(grad: Array, mask: Array) -> Any:
    return np.where(mask, grad, 0)


REFERENCES: dict[str, Callable[..., Any]] = {
    "fake_quantize_per_tensor_affine_cachemask": per_tensor,
    "fake_quantize_per_tensor_affine.default": lambda *args: per_tensor(*args)[0],
    "fake_quantize_per_tensor_affine.tensor_qparams": (
        lambda x, scale, zero, low, high: per_tensor_of_tensors(
            x, scale, zero, np.ones(1), low, high
        )[0]
    ),
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": per_tensor_of_tensors,
    "fake_quantize_per_channel_affine_cachemask": per_channel,
    "fake_quantize_per_channel_affine": lambda *args: per_channel(*args)[0],
    "_fake_quantize_learnable_per_tensor_affine": learnable_per_tensor,
    "_fake_quantize_learnable_per_channel_affine": learnable_per_channel,
    "fake_quantize_per_tensor_affine_cachemask_backward": masked,
    "fake_quantize_per_channel_affine_cachemask_backward": masked,
}

"""Fake quantization in terms of smaller operators; float16 and bfloat16 are computed in float32.

Derivatives that are conventions are given to values by terms of the form y - y.detach().
"""

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.checks import quantization
from adjoint.core import dtypes
from adjoint.core.errors import ShapeError
from adjoint.core.shapes import Shape, show, wrap_dim
from adjoint.decompositions.halves import wide

Tensor = Any

SMALLEST_SCALE = 6.1e-5  # scales below it are not chosen: 1/scale would leave float16's range


def _levels(x: Tensor, scale: Any, zero_point: Any, *, early: bool = False) -> Tensor:
    """The level of each value as an integer, possibly out of range."""
    found = x * (1 / scale)
    return (found + zero_point).round() if early else found.round() + zero_point


def _inside(levels: Tensor, quant_min: int, quant_max: int) -> Tensor:
    return (levels >= quant_min).logical_and(levels <= quant_max)


def _straight_through(
    self: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int, early: bool
) -> tuple[Tensor, Tensor]:
    """The rounded values with the derivatives of the identity inside the range, and the mask."""
    x = wide(self)
    levels = _levels(x.detach(), scale, zero_point, early=early)
    mask = _inside(levels, quant_min, quant_max)
    found = (levels.clamp(quant_min, quant_max) - zero_point) * scale
    same = ops.where(mask, x, 0.0)
    return (found + (same - same.detach())).to(self.dtype), mask


def per_tensor(
    self: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """(clamp(round(x/scale) + zero_point) - zero_point) · scale, and where nothing was clamped."""
    what = "fake_quantize_per_tensor_affine"
    quantization.in_range(what, self.dtype, quant_min, quant_max)
    quantization.zero_point(what, zero_point, quant_min, quant_max)
    return _straight_through(self, scale, zero_point, quant_min, quant_max, False)


def per_tensor_of_tensors(
    self: Tensor, scale: Tensor, zero_point: Tensor, fake_quant_enabled: Tensor, quant_min: int,
    quant_max: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Like `per_tensor`, with the settings in tensors; unchanged if switched off."""
    what = "fake_quantize_per_tensor_affine"
    quantization.in_range(what, self.dtype, quant_min, quant_max)
    numbers = {"scale": scale, "zero_point": zero_point, "fake_quant_enabled": fake_quant_enabled}
    quantization.single(what, **numbers)
    dtype = wide(self).dtype
    size, zero = (t.detach().reshape(()).to(dtype) for t in (scale, zero_point))
    found, mask = _straight_through(self, size, zero, quant_min, quant_max, False)
    is_on = fake_quant_enabled.reshape(()).ne(0)
    return ops.where(is_on, found, self), mask.logical_or(is_on.logical_not())


def per_tensor_affine_of_tensors(
    self: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int
) -> Tensor:
    """The values alone, switched on."""
    is_on = ops.ones((1,), dtype=dtypes.int64)
    return ops._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
        self, scale, zero_point, is_on, quant_min, quant_max
    )[0]


def per_channel(
    self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """Fake quantisation with a scale and a zero point for each slice along axis."""
    what = "fake_quantize_per_channel_affine"
    quantization.in_range(what, self.dtype, quant_min, quant_max)
    shape = quantization.channels(what, self, scale, zero_point, axis)
    dtype = wide(self).dtype
    size, zero = (t.detach().reshape(shape).to(dtype) for t in (scale, zero_point))
    early = zero_point.dtype.is_floating_point
    return _straight_through(self, size, zero, quant_min, quant_max, early)


# --- learnable -----------------------------------------------------------------------------------


def _whole(zero_point: Tensor, quant_min: int, quant_max: int) -> Tensor:
    """The nearest whole number of the range."""
    return zero_point.round().clamp(quant_min, quant_max)


def _slopes(
    x: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Where the slope in x is 1, the slope in the scale, and that in the zero point.

    Inside the range the slope in the scale is round(x/scale) - x/scale, outside it is the end of
    the range, counted from the zero point.
    """
    zero = _whole(zero_point, quant_min, quant_max)
    levels = _levels(x, scale, zero)
    mask = _inside(levels, quant_min, quant_max)
    kept = levels.clamp(quant_min, quant_max) - zero
    of_scale = ops.where(mask, kept - x * (1 / scale), kept)
    return mask, of_scale, ops.where(mask, 0.0, -scale)


def _learnable(
    self: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int,
    grad_factor: float,
) -> Tensor:  # fmt: skip
    x = wide(self)
    size, zero = (wide(t).to(x.dtype) for t in (scale, zero_point))
    mask, of_scale, of_zero = _slopes(
        x.detach(), size.detach(), zero.detach(), quant_min, quant_max
    )
    whole = _whole(zero.detach(), quant_min, quant_max)
    levels = _levels(x.detach(), size.detach(), whole).clamp(quant_min, quant_max)
    slope = ops.where(mask, x, 0.0) + grad_factor * (of_scale * size + of_zero * zero)
    return ((levels - whole) * size.detach() + (slope - slope.detach())).to(self.dtype)


def learnable_per_tensor(
    self: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int,
    grad_factor: float,
) -> Tensor:  # fmt: skip
    """The rounded values, with derivatives in scale and zero point."""
    what = "_fake_quantize_learnable_per_tensor_affine"
    quantization.in_range(what, self.dtype, quant_min, quant_max)
    quantization.single(what, scale=scale, zero_point=zero_point)
    size, zero = (t.reshape(()) for t in (scale, zero_point))
    return _learnable(self, size, zero, quant_min, quant_max, grad_factor)


def learnable_per_channel(
    self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int,
    grad_factor: float,
) -> Tensor:  # fmt: skip
    """Fake quantisation with learnable scales and zero points, for slices along axis."""
    what = "_fake_quantize_learnable_per_channel_affine"
    quantization.in_range(what, self.dtype, quant_min, quant_max)
    shape = quantization.channels(what, self, scale, zero_point, axis)
    size, zero = (t.reshape(shape) for t in (scale, zero_point))
    return _learnable(self, size, zero, quant_min, quant_max, grad_factor)


def _gradients(
    grad: Tensor, self: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int,
    grad_factor: float, kept: Shape,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of x, scale and zero point, summed over all dimensions but the `kept` ones."""
    x, g = wide(self), wide(grad)
    size, zero = (wide(t).to(x.dtype) for t in (scale, zero_point))
    mask, *slopes = _slopes(x, size, zero, quant_min, quant_max)
    dims = tuple(d for d in range(x.ndim) if d not in kept)
    of_scale, of_zero = (
        (g * s).sum(dims) * grad_factor if dims else g * s * grad_factor for s in slopes
    )
    of_self = ops.where(mask, g, 0.0).to(self.dtype)
    return of_self, of_scale.to(scale.dtype), of_zero.to(zero_point.dtype)


def learnable_per_tensor_backward(
    grad: Tensor, self: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int,
    grad_factor: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of x, scale and zero point."""
    what = "_fake_quantize_learnable_per_tensor_affine_backward"
    quantization.in_range(what, self.dtype, quant_min, quant_max)
    quantization.single(what, scale=scale, zero_point=zero_point)
    size, zero = (t.reshape(()) for t in (scale, zero_point))
    bar, s_bar, z_bar = _gradients(grad, self, size, zero, quant_min, quant_max, grad_factor, ())
    return bar, s_bar.reshape(scale.shape), z_bar.reshape(zero_point.shape)


def learnable_per_channel_backward(
    grad: Tensor, self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int,
    quant_max: int, grad_factor: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of x, scales and zero points."""
    what = "_fake_quantize_learnable_per_channel_affine_backward"
    quantization.in_range(what, self.dtype, quant_min, quant_max)
    shape = quantization.channels(what, self, scale, zero_point, axis)
    size, zero = (t.reshape(shape) for t in (scale, zero_point))
    kept = (wrap_dim(what, axis, self.ndim),)
    return _gradients(grad, self, size, zero, quant_min, quant_max, grad_factor, kept)


# --- observers -----------------------------------------------------------------------------------


def _extrema(self: Tensor, axis: int | None) -> tuple[Tensor, Tensor]:
    """The least and the largest value, of each slice along axis if there is one."""
    if axis is None:
        found = self.aminmax()
        return found[0].reshape((1,)), found[1].reshape((1,))
    least, most = self.movedim(axis, 0).flatten(1).aminmax(dim=1)
    return least, most


def _moved(running: Tensor, seen: Tensor, is_on: Tensor, averaging_const: float) -> Tensor:
    """A running extremum; an infinite one has seen nothing yet."""
    seen = seen.to(running.dtype)
    average = ops.where(running.isinf(), seen, running + averaging_const * (seen - running))
    return ops.where(is_on, average, running)


def _chosen(
    low: Tensor, high: Tensor, quant_min: int, quant_max: int, symmetric: bool
) -> tuple[Tensor, Tensor]:
    """The scale and zero point with which the range covers low to high and 0, in float64."""
    count = quant_max - quant_min
    low, high = low.to(dtypes.float64), high.to(dtypes.float64)
    around = (low < 0).logical_and(high > 0) if symmetric else None
    if around is not None:
        half = count // 2
        unit = ops.maximum((low / (half + 1)).abs(), (high / max(half, 1)).abs())
        low, high = ops.where(around, -(half + 1) * unit, low), ops.where(around, half * unit, high)
    low, high = low.clamp_max(0), high.clamp_min(0)
    scale = (high - low) / max(count, 1)
    scale = ops.where(scale.to(dtypes.float32).reciprocal().isinf(), 0.1, scale)
    stretch = (SMALLEST_SCALE / scale).clamp_min(1)
    scale, low, high = scale * stretch, low * stretch, high * stretch
    from_low, from_high = quant_min - low / scale, quant_max - high / scale
    nearer = abs(quant_min) - (low / scale).abs() < abs(quant_max) - (high / scale).abs()
    zero = ops.where(nearer, from_low, from_high)
    if around is not None:
        zero = ops.where(around, (quant_min + quant_max) / 2, zero)
    return scale, zero.round().clamp(quant_min, quant_max)


def _check_observed(
    self: Tensor, numbers: dict[str, Tensor], quant_min: int, quant_max: int, axis: int | None
) -> None:
    what = "fused_moving_avg_obs_fake_quant"
    quantization.in_range(what, self.dtype, quant_min, quant_max)
    count = 1 if axis is None else self.shape[axis]
    for name, tensor in numbers.items():
        if tuple(tensor.shape) not in ((count,), () if axis is None else (count,)):
            raise ShapeError(
                f"{what}: {name} must have one number for each of {count} "
                f"{'tensors' if axis is None else 'slices'}, got {show(tensor.shape)}."
            )


def observed_functional(
    self: Tensor, observer_on: Tensor, fake_quant_on: Tensor, running_min: Tensor,
    running_max: Tensor, scale: Tensor, zero_point: Tensor, averaging_const: float, quant_min: int,
    quant_max: int, ch_axis: int, per_row_fake_quant: bool, symmetric_quant: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The values and the mask; then running extrema, scale and zero point as they are after."""
    what = "fused_moving_avg_obs_fake_quant"
    axis = wrap_dim(what, ch_axis, self.ndim) if per_row_fake_quant else None
    state = {"running_min": running_min, "running_max": running_max}
    _check_observed(self, state | {"scale": scale, "zero_point": zero_point}, quant_min, quant_max,
                    axis)  # fmt: skip
    if not math.prod(self.shape):
        mask = ops.ones(self.shape, dtype=dtypes.bool_)
        return (
            self.clone(),
            mask,
            *(t.clone() for t in (running_min, running_max, scale, zero_point)),
        )
    observes, rounds = (t.reshape(()).ne(0) for t in (observer_on, fake_quant_on))
    least, most = (t.detach() for t in _extrema(self.detach(), axis))
    low, high = (
        _moved(t.detach(), s.reshape(t.shape), observes, averaging_const)
        for t, s in ((running_min, least), (running_max, most))
    )
    chosen = _chosen(low, high, quant_min, quant_max, symmetric_quant)
    size, zero = (
        ops.where(rounds, c.to(t.dtype).reshape(t.shape), t.detach())
        for c, t in zip(chosen, (scale, zero_point), strict=True)
    )
    if axis is None:
        output, mask = ops._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
            self, size, zero, fake_quant_on, quant_min, quant_max
        )
        return output, mask, low, high, size, zero
    output, mask = ops.fake_quantize_per_channel_affine_cachemask(
        self, size, zero, axis, quant_min, quant_max
    )
    mask = mask.logical_or(rounds.logical_not())
    return ops.where(rounds, output, self), mask, low, high, size, zero


def observed(
    self: Tensor, observer_on: Tensor, fake_quant_on: Tensor, running_min: Tensor,
    running_max: Tensor, scale: Tensor, zero_point: Tensor, averaging_const: float, quant_min: int,
    quant_max: int, ch_axis: int, per_row_fake_quant: bool, symmetric_quant: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The values and the mask; running extrema, scale and zero point are changed in place."""
    output, mask, *found = observed_functional(
        self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point,
        averaging_const, quant_min, quant_max, ch_axis, per_row_fake_quant, symmetric_quant,
    )  # fmt: skip
    for old, new in zip((running_min, running_max, scale, zero_point), found, strict=True):
        old.copy_(new)
    return output, mask


def observed_output(
    self: Tensor, observer_on: Tensor, fake_quant_on: Tensor, running_min: Tensor,
    running_max: Tensor, scale: Tensor, zero_point: Tensor, averaging_const: float, quant_min: int,
    quant_max: int, ch_axis: int, per_row_fake_quant: bool, symmetric_quant: bool,
) -> Tensor:  # fmt: skip
    """The values alone."""
    return observed(
        self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point,
        averaging_const, quant_min, quant_max, ch_axis, per_row_fake_quant, symmetric_quant,
    )[0]  # fmt: skip

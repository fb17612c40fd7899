"""Shape rules of resampling."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.checks import resampling
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.shapes import Shape, Spec


def resample(
    self: Spec, output_size: Shape, mode: str, align_corners: bool, scales: Sequence[float]
) -> Spec:
    """Other sizes at the end."""
    resampling.check_input(self.shape, output_size, self.dtype, mode)
    return Spec((*self.shape[:2], *output_size), self.dtype)


def resample_backward(
    grad_output: Spec, output_size: Shape, input_size: Shape, mode: str, align_corners: bool,
    scales: Sequence[float],
) -> Spec:  # fmt: skip
    """The shape of the input."""
    resampling.check_gradient(grad_output.shape, output_size, input_size, grad_output.dtype, mode)
    return Spec(tuple(input_size), grad_output.dtype)


def resampling_taps(
    size: int, output_size: int, mode: str, align_corners: bool, scale: float, dtype: DType
) -> tuple[Spec, Spec]:
    """A row of taps for each element of the result."""
    count = resampling.taps(size, output_size, mode, align_corners, scale)
    real = dtypes.float64 if dtype.name in ("float64", "uint8") else dtypes.float32
    return Spec((output_size, count), dtypes.int64), Spec((output_size, count), real)


def grid_sample(
    input: Spec, grid: Spec, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Spec:
    """The batch and channels of the input, the sizes of the grid."""
    resampling.check_floating("grid_sampler", input.dtype, grid.dtype)
    resampling.check_sampling("grid_sampler", input.shape, grid.shape)
    return Spec((*input.shape[:2], *grid.shape[1:-1]), input.dtype)


def grid_sample_input_backward(
    grad_output: Spec, grid: Spec, input_size: Shape, interpolation_mode: int,
    padding_mode: int, align_corners: bool,
) -> Spec:  # fmt: skip
    """The shape of the input."""
    resampling.check_floating("grid_sampler_backward", grad_output.dtype, grid.dtype)
    resampling.check_sampling(
        "grid_sampler_backward", tuple(input_size), grid.shape, grad_output.shape
    )
    return Spec(tuple(input_size), grad_output.dtype)


def grid_sample_grid_backward(
    grad_output: Spec, input: Spec, grid: Spec, interpolation_mode: int, padding_mode: int,
    align_corners: bool,
) -> Spec:  # fmt: skip
    """The shape of the grid."""
    resampling.check_floating("grid_sampler_backward", grad_output.dtype, input.dtype, grid.dtype)
    return Spec(grid.shape, grid.dtype)

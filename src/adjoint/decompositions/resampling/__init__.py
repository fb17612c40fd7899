"""Resampling in terms of gathers, and its transposes in terms of sums at indices."""

from adjoint.decompositions.resampling.affine import (
    affine_grid_generator,
    affine_grid_generator_backward,
)
from adjoint.decompositions.resampling.axes import resample, resample_backward, resample_by
from adjoint.decompositions.resampling.grids import (
    grid_sample,
    grid_sample_grid_backward,
    grid_sample_input_backward,
    grid_sampler,
    grid_sampler_2d,
    grid_sampler_2d_backward,
    grid_sampler_3d,
    grid_sampler_3d_backward,
)
from adjoint.decompositions.resampling.shuffles import (
    channel_shuffle,
    pixel_shuffle,
    pixel_unshuffle,
)

__all__ = [
    "affine_grid_generator",
    "affine_grid_generator_backward",
    "channel_shuffle",
    "grid_sample",
    "grid_sample_grid_backward",
    "grid_sample_input_backward",
    "grid_sampler",
    "grid_sampler_2d",
    "grid_sampler_2d_backward",
    "grid_sampler_3d",
    "grid_sampler_3d_backward",
    "pixel_shuffle",
    "pixel_unshuffle",
    "resample",
    "resample_backward",
    "resample_by",
]

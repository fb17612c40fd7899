"""Kernels of resampling on arrays.

Every result is a sparse matrix times the input: for resizing one small matrix along each dimension,
for a grid one matrix of all places. The derivative is the transposed matrix. An infinite element
reaches only results of which it is a tap: SciPy's sparse products touch nothing else, and dense
blocks are multiplied where all numbers are finite. float16 and bfloat16 are computed in float32.
"""

from adjoint.kernels.resampling.axes import resample, resample_backward, resampling_taps
from adjoint.kernels.resampling.grids import (
    grid_sample,
    grid_sample_grid_backward,
    grid_sample_input_backward,
)
from adjoint.kernels.resampling.shuffles import channel_shuffle, pixel_shuffle, pixel_unshuffle

__all__ = [
    "channel_shuffle",
    "grid_sample",
    "grid_sample_grid_backward",
    "grid_sample_input_backward",
    "pixel_shuffle",
    "pixel_unshuffle",
    "resample",
    "resample_backward",
    "resampling_taps",
]

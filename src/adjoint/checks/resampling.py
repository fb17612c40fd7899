"""Resampling without data: sizes, numbers of taps, and the errors.

A tap is an element of the input that an element of the result is made of, with its weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, show
from adjoint.core.symbolic_sizes import is_for_many

TAPS = {"nearest": 1, "nearest-exact": 1, "linear": 2, "cubic": 4}  # along one dimension
WIDTHS = {"linear antialias": 2, "cubic antialias": 4, "lanczos antialias": 6}  # of the filters
CUBIC = -0.75  # the parameter of the cubic kernel in PyTorch
BILINEAR, NEAREST, BICUBIC = 0, 1, 2  # PyTorch's numbers of interpolation modes
INTERPOLATIONS = {"bilinear": BILINEAR, "nearest": NEAREST, "bicubic": BICUBIC}
ZEROS, BORDER, REFLECTION = 0, 1, 2  # and of padding modes
PADDINGS = {"zeros": ZEROS, "border": BORDER, "reflection": REFLECTION}
OUTSIDE = -100.0  # a coordinate whose taps all lie outside


def step(size: int, output_size: int, align_corners: bool, scale: float) -> float:
    """The distance in the input between neighbours of the result; a scale of 0 is none given."""
    if align_corners:
        return (size - 1) / (output_size - 1) if output_size > 1 else 0.0
    return 1 / scale if scale > 0 else size / output_size


def taps(size: int, output_size: int, mode: str, align_corners: bool, scale: float) -> int:
    """How many taps each element of the result has room for, along one dimension."""
    if mode in TAPS:
        return TAPS[mode]
    support = WIDTHS[mode] / 2 * max(step(size, output_size, align_corners, scale), 1.0)
    return math.ceil(support) * 2 + 1


def used_scale(
    size: int,
    output_size: int,
    mode: str,
    align_corners: bool,
    scale: float,
    dims: int,
    dtype: DType,
) -> float | None:
    """The scale that counts along one dimension, or None if the dimension stays as it is; where
    many sizes have one program, one that happens to stay is resampled, too.

    A scale that does not lead to the size exactly (5 elements times 1.1) still says how far apart
    the elements of the result lie; where PyTorch looks at the sizes alone, so do we.
    """
    same = size == output_size
    doubled = mode == "nearest" and dims == 2 and output_size == 2 * size
    copied = mode == "nearest" and dims == 2
    copied |= mode == "linear" or mode in WIDTHS or (mode == "cubic" and dtype.name == "uint8")
    if same and not scale and is_for_many():
        return 0.0
    if same and (copied or align_corners or not scale):
        return None
    return 0.0 if doubled else float(scale)


def taps_dtype(dtype: DType, mode: str, dims: int) -> DType:
    """The dtype for which taps are computed: PyTorch finds the nearest pixels of images, and of
    bytes, in float32.
    """
    if TAPS.get(mode) == 1 and (dims == 2 or not dtype.is_differentiable):
        return dtypes.float32
    return dtype


def repeats(size: int, output_size: int, mode: str, scale: float) -> int:
    """How often every element is repeated, if that is a power of two; else 0.

    Other factors are rounded, so that an element may come once more or less.
    """
    times = output_size // size
    whole = times > 1 and output_size == times * size
    exact = mode == "nearest" and whole and times & (times - 1) == 0
    return times if exact and scale in (0, times) else 0


def name_of(mode: str, dims: int) -> str:
    """PyTorch's name: "upsample_bilinear2d"."""
    kind, _, antialias = mode.partition(" ")
    if kind in ("nearest", "nearest-exact"):
        start = "_upsample_nearest_exact" if kind == "nearest-exact" else "upsample_nearest"
        return f"{start}{dims}d"
    prefix = ("", "bi", "tri")[dims - 1] if kind != "lanczos" else ""
    return f"{'_' * bool(antialias)}upsample_{prefix}{kind}{dims}d{'_aa' * bool(antialias)}"


def check_input(shape: Shape, output_size: Sequence[int], dtype: DType, mode: str) -> None:
    """Raise unless a batch of channels can get this size, in this way."""
    dims = len(output_size)
    if len(shape) != dims + 2:
        raise ShapeError(
            f"{name_of(mode, dims)}: needs an input of {dims + 2} dimensions, a batch of channels "
            f"of {dims} dimensions; got {show(shape)}."
        )
    if 0 in shape[1:] or min(output_size) <= 0:
        raise ShapeError(
            f"{name_of(mode, dims)}: sizes other than that of the batch must be greater than 0; "
            f"asked to bring {show(shape)} to the size {tuple(output_size)}."
        )
    if TAPS.get(mode) != 1 and not dtype.is_differentiable and (dtype.name, dims) != ("uint8", 2):
        raise DtypeError(
            f"{name_of(mode, dims)}: mixes neighbours, which needs a floating point input"
            f"{' or uint8' * (dims == 2)}; got {dtype}, convert it."
        )


def check_gradient(
    shape: Shape, output_size: Sequence[int], input_size: Sequence[int], dtype: DType, mode: str
) -> None:
    """Raise unless a gradient has the shape of the result for an input of `input_size`."""
    check_input(tuple(input_size), output_size, dtype, mode)
    wanted = (*input_size[:2], *output_size)
    if tuple(shape) != wanted:
        raise ShapeError(
            f"{name_of(mode, len(output_size))}_backward: grad_output must have {show(wanted)} for "
            f"an input of {show(tuple(input_size))}, got {show(shape)}."
        )


def output_size_of(
    what: str,
    shape: Shape,
    dims: int,
    output_size: Sequence[int] | None,
    scales: Sequence[float] | None,
) -> Shape:
    """The size of the result, of whichever of the two is given."""
    if (output_size is None) == (scales is None):
        raise ValueRangeError(
            f"{what}: give exactly one of output_size and scale_factors; got "
            f"output_size={output_size}, scale_factors={scales}."
        )
    given = output_size if scales is None else scales
    assert given is not None
    if len(given) != dims or len(shape) != dims + 2:
        kind = "output_size" if scales is None else "scale_factors"
        raise ShapeError(
            f"{what}: needs {dims} numbers for an input of {dims + 2} dimensions; got "
            f"{kind}={tuple(given)} for {show(shape)}."
        )
    if scales is None:
        return tuple(int(n) for n in given)
    return tuple(int(n * s) for n, s in zip(shape[2:], scales, strict=True))


# --- grids ---------------------------------------------------------------------------------------


def check_sampling(what: str, image: Shape, grid: Shape, grad: Shape | None = None) -> None:
    """Raise unless a grid holds places in images, and a gradient belongs to their samples."""
    dims = len(image) - 2
    fits = len(grid) == dims + 2 and grid[0] == image[0] and grid[-1] == dims
    if dims not in (2, 3) or not fits or 0 in image[2:]:
        raise ShapeError(
            f"{what}: needs images of 2 or 3 dimensions that are not empty, and a grid of as many "
            f"coordinates for each of them; got {show(image)} and {show(grid)}."
        )
    if grad is not None and tuple(grad) != (*image[:2], *grid[1:-1]):
        raise ShapeError(
            f"{what}: the gradient has shape {show(grad)}, and samples of {show(image)} at "
            f"{show(grid)} have {show((*image[:2], *grid[1:-1]))}."
        )


def check_grid(
    what: str, input: Any, grid: Any, dims: int, interpolation_mode: int, padding_mode: int
) -> None:
    """Raise unless the grid holds places of `dims` coordinates in the input."""
    if interpolation_mode not in INTERPOLATIONS.values():
        raise ValueRangeError(
            f"{what}: interpolation_mode={interpolation_mode}; there are {INTERPOLATIONS}."
        )
    if padding_mode not in PADDINGS.values():
        raise ValueRangeError(f"{what}: padding_mode={padding_mode}; there are {PADDINGS}.")
    if input.ndim != dims + 2 or grid.ndim != dims + 2:
        raise ShapeError(
            f"{what}: needs an input and a grid of {dims + 2} dimensions, got {show(input.shape)} "
            f"and {show(grid.shape)}."
        )
    if input.shape[0] != grid.shape[0]:
        raise ShapeError(
            f"{what}: input and grid must have one batch size, got {show(input.shape)} and "
            f"{show(grid.shape)}."
        )
    if grid.shape[-1] != dims:
        raise ShapeError(
            f"{what}: the last dimension of the grid holds {dims} coordinates, got "
            f"{show(grid.shape)}."
        )
    if 0 in input.shape[2:]:
        raise ShapeError(
            f"{what}: there is nothing to sample in an input of {show(input.shape)}; its sizes "
            "after batch and channels must be greater than 0."
        )
    if interpolation_mode == BICUBIC and dims != 2:
        raise ValueRangeError(
            f"{what}: bicubic interpolation is for inputs of 4 dimensions, got {show(input.shape)}."
        )
    if input.dtype != grid.dtype:
        raise DtypeError(
            f"{what}: input and grid must have one dtype, got {input.dtype} and {grid.dtype}; "
            "convert one of them."
        )
    check_floating(what, input.dtype)


def check_floating(what: str, *dtypes: DType) -> None:
    """Raise unless all dtypes are those of real numbers."""
    for dtype in dtypes:
        if not dtype.is_floating_point:
            raise DtypeError(f"{what}: needs floating point inputs, got {dtype}; convert them.")


def check_affine(what: str, theta_shape: Shape, size: Sequence[int]) -> None:
    """Raise unless theta holds affine maps of the plane or of space, one for each of a batch."""
    if len(size) not in (4, 5):
        raise ShapeError(
            f"{what}: size is (N, C, H, W) or (N, C, D, H, W), for maps of the plane or of space; "
            f"got {tuple(size)}."
        )
    if min(size) <= 0:
        raise ShapeError(f"{what}: sizes must be greater than 0, got {tuple(size)}.")
    dims = len(size) - 2
    if tuple(theta_shape) != (size[0], dims, dims + 1):
        raise ShapeError(
            f"{what}: size={tuple(size)} needs maps of {show((size[0], dims, dims + 1))}, got "
            f"{show(theta_shape)}."
        )


# --- shuffles: (sizes of the split dimensions, those that each dimension of the result is made of)

Moves = tuple[Shape, tuple[Shape, ...]]


def _image(what: str, shape: Shape, factor: int, name: str) -> None:
    if len(shape) < 3:
        raise ShapeError(f"{what}: needs (..., channels, height, width), got {show(shape)}.")
    if factor <= 0:
        raise ValueRangeError(f"{what}({name}={factor}): must be greater than 0.")


def _divisible(what: str, shape: Shape, dim: int, factor: int) -> None:
    if shape[dim] % factor:
        raise ShapeError(
            f"{what}: dimension {dim} of {show(shape)} must be a multiple of {factor}."
        )


def _leading(count: int) -> tuple[Shape, ...]:
    return tuple((d,) for d in range(count))


def pixel_shuffle(shape: Shape, factor: int) -> Moves:
    """(…, C r², H, W) to (…, C, H r, W r)."""
    _image("pixel_shuffle", shape, factor, "upscale_factor")
    _divisible("pixel_shuffle", shape, -3, factor**2)
    *front, channels, height, width = shape
    n = len(front)
    split = (*front, channels // factor**2, factor, factor, height, width)
    return split, (*_leading(n + 1), (n + 3, n + 1), (n + 4, n + 2))


def pixel_unshuffle(shape: Shape, factor: int) -> Moves:
    """(…, C, H r, W r) to (…, C r², H, W)."""
    _image("pixel_unshuffle", shape, factor, "downscale_factor")
    _divisible("pixel_unshuffle", shape, -2, factor)
    _divisible("pixel_unshuffle", shape, -1, factor)
    *front, channels, height, width = shape
    n = len(front)
    split = (*front, channels, height // factor, factor, width // factor, factor)
    return split, (*_leading(n), (n, n + 2, n + 4), (n + 1,), (n + 3,))


def channel_shuffle(shape: Shape, groups: int) -> Moves:
    """(N, g C, …) to (N, C g, …)."""
    if len(shape) < 3:
        raise ShapeError(f"channel_shuffle: needs (batch, channels, ...), got {show(shape)}.")
    if groups <= 0:
        raise ValueRangeError(f"channel_shuffle(groups={groups}): must be greater than 0.")
    _divisible("channel_shuffle", shape, 1, groups)
    split = (shape[0], groups, shape[1] // groups, *shape[2:])
    return split, ((0,), (2, 1), *((d,) for d in range(3, len(split))))


def shape_after(moves: Moves) -> Shape:
    """The shape of the result."""
    split, groups = moves
    return tuple(math.prod(split[d] for d in group) for group in groups)

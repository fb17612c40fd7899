"""Other sizes, and samples at places of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks.resampling import INTERPOLATIONS, PADDINGS
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, show
from adjoint.tensor.tensor import Tensor

# mode: the operator for 1, 2 and 3 dimensions after batch and channels, where there is one
OPERATORS = {
    "nearest": ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
    "nearest-exact": (
        "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
    ),
    "area": ("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"),
    "linear": ("upsample_linear1d", "", ""),
    "bilinear": ("", "upsample_bilinear2d", ""),
    "bicubic": ("", "upsample_bicubic2d", ""),
    "trilinear": ("", "", "upsample_trilinear3d"),
    "lanczos": ("", "", ""),
}  # fmt: skip
ANTIALIAS = {
    "bilinear": "_upsample_bilinear2d_aa",
    "bicubic": "_upsample_bicubic2d_aa",
    "lanczos": "_upsample_lanczos2d_aa",
}
WITHOUT_CORNERS = ("nearest", "nearest-exact", "area")


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Bring the dimensions after batch and channels to another size.

    `mode` is 'nearest', 'nearest-exact', 'area', 'linear' (one dimension), 'bilinear', 'bicubic',
    'lanczos' (two), or 'trilinear' (three). With `align_corners` the elements at the ends stay
    where they are. A `scale_factor` says how far apart the elements of the result lie, also where
    the size is rounded, unless `recompute_scale_factor` is true. `antialias` widens the filter
    where elements become fewer.

        >>> import adjoint as ad
        >>> x = ad.tensor([[[0.0, 1.0, 2.0]]])
        >>> ad.nn.functional.interpolate(x, size=5, mode="linear", align_corners=True)
        tensor([[[0.0000, 0.5000, 1.0000, 1.5000, 2.0000]]])
    """
    name = _operator(input, mode, align_corners, antialias)
    output_size, factors = _sizes(input, size, scale_factor)
    if recompute_scale_factor and factors is None:
        raise ValueRangeError(
            f"interpolate(size={size}, recompute_scale_factor=True): there is no factor to compute "
            "again; give scale_factor instead of size."
        )
    if factors is not None and (recompute_scale_factor or mode == "area"):
        output_size = tuple(int(n * f) for n, f in zip(input.shape[2:], factors, strict=True))
        factors = None
    operator = getattr(ops, name)
    if mode == "area":
        return operator(input, output_size)
    corners = () if mode in WITHOUT_CORNERS else (bool(align_corners),)
    return operator.vec(input, output_size, *corners, factors)


def _operator(input: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> str:
    """The name of the operator for a mode and the dimensions of an input."""
    if mode not in OPERATORS:
        raise ValueRangeError(
            f"interpolate(mode={mode!r}): there are {', '.join(map(repr, OPERATORS))}."
        )
    if mode in WITHOUT_CORNERS and align_corners is not None:
        raise ValueRangeError(
            f"interpolate(mode={mode!r}, align_corners={align_corners}): align_corners can only be "
            "set with linear, bilinear, bicubic and trilinear."
        )
    dims = input.ndim - 2
    if antialias and (mode not in ANTIALIAS or dims != 2):
        raise ValueRangeError(
            f"interpolate(mode={mode!r}, antialias=True) of {show(input.shape)}: antialias is for "
            "bilinear, bicubic and lanczos, and inputs of 4 dimensions."
        )
    if mode == "lanczos" and (align_corners or not antialias):
        raise ValueRangeError(
            "interpolate(mode='lanczos'): needs antialias, without align_corners."
        )
    name = ANTIALIAS[mode] if antialias else OPERATORS[mode][dims - 1] if 1 <= dims <= 3 else ""
    if not name:
        fitting = [n + 3 for n, found in enumerate(OPERATORS[mode]) if found] or [4]
        raise ShapeError(
            f"interpolate(mode={mode!r}): needs an input of {' or '.join(map(str, fitting))} "
            f"dimensions, batch and channels first; got {show(input.shape)}."
        )
    return name


def _sizes(
    input: Tensor, size: Any, scale_factor: Any
) -> tuple[Shape | None, tuple[float, ...] | None]:
    """(sizes, None) or (None, factors), one number for each dimension."""
    dims = input.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ValueRangeError(
            f"interpolate(size={size}, scale_factor={scale_factor}): give one of the two."
        )
    if size is None:
        factors = _each("scale_factor", scale_factor, input, dims)
        return None, tuple(float(f) for f in factors)
    sizes = _each("size", size, input, dims)
    if not all(hasattr(n, "__index__") for n in sizes):
        raise ArgumentError(f"interpolate(size={size}): sizes are whole numbers.")
    return tuple(n.__index__() for n in sizes), None


def _each(name: str, given: Any, input: Tensor, dims: int) -> Sequence[Any]:
    if not isinstance(given, (list, tuple)):
        return [given] * dims
    if len(given) != dims:
        raise ShapeError(
            f"interpolate({name}={given}): needs {dims} numbers, one for each dimension of "
            f"{show(input.shape)} after batch and channels."
        )
    return given


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Sample a batch of images, or of volumes, at the places of a grid.

    The last dimension of the grid holds x, y (and z), from -1 to 1: the outer edges of the elements
    at the ends, or with `align_corners` their centres. `mode` is 'bilinear', 'nearest' or 'bicubic'
    (images), `padding_mode` 'zeros', 'border' or 'reflection'.

        >>> import adjoint as ad
        >>> image = ad.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> centre = ad.zeros(1, 1, 1, 2)
        >>> ad.nn.functional.grid_sample(image, centre, align_corners=False)
        tensor([[[[2.5000]]]])
    """
    if mode not in INTERPOLATIONS:
        raise ValueRangeError(
            f"grid_sample(mode={mode!r}): there are {', '.join(map(repr, INTERPOLATIONS))}."
        )
    if padding_mode not in PADDINGS:
        raise ValueRangeError(
            f"grid_sample(padding_mode={padding_mode!r}): there are "
            f"{', '.join(map(repr, PADDINGS))}."
        )
    options = (INTERPOLATIONS[mode], PADDINGS[padding_mode], bool(align_corners))
    return ops.grid_sampler(input, grid, *options)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Make the grid to which affine maps take a regular one; for `grid_sample`.

    `theta` holds a map for each of the batch: (N, 2, 3) for a size (N, C, H, W), (N, 3, 4) for
    (N, C, D, H, W).

        >>> import adjoint as ad
        >>> identity = ad.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> ad.nn.functional.affine_grid(identity, (1, 1, 1, 2), align_corners=False)
        tensor([[[[-0.5000,  0.0000],
                  [ 0.5000,  0.0000]]]])
    """
    if not theta.is_floating_point():
        raise DtypeError(f"affine_grid: theta must be floating point, got {theta.dtype}.")
    return ops.affine_grid_generator(theta, tuple(size), bool(align_corners))

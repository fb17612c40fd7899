"""Convolutions on arrays: the kernels of rows, and the choice among implementations.

The three maps between `large`, `small` and `weight` (checks/convolution.py) are computed by oneDNN
where it is installed (onednn.py), else by native code where there is a C compiler
(c_kernels/convolution.py), else as products of matrices (windows.py). `computed_by` says which it
is, and `adjoint where convolution` prints it; the environment variables ADJOINT_ONEDNN=0 and
ADJOINT_NATIVE=0 turn the first two off.

`how` is stride, padding, dilation, transposed, output_padding and groups.

float16 and bfloat16 are computed in float32 and rounded once. The result of a convolution has its
channels last in memory if one of the arguments has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.c_kernels import convolution as native
from adjoint.checks import convolution as checks
from adjoint.checks.convolution import Geometry
from adjoint.core.dtypes import REDUCED
from adjoint.core.shapes import Shape
from adjoint.kernels import images
from adjoint.kernels.convolution import onednn, windows

Array = np.ndarray[Any, Any]


def convolution(  # written out: `*how` takes 2 % of the time of a small call
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    transposed: bool,
    output_padding: Shape,
    groups: int,
) -> Array:
    """Slide a window over the input, or with `transposed` the transpose of that map."""
    what = "convolution"
    found = checks.geometry(
        what, input.shape, weight.shape, stride, padding, dilation, transposed, output_padding,
        groups,
    )  # fmt: skip
    dtype = input.dtype
    if dtype != weight.dtype or (bias is not None and dtype != bias.dtype) or dtype.kind == "b":
        given = None if bias is None else bias.dtype
        checks.check_dtypes(what, input=dtype, weight=weight.dtype, bias=given)
    checks.check_bias(what, bias, found.result[1])
    channels_last = images.is_channels_last(input) or images.is_channels_last(weight)
    result = images.room(found.result, dtype, channels_last=channels_last)
    _compute("spread" if transposed else "convolve", (input, weight, bias), found, result)
    return result


def weight_backward(grad_output: Array, input: Array, weight_size: Shape, *how: Any) -> Array:
    """The gradient of a convolution's weight: products of elements that met in a window."""
    what = "convolution_backward"
    found = checks.of_weight(what, grad_output.shape, input.shape, weight_size, *how)
    dtype = input.dtype
    if dtype != grad_output.dtype or dtype.kind == "b":
        checks.check_dtypes(what, grad_output=grad_output.dtype, input=dtype)
    result = np.empty(found.weight, dtype)
    pair = (grad_output, input) if found.transposed else (input, grad_output)
    _compute("correlate", pair, found, result)
    return result


# -- who computes ----------------------------------------------------------------------------------


def computed_by() -> str:
    """The library that computes convolutions of float32 in this process: "oneDNN 3.2.0"."""
    library = onednn.library()
    if library is not None:
        return f"oneDNN {library.version}"
    return "native code" if native.is_there() else "products of matrices"


def _compute(name: str, arrays: Sequence[Array | None], sizes: Geometry, result: Array) -> None:
    """Write the result of one of the three maps: `convolve`, `spread` or `correlate`."""
    if getattr(onednn, name)(*arrays, sizes, result):
        return
    if result.dtype in REDUCED:
        wide = np.empty_like(result, dtype=np.float32)
        given = [None if a is None else a.astype(np.float32) for a in arrays]
        _compute(name, given, sizes, wide)
        with np.errstate(all="ignore"):  # numbers beyond float16 become infinite
            result[...] = wide
    elif _is_product(arrays, sizes) or not getattr(native, name)(*arrays, sizes, result):
        with np.errstate(all="ignore"):  # infinities and NaN are results
            getattr(windows, name)(*arrays, sizes, result)


def _is_product(arrays: Sequence[Array | None], sizes: Geometry) -> bool:
    """Whether products of matrices need no copies: windows of one element, in their order."""
    return sizes.pointwise and all(a is None or a.flags.c_contiguous for a in arrays)

"""Normal random numbers, two from each 64-bit word: r cos t and r sin t, where r² is exponentially
distributed and t a uniform angle. (G. E. P. Box and M. E. Muller, 1958.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.c_kernels.element_loops import ElementLoop

Array = np.ndarray[Any, Any]
LARGE = 1 << 14  # numbers from which this is quicker than drawing one at a time
_SIMD = "#pragma omp declare simd notinbranch\nextern float {}(float);\n"
_DECLARED = "extern float sqrtf(float);\n" + "".join(map(_SIMD.format, ("logf", "sinf", "cosf")))
_ANGLE = math.pi * 2.0**-31


def _loop(function: str) -> ElementLoop:
    radius = "sqrtf(-2 * logf(((float)(unsigned){k} + 0.5f) * 0x1p-32f))"
    text = f"{radius} * {function}f((float){{t}} * {_ANGLE!r}f)"
    return ElementLoop(text, {"k": "int32", "t": "int32"}, (), "float32", _DECLARED)


_PARTS = ((_loop("cos"), np.cos), (_loop("sin"), np.sin))


def normal(words: Array) -> Array:
    """Two normal float32 numbers for each 64-bit word: first all r cos t, then all r sin t.

    >>> normal(np.array([1 << 31], np.uint64)).round(4)
    array([1.1774, 0.    ], dtype=float32)
    """
    radii, angles = words.view(np.int32).reshape(-1, 2).T
    result = np.empty((2, words.size), np.float32)
    for out, (loop, function) in zip(result, _PARTS, strict=True):
        if words.size < LARGE // 2 or loop([radii, angles], out=out) is None:
            unit = (radii.view(np.uint32).astype(np.float32) + np.float32(0.5)) * np.float32(2**-32)
            turned = function(angles.astype(np.float32) * np.float32(_ANGLE))
            np.multiply(np.sqrt(np.float32(-2) * np.log(unit)), turned, out=out)
    return result.reshape(-1)

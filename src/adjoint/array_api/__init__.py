"""`adjoint.array_api`: the Python array API standard, version 2024.12.

The functions are rows of functions.txt, over the same operators as `ad` itself, so they
differentiate, batch, trace and compile. Arrays are tensors; numbers without a dtype become float64
and int64, as in NumPy. What libraries call is `x.__array_namespace__()`.

    >>> import adjoint as ad
    >>> x = ad.tensor([3.0, 4.0])
    >>> xp = x.__array_namespace__()
    >>> ad.grad(lambda x: xp.linalg.vector_norm(x))(x)
    tensor([0.6000, 0.8000])
"""

import math as _math

from adjoint._version import __version__
from adjoint.array_api import fft, linalg
from adjoint.core.dtypes import bool_ as bool
from adjoint.core.dtypes import (
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from adjoint.doors.array_api.adapters import result_type
from adjoint.doors.array_api.inspection import (
    __array_namespace_info__,
    can_cast,
    finfo,
    iinfo,
    isdtype,
)
from adjoint.doors.array_api.operators import standard_operators
from adjoint.doors.array_api.rows import functions as _functions
from adjoint.numpy import special  # where SciPy looks for what the standard has not: xp.special

e, inf, nan, newaxis, pi = _math.e, _math.inf, _math.nan, None, _math.pi
__array_api_version__ = "2024.12"

__getattr__, __dir__ = _functions(globals(), "")

"""NumPy's functions on tensors: `import adjoint.numpy as np` in place of autograd's or JAX's.

    >>> import adjoint as ad
    >>> import adjoint.numpy as np
    >>> def f(x):
    ...     return np.sum(np.sin(x) ** 2, axis=0)
    >>> ad.grad(f)(np.array([1.0, 2.0]))
    array([ 0.90929743, -0.7568025 ])

Names, keywords and dtypes are NumPy's: numbers are float64, whatever `ad.set_default_dtype` says,
and `float32 + int64` is float64. Results are tensors. Each name is a row of doors/numpy/names.txt;
the same rows answer when NumPy's own functions are called with tensors (protocol.py there).
"""

from __future__ import annotations

from typing import Any

import numpy as _numpy
from numpy import __version__ as __version__

from adjoint.absent import absent
from adjoint.core.dtypes import bfloat16
from adjoint.core.errors import MissingOperator
from adjoint.core.importing import imported
from adjoint.doors.numpy import reading
from adjoint.doors.numpy.ufuncs import Ufunc as ufunc  # noqa: N813 - NumPy spells it so
from adjoint.homes.arrays import ndarray as ndarray

_MODULES = ("fft", "linalg", "random", "special")
_BRACKETS = ("c_", "mgrid", "ogrid", "r_")
_OLD = {"bfloat16": bfloat16.np.type, "complex_": _numpy.complex128, "float_": _numpy.float64}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return imported(f"adjoint.numpy.{name}")
    if name in _BRACKETS:
        return getattr(imported("adjoint.doors.numpy.functions.grids"), name)
    if name in reading.TABLES[""]:
        found = reading.function("", name)
    elif name in _OLD:
        found = _OLD[name]
    else:
        raise _absent(name)
    globals()[name] = found
    return found


def _absent(name: str) -> AttributeError:
    """The error for a name that is not there."""
    if not hasattr(_numpy, name):
        return absent("adjoint.numpy", name, __dir__())
    return MissingOperator(
        f"adjoint.numpy has no {name!r}, since there is no operator for it; np.{name} of NumPy on "
        "x.detach().numpy() gives its value"
    )


def __dir__() -> list[str]:
    return sorted({*reading.TABLES[""], *_MODULES, *_BRACKETS, *_OLD, "ndarray", "ufunc"})

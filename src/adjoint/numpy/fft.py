"""NumPy's Fourier transforms on tensors, by the table of names.

>>> from adjoint.numpy import fft
>>> fft.rfft([1.0, 0.0, 0.0])
array([1.+0.j, 1.+0.j])
"""

from __future__ import annotations

from typing import Any

from adjoint.absent import absent
from adjoint.numpy import reading


def __getattr__(name: str) -> Any:
    if name not in reading.TABLES["fft"]:
        raise absent("adjoint.numpy.fft", name, __dir__())
    found = globals()[name] = reading.function("fft", name)
    return found


def __dir__() -> list[str]:
    return sorted(reading.TABLES["fft"])

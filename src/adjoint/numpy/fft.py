"""NumPy's Fourier transforms on tensors, by the table of names.

>>> from adjoint.numpy import fft
>>> fft.rfft([1.0, 0.0, 0.0])
tensor([1.+0.j, 1.+0.j], dtype=ad.complex128)
"""

from __future__ import annotations

from typing import Any

from adjoint.numpy import absent, reading


def __getattr__(name: str) -> Any:
    if name not in reading.TABLES["fft"]:
        raise absent("fft", name)
    found = globals()[name] = reading.function("fft", name)
    return found


def __dir__() -> list[str]:
    return sorted(reading.TABLES["fft"])

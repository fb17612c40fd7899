"""SciPy's special functions on tensors, by the table of names.

>>> from adjoint.numpy import special
>>> special.gammaln([3.0])
tensor([0.6931], dtype=ad.float64)
"""

from __future__ import annotations

from typing import Any

from adjoint.numpy import absent, reading


def __getattr__(name: str) -> Any:
    if name not in reading.TABLES["special"]:
        raise absent("special", name)
    found = globals()[name] = reading.function("special", name)
    return found


def __dir__() -> list[str]:
    return sorted(reading.TABLES["special"])

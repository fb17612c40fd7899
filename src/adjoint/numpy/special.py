"""SciPy's special functions on tensors, by the table of names.

>>> from adjoint.numpy import special
>>> special.gammaln([3.0])
array([0.69314718])
"""

from __future__ import annotations

from typing import Any

from adjoint.absent import absent
from adjoint.numpy import reading


def __getattr__(name: str) -> Any:
    if name not in reading.TABLES["special"]:
        raise absent("adjoint.numpy.special", name, __dir__())
    found = globals()[name] = reading.function("special", name)
    return found


def __dir__() -> list[str]:
    return sorted(reading.TABLES["special"])

"""SciPy's linear algebra on tensors, by the table of names.

>>> import adjoint as ad
>>> from adjoint.scipy import linalg
>>> ad.grad(lambda a: linalg.sqrtm(a).sum())(ad.tensor([[4.0, 0.0], [0.0, 9.0]]))
tensor([[0.2500, 0.2000],
        [0.2000, 0.1667]])
"""

from __future__ import annotations

from typing import Any

from adjoint.absent import absent
from adjoint.numpy import reading


def __getattr__(name: str) -> Any:
    if name not in reading.TABLES["scipy_linalg"]:
        raise absent("adjoint.scipy.linalg", name, __dir__())
    found = globals()[name] = reading.function("scipy_linalg", name)
    return found


def __dir__() -> list[str]:
    return sorted(reading.TABLES["scipy_linalg"])

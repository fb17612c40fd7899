"""NumPy's linear algebra on tensors, by the table of names.

>>> from adjoint.numpy import linalg
>>> linalg.norm([3.0, 4.0])
array(5.)
"""

from __future__ import annotations

from typing import Any

from adjoint.absent import absent
from adjoint.core.errors import LinAlgError as LinAlgError
from adjoint.numpy import reading


def __getattr__(name: str) -> Any:
    if name not in reading.TABLES["linalg"]:
        raise absent("adjoint.numpy.linalg", name, __dir__())
    found = globals()[name] = reading.function("linalg", name)
    return found


def __dir__() -> list[str]:
    return sorted(reading.TABLES["linalg"])

"""Modules of operators whose names start alike: `linalg.qr` is the operator `linalg_qr`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from adjoint.core.errors import MissingOperator, did_you_mean
from adjoint.ops.operator import exists, packet
from adjoint.table import TABLE


def namespace(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a module of operators: functions are found on first use.

    >>> find, names = namespace("adjoint.linalg")
    >>> find("qr").__name__, "qr" in names()
    ('linalg_qr', True)
    """
    prefix = f"{module.rpartition('.')[2]}_"

    def names() -> list[str]:
        # operators found before do not count: twins that write in place are not listed
        own = (n for n in vars(sys.modules[module]) if n[0] != "_" and not exists(prefix + n))
        operators = (n for n in TABLE.names() if n.startswith(prefix))
        return sorted({*own, *(n[len(prefix) :] for n in operators)} - {"annotations"})

    def find(name: str) -> Any:
        if name.startswith("__") or not exists(prefix + name):
            raise MissingOperator(f"{module} has no {name!r}{did_you_mean(name, names())}")
        function = packet(prefix + name).function
        setattr(sys.modules[module], name, function)
        return function

    return find, names

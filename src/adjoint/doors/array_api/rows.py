"""The functions of the standard, by the rows of functions.txt and the words of adapters.py."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

from adjoint.doors import door, read
from adjoint.doors.array_api import adapters

TABLE = os.path.join(os.path.dirname(__file__), "functions.txt")


def functions(
    module: dict[str, Any], section: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a module of the standard."""
    return door(module, TABLE, section, vars(adapters))


@cache
def function(name: str) -> Callable[..., Any]:
    """The standard's function of that name."""
    return read(TABLE)[""][name].function("adjoint.array_api", vars(adapters))

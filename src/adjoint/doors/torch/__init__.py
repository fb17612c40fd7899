"""The door of PyTorch's names: its tables, with an example of each row in examples/."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from adjoint.doors.rows import door, read


def all_of(
    module: dict[str, Any], table: str, words: Mapping[str, Any]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a module whose public names are the rows of a table."""
    path = os.path.join(os.path.dirname(__file__), table)
    find, _ = door(module, path, "", words)
    module["__all__"] = names = sorted(read(path)[""])
    return find, names.copy

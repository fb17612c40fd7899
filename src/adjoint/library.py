"""Tables of users' own: `ad.library("my_ops.yaml", kernels=module)` adds rows to the table.

Such rows get all that the built-in ones have: functions, methods, both modes of differentiation,
gradients of
gradients, in-place variants, shape rules and checks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adjoint.ops.operator import packet
from adjoint.table import TABLE
from adjoint.tensor import binding, saving


def library(path: str | Path, kernels: Any = None) -> list[Any]:
    """Add the rows of a YAML file; returns their operators.

    In the rows, `<file name>.<function>` means a function of the module (or any object) `kernels`,
    in the columns `kernel`, `shape` and `decompose` alike. All rows are parsed and checked at once,
    and a
    mistake raises `TableError` with `file:line` before anything is added.
    """
    file = Path(path)
    family = file.stem
    added = TABLE.add_file(file, family)
    if kernels is not None:
        binding.add_module(family, kernels)
    try:
        for source in added:
            row = TABLE.row(source.name, source.overload)
            saving.check_names(row, binding.known_names())
    except Exception:
        TABLE.remove(added)
        raise
    return [packet(name) for name in dict.fromkeys(s.name for s in added)]

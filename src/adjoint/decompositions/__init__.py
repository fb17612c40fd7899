"""Operators in terms of smaller operators, down to primitive rows, by family.

`table` maps 'name.overload' to the decomposition of each row that has one. It is set where the
layers are wired together (adjoint/__init__.py): rows are bound to functions in a higher layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

table: Mapping[str, Callable[..., Any]] = {}

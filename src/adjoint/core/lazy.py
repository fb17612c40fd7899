"""Modules of others that are loaded when an attribute of theirs is first read.

`x = Lazy("x")` at the head of a file; ours are `imported` (core/importing.py), one at a time.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


class Lazy:
    """Stands for a module that most processes do not need: `yaml = Lazy("yaml")`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: ModuleType | None = None

    def __getattr__(self, attribute: str) -> Any:
        if self._module is None:
            self._module = importlib.import_module(self._name)
        return getattr(self._module, attribute)

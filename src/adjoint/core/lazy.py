"""Modules that are loaded when something of theirs is first used."""

from __future__ import annotations

import importlib
from typing import Any


class Lazy:
    """Stands for a module that most processes do not need: `yaml = Lazy("yaml")`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(importlib.import_module(self._name), attribute)
        vars(self)[attribute] = found
        return found

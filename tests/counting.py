"""A measure of work that a busy machine does not change."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def function_calls(run: Callable[[], Any]) -> int:
    """How many Python functions a call enters."""
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count

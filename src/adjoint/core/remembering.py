"""Answers that are kept on the object that they are about.

A row or an operator lives as long as the process, and layers above it know things of it that it
does not. What an object knows of itself is a `functools.cached_property`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Owner = TypeVar("Owner")
Answer = TypeVar("Answer")


def remembered(function: Callable[[Owner], Answer]) -> Callable[[Owner], Answer]:
    """A function of one object, asked once for each; the answer is kept on the object."""
    name = f"{function.__module__}.{function.__qualname__}"

    @functools.wraps(function)
    def asked(owner: Any) -> Any:
        known = owner.__dict__
        if name in known:
            return known[name]
        found = known[name] = function(owner)
        return found

    return asked

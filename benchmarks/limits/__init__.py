"""Gradients written by hand in C, one pass and OpenMP: how fast it could be.

They are compiled with the compiler and the flags of `ad.compile`.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tools import Task

FOLDER = Path(__file__).parent


def load(name: str) -> Any:
    """Compile limits/<name>.c and load it."""
    from adjoint.toolchain import build

    return ctypes.CDLL(str(build.build((FOLDER / f"{name}.c").read_text(encoding="utf-8"))))


def task(function: Any, arguments: list[Any], results: list[Any]) -> Task:
    """Call a C function: ints are long, floats double, arrays addresses; it fills the results."""
    given = [_argument(a) for a in arguments]

    def gradient() -> Any:
        function(*given)
        return results

    gradient.keeps_alive = arguments  # type: ignore[attr-defined]
    return Task(gradient)


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_long(value) if isinstance(value, int) else ctypes.c_double(value)

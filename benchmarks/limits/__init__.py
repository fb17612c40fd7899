"""Gradients written by hand in C, one pass and OpenMP: how fast it could be.

They are compiled with the compiler and the flags of `ad.compile`.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent


def load(name: str) -> Any:
    """Compile limits/<name>.c and load it."""
    from adjoint.compiler.c import build

    return ctypes.CDLL(str(build.build((FOLDER / f"{name}.c").read_text(encoding="utf-8"))))


def address(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    """A contiguous array as an argument."""
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)

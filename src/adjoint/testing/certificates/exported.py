"""Exported C, built and called as a user would: the way "c" of certificates."""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.errors import AdjointError
from adjoint.toolchain import build

Array = np.ndarray[Any, Any]


def exported(tower: Callable[[Any], tuple[Any, ...]], size: int, dtype: Any) -> Any:
    """A function of arrays of `size` elements that runs the C of `tower`."""
    compiler = build.compiler()
    if compiler is None:
        raise AdjointError("there is no C compiler on this machine")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "subject.c")
        source, header = ad.export.c(tower, ad.tensor(np.ones(size, dtype)), path=path)
        built = path.with_suffix(".so")
        flags = ["-std=c99", "-O2", "-fPIC", "-shared", "-ffp-contract=off"]
        subprocess.run([*compiler, *flags, str(source), "-o", str(built), "-lm"], check=True)
        work = re.search(r"_WORK (\d+)", header.read_text())
        entry = ctypes.CDLL(str(built)).subject
    results = [np.asarray(y.numpy()).dtype for y in tower(ad.tensor(np.ones(1, dtype)))]
    memory = np.zeros(int(work[1]) + 64 if work else 64, np.uint8)

    def once(x: Array) -> list[Array]:
        outputs = [np.empty(size, kind) for kind in results]
        start = -memory.ctypes.data % 64
        pointers = [a.ctypes.data for a in (x, *outputs)] + [memory.ctypes.data + start]
        entry(*map(ctypes.c_void_p, pointers))
        return outputs

    def run(x: Array) -> list[Array]:
        blocks = np.resize(x, (-(-x.size // size), size))
        found = zip(*(once(np.ascontiguousarray(block)) for block in blocks))
        return [np.concatenate(parts)[: x.size] for parts in found]

    return run

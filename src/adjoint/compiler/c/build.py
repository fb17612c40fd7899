"""From C text to a function: finding a compiler, a cache on disk, loading.

Objects are named by a hash of everything that matters (source, compiler, flags, processor, our
version), written to a
temporary name and renamed, so that processes that build the same thing at once, or are killed,
leave the cache whole.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from adjoint._version import __version__
from adjoint.core.errors import AdjointError

FLAGS = (
    "-O3",
    "-march=native",
    "-std=gnu11",
    "-fPIC",
    "-shared",
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
    # a sine beside its cosine would become one call of sincos, which has no vector version
    "-fno-builtin-sin",
    "-fno-builtin-cos",
    "-fno-builtin-sinf",
    "-fno-builtin-cosf",
)


class BuildError(AdjointError, RuntimeError):
    """The C compiler refused generated code."""


@lru_cache(maxsize=1)
def compiler() -> str | None:
    """The C compiler of this machine: $CC, cc, gcc, clang; None if there is none."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and (found := shutil.which(name)):
            return found
    return None


@lru_cache(maxsize=1)
def _identity() -> str:
    """What the machine code depends on beside the source."""
    path = compiler()
    assert path is not None
    version = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=False
    ).stdout.split("\n")[0]
    features = ""
    if Path("/proc/cpuinfo").exists():
        features = next(
            (
                line
                for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("flags")
            ),
            "",
        )
    return "\n".join((version, platform.machine(), features, *FLAGS, __version__))


@lru_cache(maxsize=1)
def cache_directory() -> Path:
    """Where objects are kept: $ADJOINT_CACHE, or below the user's cache directory; a temporary one
    if that fails.
    """
    base = os.environ.get("ADJOINT_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or "~/.cache", "adjoint"
    )
    path = Path(base).expanduser()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path):
            pass
    except OSError as error:
        path = Path(tempfile.mkdtemp(prefix="adjoint-"))
        warnings.warn(
            f"the cache of compiled code cannot be written ({error}); using {path} for this "
            "process",
            stacklevel=2,
        )
    return path


@lru_cache(maxsize=1)
def data_offset() -> int:
    """Where in an array object the address of its data stands; found by looking, not assumed."""
    array = np.empty(3)
    wanted = array.ctypes.data
    for offset in range(8, 64, 8):
        if ctypes.c_void_p.from_address(id(array) + offset).value == wanted:
            return offset
    raise BuildError(
        "the layout of NumPy's arrays is not the one that compiled code knows; call without "
        "ad.compile"
    )


def build(source: str) -> Path:
    """Return the shared object of a C source, from the cache if it is there."""
    path = compiler()
    if path is None:
        raise BuildError("no C compiler was found; install gcc or clang, or set CC")
    name = hashlib.sha256(f"{_identity()}\n{source}".encode()).hexdigest()[:32]
    target = cache_directory() / f"{name}.so"
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(dir=cache_directory()) as folder:
        text = Path(folder) / "program.c"
        text.write_text(source)
        if os.environ.get("ADJOINT_DEBUG"):
            (cache_directory() / f"{name}.c").write_text(source)
        made = Path(folder) / "program.so"
        for libraries in (("-lmvec", "-lm"), ("-lm",)):
            command = [path, *FLAGS, str(text), "-o", str(made), *libraries]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if run.returncode == 0:
                os.replace(made, target)
                return target
    message = run.stderr.strip().splitlines()[:3]
    raise BuildError(
        "the C compiler refused code that adjoint wrote; this is a bug of adjoint. Set "
        "ADJOINT_DEBUG=1 to keep the source in "
        f"{cache_directory()}, and call the function without ad.compile meanwhile. It said: "
        f"{' / '.join(message)}"
    )


def load(source: str, name: str) -> Any:
    """Return the C function `name(void **)` of a source."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # waiting threads yield the core
    function = getattr(ctypes.CDLL(str(build(source))), name)
    function.argtypes = [ctypes.c_void_p]
    function.restype = None
    return function

"""From C text to functions: compiling, several sources (or units of one) at once, and loading.

Objects are named by a hash of everything that matters (source, compiler, flags, processor, our
version) and kept on disk (`cache`). No error of a compiler reaches the user without a sentence that
says what to do.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.core import cachedir, threads
from adjoint.core.lazy import Lazy
from adjoint.toolchain import cache
from adjoint.toolchain.cache import BuildError, cache_directory
from adjoint.toolchain.discovery import (
    OtherObject,
    Toolchain,
    compiler,
    extra_flags,
    open_library,
    toolchain,
)

futures = Lazy("concurrent.futures")

__all__ = [
    "BuildError",
    "build",
    "build_all",
    "cache_directory",
    "compiler",
    "data_offset",
    "is_built",
    "library",
    "load",
    "load_all",
]

# Note [Regions run on the team]: it is made of POSIX threads.
_OPENING = "#define WITH_TEAM\n" if os.name == "posix" else ""
_libraries: dict[str, ctypes.CDLL] = {}  # loaded by this process, by name


@lru_cache(maxsize=1)
def data_offset() -> int:
    """The offset of the data pointer in an array object; found by a search, not assumed."""
    array = np.empty(3)
    wanted = array.ctypes.data
    for offset in range(8, 64, 8):
        if ctypes.c_void_p.from_address(id(array) + offset).value == wanted:
            return offset
    raise BuildError(
        "the layout of NumPy's arrays is not the one that compiled code knows; call without "
        "ad.compile"
    )


def build(source: str) -> str:
    """Return the shared object of a C source, from the cache if it is there."""
    return _build(*_named(source))


def build_all(sources: Sequence[str]) -> list[str]:
    """The shared objects of several sources, compiled at the same time."""
    named = dict.fromkeys(_named(source) for source in sources)
    if len(named) < 2:
        return [build(source) for source in sources]
    with futures.ThreadPoolExecutor(min(len(named), os.cpu_count() or 1)) as pool:
        made = dict(zip(named, pool.map(lambda pair: _build(*pair), named), strict=True))
    return [made[_named(source)] for source in sources]


def load(source: str, name: str) -> Any:
    """Return the C function `name(void **)` of a source."""
    return load_all([(source, name)])[0]


def load_all(wanted: Sequence[tuple[str, str]]) -> list[Any]:
    """The C functions of pairs (source, name); sources are compiled at the same time."""
    sources = list(dict.fromkeys(source for source, _ in wanted))
    build_all([s for s in sources if _named(s)[0] not in _libraries])
    libraries = {source: library(source) for source in sources}
    return [_function(libraries[source], name) for source, name in wanted]


def _function(library: ctypes.CDLL, name: str) -> Any:
    function = getattr(library, name)
    function.argtypes = [ctypes.c_void_p]
    function.restype = None
    return function


def _toolchain() -> Toolchain:
    found = toolchain()
    if found is None:
        raise BuildError(
            "no C compiler was found; install gcc or clang, or `pip install ziglang`, or set CC"
        )
    return found


def _named(source: str) -> tuple[str, str]:
    """The name of a source's object, and the source as it is compiled on this machine."""
    return _named_with(source, _toolchain(), extra_flags())


@lru_cache(maxsize=16)
def _named_with(source: str, tools: Toolchain, more: tuple[str, ...]) -> tuple[str, str]:
    text = tools.adapt(source)
    key = "\n".join((tools.identity(), "marked", *more, text))
    return hashlib.sha256(key.encode()).hexdigest()[:32], text


def _build(name: str, source: str) -> str:
    """Find an object, or compile it: in the cache, or where that fails in the spare directory."""
    if (found := cache.find(name)) is not None:
        _keep_source(found, source)
        return found
    trouble: dict[str, str] = {}
    for directory in cache.directories():
        target = os.path.join(directory, f"{name}.so")
        _keep_source(target, source)
        try:
            with cachedir.scratch(directory) as folder:
                made, said = _toolchain().compile(
                    f'{_OPENING}{source}\nconst char {_mark(name)}[] = "";\n',
                    folder,
                    extra_flags(),
                    os.cpu_count() or 1,
                )
                if not said:
                    cache.keep(made, target)
        except OSError as error:
            said = str(error)
        if not said:
            for broken, reason in trouble.items():  # it was not the source's fault
                cache.give_up(broken, reason.splitlines()[0])
            return target
        trouble[directory] = said
    raise BuildError(_advice(name, trouble))


def _mark(name: str) -> str:
    """The name of a variable in an object that proves that it is the object of this name."""
    return f"ad_object_{name}"


def _keep_source(target: str, source: str) -> None:
    """With ADJOINT_DEBUG, write the source next to its object."""
    text = f"{target.removesuffix('.so')}.c"
    if cache.debugging() and not os.path.exists(text):
        cache.write(text, source)


def _advice(name: str, trouble: dict[str, str]) -> str:
    """Advice about code that the compiler refused, in every directory that was tried."""
    directory, said = list(trouble.items())[-1]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower()] or lines
    answer = f"It said: {' / '.join(line[:200] for line in telling[:3])}"
    if extra_flags():
        return (
            "the C compiler failed with the flags of ADJOINT_CFLAGS, "
            f"{os.environ['ADJOINT_CFLAGS']!r}; correct or unset it. {answer}"
        )
    if any(word in said for word in ("Killed", "No space", "out of memory")):
        return (
            "the C compiler was stopped for lack of memory or disk; free some, or call the "
            f"function without ad.compile. {answer}"
        )
    where = f"Set ADJOINT_DEBUG=1 to keep the source in {next(iter(trouble))}"
    if cache.debugging():
        path = os.path.join(directory, name)
        cache.write(f"{path}.log", said)
        where = f"The source is {path}.c, and all it said is in {name}.log beside it"
    return (
        "the C compiler refused code that adjoint wrote; this is a bug of adjoint. Call the "
        f"function without ad.compile meanwhile, and tell us. {where}. {answer}"
    )


def is_built(source: str) -> bool:
    """Whether the object of a source exists: loaded, or on disk."""
    name, _ = _named(source)
    return name in _libraries or cache.find(name) is not None


def library(source: str) -> ctypes.CDLL:
    """Load the object of a source. If the system refuses it, or it is intact but belongs to another
    name, build it again, then in another directory.
    """
    name, text = _named(source)
    if name in _libraries:
        return _libraries[name]
    refusal = ""
    for attempt in range(3):
        path = _build(name, text)
        try:
            found = open_library(path, _mark(name))
            threads.lend(found, _team)
            return _libraries.setdefault(name, found)
        except OtherObject as error:
            refusal = f"{path} {error}"
            _warn_of(path)
        except OSError as error:
            refusal = str(error)
        cachedir.discard(path)
        if attempt:
            cache.give_up(os.path.dirname(path), refusal)
    raise BuildError(
        "the system does not load compiled code (does it forbid programs in the temporary "
        f"directory?); set TMPDIR to another one, or call without ad.compile. It said: {refusal}"
    )


@lru_cache(maxsize=1)
def _team() -> int:
    """The address of the functions of the threads that share tasks in this process."""
    with open(os.path.join(os.path.dirname(__file__), "team.c"), encoding="utf-8") as file:
        made = library(file.read())
    return ctypes.addressof(ctypes.c_void_p.in_dll(made, "ad_this_team"))


def _warn_of(path: str) -> None:
    warnings.warn(
        f"{path}, in the cache of compiled code, was made of other code than its name says: it "
        "was put there by something else than adjoint, or by mistake. It is removed and built "
        "again; `adjoint native --clean` empties the cache",
        stacklevel=2,
    )

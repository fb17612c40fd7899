"""Where compiled objects are kept: a private directory that survives crashes and other processes.

An object is sealed with a checksum of itself, so a damaged one is found and built again. Where the
directory cannot be used, a temporary one of this process takes its place, and a warning says so.
Note [Whose files are read] in core/cachedir.py says why.
"""

from __future__ import annotations

import atexit
import os
import warnings
from collections.abc import Iterator
from functools import lru_cache

from adjoint.core import cachedir, threads
from adjoint.core.errors import AdjointError
from adjoint.core.lazy import Lazy

tempfile = Lazy("tempfile")

_ADVICE = "Make room, or set ADJOINT_CACHE to a directory of your own"


class BuildError(AdjointError, RuntimeError):
    """Generated code could not be compiled or loaded."""


_given_up: set[str] = set()  # directories that could not be written
_lock = threads.lock()


@lru_cache(maxsize=1)
def cache_directory() -> str:
    """The directory of objects: the one that the environment names, or a temporary one of this
    process if that cannot be made or trusted.
    """
    try:
        path = cachedir.resolved()
        cachedir.make(path)
        trusted = _is_trusted(path)
    except OSError as error:
        give_up(cachedir.wanted(), error)
        return spare_directory()
    return path if trusted else spare_directory()


def _is_trusted(path: str) -> bool:
    """Whether nobody else can put files into a directory; else give it up with advice."""
    trouble = cachedir.trouble(path)
    if trouble is not None:
        give_up(path, *trouble)
    return trouble is None


@lru_cache(maxsize=1)
def spare_directory() -> str:
    """A directory of this process alone, removed when it ends (kept with ADJOINT_DEBUG)."""
    try:
        path, process = tempfile.mkdtemp(prefix="adjoint-"), os.getpid()
    except OSError as error:
        raise BuildError(
            "compiled code can be written neither to its cache nor to the temporary directory "
            f"({error}); set ADJOINT_CACHE to a directory with room, or call without ad.compile"
        ) from error

    def remove() -> None:
        if os.getpid() == process and not debugging():
            cachedir.discard(path)

    atexit.register(remove)
    return path


def directories() -> Iterator[str]:
    """The directories for a new object, the best first."""
    best = cache_directory()
    if best not in _given_up:
        yield best
    if best != (spare := spare_directory()):
        yield spare


def give_up(directory: str, reason: object, advice: str = _ADVICE) -> None:
    """Stop using a directory, and warn once."""
    spare = spare_directory()
    with _lock:
        if directory in _given_up or directory == spare:
            return
        _given_up.add(directory)
    warnings.warn(
        f"the cache of compiled code {directory} cannot be used ({reason}); using "
        f"{spare} for this process. {advice}",
        stacklevel=2,
    )


def debugging() -> bool:
    """Whether $ADJOINT_DEBUG asks to keep sources."""
    return os.environ.get("ADJOINT_DEBUG", "") not in ("", "0")


def keep(made: str, target: str) -> str:
    """Seal a new object and move it to `target`, where other processes find it."""
    with open(made, "r+b") as file:
        content = cachedir.sealed(file.read())
        file.seek(0)
        file.write(content)
    cachedir.publish(made, target)
    return target


def find(name: str) -> str | None:
    """The object of a name, if it is ours and intact; any other is removed."""
    for directory in (cache_directory(), *([spare_directory()] if _given_up else [])):
        path = os.path.join(directory, f"{name}.so")
        content = read(path)
        if content is None:
            continue
        if cachedir.unsealed(content) is not None:
            return path
        cachedir.discard(path)
    return None


def read(path: str) -> bytes | None:
    """The content of a file of a cache, if nobody else can have put it there."""
    try:
        directory = os.path.dirname(path)
        if directory == cache_directory() and not _is_trusted(directory):
            return None
    except OSError:
        return None
    return cachedir.read(path)


def write(path: str, text: str) -> None:
    """Write a small file so that others see all or nothing; if that fails, there is no file."""
    cachedir.write(path, text.encode())

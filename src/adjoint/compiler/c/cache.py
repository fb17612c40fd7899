"""Where compiled objects are kept: a private directory that survives crashes and other processes.

An object is written under a temporary name, sealed with a checksum of itself, and renamed: others
see it whole or not at all, and one that was damaged later is built again. A directory that another
user could write is not used, since loading an object is running its code. Where the directory
cannot be used, a temporary one of this process takes its place, and a warning says so.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import threading
import time
import warnings
from collections.abc import Generator, Iterator
from functools import lru_cache
from pathlib import Path

from adjoint.core.errors import AdjointError

_SEAL = b"adjoint1"  # an object ends in its SHA-256 and this; loaders ignore what follows an object
_SCRATCH = "build-"  # folders of builds under way
_STALE = 3600.0  # seconds after which such a folder belongs to a process that was killed


class BuildError(AdjointError, RuntimeError):
    """Generated code could not be compiled or loaded."""


_given_up: set[Path] = set()  # directories that could not be written
_lock = threading.Lock()


@lru_cache(maxsize=1)
def cache_directory() -> Path:
    """Where objects are kept: $ADJOINT_CACHE, or below the user's cache directory; a temporary one
    of this process if that cannot be made or trusted.
    """
    base = os.environ.get("ADJOINT_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or "~/.cache", "adjoint"
    )
    try:
        path = Path(base).expanduser().absolute()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        reason = _distrust(path)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home directory
        path, reason = Path(base), str(error)
    if reason:
        give_up(path, reason)
        return spare_directory()
    return path


def _distrust(path: Path) -> str:
    """Why objects in a directory may not be ours; empty if they must be."""
    if not hasattr(os, "geteuid"):
        return ""
    status = path.stat()
    if status.st_uid not in (os.geteuid(), 0):
        return f"it belongs to another user, number {status.st_uid}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users can write it; run chmod 700 {path}"
    return ""


@lru_cache(maxsize=1)
def spare_directory() -> Path:
    """A directory of this process alone, removed when it ends (kept with ADJOINT_DEBUG)."""
    try:
        path, process = Path(tempfile.mkdtemp(prefix="adjoint-")), os.getpid()
    except OSError as error:
        raise BuildError(
            "compiled code can be written neither to its cache nor to the temporary directory "
            f"({error}); set ADJOINT_CACHE to a directory with room, or call without ad.compile"
        ) from error

    def remove() -> None:
        if os.getpid() == process and not debugging():
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return path


def directories() -> Iterator[Path]:
    """Where a new object may be put, the best first."""
    best = cache_directory()
    if best not in _given_up:
        yield best
    if best != (spare := spare_directory()):
        yield spare


def give_up(directory: Path, reason: object) -> None:
    """Write to a directory no more, and say so once."""
    spare = spare_directory()
    with _lock:
        if directory in _given_up or directory == spare:
            return
        _given_up.add(directory)
    warnings.warn(
        f"the cache of compiled code {directory} cannot be used ({reason}); using "
        f"{spare} for this process. Make room, or set ADJOINT_CACHE to a directory of "
        "your own",
        stacklevel=2,
    )


def debugging() -> bool:
    """Whether $ADJOINT_DEBUG asks to keep sources."""
    return os.environ.get("ADJOINT_DEBUG", "") not in ("", "0")


@contextlib.contextmanager
def scratch(directory: Path) -> Generator[Path]:
    """A folder for one build, on the disk where its object will be kept."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # somebody may have emptied the cache
    _sweep(directory)
    with tempfile.TemporaryDirectory(
        prefix=_SCRATCH, dir=directory, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


@lru_cache
def _sweep(directory: Path) -> None:
    """Remove the folders of builds that were killed, once for a process."""
    for folder in directory.glob(f"{_SCRATCH}*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_mtime < time.time() - _STALE:
                shutil.rmtree(folder, ignore_errors=True)


def keep(made: Path, target: Path) -> Path:
    """Seal a new object and put it where others find it."""
    with open(made, "rb+") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
        file.seek(0, os.SEEK_END)
        file.write(digest + _SEAL)
    os.chmod(made, 0o644)  # the compiler goes by the umask, and only we may change an object
    os.replace(made, target)
    return target


def find(name: str) -> Path | None:
    """The object of a name, if there is one that is whole; a damaged one is removed."""
    for directory in (cache_directory(), *([spare_directory()] if _given_up else [])):
        path = directory / f"{name}.so"
        try:
            content = path.read_bytes()
        except OSError:
            continue
        if content[-40:] == hashlib.sha256(content[:-40]).digest() + _SEAL:
            return path
        discard(path)
    return None


def discard(path: Path) -> None:
    """Remove an object that cannot be used."""
    with contextlib.suppress(OSError):
        path.unlink()


def write(path: Path, text: str) -> None:
    """Write a small file so that others see all of it or nothing; without success it is absent."""
    with contextlib.suppress(OSError), scratch(path.parent) as folder:
        (folder / path.name).write_text(text, encoding="utf-8")
        os.replace(folder / path.name, path)

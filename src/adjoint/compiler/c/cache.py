"""Where compiled objects are kept: a private directory that survives crashes and other processes.

An object is written under a temporary name, sealed with a checksum of itself, and renamed: others
see it whole or not at all, and one that was damaged later is built again. Where the directory
cannot be used, a temporary one of this process takes its place, and a warning says so.

Note [Whose objects are loaded]. Loading an object is running its code. So the directory, with links
resolved once, and every directory above it must be such that nobody but this user and root can put
anything there; then what was checked is what is loaded. That others could write it once is enough
to distrust what it holds, so a file in it is read only if it belongs to this user or root, nobody
else can write it, and it is neither a link nor a second name of some file.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import hashlib
import os
import shlex
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
_ADVICE = "Make room, or set ADJOINT_CACHE to a directory of your own"
# no link is followed, no pipe waited for
_PLAINLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
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
        path = Path(os.path.realpath(Path(base).expanduser()))
        _make(path)
        trusted = _is_trusted(path)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home directory
        give_up(Path(base), error)
        return spare_directory()
    return path if trusted else spare_directory()


def _make(path: Path) -> None:
    """Make a directory for this user alone, and what is missing above it."""
    for folder in (*reversed(path.parents), path):
        with contextlib.suppress(FileExistsError):
            if not folder.exists():
                folder.mkdir(mode=0o700)
    path.mkdir(mode=0o700, exist_ok=True)  # says why it cannot be made


def _is_trusted(path: Path) -> bool:
    """Whether nobody else can put files into a directory; if not, it is given up with advice."""
    if not hasattr(os, "geteuid"):
        return True
    if reason := _distrust(path.lstat(), may_be_shared=False):
        give_up(
            path,
            reason,
            f"Remove it (rm -r {shlex.quote(str(path))}), and it is made again for you alone; to "
            "change its permissions is not enough, since others may have put code into it",
        )
        return False
    for folder in path.parents:
        if reason := _distrust(folder.lstat(), may_be_shared=True):
            advice = "Set ADJOINT_CACHE to a directory in one that only you can write"
            give_up(path, f"{folder} above it: {reason}", advice)
            return False
    return True


def _distrust(status: os.stat_result, *, may_be_shared: bool) -> str:
    """Why a file or directory may have been changed by others; empty if it cannot have been.

    A directory above the cache may be shared if others cannot rename what is not theirs.
    """
    if status.st_uid not in (os.geteuid(), 0):
        return f"it belongs to another user, number {status.st_uid}"
    if may_be_shared and status.st_mode & stat.S_ISVTX:
        return ""
    if status.st_mode & stat.S_IWOTH:
        return "other users can write it"
    if status.st_mode & stat.S_IWGRP and not (may_be_shared and _is_private(status.st_gid)):
        return "other users can write it"
    return ""


@lru_cache
def _is_private(group: int) -> bool:
    """Whether a group is that of one user alone, as many systems have it: both of one name."""
    import grp  # not everywhere, like pwd
    import pwd

    try:
        found = grp.getgrgid(group)
        return found.gr_name == pwd.getpwuid(os.geteuid()).pw_name and not found.gr_mem
    except KeyError:
        return False


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


def give_up(directory: Path, reason: object, advice: str = _ADVICE) -> None:
    """Use a directory no more, and say so once."""
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


@contextlib.contextmanager
def scratch(directory: Path) -> Generator[Path]:
    """A folder for one build, on the disk where its object will be kept."""
    _make(directory)  # somebody may have removed the cache
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
            if folder.lstat().st_mtime < time.time() - _STALE:
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
    """The object of a name, if there is one that is ours and whole; another one is removed."""
    for directory in (cache_directory(), *([spare_directory()] if _given_up else [])):
        path = directory / f"{name}.so"
        content = read(path)
        if content is None:
            continue
        if content[-40:] == hashlib.sha256(content[:-40]).digest() + _SEAL:
            return path
        discard(path)
    return None


def read(path: Path) -> bytes | None:
    """What is in a file of a cache, if nobody else can have put it there; else it is removed.

    Note [Whose objects are loaded].
    """
    try:
        if path.parent == cache_directory() and not _is_trusted(path.parent):
            return None
        descriptor = os.open(path, os.O_RDONLY | _PLAINLY)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):  # a link
            discard(path)
        return None
    try:
        if _is_ours(os.fstat(descriptor)):
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
    finally:
        os.close(descriptor)
    discard(path)
    return None


def _is_ours(status: os.stat_result) -> bool:
    """Whether a file is a plain one, under this name alone, that nobody else can have written."""
    plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    return plain and not (hasattr(os, "geteuid") and _distrust(status, may_be_shared=False))


def discard(path: Path) -> None:
    """Remove what cannot be used."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def write(path: Path, text: str) -> None:
    """Write a small file so that others see all of it or nothing; without success it is absent."""
    with contextlib.suppress(OSError), scratch(path.parent) as folder:
        (folder / path.name).write_text(text, encoding="utf-8")
        os.chmod(folder / path.name, 0o644)
        os.replace(folder / path.name, path)

"""The directory of files that outlive a process: compiled objects, prepared rows.

A file is written under a temporary name and renamed, so that others see it whole or not at all;
important files end in a seal, so that damage shows. This module imports only what reading needs,
since every process loads it.

Note [Whose files are read]. Loading an object or a code object runs its code. So only this user and
root may be able to write to the directory, with links resolved once, and to every directory above
it; then the file that was checked is the file that is loaded. Others may have been able to write
there earlier, so a file is read only if it belongs to this user or root, nobody else can write it,
and it is neither a link nor a second name of some file.

Note [How much is kept]. The time of a file says when it was last used, to the hour. If all files
together exceed $ADJOINT_CACHE_SIZE (a number of bytes, "500M", "2G"; 1G if it is not set), the
least recently used files are removed. Each process that writes checks this when it first writes,
and whenever it has written another 1/64 of the limit.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import time
import warnings
from collections.abc import Generator
from functools import lru_cache

from adjoint.core.lazy import Lazy

shlex, shutil, tempfile = Lazy("shlex"), Lazy("shutil"), Lazy("tempfile")  # reading needs none

_SEAL = b"adjoint1"  # last bytes of a sealed file, after its SHA-256; object loaders ignore them
_SCRATCH = "build-"  # folders of files under way
_STALE = 3600.0  # seconds after which a scratch folder must belong to a killed process
_LIMIT = 1 << 30  # bytes of all files, unless $ADJOINT_CACHE_SIZE is set
_ROOM = 0.75  # share of the limit that is kept when files are removed
_FRESH = 60.0  # seconds during which a new file may not have been read yet
_TOUCHED = 3600.0  # seconds after which a use updates the file's time
_LOOKS = 64  # checks of the size while a process writes `limit()` bytes
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_KEPT = (".so", ".bin", ".txt", ".c", ".log")  # suffixes of our files
# follow no link, wait for no pipe
_PLAINLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def wanted() -> str:
    """The directory that the environment asks for: $ADJOINT_CACHE, or below the user's own."""
    base = os.environ.get("ADJOINT_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or "~/.cache", "adjoint"
    )
    return os.path.expanduser(base)


def resolved() -> str:
    """The wanted directory with links resolved; raise if there is no home directory."""
    path = wanted()
    if path.startswith("~"):
        raise OSError(errno.ENOENT, "there is no home directory", path)
    return os.path.realpath(path)


def make(path: str) -> None:
    """Make a directory for this user alone, with missing directories above it."""
    for folder in (*reversed(_above(path)), path):
        with contextlib.suppress(FileExistsError):
            if not os.path.exists(folder):
                os.mkdir(folder, mode=0o700)
    if not os.path.isdir(path):
        os.mkdir(path, mode=0o700)  # raises the reason


def _above(path: str) -> list[str]:
    """The directories above a path, the nearest first."""
    found: list[str] = []
    while (parent := os.path.dirname(path)) != path:
        found.append(parent)
        path = parent
    return found


def trouble(path: str) -> tuple[str, str] | None:
    """Why others may have put files into a directory, and what to do; None if they cannot have."""
    if not hasattr(os, "geteuid"):
        return None
    if reason := _distrust(os.lstat(path), may_be_shared=False):
        return (
            reason,
            f"Remove it (rm -r {shlex.quote(path)}), and it is made again for you alone; to "
            "change its permissions is not enough, since others may have put code into it",
        )
    for folder in _above(path):
        if reason := _distrust(os.lstat(folder), may_be_shared=True):
            advice = "Set ADJOINT_CACHE to a directory in one that only you can write"
            return f"{folder} above it: {reason}", advice
    return None


def _distrust(status: os.stat_result, *, may_be_shared: bool) -> str:
    """Why a file or directory may have been changed by others; empty if it cannot have been.

    A directory above the cache may be shared if others cannot rename files that are not theirs.
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
    """Whether a group belongs to this user alone: it has the user's name, as on many systems."""
    import grp  # not on every system, like pwd
    import pwd

    try:
        found = grp.getgrgid(group)
        return found.gr_name == pwd.getpwuid(os.geteuid()).pw_name and not found.gr_mem
    except KeyError:
        return False


def read(path: str) -> bytes | None:
    """The content of a file in a trusted directory, if nobody else can have put it there; else the
    file is removed. Note [Whose files are read].
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | _PLAINLY)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):  # a link
            discard(path)
        return None
    try:
        status = os.fstat(descriptor)
        if _is_ours(status):
            if time.time() - status.st_mtime > _TOUCHED:
                with contextlib.suppress(OSError):  # it is used: Note [How much is kept]
                    os.utime(path)
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


def sealed(content: bytes) -> bytes:
    """The content followed by its seal, by which damage shows."""
    return content + hashlib.sha256(content).digest() + _SEAL


def unsealed(content: bytes) -> bytes | None:
    """Sealed content without its seal; None if it is damaged."""
    body = content[: -len(_SEAL) - 32]
    return body if content == sealed(body) else None


def discard(path: str) -> None:
    """Remove a file or folder that cannot be used."""
    with contextlib.suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def write(path: str, content: bytes) -> None:
    """Write a file so that others see all of it or nothing; if that fails, there is no file."""
    directory, name = os.path.split(path)
    with contextlib.suppress(OSError), scratch(directory) as folder:
        made = os.path.join(folder, name)
        with open(made, "wb") as file:
            file.write(content)
        publish(made, path)


def publish(made: str, path: str) -> None:
    """Move a finished file to its path, where other processes find it."""
    os.chmod(made, 0o644)  # not by the umask: only we may change it
    size = os.stat(made).st_size
    os.replace(made, path)
    count_written(os.path.dirname(path), size)


def limit() -> int:
    """The most bytes that all files may have: $ADJOINT_CACHE_SIZE. Note [How much is kept]."""
    return _bytes(os.environ.get("ADJOINT_CACHE_SIZE", ""))


@lru_cache
def _bytes(given: str) -> int:
    text = given.strip().upper().removesuffix("B")
    unit = text[-1:] if text[-1:] in _UNITS else ""
    try:
        return int(float(text.removesuffix(unit)) * _UNITS[unit]) if text else _LIMIT
    except (ValueError, OverflowError):
        warnings.warn(
            f"ADJOINT_CACHE_SIZE is {given!r}, and is not used: it is a number of bytes, as 500M "
            "or 2G",
            stacklevel=2,
        )
        return _LIMIT


def files(directory: str) -> list[tuple[float, int, str]]:
    """(time of last use, bytes, path) of each of our files."""
    found: list[tuple[float, int, str]] = []
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(_KEPT):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    found.append((status.st_mtime, status.st_size, entry.path))
    return found


def shrink(directory: str, most: int, *, fresh: float = _FRESH) -> int:
    """Remove the least recently used files if there are more bytes than `most`, but none of the
    last `fresh` seconds; return how many bytes were removed.
    """
    found = files(directory)
    size = sum(n for _, n, _ in found)
    wanted = size - _ROOM * most if size > most else 0
    removed = 0
    for used, size, path in sorted(found):
        if removed >= wanted or time.time() - used < fresh:
            break
        discard(path)
        removed += size
    return removed


_written: dict[str, int] = {}  # bytes since the last check, by directory


def count_written(directory: str, size: int) -> None:
    """Count a written file, and from time to time remove old files."""
    _written[directory] = _written.get(directory, 0) + size
    if _written[directory] > limit() / _LOOKS:
        _written[directory] = 0
        shrink(directory, limit())


@contextlib.contextmanager
def scratch(directory: str) -> Generator[str]:
    """A temporary folder for unfinished files, on the disk where they will be kept."""
    make(directory)  # in case somebody has removed the cache
    sweep(directory)
    with tempfile.TemporaryDirectory(
        prefix=_SCRATCH, dir=directory, ignore_cleanup_errors=True
    ) as folder:
        yield folder


@lru_cache
def sweep(directory: str) -> None:
    """Remove the folders of killed processes, and files above the limit; once in a process."""
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(_SCRATCH):
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mtime < time.time() - _STALE:
                        discard(entry.path)
    shrink(directory, limit())

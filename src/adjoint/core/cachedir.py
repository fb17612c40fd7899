"""The directory of files that outlive a process: compiled objects, prepared rows.

A file is written under a temporary name and renamed, so that others see it whole or not at all; one
that matters ends in a seal, so that damage shows. Loading is kept light, since every process does
it: nothing is imported here that reading does not need.

Note [Whose files are read]. Loading an object or a code object is running its code. So the
directory, with links resolved once, and every directory above it must be such that nobody but this
user and root can put anything there; then the file that was checked is the file that is loaded.
Others may have been able to write there once, so a file is read only if it belongs to this user or
root, nobody else can write it, and it is neither a link nor a second name of some file.

Note [How much is kept]. The time of a file says when it was last used, to the hour. Where all files
are more than $ADJOINT_CACHE_SIZE (a number of bytes, "500M", "2G"; 1G if it is not set), those that
were not used for longest are removed; each process that writes looks when it writes first, and
whenever it has written a part of that.
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

shlex, shutil, tempfile = Lazy("shlex"), Lazy("shutil"), Lazy("tempfile")  # none of them to read

_SEAL = b"adjoint1"  # ends a sealed file, after its SHA-256; loaders of objects ignore what follows
_SCRATCH = "build-"  # folders of files under way
_STALE = 3600.0  # seconds after which such a folder belongs to a process that was killed
_LIMIT = 1 << 30  # bytes of all files, unless $ADJOINT_CACHE_SIZE says another number
_ROOM = 0.75  # of these bytes are kept when there are more
_FRESH = 60.0  # seconds in which a file may have been written and not yet been read
_TOUCHED = 3600.0  # seconds after which the use of a file is written down again
_LOOKS = 64  # times a process looks while it writes as much as may be kept
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_KEPT = (".so", ".bin", ".txt", ".c", ".log")  # endings of the files that are ours
# no link is followed, no pipe waited for
_PLAINLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def wanted() -> str:
    """The directory that the environment asks for: $ADJOINT_CACHE, or below the user's own."""
    base = os.environ.get("ADJOINT_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or "~/.cache", "adjoint"
    )
    return os.path.expanduser(base)


def resolved() -> str:
    """The same directory with links resolved; without a home, an error."""
    path = wanted()
    if path.startswith("~"):
        raise OSError(errno.ENOENT, "there is no home directory", path)
    return os.path.realpath(path)


def make(path: str) -> None:
    """Make a directory for this user alone, and what is missing above it."""
    for folder in (*reversed(_above(path)), path):
        with contextlib.suppress(FileExistsError):
            if not os.path.exists(folder):
                os.mkdir(folder, mode=0o700)
    if not os.path.isdir(path):
        os.mkdir(path, mode=0o700)  # says why it cannot be made


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
    """The content with its seal behind it, by which damage shows."""
    return content + hashlib.sha256(content).digest() + _SEAL


def unsealed(content: bytes) -> bytes | None:
    """Sealed content without its seal; None if it is damaged."""
    body = content[: -len(_SEAL) - 32]
    return body if content == sealed(body) else None


def discard(path: str) -> None:
    """Remove what cannot be used."""
    with contextlib.suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def write(path: str, content: bytes) -> None:
    """Write a file so that others see all of it or nothing; without success it is absent."""
    directory, name = os.path.split(path)
    with contextlib.suppress(OSError), scratch(directory) as folder:
        made = os.path.join(folder, name)
        with open(made, "wb") as file:
            file.write(content)
        publish(made, path)


def publish(made: str, path: str) -> None:
    """Put a finished file where others find it."""
    os.chmod(made, 0o644)  # not by the umask: only we may change it
    size = os.stat(made).st_size
    os.replace(made, path)
    wrote(os.path.dirname(path), size)


def limit() -> int:
    """How many bytes all files may have: $ADJOINT_CACHE_SIZE. Note [How much is kept]."""
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
    """When each file of ours was last used, its bytes, its path."""
    found: list[tuple[float, int, str]] = []
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(_KEPT):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    found.append((status.st_mtime, status.st_size, entry.path))
    return found


def shrink(directory: str, most: int, *, fresh: float = _FRESH) -> int:
    """Remove the files that were not used for longest where there are more bytes than `most`, but
    for those of the last seconds; return how many bytes went.
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


_written: dict[str, int] = {}  # bytes since the last look, by directory


def wrote(directory: str, size: int) -> None:
    """Note that a file was written, and see now and then that there is room for it."""
    _written[directory] = _written.get(directory, 0) + size
    if _written[directory] > limit() / _LOOKS:
        _written[directory] = 0
        shrink(directory, limit())


@contextlib.contextmanager
def scratch(directory: str) -> Generator[str]:
    """A folder for files under way, on the disk where they will be kept."""
    make(directory)  # somebody may have removed the cache
    sweep(directory)
    with tempfile.TemporaryDirectory(
        prefix=_SCRATCH, dir=directory, ignore_cleanup_errors=True
    ) as folder:
        yield folder


@lru_cache
def sweep(directory: str) -> None:
    """Remove the folders of processes that were killed, and what is too much; once a process."""
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(_SCRATCH):
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mtime < time.time() - _STALE:
                        discard(entry.path)
    shrink(directory, limit())

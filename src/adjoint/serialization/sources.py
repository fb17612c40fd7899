"""Where bytes of a file come from: a path, a file object, a map of a file in memory.

Formats ask a `Source` for pieces by their place and length. A piece outside the file is refused
before anything is allocated, so no number in a file can ask for more memory than the file has.
"""

from __future__ import annotations

import io
import mmap
import os
from typing import Any

import numpy as np

from adjoint.core.errors import ArgumentError, FileError

Array = np.ndarray[Any, Any]


class NotAFile(ArgumentError, AttributeError):
    """What can neither be read from nor written to. Also an AttributeError, as in PyTorch."""


class Source:
    """The bytes of a seekable file from `start` on."""

    is_mapped = False  # whether pieces are read only when they are touched

    def __init__(self, file: Any, name: str, start: int = 0) -> None:
        self.file = file
        self.name = name  # for messages: "model.pt"
        self.start = start
        self.size = file.seek(0, os.SEEK_END) - start
        self.end = self.size  # where a reader stopped, for those who read several files in one

    def check(self, offset: int, count: int) -> None:
        """Raise if a piece lies outside the file."""
        if offset < 0 or count < 0 or offset + count > self.size:
            raise FileError(
                f"{self.name}: the file is truncated or damaged: {count} bytes at {offset} are "
                f"asked for, and it has {self.size}"
            )

    def read(self, offset: int, count: int) -> bytes:
        """Return a piece."""
        return self.array(offset, count).tobytes()

    def array(self, offset: int, count: int) -> Array:
        """Return a piece as an array of bytes, which may be written to."""
        self.check(offset, count)
        made = np.empty(count, np.uint8)
        self.file.seek(self.start + offset)
        _fill(self.file, made.data, self.name)
        return made

    def close(self) -> None:
        """Leave the file where the reader stopped."""
        self.file.seek(self.start + self.end)


class _OwnFile(Source):
    """A file that was opened here."""

    def close(self) -> None:
        self.file.close()


class _Map(_OwnFile):
    """A file in memory, whose pieces are read when they are touched; writes stay in memory."""

    is_mapped = True

    def __init__(self, file: Any, name: str) -> None:
        super().__init__(file, name)
        empty = self.size == 0  # which cannot be mapped
        self.map: Any = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)

    def array(self, offset: int, count: int) -> Array:
        self.check(offset, count)
        return np.frombuffer(self.map, np.uint8, count, offset)

    def read(self, offset: int, count: int) -> bytes:
        self.check(offset, count)
        return bytes(self.map[offset : offset + count])


def _fill(file: Any, view: memoryview, name: str) -> None:
    """Read until the memory is full: a file may give less at once."""
    into = getattr(file, "readinto", None)
    while len(view):
        if into is not None:
            count = into(view)
        else:
            piece = file.read(len(view))
            count = len(piece)
            view[:count] = piece
        if not count:
            raise FileError(f"{name}: the file ended while it was read")
        view = view[count:]


def is_path(file: Any) -> bool:
    """Whether a user named a file, and did not open it."""
    return isinstance(file, (str, os.PathLike))


def opened(what: str, file: Any, *, mapped: bool) -> Source:
    """Return the source for a path or a file object, from its position on."""
    if is_path(file):
        name = os.fspath(file)
        handle = open(name, "rb", buffering=0)  # noqa: SIM115 - the source closes it
        try:
            return _Map(handle, str(name)) if mapped else _OwnFile(handle, str(name))
        except BaseException:
            handle.close()
            raise
    if mapped:
        raise ArgumentError(f"{what}(mmap=True): needs a path, got a {type(file).__name__}")
    if not hasattr(file, "read"):
        raise NotAFile(
            f"{what}: needs a path or a file opened in binary mode, got a {type(file).__name__}"
        )
    if isinstance(file, io.TextIOBase):
        raise ArgumentError(f"{what}: the file is opened as text; open it with mode 'rb'")
    name = str(getattr(file, "name", f"<{type(file).__name__}>"))
    if not (hasattr(file, "seek") and hasattr(file, "tell")):
        return Source(io.BytesIO(file.read()), name)
    try:
        start = file.tell()
    except (OSError, io.UnsupportedOperation):  # a pipe
        return Source(io.BytesIO(file.read()), name)
    return Source(file, name, start)

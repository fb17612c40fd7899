"""Prepared rows and functions: one process computes them, later ones read them from disk.

A row read from YAML, and the code of its functions, do not change while the files of the package do
not. So they are kept in one file of the cache directory (core/cachedir.py), together with a stamp:
the texts of the table, the sizes and times of the modules that read rows and write functions, and
the versions of Python and NumPy. If the stamp differs, the file is damaged, or others can write the
directory, everything is computed again, silently, since only time is lost.

The stamp is taken before those modules are loaded, and taken again before anything is kept: a file
that is edited meanwhile makes neither a wrong stamp nor a wrong function.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import itertools
import marshal
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core import cachedir

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# folders of the modules that read rows and write functions
_WRITERS = ("core", "table", "ops", "tensor", "tape", "homes", "calls")
_MOST = 2 * 2**20  # largest file, in bytes: a quick start must not read much


def _modules() -> list[tuple[str, int, int]]:
    """The modules that read rows and write functions: name, size and time."""
    found: list[tuple[str, int, int]] = []
    for folder in _WRITERS:
        with os.scandir(os.path.join(_PACKAGE, folder)) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    found.append((f"{folder}/{entry.name}", status.st_size, status.st_mtime_ns))
    return sorted(found)


class Prepared:
    """The entries of earlier processes, and new ones of this process.

    The file starts with the length of its head; the head holds the stamp and the place of each
    entry. Head and entries are sealed one by one, so unused entries cost nothing.
    """

    def __init__(self) -> None:
        self._modules = _modules()
        self._texts = hashlib.sha256()  # of the table
        self._known: dict[str, memoryview] | None = None  # sealed entries; None until first used
        self._added: dict[str, Any] = {}
        self._process = os.getpid()

    def depend_on(self, text: str) -> None:
        """Add the text of a file to the stamp."""
        self._texts.update(text.encode())

    def recall(self, key: str) -> Any:
        """The value kept under a key; None if there is none, or it is damaged."""
        if self._known is None:
            self._known = self._read()
        found = self._known.get(key)
        body = None if found is None else cachedir.unsealed(bytes(found))
        return None if body is None else marshal.loads(body)

    def keep(self, key: str, value: Any) -> None:
        """Keep a value that `marshal` can write for later processes."""
        if not self._added:
            atexit.register(self.write)
        self._added[key] = value

    def once(self, key: str, work: Callable[[], Any]) -> Any:
        """The result of `work()`, or the one an earlier process kept; nothing is kept under ''."""
        found = self.recall(key) if key else None
        if found is None:
            found = work()
            if key:
                self.keep(key, found)
        return found

    def _stamp(self) -> str:
        """A text that changes whenever prepared entries may change."""
        versions = (sys.version, sys.flags.optimize, np.__version__, _PACKAGE)
        return repr((versions, self._modules, self._texts.hexdigest()))

    def _path(self) -> str:
        """The file of this package and this Python, in a directory that only we can write."""
        directory = cachedir.resolved()
        if (trouble := cachedir.trouble(directory)) is not None:
            raise PermissionError(trouble[0])
        place = hashlib.sha256(_PACKAGE.encode()).hexdigest()[:16]
        return os.path.join(directory, f"prepared-{sys.implementation.cache_tag}-{place}.bin")

    def _read(self) -> dict[str, memoryview]:
        """The sealed entries on disk, if they have this stamp."""
        try:
            content = memoryview(cachedir.read(self._path()) or b"")
            start = 8 + int.from_bytes(content[:8], "little")
            head = cachedir.unsealed(bytes(content[8:start]))
            stamp, lengths = ("", {}) if head is None else marshal.loads(head)
        except (OSError, EOFError, ValueError, TypeError):  # intact, from another version
            return {}
        if stamp != self._stamp():
            return {}
        ends = itertools.accumulate(lengths.values(), initial=start)
        return {
            k: content[a:b] for k, (a, b) in zip(lengths, itertools.pairwise(ends), strict=True)
        }

    def write(self) -> None:
        """Add the entries of this process to the file; called when the process ends."""
        if os.getpid() != self._process or _modules() != self._modules:
            return  # a forked child, or modules have been edited since
        added = {k: cachedir.sealed(marshal.dumps(v)) for k, v in self._added.items()}
        entries: dict[str, bytes | memoryview] = {}
        size = 0
        for key, entry in {**added, **self._read(), **added}.items():  # new ones come first
            size += len(key) + len(entry)
            if size <= _MOST:
                entries[key] = entry
        lengths = {key: len(value) for key, value in entries.items()}
        head = cachedir.sealed(marshal.dumps((self._stamp(), lengths)))
        with contextlib.suppress(OSError):
            cachedir.make(cachedir.resolved())
            content = b"".join((len(head).to_bytes(8, "little"), head, *entries.values()))
            cachedir.write(self._path(), content)


PREPARED = Prepared()

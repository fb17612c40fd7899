"""Prepared rows and functions: what one process worked out, kept for the next.

A row read from YAML, and the code of its functions, are the same as long as the files of the
package are. So what was worked out is kept in one file of the cache directory (core/cachedir.py),
together with its stamp: the texts of the table, the sizes and times of the modules that read rows
and write functions, and the versions of Python and NumPy. Another stamp, damage, or a directory
that others can write, and everything is worked out again; nobody is told, since only time is lost.

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
_WRITERS = ("core", "table", "ops", "tensor")  # folders of the modules that read and write
_MOST = 2 * 2**20  # bytes that are kept: a quick start must not read what it does not need


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
    """What is known from earlier processes, and what this one adds.

    The file starts with the length of its head; the head holds the stamp and the place of each
    entry. Head and entries are sealed one by one, so that what nobody asks for costs nothing.
    """

    def __init__(self) -> None:
        self._modules = _modules()
        self._texts = hashlib.sha256()  # of the table
        self._known: dict[str, memoryview] | None = None  # sealed; None before anybody asked
        self._added: dict[str, Any] = {}
        self._process = os.getpid()

    def depend_on(self, text: str) -> None:
        """Count the text of a file among what everything prepared depends on."""
        self._texts.update(text.encode())

    def recall(self, key: str) -> Any:
        """What was kept under a key; None if nothing was, or it is damaged."""
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
        """What `work` gives, from an earlier process if one kept it; nothing is kept under ''."""
        found = self.recall(key) if key else None
        if found is None:
            found = work()
            if key:
                self.keep(key, found)
        return found

    def _stamp(self) -> str:
        """A text that is the same exactly if all that is prepared is."""
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
        """The sealed entries on disk, if they are of this stamp."""
        try:
            content = memoryview(cachedir.read(self._path()) or b"")
            start = 8 + int.from_bytes(content[:8], "little")
            head = cachedir.unsealed(bytes(content[8:start]))
            stamp, lengths = ("", {}) if head is None else marshal.loads(head)
        except (OSError, EOFError, ValueError, TypeError):  # whole, and of another adjoint
            return {}
        if stamp != self._stamp():
            return {}
        ends = itertools.accumulate(lengths.values(), initial=start)
        return {
            k: content[a:b] for k, (a, b) in zip(lengths, itertools.pairwise(ends), strict=True)
        }

    def write(self) -> None:
        """Put what this process added beside what is there; called when it ends."""
        if os.getpid() != self._process or _modules() != self._modules:
            return  # a child after a fork, or the modules have been edited meanwhile
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

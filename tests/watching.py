"""What code does to the system, and whether it ends: for texts that come from outside."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import adjoint as ad
from adjoint.table.prepared import PREPARED

PREPARED.recall("anything")  # reads what earlier processes prepared, before anybody watches

# What reading a text, and importing a module of ours or of NumPy's for the first time, may do.
_ALLOWED = (
    "import", "compile", "exec", "marshal.loads", "object.__", "sys._getframe", "code.__new__",
    "builtins.id", "pathlib.Path.glob", "signal.", "tempfile.", "gc.",
)  # fmt: skip
_ON_PATHS = ("open", "os.scandir", "os.listdir", "glob.glob", "glob.glob/2")
# Python looks for the file "<unknown>" to show the line of a syntax error.
_HARMLESS = ("<unknown>", str(Path(ad.__file__).parent), sys.prefix, sys.base_prefix)

_seen: list[str] | None = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is None:
        return
    if event in _ON_PATHS:
        path = str(arguments[0])
        importing = event == "os.listdir" and path in (*sys.path, os.getcwd())
        if not importing and not path.startswith(_HARMLESS):
            _seen.append(f"{event} {path}")
    elif not event.startswith(_ALLOWED):
        _seen.append(event)


sys.addaudithook(_audit)  # stays for the process, and does nothing outside `watched`


@contextmanager
def watched() -> Generator[list[str]]:
    """The events of this block that reading a text does not need; opening a file is one."""
    global _seen
    before, _seen = _seen, []
    try:
        yield _seen
    finally:
        _seen = before


class TooLong(BaseException):
    """A block did not end in time."""


@contextmanager
def limited(seconds: float) -> Generator[None]:
    """Raise `TooLong` in a block of the main thread that takes longer."""

    def stop(*_: Any) -> None:
        raise TooLong(f"more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

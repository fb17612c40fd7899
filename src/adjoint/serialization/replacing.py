"""Files that are replaced as a whole: what was there stays until its successor is complete."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Any


def replace_file(path: Any, write: Callable[[Any], None]) -> None:
    """Let `write` write a file, and put it in the place of `path` when that is done."""
    target = os.path.realpath(path)
    if os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode):
        with open(target, "wb") as file:  # a device or a pipe, which cannot be replaced
            write(file)
        return
    temporary = f"{os.fsdecode(target)}.{os.getpid()}.{os.urandom(4).hex()}.part"
    try:
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise

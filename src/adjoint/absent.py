"""Names that PyTorch has and adjoint has not: what to use instead, from `advice.txt`."""

from __future__ import annotations

import fnmatch
import functools
import os
from collections.abc import Iterable

from adjoint.core.errors import did_you_mean


@functools.lru_cache(maxsize=1)
def advice() -> dict[str, str]:
    """The table of names and advice; read when somebody asks for what is not there."""
    with open(os.path.join(os.path.dirname(__file__), "advice.txt"), encoding="utf-8") as file:
        lines = [line for line in map(str.strip, file) if line and not line.startswith("#")]
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): said.strip() for names, _, said in pairs for name in names.split(",")}


def absent(where: str, name: str, known: Iterable[str] = ()) -> AttributeError:
    """The error for a name that is not there: `adjoint.jit`, asked for as ("adjoint", "jit").

    >>> str(absent("adjoint", "jit"))
    "adjoint has no 'jit': ad.compile makes native code of a function, ad.trace its graph, ..."
    """
    error = Absent(where, name)
    error.name, error.known = name, known
    return error


class Absent(AttributeError):
    """A name that is not there. Advice and near names are looked for when somebody reads the
    message: `hasattr` does not.
    """

    known: Iterable[str] = ()

    def __str__(self) -> str:
        where, name = self.args
        path = f"{where}.{name}".partition(".")[2]
        said = next((s for n, s in advice().items() if fnmatch.fnmatchcase(path, n)), None)
        end = f": {said}" if said else did_you_mean(name, self.known)
        return f"{where} has no {name!r}{end}"

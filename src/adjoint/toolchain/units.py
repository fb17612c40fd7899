"""A long source as several translation units, which compilers work on at the same time.

The functions of nests and of steps are spread over the units, about equally many lines in each.
Every unit begins with the declarations of the source, and the last one has the functions that call
the others. `static` functions become hidden symbols of the shared object instead.
"""

from __future__ import annotations

import re

LONG = 1500  # lines from which a source is worth cutting
_LEAST = 500  # least lines of a unit
_NAMED = r"(?:void|int) (?:APART )?(?:nest|sweep|added|part)\w+\("
_NEST = re.compile(rf"^(?:/\*.*\*/\n)*static ({_NAMED}[^{{]*\)) \{{", re.MULTILINE)
_REST = re.compile(r"^void segment\d+\(", re.MULTILINE)
_HIDDEN = '__attribute__((visibility("hidden"), noinline)) '


def split(source: str, most: int) -> list[str]:
    """A source cut into at most `most` units; the source itself if it is short."""
    lines = source.count("\n")
    nests = list(_NEST.finditer(source))
    rest = _REST.search(source)
    count = min(most, lines // _LEAST, len(nests))
    if lines <= LONG or count < 2 or rest is None or nests[-1].start() > rest.start():
        return [source]
    head = source[: nests[0].start()]
    head += "".join(f"{_HIDDEN}{nest[1]};\n" for nest in nests)
    ends = [*(nest.start() for nest in nests[1:]), rest.start()]
    functions = [source[n.start() : end] for n, end in zip(nests, ends, strict=True)]
    shares: list[list[str]] = [[] for _ in range(count)]
    shares[-1].append(source[rest.start() :])
    for function in sorted(functions, key=len, reverse=True):
        min(shares, key=lambda share: sum(map(len, share))).append(_visible(function))
    return ["".join([head, *reversed(share)]) for share in shares]


def _visible(function: str) -> str:
    return re.sub(rf"^static (?={_NAMED})", "", function, count=1, flags=re.MULTILINE)

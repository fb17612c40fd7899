"""Functions with loops and branches that compiled programs call, in double and in whole numbers.

Their text is in `special/*.c`: functions and tables, separated by empty lines. A program gets the
ones that it needs. The text is C99, OpenCL C and CUDA C++ at the same time: there is no recursion,
every target says what stands before a function or a table, `i64` and `u64` are whole numbers of 64
bits, `inf()` and `nan()` are numbers. Their mathematics is explained at their NumPy kernels, in
`kernels/special`.
"""

from __future__ import annotations

import glob
import os
import re
from functools import cache

MOST = 12  # the highest order of a derivative in compiled code, whose arrays have fixed sizes
_NAME = re.compile(r"^(?:inline )?(?:const double|double|int|void|i64) (ad_\w+)", re.MULTILINE)
_NAMED = re.compile(r"\bad_\w+|\b\w+(?=\()")
_STATIC = "static __attribute__((noinline)) "
_INLINE = "static inline __attribute__((always_inline)) "  # of functions that begin with `inline`


@cache
def called() -> dict[str, str]:
    """The text of each function and of each table, by its name."""
    found: dict[str, str] = {}
    for path in sorted(glob.glob(os.path.join(os.path.dirname(__file__), "special", "*.c"))):
        with open(path, encoding="ascii") as file:
            text = file.read().replace("ad_MOST", str(MOST))
        for part in text.split("\n\n"):
            if (name := _NAME.search(part)) is not None:
                if name[1] in found:
                    raise AssertionError(f"{path}: there is another {name[1]}")
                found[name[1]] = part[name.start() :].rstrip()
    return found


def named_in(text: str) -> list[str]:
    """The functions that a text calls, and the tables that it reads."""
    return list(dict.fromkeys(_NAMED.findall(text.partition("{")[2])))


def head(text: str) -> str:
    """The declaration of a function, which may be called before its definition; a table itself."""
    return f"static {text}" if _is_table(text) else f"{_opened(text).partition(' {')[0]};"


def definition(text: str) -> list[str]:
    """The definition of a function; nothing for a table, whose declaration has its numbers."""
    return [] if _is_table(text) else [_opened(text)]


def _opened(text: str) -> str:
    """The text of a function with its compiler attributes."""
    plain = text.removeprefix("inline ")
    return (_STATIC if plain is text else _INLINE) + plain


def _is_table(text: str) -> bool:
    return text.startswith("const ")

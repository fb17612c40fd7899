"""Python and C text that names what users gave: values, keys, files.

Such text is run, by us or by who prints a graph. So it never holds what an object says of itself
(`repr` of a subclass of str may be anything): plain values are written as their plain class writes
them, nothing else is written at all, and words in docstrings and comments cannot end these.
"""

from __future__ import annotations

from typing import Any

_PLAIN: tuple[Any, ...] = (bool, int, float, complex, str, bytes, type(None))


def literal(value: Any) -> str | None:
    """A plain value as Python text, whatever a subclass makes of it; None for other values.

    >>> import enum
    >>> class Colour(str, enum.Enum):
    ...     RED = "red"
    >>> literal(Colour.RED), literal(2.0), literal(object())
    ("'red'", '2.0', None)
    """
    for kind in _PLAIN:
        if isinstance(value, kind):
            return str(kind.__repr__(value))
    return None


def in_docstring(text: str) -> str:
    '''Text as it stands between three quotes.

    >>> print(in_docstring('a"""b'))
    a\\"\\"\\"b
    '''
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return escaped[:-1] + '\\"' if escaped.endswith('"') else escaped


def in_comment(text: str) -> str:
    """Text that stays on its line of Python, and inside a comment of C.

    >>> in_comment("model*/.py\\n")
    'model*_.py_'
    """
    shown = "".join([c if c.isprintable() else "_" for c in text])
    return shown.replace("*/", "*_").replace("/*", "_*")

"""Python and C text made from users' values, keys and file names.

Such text is run, by us or by the user who prints a graph. So it never contains an object's own
`repr` (that of a subclass of str may be anything): plain values are written as their plain class
writes them, other values are not written at all, and words in docstrings and comments cannot end
these.
"""

from __future__ import annotations

from typing import Any

_PLAIN: tuple[Any, ...] = (bool, int, float, complex, str, bytes, type(None))


def literal(value: Any) -> str | None:
    """A plain value as Python text, ignoring a subclass's own `repr`; None for other values.

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
    """Text made safe for a Python comment (one line) and for a C comment.

    >>> in_comment("model*/.py\\n")
    'model*_.py_'
    """
    shown = "".join([c if c.isprintable() else "_" for c in text])
    return shown.replace("*/", "*_").replace("/*", "_*")

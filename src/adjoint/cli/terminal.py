"""Colours on a terminal, and none in a file or a pipe.

`NO_COLOR` in the environment, or `--color never`, turns them off everywhere, `--color always` on.
"""

from __future__ import annotations

import io
import keyword
import os
import sys
import tokenize

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "cyan": "36",
}
WHEN = ("auto", "always", "never")


class _Colours:
    """Whether text is coloured; set once by the command."""

    on = False


def choose(when: str = "auto") -> None:
    """Decide whether output has colours: on a terminal, unless something forbids it."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    _Colours.on = when == "always" or (when == "auto" and sys.stdout.isatty() and not plain)


def paint(text: str, colour: str) -> str:
    """The text in a colour, if there are colours.

    >>> paint("holds", "green")
    'holds'
    """
    return f"\033[{_CODES[colour]}m{text}\033[0m" if _Colours.on and text else text


def python(text: str) -> str:
    """Python text with its keywords, numbers, strings and comments in colours."""
    if not _Colours.on:
        return text
    lines = text.splitlines(keepends=True)
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(text).readline))):
        colour = _colour(token)
        (row, start), (end_row, end) = token.start, token.end
        if colour and row == end_row:
            line = lines[row - 1]
            lines[row - 1] = line[:start] + paint(line[start:end], colour) + line[end:]
    return "".join(lines)


def _colour(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME:
        return "blue" if keyword.iskeyword(token.string) else ""
    kinds = {tokenize.COMMENT: "dim", tokenize.NUMBER: "cyan", tokenize.STRING: "green"}
    return kinds.get(token.type, "")

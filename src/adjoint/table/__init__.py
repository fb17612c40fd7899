"""The table of derivatives: `<family>.yaml` files, and the registry that finds rows in them.

Files are indexed by a scan for `- name:` lines, and a row is parsed when it is first asked for, so
that importing the package costs milliseconds. Users' own tables are read as a whole by
`adjoint/library.py`, ours by `tests/table/test_table.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

# The stamp of prepared code is taken before the modules that it depends on are loaded.
# isort: off
from adjoint.table.prepared import PREPARED

# isort: on
from adjoint.core.errors import MissingOperator, TableError, did_you_mean
from adjoint.table import formula as language
from adjoint.table.reading import Mistakes, Source, load
from adjoint.table.rows import Row, prepare, restore, written_over

_NAME = re.compile(r"- name:[ \t]*[\"']?(\w+)(?:\.(\w+))?\(", re.ASCII)
_MOST_ROWS = 2000  # of a file
_LONGEST = 2**20  # bytes of a file; our longest has 60,000
_SELF = r"\([^,=]* self\b"


class Table:
    """All rows, by name and overload. Refuses duplicates."""

    def __init__(self) -> None:
        self._sources: dict[str, dict[str, Source]] = {}
        self._rows: dict[tuple[str, str], Row] = {}

    def add_file(self, path: str, family: str, text: str, module: Any = None) -> list[Source]:
        """Index the rows of a file; nothing is parsed yet. `module` holds a user's kernels."""
        mistakes = Mistakes()
        added: dict[tuple[str, str], Source] = {}
        for line, block in _blocks(text):
            match = _NAME.match(block)
            if match is None:
                if wrong := _not_a_row(path, line, block):
                    mistakes.found.append(wrong)
            else:
                name, overload = match.groups("")
                source = Source(family, path, line, block, name, overload, module)
                for each in (source, _written_over(source)):
                    if each is not None:
                        mistakes.found += self._index(each, added)
            if mistakes.enough:
                break
        mistakes.told()
        if not added:
            raise TableError(f"{path}:1: there are no rows; one starts with '- name: schema(...)'")
        for source in added.values():
            self._sources.setdefault(source.name, {})[source.overload] = source
        return list(added.values())

    def _index(self, source: Source, added: dict[tuple[str, str], Source]) -> Iterator[str]:
        """Add a row to `added`; yield a message if that is not allowed."""
        key = name, overload = source.name, source.overload
        known = added.get(key) or self._sources.get(name, {}).get(overload)
        if known is not None:
            named = ".".join(filter(None, key))
            yield f"{source.where}:9: {named} is already at {known.where}"
        elif len(added) == _MOST_ROWS:
            yield f"{source.where}: a file has at most {_MOST_ROWS} rows; split it"
        added.setdefault(key, source)

    def remove(self, sources: list[Source]) -> None:
        """Remove rows again, after their file turned out to be wrong."""
        for source in sources:
            self._sources[source.name].pop(source.overload, None)
            self._rows.pop((source.name, source.overload), None)
            if not self._sources[source.name]:
                del self._sources[source.name]

    def forget(self, name: str) -> None:
        """Remove an operator with all its overloads."""
        self.remove(list(self._sources[name].values()))

    def __len__(self) -> int:
        """The number of operators, overloads not counted."""
        return len(self._sources)

    def __contains__(self, name: str) -> bool:
        return name in self._sources

    def names(self) -> list[str]:
        """The names of all operators, without overloads, in the order of the files."""
        return list(self._sources)

    def methods(self) -> list[str]:
        """The names of operators that take `self` first; nothing is parsed for it."""
        return [
            name
            for name, overloads in self._sources.items()
            if any(
                re.search(_SELF, source.text.partition("\n")[0]) for source in overloads.values()
            )
        ]

    def overloads(self, name: str) -> list[str]:
        """The overloads of `name`; the unnamed one is ''."""
        try:
            return list(self._sources[name])
        except KeyError:
            hint = did_you_mean(name, self._sources)
            raise MissingOperator(f"there is no operator {name!r}{hint}") from None

    def row(self, name: str, overload: str = "") -> Row:
        """Return the row of `name.overload`, parsed on first use."""
        overload = "" if overload == "default" else overload
        key = (name, overload)
        row = self._rows.get(key)
        if row is None:
            overloads = self.overloads(name)
            if overload not in overloads:
                raise MissingOperator(
                    f"{name} has no overload {overload or 'default'!r}; "
                    f"it has {', '.join(o or 'default' for o in overloads)}"
                )
            source = self._sources[name][overload]
            row = written_over(self.row(name[:-1], overload)) if source.writes else _row(source)
            self._rows[key] = row
        return row

    def family(self, name: str) -> str:
        """The family of an operator, without parsing its rows."""
        return next(iter(self._sources[name].values())).family

    def rows(self) -> Iterator[Row]:
        """All rows, parsed."""
        for name, overloads in list(self._sources.items()):
            for overload in list(overloads):
                yield self.row(name, overload)


def _written_over(source: Source) -> Source | None:
    """The source of `_foreach_sin_`, derived from that of `_foreach_sin`; None if there is none."""
    text = source.text
    if "\n  like: foreach\n" not in text or "Tensor[] self" not in text:
        return None
    if "\n  inplace: false\n" in text.lower():
        return None
    return source._replace(name=f"{source.name}_", writes=True)


def _row(source: Source) -> Row:
    """The row of a source; one of ours is parsed once, and prepared for later processes."""
    if source.family not in FAMILIES:
        return load(source)
    name = f"{source.name}.{source.overload}"
    content = PREPARED.recall(f"row {name}")
    row = load(source) if content is None else restore(content)
    if content is None:
        PREPARED.keep(f"row {name}", prepare(row))
    vars(row)["prepared_as"] = name
    return row


def read(path: str) -> str:
    """The text of a table file; a plain file of reasonable length."""
    try:
        plain = os.path.isfile(path)
        content = b""
        if plain:
            with open(path, "rb") as file:
                content = file.read(_LONGEST + 1)
    except (OSError, ValueError) as error:
        raise TableError(f"{path}: cannot be read: {error}") from None
    if not plain:
        raise TableError(f"{path}: there is no such file")
    if len(content) > _LONGEST:
        raise TableError(f"{path}: a table file has at most {_LONGEST} bytes; split it")
    try:
        return content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise TableError(f"{path}:{line}: not UTF-8 text: {error.reason}") from None


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """(first line, text) of each row of a file; text before the first row comes as a row, too."""
    line, start = 1, 0
    while start < len(text):
        end = text.find("\n- ", start) + 1 or len(text)
        yield line, text[start:end]
        line += text.count("\n", start, end)
        start = end


def _not_a_row(path: str, line: int, block: str) -> str:
    """The message for a block that does not start like a row; "" for blank lines and comments."""
    for number, text in enumerate(block.split("\n"), line):
        if text.strip() and not text.lstrip().startswith("#"):
            return f"{path}:{number}:1: a row starts with '- name: schema(...)', got {text[:80]!r}"
    return ""


def modules_in(layer: str) -> frozenset[str]:
    """The modules and packages of a layer; found by their files, nothing is imported."""
    names = (n.removesuffix(".py") for n in os.listdir(os.path.join(_FOLDER, "..", layer)))
    return frozenset(n for n in names if n.isidentifier() and not n.startswith("_"))


TABLE = Table()
_FOLDER = os.path.dirname(__file__)
FAMILIES = tuple(  # of our own rows
    name.removesuffix(".yaml") for name in sorted(os.listdir(_FOLDER)) if name.endswith(".yaml")
)
for _family in FAMILIES:
    _path = os.path.join(_FOLDER, f"{_family}.yaml")
    _text = read(_path)
    PREPARED.depend_on(_text)
    TABLE.add_file(_path, _family, _text)
language.MODULES |= modules_in("formulas")

"""The table of derivatives: `<family>.yaml` files, and the registry that finds rows in them.

Files are indexed by a scan for `- name:` lines, and a row is parsed when it is first asked for, so
that importing the package costs milliseconds. Users' own tables are read as a whole by
`adjoint/library.py`, ours by `tests/test_table.py`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from adjoint.core.errors import MissingOperator, TableError, did_you_mean
from adjoint.table import formula as language
from adjoint.table.formula import Location
from adjoint.table.rows import Mistakes, Row, Source, load

_NAME = re.compile(r"- name:[ \t]*[\"']?(\w+)(?:\.(\w+))?\(", re.ASCII)
_START = re.compile(r"^- ", re.M)
_MOST_ROWS = 2000  # of a file
_LONGEST = 2**20  # bytes of a file; our longest has 60,000
_SELF = re.compile(r"[(,]\s*\S+ self\b")


class Table:
    """All rows, by name and overload. Refuses duplicates."""

    def __init__(self) -> None:
        self._sources: dict[str, dict[str, Source]] = {}
        self._rows: dict[tuple[str, str], Row] = {}

    def add_file(self, path: Path, family: str, module: Any = None) -> list[Source]:
        """Index the rows of a file; nothing is parsed yet. `module` holds a user's kernels."""
        mistakes = Mistakes()
        added: dict[tuple[str, str], Source] = {}
        for line, block in _blocks(read(path)):
            where = Location(str(path), line)
            with mistakes.gathered():
                source = _source(family, where, block, module)
                if source is None:
                    continue
                key = (source.name, source.overload)
                known = added.get(key) or self._sources.get(key[0], {}).get(key[1])
                if known is not None:
                    named = ".".join(filter(None, key))
                    raise TableError(f"{where}:9: {named} is already at {known.where}")
                if len(added) == _MOST_ROWS:
                    raise TableError(f"{where}: a file has at most {_MOST_ROWS} rows; split it")
                added[key] = source
            if mistakes.enough:
                break
        mistakes.told()
        if not added:
            raise TableError(f"{path}:1: there are no rows; one starts with '- name: schema(...)'")
        for source in added.values():
            self._sources.setdefault(source.name, {})[source.overload] = source
        return list(added.values())

    def remove(self, sources: list[Source]) -> None:
        """Take rows out again, after a file turned out to be wrong."""
        for source in sources:
            self._sources[source.name].pop(source.overload, None)
            self._rows.pop((source.name, source.overload), None)
            if not self._sources[source.name]:
                del self._sources[source.name]

    def forget(self, name: str) -> None:
        """Take an operator out with all its overloads."""
        self.remove(list(self._sources[name].values()))

    def __len__(self) -> int:
        """How many operators there are, overloads not counted."""
        return len(self._sources)

    def __contains__(self, name: str) -> bool:
        return name in self._sources

    def names(self) -> list[str]:
        """The names of all operators, without overloads, in the order of the files."""
        return list(self._sources)

    def methods(self) -> list[str]:
        """The names of operators with an argument `self`; nothing is parsed for it."""
        return [
            name
            for name, overloads in self._sources.items()
            if any(_SELF.search(source.text.partition("\n")[0]) for source in overloads.values())
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
            row = self._rows[key] = load(self._sources[name][overload])
        return row

    def family(self, name: str) -> str:
        """The family of an operator, without parsing its rows."""
        return next(iter(self._sources[name].values())).family

    def rows(self) -> Iterator[Row]:
        """All rows, parsed."""
        for name, overloads in list(self._sources.items()):
            for overload in list(overloads):
                yield self.row(name, overload)


def read(path: Path) -> str:
    """The text of a table file; a plain file of reasonable length."""
    try:
        plain = path.is_file()
        content = b""
        if plain:
            with path.open("rb") as file:
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
    """The rows of a file and their first lines; what stands before the first is a row, too."""
    line = 1
    starts = (m.start() for m in _START.finditer(text))
    for start, end in itertools.pairwise((0, *starts, len(text))):
        yield line, text[start:end]
        line += text.count("\n", start, end)


def _source(family: str, where: Location, block: str, module: Any) -> Source | None:
    """A row before it is parsed; None for blank lines and comments."""
    match = _NAME.match(block)
    if match is not None:
        return Source(family, where, block, match[1], match[2] or "", module)
    for number, line in enumerate(block.split("\n")):
        if line.strip() and not line.lstrip().startswith("#"):
            raise TableError(
                f"{where.path}:{where.line + number}:1: a row starts with "
                f"'- name: schema(...)', got {line[:80]!r}"
            )
    return None


TABLE = Table()
_FOLDER = Path(__file__).parent
FAMILIES = tuple(path.stem for path in sorted(_FOLDER.glob("*.yaml")))  # of our own rows
for _family in FAMILIES:
    TABLE.add_file(_FOLDER / f"{_family}.yaml", _family)
language.MODULES |= {
    p.stem for p in (_FOLDER.parent / "formulas").glob("*.py") if p.stem != "__init__"
}
language.MODULES |= {p.parent.name for p in (_FOLDER.parent / "formulas").glob("*/__init__.py")}

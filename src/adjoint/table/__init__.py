"""The table of derivatives: `<family>.yaml` files, and the registry that finds rows in them.

Files are indexed by a scan for `- name:` lines, and a row is parsed when it is first asked for, so
that importing the package costs milliseconds. `check()` reads everything, for tests and for users'
own tables.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path

from adjoint.core.errors import MissingOperator, TableError
from adjoint.table import formula as language
from adjoint.table.formula import Location
from adjoint.table.rows import Row, Source, load

_NAME = re.compile(r"^- name:\s*[\"']?(\w+)(?:\.(\w+))?\(", re.M)
_SELF = re.compile(r"[(,]\s*\S+ self\b")


class Table:
    """All rows, by name and overload. Refuses duplicates."""

    def __init__(self) -> None:
        self._sources: dict[str, dict[str, Source]] = {}
        self._rows: dict[tuple[str, str], Row] = {}

    def add_file(self, path: Path, family: str) -> list[Source]:
        """Index the rows of a file; nothing is parsed yet."""
        text = path.read_text(encoding="utf-8")
        starts = list(_NAME.finditer(text))
        _refuse_unindexed(text, len(starts), path)
        added: list[Source] = []
        for match, following in zip(starts, [*starts[1:], None], strict=True):
            line = text.count("\n", 0, match.start()) + 1
            block = text[match.start() : following.start() if following else len(text)]
            name, overload = match[1], match[2] or ""
            known = self._sources.setdefault(name, {})
            if overload in known:
                raise TableError(
                    f"{path}:{line}: {match[0][8:-1]} is already at {known[overload].where}"
                )
            known[overload] = Source(family, Location(str(path), line), block, name, overload)
            added.append(known[overload])
        return added

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
            close = difflib.get_close_matches(name, self._sources, 3)
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
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


def _refuse_unindexed(text: str, indexed: int, path: Path) -> None:
    entries = len(re.findall(r"^- ", text, re.M))
    if entries != indexed:
        for number, line in enumerate(text.splitlines(), 1):
            if line.startswith("- ") and not _NAME.match(line):
                raise TableError(
                    f"{path}:{number}: a row starts with '- name: schema(...)', got {line!r}"
                )


TABLE = Table()
_FOLDER = Path(__file__).parent
for _path in sorted(_FOLDER.glob("*.yaml")):
    TABLE.add_file(_path, _path.stem)
language.MODULES |= {
    p.stem for p in (_FOLDER.parent / "formulas").glob("*.py") if p.stem != "__init__"
}
language.MODULES |= {p.parent.name for p in (_FOLDER.parent / "formulas").glob("*/__init__.py")}

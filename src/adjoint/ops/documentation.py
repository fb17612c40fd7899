"""The help of operators: what `help(ad.sum)` prints below the signature."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from adjoint.core.remembering import cached_property
from adjoint.table import examples
from adjoint.table.examples import Example
from adjoint.table.rows import Row


class Documentation(str):
    """The docstring of an operator's function, put together when somebody reads it.

    Python requires docstrings to be str. This str holds the name alone; its methods work on the
    whole text, which most processes never need.
    """

    operators: Callable[[], Any]  # the overloads

    def __new__(cls, name: str, operators: Callable[[], Any]) -> Documentation:
        made = super().__new__(cls, name)
        made.operators = operators
        return made

    @cached_property
    def text(self) -> str:
        """The whole text.

        >>> import adjoint as ad
        >>> print(ad.sin.__doc__.partition(">>>")[0])
        The sine.
        <BLANKLINE>
        sin(Tensor self) -> Tensor
        <BLANKLINE>
        Derivative of sin:
            self: grad * self.cos().conj()
        <BLANKLINE>
        <BLANKLINE>
        """
        overloads = self.operators()
        rows = {id(overload.row): overload.row for overload in overloads}.values()
        first = overloads[0]
        example = examples.of(first.row.family, first.row.name)
        sentences = dict.fromkeys(row.doc for row in rows if row.doc) or [example.sentence]
        if first.is_derived_inplace:
            sentences = [f"`{first.row.name}`, written over self. {' '.join(sentences)}".rstrip()]
        parts = [
            *sentences,
            "\n".join(str(overload.schema) for overload in overloads),
            *map(_derivative, rows),
            runs(example) if not first.is_derived_inplace else "",
            f"`adjoint where {first.row.name}` prints everything about it.",
        ]
        return "\n\n".join(part for part in parts if part)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return repr(self.text)

    def __len__(self) -> int:
        return len(self.text)

    def __contains__(self, part: object) -> bool:
        return part in self.text  # type: ignore[operator]

    def __iter__(self) -> Iterator[str]:
        return iter(self.text)

    def __getitem__(self, key: Any) -> str:
        return self.text[key]

    def __eq__(self, other: object) -> bool:
        return self.text == other

    def __hash__(self) -> int:
        return hash(self.text)


def runs(example: Example) -> str:
    """The lines of an example, which run as they are."""
    return f">>> import adjoint as ad\n{example.lines}" if example.lines else ""


def _derivative(row: Row) -> str:
    """The formulas of a row as text."""
    names = {*row.schema.names, *(r.name for r in row.schema.returns)}
    lines = [
        f"    {column}: {text}"
        for column, text in row.texts.items()
        if {part.strip() for part in column.split(",")} <= names and not text.startswith("auto_")
    ]
    if not lines and row.decompose:
        lines = [f"    from its decomposition, {row.decompose}"]
    title = f"Derivative of {row.full_name.removesuffix('.default')}:"
    return "\n".join([title, *lines]) if lines else ""


def _of_text(name: str) -> Callable[..., Any]:
    def method(self: Documentation, *args: Any, **keywords: Any) -> Any:
        return getattr(self.text, name)(*args, **keywords)

    return method


for _name in dir(str):
    if not _name.startswith("_") and _name != "maketrans":
        setattr(Documentation, _name, _of_text(_name))

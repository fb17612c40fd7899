"""Arguments in the order of old versions of PyTorch: `add(self, alpha, other)`.

A row says its former orders in the column `former`, names of arguments with `|` between two orders.
As a method `self` comes first. A call in such an order works, and warns once for each operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core.source_lines import warn
from adjoint.ops import arguments
from adjoint.table.rows import Row
from adjoint.table.schema import Schema

_told: set[str] = set()  # operators of whose former order users have been told


def reordered(
    row: Row, schema: Schema, args: tuple[Any, ...]
) -> tuple[list[Any], dict[str, Any]] | None:
    """The positional and keyword arguments, in today's order, of a call in a former order; None if
    the call is in no former order.
    """
    for order in orders(row):
        if len(order) != len(args):
            continue
        given = dict(zip(order, args, strict=True))
        if all(_fits(schema, name, value) for name, value in given.items()):
            if schema.name not in _told:
                _told.add(schema.name)
                warn(
                    f"{schema.name}({', '.join(order)}) is a former order of arguments; write "
                    f"{_today(schema, order)}"
                )
            return _split(schema, given)
    return None


def orders(row: Row) -> list[list[str]]:
    """The former argument orders of a row, for its function and its method."""
    found = [order.split() for order in row.former.split("|")] if row.former else []
    methods = [["self", *(n for n in order if n != "self")] for order in found]
    return [*found, *(m for m in methods if m not in found)]


def _fits(schema: Schema, name: str, value: Any) -> bool:
    """Whether a value fits an argument; a number does not fit a tensor here."""
    argument = next(a for a in schema.arguments if a.name == name)
    if argument.type.is_tensor:
        return arguments.is_tensor_or_array(value)
    return not arguments.is_tensor_or_array(value) and arguments.accepts(
        argument.type, value, lenient=0
    )


def _split(schema: Schema, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    positional = [a.name for a in schema.arguments if not a.keyword_only]
    named = {name: value for name, value in given.items() if name not in positional}
    return [given[name] for name in positional if name in given], named


def _today(schema: Schema, order: list[str]) -> str:
    """The call in today's order: add(self, other, alpha=…)."""
    plain = [a.name for a in schema.arguments if not a.keyword_only and a.name in order]
    named = [f"{a.name}=…" for a in schema.arguments if a.keyword_only and a.name in order]
    return f"{schema.name}({', '.join([*plain, *named])})"


def overload_of(packet: Any, args: tuple[Any, ...]) -> Callable[..., Any] | None:
    """The function for calls with such arguments; None if they are in no former order."""
    for candidate in packet.operators:
        if not candidate.row.former or reordered(candidate.row, candidate.schema, args) is None:
            continue

        def call(*args: Any, operator: Any = candidate, **keywords: Any) -> Any:
            found = reordered(operator.row, operator.schema, args)
            assert found is not None, "arguments of the same types fit the same order"
            return operator.function(*found[0], **found[1], **keywords)

        return call
    return None

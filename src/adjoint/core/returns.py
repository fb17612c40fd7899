"""Results with names: `x.sort().values` as well as `values, indices = x.sort()`.

Each operator whose schema names several results has a class of tuples. Unlike a
`collections.namedtuple` it is made from one iterable, as `tuple` and `torch.return_types` are, so
`type(results)(…)` rebuilds either.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from operator import itemgetter
from typing import Any


class Results(tuple[Any, ...]):
    """Several results of an operator, by position and by name."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Results:
        return cls(values)

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        inner = ",\n".join(f"{name}={value!r}" for name, value in self._asdict().items())
        return f"{type(self).__name__}(\n{inner})"

    def __reduce__(self) -> Any:
        return _rebuild, (type(self).__name__, self._fields, tuple(self))


@cache
def results_class(name: str, fields: tuple[str, ...]) -> type[Results]:
    """Return the class of an operator's results.

    >>> results_class("sort", ("values", "indices"))((1, 2)).indices
    2
    """
    body: dict[str, Any] = {"__slots__": (), "_fields": fields}
    body["__module__"] = "adjoint.return_types"
    body |= {field: property(itemgetter(i)) for i, field in enumerate(fields)}
    return type(name, (Results,), body)


def _rebuild(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Results:
    return results_class(name, fields)(values)

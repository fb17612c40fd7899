"""Values of operators by other means: one function for each operator, of NumPy arrays.

`references/<family>.py` holds `REFERENCES`, from an operator's name (or name and overload, where
overloads differ) to a function with the operator's arguments. None of them calls an operator or a
kernel of ours: elementary functions come from Python's `math` and `cmath`, special ones from mpmath
or SciPy, shapes from index arithmetic. The law `value_equals_reference` compares. A sampler's own
`reference` comes first; operators in place, on lists (`_foreach_`) and copies of views have the
reference of the operator that they follow from.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any

from adjoint.core.importing import imported
from adjoint.table.rows import Row

Reference = Callable[..., Any]
OF_ONE_TENSOR = ("pointwise", "special", "shape", "reduction", "matmul")  # for lists of tensors


@cache
def _family(family: str) -> dict[str, Reference]:
    name = f"{__name__}.{family}"
    if importlib.util.find_spec(name) is None:
        return {}
    return imported(name).REFERENCES


def of(row: Row) -> Reference | None:
    """The reference of a row, or None."""
    key = key_of(row)
    if key is None:
        return None
    function = _family(key[0])[key[1]]
    return _of_lists(row, function) if row.family == "foreach" else function


def key_of(row: Row) -> tuple[str, str] | None:
    """The family and the key under which the reference of a row stands: ("pointwise", "add")."""
    name = row.name.removeprefix("_foreach_") if row.family == "foreach" else row.name
    families = OF_ONE_TENSOR if row.family == "foreach" else (row.family,)
    for stem in (name, name.removesuffix("_"), name.removesuffix("_copy")):
        for family in families:
            for key in (f"{stem}.{row.schema.overload or 'default'}", stem):
                if key in _family(family):
                    return family, key
    return None


def _of_lists(row: Row, function: Reference) -> Reference:
    """Lists go entry by entry into the function of one tensor; others are the same for all."""
    lists = [a.name for a in row.schema.arguments if a.type.is_list or a.name == "scalars"]

    def reference(*args: Any, **kwargs: Any) -> list[Any]:
        given = dict(zip(row.schema.names, args, strict=False)) | kwargs
        count = len(given[lists[0]])
        entries = [{k: v[i] if k in lists else v for k, v in given.items()} for i in range(count)]
        return [function(*entry.values()) for entry in entries]

    return reference

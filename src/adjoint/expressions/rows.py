"""The elements of rows: the column `element`.

A text in the language of `parsing.py` is for real numbers, or there is one for each kind of
numbers. Our own rows may also name a function of `variants.py`, if the text depends on arguments
that are known beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from adjoint.core import dtypes
from adjoint.core.dtypes import BOOL, COMPLEX, FLOAT, INTEGER, DType
from adjoint.core.errors import TableError
from adjoint.core.remembering import remembered
from adjoint.expressions import variants
from adjoint.expressions.parsing import known, parse
from adjoint.expressions.trees import Expression, Number
from adjoint.expressions.variants import Variant
from adjoint.table import FAMILIES
from adjoint.table.rows import Row, is_reference

_KINDS = {BOOL: "bool", INTEGER: "whole", FLOAT: "real", COMPLEX: "complex"}
_DTYPES = {"bool": dtypes.bool_, "whole": dtypes.int64, "real": dtypes.float64}
_NUMBERS = frozenset(("Tensor", "Scalar", "float", "int", "bool"))  # types of operands


def expression(row: Row, dtype: DType, given: Mapping[str, Any]) -> Expression | None:
    """The element of a row, computed in a dtype, for its arguments; None if it has none."""
    text = row.element.get(_KINDS[dtype.category])
    if text is None:
        return None
    maker = _variant(text)
    found = text if maker is None else maker(given, dtype)
    if found is None:
        return None
    operands = tuple([(n, dtypes.bool_ if mask else dtype) for n, mask in _arguments(row)])
    if isinstance(found, str):
        return known(found, operands, dtype)
    tree = known(found.text, (*operands, *((n, dtype) for n in found.numbers)), dtype)
    return tree.substitute({n: Number(v, dtype) for n, v in found.numbers.items()})


def _variant(text: str) -> Variant | None:
    """The function of `variants` that a column names, or None."""
    return getattr(variants, text.partition(".")[2]) if text.startswith("variants.") else None


@remembered
def _arguments(row: Row) -> tuple[tuple[str, bool], ...]:
    """(name, whether it is a mask) of each argument that may be an operand; a tensor that is not
    promoted with the others is a mask.
    """
    return tuple(
        (a.name, bool(row.promoted) and a.type.is_tensor and a not in row.promoted)
        for a in row.schema.arguments
        if a.type.base in _NUMBERS and not a.type.is_list
    )


# -- checks ---------------------------------------------------------------------------------------


def check(row: Row) -> Iterator[str]:
    """The mistakes in the column `element` of a row, each with its place."""
    if row.element and not row.archetype.promotes and not _is_ours(row):
        yield f"{row.place('element')}: element is for operators that are like: pointwise"
    if row.element and (len(row.schema.returns) != 1 or row.schema.returns[0].type.is_list):
        yield f"{row.place('element')}: element is for operators with one result"
    for kind, text in row.element.items():
        if kind == "complex" and not _is_ours(row):
            where = row.place("element")
            yield f"{where}: element: complex numbers have texts in our own rows alone"
        elif _is_ours(row) and is_reference(text):
            if not hasattr(variants, text.removeprefix("variants.")):
                yield f"{row.place('element').of(text)}: element: there is no {text!r}"
        else:
            yield from _mistakes(row, text, _DTYPES.get(kind, dtypes.complex128))


def _mistakes(row: Row, text: str, dtype: DType) -> Iterator[str]:
    operands = {n: dtypes.bool_ if mask else dtype for n, mask in _arguments(row)}
    try:
        parse(text, operands, dtype, row.place("element"), ours=_is_ours(row))
    except TableError as error:
        yield str(error)


def _is_ours(row: Row) -> bool:
    return row.family in FAMILIES

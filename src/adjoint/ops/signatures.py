"""The Python signatures of operators, derived from their schemas.

`inspect.signature(ad.sum)`, `help(ad.sum)` and the stubs for type checkers (`adjoint.stubs`) come
from here. A packet with several overloads has one signature for each, and a merged one that every
call of any overload fits. Types are texts; `adjoint.types` says what TensorLike and its like are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import Parameter, Signature
from typing import Any

from adjoint.core.dtypes import to_dtype
from adjoint.core.layouts import FORMATS, format_number
from adjoint.ops import arguments
from adjoint.ops.runtime import EXTRAS
from adjoint.table.schema import RENAMED, Argument, Return, Schema, SchemaType


class LeftOut:
    """The default of a parameter that some overloads do not have."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "..."


MAY_BE_LEFT_OUT = LeftOut()

_BY_POSITION, _SPREAD, _BY_KEYWORD = (
    Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL, Parameter.KEYWORD_ONLY,
)  # fmt: skip
_TYPES = {
    "Tensor": "TensorLike",
    "Scalar": "Scalar",
    "ScalarType": "DTypeLike",
    "Device": "DeviceLike",
}  # names of types in Python that differ from the schema's
# NumPy's names of arguments, which operators take too (`arguments.ALIASES`).
NUMPY_NAMES = {
    "dim": "axis",
    "keepdim": "keepdims",
    "dims": "axes",
    "dim1": "axis1",
    "dim2": "axis2",
    "correction": "ddof",
}


class Annotation(str):
    """The text of a type; in a printed signature it stands without quotes.

    >>> Signature([Parameter("x", _BY_POSITION, annotation=Annotation("int | None"))])
    <Signature (x: int | None)>
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def annotation(kind: SchemaType, *, writes: bool = False) -> str:
    """The Python type of an argument: `int[2]?` is `int | Sequence[int] | None`.

    >>> from adjoint.table.schema import parse
    >>> schema = parse("f(Tensor self, int[2]? size, Tensor?[] indices) -> Tensor")
    >>> [annotation(a.type) for a in schema.arguments]
    ['TensorLike', 'int | Sequence[int] | None', 'Sequence[TensorLike | None]']
    """
    text = kind.base if writes else _TYPES.get(kind.base, kind.base)
    if kind.is_list:
        single = text
        text = f"Sequence[{single}{' | None' * kind.holds_none}]"
        if kind.length is not None and not kind.is_tensor:
            text = f"{single} | {text}"
    return f"{text} | None" if kind.is_optional else text


def result(schema: Schema) -> str:
    """The Python type of what an operator returns.

    >>> from adjoint.table.schema import parse
    >>> result(parse("sort(Tensor self) -> (Tensor values, Tensor indices)"))
    'return_types.sort'
    >>> result(parse("f(Tensor self) -> (Tensor, Tensor[])"))
    'tuple[Tensor, list[Tensor]]'
    """
    if has_named_results(schema):
        return f"return_types.{schema.name}"
    if not schema.returns:
        return "None"
    types = [result_type(returned) for returned in schema.returns]
    return types[0] if len(types) == 1 else f"tuple[{', '.join(types)}]"


def result_type(returned: Return) -> str:
    """The Python type of one result."""
    kind = returned.type
    return f"list[{kind.base}]" if kind.is_list else kind.base


def has_named_results(schema: Schema) -> bool:
    """Whether the results are a tuple with names: `x.sort().values`."""
    names = [r.name for r in schema.returns]
    return len(names) > 1 and names != [f"result{i}" for i in range(len(names))]


# -- one overload ----------------------------------------------------------------------------------


def signature(schema: Schema, *, spread: bool = False) -> Signature:
    """The signature of one overload; with `spread`, a list at the end as separate arguments.

    >>> from adjoint.table.schema import parse
    >>> signature(parse("softmax(Tensor self, int dim, *, bool exact=False) -> Tensor"))
    <Signature (input: TensorLike, dim: int, *, exact: bool = False,
                out: Tensor | None = None) -> Tensor>
    >>> signature(parse("view(Tensor(a) self, int[] size) -> Tensor(a)"), spread=True)
    <Signature (input: TensorLike, *size: int) -> Tensor>
    """
    given = [_parameter(schema, a, optional) for a, optional in _with_optional(schema.arguments)]
    if spread:
        start = arguments.spreads(schema)
        assert start is not None
        entry = _TYPES.get(schema.arguments[start].type.base, schema.arguments[start].type.base)
        given[start] = Parameter(given[start].name, _SPREAD, annotation=Annotation(entry))
    return Signature([*given, *_extras(schema)], return_annotation=Annotation(result(schema)))


def _with_optional(given: Sequence[Argument]) -> list[tuple[Argument, bool]]:
    """Each argument, and whether it may be left out: Python wants required ones first."""
    found: list[tuple[Argument, bool]] = []
    optional = True
    for argument in reversed(given):
        may = argument.has_default or argument.type.is_optional
        if not argument.keyword_only:
            may = optional = optional and may
        found.append((argument, may))
    return found[::-1]


def _parameter(schema: Schema, argument: Argument, optional: bool) -> Parameter:
    return Parameter(
        parameter_name(schema, argument.name),
        _BY_KEYWORD if argument.keyword_only else _BY_POSITION,
        default=_python_default(argument) if optional else Parameter.empty,
        annotation=Annotation(annotation(argument.type, writes=argument.writes)),
    )


def _python_default(argument: Argument) -> Any:
    """A default as users write it: `ad.int64` for long, `ad.contiguous_format` for 0."""
    if argument.default is None:
        return None
    if argument.type.base == "ScalarType":
        return to_dtype(argument.default)
    if argument.type.base == "MemoryFormat":
        return list(FORMATS.values())[format_number("", argument.default)]
    return argument.default


def parameter_name(schema: Schema, name: str) -> str:
    """An argument's name in Python: `input` for self, `from_` for a word that Python reserves."""
    if name == "self" and "input" not in schema.names:
        return "input"
    return f"{name}_" if name in RENAMED else name


def _extras(schema: Schema) -> Iterable[Parameter]:
    """The keywords that operators take in addition to their schema's."""
    makes = any(a.name == "pin_memory" for a in schema.arguments)
    if makes:
        yield _keyword("requires_grad", False, "bool")
    fresh = not any(r.alias for r in schema.returns) and not schema.mutates
    if "out" in schema.names or not fresh or not schema.returns:
        return
    if all(r.type == SchemaType("Tensor") for r in schema.returns):
        several = len(schema.returns) > 1
        yield _keyword("out", None, f"{'Sequence[Tensor]' if several else 'Tensor'} | None")


def _keyword(name: str, default: Any, type: str) -> Parameter:
    return Parameter(name, _BY_KEYWORD, default=default, annotation=Annotation(type))


# -- all overloads ---------------------------------------------------------------------------------


def overloads(schemas: Iterable[Schema]) -> list[Signature]:
    """The signatures of overloads; one that takes a list also as separate arguments has two."""
    found: list[Signature] = []
    for schema in schemas:
        found.append(signature(schema))
        if arguments.spreads(schema) is not None:
            found.append(signature(schema, spread=True))
    return found


def merged(schemas: Sequence[Schema]) -> Signature:
    """One signature that every call of the overloads fits.

    >>> from adjoint.table.schema import parse
    >>> one = parse("sum(Tensor self) -> Tensor")
    >>> two = parse("sum.dim(Tensor self, int[1]? dim, bool keepdim=False) -> Tensor")
    >>> merged([one, two])
    <Signature (input: TensorLike, dim: int | Sequence[int] | None = None, keepdim: bool = False, *,
                out: Tensor | None = None) -> Tensor>
    """
    each = [signature(s, spread=arguments.spreads(s) is not None) for s in schemas]
    if len(each) == 1 and arguments.spreads(schemas[0]) is None:
        return each[0]
    positions = [[p for p in s.parameters.values() if p.kind is not _BY_KEYWORD] for s in each]
    slots = _slots(sorted(positions, key=len, reverse=True))
    names = {slot.name for slot in slots}
    others: dict[str, list[Parameter]] = {}
    for parameters in (s.parameters for s in each):
        for name, parameter in parameters.items():
            if name not in names:
                others.setdefault(name, []).append(parameter)
    keywords = [_merged_keyword(found, len(each)) for found in others.values()]
    keywords.sort(key=lambda parameter: parameter.name in EXTRAS)  # which come last
    returns = dict.fromkeys(s.return_annotation for s in each)
    return Signature([*slots, *keywords], return_annotation=Annotation(" | ".join(returns)))


def _slots(positions: list[list[Parameter]]) -> list[Parameter]:
    """The positional parameters, with the names of the longest overload."""
    slots: list[Parameter] = []
    optional = False
    for number, first in enumerate(positions[0]):
        found = [p[number] for p in positions if len(p) > number]
        spread = next((p for p in found if p.kind is _SPREAD), None)
        if spread is not None:
            several = Parameter("_", _BY_POSITION, annotation=f"Sequence[{spread.annotation}]")
            slots.append(spread.replace(annotation=_union([*found, several])))
            break  # it takes all further arguments
        same = all(p.name == first.name for p in found)
        optional |= len(found) < len(positions) or not same or _has_default(found)
        default = _default(found) if optional else Parameter.empty
        slots.append(first.replace(default=default, annotation=_union(found)))
    return slots


def _merged_keyword(found: list[Parameter], count: int) -> Parameter:
    needed = len(found) == count and not _has_default(found)
    return Parameter(
        found[0].name,
        _BY_KEYWORD,
        default=Parameter.empty if needed else _default(found),
        annotation=_union(found),
    )


def _has_default(found: list[Parameter]) -> bool:
    return any(p.default is not Parameter.empty for p in found)


def _default(found: list[Parameter]) -> Any:
    """The first default given; without one None if that is allowed, else MAY_BE_LEFT_OUT."""
    given = [p.default for p in found if p.default is not Parameter.empty]
    if given:
        return given[0]
    return None if any("None" in p.annotation for p in found) else MAY_BE_LEFT_OUT


def _union(found: list[Parameter]) -> Annotation:
    """Every type that one of the parameters takes, None last."""
    parts = dict.fromkeys(part for p in found for part in p.annotation.split(" | "))
    ends = " | None" * ("None" in parts)
    return Annotation(" | ".join(part for part in parts if part != "None") + ends)

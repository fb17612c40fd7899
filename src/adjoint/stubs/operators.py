"""Stubs of operators: a function or method for each overload, and classes of named results."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable, Iterator
from inspect import Parameter, Signature
from typing import Any

from adjoint.ops import signatures
from adjoint.ops.operator import Packet
from adjoint.table import TABLE
from adjoint.table.schema import Schema

# Modules and classes have functions of these names, so their stubs call the types `builtins.int`.
BUILTINS = ("bool", "complex", "float", "int", "list", "str", "tuple", "type")

# What signatures of operators name, and where that is.
IMPORTS = {
    "builtins": "import builtins",
    "Sequence": "from collections.abc import Sequence",
    "overload": "from typing import overload",
    "return_types": "from adjoint import return_types",
    "Generator": "from adjoint.core.generator import Generator",
    "Layout": "from adjoint.core.layouts import Layout",
    "MemoryFormat": "from adjoint.core.layouts import MemoryFormat",
    "Tensor": "from adjoint.tensor.tensor import Tensor",
    "DTypeLike": "from adjoint.types import DTypeLike",
    "DeviceLike": "from adjoint.types import DeviceLike",
    "Scalar": "from adjoint.types import Scalar",
    "TensorLike": "from adjoint.types import TensorLike",
}


def functions(packet: Packet, name: str) -> Iterator[str]:
    """The stub of an operator as a function called `name`."""
    yield from _stub(name, signatures.overloads(_schemas(packet)), "")


def methods(packet: Packet) -> Iterator[str]:
    """The stub of an operator as a method of tensors; nothing if it is none."""
    schemas = [s for s in _schemas(packet) if s.arguments and s.arguments[0].name == "self"]
    found = [_as_method(s) for s in signatures.overloads(schemas)]
    yield from _stub(packet.name, found, "    ")


def result_class(schema: Schema) -> Iterator[str]:
    """The class of several results with names, as `NamedTuple`."""
    yield f"class {schema.name}(NamedTuple):"
    for returned in schema.returns:
        yield f"    {returned.name}: {signatures.result_type(returned)}"


def result_classes() -> Iterator[str]:
    """All of them; overloads of one operator name their results alike."""
    for name in TABLE.names():
        schemas = (TABLE.row(name, overload).schema for overload in TABLE.overloads(name))
        named = next(filter(signatures.has_named_results, schemas), None)
        if named is not None:
            yield from result_class(named)
            yield ""


def _schemas(packet: Packet) -> list[Schema]:
    return [operator.schema for operator in packet.operators]


def _as_method(signature: Signature) -> Signature:
    """Without the first parameter's type, and without `out`, which is for functions."""
    _, *others = signature.parameters.values()
    kept = [p for p in others if p.name != "out"]
    self = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    return Signature([self, *kept], return_annotation=signature.return_annotation)


def _stub(name: str, found: Iterable[Signature], indent: str) -> Iterator[str]:
    """One definition, or the overloads; NumPy's names of arguments make more of them."""
    distinct: dict[str, Signature] = {}
    plain = list(found)
    for signature in (*plain, *filter(None, map(_with_numpy_names, plain))):
        distinct.setdefault(text(signature), signature)
    texts = list(_not_covered(distinct))
    for each in texts:
        if len(texts) > 1:
            yield f"{indent}@overload"
        yield f"{indent}def {name}{each}: ..."


def _with_numpy_names(signature: Signature) -> Signature | None:
    """The signature with `axis` for dim, `keepdims` for keepdim; None if there are none of them."""
    names = signatures.NUMPY_NAMES
    if not any(n in names and p.kind is not _SPREAD for n, p in signature.parameters.items()):
        return None
    renamed = [p.replace(name=names.get(n, n)) for n, p in signature.parameters.items()]
    return signature.replace(parameters=renamed)


_SPREAD = Parameter.VAR_POSITIONAL


def _not_covered(found: dict[str, Signature]) -> Iterator[str]:
    """The texts of overloads, without those that an earlier one covers."""
    before: list[Signature] = []
    for text, signature in found.items():
        if not any(_covers(earlier, signature) for earlier in before):
            before.append(signature)
            yield text


def _covers(wide: Signature, narrow: Signature) -> bool:
    """Whether every call of `narrow` is one of `wide`, with the same result."""
    if wide.return_annotation != narrow.return_annotation:
        return False
    left, right = list(wide.parameters.values()), list(narrow.parameters.values())
    return len(left) == len(right) and all(
        a.name == b.name
        and a.kind == b.kind
        and (a.default is not Parameter.empty or b.default is Parameter.empty)
        and _types(b.annotation) <= _types(a.annotation)
        for a, b in zip(left, right, strict=True)
    )


def _types(annotation: Any) -> set[Any]:
    """The members of a union; numbers are like tensors."""
    found = set() if annotation is Parameter.empty else set(annotation.split(" | "))
    return found | {"Scalar", "int", "float", "bool"} if "TensorLike" in found else found


def text(signature: Signature) -> str:
    """A signature as Python text, with the builtin types under other names."""
    pieces: list[str] = []
    starred = False
    for parameter in signature.parameters.values():
        if parameter.kind is _SPREAD:
            starred = True
        elif parameter.kind is Parameter.KEYWORD_ONLY and not starred:
            starred = True
            pieces.append("*")
        pieces.append(_piece(parameter))
    return f"({', '.join(pieces)}) -> {qualified(signature.return_annotation)}"


def _piece(parameter: Parameter) -> str:
    name = f"{parameter.name}_" if keyword.iskeyword(parameter.name) else parameter.name
    text = f"{'*' * (parameter.kind is _SPREAD)}{name}"
    if parameter.annotation is not Parameter.empty:
        text += f": {qualified(parameter.annotation)}"
    if parameter.default is Parameter.empty:
        return text
    return f"{text} = {_default(parameter.default)}"


def _default(value: Any) -> str:
    """A default as text; values such as infinity and dtypes are no literals."""
    literal = type(value) in (bool, int, str, tuple, type(None))
    finite = isinstance(value, float) and math.isfinite(value)
    return repr(value) if literal or finite else "..."


def qualified(text: str) -> str:
    """An annotation with the builtin types under names that no function of a stub has."""
    return re.sub(rf"\b({'|'.join(BUILTINS)})\b", r"builtins.\1", text)

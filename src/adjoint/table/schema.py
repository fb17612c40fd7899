"""ATen schemas: `name.overload(Tensor(a!) self, int[2] size=[1,1], *, Scalar? n=1) -> Tensor(a!)`.

A schema is parsed once into frozen records. Nothing here knows of derivatives or kernels. Names and
types are checked, because generated code is written with them: a mistake raises `SchemaError`.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import replace
from typing import Any

from adjoint.core.errors import TableError, did_you_mean
from adjoint.core.records import record
from adjoint.core.remembering import cached_property

# Patterns as texts: `re` compiles them on first use, and prepared schemas use none.
_TYPE = (
    r"(?a)(?P<base>\w+)(?:\((?P<alias>[a-z]!?(?: -> \*)?)\))?(?P<inner>\?)?"
    r"(?P<list>\[(?P<length>\d{0,3})\])?(?P<outer>\?)?"
)
_HEAD = r"(?as)(?P<name>\w+)(?:\.(?P<overload>\w+))?\((?P<body>.*)\)\s*->\s*(?P<returns>.+)"
_NAME = r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*_?"  # no _ before it, no __ in it
_LONGEST = 2000  # characters of a schema
_LONGEST_NAME = 100
_LONGEST_LIST = 64  # n in int[n]
_LARGEST = 2**63  # a whole number as a default
_INTEGERS = {"SymInt": "int", "SymBool": "bool", "SymFloat": "float"}
_BASES = (
    "Tensor", "int", "float", "bool", "str", "Scalar", "ScalarType", "Device", "Layout",
    "MemoryFormat", "Generator",
)  # fmt: skip
# Mean is a reduction of losses, by its number.
_CONSTANTS: dict[str, Any] = {"None": None, "True": True, "False": False, "Mean": 1}
_CONSTANTS_OF = {
    "bool": ("True", "False"),
    "int": ("Mean",),
    "Scalar": ("True", "False"),
}  # by type, in addition to None
_NAMED = ("ScalarType", "Layout", "MemoryFormat", "Device")  # types whose defaults are names: long
# Names that generated functions use, so no argument may have them.
_RESERVED = frozenset(
    ("all", "any", "bool", "complex", "enumerate", "float", "int", "len", "list", "str", "tuple",
     "type", "xp", "Exception")
)  # fmt: skip
# Arguments of ATen that Python reserves or generated functions use: written from_, list_ there.
RENAMED = ("from", "list")


class SchemaError(TableError):
    """An invalid schema; `word` is the text at fault."""

    def __init__(self, message: str, word: str = "") -> None:
        super().__init__(message)
        self.word = word


@record
class SchemaType:
    """The type of an argument or of a return."""

    base: str  # "Tensor", "int", "Scalar", "ScalarType", …
    is_list: bool = False  # int[]
    length: int | None = None  # 2 in int[2]: a single number stands for all
    is_optional: bool = False  # Tensor?
    holds_none: bool = False  # Tensor?[]: entries may be None

    @property
    def is_tensor(self) -> bool:
        return self.base == "Tensor"

    def __str__(self) -> str:
        text = self.base + ("?" if self.holds_none else "")
        if self.is_list:
            text += f"[{'' if self.length is None else self.length}]"
        return text + ("?" if self.is_optional else "")


@record
class Argument:
    """One argument of an operator."""

    name: str  # "self"
    type: SchemaType
    has_default: bool = False
    default: Any = None  # 1
    keyword_only: bool = False
    alias: str | None = None  # "a" in Tensor(a!)
    writes: bool = False  # the "!"


@record
class Return:
    """One result of an operator."""

    name: str  # "values", or "result", "result0", … where the schema gives none
    type: SchemaType
    alias: str | None = None
    writes: bool = False


@record
class Schema:
    """A parsed schema; `str()` gives it back in ATen's notation."""

    name: str  # "add"
    overload: str  # "Tensor", or "" where there is none
    arguments: tuple[Argument, ...]
    returns: tuple[Return, ...]
    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def full_name(self) -> str:
        """'add.Tensor', or 'sin.default' where the overload has no name."""
        return f"{self.name}.{self.overload or 'default'}"

    @property
    def symbol(self) -> str:
        """A Python identifier for generated code: add_Tensor."""
        return f"{self.name}_{self.overload}" if self.overload else self.name

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.arguments)

    @cached_property
    def tensors(self) -> tuple[Argument, ...]:
        """The arguments that are tensors or lists of tensors."""
        return tuple(a for a in self.arguments if a.type.is_tensor)

    @cached_property
    def mutates(self) -> bool:
        """Whether an argument is written to."""
        return any(a.writes for a in self.arguments)

    @cached_property
    def replaces(self) -> bool:
        """Whether the result is the first argument, written over: add_, but not a list of them."""
        return any(r.writes for r in self.returns)

    @cached_property
    def is_view(self) -> bool:
        """Whether a result shares memory with an argument that is not written to."""
        return any(r.alias and not r.writes for r in self.returns)

    @cached_property
    def can_be_written(self) -> bool:
        """Whether the result can be written over the first argument: f(Tensor self) -> Tensor."""
        if not self.arguments or len(self.returns) != 1 or self.returns[0].alias:
            return False
        first = self.arguments[0]
        plain = first.name == "self" and not first.alias
        return plain and first.type == self.returns[0].type == SchemaType("Tensor")

    def argument(self, name: str) -> Argument:
        return next(a for a in self.arguments if a.name == name)


def parse(text: str) -> Schema:
    """Parse one schema.

    >>> s = parse("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
    >>> s.full_name, s.names, s.arguments[2].default, s.arguments[2].keyword_only
    ('add.Tensor', ('self', 'other', 'alpha'), 1, True)
    """
    if len(text) > _LONGEST:
        raise SchemaError(f"{len(text)} characters; a schema has at most {_LONGEST}")
    match = re.fullmatch(_HEAD, " ".join(text.split()))
    if match is None:
        raise SchemaError(f"not a schema: {text!r}; expected 'name.overload(Type arg, …) -> Type'")
    arguments: list[Argument] = []
    keyword_only = False
    for part in _split(match["body"]):
        if part == "*":
            keyword_only = True
        else:
            arguments.append(_argument(part, keyword_only, text))
    returns = _returns(match["returns"].strip(), text)
    _refuse_repeated([a.name for a in arguments], "argument", text)
    _refuse_repeated([r.name for r in returns], "result", text)
    schema = Schema(match["name"], match["overload"] or "", tuple(arguments), returns, text)
    _check_aliases(schema)
    return schema


def _refuse_repeated(names: list[str], what: str, text: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise SchemaError(f"{what} {name!r} appears twice in {text!r}", name)


def _check_aliases(schema: Schema) -> None:
    """Check that each aliased result aliases an argument, and both write or neither does."""
    marks = {a.alias: a.writes for a in schema.arguments if a.alias}
    for returned in schema.returns:
        if returned.alias and marks.get(returned.alias) is not returned.writes:
            mark = returned.alias + ("!" if returned.writes else "")
            raise SchemaError(f"no argument is marked ({mark}) in {schema.text!r}", mark)


def _split(text: str) -> list[str]:
    """Split at the commas that are outside brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def _type(text: str, where: str) -> tuple[SchemaType, str | None, bool]:
    match = re.fullmatch(_TYPE, text)
    if match is None:
        raise SchemaError(f"not a type: {text!r} in {where!r}", text)
    base = _INTEGERS.get(match["base"], match["base"])
    if base not in _BASES:
        hint = did_you_mean(match["base"], (*_BASES, *_INTEGERS))
        raise SchemaError(f"there is no type {match['base']!r}{hint} in {where!r}", match["base"])
    alias = match["alias"]
    is_list = match["list"] is not None
    length = int(match["length"]) if match["length"] else None
    if length is not None and not 0 < length <= _LONGEST_LIST:
        raise SchemaError(f"a list has 1 to {_LONGEST_LIST} entries, not {length}", text)
    if alias is not None and base != "Tensor":
        raise SchemaError(f"only a Tensor can be marked ({alias}) in {where!r}", text)
    kind = SchemaType(
        base=base,
        is_list=is_list,
        length=length,
        is_optional=bool(match["outer"]) or (bool(match["inner"]) and not is_list),
        holds_none=bool(match["inner"]) and is_list,
    )
    return kind, None if alias is None else alias[0], alias is not None and "!" in alias


def _argument(text: str, keyword_only: bool, where: str) -> Argument:
    declaration, has_default, default = text.partition("=")
    kind_text, _, name = declaration.strip().rpartition(" ")
    if not kind_text:
        raise SchemaError(f"argument {text!r} needs a type and a name in {where!r}", text)
    kind, alias, writes = _type(kind_text.strip(), where)
    value = _default(default.strip(), kind, text) if has_default else None
    return Argument(name, kind, bool(has_default), value, keyword_only, alias, writes)


def check(schema: Schema) -> None:
    """Raise `SchemaError` for names and results that generated code could not work with."""
    for returned in schema.returns:
        kind = returned.type
        known = kind.is_tensor or (kind.base == "int" and not kind.is_list)
        if not known or kind.is_optional or kind.holds_none:
            message = f"a result is a Tensor, a Tensor[] or an int, not a {kind}"
            raise SchemaError(message, str(kind))
    for name in (schema.name, schema.overload):
        if "__" in name or name[:1].isdigit() or _is_keyword(name) or len(name) > _LONGEST_NAME:
            raise SchemaError(f"an operator cannot be called {name!r}", name)
    named = [(n, "an argument") for n in schema.names] + [
        (r.name, "a result") for r in schema.returns
    ]
    for name, what in named:
        fits = re.fullmatch(_NAME, name) is not None and len(name) <= _LONGEST_NAME
        if not fits or (name in _RESERVED and name not in RENAMED) or _is_keyword(name):
            raise SchemaError(f"{what} cannot be called {name!r}", name)


def _is_keyword(name: str) -> bool:
    return keyword.iskeyword(name) and name not in RENAMED


def _default(text: str, kind: SchemaType, argument: str) -> Any:
    if text.startswith("[") and text.endswith("]") and kind.is_list:
        element = replace(kind, is_list=False, length=None)
        return tuple(_default(p, element, argument) for p in _split(text[1:-1]))
    found = _single_default(text, kind)
    if found is _NOT:
        raise SchemaError(f"{text!r} is no default for a {kind}: {argument!r}", argument)
    return (found,) * kind.length if kind.is_list and kind.length and found is not None else found


_NOT: Any = object()


def _single_default(text: str, kind: SchemaType) -> Any:
    """The value of a default of this type, or _NOT."""
    if text == "None":
        return None if kind.is_optional else _NOT
    if text in _CONSTANTS:
        return _CONSTANTS[text] if text in _CONSTANTS_OF.get(kind.base, ()) else _NOT
    if kind.base == "str":
        return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else _NOT
    if kind.base in _NAMED:
        return text if re.fullmatch(_NAME, text) else 0 if text == "0" else _NOT
    if kind.base not in ("int", "float", "Scalar"):
        return _NOT
    return _number(text, kind)


def _number(text: str, kind: SchemaType) -> Any:
    try:
        number: Any = int(text) if kind.base != "float" else float(text)
    except ValueError:
        try:
            number = float(text) if kind.base == "Scalar" else _NOT
        except ValueError:
            return _NOT
    return _NOT if isinstance(number, int) and abs(number) > _LARGEST else number


def _returns(text: str, where: str) -> tuple[Return, ...]:
    if text == "()":
        return ()
    parts = _split(text[1:-1]) if text.startswith("(") else [text]
    found: list[Return] = []
    for i, part in enumerate(parts):
        words = part.rsplit(" ", 1) if _names_its_result(part) else [part]
        kind, alias, writes = _type(words[0].strip(), where)
        unnamed = "result" if len(parts) == 1 else f"result{i}"
        name = words[1] if len(words) == 2 else unnamed
        found.append(Return(name, kind, alias, writes))
    return tuple(found)


def _names_its_result(text: str) -> bool:
    return re.search(r"[\])?\w]\s+\w+$", text) is not None and not text.endswith(")")

"""ATen schemas: `name.overload(Tensor(a!) self, int[2] size=[1,1], *, Scalar? alpha=1) ->
Tensor(a!)`.

A schema is parsed once into frozen records. Nothing here knows of derivatives or kernels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from adjoint.core.errors import TableError

_TYPE = re.compile(
    r"(?P<base>\w+)(?:\((?P<alias>[^)]*)\))?(?P<inner>\?)?(?P<list>\[(?P<length>\d*)\])?(?P<outer>\?)?"
)
_HEAD = re.compile(
    r"(?P<name>\w+)(?:\.(?P<overload>\w+))?\((?P<body>.*)\)\s*->\s*(?P<returns>.+)", re.S
)
_INTEGERS = {"SymInt": "int", "SymBool": "bool", "SymFloat": "float"}
# Mean is a reduction of losses, by its number.
_CONSTANTS: dict[str, Any] = {"None": None, "True": True, "False": False, "Mean": 1}


@dataclass(frozen=True)
class Type:
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


@dataclass(frozen=True)
class Argument:
    """One argument of an operator."""

    name: str  # "self"
    type: Type
    has_default: bool = False
    default: Any = None  # 1
    keyword_only: bool = False
    alias: str | None = None  # "a" in Tensor(a!)
    writes: bool = False  # the "!"


@dataclass(frozen=True)
class Return:
    """One result of an operator."""

    name: str  # "values", or "result", "result0", … where the schema gives none
    type: Type
    alias: str | None = None
    writes: bool = False


@dataclass(frozen=True)
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

    def argument(self, name: str) -> Argument:
        return next(a for a in self.arguments if a.name == name)


def parse(text: str) -> Schema:
    """Parse one schema.

    >>> s = parse("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
    >>> s.full_name, s.names, s.arguments[2].default, s.arguments[2].keyword_only
    ('add.Tensor', ('self', 'other', 'alpha'), 1, True)
    """
    match = _HEAD.fullmatch(" ".join(text.split()))
    if match is None:
        raise TableError(f"not a schema: {text!r}; expected 'name.overload(Type arg, …) -> Type'")
    arguments: list[Argument] = []
    keyword_only = False
    for part in _split(match["body"]):
        if part == "*":
            keyword_only = True
        else:
            arguments.append(_argument(part, keyword_only, text))
    names = [a.name for a in arguments]
    for name in names:
        if names.count(name) > 1:
            raise TableError(f"argument {name!r} appears twice in {text!r}")
    returns = _returns(match["returns"].strip(), text)
    return Schema(match["name"], match["overload"] or "", tuple(arguments), returns, text)


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


def _type(text: str, where: str) -> tuple[Type, str | None, bool]:
    match = _TYPE.fullmatch(text)
    if match is None:
        raise TableError(f"not a type: {text!r} in {where!r}")
    alias = match["alias"]
    writes = alias is not None and "!" in alias
    is_list = match["list"] is not None
    length = int(match["length"]) if match["length"] else None
    kind = Type(
        base=_INTEGERS.get(match["base"], match["base"]),
        is_list=is_list,
        length=length,
        is_optional=bool(match["outer"]) or (bool(match["inner"]) and not is_list),
        holds_none=bool(match["inner"]) and is_list,
    )
    return kind, alias.split("-")[0].strip(" !") if alias is not None else None, writes


def _argument(text: str, keyword_only: bool, where: str) -> Argument:
    declaration, has_default, default = text.partition("=")
    kind_text, _, name = declaration.strip().rpartition(" ")
    if not kind_text:
        raise TableError(f"argument {text!r} needs a type and a name in {where!r}")
    kind, alias, writes = _type(kind_text.strip(), where)
    value = _default(default.strip(), kind) if has_default else None
    return Argument(name, kind, bool(has_default), value, keyword_only, alias, writes)


def _default(text: str, kind: Type) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text.startswith("["):
        element = replace(kind, is_list=False, length=None)
        return tuple(_default(p, element) for p in _split(text[1:-1]))
    if text[:1] in "'\"":
        return text[1:-1]
    try:
        number: Any = int(text)
    except ValueError:
        try:
            number = float(text)
        except ValueError:
            return text  # a named constant: contiguous_format, long
    if kind.base == "float":
        number = float(number)
    return (number,) * kind.length if kind.is_list and kind.length else number


def _returns(text: str, where: str) -> tuple[Return, ...]:
    if text == "()":
        return ()
    parts = _split(text[1:-1]) if text.startswith("(") else [text]
    found: list[Return] = []
    for i, part in enumerate(parts):
        words = part.rsplit(" ", 1) if _names_its_result(part) else [part]
        kind, alias, writes = _type(words[0].strip(), where)
        unnamed = "result" if len(parts) == 1 else f"result{i}"
        found.append(Return(words[1] if len(words) == 2 else unnamed, kind, alias, writes))
    return tuple(found)


def _names_its_result(text: str) -> bool:
    return re.search(r"[\])?\w]\s+\w+$", text) is not None and not text.endswith(")")

"""Operators: one for each row (`ad.ops.add.Tensor`), and packets of overloads (`ad.ops.add`).

The function of an operator is generated on first use by the builder that `runtime` holds. A packet
remembers which overload a combination of argument types led to, so a repeated choice costs one
look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Signature
from typing import Any

from adjoint.core.errors import ArgumentError, MissingOperator
from adjoint.core.remembering import cached_property
from adjoint.ops import arguments, former, runtime, signatures
from adjoint.ops.documentation import Documentation
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.table.schema import RENAMED, Schema, parse


class Operator:
    """One overload of an operator, callable; everything known of it hangs on `row`."""

    def __init__(self, row: Row, schema: Schema | None = None) -> None:
        self.row = row
        self.schema = schema or row.schema  # differs from the row's for a derived in-place variant
        self.name = self.schema.name
        self.full_name = self.schema.full_name
        self.written = ""  # the Python text of its functions, as far as they are built

    @property
    def is_derived_inplace(self) -> bool:
        """Whether this is `name_`, made from the row of `name`."""
        return self.schema is not self.row.schema

    @cached_property
    def function(self) -> Callable[..., Any]:
        return runtime.build(self)

    @cached_property
    def parts(self) -> Any:
        """The operator in two steps, `compute` (arrays from tensors) and `record` (the node)."""
        return runtime.build_parts(self)

    @property
    def source(self) -> str:
        """The Python text that runs when the operator is called."""
        _ = self.function  # writes it
        return self.written

    @cached_property
    def __signature__(self) -> Signature:
        """The signature for `inspect`, also of `function`, which wraps the operator."""
        return signatures.merged([self.schema])

    @cached_property
    def positional(self) -> int:
        """How many arguments may be given by position."""
        return sum(not a.keyword_only for a in self.schema.arguments)

    @cached_property
    def wanted(self) -> arguments.Wanted:
        """The types of its arguments that need no conversion."""
        return arguments.wanted(self.schema)

    @cached_property
    def takes_place(self) -> bool:
        """Whether it can be told where a new tensor lives."""
        return any(a.name in ("device", "layout", "pin_memory") for a in self.schema.arguments)

    def call(self, values: Sequence[Any]) -> Any:
        """Call with one value for each argument of the schema, in its order."""
        count = self.positional
        if count == len(values):
            return self.function(*values)
        names = (f"{n}_" if n in RENAMED else n for n in self.schema.names[count:])
        return self.function(*values[:count], **dict(zip(names, values[count:], strict=True)))

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        return self.function(*args, **keywords)

    def __repr__(self) -> str:
        return f"<operator {self.full_name}>"

    def __reduce__(self) -> Any:
        return operator, (self.schema.name, self.schema.overload)


class Packet:
    """All overloads of one name; calling it chooses by the arguments."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.name = name
        self._operators: dict[str, Operator] = {}

    def overloads(self) -> list[str]:
        """The overload names; the unnamed one is 'default'."""
        return [o or "default" for o in _overload_names(self.name)]

    def __getattr__(self, overload: str) -> Operator:
        if overload.startswith("__"):
            raise AttributeError(overload)
        found = operator(self.name, "" if overload == "default" else overload)
        setattr(self, overload, found)
        return found

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        return tuple(operator(self.name, o) for o in _overload_names(self.name))

    @cached_property
    def __signature__(self) -> Signature:
        """A signature that calls of all overloads fit; `signatures.overloads` has each."""
        return signatures.merged([o.schema for o in self.operators])

    @cached_property
    def function(self) -> Callable[..., Any]:
        only = self.operators[0]
        single = len(self.operators) == 1 and arguments.spreads(only.schema) is None
        function = only.function if single else _chooser(self)
        function.__name__ = function.__qualname__ = self.name
        function.__module__ = "adjoint"  # where users, and pickle, find it
        return function

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        return self.function(*args, **keywords)

    def __repr__(self) -> str:
        return f"<operator {self.name}: {', '.join(self.overloads())}>"

    def __reduce__(self) -> Any:
        return packet, (self.name,)


_PLAIN = frozenset((int, bool, float, str, type(None)))  # types whose values do not matter


# Annotations of functions that wrap an operator; typing.get_type_hints could not resolve theirs.
HINTS = {"args": Any, "keywords": Any, "return": Any}


def _chooser(packet: Packet) -> Callable[..., Any]:
    chosen: dict[Any, Callable[..., Any]] = {}

    def choose_and_call(*args: Any, **keywords: Any) -> Any:
        key = tuple(map(type, args))
        if not keywords:
            if (function := chosen.get(key)) is not None:
                return function(*args)
        elif _PLAIN.issuperset(kinds := tuple(map(type, keywords.values()))):
            named = (key, *keywords, *kinds)
            if (function := chosen.get(named)) is not None:
                return function(*args, **keywords)
            if list not in key and tuple not in key:
                function = chosen[named] = _choose(packet, args, keywords)
                return function(*args, **keywords)
        if keywords or list in key or tuple in key:
            key = _key(args, keywords)
            if (function := chosen.get(key)) is not None:
                return function(*args, **keywords)
        function = chosen[key] = _choose(packet, args, keywords)
        return function(*args, **keywords)

    choose_and_call.__wrapped__ = packet  # type: ignore[attr-defined] - inspect.signature asks it
    choose_and_call.__annotations__ = HINTS
    choose_and_call.__doc__ = Documentation(packet.name, lambda: packet.operators)
    return choose_and_call


def _key(args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    kinds = [_kind(a) for a in args]
    return (*kinds, *((k, _kind(v)) for k, v in keywords.items()))


def _kind(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return (type(value), *{type(v) for v in value})
    if isinstance(value, runtime.Tensor):
        return (type(value), value.ndim == 0, value.dtype.category)
    return type(value)


def _choose(packet: Packet, args: tuple[Any, ...], keywords: dict[str, Any]) -> Callable[..., Any]:
    for lenient in arguments.LENIENCY:
        for candidate in packet.operators:
            if arguments.match(candidate.schema, args, keywords, lenient=lenient):
                return _spreading(candidate, args)
    if (earlier := former.overload_of(packet, args)) is not None:
        return earlier
    given = [arguments.describe(a) for a in args] + [
        f"{k}={arguments.describe(v)}" for k, v in keywords.items()
    ]
    known = "\n".join(f"  {o.schema}" for o in packet.operators)
    raise ArgumentError(f"{packet.name}({', '.join(given)}) fits none of its signatures:\n{known}")


def _spreading(candidate: Operator, args: tuple[Any, ...]) -> Callable[..., Any]:
    function = candidate.function
    start = arguments.spreads(candidate.schema)
    if start is None or len(args) <= start or isinstance(args[start], (list, tuple, range)):
        return function

    def spread(*args: Any, **keywords: Any) -> Any:
        return function(*args[:start], args[start:], **keywords)

    return spread


def _overload_names(name: str) -> list[str]:
    found = _known_overloads(name)
    if not found:
        TABLE.overloads(name)  # raises, with similar names
        raise MissingOperator(f"{name[:-1]} has no in-place variant")
    return found


def _known_overloads(name: str) -> list[str]:
    """The overloads of a name or of the name it derives from (`sin_` from `sin`); perhaps none."""
    own = TABLE.overloads(name) if name in TABLE else []
    if name.endswith("_") and name[:-1] in TABLE:
        own += [
            o
            for o in TABLE.overloads(name[:-1])
            if o not in own and TABLE.row(name[:-1], o).inplace
        ]
    return own


_PACKETS: dict[str, Packet] = {}
_OPERATORS: dict[tuple[str, str], Operator] = {}


def packet(name: str) -> Packet:
    """Return the packet of `name`, or raise `MissingOperator`."""
    found = _PACKETS.get(name)
    if found is None:
        _overload_names(name)
        found = _PACKETS[name] = Packet(name)
    return found


def operator(name: str, overload: str = "") -> Operator:
    """Return one overload of an operator."""
    key = (name, overload)
    found = _OPERATORS.get(key)
    if found is None:
        found = _OPERATORS[key] = _make(name, overload)
    return found


def _make(name: str, overload: str) -> Operator:
    if name.endswith("_") and (name not in TABLE or overload not in TABLE.overloads(name)):
        base = name[:-1]
        if (
            base in TABLE
            and overload in TABLE.overloads(base)
            and (row := TABLE.row(base, overload)).inplace
        ):
            return Operator(row, _inplace_schema(row))
    return Operator(TABLE.row(name, overload))


def _inplace_schema(row: Row) -> Schema:
    text = row.schema.text.replace(f"{row.schema.name}", f"{row.schema.name}_", 1)
    head, _, _ = text.rpartition("->")
    return parse(head.replace("Tensor self", "Tensor(a!) self", 1) + "-> Tensor(a!)")


def exists(name: str) -> bool:
    """Whether the table has `name`, or an in-place variant of that name follows from it."""
    return name in _PACKETS or bool(_known_overloads(name))


def forget(name: str) -> None:
    """Drop the functions of an operator that left the table, and of its in-place variant."""
    for known in (name, f"{name}_"):
        _PACKETS.pop(known, None)
        for key in [k for k in _OPERATORS if k[0] == known]:
            del _OPERATORS[key]

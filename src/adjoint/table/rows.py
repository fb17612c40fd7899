"""Rows: one operator each, parsed from a block of YAML on first use.

`Row` holds what the table says of an operator and nothing else: texts of kernel, shape rule and
decomposition, checked formulas, and what each formula needs saved. Other layers turn these into
functions. A mistake in a row raises `TableError` with `file:line`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import yaml

from adjoint.core.errors import TableError
from adjoint.table import formula as language
from adjoint.table import schema as schemas
from adjoint.table.archetypes import ARCHETYPES, NOT_PROMOTED, Archetype
from adjoint.table.formula import Formula, Location
from adjoint.table.schema import Argument, Schema

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_COLUMNS = frozenset((
    "name", "like", "kernel", "shape", "promote", "decompose", "inplace", "doc", "domain",
    "output_differentiability", "dispatch", "batch", "numbers", "order", "kink",
    "fan",
))  # fmt: skip
_WORDS = ("non_differentiable", "zero", "not_implemented")
AUTOMATIC = ("auto_linear", "auto_element_wise")


@dataclass(frozen=True)
class Reverse:
    """One reverse formula and the inputs it serves."""

    inputs: tuple[str, ...]  # ("self", "other")
    formula: Formula | None  # None where `word` says it all
    word: str = ""  # "non_differentiable" or "not_implemented"
    reason: str = ""  # of not_implemented


@dataclass(frozen=True)
class Forward:
    """One forward formula and the output it serves."""

    output: str  # "result"
    formula: Formula | None
    automatic: str = ""  # "auto_linear", "auto_element_wise"


@dataclass(frozen=True)
class Source:
    """Where a row stands, before it is parsed."""

    family: str  # "pointwise"
    where: Location
    text: str
    name: str  # "add"
    overload: str  # "Tensor"


@dataclass(frozen=True)
class Row:
    """Everything the table says of one operator."""

    schema: Schema
    family: str
    where: Location
    archetype: Archetype
    kernel: str  # "xp.tanh", an expression, or ""
    shape: str  # "linalg.solve", or ""
    promote: Any  # list of argument names, or a word such as "sum"; None where not given
    decompose: str  # "self * self.sigmoid()", or ""
    inplace: bool  # whether `name_` follows from this row
    doc: str
    domain: str  # where the samples of a pointwise row lie: "positive", "unit", …
    reverse: tuple[Reverse, ...]
    forward: tuple[Forward, ...]
    differentiable_outputs: tuple[bool, ...]
    texts: Mapping[str, str] = field(default_factory=dict)  # every column as written
    lines: Mapping[str, int] = field(default_factory=dict)  # line of each column
    dispatch: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<row {self.full_name}>"

    @property
    def full_name(self) -> str:
        return self.schema.full_name

    @property
    def name(self) -> str:
        return self.schema.name

    @cached_property
    def primitive(self) -> bool:
        """Whether the row stands on its own, without a decomposition."""
        return not self.decompose

    @cached_property
    def differentiable(self) -> tuple[Argument, ...]:
        """The inputs that have a derivative, in the order of the schema."""
        named = {n for r in self.reverse if r.formula is not None for n in r.inputs}
        if not self.reverse:
            named = {n for f in self.forward if f.formula for n in self._tangents(f.formula)}
            if any(f.automatic for f in self.forward):
                named = {a.name for a in self.schema.tensors}
        return tuple(a for a in self.schema.tensors if a.name in named)

    @cached_property
    def refused(self) -> Mapping[str, Reverse]:
        """Inputs that say non_differentiable or not_implemented."""
        return {n: r for r in self.reverse if r.word for n in r.inputs}

    @cached_property
    def promoted(self) -> tuple[Argument, ...]:
        """The arguments that are brought to one dtype before the kernel runs."""
        if not self.archetype.promotes:
            return ()
        chosen = self.promote
        return tuple(
            a
            for a in self.schema.arguments
            if a.type.base in ("Tensor", "Scalar")
            and not a.type.is_list
            and (a.name in chosen if isinstance(chosen, list) else a.name not in NOT_PROMOTED)
        )

    def _tangents(self, formula: Formula) -> set[str]:
        return {a.name for a in self.schema.tensors if f"{a.name}_t" in formula.names}


def load(source: Source) -> Row:
    """Parse one block of YAML into a row."""
    return _Reader(source).row()


class _Reader:
    """Reads one block; knows the line of each key."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.values: dict[str, Any] = {}
        self.lines: dict[str, int] = {}
        try:
            node = yaml.compose(source.text, Loader=_Loader)
        except yaml.YAMLError as error:
            raise TableError(f"{source.where}: not YAML: {error}") from None
        entry = node.value[0] if isinstance(node, yaml.SequenceNode) and node.value else None
        if not isinstance(entry, yaml.MappingNode):
            raise TableError(f"{source.where}: a row is a mapping that starts with '- name:'")
        constructor = _Loader("")
        for key, value in entry.value:
            name = str(key.value)
            if name in self.values:
                raise TableError(f"{self._at(key)}: duplicate key {name!r}")
            self.values[name] = constructor.construct_object(value, deep=True)
            self.lines[name] = source.where.line + key.start_mark.line

    def _at(self, key: yaml.Node) -> Location:
        return Location(self.source.where.path, self.source.where.line + key.start_mark.line)

    def where(self, column: str) -> Location:
        return Location(self.source.where.path, self.lines.get(column, self.source.where.line))

    def row(self) -> Row:
        values = self.values
        try:
            schema = schemas.parse(values["name"])
        except TableError as error:
            raise TableError(f"{self.where('name')}: {error}") from None
        like = values.get("like", "none")
        if like not in ARCHETYPES:
            raise TableError(
                f"{self.where('like')}: no archetype {like!r}; there are {', '.join(ARCHETYPES)}"
            )
        archetype = ARCHETYPES[like]
        self.schema = schema
        formulas = self._formulas_of_default(values)
        reverse, forward = self._formulas(formulas)
        self._check_grad_style(reverse)
        return Row(
            schema=schema,
            family=self.source.family,
            where=self.where("name"),
            archetype=archetype,
            kernel=str(values.get("kernel", "")),
            shape=str(values.get("shape", "")),
            promote=values.get("promote"),
            decompose=str(values.get("decompose", "")),
            inplace=bool(values.get("inplace", archetype.inplace and not schema.mutates)),
            doc=str(values.get("doc", "")),
            domain=str(values.get("domain", "")),
            reverse=reverse,
            forward=forward,
            differentiable_outputs=self._differentiable_outputs(reverse),
            texts={k: str(v) for k, v in values.items()},
            lines=self.lines,
            dispatch=values.get("dispatch", {}),
        )

    def _formulas_of_default(self, values: dict[str, Any]) -> dict[str, Any]:
        formulas = {k: v for k, v in values.items() if k not in _COLUMNS}
        default = values.get("dispatch", {}).get("Default")
        if default:
            for key in default:
                self.lines.setdefault(key, self.lines["dispatch"])
            formulas |= default
        return formulas

    def _formulas(self, columns: dict[str, Any]) -> tuple[tuple[Reverse, ...], tuple[Forward, ...]]:
        inputs = {a.name for a in self.schema.arguments}
        outputs = {r.name for r in self.schema.returns} | {"result"}
        outputs |= {f"result{i}" for i in range(len(self.schema.returns))}
        reverse: list[Reverse] = []
        forward: list[Forward] = []
        served: set[str] = set()
        for key, value in columns.items():
            names = tuple(n.strip() for n in key.split(","))
            if all(n in inputs for n in names):
                if repeated := served & set(names):
                    raise TableError(
                        f"{self.where(key)}: a second formula for {', '.join(repeated)}"
                    )
                served |= set(names)
                reverse.append(self._reverse(key, names, str(value)))
            elif all(n in outputs for n in names):
                forward.extend(self._forward(key, n, str(value)) for n in names)
            else:
                wrong = next(n for n in names if n not in inputs | outputs)
                raise TableError(
                    f"{self.where(key)}: {wrong!r} is neither a column, nor an argument or "
                    "output of "
                    f"{self.schema.text!r}"
                )
        return tuple(reverse), tuple(forward)

    def _reverse(self, key: str, names: tuple[str, ...], text: str) -> Reverse:
        for name in names:
            if not self.schema.argument(name).type.is_tensor:
                raise TableError(
                    f"{self.where(key)}: {name!r} is not a tensor in {self.schema.text!r}"
                )
        if text == "non_differentiable":
            return Reverse(names, None, text)
        if text.startswith("not_implemented"):
            return Reverse(
                names, None, "not_implemented", text[len("not_implemented") :].strip("()'\" ")
            )
        if text == "zero":
            zeros = ", ".join(f"zeros({n}.shape, dtype={n}.dtype)" for n in names)
            text = f"({zeros})" if len(names) > 1 else zeros
        return Reverse(names, self._parse(key, text, forward=False))

    def _forward(self, key: str, output: str, text: str) -> Forward:
        if output == "result" and len(self.schema.returns) == 1:
            output = self.schema.returns[0].name
        elif output.startswith("result") and output[6:].isdigit():
            output = self.schema.returns[int(output[6:])].name
        if text in AUTOMATIC:
            return Forward(output, None, text)
        return Forward(output, self._parse(key, text, forward=True))

    def _parse(self, key: str, text: str, *, forward: bool) -> Formula:
        tensors = {a.name for a in self.schema.tensors if not a.type.is_list}
        if forward:
            tensors = {f"{n}_p" for n in tensors} | {f"{n}_t" for n in tensors}
        results = {r.name for r in self.schema.returns if not r.type.is_list} | {"result"}
        results |= {f"result{i}" for i in range(len(self.schema.returns))}
        if forward:
            return language.parse(text, self.where(key), set())
        lists = {a.name for a in self.schema.tensors if a.type.is_list and not a.type.holds_none}
        return language.parse(text, self.where(key), tensors | results, lists)

    def _check_grad_style(self, reverse: tuple[Reverse, ...]) -> None:
        styles: dict[str, str] = {}
        names = {f"grad_{r.name}" for r in self.schema.returns}
        arguments = set(self.schema.names)
        for entry in reverse:
            used = (entry.formula.names if entry.formula else frozenset()) - arguments
            for style, present in (
                ("grad", "grad" in used),
                ("grads", "grads" in used),
                ("grad_<output>", bool(names & used)),
            ):
                if present:
                    styles[style] = entry.inputs[0]
        if len(styles) > 1:
            raise TableError(
                f"{self.where(','.join(styles.values()))}: mixes {' and '.join(styles)}; choose one"
            )

    def _differentiable_outputs(self, reverse: tuple[Reverse, ...]) -> tuple[bool, ...]:
        given = self.values.get("output_differentiability")
        count = len(self.schema.returns)
        if given is not None:
            if len(given) != count:
                raise TableError(
                    f"{self.where('output_differentiability')}: {len(given)} booleans for "
                    f"{count} outputs"
                )
            return tuple(bool(v) for v in given)
        used = {n for r in reverse if r.formula is not None for n in r.formula.names}
        if "grad" in used and not any(
            n == "grads" or n.startswith("grad_") for n in used - set(self.schema.names)
        ):
            return tuple(i == 0 for i in range(count))
        return (True,) * count


def is_reference(text: str, names: tuple[str, ...] = ()) -> bool:
    """Whether a column is a dotted name in a module (`xp.tanh`) and not an expression in arguments.

    >>> is_reference("reduction.sum"), is_reference("self.real", ("self",)), is_reference("-x")
    (True, False, False)
    """
    parts = text.split(".")
    return len(parts) > 1 and all(p.isidentifier() for p in parts) and parts[0] not in names

"""Rows: one operator each, with the facts that follow from its columns.

`Row` holds the columns of an operator and nothing else: texts of kernel, shape rule and
decomposition, checked formulas, facts. Other layers turn these into functions. `reading.py` makes
rows of YAML; rows that an earlier process read are restored from bytes.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, ClassVar

from adjoint.core.dtypes import DEFAULT, FLOAT, DType
from adjoint.core.promotion import result_type
from adjoint.core.records import record
from adjoint.core.remembering import cached_property
from adjoint.table import schema as schemas
from adjoint.table.archetypes import NOT_PROMOTED, Archetype
from adjoint.table.formula import Formula, Location
from adjoint.table.schema import Argument, Schema

MAPPED = "_foreach_"  # starts the names of rows that map an operator over lists
KINDS = ("bool", "whole", "real", "complex")  # of numbers, by the category of their dtype


@record
class Reverse:
    """One reverse formula and the inputs it serves."""

    inputs: tuple[str, ...]  # ("self", "other")
    formula: Formula | None  # None if there is no derivative
    word: str = ""  # "zero", "non_differentiable" or "not_implemented"
    reason: str = ""  # of not_implemented


@record
class ForwardFormula:
    """One forward formula and the output it serves."""

    output: str  # "result"
    formula: Formula | None
    automatic: str = ""  # one of AUTOMATIC, where the formula is derived


@record
class Row:
    """The columns of one operator, and facts derived from them."""

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
    domain: str  # the range of samples of a pointwise row: "positive", "unit", …
    element: Mapping[str, str]  # of the result, by kind: {"real": "exp@(self)"}
    reverse: tuple[Reverse, ...]
    forward: tuple[ForwardFormula, ...]
    differentiable_outputs: tuple[bool, ...]
    texts: Mapping[str, str] = field(default_factory=dict)  # every column as written
    lines: Mapping[str, int] = field(default_factory=dict)  # line of each column
    dispatch: Mapping[str, Any] = field(default_factory=dict)
    module: Any = None  # the user's kernels, for a row of his own
    places: Mapping[str, Location] = field(default_factory=dict)  # of each column's text
    prepared_as: ClassVar[str] = ""  # "add.Tensor" if functions of this row are kept on disk

    def __repr__(self) -> str:
        return f"<row {self.full_name}>"

    @property
    def maps(self) -> str:
        """The operator that a row applies to every entry of lists: "sin"; "" for other rows."""
        return self.schema.name.removeprefix(MAPPED) if self.archetype.maps else ""

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
        return {n: r for r in self.reverse if r.formula is None for n in r.inputs}

    @cached_property
    def flat(self) -> frozenset[str]:
        """Inputs that say zero."""
        return frozenset(n for r in self.reverse if r.word == "zero" for n in r.inputs)

    def passes_on(self, inputs: list[str]) -> bool:
        """Whether the derivative in these inputs is the identity: their reverse formula is grad."""
        texts = {n: r.formula.text for r in self.reverse if r.formula for n in r.inputs}
        return all(texts[n] == "grad" for n in inputs)

    @cached_property
    def selects(self) -> str:
        """ "some" or "all" if the operator only selects, moves and adds elements: how many of the
        inputs' elements it uses. "" if it computes more. Follows from other facts, if the column is
        not set.
        """
        if "selects" in self.texts:
            return self.texts["selects"]
        if self.reverse and all(r.word == "zero" for r in self.reverse):
            return "some"
        moves = self.schema.is_view or self.archetype.shape == "view" or "moves" in self.texts
        adds = "sum" in (self.texts.get("reduces"), self.texts.get("accumulates"))
        same = self.reverse and self.passes_on([a.name for a in self.differentiable])
        all_used = moves or adds or self.texts.get("reduces") == "mean"
        return "all" if all_used or (same and not self.archetype.promotes) else ""

    @cached_property
    def promoted(self) -> tuple[Argument, ...]:
        """The arguments that are converted to one dtype before the kernel runs."""
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

    @cached_property
    def names_kernel(self) -> bool:
        """Whether the kernel is the name of a function, `xp.tanh`, and not an expression."""
        return is_reference(self.kernel, tuple(a.name for a in self.schema.tensors))

    @cached_property
    def names_decomposition(self) -> bool:
        """Whether the decomposition is the name of a function."""
        return is_reference(self.decompose, tuple(a.name for a in self.schema.tensors))

    @cached_property
    def undecided(self) -> tuple[str, ...]:
        """The tensor inputs about whose derivative the row says nothing."""
        if self.decompose or not any(self.differentiable_outputs):
            return ()
        if self.archetype.result == "bool" or not self.schema.returns:
            return ()
        said = {n for r in self.reverse for n in r.inputs}
        if not self.reverse:
            said = {a.name for a in self.differentiable}
        return tuple(a.name for a in self.schema.tensors if a.name not in said)

    def prepared_key(self, *words: str) -> str:
        """The name under which code of this row is prepared; empty if it is not."""
        return " ".join((self.prepared_as, *words)) if self.prepared_as else ""

    # -- facts that passes and the compiler ask for -----------------------------------------------

    @cached_property
    def widens(self) -> bool:
        """Whether derivatives and decomposition of float16 and bfloat16 are computed in float32, as
        for elementwise rows and with `computes: wide`. Note [Narrow derivatives] in tape/narrow.py.
        """
        returned = self.schema.returns
        if len(returned) != 1 or returned[0].type.is_list:
            return False
        elementwise = self.archetype.promotes and self.archetype.result == "same"
        return (elementwise and not self.selects) or "computes" in self.texts

    @cached_property
    def computes_wide(self) -> bool:
        """Whether the kernel, which knows of no halves, is given float32 in their place, and its
        result is rounded: `computes: wide`. One that is told the dtype of its result rounds itself.
        """
        asked = {"dtype", "half_to_float"}.intersection(self.schema.names)
        return "computes" in self.texts and self.names_kernel and not asked

    @cached_property
    def creates(self) -> bool:
        """Whether the operator makes a new tensor or a copy, which may be written to inside the
        transform that made it.
        """
        creation = self.archetype.name == "creation"
        return creation or self.texts.get("creates", "").lower() == "true"

    @cached_property
    def dtypes(self) -> frozenset[str]:
        """The kinds of numbers that the kernel computes in: {"real"}; empty if nothing says it.

        Without the column these are the kinds of the element, and bool with integers.
        """
        said = frozenset(self.texts["dtypes"].split() if "dtypes" in self.texts else self.element)
        return said | {"bool"} if "whole" in said and "dtypes" not in self.texts else said

    @cached_property
    def random(self) -> bool:
        """Whether running the operator twice gives two results."""
        takes = any(a.type.base == "Generator" for a in self.schema.arguments)
        return takes or self.texts.get("random", "").lower() == "true"

    @cached_property
    def former(self) -> str:
        """Argument orders of old programs: "beta self mat vec | self beta mat vec"."""
        return self.texts.get("former", "")

    @cached_property
    def moves(self) -> str:
        """How the result, if it holds elements of the first tensor only, differs from it:
        "nothing"; "ones", dimensions of size 1 come or go; "shape", with the same order;
        "elements", which are moved, repeated or left out.
        """
        return self.texts.get("moves", "")

    @cached_property
    def keeps_order(self) -> bool:
        """Whether the result holds all elements in the same order, perhaps in another shape."""
        return self.moves in ("ones", "shape")

    @cached_property
    def fills(self) -> str:
        """The value of every element of the result: "0", or the name of an argument."""
        return self.texts.get("fills", "")

    @cached_property
    def reduces(self) -> str:
        """How many elements become one, along `dim` or all: "sum"."""
        return self.texts.get("reduces", "")

    @cached_property
    def accumulates(self) -> str:
        """The running totals along `dim` that the result holds: "sum"."""
        return self.texts.get("accumulates", "")

    @cached_property
    def product(self) -> str:
        """The matrices that are multiplied: "mat1 @ mat2"."""
        return self.texts.get("product", "")

    @cached_property
    def is_product(self) -> bool:
        """Whether the operator multiplies its matrices and does nothing else."""
        return self.product.split(" @ ") == [a.name for a in self.schema.tensors]

    @cached_property
    def routine(self) -> str:
        """The routine of the operator in compiled programs, products apart: "cholesky"."""
        return self.texts.get("routine", "")

    @cached_property
    def requires(self) -> str:
        """The boolean argument that must hold, or a compiled program gives up the call."""
        return self.texts.get("requires", "")

    @cached_property
    def overwrites(self) -> str:
        """The view of the part of the first tensor that the second replaces: "slice.Tensor"."""
        return self.texts.get("overwrites", "")

    @cached_property
    def identities(self) -> Mapping[str, float]:
        """Arguments with the number that makes the result the other argument: {"other": 1.0}."""
        pairs = (pair.split("=") for pair in self.texts.get("identity", "").split(",") if pair)
        return {name.strip(): float(number) for name, number in pairs}

    @cached_property
    def linear(self) -> tuple[str, ...]:
        """The arguments in which the operator is linear, each taken alone, element by element."""
        return tuple(n.strip() for n in self.texts.get("linear", "").split(",") if n)

    @cached_property
    def reads_memory(self) -> bool:
        """Whether the result depends on the strides of the argument."""
        return "reads" in self.texts

    @cached_property
    def undoes_itself(self) -> bool:
        """Whether the operator applied twice returns its argument."""
        return "undoes" in self.texts

    def place(self, column: str) -> Location:
        """The location of a column's text; of the row if it lacks the column."""
        return self.places.get(column, self.where)

    @cached_property
    def promoted_tensors(self) -> tuple[str, ...]:
        """The names of the tensors among the promoted arguments."""
        return tuple(a.name for a in self.promoted if a.type.is_tensor)

    @cached_property
    def has_wide_numbers(self) -> bool:
        """Whether a number or a 0-d tensor next to halves stays float32, the dtype of the
        computation: `numbers: wide`.
        """
        return self.texts.get("numbers") == "wide"

    def computes_in(self, operands: Mapping[str, Any]) -> DType | None:
        """The dtype to which the promoted arguments are converted before the kernel runs.

        An operand is an array, a Spec, a number, or None where the argument is absent; the answer
        is None if no promoted argument is given.
        """
        given = [operands[a.name] for a in self.promoted if operands[a.name] is not None]
        if not given:
            return None
        dtype = result_type(*given)
        return DEFAULT.dtype if self.archetype.to_float and dtype.category < FLOAT else dtype

    def _tangents(self, formula: Formula) -> set[str]:
        return {a.name for a in self.schema.tensors if f"{a.name}_t" in formula.names}


def prepare(row: Row) -> bytes:
    """A row of our own table as bytes."""
    return pickle.dumps(row, pickle.HIGHEST_PROTOCOL)


def restore(content: bytes) -> Row:
    """The row from the bytes of `prepare`."""
    return _Unpickler(io.BytesIO(content)).load()


class _Unpickler(pickle.Unpickler):
    """Unpickles records of the table and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        known = {c.__name__: c for c in _RECORDS if c.__module__ == module}
        if name not in known:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a row")
        return known[name]


_RECORDS: tuple[type, ...] = (
    Row, Reverse, ForwardFormula, Formula, Location, Archetype,
    Schema, schemas.Argument, schemas.Return, schemas.SchemaType,
)  # fmt: skip


def written_over(row: Row) -> Row:
    """The row of `_foreach_sin_`, which overwrites every entry, from that of `_foreach_sin`."""
    head, _, _ = row.schema.text.rpartition("->")
    head = head.replace(row.name, f"{row.name}_", 1).replace("Tensor[]", "Tensor(a!)[]", 1)
    schema = schemas.parse(f"{head}-> ()")
    return replace(row, schema=schema, decompose=f"{row.decompose}_", differentiable_outputs=())


def is_reference(text: str, names: tuple[str, ...] = ()) -> bool:
    """Whether a column is a dotted name in a module (`xp.tanh`) and not an expression in arguments.

    >>> is_reference("reduction.sum"), is_reference("self.real", ("self",)), is_reference("-x")
    (True, False, False)
    """
    parts = text.split(".")
    return len(parts) > 1 and all(p.isidentifier() for p in parts) and parts[0] not in names

"""The values that the tape must save for a row, read off its formulas.

A name that no formula uses is not saved. If formulas use only `.shape`, `.dtype`, … of a tensor,
that fact is saved and not the tensor. A tensor that only one input's formula uses is saved only if
that input needs a gradient.
"""

from __future__ import annotations

from adjoint.core.records import record
from adjoint.core.remembering import remembered
from adjoint.table.formula import FACT_METHODS, FACTS, Formula
from adjoint.table.rows import Reverse, Row

TENSOR, TENSORS, VALUE, RESULT, FACT = "tensor", "tensors", "value", "result", "fact"


@record
class Save:
    """One entry of a node's saved values."""

    name: str  # its name in the formula: "self", "result", "self__shape"
    kind: str  # TENSOR, TENSORS, VALUE, RESULT, FACT
    source: str  # the argument or output that it comes from: "self"
    number: int  # of the output, for RESULT and facts of results; else -1
    users: frozenset[str]  # inputs whose formulas use it
    condition: str = ""  # of wrap_opt_if
    narrow: bool = False  # saved for narrow dtypes only: Note [Narrow derivatives]


@remembered
def grad_names(row: Row) -> dict[str, int]:
    """The names under which formulas may ask for output gradients; -1 stands for all, `grads`."""
    first = next((i for i, d in enumerate(row.differentiable_outputs) if d), 0)
    names = {"grad": first, "grads": -1}
    names |= {f"grad_{r.name}": i for i, r in enumerate(row.schema.returns)}
    return {n: i for n, i in names.items() if n not in row.schema.names}


@remembered
def result_names(row: Row) -> dict[str, int]:
    """The names under which formulas may ask for outputs."""
    returns = row.schema.returns
    names = {f"result{i}": i for i in range(len(returns))} | {
        r.name: i for i, r in enumerate(returns)
    }
    if len(returns) == 1:
        names["result"] = 0
    arguments = set(row.schema.names)
    return {n: i for n, i in names.items() if n not in arguments}


def saves_of(row: Row) -> tuple[Save, ...]:
    """The values that the reverse formulas of a row need saved, in a fixed order."""
    found: dict[str, Save] = {}
    for entry in row.reverse:
        if entry.formula is None:
            continue
        for name in sorted(entry.formula.names):
            save = _save(row, entry, entry.formula, name)
            if save is not None:
                known = found.get(name)
                found[name] = save if known is None else _merge(known, save)
    return tuple(found.values())


def all_saves(row: Row) -> tuple[Save, ...]:
    """All arguments and results: for rows whose reverse is derived from the forward formula."""
    users = frozenset(a.name for a in row.differentiable)
    arguments = [_argument(row, a.name, users, "") for a in row.schema.arguments]
    results = [
        Save(r.name, RESULT, r.name, i, users)
        for i, r in enumerate(row.schema.returns)
        if r.type.is_tensor
    ]
    return (*arguments, *results)


def _merge(a: Save, b: Save) -> Save:
    condition = a.condition if a.condition == b.condition else ""
    return Save(a.name, a.kind, a.source, a.number, a.users | b.users, condition)


def _save(row: Row, entry: Reverse, formula: Formula, name: str) -> Save | None:
    users = frozenset(entry.inputs)
    condition = formula.conditions.get(name, "")
    if name in row.schema.names:
        return _argument(row, name, users, condition)
    results = result_names(row)
    if name in results:
        return Save(name, RESULT, name, results[name], users, condition)
    source, divider, fact = name.rpartition("__")
    if (
        divider
        and fact in FACTS | FACT_METHODS
        and (source in row.schema.names or source in results)
    ):
        return Save(
            name,
            FACT,
            source,
            results.get(source, -1) if source not in row.schema.names else -1,
            users,
        )
    return None


def _argument(row: Row, name: str, users: frozenset[str], condition: str) -> Save:
    kind = row.schema.argument(name).type
    if kind.is_tensor:
        return Save(name, TENSORS if kind.is_list else TENSOR, name, -1, users, condition)
    return Save(name, VALUE, name, -1, users, condition)


def reverse_parameters(row: Row) -> frozenset[str]:
    """The names that reverse formulas of a row may use: its parameters when they are compiled."""
    names = {*row.schema.names, *grad_names(row), *result_names(row)}
    tensors = {a.name for a in row.schema.tensors} | result_names(row).keys()
    facts = {f"{n}__{fact}" for n in tensors for fact in FACTS | FACT_METHODS}
    return frozenset(names | facts | {"grad_input_mask", "retain_variables"})


def forward_parameters(row: Row) -> frozenset[str]:
    """The names that forward formulas of a row may use: its parameters when they are compiled."""
    names = {*row.schema.names, *result_names(row), "retain_variables"}
    tangents = {f"{a.name}{end}" for a in row.schema.tensors for end in ("_t", "_p")}
    return frozenset(names | tangents)

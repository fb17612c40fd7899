"""What there is to say about an operator, as plain data: the rows, formulas, modes, laws, errors.

Compiling a sample and running laws takes a minute or two for the whole table, so the answers are
kept in docs/_build under a hash of the package and found there until a file of it changes.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import re
import textwrap
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import adjoint
from adjoint.cli import coverage, where
from adjoint.core.dtypes import float64
from adjoint.ops import binding
from adjoint.table import TABLE, examples, modules_in
from adjoint.table.rows import Row
from adjoint.testing import laws
from adjoint.testing.closeness import Worst

Fact = dict[str, Any]
ROOT = Path(__file__).parents[2]
PACKAGE = Path(adjoint.__file__).parent
SAMPLES = 2  # on which laws are run for a page
LONGEST = 40  # lines of a function that is shown


def of(name: str, measured: dict[str, Fact] | None = None) -> Fact:
    """Everything about an operator and its overloads; `measured` has what takes long."""
    rows = [TABLE.row(name, overload) for overload in TABLE.overloads(name)]
    example = examples.of(rows[0].family, name)
    return {
        "name": name,
        "family": rows[0].family,
        "called": called(name),
        "sentence": rows[0].doc or example.sentence,
        "example": example.lines,
        "rows": [
            _row(row) | ((measured or {}).get(row.full_name) or _measured(row)) for row in rows
        ],
    }


def called(name: str) -> str:
    """How an operator is spelled: `ad.linalg.svd`.

    >>> called("linalg_svd"), called("sin"), called("_softmax"), called("float")
    ('ad.linalg.svd', 'ad.sin', 'ad.ops._softmax', 'ad.Tensor.float')
    """
    if name.startswith("_"):
        return f"ad.ops.{name}"
    taken = getattr(adjoint, name)  # by a dtype, a module, or the tracer
    if not callable(taken) or taken.__module__.startswith("adjoint.graph"):
        return f"ad.{'Tensor' if hasattr(adjoint.Tensor, name) else 'ops'}.{name}"
    return "ad." + re.sub(r"^(linalg|special|fft)_", r"\1.", name)


def _row(row: Row) -> Fact:
    source = TABLE._sources[row.name][row.schema.overload]
    answers = {question: answer(row) for question, answer in coverage.QUESTIONS.items()}
    return {
        "full_name": row.full_name,
        "schema": str(row.schema),
        "arguments": [_argument(a) for a in row.schema.arguments],
        "keyword_only": [a.keyword_only for a in row.schema.arguments],
        "doc": row.doc,
        "where": where.relative(source.path) + f":{source.line}",
        "text": _without_remarks(source.text),
        "reverse": [_reverse(r) for r in row.reverse],
        "forward": [
            {"output": f.output, "text": f.formula.text if f.formula else "", "word": f.automatic}
            for f in row.forward
        ],
        "decompose": row.decompose,
        "named_decomposition": row.names_decomposition,
        "functions": list(_functions(row)),
        "in_place": row.inplace,
        "answers": answers,
        "facts": [text for _, text in where.facts_of(row)],
    }


def _measured(row: Row) -> Fact:
    """What becomes of a row when it is compiled, and how its laws did."""
    return {"becomes": dict(where.becomes(row)), "laws": _laws(row)}


def _argument(argument: Any) -> str:
    shown = argument.name
    return f"{shown}={argument.default!r}" if argument.has_default else shown


def _reverse(entry: Any) -> Fact:
    text = entry.formula.text if entry.formula else ""
    return {"inputs": list(entry.inputs), "text": text, "word": entry.word, "reason": entry.reason}


def _without_remarks(text: str) -> str:
    """The lines of a row, without the blank lines and headings that come before the next one."""
    lines = text.rstrip().split("\n")
    while lines and (not lines[-1].strip() or lines[-1].startswith("#")):
        lines.pop()
    return "\n".join(lines)


# -- functions that a row names -------------------------------------------------------------------


def _functions(row: Row) -> Iterator[Fact]:
    """Derivative functions and decompositions too long for a row, with their source."""
    texts = [("formulas", r.formula.text) for r in row.reverse if r.formula]
    texts += [("formulas", f.formula.text) for f in row.forward if f.formula]
    texts += [("decompositions", row.decompose)] if row.names_decomposition else []
    named = ((layer, *pair) for layer, text in texts for pair in _named(text, layer))
    for layer, module, function in dict.fromkeys(named):
        found = binding.rule(layer, module, function)
        yield {"name": f"{module}.{function}", "layer": layer, **_source(found)}


def _named(text: str, layer: str) -> Iterator[tuple[str, str]]:
    """(module, function) for each `linalg.qr_vjp` in a text."""
    known = modules_in(layer)
    for node in ast.walk(ast.parse(text.strip(), mode="eval")):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=function) if module in known:
                yield module, function
            case _:
                pass


def _source(function: Any) -> Fact:
    """Where a function stands, and its text if that is short."""
    function = inspect.unwrap(function)
    lines, line = inspect.getsourcelines(function)
    text = textwrap.dedent("".join(lines)).rstrip()
    path = where.relative(inspect.getfile(function))
    return {"where": f"{path}:{line}", "text": text if len(lines) <= LONGEST else ""}


# -- laws -----------------------------------------------------------------------------------------


def _laws(row: Row) -> list[Fact]:
    """The laws of a row on its first samples: how many, the worst error, what is allowed."""
    found: dict[str, Fact] = {}
    for case in laws.cases(row, float64)[:SAMPLES]:
        for law in laws.laws_of(case):
            outcome = laws.judge(law, case)
            entry = found.setdefault(
                law, {"law": law, "samples": 0, "broken": "", "worst": Worst()}
            )
            entry["samples"] += 1
            entry["broken"] = entry["broken"] or outcome.broken
            entry["worst"].merge(outcome.worst)
    for entry in found.values():
        worst = entry.pop("worst")
        entry["error"] = worst.error if worst.share >= 0 else None
        entry["allowed"] = worst.allowed
    return list(found.values())


# -- all operators ---------------------------------------------------------------------------------


def everything(cache: Path) -> dict[str, Fact]:
    """The facts of all operators."""
    measured = _kept(cache / f"measured-{_stamp()}.json")
    return {name: of(name, measured) for name in TABLE.names()}


def some(names: list[str]) -> dict[str, Fact]:
    """The facts of some operators, and of those that their formulas are made of."""
    found = {name: of(name) for name in names}
    steps = {step for fact in found.values() for row in fact["rows"] for step in steps_of(row)}
    return found | {name: of(name) for name in sorted(steps - found.keys())}


def steps_of(row: Fact) -> list[str]:
    """Operators that exist for formulas alone, and mean nothing to a reader."""
    texts = [e["text"] for e in (*row["reverse"], *row["forward"])]
    named = (n for text in texts for n in re.findall(r"\b(?:_\w+|\w+_backward)\b", text))
    return list(dict.fromkeys(n for n in named if n in TABLE))


def _kept(path: Path) -> dict[str, Fact]:
    """What takes long, from a file if it was written for the package as it is."""
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(_measured_by_name, TABLE.names(), chunksize=16)
        measured = {full_name: fact for part in found for full_name, fact in part.items()}
    for old in path.parent.glob("measured-*.json"):
        old.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(measured), encoding="utf-8")
    return measured


def _measured_by_name(name: str) -> dict[str, Fact]:
    rows = (TABLE.row(name, overload) for overload in TABLE.overloads(name))
    return {row.full_name: _measured(row) for row in rows}


def _stamp() -> str:
    """A hash of what is measured: the package, without its examples."""
    found = hashlib.sha256(str(SAMPLES).encode())
    for kind in ("py", "yaml", "c", "h"):
        for path in sorted(PACKAGE.rglob(f"*.{kind}")):
            found.update(path.read_bytes())
    return found.hexdigest()[:16]

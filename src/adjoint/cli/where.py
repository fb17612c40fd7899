"""Everything there is about an operator: `adjoint where NAME`.

Where its row, kernel, formulas and rules stand, its texts in C and NumPy, the facts that its row
tells, and what becomes of it when it is compiled and exported: that is tried on a sample.
"""

from __future__ import annotations

import argparse
import ast
import inspect
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.cli import functions
from adjoint.cli.checks import add_library, load_library
from adjoint.cli.operators import follows, relative, rows_of, traced
from adjoint.cli.parser import OPERATOR, add_command, completes
from adjoint.cli.terminal import paint
from adjoint.cli.tests_of import tests_of
from adjoint.compiler import pipeline
from adjoint.compiler.lower import Choices
from adjoint.compiler.plan import Callback, FusedLoop, RoutineCall
from adjoint.compiler.targets.c.target import CPU
from adjoint.core.errors import AdjointError
from adjoint.core.importing import imported
from adjoint.export import ExportError, python
from adjoint.graph.ir import Graph
from adjoint.ops import binding
from adjoint.ops.operator import Operator
from adjoint.table import modules_in
from adjoint.table.reading import FACTS
from adjoint.table.rows import Row
from adjoint.testing import laws, references
from adjoint.testing.jacobians import Call, tensors_in
from adjoint.testing.samples import automatic, samplers_of
from adjoint.transforms.batch import rule_of

Place = tuple[str, str]  # ("kernel", "src/adjoint/kernels/matmul.py:31 mm")

# Columns that name functions, and the layer the functions live in. All others are formulas.
_LAYERS = {
    "kernel": "kernels",
    "shape": "shapes",
    "decompose": "decompositions",
    "element": "expressions",
    "numpy": "export",
}
_PLAIN = frozenset(
    ("name", "like", "promote", "inplace", "doc", "domain", "dispatch", "batch", *FACTS)
)


def add_where(commands: Any) -> None:
    """Describe `adjoint where`."""
    made = add_command(
        commands, "where", "print every place an operator lives, or those that a function calls",
        examples=(
            "adjoint where tanh",
            "adjoint where softclip --library mine.yaml --kernels mine.py",
            "adjoint where model.py:loss --at 'f32[3]'",
        ),
    )  # fmt: skip
    completes(
        made.add_argument("name", metavar="NAME", help="or FILE:FUNCTION, with --at"), OPERATOR
    )
    functions.add_point(made)
    add_library(made)
    made.set_defaults(run=where)


def where(args: argparse.Namespace) -> Iterator[str]:
    """Print everything there is about an operator, perhaps of the user's own, or a function."""
    load_library(args)
    if functions.is_function(args.name):
        yield from _of_function(traced(args))
        return
    for number, row in enumerate(rows_of(args.name)):
        if number:
            yield ""
        yield paint(row.full_name, "bold")
        yield from _lines([*places_of(row), *facts_of(row), *becomes(row)])


def _lines(places: list[Place]) -> Iterator[str]:
    width = max(len(what) for what, _ in places)
    yield from (f"  {paint(f'{what:{width}}', 'cyan')}  {place}" for what, place in places)


def _of_function(graph: Graph) -> Iterator[str]:
    """The operators that a function calls, by its lines, with their rows; what becomes of it."""
    yield paint(graph.signature.name, "bold")
    found: dict[str, str] = {}
    for node in graph.nodes:
        if isinstance(node.op, Operator):
            row = node.op.row
            place = f"{row.full_name}  {relative(row.where.path)}:{row.where.line}"
            found.setdefault(f"{node.place or '?'}  {place}", node.place or "?")
    calls = [(line, text.partition("  ")[2]) for text, line in found.items()]
    yield from _lines([*calls, ("compiled", compiled(graph)), ("exported", exported(graph))])


def places_of(row: Row) -> Iterator[Place]:
    """Yield what a row consists of and where each part is."""
    yield "row", f"{relative(row.where.path)}:{row.where.line}"
    for column, text in row.texts.items():
        if column in _PLAIN:
            continue
        layer = _LAYERS.get(column, "formulas")
        line = f"{relative(row.where.path)}:{row.lines.get(column, row.where.line)}"
        named = dict.fromkeys(_functions(text, layer))
        yield from ((column, place) for place in named or [f"{line} {text}"])
    if library := _library(row):
        yield "computed by", library
    if row.archetype.shape and not row.shape:
        yield "shape", f"archetype {row.archetype.name}"
    kind, rule = rule_of(row)
    yield "batch", f"{kind}: {_line_of(rule)} {rule.__name__}" if rule is not None else kind
    yield from (("samples", place) for place in _samples(row))
    if key := references.key_of(row):
        yield "reference", _line_of_key(*key)
    yield from (("tests", relative(place)) for place in tests_of(row))


def facts_of(row: Row) -> Iterator[Place]:
    """Yield what a row tells passes and the compiler, written down or not."""
    for column in FACTS:
        if column in row.texts:
            yield "fact", f"{column}: {row.texts[column]}"
    if row.schema.is_view:
        yield "fact", "a view: shares memory with its argument"
    if row.random and "random" not in row.texts:
        yield "fact", "random: running it twice gives two results"
    if row.archetype.promotes:
        yield "fact", f"elementwise ({row.archetype.name})"
    yield from (("fact", fact) for fact in follows(row))


# -- what becomes of it ---------------------------------------------------------------------------


def becomes(row: Row) -> Iterator[Place]:
    """Yield what native code and exported code of an operator are, for its first sample."""
    graph = _sample(row)
    if isinstance(graph, str):
        yield "compiled", graph
        return
    yield "compiled", compiled(graph)
    yield "exported", exported(graph)


def _sample(row: Row) -> Graph | str:
    """The graph of the operator on the first sample that can be traced; why none can."""
    reason = "there are no samples"
    for case in (case for dtype in laws.DTYPES for case in laws.cases(row, dtype)):
        tensors = tuple({id(t): t for t in tensors_in(case.arguments)}.values())
        try:
            graph = ad.trace(Call(case.run, case.arguments, tensors), [t.detach() for t in tensors])
        except AdjointError as error:  # sizes that depend on values, say
            reason = f"cannot be traced: {str(error).splitlines()[0]}"
            continue
        for node in graph.nodes:
            node.place = ""  # not a line of ours
        return graph
    return reason


def compiled(graph: Graph) -> str:
    """The work of a graph's native code: "one loop", "a call of product".

    >>> print(compiled(ad.trace(lambda x: x.sin() * 2, ad.ShapeDtype(3))))
    one loop
    >>> print(compiled(ad.trace(lambda x: ad.hash_tensor(x @ x), ad.ShapeDtype((3, 3)))))
    a call of product, calls back to hash_tensor.default
    """
    target = replace(CPU, products=replace(CPU.products, small=-1))
    lowered = pipeline.lower(pipeline.Unplanned(graph, Choices(target)))
    steps = pipeline.fuse(lowered).steps
    loops = sum(isinstance(step, FusedLoop) for step in steps)
    calls = Counter(step.routine for step in steps if isinstance(step, RoutineCall))
    kernels = dict.fromkeys(step.node.name for step in steps if isinstance(step, Callback))
    parts = ["one loop" if loops == 1 else f"{loops} loops"] if loops else []
    parts += [f"{'a call' if n == 1 else f'{n} calls'} of {name}" for name, n in calls.items()]
    parts += [f"calls back to {', '.join(kernels)}"] if kernels else []
    return ", ".join(parts) or "nothing to compute: the memory of its argument, or a constant"


def exported(graph: Graph) -> str:
    """A graph as NumPy text; the reason where there is none.

    >>> exported(ad.trace(lambda x: x.sin(), ad.ShapeDtype(3)))
    'np.sin(x)'
    """
    try:
        text = python(graph)
    except ExportError as error:
        return str(error).removeprefix("export.python: ")
    function = ast.parse(text).body[-1]
    assert isinstance(function, ast.FunctionDef)
    block = function.body[-1]
    assert isinstance(block, ast.With)
    made = [ast.unparse(s.value) for s in block.body if isinstance(s, ast.Assign)]
    helpers = [s.name for s in ast.parse(text).body[:-1] if isinstance(s, ast.FunctionDef)]
    more = f", and the source of {', '.join(helpers)}" if helpers else ""
    return f"{made[0]}{more}" if len(made) == 1 else f"{len(made)} lines of NumPy{more}"


# -- places ---------------------------------------------------------------------------------------


def _functions(text: str, layer: str) -> Iterator[str]:
    """Yield the places of the functions that a column names: `matmul.mm`, `xp.tanh`."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "xp":
                function = getattr(np, node.attr, None)
                yield f"NumPy: np.{node.attr}{' (ufunc)' if isinstance(function, np.ufunc) else ''}"
            elif function := _find(layer, node.value.id, node.attr):
                yield function


def _find(layer: str, family: str, name: str) -> str:
    """Return 'path:line name' of a function of ours, or ''."""
    found = binding.rule(layer, family, name) if family in modules_in(layer) else None
    return f"{_line_of(found)} {name}" if found is not None else ""


def _library(row: Row) -> str:
    """The library that a kernel calls, where its module says which: "oneDNN 3.2.0"."""
    if not row.names_kernel or row.module is not None or row.kernel.startswith("xp."):
        return ""
    module = imported(f"adjoint.kernels.{row.kernel.rpartition('.')[0]}")
    return module.computed_by() if hasattr(module, "computed_by") else ""


def _line_of(function: Any) -> str:
    function = inspect.unwrap(function)
    try:
        path, (_, line) = inspect.getfile(function), inspect.getsourcelines(function)
    except (TypeError, OSError):  # a ufunc or a partial has no source
        return repr(function)
    return f"{relative(path)}:{line}"


def _line_of_key(family: str, key: str) -> str:
    """The place of a reference in its family's table; made in a loop, that of the table."""
    path = f"{references.__path__[0]}/{family}.py"
    with open(path, encoding="utf-8") as file:
        lines = [n for n, text in enumerate(file, 1) if f'"{key}":' in text]
    return f'{relative(path)}{f":{lines[0]}" if lines else ""} "{key}"'


def _samples(row: Row) -> Iterator[str]:
    if row.archetype.promotes:
        yield f"{_line_of(automatic.samples)} samples (of every {row.archetype.name} row)"
    for entry in samplers_of(row):
        yield f"{_line_of(entry.function)} {entry.function.__name__}"

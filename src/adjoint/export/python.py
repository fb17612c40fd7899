"""A graph as a Python file that needs only NumPy.

The graph is decomposed as far as needed, and each operator becomes a NumPy expression: from the
facts and the column `numpy` of its row, from a kernel that is NumPy's, or by a copy of the source
of a kernel that stands alone. Any other operator is refused by name.
"""

from __future__ import annotations

import ast
import base64
import inspect
import keyword
import textwrap
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from adjoint._version import __version__
from adjoint.c_kernels import copies
from adjoint.core.dtypes import HALVES
from adjoint.core.errors import AdjointError, ArgumentError
from adjoint.core.texts import in_docstring
from adjoint.export import numpy_text, renderers
from adjoint.export.numpy_helpers import HELPERS
from adjoint.export.numpy_text import ExportError, Scope, dtype_text, number_text
from adjoint.expressions import numpy_text as expression_text
from adjoint.expressions.numpy_text import Unspelled
from adjoint.expressions.trees import Expression
from adjoint.graph.facts import is_random
from adjoint.graph.ir import Constant, Graph, Node, Region, Value
from adjoint.graph.passes import run as simplify
from adjoint.graph.passes.dead_code import eliminate_dead
from adjoint.graph.passes.decompose import decompose
from adjoint.graph.passes.inline import inline_functions
from adjoint.kernels import halves
from adjoint.ops import binding
from adjoint.ops.operator import Operator
from adjoint.table.rows import Row

SMALL = 64  # elements of a constant that is written as a list
_TAKEN = frozenset(
    (
        *keyword.kwlist,
        "np",
        "math",
        "base64",
        "range",
        "reversed",
        "len",
        "slice",
        "list",
        "tuple",
        "enumerate",
    )
)


def python(graph: Graph, name: str | None = None) -> str:
    """Return the source of a Python file with the graph as a function of NumPy arrays.

    The function takes the inputs of the graph one by one, and returns its outputs, as a tuple if
    there are several.

    >>> import adjoint as ad
    >>> graph = ad.trace(ad.grad(lambda x: (x * x).sum()), ad.ShapeDtype(3))
    >>> text = ad.export.python(graph, "gradient")
    >>> space = {}
    >>> exec(text, space)
    >>> space["gradient"]([1.0, 2.0, 3.0]).tolist()
    [2.0, 4.0, 6.0]
    """
    if not isinstance(graph, Graph):
        raise ArgumentError(
            f"export.python: needs a graph, got {type(graph).__name__}; make one with ad.trace"
        )
    small = simplify(inline_functions(graph.clone()))
    small = _without_aliases(decompose(small, keep=_has_text))
    function = name or graph.signature.name
    if not function.isidentifier() or function in _TAKEN:
        function = "f"
    return _File(small, function).text()


def _has_text(op: Operator) -> bool:
    """Whether an operator has a text, so that it is not decomposed."""
    row = op.row
    direct = "xp." in row.kernel and "pointwise." not in row.kernel and row.archetype.promotes
    return "numpy" in row.texts or renderers.is_told(row) or direct


def _rendered(s: Scope) -> str | None:
    """The text of a node by the renderer that its row names, or by the facts of the row."""
    family, _, function = s.node.op.row.texts.get("numpy", "").partition(".")
    if family == "renderers":
        return getattr(renderers, function)(s)
    return None if family else renderers.from_facts(s)


def _is_alias(row: Row) -> bool:
    return row.moves == "nothing" and row.schema.is_view


def _without_aliases(graph: Graph) -> Graph:
    """y = x.detach(); z = f(y) -> z = f(x), since arrays have no history."""
    for node in graph.nodes:
        for inner in node.graphs.values():
            _without_aliases(inner)
        if isinstance(node.op, Operator) and _is_alias(node.op.row):
            graph.replace_uses(node.outputs[0], node.args[0])
    return eliminate_dead(graph)


class _File:
    """The parts of a file in the making."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name
        self.helpers: dict[str, str] = {}  # name -> source, in the order of need
        self.modules: dict[str, str] = {"np": "import numpy as np"}
        self.taken = {*_TAKEN, name}

    def name_of(self, value: Value) -> str:
        """The name of a value in the file."""
        return f"{value.name}_" if value.name in self.taken else value.name

    def text(self) -> str:
        main = self.function(self.graph, self.name, outermost=True)
        if set(self.helpers) & _names(self.graph):  # a value has the name of a copied function
            self.taken |= set(self.helpers)
            main = self.function(self.graph, self.name, outermost=True)
        imports = sorted(self.modules.values(), key=lambda line: ("numpy" in line, line))
        head = [f'"""{self.name}, written by adjoint {__version__}. It needs NumPy alone."""', ""]
        head += ["from __future__ import annotations", "", *imports, "", "", ""]
        blocks = [text.strip("\n") for text in self.helpers.values()]
        return "\n".join(head) + "\n\n\n".join([*blocks, "\n".join(main)]) + "\n"

    def function(self, graph: Graph, name: str, *, outermost: bool) -> list[str]:
        names = [self.name_of(v) for v in graph.inputs]
        lines = [f"def {name}({', '.join(names)}):"]
        body: list[str] = []
        for node in graph.nodes:
            body += self.statements(node)
        outputs = [
            self.name_of(o) if isinstance(o, Value) else number_text(o) for o in graph.outputs
        ]
        if outermost:
            lines += [f"    {line}" for line in self.documented(graph)]
            for value, text in zip(graph.inputs, names, strict=True):
                lines.append(f"    {text} = np.asarray({text}, {dtype_text(value.dtype)})")
            body.append(
                f"return {outputs[0] if len(outputs) == 1 else '(' + ', '.join(outputs) + ')'}"
            )
            lines.append('    with np.errstate(all="ignore"):')
            return lines + [f"        {line}" for line in body]
        body.append(f"return ({', '.join(outputs)}{',' if len(outputs) == 1 else ''})")
        return lines + [f"    {line}" for line in body]

    def documented(self, graph: Graph) -> list[str]:
        """A docstring that describes the arguments."""
        paths = graph.signature.names or tuple(v.name for v in graph.inputs)
        pairs = zip(graph.inputs, paths, strict=True)
        shown = [
            f"{self.name_of(v)}: {v.type}" + (f", {path}" if path != v.name else "")
            for v, path in pairs
        ]
        return ['"""' + in_docstring("; ".join(shown) or "No arguments.") + '"""']

    def statements(self, node: Node) -> list[str]:
        targets = ", ".join(map(self.name_of, node.outputs))
        if isinstance(node.op, Constant):
            return [f"{targets} = {self.constant(node.op.tensor)}"]
        if isinstance(node.op, Region):
            return self.region(node)
        if len(node.outputs) == 1 and node.op.schema.returns[0].type.is_list:
            targets = f"({targets},)"
        return [f"{targets} = {self.expression(node)}"]

    def expression(self, node: Node) -> str:
        op: Operator = node.op
        scope = Scope(node, self.name_of)
        try:
            if is_random(node):
                raise ExportError("it draws random numbers; pass them in as an argument")
            text = _rendered(scope) or numpy_text.from_row(scope)
            text = text or self.computed(node) or self.copied_or_printed(scope)
        except ExportError as error:
            where = f" ({node.place})" if node.place else ""
            raise ExportError(
                f"export.python: {op.full_name}{where} cannot be written with NumPy alone: {error}"
            ) from error
        self.use_helpers(text)
        return text

    def use_helpers(self, text: str) -> None:
        """Add the helpers that a text names."""
        parts = ast.walk(ast.parse(text))
        used = {part.id for part in parts if isinstance(part, ast.Name)}
        for name in [name for name in HELPERS if name in used]:
            self.helpers.setdefault(name, HELPERS[name])
            if "math." in HELPERS[name]:
                self.modules["math"] = "import math"

    def computed(self, node: Node) -> str | None:
        """The value of an operator without tensor arguments: a window, a range."""
        if any(True for _ in node.inputs()) or len(node.outputs) != 1:
            return None
        return self.constant(node.op.call(list(node.args)))

    def constant(self, tensor: Any) -> str:
        array = tensor.detach().array
        dtype = dtype_text(tensor.dtype)
        if array.size <= SMALL and np.isfinite(array).all():
            return f"np.array({array.tolist()!r}, {dtype}).reshape({array.shape!r})"
        self.modules["base64"] = "import base64"
        data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
        return f'np.frombuffer(base64.b64decode("{data}"), {dtype}).reshape({array.shape!r})'

    # -- control flow --------------------------------------------------------------------------

    def region(self, node: Node) -> list[str]:
        stem = self.name_of(node.outputs[0]) if node.outputs else node.op.name
        lines: list[str] = []
        for key, graph in node.graphs.items():
            lines += self.function(graph, f"{stem}_{key}", outermost=False)
        targets = ", ".join(map(self.name_of, node.outputs)) + (
            "," if len(node.outputs) == 1 else ""
        )
        groups = [
            "[" + ", ".join(map(self.name_of, a)) + "]"
            if isinstance(a, tuple)
            else self.name_of(a)
            if isinstance(a, Value)
            else number_text(a)
            for a in node.args
        ]
        if node.op.name == "cond":
            call = f"({stem}_true if {groups[0]} else {stem}_false)(*{groups[1]})"
        elif node.op.name == "scan":
            self.helpers.setdefault("_scan", HELPERS["_scan"])
            types = [(v.shape[1:], dtype_text(v.dtype)) for v in node.outputs[len(node.args[1]) :]]
            shown = ", ".join(f"({shape!r}, {dtype})" for shape, dtype in types)
            call = f"_scan({stem}_body, {', '.join(groups)}, [{shown}])"
        elif node.op.name == "while_loop":
            self.helpers.setdefault("_while", HELPERS["_while"])
            call = f"_while({stem}_condition, {stem}_body, {', '.join(groups)})"
        else:
            raise ExportError(f"export.python: {node.op.name} cannot be written with NumPy alone")
        return [*lines, f"{targets} = {call}"]

    # -- kernels that are functions ------------------------------------------------------------

    def copied_or_printed(self, scope: Scope) -> str:
        """A call of the kernel; where that cannot be copied, the element of the row."""
        try:
            return self.copied(scope)
        except ExportError:
            tree = numpy_text.element_of(scope)
            if tree is None:
                raise
            return self.printed(scope, tree)

    def printed(self, scope: Scope, tree: Expression) -> str:
        """The text of an element, for whose functions the file gets functions of arrays."""
        common = numpy_text.common_dtype(scope)
        names = {n: numpy_text.operand(scope, n, common) for n in tree.operands}
        try:
            self.define(tree.calls)
            text = expression_text.printed(tree, names, common)
        except Unspelled as error:
            raise ExportError(str(error)) from error
        return numpy_text.cast(f"np.asarray({text})", tree.dtype, scope.out.dtype)

    def define(self, names: Iterable[str]) -> None:
        """Add the functions of elements among some names, after those that they call."""
        for name in sorted(names):
            if name.startswith("ad_") and name not in self.helpers:
                function = expression_text.called(name)
                self.define(function.calls)
                text = expression_text.function_text(function)
                self.use_helpers(text)
                self.helpers[name] = text

    def copied(self, scope: Scope) -> str:
        """A call of a kernel whose source is copied to the file."""
        row = scope.node.op.row
        if not row.kernel:
            raise ExportError("it has no kernel")
        if not row.kernel.partition(".")[2].isidentifier():
            raise ExportError(f"its kernel is {row.kernel!r}")
        kernel = binding.reference(row.kernel, "kernels", row, "kernel")
        name = self.include(kernel, {})
        texts = [numpy_text.promoted(scope, n) for n in row.schema.names]
        if row.computes_wide and not HALVES.isdisjoint(v.dtype for v in scope.node.inputs()):
            self.need("in_float32", halves.in_float32, {})
            return f"in_float32({name}, {', '.join(texts)})"
        return f"{name}({', '.join(texts)})"

    def include(self, function: Any, pending: dict[str, Any]) -> str:
        """Add the source of a function after those it uses; return its name in the file."""
        if not isinstance(function, FunctionType) or function.__closure__:
            raise ExportError(
                f"its kernel {getattr(function, '__name__', function)!r} is not a plain function"
            )
        name = function.__name__
        if name in self.helpers or name in pending:
            return name
        pending[name] = function
        for used in sorted(_globals_used(function.__code__)):
            if used in function.__globals__:
                self.need(used, function.__globals__[used], pending)
        self.helpers[name] = textwrap.dedent(inspect.getsource(function))
        return name

    def need(self, name: str, value: Any, pending: dict[str, Any]) -> None:
        """Add a global that a copied function uses."""
        if isinstance(value, ModuleType):
            if value.__name__.split(".")[0] not in (
                "numpy",
                "math",
                "itertools",
                "functools",
                "operator",
            ):
                raise ExportError(f"its kernel uses {value.__name__}")
            line = f"import {value.__name__}" + (f" as {name}" if name != value.__name__ else "")
            self.modules[name] = line
        elif isinstance(value, FunctionType) and value in _PLAIN:
            self.modules["np"] = "import numpy as np"
            self.helpers.setdefault(name, _PLAIN[value].format(name))
        elif isinstance(value, FunctionType) and value.__module__.startswith("adjoint."):
            if self.include(value, pending) != name:
                raise ExportError(f"its kernel uses {name}")
        elif inspect.isclass(value) and issubclass(value, AdjointError):
            self.helpers.setdefault(
                name, f'class {name}(ValueError):\n    """Arguments that do not fit."""'
            )
        elif isinstance(value, (bool, int, float, str, tuple)) and _is_literal(value):
            self.helpers.setdefault(name, f"{name} = {value!r}")
        elif str(getattr(value, "__module__", "")).split(".")[0] == "numpy":
            self.modules[name] = f"from {value.__module__} import {_named(value)} as {name}"
        else:
            raise ExportError(f"its kernel uses {name}")


# NumPy versions of kernels' helpers that use native code or know bfloat16
_PLAIN: dict[Any, str] = {
    copies.copied: 'def {0}(array, order="C"):\n    return array.copy(order)',
    copies.write: "def {0}(to, source):\n    to[...] = source",
    copies.zeros: "def {0}(shape, dtype):\n    return np.zeros(shape, dtype)",
    halves.in_float32: """
def {0}(compute, *operands):
    \"\"\"`compute(*operands)`; arrays of float16 go through float32.\"\"\"
    narrow = [getattr(x, "dtype", None) == np.float16 for x in operands]
    if not any(narrow):
        return compute(*operands)
    wide = [x.astype(np.float32) if n else x for x, n in zip(operands, narrow)]
    return np.asarray(compute(*wide)).astype(np.float16)
""".strip(),
}


def _named(value: Any) -> str:
    return str(value.__name__)


def _is_literal(value: Any) -> bool:
    return (
        all(map(_is_literal, value))
        if isinstance(value, tuple)
        else isinstance(value, (bool, int, float, str))
    )


def _globals_used(code: Any) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from _globals_used(constant)


def _names(graph: Graph) -> set[str]:
    found = {v.name for v in graph.inputs}
    for node in graph.nodes:
        found |= {v.name for v in node.outputs}.union(*(_names(g) for g in node.graphs.values()))
    return found

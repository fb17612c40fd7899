"""Nodes as NumPy text: names, numbers, casts, and kernels that are NumPy expressions.

An operator whose kernel is a NumPy function, or an expression with one, is written from its row.
The dtypes, which a graph knows, decide the branches of the expression. `renderers` has the text of
other operators.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import AdjointError
from adjoint.core.texts import literal
from adjoint.expressions.rows import expression
from adjoint.expressions.trees import Expression
from adjoint.graph.facts import computes_in
from adjoint.graph.ir import Node, Value
from adjoint.table import formula as language
from adjoint.table.rows import Row, is_reference

MODULE = "np"


class ExportError(AdjointError, NotImplementedError):
    """A graph with something that cannot be written in the language asked for."""


class Scope:
    """The arguments of a node as text, by name, with their types."""

    def __init__(self, node: Node, name_of: Callable[[Value], str]) -> None:
        self.node = node
        self.values = dict(zip(node.op.schema.names, node.args, strict=True))
        self.name_of = name_of

    def __call__(self, name: str) -> str:
        """The text of an argument."""
        return self.text(self.values[name])

    def text(self, value: Any) -> str:
        if isinstance(value, Value):
            return self.name_of(value)
        if isinstance(value, (tuple, list)):
            if any(isinstance(v, Value) for v in value):
                return f"[{', '.join(map(self.text, value))}]"
            texts = [self.text(v) for v in value]
            return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
        return number_text(value)

    def type(self, name: str) -> Any:
        return self.values[name].type

    @property
    def out(self) -> Any:
        """The type of the first result."""
        return self.node.outputs[0].type


def number_text(value: Any) -> str:
    """The Python text of a number, also of an infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{MODULE}.nan" if math.isnan(value) else f"{'-' if value < 0 else ''}{MODULE}.inf"
    if isinstance(value, DType):
        return dtype_text(value)
    if isinstance(value, (int, float)) and value < 0:
        return f"({literal(value)})"
    return literal(value) or "..."


def dtype_text(dtype: DType) -> str:
    """The text of a dtype: np.float32."""
    if dtype.name == "bfloat16":
        raise ExportError("NumPy has no bfloat16; convert to float32 before tracing")
    return f"{MODULE}.bool_" if dtype.name == "bool" else f"{MODULE}.{dtype.name}"


# --- from rows ------------------------------------------------------------------------------


def cast(text: str, have: DType, wanted: DType) -> str:
    """An array converted to a dtype."""
    return text if have is wanted else f"{text}.astype({dtype_text(wanted)})"


def promoted(s: Scope, name: str) -> str:
    """An argument converted to the common dtype of its operator."""
    value = s.values[name]
    common = computes_in(s.node)
    if (
        not isinstance(value, Value)
        or common is None
        or name not in {a.name for a in s.node.op.row.promoted}
    ):
        return s.text(value)
    return cast(s.text(value), value.type.dtype, common)


def common_dtype(s: Scope) -> DType:
    """The dtype in which a pointwise operator computes."""
    return computes_in(s.node) or s.out.dtype


def operand(s: Scope, name: str, dtype: DType) -> str:
    """The text of an argument; of two Python numbers NumPy would make a float64."""
    text, is_number = promoted(s, name), not isinstance(s.values[name], Value)
    return f"{dtype_text(dtype)}({text})" if is_number and dtype is dtypes.float32 else text


def element_of(s: Scope) -> Expression | None:
    """The element of the row of a node in real numbers; None if it has none."""
    row, common = s.node.op.row, common_dtype(s)
    if common not in (dtypes.float32, dtypes.float64) or len(s.node.outputs) != 1:
        return None
    return expression(row, common, s.values) if row.element else None


class _Known:
    """A tensor whose dtype or number of dimensions an expression asks for."""

    def __init__(self, dtype: Any, shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.ndim = len(shape)


class _Fill(ast.NodeTransformer):
    """Replaces names by arguments, and takes the branch that the dtypes decide."""

    def __init__(self, s: Scope) -> None:
        self.s = s
        common = computes_in(s.node)
        self.known: dict[str, Any] = {
            n: _Known((common or v.type.dtype).np, v.shape) if isinstance(v, Value) else v
            for n, v in s.values.items()
        }
        self.known["result"] = _Known(s.out.dtype.np, s.out.shape)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        try:
            test = eval(
                compile(ast.Expression(node.test), "kernel", "eval"),
                {"__builtins__": {}},
                self.known,
            )
        except Exception as error:  # the test needs more than dtypes and numbers
            raise ExportError(f"its kernel chooses by {ast.unparse(node.test)}") from error
        return self.visit(node.body if test else node.orelse)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id == "result":
            text = repr(self.s.out.shape) if node.attr == "shape" else dtype_text(self.s.out.dtype)
            return ast.parse(text, mode="eval").body
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id == "xp":
            return ast.Name(MODULE)
        if node.id in self.s.values:
            return ast.parse(promoted(self.s, node.id), mode="eval").body
        raise ExportError(f"its kernel uses {node.id}")


# NumPy functions for which Python has operators
_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "equal": "==", "not_equal": "!=",
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "bitwise_and": "&",
    "bitwise_or": "|", "bitwise_xor": "^", "negative": "-", "invert": "~",
}  # fmt: skip


def from_row(s: Scope) -> str | None:
    """The text of a row's column `numpy` or of its kernel; None if that is a function of ours."""
    row: Row = s.node.op.row
    column = "numpy" if "numpy" in row.texts else "kernel"
    text = row.texts.get(column, "")
    if is_reference(text, row.schema.names):
        family, _, function = text.partition(".")
        return _called(s, function) if family == "xp" else None
    if not text:
        return None
    try:
        tree = _Fill(s).visit(language.expression(text, row.place(column)))
    except ExportError:
        return None
    return ast.unparse(ast.fix_missing_locations(tree))


def _called(s: Scope, function: str) -> str:
    given = [promoted(s, n) for n in s.node.op.row.schema.names]
    sign = _SIGNS.get(function)
    if sign is None or len(given) > 2:
        return f"{MODULE}.{function}({', '.join(given)})"
    return f"{sign}{given[0]}" if len(given) == 1 else f"{given[0]} {sign} {given[1]}"

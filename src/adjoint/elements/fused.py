"""A formula on large arrays as one loop, if all its operators have C texts.

Formulas of derivatives are expressions of arrays; NumPy would pass over memory once for each
operator. Here the texts of the operators are nested into one expression. A part without a text (a
function of another module, a reduction) is computed before, and becomes an operand.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.c_kernels.element_loops import ElementLoop
from adjoint.core.c_types import C_TYPES
from adjoint.core.dtypes import NAMES, OF
from adjoint.core.records import record
from adjoint.core.remembering import Bounded
from adjoint.elements.large import loop_of
from adjoint.expressions import language
from adjoint.expressions.c_numbers import COMPLEX, literal
from adjoint.table import TABLE
from adjoint.table.formula import BUILTINS, Formula, free_names

_MOST_CALLS = 256  # kinds of calls that a formula remembers
_MOST_TEXTS = 12  # loops of one formula: none is built for each number that a text depends on
_LONGEST = 4000  # characters of a text
_INEXACT = ("float16", "bfloat16", "float32", "float64", *COMPLEX)
_PLAIN = re.compile(r"{\w+}")
_ARITHMETIC: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_OF_COMPLEX: dict[type, str] = {ast.Mult: "ad_times", ast.Div: "ad_over"}
_LOGIC: dict[type, str] = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
_ORDER: dict[type, str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


Parts = dict[str, Callable[..., Any]]  # name -> function of the formula's parameters


class Fused:
    """A formula on arrays: a single loop if there is one, else `plain`."""

    def __init__(
        self,
        formula: Formula,
        parameters: Sequence[str],
        plain: Callable[..., Any],
        bind: Callable[[Formula], Callable[..., Any]],  # compiles a part of the formula
    ) -> None:
        self.formula, self.parameters, self.plain, self.bind = formula, parameters, plain, bind
        # by dtypes and arguments
        self.known: Bounded[Any, tuple[ElementLoop, Parts] | None] = Bounded(_MOST_CALLS)
        self.texts = 0  # that loops were made of

    def __call__(self, *values: Any) -> Any:
        key = tuple([v.dtype.num if type(v) is np.ndarray else _key(v) for v in values])
        try:
            found = self.known[key]
        except KeyError:
            found = self.known[key] = self._find(values) if self.texts < _MOST_TEXTS else None
            self.texts += found is not None
        except TypeError:  # an unhashable argument
            found = None
        if found is None:
            return self.plain(*values)
        loop, parts = found
        given = dict(zip(self.parameters, values, strict=True))
        for name, part in parts.items():
            given[name] = np.asarray(part(*values))
        result = loop([given[name] for name in loop.operands])
        return self.plain(*values) if result is None else result

    def _find(self, values: Sequence[Any]) -> tuple[ElementLoop, Parts] | None:
        given = dict(zip(self.parameters, values, strict=True))
        tree = self.formula.tree.body
        found = loop(tree, given)
        if found is not None:
            return found, {}
        taken: dict[str, ast.expr] = {}
        tree = _without_parts(tree, given, taken)
        if isinstance(tree, ast.Name):
            return None
        parts = {name: self.bind(self.formula.part(part)) for name, part in taken.items()}
        for name, part in parts.items():
            value = part(*values)
            given[name] = np.asarray(value) if isinstance(value, np.generic) else value
        found = loop(tree, given)
        if found is None:
            return None
        # parts that are no operands are numbers in the loop's text
        return found, {name: part for name, part in parts.items() if name in found.operands}


def _key(value: Any) -> Any:
    """A key of an argument: 1 and True are different, and so are 0.0 and -0.0."""
    has_sign = isinstance(value, complex) or (isinstance(value, float) and value == 0)
    return (type(value), value, str(value)) if has_sign else (type(value), value)


def _without_parts(
    node: ast.expr, given: Mapping[str, Any], taken: dict[str, ast.expr]
) -> ast.expr:
    """An expression with names in place of the parts without a text, which go into `taken`."""
    if _has_text(node, given):
        return node
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = (_without_parts(n, given, taken) for n in (node.left, node.right))
        return ast.BinOp(left, node.op, right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return ast.UnaryOp(node.op, _without_parts(node.operand, given, taken))
    name = f"part_{len(taken)}"
    taken[name] = node
    return ast.Name(name, ast.Load())


def _has_text(node: ast.expr, given: Mapping[str, Any]) -> bool:
    dtypes = {n: OF[v.dtype].name for n, v in given.items() if type(v) is np.ndarray}
    dtype = next((d for d in dtypes.values() if d in _INEXACT), "float32")
    try:
        return bool(_TermWriter(given, dtypes, NAMES[dtype].wide.name).term(node).text)
    except _NoText:
        return False


def loop(tree: ast.expr, given: Mapping[str, Any]) -> ElementLoop | None:
    """The loop of an expression in arrays of one dtype; None if a part has no text."""
    dtypes = {n: OF[v.dtype].name for n, v in given.items() if type(v) is np.ndarray}
    computed = {dtypes[n] for n in free_names(ast.Expression(tree)) & dtypes.keys()} - {"bool"}
    if len(computed) != 1 or not computed <= {*_INEXACT}:
        return None
    dtype = computed.pop()
    try:
        term = _TermWriter(given, dtypes, NAMES[dtype].wide.name).term(tree)
    except _NoText:
        return None
    if term.kind != "number" or _PLAIN.fullmatch(term.text):  # a copy of an operand gains nothing
        return None
    used = {n: d for n, d in dtypes.items() if f"{{{n}}}" in term.text}
    return loop_of(term.text, used, (), dtype) if dtype in used.values() else None


class _NoText(Exception):
    pass


@record
class _Term:
    """A subexpression."""

    kind: str  # "number", "truth", or "constant"
    text: str  # in C: "({grad} * {self})"
    value: Any = None  # of a constant: 0.5, "tanh"


class _TermWriter:
    """Writes an expression in the names of arrays as C text."""

    def __init__(self, given: Mapping[str, Any], dtypes: dict[str, str], dtype: str) -> None:
        # numbers rounded to half precision count as Python numbers, since results computed from
        # them are not rounded
        plain = {n: v.item() if isinstance(v, np.generic) else v for n, v in given.items()}
        self.given, self.dtypes, self.dtype = plain, dtypes, dtype
        self.is_complex = dtype in COMPLEX

    def term(self, node: ast.expr) -> _Term:
        if not free_names(ast.Expression(node)) & self.dtypes.keys():
            return self.constant(node)
        found = getattr(self, f"of_{type(node).__name__}", self.nothing)(node)
        if len(found.text) > _LONGEST:
            raise _NoText
        return found

    def nothing(self, node: ast.expr) -> _Term:
        raise _NoText

    def constant(self, node: ast.expr) -> _Term:
        """A subexpression without arrays."""
        code = compile(ast.fix_missing_locations(ast.Expression(node)), "<formula>", "eval")
        try:
            value = eval(code, {"__builtins__": BUILTINS}, dict(self.given))
        except Exception:  # the formula names an operator or fails; evaluated itself it says why
            raise _NoText from None
        if type(value) in (int, float, bool):
            return _Term("constant", literal(float(value), C_TYPES[self.dtype]), value)
        if self.is_complex and type(value) is complex:
            return _Term("constant", literal(value, C_TYPES[self.dtype]), value)
        return _Term("constant", "", value)

    def number(self, node: ast.expr) -> _Term:
        """A subexpression that is a number."""
        found = self.term(node)
        if not found.text:
            raise _NoText
        return found

    def condition(self, node: ast.expr) -> _Term:
        found = self.term(node)
        if found.kind != "truth":
            raise _NoText
        return found

    def of_Name(self, node: ast.Name) -> _Term:
        kind = "truth" if self.dtypes[node.id] == "bool" else "number"
        return _Term(kind, f"{{{node.id}}}")

    def of_BinOp(self, node: ast.BinOp) -> _Term:
        kind = type(node.op)
        if kind in _LOGIC:
            one, two = self.condition(node.left), self.condition(node.right)
            return _Term("truth", f"({one.text} {_LOGIC[kind]} {two.text})")
        if kind is ast.Pow:
            return self.operator("pow", [node.left, node.right], {})
        if kind not in _ARITHMETIC:
            raise _NoText
        one, two = self.number(node.left), self.number(node.right)
        if "number" not in (one.kind, two.kind):
            raise _NoText
        if self.is_complex and kind in _OF_COMPLEX:
            return _Term("number", f"{_OF_COMPLEX[kind]}{{@}}({one.text}, {two.text})")
        return _Term("number", f"({one.text} {_ARITHMETIC[kind]} {two.text})")

    def of_UnaryOp(self, node: ast.UnaryOp) -> _Term:
        if isinstance(node.op, ast.Invert):
            return _Term("truth", f"(!{self.condition(node.operand).text})")
        found = self.number(node.operand)
        if not isinstance(node.op, ast.USub) or found.kind != "number":
            raise _NoText
        return _Term("number", f"(-{found.text})")

    def of_Compare(self, node: ast.Compare) -> _Term:
        if len(node.ops) != 1 or type(node.ops[0]) not in _ORDER or self.is_complex:
            raise _NoText
        one, two = self.number(node.left), self.number(node.comparators[0])
        return _Term("truth", f"({one.text} {_ORDER[type(node.ops[0])]} {two.text})")

    def of_IfExp(self, node: ast.IfExp) -> _Term:
        test = self.term(node.test)
        if test.kind != "constant":
            raise _NoText
        return self.term(node.body if test.value else node.orelse)

    def of_BoolOp(self, node: ast.BoolOp) -> _Term:
        """A boolean expression of conditions that are constant."""
        wanted = isinstance(node.op, ast.Or)
        *parts, last = node.values
        for part in parts:
            test = self.term(part)
            if test.kind != "constant":
                raise _NoText
            if bool(test.value) is wanted:
                return test
        return self.term(last)

    def of_Call(self, node: ast.Call) -> _Term:
        keywords = {k.arg: k.value for k in node.keywords if k.arg is not None}
        if isinstance(node.func, ast.Name):
            return self.operator(node.func.id, node.args, keywords)
        if isinstance(node.func, ast.Attribute):
            return self.operator(node.func.attr, [node.func.value, *node.args], keywords)
        raise _NoText

    def operator(self, name: str, args: list[ast.expr], keywords: dict[str, ast.expr]) -> _Term:
        if name == "is_complex":
            return _Term("constant", "", self.is_complex)
        if name == "conj" and len(args) == 1:
            found = self.term(args[0])
            if not self.is_complex:
                return found
            if found.kind != "number":
                raise _NoText
            return _Term("number", f"ad_conj{{@}}({found.text})")
        if name == "where" and len(args) == 3:
            return self.choice(*args)
        if name == "masked_fill" and len(args) == 3:
            return self.choice(args[1], args[2], args[0])
        positional = [self.term(a) for a in args]
        named = {k: self.term(v) for k, v in keywords.items()}
        for overload in TABLE.overloads(name) if name in TABLE else ():
            found = self.call(name, overload, positional, named)
            if found is not None:
                return found
        raise _NoText

    def choice(self, condition: ast.expr, one: ast.expr, two: ast.expr) -> _Term:
        test = self.condition(condition)
        texts = [self.number(one).text, self.number(two).text]
        return _Term("number", f"({test.text} ? {texts[0]} : {texts[1]})")

    def call(
        self, name: str, overload: str, positional: list[_Term], named: dict[str, _Term]
    ) -> _Term | None:
        """An operator applied to terms, if it has a text for them; else None."""
        row = TABLE.row(name, overload)
        arguments = row.schema.arguments
        if not row.promoted_tensors or len(positional) > len(arguments):
            return None
        if named.keys() - set(row.schema.names):
            return None
        if self.is_complex and row.promote == "real":
            return None
        terms = dict(zip(row.schema.names, positional, strict=False)) | named
        given: dict[str, Any] = {}
        texts: dict[str, str] = {"@": "{@}"}
        for a in arguments:
            term = terms.get(a.name)
            if term is None:
                if not a.has_default:
                    return None
                term = _Term("constant", "", a.default)
                if type(a.default) in (int, float, bool):
                    term = _Term("constant", literal(a.default, C_TYPES[self.dtype]), a.default)
            if a.type.is_tensor != (term.kind == "number"):
                return None
            given[a.name] = term if a.type.is_tensor else term.value
            texts[a.name] = f"({term.text})" if term.text else ""
        text = language.expression(row, self.dtype, given)
        if text is None:
            return None
        kind = "truth" if row.archetype.result == "bool" else "number"
        return _Term(kind, f"({text.format_map(texts)})")

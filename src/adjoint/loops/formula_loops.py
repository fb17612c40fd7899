"""A formula on large arrays as one loop, if all its operators have elements.

Formulas of derivatives are expressions of arrays; NumPy would pass over memory once for each
operator. Here the elements of the operators become one tree. A part without an element (a function
of another module, a reduction) is computed before, and becomes an operand.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.dtypes import NAMES, OF, DType
from adjoint.core.records import record
from adjoint.expressions.rows import expression
from adjoint.expressions.trees import Binary, Call, Choose, Expression, Number, Operand, Unary
from adjoint.loops.element_loops import Element, ElementLoop, LoopsOfCalls
from adjoint.table import TABLE
from adjoint.table.formula import BUILTINS, Formula, free_names

_LARGEST = 600  # parts of a tree
_INEXACT = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
_ARITHMETIC: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_OF_COMPLEX: dict[type, str] = {ast.Mult: "ad_times", ast.Div: "ad_over"}
_LOGIC: dict[type, str] = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
_ORDER: dict[type, str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


Parts = dict[str, Callable[..., Any]]  # name -> function of the formula's parameters


class FormulaLoops(LoopsOfCalls):
    """A formula on arrays: a single loop if there is one, else `plain`."""

    def __init__(
        self,
        formula: Formula,
        parameters: Sequence[str],
        plain: Callable[..., Any],
        bind: Callable[[Formula], Callable[..., Any]],  # compiles a part of the formula
    ) -> None:
        super().__init__()
        self.formula, self.parameters, self.plain, self.bind = formula, parameters, plain, bind

    def __call__(self, *values: Any) -> Any:
        key = tuple([v.dtype.num if type(v) is np.ndarray else _key(v) for v in values])
        try:
            found = self.known[key]
        except KeyError:
            found = self.known[key] = None if self.are_enough else self._find(values)
        except TypeError:  # an unhashable argument
            found = None
        if found is None:
            return self.plain(*values)
        loop, parts = found
        given = dict(zip(self.parameters, values, strict=True))
        for name, part in parts.items():
            given[name] = np.asarray(part(*values))
        result = loop([given[name] for name, _ in loop.element.operands])
        return self.plain(*values) if result is None else result

    def _find(self, values: Sequence[Any]) -> tuple[ElementLoop, Parts] | None:
        given = dict(zip(self.parameters, values, strict=True))
        tree = self.formula.tree.body
        found = self._loop(tree, given)
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
        found = self._loop(tree, given)
        if found is None:
            return None
        # parts that are no operands are numbers in the loop's tree
        return found, {name: part for name, part in parts.items() if name in found.element.names}

    def _loop(self, tree: ast.expr, given: Mapping[str, Any]) -> ElementLoop | None:
        element = element_of(tree, given)
        return None if element is None else self.loop(element)


def _key(value: Any) -> Any:
    """A key of an argument: 1 and True are different, and so are 0.0 and -0.0."""
    has_sign = isinstance(value, complex) or (isinstance(value, float) and value == 0)
    return (type(value), value, str(value)) if has_sign else (type(value), value)


def _without_parts(
    node: ast.expr, given: Mapping[str, Any], taken: dict[str, ast.expr]
) -> ast.expr:
    """An expression with names in place of the parts without a tree, which go into `taken`."""
    if _has_tree(node, given):
        return node
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = (_without_parts(n, given, taken) for n in (node.left, node.right))
        return ast.BinOp(left, node.op, right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return ast.UnaryOp(node.op, _without_parts(node.operand, given, taken))
    name = f"part_{len(taken)}"
    taken[name] = node
    return ast.Name(name, ast.Load())


def _has_tree(node: ast.expr, given: Mapping[str, Any]) -> bool:
    kinds = {n: OF[v.dtype].name for n, v in given.items() if type(v) is np.ndarray}
    dtype = next((d for d in kinds.values() if d in _INEXACT), "float32")
    try:
        return _TermMaker(given, kinds, NAMES[dtype].wide).term(node).tree is not None
    except _NoTree:
        return False


def element_of(tree: ast.expr, given: Mapping[str, Any]) -> Element | None:
    """The element of an expression in arrays of one dtype; None if a part has no tree."""
    kinds = {n: OF[v.dtype].name for n, v in given.items() if type(v) is np.ndarray}
    computed = {kinds[n] for n in free_names(ast.Expression(tree)) & kinds.keys()} - {"bool"}
    if len(computed) != 1 or not computed <= {*_INEXACT}:
        return None
    dtype = computed.pop()
    try:
        term = _TermMaker(given, kinds, NAMES[dtype].wide).term(tree)
    except _NoTree:
        return None
    found = term.tree
    if term.kind != "number" or found is None or isinstance(found, Operand):
        return None  # a copy of an operand gains nothing
    used = tuple([(n, d) for n, d in kinds.items() if n in found.operands])
    return Element(used, (), ((found, dtype),)) if dtype in dict(used).values() else None


class _NoTree(Exception):
    pass


@record
class _Term:
    """A subexpression."""

    kind: str  # "number", "truth", or "constant"
    tree: Expression | None  # None for a constant that is no number
    value: Any = None  # of a constant: 0.5, "tanh"


class _TermMaker:
    """Makes a tree of an expression in the names of arrays."""

    def __init__(self, given: Mapping[str, Any], kinds: dict[str, str], dtype: DType) -> None:
        # numbers rounded to half precision count as Python numbers, since results computed from
        # them are not rounded
        plain = {n: v.item() if isinstance(v, np.generic) else v for n, v in given.items()}
        self.given, self.kinds, self.dtype = plain, kinds, dtype
        self.is_complex = dtype.is_complex

    def term(self, node: ast.expr) -> _Term:
        if not free_names(ast.Expression(node)) & self.kinds.keys():
            return self.constant(node)
        found = getattr(self, f"of_{type(node).__name__}", self.nothing)(node)
        if found.tree is not None and found.tree.size > _LARGEST:
            raise _NoTree
        return found

    def nothing(self, node: ast.expr) -> _Term:
        raise _NoTree

    def constant(self, node: ast.expr) -> _Term:
        """A subexpression without arrays."""
        code = compile(ast.fix_missing_locations(ast.Expression(node)), "<formula>", "eval")
        try:
            value = eval(code, {"__builtins__": BUILTINS}, dict(self.given))
        except Exception:  # the formula names an operator or fails; evaluated itself it says why
            raise _NoTree from None
        if type(value) in (int, float, bool):
            return _Term("constant", Number(float(value), self.dtype), value)
        if self.is_complex and type(value) is complex:
            return _Term("constant", Number(value, self.dtype), value)
        return _Term("constant", None, value)

    def number(self, node: ast.expr) -> tuple[Expression, bool]:
        """(tree of a subexpression that is a number, whether it is constant)."""
        found = self.term(node)
        if found.tree is None:
            raise _NoTree
        return found.tree, found.kind == "constant"

    def condition(self, node: ast.expr) -> Expression:
        found = self.term(node)
        if found.kind != "truth" or found.tree is None:
            raise _NoTree
        return found.tree

    def of_Name(self, node: ast.Name) -> _Term:
        if self.kinds[node.id] == "bool":
            return _Term("truth", Operand(node.id, dtypes.bool_))
        return _Term("number", Operand(node.id, self.dtype))

    def of_BinOp(self, node: ast.BinOp) -> _Term:
        kind = type(node.op)
        if kind in _LOGIC:
            sides = self.condition(node.left), self.condition(node.right)
            return _Term("truth", Binary(_LOGIC[kind], *sides))
        if kind is ast.Pow:
            return self.operator("pow", [node.left, node.right], {})
        if kind not in _ARITHMETIC:
            raise _NoTree
        (one, constant), (two, too) = self.number(node.left), self.number(node.right)
        if constant and too:
            raise _NoTree
        if self.is_complex and kind in _OF_COMPLEX:
            return _Term("number", Call(_OF_COMPLEX[kind], (one, two), self.dtype))
        return _Term("number", Binary(_ARITHMETIC[kind], one, two))

    def of_UnaryOp(self, node: ast.UnaryOp) -> _Term:
        if isinstance(node.op, ast.Invert):
            return _Term("truth", Unary("!", self.condition(node.operand)))
        found, constant = self.number(node.operand)
        if not isinstance(node.op, ast.USub) or constant:
            raise _NoTree
        return _Term("number", Unary("-", found))

    def of_Compare(self, node: ast.Compare) -> _Term:
        if len(node.ops) != 1 or type(node.ops[0]) not in _ORDER or self.is_complex:
            raise _NoTree
        (one, _), (two, _) = self.number(node.left), self.number(node.comparators[0])
        return _Term("truth", Binary(_ORDER[type(node.ops[0])], one, two))

    def of_IfExp(self, node: ast.IfExp) -> _Term:
        test = self.term(node.test)
        if test.kind != "constant":
            raise _NoTree
        return self.term(node.body if test.value else node.orelse)

    def of_BoolOp(self, node: ast.BoolOp) -> _Term:
        """A boolean expression of conditions that are constant."""
        wanted = isinstance(node.op, ast.Or)
        *parts, last = node.values
        for part in parts:
            test = self.term(part)
            if test.kind != "constant":
                raise _NoTree
            if bool(test.value) is wanted:
                return test
        return self.term(last)

    def of_Call(self, node: ast.Call) -> _Term:
        keywords = {k.arg: k.value for k in node.keywords if k.arg is not None}
        if isinstance(node.func, ast.Name):
            return self.operator(node.func.id, node.args, keywords)
        if isinstance(node.func, ast.Attribute):
            return self.operator(node.func.attr, [node.func.value, *node.args], keywords)
        raise _NoTree

    def operator(self, name: str, args: list[ast.expr], keywords: dict[str, ast.expr]) -> _Term:
        if name == "is_complex":
            return _Term("constant", None, self.is_complex)
        if name == "conj" and len(args) == 1:
            found = self.term(args[0])
            if not self.is_complex:
                return found
            if found.kind != "number" or found.tree is None:
                raise _NoTree
            return _Term("number", Call("ad_conj", (found.tree,), self.dtype))
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
        raise _NoTree

    def choice(self, condition: ast.expr, one: ast.expr, two: ast.expr) -> _Term:
        test = self.condition(condition)
        return _Term("number", Choose(test, self.number(one)[0], self.number(two)[0]))

    def call(
        self, name: str, overload: str, positional: list[_Term], named: dict[str, _Term]
    ) -> _Term | None:
        """An operator applied to terms, if it has an element for them; else None."""
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
        trees: dict[str, Expression] = {}
        for a in arguments:
            term = terms.get(a.name)
            if term is None:
                if not a.has_default:
                    return None
                term = _Term("constant", None, a.default)
                if type(a.default) in (int, float, bool):
                    term = _Term("constant", Number(a.default, self.dtype), a.default)
            if a.type.is_tensor != (term.kind == "number"):
                return None
            given[a.name] = term if a.type.is_tensor else term.value
            if term.tree is not None:
                trees[a.name] = term.tree
        tree = expression(row, self.dtype, given)
        if tree is None or not tree.operands <= trees.keys():
            return None
        kind = "truth" if row.archetype.result == "bool" else "number"
        return _Term(kind, tree.substitute(trees))

"""The language of formulas: Python expressions, a whitelist of them, read once.

A formula is parsed with `ast`, checked node by node, and compiled to a named function whose
traceback shows the line of the YAML file. It is compiled twice: for tensors as it stands, and for
raw arrays with every method and operator call turned into a call of a function bound by name
(`x.sum(0)` becomes `sum(x, 0)`), because arrays do not have our methods.

Facts about a tensor that need no data (`self.shape`, `self.dtype`, …) become names of their own
(`self__shape`), so that the tape saves the fact and not the tensor.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from adjoint.core.errors import TableError

_ALLOWED = (
    ast.Expression,
    ast.Call,
    ast.keyword,
    ast.Attribute,
    ast.Name,
    ast.Load,
    ast.Constant,
    ast.BinOp,
    ast.UnaryOp,
    ast.operator,
    ast.unaryop,
    ast.Compare,
    ast.cmpop,
    ast.BoolOp,
    ast.boolop,
    ast.IfExp,
    ast.Subscript,
    ast.Slice,
    ast.Tuple,
    ast.List,
    ast.Starred,
    ast.ListComp,
    ast.GeneratorExp,
    ast.comprehension,
    ast.Store,
)

# Attributes and methods of a tensor that say something about it without its data.
FACTS = frozenset(("shape", "dtype", "ndim", "device"))
FACT_METHODS = frozenset(
    ("numel", "dim", "size", "is_complex", "is_floating_point", "stride", "storage_offset")
)
# Properties of a tensor that are operators.
PROPERTIES = {
    "T": "numpy_T",
    "mT": "mT",
    "mH": "mH",
    "H": "matrix_H",
    "real": "real",
    "imag": "imag",
}
BUILTINS: dict[str, Any] = {
    "len": len,
    "range": range,
    "zip": zip,
    "enumerate": enumerate,
    "any": any,
    "all": all,
    "abs": abs,
    "tuple": tuple,
    "list": list,
    "reversed": reversed,
    "isinstance": isinstance,
    "int": int,
    "float": float,
    "bool": bool,
    "None": None,
    "True": True,
    "False": False,
}


@dataclass(frozen=True)
class Location:
    """A place in a table file."""

    path: str  # "/…/table/pointwise.yaml"
    line: int  # 41

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Formula:
    """A checked expression and what it uses."""

    text: str  # as written: "grad * exp(self - result)"
    where: Location  # table/pointwise.yaml:41
    tree: ast.Expression  # facts already turned into names
    names: frozenset[str]  # free names: {"grad", "exp", "self", "result"}
    conditions: Mapping[str, str]  # of wrap_opt_if: {"self": "other.requires_grad"}

    def without_conj(self) -> Formula:
        """The same formula for real numbers: x.conj() is x."""
        return replace(self, tree=_WithoutConj().visit(copy.deepcopy(self.tree)))

    def without_terms(self, zeros: frozenset[str], others: frozenset[str]) -> Formula | None:
        """The sum without its terms in names of `zeros` alone; None if nothing is left.

        A term that also has a name of `others` stays, since it may be a function of both.
        """
        body: ast.expr | None = None
        for sign, term in _terms(self.tree.body, 1):
            used = {n.id for n in ast.walk(term) if isinstance(n, ast.Name)}
            if used & zeros and not used & others:
                continue
            if body is None:
                body = term if sign > 0 else ast.UnaryOp(ast.USub(), term)
            else:
                body = ast.BinOp(body, ast.Add() if sign > 0 else ast.Sub(), term)
        if body is None:
            return None
        tree = ast.Expression(body)
        return replace(self, tree=tree, names=_free_names(tree))

    def compile(
        self, symbol: str, parameters: Iterable[str], scope: dict[str, Any], *, raw: bool
    ) -> Callable[..., Any]:
        """Return the function `symbol(*parameters)` of this formula, names resolved in `scope`."""
        tree = copy.deepcopy(self.tree)
        if raw:
            tree = _Raw().visit(tree)
        arguments = ast.arguments(
            posonlyargs=[],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[],
            vararg=None,
            kwarg=None,
            args=[ast.arg(p) for p in parameters],
        )
        function = ast.FunctionDef(symbol, arguments, [ast.Return(tree.body)], [], None)
        module = ast.fix_missing_locations(ast.Module([function], []))
        for node in ast.walk(module):
            if hasattr(node, "lineno"):
                node.lineno = node.end_lineno = self.where.line  # type: ignore[attr-defined]
        local: dict[str, Any] = {}
        exec(compile(module, self.where.path, "exec"), scope, local)
        return local[symbol]


def parse(text: str, where: Location, tensors: Iterable[str], lists: Iterable[str] = ()) -> Formula:
    """Parse and check a formula; `tensors` and `lists` (of tensors) are the names whose facts are
    split off.
    """
    try:
        tree = ast.parse(" ".join(str(text).split()), mode="eval")
    except SyntaxError as error:
        raise TableError(f"{where}: not an expression: {text!r} ({error.msg})") from None
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise TableError(
                f"{where}: {type(node).__name__} is not allowed in a formula: {text!r}"
            )
        if isinstance(node, ast.Attribute) and node.attr.startswith("__"):
            raise TableError(f"{where}: private attribute .{node.attr} in a formula: {text!r}")
    conditions = _Conditions()
    tree = conditions.visit(tree)
    tree = _Facts(frozenset(tensors), frozenset(lists)).visit(tree)
    return Formula(str(text), where, tree, _free_names(tree), conditions.found)


def _terms(node: ast.expr, sign: int) -> list[tuple[int, ast.expr]]:
    """The terms of a sum, with their signs."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        return _terms(node.left, sign) + _terms(
            node.right, sign if isinstance(node.op, ast.Add) else -sign
        )
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _terms(node.operand, -sign)
    return [(sign, node)]


def _free_names(tree: ast.AST) -> frozenset[str]:
    stored = {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    loaded = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    return frozenset(loaded - stored)


class _Facts(ast.NodeTransformer):
    """self.shape -> self__shape, self.numel() -> self__numel: a fact is saved instead of the
    tensor.

    Of a list, [x.shape for x in tensors] -> tensors__shape.
    """

    def __init__(self, tensors: frozenset[str], lists: frozenset[str]) -> None:
        self.tensors = tensors
        self.lists = lists

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        loop, fact = node.generators[0], node.elt
        if (
            len(node.generators) == 1
            and not loop.ifs
            and isinstance(loop.iter, ast.Name)
            and loop.iter.id in self.lists
            and isinstance(fact, ast.Attribute)
            and fact.attr in FACTS
            and ast.unparse(fact.value) == ast.unparse(loop.target)
        ):
            return ast.Name(f"{loop.iter.id}__{fact.attr}", ast.Load())
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        f = node.func
        if (
            isinstance(f, ast.Attribute)
            and isinstance(f.value, ast.Name)
            and f.value.id in self.tensors
            and f.attr in FACT_METHODS
        ):
            if f.attr == "size" and node.args:
                shape = ast.Name(f"{f.value.id}__shape", ast.Load())
                return ast.Subscript(shape, self.visit(node.args[0]), ast.Load())
            return ast.Name(f"{f.value.id}__{'shape' if f.attr == 'size' else f.attr}", ast.Load())
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if (
            isinstance(node.value, ast.Name)
            and node.value.id in self.tensors
            and node.attr in FACTS
        ):
            return ast.Name(f"{node.value.id}__{node.attr}", ast.Load())
        return self.generic_visit(node)


class _Conditions(ast.NodeTransformer):
    """wrap_opt_if(x, condition) -> x, remembering the condition under which x is worth saving."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "wrap_opt_if":
            name = node.args[0]
            assert isinstance(name, ast.Name)
            self.found[name.id] = ast.unparse(node.args[1])
            return name
        return self.generic_visit(node)


class _WithoutConj(ast.NodeTransformer):
    """x.conj() -> x."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "conj" and not node.args:
            return self.visit(node.func.value)
        return self.generic_visit(node)


class _Raw(ast.NodeTransformer):
    """Method calls and operator properties become calls of functions bound by name."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        f = node.func
        if isinstance(f, ast.Attribute) and not _is_module(f.value):
            call = ast.Call(
                ast.Name(f"op_{f.attr}", ast.Load()), [f.value, *node.args], node.keywords
            )
            return self.generic_visit(call)
        if isinstance(f, ast.Attribute):
            return ast.Call(
                f, [self.visit(a) for a in node.args], [self.visit(k) for k in node.keywords]
            )
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if node.attr in PROPERTIES:
            name = ast.Name(f"op_{PROPERTIES[node.attr]}", ast.Load())
            return ast.Call(name, [self.visit(node.value)], [])
        if node.attr == "dtype":
            return ast.Call(ast.Name("op_dtype_of", ast.Load()), [self.visit(node.value)], [])
        return self.generic_visit(node)


MODULES: set[str] = set()  # families that have a formulas/ file; filled by the loader


def _is_module(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in MODULES


def methods_used(tree: ast.AST) -> frozenset[str]:
    """The names of methods called in a formula; each must be an operator."""
    return frozenset(
        n.func.attr
        for n in ast.walk(tree)
        if isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and not _is_module(n.func.value)
    )

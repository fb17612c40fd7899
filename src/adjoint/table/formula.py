"""The language of formulas: Python expressions from a whitelist, parsed once.

A formula is parsed with `ast`, checked node by node, and compiled to a named function whose
traceback shows the line of the YAML file. Kernels and conditions are checked by the same rules.
`ops/binding.py` gives names their values, from a whitelist; this module decides which expressions
are allowed, and keeps reading them quick. Note [Rows from outside]:

- Text is short, shallow and ASCII; expressions that are visibly huge (`10**10**10`) are refused.
- A compiled formula reads only the listed facts and properties of a value. A method becomes a call
  of the operator (`x.sum(0)` is `_Tensor.sum(x, 0)`, on arrays `_op__sum(x, 0)`), a function of a
  family a name of its own (`_of__linalg__qr_vjp`): names with two underscores, which no text,
  argument or operator can hold.

Facts about a tensor that need no data (`self.shape`, `self.dtype`, …) become names of their own
(`self__shape`), so that the tape saves the fact and not the tensor.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from types import CodeType
from typing import Any

from adjoint.core.errors import TableError
from adjoint.core.records import record
from adjoint.core.remembering import cached_property

# functions and methods that do not round
EXACT = frozenset((
    "abs", "clone", "conj", "copysign", "detach", "is_complex", "isinf", "isnan", "isinstance",
    "masked_fill", "neg", "sgn", "sign", "where", "zeros", "zeros_like",
))  # fmt: skip
_LONGEST = 2000  # characters of a formula; our longest has 260
_DEEPEST = 40  # levels of a formula's tree; our deepest has 11
_LARGEST = 2**64  # a whole number in a formula
_LONGEST_RANGE = 2**20  # a range whose ends are written as numbers
_MOST_LOOPS = 6  # `for` in one formula

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
    ast.ListComp,
    ast.GeneratorExp,
    ast.comprehension,
    ast.Store,
)
# Conditions are pasted into generated code, so only a few forms are allowed: `ord == 2`,
# `grad_input_mask[0]`.
_IN_CONDITIONS = (
    ast.Expression,
    ast.Name,
    ast.Load,
    ast.Constant,
    ast.UnaryOp,
    ast.unaryop,
    ast.Compare,
    ast.cmpop,
    ast.BoolOp,
    ast.boolop,
    ast.Subscript,
)

# Attributes and methods of a tensor that need no data.
FACTS = frozenset(("shape", "dtype", "ndim", "device"))
FACT_METHODS = frozenset(
    ("numel", "dim", "size", "is_complex", "is_floating_point", "stride", "storage_offset")
)
_INDEXED_FACTS = {"size": "shape", "stride": "stride"}  # self.size(0) is self.shape[0]
# Properties of a tensor that are operators.
PROPERTIES = {
    "T": "numpy_T",
    "mT": "mT",
    "mH": "mH",
    "H": "matrix_H",
    "real": "real",
    "imag": "imag",
}
# Attributes and methods of arrays, in kernels; the last line is of dtypes.
ARRAY_ATTRIBUTES = frozenset(
    ("shape", "dtype", "ndim", "size", "T", "mT", "real", "imag", "char", "kind", "itemsize")
)
ARRAY_METHODS = frozenset(
    ("astype", "conj", "copy", "ravel", "reshape", "squeeze", "swapaxes", "transpose")
)
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


@record
class Location:
    """A place in a table file."""

    path: str  # "/…/table/pointwise.yaml"
    line: int  # 41
    column: int = 0  # 9; 0 for the line as a whole
    source: str = field(default="", compare=False, repr=False)  # the text that starts there

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" + (f":{self.column}" if self.column else "")

    def of(self, word: str) -> Location:
        """The place of a word in the text that starts here; this place if it lacks the word."""
        found = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", self.source) if word else None
        if found is None:
            return self
        before = self.source[: found.start()]
        _, newline, last = before.rpartition("\n")
        column = len(last) + (1 if newline else self.column)
        return Location(self.path, self.line + before.count("\n"), column)


@record
class Formula:
    """A checked expression and the names it uses; parsed when its tree is first needed."""

    text: str  # as written: "grad * exp(self - result)"
    where: Location  # table/pointwise.yaml:41:9
    tensors: frozenset[str] = frozenset()  # names of tensors: {"self", "result"}
    lists: frozenset[str] = frozenset()  # names of lists of tensors: {"tensors"}
    real: bool = False  # whether it is for real numbers: x.conj() is x

    @cached_property
    def tree(self) -> ast.Expression:
        """The expression, facts turned into names."""
        return self._parsed[0]

    @cached_property
    def names(self) -> frozenset[str]:
        """Its free names: {"grad", "exp", "self", "result"}."""
        return free_names(self.tree)

    @cached_property
    def conditions(self) -> Mapping[str, str]:
        """The conditions of wrap_opt_if: {"self": "other.requires_grad"}."""
        return self._parsed[1]

    @cached_property
    def _parsed(self) -> tuple[ast.Expression, Mapping[str, str]]:
        conditions = _Conditions(self.where)
        tree = conditions.visit(expression(self.text, self.where))
        tree = _Facts(self.tensors, self.lists, self.where).visit(tree)
        return _WithoutConj().visit(tree) if self.real else tree, conditions.found

    def __getstate__(self) -> dict[str, Any]:
        """The fields without the trees, which are parsed again when they are needed."""
        return {n: v for n, v in vars(self).items() if n not in ("tree", "_parsed")}

    def without_conj(self) -> Formula:
        """The formula for real numbers: x.conj() is x."""
        return replace(self, real=True)

    def part(self, tree: ast.expr) -> Formula:
        """A part of the formula as a formula."""
        rest = replace(self)
        vars(rest)["tree"] = ast.Expression(tree)
        return rest

    def without_terms(self, zeros: frozenset[str], others: frozenset[str]) -> Formula | None:
        """The formula without terms (also of inner sums) that use names of `zeros` only; None if
        nothing is left. A term that also uses a name of `others` stays.
        """
        body = _without_terms(self.tree.body, zeros, others)
        if body is None:
            return None
        return self.part(body)

    def code(self, symbol: str, parameters: tuple[str, ...], *, raw: bool) -> CodeType:
        """The code that defines the function `symbol(*parameters)` of this formula."""
        tree = _Bound(parameters, raw).visit(copy.deepcopy(self.tree))
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
        return compile(module, self.where.path, "exec")


def roundings(node: ast.AST) -> int:
    """How many roundings the computation of an expression takes, as far as its text tells.

    >>> roundings(ast.parse("(grad / other.conj()).masked_fill(other == 0, 0) * other"))
    2
    """
    if isinstance(node, ast.IfExp):
        return max(roundings(node.body), roundings(node.orelse))
    if isinstance(node, (ast.Compare, ast.BoolOp)):
        return 0
    inner = sum(map(roundings, ast.iter_child_nodes(node)))
    if isinstance(node, ast.BinOp):
        return inner + (0 if isinstance(node.op, (ast.BitAnd, ast.BitOr)) else 1)
    return inner + (isinstance(node, ast.Call) and called(node) not in EXACT)


def called(call: ast.Call) -> str:
    """The name of the function or method called: "tanh" for `tanh(x)` and `x.tanh()`."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def parse(text: str, where: Location, tensors: Iterable[str], lists: Iterable[str] = ()) -> Formula:
    """Parse and check a formula; facts of `tensors` and `lists` (of tensors) become names."""
    formula = Formula(str(text), where, frozenset(tensors), frozenset(lists))
    _ = formula.names, formula.conditions  # raises for mistakes
    return formula


def condition(text: str, where: Location) -> ast.Expression:
    """Parse a condition on arguments, `ord == 2`; unparsed, it may stand in generated code."""
    tree = expression(text, where)
    _refuse_nodes(tree, text, where)
    return tree


def expression(text: str, where: Location) -> ast.Expression:
    """Parse an expression and check that formulas or kernels may contain all its nodes."""
    if len(text) > _LONGEST:
        raise TableError(f"{where}: {len(text)} characters; a formula has at most {_LONGEST}")
    if not text.isascii():
        odd = next(c for c in text if not c.isascii())
        raise TableError(f"{where}: {odd!r} is not allowed in a formula, which is ASCII: {text!r}")
    if "#" in text:  # a comment would swallow the rest when lines are joined
        raise TableError(f"{where}: no comments in a formula: {text!r}")
    try:
        tree = ast.parse(" ".join(text.split()), mode="eval")
    except (SyntaxError, ValueError, OverflowError) as error:
        reason = getattr(error, "msg", str(error))
        raise TableError(f"{where}: not an expression: {text!r} ({reason})") from None
    except (RecursionError, MemoryError):
        raise TableError(f"{where}: the expression is nested too deeply") from None
    nodes = list(_shallow(tree, where))
    for node in nodes:
        if not isinstance(node, _ALLOWED):
            raise TableError(
                f"{where}: {type(node).__name__} is not allowed in a formula: {text!r}"
            )
    for node in nodes:
        for kind, rule in _RULES:
            if isinstance(node, kind) and (reason := rule(node)):
                word = getattr(node, "attr", getattr(node, "id", ""))
                raise TableError(f"{where.of(word)}: {reason} in a formula: {text!r}")
    if sum(isinstance(n, ast.comprehension) for n in nodes) > _MOST_LOOPS:
        raise TableError(f"{where}: more than {_MOST_LOOPS} loops in a formula: {text!r}")
    return tree


def _shallow(tree: ast.AST, where: Location) -> Iterator[ast.AST]:
    """All nodes of a tree, unless it is too deep for the passes that recurse."""
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > _DEEPEST:
            raise TableError(f"{where}: the expression is nested more than {_DEEPEST} levels deep")
        yield node
        waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]


def _private(node: Any) -> str:
    name = node.attr if isinstance(node, ast.Attribute) else node.id
    kind = "attribute ." if isinstance(node, ast.Attribute) else "name "
    return f"private {kind}{name}" if "__" in name else ""


def _wrong_call(node: Any) -> str:
    if not isinstance(node.func, (ast.Name, ast.Attribute)):
        return "a call of what is no name"
    if any(k.arg is None for k in node.keywords):
        return "** of keywords"
    if any("__" in str(k.arg) for k in node.keywords):
        return "a private keyword"
    ends = [a.value for a in node.args if isinstance(a, ast.Constant)]
    is_range = isinstance(node.func, ast.Name) and node.func.id == "range"
    if is_range and any(isinstance(e, int) and abs(e) > _LONGEST_RANGE for e in ends):
        return "a range that is too long"
    return ""


def _wrong_constant(node: Any) -> str:
    value = node.value
    if isinstance(value, int) and abs(value) > _LARGEST:
        return "a whole number that is too large"
    known = (int, float, complex, str, type(None), type(...))
    return "" if isinstance(value, known) else f"a constant of type {type(value).__name__}"


def _wrong_arithmetic(node: Any) -> str:
    sides = (node.left, node.right)
    if any(isinstance(s, ast.Constant) and isinstance(s.value, str) for s in sides):
        return "arithmetic with text"
    if isinstance(node.op, (ast.Pow, ast.LShift)) and not any(map(_uses_names, sides)):
        return "a power of constants (write the number)"
    return ""


def _uses_names(tree: ast.AST) -> bool:
    return any(isinstance(n, ast.Name) for n in ast.walk(tree))


def _wrong_comparison(node: Any) -> str:
    identity = any(isinstance(o, (ast.Is, ast.IsNot)) for o in node.ops)
    if not identity:
        return ""
    right = node.comparators[-1]
    known = isinstance(right, ast.Constant) and right.value in (None, True, False)
    if len(node.ops) == 1 and known and not isinstance(node.left, ast.Constant):
        return ""
    return "'is' with anything but None, True or False"


def _wrong_subscript(node: Any) -> str:
    indexed = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.List, ast.Tuple, ast.ListComp)
    if not isinstance(node.value, indexed):
        return "an index into what has no entries"
    if isinstance(node.value, (ast.List, ast.Tuple, ast.ListComp)) and not _is_number(node.slice):
        return "an index into a list that is no whole number"
    texts = (str, float, complex)
    constants = (n.value for n in ast.walk(node.slice) if isinstance(n, ast.Constant))
    return (
        "an index that is no whole number" if any(isinstance(c, texts) for c in constants) else ""
    )


def _is_number(index: ast.AST) -> bool:
    """Whether an index may be a whole number or a slice, as far as Python's compiler can tell."""
    if isinstance(index, ast.Constant):
        return isinstance(index.value, int)
    return not isinstance(index, (ast.Tuple, ast.List, ast.ListComp, ast.GeneratorExp))


def _wrong_loop(node: Any) -> str:
    if node.is_async:
        return "an asynchronous loop"
    targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
    if not all(isinstance(t, ast.Name) for t in targets):
        return "a loop over what are no names"
    return ""


_RULES: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    ((ast.Attribute, ast.Name), _private),
    (ast.Call, _wrong_call),
    (ast.Constant, _wrong_constant),
    (ast.BinOp, _wrong_arithmetic),
    (ast.Compare, _wrong_comparison),
    (ast.Subscript, _wrong_subscript),
    (ast.comprehension, _wrong_loop),
)


def _refuse_nodes(tree: ast.AST, text: str, where: Location) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, _IN_CONDITIONS):
            raise TableError(
                f"{where}: {type(node).__name__} is not allowed in a condition: {text!r}"
            )


def _without_terms(node: Any, zeros: frozenset[str], others: frozenset[str]) -> Any:
    """A tree without terms that use names of `zeros` only; None if the tree is such a term."""
    used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    if not used & zeros:
        return node
    if not used & others:
        return None
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Add, ast.Sub)):
        return _Inside(zeros, others).generic_visit(copy.deepcopy(node))
    left, right = (_without_terms(n, zeros, others) for n in (node.left, node.right))
    if left is None:
        return right if isinstance(node.op, ast.Add) else ast.UnaryOp(ast.USub(), right)
    return left if right is None else ast.BinOp(left, node.op, right)


def free_names(tree: ast.AST) -> frozenset[str]:
    """The free names of an expression: without the variables of its own loops."""
    if isinstance(tree, ast.Name):
        return frozenset((tree.id,)) if isinstance(tree.ctx, ast.Load) else frozenset()
    if not isinstance(tree, (ast.ListComp, ast.GeneratorExp)):
        return frozenset().union(*map(free_names, ast.iter_child_nodes(tree)))
    found: frozenset[str] = frozenset()
    bound: frozenset[str] = frozenset()
    for loop in tree.generators:
        found |= free_names(loop.iter) - bound
        bound |= loop_names(loop.target)
        found |= frozenset().union(*map(free_names, loop.ifs)) - bound
    return found | (free_names(tree.elt) - bound)


def loop_names(tree: ast.AST) -> frozenset[str]:
    """The variables of the loops in an expression."""
    return frozenset(
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    )


class _Facts(ast.NodeTransformer):
    """self.shape -> self__shape, self.numel() -> self__numel: the tape saves the fact alone.

    Of a list, [x.shape for x in tensors] -> tensors__shape.
    """

    def __init__(self, tensors: frozenset[str], lists: frozenset[str], where: Location) -> None:
        self.tensors = tensors
        self.lists = lists
        self.where = where

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
            indexed = _INDEXED_FACTS.get(f.attr)
            if len(node.args) > (indexed is not None) or node.keywords:
                raise TableError(
                    f"{self.where.of(f.attr)}: {ast.unparse(node)} has too many arguments"
                )
            fact = ast.Name(f"{f.value.id}__{indexed or f.attr}", ast.Load())
            return ast.Subscript(fact, self.visit(node.args[0]), ast.Load()) if node.args else fact
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

    def __init__(self, where: Location) -> None:
        self.found: dict[str, str] = {}
        self.where = where

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not (isinstance(node.func, ast.Name) and node.func.id == "wrap_opt_if"):
            return self.generic_visit(node)
        name = node.args[0] if node.args else None
        if len(node.args) != 2 or node.keywords or not isinstance(name, ast.Name):
            raise TableError(
                f"{self.where.of('wrap_opt_if')}: expected wrap_opt_if(name, condition), got "
                f"{ast.unparse(node)}"
            )
        text = ast.unparse(node.args[1])
        _refuse_nodes(node.args[1], text, self.where)
        if self.found.setdefault(name.id, text) != text:
            raise TableError(
                f"{self.where.of(name.id)}: two conditions for saving {name.id}: "
                f"{self.found[name.id]!r} and {text!r}"
            )
        return name


class _Inside(ast.NodeTransformer):
    """Drops zero terms from sums inside a call or a product; an argument that is all zero stays."""

    def __init__(self, zeros: frozenset[str], others: frozenset[str]) -> None:
        self.zeros = zeros
        self.others = others

    def visit(self, node: ast.AST) -> ast.AST:
        return _without_terms(node, self.zeros, self.others) or node


class _WithoutConj(ast.NodeTransformer):
    """x.conj() -> x."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "conj" and not node.args:
            return self.visit(node.func.value)
        return self.generic_visit(node)


class _Bound(ast.NodeTransformer):
    """Turns methods and functions of families into names that the binding resolves."""

    def __init__(self, parameters: tuple[str, ...], raw: bool) -> None:
        self.parameters = parameters
        self.raw = raw

    def visit_Call(self, node: ast.Call) -> ast.AST:
        f = node.func
        if not isinstance(f, ast.Attribute) or family_of(f, self.parameters):
            return self.generic_visit(node)
        if self.raw:
            function: ast.expr = ast.Name(bound_operator(f.attr), ast.Load())
        elif f.attr in FACT_METHODS:
            return self.generic_visit(node)
        else:
            function = ast.Attribute(ast.Name(TENSOR, ast.Load()), f.attr, ast.Load())
        arguments = [self.visit(a) for a in (f.value, *node.args)]
        return ast.Call(function, arguments, [self.visit(k) for k in node.keywords])

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        family = family_of(node, self.parameters)
        if family:
            return ast.Name(bound_function(family, node.attr), ast.Load())
        if self.raw and node.attr in PROPERTIES:
            name = ast.Name(bound_operator(PROPERTIES[node.attr]), ast.Load())
            return ast.Call(name, [self.visit(node.value)], [])
        if self.raw and node.attr == "dtype":
            return ast.Call(
                ast.Name(bound_operator("dtype_of"), ast.Load()), [self.visit(node.value)], []
            )
        return self.generic_visit(node)


MODULES: set[str] = set()  # families that have a formulas/ file; filled by the loader
TENSOR = "_Tensor"  # the tensor class in a compiled formula


def bound_operator(name: str) -> str:
    """The name under which a formula on arrays finds an operator."""
    return f"_op__{name}"


def bound_function(family: str, name: str) -> str:
    """The name under which a formula finds a function of a family."""
    return f"_of__{family}__{name}"


def operator_bound(name: str) -> str:
    """The inverse of `bound_operator`; "" for other names."""
    return name[5:] if name.startswith("_op__") else ""


def function_bound(name: str) -> str:
    """The inverse of `bound_function`, `linalg.qr_vjp`; "" for other names."""
    return name[5:].replace("__", ".", 1) if name.startswith("_of__") else ""


def family_of(node: ast.AST, parameters: Iterable[str]) -> str:
    """The family in `linalg.qr_vjp`; "" for an attribute of a value, `self.shape`."""
    value = node.value if isinstance(node, ast.Attribute) else None
    if isinstance(value, ast.Name) and value.id in MODULES and value.id not in parameters:
        return value.id
    return ""


def names_used(tree: ast.AST, parameters: Iterable[str] = ()) -> frozenset[str]:
    """The free names of a formula that are neither parameters nor families before a dot."""
    owners = {id(n.value) for n in ast.walk(tree) if family_of(n, parameters)}  # type: ignore[attr-defined]
    plain = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in owners}
    return (free_names(tree) & plain) - frozenset(parameters)


def methods_used(tree: ast.AST, parameters: Iterable[str] = ()) -> frozenset[str]:
    """The names of methods called in a formula; each must be an operator or a fact."""
    return frozenset(
        n.func.attr
        for n in ast.walk(tree)
        if isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and not family_of(n.func, parameters)
    )


def properties_used(tree: ast.AST, parameters: Iterable[str] = ()) -> frozenset[str]:
    """The names of attributes that are read and not called in a formula."""
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    return frozenset(
        n.attr
        for n in ast.walk(tree)
        if isinstance(n, ast.Attribute) and id(n) not in called and not family_of(n, parameters)
    )


def functions_used(tree: ast.AST, parameters: Iterable[str] = ()) -> frozenset[tuple[str, str]]:
    """The functions of families named in a formula: {("linalg", "qr_vjp")}."""
    return frozenset(
        (family, n.attr)
        for n in ast.walk(tree)
        if isinstance(n, ast.Attribute) and (family := family_of(n, parameters))
    )

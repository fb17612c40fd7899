"""Reading back the Python text of a graph.

The text is taken apart with Python's `ast`; only what `printing` writes is understood, and nothing
is executed. Types are inferred anew by the shape rules; `grad`, places and blocks come from the
comments where there are any.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from adjoint.core import pytrees
from adjoint.core.dtypes import named
from adjoint.core.errors import AdjointError
from adjoint.graph import typing
from adjoint.graph.ir import LONG, Block, Constant, Graph, GraphError, Node, Signature, Type, Value
from adjoint.graph.passes.inline import CALL
from adjoint.graph.printing import python_name
from adjoint.graph.regions import REGIONS, TYPES
from adjoint.ops import arguments
from adjoint.ops.operator import Operator, operator
from adjoint.tensor.methods import as_tensor
from adjoint.tensor.tensor import Tensor

_TYPE = re.compile(r"(?P<dtype>\w+)\[(?P<shape>[\d,-]*)\](?P<grad> grad)?")
_COMMENT = re.compile(
    r"#\s*(?P<types>.*?)(?:  of (?P<block>[\w.]+)/(?P<number>\d+))?(?:  at (?P<place>.+))?\s*$"
)


class ParseError(GraphError):
    """Text that is not a graph's."""


def parse(text: str, constants: dict[str, Any] | None = None) -> Graph:
    """Return the graph whose Python text this is; `constants` as `graph.constants` gave them.

    >>> import adjoint as ad
    >>> graph = ad.graph.parse('def f(x: "f32[3]"):\\n    y = ad.ops.sin.default(x)\\n    return y')
    >>> graph(ad.zeros(3))
    tensor([0., 0., 0.])
    """
    try:
        module = ast.parse(text)
    except SyntaxError as error:
        raise ParseError(f"parse: line {error.lineno}: {error.msg}") from None
    functions = [s for s in module.body if isinstance(s, ast.FunctionDef)]
    for statement in module.body:
        if not isinstance(statement, (ast.FunctionDef, ast.Import)):
            _refuse(statement, "only `import adjoint as ad` and one function belong here")
    if len(functions) != 1:
        raise ParseError(f"parse: the text must define one function, it defines {len(functions)}")
    return _Parser(_comments(text), constants or {}).graph(functions[0])


def _comments(text: str) -> dict[int, str]:
    """The comments by line. Ours hold no quotes, which tells them from text in a string."""
    found: dict[int, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        _, mark, comment = line.rpartition("  # ")
        if mark and '"' not in comment and "'" not in comment:
            found[number] = f"# {comment}"
    return found


def _refuse(node: ast.AST, why: str) -> NoReturn:
    raise ParseError(
        f"parse: line {getattr(node, 'lineno', '?')}: {ast.unparse(node)[:60]!r}: {why}"
    )


def parse_type(text: str) -> Type:
    """`f32[3,4] grad` as a type."""
    match = _TYPE.fullmatch(text.strip())
    if match is None or match["dtype"] not in LONG:
        raise ParseError(f"parse: {text!r} is not a type; write f32[3,4], i64[], …")
    shape = tuple(int(s) for s in match["shape"].split(",") if s)
    return Type(shape, named(LONG[match["dtype"]]), bool(match["grad"]))


class _Parser:
    """Makes a graph from a function's syntax tree."""

    def __init__(self, comments: dict[int, str], constants: dict[str, Any]) -> None:
        self.comments = comments
        self.constants = constants
        self.types = typing.Types()

    def graph(self, function: ast.FunctionDef) -> Graph:
        graph = Graph(Signature(name=function.name))
        known: dict[str, Value] = {}
        functions: dict[str, Graph] = {}
        for parameter in function.args.args:
            if not (
                isinstance(parameter.annotation, ast.Constant)
                and isinstance(parameter.annotation.value, str)
            ):
                _refuse(parameter, 'an input needs its type: x: "f32[3]"')
            known[parameter.arg] = graph.add_input(
                parse_type(parameter.annotation.value), parameter.arg
            )
        call = ""
        returned = None
        for statement in function.body:
            if returned is not None:
                _refuse(statement, "nothing follows the return")
            if isinstance(statement, ast.Return):
                returned = statement
            elif isinstance(statement, ast.FunctionDef):
                functions[statement.name] = self.graph(statement)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                call = str(statement.value.value)
            else:
                self.statement(graph, known, functions, statement)
        if returned is None:
            raise ParseError(f"parse: {function.name} has no return")
        self._inputs(graph, call, known)
        tree = _tree(returned.value, known)
        graph.outputs, graph.signature.outputs = pytrees.flatten(tree)
        return graph

    def _inputs(self, graph: Graph, call: str, known: dict[str, Value]) -> None:
        signature = graph.signature
        signature.names = tuple(known)
        args: tuple[Any, ...] = tuple(graph.inputs)
        named_args: dict[str, Any] = {}
        if call:
            tree: Any = ast.parse(call, mode="eval").body
            if not isinstance(tree, ast.Call):
                raise ParseError(f"parse: {call!r} should say how the function is called")
            args = tuple(_tree(a, known) for a in tree.args)
            named_args = {k.arg: _tree(k.value, known) for k in tree.keywords if k.arg}
        leaves, signature.inputs = pytrees.flatten((args, named_args))
        signature.static = {i: v for i, v in enumerate(leaves) if not isinstance(v, Value)}
        if [v for v in leaves if isinstance(v, Value)] != graph.inputs:
            raise ParseError(f"parse: {call!r} must use every input once, in order")

    def statement(
        self,
        graph: Graph,
        known: dict[str, Value],
        functions: dict[str, Graph],
        statement: ast.stmt,
    ) -> None:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            _refuse(statement, "a graph holds assignments `y = ad.ops.name.overload(…)` only")
        target = statement.targets[0]
        elements = target.elts if isinstance(target, ast.Tuple) else [target]
        names = [e.id for e in elements if isinstance(e, ast.Name)]
        if len(names) != len(elements):
            _refuse(statement, "only names can be assigned to")
        node = self.node(graph, known, functions, statement.value)
        if len(node.outputs) != len(names):
            _refuse(statement, f"{node.name} has {len(node.outputs)} results, not {len(names)}")
        for name, value in zip(names, node.outputs, strict=True):
            if name in known:
                _refuse(statement, f"{name} has a value already")
            value.name = graph.fresh_name(name)
            known[name] = value
        self._annotate(node, self.comments.get(statement.end_lineno or statement.lineno, ""))

    def _annotate(self, node: Node, comment: str) -> None:
        match = _COMMENT.fullmatch(comment)
        if match is None:
            return
        node.place = match["place"] or ""
        if match["block"]:
            node.block = Block(int(match["number"]), match["block"])
        texts = [t for t in match["types"].split(";") if _TYPE.fullmatch(t.strip())]
        if len(texts) == len(node.outputs):
            for value, text in zip(node.outputs, texts, strict=True):
                claimed = parse_type(text)
                if (claimed.shape, claimed.dtype) != (value.shape, value.dtype):
                    raise ParseError(
                        f"parse: %{value.name} is said to be {text.strip()}, "
                        f"and {node.name} gives {value.type}"
                    )
                value.type = claimed

    def node(
        self, graph: Graph, known: dict[str, Value], functions: dict[str, Graph], call: ast.expr
    ) -> Node:
        if isinstance(call, ast.Subscript):
            return self._add_constant(graph, self.object(call))
        if not isinstance(call, ast.Call):
            _refuse(call, "expected a call of an operator")
        path = _dotted(call.func)
        if path in (["ad", "tensor"], ["ad", "zeros"]):
            return self._add_constant(graph, self.tensor(path[1], call))
        if len(path) == 1 and path[0] in functions:
            body = functions[path[0]]
            return _added(
                graph,
                CALL,
                tuple(self.value(a, known) for a in call.args),
                [o.type for o in body.outputs],
                {"body": body},
            )
        if path == ["ad", "graph", "region"]:
            return self.region(graph, known, functions, call)
        if len(path) != 4 or path[:2] != ["ad", "ops"]:
            _refuse(call, "expected ad.ops.name.overload(…)")
        op = operator(path[2], "" if path[3] == "default" else path[3])
        args = self.arguments(op, call, known)
        try:
            _, types = self.types.of(op, args)
        except AdjointError as error:
            raise ParseError(f"parse: line {call.lineno}: {error}") from error
        return _added(graph, op, args, types)

    def region(
        self, graph: Graph, known: dict[str, Value], functions: dict[str, Graph], call: ast.Call
    ) -> Node:
        name = self.value(call.args[0], known)
        if name not in REGIONS:
            _refuse(call, f"there is no region {name!r}")
        args = tuple(_tuples(self.value(a, known)) for a in call.args[1:])
        graphs = {
            k.arg: functions[k.value.id]
            for k in call.keywords
            if k.arg and isinstance(k.value, ast.Name)
        }
        return _added(
            graph, REGIONS[name], args, TYPES[name](Node(REGIONS[name], args, graphs)), graphs
        )

    def arguments(self, op: Operator, call: ast.Call, known: dict[str, Value]) -> tuple[Any, ...]:
        given = dict(zip(op.schema.names, (self.value(a, known) for a in call.args), strict=False))
        names = {python_name(n): n for n in op.schema.names}
        for key in call.keywords:
            if key.arg not in names or names[key.arg] in given:
                _refuse(call, f"{op.full_name} has no argument {key.arg!r}, or has it twice")
            given[names[key.arg]] = self.value(key.value, known)
        if len(call.args) > len(op.schema.names):
            _refuse(call, f"too many arguments for {op.schema}")
        return tuple(_argument(op, a, given) for a in op.schema.arguments)

    def tensor(self, function: str, call: ast.Call) -> Tensor:
        options = {k.arg: self.value(k.value, {}) for k in call.keywords}
        data = self.value(call.args[0], {})
        if function == "zeros":
            return operator("zeros").call([data, options.get("dtype"), None, None, None])
        return as_tensor(data, options.get("dtype"))

    def object(self, call: ast.Subscript) -> Any:
        if not (
            isinstance(call.value, ast.Name)
            and call.value.id == "constants"
            and isinstance(call.slice, ast.Constant)
        ):
            _refuse(call, 'only constants["name"] can be subscripted')
        if call.slice.value not in self.constants:
            raise ParseError(
                f"parse: {ast.unparse(call)} is not there; pass constants=graph.constants"
            )
        return self.constants[call.slice.value]

    def _add_constant(self, graph: Graph, tensor: Any) -> Node:
        return _added(graph, Constant(tensor), (), (Type.of(tensor, tensor.requires_grad),))

    def value(self, node: ast.expr, known: dict[str, Value]) -> Any:
        """A name, a literal, or a list or tuple of them."""
        if isinstance(node, ast.Name):
            if node.id not in known:
                _refuse(node, "is used before it is defined")
            return known[node.id]
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.List):
            return [self.value(e, known) for e in node.elts]
        if isinstance(node, ast.Tuple):
            return tuple(self.value(e, known) for e in node.elts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.value(node.operand, known)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            left, right = self.value(node.left, known), self.value(node.right, known)
            return left + right if isinstance(node.op, ast.Add) else left - right
        if (
            isinstance(node, ast.Attribute)
            and (path := _dotted(node))[:1] == ["ad"]
            and len(path) == 2
        ):
            return {"inf": math.inf, "nan": math.nan}.get(path[1]) or named(path[1])
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "complex"
        ):
            return complex(*[self.value(a, known) for a in node.args])
        if isinstance(node, ast.Subscript):
            return self.object(node)
        _refuse(node, "is neither a value nor a constant")


def _added(graph: Graph, op: Any, args: tuple[Any, ...], types: Any, graphs: Any = None) -> Node:
    """A node whose outputs get their names later."""
    node = Node(op, args, graphs)
    node.outputs = [Value("", type, node, number) for number, type in enumerate(types)]
    graph.append(node)
    return node


def _argument(op: Operator, argument: Any, given: dict[str, Any]) -> Any:
    if argument.name not in given:
        if argument.has_default:
            return _as_tuple(argument, arguments.convert("", argument, argument.default))
        if argument.type.is_optional:
            return None
        raise ParseError(f"parse: {op.full_name} needs {argument.name}")
    return _as_tuple(argument, given[argument.name])


def _as_tuple(argument: Any, value: Any) -> Any:
    """Lists of tensors and of whole numbers are tuples in a graph."""
    if isinstance(value, list) and (argument.type.is_tensor or argument.type.base == "int"):
        return tuple(value)
    return value


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, (list, tuple)) else value


def _dotted(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Call) and _dotted(node.func) == ["getattr"] and len(node.args) == 2:
        owner, overload = node.args
        return [*_dotted(owner), str(getattr(overload, "value", ""))]
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []


def _tree(node: Any, known: dict[str, Value]) -> Any:
    """A pytree of values and constants, from a return statement or a call."""
    if isinstance(node, ast.Dict):
        keys: Iterator[Any] = (ast.literal_eval(k) for k in node.keys if k is not None)
        return {k: _tree(v, known) for k, v in zip(keys, node.values, strict=True)}
    if isinstance(node, ast.Tuple):
        return tuple(_tree(e, known) for e in node.elts)
    if isinstance(node, ast.List):
        return [_tree(e, known) for e in node.elts]
    return None if node is None else _Parser({}, {}).value(node, known)

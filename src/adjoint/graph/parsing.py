"""Parse the Python text of a graph.

The text is read with Python's `ast`; only what `printing` writes is understood, and nothing is
executed. Types are inferred by the shape rules; `grad`, places and blocks come from comments. Any
other text raises `ParseError` with line and column; a graph that is returned passes `verify`.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

from adjoint.calls.computing import python_name
from adjoint.calls.methods import as_tensor
from adjoint.core import pytrees
from adjoint.core.dtypes import NAMES, DType, named
from adjoint.core.errors import AdjointError
from adjoint.graph import typing
from adjoint.graph.control.regions import REGIONS, TYPES
from adjoint.graph.ir import LONG, Block, Constant, Graph, GraphError, Node, Signature, Type, Value
from adjoint.graph.passes.inline import CALL
from adjoint.graph.verify import fits, verify
from adjoint.ops import arguments
from adjoint.ops.operator import Operator, operator
from adjoint.tensor.tensor import Tensor

_SIZE = r"(?:-1|\d{1,18})"
_TYPE = re.compile(rf"(?P<dtype>\w+)\[(?P<shape>{_SIZE}(?:,{_SIZE})*)?\](?P<grad> grad)?")
_BLOCK = re.compile(r"(?P<operator>[\w.]+)/(?P<number>\d{1,9})")
_DEEPEST = 100  # deepest nesting of a text, as later passes recurse
_MOST_RESULTS = 100_000  # results of one node
_MOST_ZEROS = 2**30  # elements of a constant


class ParseError(GraphError):
    """Text that is not the text of a graph."""


def parse(text: str, constants: dict[str, Any] | None = None) -> Graph:
    """Return the graph whose Python text this is; `constants` as `graph.constants` gave them.

    >>> import adjoint as ad
    >>> graph = ad.graph.parse('def f(x: "f32[3]"):\\n    y = ad.ops.sin.default(x)\\n    return y')
    >>> graph(ad.zeros(3))
    tensor([0., 0., 0.])
    """
    module: Any = _syntax(text, "exec")
    functions = [s for s in module.body if isinstance(s, ast.FunctionDef)]
    for statement in module.body:
        if not isinstance(statement, ast.FunctionDef) and ast.unparse(statement) != _IMPORT:
            _refuse(statement, f"only `{_IMPORT}` and one function belong here")
    if len(functions) != 1:
        raise ParseError(f"parse: the text must define one function, it defines {len(functions)}")
    graph = _GraphParser(_comments(text), constants or {}).graph(functions[0])
    return _guarded(functions[0], lambda: verify(graph))


_IMPORT = "import adjoint as ad"


def _syntax(text: str, mode: str) -> ast.AST:
    """The syntax tree of a text; raise if it is nested too deeply."""
    try:
        tree = ast.parse(text, mode=mode)
    except SyntaxError as error:
        place = f"line {error.lineno}, column {error.offset}: " if error.lineno else ""
        raise ParseError(f"parse: {place}{error.msg}") from None
    except (RecursionError, MemoryError):
        raise ParseError("parse: the text is nested too deeply") from None
    except ValueError as error:
        raise ParseError(f"parse: {error}") from None
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > _DEEPEST:
            raise ParseError(f"parse: {_place(node)}: nested more than {_DEEPEST} levels deep")
        waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
    return tree


def _comments(text: str) -> dict[int, str]:
    """The comments, by line. Ours hold no quotes, unlike a `#` inside a string."""
    found: dict[int, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        _, mark, comment = line.rpartition("  # ")
        if mark and '"' not in comment and "'" not in comment:
            found[number] = comment.strip()
    return found


def _place(node: ast.AST) -> str:
    column = getattr(node, "col_offset", None)
    place = f"line {getattr(node, 'lineno', '?')}"
    return place if column is None else f"{place}, column {column + 1}"


def _refuse(node: ast.AST, why: str) -> NoReturn:
    raise ParseError(f"parse: {_place(node)}: {ast.unparse(node)[:60]!r}: {why}")


def _guarded(node: ast.AST, infer: Callable[[], Any]) -> Any:
    """Infer a type, and turn any exception into a ParseError.

    Shape rules expect legal graphs; whatever they raise for a text from outside, the text is wrong.
    """
    try:
        return infer()
    except ParseError:
        raise
    except Exception as error:
        ours = isinstance(error, AdjointError)
        said = str(error) if ours else f"{type(error).__name__}: {error}"
        raise ParseError(f"parse: {_place(node)}: {said}") from error


def parse_type(text: str) -> Type:
    """The type that a text such as `f32[3,4] grad` stands for."""
    match = _TYPE.fullmatch(text.strip())
    if match is None or match["dtype"] not in LONG:
        raise ParseError(f"parse: {text[:60]!r} is not a type; write f32[3,4], i64[], …")
    shape = tuple(int(s) for s in (match["shape"] or "").split(",") if s)
    return Type(shape, named(LONG[match["dtype"]]), bool(match["grad"]))


class _GraphParser:
    """Builds a graph from the syntax tree of a function."""

    def __init__(self, comments: dict[int, str], constants: dict[str, Any]) -> None:
        self.comments = comments
        self.constants = constants

    def graph(self, function: ast.FunctionDef) -> Graph:
        graph = Graph(Signature(name=function.name))
        known: dict[str, Value] = {}
        functions: dict[str, Graph] = {}
        _refuse_unusual(function)
        for parameter in function.args.args:
            if not (
                isinstance(parameter.annotation, ast.Constant)
                and isinstance(parameter.annotation.value, str)
            ):
                _refuse(parameter, 'an input needs its type: x: "f32[3]"')
            if parameter.arg in known:
                _refuse(parameter, "is the name of another input")
            text = parameter.annotation.value
            type = _guarded(parameter, lambda text=text: parse_type(text))
            known[parameter.arg] = graph.add_input(type, parameter.arg)
        call = ""
        returned = None
        for statement in function.body:
            if returned is not None:
                _refuse(statement, "nothing follows the return")
            if isinstance(statement, ast.Return):
                returned = statement
            elif isinstance(statement, ast.FunctionDef):
                if statement.name in functions:
                    _refuse(statement, "is the name of another function")
                functions[statement.name] = self.graph(statement)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                call = str(statement.value.value)
            else:
                self.statement(graph, known, functions, statement)
        if returned is None:
            raise ParseError(f"parse: {_place(function)}: {function.name} has no return")
        _guarded(function, lambda: self._inputs(graph, call, known))
        tree = self._tree(returned.value, known)
        graph.outputs, graph.signature.outputs = _guarded(returned, lambda: pytrees.flatten(tree))
        return graph

    def _inputs(self, graph: Graph, call: str, known: dict[str, Value]) -> None:
        signature = graph.signature
        signature.names = tuple(known)
        args: tuple[Any, ...] = tuple(graph.inputs)
        named_args: dict[str, Any] = {}
        if call:
            module: Any = _syntax(call, "eval")
            tree = module.body
            if not isinstance(tree, ast.Call):
                raise ParseError(f"parse: {call[:60]!r} should say how the function is called")
            args = tuple(self._tree(a, known) for a in tree.args)
            for word in tree.keywords:
                given = self._tree(word.value, known)
                more = given if word.arg is None else {word.arg: given}
                if type(more) is not dict or more.keys() & named_args.keys():
                    raise ParseError(f"parse: {call[:60]!r}: a keyword without a name, or twice")
                named_args |= more
        leaves, signature.inputs = pytrees.flatten((args, named_args))
        signature.static = {i: v for i, v in enumerate(leaves) if not isinstance(v, Value)}
        if [v for v in leaves if isinstance(v, Value)] != graph.inputs:
            raise ParseError(f"parse: {call[:60]!r} must use every input once, in order")

    def statement(
        self,
        graph: Graph,
        known: dict[str, Value],
        functions: dict[str, Graph],
        statement: ast.stmt,
    ) -> None:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            elements: list[ast.expr] = []  # prints, and returns nothing
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            elements = target.elts if isinstance(target, ast.Tuple) else [target]
        else:
            _refuse(statement, "a graph holds assignments `y = ad.ops.name.overload(…)` only")
        names = [e.id for e in elements if isinstance(e, ast.Name)]
        if len(names) != len(elements):
            _refuse(statement, "only names can be assigned to")
        for number, name in enumerate(names):
            if name in known or name in names[:number] or name in ("ad", "constants", "complex"):
                _refuse(statement, f"{name} has a value already")
        node = self.node(graph, known, functions, statement.value)
        if len(node.outputs) != len(names):
            _refuse(statement, f"{node.name} has {len(node.outputs)} results, not {len(names)}")
        for name, value in zip(names, node.outputs, strict=True):
            value.name = graph.fresh_name(name)
            known[name] = value
        self._annotate(
            node, statement, self.comments.get(statement.end_lineno or statement.lineno, "")
        )

    def _annotate(self, node: Node, statement: ast.stmt, comment: str) -> None:
        """Types, block and place: `f32[3]; i64[3]  of sort.default/0  at model.py:5`."""
        before, _, node.place = comment.partition("  at ")
        types, _, block = before.partition("  of ")
        if match := _BLOCK.fullmatch(block):
            node.block = Block(int(match["number"]), match["operator"])
        texts = [t for t in types.split(";") if _TYPE.fullmatch(t.strip())]
        if len(texts) == len(node.outputs):
            for value, text in zip(node.outputs, texts, strict=True):
                claimed = parse_type(text)
                if (claimed.shape, claimed.dtype) != (value.shape, value.dtype):
                    raise ParseError(
                        f"parse: {_place(statement)}: %{value.name} is said to be {text.strip()}, "
                        f"and {node.name} gives {value.type}"
                    )
                value.retype(claimed)

    def node(
        self, graph: Graph, known: dict[str, Value], functions: dict[str, Graph], call: ast.expr
    ) -> Node:
        if isinstance(call, ast.Subscript):
            return self._add_constant(graph, self.object(call), call)
        if not isinstance(call, ast.Call):
            _refuse(call, "expected a call of an operator")
        path = _dotted(call.func)
        if path in (["ad", "tensor"], ["ad", "zeros"]):
            return self._add_constant(graph, self.tensor(path[1], call), call)
        if len(path) == 1 and path[0] in functions:
            return self._call(graph, known, functions[path[0]], call)
        if path == ["ad", "graph", "region"]:
            return self.region(graph, known, functions, call)
        if len(path) != 4 or path[:2] != ["ad", "ops"]:
            _refuse(call, "expected ad.ops.name.overload(…)")
        op = _guarded(call, lambda: operator(path[2], "" if path[3] == "default" else path[3]))
        args = self.arguments(op, call, known)
        _refuse_many(op, args, call)
        _, types = _guarded(call, lambda: typing.known_types(op, args))
        return _added(graph, op, args, types)

    def _call(self, graph: Graph, known: dict[str, Value], body: Graph, call: ast.Call) -> Node:
        """A call of a function defined before."""
        args = tuple(self.value(a, known) for a in call.args)
        given = [a.type.spec if isinstance(a, Value) else None for a in args]
        if call.keywords or given != [v.type.spec for v in body.inputs]:
            _refuse(call, "a function takes its inputs, of their types, by position")
        if not all(isinstance(o, Value) for o in body.outputs):
            _refuse(call, "a function that is called returns tensors")
        return _added(graph, CALL, args, [o.type for o in body.outputs], {"body": body})

    def region(
        self, graph: Graph, known: dict[str, Value], functions: dict[str, Graph], call: ast.Call
    ) -> Node:
        name = self.value(call.args[0], known) if call.args else None
        if not isinstance(name, str) or name not in REGIONS:
            _refuse(call, f"there is no such region; there are {', '.join(REGIONS)}")
        args = tuple(_tuples(self.value(a, known)) for a in call.args[1:])
        graphs: dict[str, Graph] = {}
        for word in call.keywords:
            body = word.value.id if isinstance(word.value, ast.Name) else ""
            if word.arg is None or word.arg in graphs or body not in functions:
                _refuse(call, f"{word.arg}= must be one of the functions defined before")
            graphs[word.arg] = functions[body]
        types = _guarded(call, lambda: TYPES[name](Node(REGIONS[name], args, graphs)))
        return _added(graph, REGIONS[name], args, types, graphs)

    def arguments(self, op: Operator, call: ast.Call, known: dict[str, Value]) -> tuple[Any, ...]:
        if len(call.args) > len(op.schema.names):
            _refuse(call, f"too many arguments for {op.schema}")
        given = dict(zip(op.schema.names, (self.value(a, known) for a in call.args), strict=False))
        names = {python_name(n): n for n in op.schema.names}
        for key in call.keywords:
            if key.arg not in names or names[key.arg] in given:
                _refuse(call, f"{op.full_name} has no argument {key.arg!r}, or has it twice")
            given[names[key.arg]] = self.value(key.value, known)
        return tuple(_argument(op, a, given, call) for a in op.schema.arguments)

    def tensor(self, function: str, call: ast.Call) -> Tensor:
        options = {str(k.arg): self.value(k.value, {}) for k in call.keywords}
        dtype = options.pop("dtype", None)
        if len(call.args) != 1 or options or not isinstance(dtype, DType | None):
            _refuse(call, f"expected ad.{function}(data, dtype=ad.float32)")
        data = self.value(call.args[0], {})
        if function == "tensor":
            return _guarded(call, lambda: as_tensor(data, dtype))
        sizes = data if isinstance(data, (list, tuple)) else (data,)
        if not all(type(n) is int and n >= 0 for n in sizes) or math.prod(sizes) > _MOST_ZEROS:
            _refuse(call, f"a shape has up to {_MOST_ZEROS} elements")
        return _guarded(
            call, lambda: operator("zeros").call([tuple(sizes), dtype, None, None, None])
        )

    def object(self, call: ast.Subscript) -> Any:
        if not (
            isinstance(call.value, ast.Name)
            and call.value.id == "constants"
            and isinstance(call.slice, ast.Constant)
        ):
            _refuse(call, 'only constants["name"] can be subscripted')
        if call.slice.value not in self.constants:
            _refuse(call, "is not there; pass constants=graph.constants")
        return self.constants[call.slice.value]

    def _add_constant(self, graph: Graph, tensor: Any, call: ast.expr) -> Node:
        if not isinstance(tensor, Tensor):
            _refuse(call, "is not a tensor")
        return _added(graph, Constant(tensor), (), (Type.of(tensor, tensor.requires_grad),))

    def value(self, node: ast.expr, known: dict[str, Value]) -> Any:
        """The value of a name, a literal, or a list or tuple of them."""
        if isinstance(node, ast.Name):
            if node.id not in known:
                _refuse(node, "is used before it is defined")
            return known[node.id]
        if isinstance(node, ast.Constant):
            if isinstance(node.value, (bytes, type(...))) or _is_huge(node.value):
                _refuse(node, "is not a constant of graphs")
            return node.value
        if isinstance(node, ast.List):
            return [self.value(e, known) for e in node.elts]
        if isinstance(node, ast.Tuple):
            return tuple(self.value(e, known) for e in node.elts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._number(node.operand, known)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            left, right = self._number(node.left, known), self._number(node.right, known)
            return left + right if isinstance(node.op, ast.Add) else left - right
        if (
            isinstance(node, ast.Attribute)
            and (path := _dotted(node))[:1] == ["ad"]
            and len(path) == 2
            and path[1] in NAMES.keys() | _FLOATS.keys()
        ):
            return _FLOATS[path[1]] if path[1] in _FLOATS else named(path[1])
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "complex"
            and len(node.args) == 2
            and not node.keywords
        ):
            return complex(*[self._real(a, known) for a in node.args])
        if isinstance(node, ast.Subscript):
            return self.object(node)
        _refuse(node, "is neither a value nor a constant")

    def _number(self, node: ast.expr, known: dict[str, Value]) -> Any:
        value = self.value(node, known)
        if type(value) not in (int, float, complex):
            _refuse(node, "is not a number")
        return value

    def _real(self, node: ast.expr, known: dict[str, Value]) -> float:
        value = self._number(node, known)
        if isinstance(value, complex):
            _refuse(node, "is not a real number")
        return float(value)

    def _tree(self, node: ast.expr | None, known: dict[str, Value]) -> Any:
        """A pytree of values and constants, from a return statement or a call."""
        if isinstance(node, ast.Dict):
            keys = [k.value if isinstance(k, ast.Constant) else None for k in node.keys]
            if not all(isinstance(k, (str, int)) for k in keys) or len(set(keys)) != len(keys):
                _refuse(node, "its keys must be words or whole numbers, each once")
            return {k: self._tree(v, known) for k, v in zip(keys, node.values, strict=True)}
        if isinstance(node, ast.Tuple):
            return tuple(self._tree(e, known) for e in node.elts)
        if isinstance(node, ast.List):
            return [self._tree(e, known) for e in node.elts]
        return None if node is None else self.value(node, known)


_FLOATS = {"inf": math.inf, "nan": math.nan}


def _is_huge(value: Any) -> bool:
    return isinstance(value, int) and abs(value) > 2**64


def _refuse_unusual(function: ast.FunctionDef) -> None:
    """Raise for parts that the function of a graph never has."""
    a = function.args
    if a.posonlyargs or a.kwonlyargs or a.vararg or a.kwarg or a.defaults:
        _refuse(function, "inputs are given by position and have no defaults")
    if function.decorator_list or function.returns or function.type_comment:
        _refuse(function, "a function of a graph has no decorators and no annotation of results")


def _refuse_many(op: Operator, args: tuple[Any, ...], call: ast.expr) -> None:
    """Raise if an operator that cuts a dimension would have too many results."""
    returns = op.schema.returns
    if len(returns) != 1 or not returns[0].type.is_list:
        return
    given = dict(zip(op.schema.names, args, strict=True))
    longest = max((n for v in args if isinstance(v, Value) for n in v.shape), default=0)
    each = given.get("split_size", 1)
    if longest > _MOST_RESULTS * (each if type(each) is int and each > 0 else 1):
        _refuse(call, f"a node has up to {_MOST_RESULTS} results")


def _added(graph: Graph, op: Any, args: tuple[Any, ...], types: Any, graphs: Any = None) -> Node:
    """Add a node, whose outputs get their names later."""
    node = Node(op, args, graphs)
    node.outputs = [Value("", type, node, number) for number, type in enumerate(types)]
    graph.append(node)
    return node


def _argument(op: Operator, argument: Any, given: dict[str, Any], call: ast.expr) -> Any:
    if argument.name in given:
        value = _as_tuple(argument, given[argument.name])
        if not argument.type.is_tensor and value is not None:
            value = _guarded(call, lambda: _converted(op, argument, value))
    elif argument.has_default:
        value = _as_tuple(argument, arguments.convert("", argument, argument.default))
    elif argument.type.is_optional:
        value = None
    else:
        _refuse(call, f"{op.full_name} needs {argument.name}")
    if not fits(argument, value):
        _refuse(call, f"{argument.name} must be a {argument.type}")
    return value


def _converted(op: Operator, argument: Any, value: Any) -> Any:
    """A constant converted to the schema's type; a list of the right type stays as it is."""
    converted = arguments.convert(op.name, argument, value)
    return value if type(converted) is list and isinstance(value, (list, tuple)) else converted


def _as_tuple(argument: Any, value: Any) -> Any:
    """Lists of tensors and of whole numbers as tuples, as graphs have them."""
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

"""Graphs as text: Python that runs (`print(graph)`), and a compact listing (`graph.ssa()`).

The Python text is complete, with types and places in comments, and `parsing.parse` reads it back.
Large constants are not written out: the text takes them from the dictionary `constants`, which is
`graph.constants`.
"""

from __future__ import annotations

import cmath
import keyword
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from adjoint.calls.computing import python_name
from adjoint.core import pytrees
from adjoint.core.dtypes import DType
from adjoint.core.pytrees import TreeDef
from adjoint.core.texts import in_comment, in_docstring, literal
from adjoint.graph.custom import is_custom
from adjoint.graph.ir import Constant, Graph, Node, Region, Type, Value
from adjoint.ops import arguments
from adjoint.ops.operator import Operator
from adjoint.tensor.tensor import is_plain

SMALL = 64  # elements up to which a constant is written out
_TAKEN = frozenset(("ad", "constants", "complex", *keyword.kwlist))


def name_of(value: Value) -> str:
    """A value's name in the Python text."""
    return f"{value.name}_" if value.name in _TAKEN else value.name


def type_text(type: Type) -> str:
    """`f32[3,4]`, followed by `grad` if a gradient is required."""
    return f"{type} grad" if type.requires_grad else str(type)


# --- Python ---------------------------------------------------------------------------------------


def python(graph: Graph, *, comments: bool = True) -> str:
    """A Python module with the graph as a function."""
    lines, names = ["import adjoint as ad", "", ""], _names(graph)
    if names:
        lines[2:2] = ["# `constants` is graph.constants, a dictionary of the large tensors.", ""]
    return "\n".join([*lines, *_function(graph, _function_name(graph), comments, names)]) + "\n"


def _function_name(graph: Graph) -> str:
    name = graph.signature.name
    return name if name.isidentifier() and name not in _TAKEN else "f"


def _function(graph: Graph, name: str, comments: bool, names: Names) -> list[str]:
    parameters = ", ".join(f'{name_of(v)}: "{type_text(v.type)}"' for v in graph.inputs)
    head = f"def {name}({parameters}):"
    if len(head) > 100:
        each = [f'    {name_of(v)}: "{type_text(v.type)}",' for v in graph.inputs]
        head = "\n".join([f"def {name}(", *each, "):"])
    call = _call_text(graph, name)
    body = [f'"""{in_docstring(call)}"""'] if call else []
    for node in graph.nodes:
        body += _statement(node, comments, names)
    body.append(f"return {_outputs_text(graph)}")
    return [head, *("    " + line for line in body)]


def _statement(node: Node, comments: bool, names: Names) -> list[str]:
    lines: list[str] = []
    targets = ", ".join(name_of(v) for v in node.outputs)
    if len(node.outputs) == 1 and _is_listed(node):
        targets += ","
    if isinstance(node.op, Region):
        stem = name_of(node.outputs[0]) if node.outputs else node.op.name
        for key, inner in node.graphs.items():
            called = f"{stem}_{'body' if _is_call(node) else key}"
            lines += _function(inner, called, comments, names)
        text = _region_text(node, stem, names)
    elif isinstance(node.op, Constant):
        text = _constant_text(node.op.tensor, names)
    else:
        text = f"{_operator_text(node.op)}({', '.join(_arguments(node, names))})"
    comment = f"  # {_comment(node)}" if comments else ""
    return [*lines, (f"{targets} = " if targets else "") + text + comment]


def _operator_text(op: Operator) -> str:
    name, overload = op.full_name.split(".")
    if keyword.iskeyword(name) or keyword.iskeyword(overload):
        return f'getattr(ad.ops.{name}, "{overload}")'
    return f"ad.ops.{name}.{overload}"


def _is_listed(node: Node) -> bool:
    if isinstance(node.op, Operator):
        returns = node.op.schema.returns
        return len(returns) == 1 and returns[0].type.is_list
    return isinstance(node.op, Region) and not _is_call(node)


def _is_call(node: Node) -> bool:
    """Whether a region is a call of its only graph; the text leaves a custom rule out."""
    return node.op.name == "call" or is_custom(node)


def _region_text(node: Node, stem: str, names: Names) -> str:
    values = [_literal(a, names) for a in node.args]
    if _is_call(node):
        return f"{stem}_body({', '.join(values)})"
    graphs = [f"{key}={stem}_{key}" for key in node.graphs]
    return f"ad.graph.region({', '.join([repr(node.op.name), *values, *graphs])})"


def _comment(node: Node) -> str:
    text = "; ".join(type_text(v.type) for v in node.outputs)
    if node.block is not None:
        text += f"  of {node.block.operator}/{node.block.number}"
    return f"{text}  at {in_comment(node.place)}" if node.place else text


def _arguments(node: Node, names: Names) -> list[str]:
    """The arguments of a call, without defaults at its end."""
    pieces: list[tuple[str, bool]] = []
    for argument, value in zip(node.op.schema.arguments, node.args, strict=True):
        is_default = argument.has_default and _same(
            value, arguments.convert("", argument, argument.default)
        )
        is_default = is_default or (
            value is None and argument.type.is_optional and argument.keyword_only
        )
        text = _literal(value, names)
        if argument.keyword_only:
            text = f"{python_name(argument.name)}={text}"
        pieces.append((text, is_default))
    positional = node.op.positional
    plain, named = pieces[:positional], pieces[positional:]
    while plain and plain[-1][1]:
        plain.pop()
    return [t for t, _ in plain] + [t for t, is_default in named if not is_default]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and not isinstance(a, Value) and a == b


def _literal(value: Any, names: Names) -> str:
    if isinstance(value, Value):
        return name_of(value)
    if isinstance(value, tuple):
        inner = [_literal(v, names) for v in value]
        if any(isinstance(v, Value) for v in value):
            return f"[{', '.join(inner)}]"
        return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(_literal(v, names) for v in value)}]"
    if isinstance(value, DType):
        return f"ad.{'bool' if value.name == 'bool' else value.name}"
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return number(value)
    return f'constants["{names[id(value)]}"]'


def number(value: Any) -> str:
    """The Python text of a number, which gives the same bits when it is read."""
    if isinstance(value, complex):
        return f"complex({number(value.real)}, {number(value.imag)})"
    if isinstance(value, float) and not math.isfinite(value):
        return "ad.nan" if math.isnan(value) else "ad.inf" if value > 0 else "-ad.inf"
    return literal(value) or "..."


# --- constants ------------------------------------------------------------------------------------


def _is_small(tensor: Any) -> bool:
    return is_plain(tensor) and tensor.edge is None and tensor.numel() <= SMALL


def _large(graph: Graph) -> Iterator[tuple[str, Any]]:
    """(name, object) for each tensor and object that the text takes from `constants`."""
    for node in graph.nodes:
        if isinstance(node.op, Constant) and not _is_small(node.op.tensor):
            yield name_of(node.outputs[0]), node.op.tensor
        for inner in node.graphs.values():
            yield from _large(inner)
        for value in node.args:
            if not isinstance(
                value, (Value, tuple, list, DType, bool, int, float, complex, str, type(None))
            ):
                stem = node.outputs[0].name if node.outputs else node.op.name
                yield f"{stem}_argument", value


Names = dict[int, str]  # id of such an object -> its name


def _names(graph: Graph) -> Names:
    """A unique name for each object, as values of inner graphs may have equal names."""
    found: Names = {}
    taken: set[str] = set()
    for wanted, value in _large(graph):
        if id(value) in found:
            continue
        name, number = wanted, 0
        while name in taken:
            number += 1
            name = f"{wanted}_{number}"
        taken.add(name)
        found[id(value)] = name
    return found


def constants(graph: Graph) -> dict[str, Any]:
    """The tensors (and generators) that the Python text does not write out."""
    names = _names(graph)
    return {names[id(value)]: value for _, value in _large(graph)}


def _constant_text(tensor: Any, names: Names) -> str:
    if not _is_small(tensor):
        return f'constants["{names[id(tensor)]}"]'
    dtype = _literal(tensor.dtype, names)
    if not tensor.numel():
        return f"ad.zeros({tuple(tensor.shape)}, dtype={dtype})"
    return f"ad.tensor({_nested(tensor.value)}, dtype={dtype})"


def _nested(array: Any) -> str:
    if array.ndim:
        return f"[{', '.join(_nested(a) for a in array)}]"
    item = array.item() if array.dtype.kind != "V" else float(np.float32(array))
    if isinstance(item, complex) and cmath.isfinite(item) and not _negative_zero(item):
        return repr(item).strip("()")
    return number(item)


def _negative_zero(value: complex) -> bool:
    return (
        any(p == 0 and math.copysign(1, p) < 0 for p in (value.real, value.imag)) or value.real == 0
    )


# --- signatures -----------------------------------------------------------------------------------


def _call_text(graph: Graph, name: str) -> str:
    """The user's call, f({'w': params_w}, 3), unless it has one tensor for each input."""
    structure = graph.signature.inputs
    if structure is None:
        return ""
    args, named = structure.children
    if (
        not named.children
        and all(c is pytrees.LEAF for c in args.children)
        and not graph.signature.static
    ):
        return ""
    values = iter(graph.inputs)
    static = graph.signature.static
    leaves = iter([
        number(static[i]) if i in static else name_of(next(values))
        for i in range(structure.num_leaves)
    ])  # fmt: skip
    parts = [_tree_text(c, leaves) for c in args.children]
    parts += [
        _keyword(key, _tree_text(c, leaves))
        for key, c in zip(named.data, named.children, strict=True)
    ]
    return f"{name}({', '.join(parts)})"


def _keyword(name: str, text: str) -> str:
    """A keyword argument; f(**{"a b": 3}) for words that are no names."""
    plain = name.isidentifier() and not keyword.iskeyword(name)
    return f"{str.__str__(name)}={text}" if plain else f"**{{{number(name)}: {text}}}"


def _outputs_text(graph: Graph) -> str:
    leaves = [_literal(o, {}) for o in graph.outputs]
    structure = graph.signature.outputs
    if structure is None:
        return leaves[0] if len(leaves) == 1 else f"({', '.join(leaves)})"
    return _tree_text(structure, iter(leaves))


def _tree_text(structure: TreeDef, leaves: Iterator[str]) -> str:
    if structure is pytrees.LEAF:
        return next(leaves)
    children = [_tree_text(c, leaves) for c in structure.children]
    if structure.kind is dict:
        return (
            "{"
            + ", ".join(f"{number(k)}: {c}" for k, c in zip(structure.data, children, strict=True))
            + "}"
        )
    if structure.kind is list:
        return f"[{', '.join(children)}]"
    if structure.kind is type(None):
        return "None"
    # Named tuples and classes become plain tuples: the text must run without their definition.
    return f"({', '.join(children)}{',' if len(children) == 1 else ''})"


# --- the compact listing --------------------------------------------------------------------------


def ssa(graph: Graph) -> str:
    """One line for each node: %out: type = operator(%in, …)."""
    return "\n".join(_ssa(graph, graph.signature.name))


def _ssa(graph: Graph, name: str) -> list[str]:
    inputs = ", ".join(f"%{v.name}: {type_text(v.type)}" for v in graph.inputs)
    lines = [f"graph {name}({inputs}) {{"]
    for node in graph.nodes:
        outs = ", ".join(f"%{v.name}: {type_text(v.type)}" for v in node.outputs)
        args = ", ".join(_ssa_argument(a) for a in node.args)
        if isinstance(node.op, Constant) and _is_small(node.op.tensor):
            args = _nested(node.op.tensor.value) if node.op.tensor.numel() else "[]"
        lines.append(
            f"  {outs} = {node.name}({args})"
            + (f"  of {node.block.operator}/{node.block.number}" if node.block else "")
        )
        for key, inner in node.graphs.items():
            lines += ["    " + line for line in _ssa(inner, key)]
    lines.append(f"  return {', '.join(_ssa_argument(o) for o in graph.outputs)}")
    return [*lines, "}"]


def _ssa_argument(value: Any) -> str:
    if isinstance(value, Value):
        return f"%{value.name}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_ssa_argument, value))})"
    return value.name if isinstance(value, DType) else str(value)


def summary(graph: Graph) -> str:
    """`repr(graph)`."""
    counts = f"{len(graph.inputs)} inputs, {len(graph)} nodes, {len(graph.outputs)} outputs"
    return f"<graph {graph.signature.name}: {counts}>"

"""The whole idea of adjoint on one page. Run it: python docs/adjoint_in_200_lines.py

The real thing has 1,200 rows, two ways to run a formula, views, in-place writes and transforms that
nest. This page has ten rows, and everything else is the same in small: a row is all that is known
of an operator; a formula is written once; the values that the tape must save are read off the
formula; backward takes the newest node first; the missing mode is derived.
"""

from __future__ import annotations

import ast
import heapq
import itertools
from typing import Any

import numpy as np


def sum_to(array: Any, shape: tuple[int, ...]) -> Any:
    """Undo broadcasting: sum over dimensions that `shape` has not, or has with one element."""
    array = array.sum(tuple(range(array.ndim - len(shape))))
    return array.sum(tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)


# 1. The table. An operator is a row: its arguments, its kernel on arrays, and one reverse formula
#    per argument. `grad` is the gradient coming in, `result` the value computed; other names are
#    arguments and operators.
TABLE: dict[str, dict[str, Any]] = {
    "add": {"args": ("a", "b"), "kernel": np.add, "a": "grad", "b": "grad"},
    "sub": {"args": ("a", "b"), "kernel": np.subtract, "a": "grad", "b": "-grad"},
    "mul": {"args": ("a", "b"), "kernel": np.multiply, "a": "grad * b", "b": "grad * a"},
    "neg": {"args": ("a",), "kernel": np.negative, "a": "-grad"},
    "sin": {"args": ("a",), "kernel": np.sin, "a": "grad * cos(a)"},
    "cos": {"args": ("a",), "kernel": np.cos, "a": "-(grad * sin(a))"},
    "exp": {"args": ("a",), "kernel": np.exp, "a": "grad * result"},
    "sum": {"args": ("a",), "kernel": np.sum, "a": "expand(grad, a.shape)"},
    "expand": {"args": ("a", "shape"), "kernel": np.broadcast_to, "a": "sum_to(grad, a.shape)"},
    "sum_to": {"args": ("a", "shape"), "kernel": sum_to, "a": "expand(grad, a.shape)"},
}


# 2. A formula is an expression, parsed once. The tape must save the values that it mentions; of a
#    tensor mentioned only through `.shape`, the shape.
class Formula:
    def __init__(self, text: str) -> None:
        tree = ast.parse(text, mode="eval")
        self.code = compile(tree, text, "eval")
        shapes = {
            n.value.id for n in ast.walk(tree)
            if isinstance(n, ast.Attribute) and n.attr == "shape" and isinstance(n.value, ast.Name)
        }  # fmt: skip
        names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        self.saves = names - shapes - {"grad"} - set(TABLE)
        self.saves_shape = shapes


for row in TABLE.values():
    row["formulas"] = {name: Formula(row[name]) for name in row["args"] if name in row}


# 3. A tensor is an array and an edge: the node that made it, a leaf that wants a gradient, or None.
class Shape:
    """Stands for a tensor of which only the shape was saved."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


class Leaf:
    sequence = 0


class Node:
    numbers = itertools.count(1)

    def __init__(self, name: str, edges: list[Any], shapes: list[Any], saved: Any) -> None:
        self.name, self.edges, self.shapes, self.saved = name, edges, shapes, saved
        self.sequence = next(Node.numbers)


class Tensor:
    def __init__(self, array: Any, edge: Any = None) -> None:
        self.array, self.edge = np.asarray(array, dtype=float), edge

    __array_ufunc__ = None  # array * tensor is ours, too
    shape = property(lambda self: self.array.shape)
    __add__ = lambda self, other: call("add", self, wrap(other))
    __radd__ = __add__
    __sub__ = lambda self, other: call("sub", self, wrap(other))
    __rsub__ = lambda self, other: call("sub", wrap(other), self)
    __mul__ = lambda self, other: call("mul", self, wrap(other))
    __rmul__ = __mul__
    __neg__ = lambda self: call("neg", self)

    def __repr__(self) -> str:
        return f"Tensor({self.array.tolist()})"


def wrap(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor(value)


# 4. Calling an operator runs the kernel and, if somebody wants a gradient, leaves a node behind.
def call(name: str, *args: Any) -> Tensor:
    row = TABLE[name]
    result = Tensor(row["kernel"](*[a.array if isinstance(a, Tensor) else a for a in args]))
    edges = [a.edge if isinstance(a, Tensor) else None for a in args]
    if any(edges):
        scope = dict(zip(row["args"], args, strict=True)) | {"result": result}
        saved: dict[str, Any] = {}
        for argument, edge in zip(row["args"], edges, strict=True):
            if edge is not None:
                formula = row["formulas"][argument]
                saved |= {n: scope[n] for n in formula.saves}
                saved |= {n: Shape(scope[n].shape) for n in formula.saves_shape if n not in saved}
        result.edge = Node(name, edges, [getattr(a, "shape", None) for a in args], saved)
    return result


def operator(name: str) -> Any:
    return lambda *args: call(name, *args)


OPERATORS = {name: operator(name) for name in TABLE}
sin, cos, exp, total = OPERATORS["sin"], OPERATORS["cos"], OPERATORS["exp"], OPERATORS["sum"]


# 5. Backward. A node is younger than all it uses, so the youngest first is always right: no
#    recursion, no counting. Formulas are evaluated on tensors, so a backward pass leaves a tape of
#    its own: gradients of gradients. An argument that was broadcast gets the sum over its copies.
def gradient(output: Tensor, inputs: list[Tensor], grad: Tensor) -> list[Any]:
    grads: dict[Any, Tensor] = {output.edge: grad}
    heap = [(-e.sequence, id(e), e) for e in grads if e is not None]
    while heap:
        node = heapq.heappop(heap)[2]
        if isinstance(node, Leaf):
            continue
        row = TABLE[node.name]
        scope = OPERATORS | node.saved | {"grad": grads[node]}
        for argument, edge, shape in zip(row["args"], node.edges, node.shapes, strict=True):
            if edge is None:
                continue
            part = eval(row["formulas"][argument].code, {}, scope)
            if part.shape != shape:
                part = call("sum_to", part, shape)
            if edge in grads:
                grads[edge] = grads[edge] + part
            else:
                grads[edge] = part
                heapq.heappush(heap, (-edge.sequence, id(edge), edge))
    return [grads.get(t.edge, Tensor(np.zeros(t.shape))) for t in inputs]


def grad(f: Any) -> Any:
    def derivative(x: Any) -> Tensor:
        variable = (
            Tensor(wrap(x).array, Leaf()) if not isinstance(x, Tensor) or x.edge is None else x
        )
        output = f(variable)
        return gradient(output, [variable], Tensor(np.ones(output.shape)))[0]

    return derivative


# 6. The missing mode. Reverse mode applies the transpose of the Jacobian, and is linear in `grad`;
#    transposing that linear map by another backward pass gives forward mode. There is no second
#    table of derivatives.
def jvp(f: Any, x: Any, tangent: Any) -> Tensor:
    variable = Tensor(x, Leaf())
    output = f(variable)
    cotangent = Tensor(np.zeros(output.shape), Leaf())  # its value never matters
    pulled = gradient(output, [variable], cotangent)[0]
    return gradient(pulled, [cotangent], wrap(tangent))[0]


if __name__ == "__main__":
    x = np.array([0.5, 1.0, 2.0])
    f = lambda x: total(sin(x) * exp(-(x * x)))

    step = 1e-6 * np.eye(3)
    differences = [(f(Tensor(x + s)).array - f(Tensor(x - s)).array) / 2e-6 for s in step]
    print("gradient           ", grad(f)(x))
    print("finite differences ", np.round(differences, 8).tolist())
    assert np.allclose(grad(f)(x).array, differences)

    t = np.array([1.0, -1.0, 0.5])
    print("forward mode       ", jvp(f, x, t))
    assert np.allclose(jvp(f, x, t).array, grad(f)(x).array @ t)

    print("second derivative  ", grad(lambda x: total(grad(f)(x)))(x))
    second = [(grad(f)(x + s).array - grad(f)(x - s).array).sum() / 2e-6 for s in step]
    assert np.allclose(grad(lambda x: total(grad(f)(x)))(x).array, second, atol=1e-6)

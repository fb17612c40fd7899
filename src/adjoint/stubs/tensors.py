"""The stub of the class of tensors: what its source says, what others put on it, operators."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

from adjoint.calls import operators as python
from adjoint.ops.operator import exists, packet
from adjoint.stubs import operators
from adjoint.stubs.modules import Text, members, names_bound, operator_of
from adjoint.table import TABLE
from adjoint.tensor.tensor import Offer, Tensor

_UNARY = "def {}(self) -> Tensor: ..."
_BINARY = "def {}(self, other: TensorLike, /) -> Tensor: ..."
_EQUAL = "def {}(self, other: Any, /) -> Tensor: ...  # type: ignore[override]"
# Python's operators: x + y, -x, x == y.
_PYTHON = {
    **{f"__{p}{name}__": _BINARY for name in (*python.BINARY, "div") for p in ("", "r", "i")},
    **{f"__{name}__": _BINARY for name in python.COMPARISONS},
    **dict.fromkeys(("__eq__", "__ne__"), _EQUAL),
    **{f"__{name}__": _UNARY for name in python.UNARY},
}


def body(node: ast.ClassDef) -> Text:
    """All members of the class of tensors, and the imports that they need."""
    imports = {n: i for n, i in operators.IMPORTS.items() if n != "Tensor"}
    made = Text(list(members(node, vars(Tensor).get)), imports)
    known = {name for member in node.body for name in names_bound(member)} | {"__dir__"}
    named = {name for name in TABLE.methods() if not name.startswith("_")}
    methods = {m for name in named for m in (name, f"{name}_") if exists(m)}
    for name, value in vars(Tensor).items():
        if name not in known:
            _add(made, name, value, name in methods)
    made.imports.pop("Tensor", None)
    return made


def _add(made: Text, name: str, value: Any, is_method: bool) -> None:
    """Add what others put on the class, or an operator."""
    if isinstance(value, Offer) or operator_of(value) is not None:
        if is_method:
            made.lines += operators.methods(packet(name))
    elif name in _PYTHON:
        made.lines.append(f"    {_PYTHON[name].format(name)}")
    elif isinstance(value, property):
        returned = "Tensor"
        if isinstance(value.fget, type):  # `x.at` is an object of a class of its own
            returned = value.fget.__name__
            made.imports[returned] = f"from {value.fget.__module__} import {returned}"
        made.lines += ["    @property", f"    def {name}(self) -> {returned}: ..."]
    elif isinstance(value, FunctionType):
        made.add_function(name, value, "    ")

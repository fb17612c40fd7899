"""How trees, and functions of elements, are spelled in NumPy: for arrays, all sides of choices.

Numbers of Python take the dtype of the arrays next to them; where C computes in a dtype that these
do not have, numbers and arrays are converted. `Unspelled` is raised where NumPy has no function.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.expressions import definitions
from adjoint.expressions.c_text import CSpelling
from adjoint.expressions.definitions import SCALARS, VECTORS
from adjoint.expressions.trees import (
    Binary,
    Call,
    Cast,
    Choose,
    Convert,
    EarlyResult,
    ElementFunction,
    Expression,
    Intrinsic,
    Number,
    Unary,
)

_RENAMED = {
    "fabs": "np.abs", "pow": "np.power", "atan2": "np.arctan2", "asin": "np.arcsin",
    "acos": "np.arccos", "atan": "np.arctan", "asinh": "np.arcsinh", "acosh": "np.arccosh",
    "atanh": "np.arctanh", "fma": "_fma", "erf": "_erf", "erfc": "_erfc",
}  # fmt: skip
_LIBRARY = VECTORS | SCALARS
_LOGIC = {"&&": "&", "||": "|"}


class Unspelled(NotImplementedError):
    """NumPy has no such function."""


def printed(tree: Expression, names: Mapping[str, str], real: DType) -> str:
    """The NumPy text of a tree that computes in a real dtype, for operands with names."""
    return NumpySpelling(names, real).text(tree)


def function_text(function: ElementFunction) -> str:
    """The text of a Python function of arrays."""
    real = function.parameters[0].dtype
    return NumpySpelling({}, real if real.is_floating_point else function.dtype).function(function)


def called(name: str) -> ElementFunction:
    """The function of elements that a call names."""
    found = definitions.find(name)
    if found is None:
        raise Unspelled(f"its element calls {name}()")
    return found


class NumpySpelling(CSpelling):
    """Spells trees for arrays."""

    def __init__(self, names: Mapping[str, str], real: DType) -> None:
        super().__init__(names)
        self.real = real  # in which most of the text computes

    def function(self, function: ElementFunction) -> str:
        head = f"def {function.name}({', '.join([p.name for p in function.parameters])}):"
        return "\n".join([head, *self.body(function, 0)])

    def body(self, function: ElementFunction, start: int) -> list[str]:
        """The lines from a step on; after an early result the rest is another choice."""
        lines, result = list[str](), function.result
        for step in reversed(function.steps[start:]):
            if isinstance(step, EarlyResult):
                result = Choose(step.condition, step.value, result)
            else:
                lines.append(f"    {step.variable.name} = {self.text(step.value)}")
        return [*reversed(lines), f"    return {self.text(_as(result, function.dtype))}"]

    def number(self, tree: Number, level: int) -> str:
        value, dtype = tree.value, tree.dtype
        if not isinstance(value, (bool, int, float)):
            raise Unspelled("its element has a number that is not known")
        text = repr(value)
        if isinstance(value, float) and not math.isfinite(value):
            text = f"np.{'nan' if math.isnan(value) else 'inf'}"
            text = f"-{text}" if value < 0 else text
        if dtype.is_floating_point and dtype is not self.real:
            return f"np.{dtype.name}({text})"
        return f"({text})" if text.startswith("-") else text

    def call(self, tree: Call, level: int) -> str:
        if tree.name == "ad_times_plus":
            a, b, c = (self.text(each, 12) for each in tree.arguments)
            return f"({a} * {b} + {c})"
        if tree.name in _LIBRARY:
            given = [_as(each, tree.dtype) for each in tree.arguments]
            name = _RENAMED.get(tree.name, f"np.{tree.name}")
        else:
            function, name = called(tree.called), tree.called
            pairs = zip(function.parameters, tree.arguments, strict=True)
            given = [_as(each, p.dtype) for p, each in pairs]
        return f"{name}({', '.join([self.text(each) for each in given])})"

    def cast(self, tree: Cast, level: int) -> str:
        return f"np.asarray({self.text(tree.operand)}).astype(np.{tree.dtype.name})"

    def convert(self, tree: Convert, level: int) -> str:
        raise Unspelled("its element converts between dtypes")

    def intrinsic(self, tree: Intrinsic, level: int) -> str:
        if tree.name not in ("bits", "from_bits"):
            raise Unspelled("its element has complex numbers")
        source = dtypes.float64 if tree.dtype.itemsize == 8 else dtypes.float32
        given = self.text(
            _as(tree.arguments[0], source) if tree.name == "bits" else tree.arguments[0]
        )
        return f"np.asarray({given}).view(np.{tree.dtype.name})"

    def unary(self, tree: Unary, level: int) -> str:
        if tree.sign == "!":
            return f"np.logical_not({self.text(tree.operand)})"
        return super().unary(tree, level)

    def binary(self, tree: Binary, level: int) -> str:
        if tree.sign in _LOGIC:
            tree = Binary(_LOGIC[tree.sign], tree.left, tree.right)
        whole = not (tree.left.dtype.is_differentiable or tree.right.dtype.is_differentiable)
        if whole and tree.sign in "/%":
            raise Unspelled("its element divides whole numbers")
        return super().binary(tree, level)

    def choose(self, tree: Choose, level: int) -> str:
        both = (tree.one, tree.other)
        sides = [self.side_of_choice(each, tree.dtype) for each in both]
        return f"np.where({self.text(tree.condition)}, {sides[0]}, {sides[1]})"

    def side_of_choice(self, tree: Expression, dtype: DType) -> str:
        """A side of a choice: two numbers of Python would be float64."""
        text = self.text(tree)
        plain = isinstance(tree, Number) and not text.startswith("np.float")
        wanted = self.real if dtype is dtypes.int32 else dtype
        return f"np.float32({text})" if plain and wanted is dtypes.float32 else text


def _as(tree: Expression, dtype: DType) -> Expression:
    """A tree as a number of another dtype."""
    if tree.dtype is dtype or not dtype.is_floating_point:
        return tree
    if isinstance(tree, Number):
        return Number(float(tree.value), dtype)
    return Cast(tree, dtype)

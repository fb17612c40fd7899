"""An element of a result as a typed tree: data, of which every target prints its own text.

A tree is made of numbers, of operands (arguments of a row, positions of a loop) and of variables
(of a loop program). Each part has a dtype, by C's rules: a condition is a bool, arithmetic on
numbers of fewer than 32 bits is in int32, and of two dtypes the wider one decides. Trees with the
same parts are equal, so they are keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adjoint.core import dtypes
from adjoint.core.c_types import C_TYPES
from adjoint.core.dtypes import COMPLEX, FLOAT, HALVES, DType
from adjoint.core.promotion import NUMBERS, element
from adjoint.core.records import record
from adjoint.core.remembering import cached_property
from adjoint.core.symbolic_sizes import is_open
from adjoint.expressions.c_numbers import conversion, suffix

FUNCTION = 20  # additions that a function call costs
QUOTIENT = 4  # additions that a division or a square root costs
_QUICK = frozenset((
    "fabs", "copysign", "rint", "ceil", "floor", "trunc", "fma", "ad_max", "ad_min", "ad_fmax",
    "ad_fmin", "ad_sign", "ad_bend", "ad_lerp",
))  # fmt: skip
CONDITIONS = frozenset(("==", "!=", "<", ">", "<=", ">=", "&&", "||"))
_BITS = frozenset(("&", "|", "^"))


def common(*given: DType) -> DType:
    """The dtype in which C computes with numbers of some dtypes.

    >>> common(dtypes.bool_, dtypes.uint8), common(dtypes.int64, dtypes.float32)
    (ad.int32, ad.float32)
    """
    if most := [d for d in given if d.category >= FLOAT]:
        wide = any(d.to_real() is dtypes.float64 for d in most)
        if any(d.category == COMPLEX for d in most):
            return dtypes.complex128 if wide else dtypes.complex64
        return dtypes.float64 if wide else dtypes.float32
    for wide in (dtypes.uint64, dtypes.int64, dtypes.uint32):
        if wide in given:
            return wide
    return dtypes.int32


class Expression:
    """A tree, or a part of one."""

    dtype: DType

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The trees of which this one is made directly."""
        return ()

    def of_parts(self, *parts: Expression) -> Expression:
        """The same tree of other parts."""
        return self

    @property
    def called(self) -> str:
        """The function that the tree calls itself, as C names it; "" if it calls none."""
        return ""

    @property
    def own_cost(self) -> int:
        """The cost of the tree without that of its parts, in additions."""
        return 1

    def walk(self) -> list[Expression]:
        """The tree and all that it is made of, each before its parts."""
        found, waiting = list[Expression](), list[Expression]([self])
        while waiting:
            found.append(tree := waiting.pop())
            waiting += tree.parts[::-1]
        return found

    def substitute(self, found: Mapping[Any, Expression]) -> Expression:
        """The tree with other trees in place of some operands, by their names, and variables."""
        parts = [part.substitute(found) for part in self.parts]
        same = all(new is old for new, old in zip(parts, self.parts, strict=True))
        return self if same else self.of_parts(*parts)

    @cached_property
    def operands(self) -> frozenset[str]:
        """The names of the operands in the tree."""
        return frozenset([part.name for part in self.walk() if isinstance(part, Operand)])

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The variables in the tree, as often as they occur."""
        return tuple([part for part in self.walk() if isinstance(part, Variable)])

    @cached_property
    def calls(self) -> frozenset[str]:
        """The functions that the tree calls, as C names them."""
        return frozenset([part.called for part in self.walk() if part.called])

    @cached_property
    def size(self) -> int:
        """The number of its parts, with itself."""
        return 1 + sum(part.size for part in self.parts)

    @cached_property
    def cost(self) -> int:
        """The cost in additions: that of the most expensive function or quotient."""
        return max([part.own_cost for part in self.walk()])


@record
class Number(Expression):
    """A number, or a symbolic size."""

    value: Any
    dtype: DType

    @cached_property
    def _exact(self) -> tuple[DType, str]:
        """What tells it from other numbers: 0.0 == -0.0, and NaN is equal to nothing."""
        return self.dtype, repr(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self._exact == other._exact

    def __hash__(self) -> int:
        return hash(self._exact)


@record
class Operand(Expression):
    """An argument of a row, or a position of a loop, for which something else is put."""

    name: str
    dtype: DType

    def substitute(self, found: Mapping[Any, Expression]) -> Expression:
        return found.get(self.name, self)


@record
class Variable(Expression):
    """A variable of a loop program."""

    name: str
    dtype: DType

    def substitute(self, found: Mapping[Any, Expression]) -> Expression:
        return found.get(self, self)


@record
class Unary(Expression):
    """`-x`, `!x` or `~x`."""

    sign: str
    operand: Expression

    @cached_property
    def dtype(self) -> DType:  # type: ignore[override]
        return dtypes.bool_ if self.sign == "!" else common(self.operand.dtype)

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def of_parts(self, *parts: Expression) -> Expression:
        return Unary(self.sign, parts[0])


@record
class Binary(Expression):
    """Two trees joined by a sign: `x * y`."""

    sign: str
    left: Expression
    right: Expression

    @cached_property
    def dtype(self) -> DType:  # type: ignore[override]
        both = (self.left.dtype, self.right.dtype)
        is_logic = self.sign in _BITS and {*both} == {dtypes.bool_}
        if is_logic or self.sign in CONDITIONS:
            return dtypes.bool_
        return common(both[0]) if self.sign in ("<<", ">>") else common(*both)

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.left, self.right)

    def of_parts(self, *parts: Expression) -> Expression:
        return Binary(self.sign, *parts)

    @property
    def own_cost(self) -> int:
        return {"/": QUOTIENT, "%": FUNCTION}.get(self.sign, 1)


@record
class Choose(Expression):
    """`condition ? one : other`"""

    condition: Expression
    one: Expression
    other: Expression

    @cached_property
    def dtype(self) -> DType:  # type: ignore[override]
        both = (self.one.dtype, self.other.dtype)
        return both[0] if both[0] is both[1] is dtypes.bool_ else common(*both)

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.condition, self.one, self.other)

    def of_parts(self, *parts: Expression) -> Expression:
        return Choose(*parts)


@record
class Call(Expression):
    """A function of numbers; one that is written for both real types has the name of float64's."""

    name: str  # "exp"
    arguments: tuple[Expression, ...]
    dtype: DType

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.arguments

    def of_parts(self, *parts: Expression) -> Expression:
        return Call(self.name, parts, self.dtype)

    @property
    def called(self) -> str:
        return self.name + suffix(C_TYPES[self.dtype.name])

    @property
    def own_cost(self) -> int:
        return 1 if self.name in _QUICK else QUOTIENT if self.name == "sqrt" else FUNCTION


@record
class Convert(Expression):
    """A number brought to another dtype, as eager mode brings it there."""

    operand: Expression
    dtype: DType

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def of_parts(self, *parts: Expression) -> Expression:
        return Convert(parts[0], self.dtype)

    @property
    def called(self) -> str:
        return conversion(self.operand.dtype, self.dtype)

    @property
    def own_cost(self) -> int:
        return FUNCTION if self.dtype in HALVES or self.operand.dtype in HALVES else 1


@record
class Cast(Expression):
    """A number brought to another dtype as C's casts do it: `(int)x`."""

    operand: Expression
    dtype: DType

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def of_parts(self, *parts: Expression) -> Expression:
        return Cast(parts[0], self.dtype)


@record
class Intrinsic(Expression):
    """What every target has but each spells in its own way: the bits of a number, and back; the
    parts of a complex number, and back.
    """

    name: str  # "bits", "from_bits", "re", "im", "complex"
    arguments: tuple[Expression, ...]
    dtype: DType

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.arguments

    def of_parts(self, *parts: Expression) -> Expression:
        return Intrinsic(self.name, parts, self.dtype)


@record
class Named:
    """A step of a function: a name for a value."""

    variable: Variable
    value: Expression


@record
class EarlyResult:
    """A step of a function: where the condition holds, this is the result, and what follows is not
    computed.
    """

    condition: Expression
    value: Expression


@record
class ElementFunction:
    """A function of elements: names for values, and the result."""

    name: str  # "ad_maxf"
    parameters: tuple[Variable, ...]
    steps: tuple[Named | EarlyResult, ...]
    result: Expression
    dtype: DType  # of what it returns

    @cached_property
    def trees(self) -> tuple[Expression, ...]:
        """The trees of its steps and its result."""
        found = []
        for step in self.steps:
            found += [step.condition] if isinstance(step, EarlyResult) else []
            found.append(step.value)
        return (*found, self.result)

    @cached_property
    def calls(self) -> frozenset[str]:
        """The functions that it calls, as C names them."""
        return frozenset().union(*(tree.calls for tree in self.trees))


def number(value: Any, dtype: DType) -> Number:
    """A number rounded to a dtype, or a symbolic size: equal ones are equal trees."""
    if dtype is dtypes.bool_:
        return Number(bool(value), dtype)
    symbolic = type(value) not in NUMBERS and is_open(value)
    return Number(value if symbolic else element(value, dtype), dtype)


def without_ones(tree: Expression) -> Expression:
    """The tree without its products of 1 and a number of the same dtype."""
    if isinstance(tree, Binary) and tree.sign == "*":
        left = tree.left
        if isinstance(left, Number) and left.dtype is tree.right.dtype and is_one(left):
            return without_ones(tree.right)
    return tree.of_parts(*map(without_ones, tree.parts))


def is_one(tree: Expression) -> bool:
    """Whether a tree is the number 1."""
    return isinstance(tree, Number) and tree == number(1, tree.dtype)


def is_zero(tree: Expression) -> bool:
    """Whether a tree is the number 0, and not -0.0."""
    return isinstance(tree, Number) and tree == number(0, tree.dtype)

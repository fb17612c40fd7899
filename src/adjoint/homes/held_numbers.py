"""Python's and NumPy's numbers among the arguments of a transform.

A number counts as a number inside the function, too: next to a tensor it takes the tensor's
precision; without one, operators convert it as `as_tensor` does; and Python's operators on numbers
give numbers, in double precision. `NumberKind` says which kind of number it is, `HeldNumber` stands
for it: it holds a tensor of a transform, which has its value exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.dtypes import DEFAULT, OF, DType
from adjoint.core.promotion import python_number
from adjoint.core.records import record
from adjoint.core.shapes import Spec
from adjoint.homes.arrays import ndarray
from adjoint.homes.structures import DressedTensor, PackedHome
from adjoint.ops import runtime
from adjoint.ops.operator import Operator
from adjoint.tensor.home import Height
from adjoint.tensor.tensor import Tensor

_WIDE: dict[type, DType] = {float: dtypes.float64, complex: dtypes.complex128}


@record
class NumberKind:
    """A kind of number: Python's float, NumPy's float32, …"""

    kind: type  # float or complex: the category that counts in promotion
    own: DType | None = None  # of a NumPy scalar: float32; None: Python's, the default

    @property
    def dtype(self) -> DType:
        """The dtype that holds its value exactly: float64."""
        return self.own or _WIDE[self.kind]

    @property
    def alone(self) -> DType:
        """The dtype where no tensor decides: float32."""
        if self.own is not None:
            return self.own
        return DEFAULT.dtype if self.kind is float else DEFAULT.complex_dtype

    def combined(self, other: NumberKind | type) -> NumberKind:
        """The kind of a Python expression of two numbers, NumPy's rules among its scalars."""
        of_other = other.own if isinstance(other, NumberKind) else None
        python = other.kind if isinstance(other, NumberKind) else other
        kind = complex if complex in (self.kind, python) else float
        if self.own is None and of_other is None:
            return NumberKind(kind)
        pair = (
            self.kind(0) if self.own is None else self.own.np,
            python(0) if of_other is None else of_other.np,
        )
        return NumberKind(kind, dtypes.of(np.result_type(*pair)))


def number_of(value: Any) -> NumberKind | None:
    """The kind of a real or complex number; None for anything else."""
    if isinstance(value, np.inexact) or type(value) is dtypes.bfloat16.np.type:
        kind = complex if value.dtype.kind == "c" else float
        return NumberKind(kind, OF.get(value.dtype))  # longdouble is Python's float
    if isinstance(value, (float, complex)):
        return NumberKind(float if isinstance(value, float) else complex)
    return None


class NumberHome(PackedHome):
    """Runs operators on the tensors of numbers that were not converted before the call."""

    height = Height.NUMBER
    name = "numbers"

    def process(self, op: Operator, values: list[Any]) -> Any:
        return op.call(_as_tensors(values))

    def process_inplace(
        self, op: Operator, functional: Callable[..., Any], values: list[Any], /
    ) -> Any:
        return op.call([values[0], *_as_tensors(values[1:])])


def _as_tensors(values: list[Any]) -> list[Any]:
    return [
        _as_tensors(v) if type(v) is list else v.in_dtype() if type(v) is HeldNumber else v
        for v in values
    ]


NUMBERS = NumberHome()


class HeldNumber(DressedTensor):
    """A number that a transform follows; it becomes a tensor as soon as an operator takes it."""

    __slots__ = ("wrapped",)

    class_home = home = NUMBERS
    extra = None
    wrapped: NumberKind

    def as_operand(self, alone: bool) -> Any:
        """The operand for promotion: a number, or a 0-d Spec if the operands are all scalars."""
        own = self.wrapped.own
        return Spec((), own) if alone and own is not None else self.wrapped.kind(0)

    def in_dtype(self, dtype: DType | None = None) -> Any:
        """The number as a tensor of this dtype; by default of the dtype that it has alone."""
        wanted = dtype or self.wrapped.alone
        return self.stored if wanted is self.dtype else self.stored.to(wanted)

    def holding(self, values: Any) -> Any:
        """Another value of this kind of number."""
        return held_number(values, self.wrapped)

    def undressed(self) -> Any:
        """The number as a tensor."""
        return self.in_dtype()

    def __reduce__(self) -> Any:
        return held_number, (self.stored, self.wrapped)


_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_METHODS = (
    *(f"__{n}__" for n in (*_BINARY, "neg", "pos", "abs", "eq", "ne", "lt", "le", "gt", "ge")),
    *(f"__r{n}__" for n in _BINARY),
)


def _arithmetic(method: str) -> Callable[..., Any]:
    """Python's operator: on two numbers it gives a number, else it is the tensor's."""

    def operator(self: Any, *other: Any) -> Any:
        if other and isinstance(other[0], (ndarray, np.ndarray)):
            return NotImplemented  # the NumPy array on the other side decides
        kinds = [getattr(o, "wrapped", None) or _python_kind(o) for o in other]
        if None in kinds:
            return getattr(Tensor, method)(self, *other)
        number = self.wrapped
        for kind in kinds:
            number = number.combined(kind)
        plain = [o.stored if type(o) is HeldNumber else o for o in other]
        result = getattr(Tensor, method)(self.stored.to(number.dtype), *plain)
        if result.dtype.category < dtypes.FLOAT:
            return result
        return held_number(result, NumberKind(float) if method == "__abs__" else number)

    operator.__name__ = operator.__qualname__ = method
    return operator


def held_number(value: Any, number: NumberKind) -> HeldNumber:
    """The number that a tensor of a transform holds."""
    made: Any = object.__new__(HeldNumber)
    made.value, made.wrapped = value, number
    return made


for _method in _METHODS:
    setattr(HeldNumber, _method, _arithmetic(_method))
for _name in _BINARY:  # `k += 1` binds k to a new number, as in Python
    setattr(HeldNumber, f"__i{_name}__", _arithmetic(f"__{_name}__"))
runtime.NUMBER_TYPES.add(HeldNumber)


def _python_kind(value: Any) -> NumberKind | type | None:
    if type(value) in (bool, int, float, complex):
        return type(value)
    if isinstance(value, (np.integer, np.bool_)):
        return type(python_number(value))
    return number_of(value)

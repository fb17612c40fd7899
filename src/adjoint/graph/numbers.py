"""Numbers among the arguments of a traced or compiled function.

A graph needs no other program for another number, so a real or complex number becomes an input. But
it must count as a number: beside a tensor it takes that tensor's precision, whatever its own, and
where nothing else decides it is what `as_tensor` makes of it. `Number` says which kind it is,
`TraceNumber` is the number inside the trace, `NumberTensor` its value as the argument of a call.
Whole numbers and flags are no inputs: they often say how a function goes on.
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
from adjoint.ops import runtime
from adjoint.tensor.home import new_tensor
from adjoint.tensor.levels import Level, wrap
from adjoint.tensor.tensor import Tensor

_WIDE: dict[type, DType] = {float: dtypes.float64, complex: dtypes.complex128}


@record
class Number:
    """A kind of number: Python's float, NumPy's float32, …"""

    kind: type  # float or complex: the category that counts in promotion
    own: DType | None = None  # of a NumPy scalar: float32; None: a Python number has the default

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

    def joined(self, other: Number | type) -> Number:
        """The kind of a Python expression of two numbers, NumPy's rules among its scalars."""
        of_other = other.own if isinstance(other, Number) else None
        python = other.kind if isinstance(other, Number) else other
        kind = complex if complex in (self.kind, python) else float
        if self.own is None and of_other is None:
            return Number(kind)
        pair = (
            self.kind(0) if self.own is None else self.own.np,
            python(0) if of_other is None else of_other.np,
        )
        return Number(kind, dtypes.of(np.result_type(*pair)))


def number_of(value: Any) -> Number | None:
    """The kind of a real or complex number; None for anything else."""
    if isinstance(value, np.inexact) or type(value) is dtypes.bfloat16.np.type:
        kind = complex if value.dtype.kind == "c" else float
        return Number(kind, OF.get(value.dtype))  # longdouble is Python's float
    if isinstance(value, (float, complex)):
        return Number(float if isinstance(value, float) else complex)
    return None


class NumberTensor(Tensor):
    """The value of a number, as an argument of a compiled function."""

    __slots__ = ("wrapped",)

    class_home = None  # an ordinary tensor, not a user's class
    wrapped: Number


def number_tensor(value: Any, number: Number) -> NumberTensor:
    """Make the argument of a call from a number."""
    plain = python_number(value) if isinstance(value, np.generic) else value
    tensor = new_tensor(None, np.asarray(plain, number.dtype.np), kind=NumberTensor)
    tensor.wrapped = number
    return tensor


class TraceNumber(Tensor):
    """A number of a traced call, 0-d; it becomes a tensor as soon as an operator takes it."""

    __slots__ = ("wrapped",)

    class_home = None
    wrapped: Number

    def as_operand(self, alone: bool) -> Any:
        """What promotion sees: a number, or a 0-d array where there are scalars alone."""
        own = self.wrapped.own
        return Spec((), own) if alone and own is not None else self.wrapped.kind(0)

    def strong(self) -> Any:
        """The exact value as a tensor like any other."""
        return self.home.lift(self.value)

    def settled(self, dtype: DType | None = None) -> Any:
        """The number as a tensor of this dtype, or of the one that it has alone."""
        wanted = dtype or self.wrapped.alone
        return self.strong() if wanted is self.dtype else self.strong().to(wanted)


_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_METHODS = (
    *(f"__{n}__" for n in (*_BINARY, "neg", "pos", "abs", "eq", "ne", "lt", "le", "gt", "ge")),
    *(f"__r{n}__" for n in _BINARY),
)


def _arithmetic(method: str) -> Callable[..., Any]:
    """Python's operator on numbers, which gives a number; with anything else, the tensor's."""

    def operator(self: Any, *other: Any) -> Any:
        kinds = [getattr(o, "wrapped", None) or _python_kind(o) for o in other]
        if None in kinds:
            return getattr(Tensor, method)(self, *other)
        number = self.wrapped
        for kind in kinds:
            number = number.joined(kind)
        plain = [o.strong() if type(o) is TraceNumber else o for o in other]
        result = getattr(Tensor, method)(self.strong().to(number.dtype), *plain)
        if result.dtype.category < dtypes.FLOAT:
            return result
        return number_on(self.home, result.value, Number(float) if method == "__abs__" else number)

    operator.__name__ = operator.__qualname__ = method
    return operator


def number_on(level: Level, value: Any, number: Number) -> TraceNumber:
    """Make a number inside a trace."""
    made = wrap(level, value, kind=TraceNumber)
    made.wrapped = number
    return made


for _method in _METHODS:
    setattr(TraceNumber, _method, _arithmetic(_method))
for _name in _BINARY:  # `k += 1` makes another number of k, as it does of Python's
    setattr(TraceNumber, f"__i{_name}__", _arithmetic(f"__{_name}__"))
runtime.NUMBER_TYPES.add(TraceNumber)


def _python_kind(value: Any) -> Number | type | None:
    if type(value) in (bool, int, float, complex):
        return type(value)
    if isinstance(value, (np.integer, np.bool_)):
        return type(python_number(value))
    return number_of(value)

"""The operators, methods, brackets and attributes that NumPy gives arrays.

They are put on the class when this module is first imported, which is before the first array is
made. Operators are NumPy's ufuncs, with its promotion; methods are rows of `names.txt`. A keyword
that NumPy's method does not have, such as `dim`, asks for the method of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, wraps
from inspect import Parameter, signature
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.core.errors import DtypeError, ShapeError
from adjoint.core.shapes import show
from adjoint.core.storage import is_duck_array
from adjoint.doors.numpy import protocol, reading
from adjoint.doors.numpy.conversion import NUMBERS, Array
from adjoint.doors.numpy.indices import as_written, getitem, setitem
from adjoint.doors.numpy.ufuncs import Ufunc
from adjoint.homes.arrays import Operands, ndarray, number, number_of, result_of
from adjoint.homes.held_numbers import HeldNumber
from adjoint.tensor.tensor import Tensor

_SELECT = ops.select.int
OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "matmul": "matmul",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift", "divmod": "divmod",
}  # fmt: skip
_COMPARISONS = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal",
}  # fmt: skip
_UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}


# ---- operators ----------------------------------------------------------------------------------


def _operand(other: Any) -> Any:
    """The other operand as a tensor or a number; NotImplemented where it is nothing of the kind."""
    if isinstance(other, ndarray):
        return other.value
    kind = type(other)
    if kind in NUMBERS or kind is HeldNumber or kind is Tensor:
        return other
    if isinstance(other, (Tensor, np.ndarray, np.generic, list, tuple)):
        return Array(other)
    if isinstance(other, NUMBERS):  # a subclass, an enumeration say
        return Array(other)
    return Array(np.asarray(other)) if is_duck_array(other) else NotImplemented


def _repeats(self: Any, other: Any) -> bool:
    """Whether a product is Python's of a list and a whole number: `x[0] * [1, 2]`."""
    whole = type(self) is number and not self.dtype.is_differentiable
    return whole and isinstance(other, (list, tuple))


def _binary(method: str, name: str, *, reflected: bool) -> Callable[..., Any]:
    ufunc = _ufunc(name)

    def operator(self: Any, other: Any) -> Any:
        tensor, kind = self.value, type(other)
        if kind is ndarray or kind is number:
            operand = other.value
            alike = operand.dtype is tensor.dtype
        else:
            operand = other
            alike = kind is float or kind is int
        if alike and tensor.dtype.is_differentiable:  # the dtype of tensors is NumPy's, too
            found = getattr(tensor, method)(operand)
        else:
            operand = _operand(other)
            if operand is NotImplemented or (name == "multiply" and _repeats(self, other)):
                return NotImplemented
            found = ufunc().of([operand, tensor] if reflected else [tensor, operand])
        return _result(found, self, other)

    return operator


def _result(found: Any, *operands: Any) -> Any:
    """The result of an operator as an array or a number."""
    for operand in operands:
        if isinstance(operand, ndarray) and operand.memory is not None:
            break
    else:
        if type(found) is Tensor:
            return result_of(found)
    given = Operands()
    given.arrays = [o for o in operands if isinstance(o, ndarray)]
    return given.arrays_of(found)


def _inplace(name: str) -> Callable[..., Any]:
    ufunc = _ufunc(name)

    def operator(self: Any, other: Any) -> Any:
        operand = _operand(other)
        if operand is NotImplemented:
            return NotImplemented
        found = ufunc().of([self.value, operand])
        if found.dtype is not self.dtype:
            if not np.can_cast(found.dtype.np, self.dtype.np, "same_kind"):
                raise DtypeError(
                    f"{ufunc().__name__}: the result is {found.dtype.name}, which NumPy does not "
                    f"write to an array of {self.dtype.name}; write x = x + y for x += y"
                )
            found = found.to(self.dtype)
        if found.shape != self.shape:
            raise ShapeError(
                f"{ufunc().__name__}: the result has shape {show(found.shape)}, and the array that "
                f"is written to {show(self.shape)}; write x = x + y for x += y"
            )
        _result(found, self, other)
        self.replace(found)
        return self

    return operator


def _unary(name: str) -> Callable[..., Any]:
    ufunc = _ufunc(name)
    return lambda self: _result(ufunc().of([self.value]), self)


def _ufunc(name: str) -> Callable[[], Ufunc[Any]]:
    """Give a function of NumPy's when it is first asked for: making all of them takes a while."""
    return cache(lambda: reading.function("", name))


# ---- methods ------------------------------------------------------------------------------------


def _method(name: str) -> Callable[..., Any]:
    """A method of NumPy's arrays; called with a keyword that NumPy's lacks, the tensor's method."""
    function = reading.method(name)
    try:
        known = signature(function).parameters
    except ValueError:
        known = {}
    takes = {n for n, p in known.items() if p.kind is not Parameter.VAR_KEYWORD}

    @wraps(function)
    def method(self: Any, *args: Any, **keywords: Any) -> Any:
        if keywords and not keywords.keys() <= takes:
            return getattr(Tensor, name)(self, *args, **keywords)
        return function(self, *args, **keywords)

    method.__qualname__ = f"ndarray.{name}"
    # a ufunc is no function: it has no names in which those of `method` could be looked up
    method.__annotations__ = getattr(function, "__annotations__", {})
    return method


class _Later:
    """A method of arrays until it is first asked for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, array: Any, kind: Any = None) -> Any:
        made = _method(self.name)
        setattr(ndarray, self.name, made)
        return made if array is None else made.__get__(array)


def _iterated(self: Any) -> Iterator[Any]:
    """The parts along the first dimension, as they are when their turn comes."""
    if not self.ndim:
        raise TypeError("iteration over a 0-d array")
    count, parts, first = self.shape[0], None, self.value
    for i in range(count):
        if self.value is not first or (self.memory is not None and not self.memory.held):
            yield self[i]
            continue
        if parts is None:  # nobody has written to it: one operator gives all parts
            parts = first.unbind(0)
        if self.ndim == 1:
            yield number_of(parts[i])
        else:
            yield self.viewed(parts[i], ((_SELECT, (0, i), None),))


# ---- attributes ---------------------------------------------------------------------------------


class Flat:
    """`x.flat`: the elements in a row, to be read, written and walked through."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __len__(self) -> int:
        return int(self.array.numel())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.array.reshape(-1))

    def __getitem__(self, key: Any) -> Any:
        found = self.array.reshape(-1)[key]
        return found if isinstance(found, number) else found.copy()

    def __setitem__(self, key: Any, value: Any) -> None:
        rows = self.array.reshape(-1)
        shared = rows.memory is not None and rows.memory is self.array.memory
        rows[key] = value
        if not shared:
            self.array.replace(rows.value.reshape(self.array.shape))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.array.reshape(-1).__array__(dtype, copy)

    def copy(self) -> Any:
        """The elements in a row, as an array."""
        return self.array.reshape(-1).copy()


def _set_flat(self: Any, value: Any) -> None:
    values = Array(value).reshape(-1)
    places = np.arange(self.numel()) % max(values.numel(), 1)
    self.replace(values[places].to(self.dtype).reshape(self.shape))


def _set_shape(self: Any, shape: Any) -> None:
    other = self.reshape(shape)
    if self.memory is None:
        self.value = other.value
        return
    self.value, self.path = other.value, other.path


def _property(name: str) -> Any:
    return lambda self: reading.function("", name)(self)


def _set_part(name: str) -> Callable[..., Any]:
    def set_part(self: Any, value: Any) -> None:
        if name == "imag" and not self.dtype.is_complex:
            raise TypeError("x.imag = …: the array does not have imaginary parts")
        self.write(lambda tensor: getattr(tensor, name).copy_(as_written(tensor, value)))

    return set_part


def _strides(self: Any) -> tuple[int, ...]:
    return tuple(n * self.dtype.itemsize for n in self.stride())


def _flags(self: Any) -> Any:
    return self.array.flags


def _base(self: Any) -> Any:
    """The array that this one views, if it is still there."""
    memory = self.memory
    if memory is None or not self.path:
        return None
    return next((m for r in memory.members if (m := r()) is not None and not m.path), None)


# ---- numbers ------------------------------------------------------------------------------------


def _refuse_items(self: Any, key: Any, value: Any) -> None:
    raise TypeError(
        "a number, such as an element of an array, cannot be written to; write to the array: "
        "x[i, j] = v in place of x[i][j] = v, or take np.array(s)"
    )


def _refuse_iteration(self: Any) -> Any:
    raise TypeError("iteration over a number")


def install() -> None:
    """Put all this on the classes of arrays and numbers."""
    for python, name in OPERATORS.items():
        for method, reflected in ((f"__{python}__", False), (f"__r{python}__", True)):
            _put(ndarray, method, _binary(method, name, reflected=reflected))
        if python != "divmod":
            _put(ndarray, f"__i{python}__", _inplace(name))
            _put(number, f"__i{python}__", getattr(ndarray, f"__{python}__"))
    for python, name in _COMPARISONS.items():
        _put(ndarray, f"__{python}__", _binary(f"__{python}__", name, reflected=False))
    for python, name in _UNARY.items():
        _put(ndarray, f"__{python}__", _unary(name))
    for name in reading.METHODS:
        setattr(ndarray, name, _Later(name))
    kind: Any = ndarray
    kind.__hash__ = Tensor.__hash__
    kind.__getitem__, kind.__setitem__, kind.__iter__ = getitem, setitem, _iterated
    kind.__array_ufunc__ = protocol.array_ufunc_of_arrays
    kind.__array_function__ = protocol.array_function_of_arrays
    kind.__round__ = lambda self, ndigits=None: self.round(ndigits or 0)
    for name in ("T", "mT"):
        setattr(kind, name, property(_property("transpose" if name == "T" else "matrix_transpose")))
    kind.real = property(_property("real"), _set_part("real"))
    kind.imag = property(_property("imag"), _set_part("imag"))
    kind.flat = property(Flat, _set_flat)
    kind.shape = property(Tensor.shape.fget, _set_shape)
    kind.strides, kind.flags, kind.base = property(_strides), property(_flags), property(_base)
    of_numbers: Any = number
    of_numbers.__setitem__, of_numbers.__iter__ = _refuse_items, _refuse_iteration
    held: Any = HeldNumber
    held.__array_ufunc__ = protocol.array_ufunc_of_arrays
    held.__array_function__ = protocol.array_function_of_arrays


def _put(kind: type, name: str, function: Callable[..., Any]) -> None:
    function.__name__ = name
    function.__qualname__ = f"{kind.__name__}.{name}"
    setattr(kind, name, function)


install()

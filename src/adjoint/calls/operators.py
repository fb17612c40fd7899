"""Python's operators on tensors (`x + 1`, `-x`, `x @ y`, `x[0]`, `x += y`), and `x.T`, `x.real`.

Each is a function made on first use from the operators of the table. They live in this module, so
that the search for the user's line recognises them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.calls.at import At
from adjoint.core.errors import DtypeError
from adjoint.core.promotion import promote_types
from adjoint.core.storage import is_duck_array
from adjoint.ops import operator as operators
from adjoint.ops import runtime
from adjoint.tensor import indexing
from adjoint.tensor.tensor import Tensor

BINARY = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}
COMPARISONS = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
UNARY = {"neg": "neg", "pos": "positive", "abs": "abs", "invert": "bitwise_not"}
_PROPERTIES = {
    "T": "numpy_T",
    "mT": "mT",
    "mH": "mH",
    "H": "matrix_H",
    "real": "real",
    "imag": "imag",
}
_NUMBERS = (int, float, complex, np.generic)  # np.generic includes the bfloat16 of ml_dtypes


def install() -> None:
    """Put the operators on the tensor class; their functions are made when first used."""
    for python, name in (BINARY | COMPARISONS).items():
        setattr(Tensor, f"__{python}__", _binary(f"__{python}__", name))
    for python, name in BINARY.items():
        setattr(Tensor, f"__r{python}__", _reflected(f"__r{python}__", name))
        setattr(Tensor, f"__i{python}__", _inplace(f"__i{python}__", f"{name}_"))
    for python, name in UNARY.items():
        setattr(Tensor, f"__{python}__", _unary(f"__{python}__", name))
    for attribute, name in _PROPERTIES.items():
        setattr(Tensor, attribute, property(_unary(attribute, name)))
    for prefix in ("", "r", "i"):  # a name of Python 2, called by programs
        setattr(Tensor, f"__{prefix}div__", getattr(Tensor, f"__{prefix}truediv__"))
    Tensor.__getitem__ = indexing.getitem  # type: ignore[attr-defined]
    Tensor.__setitem__ = indexing.setitem  # type: ignore[attr-defined]
    Tensor.where = indexing.where  # type: ignore[attr-defined]
    Tensor.nonzero = indexing.nonzero  # type: ignore[attr-defined]
    Tensor.as_strided = indexing.as_strided  # type: ignore[attr-defined]
    Tensor.at = property(At, doc=At.__doc__)  # type: ignore[attr-defined]


def _scalar_overload(name: str, packet: operators.Packet) -> Callable[..., Any]:
    for overload in ("Tensor_Scalar", "Scalar"):
        if overload in packet.overloads():
            return operators.operator(name, overload).function
    return packet.function


def _tensor_overload(name: str, packet: operators.Packet) -> Callable[..., Any]:
    for overload in ("Tensor", "Tensor_Tensor"):
        if overload in packet.overloads():
            return operators.operator(name, overload).function
    return packet.function


def _promoting(product: Callable[..., Any]) -> Callable[..., Any]:
    """The product of an operator, which promotes factors of different dtypes; `ad.matmul` refuses
    them, as PyTorch's does.
    """

    def promoted(left: Any, right: Any) -> Any:
        try:
            return product(left, right)
        except DtypeError:
            factors = [f if isinstance(f, Tensor) else runtime.tensor_of(f) for f in (left, right)]
            dtype = promote_types(factors[0].dtype, factors[1].dtype)
            if dtype is factors[0].dtype is factors[1].dtype:
                raise
            return product(*(f.to(dtype) for f in factors))

    return promoted


def _binary(method: str, name: str) -> Callable[..., Any]:
    def first(self: Tensor, other: Any) -> Any:
        packet = operators.packet(name)
        with_tensor, with_scalar = _tensor_overload(name, packet), _scalar_overload(name, packet)
        general = packet.function
        if method == "__matmul__":
            with_tensor = _promoting(with_tensor)

        def operator(self: Tensor, other: Any) -> Any:
            kind = type(other)
            if kind is Tensor:
                return with_tensor(self, other)
            if kind is float or kind is int:
                return with_scalar(self, other)
            if isinstance(other, (Tensor, np.ndarray)):
                return with_tensor(self, other)
            if isinstance(other, _NUMBERS):
                return general(self, other)
            if is_duck_array(other):
                return with_tensor(self, np.asarray(other))
            return NotImplemented

        operator.__name__ = operator.__qualname__ = method
        setattr(Tensor, method, operator)
        return operator(self, other)

    return first


def _reflected(method: str, name: str) -> Callable[..., Any]:
    commutative = name in ("add", "mul", "bitwise_and", "bitwise_or", "bitwise_xor")

    def first(self: Tensor, other: Any) -> Any:
        function = operators.packet("rsub" if name == "sub" else name).function
        over = operators.packet("_over").function
        if method == "__rmatmul__":
            function = _promoting(function)

        def reflected(self: Tensor, other: Any) -> Any:
            if not isinstance(other, (Tensor, np.ndarray, *_NUMBERS)):
                if not is_duck_array(other):
                    return NotImplemented
                other = np.asarray(other)
            if commutative or name == "sub":
                return function(self, other)
            if name == "div" and not isinstance(other, (Tensor, np.ndarray)):
                return over(other, self)
            return function(other, self)

        reflected.__name__ = reflected.__qualname__ = method
        setattr(Tensor, method, reflected)
        return reflected(self, other)

    return first


def _inplace(method: str, name: str) -> Callable[..., Any]:
    def first(self: Tensor, other: Any) -> Any:
        if not operators.exists(name):
            return NotImplemented
        packet = operators.packet(name)
        with_tensor, general = _tensor_overload(name, packet), packet.function

        def inplace(self: Tensor, other: Any) -> Any:
            return with_tensor(self, other) if type(other) is Tensor else general(self, other)

        inplace.__name__ = inplace.__qualname__ = method
        setattr(Tensor, method, inplace)
        return inplace(self, other)

    return first


def _unary(method: str, name: str) -> Callable[..., Any]:
    functions: list[Callable[..., Any]] = []

    def unary(self: Tensor) -> Any:
        if not functions:
            functions.append(operators.packet(name).function)
        return functions[0](self)

    unary.__name__ = unary.__qualname__ = method
    return unary
